"""A compiler that is started before there is a text for it."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.errors import CompileError
from weft.runtime import ahead, cache, tiers, toolchain
from weft.runtime.ahead import Ahead

compiler = toolchain.find_compiler()
pytestmark = pytest.mark.skipif(
    compiler is None or not compiler.is_gcc, reason="no compiler that reads a pipe"
)
TEXT = "int answer(void) { return 42; }"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, in which nothing is left of a build."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    toolchain._find.cache_clear()
    toolchain.find_compiler()
    before = set(tmp_path.iterdir())
    yield tmp_path
    ahead.end()
    assert not ahead._running
    left = set(tmp_path.iterdir()) - before
    assert all(path.suffix == ".so" for path in left)
    toolchain._find.cache_clear()


def quick() -> toolchain.Compiler:
    assert compiler is not None
    found = toolchain.first_tier(compiler)
    assert found is not None
    return found


def command() -> tuple[str, ...]:
    return (*quick().command, *quick().flags)


def test_it_compiles_what_comes_later() -> None:
    tiers.expect()
    process = next(iter(ahead._running))._process
    time.sleep(0.05)
    assert process.poll() is None
    library = toolchain.load_library(TEXT, quick())
    assert library.answer() == 42
    assert process.returncode == 0
    assert ahead._started is None


def test_one_waits_at_a_time() -> None:
    tiers.expect()
    first = ahead._started
    tiers.expect()
    assert ahead._started is first
    assert len(ahead._running) == 1


def test_other_flags_want_another_compiler() -> None:
    tiers.expect()
    process = next(iter(ahead._running))._process
    assert toolchain.load_library(TEXT, compiler).answer() == 42
    assert process.returncode != 0  # it was ended


def test_what_it_refuses_is_told_as_ever() -> None:
    tiers.expect()
    with pytest.raises(CompileError, match="undeclared") as caught:
        toolchain.load_library("int f(void) { return undeclared; }", quick())
    Path(str(caught.value).split("kept in ")[1].split(";")[0]).unlink()


def test_one_that_has_died_is_replaced() -> None:
    tiers.expect()
    process = next(iter(ahead._running))._process
    ahead.kill(process)
    process.wait()
    assert toolchain.load_library(TEXT, quick()).answer() == 42


def test_no_program_is_no_error() -> None:
    ahead.start(("/nonexistent/compiler",), ())
    assert ahead._started is None
    assert ahead.compile_ahead(TEXT, ("/nonexistent/compiler",), ()) is None


def test_a_text_longer_than_a_pipe(directory: Path) -> None:
    text = TEXT + "\n" + "/* nothing to see */\n" * 20_000
    assert len(text) > 1 << 18
    made = Ahead(command(), quick().libraries).compile(text)
    assert made is not None
    path = directory / "long.so"
    path.write_bytes(made)
    assert ctypes.CDLL(str(path)).answer() == 42


def test_a_forked_process_does_not_hold_the_pipe() -> None:
    """The compiler sees the end of its text though a process that was forked goes on."""
    tiers.expect()
    process = next(iter(ahead._running))._process
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until the parent is done
        os._exit(len(ahead._running))
    os.close(read)
    library = toolchain.load_library(TEXT, quick())
    assert process.returncode == 0
    assert library.answer() == 42
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0


def test_its_files_lie_in_the_cache_while_it_works(directory: Path) -> None:
    tiers.expect()
    (workspace,) = directory.glob(".build-*")
    assert cache.open_cache().directory == directory
    ahead.end()
    assert not workspace.exists()
