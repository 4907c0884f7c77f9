"""Programs whose inputs are files 16 times the memory limit, with a warm page cache.

Each contender lives in a process of its own, so that its memory can be measured, and runs when
it is told to; the parent lets them take turns and samples the anonymous resident memory of the
one that runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import native
import numpy as np

COLUMNS = {"distance": 1 << 16, "normalise": 512, "terrain": 8192}
TITLES = {
    "distance": "sum((x-y)**2)",
    "normalise": "normalise columns to a sink",
    "terrain": "slope, hillshade to sinks",
}
PASSES = {"distance": 1, "normalise": 2, "terrain": 1}
SINKS = {"distance": 0, "normalise": 1, "terrain": 2}
CELL, AZIMUTH, ALTITUDE = 30.0, np.deg2rad(315.0), np.deg2rad(45.0)


# ---------------------------------------------------------------- the programs


def terrain(xp: Any, north: Any, south: Any, west: Any, east: Any) -> tuple[Any, Any]:
    """Slope (degrees) and hillshade (0 to 255) from the neighbours of each cell."""
    dx = (east - west) * np.float32(1 / (2 * CELL))
    dy = (south - north) * np.float32(1 / (2 * CELL))
    steep = dx * dx + dy * dy
    slope = xp.atan(xp.sqrt(steep)) * np.float32(180 / np.pi)
    # The normal (-dx, -dy, 1) times the direction of the sun, over the normal's length.
    east_sun = np.float32(np.cos(ALTITUDE) * np.sin(AZIMUTH))
    north_sun = np.float32(np.cos(ALTITUDE) * np.cos(AZIMUTH))
    light = np.float32(np.sin(ALTITUDE)) - dx * east_sun + dy * north_sun
    shade = xp.maximum(light / xp.sqrt(steep + np.float32(1)), np.float32(0)) * np.float32(255)
    return slope, shade


def terrain_numpy(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same on a whole array, its edges repeated."""
    p = np.pad(z, 1, mode="edge")
    return terrain(np, p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:])


def run_weft(name: str, inputs: list[str], sinks: list[str], limit: int) -> Any:
    import weft as wf

    arrays = [wf.open(path) for path in inputs]
    with wf.config(memory_limit=limit):
        if name == "distance":
            x, y = arrays
            return float(wf.sum((x - y) ** 2))
        if name == "normalise":
            (x,) = arrays
            wf.store((x - wf.mean(x, axis=0)) / wf.std(x, axis=0), sinks[0])
        else:
            (z,) = arrays
            slope = wf.stencil(
                lambda s: terrain(wf, s[-1, 0], s[1, 0], s[0, -1], s[0, 1])[0], z, boundary="edge"
            )
            shade = wf.stencil(
                lambda s: terrain(wf, s[-1, 0], s[1, 0], s[0, -1], s[0, 1])[1], z, boundary="edge"
            )
            wf.store([slope, shade], sinks)
    return None


def predict_weft(name: str, inputs: list[str], limit: int) -> int:
    """The peak that Weft's plan promises."""
    import weft as wf

    def program(*arrays: Any) -> Any:
        if name == "distance":
            return wf.sum((arrays[0] - arrays[1]) ** 2)
        if name == "normalise":
            return (arrays[0] - wf.mean(arrays[0], axis=0)) / wf.std(arrays[0], axis=0)
        return tuple(
            wf.stencil(
                lambda s, k=k: terrain(wf, s[-1, 0], s[1, 0], s[0, -1], s[0, 1])[k],
                arrays[0], boundary="edge",
            )
            for k in range(2)
        )  # fmt: skip

    with wf.config(memory_limit=limit):
        return int(wf.explain(program, *(wf.open(path) for path in inputs)).peak_bytes)


