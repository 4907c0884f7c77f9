"""defer: elements that are all overwritten are computed where they are read, or never.

    let x = kernel (i < n) { .. in e }          let x = empty (n)
    loop (v = x) for k from 0 to n {            loop (v = x) for k from 0 to n {
      let a = v[k]                        =>      .. let a = e at k
      let b = ..                                  let b = ..
      let w = update v[k] = b                     let w = update v[k] = b
      in w                                        in w
    }                                           }

Removes: arrays of one value, and kernels of scalars inside of kernels, that updates and loops
    completely overwrite (the copy that a loop starts from, where the array is used elsewhere too).
Adds: arrays whose contents do not matter; in place of reads of what is not yet overwritten, the
    computation of the element.
Requires: a checked program; that fusion has inlined what it can.
Ensures: the same values; no element of a kernel is computed twice, nor in a loop that is less
    parallel.

Each read is proved to come before the update of its element, or after it; and the updates,
aggregated over loops, to cover the array. Regions are boxes of indices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.passes import boxes
from weft.passes.boxes import Box, Range
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size
from weft.sizes.prove import Prover

Indices: TypeAlias = tuple[Size, ...]
Element: TypeAlias = Callable[[Indices], tuple[list[fun.Let], fun.Atom]]  # how it is computed


def defer(program: fun.Program) -> fun.Program:
    """The program with kernels and fills that are overwritten where they are read, or gone."""
    pass_ = _Defer(program)
    prover = Prover(program.facts, sizes=program.sizes, derived=program.derived)
    body = pass_.body(program.body, prover, in_kernel=False)
    return program if body is program.body else replace(program, body=body)


class _Defer:
    """One walk over a program, with the fills that are known where it is."""

    def __init__(self, program: fun.Program) -> None:
        self.names = Names.of(program)
        self.uses = Counter(walk.uses(program.body))
        self.fills: dict[str, fun.Atom] = {}

    def body(self, body: fun.Body, prover: Prover, in_kernel: bool) -> fun.Body:
        open_ = _Open(list(body.statements), body.results)
        statements = open_.statements
        position = 0
        while position < len(statements):
            let = statements[position]
            match let.expr:
                case fun.Broadcast(value) if isinstance(value.type, fun.Scalar):
                    self.fills[let.pattern[0].name] = value
                case fun.Update() | fun.Loop():
                    position = self.without_fills(open_, position, prover)
                case fun.Kernel() if in_kernel:
                    self.without_kernel(open_, position, prover)
                case _:
                    pass
            statements[position] = self.inside(statements[position], prover, in_kernel)
            position += 1
        return walk.with_statements(body, statements, open_.results)

    def inside(self, let: fun.Let, prover: Prover, in_kernel: bool) -> fun.Let:
        """The statement with the bodies in it done."""
        if not walk.bodies(let.expr):
            return let  # most statements
        prover = _within(prover, boxes.ranges(let.expr))
        in_kernel = in_kernel or isinstance(let.expr, fun.Kernel)
        return walk.map_let(let, lambda body: self.body(body, prover, in_kernel))

    # ------------------------------------------------------------ one array

    def without_fills(self, body: _Open, position: int, prover: Prover) -> int:
        """Put empty arrays before a statement that begins to overwrite fills; where it is then.

        loop (v = zeros) ..    =>    let e = empty (n) loop (v = e) ..
        """
        statements = body.statements
        expr = statements[position].expr
        assert isinstance(expr, fun.Update | fun.Loop)
        arrays = expr.initial if isinstance(expr, fun.Loop) else (expr.array,)
        for number, array in enumerate(arrays):
            if not isinstance(array, fun.Var) or array.name not in self.fills:
                continue
            let = statements[position]
            own = fun.Var(self.names.fresh(array.name), array.type)
            rest = [_begun_from(own, let, number), *statements[position + 1 :]]
            self.uses[own.name] = 1
            trace = _Trace(self.uses, None)
            covered = trace.covers(rest, own, prover)
            del self.uses[own.name]
            if covered:
                value = partial(_value, self.fills[array.name])
                self.change(body, position, own, _Inline(trace.early, value), rest)
                position += 1
        return position

    def without_kernel(self, body: _Open, position: int, prover: Prover) -> None:
        """Compute a kernel's elements where they are read, if all are overwritten then."""
        let = body.statements[position]
        kernel, array, rest = let.expr, let.pattern[0], body.statements[position + 1 :]
        assert isinstance(kernel, fun.Kernel)
        if len(let.pattern) != 1 or not isinstance(kernel.body.results[0].type, fun.Scalar):
            return
        trace = _Trace(self.uses, kernel)
        if trace.covers(rest, array, prover):
            element = partial(_element, kernel, self.names)
            self.change(body, position, array, _Inline(trace.early, element), rest)

    def change(
        self, body: _Open, position: int, array: fun.Var, inline: _Inline, rest: Sequence[fun.Let]
    ) -> None:
        """An empty array, and `rest` with elements in place of early reads."""
        statements = body.statements
        self.uses.subtract(_uses(statements[position:]))
        assert isinstance(array.type, fun.Array)
        empty = fun.Empty(array.type.dtype, array.type.shape)
        place = statements[position].place
        statements[position:] = [fun.Let((array,), empty, place), *inline.lets(rest)]
        body.results = tuple(map(inline.atom, body.results))
        self.uses.update(_uses(statements[position:]))


