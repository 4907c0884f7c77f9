"""What compiling a program gives, and its place in the cache on disk.

The cache has two levels. Here: a program's text (canonical FUN, with places), what its launch
decided and how its parameters lie give the segments, as JSON. In `runtime.toolchain`: a
segment's text, compiler, flags and CPU give the library. A program found here is neither
optimised nor lowered again; the compiler is not even imported.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from weft.fun import nodes as fun
from weft.fun.show import show
from weft.ops.dtypes import DType
from weft.plan.archive import (
    derived_from_json,
    derived_to_json,
    dumps,
    segment_from_json,
    segment_to_json,
)  # fmt: skip
from weft.plan.decisions import Choices, Decided
from weft.plan.seams import (
    CallPiece,
    CompiledPiece,
    Piece,
    ViewPiece,
    cut_at_calls,
)  # fmt: skip
from weft.plan.segment import Dialect, Layout, Segment
from weft.records import dataclass
from weft.runtime import built
from weft.runtime.cache import key_of, open_cache
from weft.runtime.toolchain import cpu_features
from weft.sizes import Derived, parse_poly

_SUFFIX = ".json"
_READ = 64  # programs that are there as objects, too, the last ones


@dataclass(frozen=True, slots=True)
class SegmentPiece:
    """A compiled piece of a program; its parameters and results go by name."""

    segment: Segment
    params: tuple[str, ...]
    results: tuple[str, ...]


ArtifactPiece: TypeAlias = SegmentPiece | CallPiece | ViewPiece


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled program.

    Attributes
    ----------
    pieces : tuple of ArtifactPiece
        In the order in which they run.
    derived : tuple of Derived
        All sizes that are computed at launch.
    results : tuple of (str or fun.Const)
        What each result is: a named value, or a constant.
    roots : mapping of str to str
        For each result that is a view, what it is a view of.
    """

    pieces: tuple[ArtifactPiece, ...]
    derived: tuple[Derived, ...]
    results: tuple[str | fun.Const, ...]
    roots: Mapping[str, str]


def find(parts: tuple[str, ...], from_json: Any) -> Any | None:
    """What the cache has under a key made of `parts`."""
    known = built.stored(parts)
    if known is not None:
        return _read(from_json, known)
    store = open_cache()
    key = key_of(_fingerprint(), *parts)
    stored = store.load(key, _SUFFIX)
    if stored is not None:
        try:
            made = _read(from_json, stored)
            built.store(parts, stored.decode())
            return made
        except (KeyError, ValueError, TypeError):
            store.remove(key, _SUFFIX)  # not what this version writes
    return None


@lru_cache(_READ)
def _read(from_json: Any, text: str | bytes) -> Any:
    """What a text says: one object, as rounds have the same program again and again."""
    return from_json(json.loads(text))


def find_or_make(
    parts: tuple[str, ...], make: Callable[[], Any], to_json: Any, from_json: Any
) -> Any:
    """What the cache has under a key made of `parts`, else `make()`, which is then stored.

    `to_json` gives None for what cannot be stored.
    """
    made = find(parts, from_json)
    if made is not None:
        return made
    made = make()
    found = to_json(made)
    if found is not None:
        built.store(parts, dumps(found).decode())
        with contextlib.suppress(OSError):  # a full disk costs time, not results
            open_cache().save(key_of(_fingerprint(), *parts), _SUFFIX, dumps(found))
    return made


