"""NN: nearest records, some of them equally far."""

from __future__ import annotations

from typing import Any

import numpy as np
from applications.case import Case, example


def nearest(latitude: Any, longitude: Any, k: int) -> Any:
    """The definition, by a stable sort: of equal distances the first record comes first."""
    distances = np.hypot(latitude - np.float32(30), longitude - np.float32(90))
    order = np.argsort(distances, kind="stable")[:k]
    return order, distances[order]


def records(count: int) -> tuple[Any, Any]:
    random = np.random.default_rng(count)
    latitude = random.integers(0, 12, count).astype(np.float32) * 10
    return latitude, random.integers(0, 12, count).astype(np.float32) * 30


def cases() -> dict[str, Case]:
    function = example("nn").nearest
    return {
        "": Case(function, (*records(211), 7), nearest, streams=False),
        "all_of_them": Case(function, (*records(13), 13), nearest, streams=False),
        "one_record": Case(function, (*records(1), 1), nearest, streams=False),
    }
