"""tile_time: ask for several steps of an iterated stencil on one tile after another.

    loop (v = x) for k from 0 to t { let y = kernel (i < n) { f(v[i-1], v[i], v[i+1]) } in y }
 => loop (v = x) for k from 0 to t tiled from 0 to n { .. }

Where only rows a to a + b of the loop's result are used, in slices, it says so: `tiled from a to
a + b`. Tiles then leave out what those rows do not need.

Which tiles these are, and that they give the same, is for a device to find (on the CPU
`weft.lower.time_tiles`): it knows where the arrays lie.

Removes and adds nothing else. Requires a fused program, of which steps are one kernel where they
can be. Ensures the same bits: each element is computed once, by the same operations.

Which loops qualify: those over a range whose body is kernels over the shape of the arrays that it
carries, and reads those at constant offsets. Arrays that a step puts together from pieces, or of
which it writes parts, become one kernel first (`weft.passes.join_rounds`), if that makes it such
a loop. A step that needs a global result is left alone.

Whether it pays depends on sizes: `time_tiles` gives what to decide by, `when` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes.join_rounds import joined_rounds
from weft.records import dataclass
from weft.sizes import ZERO, Size, product

if TYPE_CHECKING:
    from weft.fun.stencils import Stencil


@dataclass(frozen=True, slots=True)
class TimeTile:
    """A loop that can be tiled in time.

    Attributes
    ----------
    loop : str
        The first result of the loop.
    rounds : Size
        The number of its steps.
    bytes : Size
        Of the arrays that one step reads and writes.
    """

    loop: str
    rounds: Size
    bytes: Size


When: TypeAlias = Callable[[TimeTile], bool]


def time_tiles(program: fun.Program) -> list[TimeTile]:
    """The loops that `tile_time` can mark, for a launch to decide on."""
    names = Names.of(program)
    found = ((let, _stencil(program, let, names)) for let in program.body.statements)
    return [_candidate(let, stencil[1]) for let, stencil in found if stencil is not None]


def tile_time(program: fun.Program, when: When = lambda _: True) -> fun.Program:
    """The program in which those loops ask for tiles that `when` accepts."""
    names = Names.of(program)
    statements = []
    for let in program.body.statements:
        found = _stencil(program, let, names)
        if found is not None and when(_candidate(let, found[1])):
            loop, stencil = found
            assert isinstance(loop.form, fun.For)
            form = replace(loop.form, tiled=_used(program, let, stencil))
            let = replace(let, expr=replace(loop, form=form))
        statements.append(let)
    return replace(program, body=fun.Body(tuple(statements), program.body.results))


def _used(program: fun.Program, let: fun.Let, stencil: Stencil) -> tuple[Size, Size]:
    """Which indices of the first dimension the program uses of what a loop gives."""
    whole: tuple[Size, Size] = (ZERO, stencil.shape[0])
    names = {var.name for var in let.pattern}
    known = {*program.sizes, *(derived.name for derived in program.derived)}
    found: set[tuple[Size, Size]] = set()
    left = sum(name in names for name in walk.uses(program.body))
    for user in walk.statements(program.body):
        if not isinstance(user.expr, fun.Slice) or user.expr.array.name not in names:
            continue
        span = user.expr.dims[0]
        if not isinstance(span, fun.Span) or span.step != 1:
            return whole
        if (span.start.variables() | span.extent.variables()) <= known:
            found.add((span.start, span.start + span.extent))
            left -= 1
    return found.pop() if len(found) == 1 and left == 0 else whole


def _stencil(
    program: fun.Program, let: fun.Let, names: Names
) -> tuple[fun.Loop, Stencil] | None:
    """What the statement repeats, if it is a loop that qualifies, perhaps with pieces joined."""
    loop = let.expr
    if not isinstance(loop, fun.Loop):
        return None
    if any(isinstance(param.type, fun.Scalar) for param in loop.params):
        return None
    from weft.fun.leaning import straighten
    from weft.fun.stencils import stencil_of

    leaning = straighten(loop, names)
    stencil = stencil_of(loop if leaning is None else leaning[0])
    if stencil is None:
        joined = joined_rounds(program, loop, names)
        if joined is None:
            return None
        loop, stencil = joined
    sizes = {*program.sizes, *(derived.name for derived in program.derived)}
    known = all(size.variables() <= sizes for size in (*stencil.shape, stencil.rounds))
    return (loop, stencil) if known else None


def _candidate(let: fun.Let, stencil: Stencil) -> TimeTile:
    arrays = product(stencil.shape) * stencil.itemsize
    return TimeTile(let.pattern[0].name, stencil.rounds, arrays)
