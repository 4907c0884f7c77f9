"""Lengths of arrays that only the run knows, and that nothing bounds: computed before the rest.

Memory is allocated before a program runs. So a function whose arrays have such lengths, as of
`np.empty(int(duration / step))`, becomes several programs: each computes one more of the lengths,
which the next ones take as they take arguments that are ints; the last does what the function does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array
from weft.errors import ShapeError, UnsupportedError, user_place
from weft.frontend import extent as extents
from weft.frontend import symbolic
from weft.frontend.extent import Extent
from weft.frontend.symbolic import Symbol

_MOST = 8
"""So many lengths of one function are computed before."""


def refused_ahead() -> UnsupportedError:
    """The error of what is compiled without being run."""
    return UnsupportedError(
        "an array whose length only the run knows, and nothing bounds, in a kernel that is "
        "compiled ahead of time", "a length that sizes bound",
        "the length as an argument that is an int, or wf.minimum(length, bound)",
    )  # fmt: skip


class Unmeasured(Exception):  # noqa: N818 - a signal: a program that computes it comes first
    """A length is asked for that no program has computed yet."""

    def __init__(self, length: Array) -> None:
        super().__init__()
        self.length = length


class Measured:
    """The lengths that programs before this one computed, in the order in which they are met."""

    def __init__(self, lengths: Sequence[Any] = ()) -> None:
        self._lengths = iter(lengths)
        self._may_be_more = len(lengths) < _MOST

    def known(self, extent: Extent) -> Extent:
        """An extent of which nothing bounds a part, by what that was computed to be."""
        for symbol in extent.symbols:
            if symbol.node.scope is None and symbolic.at_most(symbolic.alone(symbol), -1) is None:
                length = self._length(symbol)
                symbolic.measure(symbol, length)
                extent = symbolic.with_known(extent, symbol, length)
        return extent

    def _length(self, symbol: Symbol) -> Extent:
        for length in self._lengths:
            return extents.literal(length)
        if self._may_be_more:
            raise Unmeasured(Array(symbol.node))
        raise ShapeError(
            f"more than {_MOST} lengths of arrays that only the run knows, and that nothing bounds",
            "fewer, or lengths that sizes bound", "wf.minimum(length, bound)", place=user_place(),
        )  # fmt: skip
