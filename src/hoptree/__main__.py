"""`python -m hoptree` is the command line."""

from hoptree.cli.main import main

main()