@cache
def _fingerprint() -> str:
    """What programs are made by and for: Weft's source files, by size and time; the processor."""
    found = [cpu_features()]
    folders = [str(Path(__file__).parent.parent)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if not entry.is_dir():
                    status = entry.stat()
                    found.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
                elif entry.name != "__pycache__":
                    folders.append(entry.path)
    return "\n".join(sorted(found))


# ---------------------------------------------------------------- whole programs


class Artifacts:
    """The compiled forms of one traced program, made as launches need them.

    Parameters
    ----------
    program : fun.Program
    own : set of DType
        Numbers of which matrix products are Weft's own, and no library's.
    """

    def __init__(self, program: fun.Program, own: Set[DType]) -> None:
        self.program = program
        self.own = own
        # What a library does is a part of what the program's text says.
        own_text = " ".join(sorted(map(str, own)))
        self.text = f"{show(program, places=True)}\nown products: {own_text}"
        self._choices: Choices | None = None
        self._fused: fun.Program | None = None
        self._streamed: dict[Decided, fun.Program] = {}

    @property
    def fused(self) -> fun.Program:
        """The program simplified and fused, whatever its sizes."""
        if self._fused is None:
            from weft.passes.pipeline import optimise
            from weft.passes.write_out_products import write_out_products

            self._fused = optimise(write_out_products(self.program, self.own))
        return self._fused

    @cached_property
    def contracted(self) -> fun.Program:
        """The fused program, with products contracted: what it then means."""
        from weft.passes.contract import contract

        return contract(self.fused)

    @property
    def choices(self) -> Choices:
        """What a launch can decide."""
        if self._choices is None:
            self._choices = find_or_make(
                ("choices", self.text), self._make_choices, _choices_to_json, _choices_from_json
            )
        return self._choices

    @property
    def are_new(self) -> bool:
        """Whether nothing was ever made of the program, as far as the cache tells."""
        if self._choices is None:
            self._choices = find(("choices", self.text), _choices_from_json)
        return self._choices is None

    def _make_choices(self) -> Choices:
        from weft.compiler import choices

        return choices(self.fused)

    def finished(
        self, decided: Decided, contiguous: frozenset[str] | None,
        fused: fun.Program | None = None, join: bool = False,
    ) -> fun.Program:  # fmt: skip
        """The optimised program, as decided."""
        from weft.compiler import finish

        return finish(fused or self.fused, self.choices, decided, contiguous, join)

    def streamed(self, decided: Decided) -> fun.Program:
        """The optimised program as the planner takes it."""
        if decided not in self._streamed:
            from weft.passes.fill import fill

            self._streamed[decided] = fill(self.finished(decided, None, join=True))
        return self._streamed[decided]

    def artifact(
        self,
        decided: Decided,
        layouts: Mapping[str, Layout],
        optimise: str = "",
        dialect: Dialect = "c",
        donated: Mapping[str, int] | None = None,
    ) -> Artifact:
        """The compiled program, from the cache where it is there.

        It may overwrite the parameters that are `donated`, each with the result of that number.
        """
        lie = ",".join(f"{name}:{layout}" for name, layout in sorted(layouts.items()))
        given = donated or {}
        over = ",".join(f"{name}:{number}" for name, number in sorted(given.items()))
        return find_or_make(  # type: ignore[no-any-return]
            ("artifact", self.text, str(decided), lie, optimise, dialect, over),
            lambda: self._make(decided, layouts, optimise, dialect, given),
            _artifact_to_json, _artifact_from_json,
        )  # fmt: skip

    def _make(
        self, decided: Decided, layouts: Mapping[str, Layout], optimise: str, dialect: Dialect,
        donated: Mapping[str, int],
    ) -> Artifact:  # fmt: skip
        contiguous = frozenset(p.name for p in self.program.params if p.name not in layouts)
        fused = self.fused
        if dialect == "c" and "no-blas" not in optimise.split():
            from weft.passes.updates import updates

            fused = updates(fused, donated)
        program = self.finished(decided, contiguous, fused)
        if dialect == "c" and any(decided.records):
            from weft.passes.side_by_side import side_by_side

            pairs = zip(self.choices.records, decided.records, strict=True)
            wanted = {extents for extents, yes in pairs if yes}
            program = side_by_side(program, lambda found: (found.times, found.number) in wanted)
        pieces = cut_at_calls(program)
        over: Sequence[Mapping[str, int]] = [{}] * len(pieces)
        if donated:
            from weft.plan.donations import donations

            over = donations(program, pieces, donated, layouts)
        return Artifact(
            tuple(
                _compiled(piece, layouts, optimise, dialect, own)
                for piece, own in zip(pieces, over, strict=True)
            ),
            program.derived,
            tuple(a.name if isinstance(a, fun.Var) else a for a in program.body.results),
            view_roots(program),
        )


def view_roots(program: fun.Program) -> dict[str, str]:
    """For each outermost layout change, the array that it is a view of."""
    roots: dict[str, str] = {}
    for let in program.body.statements:
        if isinstance(let.expr, fun.LAYOUT_CHANGES) and isinstance(let.expr.array, fun.Var):
            roots[let.pattern[0].name] = roots.get(let.expr.array.name, let.expr.array.name)
    return roots


def _compiled(
    piece: Piece, layouts: Mapping[str, Layout], optimise: str, dialect: Dialect,
    donated: Mapping[str, int],
) -> ArtifactPiece:  # fmt: skip
    if isinstance(piece, CallPiece):
        return replace(piece, over=next(iter(donated), None))
    if not isinstance(piece, CompiledPiece):
        return piece
    from weft.compiler import compile_segment

    compile = partial(compile_segment, optimise=optimise, dialect=dialect, donated=donated)
    return segment_piece(piece, layouts, compile)


def segment_piece(
    piece: CompiledPiece, layouts: Mapping[str, Layout],
    compile: Callable[[fun.Program, Mapping[str, Layout]], Segment],
) -> SegmentPiece:  # fmt: skip
    """A piece as the segment that `compile` makes of its program, and of how its parameters lie."""
    names = tuple(param.name for param in piece.program.params)
    lie = {name: layouts[name] for name in names if name in layouts}
    return SegmentPiece(compile(piece.program, lie), names, piece.results)


def segment_of(
    program: fun.Program,
    layouts: Mapping[str, Layout],
    optimise: str = "",
    dialect: Dialect = "c",
    private: Collection[str] = (),
) -> Segment:
    """The segment of an optimised program without library calls, through the cache."""

    def make() -> Segment:
        from weft.compiler import compile_segment

        return compile_segment(program, layouts, optimise, dialect, private=private)

    lie = ",".join(f"{name}:{layout}" for name, layout in sorted(layouts.items()))
    return find_or_make(  # type: ignore[no-any-return]
        ("segment", show(program, places=True), lie, optimise, dialect, " ".join(private)), make,
        segment_to_json, segment_from_json,
    )  # fmt: skip


# ---------------------------------------------------------------- as JSON


def _choices_to_json(found: Choices) -> Any:
    return [
        [derived_to_json(entry) for entry in found.derived],
        *([[str(a), str(b)] for a, b in pairs]
          for pairs in (found.nests, found.splits, found.tiles, found.columns, found.ahead,
                        found.contractions, found.records, found.pairs)),
    ]


def _choices_from_json(found: Any) -> Choices:
    derived, *groups = found
    pairs_of = (tuple((parse_poly(a), parse_poly(b)) for a, b in pairs) for pairs in groups)
    return Choices(tuple(map(derived_from_json, derived)), *pairs_of)


def _artifact_to_json(found: Artifact) -> Any:
    """None for programs with library calls, whose statements are FUN."""
    pieces = [piece for piece in found.pieces if isinstance(piece, SegmentPiece)]
    if len(pieces) < len(found.pieces) or not all(isinstance(r, str) for r in found.results):
        return None
    return [
        [[segment_to_json(p.segment), list(p.params), list(p.results)] for p in pieces],
        [derived_to_json(entry) for entry in found.derived],
        list(found.results),
        dict(found.roots),
    ]


def _artifact_from_json(found: Any) -> Artifact:
    pieces, derived, results, roots = found
    return Artifact(
        tuple(SegmentPiece(segment_from_json(s), tuple(p), tuple(r)) for s, p, r in pieces),
        tuple(map(derived_from_json, derived)),
        tuple(results),
        roots,
    )
