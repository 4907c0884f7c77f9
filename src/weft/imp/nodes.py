"""IMP: a tiny imperative language over typed memory, from which every dialect is printed.

    program   = "program" name statement*
    statement = "let" var ["=" expr]                    -- declare a scalar
              | var "=" expr                            -- assign
              | pointer "[" expr "]" "=" expr           -- store
              | "view" pointer "=" block "+" expr       -- typed memory inside a block
              | "local" pointer "[" integer "]"         -- a small array of the running thread
              | "shared" pointer "[" integer "]"        -- of the items of a group, on a device
              | "barrier"                               -- among them
              | "choose" pointer "=" expr "?" pointer ["in" "line"] ":" pointer "+" expr
              | "advance" pointer "=" pointer "+" expr
              | "load" integer "of" pointer "[" expr "]" "to" pointer    -- neighbours at once, to
              | "store" integer "of" pointer "to" pointer "[" expr "]"   -- and from a local array
              | "prefetch" pointer "[" expr "]"          -- a hint: read soon
              | "flush" pointer "[" expr "]" "=" pointer "," expr ["first" expr] ["last" expr]
                                                        -- so many elements, past the caches
              | "columns" pointer "[" expr "]" expr "=" integer "of" expr "records"
                "in" pointer "[" expr "]" expr expr     -- by all threads
              | "if" expr block ["else" block]
              | "for" var "from" expr "to" expr ["step" integer] ["simd" [lanes]]
                ["unroll" integer] block
              | "while" expr block | "break"
              | "parallel" tile thread "below" expr ["ordered"] block
              | "poll" | "fail" code index extent | "abandon"
              | "await" pointer index expr | "publish" pointer index expr | "lock" pointer index
              | "atomic" pointer "[" expr "]" operation expr     -- on a device
              | "let" var "=" "ticket" pointer | "let" var "=" "receive" pointer "[" expr "]"
    expr      = constant | var | operation of the scalar table | cast
              | machine arithmetic on int64 | "select" | pointer "[" expr "]"
              | "rounded" expr                          -- before anything is made of it
              | "optimised"

Scalars are variables of a dtype; memory is reached through pointers only. The iterations
of a `simd` loop are independent but for its declared reductions. The body of a `parallel`
statement runs once for each tile, on any thread, and sees the variables around it as they
were when the statement began. Tiles of an `ordered` one begin in increasing order, and may
await what earlier ones publish; others begin in any order. `abandon` leaves the tile (or,
outside of one, the program) at once.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from weft.ops.dtypes import DType
from weft.records import dataclass

# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Const:
    value: bool | int | float | complex
    dtype: DType


@dataclass(frozen=True, slots=True)
class Var:
    """A scalar variable."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation of the table `weft.ops.table`, with that table's meaning."""

    operation: str
    arguments: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion as NumPy's `astype`."""

    dtype: DType
    argument: Expr


