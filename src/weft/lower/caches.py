"""How large the caches of this machine's processor are.

What is tiled for caches has the shape that fits them. The shape changes no bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from weft.lower import processor
from weft.records import dataclass

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Caches:
    """Bytes of a core's own cache (of the second level), and its share of the last one.

    `ways`: how many lines a set of the first one holds. `first`: its bytes. `is_far`: the last one
    lies across a mesh, from where a core reads little more quickly than from memory.
    """

    own: int = 1 << 19
    share: int = 1 << 21
    ways: int = 8
    first: int = 1 << 15
    is_far: bool = False

    def vector(self) -> int:
        """Bytes of a block of a vector: most of the first cache, so that its rounds are long."""
        return self.first * 3 // 4

    def blocks(self) -> tuple[int, int]:
        """Bytes of blocks that a core sweeps many times: in planes, and in solids.

        Larger than the core's own cache: a block's surface, which grows with the rank, costs
        more than reading from the last cache does. Of that it takes five eighths of its share at
        most; where that cache is far, blocks are hardly larger than the core's own.
        """
        if self.is_far:
            return self.own * 3 // 2, 2 * self.own
        flat, solid = (min(times * self.own, self.share * 5 // 8) for times in (4, 10))
        return max(flat, 2 * self.own), max(solid, 2 * self.own)

    def parts(self) -> int:
        """Bytes of parts of a block, each of which does some rounds before the next one.

        Most of the core's own cache, as the last one is slower; 0 where blocks are not much
        larger than the core's own.
        """
        return 0 if self.is_far else self.own * 7 // 8


@cache
def caches() -> Caches:
    """Those of the first processor; a guess where the system does not say.

    Intel's last cache is taken for far: on Sapphire Rapids, planes are done 1.3 times as fast in
    blocks of 1.5 times a core's own cache as in those of twice as much, and solids 1.15 times as
    fast in those as in blocks of 8 times as much. On Zen 3 to 5, which share it among few cores,
    the latter are the quickest.
    """
    return replace(read_caches(_FOLDER), is_far="GenuineIntel" in processor.described())


def read_caches(folder: Path) -> Caches:
    """What Linux says of a processor's caches in a folder."""
    found = {level: (size, users) for level, size, users in _entries(folder)}
    if 2 not in found:
        return Caches()
    own, _ = found[2]
    size, users = found[max(found)]
    first, _ = found.get(1, (Caches().first, 1))
    return Caches(own, max(own, size // users), _ways(folder), first)


def _ways(folder: Path) -> int:
    """How many lines a set of the first cache of data holds."""
    for entry in sorted(folder.glob("index*")):
        try:
            names = ("type", "level", "ways_of_associativity")
            kind, level, ways = [(entry / name).read_text().strip() for name in names]
            if kind != "Instruction" and level == "1" and int(ways) > 0:
                return int(ways)
        except (OSError, ValueError):
            continue
    return Caches().ways


def _entries(folder: Path) -> Iterator[tuple[int, int, int]]:
    """Level, bytes and number of users of each cache of data."""
    for entry in sorted(folder.glob("index*")):
        try:
            texts = [
                (entry / name).read_text().strip()
                for name in ("type", "level", "size", "shared_cpu_list")
            ]
            if texts[0] != "Instruction":
                yield int(texts[1]), _bytes(texts[2]), _count(texts[3])
        except (OSError, ValueError):
            continue


def _bytes(text: str) -> int:
    """512K  =>  524288"""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:])
    return int(text) if unit is None else int(text[:-1]) * unit


def _count(text: str) -> int:
    """0-3,8  =>  5"""
    ends = [part.split("-") for part in text.split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
