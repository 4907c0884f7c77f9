"""Libraries that `weft build` made: compiled code that needs neither a compiler nor the cache.

Such a library holds what many C texts were compiled to, each with an entry of its own, and an
index: a JSON text, under the symbol `weft_index`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from weft.errors import CompileError, SinkError, warn
from weft.records import dataclass
from weft.runtime.cache import key_of
from weft.runtime.toolchain import Compiler, cpu_features, find_compiler

_INDEX = "weft_index"


@dataclass(frozen=True, slots=True)
class Entry:
    """A text's compiled form: a loaded library, and what its entry is called in it."""

    library: ctypes.CDLL
    name: str


@dataclass(slots=True)
class Stored:
    """What the cache of programs would hold, collected while programs are compiled."""

    found: dict[str, str] = field(default_factory=dict)


_entries: dict[str, Entry] = {}
_stored: dict[str, str] = {}
_collecting: Stored | None = None


# ---------------------------------------------------------------- looking up


def any_built() -> bool:
    """Whether this process has libraries that were built."""
    return bool(_entries)


def entry_of(source: str) -> Entry | None:
    """The compiled form of a C text, if a library has it."""
    return _entries.get(_digest(source)) if _entries else None


def stored(parts: Sequence[str]) -> str | None:
    """The JSON that was stored for a program under these parts of a key."""
    return _stored.get(key_of(*parts)) if _stored else None


def store(parts: Sequence[str], text: str) -> None:
    """Note what the cache of programs is given, if that is being collected."""
    if _collecting is not None:
        _collecting.found[key_of(*parts)] = text


@contextmanager
def collecting() -> Iterator[Stored]:
    """Collect what programs that are compiled meanwhile are made into."""
    global _collecting
    outer, _collecting = _collecting, Stored()
    try:
        yield _collecting
    finally:
        _collecting = outer


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def library_of(module: Path) -> Path:
    """Where the library of a module is; Python would import "name.so" in place of "name.py"."""
    return module.with_name(f"lib{module.stem}.so")


def register(module: str, version: str) -> None:
    """Take in the library beside a module that `weft build` wrote.

    Where it was made for another processor, by another Weft, or is gone, a warning says so,
    and functions are compiled when they are called.

    Parameters
    ----------
    module : str
        The module's file.
    version : str
        Of this Weft's own files, as `weft build` had it.
    """
    path = library_of(Path(module))
    try:
        library = ctypes.CDLL(str(path.absolute()))
        address = ctypes.addressof(ctypes.c_char.in_dll(library, _INDEX))
        index = json.loads(ctypes.string_at(address))
    except (OSError, ValueError) as error:
        _warn(module, f"{path} cannot be loaded ({error})")
        return
    if index["processor"] != key_of(cpu_features()):
        _warn(module, "its library was made for another processor")
        return
    if index["version"] != version:
        _warn(module, "its library was made by another version of Weft")
        return
    for digest, name in index["entries"].items():
        _entries[digest] = Entry(library, name)
    _stored.update(index["stored"])


def _warn(module: str, reason: str) -> None:
    warn(
        f"{module}: {reason}: its functions are compiled when they are called; run `weft build` "
        "again"
    )


# ---------------------------------------------------------------- making


def make_library(
    path: Path, sources: Mapping[str, str], pool: str, stored: Mapping[str, str], version: str
) -> None:
    """Compile texts into one shared library with an index.

    Parameters
    ----------
    path : Path
        Of the library.
    sources : mapping of str to str
        C texts, each with the name of its entry.
    pool : str
        The text of the thread pool, whose functions keep their names.
    stored : mapping of str to str
        What `collecting` collected.
    version : str
        As `register` is to find it.

    Raises
    ------
    CompileError
    """
    from tempfile import TemporaryDirectory

    compiler = find_compiler()
    if compiler is None:
        raise CompileError(
            "no C compiler was found", "gcc, clang or cc on the PATH, or $CC",
            "`weft build` needs one; what it builds does not",
        )  # fmt: skip
    entries = {_digest(text): f"{name}_{k}" for k, (text, name) in enumerate(sources.items())}
    index = {
        "version": version, "processor": key_of(cpu_features()),
        "entries": {**entries, _digest(pool): ""}, "stored": dict(stored),
    }  # fmt: skip
    with TemporaryDirectory(prefix="weft-build-") as directory:
        texts: list[tuple[str, list[str]]] = [(pool, [])]
        texts += [
            (text, [f"-D{name}={entries[_digest(text)]}"]) for text, name in sources.items()
        ]
        texts.append((f"const char {_INDEX}[] = {json.dumps(json.dumps(index))};\n", []))
        objects = [
            _compile(compiler, Path(directory) / f"{k}.c", text, options)
            for k, (text, options) in enumerate(texts)
        ]
        made = Path(directory) / "made.so"
        _run([*compiler.command, "-shared", *objects, "-o", str(made), *compiler.libraries])
        replace_file(path, made.read_bytes())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that appears whole.

    Raises
    ------
    SinkError
        When it cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        try:
            part.write_bytes(content)
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SinkError(
            f"cannot write {path}: {error.strerror}", "a writable place with enough room"
        ) from error


def _compile(compiler: Compiler, path: Path, text: str, options: Sequence[str]) -> str:
    path.write_text(text)
    flags = [flag for flag in compiler.flags if flag != "-shared"]
    made = str(path.with_suffix(".o"))
    _run([*compiler.command, *flags, *options, "-c", str(path), "-o", made])
    return made


def _run(command: Sequence[str]) -> None:
    import subprocess

    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if result.returncode:
        messages = "\n    ".join(result.stderr.splitlines()[:5])
        raise CompileError(f"the C compiler {command[0]} failed:\n    {messages}")
