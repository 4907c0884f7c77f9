"""Functions that a kernel defines within itself: `lambda`, and `def`.

They are interpreted where they are called, as the user's other functions are. The variables of
the function around are read as they are then, and not written.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

from weft.errors import ArgumentError
from weft.kernel.frame import Frame, cells
from weft.kernel.syntax import assigned
from weft.records import dataclass

Definition = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """One of them.

    Attributes
    ----------
    frame : Frame
        Of the function around.
    node : ast.FunctionDef or ast.Lambda
    signature : inspect.Signature
        With the defaults as they were when it was defined.
    """

    frame: Frame
    node: Definition
    signature: inspect.Signature

    @property
    def name(self) -> str:
        return getattr(self.node, "name", "the lambda")


def defined(frame: Frame, node: Definition, defaults: list[Any], by_name: list[Any]) -> Closure:
    """The function that a `def` or `lambda` makes; `by_name` are defaults of keyword arguments."""
    if getattr(node, "decorator_list", []):
        frame.refuse(node, "a decorator in a kernel", "a plain def", "decorate it outside")
    kinds = inspect.Parameter
    given = node.args
    placed = [*given.posonlyargs, *given.args]
    values = [kinds.empty] * (len(placed) - len(defaults)) + defaults
    found = [
        kinds(
            argument.arg,
            kinds.POSITIONAL_ONLY if number < len(given.posonlyargs)
            else kinds.POSITIONAL_OR_KEYWORD, default=value,
        )
        for number, (argument, value) in enumerate(zip(placed, values, strict=True))
    ]  # fmt: skip
    if given.vararg is not None:
        found.append(kinds(given.vararg.arg, kinds.VAR_POSITIONAL))
    for argument, value in zip(given.kwonlyargs, by_name, strict=True):
        found.append(kinds(argument.arg, kinds.KEYWORD_ONLY, default=value))
    if given.kwarg is not None:
        found.append(kinds(given.kwarg.arg, kinds.VAR_KEYWORD))
    return Closure(frame, node, inspect.Signature(found))


def entered(
    frame: Frame, node: ast.Call, closure: Closure, arguments: list[Any], named: dict[str, Any]
) -> Frame:
    """The frame of a call, its arguments bound."""
    try:
        bound = closure.signature.bind(*arguments, **named)
    except TypeError as error:
        raise ArgumentError(
            f"a call of {closure.name}: {error}", str(closure.signature), place=frame.place(node)
        ) from None
    bound.apply_defaults()
    around = closure.frame
    body = closure.node.body
    own = {*closure.signature.parameters, *assigned(body if isinstance(body, list) else [body])}
    made = Frame(around.source, around.trace, {}, enclosing=around, own=frozenset(own))
    for name, value in bound.arguments.items():
        made.assign(name, made.constant(value), closure.node)
        made.foreign.update(cells(value))
    return made
