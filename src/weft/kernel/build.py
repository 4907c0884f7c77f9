"""`weft build`: the kernels of a module, compiled ahead of time."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import itertools
import math
import os
import sys
import tokenize
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from importlib import resources
from importlib.machinery import SourceFileLoader
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from weft.errors import ArgumentError, Place, SinkError, SourceError
from weft.jit.variants import Variant
from weft.kernel.annotations import ArrayType, ParameterType
from weft.kernel.function import KernelFunction
from weft.kernel.most_general import partitions
from weft.kernel.outputs import Outputs
from weft.launch.artifacts import SegmentPiece
from weft.plan.segment import Segment
from weft.runtime import built
from weft.runtime.threads import pool_source

_EXTENTS = {0: 64, 1: 64, 2: 64, 3: 24}  # of the arrays that a kernel is traced with, by rank
_NUMBERS = (3, 1 << 6, 1 << 10)  # of its integers: the first that it can be traced with
_MOST, _MOST_GENERAL = 12, 32  # programs that are compiled of one kernel
_FOOTER = '''

# ---- written by `weft build`: the compiled kernels are in the library beside this file
from weft.kernel.build import use as _use_what_was_built  # noqa: E402

_use_what_was_built(__file__)
'''


def build(path: str, output: str | None = None) -> tuple[Path, Path, list[str]]:
    """Compile a module's kernels to a shared library, with a module that takes its place.

    Each kernel is compiled as calls make it, of arrays of two or more elements along each
    dimension that share no memory; and for all other calls most generally: for any length, and
    for arguments that are written and are one array. What lies otherwise than row-major is copied
    where there is no compiler. Calls that need another program even so do what those of the
    module itself do: they compile, or where they cannot, interpret.

    Parameters
    ----------
    path : str
        A Python file.
    output : str, optional
        The module to write: by default "name_built.py" beside "name.py". The library,
        "libname_built.so", goes beside it.

    Returns
    -------
    module, library : Path
    names : list of str
        The kernels.

    Raises
    ------
    ArgumentError
        For a module without kernels, and for a kernel with a parameter that has no type.
    SourceError
        When there is no such file, or it is no Python.
    SinkError
        When the output can be no file. Whatever fails, nothing is written.
    CompileError
        When there is no compiler.
    """
    source = Path(path)
    if not source.is_file():
        raise SourceError(f"{path} does not exist", "a Python file")
    target = Path(output) if output else source.with_name(f"{source.stem}_built.py")
    if target.exists() and target.samefile(source):
        raise ArgumentError(f"{target} as the output, which is the input", "another file")
    require_writable(target)
    kernels = kernels_of(load_module(source))
    if not kernels:
        raise ArgumentError(
            f"{path} has no kernels", "functions under @weft.kernel, with annotated parameters"
        )
    with tokenize.open(source) as file:  # in the encoding that it names, which it goes on to name
        text, encoding = file.read(), file.encoding
    sources: dict[str, str] = {}
    with built.collecting() as collected:
        for kernel in kernels:
            for segment in segments_of(kernel):
                sources[segment.source] = segment.entry
    library = built.library_of(target)
    built.make_library(library, sources, pool_source(), collected.found, version())
    built.replace_file(target, (text + _FOOTER).encode(encoding))
    return target, library, [kernel.function.__qualname__ for kernel in kernels]


def use(file: str) -> None:
    """Let the kernels of a module that `build` wrote find their library."""
    built.register(file, version())


def version() -> str:
    """What tells this Weft's compiler from others: a digest of its files."""
    digest = hashlib.sha256()
    package = Path(str(resources.files("weft")))
    for path in sorted(package.rglob("*.[pc]*")):
        if path.suffix in (".py", ".c"):
            digest.update(f"{path.relative_to(package)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def require_writable(path: Path) -> None:
    """Refuse what can be no file, before there is work done for it.

    Raises
    ------
    SinkError
        When it is a folder, or in none that can be written to.
    """
    if path.is_dir():
        raise SinkError(f"{path} is a folder", "a file to write")
    if not path.parent.is_dir():
        raise SinkError(f"the folder {path.parent} does not exist", "a file in one that does")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SinkError(f"{path} cannot be written", "a file in a folder that you may write to")


def load_module(path: Path) -> ModuleType:
    """The module of a file, whose functions may import what lies beside it.

    Raises
    ------
    SourceError
        When the file is no Python.
    """
    name = path.stem
    while name in sys.modules:  # "random.py" does not take the place of Python's
        name = f"_{name}"
    loader = SourceFileLoader(name, str(path))  # whatever the file's name ends in
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[name] = module  # where dataclasses look up what annotations name
    try:
        loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise _no_python(path, error) from None
        raise
    finally:
        sys.path.pop(0)
    return module


def _no_python(path: Path, error: SyntaxError) -> SourceError:
    """What is wrong in which line: of the file, or of one that it imports."""
    place = None
    if error.lineno is not None:
        place = Place(error.filename or str(path), error.lineno, column=error.offset or 0)
    return SourceError(f"{path} is no Python: {error.msg}", "a Python file", place=place)


def kernels_of(module: ModuleType) -> list[KernelFunction]:
    """The kernels that a module defines, each of which has types for all parameters.

    Raises
    ------
    ArgumentError
        For a parameter without one.
    """
    found = [
        value for value in vars(module).values()
        if isinstance(value, KernelFunction) and value.function.__module__ == module.__name__
    ]  # fmt: skip
    for kernel in found:
        for name in kernel.signature.parameters:
            if name not in kernel.parameter_types:
                raise ArgumentError(
                    f"parameter {name} of {kernel.function.__name__} has no type of Weft's",
                    "a type for each parameter: ahead of time there are no arguments to take it "
                    "from",
                    f"{name}: weft.f64[:] or {name}: weft.i64, or a signature: "
                    "@weft.kernel('f64[:], i64 -> None')",
                    place=kernel.parameter_place(name),
                )  # fmt: skip
    return found


def segments_of(kernel: KernelFunction) -> Iterator[Segment]:
    """What a kernel compiles to, for all that a launch may decide."""
    for variant in variants_of(kernel):
        for artifact in variant.computation.every_artifact():
            for piece in artifact.pieces:
                if isinstance(piece, SegmentPiece):
                    yield piece.segment
                    if piece.segment.better is not None:
                        yield piece.segment.better.segment


def variants_of(kernel: KernelFunction) -> Iterator[Variant]:
    """A kernel's programs.

    For each truth of its booleans, and for integers of 0 and 1, which are constants of
    programs, as far as these are few; then the most general ones.
    """
    first = None
    for fixed in _choices(kernel, (None, 0, 1)):
        try:
            variant = variant_of(kernel, fixed)
        except Exception:  # the kernel's own too
            if first is None:
                raise
            continue  # a kernel need not make sense for 0 and 1
        first = first or variant
        yield variant
    assert first is not None
    names = list(kernel.signature.parameters)
    types = [kernel.parameter_types[name] for name in names]
    kinds = [type_ if isinstance(type_, ArrayType) else None for type_ in types]
    ways = partitions(kinds, set(Outputs.of(first).written))
    axes = range(max((type_.rank for type_ in types if isinstance(type_, ArrayType)), default=0))
    general = itertools.product(
        [short for number in range(len(axes) + 1) for short in combinations(axes, number)],
        ways, _choices(kernel, (None, -_NUMBERS[0])),
    )  # fmt: skip
    for short, same, fixed in itertools.islice(general, _MOST_GENERAL):
        one = {name: names[first] for name, first in zip(names, same, strict=True)}
        with suppress(Exception):
            yield variant_of(kernel, fixed, one, short)


def _choices(kernel: KernelFunction, integers: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Values of a kernel's booleans and integers for which there are programs, if they are few."""
    values: dict[str, tuple[Any, ...]] = {
        name: (False, True) if type_.dtype.kind == "b" else integers
        for name, type_ in kernel.parameter_types.items()
        if not isinstance(type_, ArrayType) and (type_.dtype.kind == "b" or type_.dtype.is_integer)
    }
    if math.prod(map(len, values.values())) > _MOST:
        values = {name: found for name, found in values.items() if None not in found}
    chosen = itertools.islice(itertools.product(*values.values()), _MOST)
    return [dict(zip(values, each, strict=True)) for each in chosen]


def variant_of(
    kernel: KernelFunction, fixed: Mapping[str, Any], one: Mapping[str, str] | None = None,
    short: Collection[int] = (),
) -> Variant:  # fmt: skip
    """A kernel's program for arguments with which it can be traced.

    Parameters
    ----------
    kernel : KernelFunction
    fixed : mapping of str to object
        Some of the arguments; None of those that may be anything.
    one : mapping of str to str, optional
        For each argument the first that is the same array: gives the most general program.
    short : collection of int
        The dimensions along which arrays have one element.

    Raises
    ------
    Exception
        That which the first of them met, Weft's or the kernel's own, if there are none.
    """
    first: Exception | None = None
    for number, factor in itertools.product(_NUMBERS, (1, 4)):
        given = {
            name: example(kernel.parameter_types[name], number, factor, short)
            for name in kernel.signature.parameters
        }
        given |= {name: value for name, value in fixed.items() if value is not None}
        if one is not None:
            given = {name: given[first] for name, first in one.items()}
        bound = inspect.BoundArguments(kernel.signature, OrderedDict(given))
        try:
            leaves, structure = kernel._arguments(bound.args, bound.kwargs)
            make = kernel.variant if one is None else kernel.most_general
            return make(leaves, structure)[0]
        except Exception as error:
            first = first or error
    assert first is not None
    raise first


def example(type_: ParameterType, number: int, factor: int, short: Collection[int] = ()) -> Any:
    """An argument of a type."""
    if isinstance(type_, ArrayType):
        extent = _EXTENTS.get(type_.rank, 8) * (factor if type_.rank < 3 else 1)
        shape = [1 if axis in short else extent for axis in range(type_.rank)]
        return np.zeros(shape, type_.dtype.numpy)
    return number if type_.dtype.is_integer else 1.5
