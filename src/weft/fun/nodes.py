"""FUN: a functional language of regular nested data parallelism, in A-normal form.

    program    = "program" name "(" params ")" sizes derived facts body
    body       = "{" let* "in" atoms "}"
    let        = "let" pattern "=" expr
    atom       = var | constant
    expr       = scalar operation | cast | size | index          -- scalars
               | slice | permute | reshape | broadcast | lmad    -- layout changes: views
               | kernel | reduce | scan | scatter                -- data parallelism
               | concat | update | copy | empty                  -- other array expressions
               | if | loop | call

A *scalar* is a variable of type `Scalar`; arrays have rank >= 1. Sizes, indices and
offsets are polynomials (`weft.sizes.Poly`) over size variables, kernel and loop indices
and int64 scalars in scope, so an affine access can be read off a node without looking
at any other statement. What a polynomial cannot express (a gather by data, a division)
is an int64 scalar bound by a statement, and its name is the polynomial's variable.

The meaning is that of the interpreter (`weft.fun.interpret`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from weft.errors import Place
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import Derived, Fact, Size

# ---------------------------------------------------------------- types and atoms


@dataclass(frozen=True, slots=True)
class Scalar:
    """One element."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class Array:
    """An array of rank >= 1."""

    dtype: DType
    shape: tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


Type: TypeAlias = Scalar | Array


@dataclass(frozen=True, slots=True)
class Var:
    """A variable; its name is bound once in a program."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Const:
    """A scalar constant: a Python bool, int, float or complex, of the given dtype."""

    value: bool | int | float | complex
    dtype: DType

    @property
    def type(self) -> Scalar:
        return Scalar(self.dtype)

    # -0.0 == 0.0 and nan != nan, but constants are equal when their bits are.
    def _key(self) -> tuple[str, DType]:
        return repr(self.value), self.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


Atom: TypeAlias = Var | Const

# ---------------------------------------------------------------- scalar expressions


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar operation of the table `weft.ops.table`; operands are already promoted."""

    operation: str
    arguments: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion to a dtype, as NumPy's `astype`."""

    dtype: DType
    argument: Atom


@dataclass(frozen=True, slots=True)
class SizeValue:
    """The value of a size polynomial as an int64 scalar."""

    size: Size


