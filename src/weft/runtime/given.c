/* Calls whose arguments are Python's objects, looked at here.
 *
 * Whether arguments are like those of the call before is in a few fields of each. To ask for them
 * in Python takes some microseconds, and ten times that where a call's data have driven the
 * interpreter's own from the caches. The fields lie where CPython and NumPy's C interface have
 * them; `address.py` tries whether that is so.
 *
 * This follows `pool.c`, of whose `weft_call_all` it fills in the addresses.
 */

#include <math.h>

typedef struct {
    int64_t references;
    const void *type;
} object;

typedef struct {
    object head;
    char *data;
    int32_t rank;
    const int64_t *extents, *strides;
    const object *base;
    const void *dtype;
    int32_t flags;
} array;

enum { UNLIKE = -1 }; /* the arguments are others: nothing was done */
enum { SAME, REAL, ARRAY };
enum { ROWS_THAT_MAY_BE_WRITTEN = 0x1 | 0x100 | 0x400 }; /* NumPy's C_CONTIGUOUS, ALIGNED, WRITEABLE */

/* Python fills in these: what an argument has to be, */
typedef struct {
    int64_t kind;
    const void *object;     /* SAME: itself; otherwise its type */
    int64_t is_single;      /* REAL: a float32 */
    int64_t single;         /* REAL: 1 where a float32 is made of it */
    int64_t word;           /* REAL: where, in the sequence */
    const void *dtype;      /* ARRAY */
    int64_t rank, bytes;
    const int64_t *extents;
    int64_t written;
} expected;

/* a word of the sequence that is an address, so many bytes on from where an argument begins, */
typedef struct {
    int64_t word, argument, offset;
} place;

static double real(const expected *like, const object *given) {
    return like->is_single ? *(const float *)(given + 1) : *(const double *)(given + 1);
}

/* A factor of a product: BLAS takes one of 0 for what makes zeros even of NaN. */
static int put_factor(const expected *like, const object *given, int64_t *word) {
    double value = real(like, given);
    if (like->single == 1) value = (float)value;
    memcpy(word, &value, sizeof value);
    return value != 0;
}

static int put_real(const expected *like, const object *given, int64_t *words) {
    double value = real(like, given);
    float rounded = (float)value;
    if (like->single != 1) {
        memcpy(words + like->word, &value, sizeof value);
    } else {
        if (isinf(rounded) && !isinf(value)) return 0; /* NumPy warns */
        memcpy(words + like->word, &rounded, sizeof rounded);
    }
    return 1;
}

/* Whether an array owns its memory, or is a view of one that does, or of the pool's; not a file's. */
static int is_memory(const array *given, const void *memory) {
    const object *base = given->base;
    if (base && base->type == given->head.type) base = ((const array *)base)->base;
    return !base || ((const object *)base->type)->type == memory;
}

static int is_array_like(const expected *like, const array *given, const void *memory) {
    if (given->dtype != like->dtype || given->rank != like->rank) return 0;
    if ((given->flags & ROWS_THAT_MAY_BE_WRITTEN) != ROWS_THAT_MAY_BE_WRITTEN) return 0;
    if (!is_memory(given, memory)) return 0;
    for (int64_t k = 0; k < like->rank; k++)
        if (given->extents[k] != like->extents[k]) return 0;
    return 1;
}

/* a word that is a factor, and the argument that is, */
typedef struct {
    int64_t word, argument;
} factor;

/* and all of them. */
typedef struct {
    const expected *like;
    int64_t count;
    const place *places;
    int64_t place_count;
    const factor *factors;
    int64_t factor_count;
    int (*threads)(void); /* how many a library takes, or NULL, */
    int64_t most;         /* and may */
    const void *memory;   /* the type of the types of ctypes' arrays, as the pool's memory is one */
} arguments;

int32_t weft_call_given(const arguments *known, const object *const *given, sequence *steps) {
    const expected *like = known->like;
    const int64_t count = known->count;
    int64_t *words = (int64_t *)steps;
    if (known->threads && known->threads() > known->most) return UNLIKE;
    for (int64_t k = 0; k < count; k++) {
        if ((like[k].kind == SAME ? (const void *)given[k] : given[k]->type) != like[k].object)
            return UNLIKE;
        if (like[k].kind == REAL && !put_real(like + k, given[k], words)) return UNLIKE;
        if (like[k].kind == ARRAY &&
            !is_array_like(like + k, (const array *)given[k], known->memory))
            return UNLIKE;
    }
    for (int64_t k = 0; k < count; k++) {
        if (like[k].kind != ARRAY || !like[k].written) continue;
        const char *begin = ((const array *)given[k])->data, *end = begin + like[k].bytes;
        for (int64_t j = 0; j < count; j++) {
            if (like[j].kind != ARRAY || j == k) continue;
            const char *other = ((const array *)given[j])->data;
            if (other < end && begin < other + like[j].bytes) return UNLIKE;
        }
    }
    for (int64_t k = 0; k < known->factor_count; k++) {
        const int64_t n = known->factors[k].argument;
        if (!put_factor(like + n, given[n], words + known->factors[k].word)) return UNLIKE;
    }
    for (int64_t k = 0; k < known->place_count; k++) {
        const place *p = known->places + k;
        char *begin = like[p->argument].kind == ARRAY ? ((const array *)given[p->argument])->data
                                                      : (char *)(words + like[p->argument].word);
        words[p->word] = (int64_t)(begin + p->offset);
    }
    return weft_call_all(steps);
}
