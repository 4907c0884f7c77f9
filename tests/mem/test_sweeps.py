"""Kernels that go along rows or columns write over the array that they read, where they may."""

from __future__ import annotations

import random

import numpy as np
import pytest
from mem.validity import STAGES, fails, forms, is_valid
from programs.random_data import Case
from programs.random_sweeps import generate_sweeps
from slow import examples

from weft.compiler import with_memory
from weft.fun.parse import parse
from weft.mem.nodes import Program
from weft.mem.short_circuit import _ShortCircuit
from weft.passes.defer import defer
from weft.passes.remove_dead import remove_dead


def sweep(
    read: str = "x[i, t, l]", dtype: str = "f64", extent: str = "m", turned: bool = False,
    more: str = "", results: str = "z",
) -> Program:  # fmt: skip
    """Sums along rows of x, from what `read` gives of them, in memory."""
    made = f"let x: {dtype}[n, {extent}, k] = kernel (i_0 < n, j_0 < {extent}, l_0 < k) {{\n"
    made += " let a_1: f64 = a[i_0, 0, l_0] "
    if dtype == "f64":
        made += "let a_2: f64 = add(a_1, 1_f64) in a_2 }\n"
    else:
        made += f"let a_2: {dtype} = {dtype}(a_1) in a_2 }}\n"
    shape = "m, n, k" if turned else "n, m, k"
    if turned:
        read = read.replace("x[i, t,", "x[t, i,")
        made = made.replace("x:", "y:").replace("[n, m, k] =", "[m, n, k] =")
        made = made.replace("i_0 < n, j_0 < m", "j_0 < m, i_0 < n")
        made = made.replace("let y: f64[n", "let y: f64[m") + "let x: f64[m, n, k] = copy y\n"
    value = f"let e_0: {dtype} = {read} let e: f64 = f64(e_0)\n"
    body = f"""program main(a: f64[n, m, k])
  sizes n, m, k
{{
  {made}
  let w: f64[n, m, k] = kernel (i < n) {{
    let o: f64[m, k] = broadcast 2_f64 (m, k)
    let first: f64[k] = kernel (h < k) {{ let c: f64 = a[i, 0, h] in c }}
    let start: f64[m, k] = update o[0, 0 for k] = first
    let p: f64[m, k] = loop (q: f64[m, k] = start) for t from 1 to m {{
      let r: f64[k] = kernel (l < k) {{
        {value}
        let d: f64 = q[t - 1, l]
        let f: f64 = add(e, d) in f }}
      let u: f64[m, k] = update q[t, 0 for k] = r
      in u }}
    in p }}
  {f"let z: f64[{shape}] = permute w (1, 0, 2)" if turned else "let z: f64[n, m, k] = copy w"}
  {more}
  in {results} }}"""
    program = remove_dead(defer(parse(body)))
    values = np.arange(1.0, 61.0).reshape(3, 4, 5)
    is_valid(program, (values,), {"n": 3, "m": 4, "k": 5}, STAGES[-1:])
    return with_memory(program, {}, "no-merge")


def blocks(program: Program) -> list[str]:
    """Why blocks remain that the source takes."""
    return [r.condition for r in program.remarks if " of x" in r.what or " of y" in r.what]


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_overlap_accepts_a_kernel_that_reads_a_row_before_it_writes_there(turned: bool) -> None:
    assert not sweep(turned=turned).blocks



@pytest.mark.parametrize(
    "read",
    ["x[i, t - 1, l]", "x[n - 1 - i, t, l]", "x[i, t, k - 1 - l]", "x[i, 0, l]", "x[0, t, l]"],
    ids=["written before", "other iterations'", "other lanes'", "first", "first row"],
)
def test_overlap_rejects_a_kernel_that_reads_what_is_written_before(read: str) -> None:
    program = sweep(read)
    assert len(program.blocks) == 1
    assert blocks(program) == ["overlap"]


def test_overlap_rejects_a_kernel_over_what_is_read_again() -> None:
    program = sweep(more="let again: f64 = x[0, 0, 0]", results="z, again")
    assert len(program.blocks) == 1
    assert blocks(program) == ["overlap"]


def test_layout_rejects_a_kernel_over_elements_of_another_kind_or_number() -> None:
    assert len(sweep(dtype="f32").blocks) == 1
    assert len(sweep(extent="m + 1").blocks) == 1


# ---------------------------------------------------------------- random sweeps


def holds(case: Case) -> None:
    for program in forms(case.program):
        is_valid(program, case.arguments, case.sizes, STAGES[-1:])


def all_hold(seeds: range) -> None:
    for seed in seeds:
        try:
            holds(generate_sweeps(random.Random(seed)))
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_random_sweeps() -> None:
    all_hold(range(examples(20)))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(20))
def test_thousands_of_random_sweeps(chunk: int) -> None:
    all_hold(range(250 * chunk, 250 * (chunk + 1)))


def test_random_sweeps_find_a_wrong_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were kernels never looked into, some programs would be wrong; some are done in place."""
    cases = [generate_sweeps(random.Random(seed)) for seed in range(30)]
    before = [count(case) for case in cases]
    monkeypatch.setattr(_ShortCircuit, "check_kernel", lambda *_: None)
    assert any(fails(case) for case in cases)
    monkeypatch.undo()
    monkeypatch.setattr("weft.mem.points._on", lambda *_: None)
    assert sum(count(case) > n for case, n in zip(cases, before, strict=True)) >= 3


def count(case: Case) -> int:
    """The blocks of a program's last form."""
    return len(with_memory(forms(case.program)[-1], {}, "no-merge").blocks)
