"""The text of a segment's kernels, each by itself: it is compiled where it is launched."""

from __future__ import annotations

import re

_KERNEL = re.compile(
    r'^extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(', re.MULTILINE
)


def apart(source: str) -> dict[str, str]:
    """For each kernel of CUDA C++, by its name, a program of it alone, with all helpers."""
    found = list(_KERNEL.finditer(source))
    begins = [match.start() for match in found]
    helpers = source[: begins[0]] if begins else ""
    ends = [*begins[1:], len(source)]
    return {
        match[1]: helpers + source[begin:end]
        for match, begin, end in zip(found, begins, ends, strict=True)
    }
