"""Text: constants keep their bits, errors name line and column, places may be kept."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ArgumentError, Place
from weft.fun import nodes as fun
from weft.fun.parse import Parser, parse
from weft.fun.show import show, show_constant, show_expr, show_let, show_type
from weft.ops.dtypes import DType
from weft.sizes import Poly, parse_poly

DTYPES = st.sampled_from(list(DType))
NUMBERS = st.one_of(st.booleans(), st.integers(-(2**64), 2**64), st.floats(), st.complex_numbers())


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.builds(fun.Const, NUMBERS, DTYPES))
def test_constants_round_trip(constant: fun.Const) -> None:
    again = Parser(show_constant(constant)).atom()
    assert again == constant
    assert isinstance(again, fun.Const)
    assert type(again.value) is type(constant.value)


@pytest.mark.parametrize(
    ("constant", "text"),
    [
        (fun.Const(True, DType.BOOL), "True"),
        (fun.Const(-3, DType.I64), "-3"),
        (fun.Const(3, DType.U8), "3_u8"),
        (fun.Const(0.1, DType.F64), "0.1"),
        (fun.Const(-0.0, DType.F64), "-0.0"),
        (fun.Const(1e-300, DType.F64), "1e-300"),
        (fun.Const(1.5, DType.F32), "1.5_f32"),
        (fun.Const(math.inf, DType.F64), "+inf"),
        (fun.Const(-math.inf, DType.F32), "-inf_f32"),
        (fun.Const(math.nan, DType.F64), "+nan"),
        (fun.Const(complex(-0.0, math.inf), DType.C64), "(-0.0, +inf)_c64"),
    ],
)
def test_constants_as_text(constant: fun.Const, text: str) -> None:
    assert show_constant(constant) == text


monomials = st.lists(st.sampled_from(["n", "m", "box0.lo", "i_1"]), max_size=3)
polys = st.dictionaries(monomials.map(lambda m: tuple(sorted(m))), st.integers(-9, 9)).map(Poly)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(polys)
def test_polynomials_round_trip(poly: Poly) -> None:
    assert Parser(str(poly)).poly() == poly
    assert parse_poly(str(poly)) == poly


def test_places_are_kept_on_request() -> None:
    text = 'program p(a: f64) {\n  let b: f64 = exp(a) @ "a \\"b\\".py":12\n  in b\n}\n'
    program = parse(text)
    assert program.body.statements[0].place == Place('a "b".py', 12)
    assert show(program, places=True).replace("\n{", " {") == text
    assert "@" not in show(program)
    assert parse(show(program)).body.statements[0].place is None


def test_parts_alone() -> None:
    program = parse("program p(a: f64[n]) sizes n { let x: f64 = a[n - 1] in x }")
    (let,) = program.body.statements
    assert show_let(let) == "let x: f64 = a[n - 1]"
    assert show_expr(let.expr) == "a[n - 1]"
    assert show_type(program.params[0].type) == "f64[n]"


def test_comments_and_line_ends_mean_nothing() -> None:
    text = "program p(a: f64) { # a comment\n let\n b: f64 = exp(a)\n\n in b }"
    assert parse(text) == parse("program p(a: f64) { let b: f64 = exp(a) in b }")


def test_words_of_the_language_may_be_names() -> None:
    text = "program p(slice: f64[size], kernel: f64) sizes size { let if: f64 = slice[0] in if }"
    assert show(parse(text)).split() == text.split()


def test_names_that_are_no_words() -> None:
    program = fun.Program("<lambda>", (), fun.Body((), ()))
    assert parse(show(program)) == program


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("program p(a: f65) { in a }", "line 1, column 14: 'f65'", "a dtype"),
        ("program p(a: f64) {\n in b }", "line 2, column 5: 'b'", "a variable in scope"),
        ("program p(a: f64) {\n in a", "line 2, column 6: 'end of text'", "'}'"),
        ("program p(a: f64) { in a } x", "line 1, column 28: 'x'", "the end"),
        ("program p(a: f64) { let b: f64 = ? }", "column 34: '?'", "a token"),
        ("program p(a: f64[n]) { let b: f64 = a[0 : odd(0, n)] in b }", "'odd'", "one of edge"),
        ("program p(a: f64[n]) { let b: f64[n] = permute a (x) in b }", "'x'", "a number"),
    ],
)
def test_errors_name_line_and_column(text: str, place: str, expected: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse(text)
    assert place in caught.value.found
    assert expected in caught.value.expected
