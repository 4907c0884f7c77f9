"""What a call of a user's function is while it is interpreted: its variables, and where it is."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, NoReturn

import numpy as np

from weft.array import Array, asarray
from weft.errors import Place, TracingError, UndefinedNameError, UnsupportedError, user_place
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.kernel import named
from weft.kernel.assertions import Assertions
from weft.kernel.lists import Grown
from weft.kernel.measured import Measured
from weft.kernel.strides import layout_of
from weft.kernel.syntax import Source, is_result
from weft.kernel.values import Cell, Held, Maybe, Memory, OneOf, Reference, Selection
from weft.records import dataclass

Origin = tuple[Cell, Array | None]
"""What an array is a copy of, and what that held then; None: what it holds now."""

Number = Array | bool | int | float | complex | Extent | np.generic


@dataclass(frozen=True, slots=True)
class Unbound:
    """The value of a variable that some path does not assign, or assigns another kind of value.

    `found`: what it is then, "a number or None"; empty where it has no value.
    """

    place: Place | None
    found: str = ""


class ReadUnbound(Exception):  # noqa: N818 - a signal: a later round of a loop may bind it
    """A variable is read that has no value yet, where a loop is traced that binds it."""

    def __init__(self, frame: Frame, name: str, error: TracingError) -> None:
        super().__init__()
        self.frame = frame
        self.name = name
        self.error = error

    def note(self) -> None:
        """Let the loop know."""
        self.frame.read_unbound[self.name] = self.error


class NoneOperandError(TypeError):
    """An operation on None, of which a branch that needs a number may be traced too early."""


INSTEAD_OF_NONE = (
    "a number to begin with, as -1 or np.inf, or another variable that says whether there is one"
)


@dataclass(slots=True)
class Trace:
    """What all calls share that are interpreted into one program.

    Attributes
    ----------
    memory : Memory
    parallel : dict of Place to str
        Where the `prange` loops stand, and what they count.
    rebound : dict of Place to frozenset of str
        The arrays whose names the rounds of such a loop bind anew.
    constants : dict
        Arrays of closures, by id.
    cuts : dict
        By where they were made, and their bounds: lengths, and slices of these (`keys`).
    scalars : dict
        The first scalar computed as another is, by that and by how, of those that bound slices.
    copies : dict of Cell to list of Origin
        Arrays that are copies of one of several: of which, and what these held then.
    lists : dict
        Python's lists and dicts that variables hold, by id, and in how many loops and branches
        each was made.
    literals, growing : dict
        Which expressions made lists, by id; and which made lists that grow (`grown`), and whether
        these are some of which one is chosen (`rebound`).
    room : int
        For how many elements of a list that nothing bounds.
    separate : set of Place
        Where variables begin to hold what masks select as arrays of their own, which are written.
    present : set of Node
        Flags that are known to be True, by the branches around.
    measured : Measured
        The lengths that other programs have computed.
    call : callable
        Interprets a user's function: `call(trace, function, arguments, by_keyword)`.
    enter : callable
        Interprets a function within one: `enter(frame, definition)`.
    """

    memory: Memory
    call: Callable[..., Any]
    enter: Callable[..., Any]
    parallel: dict[Place, str] = field(default_factory=dict)
    rebound: dict[Place, frozenset[str]] = field(default_factory=dict)
    constants: dict[int, Reference] = field(default_factory=dict)
    cuts: dict[Any, list[tuple[Extent, slice]]] = field(default_factory=dict)
    scalars: dict[Any, Node] = field(default_factory=dict)
    copies: dict[Cell, list[Origin]] = field(default_factory=dict)
    assertions: Assertions = field(default_factory=Assertions)
    lists: dict[int, tuple[list[Any] | dict[Any, Any], int]] = field(default_factory=dict)
    literals: dict[int, tuple[list[Any], Place]] = field(default_factory=dict)
    growing: dict[Place, bool] = field(default_factory=dict)
    room: int = 0
    separate: set[Place] = field(default_factory=set)
    present: set[Node] = field(default_factory=set)
    measured: Measured = field(default_factory=Measured)
    depth: int = 0  # of calls


@dataclass(slots=True)
class Frame:
    """One call of a function.

    Attributes
    ----------
    source : Source
    trace : Trace
    variables : dict
        By name: Python values, scalars that are traced (`Array`), `Reference`s to arrays.
    assigned_at : dict of str to Place
        Where each variable was assigned last.
    foreign : set of Cell
        Arrays that others may see too: those of the arguments.
    awaited : list of set of str
        For each loop that is traced, what it binds for the rounds that follow.
    read_unbound : dict
        Those that were read before they had a value, and the error where they never get one.
    enclosing : Frame or None
        Of the function around, whose variables are read, all but the `own`; see `closures`.
    """

    source: Source
    trace: Trace
    variables: dict[str, Any]
    assigned_at: dict[str, Place] = field(default_factory=dict)
    foreign: set[Cell] = field(default_factory=set)
    awaited: list[set[str]] = field(default_factory=list)
    read_unbound: dict[str, TracingError] = field(default_factory=dict)
    enclosing: Frame | None = None
    own: frozenset[str] = frozenset()

    @property
    def memory(self) -> Memory:
        return self.trace.memory

    def place(self, node: ast.AST) -> Place:
        return self.source.place(node)

    def refuse(self, node: ast.AST, found: str, expected: str = "", advice: str = "") -> NoReturn:
        """Say that something is not supported, and what is."""
        raise UnsupportedError(found, expected, advice, place=self.place(node))

    # ------------------------------------------------------------ variables

    def look_up(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.variables:
            value = self.variables[name]
            if isinstance(value, Unbound):
                self._refuse_unbound(node, value.found)
            self._check_current(node, value)
            return value
        if is_result(name):
            self._refuse_unbound(node, "not one number, or one array")
        function = self.source.function
        if self._is_own(name):
            self._refuse_unbound(node, "")
        if self.enclosing is not None:
            return self.enclosing.look_up(node)
        if name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            return self.outside(cell.cell_contents)
        if name in function.__globals__:
            return self.outside(function.__globals__[name])
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise UndefinedNameError(
            f"name {name} is not defined", "a variable, or a name of the module",
            f"assign {name} before it is read, or give it as an argument",
            place=self.place(node),
        )  # fmt: skip

    def _check_current(self, node: ast.Name, value: Any) -> None:
        """Refuse to read a copy of what has been written since."""
        for cell in cells(value):
            for source, held in self.trace.copies.get(cell, ()):
                if source.array is not held:
                    self.refuse(
                        node, f"{node.id} is one of several arrays, by a branch or loop, and one "
                        "of them is written before it is read here",
                        "no such write, or an array that is known while compiling",
                        f"{node.id} = {node.id}.copy() where it is bound, if it is to keep its "
                        "values, or read it in the branch",
                    )  # fmt: skip

    def _refuse_unbound(self, node: ast.Name, found: str) -> NoReturn:
        if is_result(node.id):
            self.refuse(
                node, f"what a return in this loop gives is {found or 'not always there'}",
                "returns of one kind: all of a number, or all of as many, or all of nothing",
                "return values of one kind on every path",
            )  # fmt: skip
        if found:
            self.refuse(
                node, f"{node.id} is {found} here, by which branches and rounds came before",
                "one kind of value",
                INSTEAD_OF_NONE if "None" in found
                else f"another variable in place of {node.id} in one branch",
            )  # fmt: skip
        error = UndefinedNameError(
            f"{node.id} may have no value here", "a value on every path",
            f"assign {node.id} before the branch or loop", place=self.place(node),
        )  # fmt: skip
        raise ReadUnbound(self, node.id, error) if self.is_awaited(node.id) else error

    def is_awaited(self, name: str) -> bool:
        """Whether a loop that is traced may bind a variable for the rounds that follow."""
        return any(name in names for names in self.awaited)

    def is_sure(self, name: str) -> bool:
        """Whether a name may be read in any case."""
        if name in self.variables:
            return not isinstance(self.variables[name], Maybe | Unbound)
        if self._is_own(name):
            return False
        return self.enclosing is None or self.enclosing.is_sure(name)

    def _is_own(self, name: str) -> bool:
        """Whether a name is that of a variable of this function, rather than of one around."""
        if self.enclosing is not None:
            return name in self.own
        code = self.source.function.__code__
        return name in code.co_varnames or name in code.co_cellvars

    def constant(self, value: Any) -> Any:
        """A value from outside the function; arrays are constants that cannot be written."""
        if not isinstance(value, np.ndarray) or not value.shape:
            return value
        known = self.trace.constants.get(id(value))
        if known is None:
            known = self.trace.memory.make(asarray(value))
            known.cell.depth = 0
            known.cell.layout = layout_of(value)
            known.cell.refusal = "it is an array from outside the function, a constant"
            self.trace.constants[id(value)] = known
        return known

    def made(self, value: Any, node: ast.AST) -> Any:
        """What a function that was called while compiling made: its arrays are the kernel's own."""
        if isinstance(value, tuple | list) and type(value) in (tuple, list):
            return type(value)(self.made(part, node) for part in value)
        if not isinstance(value, np.ndarray) or not value.shape:
            return value
        return self.memory.make(asarray(value), self.place(node))

    def outside(self, value: Any) -> Any:
        """A value that others hold too: a constant, whose lists cannot be written either."""
        self._note_lists(value, -1)
        return self.constant(value)

    def held(self, value: Any, node: ast.AST) -> Any:
        """A value that several may hold from now on: an array in memory that is its own."""
        if isinstance(value, Array) and value.ndim:
            return self.memory.make(value, self.place(node))
        if isinstance(value, Selection):
            return self._selected(value, self.place(node))
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self.held(part, node) for part in value)
        if type(value) is list:
            value[:] = [self.held(part, node) for part in value]
        if type(value) is dict:
            value |= {key: self.held(part, node) for key, part in value.items()}
        return value

    def _selected(self, value: Selection, place: Place) -> Selection | Reference:
        """What a mask selects, noted where it is held; an array of its own where it is written."""
        from weft.kernel.selection import compacted  # which knows frames

        if value.held is not None:
            return value
        if place in self.trace.separate:
            return self.memory.make(compacted(value), place)
        return Selection(value.array, value.mask, Held(self, place, len(self.memory.regions)))

    def assign(self, name: str, value: Any, node: ast.AST) -> None:
        value = self.held(value, node)
        if isinstance(value, Reference) and value.cell.name == "v":
            value.cell.name = name
        self._note_lists(value, len(self.memory.regions))
        self.variables[name] = value
        self.assigned_at[name] = self.place(node)

    def _note_lists(self, value: Any, depth: int) -> None:
        if isinstance(value, list | dict):
            self.trace.lists.setdefault(id(value), (value, depth))
        if isinstance(value, list | tuple | dict):
            for part in value.values() if isinstance(value, dict) else value:
                self._note_lists(part, depth)

    def require_own(self, node: ast.AST, held: list[Any] | dict[Any, Any]) -> None:
        """Refuse to write to a list or dict in a loop or branch around which it was made.

        They are Python's own while compiling: nothing chooses, or carries, what they hold.
        """
        _, depth = self.trace.lists.get(id(held), (held, len(self.memory.regions)))
        if depth < len(self.memory.regions):
            where = "in a loop or branch that it was made outside of"
            kind = "list" if isinstance(held, list) else "dict"
            self.refuse(
                node, f"a write to a {kind} {where if depth >= 0 else 'from outside the function'}",
                f"an array, or a {kind} made where it is written",
                "np.array([...]) in its place" if kind == "list" else
                "a variable of its own for what changes: t = p['t'] before, and p['t'] = t after",
            )  # fmt: skip

    def sources(self, reference: Reference, holders: Iterable[Any]) -> list[Origin]:
        """What a copy of an array has to be like that others see; nothing where nobody does."""
        if self.is_sole(reference, holders):
            return []
        return [
            origin for cell in cells(reference)
            for origin in self.trace.copies.get(cell, [(cell, None)])
        ]  # fmt: skip

    def copied(
        self, array: Array, sources: Iterable[Origin], what: str, node: ast.AST
    ) -> Reference:
        """Memory for an array that is a copy of one of the sources, by a branch or a loop.

        It cannot be written, nor read after one of them has been written.
        """
        place = self.place(node)
        made = self.memory.make(array, place)
        self.note_sources(made, sources)
        if made.cell in self.trace.copies:
            made.cell.refusal = (
                f"it is one of several arrays, by the {what} at {place}; write it there, or make "
                "it a copy: x = x.copy()"
            )
        return made

    def note_sources(self, copy: Reference, sources: Iterable[Origin]) -> None:
        """Note what an array is a copy of, if it is one."""
        found = [(cell, cell.array if held is None else held) for cell, held in sources]
        if found:
            self.trace.copies[copy.cell] = [*found]

    def is_sole(self, reference: Reference, holders: Iterable[Any]) -> bool:
        """Whether nobody sees an array but a variable, of which `holders` are the others."""
        held = {cell for holder in holders for cell in cells(holder)}
        return not any(
            cell.refusal or cell in self.foreign or cell in held for cell in cells(reference)
        )


