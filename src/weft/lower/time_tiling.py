"""Which loops can be run in tiles in time (`lower.time_tiles`), now that their memory is known."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.leaning import Lean, straighten
from weft.fun.stencils import Stencil, stencil_of
from weft.lmad import Lmad
from weft.lower.unit import Unit, memory
from weft.mem import layout
from weft.mem.nodes import MemArray
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import product


@dataclass(frozen=True, slots=True)
class Turns:
    """The scalars of a loop: which of two buffers is whose.

    Attributes
    ----------
    flips : tuple of (int, fun.Atom)
        Parameters that are 1 less themselves after each round, and what they begin as.
    follows : tuple of (int, int, fun.Atom)
        Parameters that become what such a one becomes; that one; what they begin as.
    """

    flips: tuple[tuple[int, fun.Atom], ...]
    follows: tuple[tuple[int, int, fun.Atom], ...]


@dataclass(frozen=True, slots=True)
class TimeTiling:
    """A loop that can be run in tiles: its kernels over whole arrays, on the rows of `lean`."""

    loop: fun.Loop
    stencil: Stencil
    turns: Turns
    lean: Lean | None = None


def time_tiling(unit: Unit, loop: fun.Loop) -> TimeTiling | str:
    """How a loop is tiled; or why it cannot be."""
    leaning = straighten(loop, _names(loop))
    lean = None
    if leaning is not None:
        if not _in_place(loop):
            return "rows are made apart from the arrays that they belong to"
        loop, lean = leaning
    stencil = stencil_of(loop)
    if stencil is None or (lean is not None and stencil.wraps[0]):
        return "rounds read beyond constant offsets"
    if lean is not None:
        # Each array has one buffer here, not two.
        stencil.itemsize -= sum(param.type.dtype.itemsize for param in loop.params)
    turns = _turns(loop)
    if turns is None:
        return "rounds give scalars to the next"
    if not _one_layout(unit, loop, {loop.params[number].name for number, _ in turns.flips}):
        return "arrays of a round share memory in different layouts"
    return TimeTiling(loop, stencil, turns, lean)


def _names(loop: fun.Loop) -> Names:
    """Names that are not in a loop yet."""
    bound = (var.name for let in walk.statements(loop.body) for var in let.pattern)
    return Names({*walk.used_names(loop), *bound})


def _in_place(loop: fun.Loop) -> bool:
    """Whether rows are made where they replace those of an array."""
    for let in loop.body.statements:
        update = let.expr
        if not isinstance(update, fun.Update) or not isinstance(update.value, fun.Var):
            continue
        made, whole = memory(update.value), memory(let.pattern[0])
        part = layout.of_update(update, whole.index)
        if made.block != whole.block or not made.index.same(part):
            return False
        if not layout.same(memory(update.array), whole):
            return False
    return True


def _turns(loop: fun.Loop) -> Turns | None:
    """The scalars of the loop, if each is known for every round."""
    made = {let.pattern[0].name: let.expr for let in loop.body.statements}
    scalars = [n for n, param in enumerate(loop.params) if isinstance(param.type, fun.Scalar)]
    flips: dict[str, int] = {}
    for number in scalars:
        result = loop.body.results[number]
        flip = fun.Apply("subtract", (fun.Const(1, DType.I64), loop.params[number]))
        if isinstance(result, fun.Var) and made.get(result.name) == flip:
            flips[result.name] = number
    follows = []
    for number in scalars:
        result = loop.body.results[number]
        if number in flips.values():
            continue
        if not isinstance(result, fun.Var) or result.name not in flips:
            return None
        follows.append((number, flips[result.name], loop.initial[number]))
    return Turns(tuple((n, loop.initial[n]) for n in flips.values()), tuple(follows))


def _one_layout(unit: Unit, loop: fun.Loop, turns: set[str]) -> bool:
    """Whether arrays that may share memory with what is written have one layout.

    Then what a level writes at an index is, of all that other levels read or write, just what
    they read or write at that index. Arrays may be halves of a block, by one of `turns`.
    """
    layouts: dict[str, set[tuple[Lmad, DType]]] = {}
    written: set[str] = set()
    for let in loop.body.statements:
        if not isinstance(let.expr, fun.Kernel):
            continue
        arrays = list(let.pattern)
        for inner in walk.statements(let.expr.body):
            if isinstance(inner.expr, fun.Index):
                arrays.append(inner.expr.array)
        for number, var in enumerate(arrays):
            place = memory(var)
            choice = unit.choices.get(place.block)
            blocks = (place.block,) if choice is None else choice.blocks
            for block in blocks:
                layouts.setdefault(block, set()).add((_in_half(place, turns), place.dtype))
            if number < len(let.pattern):
                written.update(blocks)
    return all(len(layouts[block]) == 1 for block in written)


def _in_half(array: MemArray, turns: set[str]) -> Lmad:
    """The index function of an array that is one of two halves of a block, within its half.

    turn*n + {(n : 1)}, (1 - turn)*n + {(n : 1)}  =>  0 + {(n : 1)}
    """
    offset, count = array.index.offset, product(array.shape)
    whole = array.index.is_dense
    for turn in turns & offset.variables():
        factor = offset.coefficient(turn)
        if whole and offset.degree(turn) == 1 and factor in (count, -count):
            rest = offset.without(turn)
            return Lmad(rest if factor == count else rest - count, array.index.dims)
    return array.index
