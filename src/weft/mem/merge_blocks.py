"""Merge blocks: arrays whose lives do not meet share memory.

let b @ mem_b = kernel .. a ..         let b @ mem_b = kernel .. a ..
let c @ mem_c = kernel .. b ..   =>    let c @ mem_c = kernel .. b ..
let d @ mem_d = kernel .. c ..         let d @ mem_b = kernel .. c ..

Chapter 5 of Munksgaard's thesis: register allocation by colouring an interference graph
(Chaitin et al. 1981), for registers of many sizes. Blocks are coloured greedily in two
orders, that of first uses and that of sizes (Pisarchyk and Lee, *Efficient Memory
Management for Deep Neural Net Inference*, 2020), and the better colouring is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd

from weft.fun import walk
from weft.fun.builder import Names
from weft.mem.last_use import lives
from weft.mem.nodes import Block, MemArray, Program
from weft.mem.rename import rename_blocks
from weft.records import dataclass
from weft.sizes import Derived, Poly, Size
from weft.sizes.division import content, divided
from weft.sizes.facts import SizeOperation
from weft.sizes.prove import Prover

# What is guessed where a guess decides between two right answers.
_TYPICAL = 1 << 10  # a size
_THREADS = 16


def merge_blocks(program: Program) -> Program:
    """Put arrays that are never live together into one block.

    Removes blocks, also those that nothing uses. Adds derived sizes "largest_k": where no
    size is proved to be the largest of a block's arrays, their maximum is computed at
    launch. Requires nothing.

    Ensures that the meaning is the same, and that the workspace is nowhere larger: a block
    is no larger than the largest that it replaces (but for rounding to whole elements, by
    less than the cache line that a block fewer saves). At any depth: in the bodies of
    loops and kernels too, and between the branches of an `If`. A thread's blocks are
    merged with such alone, and only where their elements are of one size, so that the
    threads' elements may be interleaved (`weft.mem.expand`).
    """
    if not program.blocks:
        return program
    meets = lives(program).meets
    elements = {name: max(sizes) for name, sizes in element_sizes(program).items()}
    blocks = {block.name: block for block in program.blocks}
    by_use = [blocks[name] for name in meets]
    by_size = sorted(by_use, key=lambda block: -_typical(block.bytes))
    groups = min(
        (_coloured(order, meets, elements) for order in (by_use, by_size)), key=_total_size
    )
    sizes = _Sizes(program)
    turn = {name: number for number, name in enumerate(meets)}
    merged: dict[str, Block] = {}
    names: dict[str, str] = {}
    for group in groups:
        first, *others = sorted(group.members, key=lambda block: turn[block.name])
        largest = sizes.largest([first.bytes, *(b.bytes for b in others)], group.element)
        merged[first.name] = replace(first, bytes=largest)
        names.update({block.name: first.name for block in others})
    source = replace(program.program, derived=(*program.program.derived, *sizes.added))
    kept = tuple(merged[name] for name in meets if name in merged)
    return rename_blocks(replace(program, program=source, blocks=kept), names)


# ---------------------------------------------------------------- colours


@dataclass(slots=True)
class _Group:
    """Blocks of one colour."""

    members: list[Block]
    size: int  # about how many bytes
    element: int  # bytes of its largest elements

    def takes(self, block: Block, met: Collection[str], element: int) -> bool:
        if block.per_thread != self.members[0].per_thread:
            return False
        if block.per_thread and element != self.element:
            return False
        return all(member.name not in met for member in self.members)


def _coloured(
    order: Iterable[Block], meets: Mapping[str, Collection[str]], elements: Mapping[str, int]
) -> list[_Group]:
    """Each block joins the group that grows least; of these, the one that fits best."""
    groups: list[_Group] = []
    for block in order:
        size, element = _typical(block.bytes), elements[block.name]
        able = [group for group in groups if group.takes(block, meets[block.name], element)]
        if not able:
            groups.append(_Group([block], size, element))
            continue
        best = min(
            able, key=lambda g: (max(size - g.size, 0), g.element != element, max(g.size - size, 0))
        )
        best.members.append(block)
        best.size, best.element = max(best.size, size), max(best.element, element)
    return groups


def _typical(size: Size) -> int:
    return size.evaluate(dict.fromkeys(size.variables(), _TYPICAL))


def _total_size(groups: Sequence[_Group]) -> int:
    return sum(group.size * (_THREADS if group.members[0].per_thread else 1) for group in groups)


def element_sizes(program: Program) -> dict[str, set[int]]:
    """For each block the bytes of the elements that lie in it."""
    found: dict[str, set[int]] = {}
    alternatives = program.alternatives
    for let in walk.statements(program.program.body):
        for var in (*let.pattern, *walk.operands(let.expr)[2]):
            if isinstance(var.type, MemArray):
                for block in alternatives.get(var.type.block, (var.type.block,)):
                    found.setdefault(block, set()).add(var.type.dtype.itemsize)
    return found


# ---------------------------------------------------------------- sizes


class _Sizes:
    """Maxima of sizes: by proof, else as derived sizes."""

    def __init__(self, program: Program) -> None:
        self.source = program.program
        self.added: list[Derived] = []
        self._prover: Prover | None = None  # made when equality does not decide
        self._names: Names | None = None

    def largest(self, sizes: Sequence[Size], unit: int) -> Size:
        """The largest of sizes that are in bytes, as a multiple of `unit` bytes."""
        kept: list[Size] = []
        for size in dict.fromkeys(sizes):
            if not any(self.at_most(size, other) for other in kept):
                kept = [other for other in kept if not self.at_most(other, size)] + [size]
        if len(kept) == 1 and content(kept[0]) % unit == 0:
            return kept[0]
        common = gcd(*map(content, kept))
        unit = common if common % unit == 0 else unit
        parts = [self.rounded(size, unit) for size in kept]
        total = parts[0]
        for part in parts[1:]:
            total = self.derived("max", total, part)
        return total * unit

    def at_most(self, left: Size, right: Size) -> bool:
        if left == right:
            return True
        if _typical(left) > _typical(right):
            return False  # proofs are tried where they may succeed
        if self._prover is None:
            source = self.source
            self._prover = Prover(source.facts, sizes=source.sizes, derived=source.derived)
        return self._prover.less_equal(left, right)

    def rounded(self, size: Size, unit: int) -> Size:
        """How many units hold so many bytes."""
        if content(size) % unit == 0:
            return divided(size, unit)
        return self.derived("floordiv", size + (unit - 1), Poly.const(unit))

    def derived(self, operation: SizeOperation, left: Size, right: Size) -> Size:
        if self._names is None:
            self._names = Names.of(self.source)
        for entry in self.added:
            if (entry.operation, entry.left, entry.right) == (operation, left, right):
                return Poly.var(entry.name)
        new = Derived(self._names.fresh("largest"), operation, left, right)
        self.added.append(new)
        return Poly.var(new.name)
