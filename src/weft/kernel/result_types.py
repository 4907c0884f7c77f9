"""What a kernel returns, compared with the result type of its signature."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np

from weft.array import Array
from weft.errors import DTypeError
from weft.frontend.extent import Extent
from weft.kernel.annotations import ArrayType, ScalarType
from weft.kernel.lists import Grown
from weft.kernel.syntax import parsed, within
from weft.kernel.values import Maybe, Reference, Selection
from weft.ops.dtypes import DType, from_numpy

ResultType: TypeAlias = "ScalarType | ArrayType | tuple[ResultType, ...] | None"

_PYTHONS = {DType.BOOL: "bool", DType.I64: "int", DType.F64: "float", DType.C128: "complex"}


def require(function: Callable[..., Any], result: Any, wanted: ResultType) -> None:
    """Refuse a result of another type than the signature says.

    Raises
    ------
    DTypeError
        At the `return`, or the part of its tuple.
    """
    found = _type_of(result)
    if found != wanted:
        _refuse(function, found, wanted)


def text(type_: Any) -> str:
    """A result type as signatures have it."""
    if isinstance(type_, tuple):
        return f"({', '.join(map(text, type_))}{',' * (len(type_) == 1)})"
    return str(type_)


def _type_of(value: Any) -> Any:
    """The type of a result; a text for what no signature names."""
    if isinstance(value, bool):
        return ScalarType(DType.BOOL)
    if isinstance(value, int | Extent):
        return ScalarType(DType.I64)
    if isinstance(value, float | complex):
        return ScalarType(DType.F64 if isinstance(value, float) else DType.C128)
    if isinstance(value, Maybe):
        return f"{text(_type_of(value.number))} or None"
    if isinstance(value, Selection):
        rank = value.array.ndim - value.mask.ndim + 1
        return _of(value.array.dtype, rank)
    if isinstance(value, Grown | list):
        return "a list"
    if isinstance(value, Reference):
        value = value.read()
    if isinstance(value, Array | np.ndarray | np.generic):
        return _of(value.dtype, value.ndim)
    if isinstance(value, tuple):
        return tuple(map(_type_of, value))
    return None if value is None else f"a {type(value).__name__}"


def _of(dtype: Any, rank: int) -> ScalarType | ArrayType:
    known = from_numpy(dtype)
    return ArrayType(known, rank) if rank else ScalarType(known)


def _refuse(function: Callable[..., Any], found: Any, wanted: Any) -> NoReturn:
    source = parsed(function)
    returns = [node for node in within(source.tree.body) if isinstance(node, ast.Return)]
    values = [node.value for node in returns if node.value is not None]
    at: ast.AST = source.tree.body[-1]
    if returns:
        at = values[0] if values and found is not None else returns[-1]
    whole, place = text(found), ""
    while (
        isinstance(found, tuple) and isinstance(wanted, tuple) and isinstance(at, ast.Tuple)
        and len(found) == len(wanted) == len(at.elts)
    ):  # fmt: skip
        number = [one == other for one, other in zip(found, wanted, strict=True)].index(False)
        found, wanted, at = found[number], wanted[number], at.elts[number]
        place += f"[{number}]"
    place = f" at {place}" if place else ""
    raise DTypeError(
        f"{source.tree.name} returns {text(found)}{place}", f"{text(wanted)}, by its signature",
        _advice(at, found, wanted, whole), source.place(at),
    )  # fmt: skip


def _advice(at: ast.AST, found: Any, wanted: Any, whole: str) -> str:
    """What to write instead: in the place of what is returned, or of the signature."""
    instead = ""
    if wanted is None:
        instead = "return, without a value"
    elif isinstance(at, ast.expr) and not isinstance(found, str):
        value = ast.unparse(at)
        value = value if len(value) <= 30 else "x"
        if isinstance(wanted, ScalarType) and isinstance(found, ScalarType):
            own = _PYTHONS.get(wanted.dtype, f"np.{wanted.dtype.numpy.name}")
            instead = f"{own}({value})"
        elif isinstance(wanted, ArrayType) and isinstance(found, ArrayType):
            bare = isinstance(at, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
            value = value if bare or value == "x" else f"({value})"
            cast = f"{value}.astype({wanted.dtype.numpy.name!r})"
            instead = cast if wanted.rank == found.rank else ""
    elif found is None:
        instead = f"return what is {text(wanted)}"
    other = "no -> at all" if isinstance(found, str) else f"-> {whole} in the signature"
    return ", or ".join(filter(None, (instead, other)))
