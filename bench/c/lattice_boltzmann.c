/* LBM, D3Q19: a round pulls each population from where it was and lets those of a cell collide,
 * one vector loop over a row with all 19 populations in registers. Rows are wrapped as rows; only
 * the first and last cell of a row have neighbours elsewhere. */
#include <stdbool.h>
#include <stdint.h>

/* a, the direction e_a as z, y, x, its weight, its opposite */
#define DIRECTIONS(D) \
    D(0, 0, 0, 0, 1 / 3.0f, 0) \
    D(1, -1, 0, 0, 1 / 18.0f, 6) \
    D(2, 0, -1, 0, 1 / 18.0f, 5) \
    D(3, 0, 0, -1, 1 / 18.0f, 4) \
    D(4, 0, 0, 1, 1 / 18.0f, 3) \
    D(5, 0, 1, 0, 1 / 18.0f, 2) \
    D(6, 1, 0, 0, 1 / 18.0f, 1) \
    D(7, -1, -1, 0, 1 / 36.0f, 18) \
    D(8, -1, 0, -1, 1 / 36.0f, 17) \
    D(9, -1, 0, 1, 1 / 36.0f, 16) \
    D(10, -1, 1, 0, 1 / 36.0f, 15) \
    D(11, 0, -1, -1, 1 / 36.0f, 14) \
    D(12, 0, -1, 1, 1 / 36.0f, 13) \
    D(13, 0, 1, -1, 1 / 36.0f, 12) \
    D(14, 0, 1, 1, 1 / 36.0f, 11) \
    D(15, 1, -1, 0, 1 / 36.0f, 10) \
    D(16, 1, 0, -1, 1 / 36.0f, 9) \
    D(17, 1, 0, 1, 1 / 36.0f, 8) \
    D(18, 1, 1, 0, 1 / 36.0f, 7)

static const float relaxation = 1.95f;

/* The populations of cell j after a collision; `from[a] + j` is where population a comes from. */
static inline __attribute__((always_inline)) void collide(
        const float *const *from, float *const *to, const bool *obstacle, const bool *lid,
        int64_t j) {
    float density = 0, uz = 0, uy = 0, ux = 0;
#define LOAD(a, z, y, x, w, o) const float f##a = from[a][j];
    DIRECTIONS(LOAD)
#define ADD(a, z, y, x, w, o) \
    density += f##a; \
    if (z) uz += z * f##a; \
    if (y) uy += y * f##a; \
    if (x) ux += x * f##a;
    DIRECTIONS(ADD)
    const float volume = 1 / density;
    uz = lid[j] ? 0.0f : uz * volume;
    uy = lid[j] ? 0.002f : uy * volume;
    ux = lid[j] ? 0.005f : ux * volume;
    const float energy = 1.5f * (uz * uz + uy * uy + ux * ux);
    const bool solid = obstacle[j];
#define COLLIDE(a, z, y, x, w, o) { \
        const float along = z * uz + y * uy + x * ux; \
        const float equilibrium = w * density * (1 + along * (4.5f * along + 3) - energy); \
        const float moved = (1 - relaxation) * f##a + relaxation * equilibrium; \
        to[a][j] = solid ? f##o : moved; \
    }
    DIRECTIONS(COLLIDE)
}

static inline int64_t wrapped(int64_t i, int64_t n) { return (i + n) % n; }

/* For a row: where each population of its cell 0 comes from, at column `column` of its row. */
static inline void sources(const float *f, const float **from, int64_t z, int64_t y,
                           int64_t column, int64_t depth, int64_t rows, int64_t columns) {
#define SOURCE(a, ez, ey, ex, w, o) \
    from[a] = f + ((a * depth + wrapped(z - ez, depth)) * rows + wrapped(y - ey, rows)) * columns \
            + (column < 0 ? -ex : wrapped(column - ex, columns) - column);
    DIRECTIONS(SOURCE)
}

static void round_(const float *restrict f, float *restrict next, const bool *restrict obstacle,
                   const bool *restrict lid, int64_t depth, int64_t rows, int64_t columns) {
    #pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < depth * rows; row++) {
        const int64_t z = row / rows, y = row % rows;
        const float *from[19];
        float *to[19];
        for (int a = 0; a < 19; a++) to[a] = next + (a * depth * rows + row) * columns;
        const bool *solid = obstacle + row * columns, *driven = lid + row * columns;
        const int64_t ends[2] = {0, columns - 1};
        for (int k = 0; k < (columns > 1 ? 2 : 1); k++) {
            sources(f, from, z, y, ends[k], depth, rows, columns);
            collide(from, to, solid, driven, ends[k]);
        }
        sources(f, from, z, y, -1, depth, rows, columns);
        #pragma omp simd
        for (int64_t j = 1; j < columns - 1; j++) collide(from, to, solid, driven, j);
    }
}

static void first_(const float *restrict f, float *restrict next, const bool *restrict obstacle,
                   const bool *restrict lid, int64_t cells) {
    const float *from[19];
    float *to[19];
    for (int a = 0; a < 19; a++) from[a] = f + a * cells, to[a] = next + a * cells;
    #pragma omp parallel for simd schedule(static)
    for (int64_t j = 0; j < cells; j++) collide(from, to, obstacle, lid, j);
}

static void stream(const float *restrict f, float *restrict next, int64_t depth, int64_t rows,
                   int64_t columns) {
    #pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < depth * rows; row++) {
        const int64_t z = row / rows, y = row % rows;
        const float *from[19];
        const int64_t ends[2] = {0, columns - 1};
        for (int k = 0; k < (columns > 1 ? 2 : 1); k++) {
            sources(f, from, z, y, ends[k], depth, rows, columns);
            for (int a = 0; a < 19; a++)
                next[(a * depth * rows + row) * columns + ends[k]] = from[a][ends[k]];
        }
        sources(f, from, z, y, -1, depth, rows, columns);
        for (int a = 0; a < 19; a++) {
            float *to = next + (a * depth * rows + row) * columns;
            for (int64_t j = 1; j < columns - 1; j++) to[j] = from[a][j];
        }
    }
}

/* The result is in `out`; `scratch` is as large. */
void lattice_boltzmann(const float *f, const bool *obstacle, const bool *lid, float *out,
                       float *scratch, int64_t depth, int64_t rows, int64_t columns,
                       int64_t steps) {
    float *now = steps % 2 ? scratch : out, *next = steps % 2 ? out : scratch;
    first_(f, now, obstacle, lid, depth * rows * columns);
    for (int64_t s = 1; s < steps; s++) {
        round_(now, next, obstacle, lid, depth, rows, columns);
        float *swap = now;
        now = next;
        next = swap;
    }
    stream(now, out, depth, rows, columns);
}
