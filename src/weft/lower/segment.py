"""A FUNMEM program to a `Segment`: lowered, printed, with what its launch needs to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.from_end import counted_from_end
from weft.imp import nodes as imp
from weft.imp.round_products import round_products
from weft.imp.unroll_and_jam import unroll_and_jam
from weft.lower import bounds, cpu
from weft.lower.bodies import lower_body
from weft.lower.emitter import Emitter
from weft.lower.unit import LINES, Placed, Unit
from weft.mem.lay_within import Within
from weft.mem.nodes import THREADS, MemArray, Program
from weft.mem.place_blocks import place_blocks
from weft.ops.dtypes import DType
from weft.plan.segment import BoundsCheck, Failure, Inset, Layout, Segment, Slot
from weft.sizes import ONE, ZERO, Poly, Size
from weft.sizes.prove import Prover


def compile_segment(
    memory_program: Program, name: str, print_program: Callable[[imp.Program], str],
    within: Sequence[Within] = (),
) -> Segment:  # fmt: skip
    """The segment of a program: its text, slots, checks.

    Parameters
    ----------
    memory_program : weft.mem.nodes.Program
        A program with memory.
    name : str
        The name of its entry function.
    print_program : callable
        A printer: the text of an IMP program (`weft.printers.c.print_program`).
    within : sequence of Within, optional
        Results that lie in its blocks (`weft.mem.lay_within`).
    """
    lowered, unit, workspace = lower_program(memory_program, name)
    return describe(memory_program, name, print_program(lowered), unit, workspace, within)


def describe(
    memory_program: Program, name: str, source: str, unit: Unit, workspace: Size,
    within: Sequence[Within] = (),
) -> Segment:  # fmt: skip
    """The segment of a lowered program and its text."""
    program = memory_program.program
    params = tuple(_slot(param.name, param.type) for param in program.params)
    results = tuple(
        _slot(f"result_{k}", type_) for k, type_ in enumerate(memory_program.destinations)
    )
    names = [slot.name for slot in (*params, *results)]
    return Segment(
        entry=name,
        source=source,
        params=params,
        results=results,
        sizes=program.sizes,
        derived=(*program.derived, *unit.derived),
        facts=program.facts,
        integers=(*integers(memory_program), *(entry.name for entry in unit.derived)),
        workspace=workspace,
        checks=tuple(
            BoundsCheck(b.lower, b.upper, b.extent, b.nonempty, b.array, b.axis, b.place)
            for b in unit.checks
        ),
        collisions=tuple(unit.collisions),
        failures=tuple(
            Failure(f.kind, f.array, f.axis, f.place, f.from_end) for f in unit.failures
        ),
        kernels=tuple(unit.kernels),
        remarks=tuple(map(str, memory_program.remarks)),
        donated=tuple(
            (number, names.index(name)) for name, number in memory_program.donated.items()
        ),
        insets=tuple(
            Inset(
                names.index(w.name), unit.blocks[w.block].offset + w.offset, w.begin, w.count
            )
            for w in within
        ),
    )


def unit_of(memory_program: Program, statement: Callable[[Emitter, fun.Let], None]) -> Unit:
    """What the lowering of a program shares; `statement` lowers one statement."""
    program = memory_program.program
    blocks, workspace = _place(memory_program)

    @cache
    def prover() -> Prover:
        return Prover(program.facts, sizes=program.sizes, derived=program.derived)

    return Unit(
        blocks=blocks,
        nonnegative=_nonnegative(prover),
        prover=prover,
        choices={choice.name: choice for choice in memory_program.choices},
        statement=statement,
        sizes=frozenset(integers(memory_program)),
        scratch_end=workspace,
        from_end=counted_from_end(program.body),
    )


def lower_program(memory_program: Program, name: str) -> tuple[imp.Program, Unit, Size]:
    """The IMP program, what its lowering found, and the bytes of workspace it needs."""
    program = memory_program.program
    unit = unit_of(memory_program, cpu.lower_statement)
    e = Emitter(unit)
    variables = []
    for size in integers(memory_program):
        var = unit.integer("n")
        e.bind(size, var)
        variables.append(var)
    e.bind(LINES, unit.lines)
    for param in program.params:
        if isinstance(param.type, fun.Scalar):
            pointer = e.pointer(param.name, param.type.dtype)
            e.bind(param.name, e.declare(imp.Load(pointer, imp.ZERO), depth=0))
    lower_body(e, program.body)
    for k, (result, target) in enumerate(
        zip(program.body.results, memory_program.destinations, strict=True)
    ):
        if isinstance(target, fun.Scalar):
            pointer = e.pointer(f"result_{k}", target.dtype)
            e.emit(imp.Store(pointer, imp.ZERO, e.atom(result)))
    variables += [unit.taken[entry.name] for entry in unit.derived if entry.name in unit.taken]
    buffers = len(program.params) + len(memory_program.destinations)
    lowered = imp.Program(name, buffers, tuple(variables), tuple(e.levels[0]))
    return (
        round_products(unroll_and_jam(lowered)),
        unit,
        unit.workspace,
    )


def _nonnegative(prover: Callable[[], Prover]) -> Callable[[Poly], bool]:
    """Whether a polynomial is proved >= 0; the prover is made when the simple cases end."""
    answers: dict[Poly, bool] = {}

    def nonnegative(poly: Poly) -> bool:
        answer = answers.get(poly)
        if answer is None:
            answer = bounds.nonnegative(poly)
            if not answer and (len(poly.terms) > 1 or not poly.is_constant):
                answer = prover().nonnegative(poly)
            answers[poly] = answer
        return answer

    return nonnegative


def integers(memory_program: Program) -> tuple[str, ...]:
    """The names of the integers that a segment takes."""
    program = memory_program.program
    derived = tuple(d.name for d in program.derived)
    return (*program.sizes, *derived, THREADS, *memory_program.strides)


def _place(memory_program: Program) -> tuple[dict[str, Placed], Size]:
    """Where each block lies, and the bytes of the workspace."""
    program = memory_program.program
    placed: dict[str, Placed] = {}
    for k, param in enumerate(program.params):
        placed[param.name] = Placed(k, ZERO)
    for k in range(len(memory_program.destinations)):
        placed[f"result_{k}"] = Placed(len(program.params) + k, ZERO)
    placement = place_blocks(memory_program)
    dtypes: dict[str, DType] = {}
    shared: set[str] = set()  # seen as elements of several dtypes
    alternatives = memory_program.alternatives
    bound = (var.type for let in walk.statements(program.body) for var in let.pattern)
    for array in bound:
        if not isinstance(array, MemArray):
            continue
        for block in alternatives.get(array.block, (array.block,)):
            if dtypes.setdefault(block, array.dtype) is not array.dtype:
                shared.add(block)
    for own in memory_program.blocks:
        place = placement.places[own.name]
        stride = place.stride if own.per_thread else None
        placed[own.name] = Placed(-1, place.offset, stride, own.name not in shared)
    return placed, placement.workspace


def _slot(name: str, type_: fun.Type) -> Slot:
    if not isinstance(type_, MemArray):
        return Slot(name, type_.dtype.numpy, ())
    return Slot(name, type_.dtype.numpy, type_.shape, _layout(name, type_))


def _layout(name: str, array: MemArray) -> Layout:
    free = f"{name}.stride"
    strides = array.index.strides
    if not any(v.startswith(free) for stride in strides for v in stride.variables()):
        return "contiguous"
    return "rows" if strides[-1] == ONE else "strided"
