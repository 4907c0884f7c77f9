"""Sizes by which a launch chooses between kernels: computed when it begins, of sizes it knows.

A condition is 0 or 1, and the items of a kernel are multiplied by it: nothing is launched for 0.
"""

from __future__ import annotations

from weft.lower.gpu.host import Host
from weft.sizes import ONE, ZERO, Derived, Size, as_poly
from weft.sizes.facts import SizeOperation


def ceil(host: Host, size: Size, unit: Size | int) -> Size:
    """size / unit, rounded up."""
    return divide(host, size + (unit - 1), as_poly(unit))


def divide(host: Host, size: Size, unit: Size) -> Size:
    """size / unit, rounded down."""
    return _derived(host, "floordiv", size, unit)


def remainder(host: Host, size: Size, unit: Size) -> Size:
    """What is left of a size."""
    return _derived(host, "mod", size, unit)


def maximum(host: Host, left: Size, right: Size) -> Size:
    """The larger of both."""
    return _derived(host, "max", left, right)


def minimum(host: Host, left: Size, right: Size) -> Size:
    """The smaller of both."""
    return _derived(host, "min", left, right)


def power_of_2(host: Host, size: Size) -> Size:
    """The largest power of two that is no larger than a size."""
    return _derived(host, "pow2floor", size, ZERO)


def most(host: Host, size: Size) -> Size | None:
    """No less than a size, whatever the round of the loops around it; None: nobody knows.

    A size that is linear in a round's number is largest in the first one or the last.
    """
    for name in size.variables() - host.unit.sizes:
        lower, upper = host.e.ranges.get(name, (None, None))
        if lower is None or upper is None or size.degree(name) > 1:
            return None
        first, last = (size.substitute({name: at}) for at in (lower, upper - 1))
        if not host.is_sized(first) or not host.is_sized(last):
            return None
        size = maximum(host, first, last)
    return size


def below(host: Host, size: Size, bound: int) -> Size:
    """1 where a size (>= 0) is below a bound (> 0), else 0."""
    if size == ZERO or (size.is_constant and size.constant < bound):
        return ONE
    # bound - 1 holds a size of 1 to bound - 1 at least once, a larger one never.
    times = divide(host, as_poly(bound - 1), maximum(host, size, ONE))
    return minimum(host, times, ONE) if bound > 1 else 1 - minimum(host, size, ONE)


def is_zero(host: Host, size: Size) -> Size:
    """1 where a size, which may be negative, is 0, else 0."""
    return 1 - minimum(host, maximum(host, size, -size), ONE)


def is_negative(host: Host, size: Size) -> Size:
    """1 where a size is negative, else 0."""
    return minimum(host, maximum(host, -size, ZERO), ONE)


def _derived(host: Host, operation: SizeOperation, left: Size, right: Size) -> Size:
    if left.is_constant and right.is_constant:
        return as_poly(Derived("", operation, left, right).evaluate({}))
    for known in host.unit.derived:
        if (known.operation, known.left, known.right) == (operation, left, right):
            return host.derive(known)
    return host.derive(Derived(host.unit.fresh("version."), operation, left, right))
