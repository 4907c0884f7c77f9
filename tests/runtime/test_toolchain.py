"""The compile cache and the C compilers."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from runtime import segments

import weft as wf
from weft.errors import CompileError
from weft.runtime import cache as cache_module
from weft.runtime import threads as runtime_threads
from weft.runtime import toolchain
from weft.runtime.cache import Cache, key_of, open_cache
from weft.runtime.devices.cpu import CpuDevice
from weft.runtime.units import units

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


def full(cache: Cache) -> Any:
    """A cache as on a full disk."""
    return mock.patch.object(
        cache, "_unique", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    )


@needs_compiler
def test_directory_on_a_full_disk_is_replaced(directory: Path) -> None:
    refused = open_cache()
    with full(refused):
        with pytest.warns(UserWarning, match="it cannot be written .No space left"):
            assert toolchain.load_library("int f(void) { return 61; }").f() == 61
        elsewhere = open_cache()
        assert elsewhere.directory != directory
        assert cache_module.go_elsewhere(refused, OSError()) is elsewhere  # another thread's
        assert toolchain.load_library("int f(void) { return 62; }").f() == 62
    assert not list(directory.glob("*.so"))
    with (
        full(elsewhere),
        pytest.raises(CompileError, match="cannot be written"),
    ):
        toolchain.load_library("int f(void) { return 63; }")


@needs_compiler
def test_compilers_that_find_a_full_disk(directory: Path) -> None:
    """The text is at no fault."""
    full_once = [[f"(status 1):\nfatal error: {os.strerror(errno.ENOSPC)}"]]
    build = toolchain._build
    with (
        mock.patch.object(
            toolchain, "_build", lambda *given: full_once.pop() if full_once else build(*given)
        ),
        pytest.warns(UserWarning, match="is not used"),
    ):
        assert toolchain.load_library("int f(void) { return 64; }").f() == 64


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
    cache = Cache(tmp_path)
    for age, key in enumerate("dcba"):
        path = cache.save(key, "", bytes(1000))
        os.utime(path, (1e9 - age, 1e9 - age))
    Cache(tmp_path, limit=2500).clean()
    assert [key for key in "abcd" if cache.load(key, "") is not None] == ["c", "d"]


def test_all_files_are_looked_at_once_an_hour_and_for_each_part_of_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes as long as there are files."""
    looks: list[Path] = []
    clean = Cache.clean
    monkeypatch.setattr(Cache, "clean", lambda self: (looks.append(self.directory), clean(self)))

    def looked(*sizes: int) -> int:
        """By a process that stores files of these sizes."""
        looks.clear()
        cache = Cache(tmp_path, limit=16_000)
        for number, size in enumerate(sizes):
            cache.save(str(number), "", bytes(size))
        return len(looks)

    assert looked(10, 10, 10) == 1  # by the first process
    assert looked(10, 10, 10) == 0
    assert looked(10, 600, 600, 10, 900, 200) == 2
    an_hour_ago = time.time() - 4000
    os.utime(tmp_path / ".cleaned", (an_hour_ago, an_hour_ago))
    assert looked(10, 10) == 1
    assert looked(10, 10) == 0


def test_what_passes_the_limit_goes(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=16_000)
    for number in range(100):
        cache.save(str(number), "", bytes(1000))
    assert cache.info().bytes < 18_500


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
    assert not [path for path in directory.iterdir() if path.name.startswith((".new-", ".build-"))]


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


@needs_compiler
@pytest.mark.parametrize(
    ("target", "tuned"),
    [("-mavx512f [enabled]\n-mtune= generic", " -mtune=sapphirerapids"),
     ("-mavx512f [disabled]\n-mtune= generic", " -mtune=haswell"),
     ("-mavx512f [enabled]\n-mtune= znver3", "")],
)  # fmt: skip
def test_a_processor_that_gcc_does_not_know(target: str, tuned: str, tmp_path: Path) -> None:
    found = toolchain.find_compiler()
    assert found is not None
    if not found.is_gcc or not found.vector_math:
        pytest.skip("no gcc with libmvec")
    gcc = tmp_path / "gcc"
    gcc.write_text(
        f"#!/bin/sh\ncase \"$*\" in *--help=target) printf -- '{target}\n';; "
        f"*) exec {' '.join(found.command)} \"$@\";; esac\n"
    )
    gcc.chmod(0o755)
    flags = toolchain._probe((str(gcc),))[1]
    assert "".join(f" {flag}" for flag in flags.split() if "-mtune" in flag) == tuned


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


# ---------------------------------------------------------------- units


def printed(length: int, tiles: int = 4) -> str:
    """A text as segments' are: tiles add to one another's sums what each computes by itself."""
    work = "".join(
        f"    for (int64_t i = 0; i < 5; i++)\n        x = x * 3 + {k};\n" for k in range(length)
    )
    functions = "".join(
        f"struct closure_{k} {{\n    uint64_t *sums;\n}};\n"
        f"static void tile_{k}(void *argument, int64_t tile{k}, int32_t thread) {{\n"
        f"    uint64_t x = shared(tile{k});\n{work}"
        f"    ((const struct closure_{k} *)argument)->sums[{k}] += x;\n}}\n"
        for k in range(tiles)
    )
    calls = "".join(
        f"    {{\n        struct closure_{k} closure = {{sums}};\n"
        f"        void (*run)(void *, int64_t, int32_t) = tile_{k};\n"
        f"        run(&closure, {k}, 0);\n    }}\n"
        for k in range(tiles)
    )
    return (
        "typedef __UINT64_TYPE__ uint64_t;\ntypedef __INT64_TYPE__ int64_t;\n"
        "typedef __INT32_TYPE__ int32_t;\n"
        "static uint64_t shared(uint64_t x) {\n    return 7 * x + 1;\n}\n"
        f"{functions}"
        '__attribute__((visibility("default"))) int32_t weft_entry(uint64_t *sums) {\n'
        f"{calls}    return 0;\n}}\n"
    )