# ---------------------------------------------------------------- values


def plain(value: Any) -> Any:
    """References as the arrays that they show now, in containers too."""
    if isinstance(value, Reference):
        return value.read()
    if isinstance(value, Grown):
        return value.numbers()
    if isinstance(value, Maybe):
        raise UnsupportedError(
            "a value or None, by which branch is taken, within a tuple or list",
            "numbers and arrays", "x is not None first", place=user_place(),
        )  # fmt: skip
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    return named.mapped(plain, value) if named.is_named(value) else value


def cells(value: Any) -> list[Cell]:
    """The memory that a variable shows, in containers too."""
    if isinstance(value, tuple | list):
        return [cell for part in value for cell in cells(part)]
    if isinstance(value, Maybe):
        return cells(value.number)
    if isinstance(value, Grown):
        return [value.count, value.first, *value.parts]
    if isinstance(value, OneOf):
        return [option.cell for option in value.options]
    if named.is_named(value):
        return [cell for part in named.held(value) for cell in cells(part)]
    return [value.cell] if isinstance(value, Reference) else []


def is_traced(value: Any) -> bool:
    """Whether a value is an array or a scalar of the program that is being traced."""
    if isinstance(value, tuple | list):
        return any(map(is_traced, value))
    if named.is_named(value):
        return any(map(is_traced, named.held(value)))
    return isinstance(value, Array | Reference | Selection | Grown)


def all_plain(values: Sequence[Any]) -> list[Any]:
    return [plain(value) for value in values]


def plain_named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items()}
