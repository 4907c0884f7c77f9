"""Contractions: kernels whose elements each combine a row of something with a column of something.

    kernel (.., i < n, j < m) {
      let s = reduce (; k < l) { let p = multiply(a[i, k], b[k, j]) in p } with add
      in s }

What the reduction's body makes of (i, k) alone is its left side, what it makes of (j, k) alone its
right side: each of their values is used for a whole row, or column, of elements. The tree of the
reduction depends on whether a kernel is one (`weft.lower.register_tiles`), so that passes and
lowering ask the same question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.vector_math import has_vector_math
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, as_poly

NUMBERS = frozenset({DType.F32, DType.F64, DType.I32, DType.I64, DType.U32, DType.U64})
"""What vectors multiply and add."""

INTEGERS = frozenset(dtype for dtype in NUMBERS if dtype.is_integer)
"""Of which no library has products."""

BLOCK = 256
"""Elements of the reduced dimension that are folded from left to right before their fold is
combined with that of the blocks before: the tree of a contraction."""

_FEW = 64  # multiplications of a matrix, of which libraries and tiles take longer to begin


@dataclass(frozen=True, slots=True)
class Side:
    """Statements of the reduction's body that one side takes, and what the joint ones use of it."""

    statements: tuple[fun.Let, ...]
    values: tuple[fun.Var, ...]

    def reads(self) -> list[fun.Index]:
        return [let.expr for let in self.statements if isinstance(let.expr, fun.Index)]

    def apart(self) -> tuple[Side, ...]:
        """The side as several, each with all that its values need: as many as share nothing."""
        parts: list[Side] = []
        for value in self.values:
            own = _needed(self.statements, [value])
            joined = [part for part in parts if set(own) & set(part.statements)]
            values = (*(v for part in joined for v in part.values), value)
            parts = [part for part in parts if part not in joined]
            parts.append(Side(_needed(self.statements, values), values))
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class Contraction:
    """A kernel's one reduction, and its body in parts.

    Attributes
    ----------
    let : fun.Let
        What binds the sum, in the kernel's body or in a branch of it.
    fact : Size or None
        The reduction stands in a branch that is taken where this is >= 0: a half of the plane of
        rows and columns. None where it stands in no branch.
    row, column : fun.Range
        The last two dimensions of the kernel's space.
    left, right : Side
        What does not vary with the column, and what does not vary with the row.
    joint : tuple of fun.Let
        What is left: scalar operations on values of both.
    """

    let: fun.Let
    fact: Size | None
    row: fun.Range
    column: fun.Range
    left: Side
    right: Side
    joint: tuple[fun.Let, ...]

    @property
    def reduce(self) -> fun.Reduce:
        assert isinstance(self.let.expr, fun.Reduce)
        return self.let.expr


def contraction(kernel: fun.Kernel) -> Contraction | None:
    """The kernel's parts where it is a contraction, else None: batches of small ones are none."""
    if len(kernel.space) < 2 or any(r.extent in (ZERO, ONE) for r in kernel.space[-2:]):
        return None
    found = _only_reduction(kernel.body)
    if found is None:
        return None
    let, branch = found
    reduce = let.expr
    assert isinstance(reduce, fun.Reduce)
    if len(kernel.space) > 2 and are_few(r.extent for r in (*kernel.space[-2:], *reduce.space)):
        return None
    own = {r.index.name for r in kernel.space}
    bound = {v.name for inner in walk.statements(kernel.body) for v in inner.pattern} | own
    if not _simple(reduce) or reduce.space[0].extent.variables() & bound:
        return None
    inside = {v.name for inner in reduce.body.statements for v in inner.pattern}
    if (walk.free_names(reduce.body) & bound) - inside - own - {reduce.space[0].index.name}:
        return None
    fact = None if branch is None else half_plane(kernel, branch, let in branch.then.statements)
    if branch is not None and fact is None:
        return None
    return _parts(kernel, let, fact)


def are_few(extents: Iterable[Size]) -> bool:
    """Whether a product of matrices of these rows, columns and terms is written out.

    Of each matrix of a batch, whose elements are then straight-line code.
    """
    known = tuple(extents)
    return all(e.is_constant for e in known) and math.prod(e.constant for e in known) <= _FEW


def is_tiled(found: Contraction) -> bool:
    """Whether it is computed in tiles, of any device: sums of numbers, without calls."""
    reduce = found.reduce
    return reduce.neutral[0].type.dtype in NUMBERS and not has_vector_math(reduce.body)


def by_elements(let: fun.Let, names: Iterable[str]) -> fun.Let:
    """A reduction with kept dimensions, as a kernel over these; `names` of an element's results.

    reduce (i < n; k < l) { .. } => kernel (i < n) { let r = reduce (; k < l) { .. } in r }
    """
    reduce = let.expr
    assert isinstance(reduce, fun.Reduce)
    kept = len(reduce.space) - reduce.reduced
    results = tuple(
        fun.Var(name, fun.Scalar(var.type.dtype))
        for name, var in zip(names, let.pattern, strict=True)
    )
    one = fun.Let(results, replace(reduce, space=reduce.space[kept:]), let.place)
    return replace(let, expr=fun.Kernel(reduce.space[:kept], fun.Body((one,), results)))


