"""What sources and sinks hold: arrays in memory, and parts of files, whole stores, objects."""

from __future__ import annotations

import os
from typing import TypeAlias

from weft.io.files import Array
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes `first` to `end` of a file; or all (`end` None) of a file, a directory, an object."""

    name: str
    first: int = 0
    end: int | None = None

    def overlaps(self, other: Part) -> bool:
        if _identity(self.name) != _identity(other.name):
            return False
        if self.end is None or other.end is None:
            return True
        return max(self.first, other.first) < min(self.end, other.end)


def _identity(name: str) -> tuple[object, ...]:
    """What a name stands for: a file is one under all of its names, which may be hard links."""
    path, _, component = name.partition("::")
    try:
        status = os.stat(path)
    except OSError:  # an object, or what is stored elsewhere
        return (os.path.realpath(name),)
    return status.st_dev, status.st_ino, component


Held: TypeAlias = Array | Part


def part_of_object(value: object) -> tuple[Part, ...]:
    """All of an object of which nothing is known."""
    return (Part(f"object:{id(value)}"),)