def sums(source: str) -> list[int]:
    found = (ctypes.c_uint64 * 4)()
    assert toolchain.load_library(source).weft_entry(found) == 0
    return list(found)


@needs_compiler
@pytest.mark.parametrize("processors", [1, 2, 3, 64])
def test_units_compute_what_the_whole_text_does(
    directory: Path, monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    monkeypatch.setattr(toolchain, "_processors", lambda: processors)
    expected = []
    for tile in range(4):
        x = 7 * tile + 1
        for k in range(20):
            for _ in range(5):
                x = (3 * x + k) % 2**64
        expected.append(x)
    assert sums(printed(20)) == expected


def test_long_texts_are_as_many_units_as_there_are_processors() -> None:
    source = printed(20)
    assert [len(units(source, most)) for most in (1, 2, 3, 64)] == [1, 2, 3, 5]
    assert sorted(unit.count("uint64_t x = shared") for unit in units(source, 3)) == [1, 1, 2]
    assert sum(unit.count("int32_t weft_entry") for unit in units(source, 3)) == 1


@pytest.mark.parametrize(
    "source",
    [
        printed(1),  # few loops
        printed(50, tiles=1),  # one function is nearly all
        printed(20).replace("static void tile_2", "static int tile_2"),
        "int f(void) { for (;;) for (;;) for (;;) for (;;) for (;;) for (;;) for (;;); }",
    ],
)
def test_other_texts_are_one_unit(source: str) -> None:
    assert units(source, 4) == [source]


@needs_compiler
def test_what_is_printed_for_several_kernels_is_several_units(directory: Path) -> None:
    """Its functions are known by how they are printed."""
    texts = []

    @wf.kernel
    def rounds(a: wf.f64[:], b: wf.f64[:, :], c: wf.f64[:]) -> None:
        for t in range(20):
            a[:] = np.cumsum(a * 0.5 + t)
            c[:] = np.cumsum(b, axis=1)[:, 3] + np.max(a)
            b[:, :] = b * 0.5 + np.sum(a) + c[:, None]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "units", lambda text, most: texts.append(text) or [text])
        rounds(np.ones(100), np.ones((200, 300)), np.ones(300)[:200])
    assert any(len(units(text, 2)) == 2 for text in texts)


@needs_compiler
def test_an_error_in_one_unit_is_shown(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_processors", lambda: 4)
    source = printed(20).replace("sums[2] += x", "sums[2] += undeclared")
    with pytest.raises(CompileError, match="undeclared"):
        toolchain.load_library(source)
    assert not list(directory.glob("*.so"))
    (kept,) = directory.glob("failed-*.c")
    assert kept.read_text() == source


@needs_compiler
def test_segments_are_compiled_side_by_side(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain.load_library(runtime_threads.pool_source())
    compile_ = toolchain._compile
    both = threading.Barrier(2, timeout=60)

    def wait_for_the_other(*arguments: Any) -> Path:
        both.wait()
        return compile_(*arguments)

    monkeypatch.setattr(toolchain, "_compile", wait_for_the_other)
    monkeypatch.setattr(runtime_threads, "threads", lambda: 2)
    device = CpuDevice()
    device.load_together([segments.double(), segments.gather()])
    assert len(list(directory.glob("*.so"))) == 3
    monkeypatch.setattr(toolchain, "_compile", None)  # nothing is compiled again
    assert device.load(segments.double()) is device.load(segments.double())
    device.load(segments.gather())


@needs_compiler
def test_the_pool_is_compiled_beside_the_first_segment(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_ = toolchain._compile
    both = threading.Barrier(2, timeout=60)

    def wait_for_the_other(*arguments: Any) -> Path:
        both.wait()
        return compile_(*arguments)

    monkeypatch.setattr(toolchain, "_compile", wait_for_the_other)
    monkeypatch.setattr(runtime_threads, "_pool", None)
    CpuDevice().load(segments.double())
    assert len(list(directory.glob("*.so"))) == 2
    monkeypatch.setattr(toolchain, "_compile", None)  # nothing is compiled again
    CpuDevice().load(segments.double())


@needs_compiler
def test_a_pool_that_cannot_be_compiled_says_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_threads, "_pool", None)
    monkeypatch.setattr(runtime_threads, "pool_source", lambda: "int f(void) { return absent; }")
    with pytest.raises(CompileError, match="absent"):
        CpuDevice().load(segments.double())


@needs_compiler
def test_what_fails_beside_others_says_so_alone(directory: Path) -> None:
    device = CpuDevice()
    broken = segments.segment("int f(void) { return undeclared; }", 1, ("n",))
    device.load_together([segments.double(), broken])
    device.load(segments.double())
    with pytest.raises(CompileError, match="undeclared"):
        device.load(broken)
