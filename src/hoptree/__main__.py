"""The command line: `hoptree`, and `python -m hoptree`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; imported here, so that Ctrl-C while it loads is no traceback."""
    try:
        from hoptree.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(1)
    run()


if __name__ == "__main__":
    main()
