"""The reads of a program's parameters as accesses over the strides that its arguments have."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.fun import nodes as fun
from weft.plan.footprint import Access as Read
from weft.plan.footprint import Intervals, Reads
from weft.records import dataclass
from weft.sizes import Size
from weft.transfer.accesses import Access, Variable, access
from weft.transfer.views import Lie


@dataclass(frozen=True, slots=True)
class Site:
    """An expression that reads an array, and what it reads in all iterations together.

    Attributes
    ----------
    array : str
    node : Index
    access : Access
    statement : str
        The first result of the statement that it is in.
    constant : int
    variables : tuple of (str, Variable)
        The address that it reads, of its index variables.
    """

    array: str
    node: fun.Index
    access: Access
    statement: str
    constant: int
    variables: tuple[tuple[str, Variable], ...]


def sites(
    program: fun.Program, sizes: Mapping[str, int], arrays: Mapping[str, Lie],
    roots: Mapping[str, str], unread: Collection[str] = (),
) -> list[Site]:  # fmt: skip
    """The reads of the arrays of which every read is affine and stays inside the array.

    Parameters
    ----------
    program : fun.Program
    sizes : mapping of str to int
        Every size variable, derived ones included.
    arrays : mapping of str to Lie
        The parameters to look at, and views of them.
    roots : mapping of str to str
        The parameter that each of those views is of; of a parameter, itself.
    unread : collection of str
        Statements (by a result) that are not looked at.
    """
    found: list[Site] = []
    results = (r.name for r in program.body.results if isinstance(r, fun.Var))
    others = {roots[name] for name in results if name in roots}
    ranks = {name: len(lie.shape) for name, lie in arrays.items()}
    for let in program.body.statements:
        if let.pattern[0].name in unread or let.pattern[0].name in roots:
            continue
        reads = Reads(let, ranks)
        intervals = Intervals(reads, sizes, {})
        for read in reads.accesses:
            made = _address(read, intervals, arrays[read.array])
            if made is None:
                others.add(roots[read.array])
            else:
                assert isinstance(read.node, fun.Index)
                constant, variables = made
                reached = access(constant, variables)
                name, own = let.pattern[0].name, tuple(variables.items())
                found.append(Site(read.array, read.node, reached, name, constant, own))
    return [site for site in found if roots[site.array] not in others]


def _address(
    read: Read, intervals: Intervals, lie: Lie
) -> tuple[int, dict[str, Variable]] | None:
    """The address that is read, of index variables; None where it is not affine, or may be outside.
    """
    if not isinstance(read.node, fun.Index) or any(read.boundary):
        return None
    constant, factors = lie.address, dict[str, int]()
    for ends, extent, stride in zip(read.index, lie.shape, lie.strides, strict=True):
        if ends is None:
            return None
        index = affine(intervals.reads.resolve(ends[0]), intervals.sizes)
        if index is None:
            return None
        low = high = index[0]
        for name, factor in index[1].items():
            known = intervals.variable(name)
            if known is None:
                return None
            ends_ = sorted((factor * int(known[0]), factor * int(known[1])))
            low, high = low + ends_[0], high + ends_[1]
            factors[name] = factors.get(name, 0) + factor * stride
        if low < 0 or high >= extent:
            return None
        constant += index[0] * stride
    variables: dict[str, Variable] = {}
    for name, factor in factors.items():
        low, high = intervals.variable(name)  # type: ignore[misc]
        variables[name] = factor, int(low), int(high)
    return constant, variables


def affine(size: Size, sizes: Mapping[str, int]) -> tuple[int, dict[str, int]] | None:
    """A polynomial as a number and factors of what is no size; None where it is not affine."""
    constant, factors = 0, dict[str, int]()
    for monomial, factor in size.terms.items():
        free = [name for name in monomial if name not in sizes]
        for name in monomial:
            factor *= sizes.get(name, 1)
        if len(free) > 1:
            return None
        if free:
            factors[free[0]] = factors.get(free[0], 0) + factor
        else:
            constant += factor
    return constant, {name: factor for name, factor in factors.items() if factor}
