"""The state of the interpreter: values by name, and the nest of indices it is in.

Inside a nest of parallel expressions each index has an axis of its own, outermost first; a
scalar is an array with one axis for each index of the nest (of extent 1 where it does not
vary), and an array has these *batch* axes before its own dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun.from_end import counted_from_end
from weft.sizes import Poly, Size

Value: TypeAlias = Any  # ndarray, NumPy scalar, or (for sizes) int


class Irregular(Exception):  # noqa: N818  (a signal inside the interpreter, not an error)
    """A size that differs between the indices of a nest where one value is needed."""


class TooLarge(Exception):  # noqa: N818
    """A nest of more than `PART` indices, which is better evaluated in parts.

    `times` is how many parts would do.
    """

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times


PART = 1 << 18  # indices at once: temporary arrays stay near the processor


@lru_cache(maxsize=4096)
def constant(value: fun.Const) -> Any:
    """A constant as a NumPy scalar."""
    return value.dtype.numpy.type(value.value)


class Nest:
    """The state of an evaluation: values by name, and the nest that it is in.

    Attributes
    ----------
    values : dict
        Arrays, scalars and sizes by name (names are bound once in a program).
    rank : int
        Number of batch axes of the nest, 0 outside of any.
    depth : int
        How many of them belong to indices in scope.
    axes : dict
        For each kernel index in scope its axis, extent and first value.
    batched : set
        Names of arrays that have batch axes.
    mask : ndarray or None
        Which indices are active.
    part : tuple of int or None
        Of the outermost space: a dimension, and from where to where it is evaluated.
    volume : int
        The number of indices of the nest, counted from where it may be cut into parts.
    program : Body or None
        The whole program's.
    """

    __slots__ = (
        "axes", "batched", "depth", "mask", "part", "place", "program", "rank", "values", "volume",
    )  # fmt: skip

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.axes: dict[str, tuple[int, int, int]] = {}
        self.batched: set[str] = set()
        self.rank = 0
        self.depth = 0
        self.mask: Any = None
        self.part: tuple[int, int, int] | None = None
        self.volume = 0
        self.place: Place | None = None
        self.program: fun.Body | None = None

    def from_end(self, index: fun.Span | Size | fun.Atom) -> Callable[[], bool]:
        """Whether an index counts from the end of its axis where it is negative."""
        if isinstance(index, fun.Var):
            name: str | None = index.name
        else:
            name = index.variable if isinstance(index, Poly) else None
        return lambda: self.program is not None and name in counted_from_end(self.program)

    # ------------------------------------------------------------ atoms and sizes

    def atom(self, atom: fun.Atom) -> Value:
        """The value of a scalar."""
        return constant(atom) if isinstance(atom, fun.Const) else self.values[atom.name]

    def array(self, var: fun.Var) -> Value:
        """The value of an array, with batch axes when in a nest."""
        value = self.values[var.name]
        if self.rank and var.name not in self.batched:
            return value.reshape((1,) * self.rank + value.shape)
        return value

    def value(self, atom: fun.Atom) -> Value:
        if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Array):
            return self.array(atom)
        return self.atom(atom)

    def size(self, size: Poly) -> Any:
        """The value of a polynomial: an int, or an array over the batch."""
        total: Any = 0
        values = self.values
        for monomial, factor in size.terms.items():
            product: Any = factor
            for name in monomial:
                value = values[name]
                product = product * (value if isinstance(value, np.ndarray) else int(value))
            total = total + product
        return total

    def extent(self, size: Poly) -> int:
        """The value of a polynomial that is the same at all active indices."""
        value = self.size(size)
        if isinstance(value, np.ndarray):
            active = self.active(value)
            if active.size == 0:
                return 0
            low = int(active.min())
            if low != int(active.max()):
                raise Irregular
            return low
        return int(value)

    def active(self, value: Any) -> Any:
        """The elements of a scalar at active indices."""
        if self.mask is None:
            return value
        both = np.broadcast_arrays(value, self.mask)
        return both[0][both[1]]

    def expanded(self, value: Value, count: int) -> Value:
        """A scalar of the nest, with `count` dimensions of extent 1 after its batch axes."""
        return value.reshape(value.shape + (1,) * count) if np.ndim(value) else value

    def body(self, body: fun.Body) -> list[Value]:
        raise NotImplementedError

    def bind(self, pattern: tuple[fun.Var, ...], values: Sequence[Value]) -> None:
        for var, value in zip(pattern, values, strict=True):
            self.values[var.name] = value
            if self.rank and isinstance(var.type, fun.Array):
                self.batched.add(var.name)
