"""The application programs, one a file, each with the same algorithm in `bench/c/<name>.c`.

Each module has

- `TITLE`;
- `THESIS`, what short-circuiting gave on two GPUs in *Static and Dynamic Analyses for
  Efficient GPU Execution* (P. Munksgaard, 2023, section 6.8), as text; "" where it says nothing;
- `inputs(scale)`, a dict whose values are what the program takes;
- `program(inputs)`, the compiled function and its arguments; or `weft(inputs)`, which calls it;
- `checked(scale)`, where results are not compared on `inputs(scale)` but on these;
- `CASE`, the test case (`tests/applications`) whose counted costs are shown;
- `c(inputs)`, the hand-written C with OpenMP: one array or several, as Weft gives them;
- `TOLERANCE` (if not 1e-4), relative to the largest value of each result.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from weft.runtime.memory import host_pool

HERE = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in HERE.glob("[a-z]*.py")))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"applications.{name}")


def example(name: str) -> ModuleType:
    """The module `examples/<name>.py`: the benchmarks run what users are shown."""
    folder = str(HERE.parents[1] / "examples")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


_outputs: dict[tuple[Any, ...], np.ndarray] = {}


def output(label: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array for the C to write: the same one at each call, of huge pages as Weft's are."""
    key = (label, shape, np.dtype(dtype))
    if key not in _outputs:
        _outputs[key] = host_pool().empty(shape, dtype)
        _outputs[key].fill(0)
    return _outputs[key]
