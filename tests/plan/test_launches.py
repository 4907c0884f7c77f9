"""Which kernels ask whether something has failed: those that something before them can fail."""

from __future__ import annotations

import pytest

from weft.compiler import compile_segment
from weft.fun.parse import parse
from weft.plan.launches import Branch, Launch, Repeat, Step, While, launched_after
from weft.sizes import ONE, ZERO


def launch(name: str) -> Launch:
    return Launch(name, ONE, 64, (), ())


A, B, C = map(launch, "abc")


@pytest.mark.parametrize(
    ("steps", "late"),
    [
        ([A, C], ""),
        ([A, B, C], "c"),
        ([B, A, B], "ab"),
        ([A, Repeat("i", ZERO, ONE, (B, C)), A], "abc"),
        ([While((A,), "k", (B,)), C], "abc"),
        ([While((A,), "k", (C,)), B], ""),
        ([Branch("k", (B,), (C,)), A], "a"),
        ([Branch("k", (B, C), (A,))], "c"),
        ([Repeat("i", ZERO, ONE, (Branch("k", (A, B), (C,)),))], "abc"),
    ],
)
def test_what_is_launched_after_b(steps: list[Step], late: str) -> None:
    assert launched_after(steps, {"b"}) == set(late)


@pytest.mark.parametrize("dialect", ["cuda", "opencl"])
def test_kernels_ask_where_one_before_them_may_have_failed(dialect: str) -> None:
    program = parse("""program chosen(x: f32[n], p: i64[m]) sizes n, m {
      let y: f32[m] = kernel (i < m) {
        let k: i64 = p[i]
        let a: f32 = x[k]
        in a
      }
      let z: f32[m] = kernel (i < m) {
        let a: f32 = y[m - 1 - i]
        in a
      }
      in z
    }""")
    text = compile_segment(program, {}, "", dialect).source
    first, *others = text.split(" void ")[1:]
    assert "failed[0]" not in first
    assert any("return;" in other and "failed[0]" in other for other in others)
