"""write_through: what updates a view of an array, and then is written back, updates the array.

    let v = slice x[1 for n]; let w = update v[i] = e; let y = update x[1 for n] = w
 => let y = update x[i + 1] = e; let w = slice y[1 for n]
    let v = permute x (1, 0); let w = update v[i, j] = e; let y = permute w (1, 0)
 => let y = update x[j, i] = e; let w = permute y (1, 0)
    let v = reshape x (n*m); let w = update v[i*m + j] = e; let y = reshape w (n, m)
 => let y = update x[i, j] = e; let w = reshape y (n*m)

Removes: updates of views, which name no elements of the array that they are views of.
Adds: views of what is updated, where the updated view is read.
Requires: a checked program whose views are of arrays and no more views than needed (after
    `simplify`).
Ensures: the same values. What cannot be said of the array, such as a part of a row of a reshaped
    one, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes.layouts import View, compose_dims, read_through
from weft.passes.versions import Write, bound_in
from weft.records import dataclass
from weft.sizes import ZERO, Size

_VIEWS = (fun.Slice, fun.Permute, fun.Reshape)


def write_through(program: fun.Program) -> fun.Program:
    """The program with updates of arrays in place of those of their views."""
    if not any(isinstance(let.expr, _VIEWS) for let in walk.statements(program.body)):
        return program
    body = _Bodies(Names.of(program)).body(program.body, {})
    return program if body is program.body else replace(program, body=body)


@dataclass(frozen=True, slots=True)
class _Found:
    """A view, what is written to it one after another, and the statement that writes it back."""

    view: View
    writes: tuple[fun.Let, ...]
    back: fun.Let


@dataclass(slots=True)
class _Bodies:
    names: Names

    def body(self, body: fun.Body, extents: Mapping[str, Size]) -> fun.Body:
        """A body within loops whose indices count from 0 up to `extents`."""
        body = walk.with_statements(body, [self.inside(let, extents) for let in body.statements])
        done = False
        while not done:
            bound = bound_in(body)
            done = True
            for let in body.statements:
                found = _written_back(let, bound)
                new = None if found is None else self.through(found, body, extents)
                if new is not None:
                    body, done = new, False
                    break
        return body

    def inside(self, let: fun.Let, extents: Mapping[str, Size]) -> fun.Let:
        own = dict(extents)
        match let.expr:
            case fun.Loop(_, _, fun.For(index, lower, upper)) if lower == ZERO:
                own[index.name] = upper
            case fun.Kernel(space) | fun.Reduce(space) | fun.Scan(space) | fun.Scatter(_, space):
                own |= {r.index.name: r.extent for r in space}
        return walk.map_let(let, lambda inner: self.body(inner, own))

    def through(
        self, found: _Found, body: fun.Body, extents: Mapping[str, Size]
    ) -> fun.Body | None:
        """The body with the writes done to the array; None where one cannot be."""
        array = found.view.array
        assert isinstance(array, fun.Var)
        made: dict[str, list[fun.Let]] = {}
        for number, let in enumerate(found.writes):
            assert isinstance(let.expr, fun.Update)
            last = number == len(found.writes) - 1
            (var,) = found.back.pattern
            new = var if last else replace(var, name=self.names.fresh(array.name))
            steps: list[fun.Let] = []
            write = self.at_array(Write(let, let.expr.dims, let.expr.value), found, extents, steps)
            if write is None:
                return None
            dims, value = write
            updated = fun.Let((new,), fun.Update(array, dims, value), let.place)
            seen = fun.Let(let.pattern, replace(found.view, array=new), let.place)
            made[let.pattern[0].name] = [*steps, updated, seen]
            array = new
        statements: list[fun.Let] = []
        for let in body.statements:
            if let is not found.back:
                statements += made.get(let.pattern[0].name, [let])
        return fun.Body(tuple(statements), body.results)

    def at_array(
        self, write: Write, found: _Found, extents: Mapping[str, Size], steps: list[fun.Let]
    ) -> tuple[tuple[fun.Span | Size, ...], fun.Atom] | None:
        """Where in the array something is written to its view, and what is, as it lies there."""
        spans = [axis for axis, dim in enumerate(write.dims) if isinstance(dim, fun.Span)]
        if not spans:
            indices = tuple(dim for dim in write.dims if not isinstance(dim, fun.Span))
            access = read_through(found.view, indices, (), extents.get)
            return None if access is None else (access[1], write.value)
        match found.view:
            case fun.Slice(_, dims):
                return compose_dims(write.dims, dims), write.value
            case fun.Permute(_, axes):
                place = dict(zip(axes, write.dims, strict=True))
                dims = tuple(place[axis] for axis in range(len(axes)))
                if not isinstance(write.value.type, fun.Array) or len(spans) == 1:
                    return dims, write.value
                own = [axes[axis] for axis in spans]  # of the array, in the order of the value
                order = tuple(own.index(axis) for axis in sorted(own))
                assert isinstance(write.value, fun.Var)
                shape = tuple(write.value.type.shape[axis] for axis in order)
                type_ = replace(write.value.type, shape=shape)
                turned = fun.Var(self.names.fresh("turned"), type_)
                permuted = fun.Permute(write.value, order)
                steps.append(fun.Let((turned,), permuted, write.let.place))
                return dims, turned
        return None


def _written_back(let: fun.Let, bound: Mapping[str, fun.Let]) -> _Found | None:
    """What a statement writes back of a view, if it does no more than that."""
    match let.expr:
        case fun.Update(_, _, fun.Var() as last) | fun.Permute(last) | fun.Reshape(last):
            pass
        case _:
            return None
    writes: list[fun.Let] = []
    while (made := bound.get(last.name)) is not None and isinstance(made.expr, fun.Update):
        writes.append(made)
        last = made.expr.array
    if not writes or made is None or not isinstance(made.expr, _VIEWS):
        return None
    view = made.expr
    same = False
    match let.expr, view:
        case fun.Update(array, dims), fun.Slice(of, own):
            same = _are_same(array, of, bound) and dims == own
        case fun.Permute(_, axes), fun.Permute(_, own_axes):
            same = tuple(own_axes[axis] for axis in axes) == tuple(range(len(axes)))
        case fun.Reshape(_, shape), fun.Reshape(of, _):
            same = isinstance(of.type, fun.Array) and of.type.shape == shape
    return _Found(view, tuple(reversed(writes)), let) if same else None


def _are_same(one: fun.Var, other: fun.Var, bound: Mapping[str, fun.Let]) -> bool:
    """Whether two names are of one array, or of views that show the same."""
    if one.name == other.name:
        return True
    left, right = (bound.get(var.name) for var in (one, other))
    return (
        left is not None and right is not None
        and isinstance(left.expr, _VIEWS) and left.expr == right.expr
    )  # fmt: skip
