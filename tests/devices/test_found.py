"""Which OpenCL devices are used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weft.runtime.devices.opencl import _compiles


def described(platform: str, version: str) -> Any:
    return SimpleNamespace(platform=SimpleNamespace(name=platform), version=version)


@pytest.mark.parametrize("cpu", ["haswell", "znver3", "skylake-avx512"])
def test_devices_whose_cpu_the_driver_knows(cpu: str) -> None:
    version = f"OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-{cpu}"
    assert _compiles(described("Portable Computing Language", version))
    assert _compiles(described("Another Platform", "OpenCL 2.1 generic"))


def test_a_driver_that_is_older_than_the_cpu_is_left_out() -> None:
    version = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"
    assert not _compiles(described("Portable Computing Language", version))
