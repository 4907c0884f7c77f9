"""Opening data, and running computations: to memory, to files, or not at all (`explain`)."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from weft import execute
from weft.array import Array, asarray, source_array
from weft.config import settings
from weft.errors import ArgumentError, ArgumentTypeError, Placing, user_place
from weft.frontend.graph import Node

if TYPE_CHECKING:
    from weft.io.sinks import Mode
    from weft.plan.at_once import AtOnce
    from weft.plan.explain import Explanation
    from weft.plan.nodes import Plan
    from weft.plan.protocols import Sink

Progress: TypeAlias = builtins.bool | Callable[[int, int], None]


def open(
    path_or_paths: Any,
    component: str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Array:
    """A lazy array over a file, several files, or an object that holds an array.

    Parameters
    ----------
    path_or_paths : path, sequence of paths, or object
        `.npy`, zarr, HDF5 or TIFF; a list of files (or a pattern) is a stack along a new
        first axis.
    component : str, optional
        The path of the array inside a zarr group or an HDF5 file.
    storage_options : dict, optional
        For zarr's remote stores.

    Raises
    ------
    SourceError
        What is there cannot be read: missing, truncated, of an unknown format.

    Notes
    -----
    Nothing is read but headers, until a computation runs.
    """
    from weft.io.open import open_source

    with Placing():
        return source_array(open_source(path_or_paths, component, storage_options))


def compute(*arrays: Any) -> Any:
    """Run several computations in one pass over their data.

    Parameters
    ----------
    *arrays : weft.Array
        Other values are given back as they are.

    Returns
    -------
    ndarray, or tuple of ndarray
        One for each argument (rank 0 for scalars); alone where there is one argument.
    """
    places = [k for k, array in enumerate(arrays) if isinstance(array, Array)]
    values = execute.compute([arrays[k]._node for k in places]) if places else []
    results = list(arrays)
    for k, value in zip(places, values, strict=True):
        results[k] = value
    return results[0] if len(results) == 1 else tuple(results)


def store(
    sources: Any,
    targets: Any,
    *,
    regions: Any = None,
    chunks: tuple[int, ...] | None = None,
    mode: Mode = "x",
    resume: builtins.bool = False,
    progress: Progress | None = None,
) -> None:
    """Run computations into files or arrays, under the memory limit, in one pass.

    Parameters
    ----------
    sources : array or sequence of arrays
    targets : path, array or object, or as many of them as there are sources
        A path ending in `.npy`, `.zarr`, `.h5` or `.hdf5` (the last two may be followed by
        ``::component``); a NumPy array or memmap; a zarr or h5py array; any object with
        `shape`, `dtype` and `__setitem__`.
    regions : tuple of slice, or as many of them, optional
        The part of an existing target to write.
    chunks : tuple of int, optional
        Chunk extents of new zarr and HDF5 arrays. By default those of zarr have 4 MiB, or less
        where the memory limit is low.
    mode : {"x", "w", "r+"}
        Fail where a file exists; replace it; write into it.
    resume : bool
        Go on where an interrupted run stopped (chunked targets). Where each box needs what the
        one before it left (running sums, iterated stencils that lean), all boxes run again.
    progress : bool or callable, optional
        True for a bar; or a function of (bytes done, bytes in all), such as
        `weft.progress.tqdm_progress(bar)`. By default as `wf.config(progress=...)` says.

    Raises
    ------
    SinkError, SourceError, MemoryLimitError, ShapeError, DTypeError
        Nothing appears under a target's name unless all of it is there.
    """
    from weft.io.sinks import open_sink
    from weft.progress import progress_bar

    nodes, sinks = _opened(open_sink, sources, targets, regions, chunks, mode, resume)
    with Placing(), ExitStack() as stack:
        wanted = settings().progress if progress is None else progress
        report = stack.enter_context(progress_bar("store")) if wanted is True else wanted or None
        execute.store(nodes, sinks, report)


def _opened(
    opened: Callable[..., Sink], sources: Any, targets: Any, regions: Any,
    chunks: tuple[int, ...] | None, mode: Mode, resume: builtins.bool,
) -> tuple[list[Node], list[Sink]]:  # fmt: skip
    """What `store` is asked to write, and where to; all of it is there, or nothing is open."""
    from weft.plan.setting import chunk_bytes

    one = not isinstance(sources, list | tuple)
    given = [sources] if one else list(sources)
    places = [targets] if one else _matching(targets, len(given), "targets")
    parts = [regions] if one else _matching_regions(regions, len(given))
    for source in given:
        if isinstance(source, str | os.PathLike):
            raise ArgumentTypeError(
                f"{os.fspath(source)!r} as what is stored", "an array, and a path after it",
                "wf.store(array, path); wf.open(path) for an array in a file", place=user_place(),
            )  # fmt: skip
    arrays = [source if isinstance(source, Array) else asarray(source) for source in given]
    extents = _chunks(chunks, [array.ndim for array in arrays])
    current = settings()
    capped = (room for name, room in current.device_limits if name in current.devices)
    most = chunk_bytes(current.limit, capped)
    sinks = []
    try:
        for array, target, region in zip(arrays, places, parts, strict=True):
            shape = tuple(int(n) for n in array.shape)
            own = extents if extents is not None and len(extents) == len(shape) else None
            with Placing():
                sinks.append(opened(
                    target, shape, array.dtype, own, mode, resume, region, chunk_bytes=most
                ))  # fmt: skip
    except BaseException:
        for sink in sinks:
            sink.abort()
        raise
    return [array._node for array in arrays], sinks


def _chunks(chunks: Any, ranks: Sequence[int]) -> tuple[int, ...] | None:
    """Chunk extents, which go to the targets of their rank: there is one."""
    if chunks is None:
        return None
    try:
        extents = tuple(map(index, chunks))
    except TypeError:
        raise ArgumentTypeError(
            f"chunks is {chunks!r}", "a tuple of ints", place=user_place()
        ) from None
    if len(extents) not in ranks:
        wanted = " or ".join(map(str, sorted(set(ranks))))
        raise ArgumentError(
            f"chunks is {chunks!r}: {len(extents)} extents", wanted, place=user_place()
        )
    return extents


def _matching(values: Any, count: int, what: str) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise ArgumentTypeError(
            f"{count} sources and no sequence of {what}",
            f"a sequence of {count} {what}",
            place=user_place(),
        )
    if len(values) != count:
        raise ArgumentError(
            f"{count} sources and {len(values)} {what}", f"{count} {what}", place=user_place()
        )
    return list(values)


def _matching_regions(regions: Any, count: int) -> list[Any]:
    return [None] * count if regions is None else _matching(regions, count, "regions")


def explain(function: Any, *arguments: Any, **named: Any) -> Explanation:
    """How a computation would run: kernels, boxes, bytes moved, the predicted peak, and why.

    Parameters
    ----------
    function : callable or weft.Array
        A function, compiled or not, of the arguments; a kernel; or lazy arrays themselves.
        With `weft.store` and its arguments, how these would be stored: nothing is written.
    *arguments, **named
        As the function takes them; NumPy arrays are taken as lazy ones.

    Returns
    -------
    Explanation
        Printable; `.html()`, `.peak_bytes`, `.bytes_moved`, `.kernels`.
    """
    from weft.plan.explain import Explanation

    if function is store:
        return Explanation(_plan_store(*arguments, **named))
    plan_call = getattr(function, "plan_call", None)  # of what is compiled
    plan = None if plan_call is None else plan_call(*arguments, **named)
    if plan is not None:
        return Explanation(plan)
    if isinstance(function, Array):
        _require_arrays(arguments, named)
        results: Any = (function, *arguments)
    elif callable(function):
        lazy = [asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        keywords = {k: asarray(a) if isinstance(a, np.ndarray) else a for k, a in named.items()}
        results = function(*lazy, **keywords)
    else:
        raise ArgumentTypeError(
            f"explain of a {type(function).__name__}", "a function or a lazy array",
            place=user_place(),
        )  # fmt: skip
    nodes = _nodes(results)
    if not nodes:
        raise ArgumentTypeError(
            "a function that gives no lazy array", "one whose result is a weft.Array",
            place=user_place(),
        )  # fmt: skip
    return Explanation(execute.plan_nodes(nodes))


def _require_arrays(others: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Refuse what is explained beside a lazy array and is none: it would mean nothing."""
    for other in others:
        if not _nodes(other):
            raise ArgumentTypeError(
                f"explain of a lazy array and a {type(other).__name__}", "lazy arrays alone",
                "wf.explain(wf.store, x, target) for what wf.store would do", place=user_place(),
            )  # fmt: skip
    for name in named:
        raise ArgumentTypeError(
            f"explain of a lazy array with {name}=...", "lazy arrays alone",
            "with wf.config(...) for settings", place=user_place(),
        )  # fmt: skip


def _plan_store(
    sources: Any, targets: Any, *, regions: Any = None, chunks: tuple[int, ...] | None = None,
    mode: Mode = "x", resume: builtins.bool = False, progress: Any = None,
) -> Plan | AtOnce:  # fmt: skip
    """The plan that `store` of the same arguments would follow."""
    from weft.io.nowhere import planned_sink

    nodes, sinks = _opened(planned_sink, sources, targets, regions, chunks, mode, resume)
    return execute.plan_nodes(nodes, sinks)


def _nodes(results: Any) -> list[Node]:
    """The lazy arrays in nested containers, in order."""
    if isinstance(results, Array):
        return [results._node]
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, list | tuple):
        return [node for result in results for node in _nodes(result)]
    return []


def devices() -> list[str]:
    """The devices that `wf.config(devices=...)` can name, the default first."""
    from weft.config import device_names

    return device_names()


__all__ = ["compute", "devices", "explain", "open", "store"]

