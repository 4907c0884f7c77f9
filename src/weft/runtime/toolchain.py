"""From C text to a loaded shared library: compilers, their flags, the cache."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import CompileError
from weft.records import dataclass
from weft.runtime import ahead
from weft.runtime.ahead import kill, launch
from weft.runtime.cache import Cache, go_elsewhere, key_of, open_cache
from weft.runtime.units import units

if TYPE_CHECKING:
    import subprocess

# What only compiling needs is imported there: most processes find all that they run in the cache.
_FULL = "-O3"
# Loops that are marked so become vectors at any level: see `weft.runtime.tiers`. What is left out
# takes a tenth of gcc's time, and gives vector loops nothing.
_QUICK = (
    "-O1", "-fno-ivopts", "-fira-region=one", "-fno-dse", "-fno-dce", "-fno-tree-bit-ccp",
    "-fno-gcse-lm", "-fno-cprop-registers", "-fno-move-loop-invariants", "-fno-compare-elim",
    "-fno-forward-propagate", "-fno-if-conversion", "-fno-if-conversion2", "-fno-shrink-wrap",
    "-fno-combine-stack-adjustments", "-fno-tree-pta", "-fno-tree-sink", "-fno-tree-scev-cprop",
    "-fno-ipa-pure-const", "-fno-ipa-reference", "-fno-ipa-profile", "-nostartfiles",
    "-nodefaultlibs",
)  # fmt: skip
_QUICK_LIBRARIES = ("-lgcc",)  # what is left out besides takes the linker 8 of 20 ms to look at
_COMMON = (
    "-std=gnu11", _FULL, "-march=native", "-fopenmp-simd", "-fwrapv", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=off", "-fPIC", "-shared", "-w",
)  # fmt: skip

_NOT_OPTIMISED = "#define weft_optimised 0\n"
"""Leaves out of a text what is there for speed alone: see `weft.imp.nodes.Optimised`."""

_LOWEST = 19
"""The priority of a process that takes what others leave."""

_PROBE = "int probe(void) { return 0; }"
_VECTOR_PROBE = """
typedef double pair __attribute__((vector_size(16)));
pair _ZGVbN2v_exp(pair);
void probe(pair *x) { *x = _ZGVbN2v_exp(*x); }
"""


class Effort(Enum):
    """How much a compiler is to do: for a brief call, for any call, and for many calls."""

    LEAST = "least"
    LESS = "less"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler and how it is called.

    Attributes
    ----------
    command : tuple of str
        The program and what always follows it.
    identity : str
        Changes when the program does: its real path, time and size.
    flags, libraries : tuple of str
        Before and after the source.
    vector_math : bool
        Whether calls to math functions in loops become calls to libmvec.
    is_gcc : bool
        Whether it makes vectors of loops that are to be, however little it optimises.
    before : str
        What every text begins with.
    """

    command: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    vector_math: bool
    is_gcc: bool = False
    before: str = ""

    def describe(self) -> str:
        return " ".join(self.command) + (" with libmvec" if self.vector_math else "")


@functools.lru_cache(maxsize=8)
def _find(chosen: str, path: str) -> Compiler | None:
    for command in _candidates(chosen):
        program = shutil.which(command[0], path=path or None)
        if program is None:
            continue
        compiler = _describe((program, *command[1:]))
        if compiler is not None:
            return compiler
    return None


def find_compiler() -> Compiler | None:
    """`$CC`, gcc, clang, cc or the `ziglang` wheel: the first that works, else None."""
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", ""))


def _candidates(chosen: str) -> Iterator[tuple[str, ...]]:
    if chosen.strip():
        import shlex

        yield tuple(shlex.split(chosen))
    yield from (("gcc",), ("clang",), ("cc",))
    if find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")


def _identity(command: tuple[str, ...]) -> str:
    """What tells one compiler from another without running it."""
    program = command[0]
    if command[1:3] == ("-m", "ziglang"):
        specification = find_spec("ziglang")
        if specification is not None and specification.origin:
            program = specification.origin
    real = os.path.realpath(program)
    status = os.stat(real)
    return f"{' '.join(command)} {real} {status.st_mtime_ns} {status.st_size}"


def _describe(command: tuple[str, ...]) -> Compiler | None:
    """Flags that the compiler takes, found by trying once and then read from the cache."""
    try:
        identity = _identity(command)
    except OSError:
        return None
    cache = open_cache()
    key = key_of("compiler 7", identity, cpu_features())
    stored = cache.load(key, ".txt")
    if stored is None:
        found = _probe(command)
        stored = "\n".join(found).encode()
        if found[0] == "works":  # a compiler that fails may be mended without changing
            with suppress(OSError):  # a full disk costs time, not results
                cache.save(key, ".txt", stored)
    state, flags, libraries, vector_math, kind = stored.decode().split("\n")
    if state != "works":
        return None
    return Compiler(
        command, identity, tuple(flags.split()), tuple(libraries.split()), vector_math == "yes",
        kind == "gcc",
    )  # fmt: skip


