"""Settings: for good, or for the length of a `with` block."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import cache
from numbers import Integral
from types import TracebackType
from typing import Any, Literal, TypeAlias

from weft.errors import ArgumentError, ArgumentTypeError, WeftError, user_place
from weft.records import dataclass

ImplicitCompute: TypeAlias = Literal["allow", "warn", "raise"]
Progress: TypeAlias = bool | Callable[[int, int], None]

MOST_SLOTS = 128

_CPU = "cpu"
_OPTIMISATIONS = (
    "contract", "no-short-circuit", "no-merge", "no-time-tiles", "no-reduce-ahead", "no-blas",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What a computation runs under; `config` says what each is."""

    memory_limit: int | None = None
    devices: tuple[str, ...] = (_CPU,)
    device_limits: tuple[tuple[str, int], ...] = ()
    slots: int | None = None
    threads: int | None = None
    progress: Progress = False
    implicit_compute: ImplicitCompute = "allow"
    interpret_below: int = 32 * 1024
    quick_start: bool = True
    optimise: str = ""

    @property
    def limit(self) -> int:
        """The memory limit in bytes; the default one is fixed when it is first needed."""
        limit = _default_limit() if self.memory_limit is None else self.memory_limit
        if self.device_limits and len(self.devices) == 1 and self.devices[0].startswith(_CPU):
            limit = min(limit, dict(self.device_limits).get(self.devices[0], limit))
        return limit


@cache
def _default_limit() -> int:
    from weft.runtime.memory import default_limit

    return default_limit()


_base = Settings()  # what all lasting changes, of which later ones win, come to
_lasting: list[tuple[Callable[[], Any], dict[str, Any]]] = [(lambda: None, {})]
_changing = threading.Lock()
_entered: ContextVar[tuple[config, ...]] = ContextVar("weft_settings", default=())


def settings() -> Settings:
    """The settings in force for the caller."""
    blocks = _entered.get()
    if not blocks:
        return _base
    changes: dict[str, Any] = {}
    for block in blocks:
        changes |= block._changes
    return replace(_base, **changes)


def _settle() -> None:
    """Compute what lasts; changes whose `config` is gone, so that none takes them back, are one."""
    global _base
    together: list[tuple[Callable[[], Any], dict[str, Any]]] = []
    for owner, changes in _lasting:
        if together and owner() is None and together[-1][0]() is None:
            changes = {**together.pop()[1], **changes}
        together.append((owner, changes))
    _lasting[:] = together
    _base = replace(Settings(), **{k: v for _, changes in together for k, v in changes.items()})


class config:  # noqa: N801 - read as a verb: `with wf.config(memory_limit="256 MiB"):`
    """Change settings, for good or for a `with` block.

    Parameters
    ----------
    memory_limit : int, str, mapping or None
        Bytes that Weft may allocate on the host, or text such as "256 MiB", or a mapping from
        device to either (for a part of the CPU: of the host's memory, for the boxes that it
        works on; for all that it does, where it is the only device); None: 60% of the
        available RAM, 80% of a device's memory.
    devices : str or sequence of str
        Where kernels run: names of `weft.devices()`; "cpu:0-3" is four of the cores as one
        device. Boxes are spread over several, and what one has no code for (complex numbers
        on OpenCL, library calls) another does, or the CPU. What is not spread the first does,
        and where it fails or is too small for it, another.
    slots : int or None
        Boxes that are on a device at once, each copied in, computed, and copied out on a queue
        of its own, 1 to 128 (1: nothing overlaps), or fewer where so many do not fit; None: as
        many as is predicted quickest. Of devices with memory of their own: the CPU's boxes are
        read and written where they are, as far ahead as the limit lets them.
    threads : int or None
        Threads of the CPU device; None: the processors the process may use, capped by
        `OMP_NUM_THREADS`.
    progress : bool or callable
        Report progress of streamed computations: True for a bar, or a function of
        (bytes done, bytes in all).
    implicit_compute : {"allow", "warn", "raise"}
        What `bool(x)`, `float(x)` and `np.asarray(x)` do on a lazy array.
    interpret_below : int
        Lazy expressions whose arrays together hold fewer bytes are interpreted at once
        rather than compiled.
    quick_start : bool
        Whether first calls run code that is quick to compile, while the compiler optimises the
        same code for later ones in the background (with gcc; results are the same). Where a call
        is predicted to take long, and where data is streamed, all is optimised at once.
    optimise : str
        Which passes to leave out: words such as "no-short-circuit no-merge no-blas"; "" for
        none. Results are the same; memory and time differ. With "contract", products of real
        floats that are only added or subtracted are rounded once, with the sum (`weft.fma`), as
        C compilers do unless told otherwise: quicker, and other bits than without it, but as
        little dependent on boxes, threads and schedule.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        For a setting that does not exist, or a value that it cannot have.

    Examples
    --------
    >>> with config(threads=1):
    ...     settings().threads
    1
    """

    def __init__(self, **changes: Any) -> None:
        try:
            self._changes: dict[str, Any] = {
                setting: checked
                for name, value in changes.items()
                for setting, checked in _checked_settings(name, value).items()
            }
        except WeftError as error:
            place = user_place()
            raise type(error)(error.found, error.expected, error.advice, place) from None
        with _changing:
            _lasting.append((weakref.ref(self), self._changes))
            _settle()

    def __enter__(self) -> Settings:
        # Entered as a block: take the lasting change back, and override in this context.
        with _changing:
            _lasting[:] = [change for change in _lasting if change[0]() is not self]
            _settle()
        _entered.set((*_entered.get(), self))
        return settings()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        blocks = list(_entered.get())
        if self in blocks:
            del blocks[-1 - blocks[::-1].index(self)]
        _entered.set(tuple(blocks))


