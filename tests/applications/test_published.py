"""Whole published data sets give the published results."""

from __future__ import annotations

import numpy as np
import pytest
from applications.case import example
from applications.cases.nn import nearest

LOCVOLCALIB = """
0.0300001 0.0290001 0.0280001 0.0270001 0.026 0.0251064 0.0247889 0.0244714
0.0241539 0.0238364 0.0235189 0.0232014 0.0228839 0.0225664 0.0222744 0.02199
"""


@pytest.mark.parametrize("name", ["small", "medium"])
def test_option_pricing(name: str) -> None:
    program = example("option_pricing")
    arguments, expected = program.load(name)
    assert program.price(**arguments) == pytest.approx(expected, rel=1e-10)


def test_locvolcalib() -> None:
    """FinPar's figures are of float32 grids: five digits of them hold."""
    published = np.array(LOCVOLCALIB.split(), float)
    np.testing.assert_allclose(example("locvolcalib").main(), published, rtol=6e-5)


def test_nn() -> None:
    records = np.load(example("nn").DATA)
    indices, distances = example("nn").main(k=100)
    order, expected = nearest(records["latitude"], records["longitude"], 100)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_allclose(distances, expected, rtol=1e-6)
