"""Random programs as a user would write them, with data that is hard on them.

A program is drawn one step at a time, beside its values by NumPy, so that each step suits the
shapes and dtypes that are there. `sure` values are the same bits however they are computed;
what decides something (a comparison, an index, a cast to an integer) only looks at those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import weft as wf

DTYPES = [np.dtype(name) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)]  # fmt: skip
EXTENTS = [3, 5, 7, 11, 13, 17, 2, 1, 0]
LARGE = [67, 3, 1031, 131, 5, 4099, 2]
SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e30, 1e-30]


@dataclass
class Item:
    """A value of the program: a lazy array of its shape and dtype, and where it comes from."""

    lazy: Any
    sure: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lazy.shape  # type: ignore[no-any-return]

    @property
    def kind(self) -> str:
        return self.lazy.dtype.kind  # type: ignore[no-any-return]


@dataclass
class Step:
    """One call: a function of earlier items."""

    text: str
    function: Callable[..., Any]
    operands: tuple[int, ...]


@dataclass
class UserProgram:
    """Inputs, steps, and which items are given back."""

    inputs: list[Any]
    steps: list[Step]
    results: list[int]

    def __call__(self, *arrays: Any) -> list[Any]:
        items = list(arrays)
        for step in self.steps:
            items.append(step.function(*(items[k] for k in step.operands)))
        return [items[k] for k in self.results]

    def __repr__(self) -> str:
        lines = [
            f"x{k} = {a.dtype}{a.shape} {a.tolist() if a.size < 200 else '...'}"
            for k, a in enumerate(self.inputs)
        ]
        for k, step in enumerate(self.steps, len(self.inputs)):
            lines.append(f"x{k} = {step.text}({', '.join(f'x{n}' for n in step.operands)})")
        return "\n".join([*lines, f"results {self.results}"])


# ---------------------------------------------------------------- data


@st.composite
def arrays(draw: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array; of floats a few are special; some lie backwards or with gaps."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    layout = draw(st.sampled_from(["plain", "plain", "backwards", "gaps", "columns"]))
    if not shape or 0 in shape:
        layout = "plain"
    whole = (shape[0] * 2, *shape[1:]) if layout == "gaps" else shape
    match dtype.kind:
        case "b":
            array: Any = rng.integers(0, 2, whole).astype(bool)
        case "i" | "u":
            array = rng.integers(-20 if dtype.kind == "i" else 0, 21, whole).astype(dtype)
            if draw(st.booleans()):
                limits = np.iinfo(dtype)
                array = _sprinkled(rng, array, [limits.min, limits.max, 0])
        case "f":
            array = (rng.integers(-32, 33, whole) / 4).astype(dtype)
            if draw(st.booleans()):
                array = _sprinkled(rng, array, SPECIAL)
        case _:
            real, imaginary = rng.integers(-32, 33, (2, *whole)) / 4
            array = (real + 1j * imaginary).astype(dtype)
    array = np.asarray(array)
    if layout == "backwards":
        array = array[..., ::-1]
    elif layout == "gaps":
        array = array[::2]
    elif layout == "columns":
        array = np.asfortranarray(array)
    return array


def _sprinkled(rng: Any, array: Any, values: Sequence[Any]) -> Any:
    flat = np.array(array).reshape(-1)
    for place in rng.integers(0, max(flat.size, 1), min(3, flat.size)):
        flat[place] = values[rng.integers(len(values))]
    return flat.reshape(np.shape(array))


# ---------------------------------------------------------------- steps

Made = tuple[str, Callable[..., Any], tuple[int, ...], bool] | None
"""Text, function, operands, and whether the result is as sure as its operands."""


class Drawing:
    """A program while it is drawn."""

    def __init__(self, draw: Any, inputs: list[Any], most: int) -> None:
        self.draw = draw
        self.most = most  # elements of an array
        self.items = [Item(wf.asarray(value), True) for value in inputs]
        self.steps: list[Step] = []

    def one(self, kinds: str = "biufc", sure: bool = False, rank: int = 0) -> int | None:
        """One item, more often a late one."""
        found = [
            k for k, item in enumerate(self.items)
            if item.kind in kinds and (item.sure or not sure) and len(item.shape) >= rank
        ]  # fmt: skip
        if not found:
            return None
        return found[-1 - min(self.draw(st.integers(0, 3)), len(found) - 1)]

    def fitting(self, k: int, kinds: str = "biufc", sure: bool = False) -> int | None:
        """Another item that broadcasts with item `k`."""
        shape = self.items[k].shape
        found = [
            other for other, item in enumerate(self.items)
            if item.kind in kinds
            and (item.sure or not sure)
            and _broadcast(shape, item.shape, self.most)
        ]  # fmt: skip
        return self.draw(st.sampled_from(found)) if found else None

    def axis(self, k: int) -> int:
        rank = len(self.items[k].shape)
        return self.draw(st.integers(-rank, rank - 1))  # type: ignore[no-any-return]

    def add(self, made: Made) -> None:
        if made is None:
            return
        text, function, operands, sure = made
        lazy = function(*(self.items[k].lazy for k in operands))
        if lazy.size > self.most:
            return
        sure = (sure and all(self.items[k].sure for k in operands)) or lazy.dtype.kind in "biu"
        self.items.append(Item(lazy, sure))
        self.steps.append(Step(text, function, operands))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...], most: int = 1 << 60) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a, b)) <= most
    except ValueError:
        return False


_ANY = ["abs", "negative", "square", "positive"]
_SURE = ["floor", "ceil", "trunc", "sign", "round", "isnan", "isfinite", "signbit"]
_MATH = ["exp", "sin", "cos", "tanh", "atan", "expm1", "erf"]


def unary(d: Drawing) -> Made:
    name = d.draw(st.sampled_from(_ANY + _SURE + _MATH + ["sqrt", "logical_not", "bitwise_invert"]))
    function = getattr(wf, name)
    if name in _ANY:
        k = d.one("iufc")
    elif name in _SURE:
        k = d.one("f" if name == "signbit" else "iuf", sure=True)
    elif name == "sqrt":
        k = d.one("f", sure=True)
    elif name == "logical_not":
        k = d.one("b")
    elif name == "bitwise_invert":
        k = d.one("biu")
    else:
        k = d.one("f", sure=True)
    # abs of complex numbers is a hypot, and their squares may be fused otherwise.
    sure = name not in _MATH and (k is None or d.items[k].kind != "c")
    return None if k is None else (f"wf.{name}", function, (k,), sure)


def binary(d: Drawing) -> Made:
    name = d.draw(st.sampled_from([
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "minimum", "maximum",
        "less", "greater_equal", "equal", "not_equal", "bitwise_and", "bitwise_xor", "copysign",
        "logical_or", "hypot", "atan2",
    ]))  # fmt: skip
    decides = name in ("less", "greater_equal", "equal", "not_equal", "floor_divide", "remainder")
    kinds = {
        "add": "iufc", "subtract": "iufc", "multiply": "iufc", "divide": "f", "floor_divide": "iuf",
        "remainder": "iuf", "minimum": "iuf", "maximum": "iuf", "less": "iuf",
        "greater_equal": "iuf", "equal": "iufc", "not_equal": "biufc", "bitwise_and": "biu",
        "bitwise_xor": "iu", "copysign": "f", "logical_or": "b", "hypot": "f", "atan2": "f",
    }[name]  # fmt: skip
    sure = decides or name in ("divide", "copysign", "atan2")
    k = d.one(kinds, sure)
    other = None if k is None else d.fitting(k, kinds, sure)
    if k is None or other is None:
        return None
    promoted = wf.result_type(d.items[k].lazy.dtype, d.items[other].lazy.dtype).kind
    both = d.items[k].kind + d.items[other].kind
    if name.startswith("bitwise") and promoted == "f":
        return None
    if "b" in both and both != "bb":
        return None
    plain = "c" not in both and name not in ("hypot", "atan2")
    return f"wf.{name}", getattr(wf, name), (k, other), plain


def with_number(d: Drawing) -> Made:
    k = d.one("iuf")
    if k is None:
        return None
    value = d.draw(st.sampled_from([0, 1, 2, 3, 7, 100]))
    if d.items[k].kind == "f":
        value = d.draw(st.sampled_from([value, 0.5, 3.25, -1.5, 0.1]))
    operation = d.draw(st.sampled_from("+-*r"))
    function = {
        "+": lambda x: x + value, "-": lambda x: x - value, "*": lambda x: value * x,
        "r": lambda x: value - x,
    }[operation]  # fmt: skip
    return f"{operation} {value}", function, (k,), True


def cast(d: Drawing) -> Made:
    k = d.one(sure=True)
    if k is None:
        return None
    dtype = d.draw(st.sampled_from(DTYPES))
    if d.items[k].kind == "c" and dtype.kind != "c":
        return None
    if d.items[k].kind == "f" and dtype.kind in "iu":
        # what a C cast of too large a number gives is the machine's business, and NumPy's
        return (
            f"clipped to {dtype}",
            lambda x: wf.astype(wf.where(wf.abs(x) < 100, wf.abs(x), 3), dtype), (k,), True,
        )  # fmt: skip
    return f"astype {dtype}", lambda x: wf.astype(x, dtype), (k,), True


def choose(d: Drawing) -> Made:
    k = d.one("iuf", sure=True)
    a = None if k is None else d.fitting(k)
    b = None if k is None else d.fitting(k)
    if k is None or a is None or b is None:
        return None
    return "where", lambda c, x, y: wf.where(c > 1, x, y) if _same3(c, x, y) else c, (k, a, b), True


def _same3(*arrays: Any) -> bool:
    kinds = {x.dtype.kind for x in arrays[1:]}
    return _broadcast(np.broadcast_shapes(arrays[0].shape, arrays[1].shape), arrays[2].shape) and (
        "b" not in kinds or len(kinds) == 1
    )


def sliced(d: Drawing) -> Made:
    k = d.one(rank=1)
    if k is None:
        return None
    key = []
    for extent in d.items[k].shape:
        step = d.draw(st.sampled_from([1, 1, 2, 3, -1, -2, -5]))
        ends = st.one_of(st.none(), st.integers(-extent - 1, extent + 1))
        if extent and d.draw(st.integers(0, 5)) == 0:
            key.append(d.draw(st.integers(-extent, extent - 1)))
        else:
            key.append(slice(d.draw(ends), d.draw(ends), step))
    return f"x[{key}]", lambda x: x[tuple(key)], (k,), True


def arranged(d: Drawing) -> Made:
    what = d.draw(st.sampled_from(
        ["permute", "flatten", "split", "concat", "stack", "roll", "flip", "expand", "repeat",
         "tile", "broadcast", "take", "diff"]
    ))  # fmt: skip
    k = d.one("iuf" if what == "diff" else "biufc", rank=1)
    if k is None:
        return None
    shape, axis, sure = d.items[k].shape, d.axis(k), True
    rank = len(shape)
    match what:
        case "permute":
            order = d.draw(st.permutations(range(rank)))
            function: Any = lambda x: wf.permute_dims(x, tuple(order))  # noqa: E731
        case "flatten":
            function = lambda x: wf.reshape(x, (-1,)) if x.size else x  # noqa: E731
        case "split":
            extent = shape[axis]
            factors = [f for f in range(1, extent + 1) if extent % f == 0] or [1]
            factor = d.draw(st.sampled_from(factors))
            at = axis % rank
            new = (*shape[:at], factor, extent // factor, *shape[at + 1 :])
            function = lambda x: wf.reshape(x, new)  # noqa: E731
        case "concat":
            function = lambda x: wf.concat([x, wf.flip(x, axis=axis), x[:1]], axis=0)  # noqa: E731
        case "stack":
            function = lambda x: wf.stack([x, wf.roll(x, 1, axis=axis)], axis=axis)  # noqa: E731
        case "roll":
            shift = d.draw(st.integers(-20, 20))
            function = lambda x: wf.roll(x, shift, axis=axis)  # noqa: E731
        case "flip":
            function = lambda x: wf.flip(x, axis=axis)  # noqa: E731
        case "expand":
            function = lambda x: wf.expand_dims(x, axis=axis)  # noqa: E731
        case "repeat":
            function = lambda x: wf.repeat(x, 3, axis=axis)  # noqa: E731
        case "tile":
            function = lambda x: wf.tile(x, (2,))  # noqa: E731
        case "broadcast":
            function = lambda x: wf.broadcast_to(x, (3, *x.shape))  # noqa: E731
        case "take":
            if not shape[axis]:
                return None
            where = d.draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=6))
            function = lambda x: wf.take(x, wf.asarray(where), axis=axis)  # noqa: E731
        case _:
            function = lambda x: wf.diff(x, axis=axis)  # noqa: E731
    return f"{what} axis {axis}", function, (k,), sure


def reduced(d: Drawing) -> Made:
    name = d.draw(st.sampled_from(
        ["sum", "prod", "mean", "var", "std", "min", "max", "all", "any", "argmax", "argmin",
         "count_nonzero", "nansum", "nanmax"]
    ))  # fmt: skip
    exact = name in ("min", "max", "all", "any", "argmax", "argmin", "count_nonzero", "nanmax")
    kinds = {"all": "biuf", "any": "biuf", "nansum": "f", "nanmax": "f", "prod": "iu"}
    k = d.one(kinds.get(name, "iuf"), sure=exact or name in ("var", "std"))
    if k is None:
        return None
    shape, rank = d.items[k].shape, len(d.items[k].shape)
    axis: Any = d.draw(st.one_of(st.none(), st.integers(-rank, rank - 1))) if rank else None
    if rank > 1 and not name.startswith("arg") and d.draw(st.integers(0, 3)) == 0:
        axis = (0, rank - 1)
    keepdims = d.draw(st.booleans())
    if 0 in shape and name in ("min", "max", "argmax", "argmin", "nanmax"):
        return None
    function = lambda x: getattr(wf, name)(x, axis=axis, keepdims=keepdims)  # noqa: E731
    return f"wf.{name} axis {axis} keepdims {keepdims}", function, (k,), exact


def running(d: Drawing) -> Made:
    name = d.draw(st.sampled_from(["sum", "sum", "prod", "max", "exclusive", "pairs"]))
    k = d.one("iu" if name == "prod" else "iuf", sure=name in ("max", "pairs"), rank=1)
    if k is None:
        return None
    axis, initial = d.axis(k), d.draw(st.booleans())

    def linear(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    functions: dict[str, Any] = {
        "sum": lambda x: wf.cumulative_sum(x, axis=axis, include_initial=initial),
        "prod": lambda x: wf.cumulative_prod(x, axis=axis, include_initial=initial),
        "max": lambda x: wf.associative_scan("max", x, axis=axis),
        "exclusive": lambda x: wf.associative_scan("add", x, axis=axis, exclusive=True),
        "pairs": lambda x: wf.associative_scan(
            linear, wf.where(x > 0, 0.5, -0.25), wf.astype(x, "float64"), init=(1.0, 0.0), axis=axis
        )[1],
    }
    return f"running {name} axis {axis}", functions[name], (k,), name == "max"


def updated(d: Drawing) -> Made:
    k = d.one("iuf", rank=1)
    if k is None:
        return None
    extent = d.items[k].shape[0]
    if not extent:
        return None
    where = d.draw(st.lists(st.integers(0, extent - 1), min_size=1, max_size=7))
    what = d.draw(st.sampled_from(["set", "add", "max", "min", "slice", "histogram"]))
    index = wf.asarray(where)
    functions: dict[str, Any] = {
        "set": lambda x: x.at[index].set(3),
        "add": lambda x: x.at[index].add(2),
        "max": lambda x: x.at[index].max(1),
        "min": lambda x: x.at[index].min(1),
        "slice": lambda x: x.at[::-2].set(x[::-2] + x[::-2]),
        "histogram": lambda x: wf.scatter(
            wf.zeros(extent, dtype="int64"), index, wf.arange(len(where)), combine="add"
        ),
    }  # fmt: skip
    if what in ("max", "min") and not d.items[k].sure:
        return None
    return f"at {where} {what}", functions[what], (k,), True


def stencilled(d: Drawing) -> Made:
    k = d.one("iuf", rank=1)
    if k is None or 0 in d.items[k].shape or len(d.items[k].shape) > 2:
        return None
    boundary = d.draw(st.sampled_from(["edge", "reflect", "symmetric", "wrap", "keep", 2]))
    rank = len(d.items[k].shape)
    far = d.draw(st.integers(1, 3))
    if boundary == "reflect" and min(d.items[k].shape) == 1:
        return None
    ahead = (0,) * (rank - 1) + (far,)
    behind = (-1,) + (0,) * (rank - 1)
    centre = (0,) * rank

    def cell(s: Any) -> Any:
        return s[ahead] + s[behind] - s[centre]

    return f"stencil {boundary} {far}", lambda x: wf.stencil(cell, x, boundary=boundary), (k,), True


def looped(d: Drawing) -> Made:
    what = d.draw(st.sampled_from(
        ["rows", "nested", "generate", "fori", "while", "scan", "escape", "iterate"]
    ))  # fmt: skip
    k = d.one("iuf", sure=True, rank=1)
    if k is None or 0 in d.items[k].shape:
        return None
    functions: dict[str, Any] = {
        "rows": lambda x: wf.map(lambda row: row + wf.max(row), x),
        "nested": lambda x: wf.map(lambda row: wf.sum(wf.map(lambda v: wf.max(v), _two(row))), x),
        "generate": lambda x: wf.generate((x.shape[0], 3), lambda i, j: 10 * i + j) + x.shape[-1],
        "fori": lambda x: wf.fori_loop(0, 5, lambda i, y: y + x, x),
        "while": lambda x: wf.while_loop(
            lambda s: s[0] < 4, lambda s: (s[0] + 1, wf.maximum(s[1], wf.roll(s[1], 1, axis=0))),
            (0, x),
        )[1],
        "scan": lambda x: wf.scan(lambda c, row: (c + row, wf.maximum(c, row)), x[0], x)[1],
        "escape": lambda x: wf.map(
            lambda v: wf.while_loop(lambda s: s[0] < 20, lambda s: (s[0] + s[1], s[1] + 1),
                                    (wf.max(wf.where(v > 0, v, 0)), 1))[1], wf.astype(x, "float64")
        ),
        "iterate": lambda x: wf.iterate(lambda y: wf.maximum(y, wf.flip(y, axis=0)), x, 3),
    }  # fmt: skip
    return f"loop {what}", functions[what], (k,), True


def _two(row: Any) -> Any:
    return wf.stack([row, row], axis=0) if row.ndim else wf.stack([row, row])


def multiplied(d: Drawing) -> Made:
    k = d.one("iuf", rank=1)
    if k is None:
        return None
    what = d.draw(st.sampled_from(["gram", "vecdot", "tensordot"]))
    functions: dict[str, Any] = {
        "gram": lambda x: x @ (wf.matrix_transpose(x) if x.ndim > 1 else x),
        "vecdot": lambda x: wf.vecdot(x, x),
        "tensordot": lambda x: wf.tensordot(x, x, axes=((0,), (0,))),
    }
    return what, functions[what], (k,), False


STEPS: list[Callable[[Drawing], Made]] = [
    unary, unary, binary, binary, binary, with_number, cast, choose, sliced, sliced, arranged,
    arranged, reduced, reduced, running, updated, stencilled, looped, multiplied,
]  # fmt: skip


@st.composite
def programs(draw: Any, least: int = 4, most: int = 10, large: bool = False) -> UserProgram:
    """A program of a few steps on one to three arrays of related shapes."""
    rank = draw(st.sampled_from([1, 2, 2, 3, 0]))
    extents = st.sampled_from(LARGE if large else EXTENTS)
    base = tuple(draw(st.lists(extents, min_size=rank, max_size=rank)))
    while math.prod(base) > (50_000 if large else 600):
        base = base[1:]
    inputs = []
    for _ in range(draw(st.integers(1, 3))):
        shape = base[draw(st.integers(0, len(base))) :] if draw(st.booleans()) else base
        shape = tuple(1 if draw(st.integers(0, 5)) == 0 else n for n in shape)
        inputs.append(draw(arrays(shape, draw(st.sampled_from(DTYPES)))))
    drawing = Drawing(draw, inputs, 200_000 if large else 5000)
    with np.errstate(all="ignore"):
        wanted = draw(st.integers(least, most))
        for _ in range(3 * wanted):
            drawing.add(draw(st.sampled_from(STEPS))(drawing))
            if len(drawing.steps) == wanted:
                break
    count = len(drawing.items)
    used = {k for step in drawing.steps for k in step.operands}
    results = [k for k in range(len(inputs), count) if k not in used][-4:] or [count - 1]
    return UserProgram(inputs, drawing.steps, results)
