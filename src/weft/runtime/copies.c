/* Copies between the host's arrays, in parts that the pool's threads do.
 *
 * One core moves some 10 GB/s, a link to a GPU five times that. This follows `pool.c`.
 */

typedef struct {
    char *target;
    const char *source;
    int64_t bytes;
} copied;

enum { COPIED = 1 << 20 }; /* bytes of a part */

static void copy_part(void *argument, int64_t part, int32_t thread) {
    const copied *c = argument;
    int64_t begin = part * COPIED, count = c->bytes - begin < COPIED ? c->bytes - begin : COPIED;
    (void)thread;
    memcpy(c->target + begin, c->source + begin, (size_t)count);
}

/* An entry: its arguments are what is copied. */
int32_t weft_copy(weft_context *context, char *const *arguments, const int64_t *integers) {
    copied *c = (copied *)arguments;
    (void)integers;
    context->parallel_for(context, copy_part, c, (c->bytes + COPIED - 1) / COPIED);
    return context->error;
}
