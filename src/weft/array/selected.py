"""What a mask selects of an array, `x[mask]`, while nothing asks how many elements that is.

    x[mask] += 1            =>  x = where(mask, x + 1, x)
    x[mask] = y[mask] ** 2  =>  x = where(mask, y ** 2, x)
    x[mask].sum()           =>  sum(where(mask, x, 0))

All else computes the mask; in a function being traced, where it has no value, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.array.lazy import Array
from weft.array.making import node_of
from weft.array.masks import Place
from weft.frontend import lengths

if TYPE_CHECKING:
    from weft.frontend.graph import Node

_REDUCTIONS = frozenset({"all", "any", "count_nonzero", "mean", "prod", "std", "sum", "var"})
_OF_SOME = frozenset({"argmax", "argmin", "max", "min"})
"""Those that have no result of no elements: computed where there are values, which may tell."""
_ELEMENTWISE = frozenset({
    "angle", "around", "clip", "fix", "imag", "isclose", "nan_to_num", "real", "round", "sinc",
})  # fmt: skip

_ARRAYS = (Array, np.ndarray, list, tuple)


class Selected(Array):
    """Elements at a place that a mask is part of.

    Attributes
    ----------
    whole : Node
        What is selected from, and computed where it is.
    known : Node or None
        What was selected, once it was asked for: then that is computed with.
    place : Place or None
        None once it is an array like others, as something was written to a part of it.
    """

    __slots__ = ("known", "place", "whole")

    def __init__(self, whole: Node, place: Place, known: Node | None = None) -> None:
        self.whole = whole
        self.place: Place | None = place
        self.known = known

    @property
    def _node(self) -> Node:
        if self.known is None:
            assert self.place is not None
            self.known = self.place.compressed(self.whole)
        return self.known

    @_node.setter
    def _node(self, node: Node) -> None:
        self.known, self.place = node, None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self.whole.dtype.numpy if self.place is not None else super().dtype

    @property
    def ndim(self) -> int:
        """How many dimensions there are: the mask's are one."""
        if self.place is None:
            return super().ndim
        return len(self.whole.shape) - len(self.place.mask.shape) + 1

    @property
    def real(self) -> Array:
        """The real parts."""
        found = lifted(lambda whole: whole.real, (self,))
        return super().real if found is None else found

    @property
    def imag(self) -> Array:
        """The imaginary parts."""
        found = lifted(lambda whole: whole.imag, (self,))
        return super().imag if found is None else found

    def copy(self) -> Array:
        """The elements as another object."""
        return super().copy() if self.place is None else Selected(self.whole, self.place)

    __copy__ = copy

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Array:
        """The elements converted to a dtype."""
        found = lifted(lambda whole: whole.astype(dtype, *args, **options), (self,))
        return super().astype(dtype, *args, **options) if found is None else found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and not options:
            found = lifted(ufunc, inputs)
            if found is not None:
                return found
        return super().__array_ufunc__(ufunc, method, *inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        name = function.__name__
        name = {"amax": "max", "amin": "min"}.get(name, name)
        if name in _REDUCTIONS | _OF_SOME and len(args) == 1 and not options:
            found = reduced(self, name)
            if found is not None:
                return found
        if name in _ELEMENTWISE:
            found = lifted(lambda *operands: function(*operands, **options), args)
            if found is not None:
                return found
        return super().__array_function__(function, types, args, options)


def lifted(function: Callable[..., Any], operands: Sequence[Any]) -> Selected | None:
    """An elementwise function of operands, of which some are selected at one place, or None."""
    place, shape = None, None
    arrays = []
    for operand in operands:
        if not isinstance(operand, Selected):
            arrays.append(operand)
            continue
        if operand.place is None or operand.known is not None:
            return None
        if place is None:
            place, shape = operand.place, operand.whole.shape
        assert shape is not None
        if not place.fits(operand.place, shape, operand.whole.shape):
            return None
        arrays.append(Array(operand.whole))
    if place is None or shape is None:
        return None
    rest = place.rest(len(shape))
    for operand in operands:
        if isinstance(operand, Selected) or not isinstance(operand, _ARRAYS):
            continue
        if len(node_of(operand).shape) > rest:
            return None
    result = function(*arrays)
    if not isinstance(result, Array) or not lengths.agree_all(result._node.shape, shape):
        return None
    return Selected(result._node, place)


def reduced(of: Selected, name: str) -> Array | None:
    """All elements reduced, where the mask is over all dimensions, or None."""
    from weft.functions.masked import REDUCTIONS

    if of.place is None or of.known is not None or len(of.place.mask.shape) != len(of.whole.shape):
        return None
    if name in _OF_SOME and not (of.place.mask.abstract or of.whole.abstract):
        return None
    return REDUCTIONS[name](Array(of.whole), Array(of.place.mask))


def install() -> None:
    """Give `Selected` the operators and reductions that are computed where the mask selects."""
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
        "rshift",
    ):  # fmt: skip
        for method in (f"__{name}__", f"__r{name}__"):
            setattr(Selected, method, _operator(getattr(Array, method)))
        setattr(Selected, f"__i{name}__", _in_place(getattr(Array, f"__i{name}__")))
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"):
        setattr(Selected, f"__{name}__", _operator(getattr(Array, f"__{name}__")))
    for name in sorted((_REDUCTIONS | _OF_SOME) - {"count_nonzero"}):
        setattr(Selected, name, _reduction(name, getattr(Array, name)))


def _operator(plain: Callable[..., Any]) -> Any:
    def method(self: Selected, *other: Any) -> Any:
        found = lifted(plain, (self, *other))
        return plain(self, *other) if found is None else found

    return method


def _in_place(plain: Callable[..., Any]) -> Any:
    def method(self: Selected, other: Any) -> Any:
        found = lifted(lambda whole, by: plain(Array(whole._node), by), (self, other))
        if found is None:
            return plain(self, other)
        self.whole, self.known = found.whole, None
        return self

    return method


def _reduction(name: str, plain: Callable[..., Any]) -> Any:
    def method(self: Selected, *args: Any, **options: Any) -> Any:
        found = None if args or options else reduced(self, name)
        return plain(self, *args, **options) if found is None else found

    method.__doc__ = plain.__doc__
    return method
