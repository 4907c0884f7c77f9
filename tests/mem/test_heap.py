"""What the heap interpreter rejects: each wrong program beside a right one that is like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.errors import InternalError
from weft.mem.interpret import interpret
from weft.mem.parse import parse

A = np.arange(1.0, 5.0)


def run(text: str, *arguments: Any) -> Any:
    return interpret(parse(text), arguments or (A,))[0]


def program(body: str, header: str = "", result: str = "f64[n] @ result_0[0; (n : 1)]") -> str:
    """The text of a program of one parameter, to be formatted."""
    return f"""
program test(a : f64[n] @ a[0; (n : 1)])
    sizes n
    {header}
    result {result}
{{{{
    {body}
}}}}
"""


HALF = program(
    """
    let b : f64[n] @ result_0[0; (n : 1)] = kernel (i < {extent}) {{
        let x : f64 = a[i]
        in x
    }}
    in b"""
)


def test_memory_that_was_never_written() -> None:
    assert run(HALF.format(extent="n")).tolist() == A.tolist()
    with pytest.raises(InternalError, match=r"element 3 of block result_0 .* never written"):
        run(HALF.format(extent="n - 1"))


SHIFTED = program(
    """
    let b : f64[n] @ {block}[0; (n : 1)] = kernel (i < n) {{
        let x : f64 = a[i]
        in x
    }}
    let c : f64[n] @ result_0[0; (n : 1)] = kernel (j < n) {{
        let y : f64 = b[{index}]
        in y
    }}
    in c""",
    "block mem 8*n",
)


def test_a_read_of_what_another_iteration_writes() -> None:
    assert run(SHIFTED.format(block="mem", index="n - 1 - j")).tolist() == A[::-1].tolist()
    assert run(SHIFTED.format(block="result_0", index="j")).tolist() == A.tolist()
    with pytest.raises(InternalError, match="iteration 3 writes what iteration 2 reads"):
        run(SHIFTED.format(block="result_0", index="n - 1 - j"))


ONE_READ_BY_ALL = program(
    """
    let b : f64[n] @ {block}[0; (n : 1)] = copy a
    let c : f64[n] @ result_0[0; (n : 1)] = kernel (j < n) {{
        let y : f64 = b[n - 1]
        in y
    }}
    in c""",
    "block mem 8*n",
)


def test_a_write_to_what_all_iterations_read() -> None:
    """Also where the iteration that writes it is the last that reads it."""
    assert run(ONE_READ_BY_ALL.format(block="mem")).tolist() == [4.0] * 4
    with pytest.raises(InternalError, match="iteration 4 writes what iteration 3 reads"):
        run(ONE_READ_BY_ALL.format(block="result_0"))


ONE_ELEMENT = program(
    """
    let b : f64[n] @ mem[0; (n : {stride})] = kernel (i < n) {{
        let x : f64 = a[0]
        in x
    }}
    let c : f64[n] @ result_0[0; (n : 1)] = copy b
    in c""",
    "block mem 8*n",
)


def test_iterations_that_write_one_element() -> None:
    assert run(ONE_ELEMENT.format(stride="1")).tolist() == [1.0] * 4
    with pytest.raises(InternalError, match="iteration 2 writes what iteration 1 writes"):
        run(ONE_ELEMENT.format(stride="0"))


ROWS = """
program test(a : f64[n, n] @ a[0; (n : n); (n : 1)])
    sizes n
    block row 8*n per thread
    result f64[n, n] @ result_0[0; (n : n); (n : 1)]
{{
    let b : f64[n, n] @ result_0[0; (n : n); (n : 1)] = kernel (i < n) {{
        let r : f64[n] @ row[0; (n : 1)] = kernel (j < n) {{
            let x : f64 = a[i, j]
            in x
        }}
        let s : f64[n] @ {place} = kernel (k < n) {{
            let y : f64 = r[{index}]
            in y
        }}
        {result}
    }}
    in b
}}
"""
DIRECT = {"place": "result_0[n*i; (n : 1)]", "result": "in s"}
COPIED = {
    "place": "row[0; (n : 1)]",
    "result": "let t : f64[n] @ result_0[n*i; (n : 1)] = copy s\n in t",
}


def test_iterations_of_an_inner_kernel_in_memory_of_a_thread() -> None:
    a = np.arange(9.0).reshape(3, 3)
    assert run(ROWS.format(index="n - 1 - k", **DIRECT), a).tolist() == a[:, ::-1].tolist()
    assert run(ROWS.format(index="k", **COPIED), a).tolist() == a.tolist()
    with pytest.raises(InternalError, match="what iteration"):
        run(ROWS.format(index="n - 1 - k", **COPIED), a)


def test_iterations_that_share_what_is_not_a_threads() -> None:
    a = np.arange(9.0).reshape(3, 3)
    shared = ROWS.format(index="k", **DIRECT).replace(" per thread", "")
    with pytest.raises(InternalError, match="iteration 2 writes what iteration 1 writes"):
        run(shared, a)


ROUNDS = program(
    """
    let b : f64[n] @ result_0[0; (n : 1)] = copy a
    let c : f64[n] @ result_0[0; (n : 1)] = loop (p : f64[n] @ result_0[0; (n : 1)] = b)
        for t from 0 to n {{
            let x : f64 = p[0]
            let q : f64[n] @ result_0[0; (n : 1)] = update p[t] = x
            in q
        }}
    in c"""
)


def test_rounds_of_a_loop_may_meet() -> None:
    assert run(ROUNDS.format()).tolist() == [1.0] * 4


OUTSIDE = program(
    """
    let b : f64[n] @ mem[{offset}; (n : 1)] = copy a
    let c : f64[n] @ result_0[0; (n : 1)] = copy b
    in c""",
    "block mem 8*n + 8",
)


def test_an_access_outside_a_block() -> None:
    assert run(OUTSIDE.format(offset="1")).tolist() == A.tolist()
    for offset in ("2", "-1"):
        with pytest.raises(InternalError, match="is outside block mem"):
            run(OUTSIDE.format(offset=offset))


VIEW = program(
    """
    let b : f64[n] @ a[{offset}; (n : {stride})] = slice a[n - 1 for n by -1]
    let c : f64[n] @ result_0[0; (n : 1)] = copy b
    in c"""
)


def test_a_view_whose_elements_lie_elsewhere() -> None:
    assert run(VIEW.format(offset="n - 1", stride="-1")).tolist() == A[::-1].tolist()
    with pytest.raises(InternalError, match="a view of"):
        run(VIEW.format(offset="0", stride="1"))


PLACED = program(
    """
    let b : f64[n] @ {place} = kernel (i < n) {{
        let x : f64 = a[i]
        in x
    }}
    in b""",
    "block mem 16*n",
)


def test_a_result_that_is_not_in_its_destination() -> None:
    assert run(PLACED.format(place="result_0[0; (n : 1)]")).tolist() == A.tolist()
    for place in ("mem[0; (n : 1)]", "result_0[n - 1; (n : -1)]"):
        with pytest.raises(InternalError, match="a result is at"):
            run(PLACED.format(place=place))


JOINED = program(
    """
    let b : f64[n] @ result_0[{place}; (n : 1)] = copy a
    let c : f64[2*n] @ result_0[0; (2*n : 1)] = concat 0 (a, b)
    in c""",
    result="f64[2*n] @ result_0[0; (2*n : 1)]",
)


def test_a_copy_that_overwrites_what_it_reads() -> None:
    assert run(JOINED.format(place="n")).tolist() == [*A, *A]
    with pytest.raises(InternalError, match="overwrites elements that it reads"):
        run(JOINED.format(place="n - 1"))


WRITTEN = program(
    """
    let b : f64[n] @ {block}[0; (n : 1)] = broadcast 1.0 (n)
    let c : f64[n] @ result_0[0; (n : 1)] = copy b
    in c""",
    "block mem 8*n",
)


def test_a_parameter_that_is_overwritten() -> None:
    assert run(WRITTEN.format(block="mem")).tolist() == [1.0] * 4
    with pytest.raises(InternalError, match="parameter a is overwritten"):
        run(WRITTEN.format(block="a"))


MIXED = """
program test(a : f64[n] @ a[0; (n : 1)], b : f32[n] @ b[0; (n : 1)])
    sizes n
    block mem 12*n
    result f64[n] @ result_0[0; (n : 1)]
{{
    let c : f32[n] @ mem[{offset}; (n : 1)] = copy b
    let d : f64[n] @ mem[0; (n : 1)] = kernel (i < n) {{
        let x : f32 = c[i]
        let y : f64 = f64(x)
        in y
    }}
    let e : f64[n] @ result_0[0; (n : 1)] = copy d
    in e
}}
"""


def test_elements_of_different_sizes_meet_byte_by_byte() -> None:
    b = A.astype(np.float32)
    assert run(MIXED.format(offset="2*n"), A, b).tolist() == A.tolist()
    with pytest.raises(InternalError, match="iteration 2 reads what iteration 1 writes"):
        run(MIXED.format(offset="0"), A, b)


SCATTERED = program(
    """
    let b : f64[n] @ result_0[0; (n : 1)] = copy a
    let c : f64[n] @ mem[0; (n : 1)] = copy a
    let d : f64[n] @ result_0[0; (n : 1)] = scatter b over (i < n) {{
        let x : f64 = {source}[n - 1 - i]
        in 1, x
    }}
    in d""",
    "block mem 8*n",
)


def test_a_scatter_that_reads_what_it_writes() -> None:
    """Iterations may write one element: the last wins."""
    assert run(SCATTERED.format(source="c")).tolist() == [1.0, 1.0, 3.0, 4.0]
    with pytest.raises(InternalError, match="what iteration"):
        run(SCATTERED.format(source="b"))
