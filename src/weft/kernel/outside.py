"""What names are outside of a function, where its source is read."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any


def outside(function: FunctionType, node: ast.expr) -> Any:
    """What a name, or an attribute of what it names, is outside of the function; None of others."""
    if isinstance(node, ast.Attribute):
        return getattr(outside(function, node.value), node.attr, None)
    if not isinstance(node, ast.Name) or node.id in function.__code__.co_varnames:
        return None
    code, closure = function.__code__, function.__closure__ or ()
    enclosed = dict(zip(code.co_freevars, closure, strict=True)).get(node.id)
    return enclosed.cell_contents if enclosed else function.__globals__.get(node.id)
