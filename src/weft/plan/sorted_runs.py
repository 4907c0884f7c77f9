"""Rows that are longer than fits are sorted in runs, which a scratch file has, and merged.

    let s = call sort(x)
 => let r = call sort_runs(x, run = R)
    let s = call merge_runs(r, 0, run = R) to (n)

Both can be cut anywhere (runs: between them), so that boxes, sinks and what uses the result up
are as for any other statement. What is partitioned is sorted too.
"""

from __future__ import annotations

from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.ops.dtypes import DType
from weft.plan.block_rounds import Blocked

_LONG = 4
"""Rows are done in runs where so many times their bytes are more than there is room for."""


def sorted_runs(program: fun.Program, sizes: dict[str, int], room: int, share: int) -> Blocked:
    """The program with long rows sorted in runs; with no `ends` where there are none.

    Parameters
    ----------
    program : fun.Program
    sizes : dict of str to int
        All that the program knows.
    room : int
        Bytes for all arrays at once.
    share : int
        A run takes one part of so many of them.
    """
    names, ends, statements = Names.of(program), dict[str, str](), list[fun.Let]()
    for let in program.body.statements:
        expr = let.expr
        if not isinstance(expr, fun.Call) or not _is_long(let, sizes, room):
            statements.append(let)
            continue
        given = expr.arguments[0]
        assert isinstance(given.type, fun.Array)
        options = dict(expr.options)
        descending = bool(options.get("descending", False))
        keyed = expr.routine == "argsort"
        element = max(given.type.dtype.itemsize, 8 if keyed else 1)
        run = 1 << max(room // (share * element), 1).bit_length() - 1
        runs = fun.Var(names.fresh(f"{let.pattern[0].name}_runs"), given.type)
        way: tuple[tuple[str, bool | int | float | str], ...] = (("run", run),)
        call = fun.Call("sort_runs", (given,), way)
        statements.append(fun.Let((runs,), call, let.place))
        ends[runs.name] = f"in runs of {run} that are sorted"
        way = (*way, ("descending", descending))
        arguments: tuple[fun.Atom, ...] = (runs,)
        if keyed:
            order = fun.Var(
                names.fresh(f"{let.pattern[0].name}_order"), fun.Array(DType.I64, given.type.shape)
            )
            call = fun.Call("argsort_runs", (given,), way)
            statements.append(fun.Let((order,), call, let.place))
            ends[order.name] = f"in runs of {run} that are ordered"
            arguments = (runs, order)
        merge = fun.Call(
            "merge_order" if keyed else "merge_runs", (*arguments, fun.Const(0, DType.I64)), way,
            given.type.shape[-1:],
        )  # fmt: skip
        statements.append(replace(let, expr=merge))
    body = replace(program.body, statements=tuple(statements))
    return Blocked(replace(program, body=body), sizes, ends)


def _is_long(let: fun.Let, sizes: dict[str, int], room: int) -> bool:
    """Whether a statement sorts, or partitions, rows that are too long to be done at once."""
    call = let.expr
    assert isinstance(call, fun.Call)
    if call.routine not in ("sort", "argsort", "partition"):
        return False
    type_ = call.arguments[0].type
    if not isinstance(type_, fun.Array) or type_.dtype.is_complex:
        return False
    axis = int(dict(call.options).get("axis", -1)) % type_.rank
    item = max(type_.dtype.itemsize, let.pattern[0].type.dtype.itemsize)
    row = int(type_.shape[-1].evaluate(sizes)) * item
    return axis == type_.rank - 1 and row * _LONG > room
