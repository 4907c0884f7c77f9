"""FUN as text: what people read in goldens and messages, and `weft.fun.parse` reads back.

    program   = "program" name "(" [binder {"," binder}] ")" header* "{" body "}"
    header    = "sizes" name {"," name}
              | "derived" name "=" operation "(" poly "," poly ")"
              | "fact" poly (">= 0" | "== 0" | "!= 0") | "fact" int "divides" poly
    binder    = name ":" type
    type      = dtype ["[" poly {"," poly} "]"]
    body      = let* "in" [atom {"," atom}]
    let       = "let" binder {"," binder} "=" expr ["@" string ":" int]
    atom      = name | constant
    constant  = "True" | "False" | 1 | 1.5 | +inf | +nan          -- bool, i64, f64
              | constant "_" dtype | "(" real "," real ")_" dtype  -- any other dtype

    expr      = operation "(" atom {"," atom} ")" | dtype "(" atom ")" | "size" poly
              | name "[" index {"," index} "]"
              | "slice" name dims | "lmad" name lmad | "permute" name "(" ints ")"
              | "reshape" name "(" polys ")" | "broadcast" atom "(" polys ")"
              | "kernel" "(" ranges ")" block
              | "reduce" ["counter"] "(" ranges ";" ranges ")" "from" atoms block "with" lambda
              | "scan" ["exclusive"] "(" ranges ")" "from" atoms block "with" lambda
              | "scatter" names "over" "(" ranges ")" block ["with" lambda]
              | "concat" int "(" names ")" | "copy" name
              | "update" name dims "=" atom | "update_lmad" name lmad "=" name
              | "if" atom block "else" block
              | "loop" "(" [binder "=" atom {"," binder "=" atom}] ")"
                    ("for" name "from" poly "to" poly | "while" block) block
              | "call" name "(" [atom {"," atom} {"," name "=" option}] ")"
    index     = poly [":" kind "(" poly "," poly ["," constant] ")"]
    dims      = "[" dim {"," dim} "]"
    dim       = poly | poly "for" poly ["by" int]         -- start for extent by step
    lmad      = "[" poly {";" "(" poly ":" poly ")"} "]"  -- offset; (extent : stride)
    ranges    = [name "<" poly {"," name "<" poly}]       -- in reduce: kept ones; reduced ones
    lambda    = "(" [binder {"," binder}] ")" block
    block     = "{" body "}"

Line ends and indentation mean nothing. Binders alone carry types.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import assert_never

from weft.fun import nodes as fun
from weft.ops.dtypes import DType
from weft.sizes import Size

INDENT = "  "
_NATURAL = {bool: DType.BOOL, int: DType.I64, float: DType.F64}
_WORD = re.compile(r"[^\W\d][\w.]*\Z")


def show(program: fun.Program, places: bool = False) -> str:
    """The text of a program, ending in a line end; the same for equal programs.

    Parameters
    ----------
    program : fun.Program
    places : bool, optional
        Whether statements are followed by the line of user code that they came from.
    """
    return Printer(places).program(program)


def show_expr(expr: fun.Expr) -> str:
    """The text of an expression."""
    return Printer().expr(expr, "")


def show_let(let: fun.Let) -> str:
    """The text of a statement."""
    return Printer().let(let, "")


def show_type(type_: fun.Type) -> str:
    """The text of a type."""
    return Printer().type(type_)


def show_constant(constant: fun.Const) -> str:
    """The text of a constant."""
    value = constant.value
    if isinstance(value, complex):
        return f"({_real(value.real)}, {_real(value.imag)})_{constant.dtype}"
    text = _real(value) if isinstance(value, float) else repr(value)
    return text if _NATURAL[type(value)] is constant.dtype else f"{text}_{constant.dtype}"


def _real(value: float) -> str:
    return repr(value) if math.isfinite(value) or value < 0 else f"+{value!r}"


def _join(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


class Printer:
    """Prints one construct a method; a subclass may print types with more on them."""

    def __init__(self, places: bool = False) -> None:
        self.places = places

    def program(self, program: fun.Program) -> str:
        name = program.name if _WORD.match(program.name) else json.dumps(program.name)
        lines = [f"program {name}({self.binders(program.params)})"]
        if program.sizes:
            lines.append(f"{INDENT}sizes {_join(program.sizes)}")
        for derived in program.derived:
            operands = _join((derived.left, derived.right))
            lines.append(f"{INDENT}derived {derived.name} = {derived.operation}({operands})")
        for fact in program.facts:
            lines.append(f"{INDENT}fact {fact}")
        lines += ["{", *self.lines(program.body, INDENT), "}"]
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------ types and binders

    def type(self, type_: fun.Type) -> str:
        if isinstance(type_, fun.Scalar):
            return str(type_.dtype)
        return f"{type_.dtype}[{_join(type_.shape)}]"

    def binders(self, pattern: Iterable[fun.Var]) -> str:
        return ", ".join(f"{var.name}: {self.type(var.type)}" for var in pattern)

    def atom(self, atom: fun.Atom) -> str:
        return atom.name if isinstance(atom, fun.Var) else show_constant(atom)

    def atoms(self, atoms: Iterable[fun.Atom]) -> str:
        return ", ".join(map(self.atom, atoms))

    # ------------------------------------------------------------ statements

    def lines(self, body: fun.Body, indent: str) -> list[str]:
        lines = [indent + self.let(let, indent) for let in body.statements]
        lines.append(f"{indent}in {self.atoms(body.results)}".rstrip())
        return lines

    def let(self, let: fun.Let, indent: str) -> str:
        text = f"let {self.binders(let.pattern)} = {self.expr(let.expr, indent)}"
        if self.places and let.place is not None:
            column = f":{let.place.column}" if let.place.column else ""
            text += f" @ {json.dumps(let.place.file)}:{let.place.line}{column}"
        return text

    def block(self, body: fun.Body, indent: str) -> str:
        return "\n".join(["{", *self.lines(body, indent + INDENT), indent + "}"])

    def brief(self, body: fun.Body, indent: str) -> str:
        """A block in one line, if it has at most one statement and this holds no body."""
        lines = self.lines(body, "")
        if len(lines) > 2 or any("\n" in line for line in lines):
            return self.block(body, indent)
        return f"{{ {' '.join(lines)} }}"

    def function(self, function: fun.Lambda, indent: str) -> str:
        return f"({self.binders(function.params)}) {self.brief(function.body, indent)}"

    # ------------------------------------------------------------ expressions

    def expr(self, expr: fun.Expr, indent: str) -> str:
        match expr:
            case fun.Apply(operation, arguments):
                return f"{operation}({self.atoms(arguments)})"
            case fun.Cast(dtype, argument):
                return f"{dtype}({self.atom(argument)})"
            case fun.SizeValue(size):
                return f"size {size}"
            case fun.Index(array, indices, boundary):
                rules = boundary or (None,) * len(indices)
                return f"{array.name}[{_join(map(self.read, indices, rules))}]"
            case fun.Slice(array, dims):
                return f"slice {array.name}{self.dims(dims)}"
            case fun.LmadSlice(array, offset, lmad_dims):
                return f"lmad {array.name}{self.lmad(offset, lmad_dims)}"
            case fun.Permute(array, axes):
                return f"permute {array.name} ({_join(axes)})"
            case fun.Reshape(array, shape):
                return f"reshape {array.name} ({_join(shape)})"
            case fun.Broadcast(atom, shape):
                return f"broadcast {self.atom(atom)} ({_join(shape)})"
            case fun.Kernel() | fun.Reduce() | fun.Scan() | fun.Scatter():
                return self.parallel(expr, indent)
            case fun.Concat(arrays, axis):
                return f"concat {axis} ({self.atoms(arrays)})"
            case fun.Update(array, dims, value):
                return f"update {array.name}{self.dims(dims)} = {self.atom(value)}"
            case fun.LmadUpdate(array, offset, lmad_dims, source):
                return f"update_lmad {array.name}{self.lmad(offset, lmad_dims)} = {source.name}"
            case fun.Copy(array):
                return f"copy {array.name}"
            case fun.Empty(dtype, shape):
                return f"empty {dtype} ({_join(shape)})"
            case fun.If(condition, then, otherwise):
                blocks = f"{self.block(then, indent)} else {self.block(otherwise, indent)}"
                return f"if {self.atom(condition)} {blocks}"
            case fun.Loop():
                return self.loop(expr, indent)
            case fun.Call(routine, arguments, options, extents):
                given = [f"{name}={_option(value)}" for name, value in options]
                made = f" to ({_join(extents)})" if extents else ""
                return f"call {routine}({_join([*map(self.atom, arguments), *given])}){made}"
            case _:
                assert_never(expr)

    def parallel(self, expr: fun.ParallelExpr, indent: str) -> str:
        space = expr.space
        block = self.block(expr.body, indent)
        match expr:
            case fun.Kernel():
                return f"kernel ({self.ranges(space)}) {block}"
            case fun.Reduce(_, reduced, _, operator, neutral, counter):
                kept = len(space) - reduced
                ranges = f"({self.ranges(space[:kept])}; {self.ranges(space[kept:])})"
                head = f"reduce{' counter' if counter else ''} {ranges} from {self.atoms(neutral)}"
                return f"{head} {block} with {self.function(operator, indent)}"
            case fun.Scan(_, _, operator, initial, exclusive):
                head = f"scan{' exclusive' if exclusive else ''} ({self.ranges(space)})"
                tail = f"with {self.function(operator, indent)}"
                return f"{head} from {self.atoms(initial)} {block} {tail}"
            case fun.Scatter(destinations, _, _, combine):
                head = f"scatter {self.atoms(destinations)} over ({self.ranges(space)}) {block}"
                return head if combine is None else f"{head} with {self.function(combine, indent)}"
            case _:
                assert_never(expr)

    def loop(self, loop: fun.Loop, indent: str) -> str:
        params = ", ".join(
            f"{self.binders((param,))} = {self.atom(initial)}"
            for param, initial in zip(loop.params, loop.initial, strict=True)
        )
        match loop.form:
            case fun.For(index, lower, upper, tiled):
                form = f"for {index.name} from {lower} to {upper}"
                if tiled is not None:
                    form += f" tiled from {tiled[0]} to {tiled[1]}"
            case fun.While(condition):
                form = f"while {self.brief(condition, indent)}"
            case _:
                assert_never(loop.form)
        return f"loop ({params}) {form} {self.block(loop.body, indent)}"

    def ranges(self, space: Iterable[fun.Range]) -> str:
        return ", ".join(f"{r.index.name} < {r.extent}" for r in space)

    def read(self, index: Size, rule: fun.Boundary | None) -> str:
        if rule is None:
            return str(index)
        value = "" if rule.value is None else f", {show_constant(rule.value)}"
        return f"{index} : {rule.kind}({rule.lower}, {rule.upper}{value})"

    def dims(self, dims: Iterable[fun.Span | Size]) -> str:
        return f"[{_join(map(self.dim, dims))}]"

    def dim(self, dim: fun.Span | Size) -> str:
        if not isinstance(dim, fun.Span):
            return str(dim)
        step = "" if dim.step == 1 else f" by {dim.step}"
        return f"{dim.start} for {dim.extent}{step}"

    def lmad(self, offset: Size, dims: Iterable[tuple[Size, Size]]) -> str:
        pairs = "".join(f"; ({extent} : {stride})" for extent, stride in dims)
        return f"[{offset}{pairs}]"


def _option(value: bool | int | float | str) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return _real(value) if isinstance(value, float) else repr(value)
