"""What all of one segment's lowering shares: names, memory, checks, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from weft.errors import InternalError, Place
from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.mem.expand import LINE
from weft.mem.nodes import THREADS, Choice, MemArray
from weft.ops.dtypes import DType
from weft.plan.segment import CollisionCheck
from weft.records import dataclass
from weft.sizes import ZERO, Derived, Poly, Size, as_poly
from weft.sizes.division import content
from weft.sizes.prove import Prover

if TYPE_CHECKING:
    from weft.lower.emitter import Emitter

FIRST_FAILURE = 16
LINES = "workspace.lines"
"""The size that says how many cache lines the workspace's blocks take, where these end anywhere."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a block lies: in which buffer of the call, how far into it."""

    buffer: int  # -1: the workspace
    offset: Size
    per_thread: Size | None = None  # bytes of each thread's own copy
    alone: bool = True  # nothing else reaches this memory


@dataclass(frozen=True, slots=True)
class Bounds:
    """An access for the launch to prove: see `plan.segment.BoundsCheck`."""

    lower: tuple[Size, ...]
    upper: tuple[Size, ...]
    extent: Size
    nonempty: tuple[Size, ...]
    array: str
    axis: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class IndexFailure:
    kind: Literal["index", "collision"]
    array: str
    axis: int
    place: Place | None
    from_end: bool = False


@dataclass(slots=True)
class Unit:
    """One program's lowering."""

    blocks: dict[str, Placed]
    nonnegative: Callable[[Poly], bool]
    statement: Callable[[Emitter, fun.Let], None]
    sizes: frozenset[str]  # what a launch knows
    scratch_end: Size = ZERO  # where the workspace's blocks end, and what is added to them
    derived: list[Derived] = field(default_factory=list)  # sizes that lowering needs
    # Of these, first of all: the integers that the program takes, as they are needed.
    taken: dict[str, imp.Var] = field(default_factory=dict)
    lines: imp.Var = imp.Var("lines", DType.I64)  # the integer `LINES`
    choices: dict[str, Choice] = field(default_factory=dict)
    prover: Callable[[], Prover] = Prover
    checks: dict[Bounds, None] = field(default_factory=dict)
    collisions: dict[CollisionCheck, None] = field(default_factory=dict)
    foreseen: dict[Poly, None] | None = None  # what is to be >= 0, if that is foreseen
    failures: dict[IndexFailure, int] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    dtypes: dict[str, set[DType]] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)  # copies that memory needed: of what
    counters: dict[str, int] = field(default_factory=dict)
    from_end: frozenset[str] = frozenset()  # scalars that count from an axis's end if negative
    counted: set[imp.Expr] = field(default_factory=set)  # what these are
    batched: bool = False  # items load several elements before they combine them
    aligned: bool = True  # rows near a core have vectors with masks before those that are aligned

    def fresh(self, prefix: str) -> str:
        number = self.counters.get(prefix, 0)
        self.counters[prefix] = number + 1
        return f"{prefix}{number}"

    def var(self, prefix: str, dtype: DType) -> imp.Var:
        return imp.Var(self.fresh(prefix), dtype)

    def integer(self, prefix: str) -> imp.Var:
        return imp.Var(self.fresh(prefix), DType.I64)

    def pointer(self, prefix: str, dtype: DType) -> imp.Pointer:
        return imp.Pointer(self.fresh(prefix), dtype)

    @contextmanager
    def foreseeing(self) -> Iterator[dict[Poly, None]]:
        """Inside, an index is not checked where sizes alone say whether it is in its array.

        What is given are the sizes that are to be >= 0 for that: whoever launches what is lowered
        has the launch find that none of them is negative.
        """
        before, self.foreseen = self.foreseen, {}
        yield self.foreseen
        self.foreseen = before

    def scratch(self) -> str:
        """A cache line of the workspace's end that all threads share, as a block."""
        return self.region(as_poly(64))

    def region(self, count: Size) -> str:
        """As many bytes (a multiple of 64) of the workspace's end, as a block of whole lines."""
        name = self.fresh("scratch.")
        if name == "scratch.0" and content(self.scratch_end) % LINE:  # behind the blocks
            end, line = self.scratch_end + (LINE - 1), as_poly(LINE)
            self.take(Derived(LINES, "floordiv", end, line), self.lines)
            self.scratch_end = Poly.var(LINES) * LINE
        self.blocks[name] = Placed(-1, self.scratch_end, alone=False)
        self.scratch_end = self.scratch_end + count
        return name

    def own_region(self, stride: Size) -> str:
        """As many bytes (a multiple of 64) of the workspace's end for each thread, as a block."""
        name = self.region(stride * Poly.var(THREADS))
        self.blocks[name] = replace(self.blocks[name], per_thread=stride, alone=True)
        return name

    def take(self, entry: Derived, var: imp.Var) -> None:
        """The program takes a size that the launch computes, as a variable."""
        self.taken[entry.name] = var
        self.derived.insert(0, entry)

    @property
    def workspace(self) -> Size:
        """The bytes of workspace: blocks, then scratch."""
        return self.scratch_end + 64

    def failure(
        self,
        array: str,
        axis: int,
        place: Place | None,
        kind: Literal["index", "collision"] = "index",
        index: imp.Expr | None = None,
    ) -> int:
        array = self.originals.get(array, array)
        key = IndexFailure(kind, array, axis, place, index in self.counted)
        return self.failures.setdefault(key, FIRST_FAILURE + len(self.failures))


def memory(var: fun.Var | fun.Type) -> MemArray:
    """The memory of an array variable."""
    type_ = var.type if isinstance(var, fun.Var) else var
    if not isinstance(type_, MemArray):
        raise InternalError(f"lower: an array without memory: {var}")
    return type_
