"""The run folder: everything one training did, and where it carries on from."""
