/* Records of a few numbers copied to columns, in parts that the pool's threads do.
 *
 * What lanes read again and again is copied so before, in many programs: this is compiled once,
 * where a first call would wait for it. This follows `pool.c`.
 */

typedef struct {
    char *target;
    const char *source;
    int64_t columns, records;
    int64_t between;      /* elements from one column to the next */
    int64_t apart, step;  /* from one record to the next, and from a number to the next */
    int64_t bytes;        /* of a number */
} turned;

enum { TURNED = 2048 }; /* records of a part */

typedef struct {
    uint64_t halves[2];
} uint128_t;

#define DEFINE_TURN(bits)                                                                       \
    static void turn_##bits(const turned *t, int64_t begin, int64_t end) {                      \
        for (int64_t column = 0; column < t->columns; column++) {                               \
            uint##bits##_t *restrict to = (uint##bits##_t *)t->target + column * t->between;    \
            const uint##bits##_t *from = (const uint##bits##_t *)t->source + column * t->step;  \
            for (int64_t r = begin; r < end; r++) to[r] = from[r * t->apart];                   \
        }                                                                                       \
    }

DEFINE_TURN(8)
DEFINE_TURN(16)
DEFINE_TURN(32)
DEFINE_TURN(64)
DEFINE_TURN(128)

static void turn_part(void *argument, int64_t part, int32_t thread) {
    const turned *t = argument;
    int64_t begin = part * TURNED, end = begin + TURNED < t->records ? begin + TURNED : t->records;
    (void)thread;
    switch (t->bytes) {
    case 1: turn_8(t, begin, end); break;
    case 2: turn_16(t, begin, end); break;
    case 4: turn_32(t, begin, end); break;
    case 8: turn_64(t, begin, end); break;
    default: turn_128(t, begin, end);
    }
}

static void columns(weft_context *context, void *target, int64_t between, const void *source,
                    int64_t apart, int64_t step, int64_t columns, int64_t records, int64_t bytes) {
    turned t = {target, source, columns, records, between, apart, step, bytes};
    context->parallel_for(context, turn_part, &t, (records + TURNED - 1) / TURNED);
}
