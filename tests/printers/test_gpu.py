"""Printed kernels of devices: what their printer itself decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from weft.imp import nodes as imp
from weft.ops.dtypes import DType
from weft.printers import cuda, opencl


@pytest.mark.parametrize("text_of", [opencl.print_kernels, cuda.print_kernels])
@pytest.mark.parametrize("fails", [False, True])
def test_kernels_that_cannot_fail_do_not_ask_whether_something_has(
    text_of: Callable[[Sequence[imp.Kernel]], str], fails: bool
) -> None:
    item, index = imp.Var("item", DType.I64), imp.Var("k", DType.I64)
    failure = (imp.Fail(1, index, item),) if fails else ()
    rounds = imp.For(index, imp.ZERO, item, (imp.Poll(), *failure))
    text = text_of([imp.Kernel("rounds", item, (), (), (rounds,))])
    before, loop, inside = text.partition("for (")
    assert loop
    assert ")failed) return;" not in before
    assert (")failed) return;" in inside) == fails
