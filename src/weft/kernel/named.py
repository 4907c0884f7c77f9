"""Values by names: dictionaries, named tuples and dataclasses, Python's own while compiling."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any


def is_made(function: Any) -> bool:
    """Whether a call makes a dictionary, a named tuple or a dataclass, and does nothing else."""
    if function is dict:
        return True
    if not isinstance(function, type):
        return False
    if issubclass(function, tuple):
        return hasattr(function, "_fields") and function.__init__ is tuple.__init__
    return (
        dataclasses.is_dataclass(function)
        and not hasattr(function, "__post_init__")
        and function.__dataclass_params__.init  # type: ignore[attr-defined]
    )


def is_method(function: Any) -> bool:
    """Whether a function is a method that reads what is held by names, and changes nothing."""
    of, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if type(of) is dict:
        return name in ("keys", "values", "items", "get", "copy")
    fields = getattr(of, "_fields", None)
    return fields is not None and name in ("_replace", "_asdict", "_make")


def is_named(value: Any) -> bool:
    """Whether a value is a dictionary, a named tuple, or a dataclass of the user's."""
    kind = type(value)
    if kind is dict:
        return True
    if isinstance(value, tuple):
        return hasattr(kind, "_fields")
    return dataclasses.is_dataclass(kind) and not kind.__module__.startswith("weft.")


def of_parts(kind: type, parts: Iterable[Any]) -> Any:
    """A list, tuple or named tuple of parts."""
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def held(value: Any) -> list[Any]:
    """What one holds."""
    if isinstance(value, dict | tuple):
        return [*value.values()] if isinstance(value, dict) else [*value]
    return [getattr(value, f.name, None) for f in dataclasses.fields(value)]


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """The same with a function applied to each value that it holds."""
    if isinstance(value, dict):
        return {key: function(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return type(value)(*map(function, value))
    made = copy.copy(value)
    for field in dataclasses.fields(value):
        object.__setattr__(made, field.name, function(getattr(value, field.name)))
    return made
