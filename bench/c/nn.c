/* Nearest records: distances once, then rounds of arg-min, each thread over its own part. */
#include <math.h>
#include <omp.h>
#include <stdint.h>

enum { BLOCK = 4096, MAXIMUM_THREADS = 64 };

typedef struct { float distance; int64_t index; char line[48]; } winner;

/* The first of the smallest elements: blocks by a vector minimum, one searched where it is less. */
static winner smallest(const float *distances, int64_t begin, int64_t end) {
    winner best = {INFINITY, INT64_MAX};
    for (int64_t block = begin; block < end; block += BLOCK) {
        int64_t stop = block + BLOCK < end ? block + BLOCK : end;
        float least = INFINITY;
        #pragma omp simd reduction(min : least)
        for (int64_t i = block; i < stop; i++) least = distances[i] < least ? distances[i] : least;
        if (least < best.distance) {
            int64_t i = block;
            while (distances[i] != least) i++;
            best = (winner){least, i};
        }
    }
    return best;
}

void nn(const float *latitude, const float *longitude, float *distances, int64_t *indices,
        float *nearest, int64_t count, int64_t k) {
    winner found[MAXIMUM_THREADS];
    #pragma omp parallel
    {
        int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
        int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
        #pragma omp simd
        for (int64_t i = begin; i < end; i++) {
            float across = latitude[i] - 30, along = longitude[i] - 90;
            distances[i] = sqrtf(across * across + along * along);
        }
        for (int64_t round = 0; round < k; round++) {
            found[thread] = smallest(distances, begin, end);
            #pragma omp barrier
            winner best = found[0];
            for (int64_t t = 1; t < threads; t++)
                if (found[t].distance < best.distance) best = found[t];
            if (best.index >= begin && best.index < end) {
                indices[round] = best.index;
                nearest[round] = best.distance;
                distances[best.index] = INFINITY;
            }
            #pragma omp barrier
        }
    }
}
