"""The heap of the FUNMEM interpreter: blocks of bytes, and traces of what is read and written.

An array in memory is its element numbers: where in the block (counted in elements of its
dtype) each of its elements lies. The blocks know which of their bytes were ever written. An
iteration of a kernel is one trace, two sets of cells (a cell is the smallest element of its
block, numbered throughout the heap), as in figures 4.8 and 4.9 of Munksgaard's *Static and
Dynamic Analyses for Efficient GPU Execution* (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np

from weft.errors import InternalError, Place
from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray, Program
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import Size

_NOISE = 0xA5
_ALIGNMENT = 16

Numbers: TypeAlias = Any  # an int64 ndarray
Kind: TypeAlias = Literal["given", "shared", "thread"]


class Located(NamedTuple):
    """Where an array lies now, as numbers: its index function evaluated."""

    block: str
    dtype: DType
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def numbers(self) -> Numbers:
        """The number of each element, an int64 array of the array's shape."""
        total: Numbers = np.full(self.shape, self.offset, np.int64)
        rank = len(self.shape)
        for axis, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = np.arange(extent, dtype=np.int64) * stride
            total += steps.reshape((extent,) + (1,) * (rank - axis - 1))
        return total

    def same(self, other: Located) -> bool:
        """Whether both are the same memory, element by element."""
        if 0 in self.shape:
            return self.shape == other.shape
        return self[:4] == other[:4] and all(
            left == right or extent == 1
            for extent, left, right in zip(self.shape, self.strides, other.strides, strict=True)
        )


@lru_cache(maxsize=1 << 16)
def evaluator(sizes: tuple[Size, ...]) -> Callable[[dict[str, Any]], tuple[int, ...]]:
    """The values of some polynomials as a function of those of their variables."""
    parts = []
    for size in sizes:
        terms = [
            "*".join([str(factor), *(f"int(v[{name!r}])" for name in monomial)])
            for monomial, factor in size.terms.items()
        ]
        parts.append(" + ".join(terms) or "0")
    text = "".join(part + ", " for part in parts)
    function: Callable[[dict[str, Any]], tuple[int, ...]] = eval(f"lambda v: ({text})")
    return function


@dataclass(slots=True)
class Costs:
    """What a run of a FUNMEM program cost.

    Attributes
    ----------
    allocations, allocated_bytes : int
        Temporary blocks, and their bytes (of one thread).
    copies, copied_bytes : int
        How often elements were moved as they are, from other memory, by a `Copy`, one part of
        a `Concat`, or an `Update` with an array; and how many bytes.
    read_bytes, written_bytes : int
        Of all elements read and written, also by copies. What stays the same along a loop is
        read once before it (see `weft.mem.invariants`).
    """

    allocations: int = 0
    allocated_bytes: int = 0
    copies: int = 0
    copied_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass(slots=True)
class Trace:
    """The cells that one iteration has read and written (R and W of figure 4.8).

    In memory of a thread iterations of an inner kernel may use the same cells one after
    another: there `seen` are the cells read that the iteration itself had not written before.
    """

    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)
    scratch: set[int] = field(default_factory=set)

    def read(self, cells: Iterable[int], private: bool) -> None:
        if private:
            self.seen.update(cell for cell in cells if cell not in self.scratch)
        else:
            self.reads.update(cells)

    def write(self, cells: Iterable[int], private: bool) -> None:
        (self.scratch if private else self.writes).update(cells)


@dataclass(slots=True)
class Iterations:
    """What the iterations of a running kernel did: each cell with the last one that did it."""

    count: int = 0
    reads: dict[int, int] = field(default_factory=dict)
    writes: dict[int, int] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=dict)

    def conflict(self, trace: Trace, inner: bool) -> tuple[int, str] | None:
        """A cell that breaks race freedom (equation 4.1) with an earlier iteration, and how."""
        pairs: list[tuple[set[int], str, dict[int, int], str]] = [
            (trace.writes, "writes", self.writes, "writes"),
            (trace.writes, "writes", self.reads, "reads"),
            (trace.reads, "reads", self.writes, "writes"),
        ]
        if inner:
            pairs.append((trace.scratch, "writes", self.seen, "reads"))
            pairs.append((trace.seen, "reads", self.scratch, "writes"))
        for mine, this, others, that in pairs:
            common = mine & others.keys()
            if common:
                cell = min(common)
                return cell, f"iteration {self.count} {this} what iteration {others[cell]} {that}"
        return None

    def add(self, trace: Trace) -> None:
        for mine, others in (
            (trace.reads, self.reads),
            (trace.writes, self.writes),
            (trace.seen, self.seen),
            (trace.scratch, self.scratch),
        ):
            others.update(dict.fromkeys(mine, self.count))


