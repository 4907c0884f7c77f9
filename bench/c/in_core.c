/* The in-core programs, as one would write them by hand for a machine with vector units:
 * threads over chunks, loops that the compiler vectorises, libmvec for math functions,
 * every array read and written as few times as the caches allow. */
#include <math.h>
#include <string.h>

#include "parallel.h"

#pragma omp declare simd notinbranch
__attribute__((const)) float expf(float);
#pragma omp declare simd notinbranch
__attribute__((const)) float logf(float);
#pragma omp declare simd notinbranch
__attribute__((const)) float erff(float);

enum { MAXIMUM_THREADS = 64 };

/* ------------------------------------------------------------ triad: out = a + 2.5 b */

typedef struct { const float *restrict a, *restrict b; float *restrict out; } triad_arguments;

static void triad_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const triad_arguments g = *(const triad_arguments *)given;
    for (int64_t i = begin; i < end; i++) g.out[i] = g.a[i] + 2.5f * g.b[i];
}

void triad(const float *a, const float *b, float *out, int64_t n) {
    triad_arguments given = {a, b, out};
    parallel(triad_chunk, &given, n, 1 << 17);
}

/* ------------------------------------------------------------ sum((x - y)^2) */

typedef struct { const float *restrict x, *restrict y; double *partial; } distance_arguments;

static void distance_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const distance_arguments g = *(const distance_arguments *)given;
    double total = 0;
    for (int64_t block = begin; block < end; block += 4096) {
        int64_t stop = block + 4096 < end ? block + 4096 : end;
        float sum = 0;
        #pragma omp simd reduction(+ : sum)
        for (int64_t i = block; i < stop; i++) sum += (g.x[i] - g.y[i]) * (g.x[i] - g.y[i]);
        total += sum;
    }
    g.partial[thread * 8] += total;
}

double distance(const float *x, const float *y, int64_t n) {
    double partial[MAXIMUM_THREADS * 8] = {0}, total = 0;
    distance_arguments given = {x, y, partial};
    parallel(distance_chunk, &given, n, 1 << 17);
    for (int i = 0; i < pool.threads; i++) total += partial[i * 8];
    return total;
}

/* ------------------------------------------------------------ softmax of rows */

typedef struct { const float *restrict x; float *restrict out; int64_t columns; } rows_arguments;

static void softmax_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const rows_arguments g = *(const rows_arguments *)given;
    for (int64_t row = begin; row < end; row++) {
        const float *restrict x = g.x + row * g.columns;
        float *restrict out = g.out + row * g.columns;
        float largest = -INFINITY, sum = 0;
        #pragma omp simd reduction(max : largest)
        for (int64_t j = 0; j < g.columns; j++) largest = x[j] > largest ? x[j] : largest;
        #pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < g.columns; j++) {
            float value = expf(x[j] - largest);
            out[j] = value;
            sum += value;
        }
        float scale = 1 / sum;
        for (int64_t j = 0; j < g.columns; j++) out[j] *= scale;
    }
}

void softmax(const float *x, float *out, int64_t rows, int64_t columns) {
    rows_arguments given = {x, out, columns};
    parallel(softmax_chunk, &given, rows, 16);
}

/* ------------------------------------------------------------ (x - mean) / std of columns
 * One pass for both statistics: blocks of rows that stay in L2, merged as Chan et al. do. */

enum { BLOCK_ROWS = 128 };

typedef struct {
    const float *restrict x;
    float *restrict out;
    int64_t rows, columns;
    double *mean, *square; /* for each thread */
    double *count;
    float *shift, *scale;
} normalise_arguments;

static void moments_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const normalise_arguments g = *(const normalise_arguments *)given;
    int64_t n = g.columns;
    double *restrict mean = g.mean + thread * n, *restrict square = g.square + thread * n;
    float *restrict sum = malloc(2 * n * sizeof(float)), *restrict deviation = sum + n;
    memset(sum, 0, 2 * n * sizeof(float));
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) { /* four rows for each pass over the sums */
        const float *restrict x = g.x + i * n;
        for (int64_t j = 0; j < n; j++) sum[j] += (x[j] + x[j + n]) + (x[j + 2 * n] + x[j + 3 * n]);
    }
    for (; i < end; i++)
        for (int64_t j = 0; j < n; j++) sum[j] += g.x[i * n + j];
    for (int64_t j = 0; j < n; j++) sum[j] /= (float)(end - begin);
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; j < n; j++) {
            float d = g.x[i * n + j] - sum[j];
            deviation[j] += d * d;
        }
    double before = g.count[thread * 8], added = (double)(end - begin), after = before + added;
    for (int64_t j = 0; j < n; j++) {
        double d = sum[j] - mean[j];
        mean[j] += d * added / after;
        square[j] += deviation[j] + d * d * before * added / after;
    }
    g.count[thread * 8] = after;
    free(sum);
}

