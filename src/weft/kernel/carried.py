"""What a loop that is traced carries: what its body assigns and writes, found by tracing it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from weft.array import Array, node_of
from weft.errors import DTypeError, Place
from weft.frontend import graph, lengths, symbolic
from weft.frontend.extent import Extent
from weft.frontend.graph import Lambda, Node, Scope, Shape, scalar_constant
from weft.functions import traced
from weft.functions.creation import filled
from weft.kernel import carried_values, disagreements, maybe, ordered, rebound, selection, turns
from weft.kernel.branches import kinds
from weft.kernel.carried_values import Scalar, Whole
from weft.kernel.frame import Frame, Number, Origin, Unbound, cells
from weft.kernel.lists import Grown, Outgrown
from weft.kernel.liveness import live
from weft.kernel.maybe import Carried
from weft.kernel.packs import Pack, is_pack, same
from weft.kernel.syntax import assigned, is_result, left_flag, written
from weft.kernel.values import Cell, Maybe, NotCarried, Reference, Region, Selection
from weft.ops.dtypes import DType

_ROUNDS = 6  # of tracing, until types are stable


class _MayBeAbsent(Exception):  # noqa: N818 - a signal: trace the loop again
    """A round ends without a number where the loop began with one."""

    def __init__(self, name: str, value: Unbound | Maybe | None) -> None:
        super().__init__()
        self.name = name
        self.absent = value.absent if isinstance(value, Maybe) else value


class Loop:
    """A loop that is traced: what it carries, found by tracing its body until that is stable.

    Parameters
    ----------
    frame : Frame
    node : ast.For or ast.While
    run : callable
        Interprets the body.
    bound : sequence of ast.AST
        Targets that it also binds, and gives.
    """

    def __init__(
        self, frame: Frame, node: ast.For | ast.While, run: Callable[[], Any],
        bound: Sequence[ast.AST] = (),
    ) -> None:  # fmt: skip
        self.frame = frame
        self.node = node
        self.run = run
        self.before = dict(frame.variables)
        self.began: dict[str, Array] = {}
        self.unchanged: list[str] = []
        self.entry: dict[str, Reference] = {}
        self.held: dict[str, Array] = {}
        self.at_start = dict(frame.assigned_at)
        self.at_end: dict[str, Place] = {}
        self.scalars: dict[str, Scalar] = {}
        self.wholes: dict[str, Whole] = {}
        self.cells: dict[Cell, None] = {}
        self.locals: list[str] = []
        self.packs: dict[str, Pack] = {}
        self.maybes: dict[str, Carried] = {}  # numbers that may not be there: with a flag each
        self.varying: dict[str, Unbound] = {}  # no value of the program is what they are
        self.fixed: set[str] = set()  # numbers that no round changes: they stay what they are
        self.most: Extent | None = None  # rounds, as far as extents tell
        self.rounds: Extent | None = None  # those that there are, where that is known
        self._path = frame.memory.visit()
        self._granted: set[Any] = set()
        self.lists: dict[str, rebound.Carried] = {}  # that rounds bind anew
        self.turned: dict[str, str] | None = None  # variable -> whose entry array it ends with
        needed = live(node) | {left_flag(node)}
        self.names = [name for name in assigned([*node.body, *bound]) if name in needed]
        for name in [*self.names]:
            self._begin(name, frame.variables.get(name))
        for name in written(node.body):
            value = frame.variables.get(name)
            if isinstance(value, Reference) and name not in self.names:
                self.cells |= dict.fromkeys(cells(value))

    def _begin(self, name: str, value: Any) -> None:
        if isinstance(value, Number):
            initial = node_of(value)
            self.scalars[name] = Scalar(name, initial, initial.dtype, initial.weak)
        elif isinstance(value, Maybe):
            made = self.maybes[name] = Carried(name, value.absent)
            if is_pack(value.number):
                self._begin_pack(name, value.number)
            if isinstance(value.number, Reference):
                held = value.number
                self.wholes[name] = Whole(
                    name, held.read(), held, self._sources(name, held, self.before)
                )
            self._begin(name, value.number)
            self._begin(made.flag, value.present)
        elif value is None or isinstance(value, Unbound):
            self.locals.append(name)

    # ------------------------------------------------------------ parameters

    def parameters(self, scope: Scope) -> list[Node]:
        return carried_values.parameters(self.scalars, self.wholes, self.cells, scope)

    def initial(self) -> list[Node]:
        return carried_values.initial(self.scalars, self.wholes, self.cells)

    def types(self) -> tuple[tuple[Shape, DType], ...]:
        return carried_values.types(self.scalars, self.wholes, self.cells)

    def rebound(self) -> frozenset[str]:
        """The arrays whose names rounds bind anew, and that no round writes to."""
        return frozenset(self.wholes) - {cell.name for cell in self.cells}

    # ------------------------------------------------------------ the body

    def trace(
        self, first: Callable[[Scope], list[Node]], bind: Callable[[list[Array]], None]
    ) -> Lambda:
        """The body as a lambda; `first` makes its first parameters, `bind` binds them."""
        attempts = 0
        while attempts < _ROUNDS:
            try:
                function = self._attempt(first, bind)
            except NotCarried as signal:
                if signal.region is not self._region:
                    raise
                self.cells[signal.cell] = None  # of which there are only so many
                continue
            except Outgrown as signal:
                if not signal.settle(self._region, self._granted):
                    raise
                continue
            except _MayBeAbsent as signal:
                made = self.maybes[signal.name] = Carried(signal.name, signal.absent)
                self._begin(made.flag, maybe.flag(not self._is_local(signal.name)))
                continue
            if function is not None:
                return function
            attempts += 1
        raise DTypeError(
            "a loop whose variables change their types with every round", "stable types",
            place=self.frame.place(self.node),
        )  # fmt: skip

    def _attempt(
        self, first: Callable[[Scope], list[Node]], bind: Callable[[list[Array]], None]
    ) -> Lambda | None:
        """The body with what is carried now; None where more turned out to be carried."""
        frame = self.frame
        before, places = dict(frame.variables), dict(frame.assigned_at)
        frame.awaited.append({n for n in self.locals if maybe.is_unbound(self.before, n)})
        region = self._region = frame.memory.enter(set(self.cells))
        region.path, region.rounds, region.granted = self._path, self.most, self._granted
        count = [0]

        def parameters(scope: Scope) -> list[Node]:
            own = first(scope)
            count[0] = len(own)
            return [*own, *self.parameters(scope)]

        def call(arrays: Sequence[Array]) -> list[Any]:
            self.enter(region, arrays[count[0] :])
            bind(list(arrays[: count[0]]))  # a target, even where it is carried as well
            self.run()
            return self._end()

        try:
            function, _ = traced.trace(call, parameters, call)
        finally:
            after, frame.variables = frame.variables, before
            frame.awaited.pop()
            self.at_end, frame.assigned_at = frame.assigned_at, places
            frame.memory.leave(region)
        if self._missing(after) or not self._settled(function.results) or self._drop_fixed():
            return None
        return traced.settled(function, [dtype for _, dtype in self.types()])

    def enter(self, region: Region, arrays: Sequence[Array]) -> None:
        """Let the variables and the memory be what a round begins with."""
        values = iter(arrays)
        self.began = {name: next(values) for name in self.scalars}
        self.frame.variables |= self.began
        self.entry = {}
        for name, whole in self.wholes.items():
            self.entry[name] = self.frame.memory.make(next(values))
            self.entry[name].cell.is_list = ordered.is_list(whole.before)
            self.frame.variables[name] = self.entry[name]
            if whole.began:
                self.frame.foreign.add(self.entry[name].cell)
        self.held = {name: reference.cell.array for name, reference in self.entry.items()}
        for cell in self.cells:
            region.journal[cell] = cell.array
            cell.array = next(values)
        self._bind_maybes(of_packs=False)
        for each in self.lists.values():
            self.frame.variables[each.name] = each.value(self.frame)
        for name, whole in self.wholes.items():
            self.frame.note_sources(self.entry[name], [*whole.began, *whole.bound])
        self._bind_packs(self.varying)
        self._bind_maybes(of_packs=True)

    def _bind_maybes(self, of_packs: bool) -> None:
        """Let what may not be there be that, where its parts are bound."""
        for made in self.maybes.values():
            if (made.name in self.packs) is of_packs:
                self.frame.variables[made.name] = made.value(self.frame.variables)

    def _bind_packs(self, varying: Mapping[str, Any]) -> None:
        """Let tuples be made of their parts, and what varies be that."""
        variables = self.frame.variables
        variables |= varying
        for pack in reversed(self.packs.values()):
            if pack.name not in varying:
                variables[pack.name] = pack.made(variables, self.before)

    def _end(self) -> list[Any]:
        """What the next round takes."""
        variables = self.frame.variables
        for pack in self.packs.values():
            if pack.name in self.maybes:
                self.maybes[pack.name].take_apart(variables, self._initial(pack.name))
            elif maybe.may_be_absent(variables.get(pack.name)):
                raise _MayBeAbsent(pack.name, variables.get(pack.name))
            if not pack.fits(variables.get(pack.name)):
                self._refuse(pack.name, variables.get(pack.name))
            variables |= zip(pack.parts, map(self._part, variables[pack.name]), strict=True)
        for each in self.lists.values():
            value = variables.get(each.name)
            each.take_apart(self.frame, self.node, value)
            rebound.require_sole(self.frame, self.node, each.name, variables)
        for made in self.maybes.values():
            if made.name not in self.packs:
                made.take_apart(variables, self._initial(made.name))
                variables[made.name] = self._part(variables[made.name])
        if turns.COUNT in self.scalars:
            variables[turns.COUNT] = self.began[turns.COUNT] + 1
        found: list[Any] = []
        for name in self.scalars:
            value = variables.get(name, Unbound(self.frame.place(self.node)))
            if maybe.may_be_absent(value):
                raise _MayBeAbsent(name, value)
            if not isinstance(value, Number):
                self._refuse(name, value)
            found.append(value)
        for name, whole in self.wholes.items():
            value = variables[name]
            if maybe.may_be_absent(value):
                raise _MayBeAbsent(name, value)
            if not isinstance(value, Reference):
                self._refuse(name, value)
            array = value.read()
            if not lengths.certainly_agree(whole.initial._node.shape, array._node.shape):
                self._refuse_shape(name, whole.initial, array)
            found.append(array)
            whole.bound = self._sources(name, value, variables)
            whole.is_list = ordered.is_list(value)
        self.turned = turns.noted(
            [name for name in self.wholes if self._is_users(name)], self.entry, variables
        )
        self._check_writes()
        self.unchanged = [n for n, value in self.began.items() if variables[n] is value]
        return [*found, *(cell.array for cell in self.cells)]

    def _initial(self, name: str) -> Any:
        """What a variable began with, or what stands for that."""
        if name in self.packs:
            return tuple(map(self._initial, self.packs[name].parts))
        whole = self.wholes.get(name)
        if whole is not None:
            return whole.initial
        return Array(self.scalars[name].initial) if name in self.scalars else self.before[name]

    def _check_writes(self) -> None:
        """Refuse writes that somebody else had to see, to an array that is a copy in here."""
        for name, whole in self.wholes.items():
            written = self.entry[name].cell.array is not self.held[name]
            if written and name not in (self.turned or {}) and (whole.began or whole.bound):
                self.frame.refuse(
                    self.node, f"{name} is written, and is another array in each round of this "
                    "loop", "writes to an array that the loop does not bind anew",
                    f"{name} = {name}.copy() before it is written, or {name}[...] = in place of "
                    f"{name} =",
                )  # fmt: skip

    def _missing(self, after: dict[str, Any]) -> bool:
        """Take in what turned out to be carried, the variables being these after a round."""
        found = False
        for name in self.names:  # to which the parts of tuples are added
            if name in self.fixed or name in self._carried():
                continue
            held: Any = self.before.get(name)
            value = after.get(name)
            if name in self.lists:
                if self.lists[name].differs(value):
                    self._begin_list(name, held)
                    found = True
                continue
            if held is not value and rebound.are_lists([held, value]):
                found |= rebound.have_common_room(self.frame, [held, value])
                if found:
                    self._add_list(name, held)
                    continue
            if name in self.locals and maybe.is_carried(self.frame, self.before, name, value):
                self._add_maybe(name, held, value, after)
                found = True
                continue
            new = value.number if isinstance(value, Maybe) else value
            if isinstance(held, Reference) and isinstance(new, Reference):
                if not held.same(value):
                    self.wholes[name] = Whole(
                        name, held.read(), held, self._sources(name, held, self.before),
                        self._sources(name, new, after),
                    )  # fmt: skip
                    for cell in cells(held):
                        self.cells.pop(cell, None)
                    found = True
                continue
            if is_result(name) and not isinstance(value, Number | Reference):
                continue
            if same(held, value) or (name not in self.before and isinstance(value, Unbound)):
                continue
            if name in self.before and name not in self.varying:
                if isinstance(held, Selection):
                    selection.require_separate(self.frame, self.node, held)
                what = value.found if isinstance(value, Unbound) else kinds((held, value))
                self.varying[name] = Unbound(self.frame.place(self.node), what)
                found = True
            if name in self.locals and isinstance(value, Number | Reference):
                self._add_local(name, value)
                if name in self.wholes and isinstance(value, Reference):
                    self.wholes[name].bound = self._sources(name, value, after)
                found = True
            elif is_pack(new) and (name in self.locals or Pack.of(name, new).fits(held)):
                self._add_pack(name, new, after)
                found = True
        return self._count_turns() or found

    def _count_turns(self) -> bool:
        """Count the rounds from now on, where only their number tells which array is whose."""
        is_known = self.rounds is not None and not self.rounds.symbols
        if not self.turned or is_known or turns.COUNT in self.scalars:
            return False
        if turns.are_own(self.turned, self.wholes):
            return False
        self.scalars[turns.COUNT] = turns.counter()
        return True

    def _is_users(self, name: str) -> bool:
        """Whether what is carried is an array that a variable of the user's always holds."""
        return name not in self.maybes and name.partition(".")[0] not in self.lists

    def _add_list(self, name: str, held: Any) -> None:
        rebound.require_sole(self.frame, self.node, name, self.before)
        self.lists[name] = rebound.Carried(name, list(held.kinds), held.of_tuples)
        self._begin_list(name, held)

    def _begin_list(self, name: str, held: Grown) -> None:
        """Carry the parts of a list, as variables of their own."""
        made = self.lists[name]
        for part, cell in zip(made.numbers, (held.count, held.first), strict=True):
            self._begin(part, cell.array)
        parts = rebound.arrays(self.frame, held, made.kinds, {})
        for part, array in zip(made.arrays, parts, strict=True):
            self.wholes[part] = Whole(part, array, self.frame.memory.make(array))

    def _carried(self) -> set[str]:
        return {*self.scalars, *self.wholes, *self.packs}

    def _add_pack(self, name: str, value: Any, after: dict[str, Any]) -> None:
        """Carry the parts of a tuple or list, as variables of their own."""
        pack = self.packs[name] = Pack.of(name, value)
        self.names += pack.parts
        after |= zip(pack.parts, map(self._part, value), strict=True)
        if name in self.locals:
            self.locals += pack.parts
            return
        del self.varying[name]
        self._begin_parts(pack, self.before[name])

    def _begin_pack(self, name: str, value: Any) -> None:
        pack = self.packs[name] = Pack.of(name, value)
        self.names += pack.parts
        self._begin_parts(pack, value)

    def _begin_parts(self, pack: Pack, value: Any) -> None:
        self.before |= zip(pack.parts, map(self._part, value), strict=True)
        for part in pack.parts:
            if is_pack(self.before[part]):
                self._begin_pack(part, self.before[part])
            self._begin(part, self.before[part])

    def _add_maybe(self, name: str, held: Any, value: Any, after: dict[str, Any]) -> None:
        """Carry what is not there at first, and whether it is."""
        if held is not None or name not in self.before:
            held = Unbound(self.frame.place(self.node))
        made = self.maybes[name] = Carried(name, held)
        value = self._part(value.number if isinstance(value, Maybe) else value)
        if is_pack(value):
            self._add_pack(name, value, after)
        else:
            self._add_local(name, value)
        if isinstance(value, Reference):
            self.wholes[name].bound = self._sources(name, value, after)
        self._begin(made.flag, maybe.flag(False))

    def _part(self, value: Any) -> Any:
        return self.frame.memory.make(value) if isinstance(value, Array) and value.ndim else value

    def _sources(self, name: str, value: Reference, variables: dict[str, Any]) -> list[Origin]:
        """What a variable shows, where another shows it too that may be read again."""
        others = [variables.get(other) for other in live(self.node) if other != name]
        return self.frame.sources(value, [*others, *self.entry.values()])

    def _drop_fixed(self) -> bool:
        """Carry no number that a round leaves as it is, such as a flag that nothing here sets."""
        kept = {made.name for made in self.maybes.values() if made.flag not in self.unchanged}
        found = [name for name in self.unchanged if name in self.before and name not in kept]
        for name in found:
            made = self.maybes.pop(name, None)
            if made is not None:
                del self.scalars[made.flag]
            del self.scalars[name]
            self.fixed.add(name)
        return bool(found)

    def _is_local(self, name: str) -> bool:
        """Whether the body makes what is carried by a name."""
        if name in self.packs:
            return all(map(self._is_local, self.packs[name].parts))
        whole = self.wholes.get(name)
        return self.scalars[name].local if whole is None else whole.before is None

    def _add_local(self, name: str, value: Any) -> None:
        self.locals.remove(name)
        if isinstance(value, Number):
            node = node_of(value)
            start = scalar_constant(0, node.dtype, weak=node.weak)
            self.scalars[name] = Scalar(name, start, node.dtype, node.weak, local=True)
        elif isinstance(value, Reference):
            node = value.read()._node
            zero = scalar_constant(0, node.dtype)
            symbolic.require_one_shape(node, 1 + len(graph._open.all))
            self.wholes[name] = Whole(name, Array(filled(zero, node.shape)), None)

    # ------------------------------------------------------------ types

    def _settled(self, results: Sequence[Node]) -> bool:
        """Whether types are those that the body was traced with; else they are changed."""
        stable = True
        for scalar, result in zip(self.scalars.values(), results, strict=False):
            dtype, weak = self._type(scalar, result)
            if (dtype, weak) != (scalar.dtype, scalar.weak):
                scalar.dtype, scalar.weak = dtype, weak
                stable = False
        start = len(self.scalars)
        for whole, result in zip(self.wholes.values(), results[start:], strict=False):
            if result.dtype is not whole.initial._node.dtype:
                if whole.before is None:
                    zero = scalar_constant(0, result.dtype)
                    whole.initial = Array(filled(zero, result.shape))
                    stable = False
                else:
                    self._refuse_type(whole.name, whole.initial._node.dtype, result.dtype)
        return stable

    def _type(self, scalar: Scalar, result: Node) -> tuple[DType, bool]:
        found = disagreements.joined_type(scalar, result)
        if found is None:
            before = scalar.initial.dtype if scalar.weak else scalar.dtype
            self._refuse_type(scalar.name, before, result.dtype)
        return found

    def _refuse_type(self, name: str, before: DType, after: DType) -> NoReturn:
        places = self.frame.assigned_at.get(name), self.at_end.get(name)
        raise disagreements.of_types(name, before, after, places, self.frame.place(self.node))

    def _refuse(self, name: str, value: Any) -> NoReturn:
        places = self.at_start.get(name), self.frame.assigned_at.get(name)
        before, loop = self.before.get(name), self.frame.place(self.node)
        raise disagreements.of_kinds(name, before, value, places, loop)

    def _refuse_shape(self, name: str, before: Array, after: Array) -> NoReturn:
        place = self.frame.assigned_at.get(name) or self.frame.place(self.node)
        raise disagreements.of_shapes(name, before, after, place)

    # ------------------------------------------------------------ afterwards

    def finish(self, results: list[Node]) -> None:
        """Bind what the loop gives."""
        frame, rounds = self.frame, self.rounds
        values = iter(results)
        for scalar in self.scalars.values():
            node = next(values)
            node.weak = scalar.weak
            frame.variables[scalar.name] = Array(node)
            frame.assigned_at[scalar.name] = self.at_end.get(scalar.name, frame.place(self.node))
        arrays = {name: Array(next(values)) for name in self.wholes}
        cells = {cell: Array(next(values)) for cell in list(self.cells)}
        for cell, array in cells.items():
            frame.memory.write(cell, array)
        turned = self.turned or {}
        own = turns.are_own(turned, self.wholes)
        if not own:
            count = frame.variables.pop(turns.COUNT, rounds)
            turns.turn_back(frame, self.node, turned, self.wholes, arrays, count)
        for name, array in arrays.items():
            whole = self.wholes[name]
            has_none = rounds is not None and rounds <= 0
            if (name in turned and not own) or (has_none and whole.before is not None):
                if not self._is_users(name):
                    frame.variables[name] = whole.before
                continue
            sources = [*whole.bound, *(whole.began if rounds is None else ())]
            sources = [] if name in turned else sources
            copy = frame.copied(array, sources, "loop", self.node)
            copy.cell.is_list = whole.is_list
            frame.variables[name] = copy
        for made in self.maybes.values():
            if made.name not in self.packs:
                made.finish(frame.variables, self.before, rounds)
        for each in self.lists.values():
            frame.variables[each.name] = each.value(frame)
            for name in (*each.numbers, *each.arrays):
                del frame.variables[name]
        self._bind_packs(self._unsure(rounds))
        for made in self.maybes.values():
            if made.name in self.packs:
                made.finish(frame.variables, self.before, rounds)
        for pack in self.packs.values():
            for part in pack.parts:
                frame.variables.pop(part, None)

    def _unsure(self, rounds: Extent | None) -> dict[str, Any]:
        """What varies, after the loop: what it was, where there was no round."""
        if not self.varying or rounds is None:
            return self.varying
        if rounds <= 0:
            return {name: self.before[name] for name in self.varying}
        carried = self._carried()
        return {name: value for name, value in self.varying.items() if name not in carried}
