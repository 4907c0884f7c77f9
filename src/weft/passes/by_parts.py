"""Rounds in parts that are done side by side, each with a copy of the arrays that it updates.

The copies begin as neutral elements, and are combined part after part, so that the order in which
floats are added is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops.dtypes import DType
from weft.passes.combine import Combine
from weft.passes.knowledge import Knowledge
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

PARTS = (16, 4)
"""Into how many parts rounds are cut: into few where copies are large beside what they do."""
WORTH = 4
"""How many updates an element of the copies is worth."""
PRIVATE = 8192
"""Elements of an array of which scatters make copies themselves."""

_I64 = fun.Scalar(DType.I64)


def parts_of(updates: Size, arrays: Sequence[fun.Var], known: Knowledge) -> int:
    """Into how many parts so many updates are cut, with the sizes of the call; 0: into none.

    How many follows from these sizes alone, so they are taken for granted also where they are few.
    """
    if not known.values:
        return 0
    for parts in PARTS:
        gain = updates - _elements(arrays) * (parts * WORTH)
        if known.nonnegative(gain):
            return parts
        known.negative(gain)
    return 0


def parts_instead(updates: Size, rounds: Size, array: fun.Var, known: Knowledge) -> int:
    """Into how many parts, if that is better than a scatter, which makes no copies so large."""
    large = _elements([array]) - PRIVATE - 1
    if not known.values or not known.nonnegative(large):
        return 0
    return parts_of(updates, [array], known) if known.nonnegative(rounds - PARTS[0]) else 0


def _elements(arrays: Sequence[fun.Var]) -> Size:
    return sum((product(a.type.shape) for a in arrays if isinstance(a.type, fun.Array)), start=ZERO)


def by_parts(
    combines: Sequence[Combine], arrays: Sequence[fun.Var], loop: fun.Loop,
    lasts: Sequence[fun.Var], count: int,
) -> list[fun.Let]:  # fmt: skip
    """Arrays combined with what rounds do, which `loop` does and nothing else; as `lasts`.

    In so many parts; 0: in order, unless rounds are many beside the elements of the arrays.
    """
    rest = combines[0].rest
    form, known, names, place = rest.form, rest.known, rest.names, rest.place
    rounds = form.upper - form.lower
    count = count or parts_of(rounds, arrays, known)
    if not count:
        return [fun.Let(tuple(lasts), walk.Substitution(fresh=names.fresh).expr(loop), place)]
    part = fun.Var(names.fresh("c"), _I64)
    statements: list[fun.Let] = []
    bounds = []
    for at in (Poly.var(part.name), Poly.var(part.name) + ONE):
        scaled, cut = (fun.Var(names.fresh("s"), _I64) for _ in range(2))
        statements.append(fun.Let((scaled,), fun.SizeValue(at * rounds), place))
        parts = fun.Const(count, DType.I64)
        statements.append(fun.Let((cut,), fun.Apply("floor_divide", (scaled, parts)), place))
        bounds.append(form.lower + Poly.var(cut.name))
    begin = [fun.Var(names.fresh("h"), array.type) for array in arrays]
    for var, one in zip(begin, combines, strict=True):
        assert isinstance(var.type, fun.Array)
        filled = fun.Broadcast(one.combined.neutral, var.type.shape)
        statements.append(fun.Let((var,), filled, place))
    own = tuple(fun.Var(names.fresh("h"), array.type) for array in arrays)
    some = replace(loop, initial=tuple(begin), form=fun.For(form.index, bounds[0], bounds[1]))
    some_copy = walk.Substitution(fresh=names.fresh).expr(some)
    statements.append(fun.Let(own, some_copy, place))
    kernel = fun.Kernel(
        (fun.Range(part, as_poly(count)),), fun.Body(tuple(statements), own)
    )
    copies = []
    for array in arrays:
        assert isinstance(array.type, fun.Array)
        type_ = fun.Array(array.type.dtype, (as_poly(count), *array.type.shape))
        copies.append(fun.Var(names.fresh("t"), type_))
    done = [fun.Let(tuple(copies), kernel, place)]
    for one, array, copy, last in zip(combines, arrays, copies, lasts, strict=True):
        assert isinstance(array.type, fun.Array)
        kept = tuple(fun.Range(one.fresh("q", _I64), extent) for extent in array.type.shape)
        over = fun.Range(one.fresh("c", _I64), as_poly(count))
        indices = tuple(Poly.var(r.index.name) for r in (over, *kept))
        element = one.fresh("e", fun.Scalar(one.dtype))
        read = fun.Let((element,), fun.Index(copy, indices), place)
        total, summed = one.reduced((*kept, over), len(kept), fun.Body((read,), (element,)))
        dims = tuple(fun.Span(ZERO, extent) for extent in array.type.shape)
        done += [total, *one.joined(array, dims, summed, last)]
    return done