class Memory:
    """A block: its bytes, which of its cells were written, and what they are numbered from."""

    def __init__(
        self, name: str, size: int, kind: Kind, cell: int, first: int, origin: int = 0
    ) -> None:
        self.name, self.size, self.kind = name, size, kind
        self.cell = cell  # bytes
        self.first = first  # number of the first cell
        self.origin = origin  # bytes before the element [0, ..., 0] of a parameter
        self.data = np.full(-(-size // _ALIGNMENT) * _ALIGNMENT, _NOISE, np.uint8)
        self.written = bytearray(-(-size // cell))
        self.flags: Any = np.frombuffer(self.written, np.uint8)
        self.views: dict[DType, Any] = {}

    def spoil(self) -> None:
        self.data[:] = _NOISE
        self.flags[:] = 0

    def view(self, dtype: DType) -> Any:
        """The whole block as elements of a dtype."""
        view = self.views.get(dtype)
        if view is None:
            view = self.views[dtype] = self.data.view(dtype.numpy)
        return view


class Heap:
    """All blocks, the kernels that are running, and what has been read and written."""

    def __init__(self, program: Program) -> None:
        self.cells = _cells(program)  # bytes of a cell of each block
        self.blocks: dict[str, Memory] = {}
        self.private: list[Memory] = []  # those of threads
        self.next_cell = 0
        self.traces: list[Trace] = []
        self.costs = Costs()
        self.place: Place | None = None

    def allocate(self, name: str, size: int, kind: Kind, origin: int = 0) -> Memory:
        cell = self.cells.get(name, 1)
        memory = self.blocks[name] = Memory(name, size, kind, cell, self.next_cell, origin)
        self.next_cell += len(memory.written)
        if kind == "thread":
            self.private.append(memory)
        return memory

    def touch(self, memory: Memory, cells: Sequence[int], writes: bool) -> None:
        """Note that cells of a block, by their numbers in it, are read or written."""
        if self.traces:
            trace, first = self.traces[-1], memory.first
            note = trace.write if writes else trace.read
            note([first + cell for cell in cells], memory.kind == "thread")

    # ------------------------------------------------------------ one element

    def read(self, at: Located, index: Sequence[int], counts: bool = True) -> Any:
        """An element; it costs nothing where it `counts` for nothing."""
        memory, element, start, count = self.find(at, index)
        if not all(memory.written[start : start + count]):
            self.unwritten(memory, element)
        self.touch(memory, range(start, start + count), writes=False)
        if counts:
            self.costs.read_bytes += at.dtype.itemsize
        return memory.view(at.dtype)[element]

    def write(self, at: Located, index: Sequence[int], value: Any) -> None:
        memory, element, start, count = self.find(at, index)
        self.writable(memory)
        memory.written[start : start + count] = b"\1" * count
        self.touch(memory, range(start, start + count), writes=True)
        self.costs.written_bytes += at.dtype.itemsize
        memory.view(at.dtype)[element] = value

    def find(self, at: Located, index: Sequence[int]) -> tuple[Memory, int, int, int]:
        """The block and the number of an element, its first cell and their count."""
        memory, size = self.blocks[at.block], at.dtype.itemsize
        number = at.offset
        for i, stride in zip(index, at.strides, strict=True):
            number += i * stride
        byte = memory.origin + number * size
        if not 0 <= byte <= memory.size - size:
            self.outside(memory, number)
        return memory, byte // size, byte // memory.cell, size // memory.cell

    # ------------------------------------------------------------ many elements

    def read_all(self, at: Located, numbers: Numbers) -> Any:
        memory, elements, cells = self.find_all(at, numbers)
        if not memory.flags[cells].all():
            bad = int(np.argmin(memory.flags[cells])) * memory.cell // at.dtype.itemsize
            self.unwritten(memory, elements.ravel()[bad])
        self.touch(memory, cells.tolist(), writes=False)
        self.costs.read_bytes += numbers.size * at.dtype.itemsize
        return memory.view(at.dtype)[elements]

    def write_all(self, at: Located, numbers: Numbers, values: Any) -> None:
        memory, elements, cells = self.find_all(at, numbers)
        if not numbers.size:
            return
        self.writable(memory)
        if len(set(cells.tolist())) != cells.size:
            raise self.error(f"an element of block {memory.name} is written twice", "one value")
        memory.flags[cells] = 1
        self.touch(memory, cells.tolist(), writes=True)
        self.costs.written_bytes += numbers.size * at.dtype.itemsize
        memory.view(at.dtype)[elements] = values

    def copy(self, source: Located, taken: Numbers, target: Located, given: Numbers) -> None:
        """Move elements as they are; nothing happens where source and target are the same."""
        if source.block == target.block and np.array_equal(taken, given):
            return
        if not taken.size:
            return
        cells = [self.find_all(at, n)[2] for at, n in ((source, taken), (target, given))]
        if source.block == target.block and not set(cells[0].tolist()).isdisjoint(
            cells[1].tolist()
        ):
            raise self.error(
                f"a copy within block {source.block} overwrites elements that it reads",
                "source and target that are disjoint, or the same",
            )
        self.write_all(target, given, self.read_all(source, taken))
        self.costs.copies += 1
        self.costs.copied_bytes += taken.size * source.dtype.itemsize

    def find_all(self, at: Located, numbers: Numbers) -> tuple[Memory, Numbers, Numbers]:
        """The block, the numbers of elements in it, and all their cells, in order."""
        memory, size = self.blocks[at.block], at.dtype.itemsize
        elements = numbers + memory.origin // size
        if elements.size:
            low, high = int(elements.min()), int(elements.max())
            if low < 0 or (high + 1) * size > memory.size:
                self.outside(memory, low if low < 0 else high)
        count = size // memory.cell
        cells = elements.reshape(-1, 1) * count + np.arange(count)
        return memory, elements, cells.ravel()

    # ------------------------------------------------------------ kernels

    def begin(self, iterations: Iterations) -> None:
        """Begin the next iteration of a kernel."""
        iterations.count += 1
        self.traces.append(Trace())
        self.refresh()

    def refresh(self) -> None:
        """In an iteration of an outermost kernel: a thread's memory is noise again."""
        if len(self.traces) == 1:
            for memory in self.private:
                memory.spoil()

    def end(self, iterations: Iterations) -> None:
        """End an iteration: no other may have written what it used, nor used what it wrote."""
        trace = self.traces.pop()
        found = iterations.conflict(trace, inner=bool(self.traces))
        if found is not None:
            cell, what = found
            memory = max(
                (m for m in self.blocks.values() if m.first <= cell and m.written),
                key=lambda m: m.first,
            )
            byte = (cell - memory.first) * memory.cell - memory.origin
            raise self.error(
                f"{what}: byte {byte} of block {memory.name}",
                "iterations of a kernel that do not meet",
            )
        iterations.add(trace)

    def finish(self, iterations: Iterations) -> None:
        """A kernel is done: what its iterations did is what the iteration around it did."""
        if self.traces:
            outer = self.traces[-1]
            outer.reads.update(iterations.reads)
            outer.writes.update(iterations.writes)
            outer.seen.update(iterations.seen.keys() - outer.scratch)
            outer.scratch.update(iterations.scratch)

    # ------------------------------------------------------------ errors

    def writable(self, memory: Memory) -> None:
        if memory.kind == "given":
            raise self.error(f"parameter {memory.name} is overwritten", "parameters that stay")

    def outside(self, memory: Memory, number: int) -> NoReturn:
        raise self.error(
            f"element {number} is outside block {memory.name}", f"one in {memory.size} bytes"
        )

    def unwritten(self, memory: Memory, element: int) -> NoReturn:
        raise self.error(
            f"element {element} of block {memory.name} is read, but was never written",
            "reads of what was written before",
        )

    def error(self, found: str, expected: str) -> InternalError:
        return InternalError(found, expected, place=self.place)


def _cells(program: Program) -> dict[str, int]:
    """For each block the bytes of its smallest element."""
    whole, cells, alternatives = program.program, dict[str, int](), program.alternatives

    def use(type_: fun.Type) -> None:
        if isinstance(type_, MemArray):
            size = type_.dtype.itemsize
            for block in alternatives.get(type_.block, (type_.block,)):
                cells[block] = min(size, cells.get(block, size))

    for type_ in (*(p.type for p in whole.params), *program.destinations):
        use(type_)
    for let in walk.statements(whole.body):
        for var in (*let.pattern, *walk.operands(let.expr)[2]):
            use(var.type)
    return cells
