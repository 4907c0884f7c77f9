"""Variables that a loop changes and that are no number or array: tuples, and Python's own values.

Of a tuple or list the loop carries the parts, each by a name of its own. What else differs
between rounds has no value where it is read: nothing in the program holds it.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from weft.array import Array
from weft.errors import WeftError
from weft.frontend.extent import Extent
from weft.kernel import named
from weft.kernel.frame import Unbound
from weft.kernel.values import Reference, Selection
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Pack:
    """A tuple or list whose parts a loop carries, in order."""

    name: str
    kind: type[Any]
    parts: tuple[str, ...]

    @staticmethod
    def of(name: str, value: tuple[Any, ...] | list[Any]) -> Pack:
        return Pack(name, type(value), tuple(f"{name}[{k}]" for k in range(len(value))))

    def fits(self, value: Any) -> bool:
        return type(value) is self.kind and len(value) == len(self.parts)

    def made(self, variables: dict[str, Any], before: dict[str, Any]) -> Any:
        """The tuple or list, of parts that are variables, or stay as they were."""
        nowhere = Unbound(None)
        values = [variables.get(p, before.get(p, nowhere)) for p in self.parts]
        unbound = next((value for value in values if isinstance(value, Unbound)), None)
        return named.of_parts(self.kind, values) if unbound is None else unbound


def is_pack(value: Any) -> TypeGuard[tuple[Any, ...] | list[Any]]:
    return type(value) in (tuple, list) or (isinstance(value, tuple) and named.is_named(value))


def same(first: Any, second: Any) -> bool:
    """Whether two values are known to be the same, while compiling."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if is_pack(first):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, Reference):
        return first.same(second)
    if isinstance(first, Extent):
        return bool(first.poly == second.poly)
    if isinstance(first, Array | Selection | Unbound):
        return False
    try:
        return bool(first == second)
    except (TypeError, ValueError, WeftError):
        return False