static void normalise_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const normalise_arguments g = *(const normalise_arguments *)given;
    const float *restrict shift = g.shift, *restrict scale = g.scale;
    for (int64_t i = begin; i < end; i++) {
        const float *restrict x = g.x + i * g.columns;
        float *restrict out = g.out + i * g.columns;
        for (int64_t j = 0; j < g.columns; j++) out[j] = (x[j] - shift[j]) * scale[j];
    }
}

void normalise(const float *x, float *out, int64_t rows, int64_t columns) {
    int64_t all = pool.threads * columns;
    double count[MAXIMUM_THREADS * 8] = {0};
    double *moments = calloc(2 * all, sizeof(double));
    float *factors = malloc(2 * columns * sizeof(float));
    normalise_arguments g = {x, out, rows, columns, moments, moments + all, count, factors,
                             factors + columns};
    parallel(moments_chunk, &g, rows, BLOCK_ROWS);
    for (int64_t j = 0; j < columns; j++) {
        double mean = 0, square = 0, before = 0;
        for (int t = 0; t < pool.threads; t++) {
            double added = count[t * 8], after = before + added;
            if (added == 0) continue;
            double d = g.mean[t * columns + j] - mean;
            mean += d * added / after;
            square += g.square[t * columns + j] + d * d * before * added / after;
            before = after;
        }
        factors[j] = (float)mean;
        factors[columns + j] = (float)(1 / sqrt(square / (double)rows));
    }
    parallel(normalise_chunk, &g, rows, BLOCK_ROWS);
    free(moments);
    free(factors);
}

/* ------------------------------------------------------------ Black-Scholes calls */

typedef struct {
    const float *restrict spot, *restrict strike, *restrict time;
    float *restrict out;
} price_arguments;

static void price_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const price_arguments g = *(const price_arguments *)given;
    const float rate = 0.02f, volatility = 0.3f, half = 0.70710678f;
    #pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        float s = g.spot[i], k = g.strike[i], t = g.time[i];
        float spread = volatility * sqrtf(t);
        float d1 = (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / spread;
        float d2 = d1 - spread;
        float n1 = 0.5f + 0.5f * erff(d1 * half), n2 = 0.5f + 0.5f * erff(d2 * half);
        g.out[i] = s * n1 - k * expf(-rate * t) * n2;
    }
}

void black_scholes(const float *spot, const float *strike, const float *time, float *out, int64_t n) {
    price_arguments given = {spot, strike, time, out};
    parallel(price_chunk, &given, n, 1 << 15);
}

/* ------------------------------------------------------------ sqrt(x*x + y*y).mean(axis=0) */

typedef struct {
    const float *restrict x, *restrict y;
    double *partial;
    int64_t columns;
} magnitude_arguments;

static void magnitude_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const magnitude_arguments g = *(const magnitude_arguments *)given;
    int64_t n = g.columns;
    float *restrict sum = calloc(n, sizeof(float));
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) { /* four rows for each pass over the sums */
        const float *restrict x = g.x + i * n, *restrict y = g.y + i * n;
        #pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float m0 = sqrtf(x[j] * x[j] + y[j] * y[j]);
            float m1 = sqrtf(x[j + n] * x[j + n] + y[j + n] * y[j + n]);
            float m2 = sqrtf(x[j + 2 * n] * x[j + 2 * n] + y[j + 2 * n] * y[j + 2 * n]);
            float m3 = sqrtf(x[j + 3 * n] * x[j + 3 * n] + y[j + 3 * n] * y[j + 3 * n]);
            sum[j] += (m0 + m1) + (m2 + m3);
        }
    }
    for (; i < end; i++)
        for (int64_t j = 0; j < n; j++)
            sum[j] += sqrtf(g.x[i * n + j] * g.x[i * n + j] + g.y[i * n + j] * g.y[i * n + j]);
    double *restrict partial = g.partial + thread * n;
    for (int64_t j = 0; j < n; j++) partial[j] += sum[j];
    free(sum);
}

void magnitude(const float *x, const float *y, float *out, int64_t rows, int64_t columns) {
    double *partial = calloc(pool.threads * columns, sizeof(double));
    magnitude_arguments given = {x, y, partial, columns};
    parallel(magnitude_chunk, &given, rows, BLOCK_ROWS);
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0;
        for (int t = 0; t < pool.threads; t++) sum += partial[t * columns + j];
        out[j] = (float)(sum / (double)rows);
    }
    free(partial);
}

