"""Recorded calls whose arguments the pool looks at itself: see `given.c`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.config import settings
from weft.launch.device import host_threads
from weft.launch.direct import Direct, DirectUpdate
from weft.launch.recorded import Recorded
from weft.runtime import blas, profile
from weft.runtime.address import address_of, fields_are_known, items_of
from weft.runtime.threads import pool

NDArray: TypeAlias = npt.NDArray[Any]

_SAME, _REAL, _ARRAY = range(3)
_ONE_OBJECT = range(-5, 257)  # ints of which CPython has one object each


class _Expected(ctypes.Structure):
    """`given.c`'s: what an argument has to be."""

    _fields_ = (
        ("kind", ctypes.c_int64), ("object", ctypes.c_void_p), ("is_single", ctypes.c_int64),
        ("single", ctypes.c_int64), ("word", ctypes.c_int64), ("dtype", ctypes.c_void_p),
        ("rank", ctypes.c_int64), ("bytes", ctypes.c_int64), ("extents", ctypes.c_void_p),
        ("written", ctypes.c_int64),
    )  # fmt: skip


class _Place(ctypes.Structure):
    """`given.c`'s: a word that is an address in an argument."""

    _fields_ = (
        ("word", ctypes.c_int64), ("argument", ctypes.c_int64), ("offset", ctypes.c_int64),
    )  # fmt: skip


class _Factor(ctypes.Structure):
    """`given.c`'s: a word that is a factor, as an argument says."""

    _fields_ = ("word", ctypes.c_int64), ("argument", ctypes.c_int64)


class _Arguments(ctypes.Structure):
    """`given.c`'s: all arguments."""

    _fields_ = (
        ("like", ctypes.c_void_p), ("count", ctypes.c_int64),
        ("places", ctypes.c_void_p), ("place_count", ctypes.c_int64),
        ("factors", ctypes.c_void_p), ("factor_count", ctypes.c_int64),
        ("threads", ctypes.c_void_p), ("most", ctypes.c_int64), ("memory", ctypes.c_void_p),
    )  # fmt: skip


class _CannotBeRepeatedError(Exception):
    """The pool cannot tell whether the arguments of another call are like these."""


def repeat(
    run: Direct | DirectUpdate, inputs: Sequence[Any], arguments: tuple[Any, ...],
    origins: Mapping[int, int], written: Sequence[int],
) -> Repeated | None:  # fmt: skip
    """A call that has run as one that may be repeated; None where others need to be looked at.

    See `Repeated`.
    """
    recorded = run.recorded
    if isinstance(run, Direct) and run.steps.single is not None:
        recorded = run.record(inputs)
    if recorded is None or (isinstance(run, DirectUpdate) and run.copied):
        return None
    try:
        return Repeated(recorded, inputs, arguments, origins, written)
    except _CannotBeRepeatedError:
        return None


class Repeated:
    """A recorded call, for others of arrays of the same shapes and dtypes, and of the same ints.

    Parameters
    ----------
    recorded : Recorded
    inputs : sequence of ndarray
        What was recorded.
    arguments : tuple
        Of that call: row-major arrays, floats, also NumPy's, ints and truths.
    origins : mapping of int to int
        Which argument an input is, or has been made of; the others stay as they are.
    written : sequence of int
        The arguments that the first results replace.
    """

    def __init__(
        self, recorded: Recorded, inputs: Sequence[NDArray], arguments: tuple[Any, ...],
        origins: Mapping[int, int], written: Sequence[int],
    ) -> None:  # fmt: skip
        in_inputs = (block < len(inputs) for block in recorded.blocks_of_results[len(written) :])
        if not fields_are_known() or any(in_inputs):
            raise _CannotBeRepeatedError
        self._settings = settings()
        self._threads = host_threads(self._settings)
        self._count, self._first = len(arguments), len(written)
        self._shapes: list[ctypes.Array[ctypes.c_int64]] = []
        self._expected = (_Expected * len(arguments))()
        for like, argument in zip(self._expected, arguments, strict=True):
            self._expect(like, argument)
        for number in written:
            self._expected[number].written = 1
        self._stay: list[NDArray] = []  # inputs that no argument changes
        fixed: dict[int, int] = {}
        places: list[tuple[int, int, int]] = []
        self._made: list[tuple[int, int, int]] = []  # a word, a new array, bytes on from there
        for at, block, offset in recorded.places:
            if block >= len(inputs):
                self._made.append((at, block - len(inputs), offset))
            elif block in origins and self._moves(origins[block], inputs[block]):
                places.append((at, origins[block], offset))
            else:
                self._stay.append(inputs[block])
                fixed[at] = address_of(inputs[block]) + offset
        self._places = (_Place * len(places))(*(_Place(*place) for place in places))
        factors = [
            (at, origins[number])
            for at, number in recorded.scalars
            if number in origins and self._moves(origins[number], inputs[number])
        ]
        if len(factors) < len(recorded.scalars):
            raise _CannotBeRepeatedError
        self._factors = (_Factor * len(factors))(*(_Factor(*factor) for factor in factors))
        self._recorded, more = recorded.filled(fixed, len(arguments))
        for number, like in enumerate(self._expected):
            like.word = more + number
        self._dtypes = [getattr(argument, "dtype", None) for argument in arguments]
        self._no_inputs = [None] * len(inputs)
        self._arguments = _Arguments(
            ctypes.addressof(self._expected), len(arguments),
            ctypes.addressof(self._places), len(places),
            ctypes.addressof(self._factors), len(factors),
            None if recorded.threads is None else blas.threads_address(), recorded.threads or 0,
            id(type(ctypes.c_char * 1)),
        )  # fmt: skip
        self._known = ctypes.addressof(self._arguments)
        self._call = pool().call_given

    def _expect(self, like: _Expected, argument: Any) -> None:
        kind = type(argument)
        if kind is np.ndarray and argument.flags.carray:
            self._shapes.append((ctypes.c_int64 * argument.ndim)(*argument.shape))
            like.kind, like.object, like.dtype = _ARRAY, id(kind), id(argument.dtype)
            like.rank, like.bytes = argument.ndim, argument.nbytes
            like.extents = ctypes.addressof(self._shapes[-1])
        elif kind in (float, np.float64, np.float32):
            like.kind, like.object, like.single = _REAL, id(kind), -1
            like.is_single = kind is np.float32
        elif kind is bool or (kind is int and argument in _ONE_OBJECT):
            like.kind, like.object = _SAME, id(argument)
        else:
            raise _CannotBeRepeatedError

    def _moves(self, number: int, array: NDArray) -> bool:
        """Whether an input is another one in another call, as an argument says."""
        like = self._expected[number]
        if like.kind == _REAL:
            single = int(array.dtype == np.float32)
            if array.dtype not in (np.float32, np.float64) or like.single not in (-1, single):
                raise _CannotBeRepeatedError
            like.single = single
        return bool(like.kind != _SAME)

    def call(self, arguments: tuple[Any, ...]) -> list[NDArray] | None:
        """The results that replace no argument; None where the call is of another kind."""
        if profile.recorder is not None or len(arguments) != self._count:
            return None
        current = settings()
        if current is not self._settings and current != self._settings:
            return None
        if host_threads(current) != self._threads:
            return None
        recorded = self._recorded
        made = recorded.made()
        words = recorded.words()
        for at, number, offset in self._made:
            words[at] = address_of(made[number]) + offset
        if not recorded.run(words, made, self._call, self._known, items_of(arguments)):
            return None
        return recorded.results(self._no_inputs, made, self._first)
