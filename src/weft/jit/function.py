"""`weft.jit`: functions on arrays, traced once for each pattern of arguments.

A call goes one of two ways. With any `weft.Array` among its arguments it is lazy: the
function runs on them, and gives lazy arrays. Otherwise its arguments are data: the function
is traced on placeholders, once for each *pattern* (containers, dtypes, ranks, dimensions of
0 and 1, static values), compiled, and run at once. What tracing decided from sizes alone
are facts of the variant, checked once for each set of exact shapes.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import execute
from weft.array import Array, asarray
from weft.array.making import order_of_rows, turned_back
from weft.errors import ArgumentError, ArgumentTypeError, MemoryLimitError, user_place, warn
from weft.frontend import operations
from weft.frontend.containers import Structure, count_leaves, flatten, unflatten
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.frontend.guards import record, recording, tracing
from weft.frontend.trace import Traced, graph_key, trace
from weft.fun import nodes as fun
from weft.jit.arguments import (
    STATIC,
    Argument,
    Foreign,
    Orders,
    Placed,
    as_data,
    concrete,
    data_of,
    exact_key,
    facts_of,
    kind_of,
    origins_of,
    pattern_key,
    placeholder,
    row_by_row,
)
from weft.jit.variants import MISSED, Ready, Variant, destinations, output_of
from weft.launch import Computation, Repeated
from weft.runtime.garbage import few_collections
from weft.sizes import Fact

F = TypeVar("F", bound=Callable[..., Any])

FEW = 4096  # exact shapes remembered for each function


class Jitted:
    """A function that `weft.jit` compiles; see there."""

    def __init__(self, function: Callable[..., Any], static_argnames: Iterable[str]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.static = (
            (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        )
        self.signature = inspect.signature(function)
        unknown = [name for name in self.static if name not in self.signature.parameters]
        if unknown:
            raise ArgumentError(
                f"static_argnames {unknown}",
                f"parameters of {function.__name__}",
                place=user_place(),
            )
        self._exact: dict[Any, Ready] = {}
        self._variants: dict[Any, list[Variant]] = {}
        self._lock = threading.RLock()
        self._last: tuple[Ready, Repeated] | None = None  # of the last call that may be repeated
        self._last_out: Repeated | None = None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        found: Any = sys.modules.get(self.function.__module__)
        for name in self.function.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is self:
            return self.function.__qualname__  # by name, as functions are
        return Jitted, (self.function, self.static)

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if not kwargs and (given := self._again(args, out)) is not MISSED:
            return given
        if not kwargs and not self.static:
            key = []
            for value in args:
                if type(value) is np.ndarray and value.dtype.isnative:
                    if value.ndim > 1 and order_of_rows(value) is not None:
                        break
                    key.append((value.shape, value.dtype))
                elif type(value) is float:
                    key.append(float)  # type: ignore[arg-type]
                elif type(value) is int:
                    key.append(value)  # type: ignore[arg-type]
                else:
                    break
            else:
                ready = self._exact.get(tuple(key))
                if ready is not None:
                    return self._call(ready, args, out)
                ready = self._remember(tuple(key), list(args), (tuple, (None,) * len(args)), ())
                return ready.call(args, destinations(out, ready.variant))
        return self._general(args, kwargs, out)

    def _again(self, args: tuple[Any, ...], out: Any) -> Any:
        """What a call gives whose arguments are like those of the last; `MISSED` for others."""
        if out is None:
            last = self._last
            if last is None or (values := last[1].call(args)) is None:
                return MISSED
            return last[0].rebuilt(values, None)
        last_out = self._last_out
        if last_out is None or type(out) is not np.ndarray or last_out.call((*args, out)) is None:
            return MISSED
        return out

    def _call(self, ready: Ready, args: tuple[Any, ...], out: Any) -> Any:
        """A call like one that has run, which the next one may repeat."""
        result = ready.call(args, destinations(out, ready.variant))
        if out is None:
            repeated = ready.repeated(args)
            self._last = None if repeated is None else (ready, repeated)
        elif type(out) is np.ndarray:
            self._last_out = ready.repeated_out(args, out)
        return result

    # ------------------------------------------------------------ calls of any kind

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        leaves, structure, static = self._flat(args, kwargs)
        leaves = [as_data(leaf) for leaf in leaves]
        kinds = [leaf for leaf in leaves if isinstance(leaf, Foreign)]
        leaves = [leaf.data if isinstance(leaf, Foreign) else leaf for leaf in leaves]
        if any(isinstance(leaf, Array | Extent) for leaf in leaves):
            return self._lazy(leaves, structure, static, out)
        ready, leaves = self._ready(leaves, structure, static)
        result = ready.call(leaves, destinations(out, ready.variant))
        return kinds[0].restore(result) if kinds else result

    def _ready(
        self, leaves: list[Any], structure: Structure, static: Any
    ) -> tuple[Ready, list[Any]]:
        """The variant for data, and the data as it takes them."""
        leaves, orders = row_by_row(leaves)
        key = (structure, static, orders, *map(exact_key, leaves))
        ready = self._exact.get(key)
        return ready or self._remember(key, leaves, structure, static, orders), leaves

    def _flat(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Structure, Any]:
        """The arguments' values, their containers, and (name, value, its kind) of static ones."""
        static: list[tuple[str, Any, Any]] = []
        if self.static:
            bound = self.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            for name in self.static:
                value = bound.arguments[name]
                try:
                    hash(value)
                except TypeError:
                    raise ArgumentTypeError(
                        f"static argument {name} of type {type(value).__name__}",
                        "a hashable value",
                        place=user_place(),
                    ) from None
                static.append((name, value, kind_of(value)))
                several = self.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                bound.arguments[name] = (STATIC,) if several else STATIC
            args, kwargs = bound.args, bound.kwargs
        leaves: list[Any] = []
        structure = flatten(args, leaves)
        if kwargs or static or any(part is not None for part in structure[1]):
            leaves.clear()
            structure = flatten((args, kwargs), leaves)
        return leaves, structure, tuple(static)

    def _run(self, leaves: Sequence[Any], structure: Structure, static: Any) -> Any:
        """The function itself, on values in the containers of its arguments."""
        if structure[0] is tuple and all(part is None for part in structure[1]):
            return self.function(*leaves)
        args, kwargs = unflatten(structure, iter(leaves))
        if static:
            bound = self.signature.bind(*args, **kwargs)
            for name, value, _ in static:
                bound.arguments[name] = value
            args, kwargs = bound.args, bound.kwargs
        return self.function(*args, **kwargs)

    def _lazy(self, leaves: list[Any], structure: Structure, static: Any, out: Any) -> Any:
        if out is not None:
            raise ArgumentError(
                "out= with lazy arguments", "NumPy arguments", "wf.store(f(x), target)",
                place=user_place(),
            )  # fmt: skip
        values = [asarray(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        with recording() as guards:
            result = self._run(values, structure, static)
        if tracing():
            record(guards)
            return result
        given: list[Any] = []
        containers = flatten(result, given)
        for value in given:
            if isinstance(value, Array) and not isinstance(value._node.operation, operations.Leaf):
                value._node.guards = (*value._node.guards, *guards)
        return unflatten(containers, iter(given))

    # ------------------------------------------------------------ tracing

    def _remember(
        self, key: Any, leaves: list[Any], structure: Structure, static: Any, orders: Orders = ()
    ) -> Ready:
        with self._lock:
            variant, sizes = self._variant(leaves, structure, static, orders)
            template = [None if isinstance(i, Argument) else i for i in variant.inputs]
            arrays, scalars = [], []
            params = variant.computation.program.params
            for place, source in enumerate(variant.inputs):
                if not isinstance(source, Argument):
                    continue
                value = leaves[source.number]
                if isinstance(value, np.ndarray) and (value.shape or value.dtype.isnative):
                    arrays.append((place, source.number))
                else:  # numbers, which compiled code takes by value
                    scalars.append((place, source.number, params[place].type.dtype.numpy))
            ready = Ready(variant, sizes, tuple(scalars), tuple(arrays), template)
            if len(self._exact) >= FEW:
                self._exact.clear()
            self._exact[key] = ready
            return ready

    def _variant(
        self, leaves: list[Any], structure: Structure, static: Any, orders: Orders = (),
        any_length: bool = False,
    ) -> tuple[Variant, dict[str, int]]:  # fmt: skip
        """The trace that serves some arguments, and the values of its size variables.

        One for any length takes 0 and 1 for lengths like others, and nothing from the values.
        """
        keys = [pattern_key(leaf, any_length) for leaf in leaves]
        pattern = (structure, static, orders, any_length, *keys)
        variants = self._variants.setdefault(pattern, [])
        for variant in variants:
            sizes = variant.sizes(leaves)
            if sizes is not None:
                return variant, sizes
        with few_collections():
            variant = self._trace(leaves, structure, static, orders, any_length)
        variants.append(variant)
        sizes = variant.sizes(leaves)
        assert sizes is not None, "a trace's own sizes satisfy its facts"
        return variant, sizes

    def _trace(
        self, leaves: list[Any], structure: Structure, static: Any, orders: Orders,
        any_length: bool,
    ) -> Variant:  # fmt: skip
        placed = [placeholder(leaf, number, any_length) for number, leaf in enumerate(leaves)]
        values = [place.value for place in placed]
        for number, order in orders:
            values[number] = turned_back(values[number]._node, order)
        arrays = [(value, value._node) for value in values if isinstance(value, Array)]
        with recording() as guards:
            result = self._run(values, structure, static)
            if result is None and any(array._node is not node for array, node in arrays):
                name = getattr(self.function, "__name__", "a function")
                warn(
                    f"{name}, compiled by wf.jit, writes its arguments and gives nothing: arrays "
                    "given to it stay as they are; wf.kernel compiles functions that write their "
                    "arguments, or return the array"
                )
            given: list[Any] = []
            containers = flatten(result, given)
            nodes: list[Node] = []
            outputs = tuple(output_of(value, nodes) for value in given)
        names = self._parameter_names(structure, placed)
        walk = graph_key(nodes)
        name = getattr(self.function, "__name__", "partial")
        traced = trace(nodes, name if name.isidentifier() else "main", guards, names, walk)
        program, assumed = self._finished(traced, None if any_length else traced.values)
        origins = origins_of(walk, placed)
        inputs = tuple(
            leaf.value if isinstance(leaf.value, Argument) else data_of(leaf)
            for leaf in walk.leaves
        )
        facts = (*facts_of(walk, guards), *assumed)
        return Variant(
            Computation(program, self._replaced(program, inputs, outputs)), origins,
            tuple(walk.derived), facts, inputs, containers, outputs,
        )  # fmt: skip

    def _replaced(
        self, program: fun.Program, inputs: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> dict[str, int]:
        """Parameters that results are to replace, and the numbers of those."""
        return {}

    def _finished(
        self, traced: Traced, values: Mapping[str, int] | None
    ) -> tuple[fun.Program, tuple[Fact, ...]]:
        """The program to be compiled, and facts under which it is what was traced.

        `values`: of its size variables, from which facts may be assumed.
        """
        return traced.program, ()

    def _parameter_names(self, structure: Structure, placed: list[Placed]) -> dict[Node, str]:
        """What the arguments are called that arrays are given as, or within."""
        _, parts = structure
        by_name: Sequence[Any] = ()
        if any(part is not None for part in parts):  # positional ones, and those by name
            (_, parts), (_, by_name) = parts
        names: list[str] = []
        for parameter in self.signature.parameters.values():
            several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
            names += [parameter.name] * (len(parts) if several else 1)
        given = [*zip(names, parts, strict=False), *by_name]
        each = [name for name, part in given for _ in range(count_leaves(part))]
        return {p.node: n for p, n in zip(placed, each, strict=True) if p.node is not None}

    # ------------------------------------------------------------ looking inside

    def trace(self, *args: Any, **kwargs: Any) -> fun.Program:
        """The FUN program of a call, before any pass."""
        leaves, structure, static = self._flat(args, kwargs)
        leaves, orders = row_by_row([concrete(as_data(leaf)) for leaf in leaves])
        return self._variant(leaves, structure, static, orders)[0].computation.program

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The program of a call at each stage of compilation; nothing runs.

        Returns
        -------
        Lowered
            With `.fun`, `.funmem`, `.imp` (printed IR) and `.source("c")`.
        """
        from weft.jit.lowered import Lowered

        return Lowered(self.trace(*args, **kwargs))

    def plan_call(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """What a call would do, which does not plan again; None where it is lazy. Nothing runs.

        Where results take more memory than there is, they are planned as they would be stored.
        """
        leaves, structure, static = self._flat(args, kwargs)
        leaves = [as_data(leaf) for leaf in leaves]
        leaves = [leaf.data if isinstance(leaf, Foreign) else leaf for leaf in leaves]
        if any(isinstance(leaf, Array | Extent) for leaf in leaves):
            return None
        ready, leaves = self._ready(leaves, structure, static)
        computation, inputs = ready.variant.computation, ready.inputs(leaves)
        given = destinations(out, ready.variant)
        if given is not None:
            ready.check_shapes(given)
            return execute.plan_of_call(computation, ready.sizes, inputs, given)
        if not computation.results:
            raise ArgumentTypeError(
                "a function that gives no array", "one whose result is an array",
                place=user_place(),
            )  # fmt: skip
        try:
            return execute.plan_call(computation, ready.sizes, inputs)
        except MemoryLimitError:
            if computation.parted is not None:
                raise
            return execute.plan_stored(computation, ready.sizes, inputs, ready.shapes())

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """The plan that a call would follow, as `weft.explain` gives it.

        Nothing runs but what lengths of arrays are computed by.
        """
        from weft.functions.running import explain

        return explain(self, *args, **kwargs)


def jit(function: F | None = None, /, *, static_argnames: str | Iterable[str] = ()) -> Any:
    """Compile a function on arrays.

    The function is traced: called with arrays that have shapes and dtypes but no values.
    It is traced once for each pattern of arguments, and what it does to them is compiled.

    Parameters
    ----------
    function : callable
        Of arrays, Python numbers, and containers of them; gives arrays in containers.
    static_argnames : str or sequence of str
        Parameters whose values are part of the program: traced again for each value.

    Returns
    -------
    Jitted
        Called with NumPy arrays, it computes and gives NumPy arrays (into `out=`, if
        given); with any `weft.Array` it is lazy; with arrays that have DLPack it gives
        arrays of their kind. `f.lower(*args)` and `f.explain(*args)` look inside.

    Raises
    ------
    TracingError
        When called, where the function needs a value: `if` on an array, `float(x)`, ...

    Examples
    --------
    >>> @jit
    ... def normalise(x):
    ...     return (x - x.mean(axis=0)) / x.std(axis=0)
    """
    if function is None:
        return lambda f: Jitted(f, static_argnames)
    return Jitted(function, static_argnames)
