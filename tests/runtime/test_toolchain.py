"""The compile cache and the C compilers."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from runtime import segments

from weft.errors import CompileError
from weft.runtime import cache as cache_module
from weft.runtime import toolchain
from weft.runtime.cache import Cache, key_of, open_cache
from weft.runtime.devices.cpu import CpuDevice

needs_compiler = pytest.mark.skipif(not CpuDevice.available(), reason="no C compiler")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    chosen = tmp_path / "cache"
    monkeypatch.setenv("WEFT_CACHE_DIR", str(chosen))
    toolchain._find.cache_clear()
    return chosen


# ---------------------------------------------------------------- the directory


def test_directory_is_private(directory: Path) -> None:
    assert open_cache().directory == directory
    assert directory.stat().st_mode & 0o777 == 0o700


def test_xdg_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WEFT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_module.default_directory() == tmp_path / "weft"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_module.default_directory() == tmp_path / "home" / ".cache" / "weft"


def test_directory_that_others_can_write_is_refused(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.warns(UserWarning, match="others may write"):
        used = open_cache().directory
    assert used != directory
    assert used.stat().st_mode & 0o777 == 0o700
    assert open_cache().directory == used


def test_directory_of_another_user_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert open_cache().directory != directory


def test_path_that_is_a_file_is_refused(directory: Path) -> None:
    directory.write_text("")
    with pytest.warns(UserWarning, match="is not used"):
        assert open_cache().directory != directory


# ---------------------------------------------------------------- contents


def test_contents_come_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.load("key", ".txt") is None
    cache.save("key", ".txt", b"contents")
    assert cache.load("key", ".txt") == b"contents"
    cache.save("key", ".txt", b"other")
    assert cache.load("key", ".txt") == b"other"
    assert cache.load("key", ".so") is None
    assert cache.info().files == 1
    assert cache.clear().files == 1
    assert cache.info().bytes == 0


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "extend"])
def test_damaged_contents_do_not(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    path = cache.save("key", ".txt", b"contents" * 100)
    whole = path.read_bytes()
    path.write_bytes({
        "truncate": whole[:100], "flip": b"X" + whole[1:], "empty": b"", "extend": whole + b"X",
    }[damage])  # fmt: skip
    assert cache.load("key", ".txt") is None
    assert not path.exists()


def test_clean_removes_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=2500)
    for age, key in enumerate("dcba"):
        path = cache.save(key, "", bytes(1000))
        os.utime(path, (1e9 - age, 1e9 - age))
    cache.clean()
    assert [key for key in "abcd" if cache.load(key, "") is not None] == ["c", "d"]


def test_keys_keep_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("ab", "c") == key_of(b"ab", b"c")


# ---------------------------------------------------------------- compilers


@needs_compiler
def test_second_load_compiles_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain.load_library("int f(void) { return 41; }")
    toolchain._find.cache_clear()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert toolchain.load_library("int f(void) { return 41; }").f() == 41


@needs_compiler
@pytest.mark.parametrize("damage", ["truncate", "replace", "loadable"])
def test_damaged_library_is_built_again(directory: Path, damage: str) -> None:
    source = f"int f(void) {{ return 5; }} // {damage}"
    toolchain.load_library(source)
    (library,) = directory.glob("*.so")
    # A new file: the old one is mapped by this process.
    contents = library.read_bytes()
    library.unlink()
    if damage == "loadable":  # whole by its checksum, but no library
        open_cache().save(library.stem, ".so", b"not a library")
    else:
        library.write_bytes(contents[:4096] if damage == "truncate" else b"rubbish")
    assert toolchain.load_library(source).f() == 5


def test_no_compiler(directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "find_spec", lambda _: None)
    assert not CpuDevice.available()
    assert "no C compiler" in CpuDevice().describe()
    with pytest.raises(CompileError, match="no C compiler"):
        toolchain.load_library("int f;")
    toolchain._find.cache_clear()


@needs_compiler
def test_a_broken_cc_is_passed_over(
    directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    compiler = toolchain.find_compiler()
    assert compiler is not None
    assert compiler.command[0] != str(broken)
    toolchain._find.cache_clear()


@needs_compiler
def test_cc_may_have_arguments(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = toolchain.find_compiler()
    assert found is not None
    monkeypatch.setenv("CC", f"{found.command[0]} -DANSWER=43")
    assert toolchain.load_library("int f(void) { return ANSWER; }").f() == 43
    toolchain._find.cache_clear()


@needs_compiler
def test_a_compile_error_shows_messages_and_keeps_the_text(directory: Path) -> None:
    with pytest.raises(CompileError) as caught:
        toolchain.load_library("int f(void) { return undeclared; }")
    message = str(caught.value)
    assert "undeclared" in message
    (kept,) = directory.glob("failed-*.c")
    assert str(kept) in message
    assert "return undeclared" in kept.read_text()
    assert not list(directory.glob("*.so"))


@needs_compiler
def test_processes_race_for_one_library(directory: Path) -> None:
    script = (
        "from weft.runtime.toolchain import load_library\n"
        "print([load_library(f'int f(void) {{ return {i}; }}').f() for i in range(5)])"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert outputs == ["[0, 1, 2, 3, 4]\n"] * 6
    assert len(list(directory.glob("*.so"))) == 5
    assert not [path for path in directory.iterdir() if path.name.startswith(".")]


@needs_compiler
def test_vector_math_where_there_is_libmvec(directory: Path) -> None:
    compiler = toolchain.find_compiler()
    assert compiler is not None
    if not compiler.vector_math:
        pytest.skip("no libmvec")
    source = """
    #pragma omp declare simd notinbranch
    __attribute__((const)) double exp(double);
    void f(double *restrict x) {
        #pragma omp simd
        for (int i = 0; i < 1024; i++) x[i] = exp(x[i]);
    }
    """
    toolchain.load_library(source)
    (library,) = directory.glob("*.so")
    assert b"_ZGV" in library.read_bytes()


def test_importing_the_runtime_starts_no_process() -> None:
    script = (
        "import subprocess\n"
        "def refuse(*a, **k): raise AssertionError\n"
        "subprocess.Popen.__init__ = refuse\n"
        "import weft.runtime.devices.cpu, weft.runtime.memory, weft.runtime.profile\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@needs_compiler
def test_a_segment_is_loaded_once() -> None:
    device = CpuDevice()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert device.load(segments.double()) is device.load(segments.double())