MachineOperator: TypeAlias = Literal[
    "+", "-", "*", "/", "%", "min", "max", "<<", ">>", "&", "|",
    "<", "<=", ">", ">=", "==", "!=", "&&", "||",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """Address arithmetic and control: operands of one integer dtype, bools for && and ||.

    Division truncates and its divisor is never 0: what lowering itself can promise.
    """

    operator: MachineOperator
    left: Expr
    right: Expr

    @property
    def dtype(self) -> DType:
        return DType.BOOL if self.operator in _COMPARISONS else self.left.dtype


_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!=", "&&", "||"))


@dataclass(frozen=True, slots=True)
class Select:
    """`then` where the condition holds, else `otherwise`; only the chosen one is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> DType:
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Pointer:
    """Typed memory: elements of a dtype, counted from a base."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    pointer: Pointer
    index: Expr

    @property
    def dtype(self) -> DType:
        return self.pointer.dtype


@dataclass(frozen=True, slots=True)
class Rounded:
    """A float, rounded to its dtype before anything is made of it: it is not contracted."""

    argument: Expr

    @property
    def dtype(self) -> DType:
        return self.argument.dtype


@dataclass(frozen=True, slots=True)
class Optimised:
    """Whether what this program is compiled to is to be the quickest to run.

    If not, it is to be quick to compile: code that is there for speed alone can be left out. The
    compiler knows which (`weft.runtime.tiers`), and a program means the same either way.
    """

    @property
    def dtype(self) -> DType:
        return DType.BOOL


OPTIMISED = Optimised()

Expr: TypeAlias = Const | Var | Apply | Cast | Machine | Select | Load | Rounded | Optimised

ReductionOperator: TypeAlias = Literal["min", "max", "|", "+"]

# ---------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Declare:
    """A new scalar; `mutable` where it is assigned later."""

    var: Var
    value: Expr | None = None
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    pointer: Pointer
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class View:
    """`pointer` to the memory `offset` bytes into a block.

    `block` is an index into the buffers that the program is given; -1 is the workspace.
    `alone`: no other pointer in scope reaches what is written through this one.
    `volatile`: other groups of a device read, while it runs, what is written.
    """

    pointer: Pointer
    block: int
    offset: Expr
    alone: bool = True
    volatile: bool = False


@dataclass(frozen=True, slots=True)
class Local:
    """A small array of the running thread, of a constant extent, uninitialised.

    `far`: it is used so seldom that a GPU's registers are for others.
    """

    pointer: Pointer
    extent: int
    far: bool = False


@dataclass(frozen=True, slots=True)
class Shared:
    """An array that the items of a group on a device have in common; kernels alone have any."""

    pointer: Pointer
    extent: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Every item of the group comes here before any goes on; what they wrote is seen by all."""


@dataclass(frozen=True, slots=True)
class Choose:
    """`pointer` to `near[0]` and on where the condition holds, else to `far[index]` and on.

    `in_line`: into `near` as far from the beginning of a cache line as `far[index]` is.
    """

    pointer: Pointer
    condition: Expr
    near: Pointer
    far: Pointer
    index: Expr
    in_line: bool = False


@dataclass(frozen=True, slots=True)
class Advance:
    """`pointer` to `base[index]`, which may lie outside of its memory, and on."""

    pointer: Pointer
    base: Pointer
    index: Expr


@dataclass(frozen=True, slots=True)
class LoadVector:
    """The first `lanes` elements of a local array: those of `pointer[index]` and on, at once.

    They begin where a vector of so many does: their address is a multiple of their bytes, of
    which there are 2, 4, 8 or 16.
    """

    near: Pointer
    pointer: Pointer
    index: Expr
    lanes: int


@dataclass(frozen=True, slots=True)
class StoreVector:
    """The first `lanes` elements of a local array written to `pointer[index]` and on, at once.

    They begin where a vector of so many does, as those of `LoadVector`.
    """

    pointer: Pointer
    index: Expr
    near: Pointer
    lanes: int


@dataclass(frozen=True, slots=True)
class Flush:
    """`count` elements of a local array, chosen `in_line`, written to `pointer[index]` and on.

    Written by non-temporal stores where the machine has them: the lines are not read
    before, and are not in the cache after. Other threads see them when the tile has ended.
    Blocks that lie one after another go by the same local array: what one leaves of a line
    stays there for the next, so that parts of lines are written where the `first` begins and
    the `last` ends alone. All but the last are a line long, and the array is two longer.
    """

    pointer: Pointer
    index: Expr
    near: Pointer
    count: Expr
    first: Expr = Const(True, DType.BOOL)
    last: Expr = Const(True, DType.BOOL)


@dataclass(frozen=True, slots=True)
class Roots:
    """The first `count` float64s of a local array become their square roots.

    The array has a multiple of 8 elements, of which more may change.
    """

    near: Pointer
    count: Expr


@dataclass(frozen=True, slots=True)
class Columns:
    """`target[at + c * between + r] = source[index + r * apart + c * step]`, by all threads.

    For each of the columns c and records r. Stands outside of parallel statements; no element of
    the one is one of the other.
    """

    target: Pointer
    at: Expr
    between: Expr
    source: Pointer
    index: Expr
    apart: Expr
    step: Expr
    columns: int
    records: Expr


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint that `pointer[index]`, which may lie outside of its memory, is going to be read."""

    pointer: Pointer
    index: Expr


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class For:
    """`var`, an int64 or int32, from lower while below upper, by a positive constant step.

    `reductions` of a simd loop: variables that its iterations combine into. `unroll`: how
    many iterations the compiler should write out; 0: no more than one, even if it would.
    `lanes`: how many iterations of a simd loop run at once; 0 is as many as there may be.
    `in_turn`: where this holds, iterations are better not jammed, because of how memory is read.
    """

    var: Var
    lower: Expr
    upper: Expr
    body: tuple[Stmt, ...]
    step: int = 1
    simd: bool = False
    reductions: tuple[tuple[ReductionOperator, Var], ...] = ()
    unroll: int = 1
    lanes: int = 0
    in_turn: Expr | None = None


@dataclass(frozen=True, slots=True)
class While:
    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Break:
    """Leave the innermost loop."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """The body for every tile below `tiles`; `thread` is below the context's threads."""

    tile: Var
    thread: Var
    tiles: Expr
    body: tuple[Stmt, ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Poll:
    """Abandon if the caller has asked to stop, or something failed."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Record failure `code` (the first one wins) with its index and extent, and abandon.

    An item of a device that others wait for at a barrier `stays`.
    """

    code: int
    index: Expr
    extent: Expr
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until the int64 at pointer[index] is `value`, seeing what was written before."""

    pointer: Pointer
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Publish:
    """Set the int64 at pointer[index], after everything written before it."""

    pointer: Pointer
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Lock:
    """Wait until the int64 at pointer[index] is 0, and set it to 1; `Publish` of 0 unlocks."""

    pointer: Pointer
    index: Expr


@dataclass(frozen=True, slots=True)
class Atomic:
    """pointer[index] = operation(pointer[index], value), whatever other items do meanwhile.

    Of integers of 32 and 64 bits: add, minimum, maximum, bitwise_and, bitwise_or, bitwise_xor.
    """

    operation: str
    pointer: Pointer
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Ticket:
    """`var`, new: the int32 at pointer[0], which is one more for the next group that asks."""

    var: Var
    pointer: Pointer


@dataclass(frozen=True, slots=True)
class Receive:
    """`var`, new: the int32 at pointer[index] once it is not 0, seeing what was written before."""

    var: Var
    pointer: Pointer
    index: Expr


Stmt: TypeAlias = (
    Declare | Assign | Store | View | Local | Shared | Barrier | Choose | Advance | Flush
    | Roots | Columns | Prefetch | LoadVector | StoreVector
    | If | For | While | Break
    | Parallel | Poll | Fail | Await | Publish | Lock | Atomic | Ticket | Receive
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """A program over `buffers` blocks of memory, a workspace, and int64 `integers`."""

    name: str
    buffers: int
    integers: tuple[Var, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a device runs for each of its work items; `item` is the number of the one it runs.

    `blocks`: the memory that it is given, which its views look into. `follows_failures`: whether
    something may have failed before it begins; then it does nothing. `resident`: so many items of
    how many groups a GPU's multiprocessor shall hold at least, where its registers are to be
    shared out so; (0, 0) where that is left to the compiler.
    """

    name: str
    item: Var
    blocks: tuple[int, ...]
    integers: tuple[Var, ...]
    body: tuple[Stmt, ...]
    follows_failures: bool = True
    resident: tuple[int, int] = (0, 0)


def integer(value: int) -> Const:
    return Const(value, DType.I64)


ZERO = integer(0)
ONE = integer(1)


def machine(operator: MachineOperator, left: Expr, right: Expr) -> Expr:
    """`Machine`, with constants folded and neutral operands dropped."""
    if isinstance(left, Const) and isinstance(right, Const):
        folded = _fold(operator, int(left.value.real), int(right.value.real))
        if folded is not None:
            return folded
    match operator:
        case "+":
            if left == ZERO:
                return right
            if right == ZERO:
                return left
        case "-":
            if right == ZERO:
                return left
        case "*":
            if left == ONE:
                return right
            if right == ONE:
                return left
            if left == ZERO or right == ZERO:
                return ZERO
        case "/" | "%":
            if right == ZERO:  # an extent of an empty space, which is never entered
                return ZERO
            if right == ONE:
                return left if operator == "/" else ZERO
        case "min" | "max":
            if left == right:
                return left
    return Machine(operator, left, right)


def _fold(operator: MachineOperator, left: int, right: int) -> Const | None:
    match operator:
        case "+":
            return integer(left + right)
        case "-":
            return integer(left - right)
        case "*":
            return integer(left * right)
        case "/" if left >= 0 and right > 0:
            return integer(left // right)
        case "min":
            return integer(min(left, right))
        case "max":
            return integer(max(left, right))
        case "<":
            return Const(left < right, DType.BOOL)
        case "<=":
            return Const(left <= right, DType.BOOL)
        case ">":
            return Const(left > right, DType.BOOL)
        case ">=":
            return Const(left >= right, DType.BOOL)
        case "==":
            return Const(left == right, DType.BOOL)
        case _:
            return None
