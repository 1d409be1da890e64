"""The version, here once."""

VERSION = "0.1.0"
