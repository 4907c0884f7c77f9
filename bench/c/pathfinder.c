/* Pathfinder: a vector loop for each row, the threads side by side. */
#include <stdint.h>
#include <string.h>

static inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

/* The costs of the last row are in `first` after an odd number of steps, else in `second`. */
void pathfinder(const int32_t *wall, int32_t *first, int32_t *second, int64_t rows,
                int64_t columns) {
    int64_t last = columns - 1;
    if (rows == 1) memcpy(second, wall, columns * sizeof(int32_t));
    #pragma omp parallel
    for (int64_t t = 1; t < rows; t++) {
        const int32_t *from = t == 1 ? wall : t % 2 ? second : first;
        const int32_t *cells = wall + t * columns;
        int32_t *restrict to = t % 2 ? first : second;
        #pragma omp for simd schedule(static)
        for (int64_t j = 1; j < last; j++)
            to[j] = cells[j] + smaller(smaller(from[j - 1], from[j]), from[j + 1]);
        #pragma omp single
        {
            to[0] = cells[0] + smaller(from[0], from[last ? 1 : 0]);
            to[last] = cells[last] + smaller(from[last], from[last ? last - 1 : 0]);
        }
    }
}
