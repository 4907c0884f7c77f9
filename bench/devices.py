"""One program on several devices: how much faster than on one of them alone.

Devices of one core each: parts of the CPU, and an OpenCL device with one compute unit where
there is one. Beside the ratio of the times stands the machine's limit: each device runs all of the
program at the same time, sharing nothing but clock, caches and memory. Cores of a virtual machine
may be slower together than alone, which no division of the work mends. And the ratio that the
processor time gives, were the machine idle and the work balanced: (devices) x (processor time
alone) / (together). All are medians: the least time of one core is that of a moment when the other
one left it the clock or the caches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from measure import alternate, note, table

import weft as wf

WANTED = {"n-body": 1.9, "product": 1.9, "megapar": 1.9, "mandelbrot": 1.9, "n-body mixed": 1.7}
NAMES = tuple(WANTED)


def accelerations(x: Any, y: Any, z: Any, m: Any) -> Any:
    """N-body: a_i = sum_j m_j (p_j - p_i) / (|p_j - p_i|^2 + eps^2)^1.5, eps = 50."""
    dx, dy, dz = (p[None, :] - p[:, None] for p in (x, y, z))
    squared = dx * dx + dy * dy + dz * dz + np.float32(2500)
    w = m[None, :] / (squared * wf.sqrt(squared))
    return (w * dx).sum(axis=1), (w * dy).sum(axis=1), (w * dz).sum(axis=1)


def megapar(x: Any) -> Any:
    """A map of a long scalar loop, over 2 Mi elements as in Svensson et al., section 6.1."""

    def one(value: Any) -> Any:
        return wf.fori_loop(0, 10000, lambda _, y: y * np.float32(0.999) + np.float32(0.5), value)

    return wf.map(one, x)


def mandelbrot(real: Any, imaginary: Any) -> Any:
    """How often z = z^2 + c stays within |z| < 16, at most 100 times."""

    def one(c: Any, d: Any) -> Any:
        def step(state: Any) -> Any:
            a, b, count = state
            return a * a - b * b + c, 2 * a * b + d, count + 1

        def inside(state: Any) -> Any:
            a, b, count = state
            return (a * a + b * b < 256) & (count < 100)

        return wf.while_loop(inside, step, (c, d, 0))[2]

    return wf.map(lambda d: wf.map(lambda c: one(c, d), real), imaginary)


def program(name: str, scale: float) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A compiled program and its arguments."""
    rng = np.random.default_rng(1)
    if name.startswith("n-body"):
        n = int(40_000 * scale**0.5)
        return wf.jit(accelerations), tuple(rng.normal(size=(4, n)).astype(np.float32))
    if name == "product":
        n = int(8000 * scale ** (1 / 3))  # of 4000 a call packs 4% anew
        return wf.jit(lambda a, b: a @ b), tuple(rng.normal(size=(2, n, n)).astype(np.float32))
    if name == "megapar":
        n = int((2 << 20) * scale)
        return wf.jit(megapar), (rng.random(n, np.float32),)
    n = int(8000 * scale**0.5)
    half = np.float32(3.067 / 2)
    return wf.jit(mandelbrot), (
        np.linspace(-0.7 - half, -0.7 + half, n, dtype=np.float32),
        np.linspace(-half, half, n, dtype=np.float32),
    )


def devices_of(name: str) -> tuple[str, ...]:
    """The devices of a row; () where they are not here."""
    known = wf.devices()
    if not name.endswith("mixed"):
        wanted: tuple[str, ...] = ("cpu:0", "cpu:1")
    else:
        units = [d for d in known if d.startswith("opencl:") and d.count(".") == 1]
        wanted = ("cpu:0", units[-1]) if units else ("cpu:0", "opencl:0.1")
    return wanted if set(wanted) <= set(known) else ()


def run(names: Sequence[str] = (), scale: float = 1.0, rounds: int = 9) -> None:
    """Print the table."""
    rows = []
    for name in names or NAMES:
        devices = devices_of(name)
        if not devices:
            note(f"{name}: no two such devices here")
            continue
        note(f"{name} on {', '.join(devices)}")
        rows.append(measured(name, devices, scale, rounds))
    header = [
        "program", "devices", "alone s", "together s", "ratio", "limit", "by processor time", "bar",
    ]  # fmt: skip
    print(table(header, rows))


def measured(name: str, devices: tuple[str, ...], scale: float, rounds: int) -> list[str]:
    """One row."""
    function, arguments = program(name, scale)
    processor: dict[str, list[float]] = {}

    def on(key: str, chosen: tuple[str, ...]) -> Callable[[], Any]:
        def call() -> Any:
            began = time.process_time()
            with wf.config(devices=chosen):
                result = function(*arguments)
            processor.setdefault(key, []).append(time.process_time() - began)
            return result

        return call

    own: dict[str, list[float]] = {}

    def own_time(device: str) -> None:
        began = time.perf_counter()
        with wf.config(devices=(device,)):
            function(*arguments)
        own.setdefault(device, []).append(time.perf_counter() - began)

    def each() -> None:
        """Every device does all of it, at the same time."""
        with ThreadPoolExecutor(len(devices)) as pool:
            list(pool.map(own_time, devices))

    contenders = {device: on(device, (device,)) for device in devices}
    contenders["together"] = on("together", devices)
    contenders["each"] = each
    alone = alternate(contenders, rounds)
    typical = {key: alone.median(key) for key in contenders}
    used = {key: statistics.median(seconds[-rounds:]) for key, seconds in processor.items()}
    fastest = min(devices, key=typical.__getitem__)
    rate = sum(used[fastest] / used[device] for device in devices)
    share = sum(used[device] for device in devices) / len(devices) / used["together"]
    ratio = 1 / alone.ratio("together", fastest)
    limit = sum(typical[fastest] / statistics.median(seconds[-rounds:]) for seconds in own.values())
    return [
        name, " ".join(devices), f"{typical[fastest]:.4f}", f"{typical['together']:.4f}",
        f"{ratio:.2f}", f"{limit:.2f}", f"{rate * share:.2f}", f"{WANTED[name]:.1f}",
    ]  # fmt: skip
