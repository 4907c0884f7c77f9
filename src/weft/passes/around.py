"""What is around a loop that may become a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from weft.errors import Place
from weft.fun.builder import Names
from weft.passes.remarks import Remark
from weft.records import dataclass
from weft.sizes import Size


@dataclass(slots=True)
class Around:
    """What is around a loop.

    Attributes
    ----------
    names : Names
    parallel : frozenset of Place
        Where the loops are that the user calls parallel.
    rebound : mapping of Place to frozenset of str
        Of these, what the user calls arrays that each round makes anew.
    sizes : mapping of str to Size
        What integers are.
    remarks : list of Remark
    marked : int
        How many of the loops around, and this one, are said to be parallel.
    unsure : int
        How many branches, and loops by conditions, are around.
    library : bool
        Whether a library computes products of matrices, as where processors compute; triangles
        may be filled by them.
    postponed : bool
        Whether there are such triangles.
    """

    names: Names
    parallel: frozenset[Place]
    rebound: Mapping[Place, frozenset[str]]
    sizes: Mapping[str, Size]
    remarks: list[Remark] = field(default_factory=list)
    marked: int = 0
    unsure: int = 0
    library: bool = False
    postponed: bool = False
