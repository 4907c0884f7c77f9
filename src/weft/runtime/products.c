/* Products of matrices by a BLAS library: as it does them, and Gram matrices in parts.
 *
 * A Gram matrix is a matrix times its own transpose. Of the result, which is symmetric, one
 * triangle is computed, in parts, and each part's mirror image is written with it. A part is one
 * of the library's calls, by one thread of the pool: the library's own threads stay awake for long
 * after a call, on processors that what follows needs.
 *
 * This follows `pool.c`, whose `weft_call` calls these entries as it does a segment's.
 */

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, LOWER = 122 };

/* What Python fills in. Steps are elements from row to row; of a factor that lies by columns, from
 * column to column. */
typedef struct {
    void *routine;                 /* gemm, syrk or syr2k */
    int64_t single;                /* precision */
    int64_t factors;               /* 2; of syrk 1 */
    int64_t triangle;              /* LOWER or UPPER; 0: all of the target is written, by gemm */
    int64_t left_lies, right_lies; /* PLAIN or TRANSPOSED */
    int64_t rows, columns, inner;
    int64_t left_step, right_step, step;
    double alpha, beta;
    char *left, *right, *target;
} product;

typedef struct {
    void *multiply, *square; /* gemm and syrk */
    int64_t single;          /* precision */
    int64_t lies;            /* the left factor: PLAIN or TRANSPOSED */
    int64_t rows, inner;
    int64_t factor_step, step;
    int64_t parts;           /* of both axes */
    char *factor, *target;
} gram;

/* The tiles in which mirror images are made, and what the library's own tiles divide. */
enum { TILE = 16, ALIGNED = 16 };

/* A library of 32-bit integers reads the low halves of these. */
#define DEFINE_PARTS(real)                                                                        \
    typedef void multiply_##real(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, real,      \
                                 const void *, int64_t, const void *, int64_t, real, void *,      \
                                 int64_t);                                                        \
    typedef void square_##real(int64_t, int64_t, int64_t, int64_t, int64_t, real, const void *,   \
                               int64_t, real, void *, int64_t);                                   \
    typedef void square_two_##real(int64_t, int64_t, int64_t, int64_t, int64_t, real,             \
                                   const void *, int64_t, const void *, int64_t, real, void *,    \
                                   int64_t);                                                      \
                                                                                                  \
    static void call_##real(const product *p) {                                                   \
        if (!p->triangle)                                                                         \
            ((multiply_##real *)p->routine)(                                                      \
                ROW_MAJOR, p->left_lies, p->right_lies, p->rows, p->columns, p->inner,            \
                (real)p->alpha, p->left, p->left_step, p->right, p->right_step, (real)p->beta,    \
                p->target, p->step);                                                              \
        else if (p->factors == 1)                                                                 \
            ((square_##real *)p->routine)(ROW_MAJOR, p->triangle, p->left_lies, p->rows,          \
                                          p->inner, (real)p->alpha, p->left, p->left_step,        \
                                          (real)p->beta, p->target, p->step);                     \
        else                                                                                      \
            ((square_two_##real *)p->routine)(                                                    \
                ROW_MAJOR, p->triangle, p->left_lies, p->rows, p->inner, (real)p->alpha, p->left, \
                p->left_step, p->right, p->right_step, (real)p->beta, p->target, p->step);        \
    }                                                                                             \
                                                                                                  \
    static void compute_##real(const gram *g, int64_t row, int64_t row_end, int64_t column,       \
                               int64_t column_end) {                                              \
        real *target = (real *)g->target, *here = target + row * g->step + column;                \
        const int64_t apart = g->lies == PLAIN ? g->factor_step : 1;                              \
        const real *left = (const real *)g->factor + row * apart;                                 \
        const real *right = (const real *)g->factor + column * apart;                             \
        if (row == column)                                                                        \
            ((square_##real *)g->square)(ROW_MAJOR, LOWER, g->lies, row_end - row, g->inner, 1,   \
                                         left, g->factor_step, 0, here, g->step);                 \
        else                                                                                      \
            ((multiply_##real *)g->multiply)(                                                     \
                ROW_MAJOR, g->lies, g->lies == PLAIN ? TRANSPOSED : PLAIN, row_end - row,         \
                column_end - column, g->inner, 1, left, g->factor_step, right, g->factor_step, 0, \
                here, g->step);                                                                   \
        for (int64_t r = row; r < row_end; r += TILE)                                             \
            for (int64_t c = column; c < column_end && c < r + TILE; c += TILE)                   \
                for (int64_t j = c; j < c + TILE && j < column_end; j++)                          \
                    for (int64_t i = r > j ? r : j; i < r + TILE && i < row_end; i++)             \
                        target[j * g->step + i] = target[i * g->step + j];                        \
    }

DEFINE_PARTS(float)
DEFINE_PARTS(double)

/* A library is not to be left by a jump: see the watched memory. */
static sigjmp_buf *unguarded(void) {
    sigjmp_buf *outer = guard;
    guard = NULL;
    return outer;
}

/* An entry: its arguments are a product. */
int32_t weft_product(weft_context *context, char *const *arguments, const int64_t *integers) {
    const product *p = (const product *)arguments;
    (void)context, (void)integers;
    sigjmp_buf *outer = unguarded();
    (p->single ? call_float : call_double)(p);
    guard = outer;
    return OK;
}

static int64_t begin_of(const gram *g, int64_t part) {
    return part == g->parts ? g->rows : g->rows * part / g->parts / ALIGNED * ALIGNED;
}

/* The blocks beside the diagonal first: they are the greater ones. */
static void compute_part(void *argument, int64_t part, int32_t thread) {
    const gram *g = argument;
    int64_t beside = g->parts * (g->parts - 1) / 2, low = 1;
    (void)thread;
    if (part < beside) {
        while (part >= low) part -= low++;
    } else {
        low = part -= beside;
    }
    int64_t row = begin_of(g, low), row_end = begin_of(g, low + 1);
    int64_t column = begin_of(g, part), column_end = begin_of(g, part + 1);
    if (row == row_end || column == column_end) return;
    sigjmp_buf *outer = unguarded();
    (g->single ? compute_float : compute_double)(g, row, row_end, column, column_end);
    guard = outer;
}

/* An entry: its arguments are a gram. */
int32_t weft_gram(weft_context *context, char *const *arguments, const int64_t *integers) {
    gram *g = (gram *)arguments;
    (void)integers;
    context->parallel_in_order(context, compute_part, g, g->parts * (g->parts + 1) / 2);
    return context->error;
}
