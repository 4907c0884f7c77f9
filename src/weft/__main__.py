"""`python -m weft`: the `weft` command."""

from weft.cli import main

main()