/* ------------------------------------------------------------ cumulative sum
 * A block is summed (and so brought into L2), waits for the sum before it, and is scanned. */

enum { SCAN_BLOCK = 1 << 15 };

typedef struct {
    const double *restrict x;
    double *restrict out;
    _Atomic int64_t *ready;
    double *prefix;
} cumulative_arguments;

static void cumulative_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const cumulative_arguments g = *(const cumulative_arguments *)given;
    const double *restrict x = g.x;
    double *restrict out = g.out;
    int64_t block = begin / SCAN_BLOCK;
    double total = 0;
    #pragma omp simd reduction(+ : total)
    for (int64_t i = begin; i < end; i++) total += x[i];
    while (atomic_load_explicit(g.ready, memory_order_acquire) < block) __builtin_ia32_pause();
    double sum = g.prefix[0];
    g.prefix[0] = sum + total;
    atomic_store_explicit(g.ready, block + 1, memory_order_release);
    #pragma omp simd reduction(inscan, + : sum)
    for (int64_t i = begin; i < end; i++) {
        sum += x[i];
        #pragma omp scan inclusive(sum)
        out[i] = sum;
    }
}

void cumulative(const double *x, double *out, int64_t n) {
    _Atomic int64_t ready = 0;
    double prefix = 0;
    cumulative_arguments given = {x, out, &ready, &prefix};
    parallel(cumulative_chunk, &given, n, SCAN_BLOCK);
}

/* ------------------------------------------------------------ Mandelbrot: a vector of points at once */

enum { LANES = 16 };

typedef struct { int32_t *out; int64_t rows, columns; } mandelbrot_arguments;

static void mandelbrot_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const mandelbrot_arguments g = *(const mandelbrot_arguments *)given;
    for (int64_t i = begin; i < end; i++) {
        double ci = ((double)i / (double)g.rows - 0.5) * 3.067;
        for (int64_t j = 0; j < g.columns; j += LANES) {
            double cr[LANES], zr[LANES], zi[LANES];
            int64_t count[LANES];
            for (int l = 0; l < LANES; l++) {
                cr[l] = -0.7 + ((double)(j + l) / (double)g.columns - 0.5) * 3.067;
                zr[l] = cr[l];
                zi[l] = ci;
                count[l] = 0;
            }
            for (int step = 0; step < 100; step++) {
                int64_t active = 0;
                #pragma omp simd reduction(+ : active)
                for (int l = 0; l < LANES; l++) {
                    double r2 = zr[l] * zr[l], i2 = zi[l] * zi[l];
                    int64_t more = r2 + i2 < 256.0;
                    double next = 2 * zr[l] * zi[l] + ci;
                    zr[l] = more ? r2 - i2 + cr[l] : zr[l];
                    zi[l] = more ? next : zi[l];
                    count[l] += more;
                    active += more;
                }
                if (!active) break;
            }
            for (int l = 0; l < LANES && j + l < g.columns; l++)
                g.out[i * g.columns + j + l] = (int32_t)count[l];
        }
    }
}

void mandelbrot(int32_t *out, int64_t rows, int64_t columns) {
    mandelbrot_arguments given = {out, rows, columns};
    parallel(mandelbrot_chunk, &given, rows, 4);
}

/* ------------------------------------------------------------ one step of a 5-point stencil */

typedef struct { const float *restrict x; float *restrict out; int64_t rows, columns; } grid_arguments;

static void stencil_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const grid_arguments g = *(const grid_arguments *)given;
    int64_t n = g.columns;
    for (int64_t i = begin; i < end; i++) {
        const float *restrict x = g.x + i * n;
        float *restrict out = g.out + i * n;
        if (i == 0 || i == g.rows - 1) {
            memcpy(out, x, n * sizeof(float));
            continue;
        }
        out[0] = x[0];
        #pragma omp simd
        for (int64_t j = 1; j < n - 1; j++)
            out[j] = 0.2f * (x[j] + x[j - n] + x[j + n] + x[j - 1] + x[j + 1]);
        out[n - 1] = x[n - 1];
    }
}

void stencil(const float *x, float *out, int64_t rows, int64_t columns) {
    grid_arguments given = {x, out, rows, columns};
    parallel(stencil_chunk, &given, rows, 32);
}

/* ------------------------------------------------------------ relu(a x + b) */

typedef struct {
    const float *restrict a, *restrict x, *restrict b;
    float *restrict out;
    int64_t columns;
} layer_arguments;

