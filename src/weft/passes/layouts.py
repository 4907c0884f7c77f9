"""Reading an array through a layout change: the index in the argument.

    let v = slice(a, [s : n : k]); v[i]        =>  a[s + k*i]
    let v = permute(a, (1, 0)); v[i, j]        =>  a[j, i]
    let v = broadcast(a, (n, m)); v[i, j]      =>  a[j]
    let v = reshape(a: [n*m], (n, m)); v[i, j] =>  a[m*i + j]

A `Reshape` that merges dimensions is read through only where the flat index falls apart
into polynomials; a quotient and a remainder would cost more than the view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, assert_never

from weft.fun import nodes as fun
from weft.sizes import ONE, ZERO, Poly, Size, least, product

Rules: TypeAlias = tuple[fun.Boundary | None, ...]
Extents: TypeAlias = Callable[[str], Size | None]  # of an index variable in scope
Access: TypeAlias = tuple[fun.Atom, tuple[Size, ...], Rules]
View: TypeAlias = fun.Slice | fun.LmadSlice | fun.Permute | fun.Reshape | fun.Broadcast | fun.Copy

VIEWS = (fun.Slice, fun.LmadSlice, fun.Permute, fun.Reshape, fun.Broadcast, fun.Copy)


def read_through(
    view: View, indices: tuple[Size, ...], boundary: Rules, extents: Extents
) -> Access | None:
    """What reading `view` at `indices` reads of its argument, or None where unknown."""
    match view:
        case fun.Copy(array):
            return array, indices, boundary
        case fun.Permute(array, axes):
            return array, _unpermute(indices, axes), _unpermute(boundary, axes)
        case fun.Slice(array, dims):
            return _through_slice(array, dims, indices, boundary)
        case fun.LmadSlice(array, offset, lmad_dims):
            if any(boundary):
                return None
            for index, (_, stride) in zip(indices, lmad_dims, strict=True):
                offset = offset + index * stride
            return array, (offset,), ()
        case fun.Broadcast(atom, _):
            return _through_broadcast(atom, view.shape, indices, boundary)
        case fun.Reshape(array, shape):
            return _through_reshape(array, shape, indices, boundary, extents)
        case _:
            assert_never(view)


def _unpermute(parts: tuple, axes: tuple[int, ...]) -> tuple:  # type: ignore[type-arg]
    if not parts:
        return ()
    return tuple(part for _, part in sorted(zip(axes, parts, strict=True), key=lambda p: p[0]))


def _through_slice(
    array: fun.Var, dims: Sequence[fun.Span | Size], indices: tuple[Size, ...], boundary: Rules
) -> Access | None:
    rules = iter(boundary or (None,) * len(indices))
    place = iter(indices)
    inner: list[Size] = []
    kept: list[fun.Boundary | None] = []
    for dim in dims:
        if not isinstance(dim, fun.Span):
            inner.append(dim)
            kept.append(None)
            continue
        rule = next(rules)
        if rule is not None:
            if dim.step != 1:
                return None
            rule = replace(rule, lower=rule.lower + dim.start, upper=rule.upper + dim.start)
        inner.append(dim.start + next(place) * dim.step)
        kept.append(rule)
    return array, tuple(inner), tuple(kept) if any(kept) else ()


def _through_broadcast(
    atom: fun.Atom, shape: tuple[Size, ...], indices: tuple[Size, ...], boundary: Rules
) -> Access | None:
    own = atom.type.shape if isinstance(atom.type, fun.Array) else ()
    skipped = len(shape) - len(own)
    rules = boundary or (None,) * len(indices)
    inner: list[Size] = []
    kept: list[fun.Boundary | None] = []
    for axis, (index, rule) in enumerate(zip(indices, rules, strict=True)):
        # An extent that is not 1 is the shape's, if by a fact alone.
        repeated = axis < skipped or (own[axis - skipped] == ONE and shape[axis] != ONE)
        if repeated and rule is not None and rule.kind == "constant":
            return None
        if axis >= skipped:
            inner.append(ZERO if repeated else index)
            kept.append(None if repeated else rule)
    return atom, tuple(inner), tuple(kept) if any(kept) else ()


# ---------------------------------------------------------------- reshape


def groups(old: Sequence[Size], new: Sequence[Size]) -> list[tuple[range, range]] | None:
    """The finest cut of two shapes into runs of dimensions with equal products.

    (n, 1, p*q) and (n, p, q) give [n | n], [1 | ], [p*q | p, q]; None where the products of
    the shapes differ (as polynomials).
    """
    pairs: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and old[i] == 1:
            pairs.append((range(i, i + 1), range(j, j)))
            i += 1
        elif j < len(new) and new[j] == 1:
            pairs.append((range(i, i), range(j, j + 1)))
            j += 1
        else:
            ends = _equal_products(old, i, new, j)
            if ends is None:
                return None
            pairs.append((range(i, ends[0]), range(j, ends[1])))
            i, j = ends
    return pairs


def _equal_products(
    old: Sequence[Size], i: int, new: Sequence[Size], j: int
) -> tuple[int, int] | None:
    olds: dict[Size, int] = {}
    news: dict[Size, int] = {}
    for end in range(i + 1, len(old) + 1):
        olds.setdefault(product(old[i:end]), end)
    for end in range(j + 1, len(new) + 1):
        news.setdefault(product(new[j:end]), end)
    return next(((olds[size], news[size]) for size in olds if size in news), None)


def _through_reshape(
    array: fun.Var, shape: tuple[Size, ...], indices: tuple[Size, ...], boundary: Rules,
    extents: Extents,
) -> Access | None:  # fmt: skip
    assert isinstance(array.type, fun.Array)
    old = array.type.shape
    pairs = groups(old, shape)
    if pairs is None:
        return None
    rules = boundary or (None,) * len(indices)
    inner: list[Size] = [ZERO] * len(old)
    kept: list[fun.Boundary | None] = [None] * len(old)
    for olds, news in pairs:
        if len(olds) == 1 and len(news) == 1:
            inner[olds[0]], kept[olds[0]] = indices[news[0]], rules[news[0]]
            continue
        if any(rules[d] for d in news):
            return None
        flat = ZERO
        for d in news:
            flat = flat * shape[d] + indices[d]
        parts = split_index(flat, [old[d] for d in olds], extents)
        if parts is None:
            return None
        for d, part in zip(olds, parts, strict=True):
            inner[d] = part
    return array, tuple(inner), tuple(kept) if any(kept) else ()


def split_index(flat: Size, shape: Sequence[Size], extents: Extents) -> list[Size] | None:
    """The indices of the element `flat` of a row-major array, where they are polynomials."""
    parts: list[Size] = []
    for extent in reversed(shape[1:]):
        divided = _divide(flat, extent, extents)
        if divided is None:
            return None
        flat, rest = divided
        parts.append(rest)
    return [flat, *reversed(parts)] if len(shape) else []


def _divide(flat: Size, extent: Size, extents: Extents) -> tuple[Size, Size] | None:
    """Quotient and remainder: flat = q * extent + r with 0 <= r < extent proved."""
    if extent == 1:
        return flat, ZERO
    if len(extent.terms) != 1:
        return None
    ((monomial, factor),) = extent.terms.items()
    quotient: dict[tuple[str, ...], int] = {}
    rest: dict[tuple[str, ...], int] = {}
    for term, coefficient in flat.terms.items():
        remaining = list(term)
        if coefficient % factor == 0 and all(_removed(remaining, name) for name in monomial):
            quotient[tuple(remaining)] = coefficient // factor
        else:
            rest[term] = coefficient
    remainder = Poly(rest)
    if remainder.is_constant:
        shortest = min(map(least, monomial)) if monomial else extent.constant
        fits = 0 <= remainder.constant < shortest
    else:
        name = remainder.variable
        fits = name is not None and extents(name) == extent
    return (Poly(quotient), remainder) if fits else None


def _removed(names: list[str], name: str) -> bool:
    if name not in names:
        return False
    names.remove(name)
    return True


# ---------------------------------------------------------------- views of views


def is_identity(view: View) -> bool:
    """A view that shows the whole array as it is."""
    match view:
        case fun.Permute(_, axes):
            return axes == tuple(range(len(axes)))
        case fun.Reshape(array, shape) | fun.Broadcast(array, shape):
            return isinstance(array.type, fun.Array) and array.type.shape == shape
        case fun.Slice(array, dims):
            assert isinstance(array.type, fun.Array)
            return dims == tuple(fun.Span(ZERO, extent) for extent in array.type.shape)
        case _:
            return False


def compose(outer: View, inner: View) -> View:
    """`outer`, whose argument is the view `inner`, as a view of the argument of `inner`.

    Unchanged where one view does not express it.
    """
    match outer, inner:
        case fun.Permute(_, axes), fun.Permute(array, inner_axes):
            return fun.Permute(array, tuple(inner_axes[axis] for axis in axes))
        case fun.Reshape(_, shape), fun.Reshape(array, _):
            return fun.Reshape(array, shape)
        case fun.Broadcast(_, shape), fun.Broadcast(atom, _):
            own = atom.type.shape if isinstance(atom.type, fun.Array) else ()
            # A dimension repeated twice stays an extent of 1 in the argument; one that is
            # not repeated must still line up on the right.
            if all(size in (1, new) for size, new in zip(own[::-1], shape[::-1], strict=False)):
                return fun.Broadcast(atom, shape)
            return outer
        case fun.Slice(_, dims), fun.Slice(array, inner_dims):
            return fun.Slice(array, compose_dims(dims, inner_dims))
        case _:
            return outer


def compose_dims(
    outer: Sequence[fun.Span | Size], inner: Sequence[fun.Span | Size]
) -> tuple[fun.Span | Size, ...]:
    """The dimensions of a slice of a slice, as those of a slice of the array."""
    rest = iter(outer)
    dims: list[fun.Span | Size] = []
    for dim in inner:
        if not isinstance(dim, fun.Span):
            dims.append(dim)
            continue
        by = next(rest)
        if isinstance(by, fun.Span):
            start = dim.start + by.start * dim.step
            dims.append(fun.Span(start, by.extent, dim.step * by.step))
        else:
            dims.append(dim.start + by * dim.step)
    return tuple(dims)
