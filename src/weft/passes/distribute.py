"""distribute: contractions of sums of products, each of one value of a row and one of a column.

    reduce (; k < l) { w * (a[i, k] * b[j, k] + b[i, k] * a[j, k]) }
 => reduce (; k < l) { (w * a[i, k]) * b[j, k] + (w * b[i, k]) * a[j, k] }

What scales an element then scales its row's value, once for the whole row, and each product is
added by one fused operation (`weft.lower.accumulation`).

Removes: factors that are the same in all rounds, second factors of a side, and differences, from
    between the two sides of such sums of floats.
Adds: products, and negatives, among the values of the row.
Requires: a checked program.
Ensures: the same values within rounding.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce as fold

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.contractions import Contraction, contraction, instead
from weft.passes.flatten import joined
from weft.passes.terms import Term, terms


def distribute(program: fun.Program) -> fun.Program:
    """The program with the sums of its contractions in that form."""
    names = Names.of(program)

    def body(inner: fun.Body) -> fun.Body:
        return replace(inner, statements=tuple(map(statement, inner.statements)))

    def statement(let: fun.Let) -> fun.Let:
        if not isinstance(let.expr, fun.Kernel):
            return walk.map_let(let, body)
        kernel = joined(let.expr)
        found = contraction(kernel)
        expr = None if found is None else _distributed(kernel, found, names)
        return let if expr is None else replace(let, expr=expr)

    return replace(program, body=body(program.body))


def _distributed(kernel: fun.Kernel, found: Contraction, names: Names) -> fun.Kernel | None:
    """The kernel with its sum in that form; None where it has it, or has none."""
    reduce = found.reduce
    (operator,) = reduce.operator.body.statements
    assert isinstance(operator.expr, fun.Apply)
    if operator.expr.operation != "add" or not reduce.neutral[0].type.dtype.is_float:
        return None
    made = terms(found, {v.name for side in (found.left, found.right) for v in side.values})
    if made is None or all(_is_plain(term) for term in made):
        return None
    joint = {v.name for let in found.joint for v in let.pattern}
    builder = Builder(names)
    builder.place = found.let.place
    kept = [let for let in reduce.body.statements if let.pattern[0].name not in joint]
    builder.statements += kept
    products = [
        _apply(builder, "multiply", _row(builder, term), _product(builder, term.right))
        for term in made
    ]
    total = fold(lambda left, right: _apply(builder, "add", left, right), products)
    sum_ = replace(reduce, body=builder.body((total,)))
    return replace(kernel, body=instead(kernel.body, found.let, (replace(found.let, expr=sum_),)))


def _is_plain(term: Term) -> bool:
    return not (term.scalars or term.negative) and len(term.left) == len(term.right) == 1


def _row(builder: Builder, term: Term) -> fun.Atom:
    """What the row gives to a term, with all that is the same in every round."""
    value = _product(builder, (*term.scalars, *term.left))
    return _apply(builder, "negative", value) if term.negative else value


def _product(builder: Builder, factors: tuple[fun.Atom, ...]) -> fun.Atom:
    return fold(lambda left, right: _apply(builder, "multiply", left, right), factors)


def _apply(builder: Builder, operation: str, *operands: fun.Atom) -> fun.Atom:
    return builder.let(fun.Apply(operation, operands), fun.Scalar(operands[0].type.dtype))
