"""Arrays of elements that do not matter: a block, and no write."""

from __future__ import annotations

import numpy as np
import pytest

from weft.compiler import compile_segment
from weft.errors import InternalError
from weft.fun.check import check
from weft.fun.interpret import interpret as by_value
from weft.fun.parse import parse
from weft.mem.costs import costs
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.short_circuit import short_circuit

TEXT = """program p(x: {dtype}[n]) sizes n {{
  let e: {dtype}[n] = empty {dtype} (n)
  let k: {dtype}[n - 1] = kernel (i < n - 1) {{ let a: {dtype} = x[i + 1] in a }}
  let u: {dtype}[n] = update e[0 for n - 1] = k
  let w: {dtype}[n] = update u[{last}] = {one}
  in w
}}"""
X = np.arange(5.0)


def test_what_is_overwritten_does_not_matter() -> None:
    program = parse(TEXT.format(dtype="f64", last="n - 1", one="1.0"))
    check(program)
    for memory in (introduce(program), short_circuit(introduce(program))):
        (got,) = by_heap(memory, [X])
        assert got.tolist() == [1, 2, 3, 4, 1]
    assert by_value(program, [X])[0].tolist() == [1, 2, 3, 4, 1]
    assert costs(memory, [X], {}).written_bytes == 8 * X.size


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u64"])
def test_what_is_not_overwritten_shows(dtype: str) -> None:
    one = {"f32": "1.0_f32", "f64": "1.0"}.get(dtype, f"1_{dtype}")
    program = parse(TEXT.format(dtype=dtype, last="0", one=one))
    check(program)
    x = X.astype(program.params[0].type.dtype.numpy)
    (got,) = by_value(program, [x])
    assert got[-1] != x[-1]
    with pytest.raises(InternalError, match="never written"):
        by_heap(introduce(program), [x])


def test_nothing_is_generated_for_it() -> None:
    filled = TEXT.replace("empty {dtype} (n)", "broadcast 0.0 (n)")
    sources = [
        compile_segment(parse(text.format(dtype="f64", last="n - 1", one="1.0")), {}).source
        for text in (TEXT, filled)
    ]
    assert [source.count("static void tile_") for source in sources] == [1, 2]
