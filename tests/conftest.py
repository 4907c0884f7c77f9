"""Options and fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
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


def pytest_configure() -> None:
    """Compile once what is run once: `runtime/test_tiers.py` has both tiers."""
    import weft as wf

    wf.config(quick_start=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_option(parser)
