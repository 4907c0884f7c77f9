/* Boxes of a stage side by side: each is computed by one thread, in memory that stays in its
 * cache, and what it gives to files is written from there at once.
 *
 * This follows `pool.c`, whose `weft_call` calls `weft_boxes` as it does a segment's entry.
 */

/* What a box gives to a file. */
typedef struct {
    int64_t buffer;     /* which of the entry's buffers it is a part of */
    int64_t descriptor;
} target;

/* `count` bytes of a buffer, and where they go. */
typedef struct {
    int64_t first, count, offset;
} part;

/* What Python fills in; tables have a row for each box. */
typedef struct {
    weft_entry *entry;
    int64_t boxes, buffers, integers, targets;
    const int64_t *inside;    /* for each buffer: whether it is in the thread's own memory */
    const int64_t *addresses; /* of buffers, or where they begin in that memory */
    const int64_t *numbers;   /* the integers of the entry */
    const target *files;
    const part *parts;        /* a row has one for each target */
    char *memory;
    int64_t share;            /* bytes of it for each thread */
    struct {
        _Atomic int64_t boxes, nanoseconds; /* done, and how long threads wrote, all together */
    } *told;
} stage;

typedef struct {
    weft_context *context;
    stage *of;
} stage_call;

enum { WRITE_FAILED = 3, PIECE = 1 << 20 };

static int ended(weft_context *outer, const weft_context *inner, int32_t status) {
    if (inner->error || status != OK) {
        memcpy(outer->detail, inner->detail, sizeof outer->detail);
        *(volatile int32_t *)&outer->error = inner->error ? inner->error : status;
    }
    /* A box that was left early is not written. */
    if (stopped(outer)) atomic_store(&((call *)outer)->skipped, 1);
    return stopped(outer);
}

static void write_part(weft_context *context, const part *what, const char *buffer,
                       int64_t descriptor, int64_t number) {
    const char *from = buffer + what->first;
    int64_t left = what->count, offset = what->offset;
    while (left > 0) { /* not all at once: other threads write to the file too */
        size_t count = left < PIECE ? (size_t)left : PIECE;
        ssize_t written = pwrite((int)descriptor, from, count, offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            context->detail[0] = written < 0 ? errno : EIO;
            context->detail[1] = number;
            *(volatile int32_t *)&context->error = WRITE_FAILED;
            return;
        }
        from += written, offset += written, left -= written;
    }
}

static void compute_and_write(void *argument, int64_t box, int32_t thread) {
    weft_context *outer = ((stage_call *)argument)->context;
    stage *of = ((stage_call *)argument)->of;
    char *buffers[of->buffers], *own = of->memory + thread * of->share;
    for (int64_t i = 0; i < of->buffers; i++) {
        int64_t address = of->addresses[box * of->buffers + i];
        buffers[i] = of->inside[i] ? own + address : (char *)(intptr_t)address;
    }
    call mine = {.context = *outer};
    mine.context.threads = 1;
    mine.context.error = 0;
    int32_t index = inside_tile;
    inside_tile = 1; /* the entry's tiles run here, as those of the one thread that it has */
    int32_t status = of->entry(&mine.context, buffers, of->numbers + box * of->integers);
    inside_tile = index;
    if (ended(outer, &mine.context, status)) return;
    int64_t start = nanoseconds();
    for (int64_t i = 0; i < of->targets && !stopped(outer); i++)
        write_part(outer, &of->parts[box * of->targets + i], buffers[of->files[i].buffer],
                   of->files[i].descriptor, i);
    atomic_fetch_add(&of->told->nanoseconds, nanoseconds() - start);
    atomic_fetch_add(&of->told->boxes, 1);
    if (stopped(outer)) atomic_store(&((call *)outer)->skipped, 1);
}

/* An entry: its arguments are a stage. Boxes begin in order, so that files grow in order. */
int32_t weft_boxes(weft_context *context, char *const *arguments, const int64_t *integers) {
    (void)integers;
    stage_call mine = {context, (stage *)arguments};
    context->parallel_in_order(context, compute_and_write, &mine, mine.of->boxes);
    return context->error;
}
