"""Segments as JSON, for the cache on disk: no pickle is ever read from it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from weft.errors import Place
from weft.lmad import Lmad
from weft.plan import launches
from weft.plan.segment import (
    Better,
    BoundsCheck,
    CollisionCheck,
    Failure,
    Inset,
    Segment,
    Slot,
)
from weft.sizes import Derived, Fact, parse_poly


def segment_to_json(segment: Segment) -> dict[str, Any]:
    """A segment as plain lists, strings and numbers."""
    return {
        "entry": segment.entry,
        "source": segment.source,
        "params": [_from_slot(slot) for slot in segment.params],
        "results": [_from_slot(slot) for slot in segment.results],
        "sizes": list(segment.sizes),
        "derived": [derived_to_json(entry) for entry in segment.derived],
        "facts": [[fact.relation, str(fact.poly), fact.divisor] for fact in segment.facts],
        "integers": list(segment.integers),
        "workspace": str(segment.workspace),
        "checks": [
            [
                [str(limit) for limit in check.lower], [str(limit) for limit in check.upper],
                str(check.extent),
                [str(extent) for extent in check.nonempty], check.array, check.axis,
                _from_place(check.place),
            ]
            for check in segment.checks
        ],
        "collisions": [
            [
                str(check.offset), [[str(extent), str(stride)] for extent, stride in check.dims],
                [str(extent) for extent in check.nonempty], check.array, _from_place(check.place),
            ]
            for check in segment.collisions
        ],
        "failures": [
            [
                failure.kind, failure.array, failure.axis, _from_place(failure.place),
                failure.from_end,
            ]
            for failure in segment.failures
        ],
        "kernels": list(segment.kernels),
        "remarks": list(segment.remarks),
        "better": None if segment.better is None else _from_better(segment.better),
        "dialect": segment.dialect,
        "steps": launches.to_json(segment.steps),
        "donated": [list(pair) for pair in segment.donated],
        "insets": [
            [inset.slot, str(inset.offset), str(inset.begin), str(inset.count)]
            for inset in segment.insets
        ],
    }  # fmt: skip


def segment_from_json(found: dict[str, Any]) -> Segment:
    """The segment of `segment_to_json`.

    Raises
    ------
    KeyError, ValueError, TypeError
        When it is something else.
    """
    return Segment(
        entry=found["entry"],
        source=found["source"],
        params=tuple(map(_to_slot, found["params"])),
        results=tuple(map(_to_slot, found["results"])),
        sizes=tuple(found["sizes"]),
        derived=tuple(map(derived_from_json, found["derived"])),
        facts=tuple(Fact(r, parse_poly(poly), divisor) for r, poly, divisor in found["facts"]),
        integers=tuple(found["integers"]),
        workspace=parse_poly(found["workspace"]),
        checks=tuple(map(_to_check, found["checks"])),
        collisions=tuple(map(_to_collision, found["collisions"])),
        failures=tuple(map(_to_failure, found["failures"])),
        kernels=tuple(found["kernels"]),
        remarks=tuple(found["remarks"]),
        better=None if found["better"] is None else _to_better(found["better"]),
        dialect=found["dialect"],
        steps=launches.from_json(found["steps"]),
        donated=tuple((result, param) for result, param in found["donated"]),
        insets=tuple(Inset(slot, *map(parse_poly, where)) for slot, *where in found["insets"]),
    )


def _from_better(better: Better) -> list[Any]:
    pairs = [[_from_lmad(lmad) for lmad in pair] for pair in better.conditions]
    return [pairs, segment_to_json(better.segment)]


def _to_better(found: list[Any]) -> Better:
    pairs, segment = found
    conditions = tuple((_to_lmad(left), _to_lmad(right)) for left, right in pairs)
    return Better(conditions, segment_from_json(segment))


def _from_lmad(lmad: Lmad) -> list[Any]:
    return [str(lmad.offset), [[str(extent), str(stride)] for extent, stride in lmad.dims]]


def _to_lmad(found: list[Any]) -> Lmad:
    offset, dims = found
    return Lmad(parse_poly(offset), tuple((parse_poly(n), parse_poly(s)) for n, s in dims))


def derived_to_json(entry: Derived) -> list[str]:
    return [entry.name, entry.operation, str(entry.left), str(entry.right)]


def derived_from_json(found: list[Any]) -> Derived:
    name, operation, left, right = found
    return Derived(name, operation, parse_poly(left), parse_poly(right))


def dumps(found: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(found, separators=(",", ":")).encode()


def _from_slot(slot: Slot) -> list[Any]:
    return [slot.name, slot.dtype.str, [str(extent) for extent in slot.shape], slot.layout]


def _to_slot(found: list[Any]) -> Slot:
    name, dtype, shape, layout = found
    return Slot(name, np.dtype(dtype), tuple(map(parse_poly, shape)), layout)


def _to_check(found: list[Any]) -> BoundsCheck:
    lower, upper, extent, nonempty, array, axis, place = found
    return BoundsCheck(
        tuple(map(parse_poly, lower)), tuple(map(parse_poly, upper)), parse_poly(extent),
        tuple(map(parse_poly, nonempty)), array, axis, _to_place(place),
    )  # fmt: skip


def _to_collision(found: list[Any]) -> CollisionCheck:
    offset, dims, nonempty, array, place = found
    return CollisionCheck(
        parse_poly(offset), tuple((parse_poly(n), parse_poly(stride)) for n, stride in dims),
        tuple(map(parse_poly, nonempty)), array, _to_place(place),
    )  # fmt: skip


def _to_failure(found: list[Any]) -> Failure:
    kind, array, axis, place, from_end = found
    return Failure(kind, array, axis, _to_place(place), from_end)


def _from_place(place: Place | None) -> list[Any] | None:
    return None if place is None else [place.file, place.line, place.function, place.column]


def _to_place(found: list[Any] | None) -> Place | None:
    return None if found is None else Place(*found)
