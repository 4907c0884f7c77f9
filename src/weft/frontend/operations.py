"""The operations of the graph, as plain data without sizes; see `weft.frontend.graph`."""

from __future__ import annotations

from typing import TypeAlias

from weft.fun import nodes as fun
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Leaf:
    """Data: an array, a source, or (while a function is traced) an argument.

    `pattern` has for each dimension 0, 1, or -1 for a size variable; `dtype` is the value's.
    """

    dtype: DType
    pattern: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A scalar that is part of the program; equal only to one of the same bits."""

    const: fun.Const


@dataclass(frozen=True, slots=True)
class SizeScalar:
    """`sizes[0]` as an int64 scalar."""


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a lambda. `index`: it is an index of an index space, or of a loop."""

    name: str
    index: bool = False


@dataclass(frozen=True, slots=True)
class Pick:
    """One result of an operation that has several."""

    number: int


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A scalar operation of the table on inputs of one dtype, broadcast to the shape."""

    operation: str


@dataclass(frozen=True, slots=True)
class Cast:
    dtype: DType


@dataclass(frozen=True, slots=True)
class Iota:
    """At each element its index along one axis; sizes: the shape."""

    axis: int


@dataclass(frozen=True, slots=True)
class Empty:
    """Elements of no value yet; sizes: the shape."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Element:
    """One element of inputs[0] at the scalar indices inputs[1:].

    `boundary` is empty, or has for each dimension a boundary's kind (None: must be inside)
    and the constant outside (None but for "constant").
    """

    boundary: tuple[tuple[fun.BoundaryKind, fun.Const | None] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A dimension of a slice: start and extent are the next two sizes."""

    step: int = 1


@dataclass(frozen=True, slots=True)
class MovingSpan:
    """A dimension of a slice: its start is the next scalar input, its extent the next size."""

    step: int = 1


@dataclass(frozen=True, slots=True)
class Point:
    """A dimension of a slice that is fixed and dropped: its index is the next size."""


@dataclass(frozen=True, slots=True)
class MovingPoint:
    """A dimension that is fixed and dropped: its index is the next scalar input."""


SliceDim: TypeAlias = Span | MovingSpan | Point | MovingPoint


@dataclass(frozen=True, slots=True)
class Slice:
    dims: tuple[SliceDim, ...]


@dataclass(frozen=True, slots=True)
class Permute:
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """To the node's shape; sizes: the same."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """To the node's shape; sizes: the same."""


@dataclass(frozen=True, slots=True)
class LmadSlice:
    """inputs: array, then scalars: offset, and extent and stride of each dimension.

    sizes: the shape, where it can be told.
    """

    rank: int


@dataclass(frozen=True, slots=True)
class Gather:
    """inputs[0] read at index arrays, inputs[1:], of one shape of rank `rank`.

    `axes` are the dimensions that they index; the other dimensions are kept. The result has
    dimensions `before` kept ones, the index arrays', then the other kept ones.
    """

    axes: tuple[int, ...]
    rank: int
    before: int


@dataclass(frozen=True, slots=True)
class Generate:
    """lambdas[0] at every index of the space of extents `sizes`."""

    rank: int


@dataclass(frozen=True, slots=True)
class Reduce:
    """Inputs combined over the axes: k elements (arrays of one shape, or scalars), k neutrals.

    `operator` names a scalar operation (k = 1), or is empty: lambdas[0].
    """

    axes: tuple[int, ...]
    count: int
    operator: str


@dataclass(frozen=True, slots=True)
class Scan:
    """Running combinations along the last axis: k elements, k initial values."""

    count: int
    operator: str
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Scatter:
    """inputs: k destinations, k values, index arrays for the first dimensions.

    Values have the shape of the index arrays, of rank `rank`, then that of the other
    dimensions. `operator` names a scalar operation, or "lambda", or is None: last wins.
    """

    count: int
    rank: int
    operator: str | None


@dataclass(frozen=True, slots=True)
class Concat:
    axis: int


@dataclass(frozen=True, slots=True)
class Update:
    """inputs[0] with inputs[1] in a slice; the slice's scalar inputs follow."""

    dims: tuple[SliceDim, ...]


@dataclass(frozen=True, slots=True)
class LmadUpdate:
    """inputs: array, value, then the scalars of `LmadSlice`."""

    rank: int


@dataclass(frozen=True, slots=True)
class Call:
    """A library routine; sizes: those of the result that no input tells."""

    routine: str
    options: tuple[tuple[str, bool | int | float | str], ...] = ()


@dataclass(frozen=True, slots=True)
class If:
    """lambdas[0] where the scalar inputs[0] holds, else lambdas[1]; they take no parameters."""


@dataclass(frozen=True, slots=True)
class For:
    """From inputs[0] to before inputs[1]; inputs[2:] are what lambdas[0] carries on."""


@dataclass(frozen=True, slots=True)
class While:
    """While lambdas[0] holds of what lambdas[1] carries on; inputs: the initial values."""


Operation: TypeAlias = (
    Leaf | Constant | SizeScalar | Param | Pick
    | Elementwise | Cast | Iota | Empty | Element
    | Slice | Permute | Reshape | Broadcast | LmadSlice
    | Gather | Generate | Reduce | Scan | Scatter | Concat
    | Update | LmadUpdate | Call | If | For | While
)  # fmt: skip
