"""How this machine's processor has memory fetched that is read in long runs.

Some keep up where a loop asks for what it will read later. Others do that best by themselves, and
for several runs at once: there, rows are read side by side, as in M. O. Blom, K. F. D. Rietveld
and R. V. van Nieuwpoort, "Multi-Strided Access Patterns to Boost Hardware Prefetching" (2024).
It changes no bits: rows are reduced each by itself.
"""

from __future__ import annotations

from functools import cache

from weft.lower.registers import registers
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Fetching:
    """Whether loops ask for what they will read, and how many runs are read side by side."""

    ahead: bool
    runs: int


@cache
def fetching() -> Fetching:
    """As measured: asking gains up to a fifth on Zen 5, and costs as much on Zen 3.

    They are told apart by AVX-512, which Zen 3 has not.
    """
    return Fetching(False, 4) if registers().bytes == 32 else Fetching(True, 1)
