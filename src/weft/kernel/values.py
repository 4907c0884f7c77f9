"""Arrays of a function that is interpreted: cells of memory, and references to them.

Python's arrays change in place, FUN's do not. A *cell* is the memory of one array: it holds
the array's present value, a tracer. Variables hold *references*: a cell, and the views through
which it is seen. A write makes a new value of the whole cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from weft.array import Array
from weft.array.access import put as put_at_key
from weft.errors import Place, UnsupportedError, user_place
from weft.frontend import layout
from weft.frontend.elementwise import apply
from weft.frontend.extent import Extent
from weft.functions import where
from weft.records import dataclass


@dataclass(eq=False, slots=True)
class Cell:
    """The memory of an array.

    Attributes
    ----------
    array : Array
        What it holds now.
    depth : int
        How many loops and branches were being traced when it was made.
    place : Place or None
        Where it was made.
    refusal : str
        Why it cannot be written; empty where it can.
    name : str
        The first variable that held it.
    layout : tuple or None
        How its axes lie in memory (`strides.Layout`); None in row-major order.
    source : Selection or None
        What it holds a copy of, of which NumPy would show the elements themselves.
    is_list : bool
        Whether it is a list of Python's (`weft.kernel.ordered`).
    """

    array: Array
    depth: int
    place: Place | None = None
    refusal: str = ""
    name: str = "v"
    layout: tuple[tuple[int, int], ...] | None = None
    source: Selection | None = None
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class KeyView:
    """What a basic key selects."""

    key: Any

    def get(self, array: Array) -> Array:
        return array[self.key]

    def put(self, array: Array, part: Any, combine: str | None = None) -> Array:
        return Array(put_at_key(array._node, self.key, part, combine))


@dataclass(frozen=True, slots=True)
class PermutedView:
    """The dimensions in another order."""

    axes: tuple[int, ...]

    def get(self, array: Array) -> Array:
        return Array(layout.permute(array._node, self.axes))

    def put(self, array: Array, part: Array) -> Array:
        back = [self.axes.index(axis) for axis in range(len(self.axes))]
        return Array(layout.permute(part._node, back))


@dataclass(frozen=True, slots=True)
class ReshapedView:
    """The elements in row-major order, in another shape."""

    shape: tuple[Any, ...]

    def get(self, array: Array) -> Array:
        return Array(layout.reshape(array._node, self.shape))

    def put(self, array: Array, part: Array) -> Array:
        return Array(layout.reshape(part._node, array._node.shape))


@dataclass(frozen=True, slots=True)
class PartView:
    """The real or the imaginary parts of complex numbers."""

    name: str

    def get(self, array: Array) -> Array:
        part: Array = getattr(array, self.name)
        return part

    def put(self, array: Array, part: Array) -> Array:
        parts = (part, array.imag) if self.name == "real" else (array.real, part)
        return Array(apply("complex", *(given._node for given in parts)))


@dataclass(frozen=True, slots=True)
class ComputedView:
    """What a function gives of the array, which can be read alone."""

    function: Callable[[Array], Array]
    refusal: str

    def get(self, array: Array) -> Array:
        return self.function(array)

    def put(self, array: Array, part: Array) -> Array:
        raise UnsupportedError(self.refusal, "a write to the array", "", place=user_place())


View: TypeAlias = KeyView | PermutedView | ReshapedView | PartView | ComputedView


@dataclass(eq=False, slots=True)
class Reference:
    """What a variable that holds an array holds."""

    cell: Cell
    views: tuple[View, ...] = ()

    def read(self) -> Array:
        array = self.cell.array
        for view in self.views:
            array = view.get(array)
        return array

    def through(self, view: View) -> Reference:
        if self.shows_part and not isinstance(view, ComputedView):
            *before, last = self.views  # the parts of few elements, rather than of all
            return Reference(self.cell, (*before, view, last))
        return Reference(self.cell, (*self.views, view))

    @property
    def shows_part(self) -> bool:
        """Whether these are parts of complex numbers."""
        return bool(self.views) and isinstance(self.views[-1], PartView)

    def same(self, other: Any) -> bool:
        return isinstance(other, Reference) and (
            self is other or (self.cell is other.cell and not self.views and not other.views)
        )


@dataclass(eq=False, slots=True)
class OneOf(Reference):
    """One of several arrays, by a number that only the run knows (`weft.kernel.one_of`).

    Attributes
    ----------
    cell : Cell
        That is nobody's: what it holds is never looked at.
    options : tuple of Reference
        Of one shape and dtype.
    place : Array
        Which of them it is.
    """

    options: tuple[Reference, ...] = ()
    place: Any = 0

    def read(self) -> Array:
        return self.picked(Reference.read)

    def picked(self, part: Callable[[Reference], Array]) -> Array:
        """A part of that which it is."""
        *before, found = (part(option) for option in self.options)
        for number in reversed(range(len(before))):
            found = where(self.place == number, before[number], found)
        return found

    def through(self, view: View) -> Reference:
        shown = tuple(option.through(view) for option in self.options)
        return OneOf(self.cell, (), shown, self.place)

    def same(self, other: Any) -> bool:
        return self is other


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """A number or an array that may not be there; see `weft.kernel.maybe`.

    Attributes
    ----------
    number : object
        Where there is none it is never looked at.
    present : Array
        Whether there is one.
    absent : object
        What a variable is else: None, or unbound.
    """

    number: Any
    present: Array
    absent: Any


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What a mask selects of an array of its shape; NumPy has the elements in one dimension."""

    array: Array
    mask: Array
    held: Held | None = None


