"""Iterated stencils: many steps in memory, on data far past the caches, and from disk.

Each step is the mean of a cell and its neighbours (the outermost cells keep their values).
In memory all contenders take turns; Weft's rate is also taken on data that lies in the caches,
with the same code and the same number of cells times steps in all.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import native
import numpy as np

STEPS = 64
SHAPES = {"line": (1 << 26,), "plate": (8192, 8192), "solid": (400, 404, 404)}
NEAR = {"line": (1 << 17,), "plate": (24, 8192), "solid": (20, 24, 404)}
"""Shapes with rows as long, of which two arrays fit what two cores have of caches of their own."""
TITLES = {"line": "3-point, 1-D", "plate": "5-point, 2-D", "solid": "7-point, 3-D"}
SHARE = {"line": 0.333, "plate": 0.2, "solid": 0.125}
NAMES = (*SHAPES, "disk")
PEERS = ("C", "JAX", "Numba")
DISK = (16384, 16384)
DISK_LIMIT = 256 << 20
PROGRAM = 24 << 20
"""What of the limit is for Weft itself, however little data there is."""


def mean(name: str, at: Callable[..., Any]) -> Any:
    """The sum of a cell and its neighbours, weighted; `at` takes offsets."""
    rank = len(SHAPES[name])
    here = at(*(0,) * rank)
    total = 2 * here if name == "solid" else here
    for axis in range(rank):
        for offset in (-1, 1):
            total = total + at(*(offset if d == axis else 0 for d in range(rank)))
    return np.float32(SHARE[name]) * total


def step(name: str) -> Callable[[Any], Any]:
    import weft as wf

    def cell(s: Any) -> Any:
        return mean(name, lambda *offsets: s[offsets])

    return lambda x: wf.stencil(cell, x, boundary="keep")


def weft(name: str, x: np.ndarray, steps: int = STEPS) -> Callable[[], Any]:
    import weft as wf

    program = wf.jit(lambda x, n: wf.iterate(step(name), x, n))
    return lambda: program(x, steps)


def c(name: str, x: np.ndarray, steps: int = STEPS) -> Callable[[], Any]:
    first, second = np.empty_like(x), np.empty_like(x)

    def run() -> np.ndarray:
        native.openmp(name, x, first, second, *x.shape, steps, source="stencils")
        return first if steps % 2 else second

    return run


def inner(name: str, x: Any) -> Any:
    """The next values of all cells but the outermost."""
    return mean(name, lambda *offsets: x[tuple(
        slice(1 + o, n - 1 + o) for o, n in zip(offsets, x.shape, strict=True)
    )])  # fmt: skip


def jax_(name: str, x: np.ndarray, steps: int = STEPS) -> Callable[[], Any]:
    import jax

    inside = (slice(1, -1),) * x.ndim

    def one(_: Any, x: Any) -> Any:
        return x.at[inside].set(inner(name, x))

    compiled = jax.jit(lambda x: jax.lax.fori_loop(0, steps, one, x))
    given = jax.device_put(x)
    return lambda: compiled(given).block_until_ready()


def numba_(name: str, x: np.ndarray, steps: int = STEPS) -> Callable[[], Any]:
    one = numba_steps()[name]
    share = np.float32(SHARE[name])
    buffers = [x.copy(), x.copy()]

    def run() -> np.ndarray:
        source = x
        for number in range(steps):
            one(source, buffers[number % 2], share)
            source = buffers[number % 2]
        return source

    return run


@functools.cache
def numba_steps() -> dict[str, Any]:
    """One step into a buffer whose outermost cells are there already."""
    import numba

    jit = numba.njit(parallel=True, fastmath=True)

    @jit
    def line(x, y, share):
        for i in numba.prange(1, x.shape[0] - 1):
            y[i] = share * (x[i - 1] + x[i] + x[i + 1])

    @jit
    def plate(x, y, share):
        for i in numba.prange(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                y[i, j] = share * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])

    @jit
    def solid(x, y, share):
        for p in numba.prange(1, x.shape[0] - 1):
            for i in range(1, x.shape[1] - 1):
                for j in range(1, x.shape[2] - 1):
                    y[p, i, j] = share * (
                        2 * x[p, i, j] + x[p - 1, i, j] + x[p + 1, i, j] + x[p, i - 1, j]
                        + x[p, i + 1, j] + x[p, i, j - 1] + x[p, i, j + 1]
                    )  # fmt: skip

    return {"line": line, "plate": plate, "solid": solid}


BUILDERS = {"Weft": weft, "C": c, "JAX": jax_, "Numba": numba_}


def close(found: Any, reference: Any) -> bool:
    return bool(np.abs(np.asarray(found) - np.asarray(reference)).max() < 1e-5)


def in_caches(names: tuple[str, ...], scale: float, rounds: int, chosen: list[str]) -> None:
    """Many steps on data in memory: times, and rates far past and inside the caches."""
    print(f"{STEPS} steps on arrays in memory, {native.thread_count()} threads. Milliseconds "
          "(medians); time / Weft's time; 10^9 cells a second.\n")  # fmt: skip
    wanted = [b for b in BUILDERS if b == "Weft" or not chosen or b.lower() in chosen]
    rows = []
    for name in names:
        measure.note(name)
        first, *others = SHAPES[name]
        x = np.random.default_rng(1).random((int(first * scale), *others), np.float32)
        near = np.random.default_rng(1).random(NEAR[name], np.float32)
        contenders = {}
        for label in wanted:
            try:
                contenders[label] = BUILDERS[label](name, x)
            except ImportError as error:
                measure.note(f"  {label}: skipped ({error})")
        reference = contenders["Weft"]()
        for label, run in contenders.items():
            if not close(run(), reference):
                raise AssertionError(f"{label} differs from Weft on {TITLES[name]}")
        del reference
        # So many steps that a call takes about as long as one on the large array.
        steps = STEPS * x.size // near.size // 8
        contenders["near"] = weft(name, near, steps)
        times = measure.alternate(contenders, rounds)
        far = x.size * STEPS / times.median("Weft") / 1e9
        rate = near.size * steps / times.median("near") / 1e9
        rows.append([
            TITLES[name],
            *(f"{times.median(b) * 1e3:.0f}" if b in times.seconds else "-" for b in BUILDERS),
            *(f"{times.ratio(b, 'Weft'):.2f}" if b in times.seconds else "-" for b in PEERS),
            f"{far:.1f}", f"{rate:.1f}",
            f"{times.ratio('near', 'Weft') * x.size * STEPS / near.size / steps:.2f}",
        ])  # fmt: skip
        del x, contenders
    header = ["stencil", *BUILDERS, *(f"{b}/Weft" for b in PEERS), "far", "near", "far/near"]
    print(measure.table(header, rows))
    print("\nAsked: 1-D C 4 times, JAX 8 times; 2-D and 3-D far/near 0.8.")


def disk(scale: float, rounds: int, chosen: list[str], directory: str | None) -> None:
    """Many steps from a file to a file, under a limit; beside Numba with all in memory."""
    import weft as wf

    shape = (int(DISK[0] * scale**0.5), int(DISK[1] * scale**0.5))  # as many rows in a box
    limit = int((DISK_LIMIT - PROGRAM) * scale) + PROGRAM
    program = wf.jit(lambda x, n: wf.iterate(step("plate"), x, n))
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        source, target = Path(folder) / "source.npy", Path(folder) / "target.npy"
        x = np.random.default_rng(1).random(shape, np.float32)
        np.save(source, x)

        def streamed(steps: int) -> None:
            with wf.config(memory_limit=limit):
                wf.store(program(wf.open(source), steps), target, mode="w")

        builders: dict[str, Callable[[], Callable[[], Any]]] = {
            "Weft 20": lambda: lambda: streamed(20), "Numba 20": lambda: numba_("plate", x, 20),
            "Weft 64": lambda: lambda: streamed(STEPS),
            "in memory 64": lambda: weft("plate", x, STEPS),
            "read": lambda: lambda: np.fromfile(source, np.float32),
        }  # fmt: skip
        contenders = {
            name: build() for name, build in builders.items()
            if not chosen or name.lower() in chosen
        }  # fmt: skip
        if not contenders:  # of others alone
            return
        times = measure.alternate(contenders, rounds)
    print(f"\nFrom disk to disk, {x.nbytes >> 20} MiB under {limit >> 20} MiB."
          " Seconds (medians).\n")  # fmt: skip
    rows = [[name, f"{times.median(name):.2f}"] for name in contenders]
    print(measure.table(["", "s"], rows))
    print()
    for text, above, below, asked in (
        ("20 steps, Numba in memory / Weft from disk", "Numba 20", "Weft 20", "1"),
        ("64 steps, Weft from disk / Weft in memory", "Weft 64", "in memory 64", "at most 1.3"),
    ):
        if {above, below} <= times.seconds.keys():
            print(f"{text}: {times.ratio(above, below):.2f} (asked: {asked})")


def run(
    names: tuple[str, ...], scale: float, rounds: int, chosen: list[str], directory: str | None
) -> None:
    inside = tuple(name for name in names or NAMES if name != "disk")
    if inside:
        in_caches(inside, scale, rounds, chosen)
    if "disk" in (names or NAMES):
        disk(scale, min(rounds, 3), chosen, directory)
