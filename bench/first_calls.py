"""First calls of loop nests and NumPy programs, each in a process of its own: Weft and Numba.

What is made once for a machine is there: Python's bytecode, and Weft's thread pool. Nothing of the
program is. Importing either is not counted; what either imports or sets up at the first call is.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import statistics
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import loops
import measure
import overheads
import scientists

NAMES = (*loops.NAMES, *scientists.NAMES)
HEADER = ["program", "Weft s", "Numba s", "Numba / Weft", "run s"]
SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import first_calls
print(first_calls.{what}({name!r}))
"""


def weft(name: str) -> float:
    """Seconds of the first call, in this process."""
    import weft as wf

    function, arguments = _program(name)
    return _seconds(wf.kernel(function), arguments)


def again(name: str) -> float:
    """Seconds of a later call."""
    import weft as wf
    from weft.runtime import tiers

    function, arguments = _program(name)
    kernel = wf.kernel(function)
    kernel(*arguments)
    tiers.wait()
    return _seconds(kernel, arguments)


def numba(name: str) -> float:
    """Seconds of the first call of a parallel function, or of a serial one if there is no other.

    Not a number where Numba takes the program in neither form.
    """
    for parallel in (True, False):
        function, arguments = _program(name)
        compiled = loops.numba_(function, parallel)
        with contextlib.suppress(Exception):
            return _seconds(compiled, arguments)
    return math.nan


def _program(name: str):
    if name in loops.NAMES:
        return loops.case(name, 1.0)
    return loops.program(name, *scientists.PROGRAMS[name], 1.0)


def _seconds(function, arguments) -> float:
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def run(names: tuple[str, ...], rounds: int) -> None:
    """Print the table: medians of so many processes each, in turn."""
    rows = []
    here = str(Path(__file__).parent)
    with TemporaryDirectory() as folder:
        made = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        seed = f"{folder}/seed"
        overheads.in_process(overheads.ANY_CALL, WEFT_CACHE_DIR=seed, **made)
        for name in names or NAMES:
            measure.note(name)
            seconds: dict[str, list[float]] = {"weft": [], "numba": [], "again": []}
            for _ in range(rounds + 1):  # the first one makes bytecode
                for what, found in seconds.items():
                    cache = f"{folder}/cache"
                    shutil.copytree(seed, cache)
                    script = SCRIPT.format(here=here, what=what, name=name)
                    found.append(overheads.in_process(script, WEFT_CACHE_DIR=cache, **made))
                    shutil.rmtree(cache)
            first = {what: statistics.median(found[1:]) for what, found in seconds.items()}
            rows.append([
                name, f"{first['weft']:.2f}", f"{first['numba']:.2f}",
                f"{first['numba'] / first['weft']:.1f}", f"{first['again']:.3f}",
            ])  # fmt: skip
    print(f"First calls, each in a process of its own; medians of {rounds}.\n")
    print(measure.table(HEADER, rows))
