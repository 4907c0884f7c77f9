"""Ctrl-C ends a stream, a kernel or a loop within a second; so do compilers that fail."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest
from bad_input.refusals import finished, leftovers, script
from slow import some_slow

PROGRAM = """
    import sys, threading, time
    import numpy as np
    import weft as wf

    folder, way = sys.argv[1:]

    class Slow:
        shape, dtype = (1 << 14, 1 << 12), np.dtype("f4")
        def __getitem__(self, box):
            time.sleep(0.02)
            return np.ones([s.stop - s.start for s in box], "f4")

    def collatz(i):
        return wf.while_loop(lambda s: s[1] >= 0, lambda s: (s[0] + 1, s[1] + i * 0), (i, i))[0]

    def costly(x):
        for _ in range(30):
            x = wf.sin(x) * wf.exp(-x) + wf.cos(x)
        return x

    def run(rows):
        if way == "stream":
            x = Slow()
            x.shape = (rows, 1 << 12)
            wf.store(wf.open(x) + 1, f"{folder}/out{rows}.npy")
        elif way == "kernel":
            costly(wf.broadcast_to(wf.arange(1024.0), (rows * 64, 1024))).sum().numpy()
        elif way == "kernel to a file":
            y = costly(wf.broadcast_to(wf.arange(1024.0), (rows * 4, 1024)))
            wf.store(y, f"{folder}/out{rows}.npy")
        elif rows > 4:
            wf.generate(4, collatz).numpy()  # never ends

    with wf.config(interpret_below=0):
        run(2)  # compiled
        threading.Timer(0.7, lambda: print("running", flush=True)).start()
        try:
            run(1 << 14)
        except KeyboardInterrupt:
            print("interrupted", time.time(), flush=True)
            if way != "loop":
                run(3)
                print("and well", flush=True)
"""


@pytest.mark.parametrize(
    "way", some_slow(["stream", "kernel", "kernel to a file", "loop"], ["kernel"])
)
def test_interrupted(way: str, tmp_path: Path) -> None:
    command = script(tmp_path, PROGRAM, str(tmp_path), way)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "running\n"
            sent = time.time()
            process.send_signal(signal.SIGINT)
            said, when = process.stdout.readline().split()
            rest = process.stdout.read()
        finally:
            process.kill()
    assert said == "interrupted"
    assert float(when) - sent < 1
    assert rest == ("" if way == "loop" else "and well\n")
    known = {"program.py", "out2.npy", "out3.npy"}
    assert leftovers(tmp_path, *known) == []


COMPILES = """
    import warnings
    import numpy as np
    import weft as wf

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with wf.config(interpret_below=0):
            try:
                print((wf.asarray(np.arange(5.0)) * 2).sum().numpy())
                print((wf.asarray(np.arange(6.0)) * 3).max().numpy())
            except wf.WeftError as error:
                print(type(error).__name__, isinstance(error, RuntimeError), error)
    print(len(caught), *(warning.message for warning in caught))
"""


def environment(tmp_path: Path, **changes: str) -> dict[str, str]:
    return {**os.environ, "WEFT_CACHE_DIR": str(tmp_path / "cache"), **changes}


def compiler(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_kernel_that_fails_to_compile(tmp_path: Path) -> None:
    text = 'case "$*" in *probe.c*|*--version*) exec gcc "$@";; esac; echo "bad code" >&2; exit 1'
    cc = compiler(tmp_path, text)
    done = finished(script(tmp_path, COMPILES), env=environment(tmp_path, CC=str(cc)))
    assert done.returncode == 0, done.stderr
    assert "CompileError True" in done.stdout, done.stdout
    assert "bad code" in done.stdout
    assert str(cc) in done.stdout


def test_no_compiler(tmp_path: Path) -> None:
    """The interpreter runs the program, and one warning says how to get speed."""
    found = environment(tmp_path, PATH=str(tmp_path), CC="")
    done = finished(script(tmp_path, COMPILES), env=found)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["20.0", "15.0"]
    assert done.stdout.splitlines()[2].startswith("1 ")
    assert "compiler" in done.stdout


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "cache"
    blocked.write_text("a file where the folder should be")
    done = finished(script(tmp_path, COMPILES), env=environment(tmp_path))
    assert done.stdout.splitlines()[:2] == ["20.0", "15.0"] or "Error" in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr
