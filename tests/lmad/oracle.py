"""Random LMADs, and their sets of elements as the bits of integers."""

from __future__ import annotations

import random
from collections.abc import Mapping

from weft.lmad import Lmad
from weft.sizes import Poly, as_poly, parse_poly
from weft.sizes.prove import Prover

SHIFT = 1 << 14  # the bit of element 0

# What the provers of random LMADs know: sizes n, m >= 2 and 0 <= i < n.
PROVER = Prover(sizes=("n", "m")).index("i", Poly.var("n"))
VALUES = [
    {"n": n, "m": m, "i": i} for n in (2, 3, 4, 6) for m in (2, 3, 5) for i in {0, 1, n // 2, n - 1}
]


def elements(lmad: Lmad, values: Mapping[str, int]) -> int:
    """Bit SHIFT + k is set where k is an element."""
    base, found = lmad.offset.evaluate(values), 1
    for extent, stride in lmad.dims:
        count, step = extent.evaluate(values), stride.evaluate(values)
        if count <= 0:
            return 0
        if step < 0:
            base, step = base + (count - 1) * step, -step
        one = found
        for k in range(1, count):
            found |= one << (k * step)
    assert SHIFT + base >= 0
    return found << (SHIFT + base)


def met_once(lmad: Lmad, values: Mapping[str, int]) -> bool:
    """Whether no element has two indices."""
    indices = 1
    for extent, _ in lmad.dims:
        indices *= max(extent.evaluate(values), 0)
    return indices == elements(lmad, values).bit_count()


def random_poly(rng: random.Random) -> Poly:
    """One or two terms of degree 0 to 2."""
    terms = [(), (), ("n",), ("m",), ("i",), ("m", "n")]
    factors = [1, 1, 1, 2, 3, -1, -2]
    return Poly({rng.choice(terms): rng.choice(factors) for _ in range(rng.randint(1, 2))})


def random_symbolic(rng: random.Random) -> Lmad:
    """Any polynomials."""
    dims = ((random_poly(rng), random_poly(rng)) for _ in range(rng.randint(0, 3)))
    return Lmad(random_poly(rng), tuple(dims))


def random_tile(rng: random.Random) -> Lmad:
    """A part of an n*m by n*m matrix of m by m blocks: blocks before, at, after i, or within."""
    offset, dims = Poly({}), []
    for stride in (parse_poly("n*m"), as_poly(1)):
        first, blocks = rng.choice([("0", "i"), ("i", "1"), ("i + 1", "n - i - 1"), ("0", "n")])
        start, extent = rng.choice([("0", "m"), ("0", "m - 1"), ("1", "m - 1"), ("0", "1")])
        block, within = parse_poly(first) * parse_poly("m"), parse_poly(start)
        offset = offset + (block + within) * stride
        dims.append((parse_poly(blocks), parse_poly("m") * stride))
        dims.append((parse_poly(extent), stride))
    rng.shuffle(dims)
    return Lmad(offset, tuple(dims))


def random_known(rng: random.Random) -> Lmad:
    """Small integers."""
    dims = []
    for _ in range(rng.randint(0, 4)):
        dims.append((as_poly(rng.randint(0 if rng.random() < 0.1 else 1, 4)),
                     as_poly(rng.choice([rng.randint(-12, 12), rng.randint(0, 40)]))))  # fmt: skip
    return Lmad(as_poly(rng.randint(-30, 30)), tuple(dims))
