"""Kernels cut where boundary rules begin to matter, so that every read is of one place.

    let y = kernel (i < n) { x[i - 1 : wrap(0, m)] }
 => let a = kernel (i < 1) { x[i - 1 + m] }
    let b = kernel (i < n - 1) { x[i] }
    let y = concat 0 (a, b)

by fission, and by what each rule gives on either side of the array. So it is known which
elements a kernel reads that needs a part of them: as long as it has a rule, any may be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names, derive
from weft.passes.fission import Split, fission
from weft.plan.footprint import Interval, Intervals, Reads
from weft.sizes import Poly, Size, as_poly
from weft.transfer.views import Lie

_MOST = 16  # cuts: more are of kernels that read most of what they could
_MOST_READS = 64  # of all parts: what each needs is found together
_NEARLY = 0.9  # of an array's elements: parts of it are not worth a copy then


def without_rules(
    program: fun.Program, arrays: Mapping[str, Lie], sizes: Mapping[str, int]
) -> fun.Program:
    """The program without rules in reads of arrays, where cuts along axes can spare them.

    Ensures the same meaning, for these sizes. Arrays that a read has nearly whole keep theirs.

    Parameters
    ----------
    program : fun.Program
    arrays : mapping of str to Lie
        The arrays, and outermost views of them.
    sizes : mapping of str to int
        Every size variable, derived ones included.
    """
    if not any(_has_rules(let.expr) for let in walk.statements(program.body)):
        return program
    names = _read_by_rules(program, arrays, sizes)
    if not names:
        return program
    program, known = _cut_apart(program, names, sizes)
    lets = [_ruled(let, names, known) for let in program.body.statements]
    body = walk.with_statements(program.body, lets)
    return program if body is program.body else replace(program, body=body)


def _has_rules(expr: fun.Expr) -> bool:
    return isinstance(expr, fun.Index) and any(expr.boundary)


def _cut_apart(
    program: fun.Program, arrays: Collection[str], sizes: Mapping[str, int]
) -> tuple[fun.Program, Mapping[str, int]]:
    """The program with its kernels cut, and its sizes; as it was where reads become too many."""
    found, known = program, dict(sizes)
    for _ in range(_MOST):
        cut = next((c for let in found.body.statements if (c := _cut(let, arrays, known))), None)
        if cut is None:
            return found, known
        split, over, under = cut
        derived = list(found.derived)
        at = over if under == 1 else derive(
            derived, Names.of(found), "floordiv", over, as_poly(under), "cut"
        )  # fmt: skip
        found = fission(replace(found, derived=tuple(derived)), split, at)
        if _reads(found, arrays) > _MOST_READS:
            break
        known |= {each.name: each.evaluate(known) for each in found.derived}
    return program, sizes


def _read_by_rules(
    program: fun.Program, arrays: Mapping[str, Lie], sizes: Mapping[str, int]
) -> set[str]:
    """The arrays that reads with rules are of, where each of these is of a part."""
    found: set[str] = set()
    whole: set[int] = set()
    ranks = {name: len(lie.shape) for name, lie in arrays.items()}
    most: dict[int, int] = {}
    for lie in arrays.values():
        most[lie.memory] = max(most.get(lie.memory, 0), math.prod(lie.shape))
    for let in program.body.statements:
        reads = Reads(let, ranks)
        intervals = Intervals(reads, sizes, {})
        for read in reads.accesses:
            lie = arrays[read.array]
            if not any(read.boundary):
                continue
            found.add(read.array)
            count = 1
            for ends, extent in zip(read.index, lie.shape, strict=True):
                known = None if ends is None else intervals.size(ends[0])
                count *= extent if known is None else min(extent, int(known[1] - known[0]) + 1)
            if count >= _NEARLY * most[lie.memory]:
                whole.add(lie.memory)
    return {name for name in found if arrays[name].memory not in whole}


def _reads(program: fun.Program, names: Collection[str]) -> int:
    """How many reads of some arrays there are."""
    return sum(
        isinstance(let.expr, fun.Index) and let.expr.array.name in names
        for let in walk.statements(program.body)
    )


def _cut(
    let: fun.Let, arrays: Collection[str], sizes: Mapping[str, int]
) -> tuple[Split, Size, int] | None:
    """Where an axis of a statement is cut next, for a read to have its rule on one side alone.

    The first element of the second part is a quotient, rounded down.
    """
    if not isinstance(let.expr, fun.Kernel | fun.Reduce | fun.Scan):
        return None
    axes = walk.kept(let.expr)
    places = {each.index.name: axis for axis, each in enumerate(axes)}
    reads = Reads(let, dict.fromkeys(arrays, 0))
    for read in reads.accesses:
        for ends, rule in zip(read.index, read.boundary, strict=True):
            if rule is None or ends is None:
                continue
            index = reads.resolve(ends[0])
            moved = index.variables() - sizes.keys()
            axis = places.get(next(iter(moved))) if len(moved) == 1 else None
            if axis is None or not axes[axis].extent.variables() <= sizes.keys():
                continue
            extent = axes[axis].extent
            for over, under in _ends(index, axes[axis].index.name, rule):
                known = over.variables() <= sizes.keys()
                if known and 0 < over.evaluate(sizes) // under < extent.evaluate(sizes):
                    return Split(let.pattern[0].name, axis, extent), over, under
    return None


def _ends(index: Size, variable: str, rule: fun.Boundary) -> list[tuple[Size, int]]:
    """Where a variable takes an index into the array, and out of it: numerator, denominator."""
    factor = index.coefficient(variable)
    rest = index - factor * Poly.var(variable)
    if index.degree(variable) != 1 or not factor.is_constant:
        return []
    by = factor.constant
    if by > 0:
        return [(end - rest + by - 1, by) for end in (rule.lower, rule.upper)]
    return [(rest - end - by, -by) for end in (rule.lower, rule.upper)]


def _ruled(
    let: fun.Let, arrays: Collection[str], sizes: Mapping[str, int]
) -> fun.Let:
    """The statement with the indices that rules give, where each is on one side of its array."""
    reads = Reads(let, dict.fromkeys(arrays, 0))
    if not any(any(read.boundary) for read in reads.accesses):
        return let
    intervals = Intervals(reads, sizes, {})

    def given(expr: fun.Index) -> fun.Expr:
        found = [
            _given(index, intervals.size(index), rule, sizes)
            for index, rule in zip(expr.indices, expr.boundary, strict=True)
        ]
        values = [each for each in found if isinstance(each, fun.Const)]
        rules = tuple(
            rule if new is None else None for rule, new in zip(expr.boundary, found, strict=True)
        )
        if values:  # in a corner it is that of the last dimension
            is_known = all(rule is None or rule.kind != "constant" for rule in rules)
            return fun.Cast(values[-1].dtype, values[-1]) if is_known else expr
        indices = tuple(
            new if isinstance(new, Poly) else index
            for index, new in zip(expr.indices, found, strict=True)
        )
        return replace(expr, indices=indices, boundary=rules if any(rules) else ())

    def body(old: fun.Body) -> fun.Body:
        return walk.with_statements(old, [each(inner) for inner in old.statements])

    def each(inner: fun.Let) -> fun.Let:
        if isinstance(inner.expr, fun.Index):
            known = inner.expr.boundary and inner.expr.array.name in arrays
            return replace(inner, expr=given(inner.expr)) if known else inner
        return walk.map_let(inner, body)

    return each(let)


def _given(
    index: Size, known: Interval | None, rule: fun.Boundary | None, sizes: Mapping[str, int]
) -> Size | fun.Const | None:
    """The index (or the value) that a rule gives; None where that depends on the element."""
    if rule is None:
        return index
    if known is None or not (rule.lower.variables() | rule.upper.variables()) <= sizes.keys():
        return None
    lower, upper = rule.lower.evaluate(sizes), rule.upper.evaluate(sizes)
    least, most = map(int, known)
    if lower <= least and most < upper:
        return index
    if most < lower:
        end, step, room = rule.lower, 1, lower - least
    elif least >= upper:
        end, step, room = rule.upper - 1, -1, most - upper + 1
    else:
        return None
    match rule.kind:
        case "constant":
            return rule.value
        case "edge":
            return end
        case "wrap" if room <= upper - lower:
            return index + (rule.upper - rule.lower) * step
        case "symmetric" if room <= upper - lower:
            return end * 2 - index - step
        case "reflect" if room < upper - lower:
            return end * 2 - index
        case _:
            return None
