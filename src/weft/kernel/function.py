"""What `weft.kernel` makes of a function, and calls of it."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import execute
from weft.array import Array
from weft.errors import (
    ArgumentError,
    Place,
    WeftError,
    interpreting,
    user_place,
    warn,
)
from weft.frontend.containers import count_leaves, flatten, unflatten
from weft.frontend.graph import Node
from weft.frontend.trace import Traced
from weft.fun import nodes as fun
from weft.io.held import share_memory
from weft.jit.arguments import Argument, Placed, concrete, exact_key
from weft.jit.function import FEW, Jitted
from weft.jit.variants import MISSED, Ready
from weft.kernel import most_general, parameters, result_types
from weft.kernel.annotations import (
    UNCHECKED,
    ParameterType,
    ScalarType,
    parameter_type,
    parse_signature,
    result_annotated,
)
from weft.kernel.frame import Trace, plain
from weft.kernel.given import data_of, require_writable, told_apart, words
from weft.kernel.lists import MOST_ROOM, Grows, ListFullError
from weft.kernel.measured import Measured, Unmeasured, refused_ahead
from weft.kernel.most_general import Found
from weft.kernel.outputs import Length, Outputs, marked
from weft.kernel.races import tell
from weft.kernel.short import ShortWay, short_key, short_way
from weft.kernel.statements import call_function, enter, source_of
from weft.kernel.values import KeyView, Memory, Reference, WritesSelection
from weft.passes.distribute import distribute
from weft.passes.interchange import interchange
from weft.passes.parallelise import parallelise
from weft.passes.products import products
from weft.passes.remove_dead import remove_dead
from weft.passes.simplify import simplify
from weft.passes.sum_inwards import sum_inwards
from weft.passes.write_through import write_through
from weft.sizes import Fact

__all__ = ["KernelFunction"]

_ROOM, _MORE_ROOM = 1 << 10, 1 << 4
"""Elements of a list that no extent bounds, at first, and times as many where that is too few."""


class KernelFunction(Jitted):
    """A function that `weft.kernel` compiles; see there."""

    def __init__(self, function: Callable[..., Any], signature: str | None = None) -> None:
        super().__init__(function, ())
        self._parallel: dict[Place, str] = {}
        self._rebound: dict[Place, frozenset[str]] = {}
        self._room = _ROOM
        self.source = source_of(function)
        self.interpreted = function
        self._signature_text = signature
        parameters = self.signature.parameters
        self._names = list(parameters)
        self._takes_places = all(
            p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters.values()
        )
        self._defaults = {
            name: p.default
            for name, p in parameters.items()
            if p.default is not inspect.Parameter.empty
        }
        self._short: dict[Any, ShortWay] = {}
        self._last_short: ShortWay | None = None  # of the last call, where it may be repeated

    def __reduce__(self) -> Any:
        found: Any = sys.modules.get(self.function.__module__)
        for name in self.function.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is self:
            return self.function.__qualname__
        return KernelFunction, (self.function, self._signature_text)

    # ------------------------------------------------------------ parameters

    @functools.cached_property
    def parameter_types(self) -> dict[str, ParameterType]:
        """The types of the parameters that have annotations of Weft's."""
        if self._signature_text is not None:
            given, _ = parse_signature(self._signature_text)
            if len(given) != len(self._names):
                raise ArgumentError(
                    f"a signature of {len(given)} types for {len(self._names)} parameters",
                    "as many", place=self._place(),
                )  # fmt: skip
            return dict(zip(self._names, given, strict=True))
        found = {name: parameter_type(self._hints.get(name)) for name in self._names}
        return {name: type_ for name, type_ in found.items() if type_ is not None}

    @functools.cached_property
    def result_type(self) -> Any:
        """The type of what is returned, as the signature says, or `UNCHECKED`."""
        if self._signature_text is not None:
            return parse_signature(self._signature_text)[1]
        return result_annotated(self._hints["return"]) if "return" in self._hints else UNCHECKED

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self.function, include_extras=True)
        except Exception:  # annotations may be any expressions, of names that are not there
            return getattr(self.function, "__annotations__", {})

    def checked_result(self, result: Any) -> Any:
        """What interpreting the function gave, which is of the type that the signature says."""
        if self.result_type is not UNCHECKED:
            result_types.require(self.function, result, self.result_type)
        return result

    def _place(self) -> Place:
        return self.source.place(self.source.tree)

    def _is_known_by_key(self, args: tuple[Any, ...]) -> bool:
        """Whether other arguments with the same short key are taken as they are.

        Whether a number that is no `int` is a whole one depends on its value. Defaults are in no
        key; arrays of another byte order are not what runs.
        """
        if len(args) != len(self._names):
            return False
        if not all(arg.dtype.isnative for arg in args if isinstance(arg, np.ndarray)):
            return False
        wanted = [self.parameter_types.get(name) for name in self._names]
        return all(
            not isinstance(type_, ScalarType) or type_.dtype.kind in "fc" or type(value) is int
            for type_, value in zip(wanted, args, strict=True)
        )

    def _floats(self) -> tuple[tuple[int, np.dtype[Any]], ...]:
        """The parameters that are floating-point numbers by their annotations, of which type."""
        wanted = enumerate(self.parameter_types.get(name) for name in self._names)
        return tuple(
            (number, type_.dtype.numpy)
            for number, type_ in wanted
            if isinstance(type_, ScalarType) and type_.dtype.kind in "fc"
        )

    def parameter_place(self, name: str) -> Place:
        """Where a parameter stands."""
        tree = self.source.tree.args
        for argument in (*tree.posonlyargs, *tree.args, *tree.kwonlyargs):
            if argument.arg == name:
                return self.source.place(argument)
        return self._place()

    def _refused(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], error: WeftError
    ) -> WeftError:
        """The error of the first argument that holds what no kernel takes, at its parameter."""
        for name, value in self.signature.bind(*args, **kwargs).arguments.items():
            leaves: list[Any] = []
            flatten(value, leaves)
            for leaf in leaves:
                try:
                    data_of(leaf)
                except WeftError:
                    return parameters.refused(name, leaf, error, self.parameter_place(name))
        return error

    # ------------------------------------------------------------ calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != len(self._names):
            args, kwargs = self._in_order(args, kwargs)
        last = self._last_short
        if last is not None and not kwargs and (given := last.repeat(args)) is not MISSED:
            return given
        key = None if kwargs else short_key(args)
        short = None if key is None else self._short.get(key)
        if short is not None and (given := short.call(args)) is not MISSED:
            self._last_short = None if short.repeated is None else short
            return given
        if os.environ.get("WEFT_DISABLE", "0") not in ("", "0"):
            return self.function(*args, **kwargs)
        leaves, data, ready, shared = self._found(args, kwargs)
        if self._overlaps(ready, data, shared):
            return self.function(*args, **kwargs)
        assertions = Outputs.of(ready.variant).assertions
        may_fill = assertions is not None and assertions.may_fill
        if may_fill:
            try:
                result = self._launch_again(ready, data, leaves)
            except ListFullError as full:
                self._make_room(full)
                return self(*args, **kwargs)
        else:
            result = self._launch(ready, data, leaves)
        if key is not None and short is None and not may_fill:
            self._remember_short(key, args, ready, data, shared)
        for number in Outputs.of(ready.variant).written:
            leaf = leaves[number]
            if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
                np.copyto(leaf, data[number].reshape(leaf.shape))
        return result

    def _make_room(self, full: ListFullError) -> None:
        """Have more room for lists than that in which a run did not find enough."""
        if self._room >= MOST_ROOM:
            raise full
        self._room *= _MORE_ROOM

    def _in_order(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments without names, with defaults, where that is the same call."""
        given = self._defaults | kwargs
        rest = self._names[len(args) :]
        if not self._takes_places or len(args) > len(self._names) or kwargs.keys() - {*rest}:
            return args, kwargs
        try:
            return (*args, *(given[name] for name in rest)), {}
        except KeyError:
            return args, kwargs  # one is missing

    def _remember_short(
        self, key: Any, args: tuple[Any, ...], ready: Ready, data: list[Any],
        shared: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Calls with arguments of these shapes and types may go a short way from now on."""
        apart = shared[:-1] == tuple(range(len(data)))
        known = apart and len(data) == len(args) and self._is_known_by_key(args)
        short = short_way(ready, args, data, self._floats()) if known else None
        if short is not None:
            if len(self._short) >= FEW:
                self._short.clear()
            self._short[key] = short

    def _found(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], list[Any], Ready, tuple[Any, ...]]:
        """The arguments, their data, the variant for them, and which of them are one array.

        Lengths that other programs compute, which run here, are further arguments (`measured`).
        """
        leaves, structure = self._arguments(args, kwargs)
        try:
            data = [data_of(leaf) for leaf in leaves]
        except WeftError as error:
            raise self._refused(args, kwargs, error) from None
        if any(isinstance(leaf, Array) for leaf in data):
            raise ArgumentError(
                "a lazy array as an argument of a kernel, which writes in place",
                "NumPy arrays", "x.numpy(), or a function of wf.jit", place=user_place(),
            )  # fmt: skip
        while True:
            shared = told_apart(leaves, data, self._room)
            key = (structure, shared, *map(exact_key, data))
            ready = self._exact.get(key) or self._remember(key, data, structure, shared)
            layout = Outputs.of(ready.variant)
            if not layout.measures:
                return leaves, data, ready, shared
            try:
                length = layout.result(ready.call(data, None), leaves)
            except ListFullError as full:
                self._make_room(full)
                continue
            leaves, data = [*leaves, length], [*data, length]

    def plan_call(self, *args: Any, **kwargs: Any) -> Any:
        """What a call would do, at once or in boxes; nothing runs."""
        _, data, ready, _ = self._found(args, kwargs)
        layout = Outputs.of(ready.variant)
        out = [data[number] for number in layout.written] + [None] * layout.returned
        computation, inputs = ready.variant.computation, ready.inputs(data)
        if not layout.written:
            return execute.plan_call(computation, ready.sizes, inputs)
        return execute.plan_of_call(computation, ready.sizes, inputs, out)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                f"a call of {self.function.__name__}: {error}", str(self.signature),
                place=user_place(),
            ) from None  # fmt: skip
        bound.apply_defaults()
        if self.parameter_types:
            for name, value in bound.arguments.items():
                wanted = self.parameter_types.get(name)
                if wanted is not None:
                    place = self.parameter_place(name)
                    bound.arguments[name] = parameters.checked(name, value, wanted, place)
        leaves: list[Any] = []
        structure = flatten((bound.args, bound.kwargs), leaves)
        return leaves, structure

    def _overlaps(self, ready: Ready, data: list[Any], first: Sequence[Any]) -> bool:
        """Whether an argument that is written shares some elements with another, in part.

        Then what is written to one is seen in the other, so the plain function runs.
        """
        for number in Outputs.of(ready.variant).written:
            for other, array in enumerate(data):
                if (
                    isinstance(array, np.ndarray)
                    and first[other] != first[number]
                    and share_memory(data[number], array)
                ):
                    names = f"arguments {number} and {other} of {self.function.__name__}"
                    warn(
                        f"{names} overlap in part, and one is written: the function runs in plain "
                        "Python; pass a copy of one"
                    )
                    return True
        return False

    def _launch(self, ready: Ready, data: list[Any], leaves: list[Any]) -> Any:
        """Run, write what was written to the caller's arrays, and give what was returned."""
        layout = Outputs.of(ready.variant)
        out: list[Any] | None = None
        if layout.written:
            out = [data[number] for number in layout.written] + [None] * layout.returned
            for number in layout.written:
                require_writable(data[number], self._place())
        values = ready.call(data, out)
        return layout.result(values, leaves)

    def _launch_again(self, ready: Ready, data: list[Any], leaves: list[Any]) -> Any:
        """Run; where a list has no room, with what is written as it was before."""
        written = [data[number] for number in Outputs.of(ready.variant).written]
        before = [array.copy() for array in written]
        try:
            return self._launch(ready, data, leaves)
        except ListFullError:
            for array, own in zip(written, before, strict=True):
                np.copyto(array, own)
            raise

    def _run(self, leaves: Sequence[Any], structure: Any, static: Any) -> Any:
        """Interpret it, again where a list turns out to grow, or what a mask selects is written."""
        growing: dict[Place, bool] = {}
        separate: set[Place] = set()
        while True:
            try:
                return self._interpreted(leaves, structure, static, growing, separate)
            except Grows as signal:
                growing[signal.place] = signal.is_common or growing.get(signal.place, False)
            except WritesSelection as signal:
                separate.add(signal.place)

    def _interpreted(
        self, leaves: Sequence[Any], structure: Any, static: Any, growing: dict[Place, bool],
        separate: set[Place],
    ) -> Any:  # fmt: skip
        """What arguments were written, the function's result, and what assertions give."""
        memory = Memory()
        lengths = leaves[count_leaves(structure) :]
        trace = Trace(
            memory, call_function, enter, growing=growing, room=self._room,
            separate=separate, measured=Measured(lengths),
        )  # fmt: skip
        cells: dict[int, Reference] = {}
        given: dict[int, Reference] = {}
        _, *layouts = static[-1]
        values: list[Any] = []
        for number, leaf in enumerate(leaves):
            first = static[number]
            if isinstance(leaf, Array) and leaf.ndim:
                if first not in cells:
                    cells[first] = memory.make(leaf)
                    cells[first].cell.layout = layouts[number]
                    given[first] = cells[first]
                    if layouts[number] == ():
                        given[first] = cells[first].through(KeyView((0,)))
                leaf = given[first]
            values.append(leaf)
        before = {number: reference.read()._node for number, reference in cells.items()}
        args, kwargs = unflatten(structure, iter(values))
        self._parallel = trace.parallel
        self._rebound = trace.rebound
        try:
            result = self.checked_result(call_function(trace, self.function, args, kwargs))
        except Unmeasured as signal:
            return [0], [], (Length(), signal.length), trace.assertions.outcome()
        written = [n for n, r in cells.items() if r.read()._node is not before[n]]
        owners = {id(reference.cell): (n, reference) for n, reference in given.items()}
        returned = marked(result, owners)
        with interpreting(self.source.place(self.source.tree.body[-1])):  # what is read is given
            arrays = [cells[number].read() for number in written]
            outcome = trace.assertions.outcome()
            return [len(written), *written], arrays, plain(returned), outcome

    def trace(self, *args: Any, **kwargs: Any) -> fun.Program:
        """The FUN program of a call, before any pass."""
        leaves, structure = self._arguments(args, kwargs)
        return self.variant(leaves, structure)[0].computation.program

    def variant(self, leaves: list[Any], structure: Any) -> Found:
        """The program for some arguments, and the values of its size variables."""
        data = [concrete(data_of(leaf)) for leaf in leaves]
        found = self._variant(data, structure, told_apart(leaves, data, self._room))
        if Outputs.of(found[0]).measures:
            raise refused_ahead()
        return found

    def most_general(self, leaves: list[Any], structure: Any, static: Any = None) -> Found:
        """The program for any length, of arguments such as these."""
        data = [concrete(data_of(leaf)) for leaf in leaves]
        static = static or told_apart(leaves, data, self._room)
        return super()._variant(data, structure, static, any_length=True)

    def _variant(
        self, leaves: list[Any], structure: Any, static: Any, orders: Any = (),
        any_length: bool = False,
    ) -> Found:  # fmt: skip
        found = super()._variant(leaves, structure, static, orders, any_length)
        if not most_general.are_wanted():
            return found
        trace = functools.partial(self.most_general, leaves, structure)
        return most_general.serving(self.function.__name__, found, static, trace)

    def _parameter_names(self, structure: Any, placed: list[Placed]) -> dict[Node, str]:
        return super()._parameter_names(structure, placed[: count_leaves(structure)])

    def _replaced(
        self, program: fun.Program, inputs: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> dict[str, int]:
        names = {
            given.number: param.name
            for given, param in zip(inputs, program.params, strict=True)
            if isinstance(given, Argument)
        }
        written = enumerate(outputs[1 : outputs[0] + 1])
        return {names[number]: k for k, number in written if number in names}

    def _finished(
        self, traced: Traced, values: Mapping[str, int] | None
    ) -> tuple[fun.Program, tuple[Fact, ...]]:
        """The program with loops whose rounds are independent as kernels."""
        program = simplify(traced.program)
        direct = write_through(program)
        program = remove_dead(program if direct is program else simplify(direct))
        library = "no-blas" not in words().split()
        program = sum_inwards(program, self._parallel)
        result = parallelise(program, values, self._parallel, library, self._rebound)
        for remark in result.remarks if values is not None else ():
            tell(remark, self._parallel[remark.place], self.function.__name__)
        program = remove_dead(simplify(result.program))
        assumed = dict.fromkeys(result.assumed)
        inwards = interchange(program)
        if inwards is not program:  # loops that are in kernels now may be reductions
            again = parallelise(simplify(inwards), values)
            program = remove_dead(simplify(again.program))
            assumed |= dict.fromkeys(again.assumed)
        if library:
            program, squares = products(program, values)
            assumed |= dict.fromkeys(squares)
        if result.postponed:
            again = parallelise(program, values, self._parallel, rebound=self._rebound)
            program = remove_dead(simplify(again.program))
            assumed |= dict.fromkeys(again.assumed)
        return distribute(program), tuple(assumed)
