"""The meaning of FUNMEM by heap: every element is read and written where its memory says.

The test of the memory passes (figures 4.8 to 4.10 of Munksgaard's *Static and Dynamic
Analyses for Efficient GPU Execution*, 2023): what a program gives by heap is to be what it
gives by value, erased. Blocks begin as noise, a thread's own again in each iteration of an
outermost kernel. It rejects

- accesses outside a block, or outside an array;
- reads of memory that was never written, writes to a parameter;
- two iterations of a kernel (an inner one too) of which one writes what the other writes or
  reads; those of sequential loops may;
- a view whose elements are not those of its array;
- an array that is not where its destination is: a result of the program, of a branch, a
  round or an iteration, the operand of an update in place;
- a copy that overwrites what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from itertools import product as cartesian
from typing import Any, assert_never

import numpy as np

from weft.errors import InternalError
from weft.fun import access
from weft.fun import nodes as fun
from weft.fun.interpret import scalar_function
from weft.mem.heap import Costs, Heap, Iterations, Located, evaluator
from weft.mem.invariants import read_levels
from weft.mem.nodes import THREAD, THREADS, MemArray, Program
from weft.mem.places import Places
from weft.ops.table import cast_numpy


def interpret(
    program: Program, arguments: Sequence[Any], sizes: Mapping[str, int] | None = None
) -> tuple[Any, ...]:
    """Run a program; arguments and results as in `weft.fun.interpret.interpret`.

    Raises
    ------
    InternalError
        For what the module's docstring lists.
    OutOfBoundsError
        When an index is outside its array.
    """
    return traced(program, arguments, sizes or {})[0]


def traced(
    program: Program, arguments: Sequence[Any], sizes: Mapping[str, int]
) -> tuple[tuple[Any, ...], Costs]:
    """The results of a program, as `interpret`, and what the run cost."""
    evaluation = Evaluation(program, arguments, sizes, Heap(program))
    results = evaluation.run()
    return results, evaluation.costs


class Evaluation(Places):
    """One run of a program on a heap."""

    def __init__(
        self, program: Program, arguments: Sequence[Any], sizes: Mapping[str, int], heap: Heap
    ) -> None:
        super().__init__(program, arguments, sizes, heap)
        self.read_levels = read_levels(program)
        self.counter = count()
        self.rounds = [next(self.counter)]  # that each level is in, of all that there were
        self.last_read: dict[int, int] = {}  # by the identity of a statement: in which round

    def run(self) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            values = self.body(self.mem.program.body)
        self.costs = replace(self.heap.costs)  # what follows is the caller's reading
        results = []
        for value, atom, wanted in zip(
            values, self.mem.program.body.results, self.mem.destinations, strict=True
        ):
            if isinstance(wanted, MemArray):
                place = self.where(wanted)
                self.in_place(self.at(atom), place, "a result")
                results.append(self.heap.read_all(place, place.numbers()))
            else:
                results.append(value)
        return tuple(results)

    # ------------------------------------------------------------ bodies and statements

    def atom(self, atom: fun.Atom) -> Any:
        if isinstance(atom, fun.Const):
            return atom.dtype.numpy.type(atom.value)
        if isinstance(atom.type, fun.Array):
            return None
        return self.values[atom.name]

    def body(self, body: fun.Body) -> list[Any]:
        for let in body.statements:
            self.heap.place = let.place
            for var, value in zip(let.pattern, self.expr(let), strict=True):
                if value is not None:
                    self.values[var.name] = value
        return [self.atom(result) for result in body.results]

    def expr(self, let: fun.Let) -> Sequence[Any]:
        """The values of the pattern's scalars; None for its arrays, which are in memory."""
        expr, pattern = let.expr, let.pattern
        match expr:
            case fun.Apply(operation, arguments):
                return (scalar_function(operation)(*[self.atom(a) for a in arguments]),)
            case fun.Index():
                return (self.index(expr, self.is_read(let)),)
            case fun.Cast(dtype, argument):
                return (cast_numpy(dtype, self.atom(argument)),)
            case fun.SizeValue(size):
                return (np.int64(self.size(size)),)
            case fun.Broadcast(atom, _) if isinstance(atom.type, fun.Scalar):
                self.fill(pattern[0], self.atom(atom))
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape() | fun.Broadcast():
                self.view(expr, pattern[0])
            case fun.Kernel():
                self.kernel(expr, pattern)
            case fun.Reduce():
                return self.reduce(expr, pattern)
            case fun.Scan():
                self.scan(expr, pattern)
            case fun.Scatter():
                self.scatter(expr, pattern)
            case fun.Concat(arrays, axis):
                self.concat(arrays, axis, self.at(pattern[0]))
            case fun.Copy(array):
                source, target = self.at(array), self.at(pattern[0])
                self.heap.copy(source, source.numbers(), target, target.numbers())
            case fun.Empty():
                pass  # reading what nothing has written since is an error
            case fun.Update() | fun.LmadUpdate():
                self.update(expr, pattern[0])
            case fun.If(condition, then, otherwise):
                return self.branch(then if self.atom(condition) else otherwise, pattern)
            case fun.Loop():
                return self.loop(expr, pattern)
            case fun.Call():
                raise InternalError("a library routine inside compiled code")
            case _:
                assert_never(expr)
        return (None,) * len(pattern)

    def is_read(self, let: fun.Let) -> bool:
        """Whether compiled code reads here, and not once before a loop."""
        now = self.rounds[self.read_levels[id(let)]]
        before = self.last_read.get(id(let))
        self.last_read[id(let)] = now
        return now != before

    def index(self, expr: fun.Index, counts: bool) -> Any:
        array = self.at(expr.array)
        index = list(evaluator(expr.indices)(self.values))
        outside: fun.Const | None = None
        for axis, rule in enumerate(expr.boundary):
            if rule is None:
                continue
            lower, upper = self.size(rule.lower), self.size(rule.upper)
            if lower <= index[axis] < upper:
                continue
            if rule.kind == "constant":
                outside = rule.value
            else:
                index[axis] = int(access.reflect_index(rule.kind, index[axis], lower, upper))
        if outside is not None:
            return self.atom(outside)
        self.inside(index, array)
        return self.heap.read(array, index, counts)

    # ------------------------------------------------------------ views and copies

    def view(self, expr: fun.LayoutExpr, var: fun.Var) -> None:
        """A view moves nothing; its elements are those of its array."""
        assert isinstance(expr.array, fun.Var)
        array, found = self.at(expr.array), self.at(var)
        numbers = array.numbers()
        match expr:
            case fun.Slice(_, dims):
                numbers = self.part(numbers, dims, array)
            case fun.LmadSlice(_, offset, lmad_dims):
                numbers = self.lmad_part(numbers, offset, lmad_dims, array)
            case fun.Permute(_, axes):
                numbers = numbers.transpose(axes)
            case fun.Reshape(_, shape):
                numbers = numbers.reshape(evaluator(shape)(self.values))
            case fun.Broadcast(_, shape):
                numbers = np.broadcast_to(numbers, evaluator(shape)(self.values))
            case _:
                assert_never(expr)
        moved = (found.block, found.dtype) != (array.block, array.dtype)
        if numbers.size and (moved or not np.array_equal(numbers, found.numbers())):
            raise self.heap.error(f"a view of {array} is at {found}", "the elements of its array")

    def concat(self, arrays: tuple[fun.Var, ...], axis: int, target: Located) -> None:
        numbers, start = target.numbers(), 0
        for array in arrays:
            source = self.at(array)
            extent = source.shape[axis]
            part = numbers[(slice(None),) * axis + (slice(start, start + extent),)]
            self.heap.copy(source, source.numbers(), target, part)
            start += extent

    def update(self, expr: fun.Update | fun.LmadUpdate, var: fun.Var) -> None:
        target = self.at(var)
        self.in_place(self.at(expr.array), target, "the array of an update")
        if isinstance(expr, fun.LmadUpdate):
            part = self.lmad_part(target.numbers(), expr.offset, expr.dims, target)
        else:
            part = self.part(target.numbers(), expr.dims, target)
        if isinstance(expr.value.type, fun.Scalar):
            self.heap.write_all(target, part, self.atom(expr.value))
        else:
            source = self.at(expr.value)
            self.heap.copy(source, source.numbers(), target, part)

    # ------------------------------------------------------------ levels

    @contextmanager
    def level(self) -> Iterator[int]:
        """A level inside of those that there are: its number."""
        self.rounds.append(0)
        self.enter(level := len(self.rounds) - 1)
        yield level
        self.rounds.pop()

    def enter(self, level: int) -> None:
        """Begin the next round of a level, and of those inside of it."""
        for inner in range(level, len(self.rounds)):
            self.rounds[inner] = next(self.counter)

    # ------------------------------------------------------------ data parallelism

    def points(self, space: tuple[fun.Range, ...]) -> Iterator[tuple[int, ...]]:
        """The indices of a space in order, each bound while it is yielded."""
        extents = [self.size(dimension.extent) for dimension in space]
        names = [dimension.index.name for dimension in space]
        level = len(self.rounds)
        self.rounds += [0] * len(space)
        for number, index in enumerate(cartesian(*map(range, extents))):
            for name, i in zip(names, index, strict=True):
                self.values[name] = np.int64(i)
            turned = len(space)  # indices that are as they were, but those that begin again
            while number and turned > 1 and not index[turned - 1]:
                turned -= 1
            self.enter(level + (turned - 1 if number else 0))
            yield index
        del self.rounds[level:]

    def iterations(self, space: tuple[fun.Range, ...]) -> Iterator[tuple[int, ...]]:
        """As `points`, each an iteration of a kernel."""
        heap, iterations, place = self.heap, Iterations(), self.heap.place
        for index in self.points(space):
            self.begin(iterations)
            yield index
            heap.place = place
            heap.end(iterations)
        heap.finish(iterations)

    def begin(self, iterations: Iterations) -> None:
        """Begin an iteration, of an outermost kernel on the thread whose turn it is."""
        if not self.heap.traces:
            self.values[THREAD] = iterations.count % self.values[THREADS]
        self.heap.begin(iterations)

    def kernel(self, expr: fun.Kernel, pattern: tuple[fun.Var, ...]) -> None:
        outer = [self.at(var) for var in pattern]
        rank = len(expr.space)
        for index in self.iterations(expr.space):
            values = self.body(expr.body)
            for value, result, place in zip(values, expr.body.results, outer, strict=True):
                if isinstance(result.type, fun.Scalar):
                    self.heap.write(place, index, value)
                    continue
                strides = zip(index, place.strides[:rank], strict=True)
                offset = place.offset + sum(i * stride for i, stride in strides)
                inner = place._replace(
                    offset=offset, shape=place.shape[rank:], strides=place.strides[rank:]
                )
                self.in_place(self.at(result), inner, "the result of an iteration")

    def reduce(self, expr: fun.Reduce, pattern: tuple[fun.Var, ...]) -> Sequence[Any]:
        count = len(expr.space) - expr.reduced
        totals: list[Any] = []
        for index in self.iterations(expr.space[:count]):
            totals = [self.atom(atom) for atom in expr.neutral]
            for _ in self.points(expr.space[count:]):
                self.heap.refresh()
                totals = self.apply(expr.operator, [*totals, *self.body(expr.body)])
            if count:
                for total, var in zip(totals, pattern, strict=True):
                    self.heap.write(self.at(var), index, total)
        return totals if not count else (None,) * len(pattern)

    def scan(self, expr: fun.Scan, pattern: tuple[fun.Var, ...]) -> None:
        running: list[Any] = []
        for index in self.iterations(expr.space):
            if index[-1] == 0:
                running = [self.begin_of(atom, index[:-1]) for atom in expr.initial]
            before = running
            running = self.apply(expr.operator, [*running, *self.body(expr.body)])
            for value, var in zip(before if expr.exclusive else running, pattern, strict=True):
                self.heap.write(self.at(var), index, value)

    def begin_of(self, atom: fun.Atom, index: tuple[int, ...]) -> Any:
        """What a scan begins with: a scalar, or an element of an array of them."""
        if isinstance(atom.type, fun.Scalar):
            return self.atom(atom)
        assert isinstance(atom, fun.Var)
        return self.heap.read(self.at(atom), index)

    def apply(self, function: fun.Lambda, arguments: list[Any]) -> list[Any]:
        for param, value in zip(function.params, arguments, strict=True):
            self.values[param.name] = value
        return self.body(function.body)

    def scatter(self, expr: fun.Scatter, pattern: tuple[fun.Var, ...]) -> None:
        """Values are written in order, so iterations may write one element; none reads it."""
        places = [self.at(var) for var in pattern]
        for destination, place in zip(expr.destinations, places, strict=True):
            self.in_place(self.at(destination), place, "the destination of a scatter")
        rank, iterations = len(places[0].shape), Iterations()
        computed: list[list[Any]] = []
        for _ in self.points(expr.space):
            self.begin(iterations)
            computed.append(self.body(expr.body))
            self.heap.end(iterations)
        self.heap.begin(iterations)
        for values in computed:
            index, new = [int(i) for i in values[:rank]], values[rank:]
            self.inside(index, places[0])
            if expr.operator is not None:
                old = [self.heap.read(place, index) for place in places]
                new = self.apply(expr.operator, [*old, *new])
            for place, value in zip(places, new, strict=True):
                self.heap.write(place, index, value)
        self.heap.end(iterations)
        self.heap.finish(iterations)

    # ------------------------------------------------------------ branches and loops

    def branch(self, chosen: fun.Body, pattern: tuple[fun.Var, ...]) -> list[Any]:
        with self.level():
            values = self.body(chosen)
        self.bind(pattern, chosen.results, values, "the result of a branch")
        return values

    def loop(self, expr: fun.Loop, pattern: tuple[fun.Var, ...]) -> list[Any]:
        values = [self.atom(atom) for atom in expr.initial]
        self.bind(expr.params, expr.initial, values, "the initial value of a loop")
        with self.level() as level:
            for _ in self.turns(expr.form, level):
                values = self.body(expr.body)
                self.bind(expr.params, expr.body.results, values, "the result of a round")
        self.bind(pattern, expr.params, values, "the result of a loop")
        return values

    def turns(self, form: fun.For | fun.While, level: int) -> Iterator[None]:
        """The rounds of a loop, whose number is bound while each is yielded."""
        match form:
            case fun.For(index, lower, upper):
                for i in range(self.size(lower), self.size(upper)):
                    self.values[index.name] = np.int64(i)
                    self.enter(level)
                    yield
            case fun.While(condition):
                while self.body(condition)[0]:
                    self.enter(level)
                    yield
            case _:
                assert_never(form)

    def bind(
        self, params: Sequence[fun.Var], atoms: Sequence[fun.Atom], values: list[Any], what: str
    ) -> None:
        """Give values to scalars; what is in memory must be where the parameter is then."""
        places = [self.at(a) if isinstance(a.type, fun.Array) else None for a in atoms]
        for param, value in zip(params, values, strict=True):
            if value is not None:
                self.values[param.name] = value
        for param, place in zip(params, places, strict=True):
            if place is not None:
                self.in_place(place, self.at(param), what)
