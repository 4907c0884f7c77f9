"""Mathematical functions that are computed for a whole vector at once, by a call."""

from __future__ import annotations

from functools import cache

from weft.fun import nodes as fun
from weft.fun import walk
from weft.ops import table
from weft.ops.dtypes import DType


@cache
def vector_math(operation: str, dtypes: tuple[DType, ...]) -> bool:
    """Whether the operation's spelling calls a function of which libmvec has a vector form."""
    functions = table.lookup(operation).libm(dtypes)  # abs, of complex numbers, is a hypot
    return any(table.libmvec_since(name) is not None for name in functions)


def has_vector_math(body: fun.Body) -> bool:
    """Whether any statement calls one."""
    return any(
        isinstance(let.expr, fun.Apply)
        and vector_math(let.expr.operation, tuple(a.type.dtype for a in let.expr.arguments))
        for let in walk.statements(body)
    )
