"""The `weft` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without click, say what to install."""
    try:
        import click  # noqa: F401 - only whether it is there
    except ImportError:
        print("The weft command needs click: pip install 'weft[demo]'", file=sys.stderr)
        raise SystemExit(1) from None
    from weft.commands import weft

    weft()


if __name__ == "__main__":
    main()
