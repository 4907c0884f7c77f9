"""A compiled segment: text, the order of its arguments, and what it needs. No IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

import numpy as np

from weft.errors import Place
from weft.lmad import Lmad, exact
from weft.plan.launches import Steps
from weft.records import dataclass
from weft.sizes import Derived, Fact, Size, as_poly

Layout: TypeAlias = Literal["contiguous", "rows", "strided"]
"""Row-major; unit stride in the last dimension only; any strides (multiples of the itemsize)."""


Dialect: TypeAlias = Literal["c", "opencl", "cuda"]


@dataclass(frozen=True, slots=True)
class Slot:
    """An array or scalar that a segment takes or gives.

    `shape` is empty for a scalar (a pointer to one element). The pointer passed is that of
    element [0, ..., 0], also in a window of a larger array.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Size, ...]
    layout: Layout = "contiguous"


@dataclass(frozen=True, slots=True)
class BoundsCheck:
    """An affine access, proved at launch: 0 <= lower and upper < extent.

    Its indices are at least each of `lower` and at most each of `upper`, so one of either will
    do. Empty ranges (where `nonempty` is not all positive) access nothing.
    """

    lower: tuple[Size, ...]
    upper: tuple[Size, ...]
    extent: Size
    nonempty: tuple[Size, ...]
    array: str
    axis: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class CollisionCheck:
    """An update at the LMAD offset + {dims}, proved at launch to meet no element twice.

    Empty ranges (where `nonempty` is not all positive) update nothing.
    """

    offset: Size
    dims: tuple[tuple[Size, Size], ...]
    nonempty: tuple[Size, ...]
    array: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Failure:
    """What a non-zero error code of a segment means: `context.detail` fills the message.

    "index": an index and the extent that it leaves; "collision": the positions, in row-major
    order, of two indices of an update that are one element. `from_end`: the extent was added to
    an index that was negative.
    """

    kind: Literal["index", "collision"]
    array: str
    axis: int
    place: Place | None
    from_end: bool = False


@dataclass(frozen=True, slots=True)
class Inset:
    """An array that is within the workspace, and in no buffer of its own.

    Attributes
    ----------
    slot : int
        Its position among parameters and, after them, results.
    offset : Size
        Bytes into the workspace.
    begin, count : Size
        Which rows of it are there: others are not copied.
    """

    slot: int
    offset: Size
    begin: Size
    count: Size


PARTS = "parts"
"""The size that says of how many boxes of its size the results are parts that lie in memory as
they do in the whole: what is written of these is seen no sooner again than that of the whole."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A FUN program compiled: to one C function, or to kernels and `steps` that launch them.

        int32_t entry(weft_context *context, char *const *buffers, const int64_t *integers)

    `buffers` are the pointers of `params`, of `results`, then of the workspace (64-byte
    aligned, `workspace` bytes). `integers` are the values of `sizes` (given and derived
    alike, in the order of `integers`), of "threads", and of strides in elements, named
    "<slot name>.stride<dimension>" for dimensions that the layout leaves free. For a device
    other than the CPU (`dialect`), all arrays are row-major in its memory. One of the derived
    sizes may be `PARTS`, which whoever runs a box of a whole sets.

    `donated` has pairs (result, parameter): that result is written over that parameter, in
    the parameter's layout, and the result's own pointer is not used. Arrays that `insets`
    name are copied to a device, or from it, within the workspace; of the CPU only results are,
    and whoever calls takes them from there.
    """

    entry: str
    source: str
    params: tuple[Slot, ...]
    results: tuple[Slot, ...]
    sizes: tuple[str, ...]
    derived: tuple[Derived, ...]
    facts: tuple[Fact, ...]
    integers: tuple[str, ...]
    workspace: Size
    checks: tuple[BoundsCheck, ...] = ()
    collisions: tuple[CollisionCheck, ...] = ()
    failures: tuple[Failure, ...] = ()
    kernels: tuple[str, ...] = field(default=())  # one line each, for `explain`
    remarks: tuple[str, ...] = field(default=())  # copies and memory that remain, and why
    dialect: Dialect = "c"
    steps: Steps = ()
    donated: tuple[tuple[int, int], ...] = ()
    better: Better | None = None
    insets: tuple[Inset, ...] = ()


@dataclass(frozen=True, slots=True)
class Better:
    """A version of a segment for calls whose sizes keep pairs of sets of elements apart.

    It takes what the segment takes, gives what it gives, and copies less.
    """

    conditions: tuple[tuple[Lmad, Lmad], ...]
    segment: Segment

    def suits(self, values: Mapping[str, int]) -> bool:
        """Whether no pair has an element in common, for these sizes and strides."""
        return all(
            exact.common(_with_values(left, values), _with_values(right, values)) is None
            for left, right in self.conditions
        )


def _with_values(lmad: Lmad, values: Mapping[str, int]) -> Lmad:
    dims = tuple(
        (as_poly(extent.evaluate(values)), as_poly(stride.evaluate(values)))
        for extent, stride in lmad.dims
    )
    return Lmad(as_poly(lmad.offset.evaluate(values)), dims)
