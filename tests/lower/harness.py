"""Runs a segment with a serial pool (or the real one's stand-in): gcc, ctypes, NumPy."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower.segment import compile_segment
from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.short_circuit import short_circuit
from weft.plan.segment import Segment
from weft.printers.c import print_program
from weft.runtime import threads, toolchain

FLAGS = [
    "-std=gnu11",
    "-O3",
    "-march=native",
    "-fopenmp-simd",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fPIC",
    "-shared",
]
if (_gcc := toolchain._describe((shutil.which("gcc") or "gcc",))) is not None:
    FLAGS += [flag for flag in _gcc.flags if flag.startswith("-m") and flag not in FLAGS]

QUICK = [flag.replace("-O3", "-O1") for flag in FLAGS]  # for many programs that run once

_POOL = r"""
#include <stdint.h>
#include <string.h>
#include <stdlib.h>
#include <pthread.h>
typedef struct weft_context weft_context;
struct weft_context {
    void (*parallel_for)(weft_context *, void (*)(void *, int64_t, int32_t), void *, int64_t);
    volatile int32_t *cancel;
    int32_t threads;
    int32_t error;
    int64_t detail[4];
    void (*parallel_in_order)(weft_context *, void (*)(void *, int64_t, int32_t), void *, int64_t);
    void (*roots)(double *, int64_t);
    void (*columns)(weft_context *, void *, int64_t, const void *, int64_t, int64_t, int64_t,
                    int64_t, int64_t);
};
struct job { weft_context *context; void (*tile)(void *, int64_t, int32_t); void *closure;
             int64_t tiles; int64_t next; };