static inline float rectify(float value) { return value > 0 ? value : 0; }

static void layer_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const layer_arguments g = *(const layer_arguments *)given;
    int64_t n = g.columns, i = begin;
    for (; i + 4 <= end; i += 4) { /* four rows share what is read of x */
        const float *restrict a = g.a + i * n;
        float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        #pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (int64_t j = 0; j < n; j++) {
            s0 += a[j] * g.x[j];
            s1 += a[j + n] * g.x[j];
            s2 += a[j + 2 * n] * g.x[j];
            s3 += a[j + 3 * n] * g.x[j];
        }
        float sums[4] = {s0, s1, s2, s3};
        for (int k = 0; k < 4; k++) g.out[i + k] = rectify(sums[k] + g.b[i + k]);
    }
    for (; i < end; i++) {
        float sum = 0;
        #pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) sum += g.a[i * n + j] * g.x[j];
        g.out[i] = rectify(sum + g.b[i]);
    }
}

void layer(const float *a, const float *x, const float *b, float *out, int64_t rows, int64_t columns) {
    layer_arguments given = {a, x, b, out, columns};
    parallel(layer_chunk, &given, rows, 16);
}

/* ------------------------------------------------------------ histogram of [0, 1) in 1000 bins
 * Four counters for each bin, so that equal neighbours do not wait for each other. */

enum { BINS = 1000 };

typedef struct { const float *restrict x; int32_t (*count)[4][1024]; } histogram_arguments;

static void histogram_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const histogram_arguments g = *(const histogram_arguments *)given;
    int32_t (*count)[1024] = g.count[thread];
    int64_t i = begin;
    for (; i + 4 <= end; i += 4)
        for (int k = 0; k < 4; k++) count[k][(int32_t)(g.x[i + k] * 1000.0f)]++;
    for (; i < end; i++) count[0][(int32_t)(g.x[i] * 1000.0f)]++;
}

void histogram(const float *x, int64_t *out, int64_t n) {
    int32_t (*count)[4][1024] = calloc(pool.threads, sizeof *count);
    histogram_arguments given = {x, count};
    parallel(histogram_chunk, &given, n, 1 << 17);
    memset(out, 0, BINS * sizeof(int64_t));
    for (int t = 0; t < pool.threads; t++)
        for (int k = 0; k < 4; k++)
            for (int bin = 0; bin < BINS; bin++) out[bin] += count[t][k][bin];
    free(count);
}

/* ------------------------------------------------------------ arg-max of rows */

typedef struct { const float *restrict x; int64_t *restrict out; int64_t columns; } argmax_arguments;

static void argmax_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const argmax_arguments g = *(const argmax_arguments *)given;
    for (int64_t i = begin; i < end; i++) {
        const float *restrict x = g.x + i * g.columns;
        float largest = -INFINITY;
        #pragma omp simd reduction(max : largest)
        for (int64_t j = 0; j < g.columns; j++) largest = x[j] > largest ? x[j] : largest;
        int64_t j = 0;
        for (int found = 0; j + 64 <= g.columns; j += 64) {
            #pragma omp simd reduction(| : found)
            for (int64_t k = 0; k < 64; k++) found |= x[j + k] == largest;
            if (found) break;
        }
        while (x[j] != largest) j++;
        g.out[i] = j;
    }
}

void argmax(const float *x, int64_t *out, int64_t rows, int64_t columns) {
    argmax_arguments given = {x, out, columns};
    parallel(argmax_chunk, &given, rows, 16);
}

/* ------------------------------------------------------------ physical limits */

static void copy_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const rows_arguments g = *(const rows_arguments *)given;
    for (int64_t i = begin; i < end; i++) g.out[i] = g.x[i];
}

void copy(const float *x, float *out, int64_t n) {
    rows_arguments given = {x, out, 0};
    parallel(copy_chunk, &given, n, 1 << 17);
}

typedef struct { const float *restrict x; double *partial; } total_arguments;

static void total_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    const total_arguments g = *(const total_arguments *)given;
    float sum = 0;
    #pragma omp simd reduction(+ : sum)
    for (int64_t i = begin; i < end; i++) sum += g.x[i];
    g.partial[thread * 8] += sum;
}

double total(const float *x, int64_t n) {
    double partial[MAXIMUM_THREADS * 8] = {0}, sum = 0;
    total_arguments given = {x, partial};
    parallel(total_chunk, &given, n, 1 << 17);
    for (int i = 0; i < pool.threads; i++) sum += partial[i * 8];
    return sum;
}
