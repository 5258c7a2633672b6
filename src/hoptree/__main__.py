"""The command line: `hoptree`, and `python -m hoptree`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Importing it here makes Ctrl-C while it loads no traceback."""
    try:
        if sys.argv[1:] in (["-h"], ["--help"]):  # without the parser, whose import takes longest
            from hoptree.cli.commands import top_help

            sys.stdout.write(top_help())
            return
        from hoptree.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(1)
    run()


if __name__ == "__main__":
    main()
