"""How this machine's processor has memory fetched that is read in long runs.

Every processor fetches ahead by itself where a loop reads on and on, within a page and not far.
Some keep up where the loop also asks for what it will read later. Most do better where several
runs are read at once: there, rows are read side by side, as in M. O. Blom, K. F. D. Rietveld
and R. V. van Nieuwpoort, "Multi-Strided Access Patterns to Boost Hardware Prefetching" (2024).
It changes no bits: rows are reduced each by itself.
"""

from __future__ import annotations

import re
from functools import cache

from weft.lower import processor
from weft.lower.registers import registers
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Fetching:
    """How a loop reads what lies in memory.

    Attributes
    ----------
    ahead : int
        Bytes that it asks for before it reads them, of all its runs together; 0: none.
    runs : int
        How many runs it reads side by side.
    at_once : int
        Bytes that it asks for at most before it reads on; rounds that are jammed
        (`weft.imp.unroll_and_jam`) ask for so many each.
    in_turn : int
        Rows of fewer bytes, one behind the other in a large array, are read one after the other:
        side by side, the end of each is taken for the end of a run. 0: no rows are.
    columns : bool
        Whether sums of columns, which read several rows at once, ask for later ones too.
    """

    ahead: int
    runs: int
    at_once: int = 1 << 14
    in_turn: int = 0
    columns: bool = True


@cache
def fetching() -> Fetching:
    """That of the processor that this runs on."""
    return of_processor(processor.described(), registers().bytes)


def of_processor(text: str, vector: int) -> Fetching:
    """As measured; `text` is of /proc/cpuinfo, `vector` the bytes of a register.

    On Intel's, what a core asks for takes one of its 10 to 16 line fill buffers until it is
    there. So it asks only for what the prefetcher of its second-level cache, which has more of
    them and runs up to 20 lines ahead ("Intel 64 and IA-32 Architectures Optimization Reference
    Manual", on the streamer), has on its way by then: 512 bytes further in each of four rows, and
    half of the buffers full at once. 8 KiB ahead costs up to a third there, none up to a fifth.
    On Zen 5, 8 KiB gain up to a fifth, and on Zen 3 they cost as much; these are told apart by
    AVX-512, which Zen 3 has not. On Zen 4, which is of Zen 3's family, sums of all elements gain a
    third, rows are best read one at a time, and sums of columns are 1.15 to 2.1 times as fast
    where they ask for nothing, and read short rows in turn.

    Sums of columns by four rows at once reach 0.79 of the speed of those row by row on Zen 3 if
    rows have 2 KiB, 0.95 if they have 4, and as much from 8 on.
    """
    if "GenuineIntel" in text:
        return Fetching(1 << 11, 4, 1 << 9)
    if vector == 32:
        return Fetching(0, 4, in_turn=1 << 13)
    if re.search(r"^cpu family\s*: 25$", text, re.MULTILINE):
        return Fetching(1 << 13, 1, in_turn=1 << 13, columns=False)
    return Fetching(1 << 13, 1)
