"""Hand-written segments: what the printers produce, reduced to what the runtime sees."""

from __future__ import annotations

import numpy as np

from weft.errors import Place
from weft.plan.segment import Failure, Segment, Slot
from weft.sizes import Poly

HEADER = """
#include <stdint.h>
typedef struct weft_context {
    void (*parallel_for)(struct weft_context *, void (*tile)(void *, int64_t, int32_t), void *,
                         int64_t tiles);
    volatile int32_t *cancel;
    int32_t threads;
    int32_t error;
    int64_t detail[4];
    void (*parallel_in_order)(struct weft_context *, void (*tile)(void *, int64_t, int32_t),
                              void *, int64_t tiles);
    void (*roots)(double *, int64_t);
} weft_context;
"""

DOUBLE = HEADER + """
typedef struct { weft_context *context; const double *x; double *y; int64_t n, tile; } closure;
static void tile(void *given, int64_t tile, int32_t thread) {
    closure *c = given;
    int64_t end = (tile + 1) * c->tile;
    for (int64_t i = tile * c->tile; i < (end < c->n ? end : c->n); i++) c->y[i] = 2 * c->x[i];
}
int32_t entry(weft_context *context, char *const *buffers, const int64_t *integers) {
    closure c = {context, (const double *)buffers[0], (double *)buffers[1],
                 integers[0], integers[1]};
    context->parallel_for(context, tile, &c, (c.n + c.tile - 1) / c.tile);
    return context->error;
}
"""

GATHER = HEADER + """
typedef struct { weft_context *context; const int64_t *x; int64_t n; } closure;
static void tile(void *given, int64_t tile, int32_t thread) {
    closure *c = given;
    if (c->x[tile] < 0 || c->x[tile] >= c->n) {
        c->context->detail[0] = c->x[tile];
        c->context->detail[1] = c->n;
        c->context->error = 16;
    }
}
int32_t entry(weft_context *context, char *const *buffers, const int64_t *integers) {
    closure c = {context, (const int64_t *)buffers[0], integers[0]};
    context->parallel_for(context, tile, &c, c.n);
    return context->error;
}
"""

SPIN = HEADER + """
#include <time.h>
#include <stdatomic.h>
typedef struct { int64_t *x; _Atomic int32_t *used; } closure;
static void tile(void *given, int64_t tile, int32_t thread) {
    closure *c = given;
    if (atomic_fetch_add(&c->used[thread], 1) != 0) c->x[0] = -1;  /* the index is not unique */
    if (thread > 0) c->x[1] = thread;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 1000000);
    if (c->x[0] >= 0) __atomic_fetch_add(&c->x[0], 1, __ATOMIC_RELAXED);
    atomic_fetch_sub(&c->used[thread], 1);
}
int32_t entry(weft_context *context, char *const *buffers, const int64_t *integers) {
    _Atomic int32_t used[1024] = {0};
    closure c = {(int64_t *)buffers[0], used};
    context->parallel_for(context, tile, &c, integers[0]);
    return context->error;
}
"""

ORDER = HEADER + """
#include <stdatomic.h>
typedef struct { int64_t *x; _Atomic int64_t begun; } closure;
static void tile(void *given, int64_t tile, int32_t thread) {
    closure *c = given;
    c->x[2 * tile] = thread;
    c->x[2 * tile + 1] = atomic_fetch_add(&c->begun, 1);
}
int32_t entry(weft_context *context, char *const *buffers, const int64_t *integers) {
    closure c = {(int64_t *)buffers[0], 0};
    if (integers[1]) context->parallel_in_order(context, tile, &c, integers[0]);
    else context->parallel_for(context, tile, &c, integers[0]);
    return context->error;
}
"""

ROOTS = HEADER + """
int32_t entry(weft_context *context, char *const *buffers, const int64_t *integers) {
    double *x = (double *)buffers[0], kept[64] __attribute__((aligned(64)));
    for (int64_t i = 0; i < integers[0]; i += integers[1]) {
        int64_t count = integers[0] - i < integers[1] ? integers[0] - i : integers[1];
        __builtin_memcpy(kept, x + i, count * sizeof *x);
        context->roots(kept, count);
        __builtin_memcpy(x + i, kept, count * sizeof *x);
    }
    return context->error;
}
"""

DOUBLES = np.dtype(np.float64)
INTEGERS = np.dtype(np.int64)


def segment(source: str, params: int, integers: tuple[str, ...], results: int = 0) -> Segment:
    shape = (Poly.var("n"),)
    return Segment(
        entry="entry",
        source=source,
        params=tuple(Slot(f"p{i}", DOUBLES, shape) for i in range(params)),
        results=tuple(Slot(f"result_{i}", DOUBLES, shape) for i in range(results)),
        sizes=("n",),
        derived=(),
        facts=(),
        integers=integers,
        workspace=Poly.const(0),
        failures=(Failure("index", "p0", 0, Place(__file__, 1)),),
    )


def double() -> Segment:
    """y = 2 * x; integers n, tile, threads."""
    return segment(DOUBLE, 1, ("n", "tile", "threads"), results=1)


def gather() -> Segment:
    """Checks indices; integers n, threads."""
    return segment(GATHER, 1, ("n", "threads"))


def spin() -> Segment:
    """Tiles of a millisecond, counted in p0[0], p0[1] a thread that helped; tiles, threads."""
    return segment(SPIN, 1, ("tiles", "threads"))


def order() -> Segment:
    """For each tile its thread, and how many began before; integers tiles, ordered, threads."""
    return segment(ORDER, 1, ("tiles", "ordered", "threads"))
