"""Each rule of the checker refuses a program that breaks it, and names what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from programs.library import EXAMPLES

from weft.errors import InternalError, Place
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.ops.dtypes import DType

HEAD = """program p(a: f64[n, m], b: f64[m], c: i32[n], s: f64, t: i64)
  sizes n, m
"""
BODY = """    let x: f64 = a[i, j]
    in x
"""
ADD = "with (x1: f64, x2: f64) { let x3: f64 = add(x1, x2) in x3 }"


def refused(statements: str, results: str = "s", head: str = HEAD, after: str = "fuse") -> str:
    """The message with which a program is refused."""
    program = parse(f"{head}{{\n  {statements}\n  in {results}\n}}\n")
    with pytest.raises(InternalError) as caught:
        check(program, after)
    return str(caught.value)


CASES = {
    "dtype of an operation": ("let r: f64 = add(s, 1)", "add of float64, int64"),
    "unknown operation": ("let r: f64 = plus(s, s)", "no scalar operation is named 'plus'"),
    "arity of an operation": ("let r: f64 = add(s)", "add of float64"),
    "array operand": ("let r: f64 = exp(b)", "b is an array"),
    "scalar indexed": ("let r: f64 = s[0]", "s is a scalar"),
    "result type": ("let r: f32 = exp(s)", "r has type f32"),
    "number of results": ("let r: f64, q: f64 = exp(s)", "2 names for 1 results"),
    "bound twice": ("let s: f64 = exp(s)", "s is bound twice"),
    "shadowed size": ("let n: i64 = size 3", "n is bound twice"),
    "size not in scope": ("let r: i64 = size n*q", "names q"),
    "float in a size": ("let r: f64 = a[0, s]", "names s"),
    "rank of an index": ("let r: f64 = a[0]", "a has rank 2"),
    "boundary without value": ("let r: f64 = b[0 : constant(0, m)]", "constant with value None"),
    "boundary with value": ("let r: f64 = b[0 : edge(0, m, 1.0)]", "edge with value"),
    "dtype of a boundary": ("let r: f64 = b[0 : constant(0, m, 1)]", "boundary value of i64"),
    "slice rank": ("let r: f64[m] = slice a[0 for m]", "a has rank 2"),
    "slice step": ("let r: f64[m] = slice b[0 for m by 0]", "a slice of step 0"),
    "slice without spans": ("let r: f64 = slice b[0]", "an array of rank 0"),
    "slice shape": ("let r: f64[n] = slice b[0 for m]", "r has type f64[n]"),
    "axes": ("let r: f64[m, n] = permute a (1, 1)", "axes (1, 1)"),
    "reshape": ("let r: f64[n] = reshape a (n)", "a reshape to n elements"),
    "broadcast": ("let r: f64[m, n] = broadcast b (m, n)", "does not broadcast"),
    "concat dtypes": ("let r: f64[n + m] = concat 0 (b, c)", "joined to"),
    "concat extents": ("let r: f64[n, m] = concat 0 (a, b)", "joined to"),
    "concat axis": ("let r: f64[m] = concat 1 (b, b)", "axis 1"),
    "concat sum": ("let r: f64[m] = concat 0 (b, b)", "r has type f64[m]"),
    "update value": ("let r: f64[n, m] = update a[0 for n, 0] = b", "a value"),
    "update dtype": ("let r: f64[m] = update b[0 for m] = 1", "a value"),
    "lmad of rank 2": ("let r: f64[m] = lmad a[0; (m : 1)]", "a has rank 2"),
    "lmad update": ("let r: f64[m] = update_lmad b[0; (n : 1)] = b", "a value"),
    "condition": ("let r: f64 = if t {\n in s } else { in s }", "no boolean"),
    "branches": ("let r: f64 = if True {\n in s } else { in 1 }", "the else branch"),
    "index space": ("let r: f64[n, m] = kernel () {\n in s }", "no dimensions"),
    "kernel shape": (f"let r: f64[m, n] = kernel (i < n, j < m) {{\n{BODY} }}", "r has type"),
    "escaping size": (
        "let r: f64[n, n] = kernel (i < n) { let v: f64[i] = broadcast s (i) in v }",
        "names i",
    ),
    "index out of scope": (
        f"let r: f64[n, m] = kernel (i < n, j < m) {{\n{BODY} }}\n let q: i64 = size i",
        "names i",
    ),
    "variable out of scope": (
        f"let r: f64[n, m] = kernel (i < n, j < m) {{\n{BODY} }}\n let q: f64 = exp(x)",
        "x is not in scope",
    ),
    "extent of its own space": (
        f"let r: f64[n, m] = kernel (i < n, j < i) {{\n{BODY} }}",
        "names i",
    ),
    "no reduced dimension": (
        f"let r: f64[n, m] = reduce (i < n, j < m;) from 0.0 {{\n{BODY} }} {ADD}",
        "0 reduced dimensions of 2",
    ),
    "neutral": (
        f"let r: f64[n] = reduce (i < n; j < m) from 0 {{\n{BODY} }} {ADD}",
        "neutral elements",
    ),
    "operator parameters": (
        f"let r: f64[n] = reduce (i < n; j < m) from 0.0 {{\n{BODY} }} with (x1: f64) {{ in x1 }}",
        "operator parameters",
    ),
    "operator results": (
        f"let r: f64[n, m] = scan (i < n, j < m) from 0.0 {{\n{BODY} }} "
        "with (x1: f64, x2: f64) { in 1 }",
        "operator results",
    ),
    "scan initial": (
        f"let r: f64[n, m] = scan (i < n, j < m) from 0.0, 0.0 {{\n{BODY} }} {ADD}",
        "initial values",
    ),
    "arrays to combine": (
        "let r: f64[m] = reduce (; i < n) from 0.0 { in b } " + ADD,
        "values to combine",
    ),
    "scatter index": ("let r: f64[m] = scatter b over (i < n) { in s, s }", "index and values"),
    "scatter rank": ("let r: f64[n, m] = scatter a over (i < n) { in t, s }", "index and values"),
    "scatter shapes": (
        "let r: f64[m], q: i32[n] = scatter b, c over (i < n) { in t, s, 1_i32 }",
        "destinations of different shapes",
    ),
    "loop initial": ("let r: f64 = loop (y: f64 = 1) for k from 0 to n { in y }", "initial"),
    "loop results": ("let r: f64 = loop (y: f64 = s) for k from 0 to n { in k }", "the loop's"),
    "loop condition": ("let r: f64 = loop (y: f64 = s) while { in y } { in y }", "a condition"),
    "unknown routine": ("let r: f64[m] = call tidy(b)", "tidy"),
    "routine's rule": ("let r: f64[n, n] = call matmul(a, a)", "matmul"),
    "integer constant": ("let r: i8 = i8(300_i8)", "does not fit i8"),
    "float constant": ("let r: i64 = add(1.5_i64, 1)", "is a float"),
}


@pytest.mark.parametrize("rule", CASES)
def test_refuses(rule: str) -> None:
    statements, expected = CASES[rule]
    message = refused(statements)
    assert expected in message
    assert message.startswith("after fuse: ")


def test_shows_the_statement_and_its_place() -> None:
    program = parse(f'{HEAD}{{ let r: f32 = exp(s) @ "here.py":7 in r }}')
    with pytest.raises(InternalError) as caught:
        check(program)
    assert "let r: f32 = exp(s)" in str(caught.value)
    assert caught.value.place == Place("here.py", 7)
    assert str(caught.value).startswith("in p: ")


def test_shows_the_head_of_a_long_statement() -> None:
    many = "\n".join(f"let v{k}: f64 = exp(s)" for k in range(30))
    message = refused(f"let r: f32[n] = kernel (i < n) {{ {many} in v0 }}")
    assert "let v0" in message
    assert "let v25" not in message


def test_wrong_use_types() -> None:
    """A variable is used with the type of its binder."""
    program = parse(f"{HEAD}{{ let r: f64 = exp(s) in r }}")
    (let,) = program.body.statements
    other = fun.Var("s", fun.Scalar(DType.F32))
    wrong = replace(let, expr=fun.Apply("exp", (other,)))
    body = fun.Body((wrong,), program.body.results)
    with pytest.raises(InternalError, match="s used as f32"):
        check(replace(program, body=body))


def test_result_must_be_in_scope() -> None:
    with pytest.raises(InternalError, match="zz is not in scope"):
        check(fun.Program("p", (), fun.Body((), (fun.Var("zz", fun.Scalar(DType.F64)),))))


def test_array_constants_that_are_numpy_scalars_are_refused() -> None:
    value = fun.Const(np.float64(1.0), DType.F64)
    with pytest.raises(InternalError, match="is a float64"):
        check(fun.Program("p", (), fun.Body((), (value,))))


def test_facts_make_shapes_equal() -> None:
    text = """program p(a: f64[n], b: f64[m])
  sizes n, m{}
{{
  let r: f64[n] = kernel (i < n) {{
    let x: f64 = a[i]
    in x
  }}
  let q: f64[n] = concat 0 (b)
  in q
}}
"""
    check(parse(text.format("\n  fact n - m == 0")))
    with pytest.raises(InternalError, match="q has type"):
        check(parse(text.format("")))


def test_parameters_and_derived_sizes_are_in_scope_of_each_other() -> None:
    check(parse("program p(a: f64[h]) sizes n derived h = floordiv(n, 2) { in a }"))
    with pytest.raises(InternalError, match="names q"):
        check(parse("program p(a: f64[h]) sizes n derived h = floordiv(q, 2) { in a }"))
    with pytest.raises(InternalError, match="names q"):
        check(parse("program p(a: f64[q]) sizes n { in a }"))


def test_scalar_parameter_is_a_size() -> None:
    check(parse("program p(a: f64[n], t: i64) sizes n { let x: f64 = a[t + 1] in x }"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_accepts(name: str) -> None:
    check(EXAMPLES[name].program, "nothing")


def test_names_are_bound_once_across_branches() -> None:
    message = refused(
        "let r: f64 = if True { let v: f64 = exp(s) in v } else { let v: f64 = exp(s) in v }"
    )
    assert "v is bound twice" in message
