"""Several threads, forked children, and the limit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf


def program(x: Any) -> Any:
    return wf.compute(wf.sqrt(x * x + 1).sum(axis=0), wf.cumulative_sum(x, axis=1), x.max())


def check(seed: int) -> None:
    a = np.random.default_rng(seed).random((300 + seed, 200))
    columns, running, most = program(wf.asarray(a))
    np.testing.assert_allclose(columns, np.sqrt(a * a + 1).sum(axis=0))
    np.testing.assert_allclose(running, a.cumsum(axis=1))
    assert most == a.max()


def test_threads_compute_at_once() -> None:
    with wf.config(interpret_below=0), ThreadPoolExecutor(6) as pool:
        list(pool.map(check, range(24)))


def test_settings_belong_to_their_thread() -> None:
    def inside(_: int) -> int | None:
        before = wf.settings().threads
        with wf.config(threads=7):
            assert wf.settings().threads == 7
        return before

    with wf.config(threads=3), ThreadPoolExecutor(2) as pool:
        found = list(pool.map(inside, range(4)))
        assert wf.settings().threads == 3
    assert found == [None] * 4


def test_threads_stream_at_once(tmp_path: Path) -> None:
    a = np.random.default_rng(0).random((500, 100))
    np.save(tmp_path / "a.npy", a)

    def stream(k: int) -> None:
        target = tmp_path / f"out{k}.npy"
        wf.store(wf.open(tmp_path / "a.npy") * k, target)
        np.testing.assert_array_equal(np.load(target), a * k)

    with wf.config(interpret_below=0), ThreadPoolExecutor(4) as pool:
        list(pool.map(stream, range(8)))


def forked(run: Callable[[], Any]) -> int:
    """The exit code of a child that runs a function."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_compute(tmp_path: Path) -> None:
    def in_child() -> None:
        check(1)  # known to the parent
        wf.store(wf.asarray(np.ones((50, 3))) * 3, tmp_path / f"{os.getpid()}.npy")
        np.testing.assert_array_equal(wf.tanh(np.zeros(5000)).numpy(), 0)  # new
        assert forked(lambda: check(2)) == 0

    with wf.config(interpret_below=0):
        check(1)
        assert forked(in_child) == 0
        check(1)
        with ThreadPoolExecutor(2) as pool:
            busy = [pool.submit(check, k) for k in range(6)]
            assert forked(in_child) == 0
            for future in busy:
                future.result()


LIMITED = """
    import sys, os
    import numpy as np
    import weft as wf

    folder = sys.argv[1]

    def anonymous(what):
        with open("/proc/self/status") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(what)) << 10

    rows = 1 << 13
    source = np.lib.format.open_memmap(f"{folder}/in.npy", "w+", "f4", (rows, 1 << 13))
    for start in range(0, rows, 512):
        source[start : start + 512] = np.random.default_rng(start).random((512, 1 << 13), "f4")
    del source

    class Rows:
        shape, dtype = (rows, 1 << 13), np.dtype("f4")
        def __getitem__(self, box):
            return np.ones([s.stop - s.start for s in box], "f4")

    before = anonymous("RssAnon")
    most = 0
    def progress(done, total):
        global most
        most = max(most, anonymous("RssAnon"))

    limit = 128 << 20
    with wf.config(memory_limit=limit):
        x, y = wf.open(f"{folder}/in.npy"), wf.open(Rows())
        z = (x - y) / wf.std(x + y, axis=0)
        plan = wf.explain(z)
        wf.store([z, wf.sum(x * y, axis=1)], [f"{folder}/out.npy", f"{folder}/sums.npy"],
                 progress=progress)
    print(plan.peak_bytes <= limit, most - before, limit)
"""


def test_the_limit_holds(tmp_path: Path) -> None:
    path = tmp_path / "limited.py"
    path.write_text(textwrap.dedent(LIMITED))
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path)], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    fits, most, limit = done.stdout.split()
    assert fits == "True"
    assert 0 < int(most) <= int(limit)
