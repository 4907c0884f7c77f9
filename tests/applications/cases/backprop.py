"""Backprop, unit by unit, in float64."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from applications.case import Case, example


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def reference(x: Any, w: Any, v: Any) -> Any:
    w, v = w.astype(np.float64), v.astype(np.float64)
    x = [1.0, *x.tolist()]
    units = w.shape[1]
    h = [1.0] + [sigmoid(sum(x[i] * w[i, j] for i in range(len(x)))) for j in range(units)]
    y = sigmoid(sum(a * b for a, b in zip(h, v, strict=True)))
    dy = y * (1 - y) * (0.1 - y)
    dh = [a * (1 - a) * dy * b for a, b in zip(h, v, strict=True)]
    for k in range(units + 1):
        v[k] += 0.3 * dy * h[k]
    for i in range(len(x)):
        for j in range(units):
            w[i, j] += 0.3 * x[i] * dh[j + 1]
    return w.astype(np.float32), v.astype(np.float32), np.float32(y)


def weights(inputs: int, hidden: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(inputs)
    x = random.random(inputs, np.float32)
    w = random.uniform(-0.3, 0.3, (inputs + 1, hidden)).astype(np.float32)
    return x, w, random.uniform(-0.5, 0.5, hidden + 1).astype(np.float32)


def cases() -> dict[str, Case]:
    train = example("backprop").train
    return {
        "as_published": Case(train, weights(64, 16), reference),
        "odd": Case(train, weights(37, 5), reference),
        "one_input": Case(train, weights(1, 3), reference),
    }
