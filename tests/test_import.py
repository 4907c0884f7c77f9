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


def test_import_leaves_slow_rooms_alone() -> None:
    """The rooms that only some programs need are imported when they are needed."""
    script = "import sys, weft; print(*[n for n in sys.modules if n.startswith('weft.')])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    late = {"weft.cli", "weft.demo", "weft.io.zarr", "weft.io.hdf5", "weft.io.tiff"}
    assert not loaded & late
