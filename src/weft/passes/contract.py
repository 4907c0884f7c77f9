"""contract: products of floats that are added are rounded once, with the sum.

    let p = multiply(a, b)
    let s = add(c, p)        =>  let s = fma(a, b, c)

Quotients by powers of two are products too.

Removes: the rounding of products that sums and differences alone use.
Adds: `fma`, and the negative of a factor or of what is subtracted.
Requires: a fused program, whose kernels have all that one element needs in one body. It stands
    before all that sizes decide, so that boxes and devices round alike.
Ensures: other bits than before, but the same wherever the program runs; none where there are no
    real floats. A product is never rounded more often than it was.

What a product costs decides where it is used more than once: it is contracted only where no use
is left that needs it, since otherwise nothing would be saved but its factors would live longer.
So of a sum of two products one alone is, the second of those that are used once. Operators of
reductions and scans are left, whose tree depends on their form, and so are contractions, which
are folded with fma as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import frexp

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.contractions import contraction

_EXACT = 14  # of two, whose powers up to this one have a reciprocal in all floats


def contract(program: fun.Program) -> fun.Program:
    """The program with its products contracted."""
    body = _Contract(Counter(walk.uses(program.body)), Names.of(program)).body(program.body)
    return program if body is program.body else replace(program, body=body)


class _Contract:
    def __init__(self, uses: Counter[str], names: Names) -> None:
        self.uses = uses
        self.names = names

    def body(self, body: fun.Body) -> fun.Body:
        """The body with its own products contracted, and those in it."""
        products = self.products(body.statements)
        statements: list[fun.Let] = []
        for let in body.statements:
            name = let.pattern[0].name if let.pattern else ""
            if name in products:
                continue
            found = _used(let, products)
            if found is None:
                statements.append(self.inside(let))
            else:
                statements += self.fused(let, found, products[found])
        return walk.with_statements(body, statements)

    def inside(self, let: fun.Let) -> fun.Let:
        """The statement with its bodies done, but for an operator's."""
        expr = let.expr
        if isinstance(expr, fun.Kernel) and contraction(expr) is not None:
            return let
        match expr:
            case fun.Reduce() | fun.Scan() | fun.Scatter():
                body = self.body(expr.body)
                return let if body is expr.body else replace(let, expr=replace(expr, body=body))
            case _:
                return walk.map_let(let, self.body)

    def products(self, statements: Sequence[fun.Let]) -> dict[str, tuple[fun.Atom, fun.Atom]]:
        """The factors of each product of which every use is a sum or a difference here."""
        factors = dict(_products(statements))
        sums = [
            [atom.name for atom in let.expr.arguments
             if isinstance(atom, fun.Var) and atom.name in factors]
            for let in statements
            if isinstance(let.expr, fun.Apply) and let.expr.operation in ("add", "subtract")
        ]  # fmt: skip
        taken = Counter(name for names in sums for name in names)
        found = {name: f for name, f in factors.items() if 0 < taken[name] == self.uses[name]}
        for names in sums:
            if len(names) == 2 and found.keys() >= set(names):
                # let p = a * b; let q = c * d; p + q => fma(c, d, p)
                left, right = names
                del found[left if taken[left] >= taken[right] else right]
        return found

    def fused(
        self, let: fun.Let, product: str, factors: tuple[fun.Atom, fun.Atom]
    ) -> list[fun.Let]:
        """The sum or difference as one operation on these factors."""
        assert isinstance(let.expr, fun.Apply)
        added: list[fun.Let] = []

        def negative(atom: fun.Atom) -> fun.Atom:
            if isinstance(atom, fun.Const):
                return fun.Const(-atom.value, atom.dtype)
            var = fun.Var(self.names.fresh(atom.name), atom.type)
            added.append(fun.Let((var,), fun.Apply("negative", (atom,)), let.place))
            return var

        (a, b), (left, right) = factors, let.expr.arguments
        first = isinstance(left, fun.Var) and left.name == product
        other = right if first else left
        if let.expr.operation == "subtract":
            if first:
                # a * b - c => fma(a, b, -c)
                other = negative(other)
            elif isinstance(b, fun.Const):
                # c - a * 2 => fma(a, -2, c)
                b = negative(b)
            else:
                # c - a * b => fma(-a, b, c)
                a = negative(a)
        return [*added, replace(let, expr=fun.Apply("fma", (a, b, other)))]


def _products(
    statements: Sequence[fun.Let],
) -> Iterator[tuple[str, tuple[fun.Atom, fun.Atom]]]:
    """Products of real floats, by name."""
    for let in statements:
        match let:
            case fun.Let((fun.Var(name, fun.Scalar(dtype)),), fun.Apply(operation, arguments)):
                if dtype.is_float and operation == "multiply":
                    yield name, (arguments[0], arguments[1])
                elif dtype.is_float and operation == "square":
                    yield name, (arguments[0], arguments[0])
                elif dtype.is_float and operation == "divide":
                    reciprocal = _exact_reciprocal(arguments[1])
                    if reciprocal is not None:
                        # x / 4 => x * 0.25
                        yield name, (arguments[0], reciprocal)


def _exact_reciprocal(atom: fun.Atom) -> fun.Const | None:
    """Of a power of two, whose quotients are products of the same bits; None for others."""
    if not isinstance(atom, fun.Const) or isinstance(atom.value, complex):
        return None
    mantissa, exponent = frexp(atom.value)
    if abs(mantissa) != 0.5 or abs(exponent) > _EXACT:
        return None
    return fun.Const(1 / atom.value, atom.dtype)


def _used(let: fun.Let, products: dict[str, tuple[fun.Atom, fun.Atom]]) -> str | None:
    """The product that a sum or difference adds."""
    if isinstance(let.expr, fun.Apply):
        for atom in let.expr.arguments:
            if isinstance(atom, fun.Var) and atom.name in products:
                return atom.name
    return None
