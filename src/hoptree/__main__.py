"""The command line: `hoptree`, and `python -m hoptree`."""

from hoptree.cli.console import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
