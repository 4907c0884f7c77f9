"""Layout changes, joins and updates as kernels, so that they can be cut into boxes.

    let y = permute(x, (1, 0))   =>  let y = kernel (i < m, j < n) { x[j, i] }
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.fun import nodes as fun
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Size, product

_I64 = fun.Scalar(DType.I64)
_BOOL = fun.Scalar(DType.BOOL)


def as_kernel(let: fun.Let, names: Names) -> fun.Let | None:
    """The statement as a kernel over its result's elements (None: not such a statement)."""
    if len(let.pattern) != 1 or not isinstance(let.pattern[0].type, fun.Array):
        return None
    type_ = let.pattern[0].type
    build = Builder(names)
    build.place = let.place
    space = tuple(fun.Range(build.index(), extent) for extent in type_.shape)
    at = tuple(build.size(dim.index) for dim in space)
    result = _element(let.expr, at, type_, build)
    if result is None:
        return None
    return fun.Let(let.pattern, fun.Kernel(space, build.body([result])), let.place)


def _element(
    expr: fun.Expr, at: tuple[Size, ...], type_: fun.Array, build: Builder
) -> fun.Atom | None:
    """The element of the expression's value at an index."""
    match expr:
        case fun.Copy(array):
            return _read(array, at, build)
        case fun.Permute(array, axes):
            inner = [ZERO] * len(axes)
            for index, axis in zip(at, axes, strict=True):
                inner[axis] = index
            return _read(array, inner, build)
        case fun.Slice(array, dims):
            rest = iter(at)
            return _read(
                array,
                [d.start + next(rest) * d.step if isinstance(d, fun.Span) else d for d in dims],
                build,
            )
        case fun.LmadSlice(array, offset, pairs):
            for index, (_, stride) in zip(at, pairs, strict=True):
                offset = offset + index * stride
            return _read(array, [offset], build)
        case fun.Broadcast(atom, _):
            if not isinstance(atom, fun.Var) or not isinstance(atom.type, fun.Array):
                return atom
            last = at[len(at) - atom.type.rank :]
            return _read(
                atom, [ZERO if n == ONE else i for i, n in zip(last, atom.type.shape, strict=True)],
                build,
            )  # fmt: skip
        case fun.Reshape(array, _):
            place = place_in(array, type_.shape, at, build)
            return build.let(place, fun.Scalar(array.type.dtype))
        case fun.Concat(arrays, axis):
            return _joined(arrays, axis, at, type_, build)
        case fun.Update(array, dims, value) if all(
            not isinstance(dim, fun.Span) or dim.step == 1 for dim in dims
        ):
            return _updated(array, dims, value, at, type_, build)
        case _:
            return None


def place_in(
    array: fun.Var, shape: tuple[Size, ...], at: tuple[Size, ...], build: Builder
) -> fun.Index:
    """The read of an array that gives what it has at an index of `shape`, were it reshaped so."""
    return fun.Index(array, tuple(_reshaped(_shape(array), shape, at, build)))


def _shape(array: fun.Var) -> tuple[Size, ...]:
    assert isinstance(array.type, fun.Array)
    return array.type.shape


def _read(array: fun.Var, at: Sequence[Size], build: Builder) -> fun.Atom:
    return build.let(fun.Index(array, tuple(at)), fun.Scalar(array.type.dtype))


def _reshaped(
    old: tuple[Size, ...], new: tuple[Size, ...], at: tuple[Size, ...], build: Builder
) -> list[Size]:
    """The index in an array of shape `old` of what a reshape to `new` has at `at`."""
    tail: list[Size] = []
    while old and new and old[-1] == new[-1]:  # dimensions that stay as they are
        tail.insert(0, at[-1])
        old, new, at = old[:-1], new[:-1], at[:-1]
    flat = ZERO
    for index, extent in zip(at, new, strict=True):
        flat = flat * extent + index
    head: list[Size] = []
    for axis in range(len(old) - 1, 0, -1):
        if old[axis] == ONE:
            head.insert(0, ZERO)
            continue
        if product(old[:axis]) == ONE:
            head.insert(0, flat)
            flat = ZERO
            continue
        dividend, divisor = build.scalar(flat), build.scalar(old[axis])
        rest = build.let(fun.Apply("remainder", (dividend, divisor)), _I64)
        whole = build.let(fun.Apply("floor_divide", (dividend, divisor)), _I64)
        head.insert(0, build.size(rest))
        flat = build.size(whole)
    if old:
        head.insert(0, flat)
    return head + tail


def _joined(
    arrays: Sequence[fun.Var], axis: int, at: tuple[Size, ...], type_: fun.Array, build: Builder
) -> fun.Atom:
    first, rest = arrays[0], arrays[1:]
    if not rest:
        return _read(first, at, build)
    extent = _shape(first)[axis]
    condition = _less(at[axis], extent, build)
    then, otherwise = build.inner(), build.inner()
    left = _read(first, at, then)
    beyond = (*at[:axis], at[axis] - extent, *at[axis + 1 :])
    right = _joined(rest, axis, beyond, type_, otherwise)
    choice = fun.If(condition, then.body([left]), otherwise.body([right]))
    return build.let(choice, fun.Scalar(type_.dtype))


def _updated(
    array: fun.Var, dims: Sequence[fun.Span | Size], value: fun.Atom, at: tuple[Size, ...],
    type_: fun.Array, build: Builder,
) -> fun.Atom:  # fmt: skip
    condition: fun.Atom = fun.Const(True, DType.BOOL)
    inner: list[Size] = []
    for index, dim in zip(at, dims, strict=True):
        start = dim.start if isinstance(dim, fun.Span) else dim
        extent = dim.extent if isinstance(dim, fun.Span) else ONE
        if isinstance(dim, fun.Span):
            inner.append(index - start)
        for test in (_less(start - 1, index, build), _less(index, start + extent, build)):
            condition = build.let(fun.Apply("logical_and", (condition, test)), _BOOL)
    then, otherwise = build.inner(), build.inner()
    new = value
    if isinstance(value, fun.Var) and isinstance(value.type, fun.Array):
        new = _read(value, inner, then)
    old = _read(array, at, otherwise)
    return build.let(
        fun.If(condition, then.body([new]), otherwise.body([old])), fun.Scalar(type_.dtype)
    )


def _less(left: Size, right: Size, build: Builder) -> fun.Atom:
    return build.let(fun.Apply("less", (build.scalar(left), build.scalar(right))), _BOOL)
