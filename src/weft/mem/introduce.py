"""Introduce memory: FUN to FUNMEM.

let b = permute(a, 1, 0)    =>  let b : f32[m, n] @ a + {(m : 1), (n : m)} = permute(a, 1, 0)
let c = kernel ...              let c : f32[m, n] @ mem_c + {(m : n), (n : 1)} = kernel ...
in c                            let d : f32[m, n] @ result_0 + {(m : n), (n : 1)} = copy c
                                in d

As section 4.5 of *Static and Dynamic Analyses for Efficient GPU Execution* (Munksgaard, 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from weft.errors import Place, ShapeError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Names
from weft.lmad import Lmad
from weft.mem import layout
from weft.mem.aliases import Liveness, changed_by, is_made, looked_at, overwritten, used_beside
from weft.mem.bound import Bounds
from weft.mem.layout import Layout
from weft.mem.nodes import Block, MemArray, Program
from weft.ops.dtypes import DType
from weft.sizes import Poly, Size, product


def introduce(
    program: fun.Program,
    layouts: Mapping[str, Layout] | None = None,
    result_layouts: Sequence[Layout] = (),
    donated: Mapping[str, int] | None = None,
) -> Program:
    """Give every array a memory block and an index function.

    Adds blocks: one for each statement that makes an array; and a `Copy` wherever an array
    must lie somewhere else, which `short_circuit` then removes where it can. Requires a
    checked program. Ensures that

    - an array result of the program lies in its destination, "result_k" or the parameter
      that is donated to it, which may be overwritten; an array result of
      an `If`'s branches in the pattern's memory, one of a `Loop`'s body in the parameter's,
      and one of a `Kernel`'s body in the kernel's own result, at the kernel's indices:
      whoever lowers a body has nothing left to copy;
    - `Update`, `LmadUpdate` and `Scatter` happen in place: their pattern names the memory
      of their operand, which is a copy if it is used later; so do loops, whose parameters
      lie where their initial values do, and branches that both update one array;
    - an array that a loop makes anew in each round has two buffers in one block, and an
      int64 parameter of the loop, "buffer_k", says which of them holds it;
    - arrays in the bodies of kernels are in `per_thread` blocks, of a size known before.

    Parameters
    ----------
    layouts : mapping of str to Layout
        Of array parameters; "contiguous" where nothing is said.
    result_layouts : sequence of Layout
        Of results, from the first; "contiguous" where it ends.
    donated : mapping of str to int
        Array parameters whose memory is to hold the result of that number and of their
        type: they may be overwritten.

    Raises
    ------
    InternalError
        For an array whose extent nothing bounds before the program runs.
    """
    return _Introduction(program, layouts or {}, result_layouts, donated or {}).program


_I64 = fun.Scalar(DType.I64)
_UPDATES = (fun.Update, fun.LmadUpdate, fun.Scatter)


class _Introduction:
    """The state of one run: memory of the arrays seen so far, and blocks."""

    def __init__(
        self, source: fun.Program, layouts: Mapping[str, Layout], results: Sequence[Layout],
        donated: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.names = Names.of(source)
        self.memory: dict[str, MemArray] = {}
        self.blocks: list[Block] = []
        self.bounds = Bounds((*source.sizes, *(d.name for d in source.derived)))
        self.in_kernel = False
        params = tuple(self._parameter(p, layouts.get(p.name, "contiguous")) for p in source.params)
        given = {
            number: layout.in_shape(self.memory[name], walk.type_sizes(source.result_types[number]))
            for name, number in donated.items()
        }
        destinations = tuple(
            given.get(k)
            or _placed(type_, f"result_{k}", results[k] if k < len(results) else "contiguous")
            for k, type_ in enumerate(source.result_types)
        )
        body = self.whole(source.body, destinations, [p for p in params if p.name in donated])
        whole = fun.Program(
            source.name, params, body, source.sizes, source.derived, source.facts
        )  # fmt: skip
        strides = _strides((*(p.type for p in params), *destinations))
        self.program = Program(whole, tuple(self.blocks), destinations, strides)

    def _parameter(self, param: fun.Var, kind: Layout) -> fun.Var:
        type_ = _placed(param.type, param.name, kind)
        if isinstance(type_, MemArray):
            self.memory[param.name] = type_
        return fun.Var(param.name, type_)

    # ------------------------------------------------------------ memory

    def fresh(self, type_: fun.Array, base: str, copies: int = 1) -> MemArray:
        """A row-major array in a block of its own, which holds so many of them."""
        name = self.names.fresh(f"mem_{base}")
        count = self.bounds.elements(type_.shape) * copies
        self.blocks.append(Block(name, count * type_.dtype.itemsize, self.in_kernel))
        return MemArray(type_.dtype, type_.shape, name, Lmad.row_major(type_.shape))

    def created(self, var: fun.Var) -> MemArray | None:
        """Where a statement makes an array (None: a scalar)."""
        return None if isinstance(var.type, fun.Scalar) else self.fresh(var.type, var.name)

    def bound(self, var: fun.Var, memory: MemArray) -> fun.Var:
        self.memory[var.name] = memory
        return fun.Var(var.name, memory)

    def atom(self, atom: fun.Atom) -> fun.Atom:
        if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Array):
            return fun.Var(atom.name, self.memory[atom.name])
        return atom

    def array(self, atom: fun.Atom) -> MemArray:
        return self.memory[atom.name]  # type: ignore[union-attr]

    def copied(
        self, array: fun.Var, to: MemArray, into: list[fun.Let], place: Place | None = None
    ) -> fun.Var:
        """A copy of an array in the given memory."""
        source = self.atom(array)
        assert isinstance(source, fun.Var)
        copy = self.bound(fun.Var(self.names.fresh(array.name), to), to)
        into.append(fun.Let((copy,), fun.Copy(source), place))
        return copy

    def at(
        self,
        atom: fun.Atom,
        wanted: fun.Type | None,
        into: list[fun.Let],
        place: Place | None = None,
    ) -> fun.Atom:
        """The atom in the wanted memory: itself, or a copy."""
        if not isinstance(atom, fun.Var) or not isinstance(wanted, MemArray):
            return atom
        if layout.same(self.memory[atom.name], wanted):
            return self.atom(atom)
        return self.copied(atom, wanted, into, place)

    # ------------------------------------------------------------ bodies

    def body(
        self,
        body: fun.Body,
        destinations: Sequence[fun.Type | None],
        params: Sequence[fun.Var] = (),
    ) -> fun.Body:
        """The body with its array results in the destinations (None: wherever they are).

        `params` are the parameters of the loop whose body it is.
        """
        live = Liveness.of(body, params)
        done: list[fun.Let] = []
        for position, let in enumerate(body.statements):
            try:
                self.statement(let, position, live, done)
            except ShapeError as error:
                if error.place is None and let.place is not None:
                    error.move_to(let.place)
                raise
        results = tuple(
            self.at(result, destination, done)
            for result, destination in zip(body.results, destinations, strict=True)
        )
        return fun.Body(tuple(done), tuple(map(self.atom, results)))

    def whole(
        self, body: fun.Body, destinations: Sequence[fun.Type], donated: Sequence[fun.Var]
    ) -> fun.Body:
        """The program's body; it may overwrite what is donated."""
        if not donated:
            return self.body(body, destinations)
        blocks = {param.name for param in donated}
        own = [
            None if isinstance(type_, MemArray) and type_.block in blocks else type_
            for type_ in destinations
        ]
        done = self.body(body, own, donated)
        return self.in_places(
            done, [None if o else d for o, d in zip(own, destinations, strict=True)]
        )

    def inner(self, body: fun.Body) -> fun.Body:
        """A body in a kernel that gives scalars."""
        outside, self.in_kernel = self.in_kernel, True
        done = self.body(body, (None,) * len(body.results))
        self.in_kernel = outside
        return done

    # ------------------------------------------------------------ statements

    def statement(self, let: fun.Let, position: int, live: Liveness, done: list[fun.Let]) -> None:
        expr = let.expr
        match expr:
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape():
                self.view(let, expr, done)
                return
            case fun.Broadcast() if looked_at(expr) is not None:
                self.view(let, expr, done)
                return
            case fun.Update() | fun.LmadUpdate() | fun.Scatter():
                self.update(let, position, live, done)
                return
            case fun.Loop():
                self.loop(let, expr, position, live, done)
                return
            case fun.Apply() | fun.Cast() | fun.SizeValue() | fun.Index():
                self.bounds.define(let.pattern[0].name, expr)
                done.append(fun.Let(let.pattern, self.rebuilt(expr, self.inner), let.place))
                return
            case _:
                pass
        if isinstance(expr, fun.If):
            self.branch(let, expr, position, live, done)
            return
        memories = [self.created(var) for var in let.pattern]
        match expr:
            case fun.Kernel(space, _):
                self.enter(space)
                new = self.rebuilt(expr, lambda body: self.kernel_body(body, space, memories))
            case fun.Reduce(space) | fun.Scan(space):
                self.enter(space)
                new = self.rebuilt(expr, self.inner)
            case _:
                new = self.rebuilt(expr, self.inner)
        pattern = tuple(
            self.bound(var, memory) if memory else var
            for var, memory in zip(let.pattern, memories, strict=True)
        )
        done.append(fun.Let(pattern, new, let.place))

    def rebuilt(self, expr: fun.Expr, body: Callable[[fun.Body], fun.Body]) -> fun.Expr:
        """The expression with memory on its operands, its bodies done by `body`."""
        return walk.map_expr(expr, walk.Mapper(self.atom, lambda s: s, body, lambda v: v))

    def enter(self, space: tuple[fun.Range, ...]) -> None:
        for dimension in space:
            self.bounds.index(dimension.index.name, Poly.const(0), dimension.extent)

    def kernel_body(
        self, body: fun.Body, space: tuple[fun.Range, ...], memories: Sequence[MemArray | None]
    ) -> fun.Body:
        outside, self.in_kernel = self.in_kernel, True
        indices = tuple(Poly.var(dimension.index.name) for dimension in space)
        inner: list[MemArray | None] = []
        for result, memory in zip(body.results, memories, strict=True):
            assert memory is not None
            is_array = isinstance(result.type, fun.Array)
            index = memory.index.fix(indices)
            inner.append(_moved(result.type, memory, index) if is_array else None)
        done = self.body(body, inner)
        self.in_kernel = outside
        return done

    def view(self, let: fun.Let, expr: fun.LayoutExpr, done: list[fun.Let]) -> None:
        array = looked_at(expr)
        assert array is not None
        memory = self.memory[array.name]
        index = layout.of_view(expr, memory.index)
        if index is None:
            # reshape(a) => reshape(copy(a))
            copy = self.copied(array, self.fresh(memory, array.name), done, let.place)
            memory, expr = self.memory[copy.name], replace(expr, array=copy)
            index = layout.of_view(expr, memory.index)
            assert index is not None
        (var,) = let.pattern
        new = self.bound(var, _moved(var.type, memory, index))
        done.append(fun.Let((new,), self.rebuilt(expr, self.inner), let.place))

    def update(self, let: fun.Let, position: int, live: Liveness, done: list[fun.Let]) -> None:
        """Updates happen in place, in the operand itself or in a copy of it."""
        expr, targets = let.expr, []
        assert isinstance(expr, _UPDATES)
        for target, var, others in overwritten(expr, let.pattern):
            if not live.dies(target, position, others):
                assert isinstance(var.type, fun.Array)
                target = self.copied(target, self.fresh(var.type, var.name), done, let.place)
            targets.append(target)
        pattern = tuple(
            self.bound(var, self.memory[target.name])
            for var, target in zip(let.pattern, targets, strict=True)
        )
        match expr:
            case fun.Update(_, dims, value):
                expr = fun.Update(targets[0], dims, value)
            case fun.LmadUpdate(_, offset, lmad_dims, source):
                expr = fun.LmadUpdate(targets[0], offset, lmad_dims, source)
            case fun.Scatter(_, space, body, operator):
                self.enter(space)
                expr = fun.Scatter(tuple(targets), space, body, operator)
        done.append(fun.Let(pattern, self.rebuilt(expr, self.inner), let.place))

    def branch(
        self, let: fun.Let, expr: fun.If, position: int, live: Liveness, done: list[fun.Let]
    ) -> None:
        """A result that both branches make of one array, by updates, lies where that does."""
        changed = changed_by(expr, position, live)
        owned = [array for array in changed if array is not None]
        memories = [
            self.created(var) if array is None else self.array(array)
            for var, array in zip(let.pattern, changed, strict=True)
        ]
        made, kept = (
            [memory if (array is None) is new else None
             for memory, array in zip(memories, changed, strict=True)]
            for new in (True, False)
        )  # fmt: skip

        def side(body: fun.Body) -> fun.Body:
            return self.in_places(self.body(body, made, owned), kept)

        new = self.rebuilt(expr, side)
        pattern = tuple(
            self.bound(var, memory) if memory else var
            for var, memory in zip(let.pattern, memories, strict=True)
        )
        done.append(fun.Let(pattern, new, let.place))

    def loop(
        self, let: fun.Let, expr: fun.Loop, position: int, live: Liveness, done: list[fun.Let]
    ) -> None:
        """Parameters and results share memory, where each round's results come to lie.

        loop (p @ m = a) { let q = kernel .. in q }
            =>  loop (p @ m + b*n = a, b = 0) { let q @ m + (1 - b)*n = kernel .. in q, 1 - b }
        """
        inside = Liveness.of(expr.body, expr.params)
        starts: list[MemArray | None] = []
        buffers: list[MemArray | None] = []
        initial: list[fun.Atom] = []
        for number, (var, first) in enumerate(zip(let.pattern, expr.initial, strict=True)):
            start = buffer = None
            if isinstance(var.type, fun.Array):
                if is_made(expr, number, inside):
                    start = buffer = self.fresh(var.type, var.name, copies=2)
                elif live.dies(first, position, used_beside(expr, number)):
                    start = self.array(first)
                else:
                    start = self.fresh(var.type, var.name)
            starts.append(start)
            buffers.append(buffer)
            initial.append(self.atom(self.at(first, start, done, let.place)))
        turn, end = (fun.Var(self.names.fresh("buffer"), _I64) for _ in range(2))
        here, there, after = Poly.var(turn.name), 1 - Poly.var(turn.name), Poly.var(end.name)
        params = self.buffered(expr.params, starts, buffers, here)
        form: fun.For | fun.While
        match expr.form:
            case fun.For(index, lower, upper):
                self.bounds.index(index.name, lower, upper)
                form = expr.form
            case fun.While(condition):
                form = fun.While(self.body(condition, (None,)))
        ends = [buffer and _buffer(buffer, there) for buffer in buffers]
        body = self.loop_body(expr, params, ends)
        pattern = self.buffered(let.pattern, starts, buffers, after)
        if any(buffers):
            other = fun.Var(self.names.fresh("buffer"), _I64)
            flip = fun.Apply("subtract", (fun.Const(1, DType.I64), turn))
            body = fun.Body((*body.statements, fun.Let((other,), flip)), (*body.results, other))
            params, pattern = (*params, turn), (*pattern, end)
            initial.append(fun.Const(0, DType.I64))
        done.append(fun.Let(pattern, fun.Loop(params, tuple(initial), form, body), let.place))

    def buffered(
        self, pattern: Sequence[fun.Var], starts: Sequence[MemArray | None],
        buffers: Sequence[MemArray | None], turn: Size,
    ) -> tuple[fun.Var, ...]:  # fmt: skip
        """Variables of a loop in their memory, or in the buffer whose turn it is."""
        bound = []
        for var, start, buffer in zip(pattern, starts, buffers, strict=True):
            place = _buffer(buffer, turn) if buffer else start
            bound.append(self.bound(var, place) if place else var)
        return tuple(bound)

    def loop_body(
        self, expr: fun.Loop, params: Sequence[fun.Var], ends: Sequence[MemArray | None]
    ) -> fun.Body:
        """A loop's body, its results in the other buffers or (None) in the parameters."""
        body = self.body(expr.body, ends, params)
        own = (p.type if end is None else None for p, end in zip(params, ends, strict=True))
        return self.in_places(body, list(own))

    def in_places(self, body: fun.Body, wanted: Sequence[fun.Type | None]) -> fun.Body:
        """A body whose results come to lie in memory in which some of them may lie already."""
        done = list(body.statements)
        places = [place if isinstance(place, MemArray) else None for place in wanted]
        blocks = {place.block for place in places if place}
        results = list(body.results)
        # First what is in that memory is brought out of each other's way.
        for number, (result, place) in enumerate(zip(results, places, strict=True)):
            if place is None:
                continue
            found = self.array(result)
            if found.block in blocks and not layout.same(found, place):
                assert isinstance(result, fun.Var)
                results[number] = self.copied(result, self.fresh(place, result.name), done)
        for number, (result, place) in enumerate(zip(results, places, strict=True)):
            results[number] = self.at(result, place, done)
        return fun.Body(tuple(done), tuple(map(self.atom, results)))


def _buffer(first: MemArray, turn: Size) -> MemArray:
    """The first or (turn = 1) the second of an array's two buffers."""
    return replace(first, index=Lmad(turn * product(first.shape), first.index.dims))


def _placed(type_: fun.Type, block: str, kind: Layout) -> fun.Type:
    if isinstance(type_, fun.Scalar):
        return type_
    index = layout.of_parameter(block, type_.shape, kind)
    return MemArray(type_.dtype, type_.shape, block, index)


def _moved(type_: fun.Type, memory: MemArray, index: Lmad) -> MemArray:
    """The type in the memory's block at another index function."""
    assert isinstance(type_, fun.Array)
    return MemArray(type_.dtype, type_.shape, memory.block, index)


def _strides(types: Sequence[fun.Type]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for type_ in types:
        if isinstance(type_, MemArray):
            for stride in type_.index.strides:
                name = stride.variable
                if name is not None and name.startswith(f"{type_.block}.stride"):
                    names[name] = None
    return tuple(names)
