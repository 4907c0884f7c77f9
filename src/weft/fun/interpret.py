"""The NumPy interpreter of FUN: what a program means, and the oracle of every test.

Kernels are evaluated for all their indices at once (see `weft.fun.nest`). A branch or a
loop that goes differently for different indices is evaluated under a mask. What does not
vary regularly enough for this (a reshape to a shape that depends on an index) is evaluated
index by index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.errors import ArgumentError, ArgumentTypeError, ShapeError
from weft.fun import nodes as fun
from weft.fun.access import Accesses
from weft.fun.nest import Irregular, Value
from weft.fun.parallel import ParallelForms
from weft.ops import routines, table
from weft.sizes import Size


def interpret(
    program: fun.Program,
    arguments: Sequence[Any],
    sizes: Mapping[str, int] | None = None,
) -> tuple[Any, ...]:
    """Run a program.

    Parameters
    ----------
    program : fun.Program
    arguments : sequence of ndarray or scalar
        One for each parameter, of its dtype and rank.
    sizes : mapping of str to int, optional
        Size variables that no parameter's shape gives.

    Returns
    -------
    tuple of ndarray or numpy scalar
        The results; arrays share memory with neither the arguments nor each other.

    Raises
    ------
    ShapeError, ArgumentTypeError, ArgumentError
        When the arguments do not fit the parameters.
    OutOfBoundsError
        When an index is outside its array; it names the statement's place.
    """
    evaluator = Evaluator()
    evaluator.program = program.body
    evaluator.bind_arguments(program, arguments, sizes or {})
    with np.errstate(all="ignore"):
        results = evaluator.body(program.body)
    return _owned(results, arguments)


def _owned(results: list[Value], arguments: Sequence[Any]) -> tuple[Value, ...]:
    """The results, copied where they share memory with something else."""
    seen = {id(argument) for argument in arguments}
    owned = []
    for result in results:
        if isinstance(result, np.ndarray):
            if result.base is not None or id(result) in seen or not result.flags.c_contiguous:
                result = np.array(result, order="C")
            seen.add(id(result))
        owned.append(result)
    return tuple(owned)


@cache
def scalar_function(operation: str) -> Callable[..., Any]:
    """An operation's NumPy function (without its own silencing: all runs under one)."""
    function = table.lookup(operation).numpy
    return getattr(function, "__wrapped__", function)


