"""What Linux says of this machine's processors."""

from __future__ import annotations

from functools import cache


@cache
def described() -> str:
    """The first processor's lines of /proc/cpuinfo; empty where there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return file.read(16384).split("\n\n")[0]
    except OSError:
        return ""
