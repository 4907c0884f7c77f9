"""The lazy array of the user's side."""

from __future__ import annotations

import operator as python_operator
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from weft import config, execute
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ImplicitComputeError,
    ShapeError,
    TracingError,
    user_place,
)  # fmt: skip
from weft.frontend import extent as extents
from weft.frontend import graph, indexing, layout
from weft.frontend.elementwise import apply, as_dtype, python_value, scalar_node
from weft.frontend.extent import Dimension, Extent
from weft.frontend.graph import Node
from weft.ops.dtypes import DType, from_numpy

if TYPE_CHECKING:
    from types import ModuleType

_PYTHON_SCALARS = (bool, int, float, complex)


class Array:
    """A lazy array: an expression over data, computed when its values are asked for.

    Arrays are made by `weft.asarray`, `weft.open`, the creation functions, and by operations
    on other arrays. `np.asarray(x)`, `x.numpy()`, `bool(x)`, `float(x)` compute; `repr` and
    `len` do not.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """

    __slots__ = ("__weakref__", "_node")
    __array_priority__ = 1000

    _node: Node

    def __init__(self, node: Node) -> None:
        self._node = node

    # ------------------------------------------------------------ attributes

    @property
    def shape(self) -> tuple[Dimension, ...]:
        """The lengths: ints, or (in a function being traced) extents that act as ints."""
        shape = self._node.shape
        if extents.tracing():
            return tuple([e.value if e.is_constant else e for e in shape])
        return tuple([e.value for e in shape])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._node.dtype.numpy

    @property
    def ndim(self) -> int:
        return len(self._node.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        total = extents.product(self._node.shape)
        return total if extents.tracing() and not total.is_constant else total.value

    @property
    def itemsize(self) -> int:
        return self._node.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes that the values take, once computed."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        """The array itself: "cpu" is where lazy arrays are.

        Raises
        ------
        ArgumentError
            For any other device, or a stream.
        """
        if device != "cpu" or stream is not None:
            raise ArgumentError(f"device {device!r}", '"cpu", and no stream', place=user_place())
        return self

    @property
    def T(self) -> Array:  # noqa: N802 - the standard's name
        """With the dimensions in reverse order."""
        return Array(layout.permute(self._node, range(self.ndim)[::-1]))

    @property
    def mT(self) -> Array:  # noqa: N802
        """With the last two dimensions exchanged."""
        return _functions().matrix_transpose(self)

    @property
    def real(self) -> Array:
        return self if self._node.dtype.is_float else _functions().real(self)

    @property
    def imag(self) -> Array:
        return _functions().imag(self)

    @property
    def at(self) -> At:
        """Functional updates: `x.at[key].set(v)`, `.add`, `.multiply`, `.min`, `.max`."""
        return At(self)

    # ------------------------------------------------------------ values

    def numpy(self) -> npt.NDArray[Any]:
        """Compute: the values as a NumPy array that shares memory with nothing else."""
        self._require_values("a NumPy array is asked for")
        return execute.compute([self._node])[0]

    def compute(self) -> npt.NDArray[Any]:
        """The same as `numpy()`."""
        return self.numpy()

    def persist(self, device: str | None = None) -> Array:
        """Compute once, and keep the values: later expressions start from them."""
        self._require_values("values are to be kept")
        return cast(Array, Array(execute.persist([self._node])[0]))

    def _require_values(self, what: str) -> None:
        if self._node.abstract:
            raise TracingError(
                f"{what}, but this function is being traced: its arrays have no values yet",
                "operations that give arrays",
                "wf.where(condition, x, y) or wf.cond for a choice, wf.while_loop or "
                "wf.fori_loop for a loop, static_argnames for an argument that decides",
                place=user_place(),
            )

    def _implicit(self, what: str) -> npt.NDArray[Any]:
        """Compute because Python asks for a value, as `implicit_compute` allows."""
        self._require_values(f"{what} of an array is asked for")
        rule = config.settings().implicit_compute
        if rule == "raise":
            raise ImplicitComputeError(
                f"{what} of a lazy array would compute it",
                advice="x.numpy(), or wf.config(implicit_compute='allow')",
                place=user_place(),
            )
        if rule == "warn":
            warnings.warn(f"{what} computes a lazy array", stacklevel=3)
        return execute.compute([self._node])[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ArgumentError(
                "np.asarray(x, copy=False) of a lazy array", advice="leave out copy=False"
            )
        values = self._implicit("np.asarray")
        return values if dtype is None else values.astype(dtype, copy=False)

    def item(self, *index: int) -> Any:
        """One element as a Python scalar."""
        return self._implicit("item()").item(*index)

    def tolist(self) -> Any:
        return self._implicit("tolist()").tolist()

    def _scalar(self, what: str) -> Any:
        if self._node.shape and layout.values(self._node.shape) != (1,) * self.ndim:
            raise _NotAScalar(
                f"{what} of an array of shape {layout.values(self._node.shape)}",
                "an array of one element",
                "x.any() or x.all()" if what == "bool()" else "",
                place=user_place(),
            )
        return self._implicit(what).reshape(())[()]

    def __bool__(self) -> bool:
        return bool(self._scalar("bool()"))

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def __index__(self) -> int:
        if not self._node.dtype.is_integer or self._node.shape:
            raise ArgumentTypeError(
                f"an array of {self.dtype} and {self.ndim} dimensions as an index",
                "an integer scalar",
                place=user_place(),
            )
        return python_operator.index(self._scalar("operator.index()"))

    def __len__(self) -> int:
        if not self._node.shape:
            raise ArgumentTypeError("len() of an array without dimensions", place=user_place())
        return int(self._node.shape[0])

    def __iter__(self) -> Iterator[Array]:
        return iter([self[k] for k in range(len(self))])

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    __hash__ = None  # type: ignore[assignment]

    # ------------------------------------------------------------ showing

    def __repr__(self) -> str:
        node = self._node
        shape = ", ".join(str(e.value) for e in node.shape) + ("," if node.rank == 1 else "")
        return f"weft.Array(shape=({shape}), dtype={self.dtype}, {describe(node)})"

    def _repr_html_(self) -> str:
        node = self._node
        rows = {
            "shape": str(layout.values(node.shape)),
            "dtype": str(self.dtype),
            "bytes": f"{extents.product(node.shape).value * self.itemsize:,}",
            "from": describe(node),
        }
        cells = "".join(f"<tr><th>{k}</th><td>{_escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table><caption>weft.Array</caption>{cells}</table>"

    # ------------------------------------------------------------ indexing

    def __getitem__(self, key: Any) -> Array:
        if _is_scalar_mask(key):
            kept = slice(None) if bool(key) else slice(0, 0)
            return self[None][(kept,)]
        return Array(indexing.get(self._node, _key(key)))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._node = _put(self._node, key, value, None)

    # ------------------------------------------------------------ interchange

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        import weft

        known = ("2021.12", "2022.12", "2023.12", "2024.12", weft.__array_api_version__)
        if api_version is not None and api_version not in known:
            raise ArgumentError(f"Array API version {api_version!r}", f"one of {known}")
        return weft

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        values = self._implicit("__dlpack__")
        return values.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        from weft.functions import interoperability

        return interoperability.ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        from weft.functions import interoperability

        return interoperability.function(function, args, options)

    def __copy__(self) -> Array:
        return Array(self._node)

    def __deepcopy__(self, memo: Any) -> Array:
        return Array(self._node)

    def copy(self) -> Array:
        return Array(self._node)

    def __reduce__(self) -> Any:
        return _unpickle, (pickled(self._node),)

    # ------------------------------------------------------------ methods of NumPy's arrays

    def astype(self, dtype: Any, copy: bool = True) -> Array:
        return _functions().astype(self, dtype, copy=copy)

    def reshape(self, *shape: Any, copy: bool | None = None) -> Array:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return _functions().reshape(self, wanted, copy=copy)

    def transpose(self, *axes: Any) -> Array:
        if not axes or axes == (None,):
            return self.T
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], list | tuple) else axes
        return _functions().permute_dims(self, tuple(order))

    def squeeze(self, axis: Any = None) -> Array:
        ones = tuple(a for a, e in enumerate(self._node.shape) if e.value == 1)
        return _functions().squeeze(self, ones if axis is None else axis)

    def ravel(self) -> Array:
        return _functions().reshape(self, (-1,))

    flatten = ravel

    def sum(self, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Array:
        return _functions().sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Array:
        return _functions().prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Array:
        return _functions().mean(self, axis=axis, keepdims=keepdims)

    def var(self, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Array:
        return _functions().var(self, axis=axis, correction=ddof, keepdims=keepdims)

    def std(self, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Array:
        return _functions().std(self, axis=axis, correction=ddof, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Array:
        return _functions().min(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Array:
        return _functions().max(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, *, keepdims: bool = False) -> Array:
        return _functions().all(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, *, keepdims: bool = False) -> Array:
        return _functions().any(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        return _functions().argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Array:
        return _functions().argmin(self, axis=axis, keepdims=keepdims)

    def argsort(self, axis: int = -1) -> Array:
        return _functions().argsort(self, axis=axis)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Array:
        flat = self.ravel() if axis is None else self
        return _functions().cumulative_sum(flat, axis=0 if axis is None else axis, dtype=dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Array:
        flat = self.ravel() if axis is None else self
        return _functions().cumulative_prod(flat, axis=0 if axis is None else axis, dtype=dtype)

    def clip(self, min: Any = None, max: Any = None) -> Array:
        return _functions().clip(self, min, max)

    def round(self, decimals: int = 0) -> Array:
        if decimals:
            scale = 10.0**decimals
            return _functions().round(self * scale) / scale
        return _functions().round(self)

    def conj(self) -> Array:
        return _functions().conj(self)

    conjugate = conj

    def dot(self, other: Any) -> Array:
        return _functions().dot(self, other)

    def take(self, indices: Any, axis: int | None = None) -> Array:
        source = self.ravel() if axis is None else self
        return _functions().take(source, indices, axis=0 if axis is None else axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Array:
        return _functions().repeat(self, repeats, axis=axis)

    def swapaxes(self, first: int, second: int) -> Array:
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return _functions().permute_dims(self, tuple(order))

    def nonzero(self) -> tuple[Array, ...]:
        return cast("tuple[Array, ...]", _functions().nonzero(self))

    def at_lmad(self, offset: Any, dims: Sequence[tuple[Any, Any]]) -> Any:
        """Updates of a flat array through an LMAD: `x.at_lmad(offset, dims).set(v)`."""
        from weft.functions.lmads import AtLmad

        return AtLmad(self, offset, dims)

    # ------------------------------------------------------------ operators: see below

    if TYPE_CHECKING:

        def _operator(self, other: Any) -> Array: ...
        def _inplace(self, other: Any) -> Array: ...
        def _unary(self) -> Array: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _operator
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _operator
        __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _operator
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = _operator
        __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = _inplace
        __imod__ = __ipow__ = __imatmul__ = __iand__ = __ior__ = __ixor__ = _inplace
        __ilshift__ = __irshift__ = _inplace
        __neg__ = __pos__ = __abs__ = __invert__ = _unary

        def __eq__(self, other: object) -> Array: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Array: ...  # type: ignore[override]


class _NotAScalar(ShapeError, TypeError):
    """NumPy raises ValueError for bool() and TypeError for float(): this is both."""


class At:
    """`x.at`, waiting for a key."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> AtKey:
        return AtKey(self._array, key)


class AtKey:
    """`x.at[key]`: the array with something done at the key, as a new array.

    Where a key holds an index several times, `set` keeps the last value; the others
    combine all.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: Any) -> None:
        self._array = array
        self._key = key

    def _put(self, value: Any, combine: str | None) -> Array:
        return Array(_put(self._array._node, self._key, value, combine))

    def get(self) -> Array:
        return self._array[self._key]

    def set(self, value: Any) -> Array:
        return self._put(value, None)

    def add(self, value: Any) -> Array:
        return self._put(value, "add")

    def subtract(self, value: Any) -> Array:
        return self._put(-asarray(value), "add")

    def multiply(self, value: Any) -> Array:
        return self._put(value, "multiply")

    def min(self, value: Any) -> Array:
        return self._put(value, "minimum")

    def max(self, value: Any) -> Array:
        return self._put(value, "maximum")


# ---------------------------------------------------------------- making arrays


def source_array(source: Any) -> Array:
    """A lazy array over a source: anything with `shape` and `dtype` that `execute` reads."""
    dtype = from_numpy(source.dtype)
    shape = tuple([extents.variable(int(n)) for n in source.shape])
    return Array(graph.leaf(source, shape, dtype))


def asarray(
    obj: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None
) -> Array:
    """A lazy array over data: nothing is copied (unless `copy`) and nothing is read yet.

    Parameters
    ----------
    obj : weft.Array, numpy.ndarray, source, scalar, sequence, or object with DLPack
    dtype : dtype, optional
    copy : bool, optional
        True takes a snapshot: later changes of `obj` are not seen. False never copies.

    Raises
    ------
    DTypeError
        For data of a dtype that Weft does not have.
    """
    if device not in (None, "cpu"):
        raise ArgumentError(f"device {device!r}", '"cpu"', place=user_place())
    array = _as_array(obj, dtype, copy)
    if dtype is not None and array._node.dtype is not from_numpy(dtype):
        if copy is False:
            raise ArgumentError("another dtype without a copy", "copy=None", place=user_place())
        array = Array(as_dtype(array._node, from_numpy(dtype)))
    return array


def _as_array(obj: Any, dtype: Any, copy: bool | None) -> Array:
    if isinstance(obj, Array):
        return Array(obj._node)
    if isinstance(obj, np.ndarray):
        return _over(_native(obj, copy))
    if isinstance(obj, (*_PYTHON_SCALARS, np.generic, Extent)):
        if copy is False:
            raise ArgumentError("a Python scalar without a copy", "copy=None", place=user_place())
        node = scalar_node(obj)
        wanted = from_numpy(dtype) if dtype is not None else node.dtype
        return Array(_strong(node, wanted))
    if isinstance(obj, list | tuple):
        if copy is False:
            raise ArgumentError("a sequence without a copy", "copy=None", place=user_place())
        return _from_sequence(obj, dtype)
    if hasattr(obj, "__dlpack__"):
        return _over(np.array(np.from_dlpack(obj)) if copy else np.from_dlpack(obj))
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        return _over(np.array(obj, copy=copy))
    if hasattr(obj, "shape") and hasattr(obj, "dtype") and hasattr(obj, "__getitem__"):
        return source_array(execute.as_source(obj))
    try:
        return _over(np.asarray(obj))  # buffers
    except DTypeError:
        raise ArgumentTypeError(
            f"a {type(obj).__name__} is not an array", "an array, a number, or nested lists of them",
            place=user_place(),
        ) from None  # fmt: skip


def _strong(node: Node, dtype: DType) -> Node:
    """A scalar of a dtype of its own, no longer weak."""
    value = python_value(node)
    if value is not None and dtype.is_integer and not isinstance(value, int):
        value = np.asarray(value).astype(dtype.numpy).item()
        return graph.scalar_constant(value, dtype)
    if isinstance(node.operation, graph.Constant):
        return (
            graph.scalar_constant(node.operation.const.value, dtype)
            if value is not None
            else as_dtype(node, dtype)
        )
    return as_dtype(node, dtype)


def _native(array: npt.NDArray[Any], copy: bool | None) -> npt.NDArray[Any]:
    if copy:
        return np.array(array, order="C")
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def _over(array: npt.NDArray[Any]) -> Array:
    """A lazy array over memory."""
    dtype = from_numpy(array.dtype)
    if not array.shape:
        return Array(graph.leaf(array, (), dtype))
    return Array(graph.leaf(array, tuple([extents.variable(n) for n in array.shape]), dtype))


def _from_sequence(obj: Sequence[Any], dtype: Any) -> Array:
    if _holds_arrays(obj):
        functions = _functions()
        return cast(Array, functions.stack([_as_array(x, dtype, None) for x in obj]))
    try:
        values = np.asarray(obj, dtype=None if dtype is None else from_numpy(dtype).numpy)
    except OverflowError:
        raise
    except (ValueError, TypeError) as error:
        raise ShapeError(f"nested lists that are no array: {error}", place=user_place()) from None
    if values.dtype == object:
        raise DTypeError("lists of objects", "lists of numbers", place=user_place())
    return _over(values)


def _holds_arrays(obj: Any) -> bool:
    """Whether lists nest lazy arrays, or sizes of a function being traced."""
    if isinstance(obj, list | tuple):
        return any(map(_holds_arrays, obj))
    return isinstance(obj, Array | Extent)


def node_of(value: Any) -> Node:
    """An operand as a node: arrays of any kind, Python scalars (weak), nested lists."""
    if isinstance(value, Array):
        return value._node
    if isinstance(value, _PYTHON_SCALARS):
        if extents.tracing() or _is_small(value):
            return scalar_node(value)
        weak = scalar_node(value)
        return graph.leaf(value, (), weak.dtype, weak=True)
    if isinstance(value, np.generic | Extent):
        return scalar_node(value)
    return _as_array(value, None, None)._node


def _is_small(value: Any) -> bool:
    """Whether a Python scalar is part of the program, rather than data that may change."""
    if isinstance(value, complex):
        return False
    if isinstance(value, float):
        return (
            value != value
            or value in (np.inf, -np.inf)
            or (abs(value) <= 16 and value * 4 == int(value * 4))
        )
    return -16 <= value <= 16


def _scalar_of(extent: Extent) -> Array:
    return Array(scalar_node(extent))


extents.scalar_of = _scalar_of

# ---------------------------------------------------------------- keys


def _key(key: Any) -> Any:
    """A key with its arrays as nodes, masks as the index arrays that they mean."""
    if not isinstance(key, tuple):
        if isinstance(key, int | slice) and not isinstance(key, bool):
            return key
        key = (key,)
    entries: list[Any] = []
    for entry in key:
        if isinstance(entry, list):
            entry = np.asarray(entry) if entry else np.zeros(0, np.int64)
        if isinstance(entry, np.ndarray | Array) or hasattr(entry, "__dlpack__"):
            node = node_of(entry)
            if isinstance(entry, np.integer) or (not node.shape and isinstance(entry, np.ndarray)
                                                 and node.dtype.is_integer):  # fmt: skip
                entries.append(int(entry))
            elif node.dtype is DType.BOOL:
                entries += _mask_indices(Array(node))
            else:
                entries.append(node)
        else:
            entries.append(entry)
    return tuple(entries)


def _mask_indices(mask: Array) -> list[Any]:
    """The index arrays of a mask: how many elements it selects is known by computing it."""
    if mask._node.abstract:
        raise TracingError(
            "an index that is a mask, in a function being traced: its result's size is unknown",
            "operations that give arrays of known size",
            "wf.where(mask, x, other), or a reduction of it",
            place=user_place(),
        )
    values = mask._implicit("indexing by a mask")
    return [node_of(index) for index in np.nonzero(values)]


def _is_scalar_mask(key: Any) -> bool:
    """Whether a key is a boolean: a new dimension, of one or of none."""
    if isinstance(key, Array | np.ndarray):
        return not key.ndim and key.dtype == np.bool_
    return isinstance(key, bool | np.bool_)


def _put(node: Node, key: Any, value: Any, combine: str | None) -> Node:
    new = node_of(value)
    if _is_scalar_mask(key):
        changed = new if combine is None else apply(combine, node, new)
        changed = layout.broadcast(as_dtype(changed, node.dtype), node.shape)
        return apply("where", node_of(key), changed, node)
    mask = _whole_mask(node, key)
    if mask is not None and not new.shape:
        new = as_dtype(new, node.dtype)
        changed = new if combine is None else as_dtype(apply(combine, node, new), node.dtype)
        while len(mask.shape) < len(node.shape):
            mask = layout.expand(mask, len(mask.shape))
        return apply("where", mask, changed, node)
    return indexing.put(node, _key(key), new, combine)


def _whole_mask(node: Node, key: Any) -> Node | None:
    """A key that is one mask over the first dimensions, which needs no computing."""
    if isinstance(key, tuple):
        if len(key) != 1:
            return None
        (key,) = key
    if not isinstance(key, Array | np.ndarray) or key.dtype != np.bool_ or not key.shape:
        return None
    mask = node_of(key)
    expected = layout.values(node.shape[: len(mask.shape)])
    if layout.values(mask.shape) != expected:
        raise indexing.OutOfBoundsError(
            f"a mask of shape {layout.values(mask.shape)} over an array of shape "
            f"{layout.values(node.shape)}",
            f"a mask of shape {expected}",
            place=user_place(),
        )
    return mask


# ---------------------------------------------------------------- describing, pickling


def describe(node: Node) -> str:
    """Where an array's data comes from."""
    if isinstance(node.operation, graph.Leaf):
        if node.abstract:
            return "an argument of a function being traced"
        text = getattr(node.value, "describe", None)
        return f"from {text()}" if text is not None else "from memory"
    if isinstance(node.operation, graph.Constant):
        return f"the constant {node.operation.const.value}"
    operation = node.operation
    name = getattr(operation, "operation", None) or type(operation).__name__.lower()
    return f"lazy: {name}"


def pickled(node: Node) -> Any:
    """What of an array is pickled: its source, or its values."""
    if isinstance(node.operation, graph.Leaf) and not node.abstract:
        return node.value
    return Array(node).numpy()


def _unpickle(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return _over(value)
    return source_array(value)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _functions() -> Any:
    from weft import functions

    return functions


# ---------------------------------------------------------------- operators


def _operand(value: Any) -> Node | None:
    """The other operand of an operator, or None where Python should ask it instead."""
    if isinstance(value, Array):
        return value._node
    if isinstance(value, (*_PYTHON_SCALARS, np.ndarray, np.generic, Extent, list)):
        return node_of(value)
    if hasattr(value, "__dlpack__"):
        return node_of(value)
    return None


def _install_operators() -> None:
    binary = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
        "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "and": "bitwise_and",
        "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
    }  # fmt: skip
    comparisons = {
        "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
        "eq": "equal", "ne": "not_equal",
    }  # fmt: skip
    for name, operation in binary.items():
        setattr(Array, f"__{name}__", _binary(operation))
        setattr(Array, f"__r{name}__", _reflected(operation))
        setattr(Array, f"__i{name}__", _in_place(operation))
    for name, operation in comparisons.items():
        setattr(Array, f"__{name}__", _binary(operation))
    for name, operation in {
        "neg": "negative",
        "pos": "positive",
        "abs": "abs",
        "invert": "bitwise_invert",
    }.items():
        setattr(Array, f"__{name}__", _unary(operation))
    Array.__matmul__ = lambda self, other: _matmul(self, other)  # type: ignore[method-assign]
    Array.__rmatmul__ = lambda self, other: _matmul(other, self)  # type: ignore[method-assign]


def _binary(operation: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        node = other._node if type(other) is Array else _operand(other)
        return NotImplemented if node is None else Array(apply(operation, self._node, node))

    return method


def _reflected(operation: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        node = _operand(other)
        return NotImplemented if node is None else Array(apply(operation, node, self._node))

    return method


def _in_place(operation: str) -> Any:
    def method(self: Array, other: Any) -> Any:
        node = _operand(other)
        if node is None:
            return NotImplemented
        result = apply(operation, self._node, node)
        if layout.values(result.shape) != layout.values(self._node.shape):
            raise ShapeError(
                f"an in-place {operation} of shape {layout.values(result.shape)} on an array of "
                f"shape {layout.values(self._node.shape)}",
                "an operand that broadcasts to the array",
                place=user_place(),
            )
        if result.dtype is not self._node.dtype and not np.can_cast(
            result.dtype.numpy, self.dtype, "same_kind"
        ):
            raise DTypeError(
                f"an in-place {operation} that gives {result.dtype.numpy} on {self.dtype}",
                f"an operand that keeps {self.dtype}",
                "x = x + y instead of x += y",
                place=user_place(),
            )
        self._node = as_dtype(result, self._node.dtype)
        return self

    return method


def _unary(operation: str) -> Any:
    def method(self: Array) -> Array:
        return Array(apply(operation, self._node))

    return method


def _matmul(left: Any, right: Any) -> Any:
    if _operand(left) is None or _operand(right) is None:
        return NotImplemented
    return _functions().matmul(left, right)


_install_operators()
