"""What the `weft` command can do. (Imported only where click is installed.)"""

from __future__ import annotations

import inspect
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from weft.errors import ArgumentError, SourceError, WeftError


class Group(click.Group):
    """Commands whose errors are messages, not tracebacks."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except WeftError as error:
            raise click.ClickException(str(_without_own_place(error))) from error


def _without_own_place(error: WeftError) -> WeftError:
    """An error that is due to what was typed, which no line of the user's code is."""
    own = os.path.dirname(click.__file__), os.path.dirname(__file__)
    if error.place is None or not error.place.file.startswith(own):
        return error
    return type(error)(error.found, error.expected, error.advice)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="weft")
def weft() -> None:
    """NumPy-style array programs, compiled, on data of any size."""


@weft.command()
def devices() -> None:
    """List the devices that programs can run on, and the compiler."""
    import weft as wf
    from weft.runtime.devices.cpu import cores_of, parts
    from weft.runtime.devices.others import others
    from weft.runtime.memory import default_limit, format_bytes
    from weft.runtime.threads import threads
    from weft.runtime.toolchain import find_compiler

    click.echo(wf.devices()[0])
    compiler = find_compiler()
    found = "none: programs are interpreted" if compiler is None else compiler.describe()
    click.echo(f"  compiler       {found}")
    click.echo(f"  threads        {threads()}")
    click.echo(f"  memory limit   {format_bytes(default_limit())} by default")
    for name in parts():
        click.echo(f"{name}: core {cores_of(name)[0]} alone")
    for found_device in others():
        click.echo(found_device.describe())


@weft.command()
@click.argument("program")
@click.argument("inputs", nargs=-1)
@click.option("--memory", default=None, help='The limit, such as "256 MiB".')
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page instead.")
def explain(program: str, inputs: tuple[str, ...], memory: str | None, html: str | None) -> None:
    """Show how FILE.PY:FUNCTION would run on some files. Nothing runs.

    \b
    For instance: weft explain analysis.py:slope elevation.npy
    Parts of a zarr or HDF5 file: measurements.h5::group/name
    """
    import weft as wf
    from weft.kernel.build import require_writable

    if html is not None:
        require_writable(Path(html))
    function = _load_function(program)
    _require_inputs(function, program, len(inputs))
    arrays = [_input(function, name) for name in inputs]
    settings = {} if memory is None else {"memory_limit": memory}
    with wf.config(**settings):
        explanation = wf.explain(function, *arrays)
    if html is None:
        click.echo(str(explanation))
    else:
        from weft.io.publish import unwritable

        try:
            Path(html).write_text(explanation.html(), encoding="utf-8")
        except OSError as error:
            raise unwritable(html, error) from error


def _require_inputs(function: Callable[..., Any], program: str, count: int) -> None:
    """Refuse more or fewer inputs than a function takes."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C do not tell
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        inputs = "1 input" if count == 1 else f"{count} inputs"
        raise ArgumentError(
            f"{inputs} for {program}: {error}", str(signature), "a file for each parameter"
        ) from None


def _input(function: Callable[..., Any], name: str) -> Any:
    """The data of an input, as a function takes them: kernels take arrays in memory."""
    import numpy as np

    import weft as wf
    from weft.kernel.function import KernelFunction

    found = wf.open(name)
    if not isinstance(function, KernelFunction):
        return found
    if name.endswith(".npy") and os.path.isfile(name):
        return np.load(name, mmap_mode="r")
    # Nothing runs, so nothing is read: what nobody touches takes no memory either.
    return np.empty(found.shape, found.dtype) if found.ndim else found.numpy()


def _load_function(program: str) -> Callable[..., Any]:
    """The function that `file.py:name` names."""
    file, colon, name = program.rpartition(":")
    if not colon:
        raise ArgumentError(f"{program!r}", "FILE.PY:FUNCTION", "name the function too")
    if not os.path.isfile(file):
        raise SourceError(f"{file} does not exist", "a Python file")
    from weft.kernel.build import load_module

    module = load_module(Path(file))
    function = getattr(module, name, None)
    if not callable(function):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise ArgumentError(
            f"{file} has no function {name!r}", "one of " + (", ".join(names) or "none")
        )
    return function  # type: ignore[no-any-return]


@weft.command()
@click.argument("module", type=click.Path(dir_okay=False))
@click.option("--output", "-o", default=None, help="The module to write: NAME_built.py.")
def build(module: str, output: str | None) -> None:
    """Compile the kernels of a module ahead of time.

    \b
    Writes a shared library, and a module that does what the given one does but needs no
    compiler: every function under @weft.kernel has a type for each of its parameters.
    """
    from weft.kernel.build import build as build_module

    made, library, names = build_module(module, output)
    click.echo(f"{made}, {library}: {', '.join(names)}")


@weft.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Run Weft beside its peers (in a checkout of Weft)."""
    script = Path("bench/run.py")
    if not script.is_file():
        raise ArgumentError("no bench/run.py here", "a checkout of Weft", "clone it and go there")
    raise SystemExit(subprocess.call([sys.executable, str(script), *(arguments or ("all",))]))


@weft.command()
@click.option("--clear", is_flag=True, help="Remove all compiled code.")
def cache(clear: bool) -> None:
    """Show where compiled code is kept, and how much of it; or remove it."""
    from weft.runtime.cache import open_cache
    from weft.runtime.memory import format_bytes

    found = open_cache()
    info = found.clear() if clear else found.info()
    what = "removed " if clear else ""
    click.echo(f"{info.directory}: {what}{info.files} files, {format_bytes(info.bytes)}")


@weft.command()
@click.option("--gib", default=2.0, show_default=True, help="Size of the terrain.")
@click.option(
    "--memory", default="256 MiB", show_default=True, help="Limit of what Weft allocates."
)
@click.option("--out", default="demo-data", show_default=True, help="Where the files go.")
def demo(gib: float, memory: str, out: str) -> None:
    """Analyse a terrain larger than the memory limit, in one streamed pass."""
    from weft.demo.run import demo as run

    if not 0 < gib < math.inf:
        raise ArgumentError(f"--gib {gib}", "a positive number")
    run(gib, memory, out, click.echo, sys.stderr.isatty())
