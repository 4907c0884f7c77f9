"""What rounds of a loop combine with elements of an array by one operator, in whatever order.

    let r = h1[t]
    let s = add(r, x)              `x` is combined with h1[t] by add
    let h2 = update h1[t] = s

The updates may stand in branches, in loops, and in kernels over a part of the array. All that
depends on the array must be such an update: then what was there need not be known to tell what
each update combines, which is what it gives where the operator's neutral element was there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import NoReturn, TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.passes.accumulation import OPERATIONS, neutral
from weft.passes.dependence import Access, Dims, composed, inside, whole
from weft.passes.meetings import called
from weft.passes.other_uses import SHOWN, Otherwise, seeming_update
from weft.passes.versions import bound_in
from weft.records import dataclass
from weft.sizes import Poly, Size

_EXTREMES = {"less": "min", "greater": "max"}

Path: TypeAlias = tuple[tuple[fun.Let, int], ...]
"""Statements, one inside of the other, and which of its bodies; of the last one which result."""


@dataclass(frozen=True, slots=True)
class Combination:
    """What a loop's rounds combine with an array.

    Attributes
    ----------
    operation : str
    param : Var
        The array, at the beginning of a round.
    versions : frozenset of str
        What stands for it, or for a part of it, in the round.
    views : mapping of str to Dims
        What part each version is.
    axes : mapping of str to tuple of int
        For kernels that give parts, the order of these parts' dimensions in their spaces.
    updates : tuple of Path
        Where it is combined with something, in order.
    """

    operation: str
    param: fun.Var
    versions: frozenset[str]
    views: Mapping[str, Dims]
    axes: Mapping[str, tuple[int, ...]]
    updates: tuple[Path, ...]

    @property
    def neutral(self) -> fun.Const:
        assert isinstance(self.param.type, fun.Array)
        return neutral(self.operation, self.param.type.dtype)


def combination(
    param: fun.Var, result: fun.Atom, body: fun.Body
) -> Combination | Otherwise | None:
    """How a loop's body combines values with the array `param`, if it does nothing else with it."""
    found = _Following(param)
    try:
        found.body(body, (), {})
    except _None as none:
        return none.otherwise or found.otherwise(body, none.let)
    one = found.is_version(result) and sum(map(found.has, body.results)) == 1
    if not one or found.chain(result, body) != param.name:
        return None
    versions, operation = frozenset(found.views.keys() | found.pending.keys()), found.operation
    updates = tuple(found.updates)
    return Combination(operation or "add", param, versions, found.views, found.axes, updates)


class _None(Exception):  # noqa: N818 - an answer, not an error
    """There is no combination."""

    def __init__(self, let: fun.Let, otherwise: Otherwise | None = None) -> None:
        super().__init__()
        self.let = let
        self.otherwise = otherwise


@dataclass(frozen=True, slots=True)
class _Link:
    """An element of a version, with which something may have been combined.

    Attributes
    ----------
    array : str
    indices : tuple of Size
    kinds : frozenset of str
        Of the dtypes that it has had.
    converted : bool
    """

    array: str
    indices: tuple[Size, ...]
    kinds: frozenset[str]
    converted: bool = False


@dataclass(frozen=True, slots=True)
class _Pending:
    """What kernels give for elements of a version: one, or one in each branch.

    Attributes
    ----------
    link : _Link
    space : tuple of fun.Range
    paths : tuple of Path
    makers : tuple of str
        What the kernels bind.
    axes : tuple of int
        The order of the space's dimensions in what they give, once that is permuted.
    """

    link: _Link
    space: tuple[fun.Range, ...]
    paths: tuple[Path, ...]
    makers: tuple[str, ...]
    axes: tuple[int, ...] = ()

    def own(self) -> list[Size]:
        """The indices of an element, in order."""
        indices: list[Size] = [Poly.var(r.index.name) for r in self.space]
        return [indices[axis] for axis in self.axes] if self.axes else indices