@contextmanager
def within(**changes: Any) -> Iterator[Settings]:
    """Other settings, such as `Settings` has, for a block, in this context alone."""
    block = object.__new__(config)
    block._changes = changes
    before = _entered.set((*_entered.get(), block))
    try:
        yield settings()
    finally:
        _entered.reset(before)


def _checked_settings(name: str, value: Any) -> dict[str, Any]:
    """What an argument sets: a limit may be that of several devices."""
    if name != "memory_limit" or not isinstance(value, Mapping):
        return {name: _checked(name, value)}
    known = device_names()
    unknown = [device for device in value if not _is_device(device, known)]
    if unknown:
        raise ArgumentError(
            f"memory_limit names devices that are not here: {unknown}", ", ".join(known)
        )
    found: dict[str, Any] = {
        "device_limits": tuple(
            (device, limit)
            for device, given in value.items()
            if device != _CPU and (limit := _checked_limit(given)) is not None
        )
    }
    if _CPU in value:
        found["memory_limit"] = _checked_limit(value[_CPU])
    return found


def device_names() -> list[str]:
    """Every device that can be named here."""
    from weft.runtime.devices import cpu
    from weft.runtime.devices.others import others

    return [_CPU, *cpu.parts(), *(device.name for device in others())]


def _is_device(name: Any, known: list[str]) -> bool:
    """Whether a name is that of a device here: listed, or several cores as one."""
    from weft.runtime.devices.cpu import cores_of

    return name in known or (isinstance(name, str) and bool(cores_of(name)))


def _checked(name: str, value: Any) -> Any:
    match name:
        case "memory_limit":
            return _checked_limit(value)
        case "devices":
            return _checked_devices(value)
        case "slots":
            if value is None:
                return value
            if not _is_int(value) or not 1 <= value <= MOST_SLOTS:
                raise ArgumentError(f"slots is {value!r}", f"1 to {MOST_SLOTS}, or None")
            return int(value)
        case "threads":
            if value is None:
                return value
            if not _is_int(value) or value < 1:
                raise ArgumentError(f"threads is {value!r}", "a positive int, or None")
            return int(value)
        case "progress":
            if not isinstance(value, bool) and not callable(value):
                raise ArgumentTypeError(f"progress is {value!r}", "a bool or a function")
        case "quick_start":
            if not isinstance(value, bool):
                raise ArgumentTypeError(f"quick_start is {value!r}", "a bool")
        case "implicit_compute":
            if value not in ("allow", "warn", "raise"):
                raise ArgumentError(
                    f"implicit_compute is {value!r}", 'one of "allow", "warn", "raise"'
                )
        case "interpret_below":
            return _bytes(name, value)
        case "optimise":
            return _checked_words(value)
        case _:
            known = ", ".join(f.name for f in fields(Settings) if f.name != "device_limits")
            raise ArgumentError(f"there is no setting {name!r}", f"one of {known}")
    return value


def _checked_limit(value: Any) -> int | None:
    if value is None:
        return None
    limit = _bytes("memory_limit", value)
    if limit <= 0:
        raise ArgumentError(f"memory_limit is {value!r}", "a positive number of bytes")
    return limit


def _checked_devices(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str | list | tuple):
        raise ArgumentTypeError(f"devices is {value!r}", "a list of names")
    devices = (value,) if isinstance(value, str) else tuple(value)
    if devices == (_CPU,):
        return devices
    known = device_names()
    unknown = [device for device in devices if not _is_device(device, known)]
    if unknown or not devices:
        raise ArgumentError(
            f"devices is {value!r}",
            f"a list out of {', '.join(known)}",
            "" if len(known) > 1 else "pip install weft[opencl] or weft[cuda]",
        )
    _refuse_shared_cores(devices)
    return devices


def _refuse_shared_cores(devices: tuple[str, ...]) -> None:
    """Raise `ArgumentError` where two devices are the same, or have a core in common."""
    from weft.runtime.devices.cpu import cores_of

    for number, name in enumerate(devices):
        for other in devices[:number]:
            parts = name.startswith(f"{other}.") or other.startswith(f"{name}.")  # of OpenCL's
            if name == other or parts or set(cores_of(name)) & set(cores_of(other)):
                raise ArgumentError(
                    f"devices is {devices!r}: {other} and {name} have processors in common",
                    "devices that are apart",
                )


def _checked_words(value: Any) -> str:
    """The words once each, in one order: settings that mean the same are equal."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"optimise is {value!r}", "words in one string")
    unknown = [word for word in value.split() if word not in _OPTIMISATIONS]
    if unknown:
        raise ArgumentError(
            f"optimise is {value!r}: {', '.join(unknown)} is unknown",
            f"words out of {', '.join(_OPTIMISATIONS)}",
        )
    return " ".join(sorted(set(value.split())))


def _is_int(value: Any) -> bool:
    """Whether a value is an int, or one of NumPy's, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _bytes(name: str, value: Any) -> int:
    if not _is_int(value) and not isinstance(value, float | str):
        raise ArgumentTypeError(f"{name} is {value!r}", 'a number of bytes, or "256 MiB"')
    from weft.runtime.memory import parse_bytes

    return parse_bytes(value)