@dataclass(slots=True)
class _Open:
    """A body that is being changed."""

    statements: list[fun.Let]
    results: tuple[fun.Atom, ...]


def _uses(statements: Sequence[fun.Let]) -> Iterable[str]:
    return walk.uses(fun.Body(tuple(statements), ()))


def _within(prover: Prover, ranges: Iterable[Range]) -> Prover:
    for name, lower, extent in ranges:
        prover = prover.within(name, lower, lower + extent - 1)
    return prover


def _begun_from(array: fun.Var, let: fun.Let, number: int) -> fun.Let:
    """An update of another array, or a loop with another initial value."""
    match let.expr:
        case fun.Update():
            return replace(let, expr=replace(let.expr, array=array))
        case fun.Loop(_, initial):
            initial = (*initial[:number], array, *initial[number + 1 :])
            return replace(let, expr=replace(let.expr, initial=initial))
        case _:
            raise AssertionError(type(let.expr))


# ---------------------------------------------------------------- what is read and written


class _Unproved(Exception):  # noqa: N818 (an answer, not an error)
    """It is not proved that all is overwritten, or that a read comes before or after that."""


@dataclass(slots=True)
class _Trace:
    """What becomes of an array, from where it is made to where all of it is overwritten.

    Attributes
    ----------
    uses : Counter
        How often each name is used in the program.
    kernel : Kernel or None
        What computes its elements; None for one value, which may be read as often as one likes.
    early : dict
        The reads of elements not yet overwritten: by the names they bind, the indices.
    waiting : Box or None
        What was read so and must be overwritten next, since no element is computed twice.
    """

    uses: Counter[str]
    kernel: fun.Kernel | None
    early: dict[str, Indices] = field(default_factory=dict)
    waiting: Box | None = None

    def covers(self, statements: Sequence[fun.Let], array: fun.Var, prover: Prover) -> bool:
        """Whether the statements overwrite all of the array before any other use."""
        whole = tuple((Poly.const(0), extent) for extent in walk.type_sizes(array.type))
        try:
            return self.follow(statements, array.name, [], prover, whole) is None
        except _Unproved:
            return False

    def follow(
        self, statements: Sequence[fun.Let], name: str, before: list[Box], prover: Prover,
        whole: Box | None = None,
    ) -> tuple[str, int] | None:  # fmt: skip
        """The array's last name and its uses; None once boxes before and here contain `whole`."""
        before, count = list(before), 0
        for let in statements:
            found = _occurrences(let, name)
            link = _link(let, name) if found else None
            if link is None:
                if found:
                    count += self.reads(let, name, before, (), prover)
                continue
            if found > 1 or self.uses[name] != count + 1:
                raise _Unproved  # used beside or after what overwrites it
            if isinstance(let.expr, fun.Loop):
                self.rounds(let.expr, link, before, prover)
            before += _writes(let.expr, link, prover)
            if isinstance(let.expr, fun.Update):
                self.settle(before[-1], prover)
            name, count = let.pattern[link].name, 0
            if whole and any(
                boxes.contains(box, whole, prover) for box in boxes.joined(before, prover)
            ):
                return None
        return name, count

    def rounds(self, loop: fun.Loop, link: int, before: list[Box], prover: Prover) -> None:
        """Check the reads of one round of a loop, by what earlier rounds have written."""
        ((index, lower, extent),) = boxes.ranges(loop)
        inside = prover.within(index, lower, lower + extent - 1)
        earlier = (index, lower, Poly.var(index) - lower)
        written = [_over(box, earlier, inside) for box in _written(loop, link, inside)]
        self.settle((), prover)
        end = self.follow(loop.body.statements, loop.params[link].name, before + written, inside)
        self.settle((), prover)
        assert end is not None
        name, count = end
        result = loop.body.results[link]
        if not (isinstance(result, fun.Var) and result.name == name):
            raise _Unproved
        if self.uses[name] != count + 1:
            raise _Unproved

    def settle(self, written: Box, prover: Prover) -> None:
        """What was read early must be overwritten now."""
        if self.waiting is not None:
            if not written or not boxes.contains(written, self.waiting, prover):
                raise _Unproved
            self.waiting = None

    def reads(
        self, let: fun.Let, name: str, before: list[Box], space: tuple[Range, ...], prover: Prover,
        parallel: bool = False,
    ) -> int:  # fmt: skip
        """How often a statement reads elements; any other use is refused."""
        expr = let.expr
        if isinstance(expr, fun.Index) and expr.array.name == name:
            self.read(let.pattern[0].name, expr, before, space, prover, parallel)
            return 1
        if any(isinstance(a, fun.Var) and a.name == name for a in walk.operands(expr)[0]):
            raise _Unproved
        count = 0
        ranges = boxes.ranges(expr)
        inside = _within(prover, ranges)
        for number, body in enumerate(walk.bodies(expr)):
            if name not in walk.free_names(body):
                continue
            if (number and not isinstance(expr, fun.If)) or isinstance(_form(expr), fun.While):
                raise _Unproved  # an operator, or rounds of which nothing is known
            if any(isinstance(a, fun.Var) and a.name == name for a in body.results):
                raise _Unproved
            in_kernel = isinstance(expr, fun.Kernel)
            for inner in body.statements:
                if _occurrences(inner, name):
                    count += self.reads(inner, name, before, space + ranges, inside, in_kernel)
        return count

    def read(
        self, bound: str, expr: fun.Index, before: list[Box], space: tuple[Range, ...],
        prover: Prover, parallel: bool,
    ) -> None:  # fmt: skip
        """One read: of an element that was overwritten, or of one that was not."""
        if any(expr.boundary):
            raise _Unproved
        element = tuple((index, ONE) for index in expr.indices)
        if any(boxes.contains(box, element, prover) for box in boxes.joined(before, prover)):
            return
        if not all(boxes.disjoint(box, element, prover) for box in before):
            raise _Unproved
        if self.kernel is not None:
            region = boxes.of_reads(expr.indices, space)
            if region is None or self.waiting is not None:
                raise _Unproved  # an element would be computed twice
            if not (parallel and space[-1][0] in expr.indices[-1].variables()):
                raise _Unproved  # what was a vector loop would be none
            self.waiting = region
        self.early[bound] = expr.indices


