"""What a test program is: a function, arguments, and an independent reference."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Case:
    """A program of `examples/`, on small awkward arguments.

    Attributes
    ----------
    function : callable
        The example's function (compiled by `weft.jit` or not); gives one array or several.
    arguments : tuple
        NumPy arrays and Python numbers.
    reference : callable
        The same results of the same arguments, by plain NumPy and by other means.
    relative, absolute : float
        Tolerances of inexact results; integers and booleans agree exactly. A tolerance holds
        for the algorithm, not for the way it is run: all ways share it.
    streams : bool
        Whether the planner can cut the program into boxes.
    counts : bool
        Whether a golden file holds its costs: not where the heap evaluator, which goes from
        element to element, would take long.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: Callable[..., Any]
    relative: float = 1e-5
    absolute: float = 1e-6
    streams: bool = True
    counts: bool = True


def example(name: str) -> ModuleType:
    """The module `examples/<name>.py`."""
    qualified = f"example_{name}"
    if qualified in sys.modules:
        return sys.modules[qualified]
    spec = importlib.util.spec_from_file_location(qualified, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[qualified] = module
    spec.loader.exec_module(module)
    return module
