/* Needleman-Wunsch: anti-diagonals of blocks, each block in the matrix itself. Of a row of a block
 * what needs no left neighbour is a vector loop; then the cells, one after another. */
#include <stdint.h>

#define LARGEST 256  /* extent of a block */

static inline int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static inline void block(int32_t *restrict scores, const int32_t *restrict similar, int64_t n,
                         int64_t size, int32_t penalty) {
    int32_t best[LARGEST];
    for (int64_t i = 0; i < size; i++) {
        const int32_t *above = scores + i * n;
        int32_t *row = scores + (i + 1) * n;
        const int32_t *s = similar + (i + 1) * n + 1;
        #pragma omp simd
        for (int64_t j = 0; j < size; j++)
            best[j] = larger(above[j] + s[j], above[j + 1] - penalty);
        int32_t left = row[0];
        for (int64_t j = 0; j < size; j++)
            row[j + 1] = left = larger(best[j], left - penalty);
    }
}

/* Scores n x n, where n is a multiple of `size`, and one more. */
void nw(const int32_t *similar, int32_t *scores, int64_t n, int64_t size, int64_t penalty) {
    int64_t count = (n - 1) / size;
    for (int64_t i = 0; i < n; i++) scores[i] = scores[i * n] = (int32_t)(-penalty * i);
    #pragma omp parallel
    for (int64_t d = 0; d < 2 * count - 1; d++) {
        int64_t first = d < count ? 0 : d - count + 1, last = d < count ? d : count - 1;
        #pragma omp for schedule(static)
        for (int64_t row = first; row <= last; row++) {
            int64_t at = row * size * n + (d - row) * size;
            if (size == 16) block(scores + at, similar + at, n, 16, (int32_t)penalty);
            else if (size == 64) block(scores + at, similar + at, n, 64, (int32_t)penalty);
            else block(scores + at, similar + at, n, size, (int32_t)penalty);
        }
    }
}
