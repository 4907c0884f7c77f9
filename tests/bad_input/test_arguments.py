"""Shapes, dtypes, indices and settings that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bad_input.refusals import refused

import weft as wf
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ImplicitComputeError,
    OutOfBoundsError,
    ShapeError,
    TracingError,
)  # fmt: skip


def array(*shape: int, dtype: str = "f8") -> Any:
    return wf.asarray(np.zeros(shape, dtype))


SHAPES: list[tuple[Callable[[], Any], str]] = [
    (lambda: array(3, 4) + array(3, 5), "+"),
    (lambda: array(3, 4) @ array(3, 4), "@"),
    (lambda: wf.concat([array(3, 4), array(3, 5)]), "concat"),
    (lambda: wf.reshape(array(3, 4), (5, 2)), "reshape"),
    (lambda: wf.broadcast_to(array(3), (4,)), "broadcast_to"),
    (lambda: wf.stack([array(3), array(4)]), "stack"),
    (lambda: wf.where(array(3) > 0, array(4), 0.0), "where"),
    (lambda: wf.max(array(0, 3)), "max"),
    (lambda: wf.map(lambda x, y: x + y, array(3), array(4)), "map"),
    (lambda: wf.stencil(lambda a, b: a[0] + b[1], array(3), array(4)), "stencil"),
    (lambda: wf.tensordot(array(3, 4), array(5, 4), axes=1), "tensordot"),
    (lambda: array(3, 4).at[0].set(array(5)), "set"),
    (lambda: np.add(array(3), np.zeros(4)), "np.add"),
]


@pytest.mark.parametrize(("run", "line"), SHAPES, ids=[line for _, line in SHAPES])
def test_shapes(run: Callable[[], Any], line: str) -> None:
    refused(run, ShapeError, ValueError, line)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_padding_an_empty_axis_by_its_elements(mode: str) -> None:
    refused(lambda: wf.pad(array(2, 0), 1, mode), ShapeError, ValueError, "wf.pad")
    padded = wf.jit(lambda x, n: wf.pad(x[n:], 2, mode))
    x = np.ones(9, np.int64)
    assert padded(x, 8).tolist() == [1] * 5
    refused(lambda: padded(x, 9), ShapeError, ValueError, "wf.pad", advice="'constant'")
    along_other = wf.jit(lambda x: wf.pad(x, ((1, 2), (0, 0)), mode))
    assert along_other(np.zeros((2, 0))).shape == (5, 0)


NO_INTEGERS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x[1.5:], "x[1.5:]"),
    (lambda x: x[: np.float64(2)], "x[: np"),
    (lambda x: x["a":], "x["),
    (lambda x: x[::2.0], "x[::2.0]"),
    (lambda x: x.at[1.5:].set(1), "x.at"),
    (lambda x: x[np.array([1, 2]) :], "x[np"),
    (lambda x: wf.zeros(2.5) + x, "wf.zeros"),
    (lambda x: wf.roll(x, 1.5), "wf.roll"),
    (lambda x: wf.reshape(x, (1.5,)), "wf.reshape"),
]


@pytest.mark.parametrize(("run", "line"), NO_INTEGERS, ids=[line for _, line in NO_INTEGERS])
def test_what_is_no_integer(run: Callable[[Any], Any], line: str) -> None:
    refused(lambda: run(array(5)), ArgumentTypeError, TypeError, line)
    refused(lambda: wf.jit(run)(np.zeros(5)), ArgumentTypeError, TypeError, line)


def test_widths_of_borders() -> None:
    for x in (array(3), array(2, 2), array()):
        for width in (1.5, "a", None, True, [1.0]):
            refused(lambda: wf.pad(x, width), ArgumentTypeError, TypeError, "wf.pad")  # noqa: B023
        for width in ([], (1, 2, 3), [(1, 2), (3,)], [[[1, 2]]]):
            refused(lambda: wf.pad(x, width), ShapeError, ValueError, "wf.pad")  # noqa: B023
        for width in (-1, (1, -1), np.array([-1])):
            refused(lambda: wf.pad(x, width), ArgumentError, ValueError, "wf.pad")  # noqa: B023
    by_shape = wf.jit(lambda x, n: wf.pad(x, (n, x.shape[0])))
    assert by_shape(np.ones(2), 3).shape == (7,)
    refused(lambda: by_shape(np.ones(2), -3), ArgumentError, ValueError, "wf.pad")


DTYPES: list[tuple[Callable[[], Any], str]] = [
    (lambda: array(3, dtype="f4") & array(3, dtype="f4"), "&"),
    (lambda: ~array(3), "~"),
    (lambda: wf.floor(array(3, dtype="c16")), "floor"),
    (lambda: wf.max(array(3, dtype="c16")), "max"),
    (lambda: wf.asarray(np.array(["a", "b"])), "asarray"),
    (lambda: wf.asarray(np.array([object()])), "asarray"),
    (lambda: array(3, dtype="i4") < array(3, dtype="c16"), "<"),
]


@pytest.mark.parametrize(("run", "line"), DTYPES)
def test_dtypes(run: Callable[[], Any], line: str) -> None:
    refused(run, DTypeError, TypeError, line)


def test_an_in_place_operation_keeps_the_dtype() -> None:
    def run() -> None:
        x = array(3, dtype="i4")
        x += 0.5

    refused(run, DTypeError, TypeError, "x += 0.5", advice="x + y")


INDICES: list[tuple[Callable[[], Any], str]] = [
    (lambda: array(3)[3], "[3]"),
    (lambda: array(3)[-4], "[-4]"),
    (lambda: array(3)[0, 0], "[0, 0]"),
    (lambda: array(3)[np.ones(4, bool)], "np.ones(4, bool)"),
]


@pytest.mark.parametrize(("run", "line"), INDICES)
def test_indices_known_beforehand(run: Callable[[], Any], line: str) -> None:
    refused(run, OutOfBoundsError, IndexError, line)


@pytest.mark.parametrize("below", [0, 1 << 40], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("wrong", [-7, 6, 1 << 40])
def test_a_gather_outside(wrong: int, below: int) -> None:
    x, index = np.arange(6.0), np.array([0, 5, 2, wrong])

    def run() -> None:
        with wf.config(interpret_below=below):
            wf.take(wf.asarray(x), wf.asarray(index)).numpy()

    refused(run, OutOfBoundsError, IndexError, "wf.take")


@pytest.mark.parametrize("below", [0, 1 << 40], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("wrong", [-1, 6])
def test_a_scatter_outside(wrong: int, below: int) -> None:
    def run() -> None:
        with wf.config(interpret_below=below):
            wf.scatter(np.zeros(6), np.array([1, wrong]), 1.0, combine="add").numpy()

    refused(run, OutOfBoundsError, IndexError, "wf.scatter")


@pytest.mark.parametrize("below", [0, 1 << 40], ids=["compiled", "interpreted"])
def test_an_affine_index_outside(below: int) -> None:
    x = wf.asarray(np.arange(10.0))

    def run() -> None:
        with wf.config(interpret_below=below):
            wf.generate(10, lambda i: x[i] + x[i + 1]).numpy()

    refused(run, OutOfBoundsError, IndexError, "x[i + 1]")


@pytest.mark.parametrize("below", [0, 1 << 40], ids=["compiled", "interpreted"])
def test_a_guarded_affine_index_is_fine(below: int) -> None:
    x = wf.asarray(np.arange(10.0))
    with wf.config(interpret_below=below):
        y = wf.generate(10, lambda i: wf.cond(i < 9, lambda: x[i + 1], lambda: x[i]))
        np.testing.assert_array_equal(y.numpy(), [*range(1, 10), 9])


def test_indices_in_a_compiled_function() -> None:
    @wf.jit
    def pick(x: Any, index: Any) -> Any:
        return x[index] * 2

    x = np.arange(6.0)
    np.testing.assert_array_equal(pick(x, np.array([1, -1])), [2.0, 10.0])
    refused(lambda: pick(x, np.array([1, 9])), OutOfBoundsError, IndexError, "x[index]")


# ---------------------------------------------------------------- tracing


@pytest.mark.parametrize(
    ("named", "function"),
    [
        ("numpy.trim_zeros", np.trim_zeros),
        ("numpy.polydiv", lambda x: np.polydiv(x, x)),
        ("numpy.quantile", lambda x: np.quantile(x, 0.5, method="lower")),
        ("numpy.hypot.reduce", np.hypot.reduce),
        ("numpy.subtract.reduceat", lambda x: np.subtract.reduceat(x, [0, 1])),
    ],
)
def test_functions_that_weft_does_not_have_are_named(named: str, function: Any) -> None:
    with pytest.raises(TracingError, match=named):
        wf.jit(lambda x: function(x))(np.ones(3))
    with wf.config(implicit_compute="raise"), pytest.raises(ImplicitComputeError, match=named):
        function(wf.asarray(np.ones(3)))


def test_branching_on_a_traced_array() -> None:
    @wf.jit
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x

    error = refused(lambda: f(np.ones(3)), TracingError, TypeError, "if x.sum() > 0:")
    assert "wf.where" in error.advice
    assert "wf.cond" in error.advice


@pytest.mark.parametrize("ask", [float, int, np.asarray, bool, list], ids=lambda ask: ask.__name__)
def test_values_of_a_traced_array(ask: Callable[[Any], Any]) -> None:
    @wf.jit
    def f(x: Any) -> Any:
        total = x.sum() if ask is not np.asarray else x
        return x * ask(total)  # asks

    if ask is list:
        with pytest.raises(TypeError):
            f(np.ones(3))
        return
    refused(lambda: f(np.ones(3)), TracingError, TypeError, "# asks")


def test_a_mask_in_a_compiled_function() -> None:
    @wf.jit
    def f(x: Any) -> Any:
        return x[x > 0]

    refused(lambda: f(np.ones(3)), TracingError, TypeError, "return x[x > 0]")


def test_a_loop_whose_shape_changes() -> None:
    x = array(3)
    run = lambda: wf.fori_loop(0, 3, lambda k, y: wf.concat([y, y]), x)  # noqa: E731
    refused(run, ShapeError, ValueError, "wf.fori_loop")


# ---------------------------------------------------------------- settings and arguments

SETTINGS: list[tuple[dict[str, Any], type]] = [
    ({"threads": 0}, ArgumentError),
    ({"threads": "two"}, ArgumentError),
    ({"threads": True}, ArgumentError),
    ({"slots": True}, ArgumentError),
    ({"memory_limit": "1e400"}, ArgumentError),
    ({"memory_limit": "many"}, ArgumentError),
    ({"memory_limit": -1}, ArgumentError),
    ({"memory_limit": 0}, ArgumentError),
    ({"memory_limit": {"gpu": 1}}, ArgumentError),
    ({"memory_limit": [1]}, ArgumentTypeError),
    ({"devices": ["cuda:7"]}, ArgumentError),
    ({"devices": []}, ArgumentError),
    ({"devices": 3}, ArgumentTypeError),
    ({"implicit_compute": "perhaps"}, ArgumentError),
    ({"progress": 3}, ArgumentTypeError),
    ({"interpret_below": "none"}, ArgumentError),
    ({"interpret_below": None}, ArgumentTypeError),
    ({"optimise": "no-merge no-thought"}, ArgumentError),
    ({"optimise": ["no-merge"]}, ArgumentTypeError),
    ({"memory": 3}, ArgumentError),
]


@pytest.mark.parametrize(("setting", "named"), SETTINGS, ids=str)
def test_settings(setting: dict[str, Any], named: Any) -> None:
    before = wf.settings()
    builtin = TypeError if named is ArgumentTypeError else ValueError
    refused(lambda: wf.config(**setting), named, builtin, "wf.config")
    assert wf.settings() == before


def test_ints_of_numpy_are_settings() -> None:
    given = {"threads": np.int64(2), "slots": np.uint8(3), "memory_limit": np.int64(1 << 30)}
    with wf.config(**given) as settings:
        assert (settings.threads, settings.slots, settings.limit) == (2, 3, 1 << 30)
        assert float(wf.sum(wf.ones(100_000))) == 100_000


def test_a_device_and_its_part_are_not_apart() -> None:
    if "opencl:0.1" not in wf.devices():
        pytest.skip("no part of an OpenCL device")
    with pytest.raises(ArgumentError, match="in common"):
        wf.config(devices=["opencl:0", "opencl:0.1"])


def test_only_settings_that_can_be_given_are_named() -> None:
    with pytest.raises(ArgumentError, match="no setting 'device_limits'") as refusal:
        wf.config(device_limits=())
    names = refusal.value.expected.removeprefix("one of ").split(", ")
    assert "memory_limit" in names
    for name in names:
        with wf.config(**{name: getattr(wf.settings(), name)}):
            pass


MASKED = np.ma.masked_greater(np.arange(3.0), 1.0)

ARGUMENTS: list[tuple[Callable[[], Any], type, type, str]] = [
    (lambda: wf.sum(array(3), axis=1), ArgumentError, ValueError, "axis=1"),
    (lambda: wf.sum(array(3, 3), axis=(0, 0)), ArgumentError, ValueError, "axis=(0, 0)"),
    (lambda: wf.sum(array(3), axis="x"), ArgumentTypeError, TypeError, 'axis="x"'),
    (lambda: wf.permute_dims(array(3, 3), (0, 0)), ArgumentError, ValueError, "permute"),
    (lambda: wf.stencil(lambda s: s[1], array(3), boundary="mirror"), ArgumentError, ValueError,
     "mirror"),
    (lambda: wf.stencil(lambda s: s[0.5], array(3)), ArgumentTypeError, TypeError, "s[0.5]"),
    (lambda: wf.asarray(MASKED), ArgumentTypeError, TypeError, "MASKED"),
    (lambda: array(3) + MASKED, ArgumentTypeError, TypeError, "MASKED"),
    (lambda: wf.jit(lambda x: x + 1)(MASKED), ArgumentTypeError, TypeError, "MASKED"),
    (lambda: wf.explain(3), ArgumentTypeError, TypeError, "explain"),
    (lambda: wf.explain(array(3), "y.npy"), ArgumentTypeError, TypeError, "str"),
    (lambda: wf.explain(array(3), memory_limit=1), ArgumentTypeError, TypeError, "memory_limit"),
    (lambda: array(3)["a"], OutOfBoundsError, IndexError, '["a"]'),
    (lambda: array(3).to_device("tpu"), ArgumentError, ValueError, "tpu"),
    (lambda: array(3).persist("cuda:0"), ArgumentError, ValueError, "cuda:0"),
    (lambda: wf.zeros(3, device="tpu"), ArgumentError, ValueError, "tpu"),
    (lambda: wf.zeros(-3), ArgumentError, ValueError, "zeros"),
    (lambda: bool(array(3)), wf.WeftError, ValueError, "bool"),
    (lambda: float(array(3)), wf.WeftError, TypeError, "float"),
    (lambda: len(array()), ArgumentTypeError, TypeError, "len"),
    (lambda: wf.assume(1 == 2), ArgumentError, ValueError, "assume"),
    (lambda: array(3, dtype="u1") + 300, wf.WeftError, OverflowError, "300"),
    (lambda: array(3, dtype="u1").at[0].set(-1), wf.WeftError, OverflowError, "-1"),
    (lambda: wf.full(3, 300, dtype="u1"), wf.WeftError, OverflowError, "full"),
    (lambda: wf.asarray([300], dtype="u1"), wf.WeftError, OverflowError, "asarray"),
    (lambda: wf.asarray(300, dtype="u1"), wf.WeftError, OverflowError, "asarray"),
    (lambda: array(3, dtype="i4").at[0].set(np.nan), ArgumentError, ValueError, "nan"),
    (lambda: array(3).at[0].set(1j), DTypeError, TypeError, "1j"),
    (lambda: wf.clip(array(3, dtype="u1"), 300), wf.WeftError, OverflowError, "clip"),
    (lambda: wf.arange(2**63), ArgumentError, ValueError, "arange"),
    (lambda: wf.zeros(2**63), ArgumentError, ValueError, "zeros"),
    (lambda: wf.arange(0, np.inf), ArgumentError, ValueError, "arange"),
    (lambda: wf.arange(np.nan), ArgumentError, ValueError, "arange"),
    (lambda: wf.arange("a"), ArgumentTypeError, TypeError, "arange"),
    (lambda: wf.arange(None), ArgumentTypeError, TypeError, "arange"),
    (lambda: wf.repeat(array(3), 1.5), ArgumentTypeError, TypeError, "1.5"),
    (lambda: wf.repeat(array(3), [1.5, 1, 1]), ArgumentTypeError, TypeError, "1.5"),
    (lambda: wf.repeat(array(3), [-1, 1, 1]), ArgumentError, ValueError, "-1"),
    (lambda: wf.tensordot(array(3), array(3), axes=2), ShapeError, ValueError, "axes=2"),
    (lambda: wf.tensordot(array(3), array(3), axes=-1), ShapeError, ValueError, "axes=-1"),
    (lambda: wf.tensordot(array(3), array(3), axes=1.0), ArgumentTypeError, TypeError, "1.0"),
    (lambda: wf.tensordot(array(3), array(3), axes=(0,)), ArgumentError, ValueError, "(0,)"),
    (lambda: wf.tensordot(array(3), array(3), axes=((0, 0), (0, 0))), ArgumentError, ValueError,
     "(0, 0)"),
    (lambda: array(3).swapaxes(0, 1), ArgumentError, IndexError, "swapaxes"),
    (lambda: wf.diff(array(3), n=-1), ArgumentError, ValueError, "diff"),
    (lambda: wf.diff(array(3), n=1.5), ArgumentTypeError, TypeError, "diff"),
    (lambda: wf.concat(5), ArgumentTypeError, TypeError, "concat"),
    (lambda: wf.stack(5), ArgumentTypeError, TypeError, "stack"),
    (lambda: wf.permute_dims(array(3), 0), ArgumentTypeError, TypeError, "permute"),
    (lambda: wf.einsum(5, array(3)), ArgumentTypeError, TypeError, "einsum"),
    (lambda: wf.eye(2, k=1.5), ArgumentTypeError, TypeError, "eye"),
    (lambda: wf.tril(array(2, 2), k=0.5), ArgumentTypeError, TypeError, "tril"),
    (lambda: wf.searchsorted(array(2, 2), array(3)), ShapeError, ValueError, "searchsorted"),
    (lambda: wf.linalg.norm(array(3), "fro"), ArgumentError, ValueError, "fro"),
    (lambda: wf.linalg.matrix_power(array(2, 2), 1.5), ArgumentTypeError, TypeError, "1.5"),
    (lambda: wf.map(5, array(3)), ArgumentTypeError, TypeError, "map"),
    (lambda: wf.while_loop(lambda v: True, 5, array(3)), ArgumentTypeError, TypeError, "while"),
    (lambda: wf.iterate(lambda v: v, array(3), 4, every=0), ArgumentError, ValueError, "every"),
    (lambda: wf.iinfo("f8"), DTypeError, TypeError, "iinfo"),
    (lambda: wf.finfo("i8"), DTypeError, TypeError, "finfo"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "named", "builtin", "line"), ARGUMENTS)
def test_arguments(run: Callable[[], Any], named: Any, builtin: Any, line: str) -> None:
    with pytest.raises(builtin) as caught:
        run()
    error = caught.value
    assert isinstance(error, wf.WeftError)
    assert isinstance(error, named)
    assert error.place is not None
    assert error.place.file == __file__


OUT: list[tuple[Any, type, type]] = [
    (np.zeros(3), ShapeError, ValueError),
    (np.zeros(4, "f4"), DTypeError, TypeError),
    ((np.zeros(4), np.zeros(4)), ArgumentError, ValueError),
    ([0.0] * 4, ArgumentError, ValueError),
    ("out", ArgumentTypeError, TypeError),
]


@pytest.mark.parametrize(("out", "named", "builtin"), OUT)
def test_out(out: Any, named: Any, builtin: Any) -> None:
    double = wf.jit(lambda x: x * 2)
    refused(lambda: double(np.zeros(4), out=out), named, builtin, "double(np.zeros(4), out=out)")


def test_overlapping_out() -> None:
    both = wf.jit(lambda x: (x + 1, x * 2))
    space = np.zeros(8)
    refused(
        lambda: both(np.ones(4), out=(space[:4], space[3:7])), ArgumentError, ValueError,
        "both(np.ones(4), out=(space[:4], space[3:7]))",
    )  # fmt: skip
    assert not space.any()
    both(np.ones(4), out=(space[::2], space[1::2]))
    assert space.tolist() == [2.0] * 8


def test_read_only_out() -> None:
    out = np.zeros(4)
    out.flags.writeable = False
    double = wf.jit(lambda x: x * 2)
    refused(lambda: double(np.ones(4), out=out), ArgumentError, ValueError, "out=out")
    assert not out.any()


NUMPYS = [
    name for name, value in vars(np).items()
    if not name.startswith("_") and callable(value) and not isinstance(value, type)
    and not hasattr(wf, name)
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "own"),
    [("cumsum", "wf.cumulative_sum"), ("concatenate", "wf.concat"), ("arctan2", "wf.atan2"),
     ("ravel", "x.ravel"), ("swapaxes", "x.swapaxes"), ("geomspace", "np.geomspace")],
)  # fmt: skip
def test_names_of_numpy_tell_those_of_weft(name: str, own: str) -> None:
    with pytest.raises(AttributeError, match=rf"use {own}\b"):
        getattr(wf, name)


def test_names_that_are_told_are_there() -> None:
    assert len(NUMPYS) > 50
    for name in NUMPYS:
        with pytest.raises(AttributeError) as caught:
            getattr(wf, name)
        place, own = str(caught.value).split("; use ")[1].split(",")[0].split(".")
        assert hasattr({"wf": wf, "x": wf.Array, "np": np}[place], own)


def test_names_of_nobody() -> None:
    with pytest.raises(AttributeError, match=r"^module 'weft' has no attribute 'some'$"):
        getattr(wf, "some")  # noqa: B009


def test_the_name_of_a_file_is_told_from_an_array() -> None:
    with pytest.raises(ArgumentTypeError, match="a str is not an array") as raised:
        wf.asarray("x.npy")
    assert raised.value.advice == "wf.open(path), which reads files"
