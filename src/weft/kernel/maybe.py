"""Numbers, arrays and tuples that may not be there, by which branches and rounds came before.

The program holds a number, an array of the shape that is known, or the parts of a tuple, beside a
flag that says whether there is one. Where there is none a variable is unbound, or None; reading it
as a number is Python's error, which the run notes.
"""

from __future__ import annotations

import ast
from typing import Any, TypeGuard

from weft.array import Array, node_of
from weft.frontend.elementwise import apply
from weft.frontend.extent import Extent
from weft.frontend.graph import Node, scalar_constant
from weft.frontend.operations import Elementwise
from weft.functions.creation import filled
from weft.kernel.frame import Frame, Number, Unbound, plain
from weft.kernel.values import Maybe, Reference
from weft.ops.dtypes import DType
from weft.records import dataclass


def flag(present: bool) -> Array:
    return Array(scalar_constant(present, DType.BOOL))


def is_absent(value: Any) -> TypeGuard[Unbound | None]:
    """Whether a value is none at all: None, or that of a variable that is not bound."""
    return value is None or (isinstance(value, Unbound) and not value.found)


def joined(values: list[Any]) -> tuple[Unbound | None, list[tuple[Any, Array]]] | None:
    """What else there is than numbers or arrays among two values, and each of them and its flag.

    None where they are not such values.
    """
    if not all(is_there(v) or may_be_absent(v) for v in values):
        return None
    absent = [v.absent if isinstance(v, Maybe) else v for v in values if not is_there(v)]
    numbers = [v.number if isinstance(v, Maybe) else v for v in values if not is_absent(v)]
    if not absent or not numbers or len({other is None for other in absent}) > 1:
        return None
    if len(set(map(_form, numbers))) > 1:
        return None
    return absent[0], [parts(value, numbers[0]) for value in values]


def spread(values: list[Any]) -> list[Any]:
    """Two values; of a tuple of numbers and what is not bound, each part may be not bound."""
    for place, value in enumerate(values):
        other = values[1 - place]
        of_numbers = type(value) is tuple and all(is_number(v) or _is_unbound(v) for v in value)
        if of_numbers and value and isinstance(other, Unbound) and not other.found:
            values[1 - place] = (other,) * len(value)
    return values


def _is_unbound(value: Any) -> bool:
    return isinstance(value, Maybe) and value.absent is not None


def bound(frame: Frame, node: ast.expr, value: Any) -> Any:
    """What a variable holds, which has to be bound, as the parts of a tuple have to."""
    if type(value) is tuple and any(map(_is_unbound, value)):
        return tuple(bound(frame, node, part) for part in value)
    return needed(frame, node, value) if _is_unbound(value) else value


def may_be_absent(value: Any) -> TypeGuard[Unbound | Maybe | None]:
    """Whether a value is none at all, or may be."""
    return is_absent(value) or isinstance(value, Maybe)


def is_number(value: Any) -> bool:
    return isinstance(value, Number) and not getattr(value, "ndim", 0)


def is_array(value: Any) -> bool:
    return isinstance(value, Reference) or (isinstance(value, Array) and value.ndim > 0)


def may_be_array(value: Any) -> bool:
    return isinstance(value, Maybe) and is_array(value.number)


def is_there(value: Any) -> bool:
    """Whether a value is one that a flag may be beside."""
    return is_number(value) or is_array(value) or (
        type(value) is tuple and value != () and all(map(is_there, value))
    )  # fmt: skip


def _form(value: Any) -> Any:
    """What values have in common that one flag may be beside."""
    return tuple(map(_form, value)) if type(value) is tuple else is_number(value)


def parts(value: Any, like: Any) -> tuple[Any, Array]:
    """The number or array, and whether there is one; one as `like` where there is none."""
    if isinstance(value, Maybe):
        return value.number, value.present
    if is_absent(value):
        if type(like) is tuple:
            return tuple(parts(value, part)[0] for part in like), flag(False)
        node = node_of(plain(like))
        if node.shape:
            return Array(filled(scalar_constant(0, node.dtype), node.shape)), flag(False)
        return Array(scalar_constant(0, node.dtype, weak=node.weak)), flag(False)
    return value, flag(True)


def needed(frame: Frame, node: ast.expr, value: Any) -> Any:
    """The number, where there has to be one."""
    if not isinstance(value, Maybe):
        return value
    if value.present._node not in frame.trace.present:
        error: Exception
        if value.absent is None:
            what = "an array" if may_be_array(value) else "a number"
            what = "a tuple" if type(value.number) is tuple else what
            error = TypeError(f"{ast.unparse(node)} is None, where {what} is needed")
        else:
            error = UnboundLocalError(
                f"cannot access local variable {ast.unparse(node)!r} where it is not associated "
                "with a value"
            )
        frame.trace.assertions.note(frame.memory, value.present, error, frame.place(node))
    return value.number


def is_none(value: Maybe) -> Array:
    """`value is None`, of a value that may be."""
    return Array(apply("logical_not", value.present._node))


def equals(value: Maybe, other: Any) -> Array:
    """`value == other`, of a number, which None does not equal."""
    return Array(apply("logical_and", value.present._node, node_of(value.number == other)))


def known_by(condition: Node, holds: bool) -> Node | None:
    """The flag that is known to be True where a condition holds, or does not; None: not known."""
    if holds:
        return condition
    return condition.inputs[0] if condition.operation == Elementwise("logical_not") else None


# ---------------------------------------------------------------- in loops


@dataclass(slots=True)
class Carried:
    """One that a loop carries: a number, array or tuple of its name, and a flag.

    Attributes
    ----------
    name : str
    absent : None or Unbound
        What it is where there is none.
    bound : bool
        Whether every round ends with one.
    """

    name: str
    absent: Unbound | None
    bound: bool = False

    @property
    def flag(self) -> str:
        return f"{self.name}.present"

    def value(self, variables: dict[str, Any]) -> Maybe:
        return Maybe(variables[self.name], variables[self.flag], self.absent)

    def take_apart(self, variables: dict[str, Any], like: Any) -> None:
        """Let what it is and the flag be variables of their own, at the end of a round."""
        value = variables.get(self.name)
        if is_there(value) or may_be_absent(value):
            self.bound = is_there(value)
            variables[self.name], variables[self.flag] = parts(value, like)

    def finish(
        self, variables: dict[str, Any], before: dict[str, Any], rounds: Extent | None
    ) -> None:
        """After the loop: it is there where every round leaves one, and there was a round."""
        found = self.value(variables)
        del variables[self.flag]
        if not self.bound or rounds is None:
            variables[self.name] = found
        elif rounds <= 0:
            variables[self.name] = before.get(self.name, self.absent)


def is_unbound(variables: dict[str, Any], name: str) -> bool:
    """Whether a variable has no value."""
    held = variables.get(name)
    return name not in variables or (isinstance(held, Unbound) and not held.found)


def is_carried(frame: Frame, before: dict[str, Any], name: str, value: Any) -> bool:
    """Whether a loop is to carry what was not there before, beside a flag."""
    if name in frame.read_unbound and is_unbound(before, name):
        error = frame.read_unbound.pop(name)
        if not is_there(value) and not isinstance(value, Maybe):
            raise error
        return True
    if is_unbound(before, name):
        return isinstance(value, Maybe) and value.absent is not None
    if before[name] is None:
        return is_there(value) or (isinstance(value, Maybe) and value.absent is None)
    return False
