"""Copies between index functions: of results, of pieces of concatenations and updates."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lmad import Lmad
from weft.lower.emitter import Emitter
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.ops.dtypes import DType
from weft.sizes import Poly, Size, as_poly


def window(array: MemArray, dims: tuple[fun.Span | Size, ...]) -> MemArray:
    """The slice of an array, in place."""
    offset = array.index.offset
    kept: list[tuple[Size, Size]] = []
    for dim, (_, stride) in zip(dims, array.index.dims, strict=True):
        if isinstance(dim, fun.Span):
            offset = offset + dim.start * stride
            kept.append((dim.extent, stride * dim.step))
        else:
            offset = offset + dim * stride
    return MemArray(
        array.dtype, tuple(extent for extent, _ in kept), array.block, Lmad(offset, tuple(kept))
    )


def same_memory(left: MemArray, right: MemArray) -> bool:
    """Whether two arrays of one shape are the same memory, element by element."""
    if left.block != right.block or left.index.offset != right.index.offset:
        return False
    return all(
        a == b or extent == 1
        for extent, a, b in zip(left.shape, left.index.strides, right.index.strides, strict=True)
    )


def copy(e: Emitter, source: MemArray, target: MemArray) -> None:
    """`target[...] = source[...]`, of one shape; nothing where they are one."""
    if same_memory(source, target):
        return
    choice = e.unit.choices.get(source.block)
    if choice is None or target.block not in choice.blocks or source.index != target.index:
        fill(e, target, source)
        return
    number = imp.integer(choice.blocks.index(target.block))
    with e.branch(machine("!=", e.named(choice.turn), number)):
        fill(e, target, source)


def fill(e: Emitter, target: MemArray, source: MemArray | fun.Atom) -> None:
    """`target[...] = source`, an array of its shape or one scalar."""
    space = tuple(
        fun.Range(fun.Var(e.unit.fresh("copy."), fun.Scalar(DType.I64)), extent)
        for extent in target.shape
    )
    if not space:
        value = e.atom(source) if not isinstance(source, MemArray) else e.load(source, ())
        e.store(target, (), value)
        return
    indices = tuple(Poly.var(r.index.name) for r in space)
    if isinstance(source, MemArray):
        name = e.unit.fresh("copied.")
        read = fun.Index(fun.Var(e.unit.fresh("source."), source), indices)
        copied = fun.Var(name, fun.Scalar(source.dtype))
        body = fun.Body((fun.Let((copied,), read),), (copied,))
    else:
        body = fun.Body((), (source,))
    target_var = fun.Var(e.unit.fresh("target."), target)
    e.unit.statement(e, fun.Let((target_var,), fun.Kernel(space, body), e.place))


def lower_copy(e: Emitter, let: fun.Let) -> None:
    """`Copy`, and a layout change whose result has memory of its own."""
    (var,) = let.pattern
    match let.expr:
        case fun.Copy(array):
            e.unit.originals[var.name] = e.unit.originals.get(array.name, array.name)
            copy(e, memory(array), memory(var))
        case fun.Reshape(array):
            _reshape(e, memory(array), memory(var))
        case fun.Broadcast(atom, _):
            if isinstance(atom.type, fun.Scalar):
                fill(e, memory(var), atom)
    e.depths["@" + var.name] = e.depth


def _reshape(e: Emitter, source: MemArray, target: MemArray) -> None:
    """Elements in row-major order: the target, row-major itself, seen with the source's shape."""
    whole = MemArray(
        target.dtype, source.shape, target.block, Lmad.row_major(source.shape, target.index.offset)
    )
    copy(e, source, whole)


def lower_concat(e: Emitter, let: fun.Let) -> None:
    concat = let.expr
    assert isinstance(concat, fun.Concat)
    target = memory(let.pattern[0])
    start: Size = as_poly(0)
    for array in concat.arrays:
        source = memory(array)
        dims: list[fun.Span | Size] = [fun.Span(as_poly(0), extent) for extent in source.shape]
        dims[concat.axis] = fun.Span(start, source.shape[concat.axis])
        copy(e, source, window(target, tuple(dims)))
        start = start + source.shape[concat.axis]
    e.depths["@" + let.pattern[0].name] = e.depth


def lower_update(e: Emitter, let: fun.Let) -> None:
    update = let.expr
    assert isinstance(update, fun.Update | fun.LmadUpdate)
    target = memory(let.pattern[0])
    copy(e, memory(update.array), target)
    if isinstance(update, fun.Update):
        part = window(target, update.dims)
    else:
        stride = target.index.strides[0]
        offset = target.index.offset + update.offset * stride
        dims = tuple((extent, step * stride) for extent, step in update.dims)
        part = MemArray(
            target.dtype, tuple(extent for extent, _ in dims), target.block, Lmad(offset, dims)
        )
    if isinstance(update.value.type, fun.Array):
        copy(e, memory(update.value.type), part)
    else:
        fill(e, part, update.value)
    e.depths["@" + let.pattern[0].name] = e.depth


def is_view(let: fun.Let) -> bool:
    """Whether a reshape or broadcast only looks at its array's memory in another way."""
    expr = let.expr
    assert isinstance(expr, fun.Reshape | fun.Broadcast)
    if isinstance(expr.array.type, fun.Scalar):
        return False
    return memory(expr.array.type).block == memory(let.pattern[0]).block
