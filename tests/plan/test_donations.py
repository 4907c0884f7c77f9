"""Which arrays the pieces of a program may overwrite."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.fun.parse import parse
from weft.plan.donations import donations, updated
from weft.plan.seams import cut_at_calls

HEAD = "program test(a: f64[n, n], b: f64[n, n])\n sizes n\n{\n"
UPDATE = " let u: f64[n, n] = update a[0, 0] = 1.0\n"
CALL = " let c: f64[n, n] = call matmul (u, b)\n"
AGAIN = " let v: f64[n, n] = update u[0, 0] = 2.0\n"
OF_PRODUCT = " let w: f64[n, n] = update c[0, 0] = 3.0\n"


def of(body: str, **donated: int) -> list[dict[str, int]]:
    program = parse(f"{HEAD}{body}}}")
    return donations(program, cut_at_calls(program), donated)


def test_an_update_of_what_is_given_up() -> None:
    assert of(f"{UPDATE} in u", a=0) == [{"a": 0}]


def test_a_result_over_what_it_is_no_update_of() -> None:
    assert of(f"{UPDATE} in u", b=0) == [{"b": 0}]


def test_nothing_else_is_overwritten() -> None:
    assert of(f"{UPDATE} in u") == [{}]


def test_what_a_later_piece_uses_stays() -> None:
    assert of(f"{UPDATE}{CALL}{AGAIN} in v, c", a=0) == [{"a": 0}, {}, {"u": 0}]
    uses_a = " let k: f64 = a[0, 0]\n let x: f64[n, n] = update c[0, 0] = k\n"
    assert of(f"{UPDATE}{CALL}{uses_a} in x", a=0) == [{}, {}, {"a": 0}]
    assert of(f"{UPDATE}{CALL}{uses_a} in x, u", a=1) == [{}, {}, {"c": 0}]


def test_what_no_window_can_hold() -> None:
    """Other pieces take arrays that are row-major."""
    program = parse(f"{HEAD}{UPDATE}{CALL} in c}}")
    assert donations(program, cut_at_calls(program), {"a": 0}, ("a",)) == [{}, {}]
    program = parse(f"{HEAD}{UPDATE} in u}}")
    assert donations(program, cut_at_calls(program), {"a": 0}, ("a",)) == [{"a": 0}]


FLAT = """program test(a: f64[n, m], b: f64[n, m])
 sizes n, m
{
 let x: f64[n*m] = reshape a (n*m)
 let y: f64[n*m] = kernel (i < n*m) { let s: f64 = x[i] let t: f64 = add(s, 1.0) in t }
 let z: f64[n, m] = reshape y (n, m)
"""


def of_flat(rest: str, donated: dict[str, int], windows: tuple[str, ...] = ()) -> Any:
    program = parse(f"{FLAT}{rest}}}")
    return donations(program, cut_at_calls(program), donated, windows)


def test_what_is_computed_in_another_shape() -> None:
    assert of_flat(" in z", {"a": 0})[0] == {"a": 0}
    assert of_flat(" in z", {"b": 0})[0] == {}  # not a parameter of the piece
    assert of_flat(" in z", {"a": 0}, ("a",))[0] == {}  # a window has one shape
    other = " let w: f64[n, n] = broadcast 1.0 (n, n)\n let c: f64[n, m] = call matmul (w, z)\n"
    assert of_flat(f"{other} in z, c", {"a": 0})[0] == {"a": 0}
    assert of_flat(f"{other} in c, z", {"a": 0})[0] == {}  # `a` is to hold the product
    seen = " let w: f64[m*n, m*n] = broadcast 1.0 (m*n, m*n)\n"
    seen += " let c: f64[m*n] = call matmul (w, x)\n"
    assert of_flat(f"{seen} in z, c", {"a": 0})[0] == {}  # it is needed again, as `x`
    again = " let w: f64[m, m] = broadcast 1.0 (m, m)\n let c: f64[n, m] = call matmul (a, w)\n"
    assert of_flat(f"{again} in z, c", {"a": 0})[0] == {}  # as it is


def test_a_result_of_the_program_stays() -> None:
    assert of(f"{UPDATE}{CALL}{OF_PRODUCT} in c, w", a=0) == [{"a": 0}, {}, {}]


def test_what_a_view_shows_stays() -> None:
    view = " let t: f64[n, n] = permute u (1, 0)\n let d: f64[n, n] = call matmul (t, b)\n"
    assert of(f"{UPDATE}{view} let x: f64[n, n] = update u[0, 0] = 4.0\n in x, d", a=0)[-1] == {}


def test_a_loop_updates_what_it_begins_with() -> None:
    loop = (
        " let l: f64[n, n] = loop (p: f64[n, n] = a) for i from 0 to n {\n"
        "  let q: f64[n, n] = update p[i, i] = 1.0\n  in q }\n in l"
    )
    program = parse(f"{HEAD}{loop}}}")
    (result,) = program.body.results
    assert updated(program.body, result) == "a"
    made = parse(f"{HEAD} let k: f64[n, n] = broadcast 1.0 (n, n)\n in k}}")
    assert updated(made.body, made.body.results[0]) is None


def test_what_holds_one_result_holds_no_other() -> None:
    body = f"{UPDATE} let v: f64[n, n] = call matmul(b, b)\n"
    assert of(f"{body} in v, u", a=1) == [{}, {"a": 0}]
    assert of(f"{body} in v, u", a=0) == [{}, {}]
    assert of(f"{UPDATE}{CALL}{AGAIN} in c, v", a=0) == [{}, {}, {"u": 0}]


def test_an_argument_that_is_overwritten_and_a_changed_copy_of_it() -> None:
    def both(a: Any, b: Any) -> Any:
        changed = a.copy()
        changed[0, 0] = 2.0
        a[:] = b @ b
        return changed

    a, b = np.arange(36.0).reshape(6, 6), np.ones((6, 6))
    expected = both(other := a.copy(), b)
    np.testing.assert_array_equal(wf.kernel(both)(a, b), expected)
    np.testing.assert_array_equal(a, other)


def test_what_a_library_routine_updates() -> None:
    call = " let u: f64[n, n] = call update(a, b, b, 1.0)\n"
    assert of(f"{call} in u", a=0) == [{"a": 0}]
    assert of(f"{call} in u") == [{}]
    assert of(f"{call} in u", b=0) == [{}]
    assert of(f"{call} in u, a", a=1) == [{}]  # `a` is to hold another result
    itself = call.replace("b, b", "a, b")
    assert of(f"{itself} in u", a=0) == [{}]
    made = " let z: f64[n, n] = update b[0, 0] = 1.0\n" + call.replace("(a", "(z")
    assert of(f"{made} in u") == [{}, {"z": 0}]
    seen = " let t: f64[n, n] = permute a (1, 0)\n" + call.replace("b, b", "t, b")
    assert of(f"{seen} in u", a=0)[-1] == {}
