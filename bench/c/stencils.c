/* Iterated stencils as OpenMP programs are written: each step a pass over the array, between two
 * buffers. The border keeps its values. Results are in `first` after an odd number of steps. */
#include <stdint.h>
#include <string.h>

static void line_step(const float *restrict x, float *restrict y, int64_t n) {
    y[0] = x[0];
    #pragma omp parallel for simd schedule(static)
    for (int64_t i = 1; i < n - 1; i++) y[i] = 0.333f * (x[i - 1] + x[i] + x[i + 1]);
    y[n - 1] = x[n - 1];
}

static void plate_step(const float *restrict x, float *restrict y, int64_t rows, int64_t n) {
    #pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float *here = x + i * n;
        float *to = y + i * n;
        if (i == 0 || i == rows - 1) {
            memcpy(to, here, n * sizeof(float));
            continue;
        }
        to[0] = here[0];
        #pragma omp simd
        for (int64_t j = 1; j < n - 1; j++)
            to[j] = 0.2f * (here[j] + here[j - n] + here[j + n] + here[j - 1] + here[j + 1]);
        to[n - 1] = here[n - 1];
    }
}

static void solid_step(const float *restrict x, float *restrict y, int64_t planes, int64_t rows,
                       int64_t n) {
    #pragma omp parallel for collapse(2) schedule(static)
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < rows; i++) {
            int64_t plane = rows * n;
            const float *here = x + p * plane + i * n;
            float *to = y + p * plane + i * n;
            if (p == 0 || p == planes - 1 || i == 0 || i == rows - 1) {
                memcpy(to, here, n * sizeof(float));
                continue;
            }
            to[0] = here[0];
            #pragma omp simd
            for (int64_t j = 1; j < n - 1; j++)
                to[j] = 0.125f * (2 * here[j] + here[j - plane] + here[j + plane] + here[j - n]
                                  + here[j + n] + here[j - 1] + here[j + 1]);
            to[n - 1] = here[n - 1];
        }
}

void line(const float *x, float *first, float *second, int64_t n, int64_t steps) {
    for (int64_t s = 0; s < steps; s++) {
        line_step(s == 0 ? x : s % 2 ? first : second, s % 2 ? second : first, n);
    }
}

void plate(const float *x, float *first, float *second, int64_t rows, int64_t n, int64_t steps) {
    for (int64_t s = 0; s < steps; s++) {
        plate_step(s == 0 ? x : s % 2 ? first : second, s % 2 ? second : first, rows, n);
    }
}

void solid(const float *x, float *first, float *second, int64_t planes, int64_t rows, int64_t n,
           int64_t steps) {
    for (int64_t s = 0; s < steps; s++) {
        const float *from = s == 0 ? x : s % 2 ? first : second;
        solid_step(from, s % 2 ? second : first, planes, rows, n);
    }
}
