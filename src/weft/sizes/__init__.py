"""Integer polynomials and proofs about them."""

from weft.sizes.facts import Derived, Fact, least
from weft.sizes.poly import ONE, ZERO, Poly, Size, as_poly, parse_poly, product

__all__ = [
    "ONE", "ZERO", "Derived", "Fact", "Poly", "Size", "as_poly", "least", "parse_poly",
    "product",
]  # fmt: skip
