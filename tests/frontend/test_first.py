"""First elements of expressions: computed from the first elements of their data."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.array import Array, node_of
from weft.frontend.first import first_elements

DATA = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_elementwise_expressions_are_made_of_slices(axes: tuple[int, ...]) -> None:
    x, row = wf.asarray(DATA), wf.asarray(DATA[0])
    first = first_elements(node_of(wf.exp(x) * row + 1), axes)
    assert first is not None
    key = tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(2))
    assert np.allclose(Array(first).numpy(), (np.exp(DATA) * DATA[0] + 1)[key])


def test_what_is_not_elementwise_has_none() -> None:
    x = wf.asarray(DATA)
    assert first_elements(node_of(x - wf.cumulative_sum(x, axis=0)), (0,)) is None


def test_the_expression_is_not_kept_for_its_first_element() -> None:
    spread = wf.jit(lambda x, y: wf.std(wf.exp(x) + y, axis=0))
    text = spread.lower(DATA, DATA[0]).fun
    assert "f64[n0, n1] = " not in text
