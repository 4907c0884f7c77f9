"""The application programs agree with plain NumPy in every way that they can be run.

A module of `cases/` gives `case() -> Case`, or several with `cases() -> dict[str, Case]`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import small_boxes
from applications.case import Case
from applications.costs import costs_of, table
from slow import first_quick, some_slow

import weft as wf
from weft.frontend.containers import flatten


def discover() -> dict[str, Case]:
    """Every case, by the name of its module and its own."""
    found: dict[str, Case] = {}
    for path in sorted((Path(__file__).parent / "cases").glob("*.py")):
        if path.stem == "__init__":
            continue
        module = importlib.import_module(f"applications.cases.{path.stem}")
        if hasattr(module, "cases"):
            found |= {f"{path.stem}-{name}": case for name, case in module.cases().items()}
        else:
            found[path.stem] = module.case()
    return found


CASES = discover()


every_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def first_cases_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """A parameter that is each case named, all but the first of each function marked as slow."""
    named = list(names)
    found = [CASES[name] for name in named]
    functions = [getattr(case.function, "func", case.function) for case in found]
    return pytest.mark.parametrize("case", first_quick(found, functions), ids=named)


first_cases = first_cases_of(CASES)


def arrays(result: Any) -> list[Any]:
    """All arrays of a result, in order."""
    leaves: list[Any] = []
    flatten(result, leaves)
    return leaves


def lazily(case: Case, arguments: Sequence[Any]) -> list[Any]:
    """The results as lazy arrays: NumPy arguments become them, numbers stay."""
    given = [wf.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    return arrays(case.function(*given))


def computed(case: Case, **settings: Any) -> list[Any]:
    """The results, computed under some settings."""
    with wf.config(**settings):
        values = wf.compute(*lazily(case, case.arguments))
    return list(values) if isinstance(values, tuple) else [values]


def assert_as_reference(case: Case, found: Sequence[Any]) -> None:
    """Dtypes, shapes and values are the reference's."""
    expected = [np.asarray(a) for a in arrays(case.reference(*case.arguments))]
    assert len(found) == len(expected)
    for result, wanted in zip(map(np.asarray, found), expected, strict=True):
        assert result.dtype == wanted.dtype
        assert result.shape == wanted.shape
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(result, wanted)
        else:
            np.testing.assert_allclose(result, wanted, case.relative, case.absolute)


@every_case
def test_interpreted(case: Case) -> None:
    assert_as_reference(case, computed(case, interpret_below=1 << 60))


@every_case
def test_compiled(case: Case) -> None:
    assert_as_reference(case, computed(case, interpret_below=0))


@first_cases
def test_compiled_without_short_circuiting(case: Case) -> None:
    """Bit by bit what short-circuiting gives: it moves memory, never arithmetic."""
    plain = computed(case, interpret_below=0, optimise="no-short-circuit")
    assert_as_reference(case, plain)
    for result, other in zip(computed(case, interpret_below=0), plain, strict=True):
        np.testing.assert_array_equal(result, other)


@first_cases
def test_called_on_numpy_arrays(case: Case) -> None:
    """A compiled function, called as a user calls it; the arguments stay as they were."""
    before = [np.copy(a) for a in arrays(case.arguments)]
    function = case.function if hasattr(case.function, "lower") else wf.jit(case.function)
    assert_as_reference(case, arrays(function(*case.arguments)))
    for argument, copy in zip(arrays(case.arguments), before, strict=True):
        np.testing.assert_array_equal(argument, copy)


@pytest.mark.parametrize("name", some_slow(
    [name for name, case in CASES.items() if case.counts],
    ["lud-larger", "nw-larger", "option_pricing-barrier", "locvolcalib-", "lavamd-",
     "lattice_boltzmann-three_steps", "option_pricing-european"],
))  # fmt: skip
def test_golden_costs(name: str, golden: Callable[[str], None]) -> None:
    """What short-circuiting saves: it never costs anything."""
    case = CASES[name]
    results = lazily(case, case.arguments)
    short, plain = costs_of(results), costs_of(results, "no-short-circuit")
    assert short.copies <= plain.copies
    assert short.copied_bytes <= plain.copied_bytes
    assert short.allocated_bytes <= plain.allocated_bytes
    golden(table({"short-circuited": short, "plain": plain}))


@first_cases_of(name for name, case in CASES.items() if case.streams)
@pytest.mark.parametrize("box_bytes", [1 << 9, 1 << 16])
def test_streamed(case: Case, box_bytes: int, tmp_path: Path) -> None:
    """From files, through boxes, to files."""
    given = []
    for number, argument in enumerate(case.arguments):
        if isinstance(argument, np.ndarray) and argument.ndim:
            np.save(tmp_path / f"in{number}.npy", argument)
            argument = wf.open(tmp_path / f"in{number}.npy")
        given.append(argument)
    with ExitStack() as stack:
        stack.enter_context(small_boxes(box_bytes, small=0))
        stack.enter_context(wf.config(threads=2))
        results = arrays(case.function(*given))
        targets = [tmp_path / f"out{number}.npy" for number in range(len(results))]
        wf.store(results, targets)
    assert_as_reference(case, [np.load(target) for target in targets])
