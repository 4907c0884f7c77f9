"""Steps of launches: which kernels may follow a failure, and what a processor has no use for."""

from __future__ import annotations

import numpy as np
import pytest

from weft.compiler import compile_segment
from weft.fun.parse import parse
from weft.plan.launch_counts import count, launched, most_groups
from weft.plan.launches import (
    ON_PROCESSOR,
    PROCESSOR,
    Branch,
    Define,
    Launch,
    Read,
    Repeat,
    Step,
    While,
    kernels_of,
    launched_after,
    on_processors,
)
from weft.sizes import ONE, ZERO, Poly


def launch(name: str, items: Poly = ONE) -> Launch:
    return Launch(name, items, 64, (), ())


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


N, IS = Poly.var("n"), Poly.var(PROCESSOR)
K = Poly.var("k")


@pytest.mark.parametrize(
    ("steps", "some"),
    [
        ([A, launch("b", N), launch("c", 1 - N)], "ab"),
        ([Define("k", 1 - N), launch("a", K), B], "b"),
        ([launch("a", K), B], "ab"),
        ([Repeat("i", ONE, N, (A,)), Repeat("i", ZERO, N, (B,)), Repeat("i", ZERO, K, (C,))], "bc"),
        ([Repeat("i", ZERO, N, (launch("a", Poly.var("i")), launch("b", 1 - N)))], "a"),
        ([Branch("n", (A,), (B,)), Branch("k", (B,), (C,))], "abc"),
        ([Define("k", ZERO), Branch("k", (A,), (B,))], "b"),
        ([Define("k", ZERO), Repeat("i", ZERO, N, (
            Branch("k", (A,), (B,)), Define("k", 1 - K),
        ))], "ab"),
        ([Define("k", ZERO), Repeat("i", ZERO, N, (Define("k", 1 - K),)), launch("a", K)], "a"),
        ([Define("k", ZERO), Repeat("i", ONE, N, (Define("k", 1 - K),)), launch("a", K), B], "b"),
        ([Define("k", ZERO), Branch("m", (Define("k", N),), ()), launch("a", K)], "a"),
        ([Define("k", ZERO), While((Read("k", "<i8", 0, ZERO),), "k", ()), launch("a", K)], "a"),
        ([Define("k", N), Read("k", "<i8", 0, ZERO), launch("a", K - 1)], "a"),
        ([Define("k", ONE), While((Read("k", "<i8", 0, ZERO),), "k", (
            Branch("k", (A,), (B,)), Repeat("k", ZERO, N, (C,)),
        ))], "abc"),
    ],
)  # fmt: skip
def test_what_may_be_launched(steps: list[Step], some: str) -> None:
    """Where n is 1, and nothing else is known."""
    assert launched(steps, {"n": 1}) == set(some)


@pytest.mark.parametrize(
    ("steps", "known"),
    [
        ([A, launch("b", N * (1 - IS)), C], [A, C]),
        ([launch("a", N * IS)], [launch("a", N)]),
        ([Branch(PROCESSOR, (A, launch("b", 1 - IS)), (C,)), B], [A, B]),
        ([Branch("k", (A, launch("b", 1 - IS)), (C,))], [Branch("k", (A,), (C,))]),
        ([Repeat("i", ZERO, N, (launch("b", 1 - IS), A))], [Repeat("i", ZERO, N, (A,))]),
        ([While((launch("b", 1 - IS),), "k", (A,))], [While((), "k", (A,))]),
    ],
)
def test_what_processors_do(steps: list[Step], known: list[Step]) -> None:
    assert on_processors(steps) == known
    assert "b" not in kernels_of(known[:1])


def test_a_processor_is_given_no_forms_of_gpus() -> None:
    program = parse("""program doubled(x: f32[n]) sizes n {
      let y: f32[n] = kernel (i < n) { let a: f32 = x[i] let b: f32 = add(a, a) in b }
      in y
    }""")
    every = compile_segment(program, {}, "", "opencl")
    own = compile_segment(program, {}, ON_PROCESSOR, "opencl")
    assert {"rows0", "vectors1", "batches2"} <= kernels_of(every.steps)
    assert kernels_of(own.steps) < kernels_of(every.steps)
    assert own.source.count("kernel void") == len(kernels_of(own.steps))


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


def test_groups_of_the_largest_launch() -> None:
    """Of one box, or on average over several; of what only running tells nothing is known."""
    n = Poly.var("n")
    steps = (launch("a", n), Repeat("i", ZERO, Poly.var("k"), (launch("b", n + Poly.var("i")),)))
    unknown = (Read("m", "int64", 0, ZERO), launch("c", Poly.var("m")))
    assert most_groups((*steps, *unknown), {"n": 65, "k": 0}) == 2
    assert most_groups(steps, {"n": np.array([64, 640]), "k": 0}) == (1 + 10) / 2
    assert most_groups(steps, {"n": 200, "k": 200}) == 5  # 200 + 100 items
    assert most_groups(unknown, {}) == 0
    assert count((*steps, *unknown), {"n": 200, "k": 3, "i": 0}) == 1 + 3 + 1
    assert count(steps, {"n": 0, "k": 3, "i": 0}) == 0
    assert count(unknown, {"m": 0}) == 1
