"""Views by strides against NumPy's; and of views, joins and rules what is transferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from devices.harness import device
from hypothesis import given, settings
from hypothesis import strategies as some
from programs.agree import assert_agree
from slow import examples

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.launch.computation import Computation
from weft.launch.packed import packed_call
from weft.launch.packed_calls import PackedCall
from weft.ops.dtypes import DType
from weft.runtime.incore import derive
from weft.sizes import Poly, as_poly
from weft.transfer.interiors import without_rules
from weft.transfer.views import Lie, read_in_kernels, views

ARRAY = fun.Var("x", fun.Array(DType.I64, ()))
MEMORY = np.arange(4096)


def lie_of(array: npt.NDArray[Any]) -> Lie:
    address = array.__array_interface__["data"][0] - MEMORY.__array_interface__["data"][0]
    return Lie(0, address // 8, array.shape, tuple(stride // 8 for stride in array.strides))


def elements(lie: Lie) -> npt.NDArray[Any]:
    grid = np.indices(lie.shape, sparse=True)
    total = lie.address + sum(s * axis for s, axis in zip(lie.strides, grid, strict=True))
    return np.broadcast_to(total, lie.shape)


@some.composite
def layout_changes(draw: Any, shape: tuple[int, ...]) -> tuple[fun.Expr, Callable[[Any], Any]]:
    """A layout change of an array of a shape, and the same for NumPy's."""
    kind = draw(some.sampled_from(["slice", "permute", "broadcast", "reshape", "lmad"]))
    if kind == "lmad" and len(shape) == 1:
        start, step = draw(some.integers(0, shape[0] - 1)), draw(some.sampled_from([-2, -1, 1, 3]))
        room = (shape[0] - 1 - start) // step if step > 0 else start // -step
        extent = draw(some.integers(1, room + 1))
        pairs = ((as_poly(2), as_poly(0)), (as_poly(extent), as_poly(step)))
        at = start + step * np.arange(extent)
        return fun.LmadSlice(ARRAY, as_poly(start), pairs), lambda x: np.stack([x[at], x[at]])
    if kind == "permute":
        axes = tuple(draw(some.permutations(range(len(shape)))))
        return fun.Permute(ARRAY, axes), lambda x: x.transpose(axes)
    if kind == "broadcast":
        new = (*draw(some.lists(some.integers(1, 3), max_size=2)), *(
            draw(some.integers(1, 3)) if n == 1 else n for n in shape
        ))  # fmt: skip
        return fun.Broadcast(ARRAY, tuple(map(as_poly, new))), lambda x: np.broadcast_to(x, new)
    if kind == "reshape":
        new = tuple(shape)
        if len(new) > 1 and draw(some.booleans()):
            axis = draw(some.integers(0, len(new) - 2))
            new = (*new[:axis], new[axis] * new[axis + 1], *new[axis + 2 :])
        if new and draw(some.booleans()):
            axis = draw(some.integers(0, len(new) - 1))
            parts = [k for k in range(1, new[axis] + 1) if new[axis] % k == 0]
            part = draw(some.sampled_from(parts))
            new = (*new[:axis], part, new[axis] // part, *new[axis + 1 :])
        return fun.Reshape(ARRAY, tuple(map(as_poly, new))), lambda x: x.reshape(new)
    dims: list[Any] = []
    index: list[Any] = []
    for extent in shape:
        start = draw(some.integers(0, extent - 1))
        if draw(some.integers(0, 3)) == 0:
            dims.append(as_poly(start))
            index.append(start)
            continue
        step = draw(some.sampled_from([-2, -1, 1, 2]))
        room = extent - 1 - start if step > 0 else start
        count = draw(some.integers(1, 1 + room // abs(step)))
        dims.append(fun.Span(as_poly(start), as_poly(count), step))
        index.append(start + step * np.arange(count))

    def sliced(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        for axis in reversed(range(len(index))):
            x = np.take(x, index[axis], axis=axis)
        return x

    return fun.Slice(ARRAY, tuple(dims)), sliced


@settings(max_examples=examples(300), deadline=None)
@given(some.data())
def test_layout_changes_as_numpy_has_them(data: Any) -> None:
    shape = tuple(data.draw(some.lists(some.integers(1, 6), min_size=1, max_size=4)))
    lie = lie_of(MEMORY[7 : 7 + int(np.prod(shape))].reshape(shape))
    for _ in range(4):
        expr, change = data.draw(layout_changes(lie.shape))
        seen = lie.seen(expr, {})
        wanted = change(elements(lie))
        if seen is None:  # only a reshape may have to copy
            assert isinstance(expr, fun.Reshape)
            model = np.lib.stride_tricks.as_strided(
                MEMORY[lie.address :], lie.shape, [8 * s for s in lie.strides], writeable=False
            )
            assert not np.shares_memory(model.reshape(wanted.shape), MEMORY)
            return
        assert seen.shape == wanted.shape
        np.testing.assert_array_equal(elements(seen), wanted)
        lie = seen


@pytest.mark.parametrize(
    "expr",
    [
        fun.Slice(ARRAY, (fun.Span(as_poly(3), as_poly(3)),)),  # it leaves the array
        fun.Slice(ARRAY, (fun.Span(as_poly(1), as_poly(3), -1),)),
        fun.Slice(ARRAY, (as_poly(5),)),
        fun.Slice(ARRAY, (fun.Span(as_poly(3), as_poly(0)),)),  # no elements
        fun.Slice(ARRAY, (fun.Span(as_poly(0), Poly.var("k")),)),  # as long as data say
        fun.LmadSlice(ARRAY, as_poly(3), ((as_poly(2), as_poly(2)),)),
        fun.LmadSlice(ARRAY, as_poly(1), ((as_poly(3), as_poly(-1)),)),
        fun.LmadSlice(ARRAY, as_poly(1), ((as_poly(0), as_poly(1)),)),
        fun.Copy(ARRAY),  # no view
    ],
)  # fmt: skip
def test_what_is_not_seen(expr: fun.Expr) -> None:
    assert Lie(0, 0, (5,), (1,)).seen(expr, {}) is None


# ---------------------------------------------------------------- programs


def call_of(function: Callable[..., Any], *arrays: Any) -> tuple[PackedCall | None, Any]:
    """The packed call of a function of arrays, and what it gives of the packed arguments."""
    program = wf.jit(function).trace(*arrays)
    sizes: dict[str, int] = {}
    for param, array in zip(program.params, arrays, strict=True):
        for extent, known in zip(param.type.shape, array.shape, strict=True):
            if extent.variable:
                sizes[extent.variable] = known
    computation = Computation(program)
    (expected,) = computation.interpret(sizes, arrays)
    made = packed_call(computation, sizes, arrays, None)
    if made is not None:
        check(made.computation.program, after="packing")
        (found,) = made.computation.interpret(made.sizes, made.inputs(arrays))
        assert_agree([found], [expected], exact=True)
    return made, expected


def sent(made: PackedCall | None, *arrays: Any) -> int:
    """How many elements are transferred."""
    inputs = arrays if made is None else made.inputs(arrays)
    return sum(array.size for array in inputs)


X = np.arange(24 * 30.0).reshape(24, 30)


@pytest.mark.parametrize(
    ("function", "elements"),
    [
        (lambda x: wf.concat([x[:2], x[9:12]]), 5 * 30),
        (lambda x: wf.stack([x[3], x[20]]), 2 * 30),
        (lambda x: wf.concat([x[:5], x[3:7]]), 7 * 30),  # once what both have
        (lambda x: wf.concat([wf.zeros((1, 30)), x[:3], x[1:2] * 2.0]), 3 * 30),
        (lambda x: x[::5, 1:3], 5 * 2),
        (lambda x: wf.reshape(x, (-1,))[::7], 103),
        (lambda x: wf.reshape(x, (-1,))[100:120] * 2.0, 20),
        (lambda x: wf.reshape(x, (12, 60))[:, 1] + 1.0, 12),
        (lambda x: wf.permute_dims(x, (1, 0))[4], 24),
        (lambda x: wf.flip(x)[:2], 2 * 30),
        (lambda x: wf.tile(x[:2], (3, 1)), 2 * 30),
        (lambda x: wf.repeat(x[:2], 3, axis=1), 2 * 30),
        (lambda x: wf.broadcast_to(x[3], (4, 30)), 30),
        (lambda x: wf.sort(x[:3], axis=1), 3 * 30),
        (lambda x: x[:5, :10] @ x[10:20], 10 * 30 + 5 * 10),
        (lambda x: (x * 2.0)[:5], 5 * 30),
        (lambda x: wf.roll(x, 1, axis=0)[:5], 5 * 30),
        (lambda x: wf.roll(x, -2, axis=0)[-3:] * 2.0, 3 * 30),
        (lambda x: wf.roll(x, (3, -2), axis=(0, 1))[:5, ::7] + 1.0, 5 * 5),
        (lambda x: wf.sum(wf.roll(x, 2, axis=0)[:5], axis=1), 5 * 30),
        (lambda x: wf.roll(wf.reshape(x, (-1,)), 1)[:5], 5),
        (lambda x: wf.pad(x, 2, mode="edge")[:4, :4], 4),
        (lambda x: wf.pad(x, 2, mode="wrap")[:4, 2:4], 8),
        (lambda x: wf.pad(x, 2, mode="reflect")[:3, 2:4], 3 * 2),
        (lambda x: wf.pad(x, 2, mode="symmetric")[-3:, 2:4], 2 * 2),
        (lambda x: wf.pad(x, 2, constant_values=3.0)[1:4, 1:4], 2 * 2),
        (lambda x: wf.flip(wf.pad(x, 2, mode="edge"))[:3, 5], 2 - 1),
    ],
)  # fmt: skip
def test_exactly_what_is_read(function: Callable[[Any], Any], elements: int) -> None:
    made, expected = call_of(function, X)
    assert sent(made, X) == elements
    np.testing.assert_array_equal(np.asarray(function(wf.asarray(X))), expected)


def test_an_array_that_goes_whole_is_seen_there() -> None:
    """No kernel copies what a view shows of it, though of another a part is packed."""
    y = np.ones((30, 24))
    made, _ = call_of(lambda x, y: wf.concat([x[:2], y.T]), X, y)
    assert made is not None
    text = [type(let.expr) for let in made.computation.program.body.statements]
    assert text.count(fun.Kernel) == 1
    assert fun.Permute in text
    assert sent(made, X, y) == 2 * 30 + y.size


def test_what_is_read_nearly_whole_keeps_its_rules() -> None:
    made, _ = call_of(lambda x: wf.roll(x, 1, axis=0) * 2.0, X)
    assert made is None


def test_of_what_shares_memory_a_part_and_a_whole() -> None:
    a = np.arange(39.0).reshape(13, 3)
    made, expected = call_of(lambda y, x: wf.concat([y[2:3], x]), a[8:], a)
    assert made is not None
    np.testing.assert_array_equal(expected, np.concatenate([a[10:11], a]))
    m = np.arange(400.0)

    def joined(t: Any, y: Any, z: Any) -> None:
        t[1:4] = y
        t[0] = z[1]

    t = np.zeros(6)
    with wf.config(devices=[device().name]):
        wf.kernel(joined)(t, m[0:3], m[2:300])
    np.testing.assert_array_equal(t, [3, 0, 1, 2, 0, 0])


def test_few_arguments_take_many() -> None:
    """Of so many corners that kernels would have hundreds of arguments, arrays go whole."""

    def rolled(x: Any) -> Any:
        return sum((wf.roll(x, (k, k), axis=(0, 1)) for k in range(1, 12)), x)[:3, :3]

    made, _ = call_of(rolled, X)
    assert made is None or len(made.computation.names) <= 32


def test_stencils_of_many_points_are_not_cut() -> None:
    def points(s: Any) -> Any:
        return sum(s[i, j] for i in range(-3, 4) for j in range(-3, 4))

    made, _ = call_of(lambda x: wf.stencil(points, x, boundary="wrap")[:5, :5], X)
    assert made is None
    made, _ = call_of(lambda x: wf.stencil(points, x, boundary="wrap")[4:6, 4:6], X)
    assert sent(made, X) == 8 * 8


def test_a_view_of_what_no_strides_give() -> None:
    """Of a flattened transpose: what it is a view of is read by a kernel."""
    made, _ = call_of(lambda x: wf.reshape(x[:4].T, (-1,))[::3], X)
    assert sent(made, X) == 4 * 30


# ---------------------------------------------------------------- passes


STEPS: Sequence[Callable[[Any, Any, Any], Any]] = [
    lambda draw, xp, x: x[draw(0, x.shape[0] - 1) :],
    lambda draw, xp, x: x[: draw(1, x.shape[0])],
    lambda draw, xp, x: x[:: -draw(1, 3)],
    lambda draw, xp, x: x[..., :: draw(1, 3)],
    lambda draw, xp, x: xp.roll(x, draw(-3, 3), axis=draw(0, x.ndim - 1)),
    lambda draw, xp, x: xp.flip(x, axis=draw(0, x.ndim - 1)),
    lambda draw, xp, x: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
    lambda draw, xp, x: xp.reshape(x, (-1,)),
    lambda draw, xp, x: xp.concat([x[draw(0, x.shape[0] - 1) :], x[: draw(1, x.shape[0])]], axis=0),
    lambda draw, xp, x: xp.pad(
        x, draw(1, min(x.shape) - 1) if min(x.shape) > 1 else 0,
        mode=("edge", "wrap", "reflect", "symmetric")[draw(0, 3)],
    ),
]  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(some.data())
def test_random_views_joins_and_rules(data: Any) -> None:
    """The packed program gives the same; and no less is sent than is read."""
    shape = tuple(data.draw(some.lists(some.integers(2, 9), min_size=1, max_size=3)))
    steps = data.draw(some.lists(some.sampled_from(STEPS), min_size=1, max_size=5))
    drawn: list[int] = []
    x = np.arange(float(np.prod(shape))).reshape(shape)

    def draw(low: int, high: int) -> int:
        drawn.append(data.draw(some.integers(low, high)))
        return drawn[-1]

    read = x
    for step in steps:
        read = step(draw, np, read)

    def function(a: Any) -> Any:
        again = iter(drawn)
        for step in steps:
            a = step(lambda *_: next(again), wf, a)
        return a + 1.0

    made, expected = call_of(function, x)
    np.testing.assert_array_equal(expected, read + 1.0)
    assert sent(made, x) >= np.unique(read).size


RULES = """program p(x: f64[n, m]) sizes n, m {{
  let y: f64[n, m] = kernel (i < n, j < m) {{
    let v: f64 = x[2*i - 2 : {rule}, j]
    let w: f64 = x[n - 3*i : {rule}, m - 1 - j]
    let u: f64 = add(v, w)
    in u
  }}
  in y
}}"""


@pytest.mark.parametrize("rule", ["edge", "wrap", "reflect", "symmetric", "constant"])
@pytest.mark.parametrize("extent", [1, 2, 3, 7])
def test_without_rules(rule: str, extent: int) -> None:
    value = ", 4.0_f64" if rule == "constant" else ""
    program = parse(RULES.format(rule=f"{rule}(0, n{value})"))
    x = np.arange(extent * 5.0).reshape(extent, 5)
    sizes = {"n": extent, "m": 5}
    memory = {"x": Lie(0, 0, (9 * extent, 5), (5, 1))}  # of which it is a part
    new = without_rules(program, memory, derive(sizes, program.derived))
    check(new, after="without_rules")
    assert_agree(interpret(new, [x]), interpret(program, [x]), exact=True)


def test_views_read_in_kernels() -> None:
    program = parse("""program p(x: f64[n, m]) sizes n, m {
      let v: f64[m, n] = permute x (1, 0)
      let s: f64[n] = slice v[0, 0 for n]
      let c: f64[n] = copy s
      let y: f64[2*n] = concat 0 (s, c)
      in y, v
    }""")
    x = np.arange(12.0).reshape(3, 4)
    found, roots = views(program, {"x": lie_of(MEMORY[:12].reshape(3, 4))}, {"n": 3, "m": 4})
    assert roots == {"v": "x", "s": "x"}
    new = read_in_kernels(program, found)
    check(new, after="read_in_kernels")
    assert_agree(interpret(new, [x]), interpret(program, [x]), exact=True)
    kinds = [type(let.expr) for let in new.body.statements]
    assert kinds == [fun.Permute, fun.Slice, fun.Kernel, fun.Kernel, fun.Concat, fun.Kernel]
