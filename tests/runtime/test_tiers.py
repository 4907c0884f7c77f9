"""Two tiers of compiled code: when each is made, and that both give the same bits."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.test_bits import PROGRAMS
from agreement.ways import assert_equal_bits, compiled
from loops.programs import algebra, elements, science, stencils
from runtime import segments
from slow import every_second, some_slow

import weft as wf
from weft import execute
from weft.errors import CompileError, OutOfBoundsError
from weft.launch import device as devices
from weft.launch.computation import Computation
from weft.runtime import threads as runtime_threads
from weft.runtime import tiers, toolchain
from weft.runtime.devices.cpu import CpuDevice, LoadedSegment
from weft.runtime.toolchain import Effort

compiler = toolchain.find_compiler()
pytestmark = pytest.mark.skipif(
    compiler is None or not compiler.is_gcc, reason="no compiler that has two tiers"
)
QUICK = toolchain._QUICK[0]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, and a process in which nothing is compiled yet."""
    chosen = tmp_path / "cache"
    monkeypatch.setenv("WEFT_CACHE_DIR", str(chosen))
    monkeypatch.setattr(devices, "device", CpuDevice())
    toolchain._find.cache_clear()
    yield chosen
    tiers.wait()
    toolchain._find.cache_clear()


@pytest.fixture
def compiled_with(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The level of optimisation of each library that is made."""
    levels: list[str] = []
    compile_ = toolchain._compile

    def watch(source: str, compiler: toolchain.Compiler, *others: Any) -> Path:
        if source != runtime_threads.pool_source():
            levels.append(next(flag for flag in compiler.flags if flag.startswith("-O")))
        return compile_(source, compiler, *others)

    monkeypatch.setattr(toolchain, "_compile", watch)
    return levels


def doubled(loaded: Any) -> bool:
    """Whether `segments.double` does what it says."""
    x, y = np.arange(100.0), np.zeros(100)
    loaded.call((100, 7, 2), (x.ctypes.data, y.ctypes.data, 0))
    return bool((y == 2 * x).all())


# ---------------------------------------------------------------- which tier, and when


def test_the_second_tier_takes_the_place_of_the_first(
    directory: Path, compiled_with: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    load = tiers.load_library

    def held(source: str, compiler: Any, idle: bool = False) -> Any:
        if idle:
            assert go_on.wait(20)
        return load(source, compiler, idle)

    monkeypatch.setattr(tiers, "load_library", held)
    loaded = CpuDevice().load(segments.double(), effort=Effort.LESS)
    first = loaded.code.entry
    assert compiled_with == [QUICK]
    assert doubled(loaded)
    assert not tiers.wait(0.01)
    go_on.set()
    assert tiers.wait(60)
    assert compiled_with == [QUICK, "-O3"]
    assert loaded.code.entry != first
    assert doubled(loaded)
    made = [path.stem for path in directory.glob("*.so")]
    assert made.count(toolchain._key(segments.double().source, compiler)) == 1
    assert len(made) <= 2  # nothing of the first tier, but perhaps the pool


def test_what_is_in_the_cache_needs_no_first_tier(compiled_with: list[str]) -> None:
    CpuDevice().load(segments.double())
    assert compiled_with == ["-O3"]
    assert doubled(CpuDevice().load(segments.double(), effort=Effort.LESS))
    assert compiled_with == ["-O3"]


def test_a_first_tier_in_the_cache_is_improved(
    compiled_with: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a process that ended before the second one was there."""
    with monkeypatch.context() as context:
        context.setattr(tiers._Background, "add", lambda *_: None)
        CpuDevice().load(segments.double(), effort=Effort.LESS)
    assert compiled_with == [QUICK]
    loaded = CpuDevice().load(segments.double(), effort=Effort.LESS)
    assert tiers.wait(60)
    assert compiled_with == [QUICK, "-O3"]
    assert doubled(loaded)


def test_where_the_second_tier_fails_the_first_one_stays(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = tiers.load_library

    def failing(source: str, compiler: Any, idle: bool = False) -> Any:
        if idle:
            raise CompileError("no room")
        return load(source, compiler, idle)

    monkeypatch.setattr(tiers, "load_library", failing)
    loaded = CpuDevice().load(segments.double(), effort=Effort.LESS)
    assert tiers.wait(60)
    assert doubled(loaded)


def test_where_another_process_was_ahead_its_second_tier_is_loaded(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes the first tier, which this process has just made."""
    load = tiers.load_library

    def behind(source: str, chosen: Any, idle: bool = False) -> Any:
        if QUICK in chosen.flags:
            load(source, compiler)
            raise CompileError("the compiled library cannot be loaded")
        return load(source, chosen, idle)

    monkeypatch.setattr(tiers, "load_library", behind)
    assert doubled(CpuDevice().load(segments.double(), effort=Effort.LESS))


def test_what_the_first_tier_cannot_compile_is_an_error(directory: Path) -> None:
    broken = segments.segment("int f(void) { return undeclared; }", 1, ("n",))
    with pytest.raises(CompileError, match="undeclared"):
        CpuDevice().load(broken, effort=Effort.LESS)


def test_clang_has_one_tier() -> None:
    assert compiler is not None
    assert toolchain.first_tier(replace(compiler, is_gcc=False)) is None


def test_full_effort_has_one_tier() -> None:
    assert compiler is not None
    assert toolchain.first_tier(compiler, Effort.FULL) is None


def _small(x: Any) -> Any:
    return x * 2 + 1


def test_the_second_tier_waits_for_the_end_of_a_call(
    compiled_with: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled_meanwhile: list[str] = []
    call = LoadedSegment.call

    def slow(*given: Any) -> None:
        time.sleep(0.2)
        compiled_meanwhile.extend(compiled_with)
        call(*given)

    monkeypatch.setattr(LoadedSegment, "call", slow)
    with wf.config(quick_start=True):
        np.testing.assert_array_equal(wf.jit(_small)(np.arange(5.0)), np.arange(5.0) * 2 + 1)
        assert compiled_meanwhile == [QUICK]
        assert tiers.wait(60)
    assert compiled_with == [QUICK, "-O3"]


def test_the_second_tier_is_compiled_after_a_call_that_fails(compiled_with: list[str]) -> None:
    def failing(x: Any, k: Any) -> Any:
        return wf.take(x, k)

    with wf.config(quick_start=True):
        with pytest.raises(OutOfBoundsError):
            wf.jit(failing)(np.arange(5.0), np.array([1, 7]))
        assert not tiers._background._tasks or tiers._background._running
        assert tiers.wait(60)
    assert compiled_with == [QUICK, "-O3"]


@pytest.mark.parametrize(
    ("brief", "length", "expected"),
    [
        (1 << 60, 1000, Effort.LEAST),
        (1 << 60, 5, Effort.LESS),  # rows for which there is code of their own
        (0, 1000, Effort.LESS),
    ],
)
def test_brief_calls_do_without_what_is_for_speed_alone(
    monkeypatch: pytest.MonkeyPatch, directory: Path, brief: int, length: int, expected: Effort
) -> None:
    from weft.launch import computation

    monkeypatch.setattr(computation, "_BRIEF", brief)
    efforts: list[Effort] = []
    load = tiers.load

    def watch(source: str, effort: Effort, adopt: Any) -> None:
        efforts.append(effort)
        load(source, effort, adopt)

    monkeypatch.setattr(tiers, "load", watch)
    data = np.random.default_rng(1).random((7, length))
    with wf.config(quick_start=True):
        np.testing.assert_allclose(wf.jit(_row_sums)(data), data.sum(axis=1), rtol=1e-14)
    assert efforts == [expected]


def _row_sums(x: Any) -> Any:
    return x.sum(axis=1)


@pytest.mark.parametrize(
    ("quick_start", "long", "expected"),
    [(True, 1 << 60, [QUICK, "-O3"]), (True, 0, ["-O3"]), (False, 1 << 60, ["-O3"])],
)
def test_settings_and_long_calls_decide(
    compiled_with: list[str], monkeypatch: pytest.MonkeyPatch, quick_start: bool, long: int,
    expected: list[str],
) -> None:  # fmt: skip
    from weft.launch import computation

    monkeypatch.setattr(computation, "_LONG", long)
    program = wf.jit(_small)
    with wf.config(quick_start=quick_start):
        np.testing.assert_array_equal(program(np.arange(5.0)), np.arange(5.0) * 2 + 1)
        assert tiers.wait(60)
        np.testing.assert_array_equal(program(np.arange(5.0)), np.arange(5.0) * 2 + 1)
    assert compiled_with == expected


# ---------------------------------------------------------------- processes

SCRIPT = """
import os, numpy as np, weft as wf
from weft.runtime import threads as runtime_threads
from weft.runtime import tiers, toolchain
x = np.arange(100000.0)
assert (wf.jit(lambda x: x * 2 + {number})(x) == x * 2 + {number}).all()
{more}
"""
FORK = """
if os.fork() == 0:
    assert tiers.wait(0)  # what the parent has begun is the parent's
    assert (wf.jit(lambda x: x * 3 + {number})(x) == x * 3 + {number}).all()
    assert tiers.wait(60)
    os._exit(0)
assert os.wait()[1] == 0
"""


@pytest.mark.parametrize("more", ["", "assert tiers.wait(60)", FORK])
def test_a_process_ends_as_it_should(directory: Path, more: str) -> None:
    script = SCRIPT.format(number=len(more), more=more.format(number=len(more)))
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False,
            env=dict(os.environ),
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        assert not list(directory.glob(".build-*"))
        assert not list(directory.glob(".new-*"))
        assert not list(directory.glob("failed-*"))


# ---------------------------------------------------------------- bits

NESTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    function.__name__: (function, make)
    for module in (algebra, elements, science, stencils)
    for function, make in module.INPUTS.items()
}


def with_each_effort(
    run: Callable[[], list[Any]], levels: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Any]]:
    """What code gives that compilers have made with each effort; the least one first."""
    monkeypatch.setattr(tiers._Background, "add", lambda *_: None)  # the first tier stays
    for effort, level in zip(Effort, (QUICK, QUICK, "-O3"), strict=True):
        levels.clear()
        monkeypatch.setattr(devices, "device", CpuDevice())
        monkeypatch.setattr(execute, "_computations", {})
        monkeypatch.setattr(Computation, "_effort", lambda *_, effort=effort: effort)
        yield run()
        assert set(levels) <= {level}  # none, where it is a call of a library


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_same_bits(
    compiled_with: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program, data = PROGRAMS[name]
    found = with_each_effort(lambda: compiled(program, [data]), compiled_with, monkeypatch)
    least, less, full = found
    assert compiled_with
    assert_equal_bits(least, full)
    assert_equal_bits(less, full)


@pytest.mark.parametrize("name", every_second(NESTS))
def test_nests_have_the_same_bits(
    compiled_with: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    function, make = NESTS[name]
    arguments = make(67)

    def run() -> list[Any]:
        own = copy.deepcopy(arguments)
        with np.errstate(all="ignore"):
            result = wf.kernel(function)(*own)
        parts = result if isinstance(result, tuple) else (result,)
        return [np.asarray(part) for part in (*parts, *own) if part is not None]

    least, less, full = with_each_effort(run, compiled_with, monkeypatch)
    assert_equal_bits(least, full)
    assert_equal_bits(less, full)


@pytest.mark.parametrize(("name", "length"), some_slow(
    product(["exponentials", "largest", "several", "columns"], [1, 67, 1087, 2049]),
    [*product(["exponentials", "largest", "several"], [2049]), *product(["columns"], [1087, 2049])],
    several=True,
))  # fmt: skip
def test_reductions_of_any_length_have_the_same_bits(
    compiled_with: list[str], monkeypatch: pytest.MonkeyPatch, name: str, length: int
) -> None:
    def program(x: Any) -> Any:
        match name:
            case "exponentials":
                return wf.exp(x).sum(axis=1)
            case "largest":
                return wf.reduce(wf.logaddexp, -np.inf, x, axis=1)
            case "several":
                return x.var(axis=1) + x.argmax(axis=1)
            case _:
                return (x * x).sum(axis=0)

    data = np.random.default_rng(length).standard_normal((5, length))
    least, less, full = with_each_effort(
        lambda: compiled(program, [data]), compiled_with, monkeypatch
    )
    assert_equal_bits(least, full)
    assert_equal_bits(less, full)
