"""``python -m placl`` is ``placl``."""

from placl.cli.main import main

if __name__ == "__main__":  # worker processes import this module too
    raise SystemExit(main())
