"""tile_time: ask for several steps of an iterated stencil on one tile after another.

    loop (v = x) for k from 0 to t { let y = kernel (i < n) { f(v[i-1], v[i], v[i+1]) } in y }
 => loop (v = x) for k from 0 to t tiled from 0 to n { .. }

Where only rows a to a + b of the loop's result are used, in slices, it says so: `tiled from a to
a + b`. Tiles then leave out what those rows do not need.

Which tiles these are, and that they give the same, is for a device to find (on the CPU
`weft.lower.time_tiles`): it knows where the arrays lie.

Arrays that rounds give on as they were given, as two that take turns, are copied by a kernel of the
round. Removes and adds nothing else. Requires a fused program, of which steps are one kernel where
they can be. Ensures the same bits: each element is computed once, by the same operations.

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
from weft.fun.builder import Builder, Names
from weft.passes.join_rounds import joined_rounds
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size, product

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
            loop = _making_all(replace(loop, form=form), stencil.shape, names)
            let = replace(let, expr=loop)
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
    # The same rows in each round, read around, cannot be made in place as those that lean.
    stands = leaning is not None and leaning[1].left == leaning[1].right == ZERO
    if stencil is None or (stands and stencil.radius[0] > 0):
        joined = joined_rounds(program, loop, names)
        if joined is not None:
            loop, stencil = joined
    if stencil is None:
        return None
    sizes = {*program.sizes, *(derived.name for derived in program.derived)}
    known = all(size.variables() <= sizes for size in (*stencil.shape, stencil.rounds))
    return (loop, stencil) if known else None


def _making_all(loop: fun.Loop, shape: tuple[Size, ...], names: Names) -> fun.Loop:
    """The loop whose rounds make all that they give: a kernel copies what they were given.

    let y = kernel .. in a              let y, w = kernel .. in a, v[i]
    in y, v                      =>     in y, w

    A copy between rounds would be of whole arrays.
    """
    given = {param.name for param in loop.params}
    results = list(loop.body.results)
    kept = [
        number
        for number, (param, result) in enumerate(zip(loop.params, results, strict=True))
        if isinstance(result, fun.Var) and result.name in given - {param.name}
    ]
    statements = list(loop.body.statements)
    place = max(n for n, let in enumerate(statements) if isinstance(let.expr, fun.Kernel))
    let, kernel = statements[place], statements[place].expr
    assert isinstance(kernel, fun.Kernel)
    if not kept or tuple(dim.extent for dim in kernel.space) != shape:  # rows that lean
        return loop
    builder = Builder(names)
    here = tuple(Poly.var(dim.index.name) for dim in kernel.space)
    read = [
        builder.let(fun.Index(old, here), fun.Scalar(old.type.dtype))
        for number in kept
        if isinstance(old := results[number], fun.Var)
    ]
    made = [builder.var(loop.params[n].name, loop.params[n].type) for n in kept]
    body = fun.Body((*kernel.body.statements, *builder.statements), (*kernel.body.results, *read))
    statements[place] = fun.Let((*let.pattern, *made), replace(kernel, body=body), let.place)
    for number, var in zip(kept, made, strict=True):
        results[number] = var
    return replace(loop, body=fun.Body(tuple(statements), tuple(results)))


def _candidate(let: fun.Let, stencil: Stencil) -> TimeTile:
    arrays = product(stencil.shape) * stencil.itemsize
    return TimeTile(let.pattern[0].name, stencil.rounds, arrays)
