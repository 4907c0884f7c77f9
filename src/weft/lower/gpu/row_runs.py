"""Runs of statements over the same rows, of which a group can do all while it holds a row.

    let m: [n] = reduce[maximum] (i < n; j < c) { x[i, j] }
    let e: [n, c] = kernel (i < n, j < c) { exp(x[i, j] - m[i]) }
    let s: [n] = reduce[add] (i < n; j < c) { e[i, j] }
    let y: [n, c] = kernel (i < n, j < c) { e[i, j] / s[i] }
        =>  three steps of elements and two of rows; x is loaded once, m, e and s are nowhere

Elements are gone through twice at least. What comes before the first reduction is read in the run;
what comes after it is another one, or reads what the run has made. In boxes each statement has its
own window; that these are equal is for the launch to say. What one row's group writes no
other row's may read afterwards: memory that is both read and written has to be met element by
element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lower import reductions, shapes
from weft.lower.gpu import products
from weft.lower.gpu.host import Host
from weft.lower.gpu.reduction_kernel import ReductionKernel
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size, as_poly

_ELEMENT = "row's element"  # canonical names of indices: of the elements,
_ROW = "row."  # and of each dimension of the rows
_STEPS = 32  # of a run, at most: compiling one takes longer than each of its steps

External = tuple[str, DType, Size]
"""An element of memory that the run does not make: block, dtype, address by canonical names."""


@dataclass(slots=True)
class Equations:
    """Sizes that have to be 0 where a run is launched: windows of a box that are equal.

    `solved`: variables, by others.
    """

    known: frozenset[str]
    zeros: list[Size] = field(default_factory=list)
    solved: dict[str, Poly | int] = field(default_factory=dict)

    def simplify(self, size: Size) -> Size:
        return size.substitute(self.solved)

    def suppose(self, difference: Size) -> bool:
        """That it is 0; False where that is false, or no launch could know it."""
        left = self.simplify(difference)
        if left.is_constant or not left.variables() <= self.known:
            return left == 0
        name = next((
            name for name in sorted(left.variables(), reverse=True)
            if left.degree(name) == 1 and left.coefficient(name) in (ONE, -ONE)
        ), None)  # fmt: skip
        if name is None:
            return False
        rest = left.without(name)
        instead = {name: -rest if left.coefficient(name) == ONE else rest}
        before = self.solved.items()
        self.solved = {other: as_poly(size).substitute(instead) for other, size in before}
        self.solved |= instead
        self.zeros.append(left)
        return True


@dataclass(frozen=True, slots=True)
class Read:
    """A statement that reads an element, and where it stands.

    `element`: the index of a row's elements there, if there is one; `always`: no branch decides.
    """

    let: fun.Let
    element: fun.Range | None
    always: bool

    @property
    def name(self) -> str:
        return self.let.pattern[0].name

    @property
    def index(self) -> fun.Index:
        assert isinstance(self.let.expr, fun.Index)
        return self.let.expr


@dataclass(frozen=True, slots=True)
class Step:
    """A statement of a run.

    Attributes
    ----------
    let : fun.Let
        Its expression is a kernel.
    rows : tuple of fun.Range
        The kernel's space without that of the elements.
    element : fun.Range or None
        Of a kernel of elements, or of a reduction.
    of : ReductionKernel or None
        A reduction of the elements of each row.
    """

    let: fun.Let
    rows: tuple[fun.Range, ...]
    element: fun.Range | None
    of: ReductionKernel | None

    @property
    def kernel(self) -> fun.Kernel:
        assert isinstance(self.let.expr, fun.Kernel)
        return self.let.expr

    @property
    def of_elements(self) -> bool:
        return self.element is not None and self.of is None

    def reads(self) -> Iterator[Read]:
        """All elements that are read."""
        if self.of is None:
            yield from _reads(self.kernel.body, self.element, True)
            return
        yield from _reads(self.of.before, None, True)
        yield from _reads(self.of.reduce.body, self.element, True)
        yield from _reads(self.of.reduce.operator.body, None, False)
        yield from _reads(self.of.after, None, True)

    def canonical(self) -> dict[str, Poly | int]:
        """What its indices are called in every step."""
        long = [r for r in self.rows if r.extent != ONE]
        names: dict[str, Poly | int] = {r.index.name: 0 for r in self.rows}
        names |= {r.index.name: Poly.var(f"{_ROW}{n}") for n, r in enumerate(long)}
        if self.element is not None:
            names[self.element.index.name] = Poly.var(_ELEMENT)
        return names

    def external(self, read: Read, same: Equations) -> External:
        array = memory(read.index.array)
        address = array.index.apply(read.index.indices).substitute(self.canonical())
        return array.block, array.dtype, same.simplify(address)

    def written(self, same: Equations) -> list[External]:
        """Where its results lie."""
        indices = tuple(Poly.var(r.index.name) for r in self.kernel.space)
        addresses = (
            (array, array.index.apply(indices).substitute(self.canonical()))
            for array in map(memory, self.let.pattern)
        )
        return [(a.block, a.dtype, same.simplify(address)) for a, address in addresses]


@dataclass(slots=True)
class Value:
    """Something of each element that is kept until it was read last."""

    dtype: DType
    first: int
    last: int
    slot: int = -1


@dataclass(slots=True)
class RowRun:
    """What `find` has found.

    Attributes
    ----------
    lets : list of fun.Let
        All its statements, in order; those between the steps are scalars.
    steps : list of Step
    scalars : tuple of fun.Let
    extent : Size
        Of the rows.
    same : Equations
        What has to be so.
    made : dict of str to int
        For each array that the run makes, the step.
    escaping : frozenset of str
        Of these, what is read after the run.
    loads : dict of External to Value
        Elements that are loaded to be kept.
    kept : dict of str to Value
        Arrays of elements that are kept.
    slots : list of DType
        What is kept where, of each element.
    """

    lets: list[fun.Let]
    steps: list[Step]
    scalars: tuple[fun.Let, ...]
    extent: Size
    same: Equations
    made: dict[str, int] = field(default_factory=dict)
    escaping: frozenset[str] = frozenset()
    loads: dict[External, Value] = field(default_factory=dict)
    kept: dict[str, Value] = field(default_factory=dict)
    slots: list[DType] = field(default_factory=list)

    def is_read(self, name: str) -> bool:
        """Whether a step reads an array of the run."""
        return any(r.index.array.name == name for step in self.steps for r in step.reads())


def find(host: Host, body: fun.Body, position: int, stops: frozenset[int]) -> RowRun | None:
    """The longest run that begins at a position; `stops`: before which statements it must end."""
    lets: list[fun.Let] = []
    steps: dict[int, Step] = {}
    for at in range(position, len(body.statements)):
        let = body.statements[at]
        if (at in stops and at > position) or len(steps) == _STEPS:
            break
        step = None if _is_scalar(let) else _step(host, let)
        if step is None and not _is_scalar(let):
            break
        if step is not None:
            steps[len(lets)] = step
        elif not steps:
            break
        lets.append(let)
    reductions_ = [step.of for step in steps.values() if step.of is not None]
    if len(steps) < 2 or not reductions_:
        return None
    rows = _long(reductions_[0].kernel.space)
    extent = reductions_[0].reduce.space[0].extent
    if extent == ONE or not all(map(host.is_sized, (*rows, extent))):
        return None
    matched = _matching(steps, rows, extent)
    while len(matched) > 1:
        end = max(matched) + 1
        after = fun.Body(body.statements[position + end :], body.results)
        scalars = tuple(let for at, let in enumerate(lets[:end]) if at not in matched)
        same = Equations(host.unit.sizes)
        run = RowRun(lets[:end], list(matched.values()), scalars, extent, same)
        good = _are_run(host, run, walk.free_names(after))
        if good == len(matched):
            return run
        matched = dict(list(matched.items())[:good])
    return None


def _is_scalar(let: fun.Let) -> bool:
    return isinstance(let.expr, fun.Apply | fun.Cast | fun.SizeValue)


def _step(host: Host, let: fun.Let) -> Step | None:
    """A statement that might be of a run, whose indices are not told apart yet."""
    match let.expr:
        case fun.Reduce(space, 1) as reduce if len(space) > 1:
            if reduce.counter or not shapes.is_flat(reduce.body):
                return None
            let = reductions.as_kernel(host.e, let)
        case fun.Kernel() if not products.suits(host, let.expr):
            pass
        case _:
            return None
    assert isinstance(let.expr, fun.Kernel)
    kernel = let.expr
    of = ReductionKernel.of(let, kernel)
    if of is not None:
        if of.is_of_rows and _is_of_scalars(of.reduce.body):
            return Step(let, kernel.space, of.reduce.space[0], of)
        return None
    if shapes.is_flat(kernel.body) and _is_of_scalars(kernel.body):
        return Step(let, kernel.space, None, None)
    return None


def _is_of_scalars(body: fun.Body) -> bool:
    made = (var for let in walk.statements(body) for var in let.pattern)
    return all(isinstance(thing.type, fun.Scalar) for thing in (*made, *body.results))


def _long(space: Sequence[fun.Range]) -> list[Size]:
    return [r.extent for r in space if r.extent != ONE]


def _alike(left: Sequence[Size], right: Sequence[Size]) -> bool:
    """Whether rows are as many, or are of windows that may have as many."""
    return len(left) == len(right) and all(
        a == b or not (a.is_constant or b.is_constant or a.variable or b.variable)
        for a, b in zip(left, right, strict=True)
    )


def _matching(steps: Mapping[int, Step], rows: list[Size], extent: Size) -> dict[int, Step]:
    """The first steps, as far as they are of these rows, by their positions."""
    found: dict[int, Step] = {}
    for at, step in steps.items():
        long = _long(step.kernel.space)
        if step.of is not None:
            if not _alike(long, rows) or step.of.reduce.space[0].extent != extent:
                break
        elif long and long[-1] == extent and _alike(long[:-1], rows):
            element = [r for r in step.kernel.space if r.extent != ONE][-1]
            others = tuple(r for r in step.kernel.space if r is not element)
            step = Step(step.let, others, element, None)
        elif not _alike(long, rows):
            break
        found[at] = step
    return found


def _reads(body: fun.Body, element: fun.Range | None, always: bool) -> Iterator[Read]:
    for let in body.statements:
        if isinstance(let.expr, fun.Index):
            yield Read(let, element, always)
        for inner in walk.bodies(let.expr):
            yield from _reads(inner, element, False)


def _are_run(host: Host, run: RowRun, after: frozenset[str]) -> int:
    """How many of the steps might be done row by row: if all, they can, and the run says how."""
    makers = {var.name: n for n, step in enumerate(run.steps) for var in step.let.pattern}
    read_of = {read.index.array.name for step in run.steps for read in step.reads()}
    run.made, run.escaping = makers, frozenset(makers) & after
    first = _long(run.steps[0].rows)
    begun = False  # whether something was reduced, or made of what was
    for number, step in enumerate(run.steps):
        for own, others in zip(_long(step.rows), first, strict=True):
            if not run.same.suppose(own - others):
                return number
        reads = [read for read in step.reads() if read.index.array.name in makers]
        if not all(_is_own(run, step, read) for read in reads):
            return number
        begun = begun or step.of is not None
        is_read = any(var.name in read_of for var in step.let.pattern)
        if step.of is None and not (reads if begun else is_read):
            return number
    if sum(step.element is not None for step in run.steps) < 2:
        return 0  # what goes through the elements once has forms of its own
    _choose_kept(host, run)
    fine = begun and _is_straight(run) and not _overwrites(host, run)
    return len(run.steps) if fine else len(run.steps) - 1


def _is_own(run: RowRun, step: Step, read: Read) -> bool:
    """Whether an element that the run makes is read by the row, or element, that it is of."""
    made = run.steps[run.made[read.index.array.name]]
    if read.index.boundary:
        return False
    own, theirs = step.canonical(), made.canonical()
    if read.element is None and step.element is not None:
        own.pop(step.element.index.name)
    return all(
        r.extent == ONE or run.same.suppose(index.substitute(own) - theirs[r.index.name])
        for r, index in zip(made.kernel.space, read.index.indices, strict=True)
    )


def _choose_kept(host: Host, run: RowRun) -> None:
    """What elements are kept, and where: a slot is free once what it holds was read last."""
    met: dict[External, list[int]] = {}
    reduced: set[External] = set()
    for number, step in enumerate(run.steps):
        for read in step.reads():
            name = read.index.array.name
            if name in run.made:
                if run.steps[run.made[name]].of_elements:
                    maker = run.made[name]
                    dtype = memory(read.index.array).dtype
                    run.kept.setdefault(name, Value(dtype, maker, number)).last = number
            elif (found := kept_external(host, run, step, read)) is not None:
                met.setdefault(found, []).append(number)
                if step.of is not None:
                    reduced.add(found)
    for found, numbers in met.items():
        if found in reduced or len(set(numbers)) > 1:
            run.loads[found] = Value(found[1], numbers[0], numbers[-1])
    holds: list[Value] = []  # what a slot holds last
    for value in sorted((*run.loads.values(), *run.kept.values()), key=lambda v: v.first):
        made = any(value is one for one in run.kept.values())
        for slot, before in enumerate(holds):
            over = before.last <= value.first if made else before.last < value.first
            if over and before.dtype is value.dtype:
                value.slot, holds[slot] = slot, value
                break
        else:
            value.slot = len(holds)
            holds.append(value)
    run.slots = [value.dtype for value in holds]


def kept_external(host: Host, run: RowRun, step: Step, read: Read) -> External | None:
    """An element that may be loaded before the step; None for one that must not be, or need not."""
    found = step.external(read, run.same)
    names = found[2].variables()
    known = host.unit.sizes | {_ELEMENT} | {n for n in names if n.startswith(_ROW)}
    straight = read.always and read.element is not None and not read.index.boundary
    return found if straight and names <= known and _ELEMENT in names else None


def _is_straight(run: RowRun) -> bool:
    """Whether neighbours of what is loaded to be kept, and of what is stored, lie side by side."""
    stored = [
        address
        for step in run.steps if step.of_elements
        for var, address in zip(step.let.pattern, step.written(run.same), strict=True)
        if var.name in run.escaping
    ]  # fmt: skip
    return all(
        address.degree(_ELEMENT) == 1 and address.coefficient(_ELEMENT) in (ONE, -ONE)
        for _, _, address in (*run.loads, *stored)
    )


def _overwrites(host: Host, run: RowRun) -> bool:
    """Whether memory that is read is written, but for an element by whoever has read it."""
    stored: dict[str, set[External]] = {}
    for step in run.steps:
        for var, place in zip(step.let.pattern, step.written(run.same), strict=True):
            if var.name in run.escaping:
                stored.setdefault(place[0], set()).add(place)
    for step in run.steps:
        for read in step.reads():
            if read.index.array.name in run.made:
                continue
            place = step.external(read, run.same)
            if place[0] not in stored:
                continue
            is_kept = kept_external(host, run, step, read) in run.loads
            by_item = is_kept or (step.of_elements and read.element is not None)
            if not by_item or stored[place[0]] != {place} or not place[2].degree(_ELEMENT):
                return True
    return False
