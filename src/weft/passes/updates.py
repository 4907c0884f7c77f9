"""updates: kernels that add a product to a matrix, in whole or in a triangle, by the library.

    let s = call matmul(a, permute a (1, 0))
    let y = kernel (i < n, j < n) {
      let w = if j <= i { let r = alpha * s[i, j] + beta * x[i, j] in r } else { x[i, j] }
      in w }
 => let y = call update(x, a, permute a (1, 0), alpha, beta, part="lower")

Removes: products that such a kernel alone reads, and the kernel.
Adds: calls of the library's `update` (BLAS's gemm, syrk and syr2k), where the matrix may be
    overwritten: the result of `weft.plan.donations` is that they are done in its memory.
Requires: a fused program, whose matrices are still matrices (before `weft.passes.collapse`).
Ensures: the same values within rounding. A triangle is left as it is where the library would
    compute the whole square: where its product is neither of a matrix and its own transpose
    nor added to its own transpose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.contractions import half_plane
from weft.ops.dtypes import DType
from weft.passes.knowledge import Knowledge
from weft.passes.remove_dead import remove_dead
from weft.passes.versions import bound_in
from weft.records import dataclass
from weft.sizes import Poly, Size

Leaf: TypeAlias = tuple[str, bool]
"""An array's element at row and column, or (True) at column and row."""

Sum: TypeAlias = dict[Leaf, tuple[int, fun.Atom | None]]
"""Elements, each with a sign and at most one factor."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """What a kernel computes in a part of a matrix ("all", "lower", "upper"), and elsewhere."""

    part: str
    inside: Sum
    elsewhere: Sum | None


def updates(program: fun.Program, donated: Collection[str] = ()) -> fun.Program:
    """The program with updates by products as library calls.

    Parameters
    ----------
    program : fun.Program
    donated : collection of str
        The parameters that may be overwritten.
    """
    finder = _Updates(program, donated)
    made = [finder.call(let) or let for let in program.body.statements]
    if made == list(program.body.statements):
        return program
    return remove_dead(replace(program, body=fun.Body(tuple(made), program.body.results)))


class _Updates:
    def __init__(self, program: fun.Program, donated: Collection[str]) -> None:
        self.bound = bound_in(program.body)
        self.known = Knowledge.of(program)
        self.uses: dict[str, int] = {}
        for let in program.body.statements:
            for name in walk.used_names(let.expr):
                self.uses[name] = self.uses.get(name, 0) + 1
        for atom in program.body.results:
            if isinstance(atom, fun.Var):
                self.uses[atom.name] = 2
        made = [var for let in program.body.statements for var in let.pattern]
        self.arrays = {var.name: var for var in (*program.params, *made)}
        self.kept = {param.name for param in program.params} - set(donated)

    def call(self, let: fun.Let) -> fun.Let | None:
        """A statement as a library call; None where it is no update by a product."""
        kernel = let.expr
        if not isinstance(kernel, fun.Kernel) or len(kernel.space) != 2 or len(let.pattern) != 1:
            return None
        if let.pattern[0].type.dtype not in (DType.F32, DType.F64):
            return None
        rows, columns = (r.extent for r in kernel.space)
        for branch in _branches(kernel):
            product = self._product(branch.inside)
            if product is None or not (branch.part == "all" or self.known.equal(rows, columns)):
                continue
            call = self._update(branch, product, let.pattern[0])
            if call is not None:
                return replace(let, expr=call)
        return None

    def _product(self, sum_: Sum) -> fun.Let | None:
        """The one product that a sum has elements of, and nothing else."""
        made = {name: self.bound.get(name) for name, _ in sum_}
        found = [let for let in made.values() if let is not None and _is_product(let)]
        return found[0] if len(found) == 1 and self.uses[found[0].pattern[0].name] == 1 else None

    def _update(self, branch: _Branch, product: fun.Let, result: fun.Var) -> fun.Call | None:
        """The call that makes a result of a product."""
        name = product.pattern[0].name
        rest = {leaf: term for leaf, term in branch.inside.items() if leaf[0] != name}
        added, mirrored = branch.inside.get((name, False)), branch.inside.get((name, True))
        alpha = None if added is None else _scalar(added, result.type.dtype)
        assert isinstance(product.expr, fun.Call)
        left, right = product.expr.arguments
        if alpha is None or not (isinstance(left, fun.Var) and isinstance(right, fun.Var)):
            return None
        if branch.part == "all":
            fits = mirrored is None and bool(rest)
        elif mirrored is None:
            fits = self._are_mirrored(left, right)
        else:
            fits = mirrored == added
        old = self._old(rest, branch.elsewhere, result) if fits else None
        if old is None or old in (left, right):
            return None
        factors = [alpha, *(_scalar(term, result.type.dtype) for term in rest.values())]
        known = [factor for factor in factors if factor is not None]
        options = (("part", branch.part), ("twice", mirrored is not None))
        if len(known) != len(factors):
            return None
        return fun.Call("update", (old, left, right, *known), options)

    def _made(self, name: str) -> fun.Expr | None:
        let = self.bound.get(name)
        return None if let is None else let.expr

    def _old(self, rest: Sum, elsewhere: Sum | None, result: fun.Var) -> fun.Var | None:
        """The matrix that is updated: what dies there, and is kept beside the triangle."""
        leaves = {*rest, *(elsewhere or ())}
        if len(leaves) != 1:
            return None
        ((name, turned),) = leaves
        if turned or (elsewhere is not None and elsewhere != {(name, False): (1, None)}):
            return None
        if name in self.kept or self.uses[name] > 1 or _is_view(self._made(name)):
            return None
        old = self.arrays[name]
        return old if old.type == result.type else None

    def _are_mirrored(self, left: fun.Var, right: fun.Var) -> bool:
        """Whether one matrix is the other's transpose."""
        one, other = self._part_of(left), self._part_of(right)
        if one is None or other is None or one[0] != other[0]:
            return False
        pairs = zip(one[1], other[1][::-1], strict=True)
        return one[2] != other[2] and all(self.known.equal(a, b) for a, b in pairs)

    def _part_of(self, matrix: fun.Var) -> tuple[str, tuple[Size, ...], bool] | None:
        """The matrix of which one is the first rows and columns, its shape, whether transposed."""
        assert isinstance(matrix.type, fun.Array)
        shape, transposed, name = matrix.type.shape, False, matrix.name
        while _is_view(view := self._made(name)):
            match view:
                case fun.Permute(array, (1, 0)):
                    transposed = not transposed
                case fun.Slice(array, dims) if all(
                    isinstance(dim, fun.Span) and dim.start == 0 and dim.step == 1 for dim in dims
                ):
                    pass
                case _:
                    return None
            name = array.name
        return name, shape, transposed


