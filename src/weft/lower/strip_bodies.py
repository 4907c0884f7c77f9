"""Which kernels are lowered in strips (`weft.lower.strips`): what their bodies are like."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.columns import reads_columns
from weft.lower import shapes


def suits(body: fun.Body, lane: str) -> bool:
    """Whether lanes should be the kernel's last index: its columns are summed, or it iterates."""
    return possible(body, lane) and _wanted(body, lane)


def possible(body: fun.Body, lane: str) -> bool:
    """Whether lanes can be this index."""
    return _possible(body, {lane})


def _possible(body: fun.Body, varying: set[str]) -> bool:
    """Whether all lanes can go through the body side by side, in the same number of rounds."""
    for let in body.statements:
        if walk.used_names(let.expr) & varying:
            varying |= {var.name for var in let.pattern}
        match let.expr:
            case fun.Reduce() as reduce if not shapes.is_unrolled(reduce):
                if reduce.reduced != len(reduce.space):
                    return False
                if any(r.extent.variables() & varying for r in reduce.space):
                    return False
                if not (_possible(reduce.body, varying) and shapes.is_flat(reduce.operator.body)):
                    return False
                varying |= {var.name for var in let.pattern}
            case fun.Loop(params, _, form, inner):
                if not all(isinstance(p.type, fun.Scalar) for p in params):
                    return False
                varying |= {param.name for param in params}
                if isinstance(form, fun.While):
                    if not (shapes.is_flat(form.condition) and shapes.is_flat(inner)):
                        return False
                    if _reads(form.condition) or _reads(inner):
                        return False
                elif (form.lower.variables() | form.upper.variables()) & varying or not _possible(
                    inner, varying
                ):
                    return False
                varying |= {var.name for var in let.pattern}
            case _:
                if not shapes.is_flat(fun.Body((let,), ())):
                    return False
    return True


def _reads(body: fun.Body) -> bool:
    return any(isinstance(let.expr, fun.Index) for let in walk.statements(body))


def _wanted(body: fun.Body, lane: str) -> bool:
    for let in walk.statements(body):
        match let.expr:
            case fun.Loop():
                return True
            case fun.Reduce() as reduce if not shapes.is_unrolled(reduce):
                reduced = {r.index.name for r in reduce.space}
                return reads_columns(reduce.body, lane, reduced)
    return False


def loops_freely(body: fun.Body) -> bool:
    """Whether lanes may end in different rounds of a loop."""
    return any(
        isinstance(let.expr, fun.Loop) and isinstance(let.expr.form, fun.While)
        for let in walk.statements(body)
    )