def run_dask(name: str, inputs: list[str], sinks: list[str], limit: int) -> Any:
    import dask
    import dask.array as da

    dask.config.set(scheduler="threads", num_workers=native.thread_count())
    mapped = [np.load(path, mmap_mode="r") for path in inputs]
    # Chunks of which a few for each thread fit the limit.
    rows = max(1, limit // 16 // (mapped[0].shape[1] * 4))
    arrays = [da.from_array(m, chunks=(rows, -1), name=False) for m in mapped]
    if name == "distance":
        x, y = arrays
        return float(((x - y) ** 2).sum().compute())
    targets = [
        np.lib.format.open_memmap(path, "w+", np.float32, mapped[0].shape) for path in sinks
    ]
    if name == "normalise":
        (x,) = arrays
        da.store([(x - x.mean(axis=0)) / x.std(axis=0)], targets, lock=False)
    else:
        (z,) = arrays

        def block(z: np.ndarray) -> np.ndarray:
            return np.stack(terrain_numpy(z))

        both = da.overlap.overlap(z, depth={0: 1, 1: 0}, boundary={0: "nearest", 1: "none"})
        both = both.map_blocks(
            lambda b: block(b)[:, 1:-1], dtype=np.float32, new_axis=0,
            chunks=((2,), *z.chunks),
        )  # fmt: skip
        da.store([both[0], both[1]], targets, lock=False)
    return None


def run_c(name: str, inputs: list[str], sinks: list[str], limit: int) -> Any:
    import ctypes

    stream = native.library("streamed").stream
    stream.restype = ctypes.c_double
    text = ctypes.c_char_p
    size = os.path.getsize(inputs[0])
    total = stream(
        (text * len(inputs))(*map(str.encode, inputs)), ctypes.c_int64(len(inputs)),
        (text * max(1, len(sinks)))(*map(str.encode, sinks)), ctypes.c_int64(len(sinks)),
        ctypes.c_int64(size), ctypes.c_int64(PASSES[name]),
    )  # fmt: skip
    assert total == total, "a file could not be read or written"
    return None


RUNNERS = {"weft": run_weft, "dask": run_dask, "c": run_c}


# ---------------------------------------------------------------- workers


def serve(contender: str, name: str, directory: str, limit: int) -> None:
    """Run whenever a line comes in; answer with seconds and what to check."""
    files = Path(directory)
    inputs = sorted(str(path) for path in files.glob(f"{name}-input*.npy"))
    sinks = [str(files / f"{name}-{contender}-{k}.npy") for k in range(SINKS[name])]
    if contender == "weft":
        import weft  # noqa: F401
    elif contender == "dask":
        import dask.array  # noqa: F401
    else:
        native.library("streamed")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        answer: dict[str, Any] = {}
        try:
            if line.strip() == "predict":
                answer["peak"] = predict_weft(name, inputs, limit)
            else:
                for path in sinks:
                    Path(path).unlink(missing_ok=True)
                start = time.perf_counter()
                answer["result"] = RUNNERS[contender](name, inputs, sinks, limit)
                answer["seconds"] = time.perf_counter() - start
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


def anonymous(process: int) -> int:
    """The anonymous resident memory of a process, in bytes."""
    with open(f"/proc/{process}/status") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


@dataclass
class Worker:
    """A contender's process."""

    process: subprocess.Popen[str]
    after_import: int = 0
    peak: int = 0

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line, sample memory until the answer comes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        stop = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(stop,))
        sampler.start()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            stop.set()
            sampler.join()
        return json.loads(answer) if answer else {"error": "the process ended"}

    def _sample(self, stop: threading.Event) -> None:
        while True:
            with contextlib.suppress(OSError):
                self.peak = max(self.peak, anonymous(self.process.pid))
            if stop.wait(0.004):
                return


