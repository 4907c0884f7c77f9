"""The methods that users of NumPy's arrays expect of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import ArgumentError, UnsupportedError, user_place
from weft.frontend import layout, lengths
from weft.ops.dtypes import from_numpy

if TYPE_CHECKING:
    from weft.array.lazy import Array


def _is_by_columns(order: str) -> bool:
    """Whether the first index varies fastest; lazy arrays lie row by row."""
    if order not in ("C", "F", "A", "K"):
        raise ArgumentError(f"order={order!r}", "'C' or 'F'", place=user_place())
    return order == "F"


def _numpys(name: str, of: Any, axis: Any, options: dict[str, Any], **usual: Any) -> Array:
    """NumPy's reduction with `where`, `initial` or `out`, which it takes as this method does."""
    import numpy as np

    unknown = [key for key in options if key not in ("where", "initial", "out")]
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    given = {key: value for key, value in usual.items() if value is not None}
    found: Array = getattr(np, name)(of, axis=axis, **given, **options)
    return found


class Methods:
    """Reductions, layouts and the rest as methods: `x.sum()` for `weft.sum(x)`."""

    __slots__ = ()

    def astype(self: Any, dtype: Any, copy: bool = True) -> Array:
        """Elements in another dtype, as `weft.astype`."""
        from weft import functions

        return functions.astype(self, dtype, copy=copy)

    def reshape(self: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
        """The elements, taken and laid down in an order, in another shape."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        from weft import functions

        if _is_by_columns(order):
            turned: Array = functions.reshape(self.T, wanted[::-1], copy=copy).T
            return turned
        return functions.reshape(self, wanted, copy=copy)

    def transpose(self: Any, *axes: Any) -> Array:
        """With the dimensions in this order; reversed where none is given."""
        if not axes or axes == (None,):
            reverse: Array = self.T
            return reverse
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], list | tuple) else axes
        from weft import functions

        return functions.permute_dims(self, tuple(order))

    def squeeze(self: Any, axis: Any = None) -> Array:
        """Without dimensions of length 1: all of them, where no axis is given."""
        ones = tuple(a for a, e in enumerate(self._node.shape) if lengths.is_just(e, 1))
        from weft import functions

        return functions.squeeze(self, ones if axis is None else axis)

    def ravel(self: Any, order: str = "C") -> Array:
        """All elements along one dimension, in an order."""
        from weft import functions

        return functions.reshape(self.T if _is_by_columns(order) else self, (-1,))

    flatten = ravel

    def trace(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """Sums of diagonals, as `weft.trace`."""
        from weft import functions

        return functions.trace(self, offset, axis1, axis2)

    def diagonal(self: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """Diagonals, as `weft.diagonal`."""
        from weft import functions

        return functions.diagonal(self, offset, axis1, axis2)

    def sum(
        self: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, **options: Any
    ) -> Array:
        """The sum along axes, as `weft.sum`; `where` and `initial` are NumPy's."""
        if options:
            return _numpys("sum", self, axis, options, dtype=dtype, keepdims=keepdims)
        from weft import functions

        return functions.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(
        self: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, **options: Any
    ) -> Array:
        """The product along axes, as `weft.prod`; `where` and `initial` are NumPy's."""
        if options:
            return _numpys("prod", self, axis, options, dtype=dtype, keepdims=keepdims)
        from weft import functions

        return functions.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(
        self: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, **options: Any
    ) -> Array:
        """The mean along axes, as `weft.mean`; `where` is NumPy's."""
        if options:
            return _numpys("mean", self, axis, options, dtype=dtype, keepdims=keepdims)
        from weft import functions

        return functions.mean(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def var(
        self: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0,
        correction: float | None = None, keepdims: bool = False, **options: Any,
    ) -> Array:
        """The variance along axes, as `weft.var`; `ddof` is NumPy's name for `correction`."""
        correction = ddof if correction is None else correction
        if options:
            return _numpys(
                "var", self, axis, options, dtype=dtype, ddof=correction, keepdims=keepdims
            )
        from weft import functions

        return functions.var(
            self, axis=axis, dtype=dtype, correction=correction, keepdims=keepdims
        )

    def std(
        self: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0,
        correction: float | None = None, keepdims: bool = False, **options: Any,
    ) -> Array:
        """The standard deviation along axes; parameters as those of `var`."""
        correction = ddof if correction is None else correction
        if options:
            return _numpys(
                "std", self, axis, options, dtype=dtype, ddof=correction, keepdims=keepdims
            )
        from weft import functions

        return functions.std(
            self, axis=axis, dtype=dtype, correction=correction, keepdims=keepdims
        )

    def min(self: Any, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Array:
        """The least element along axes, as `weft.min`."""
        if options:
            return _numpys("min", self, axis, options, keepdims=keepdims)
        from weft import functions

        return functions.min(self, axis=axis, keepdims=keepdims)

    def max(self: Any, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Array:
        """The greatest element along axes, as `weft.max`."""
        if options:
            return _numpys("max", self, axis, options, keepdims=keepdims)
        from weft import functions

        return functions.max(self, axis=axis, keepdims=keepdims)

    def all(self: Any, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Array:
        """Whether all elements along axes are true, as `weft.all`."""
        if options:
            return _numpys("all", self, axis, options, keepdims=keepdims)
        from weft import functions

        return functions.all(self, axis=axis, keepdims=keepdims)

    def any(self: Any, axis: Any = None, *, keepdims: bool = False, **options: Any) -> Array:
        """Whether any element along axes is true, as `weft.any`."""
        if options:
            return _numpys("any", self, axis, options, keepdims=keepdims)
        from weft import functions

        return functions.any(self, axis=axis, keepdims=keepdims)

    def argmax(self: Any, axis: int | None = None, *, keepdims: bool = False) -> Array:
        """Where the greatest element is, as `weft.argmax`."""
        from weft import functions

        return functions.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self: Any, axis: int | None = None, *, keepdims: bool = False) -> Array:
        """Where the least element is, as `weft.argmin`."""
        from weft import functions

        return functions.argmin(self, axis=axis, keepdims=keepdims)

    def argsort(
        self: Any, axis: int | None = -1, kind: str | None = None, *, stable: bool | None = None
    ) -> Array:
        """NumPy's, which keeps the order of equal elements where it is asked to."""
        from weft import functions

        keeps = kind in ("stable", "mergesort") if stable is None else stable
        return functions.argsort(self, axis=axis, stable=keeps)

    def cumsum(self: Any, axis: int | None = None, dtype: Any = None) -> Array:
        """Running sums along an axis; of all elements, where none is given."""
        flat = self.ravel() if axis is None else self
        from weft import functions

        return functions.cumulative_sum(flat, axis=0 if axis is None else axis, dtype=dtype)

    def cumprod(self: Any, axis: int | None = None, dtype: Any = None) -> Array:
        """Running products along an axis; of all elements, where none is given."""
        flat = self.ravel() if axis is None else self
        from weft import functions

        return functions.cumulative_prod(flat, axis=0 if axis is None else axis, dtype=dtype)

    def clip(self: Any, min: Any = None, max: Any = None) -> Array:
        """Elements kept between limits, in the dtype that NumPy gives them."""
        from weft import functions

        limits = [limit for limit in (min, max) if limit is not None]
        common = functions.result_type(self, *limits)  # NumPy's, where wf.clip keeps the dtype
        return functions.clip(functions.astype(self, common), min, max)

    def round(self: Any, decimals: int = 0) -> Array:
        """Rounded to so many decimals, halves to even; to tens and more where negative."""
        from weft import functions

        return functions.round(self, decimals)

    def conj(self: Any) -> Array:
        """Complex conjugates; what is real as it is."""
        if not self._node.dtype.is_complex:  # booleans too, of which functions.conj makes int8
            same: Array = self.copy()
            return same
        from weft import functions

        return functions.conj(self)

    conjugate = conj

    def dot(self: Any, other: Any) -> Array:
        """The product of NumPy's `dot`, as `weft.dot`."""
        from weft import functions

        return functions.dot(self, other)

    def take(self: Any, indices: Any, axis: int | None = None) -> Array:
        """Elements at indices along an axis; of all elements, where none is given."""
        source = self.ravel() if axis is None else self
        from weft import functions

        return functions.take(source, indices, axis=0 if axis is None else axis)

    def repeat(self: Any, repeats: Any, axis: int | None = None) -> Array:
        """Each element so many times, as `weft.repeat`."""
        from weft import functions

        return functions.repeat(self, repeats, axis=axis)

    def swapaxes(self: Any, first: int, second: int) -> Array:
        """With two dimensions exchanged."""
        order = list(range(self.ndim))
        first, second = (layout.axis_number(axis, self.ndim) for axis in (first, second))
        order[first], order[second] = order[second], order[first]
        from weft import functions

        return functions.permute_dims(self, tuple(order))

    def fill(self: Any, value: Any) -> None:
        """Write a scalar to all elements."""
        self[...] = value

    def sort(self: Any, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> None:
        """Order the elements along an axis, in place: as `weft.sort`."""
        from weft import functions

        self[...] = functions.sort(self, axis=axis)

    def partition(self: Any, kth: Any, axis: int = -1) -> None:
        """Bring elements to places where order would, in place: as `weft.partition`."""
        from weft import functions

        self[...] = functions.partition(self, kth, axis)

    def argpartition(self: Any, kth: Any, axis: int | None = -1) -> Array:
        """The indices that partition, as `weft.argpartition`."""
        from weft import functions

        return functions.argpartition(self, kth, axis)

    def searchsorted(self: Any, v: Any, side: str = "left", sorter: Any = None) -> Array:
        """Where values would be inserted, as `weft.searchsorted`."""
        from weft import functions

        return functions.searchsorted(self, v, side=side, sorter=sorter)

    def view(self: Any, dtype: Any = None) -> Array:
        """The array as another object, of its own dtype: bytes are not read as others.

        What is written to one is not seen in the other.

        Raises
        ------
        UnsupportedError
            For another dtype.
        """
        if dtype is not None and from_numpy(dtype) is not self._node.dtype:
            raise UnsupportedError(
                f"a view of {self.dtype} as {from_numpy(dtype).numpy}", "the array's own dtype",
                "x.astype(dtype), or a view of the NumPy array before", user_place(),
            )  # fmt: skip
        same: Array = self.copy()
        return same

    def nonzero(self: Any) -> tuple[Array, ...]:
        """Indices of what is not zero, one array for each dimension, as `weft.nonzero`."""
        from weft import functions

        return functions.nonzero(self)

    def at_lmad(self: Any, offset: Any, dims: Sequence[tuple[Any, Any]]) -> Any:
        """Updates of a flat array through an LMAD: `x.at_lmad(offset, dims).set(v)`."""
        from weft.functions.lmads import AtLmad

        return AtLmad(self, offset, dims)
