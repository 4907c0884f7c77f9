"""Options and fixtures that all tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slow
from golden_files import add_option, golden

__all__ = ["golden"]


def _name_cpu() -> None:
    """Name PoCL a CPU that it knows: it refuses all code on one newer than its LLVM."""
    try:
        features = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return
    known = {"avx512vl": "skylake-avx512", "avx2": "haswell"}
    for feature, name in known.items():
        if feature in features:
            os.environ.setdefault("POCL_LLVM_CPU_NAME", name)
            return


_name_cpu()


def _set_rates() -> None:
    """Plan for PoCL as if it were always equally quick, however busy the machine is."""
    from weft.plan.code import Rates
    from weft.runtime.devices import opencl

    def rates(device: Any) -> Rates:
        units = device.device.max_compute_units
        return Rates(8e9, 8e9, 16e9 * units, 2.5e-5, 2e-4, units, False, 1e10 * units)

    opencl.measure = rates


_QUICKLY = frozenset((
    "agreement/test_programs.py", "applications", "bad_input", "behaviour", "devices", "examples",
    "frontend", "io", "loops", "mem", "passes", "plan", "test_fft.py", "test_linalg.py", "transfer",
))  # fmt: skip


@pytest.fixture(autouse=True)
def _compiled_quickly(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Compile as for first calls where this is not what is tested; `make test-all` never does.

    Texts and bits are the same (`runtime/test_tiers.py`), in half of the compiler's time. PoCL
    does not optimise, in three quarters of its time. Texts are not parted: other tests have the
    other processors.
    """
    from weft.runtime import toolchain
    from weft.runtime.devices import opencl

    path = request.path.relative_to(Path(__file__).parent)
    if _QUICKLY.isdisjoint((path.parts[0], path.as_posix())) or slow.everything:
        yield
        return
    monkeypatch.setattr(opencl, "OPTIONS", (*opencl.OPTIONS, "-cl-opt-disable"))
    monkeypatch.setattr(toolchain, "_processors", lambda: 1)
    find = toolchain._find

    def found(chosen: str, path: str) -> toolchain.Compiler | None:
        compiler = find(chosen, path)
        quick = None if compiler is None else toolchain.first_tier(compiler)
        return quick or compiler

    toolchain._find = found  # type: ignore[assignment]
    try:
        yield
    finally:
        toolchain._find = find


def pytest_configure(config: pytest.Config) -> None:
    """Compile once what is run once (`runtime/test_tiers.py` has both tiers), in the same boxes."""
    import weft as wf

    slow.everything = config.option.markexpr != "not slow"

    wf.config(quick_start=False)
    if "WEFT_TEST_DEVICE" not in os.environ:
        _set_rates()


def pytest_collection_finish() -> None:
    """Do not look through all tests at each collection of garbage."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)
