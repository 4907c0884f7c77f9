"""The most general programs of a kernel: for lengths of 0 and 1 as for others.

Where there is no compiler, a call for which `weft build` made no program of its own takes the one
of these that it made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, TypeAlias

from weft.errors import WeftError, warn
from weft.jit.variants import Variant
from weft.kernel.outputs import Outputs
from weft.launch import Computation, have_compiler
from weft.launch.artifacts import SegmentPiece
from weft.runtime import built

Found: TypeAlias = tuple[Variant, dict[str, int]]
Same: TypeAlias = tuple[int, ...]
"""For each argument the first that is the same array."""


def are_wanted() -> bool:
    """Whether what runs is what was built."""
    return built.any_built() and not have_compiler()


def serving(
    name: str, found: Found, static: tuple[Any, ...], trace: Callable[[tuple[Any, ...]], Found]
) -> Found:
    """The program of a call, or one more general that was built in its place.

    Parameters
    ----------
    name : str
        The kernel's.
    found : Found
        What the call itself makes.
    static : tuple
        What tells its arguments apart: the first that are the same, and more.
    trace : callable
        Gives the most general program for what tells arguments apart.
    """
    if was_built(found[0].computation):
        return found
    *same, more = static
    written = set(Outputs.of(found[0]).written)
    try:
        general = trace((*where_written(same, written), more))
    except WeftError:  # what a kernel does may depend on lengths
        general = found
    if was_built(general[0].computation):
        return general
    warn(
        f"{name} was not built for arguments like these, and there is no C compiler: it is "
        "interpreted, slowly", RuntimeWarning,
    )  # fmt: skip
    return found


def was_built(computation: Computation) -> bool:
    """Whether a library has the program's code, which it has for all that a launch may decide."""
    artifact = next(computation.every_artifact())
    segments = [piece.segment for piece in artifact.pieces if isinstance(piece, SegmentPiece)]
    return all(built.entry_of(segment.source) is not None for segment in segments)


def where_written(same: Sequence[int], written: Set[int]) -> Same:
    """Which arguments are the same array, as far as it is written: others may as well be copies."""
    seen = {same[number] for number in written}
    return tuple(
        first if first in seen else number for number, first in enumerate(same)
    )


def partitions(kinds: Sequence[Any], written: Set[int]) -> Iterator[Same]:
    """All ways in which arguments may be the same array, of those that are written.

    Parameters
    ----------
    kinds : sequence
        For each argument, equal for those that may be one array; None for what is no array.
    written : set of int
    """

    def rest(same: Same) -> Iterator[Same]:
        number = len(same)
        if number == len(kinds):
            yield same
            return
        yield from rest((*same, number))
        if kinds[number] is not None:
            for first in dict.fromkeys(same):
                if kinds[first] == kinds[number]:
                    yield from rest((*same, first))

    yield from dict.fromkeys(where_written(same, written) for same in rest(()))