def _probe(command: tuple[str, ...]) -> tuple[str, str, str, str, str]:
    """(works or broken, flags, libraries, whether there is vector math, gcc or clang)."""
    import subprocess

    try:
        version = subprocess.run([*command, "--version"], capture_output=True, check=False).stdout
    except OSError:
        return "broken", "", "", "no", ""
    common = " ".join(_COMMON)
    x86 = platform.machine() in ("x86_64", "AMD64")
    clang = b"clang" in version or b"zig" in version
    kind = "clang" if clang else "gcc"
    if not clang:
        # Jumps past comparisons that an earlier one decides make of `clip` in a vector loop, where
        # there are no jumps, a mask for each way through: nine instructions, and not four.
        common += " -fno-thread-jumps"
    # What asks for no number of lanes takes a whole register (`weft.lower.vector_lanes`): compilers
    # would take half of one on some of the processors that have AVX-512.
    vector = common + " -mprefer-vector-width=512" + (" -fveclib=libmvec" if clang else "")
    tuned = vector + _tuned(command) if x86 and not clang else vector
    for flags in dict.fromkeys((tuned, vector) if x86 else ()):
        if _tries(command, flags, "-lmvec -lm", _VECTOR_PROBE):
            return "works", flags, "-lmvec -lm", "yes", kind
    for flags in (common, common.replace(" -march=native", "")):
        if _tries(command, flags, "-lm", _PROBE):
            return "works", flags, "-lm", "no", kind
    return "broken", "", "", "no", ""


def _tuned(command: tuple[str, ...]) -> str:
    """What else a gcc is told that does not know the processor, and tunes for none.

    It would gather nothing then: ends of rows would not go through the vector functions that the
    interior goes through, and would have other bits.
    """
    import subprocess

    asked = [*command, "-march=native", "-Q", "--help=target"]
    told = subprocess.run(asked, capture_output=True, check=False).stdout
    if not re.search(rb"-mtune=\s+generic", told):
        return ""
    enabled = re.search(rb"-mavx512f\s+\[enabled\]", told)
    return f" -mtune={'sapphirerapids' if enabled else 'haswell'}"


