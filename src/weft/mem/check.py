"""Check FUNMEM: FUN's rules, and that memory is where it must be.

The rules are those of figure 4.6 of Munksgaard's thesis (T-MEM-...), with our forms beside
his: where he allocates by a statement, blocks are listed before the program; a kernel, an
`If` or a loop does not copy its body's results, which must be in their places already.
What cannot be seen without running (races, accesses outside blocks) is checked by the
heap interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from weft.errors import InternalError
from weft.fun import check as fun_check
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.show import show_let
from weft.mem import layout
from weft.mem.aliases import looked_at
from weft.mem.erase import erase
from weft.mem.nodes import THREAD, THREADS, Choice, MemArray, Program
from weft.sizes import Poly


def check(program: Program, after: str = "") -> None:
    """Check a program.

    - Erased, it is a well-formed FUN program (scalar, int).
    - Blocks have names of their own, and sizes known at launch (alloc).
    - Every array has memory in a known block (arr), an index function of its shape in which
      only what is in scope occurs (lmad), and the same memory wherever it is used (index).
    - A view looks at its array's memory as the layout change says (transpose, slice).
    - Updates and scatters are in place.
    - Results of bodies lie where their statement's results do (if, kernel).
    - Inside kernels, arrays are made in blocks of a thread, in its share of one that is
      expanded, or in the kernel's results; outside, nothing is in a thread's block (kernel).
    - Parameters are in blocks of their names, results in "result_0", ..., or in those of
      parameters, one in each (prog).

    Parameters
    ----------
    after : str, optional
        The pass that made the program, which the error names.

    Raises
    ------
    InternalError
        When something of that does not hold; it shows the statement.
    """
    fun_check.check(erase(program), after)
    _Checker(program, after).run()


class _Checker:
    def __init__(self, program: Program, after: str) -> None:
        self.source = program
        self.after = after
        whole = program.program
        self.scope = {THREADS, *whole.sizes, *(d.name for d in whole.derived), *program.strides}
        self.types: dict[str, MemArray] = {}
        self.let: fun.Let | None = None
        self.choices = {choice.name: choice for choice in program.choices}
        self.own = {block.name for block in program.blocks if block.per_thread}
        self.given = {param.name for param in whole.params}
        self.results = {f"result_{k}" for k in range(len(program.destinations))}
        self.shared = {block.name for block in program.blocks if not block.per_thread}
        self.writable: set[str] = set()  # in a kernel: blocks of its results
        self.in_kernel = False

    def run(self) -> None:
        whole = self.source.program
        choices = self.source.choices
        names = [block.name for block in self.source.blocks] + [c.name for c in choices]
        self.require(len(set(names)) == len(names), "two blocks of one name")
        for choice in choices:
            apart = len(set(choice.blocks)) == len(choice.blocks)
            self.require(apart, f"{choice.name} has one block twice")
        for block in self.source.blocks:
            free = block.bytes.variables() - self.scope
            self.require(not free, f"block {block.name} of {block.bytes} bytes: {free} unknown")
        for param in whole.params:
            self.bind(param)
            if isinstance(param.type, MemArray):
                self.require(param.type.block == param.name, f"parameter {param.name} is elsewhere")
        for number, (type_, result) in enumerate(
            zip(self.source.destinations, whole.body.results, strict=True)
        ):
            self.destination(type_, result, f"result_{number}")
        places = [type_.block for type_ in self.source.destinations if isinstance(type_, MemArray)]
        self.require(len(set(places)) == len(places), "two results have one destination")
        self.body(whole.body, self.source.destinations)

    def require(self, holds: bool, found: str) -> None:
        if holds:
            return
        after = f"after {self.after}: " if self.after else ""
        where = f"\n{show_let(self.let)}" if self.let else ""
        place = self.let.place if self.let else None
        raise InternalError(f"{after}{found}{where}", place=place)

    def destination(self, type_: fun.Type, result: fun.Atom, block: str) -> None:
        if isinstance(type_, MemArray):
            given = self.types.get(type_.block) if type_.block in self.given else None
            in_given = isinstance(given, MemArray) and layout.in_shape(given, type_.shape) == type_
            self.require(
                (type_.block == block and type_.index.shape == walk.type_sizes(result.type))
                or in_given,
                f"the destination {type_.block} + {type_.index} is not of {block}",
            )
            free = type_.index.offset.variables().union(
                *(s.variables() for s in type_.index.strides)
            )
            self.require(free <= self.scope, f"{block} at {type_.index}: {free} unknown")

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """What is bound inside is not in scope after it."""
        outside, self.scope = self.scope, set(self.scope)
        yield
        self.scope = outside

    # ------------------------------------------------------------ variables

    def bind(self, var: fun.Var) -> None:
        self.scope.add(var.name)
        if isinstance(var.type, fun.Scalar):
            return
        self.require(isinstance(var.type, MemArray), f"{var.name} has no memory")
        assert isinstance(var.type, MemArray)
        block, index = var.type.block, var.type.index
        known = self.own | self.shared | self.given | self.results
        if (choice := self.choices.get(block)) is not None:
            free = choice.turn.variables() - self.scope
            self.require(not free, f"{var.name} in {block}: {', '.join(sorted(free))} unknown")
            fits = known.difference(self.own).issuperset(choice.blocks)
            self.require(fits, f"{block} is not one of blocks that all threads share")
            known = {block}
        self.require(block in known, f"{var.name} is in an unknown block {block}")
        self.require(
            self.in_kernel or block not in self.own, f"{var.name} is in a thread's block {block}"
        )
        self.require(index.shape == var.type.shape, f"{var.name} is not of its memory's shape")
        for size in (index.offset, *index.strides):
            free = size.variables() - self.scope
            self.require(not free, f"{var.name} at {index}: {', '.join(sorted(free))} unknown")
        self.types[var.name] = var.type

    def use(self, atom: fun.Atom) -> None:
        if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Array):
            self.require(
                self.types.get(atom.name) == atom.type, f"{atom.name} is used with other memory"
            )

    def same(self, found: fun.Type, wanted: fun.Type, what: str) -> None:
        if isinstance(wanted, MemArray):
            self.require(
                isinstance(found, MemArray)
                and self.one_block(found.block, wanted.block)
                and layout.same(replace(found, block=wanted.block), wanted),
                f"{what} is not in its place, {wanted.block} + {wanted.index}",
            )

    def one_block(self, left: str, right: str) -> bool:
        """Whether two names stand for one block; a choice may have more to choose from."""
        one, other = self.choices.get(left), self.choices.get(right)
        if one is None or other is None:
            return left == right
        pairs = zip(one.blocks, other.blocks, strict=False)
        return one.turn == other.turn and all(a == b for a, b in pairs)

    # ------------------------------------------------------------ bodies and statements

    def body(self, body: fun.Body, destinations: Sequence[fun.Type | None]) -> None:
        outer = self.let
        for let in body.statements:
            self.let = let
            self.statement(let)
            self.let = let
            for var in let.pattern:
                self.bind(var)
        self.let = outer
        for result, destination in zip(body.results, destinations, strict=True):
            self.use(result)
            if destination is not None:
                self.same(result.type, destination, "a result")

    def statement(self, let: fun.Let) -> None:
        expr, pattern = let.expr, let.pattern
        for atom in walk.operands(expr)[0]:
            self.use(atom)
        self.made(let)
        match expr:
            case fun.Kernel(space, body):
                self.enter(space, body, pattern)
            case fun.Reduce(space, _, body, operator) | fun.Scan(space, body, operator):
                self.enter(space, body, ())
                self.function(operator)
            case fun.Scatter(destinations, space, body, combine):
                for var, destination in zip(pattern, destinations, strict=True):
                    self.same(destination.type, var.type, "the destination of a scatter")
                self.enter(space, body, ())
                if combine is not None:
                    self.function(combine)
            case fun.Update(array) | fun.LmadUpdate(array):
                self.same(array.type, pattern[0].type, "the array of an update")
            case fun.If(_, then, otherwise):
                for body in (then, otherwise):
                    with self.scoped():
                        self.branch(body, pattern)
            case fun.Loop():
                self.loop(expr, pattern)
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape() | fun.Broadcast():
                viewed = looked_at(expr)
                if viewed is not None:
                    self.view(expr, viewed, pattern[0])
            case _:
                pass

    def branch(self, body: fun.Body, pattern: Sequence[fun.Var]) -> None:
        """Memory that varies with the scalars of an `If` is compared with their values put in."""
        self.body(body, self.moved(pattern, body.results))

    def view(self, expr: fun.LayoutExpr, array: fun.Var, var: fun.Var) -> None:
        source = array.type
        assert isinstance(source, MemArray)
        index = layout.of_view(expr, source.index)
        self.require(index is not None, "a reshape that no index function expresses")
        assert index is not None
        assert isinstance(var.type, fun.Array)
        wanted = MemArray(source.dtype, var.type.shape, source.block, index)
        self.same(var.type, wanted, "a view")

    def made(self, let: fun.Let) -> None:
        """Where a statement in a kernel may write."""
        if not self.in_kernel or looked_at(let.expr) is not None:
            return
        for var in let.pattern:
            if isinstance(var.type, MemArray):
                block = var.type.block
                apart = THREAD in var.type.index.offset.variables()
                self.require(
                    apart or block in self.own or block in self.writable,
                    f"{var.name} is made in {block}, which all threads share",
                )

    def enter(
        self, space: tuple[fun.Range, ...], body: fun.Body, pattern: Sequence[fun.Var]
    ) -> None:
        """A body in a kernel; the pattern is that of a `Kernel` statement."""
        outside = self.in_kernel, self.writable
        indices = tuple(Poly.var(dimension.index.name) for dimension in space)
        destinations: list[fun.Type | None] = [None] * len(body.results)
        blocks = set(self.writable) if self.in_kernel else set()
        for number, var in enumerate(pattern):
            outer, inner = var.type, body.results[number].type
            self.require(isinstance(outer, MemArray), f"{var.name} has no memory")
            assert isinstance(outer, MemArray)
            blocks.add(outer.block)
            if isinstance(inner, MemArray):
                index = outer.index.fix(indices)
                destinations[number] = MemArray(inner.dtype, inner.shape, outer.block, index)
        self.in_kernel, self.writable = True, blocks
        with self.scoped():
            self.scope.update((THREAD, *(dimension.index.name for dimension in space)))
            self.body(body, destinations)
        self.in_kernel, self.writable = outside

    def function(self, function: fun.Lambda) -> None:
        outside, self.in_kernel = self.in_kernel, True
        with self.scoped():
            for param in function.params:
                self.bind(param)
            self.body(function.body, (None,) * len(function.body.results))
        self.in_kernel = outside

    def loop(self, expr: fun.Loop, pattern: Sequence[fun.Var]) -> None:
        """Memory that varies with a loop's scalars is compared with their values put in."""
        with self.scoped():
            for param in expr.params:
                if isinstance(param.type, fun.Scalar):
                    self.scope.add(param.name)
            for param in expr.params:
                self.bind(param)
            wanted = self.moved(expr.params, expr.initial)
            for atom, type_ in zip(expr.initial, wanted, strict=True):
                self.same(atom.type, type_, "the initial value of a loop")
            match expr.form:
                case fun.For(index, _, _):
                    self.scope.add(index.name)
                case fun.While(condition):
                    with self.scoped():
                        self.body(condition, (None,))
            with self.scoped():
                after = self.moved(expr.params, expr.body.results, expr.body)
                self.body(expr.body, after)
        self.scope.update(var.name for var in pattern)
        final = self.moved(expr.params, pattern)
        for var, type_ in zip(pattern, final, strict=True):
            self.same(var.type, type_, "the result of a loop")

    def moved(
        self, params: Sequence[fun.Var], atoms: Sequence[fun.Atom], body: fun.Body | None = None
    ) -> list[fun.Type]:
        """The parameters' memory when its scalars have the values of the atoms."""
        known = _differences(body) if body else {}
        sizes: dict[str, Poly] = {}
        for param, atom in zip(params, atoms, strict=True):
            if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Scalar):
                sizes[param.name] = known.get(atom.name, Poly.var(atom.name))
            elif isinstance(atom, fun.Const) and isinstance(atom.value, int):
                sizes[param.name] = Poly.const(atom.value)
        moved: list[fun.Type] = []
        for param in params:
            type_ = param.type
            if isinstance(type_, MemArray):
                index = type(type_.index)(
                    type_.index.offset.substitute(sizes),
                    tuple((e.substitute(sizes), s.substitute(sizes)) for e, s in type_.index.dims),
                )
                block = self.chosen(type_.block, sizes)
                type_ = MemArray(type_.dtype, index.shape, block, index)
            moved.append(type_)
        return moved

    def chosen(self, block: str, sizes: dict[str, Poly]) -> str:
        """The block, or the choice, that a choice is with values for scalars."""
        choice = self.choices.get(block)
        if choice is None:
            return block
        turn = choice.turn.substitute(sizes)
        if turn.is_constant:
            known = 0 <= turn.constant < len(choice.blocks)
            self.require(known, f"{block} has no block {turn}")
            return choice.blocks[turn.constant]
        name = f"{block} at {turn}"
        self.choices[name] = Choice(name, turn, choice.blocks)
        return name


def _differences(body: fun.Body) -> dict[str, Poly]:
    """The int64 scalars of a body that are a constant less another: whose turn it is."""
    found: dict[str, Poly] = {}
    for let in body.statements:
        match let.expr:
            case fun.Apply("subtract", (fun.Const(value=int(value)), fun.Var(name=name))):
                found[let.pattern[0].name] = value - Poly.var(name)
            case _:
                pass
    return found
