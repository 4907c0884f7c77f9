/* LUD, blocked: a block of the diagonal, those below and beside it, then the rest, where a row of a
 * product of blocks stays in registers. */
#include <stdint.h>
#include <string.h>

static inline void factor(float *a, int64_t n, int64_t size) {
    for (int64_t k = 0; k < size; k++)
        for (int64_t i = k + 1; i < size; i++) {
            float scale = a[i * n + k] /= a[k * n + k];
            #pragma omp simd
            for (int64_t j = k + 1; j < size; j++) a[i * n + j] -= scale * a[k * n + j];
        }
}

static inline void beside(const float *diagonal, float *restrict x, int64_t n, int64_t size) {
    for (int64_t i = 1; i < size; i++)
        for (int64_t k = 0; k < i; k++) {
            float scale = diagonal[i * n + k];
            #pragma omp simd
            for (int64_t j = 0; j < size; j++) x[i * n + j] -= scale * x[k * n + j];
        }
}

static inline void below(const float *restrict diagonal, float *x, int64_t n, int64_t size) {
    for (int64_t i = 0; i < size; i++)
        for (int64_t k = 0; k < size; k++) {
            float scale = x[i * n + k] /= diagonal[k * n + k];
            #pragma omp simd
            for (int64_t j = k + 1; j < size; j++) x[i * n + j] -= scale * diagonal[k * n + j];
        }
}

/* rest -= left @ right */
static inline void inner(const float *restrict left, const float *restrict right,
                         float *restrict rest, int64_t n, int64_t size) {
    float sums[64];
    for (int64_t i = 0; i < size; i++) {
        #pragma omp simd
        for (int64_t j = 0; j < size; j++) sums[j] = rest[i * n + j];
        for (int64_t k = 0; k < size; k++) {
            float scale = left[i * n + k];
            #pragma omp simd
            for (int64_t j = 0; j < size; j++) sums[j] -= scale * right[k * n + j];
        }
        #pragma omp simd
        for (int64_t j = 0; j < size; j++) rest[i * n + j] = sums[j];
    }
}

static inline void decompose(float *a, int64_t n, int64_t size) {
    #pragma omp parallel
    for (int64_t k = 0; k < n; k += size) {
        #pragma omp single
        factor(a + k * n + k, n, size);
        #pragma omp for schedule(static)
        for (int64_t m = k + size; m < n; m += size) {
            beside(a + k * n + k, a + k * n + m, n, size);
            below(a + k * n + k, a + m * n + k, n, size);
        }
        #pragma omp for schedule(static)
        for (int64_t i = k + size; i < n; i += size)
            for (int64_t j = k + size; j < n; j += size)
                inner(a + i * n + k, a + k * n + j, a + i * n + j, n, size);
    }
}

/* The matrix n x n, where n is a multiple of `size` (at most 64), into `a`. */
void lud(const float *matrix, float *a, int64_t n, int64_t size) {
    #pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) memcpy(a + i * n, matrix + i * n, n * sizeof(float));
    if (size == 16) decompose(a, n, 16);
    else if (size == 32) decompose(a, n, 32);
    else decompose(a, n, size);
}
