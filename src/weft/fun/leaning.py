"""Rounds of a stencil on rows that lean: each kernel does its own one radius further to the front.

    loop (v = x) for k from 0 to t { let w = kernel (i < n) { f(v[i - r], .., v[i + r]) } in w }
 => loop (v = x, o = z) for k from 0 to t / 2 {
      let a = kernel (i < high(0) - low(0)) { f(v[i + low(0) - r], .., v[i + low(0) + r]) }
      let p = update o[low(0) for high(0) - low(0)] = a
      let b = kernel (i < high(1) - low(1)) { f(p[i + low(1) - r], .., p[i + low(1) + r]) }
      let q = update v[low(1) for high(1) - low(1)] = b
      in q, p }

where low(l) = low - left*l, and high likewise. A kernel then needs of the rows before its own just
those that the kernels before it left there: `r` rows of each of two arrays that take turns. Where
rows follow one another in boxes, nothing is computed twice (M. Wolfe, More Iteration Space Tiling,
1989; van Beurden and Scholz, On Generating Out-Of-Core GPU Code for Multi-Dimensional Array
Operations, IFL 2022, section 5.4, keep both buffers of a box for the same reason).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.fun.shift import shift
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size

_MOST_TURNS = 6  # rounds after which arrays are back in their own memory


@dataclass(frozen=True, slots=True)
class Lean:
    """The rows that kernel l computes, counted from 0 over all rounds: `low - left*l` and on.

    They end before `high - right*l`.
    """

    low: Size
    high: Size
    left: Size
    right: Size

    def rows(self, level: Size) -> tuple[Size, Size]:
        """The first row of a kernel, and the one after its last."""
        return self.low - self.left * level, self.high - self.right * level


@dataclass(frozen=True, slots=True)
class Turns:
    """How the arrays of a loop take turns in memory, where each is written over an older one.

    Attributes
    ----------
    spares : tuple of int
        For each array besides the parameters the result of a round, by its number, that is
        first made in it.
    temporaries : tuple of fun.Var
        What a round makes for itself; each has memory of its own.
    after : tuple of int
        The memory of each parameter after a round, spares numbered on from them; then that of
        each spare.
    rounds : int
        After so many all are back in their own memory.
    """

    spares: tuple[int, ...]
    temporaries: tuple[fun.Var, ...]
    after: tuple[int, ...]
    rounds: int


def turns_of(loop: fun.Loop) -> Turns | None:
    """How the arrays of a stencil's loop take turns; None where they do not fit one another.

    Every array that a round makes is written over one that nothing reads any more: over what
    the round before was given and did not give on.
    """
    params = [param.name for param in loop.params]
    made = {
        var.name: var
        for let in loop.body.statements
        if isinstance(let.expr, fun.Kernel)
        for var in let.pattern
    }
    results = [r.name for r in loop.body.results if isinstance(r, fun.Var)]
    if len(results) != len(params) or len(set(results)) < len(results):
        return None
    if any(name not in made and name not in params for name in results):
        return None
    spares = [number for number, name in enumerate(results) if name in made]
    free = [number for number, name in enumerate(params) if name not in results]
    after = [0] * (len(params) + len(spares))
    for spare, number in enumerate(spares, len(params)):
        after[number] = spare
        dtype = loop.params[number].type.dtype
        fits = [n for n in free if loop.params[n].type.dtype is dtype]
        if not fits:
            return None
        chosen = number if number in fits else fits[0]
        free.remove(chosen)
        after[spare] = chosen
    for number, name in enumerate(results):
        if name in params:
            after[number] = params.index(name)
    rounds = _order(after)
    if rounds is None:
        return None
    own = tuple(var for name, var in made.items() if name not in results)
    return Turns(tuple(spares), own, tuple(after), rounds)


def _order(after: Sequence[int]) -> int | None:
    """After how many rounds all memory has its first array again."""
    now = list(range(len(after)))
    for rounds in range(1, _MOST_TURNS + 1):
        now = [now[place] for place in after]
        if now == list(range(len(after))):
            return rounds
    return None


# ---------------------------------------------------------------- to leaning rows


class Leaning:
    """Rounds on leaning rows, as they are emitted.

    Attributes
    ----------
    state : list of fun.Var
        The parameters, the spares and the temporaries.
    by_memory : list of fun.Var
        The same in the order of the memory that they began in.
    """

    def __init__(
        self, loop: fun.Loop, lean: Lean, turns: Turns, state: Sequence[fun.Var]
    ) -> None:
        """`loop`: of kernels over the whole of its arrays. `state`: what memory begins with.

        That is the memory of the parameters, of the spares, and of the temporaries.
        """
        self.loop, self.lean, self.turns = loop, lean, turns
        self.state = list(state)
        self.by_memory = list(state)
        self.kernels = sum(isinstance(s.expr, fun.Kernel) for s in loop.body.statements)

    def rounds(self, builder: Builder, count: Size, left_over: int) -> None:
        """Emit `count` times `turns.rounds` rounds in a loop, and what is left over after it."""
        params = [builder.var(var.name, var.type) for var in self.state]
        index = builder.index("k")
        inner, initial = builder.inner(), tuple(self.state)
        self.state = list(params)
        for number in range(self.turns.rounds):
            self._round(inner, Poly.var(index.name) * self.turns.rounds + number)
        form = fun.For(index, ZERO, count)
        body = inner.body(self.state)
        types = tuple(var.type for var in params)
        made = builder.bind(fun.Loop(tuple(params), initial, form, body), types, "u")
        self.state = list(made)
        for number in range(left_over):
            self._round(builder, count * self.turns.rounds + number)
        size = len(self.turns.after)
        places = list(range(size))
        for _ in range(left_over):
            places = [places[place] for place in self.turns.after]
        self.by_memory = [self.state[places.index(n)] for n in range(size)] + self.state[size:]

    def _round(self, builder: Builder, number: Size) -> None:
        """Emit a round."""
        loop, names = self.loop, builder.names
        assert isinstance(loop.form, fun.For)
        to = {loop.form.index.name: loop.form.lower + number}
        body = shift(loop.body, to, names, names.fresh)
        count = len(loop.params)
        known: dict[str, fun.Var] = {
            old.name: new for old, new in zip(loop.params, self.state, strict=False)
        }
        places = self._places(body)
        level = number * self.kernels
        for let in body.statements:
            if not isinstance(let.expr, fun.Kernel):
                builder.statements.append(let)
                continue
            rows = self.lean.rows(level)
            for var, made in zip(let.pattern, self._kernel(builder, let, rows, known), strict=True):
                known[var.name] = self.state[places[var.name]] = self._update(
                    builder, self.state[places[var.name]], rows, made
                )
            level = level + 1
        size = count + len(self.turns.spares)
        now = list(self.state)
        self.state[:size] = [now[place] for place in self.turns.after]

    def _places(self, body: fun.Body) -> dict[str, int]:
        """In whose memory each array is made that a round makes."""
        count = len(self.loop.params)
        spare = {number: count + k for k, number in enumerate(self.turns.spares)}
        names = {r.name: n for n, r in enumerate(body.results) if isinstance(r, fun.Var)}
        own = count + len(spare)
        places = {}
        for let in body.statements:
            for var in let.pattern if isinstance(let.expr, fun.Kernel) else ():
                if names.get(var.name) in spare:
                    places[var.name] = spare[names[var.name]]
                else:
                    places[var.name] = own
                    own += 1
        return places

    def _kernel(
        self, builder: Builder, let: fun.Let, rows: tuple[Size, Size], known: Mapping[str, fun.Var]
    ) -> tuple[fun.Var, ...]:
        """Emit a kernel on some rows."""
        kernel, (low, high) = let.expr, rows
        assert isinstance(kernel, fun.Kernel)
        first, *rest = kernel.space
        given = walk.Substitution(dict(known)).body(kernel.body)
        body = shift(given, {first.index.name: Poly.var(first.index.name) + low}, builder.names)
        shape = (high - low, *(r.extent for r in rest))
        types = tuple(fun.Array(var.type.dtype, shape) for var in let.pattern)
        builder.place = let.place
        space = (fun.Range(first.index, high - low), *rest)
        return builder.bind(fun.Kernel(space, body), types, "rows")

    @staticmethod
    def _update(
        builder: Builder, into: fun.Var, rows: tuple[Size, Size], made: fun.Var
    ) -> fun.Var:
        low, high = rows
        shape = walk.type_sizes(into.type)
        dims = (fun.Span(low, high - low), *(fun.Span(ZERO, n) for n in shape[1:]))
        return builder.let(fun.Update(into, dims, made), into.type, into.name)


# ---------------------------------------------------------------- and back


def straighten(loop: fun.Loop, names: Names) -> tuple[fun.Loop, Lean] | None:
    """A loop of kernels on leaning rows as one of kernels over whole arrays, and which rows.

    None where it is anything else. What the kernels over whole arrays give on other rows is to
    be left out, since the arrays keep there what they had.
    """
    if not isinstance(loop.form, fun.For) or not _each_once(loop.body):
        return None
    statements: list[fun.Let] = []
    rows: list[tuple[Size, Size]] = []
    pending = iter(loop.body.statements)
    for let in pending:
        if isinstance(let.expr, fun.Update):
            return None
        if not isinstance(let.expr, fun.Kernel):
            statements.append(let)
            continue
        updates = [inner for _, inner in zip(let.pattern, pending, strict=False)]
        span = _rows_of(let, updates)
        if span is None:
            return None
        rows.append((span.start, span.start + span.extent))
        pattern = tuple(update.pattern[0] for update in updates)
        kernel = _over_all(let.expr, walk.type_sizes(pattern[0].type)[0], span.start, names)
        statements.append(fun.Let(pattern, kernel, let.place))
    lean = _lean(loop.form, rows)
    if lean is None:
        return None
    return replace(loop, body=fun.Body(tuple(statements), loop.body.results)), lean


def _each_once(body: fun.Body) -> bool:
    """Whether what kernels give is used by their updates alone."""
    uses = list(walk.uses(body))
    return all(
        uses.count(var.name) == 1
        for let in body.statements
        if isinstance(let.expr, fun.Kernel)
        for var in let.pattern
    )


def _rows_of(kernel: fun.Let, updates: Sequence[fun.Let]) -> fun.Span | None:
    """The rows that updates replace by what a kernel gives; None where they are not these."""
    found: set[fun.Span] = set()
    shapes = set()
    if len(updates) < len(kernel.pattern):
        return None
    for var, let in zip(kernel.pattern, updates, strict=True):
        if not isinstance(let.expr, fun.Update) or let.expr.value != var:
            return None
        shape = walk.type_sizes(let.expr.array.type)
        first, *rest = let.expr.dims
        if not isinstance(first, fun.Span) or first.step != 1:
            return None
        if rest != [fun.Span(ZERO, extent) for extent in shape[1:]]:
            return None
        found.add(first)
        shapes.add(shape)
    return found.pop() if len(found) == 1 and len(shapes) == 1 else None


def _over_all(kernel: fun.Kernel, extent: Size, low: Size, names: Names) -> fun.Kernel:
    """kernel (i < high - low) { f(i + low) }  =>  kernel (i < n) { f(i) }."""
    first, *rest = kernel.space
    body = shift(kernel.body, {first.index.name: Poly.var(first.index.name) - low}, names)
    return fun.Kernel((fun.Range(first.index, extent), *rest), body)


def _lean(form: fun.For, rows: Sequence[tuple[Size, Size]]) -> Lean | None:
    """What rows lean, of those of each kernel of a round."""
    if not rows:
        return None
    index, count = form.index.name, len(rows)
    begin: list[Size] = []
    slopes: list[Size] = []
    for ends in zip(*rows, strict=True):
        each = ends[0].coefficient(index)
        slope = ends[0] - ends[1] if count > 1 else -each
        if slope * count != -each or index in slope.variables():
            return None
        if any(end != ends[0] - slope * k for k, end in enumerate(ends)):
            return None
        begin.append(ends[0].substitute({index: form.lower}))
        slopes.append(slope)
    return Lean(begin[0], begin[1], slopes[0], slopes[1])