@dataclass(slots=True)
class _Following:
    """Follows an array through a round, from what it was to what it becomes."""

    param: fun.Var
    operation: str = ""
    first: fun.Let | None = None  # which has that operation
    views: dict[str, Dims] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)  # slices, and the versions they are of
    slices: dict[str, Dims] = field(default_factory=dict)  # and where in these
    before: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what versions are made of
    links: dict[str, _Link] = field(default_factory=dict)
    tests: set[str] = field(default_factory=set)  # comparisons for extremes
    pending: dict[str, _Pending] = field(default_factory=dict)
    axes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    updates: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.views[self.param.name] = whole(self.param)

    def __contains__(self, name: object) -> bool:
        return any(name in of for of in (self.views, self.links, self.tests, self.pending))

    def has(self, atom: fun.Atom) -> bool:
        """Whether a value depends on the array."""
        return isinstance(atom, fun.Var) and atom.name in self

    # ------------------------------------------------------------ statements

    def body(self, body: fun.Body, path: Path, bound: Mapping[str, fun.Let]) -> None:
        own = {**bound, **bound_in(body)}
        for let in body.statements:
            if any(name in self for name in walk.used_names(let.expr)):
                self.let(let, path, own)

    def let(self, let: fun.Let, path: Path, bound: Mapping[str, fun.Let]) -> None:
        expr, name = let.expr, let.pattern[0].name
        if any(size.variables() & self.links.keys() for size in walk.operands(expr)[1]):
            self.fail(let)
        match expr:
            case fun.Index(array, indices, boundary) if self.is_version(array):
                if any(boundary):
                    self.fail(let)
                kind = let.pattern[0].type.dtype.kind
                self.links[name] = _Link(array.name, indices, frozenset(kind))
            case fun.Slice(array, dims) if self.is_version(array):
                self.views[name] = composed(self.views[array.name], dims)
                self.parts[name], self.slices[name] = array.name, dims
            case fun.Cast(dtype, argument) if (link := self.of(argument)) is not None:
                kinds = link.kinds | {dtype.kind}
                self.links[name] = replace(link, kinds=kinds, converted=True)
            case fun.Permute(array, axes) if self.is_pending(array):
                pending = self.pending[array.name]
                before = pending.axes or tuple(range(len(axes)))
                order = tuple(before[axis] for axis in axes)
                self.pending[name] = replace(pending, axes=order)
            case fun.Apply():
                self.apply(let, expr, bound)
            case fun.If():
                self.branch(let, expr, path, bound)
            case fun.Kernel():
                self.kernel(let, expr, path, bound)
            case fun.Update():
                self.update(let, expr, path)
            case fun.Loop():
                self.loop(let, expr, path, bound)
            case fun.Scatter():
                self.scatter(let, expr, path)
            case _:
                self.fail(let)

    def fail(self, let: fun.Let) -> NoReturn:
        """A statement uses the array, or what is there, and combines nothing with it."""
        raise _None(let)

    def otherwise(self, body: fun.Body, let: fun.Let) -> Otherwise | None:
        """What a statement does beside what is combined; None where nothing is."""
        update = seeming_update(self.param, body)
        if update is None:
            return None
        operation, access = update
        written = isinstance(let.expr, fun.Update) and let.expr.array.name in self.views
        own = self.links.get(next(n for n in sorted(walk.used_names(let.expr)) if n in self))
        dims = let.expr.dims if isinstance(let.expr, fun.Update) and written else (
            whole(self.param) if own is None else own.indices
        )  # fmt: skip
        verb = "write" if written else "read"
        reason = f"rounds update {called(self.param)} by {operation}, and {verb} it otherwise too"
        return Otherwise(reason, Access(self.param.name, dims, (), let.place, written), access)

    def operate(self, operation: str, let: fun.Let) -> None:
        """Take in what an update combines by; there is one operator for all."""
        if not self.operation:
            self.operation, self.first = operation, let
        if operation == self.operation:
            return
        assert self.first is not None
        one, other = (
            Access(self.param.name, whole(self.param), (), at.place, True)
            for at in (self.first, let)
        )
        by = f"{SHOWN[self.operation]} and by {SHOWN[operation]}"
        raise _None(let, Otherwise(f"rounds update {called(self.param)} by {by}", one, other))

    # ------------------------------------------------------------ scalars

    def of(self, atom: fun.Atom) -> _Link | None:
        return self.links.get(atom.name) if isinstance(atom, fun.Var) else None

    def apply(self, let: fun.Let, expr: fun.Apply, bound: Mapping[str, fun.Let]) -> None:
        """A step of the operator on what is there, or the test of a least or greatest value."""
        operation, arguments = expr.operation, expr.arguments
        name, links = let.pattern[0].name, [self.of(atom) for atom in arguments]
        if operation in _EXTREMES and any(links) and not all(map(self.has, arguments)):
            self.tests.add(name)
            return
        if operation == "where" and not self.has(arguments[0]):
            self.links[name] = self.either(let, arguments[1:])
            return
        if operation == "where":
            operation, links = self.extreme(let, expr, bound), links[1:]
        if operation == "subtract" and links[0] is not None:
            operation = "add"
        found = [link for link in links if link is not None]
        if operation not in OPERATIONS or [*map(self.has, arguments[-2:])].count(True) != 1:
            self.fail(let)
        self.operate(operation, let)
        self.links[name] = found[0]

    def extreme(self, let: fun.Let, expr: fun.Apply, bound: Mapping[str, fun.Let]) -> str:
        """Python's `min(a, b)` or `max(a, b)`: where(b < a, b, a)."""
        test, *chosen = expr.arguments
        compared = bound[test.name].expr if isinstance(test, fun.Var) else None
        if not isinstance(compared, fun.Apply) or compared.arguments != tuple(chosen):
            self.fail(let)
        which = _EXTREMES.get(compared.operation)
        if which is None:
            self.fail(let)
        return f"f{which}" if let.pattern[0].type.dtype.kind == "f" else f"{which}imum"

    def either(self, let: fun.Let, atoms: Sequence[fun.Atom]) -> _Link:
        """What one of several values is, all of them for one element."""
        links = [self.of(atom) for atom in atoms]
        first = links[0]
        if first is None:
            self.fail(let)
        for link in links:
            if link is None or (link.array, link.indices) != (first.array, first.indices):
                self.fail(let)
            first = replace(
                first, kinds=first.kinds | link.kinds, converted=first.converted or link.converted
            )
        return first

    def is_for(self, link: _Link | None, array: fun.Var, indices: tuple[Size, ...]) -> bool:
        """Whether a value is for an element, and conversions on the way change no order."""
        if link is None or (link.array, link.indices) != (array.name, indices):
            return False
        exact = self.operation in ("add", "multiply") or "bitwise" in self.operation
        return len(link.kinds) == 1 and (not link.converted or exact or "f" in link.kinds)

    # ------------------------------------------------------------ arrays

    def is_pending(self, array: fun.Var) -> bool:
        return array.name in self.pending and array.name not in self.views

    def is_version(self, atom: fun.Atom) -> bool:
        """Whether it stands for the array; also what a kernel gives for all elements of it."""
        if not isinstance(atom, fun.Var):
            return False
        pending = self.pending.get(atom.name)
        if pending is None or atom.name in self.views:
            return atom.name in self.views
        array = fun.Var(pending.link.array, atom.type)
        own = tuple(pending.own())
        view = self.views[array.name]
        extents = tuple(dim.extent for dim in view if isinstance(dim, fun.Span))
        assert isinstance(atom.type, fun.Array)
        if not self.is_for(pending.link, array, own) or extents != atom.type.shape:
            return False
        self.made(atom.name, view, array.name)
        self.add(pending, view)
        return True

    def add(self, pending: _Pending, view: Dims) -> None:
        """Take in what kernels combine with the elements of a part."""
        self.views |= dict.fromkeys(pending.makers, view)
        self.axes |= dict.fromkeys(pending.makers, pending.axes)
        self.updates += pending.paths

    def made(self, name: str, view: Dims, *before: str) -> None:
        self.views[name], self.before[name] = view, before

    def kernel(
        self, let: fun.Let, expr: fun.Kernel, path: Path, bound: Mapping[str, fun.Let]
    ) -> None:
        for name in walk.used_names(expr) & self.pending.keys() & bound.keys():
            var = next(var for var in bound[name].pattern if var.name == name)
            self.is_version(var)
        count = len(self.updates), len(self.views)
        self.body(expr.body, path, bound)
        if (len(self.updates), len(self.views)) != count:
            self.fail(let)  # it makes versions of its own
        for number, (var, result) in enumerate(zip(let.pattern, expr.body.results, strict=True)):
            link, here = self.of(result), (*path, (let, number))
            inner = self.pending.get(result.name) if isinstance(result, fun.Var) else None
            if link is not None:
                self.pending[var.name] = _Pending(link, expr.space, (here,), (var.name,))
            elif inner is not None and len(inner.paths) == 1 and not inner.axes:
                space, further = (*expr.space, *inner.space), inner.paths[0][len(path) :]
                paths = ((*here, *further),)
                self.pending[var.name] = _Pending(inner.link, space, paths, (var.name,))
            elif self.has(result):
                self.fail(let)

    def update(self, let: fun.Let, expr: fun.Update, path: Path) -> None:
        array, dims, value = expr.array, expr.dims, expr.value
        if not self.is_version(array):
            self.fail(let)
        view, before = self.views[array.name], [array.name]
        part = composed(view, dims)
        pending = self.pending.get(value.name) if isinstance(value, fun.Var) else None
        if isinstance(value.type, fun.Scalar):
            points = tuple(dim for dim in dims if not isinstance(dim, fun.Span))
            if len(points) < len(dims) or not self.is_for(self.of(value), array, points):
                self.fail(let)
            self.updates.append((*path, (let, 0)))
        elif pending is not None and pending.link.array == array.name:
            assert isinstance(value, fun.Var)
            indices = inside(dims, pending.own())
            if value.name in self.views or not self.is_for(pending.link, array, indices):
                self.fail(let)
            self.made(value.name, part)
            self.add(pending, part)
            before.append(value.name)
        elif self.is_version(value):
            assert isinstance(value, fun.Var)
            if self.views[value.name] != part or self.slice_of(value.name) != array.name:
                self.fail(let)
            before.append(value.name)
        else:
            self.fail(let)
        self.made(let.pattern[0].name, view, *before)

    def scatter(self, let: fun.Let, expr: fun.Scatter, path: Path) -> None:
        steps = () if expr.operator is None else expr.operator.body.statements
        depends = any(name in self for name in walk.free_names(expr.body))
        if depends or len(expr.destinations) != 1 or len(steps) != 1:
            self.fail(let)
        step, array = steps[0].expr, expr.destinations[0]
        if not isinstance(step, fun.Apply) or step.operation not in OPERATIONS:
            self.fail(let)
        if not self.is_version(array):
            self.fail(let)
        self.operate(step.operation, let)
        self.made(let.pattern[0].name, self.views[array.name], array.name)
        self.updates.append((*path, (let, 0)))

    # ------------------------------------------------------------ control

    def branch(
        self, let: fun.Let, expr: fun.If, path: Path, bound: Mapping[str, fun.Let]
    ) -> None:
        if self.has(expr.condition):
            self.fail(let)
        sides = expr.then, expr.otherwise
        for number, side in enumerate(sides):
            self.body(side, (*path, (let, number)), bound)
        for var, *results in zip(let.pattern, *(side.results for side in sides), strict=True):
            if not any(map(self.has, results)):
                continue
            if isinstance(var.type, fun.Scalar):
                self.links[var.name] = self.either(let, results)
                continue
            if (pending := self.in_branches(results)) is not None:
                self.pending[var.name] = pending
                continue
            if not all(map(self.is_version, results)):
                self.fail(let)
            first, *others = {
                self.chain(result, side) for result, side in zip(results, sides, strict=True)
            }
            if others:
                self.fail(let)
            self.made(var.name, self.views[first], first)

    def in_branches(self, results: Sequence[fun.Atom]) -> _Pending | None:
        """What kernels in branches give for one part, of which a slice is in others."""
        names = [atom.name for atom in results if isinstance(atom, fun.Var)]
        found = [self.pending[n] for n in names if n in self.pending and n not in self.views]
        if not found or len(found) + sum(n in self.parts for n in names) < len(results):
            return None
        first = found[0]
        own = first.own()
        if any(one.axes for one in found):
            return None
        for name in names:
            if name in self.parts:
                same = self.parts[name], inside(self.slices[name], own)
            else:
                other = self.pending[name]
                at = dict(zip((r.index.name for r in other.space), own, strict=False))
                same = other.link.array, tuple(n.substitute(at) for n in other.link.indices)
            if same != (first.link.array, first.link.indices):
                return None
        paths = tuple(path for one in found for path in one.paths)
        return replace(first, paths=paths, makers=tuple(n for one in found for n in one.makers))

    def loop(self, let: fun.Let, expr: fun.Loop, path: Path, bound: Mapping[str, fun.Let]) -> None:
        condition = expr.form.condition if isinstance(expr.form, fun.While) else None
        carried = [self.is_version(atom) for atom in expr.initial]
        for param, initial, is_one in zip(expr.params, expr.initial, carried, strict=True):
            if is_one:
                assert isinstance(initial, fun.Var)
                self.views[param.name] = self.views[initial.name]
            elif (link := self.of(initial)) is not None:
                self.links[param.name] = link
            elif self.has(initial):
                self.fail(let)
        if condition is not None and any(name in self for name in walk.free_names(condition)):
            self.fail(let)
        self.body(expr.body, (*path, (let, 0)), bound)
        for number, result in enumerate(expr.body.results):
            initial = expr.initial[number]
            if not carried[number]:
                if self.of(initial) is not None:
                    self.links[let.pattern[number].name] = self.either(let, (initial, result))
                elif self.has(result):
                    self.fail(let)
                continue
            assert isinstance(initial, fun.Var)
            if not self.is_version(result):
                self.fail(let)
            if self.chain(result, expr.body) != expr.params[number].name:
                self.fail(let)
            self.made(let.pattern[number].name, self.views[initial.name], initial.name)

    def chain(self, last: fun.Atom, body: fun.Body) -> str:
        """The version from which a body makes its last one, by way of all that it makes."""
        assert isinstance(last, fun.Var)
        own = bound_in(body)
        roots, seen, found = set[str](), set[str](), [last.name]
        while found:
            name = found.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in own:
                roots.add(name)
            elif name in self.parts:
                found.append(self.parts[name])
            else:
                found += self.before.get(name, ())
        if len(roots) > 1 or any(name in self.before and name not in seen for name in own):
            return ""  # what another one is, or has combined, is lost
        return roots.pop()

    def slice_of(self, name: str) -> str:
        """Of a part, which version it was taken of."""
        while name not in self.parts and self.before.get(name):
            name = self.before[name][0]
        return self.parts.get(name, "")