@contextlib.contextmanager
def worker(contender: str, name: str, directory: Path, limit: int) -> Iterator[Worker]:
    process = subprocess.Popen(
        [sys.executable, __file__, contender, name, str(directory), str(limit)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        started = Worker(process)
        assert process.stdout is not None
        if not process.stdout.readline():
            raise ImportError(f"{contender} did not start")
        started.after_import = started.peak = anonymous(process.pid)
        yield started
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# ---------------------------------------------------------------- the run


def make_inputs(name: str, directory: Path, total: int) -> None:
    """Files of `total` bytes together, of random numbers or of a rough height field."""
    count = 2 if name == "distance" else 1
    columns = COLUMNS[name]
    rows = total // count // 4 // columns
    for k in range(count):
        out = np.lib.format.open_memmap(
            directory / f"{name}-input{k}.npy", "w+", np.float32, (rows, columns)
        )
        random = np.random.default_rng(k)
        step = max(1, (16 << 20) // columns)
        for first in range(0, rows, step):
            block = random.random((min(step, rows - first), columns), np.float32)
            if name == "terrain":
                block *= 5
                block += 500 * np.sin(np.arange(columns, dtype=np.float32) / 300)
                block += 300 * np.cos(np.arange(first, first + len(block))[:, None] / 200)
            out[first : first + step] = block
        out.flush()


def warm(directory: Path) -> None:
    """Read every input once, so that the page cache holds it."""
    for path in directory.glob("*-input*.npy"):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def check(name: str, contender: str, directory: Path, result: Any) -> str:
    """What is wrong with a contender's result, or an empty string."""
    if contender == "c":
        return ""
    inputs = [np.load(p, mmap_mode="r") for p in sorted(directory.glob(f"{name}-input*.npy"))]
    if name == "distance":
        expected = sum(
            float(np.square(x.astype(np.float64) - y).sum()) for x, y in zip(*inputs, strict=True)
        )
        return "" if abs(result - expected) <= 1e-5 * expected else f"{result}, not {expected}"
    (x,) = inputs
    outputs = [
        np.load(directory / f"{name}-{contender}-{k}.npy", mmap_mode="r")
        for k in range(SINKS[name])
    ]
    if any(out.shape != x.shape or out.dtype != x.dtype for out in outputs):
        return "another shape or dtype"
    mean = deviation = np.zeros(0)
    if name == "normalise":
        mean = np.mean(x, axis=0, dtype=np.float64)
        square = sum(np.square(x[i : i + 4096] - mean).sum(axis=0) for i in range(0, len(x), 4096))
        deviation = np.sqrt(square / len(x))
    for first in (0, 1000, len(x) // 2, len(x) - 20):
        if name == "normalise":
            expected_rows = [(x[first : first + 20] - mean) / deviation]
        else:
            low, high = max(0, first - 1), min(len(x), first + 21)
            expected_rows = [r[first - low :][:20] for r in terrain_numpy(x[low:high])]
            if high < len(x) or high - first < 21:
                expected_rows = [r[: min(20, high - first)] for r in expected_rows]
        for out, rows in zip(outputs, expected_rows, strict=True):
            if not np.allclose(out[first : first + len(rows)], rows, rtol=1e-3, atol=1e-3):
                return f"other values from row {first}"
    return ""


def one(name: str, directory: Path, limit: int, rounds: int, wanted: list[str]) -> list[str]:
    """A row of the table: contenders in alternation on one program."""
    make_inputs(name, directory, 16 * limit)
    warm(directory)
    with contextlib.ExitStack() as stack:
        workers = {c: stack.enter_context(worker(c, name, directory, limit)) for c in wanted}
        predicted = 0
        for contender in list(workers):
            answer = workers[contender].ask("run")  # warm-up
            problem = answer.get("error") or check(name, contender, directory, answer["result"])
            if problem:
                measure.note(f"  {contender}: {problem}")
                del workers[contender]
        if "weft" in workers:
            predicted = workers["weft"].ask("predict").get("peak", 0)
        times = measure.Times({c: [] for c in workers})
        for number in range(rounds):
            turn = number % max(1, len(workers))
            order = list(workers)
            for contender in order[turn:] + order[:turn]:
                if contender == "dask" and number >= measure.LEAST_ROUNDS:
                    times.seconds[contender].append(None)
                    continue
                times.seconds[contender].append(workers[contender].ask("run")["seconds"])
                for path in directory.glob(f"{name}-{contender}-*"):
                    path.unlink()
        return row(name, times, workers, predicted, limit)


def row(
    name: str, times: measure.Times, workers: dict[str, Worker], predicted: int, limit: int
) -> list[str]:
    def ratio(other: str) -> str:
        both = other in times.seconds and "weft" in times.seconds
        return f"{times.ratio(other, 'weft'):.2f}" if both else "-"

    def mebibytes(contender: str) -> str:
        if contender not in workers:
            return "-"
        return f"{(workers[contender].peak - workers[contender].after_import) / 2**20:.0f}"

    cells = [TITLES[name]]
    cells += [f"{times.median(c):.3f}" if c in times.seconds else "-" for c in RUNNERS]
    cells += [ratio("c"), ratio("dask"), mebibytes("weft")]
    cells += [f"{predicted / 2**20:.0f}" if predicted else "-", mebibytes("dask")]
    moved = 16 * limit * PASSES[name] + 16 * limit * SINKS[name]
    rate = moved / times.median("weft") / 2**30 if "weft" in times.seconds else 0
    return [*cells, f"{rate:.1f}" if rate else "-"]


def limits(directory: Path, size: int) -> tuple[float, float]:
    """GiB/s of a sum over a mapped file in the page cache, and of `pwrite` to a new file."""
    path, out = directory / "limit-input.npy", directory / "limit-output.npy"
    np.lib.format.open_memmap(path, "w+", np.float32, (size // 4,))[:] = 1
    tiny = directory / "tiny.npy"
    np.save(tiny, np.zeros(1024, np.float32))
    import ctypes

    stream = native.library("streamed").stream
    stream.restype = ctypes.c_double
    text = ctypes.c_char_p

    def go(output: bool) -> float:
        start = time.perf_counter()
        stream(
            (text * 1)(str(path).encode()), ctypes.c_int64(1), (text * 1)(str(out).encode()),
            ctypes.c_int64(int(output)), ctypes.c_int64(size), ctypes.c_int64(1),
        )  # fmt: skip
        seconds = time.perf_counter() - start
        out.unlink(missing_ok=True)
        return seconds

    go(False)
    reads = sorted(go(False) for _ in range(5))
    both = sorted(go(True) for _ in range(5))
    path.unlink()
    return size / reads[2] / 2**30, size / max(1e-9, both[2] - reads[2] / 2) / 2**30


def run(
    names: tuple[str, ...], limit: int, rounds: int, where: str | None, wanted: list[str]
) -> None:
    directory = Path(tempfile.mkdtemp(prefix="weft-bench-", dir=where))
    try:
        read, write = limits(directory, min(8 * limit, 1 << 29))
        print(f"Out of core: inputs of {16 * limit >> 20} MiB, limit {limit >> 20} MiB, page cache "
              f"warm, {native.thread_count()} threads. Physical limits: mapped sum {read:.1f} "
              f"GiB/s, pwrite {write:.1f} GiB/s.")  # fmt: skip
        print("Seconds (medians), median paired ratios, peak anonymous memory over that after "
              "import (MiB).\n")  # fmt: skip
        rows = []
        for name in names or tuple(TITLES):
            measure.note(name)
            rows.append(one(name, directory, limit, rounds, wanted))
            for path in directory.iterdir():
                path.unlink()
        header = ["program", *("C floor" if c == "c" else c for c in RUNNERS), "C/weft",
                  "dask/weft", "weft MiB", "predicted", "dask MiB", "GiB/s"]  # fmt: skip
        print(measure.table(header, rows))
        print("\nC floor: a C loop that only sums the mapped inputs, once a pass, and writes as "
              "many bytes as the sinks take.\n0.9 of it, 5 times Dask, and a peak within the "
              "limit are asked.")  # fmt: skip
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One contender's process, for run.py.")
    parser.add_argument("contender")
    parser.add_argument("name")
    parser.add_argument("directory")
    parser.add_argument("limit", type=int)
    given = parser.parse_args()
    serve(given.contender, given.name, given.directory, given.limit)
