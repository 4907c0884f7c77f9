"""The lazy array of the user's side."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft import execute
from weft.array.methods import Methods
from weft.config import settings
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    ImplicitComputeError,
    ShapeError,
    TracingError,
    user_place,
    warn,
)
from weft.frontend import extent as extents
from weft.frontend import layout, operations
from weft.frontend.elementwise import apply
from weft.frontend.extent import Dimension
from weft.frontend.graph import Node
from weft.frontend.guards import tracing

if TYPE_CHECKING:
    from types import ModuleType

    from weft.array.at import At


class NotAScalarError(ShapeError, TypeError):
    """NumPy raises ValueError for bool() and TypeError for float(): this is both."""


class Array(Methods):
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
        if tracing():
            return tuple([e.value if e.is_constant else e for e in shape])
        return tuple([e.value for e in shape])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, as NumPy's."""
        return self._node.dtype.numpy

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._node.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        total = extents.product(self._node.shape)
        return total if tracing() and not total.is_constant else total.value

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._node.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes that the values take, once computed."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """Where lazy arrays are, as the standard asks: "cpu"."""
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
        from weft import functions

        return functions.matrix_transpose(self)

    @property
    def real(self) -> Array:
        """Real parts; what is real as it is."""
        return self if self._node.dtype.is_float else Array(apply("real", self._node))

    @property
    def imag(self) -> Array:
        """Imaginary parts, which are zeros of what is real."""
        from weft import functions

        return functions.imag(self)

    @property
    def at(self) -> At:
        """Functional updates: `x.at[key].set(v)`, `.add`, `.multiply`, `.min`, `.max`."""
        from weft.array.at import At

        return At(self)

    # ------------------------------------------------------------ values

    def numpy(self) -> npt.NDArray[Any]:
        """Compute: the values as a NumPy array that shares memory with nothing else."""
        self._require_values("a NumPy array is asked for")
        values: npt.NDArray[Any] = execute.compute([self._node])[0]
        return values

    def compute(self) -> npt.NDArray[Any]:
        """The same as `numpy()`."""
        return self.numpy()

    def persist(self, device: str | None = None) -> Array:
        """Compute once, and keep the values, in the host's memory: later expressions start there.

        Raises
        ------
        ArgumentError
            For any other device than "cpu".
        """
        self.to_device("cpu" if device is None else device)
        self._require_values("values are to be kept")
        return Array(execute.persist([self._node])[0])

    def _require_values(self, what: str) -> None:
        if self._node.abstract and not tracing():
            raise TracingError(
                f"{what}, but this one was made in a function that was traced, or such a function "
                "has written to it: it has no values outside of that function",
                "what the function returns",
                "write to a copy within the function, x.copy(), and return it",
                place=user_place(),
            )
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
        self._allow_implicit(what)
        values: npt.NDArray[Any] = execute.compute([self._node])[0]
        return values

    def _allow_implicit(self, what: str) -> None:
        """Warn, or raise, where `implicit_compute` asks for it."""
        self._require_values(f"{what} of an array is asked for")
        rule = settings().implicit_compute
        if rule == "raise":
            raise ImplicitComputeError(
                f"{what} of a lazy array would compute it",
                advice="x.numpy(), or wf.config(implicit_compute='allow')",
                place=user_place(),
            )
        if rule == "warn":
            warn(f"{what} computes a lazy array")

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
        """Compute: nested lists of Python scalars."""
        return self._implicit("tolist()").tolist()

    def _scalar(self, what: str) -> Any:
        if self._node.shape and layout.values(self._node.shape) != (1,) * self.ndim:
            raise NotAScalarError(
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

    def __format__(self, specification: str) -> str:
        return format(self._scalar("format()"), specification) if specification else str(self)

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._scalar("round()").item(), digits)

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
        shape = ", ".join(map(repr, node.shape)) + ("," if node.rank == 1 else "")
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
        found: Array = _access().get(self, key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self._node = _access().put(self._node, key, value, None)

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
        """The array as another object: what is written to one is not seen in the other."""
        return Array(self._node)

    def __reduce__(self) -> Any:
        from weft.array import making

        return making.over_data, (making.data_of(self._node),)

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


def describe(node: Node) -> str:
    """Where an array's data comes from."""
    if isinstance(node.operation, operations.Leaf):
        if node.abstract:
            return "an argument of a function being traced"
        text = getattr(node.value, "describe", None)
        return f"from {text()}" if text is not None else "from memory"
    if isinstance(node.operation, operations.Constant):
        return f"the constant {node.operation.const.value}"
    operation = node.operation
    name = getattr(operation, "operation", None) or type(operation).__name__.lower()
    return f"lazy: {name}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _access() -> Any:
    from weft.array import access

    return access