def _form(expr: fun.Expr) -> fun.For | fun.While | None:
    return expr.form if isinstance(expr, fun.Loop) else None


def _occurrences(let: fun.Let, name: str) -> int:
    return sum(used == name for used in _uses((let,)))


def _link(let: fun.Let, name: str) -> int | None:
    """Which result of a statement is the array with elements overwritten, if it does that."""
    match let.expr:
        case fun.Update(array):
            return 0 if array.name == name else None
        case fun.Loop(_, initial, fun.For()):
            names = [atom.name if isinstance(atom, fun.Var) else None for atom in initial]
            return names.index(name) if name in names else None
        case _:
            return None


def _writes(expr: fun.Expr, link: int, prover: Prover) -> list[Box]:
    """What a statement overwrites."""
    match expr:
        case fun.Update(_, dims):
            box = boxes.of_slice(dims)
            if box is None:
                raise _Unproved
            return [box]
        case fun.Loop():
            (range_,) = boxes.ranges(expr)
            inside = _within(prover, (range_,))
            return [_over(box, range_, prover) for box in _written(expr, link, inside)]
        case _:
            raise _Unproved


def _written(loop: fun.Loop, link: int, prover: Prover) -> list[Box]:
    """What one round of a loop overwrites."""
    name, found = loop.params[link].name, []
    for let in loop.body.statements:
        place = _link(let, name) if name in walk.used_names(let.expr) else None
        if place is not None:
            found += _writes(let.expr, place, prover)
            name = let.pattern[place].name
    return found


def _over(box: Box, range_: Range, prover: Prover) -> Box:
    larger = boxes.over_loop(box, range_, prover)
    if larger is None:
        raise _Unproved
    return larger


# ---------------------------------------------------------------- computing where it is read


class _Inline(walk.Substitution):
    """Statements with the computation of elements in place of early reads."""

    def __init__(self, early: dict[str, Indices], element: Element) -> None:
        super().__init__()
        self.early = early
        self.element = element

    def lets(self, statements: Sequence[fun.Let]) -> list[fun.Let]:
        done: list[fun.Let] = []
        for let in statements:
            indices = self.early.get(let.pattern[0].name) if self.early else None
            if indices is None:
                done.append(self.let(let) if self.early else let)
            else:
                new, value = self.element(indices)
                done += new
                self.bind(let.pattern[0].name, value)
        return done

    def body(self, body: fun.Body) -> fun.Body:
        statements = tuple(self.lets(body.statements))
        return fun.Body(statements, tuple(map(self.atom, body.results)))


def _value(value: fun.Atom, _: Indices) -> tuple[list[fun.Let], fun.Atom]:
    """An element of a fill."""
    return [], value


def _element(kernel: fun.Kernel, names: Names, indices: Indices) -> tuple[list[fun.Let], fun.Atom]:
    """A kernel's body at an index."""
    used = set(walk.uses(kernel.body))
    lets: list[fun.Let] = []
    atoms: dict[str, fun.Atom] = {}
    for range_, size in zip(kernel.space, indices, strict=True):
        if range_.index.name in used:
            var = fun.Var(names.fresh("s"), range_.index.type)
            lets.append(fun.Let((var,), fun.SizeValue(size)))
            atoms[range_.index.name] = var
    sizes = {r.index.name: size for r, size in zip(kernel.space, indices, strict=True)}
    copy = walk.Substitution(atoms, sizes, names.fresh).body(kernel.body)
    return [*lets, *copy.statements], copy.results[0]
