"""Dataclasses that are made quickly.

`dataclasses.dataclass` compiles the text of up to six methods for each class: with the classes
of a compiler, that is half of what an import takes. Here all classes share their methods but
`__init__`, which is compiled when the first object of its class is made. What the standard
library knows of dataclasses (`fields`, `replace`, `match`, inheritance) holds for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

_GIVEN = object()  # stands for a default that a factory makes


def _quick_dataclass(
    kind: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> Any:
    """As `dataclasses.dataclass`, with the same meaning of its options."""
    if kind is None:
        return lambda found: _quick_dataclass(found, frozen=frozen, slots=slots, eq=eq)
    own = set(vars(kind))
    kind.__doc__ = kind.__doc__ or kind.__name__  # for want of one, a signature would be made
    extends = any(map(dataclasses.is_dataclass, kind.__mro__))  # then both have to be frozen
    make = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=slots, frozen=frozen and extends
    )
    made = _made(kind, make)
    made.__dataclass_params__.frozen = frozen
    fields = dataclasses.fields(made)
    methods: dict[str, Any] = {"__init__": _first_init(made, frozen), "__repr__": _repr}
    if eq:
        key = _key([field.name for field in fields if field.compare])
        methods["__eq__"] = _eq(key)
        methods["__hash__"] = _hash(key) if frozen else None
    if frozen:
        methods |= {
            "__setattr__": _refuse, "__delattr__": _refuse,
            "__getstate__": _state, "__setstate__": _restore,
        }  # fmt: skip
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


def _made(kind: type, make: Callable[[type], type]) -> Any:
    """A class made of another, without looking into the text of each annotation.

    Which the standard library does for those that are no fields: here they would name `ClassVar`.
    """
    texts = vars(kind).get("__annotations__")
    special = ("ClassVar", "InitVar", "KW_ONLY")
    if not texts or any(
        not isinstance(text, str) or any(name in text for name in special)
        for text in texts.values()
    ):
        return make(kind)
    kind.__annotations__ = dict.fromkeys(texts, object)
    made: Any = make(kind)
    made.__annotations__ = texts
    for name, text in texts.items():
        made.__dataclass_fields__[name].type = text
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _quick_dataclass

__all__ = ["dataclass"]


def _first_init(made: Any, frozen: bool) -> Callable[..., None]:
    """An `__init__` that puts the compiled one in its place, for the first object."""

    def first(self: Any, *values: Any, **named: Any) -> None:
        made.__init__ = _init(made, frozen)
        made.__init__(self, *values, **named)

    return first


def _init(made: Any, frozen: bool) -> Callable[..., None]:
    """The `__init__` of a class: the code of its kind, which most classes share, with its names."""
    names: dict[str, Any] = {"_put": object.__setattr__, "_GIVEN": _GIVEN}
    lines, defaults, renamed = [], [], {}
    for number, field in enumerate(dataclasses.fields(made)):
        renamed[f"value_{number}"] = field.name
        value = f"value_{number}"
        if field.default is not dataclasses.MISSING:
            defaults.append(field.default)
        elif field.default_factory is dataclasses.MISSING:
            if defaults:
                raise TypeError(f"{made.__name__}.{field.name} has no default, behind one that has")
        else:
            names[f"_make_{number}"] = field.default_factory
            defaults.append(_GIVEN)
            value = f"_make_{number}() if {value} is _GIVEN else {value}"
        slot = vars(made).get(field.name)
        if not frozen:
            lines.append(f"self.value_{number} = {value}")
        elif isinstance(slot, MemberDescriptorType):  # quicker than by name
            names[f"_put_{number}"] = slot.__set__
            lines.append(f"_put_{number}(self, {value})")
        else:
            lines.append(f"_put(self, 'value_{number}', {value})")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    code = _code(len(renamed), tuple(lines))
    code = code.replace(
        co_varnames=("self", *renamed.values()),
        co_names=tuple(renamed.get(name, name) for name in code.co_names),
        co_consts=tuple(
            renamed.get(each, each) if isinstance(each, str) else each for each in code.co_consts
        ),
    )
    return FunctionType(code, names, "__init__", tuple(defaults))


@cache
def _code(count: int, lines: tuple[str, ...]) -> CodeType:
    """The code of an `__init__` of so many parameters, "value_0" and on."""
    parameters = ", ".join(["self", *(f"value_{number}" for number in range(count))])
    body = "\n ".join(lines or ("pass",))
    found: dict[str, Any] = {}
    exec(f"def __init__({parameters}):\n {body}\n", found)
    code: CodeType = found["__init__"].__code__
    return code


def _key(names: list[str]) -> Callable[[Any], Any]:
    """What objects are compared by."""
    return attrgetter(*names) if names else lambda _: ()


def _eq(key: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return key(self) == key(other)

    return equal


def _hash(key: Callable[[Any], Any]) -> Callable[[Any], int]:
    return lambda self: hash(key(self))


def _repr(self: Any) -> str:
    fields = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(fields)})"


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
