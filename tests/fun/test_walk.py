"""Visiting and rebuilding: renaming and substitution keep the meaning."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from programs.library import EXAMPLES
from programs.random_programs import Case, assert_agree, programs

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.ops.dtypes import DType
from weft.sizes import Poly, parse_poly

slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
few = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=slow)


def identity() -> walk.Mapper:
    return walk.Mapper(lambda a: a, lambda s: s, lambda b: b, lambda v: v)


def binders(body: fun.Body) -> set[str]:
    names = set()
    for let in walk.statements(body):
        names |= {var.name for var in let.pattern}
        names |= {var.name for var in walk.operands(let.expr)[2]}
    return names


def test_mapping_nothing_changes_nothing() -> None:
    for example in EXAMPLES.values():
        for let in walk.statements(example.program.body):
            assert walk.map_expr(let.expr, identity()) == let.expr
            assert walk.map_bodies(let.expr, lambda body: body) == let.expr


def test_operands_are_those_that_mapping_visits() -> None:
    """`operands` takes short cuts for frequent forms."""
    for example in EXAMPLES.values():
        for let in walk.statements(example.program.body):
            atoms: list[fun.Atom] = []
            sizes: list[Poly] = []
            bound: list[fun.Var] = []
            mapper = walk.Mapper(
                lambda a, to=atoms: to.append(a) or a,  # type: ignore[misc]
                lambda s, to=sizes: to.append(s) or s,  # type: ignore[misc]
                lambda b: b,
                lambda v, to=bound: to.append(v) or v,  # type: ignore[misc]
            )
            walk.map_expr(let.expr, mapper)
            assert walk.operands(let.expr) == (atoms, sizes, bound)


@few
@given(programs())
def test_a_program_is_closed(case: Case) -> None:
    program = case.program
    outer = {param.name for param in program.params} | set(program.sizes)
    assert walk.free_names(program.body) <= outer


@few
@given(programs())
def test_renaming_keeps_the_meaning(case: Case) -> None:
    program = case.program
    renamed = walk.Substitution(fresh=Names.of(program).fresh).body(program.body)
    assert not binders(renamed) & binders(program.body)
    copy = replace(program, body=renamed)
    check(copy)
    results = interpret(copy, case.arguments, case.sizes)
    assert_agree(results, interpret(program, case.arguments, case.sizes), exact=True)


@few
@given(programs())
def test_sizes_replaced_by_their_values_keep_the_meaning(case: Case) -> None:
    program = case.program
    values = {name: Poly.const(value) for name, value in case.sizes.items()}
    known = walk.Substitution(sizes=values)
    params = tuple(map(known.binder, program.params))
    fixed = replace(program, params=params, body=known.body(program.body), sizes=())
    check(fixed)
    results = interpret(fixed, case.arguments)
    assert_agree(results, interpret(program, case.arguments, case.sizes), exact=True)


def test_a_substituted_scalar_is_replaced_in_sizes_and_types() -> None:
    t = fun.Var("t", fun.Scalar(DType.I64))
    a = fun.Var("a", fun.Array(DType.F64, (Poly.var("t"),)))
    read = fun.Index(a, (parse_poly("t - 1"),))
    u = fun.Var("u", fun.Scalar(DType.I64))
    by_variable = walk.Substitution({"t": u}).expr(read)
    assert by_variable == fun.Index(
        fun.Var("a", fun.Array(DType.F64, (Poly.var("u"),))), (parse_poly("u - 1"),)
    )
    by_constant = walk.Substitution({"t": fun.Const(4, DType.I64)}).expr(read)
    assert by_constant == fun.Index(
        fun.Var("a", fun.Array(DType.F64, (Poly.const(4),))), (Poly.const(3),)
    )
    assert walk.Substitution({"x": t}).expr(read) == read


def test_used_names_leaves_out_what_is_bound_inside() -> None:
    (let,) = EXAMPLES["nested_softmax"].program.body.statements
    assert walk.used_names(let.expr) == {"a", "n", "m"}
    (let,) = EXAMPLES["arg_max_of_rows"].program.body.statements
    assert walk.used_names(let.expr) == {"a", "n", "m"}


def test_statements_are_outer_before_inner() -> None:
    program = EXAMPLES["matrix_product"].program
    order = [let.pattern[0].name for let in walk.statements(program.body)]
    assert order == ["r", "t", "v", "w", "p", "z"]
