"""What a loop repeats, where it is a stencil: reads at constant offsets from the index."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.fun import nodes as fun
from weft.fun import walk
from weft.sizes import Poly, Size

_SCALAR = (fun.Apply, fun.Cast, fun.SizeValue)
_RULES = ("edge", "reflect", "symmetric", "constant")


@dataclass(slots=True)
class Stencil:
    """A loop of kernels over one shape.

    Attributes
    ----------
    shape : tuple of Size
        Of every array that the loop carries or makes.
    rounds : Size
    reach : tuple of int
        For each dimension how far from its index one step reads what the step before made.
    itemsize : int
        Bytes of one element of all arrays that a step reads and writes.
    given : dict of str to (fun.Var, axes)
        Arrays from outside that are read near the index: for each of their dimensions the
        dimension of the space that it follows, or None.
    """

    shape: tuple[Size, ...]
    rounds: Size
    reach: tuple[int, ...] = ()
    itemsize: int = 0
    given: dict[str, tuple[fun.Var, tuple[int | None, ...]]] = field(default_factory=dict)


def stencil_of(loop: fun.Loop) -> Stencil | None:
    """What the loop repeats; None where it is not a stencil.

    It is one if it runs over a range, carries arrays of one shape alone, and its body is
    scalars and kernels over that shape, whose reads of arrays that the loop changes are at
    constant offsets from their index, and those of others likewise or at fixed places.
    """
    if not isinstance(loop.form, fun.For):
        return None
    types = [param.type for param in loop.params]
    arrays = [t for t in types if isinstance(t, fun.Array)]
    if not arrays or len(arrays) < len(types) or any(t.shape != arrays[0].shape for t in arrays):
        return None
    stencil = Stencil(arrays[0].shape, loop.form.upper - loop.form.lower)
    rank = len(stencil.shape)
    reach = {param.name: (0,) * rank for param in loop.params}
    for let in loop.body.statements:
        if isinstance(let.expr, fun.Kernel):
            found = _reach_of(let.expr, reach, stencil)
            if found is None or any(isinstance(r.type, fun.Array) for r in let.expr.body.results):
                return None
            reach.update({var.name: found for var in let.pattern})
        elif not isinstance(let.expr, _SCALAR):
            return None
    results = [r for r in loop.body.results if isinstance(r, fun.Var) and r.name in reach]
    if len(results) < len(types):
        return None
    stencil.reach = tuple(max(reach[r.name][d] for r in results) for d in range(rank))
    made = [array.dtype.itemsize for array in arrays]
    around = [var.type.dtype.itemsize for var, _ in stencil.given.values()]
    stencil.itemsize = 2 * sum(made) + sum(around)
    return stencil


def _reach_of(
    kernel: fun.Kernel, known: dict[str, tuple[int, ...]], stencil: Stencil
) -> tuple[int, ...] | None:
    """How far a kernel reads; None where it is not over the shape, or reads elsewhere."""
    if tuple(r.extent for r in kernel.space) != stencil.shape:
        return None
    indices = [r.index.name for r in kernel.space]
    reach = [0] * len(indices)
    for let in walk.statements(kernel.body):
        expr = let.expr
        if isinstance(expr, fun.Index):
            offsets = _offsets(expr, indices)
            if offsets is None or not _joins(expr, offsets, known, stencil):
                return None
            before = known.get(expr.array.name, (0,) * len(indices))
            for axis, offset in offsets:
                if axis is not None:
                    reach[axis] = max(reach[axis], before[axis] + abs(offset))
        elif isinstance(expr, fun.Loop | fun.If):
            continue  # their bodies' statements come by themselves
        elif not isinstance(expr, _SCALAR):
            return None
    return tuple(reach)


def _offsets(expr: fun.Index, indices: list[str]) -> list[tuple[int | None, int]] | None:
    """For each dimension of a read which index it follows, and at what distance."""
    found: list[tuple[int | None, int]] = []
    rules = expr.boundary or (None,) * len(expr.indices)
    for index, rule in zip(expr.indices, rules, strict=True):
        follows = [d for d, name in enumerate(indices) if name in index.variables()]
        if not follows:
            found.append((None, 0))
            continue
        offset = index - Poly.var(indices[follows[0]])
        if not offset.is_constant or (rule is not None and rule.kind not in _RULES):
            return None
        found.append((follows[0], offset.constant))
    return found


def _joins(
    expr: fun.Index, offsets: list[tuple[int | None, int]], known: dict[str, tuple[int, ...]],
    stencil: Stencil,
) -> bool:  # fmt: skip
    """Whether a read fits what is known of its array; notes arrays from outside."""
    axes = tuple(axis for axis, _ in offsets)
    array = expr.array
    if array.name in known:
        return axes == tuple(range(len(stencil.shape)))
    shape = walk.type_sizes(array.type)
    rules = expr.boundary or (None,) * len(shape)
    for axis, extent, rule in zip(axes, shape, rules, strict=True):
        if axis is not None and extent != stencil.shape[axis]:
            return False
        if rule is not None and axis is not None and (rule.lower != 0 or rule.upper != extent):
            return False
    if all(axis is None for axis in axes):
        return True
    if array.name in stencil.given:
        return stencil.given[array.name][1] == axes
    stencil.given[array.name] = (array, axes)
    return True
