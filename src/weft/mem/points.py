"""Points: where an array is copied, or may be overwritten, so that it can be made there at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.mem import layout
from weft.mem.aliases import reads_own
from weft.mem.nodes import MemArray
from weft.mem.project import Arrays
from weft.records import dataclass
from weft.sizes import Poly, Size


@dataclass(frozen=True, slots=True)
class Point:
    """Where an array is copied, as a whole: the source, where to, what users call it."""

    source: str
    target: MemArray
    what: str
    place: Place | None
    over: bool = False  # a kernel's result over an array that it reads


def may_be_point(let: fun.Let) -> bool:
    match let.expr:
        case fun.Copy() | fun.Concat() | fun.LmadUpdate() | fun.Kernel():
            return True
        case fun.Update(_, _, value):
            return isinstance(value.type, fun.Array)
        case _:
            return False


def copies(let: fun.Let, arrays: Arrays) -> Iterator[Point]:
    """Each copy that a statement makes; made when it is asked for."""
    match let.expr:
        case fun.Copy(array):
            target = arrays.memory[let.pattern[0].name]
            what = f"copy of {array.name} into {target.block}"
            yield Point(array.name, target, what, let.place)
        case fun.Concat(parts, axis):
            var = let.pattern[0]
            whole = arrays.memory[var.name]
            start: Size = Poly.const(0)
            for part in parts:
                extent = walk.type_sizes(part.type)[axis]
                index = layout.of_part(whole.index, axis, start, extent)
                what = f"copy of {part.name} into the concatenation {var.name}"
                yield Point(part.name, _at(part, whole.block, index), what, let.place)
                start = start + extent
        case fun.Update(_, _, fun.Var(type=fun.Array()) as value) | fun.LmadUpdate(_, _, _, value):
            var = let.pattern[0]
            whole = arrays.memory[var.name]
            assert isinstance(let.expr, fun.Update | fun.LmadUpdate)
            index = layout.of_update(let.expr, whole.index)
            what = f"copy of {value.name} into a part of {var.name}"
            yield Point(value.name, _at(value, whole.block, index), what, let.place)
        case _:
            pass


def maps(let: fun.Let, arrays: Arrays, temporary: Collection[str]) -> Iterator[Point]:
    """Temporary arrays over which a kernel may write its results (section 6.9).

    Of scalars, those that it reads at its own index alone. Of rows, those on the elements of
    which the result can lie; whether each is read before it is written is to be proved.
    """
    if not isinstance(let.expr, fun.Kernel):
        return
    for result, inner in zip(let.pattern, let.expr.body.results, strict=True):
        target = arrays.memory[result.name]
        rows = isinstance(inner.type, fun.Array)
        for name in _read(let.expr, rows):
            memory = arrays.memory[name]
            members = arrays.members[memory.block]
            over = _on(memory, target) if rows else _as(memory, target)
            if (
                over is not None
                and memory.block in temporary
                and memory.block != target.block
                and members.isdisjoint(var.name for var in let.pattern)
                and all(layout.same(arrays.memory[n], memory) for n in members & _names(let))
                and (rows or reads_own(let.expr, members))
            ):
                yield Point(name, over, f"block {memory.block}", let.place, over=True)


def _read(kernel: fun.Kernel, deeply: bool) -> dict[str, None]:
    """The arrays of which a kernel reads elements."""
    statements = walk.statements(kernel.body) if deeply else kernel.body.statements
    return dict.fromkeys(s.expr.array.name for s in statements if isinstance(s.expr, fun.Index))


def _names(let: fun.Let) -> frozenset[str]:
    return walk.used_names(let.expr) | {var.name for var in let.pattern}


def _at(array: fun.Var, block: str, index: Lmad) -> MemArray:
    assert isinstance(array.type, fun.Array)
    return MemArray(array.type.dtype, array.type.shape, block, index)


def _as(memory: MemArray, target: MemArray) -> MemArray | None:
    """The result's own place, for an array of the same type."""
    same = (memory.dtype, memory.shape) == (target.dtype, target.shape)
    return target if same else None


def _on(memory: MemArray, target: MemArray) -> MemArray | None:
    """A place for an array on the very elements of a result, its axes perhaps in another order."""
    dims = memory.index.dims
    same = sorted(map(str, dims)) == sorted(map(str, target.index.dims))
    if memory.dtype != target.dtype or not same:
        return None
    return replace(memory, block=target.block, index=Lmad(target.index.offset, dims))