def _is_view(expr: fun.Expr | None) -> bool:
    return isinstance(expr, fun.LAYOUT_CHANGES)


def _is_product(let: fun.Let) -> bool:
    return isinstance(let.expr, fun.Call) and let.expr.routine == "matmul"


def _branches(kernel: fun.Kernel) -> Iterator[_Branch]:
    """A kernel's sums, as each of its branches may be the one that holds a product."""
    if not kernel.body.statements:
        return
    last = kernel.body.statements[-1]
    if not isinstance(last.expr, fun.If):
        sum_ = _Sums(kernel, kernel.body).of(kernel.body.results[0])
        if sum_ is not None:
            yield _Branch("all", sum_, None)
        return
    bodies = last.expr.then, last.expr.otherwise
    then, otherwise = (_Sums(kernel, body).of(body.results[0]) for body in bodies)
    if kernel.body.results != last.pattern or then is None or otherwise is None:
        return
    row, column = (Poly.var(r.index.name) for r in kernel.space)
    for holds, inside, elsewhere in ((True, then, otherwise), (False, otherwise, then)):
        fact = half_plane(kernel, last.expr, holds)
        if fact == row - column:
            yield _Branch("lower", inside, elsewhere)
        elif fact == column - row:
            yield _Branch("upper", inside, elsewhere)


class _Sums:
    """Sums of elements of arrays with factors that are the same everywhere."""

    def __init__(self, kernel: fun.Kernel, body: fun.Body) -> None:
        self.at = tuple(Poly.var(r.index.name) for r in kernel.space)
        self.bound: Mapping[str, fun.Let] = {**bound_in(kernel.body), **bound_in(body)}
        self.own = {r.index.name for r in kernel.space} | set(self.bound)

    def of(self, atom: fun.Atom) -> Sum | None:
        """A value as such a sum."""
        let = self.bound.get(atom.name) if isinstance(atom, fun.Var) else None
        if let is None:
            return None
        match let.expr:
            case fun.Index(array, indices, boundary) if not any(boundary or ()):
                if indices == self.at:
                    return {(array.name, False): (1, None)}
                return {(array.name, True): (1, None)} if indices == self.at[::-1] else None
            case fun.Apply("negative", (operand,)):
                return _negated(self.of(operand))
            case fun.Apply("add", (left, right)):
                if _is_zero(left):
                    return self.of(right)
                return self.of(left) if _is_zero(right) else _joined(self.of(left), self.of(right))
            case fun.Apply("subtract", (left, right)):
                return _joined(self.of(left), _negated(self.of(right)))
            case fun.Apply("multiply", (left, right)):
                if self._is_factor(left):
                    return _scaled(left, self.of(right))
                return _scaled(right, self.of(left)) if self._is_factor(right) else None
            case _:
                return None

    def _is_factor(self, atom: fun.Atom) -> bool:
        return isinstance(atom, fun.Const) or atom.name not in self.own


def _is_zero(atom: fun.Atom) -> bool:
    return isinstance(atom, fun.Const) and atom.value == 0


def _negated(sum_: Sum | None) -> Sum | None:
    return None if sum_ is None else {leaf: (-sign, f) for leaf, (sign, f) in sum_.items()}


def _joined(left: Sum | None, right: Sum | None) -> Sum | None:
    if left is None or right is None or left.keys() & right.keys():
        return None
    return {**left, **right}


def _scaled(factor: fun.Atom, sum_: Sum | None) -> Sum | None:
    if sum_ is None or any(own is not None for _, own in sum_.values()):
        return None
    return {leaf: (sign, factor) for leaf, (sign, _) in sum_.items()}


def _scalar(term: tuple[int, fun.Atom | None], dtype: DType) -> fun.Atom | None:
    """A sign and a factor as one number; None where that is to be computed first."""
    sign, factor = term
    if factor is None:
        return fun.Const(float(sign), dtype)
    if isinstance(factor, fun.Const):
        return fun.Const(sign * factor.value, dtype)
    return factor if sign > 0 and factor.type == fun.Scalar(dtype) else None