BoundaryKind: TypeAlias = Literal["edge", "reflect", "symmetric", "wrap", "constant"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """What a read gives outside `lower <= index < upper` of one dimension.

    "edge", "reflect", "symmetric" and "wrap" map the index back inside, as `numpy.pad`
    does; "constant" gives `value` (in a corner, that of the last such dimension). The
    limits are in the array's own coordinates: 0 and its extent, except in a window of a
    larger array, where they are where the larger array begins and ends.
    """

    kind: BoundaryKind
    lower: Size
    upper: Size
    value: Const | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """The element of an array at one index for each dimension.

    `boundary` is empty, or holds for each dimension a `Boundary` or None. Where there is
    none, an index outside the array is an error (there are no negative indices).
    """

    array: Var
    indices: tuple[Size, ...]
    boundary: tuple[Boundary | None, ...] = ()


# ---------------------------------------------------------------- layout changes


@dataclass(frozen=True, slots=True)
class Span:
    """A slice of one dimension: the elements start + k * step for 0 <= k < extent."""

    start: Size
    extent: Size
    step: int = 1


@dataclass(frozen=True, slots=True)
class Slice:
    """A view: for each dimension a `Span`, or a polynomial that fixes and drops it."""

    array: Var
    dims: tuple[Span | Size, ...]


@dataclass(frozen=True, slots=True)
class LmadSlice:
    """A view of a rank-1 array: the elements offset + sum of k_d * stride_d."""

    array: Var
    offset: Size
    dims: tuple[tuple[Size, Size], ...]  # (extent, stride)


@dataclass(frozen=True, slots=True)
class Permute:
    """Result dimension d is the argument's dimension axes[d]."""

    array: Var
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements in row-major order with another shape."""

    array: Var
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The argument (a scalar too) repeated to `shape`, dimensions aligned on the right."""

    array: Atom
    shape: tuple[Size, ...]


# ---------------------------------------------------------------- data parallelism


@dataclass(frozen=True, slots=True)
class Range:
    """One dimension of an index space: 0 <= index < extent. `index` is an int64 scalar."""

    index: Var
    extent: Size


@dataclass(frozen=True, slots=True)
class Kernel:
    """For every index of the space, the results of the body.

    Each result is a scalar or an array; the expression gives one array for each, of shape
    space extents + the result's own shape.
    """

    space: tuple[Range, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class Reduce:
    """The results of the body combined over the last `reduced` dimensions of the space.

    The body gives k scalars; `operator` takes 2k (left ones first) and gives k, is
    associative, and has `neutral` on its left and right. One result for each of the k: of
    the shape of the remaining dimensions, or a scalar where none remain. The order of
    combination is a fixed tree over the index space (see `weft.lower.cpu`): left to
    right, never reordered, however the work is spread.
    """

    space: tuple[Range, ...]
    reduced: int
    body: Body
    operator: Lambda
    neutral: tuple[Atom, ...]
    counter: bool = False  # operands are results of aligned subtrees: the binary counter alone


@dataclass(frozen=True, slots=True)
class Scan:
    """Running combinations along the last dimension of the space.

    Body, operator as in `Reduce`; `initial` is combined in first (it need not be
    neutral): a scalar, or an array that has one for each index of the other dimensions.
    Inclusive: result[i] = initial . b[0] . ... . b[i]; exclusive: without b[i].
    """

    space: tuple[Range, ...]
    body: Body
    operator: Lambda
    initial: tuple[Atom, ...]
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class Scatter:
    """The destinations, with values written at indices computed by the body.

    The destinations have one shape of rank r. The body gives r int64 scalars, the index,
    then one scalar for each destination. Without an operator the last index of the space
    (in row-major order) that writes an element wins; with one, values are combined with
    what is there, in the space's order: new = operator(old..., value...). An index
    outside is an error.
    """

    destinations: tuple[Var, ...]
    space: tuple[Range, ...]
    body: Body
    operator: Lambda | None = None


# ---------------------------------------------------------------- other array expressions


@dataclass(frozen=True, slots=True)
class Concat:
    """The arrays joined along an axis."""

    arrays: tuple[Var, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Update:
    """The array with `value` (of the slice's shape, or a scalar) in the slice `dims`."""

    array: Var
    dims: tuple[Span | Size, ...]
    value: Atom


@dataclass(frozen=True, slots=True)
class LmadUpdate:
    """The rank-1 array with `value` at the elements of an LMAD that meets none twice."""

    array: Var
    offset: Size
    dims: tuple[tuple[Size, Size], ...]  # (extent, stride)
    value: Var


@dataclass(frozen=True, slots=True)
class Copy:
    """The same array, in memory of its own, row-major."""

    array: Var


@dataclass(frozen=True, slots=True)
class Empty:
    """An array of elements that do not matter: a program writes one before it reads it."""

    dtype: DType
    shape: tuple[Size, ...]


# ---------------------------------------------------------------- control and calls


@dataclass(frozen=True, slots=True)
class If:
    """One of two bodies; only the one chosen is evaluated (its reads alone must be in bounds)."""

    condition: Atom
    then: Body
    otherwise: Body


@dataclass(frozen=True, slots=True)
class For:
    """index from lower to upper - 1.

    `tiled` asks for several rounds on one tile of the arrays after another, where that is
    found to be the same (`weft.lower.time_tiles`). It promises that of what the loop gives only
    elements with `first <= index < end` in their first dimension are used.
    """

    index: Var
    lower: Size
    upper: Size
    tiled: tuple[Size, Size] | None = None


@dataclass(frozen=True, slots=True)
class While:
    """While the body's one boolean result holds; it sees the loop's parameters."""

    condition: Body


@dataclass(frozen=True, slots=True)
class Loop:
    """Parameters begin as `initial`, and each round become the results of the body.

    The parameters' final values are the results. A `For` of no rounds gives `initial`.
    """

    params: tuple[Var, ...]
    initial: tuple[Atom, ...]
    form: For | While
    body: Body


@dataclass(frozen=True, slots=True)
class Call:
    """A library routine (BLAS, sorting): a seam between compiled segments.

    `routine` is a name of `weft.ops.routines`; `options` are its keyword arguments, given
    as constants; `extents` are those of the results that neither arguments nor options tell.
    The types of the results are those of the let's pattern.
    """

    routine: str
    arguments: tuple[Atom, ...]
    options: tuple[tuple[str, bool | int | float | str], ...] = ()
    extents: tuple[Size, ...] = ()


LayoutExpr: TypeAlias = Slice | LmadSlice | Permute | Reshape | Broadcast
ParallelExpr: TypeAlias = Kernel | Reduce | Scan | Scatter
Expr: TypeAlias = (
    Apply | Cast | SizeValue | Index
    | Slice | LmadSlice | Permute | Reshape | Broadcast
    | Kernel | Reduce | Scan | Scatter
    | Concat | Update | LmadUpdate | Copy | Empty
    | If | Loop | Call
)  # fmt: skip

LAYOUT_CHANGES = (Slice, LmadSlice, Permute, Reshape, Broadcast)  # for isinstance

# ---------------------------------------------------------------- binding forms


@dataclass(frozen=True, slots=True)
class Let:
    """`let pattern = expr`, written by the user at `place`."""

    pattern: tuple[Var, ...]
    expr: Expr
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Body:
    statements: tuple[Let, ...]
    results: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    params: tuple[Var, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program.

    Attributes
    ----------
    params : tuple of Var
        Arrays and scalars. The shape of an array parameter names size variables (or holds
        polynomials of them, or the constants 0 and 1).
    sizes : tuple of str
        The size variables that the caller gives; each is at least 2 unless `facts` or
        arithmetic on it says otherwise (those that begin with "box" or "any" may be 0).
    derived : tuple of Derived
        Sizes computed from them at launch, in order.
    facts : tuple of Fact
        What holds of sizes: the guards under which the program was traced, and what the
        user assumes. The caller checks them before it runs the program.
    """

    name: str
    params: tuple[Var, ...]
    body: Body
    sizes: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def result_types(self) -> tuple[Type, ...]:
        return tuple(result.type for result in self.body.results)
