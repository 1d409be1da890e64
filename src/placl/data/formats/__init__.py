"""One module per on-disk format, each a reader that returns :class:`placl.data.instances.Instances`."""