def half_plane(kernel: fun.Kernel, branch: fun.If, holds: bool) -> Size | None:
    """What is >= 0 where a condition holds, or does not, moving by 1 with rows and columns."""
    row, column = (r.index.name for r in kernel.space[-2:])
    known = {r.index.name: Poly.var(r.index.name) for r in kernel.space}
    fact: Size | None = None
    for let in kernel.body.statements:
        (var,) = let.pattern[:1]
        match let.expr:
            case fun.SizeValue(size):
                known[var.name] = size.substitute(known)
            case fun.Apply(operation, (left, right)) if var == branch.condition:
                below, above = (_polynomial(atom, known) for atom in (left, right))
                if below is not None and above is not None:
                    fact = _comparison(operation, below, above, holds)
            case _:
                pass
    if fact is None or any(fact.degree(name) > 1 for name in (row, column)):
        return None
    if any(fact.coefficient(name) not in (ZERO, ONE, -ONE) for name in (row, column)):
        return None
    inner = {v.name for let in kernel.body.statements for v in let.pattern}
    return None if fact.variables() & inner else fact


def _polynomial(atom: fun.Atom, known: dict[str, Size]) -> Size | None:
    if isinstance(atom, fun.Const):
        return as_poly(atom.value) if isinstance(atom.value, int) else None
    return known.get(atom.name)


def _comparison(operation: str, left: Size, right: Size, holds: bool) -> Size | None:
    """What is >= 0 where the comparison of integers holds, or where it does not."""
    match (operation, holds):
        case ("less", True) | ("greater_equal", False):
            return right - left - 1
        case ("less", False) | ("greater_equal", True):
            return left - right
        case ("less_equal", True) | ("greater", False):
            return right - left
        case ("less_equal", False) | ("greater", True):
            return left - right - 1
        case _:
            return None


def _simple(reduce: fun.Reduce) -> bool:
    """Whether it folds scalars over one dimension by one operation."""
    if reduce.counter or not reduce.reduced == len(reduce.space) == len(reduce.neutral) == 1:
        return False
    operator = reduce.operator.body
    return (
        len(operator.statements) == 1
        and isinstance(operator.statements[0].expr, fun.Apply)
        and operator.statements[0].expr.arguments == reduce.operator.params
        and operator.results == operator.statements[0].pattern
    )


def _only_reduction(body: fun.Body) -> tuple[fun.Let, fun.If | None] | None:
    """The one statement that is not of scalars alone: the body's own, or a branch's own."""
    found: list[tuple[fun.Let, fun.If | None]] = []
    for let in body.statements:
        match let.expr:
            case fun.Apply() | fun.Cast() | fun.SizeValue() | fun.Index():
                pass
            case fun.Reduce():
                found.append((let, None))
            case fun.If(_, then, otherwise):
                for inner in (*then.statements, *otherwise.statements):
                    if isinstance(inner.expr, fun.Reduce):
                        found.append((inner, let.expr))
                    elif not isinstance(inner.expr, walk.SCALARS):
                        return None
            case _:
                return None
    return found[0] if len(found) == 1 else None


def _parts(kernel: fun.Kernel, let: fun.Let, fact: Size | None) -> Contraction | None:
    assert isinstance(let.expr, fun.Reduce)
    body = let.expr.body
    row, column = kernel.space[-2:]
    varies: dict[str, set[str]] = {r.index.name: {r.index.name} for r in (row, column)}
    joint: list[fun.Let] = []
    for inner in body.statements:
        if not isinstance(inner.expr, walk.SCALARS):
            return None
        along = set[str]().union(*(varies.get(n, ()) for n in walk.used_names(inner.expr)))
        varies |= {var.name: along for var in inner.pattern}
        if len(along) == 2:
            if not isinstance(inner.expr, fun.Apply | fun.Cast):
                return None
            joint.append(inner)
    indices = {*varies.keys() & {row.index.name, column.index.name}, let.expr.space[0].index.name}
    own = {var.name for inner in joint for var in inner.pattern}
    used = {name for inner in joint for name in walk.used_names(inner.expr)} - own
    (result,) = body.results
    if not joint or used & indices or not (isinstance(result, fun.Var) and result.name in own):
        return None
    wanted = [v for inner in body.statements for v in inner.pattern if v.name in used]
    right = _side(body, [v for v in wanted if column.index.name in varies[v.name]])
    left = _side(body, [v for v in wanted if column.index.name not in varies[v.name]])
    if not all(any(varies[v.name] for v in side.values) for side in (left, right)):
        return None
    if not (_reads_along(left, let.expr) and _reads_along(right, let.expr)):
        return None
    return Contraction(let, fact, row, column, left, right, tuple(joint))


def _side(body: fun.Body, values: list[fun.Var]) -> Side:
    """These values, and the statements that they need."""
    return Side(_needed(body.statements, values), tuple(values))


def _needed(statements: Sequence[fun.Let], values: Iterable[fun.Var]) -> tuple[fun.Let, ...]:
    """Those of the statements that make the values."""
    needed = {value.name for value in values}
    found: list[fun.Let] = []
    for let in reversed(statements):
        if needed & {var.name for var in let.pattern}:
            found.append(let)
            needed |= walk.used_names(let.expr)
    return tuple(reversed(found))


def _reads_along(side: Side, reduce: fun.Reduce) -> bool:
    """Whether it reads elements along the reduced dimension, none of them by a boundary rule."""
    name = reduce.space[0].index.name
    reads = side.reads()
    return not any(any(read.boundary) for read in reads) and any(
        name in index.variables() for read in reads for index in read.indices
    )


def instead(body: fun.Body, old: fun.Let, new: tuple[fun.Let, ...]) -> fun.Body:
    """The body with others for one statement (the very one) of its own, or of its branches' own."""
    statements: list[fun.Let] = []
    for let in body.statements:
        if let is old:
            statements += new
        elif isinstance(let.expr, fun.If):
            statements.append(walk.map_let(let, lambda inner: instead(inner, old, new)))
        else:
            statements.append(let)
    return fun.Body(tuple(statements), body.results)