class Evaluator(Accesses, ParallelForms):
    """Evaluates statements, branches and loops."""

    # ------------------------------------------------------------ arguments

    def bind_arguments(
        self, program: fun.Program, arguments: Sequence[Any], sizes: Mapping[str, int]
    ) -> None:
        if len(arguments) != len(program.params):
            raise ArgumentError(
                f"{program.name} was given {len(arguments)} arguments",
                f"{len(program.params)} arguments",
            )
        values = self.values
        values.update(sizes)
        unsure: list[tuple[fun.Var, tuple[int, ...], tuple[Size, ...]]] = []
        for param, argument in zip(program.params, arguments, strict=True):
            type_ = param.type
            if isinstance(type_, fun.Scalar):
                values[param.name] = type_.dtype.numpy.type(argument)
                continue
            array = argument if type(argument) is np.ndarray else np.asarray(argument)
            if array.dtype != type_.dtype.numpy:
                raise ArgumentTypeError(
                    f"argument {param.name} has dtype {array.dtype}", f"{type_.dtype.numpy}"
                )
            if array.ndim != len(type_.shape):
                raise ShapeError(
                    f"argument {param.name} has {array.ndim} dimensions", f"{len(type_.shape)}"
                )
            values[param.name] = array
            for found, size in zip(array.shape, type_.shape, strict=True):
                name = size.variable
                if name is None or values.setdefault(name, found) != found:
                    unsure.append((param, array.shape, type_.shape))
        for name in program.sizes:
            if name not in values:
                raise ArgumentError(f"size {name} of {program.name} was not given")
        for derived in program.derived:
            value = derived.evaluate(values)
            if values.setdefault(derived.name, value) != value:
                raise ShapeError(f"an extent {derived.name} is {values[derived.name]}", f"{value}")
        for param, shape, declared in unsure:
            expected = tuple(map(self.extent, declared))
            if shape != expected:
                raise ShapeError(f"argument {param.name} has shape {shape}", f"shape {expected}")

    # ------------------------------------------------------------ statements

    def body(self, body: fun.Body) -> list[Value]:
        for let in body.statements:
            self.let(let)
        return [self.value(result) for result in body.results]

    def let(self, let: fun.Let) -> None:
        self.place = let.place
        expr = let.expr
        match expr:
            case fun.Apply(operation, arguments):
                apply = scalar_function(operation)
                self.values[let.pattern[0].name] = apply(*map(self.atom, arguments))
            case fun.Index():
                self.values[let.pattern[0].name] = self.index(expr)
            case fun.Kernel() | fun.Reduce() | fun.Scan() | fun.Scatter():
                self.bind(let.pattern, self.parallel(expr))
            case fun.SizeValue(size):
                self.values[let.pattern[0].name] = np.int64(self.size(size))
            case fun.Cast(dtype, argument):
                self.values[let.pattern[0].name] = table.cast_numpy(dtype, self.atom(argument))
            case fun.If():
                self.bind(let.pattern, self.branch(expr))
            case fun.Loop():
                self.bind(let.pattern, self.loop(expr))
            case fun.Call():
                self.bind(let.pattern, self.call(expr))
            case _:
                self.bind(let.pattern, (self.layout(expr),))

    # ------------------------------------------------------------ control

    def branch(self, expr: fun.If) -> list[Value]:
        condition = self.atom(expr.condition)
        if not isinstance(condition, np.ndarray):
            return self.body(expr.then if condition else expr.otherwise)
        active = self.active(condition)
        if active.all():
            return self.body(expr.then)
        if not active.any():
            return self.body(expr.otherwise)
        outer = self.mask
        try:
            self.mask = condition if outer is None else np.logical_and(condition, outer)
            then = self.body(expr.then)
            chosen = np.logical_not(condition)
            self.mask = chosen if outer is None else np.logical_and(chosen, outer)
            otherwise = self.body(expr.otherwise)
        finally:
            self.mask = outer
        return [self.select(condition, t, o) for t, o in zip(then, otherwise, strict=True)]

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Values (of one type) from one of two sides for each index of the nest."""
        rank = self.rank
        if np.shape(yes)[rank:] != np.shape(no)[rank:]:
            raise Irregular  # arrays whose extents differ between indices
        return np.where(
            self.expanded(condition, max(np.ndim(yes), np.ndim(no), rank) - rank), yes, no
        )

    def loop(self, expr: fun.Loop) -> list[Value]:
        self.bind(expr.params, [self.value(atom) for atom in expr.initial])
        outer = self.mask
        try:
            if isinstance(expr.form, fun.While):
                self.while_loop(expr, expr.form.condition, outer)
            else:
                self.for_loop(expr, expr.form, outer)
        finally:
            self.mask = outer
        return [self.value(param) for param in expr.params]

    def for_loop(self, expr: fun.Loop, form: fun.For, outer: Any) -> None:
        lower, upper = self.size(form.lower), self.size(form.upper)
        if not isinstance(lower, np.ndarray) and not isinstance(upper, np.ndarray):
            for at in range(int(lower), int(upper)):
                self.values[form.index.name] = np.int64(at)
                self.bind(expr.params, self.body(expr.body))
            return
        begin, end = (np.atleast_1d(self.active(np.asarray(limit))) for limit in (lower, upper))
        if not begin.size or not end.size:
            return
        for at in range(int(begin.min()), int(end.max())):
            active = np.logical_and(lower <= at, upper > at)
            self.values[form.index.name] = np.int64(at)
            self.round(expr, active if outer is None else np.logical_and(active, outer))

    def while_loop(self, expr: fun.Loop, condition: fun.Body, outer: Any) -> None:
        while True:
            self.mask = outer
            (active,) = self.body(condition)
            if not isinstance(active, np.ndarray):
                if not active or (outer is not None and not outer.any()):
                    return
                self.bind(expr.params, self.body(expr.body))
                continue
            active = active if outer is None else np.logical_and(active, outer)
            if not self.round(expr, active):
                return

    def round(self, expr: fun.Loop, active: Any) -> bool:
        """One round of a loop at active indices; whether there were any."""
        if not active.any():
            return False
        if active.all():
            self.mask = None  # not that of the last round
            self.bind(expr.params, self.body(expr.body))
            return True
        self.mask = active
        old = [self.value(param) for param in expr.params]
        new = self.body(expr.body)
        self.bind(expr.params, [self.select(active, n, o) for n, o in zip(new, old, strict=True)])
        return True

    def call(self, expr: fun.Call) -> Sequence[Value]:
        if self.rank:
            raise Irregular  # library routines run once for each index
        arguments = [np.asarray(self.value(atom)) for atom in expr.arguments]
        options: dict[str, Any] = dict(expr.options)
        extents = tuple(map(self.size, expr.extents))
        results = routines.routine(expr.routine).run(
            *arguments, place=self.place, extents=extents, **options
        )
        return [result if result.ndim else result[()] for result in results]