def _tries(command: tuple[str, ...], flags: str, libraries: str, source: str) -> bool:
    """Whether the text compiles and links, with nothing left undefined."""
    import subprocess
    from tempfile import TemporaryDirectory

    complete = ["-Wl,-z,defs"] if sys.platform == "linux" else []
    with TemporaryDirectory(prefix="weft-") as directory:
        path = os.path.join(directory, "probe.c")
        Path(path).write_text(source)
        library = os.path.join(directory, "probe.so")
        result = subprocess.run(
            [*command, *flags.split(), *complete, path, "-o", library, *libraries.split()],
            capture_output=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return result.returncode == 0 and os.path.exists(library)


@functools.cache
def cpu_features() -> str:
    """What `-march=native` depends on."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(16384).decode("ascii", "replace").split("\n\n")[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "cpu family", "model\t", "flags", "Features", "CPU ")
    return "\n".join(line for line in text.splitlines() if line.startswith(wanted))


def first_tier(compiler: Compiler, effort: Effort = Effort.LESS) -> Compiler | None:
    """The compiler as it is quick to compile, if it then still makes vectors of loops."""
    if not compiler.is_gcc or effort is Effort.FULL:
        return None
    flags = tuple(flag for flag in compiler.flags if flag != _FULL)
    libraries = (*compiler.libraries, *_QUICK_LIBRARIES)
    before = _NOT_OPTIMISED if effort is Effort.LEAST else ""
    return replace(compiler, flags=(*flags, *_QUICK), libraries=libraries, before=before)


def _key(source: str, compiler: Compiler) -> str:
    return key_of(
        "library", compiler.before + source, compiler.identity,
        " ".join(compiler.flags + compiler.libraries), cpu_features(),
    )  # fmt: skip


def is_compiled(source: str, compiler: Compiler) -> bool:
    """Whether the cache has what a text is compiled to."""
    return open_cache().path(_key(source, compiler), ".so").exists()


def forget(source: str, compiler: Compiler) -> None:
    """Remove from the cache what a text is compiled to; processes that have it keep it."""
    open_cache().remove(_key(source, compiler), ".so")


def load_library(
    source: str, compiler: Compiler | None = None, idle: bool = False
) -> ctypes.CDLL:
    """The library compiled from C text, from the cache where it is there.

    `idle`: compile with what others leave of the processors; `kill_idle` ends that.

    Raises
    ------
    CompileError
        When there is no compiler, or it refuses the text.
    """
    if compiler is None:
        compiler = find_compiler()
    if compiler is None:
        raise CompileError(
            "no C compiler was found",
            "gcc, clang or cc on the PATH, $CC, or the ziglang package",
            "install gcc, or `pip install weft[cc]`",
        )
    cache = open_cache()
    key = _key(source, compiler)
    path = cache.load_file(key, ".so")
    if path is not None:
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # whole, but not loadable here: made on another system
            cache.remove(key, ".so")
    path = _compile_somewhere(source, compiler, cache, key, idle)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CompileError(
            f"the compiled library cannot be loaded: {error}",
            advice="is the cache directory mounted noexec? Set WEFT_CACHE_DIR to another one",
        ) from None


_idle: set[subprocess.Popen[bytes]] = set()
"""Compilers that nobody waits for."""


def kill_idle() -> None:
    """End the compilers that run with what others leave of the processors."""
    for process in tuple(_idle):
        kill(process)


def _run(commands: list[list[str]], directory: Path, idle: bool) -> list[str]:
    """Run commands side by side, with their files in a directory; what those that failed say."""
    from subprocess import DEVNULL, PIPE

    running: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        for command in commands:
            try:
                process = launch(command, directory, stdin=DEVNULL, stderr=PIPE)
            except OSError as error:
                raise CompileError(
                    f"the C compiler {command[0]} cannot be run: {error.strerror}"
                ) from None
            stack.enter_context(process)
            stack.callback(kill, process)  # where Ctrl-C ends the wait
            if idle:
                _idle.add(process)
                stack.callback(_idle.discard, process)
                with suppress(OSError):  # it may have ended
                    os.setpriority(os.PRIO_PGRP, process.pid, _LOWEST)
            running.append(process)
        said = [process.communicate()[1] for process in running]
    return [
        f"(status {process.returncode}):\n{text.decode(errors='replace')}"
        for process, text in zip(running, said, strict=True)
        if process.returncode
    ]


def _compile_somewhere(
    source: str, compiler: Compiler, cache: Cache, key: str, idle: bool
) -> Path:
    """Compile into the cache; where that cannot be written, into a private directory."""
    try:
        cache.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _compile(source, compiler, cache, key, idle)
    except OSError as error:
        try:
            elsewhere = go_elsewhere(cache, error)
            if elsewhere is not None:
                return _compile(source, compiler, elsewhere, key, idle)
        except OSError:
            pass  # nowhere is any room
        raise CompileError(
            f"the compile cache {cache.directory} cannot be written: {error.strerror}",
            advice="set WEFT_CACHE_DIR to a directory with some space",
        ) from None


def _compile(source: str, compiler: Compiler, cache: Cache, key: str, idle: bool) -> Path:
    parts = units(source, 1 if idle else _processors())
    if len(parts) == 1 and not idle:
        command = (*compiler.command, *compiler.flags)
        made = ahead.compile_ahead(compiler.before + source, command, compiler.libraries)
        if made is not None:
            return cache.save(key, ".so", made)
    directory = cache.workspace()
    library, text = directory / "segment.so", directory / "segment.c"
    try:
        failures = _build(parts, compiler, text, library, idle)
        if not failures and library.exists():
            return cache.save(key, ".so", library.read_bytes())
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if any(os.strerror(errno.ENOSPC) in text for text in failures):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if idle:  # nobody asked for it, and it may have been ended
        raise CompileError(f"the C compiler {compiler.describe()} was ended or failed")
    kept = cache.directory / f"failed-{key[:16]}.c"
    kept.write_text(source)
    status, *lines = "\n".join(failures).splitlines() or ["and made no library:"]
    messages = [line for line in lines if "error" in line.lower()]
    raise CompileError(
        f"the C compiler {compiler.describe()} failed {status}\n    "
        + "\n    ".join(line.replace(str(text), str(kept)) for line in (messages or lines)[:5]),
        "generated C that compiles",
        f"the text is kept in {kept}; please report it",
    )


def _build(
    parts: list[str], compiler: Compiler, text: Path, library: Path, idle: bool
) -> list[str]:
    """Compile the units of a text at the same time and link them; the messages of what failed."""
    parts = [compiler.before + part for part in parts]
    if len(parts) == 1:
        text.write_text(parts[0])
        return _run([[*compiler.command, *compiler.flags, str(text), "-o", str(library),
                      *compiler.libraries]], text.parent, idle)  # fmt: skip
    flags = [flag for flag in compiler.flags if flag != "-shared"]
    commands, objects = [], []
    for number, part in enumerate(parts):
        unit = text.with_stem(f"{text.stem}-{number}")
        unit.write_text(part)
        objects.append(str(unit.with_suffix(".o")))
        commands.append([*compiler.command, *flags, "-c", str(unit), "-o", objects[-1]])
    link = [*compiler.command, *compiler.flags, *objects, "-o", str(library), *compiler.libraries]
    return _run(commands, text.parent, idle) or _run([link], text.parent, idle)


def _processors() -> int:
    """How many compilers may run at the same time."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