@dataclass(eq=False, slots=True)
class Held:
    """Where a variable began to hold what a mask selects.

    Attributes
    ----------
    frame : Frame
        Of the variable.
    place : Place
    depth : int
        In how many loops and branches.
    is_shown : bool
        Whether views of it were made since.
    """

    frame: Any
    place: Place
    depth: int
    is_shown: bool = False


class WritesSelection(Exception):  # noqa: N818 - a signal: trace the function again
    """What a mask selects is written, which a variable began to hold at a place."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place


def replaced(array: Array, views: Sequence[View], part: Array) -> Array:
    """An array with another part where views show one."""
    if not views:
        return part
    first, *rest = views
    return first.put(array, replaced(first.get(array), rest, part))


@dataclass(eq=False, slots=True)
class Region:
    """A loop's body or a branch while it is traced.

    Attributes
    ----------
    depth : int
    carried : set of Cell or None
        The cells that a loop carries; None in a branch.
    journal : dict
        What the cells held that are written in it and were made outside.
    path : tuple of int
        Which part of which region it is, by number, each time that it is traced.
    visits : int
        How many parts of it have begun.
    rounds : Extent or None
        At most so many has a loop; None where no extent says it.
    granted : set
        Which appends in it there is room for in lists that were made outside (`weft.kernel.grown`).
    """

    depth: int
    carried: set[Cell] | None
    journal: dict[Cell, Array] = field(default_factory=dict)
    path: tuple[int, ...] = ()
    visits: int = 0
    rounds: Extent | None = None
    granted: set[Any] = field(default_factory=set)

    @property
    def is_loop(self) -> bool:
        return self.carried is not None


class NotCarried(Exception):  # noqa: N818 - a signal: trace the loop again
    """A loop's body writes a cell that it does not carry."""

    def __init__(self, region: Region, cell: Cell) -> None:
        super().__init__()
        self.region = region
        self.cell = cell


class Memory:
    """The cells of a function being interpreted, and the regions in which it is traced."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self._root = Region(0, None)

    def make(self, array: Array, place: Place | None = None) -> Reference:
        return Reference(Cell(array, len(self.regions), place))

    def write(self, cell: Cell, array: Array) -> None:
        before = cell.array
        for region in reversed(self.regions):
            if region.depth <= cell.depth:
                break
            if cell not in region.journal:
                if region.carried is not None and cell not in region.carried:
                    raise NotCarried(region, cell)
                region.journal[cell] = before
            before = region.journal[cell]  # that of the region around
        cell.array = array

    def enter(self, carried: set[Cell] | None = None) -> Region:
        """Begin a region: `leave` it again, whatever happens."""
        region = Region(len(self.regions) + 1, carried)
        self.regions.append(region)
        return region

    def visit(self) -> tuple[int, ...]:
        """The path of a part of the region that is traced, which begins now."""
        around = self.regions[-1] if self.regions else self._root
        around.visits += 1
        return (*around.path, around.visits)

    def leave(self, region: Region) -> dict[Cell, Array]:
        """End a region: cells hold again what they held. Gives what they hold at its end."""
        assert self.regions.pop() is region
        after = {cell: cell.array for cell in region.journal}
        for cell, before in region.journal.items():
            cell.array = before
        return after