struct worker { struct job *job; int32_t thread; };
static void *work(void *argument) {
    struct worker *w = argument;
    struct job *job = w->job;
    for (;;) {
        int64_t tile = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (tile >= job->tiles || *job->context->cancel || job->context->error) return 0;
        job->tile(job->closure, tile, w->thread);
    }
}
void pool(weft_context *context, void (*tile)(void *, int64_t, int32_t), void *closure,
          int64_t tiles) {
    struct job job = {context, tile, closure, tiles, 0};
    pthread_t threads[64];
    struct worker workers[64];
    int count = tiles > 1 ? context->threads : 1;
    for (int t = 0; t < count; t++) {
        workers[t] = (struct worker){&job, t};
        if (t) pthread_create(&threads[t], 0, work, &workers[t]);
    }
    work(&workers[0]);
    for (int t = 1; t < count; t++) pthread_join(threads[t], 0);
}
"""
_HELPERS = "".join(
    Path(threads.__file__).with_name(name).read_text() for name in ("roots.c", "columns.c")
) + """
void found_roots(double *x, int64_t count) { roots(x, count); }
void made_columns(weft_context *context, void *target, int64_t between, const void *source,
                  int64_t apart, int64_t step, int64_t count, int64_t records, int64_t bytes) {
    columns(context, target, between, source, apart, step, count, records, bytes);
}
"""


class Context(ctypes.Structure):
    _fields_ = [
        ("parallel_for", ctypes.c_void_p),
        ("cancel", ctypes.c_void_p),
        ("threads", ctypes.c_int32),
        ("error", ctypes.c_int32),
        ("detail", ctypes.c_int64 * 4),
        ("parallel_in_order", ctypes.c_void_p),
        ("roots", ctypes.c_void_p),
        ("columns", ctypes.c_void_p),
    ]


_directory = Path(tempfile.gettempdir()) / "weft-test-libraries"
_libraries: dict[str, ctypes.CDLL] = {}


def library(text: str, flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    key = hashlib.sha256((text + " ".join(flags)).encode()).hexdigest()[:24]
    if key not in _libraries:
        _directory.mkdir(exist_ok=True)
        path = _directory / f"{key}.so"
        if not path.exists():
            source = path.with_suffix(f".{os.getpid()}.c")  # others may compile the same text
            part = path.with_suffix(f".{os.getpid()}.part")
            source.write_text(text)
            strict = ["-Wall", "-Werror", "-Wno-unused", "-Wno-tautological-compare"]
            command = ["gcc", *flags, *strict, "-o", str(part), str(source), "-lm"]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr + "\n" + text
            part.rename(path)
        _libraries[key] = ctypes.CDLL(str(path))
    return _libraries[key]


class IndexFailureError(Exception):
    pass


def pool_address(function: str = "pool") -> int:
    return ctypes.cast(library(_POOL + _HELPERS)[function], ctypes.c_void_p).value or 0


def aligned(bytes_: int) -> np.ndarray[Any, Any]:
    raw = np.zeros(bytes_ + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + bytes_]


class Launch:
    """A segment ready to be called again and again on the same arguments."""

    def __init__(
        self, segment: Segment, arguments: Sequence[Any], sizes: dict[str, int], threads: int = 1,
        flags: Sequence[str] = FLAGS,
    ) -> None:  # fmt: skip
        values = {**sizes, "threads": threads}
        for derived in segment.derived:
            values[derived.name] = derived.evaluate(values)
        self.arguments = [
            np.asarray(a, dtype=slot.dtype)
            for a, slot in zip(arguments, segment.params, strict=True)
        ]
        for _, param in segment.donated:
            self.arguments[param] = self.arguments[param].copy()
        for array, slot in zip(self.arguments, segment.params, strict=True):
            for d, stride in enumerate(array.strides):
                values.setdefault(f"{slot.name}.stride{d}", stride // array.itemsize)
        for check in segment.checks:
            if all(size.evaluate(values) > 0 for size in check.nonempty):
                low = max(limit.evaluate(values) for limit in check.lower)
                high = min(limit.evaluate(values) for limit in check.upper)
                if low < 0 or high >= check.extent.evaluate(values):
                    raise IndexFailureError(check.array, check.axis, "launch")
        self.results = [
            np.full([max(0, e.evaluate(values)) for e in slot.shape], 99).astype(slot.dtype)
            for slot in segment.results
        ]
        for result, param in segment.donated:
            self.results[result] = self.arguments[param].reshape(self.results[result].shape)
        self.workspace = aligned(max(1, segment.workspace.evaluate(values)))
        self.workspace[:] = 255  # nothing may rely on zeroed memory
        pointers = [a.ctypes.data for a in (*self.arguments, *self.results, self.workspace)]
        self.buffers = (ctypes.c_void_p * len(pointers))(*pointers)
        integers = [values[name] for name in segment.integers]
        self.integers = (ctypes.c_int64 * max(1, len(integers)))(*integers)
        self.cancel = ctypes.c_int32(0)
        self.context = Context(
            pool_address(), ctypes.addressof(self.cancel), threads, 0, (ctypes.c_int64 * 4)(),
            pool_address(), pool_address("found_roots"), pool_address("made_columns"),
        )  # fmt: skip
        self.entry = library(segment.source, flags)[segment.entry]
        self.segment = segment

    def __call__(self) -> list[np.ndarray[Any, Any]]:
        self.context.error = 0
        code = self.entry(ctypes.byref(self.context), self.buffers, self.integers)
        if code >= 16:
            failure = self.segment.failures[code - 16]
            raise IndexFailureError(failure.array, failure.axis, *self.context.detail[:2])
        assert code == 0, code
        return self.results


def run(
    segment: Segment, arguments: Sequence[Any], sizes: dict[str, int], threads: int = 1,
    flags: Sequence[str] = FLAGS,
) -> list[np.ndarray[Any, Any]]:  # fmt: skip
    return Launch(segment, arguments, sizes, threads, flags)()


def compiled(program: fun.Program, **layouts: Any) -> Segment:
    memory = merge_blocks(short_circuit(introduce(program, layouts)))
    return compile_segment(memory, "weft_entry", print_program)


def sizes_of(
    program: fun.Program, arguments: Sequence[Any], extra: dict[str, int]
) -> dict[str, int]:
    sizes = dict(extra)
    for param, argument in zip(program.params, arguments, strict=True):
        if isinstance(param.type, fun.Array):
            for extent, value in zip(param.type.shape, np.shape(argument), strict=True):
                if extent.variable is not None:
                    sizes.setdefault(extent.variable, value)
    return sizes


def agree(
    program: fun.Program | str,
    arguments: Sequence[Any],
    rtol: float | None = None,
    atol: float = 0.0,
    segment: Segment | None = None,
    **sizes: int,
) -> list[np.ndarray[Any, Any]]:
    """Compiled code gives what the interpreter gives; one thread and two the same bits."""
    if isinstance(program, str):
        program = parse(program)
    expected = interpret(program, arguments, sizes)
    segment = segment or compiled(program)
    values = sizes_of(program, arguments, sizes)
    got = run(segment, arguments, values)
    again = run(segment, arguments, values, threads=2)
    for one, two, want in zip(got, again, expected, strict=True):
        assert one.dtype == np.asarray(want).dtype
        assert one.tobytes() == two.tobytes(), "bits depend on threads"
        if one.dtype.kind in "fc":
            tolerance = rtol if rtol is not None else 64 * np.finfo(one.dtype).eps
            np.testing.assert_allclose(one, want, rtol=tolerance, atol=atol)
        else:
            np.testing.assert_array_equal(one, want)
    return got
