/* SRAD: a round is one pass that finds the coefficients and one that moves the values; the second
 * also sums what the next round's statistics need. Rows are vector loops, their ends apart. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#pragma omp declare simd notinbranch
__attribute__((const)) float expf(float);
#pragma omp declare simd notinbranch
__attribute__((const)) float logf(float);

static const float strength = 0.5f;

static inline __attribute__((always_inline)) float coefficient(
        float j, float north, float south, float west, float east, float q0) {
    const float n = north - j, s = south - j, w = west - j, e = east - j, inverse = 1 / j;
    const float g = (n * n + s * s + w * w + e * e) * inverse * inverse;
    const float l = (n + s + w + e) * inverse, half = 1 + 0.25f * l;
    const float q = (0.5f * g - l * l / 16) / (half * half);
    const float c = 1 / (1 + (q - q0) / (q0 * (1 + q0)));
    return c < 0 ? 0 : c > 1 ? 1 : c;
}

static inline __attribute__((always_inline)) float moved(
        float j, float north, float south, float west, float east,
        float c, float south_c, float east_c) {
    return j + strength / 4 * (c * (north - j) + south_c * (south - j)
                               + c * (west - j) + east_c * (east - j));
}

static void coefficients(const float *restrict j, float *restrict c, int64_t i, int64_t rows,
                         int64_t columns, float q0) {
    const float *here = j + i * columns, *north = i ? here - columns : here;
    const float *south = i + 1 < rows ? here + columns : here;
    float *out = c + i * columns;
    const int64_t last = columns - 1, second = last ? 1 : 0;
    out[0] = coefficient(here[0], north[0], south[0], here[0], here[second], q0);
    #pragma omp simd
    for (int64_t k = 1; k < last; k++)
        out[k] = coefficient(here[k], north[k], south[k], here[k - 1], here[k + 1], q0);
    if (last) out[last] = coefficient(here[last], north[last], south[last], here[last - 1],
                                      here[last], q0);
}

static void update(const float *restrict j, const float *restrict c, float *restrict next,
                   int64_t i, int64_t rows, int64_t columns) {
    const float *here = j + i * columns, *north = i ? here - columns : here;
    const float *south = i + 1 < rows ? here + columns : here;
    const float *weight = c + i * columns, *below = i + 1 < rows ? weight + columns : weight;
    float *out = next + i * columns;
    const int64_t last = columns - 1, second = last ? 1 : 0;
    out[0] = moved(here[0], north[0], south[0], here[0], here[second], weight[0], below[0],
                   weight[second]);
    #pragma omp simd
    for (int64_t k = 1; k < last; k++)
        out[k] = moved(here[k], north[k], south[k], here[k - 1], here[k + 1], weight[k], below[k],
                       weight[k + 1]);
    if (last) out[last] = moved(here[last], north[last], south[last], here[last - 1], here[last],
                                weight[last], below[last], weight[last]);
}

/* Sums of a row's values less 1, and of their squares. */
static void sums(const float *restrict row, int64_t columns, double *sum, double *squares) {
    float a = 0, b = 0;
    #pragma omp simd reduction(+ : a, b)
    for (int64_t k = 0; k < columns; k++) {
        const float value = row[k] - 1;
        a += value;
        b += value * value;
    }
    *sum += a;
    *squares += b;
}

static float speckle(double sum, double squares, int64_t count) {
    const double offset = sum / count, mean = 1 + offset;
    return (squares / count - offset * offset) / (mean * mean);
}

/* `next` and `c` are scratch, as large as the image; the result is in `j`. */
void srad(const float *image, float *j, float *next, float *c, int64_t rows, int64_t columns,
          int64_t rounds) {
    double sum = 0, squares = 0;
    float *result = j;
    #pragma omp parallel for schedule(static) reduction(+ : sum, squares)
    for (int64_t i = 0; i < rows; i++) {
        #pragma omp simd
        for (int64_t k = i * columns; k < (i + 1) * columns; k++) j[k] = expf(image[k] / 255);
        sums(j + i * columns, columns, &sum, &squares);
    }
    for (int64_t round = 0; round < rounds; round++) {
        const float q0 = speckle(sum, squares, rows * columns);
        sum = squares = 0;
        #pragma omp parallel
        {
            #pragma omp for schedule(static)
            for (int64_t i = 0; i < rows; i++) coefficients(j, c, i, rows, columns, q0);
            #pragma omp for schedule(static) reduction(+ : sum, squares)
            for (int64_t i = 0; i < rows; i++) {
                update(j, c, next, i, rows, columns);
                sums(next + i * columns, columns, &sum, &squares);
            }
        }
        float *swap = j;
        j = next;
        next = swap;
    }
    #pragma omp parallel for simd schedule(static)
    for (int64_t k = 0; k < rows * columns; k++) result[k] = 255 * logf(j[k]);
}

/* Many images, each on its own; what a thread works on stays in its cache. */
void srad_batch(const float *images, float *out, int64_t count, int64_t rows, int64_t columns,
                int64_t rounds) {
    const int64_t cells = rows * columns;
    #pragma omp parallel
    {
        float *j = malloc(3 * cells * sizeof(float)), *next = j + cells, *c = next + cells;
        float *mine = j;
        #pragma omp for schedule(static)
        for (int64_t image = 0; image < count; image++) {
            #pragma omp simd
            for (int64_t k = 0; k < cells; k++) j[k] = expf(images[image * cells + k] / 255);
            for (int64_t round = 0; round < rounds; round++) {
                double sum = 0, squares = 0;
                sums(j, cells, &sum, &squares);
                const float q0 = speckle(sum, squares, cells);
                for (int64_t i = 0; i < rows; i++) coefficients(j, c, i, rows, columns, q0);
                for (int64_t i = 0; i < rows; i++) update(j, c, next, i, rows, columns);
                float *swap = j;
                j = next;
                next = swap;
            }
            #pragma omp simd
            for (int64_t k = 0; k < cells; k++) out[image * cells + k] = 255 * logf(j[k]);
        }
        free(mine);
    }
}
