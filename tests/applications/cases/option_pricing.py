"""OptionPricing: the three contracts on few paths."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from applications.case import Case, example


def price(
    contract: int, paths: int, directions: Any, bridge: Any, market: Any, rates: Any
) -> Any:  # fmt: skip
    """The definition, path by path; the normal distribution is the standard library's."""
    correlation, volatility, drift, start = market
    deterministic, discount = rates
    quantile = NormalDist().inv_cdf
    total = 0.0
    for i in range(1, paths + 1):
        gray, numbers = i ^ (i >> 1), np.zeros(len(directions), np.int64)
        for bit in range(30):
            if gray >> bit & 1:
                numbers ^= directions[:, bit]
        noise = np.array([quantile(x / 2**30) for x in numbers.tolist()]).reshape(volatility.shape)
        motion = np.zeros((len(noise) + 1, noise.shape[1]))
        for k, (at, left, right, deviation, lw, rw) in enumerate(zip(*bridge, strict=True)):
            motion[at] = rw * motion[right] + deviation * noise[k]
            if left > 0:
                motion[at] += lw * motion[left]
        steps = np.diff(motion, axis=0) @ np.tril(correlation).T
        values = start * np.cumprod(np.exp(volatility * steps + drift), axis=0)
        total += PAYOFFS[contract](values, deterministic, discount)
    return np.float64(total / paths)


def european(s: Any, deterministic: Any, discount: Any) -> float:
    return float(max(s[0, 0] - 4000, 0) * deterministic[0] * discount[0])


def worst_off(s: Any, deterministic: Any, discount: Any) -> float:
    m = (s / (3758.05, 11840, 1200)).min(axis=1)
    for date, worst in enumerate(m):
        if worst >= 1:
            return float((1150, 1300, 1450, 1600, 1750)[date] * discount[date])
    return float((1000 if m[-1] > 0.75 else 1000 * m[-1]) * discount[-1])


def barrier(s: Any, deterministic: Any, discount: Any) -> float:
    m = (s / (3758.05, 11840, 1200)).min(axis=1)[-1]
    low = (s <= (2630.635, 8288, 840)).any() and m < 1
    return float(100 * discount[0] + (1000 * m if low else 1000) * discount[1])


PAYOFFS = {1: european, 2: worst_off, 3: barrier}


ARGUMENTS = ("contract", "paths", "directions", "bridge", "market", "rates")


def cases() -> dict[str, Case]:
    program = example("option_pricing")

    def case(name: str, **changes: Any) -> Case:
        given = program.load(name)[0] | changes
        return Case(
            program.price, tuple(given[name] for name in ARGUMENTS), price, 1e-9, streams=False,
            counts=given["paths"] < 700,
        )  # fmt: skip

    return {
        "european": case("small", paths=512),
        "worst_off": case("medium", paths=768),
        "barrier": case("medium", paths=256, contract=3),
    }
