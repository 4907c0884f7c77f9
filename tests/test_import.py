"""`import weft` brings in NumPy and the standard library, and nothing else."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import numpy
before = set(sys.modules)
import weft
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - set(sys.stdlib_module_names)))
"""


def test_import_needs_numpy_alone() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    third_parties = [name for name in run.stdout.split() if not name.startswith("__editable__")]
    assert set(third_parties) <= {"numpy", "weft"}


def loaded(script: str) -> set[str]:
    """The modules of Weft that are there after a script, in a process of its own."""
    script += "; import sys; print(*[n for n in sys.modules if n.startswith('weft.')])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


LATE_ROOMS = {"cli", "commands", "compiler", "demo", "imp", "lower", "mem", "passes", "printers"}
LATE_MODULES = {
    "weft.fun.interpret",
    "weft.io.hdf5",
    "weft.io.tiff",
    "weft.io.zarr",
    "weft.kernel.function",
    "weft.launch.stage",
    "weft.plan.planner",
    "weft.runtime.devices.cuda",
    "weft.runtime.devices.opencl",
    "weft.runtime.executor",
}


def test_import_leaves_slow_rooms_alone() -> None:
    """The rooms that only some programs need are imported when they are needed."""
    found = loaded("import weft")
    assert not {name for name in found if name.split(".")[1] in LATE_ROOMS}
    assert not found & LATE_MODULES


def test_modules_that_are_late_exist() -> None:
    """Names of modules that were moved would make the test above say nothing."""
    found = loaded(f"import importlib; [importlib.import_module(m) for m in {LATE_MODULES!r}]")
    assert found >= LATE_MODULES
