"""Reading FUN from its text (the grammar is in `weft.fun.show`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from weft.errors import ArgumentError, Place
from weft.fun import nodes as fun
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Derived, Fact, Poly, Size

T = TypeVar("T")

_TOKEN = re.compile(
    r"""\s+ | \#[^\n]*
    | (?P<number> \d+ (\.\d*)? ([eE][+-]?\d+)? (_(bool|[iuc]\d+|f\d+))? )
    | (?P<name> [^\W\d][\w.]* )
    | (?P<string> "(\\.|[^"\\])*" )
    | (?P<symbol> >= | == | != | [-+*()\[\]{},:;=<@] )""",
    re.VERBOSE,
)
_DTYPES = {dtype.value: dtype for dtype in DType}
_KINDS = ("edge", "reflect", "symmetric", "wrap", "constant")


def parse(text: str) -> fun.Program:
    """The program that `weft.fun.show.show` printed (comments begin with "#").

    Raises
    ------
    ArgumentError
        When the text does not follow the grammar; it names line and column.
    """
    return Parser(text).program()


class Parser:
    """Recursive descent over tokens; variables keep the types of their binders."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []  # kind, text, position
        self.at = 0
        self.types: dict[str, fun.Type] = {}
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self.tokens.append(("end", text[position], position))
                self.at = len(self.tokens) - 1
                raise self.error("a token")
            if match.lastgroup is not None:
                kind = next(k for k in ("number", "name", "string", "symbol") if match[k])
                self.tokens.append((kind, match[0], position))
            position = match.end()
        self.tokens.append(("end", "end of text", len(text)))

    # ------------------------------------------------------------ tokens

    def error(self, expected: str) -> ArgumentError:
        _, found, position = self.tokens[min(self.at, len(self.tokens) - 1)]
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return ArgumentError(f"line {line}, column {column}: {found!r}", expected)

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def next(self) -> str:
        """The next token; a string's text keeps its quotes."""
        return self.tokens[self.at][1]

    def take(self, *texts: str) -> bool:
        """Skip the next token if it is one of these."""
        if self.next in texts and self.kind in ("name", "symbol"):
            self.at += 1
            return True
        return False

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.take(text):
                raise self.error(repr(text))

    def token(self, kind: str) -> str:
        if self.kind != kind:
            raise self.error(f"a {kind}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def name(self) -> str:
        return self.token("name")

    def string(self) -> str:
        return str(json.loads(self.token("string")))

    def integer(self) -> int:
        negative = self.take("-")
        text = self.token("number")
        if not text.isdigit():
            self.at -= 1
            raise self.error("an integer")
        return -int(text) if negative else int(text)

    def many(self, item: Callable[[], T], *ends: str, separator: str = ",") -> tuple[T, ...]:
        """Items up to one of the tokens `ends`, which is left."""
        items: list[T] = []
        if self.next in ends:
            return ()
        items.append(item())
        while self.take(separator):
            items.append(item())
        return tuple(items)

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        self.expect("(")
        items = self.many(item, ")")
        self.expect(")")
        return items

    # ------------------------------------------------------------ sizes, types, atoms

    def poly(self) -> Poly:
        total = ZERO
        negative = self.take("-")
        while True:
            term = self.factor()
            while self.take("*"):
                term = term * self.factor()
            total = total - term if negative else total + term
            if self.take("+"):
                negative = False
            elif self.take("-"):
                negative = True
            else:
                return total

    def factor(self) -> Poly:
        return ONE * self.integer() if self.kind == "number" else Poly.var(self.name())

    def dtype(self) -> DType:
        dtype = _DTYPES.get(self.next)
        if dtype is None:
            raise self.error("a dtype")
        self.at += 1
        return dtype

    def type(self) -> fun.Type:
        dtype = self.dtype()
        if not self.take("["):
            return fun.Scalar(dtype)
        shape = self.many(self.poly, "]")
        self.expect("]")
        return fun.Array(dtype, shape)

    def binder(self) -> fun.Var:
        name = self.name()
        self.expect(":")
        return self.bound(name, self.type())

    def bound(self, name: str, type_: fun.Type) -> fun.Var:
        self.types[name] = type_
        return fun.Var(name, type_)

    def var(self) -> fun.Var:
        name = self.name()
        if name not in self.types:
            self.at -= 1
            raise self.error("a variable in scope")
        return fun.Var(name, self.types[name])

    def atom(self) -> fun.Atom:
        if self.kind == "name" and not self.next.startswith(("True", "False")):
            return self.var()
        return self.constant()

    def constant(self) -> fun.Const:
        if self.take("("):
            real = self.real()
            self.expect(",")
            value: Any = complex(real, self.real())
            self.expect(")")
            return fun.Const(value, _DTYPES[self.name().removeprefix("_")])
        sign = -1 if self.take("-") else 1
        self.take("+")
        if self.kind not in ("number", "name"):
            raise self.error("an atom")
        text, _, suffix = self.next.partition("_")
        self.at += 1
        if text in ("True", "False"):
            value, natural = text == "True", DType.BOOL
        elif text.isdigit():
            value, natural = sign * int(text), DType.I64
        else:
            value, natural = sign * float(text), DType.F64
        return fun.Const(value, _DTYPES[suffix] if suffix else natural)

    def real(self) -> float:
        sign = -1.0 if self.take("-") else 1.0
        self.take("+")
        text = self.next
        self.at += 1
        return sign * float(text)

    # ------------------------------------------------------------ programs and bodies

    def program(self) -> fun.Program:
        self.expect("program")
        name = self.string() if self.kind == "string" else self.name()
        params = self.listed(self.binder)
        sizes: tuple[str, ...] = ()
        derived: list[Derived] = []
        facts: list[Fact] = []
        while not self.take("{"):
            if self.take("sizes"):
                sizes = self.many(self.name)
            elif self.take("derived"):
                derived.append(self.derived())
            elif not self.header():
                self.expect("fact")
                facts.append(self.fact())
        body = self.body()
        self.expect("}")
        if self.kind != "end":
            raise self.error("the end")
        return fun.Program(name, params, body, sizes, tuple(derived), tuple(facts))

    def header(self) -> bool:
        """Read a line that a larger language adds before the body, if there is one."""
        return False

    def derived(self) -> Derived:
        name = self.name()
        self.expect("=")
        operation: Any = self.name()
        self.expect("(")
        left = self.poly()
        right = self.poly() if self.take(",") else ZERO
        self.expect(")")
        return Derived(name, operation, left, right)

    def fact(self) -> Fact:
        poly = self.poly()
        if self.take("divides"):
            return Fact("divides", self.poly(), poly.constant)
        symbol = self.next
        self.expect(symbol if symbol in (">=", "==", "!=") else ">=")
        relation: Any = f"{symbol}0"
        if self.integer() != 0:
            raise self.error("0")
        return Fact(relation, poly)

    def body(self) -> fun.Body:
        statements: list[fun.Let] = []
        while self.take("let"):
            statements.append(self.let())
        self.expect("in")
        return fun.Body(tuple(statements), self.many(self.atom, "}"))

    def block(self) -> fun.Body:
        self.expect("{")
        body = self.body()
        self.expect("}")
        return body

    def let(self) -> fun.Let:
        pattern = self.many(self.binder, "=")
        self.expect("=")
        expr = self.expr()
        place = None
        if self.take("@"):
            file = self.string()
            self.expect(":")
            line = self.integer()
            place = Place(file, line, column=self.integer() if self.take(":") else 0)
        return fun.Let(pattern, expr, place)

    def function(self) -> fun.Lambda:
        params = self.listed(self.binder)
        return fun.Lambda(params, self.block())

    # ------------------------------------------------------------ expressions

    def expr(self) -> fun.Expr:
        word = self.name()
        if self.next == "[":
            self.at -= 1
            return self.index()
        form = getattr(self, f"_{word}", None) if word in _FORMS else None
        if form is not None:
            found: fun.Expr = form()
            return found
        arguments = self.listed(self.atom)
        if word in _DTYPES:
            return fun.Cast(_DTYPES[word], arguments[0])
        return fun.Apply(word, arguments)

    def index(self) -> fun.Index:
        array = self.var()
        self.expect("[")
        reads = self.many(self.read, "]")
        self.expect("]")
        rules = tuple(rule for _, rule in reads)
        indices = tuple(index for index, _ in reads)
        return fun.Index(array, indices, rules if any(rules) else ())

    def read(self) -> tuple[Size, fun.Boundary | None]:
        index = self.poly()
        if not self.take(":"):
            return index, None
        kind: Any = self.name()
        if kind not in _KINDS:
            self.at -= 1
            raise self.error("one of " + ", ".join(_KINDS))
        self.expect("(")
        lower = self.poly()
        self.expect(",")
        upper = self.poly()
        value = self.constant() if self.take(",") else None
        self.expect(")")
        return index, fun.Boundary(kind, lower, upper, value)

    def dims(self) -> tuple[fun.Span | Size, ...]:
        self.expect("[")
        dims = self.many(self.dim, "]")
        self.expect("]")
        return dims

    def dim(self) -> fun.Span | Size:
        start = self.poly()
        if not self.take("for"):
            return start
        extent = self.poly()
        return fun.Span(start, extent, self.integer() if self.take("by") else 1)

    def lmad(self) -> tuple[Size, tuple[tuple[Size, Size], ...]]:
        self.expect("[")
        offset = self.poly()
        dims: list[tuple[Size, Size]] = []
        while self.take(";"):
            self.expect("(")
            extent = self.poly()
            self.expect(":")
            dims.append((extent, self.poly()))
            self.expect(")")
        self.expect("]")
        return offset, tuple(dims)

    def range(self) -> fun.Range:
        index = self.bound(self.name(), fun.Scalar(DType.I64))
        self.expect("<")
        return fun.Range(index, self.poly())

    def _size(self) -> fun.Expr:
        return fun.SizeValue(self.poly())

    def _slice(self) -> fun.Expr:
        return fun.Slice(self.var(), self.dims())

    def _lmad(self) -> fun.Expr:
        return fun.LmadSlice(self.var(), *self.lmad())

    def _permute(self) -> fun.Expr:
        return fun.Permute(self.var(), self.listed(self.integer))

    def _reshape(self) -> fun.Expr:
        return fun.Reshape(self.var(), self.listed(self.poly))

    def _broadcast(self) -> fun.Expr:
        return fun.Broadcast(self.atom(), self.listed(self.poly))

    def _kernel(self) -> fun.Expr:
        return fun.Kernel(self.listed(self.range), self.block())

    def _reduce(self) -> fun.Expr:
        counter = self.take("counter")
        self.expect("(")
        kept = self.many(self.range, ";")
        self.expect(";")
        reduced = self.many(self.range, ")")
        self.expect(")", "from")
        neutral = self.many(self.atom, "{")
        body = self.block()
        self.expect("with")
        space = kept + reduced
        return fun.Reduce(space, len(reduced), body, self.function(), neutral, counter)

    def _scan(self) -> fun.Expr:
        exclusive = self.take("exclusive")
        space = self.listed(self.range)
        self.expect("from")
        initial = self.many(self.atom, "{")
        body = self.block()
        self.expect("with")
        return fun.Scan(space, body, self.function(), initial, exclusive)

    def _scatter(self) -> fun.Expr:
        destinations = self.many(self.var)
        self.expect("over")
        space = self.listed(self.range)
        body = self.block()
        combine = self.function() if self.take("with") else None
        return fun.Scatter(destinations, space, body, combine)

    def _concat(self) -> fun.Expr:
        axis = self.integer()
        return fun.Concat(self.listed(self.var), axis)

    def _copy(self) -> fun.Expr:
        return fun.Copy(self.var())

    def _empty(self) -> fun.Expr:
        return fun.Empty(self.dtype(), self.listed(self.poly))

    def _update(self) -> fun.Expr:
        array, dims = self.var(), self.dims()
        self.expect("=")
        return fun.Update(array, dims, self.atom())

    def _update_lmad(self) -> fun.Expr:
        array = self.var()
        offset, dims = self.lmad()
        self.expect("=")
        return fun.LmadUpdate(array, offset, dims, self.var())

    def _if(self) -> fun.Expr:
        condition, then = self.atom(), self.block()
        self.expect("else")
        return fun.If(condition, then, self.block())

    def _loop(self) -> fun.Expr:
        # Initial values are outside the parameters' scope, but names are bound once.
        pairs = self.listed(self.param)
        form: fun.For | fun.While
        if self.take("while"):
            form = fun.While(self.block())
        else:
            self.expect("for")
            index = self.bound(self.name(), fun.Scalar(DType.I64))
            self.expect("from")
            lower = self.poly()
            self.expect("to")
            upper = self.poly()
            form = fun.For(index, lower, upper, self.tiled() if self.take("tiled") else None)
        params = tuple(param for param, _ in pairs)
        return fun.Loop(params, tuple(initial for _, initial in pairs), form, self.block())

    def tiled(self) -> tuple[Poly, Poly]:
        self.expect("from")
        first = self.poly()
        self.expect("to")
        return first, self.poly()

    def param(self) -> tuple[fun.Var, fun.Atom]:
        param = self.binder()
        self.expect("=")
        return param, self.atom()

    def _call(self) -> fun.Expr:
        routine = self.name()
        self.expect("(")
        arguments: list[fun.Atom] = []
        options: list[tuple[str, bool | int | float | str]] = []
        while not self.take(")"):
            if self.kind == "name" and self.tokens[self.at + 1][1] == "=":
                name = self.name()
                self.expect("=")
                options.append((name, self.option()))
            else:
                arguments.append(self.atom())
            if self.next != ")":
                self.expect(",")
        extents = self.listed(self.poly) if self.take("to") else ()
        return fun.Call(routine, tuple(arguments), tuple(options), extents)

    def option(self) -> bool | int | float | str:
        if self.kind == "string":
            return self.string()
        value = self.constant().value
        assert not isinstance(value, complex)
        return value


_FORMS = frozenset(
    ("size", "slice", "lmad", "permute", "reshape", "broadcast", "kernel", "reduce", "scan",
     "scatter", "concat", "copy", "empty", "update", "update_lmad", "if", "loop", "call")
)  # fmt: skip
