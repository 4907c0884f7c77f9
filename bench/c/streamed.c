/* What a disk-bound program cannot avoid: every pass sums the mapped inputs, and the last one
 * writes as many bytes as the sinks take, from memory that is already there. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parallel.h"

enum { BLOCK = 1 << 20, MAXIMUM_FILES = 8, MAXIMUM_THREADS = 64 };

typedef struct {
    const float *inputs[MAXIMUM_FILES];
    int input_count;
    int outputs[MAXIMUM_FILES];
    int output_count; /* 0 in passes that write nothing */
    int64_t input_bytes, output_bytes; /* of each */
    const char *staging;
    double *partial;
    _Atomic int failed;
} stream_arguments;

static void stream_chunk(const void *given, int64_t begin, int64_t end, int thread) {
    stream_arguments *g = (stream_arguments *)given;
    int64_t first = begin / (int64_t)sizeof(float), stop = end / (int64_t)sizeof(float);
    float sum = 0;
    for (int k = 0; k < g->input_count; k++) {
        const float *x = g->inputs[k];
        #pragma omp simd reduction(+ : sum)
        for (int64_t i = first; i < stop; i++) sum += x[i];
    }
    g->partial[thread * 8] += sum;
    int64_t write = end < g->output_bytes ? end : g->output_bytes;
    for (int k = 0; k < g->output_count && begin < write; k++)
        if (pwrite(g->outputs[k], g->staging, write - begin, begin) != write - begin) g->failed = 1;
}

/* The sum of all inputs, or NaN where a file cannot be read or written. */
double stream(const char *const *inputs, int64_t input_count, const char *const *outputs,
              int64_t output_count, int64_t output_bytes, int64_t passes) {
    double partial[MAXIMUM_THREADS * 8] = {0}, total = 0;
    stream_arguments g = {.input_count = (int)input_count, .partial = partial};
    for (int k = 0; k < input_count; k++) {
        struct stat status;
        int file = open(inputs[k], O_RDONLY);
        if (file < 0 || fstat(file, &status)) return __builtin_nan("");
        void *map = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, file, 0);
        close(file);
        if (map == MAP_FAILED) return __builtin_nan("");
        madvise(map, status.st_size, MADV_SEQUENTIAL);
        g.inputs[k] = map;
        g.input_bytes = status.st_size;
    }
    char *staging = NULL;
    if (output_count && posix_memalign((void **)&staging, 4096, BLOCK)) return __builtin_nan("");
    if (staging) memset(staging, 1, BLOCK);
    g.staging = staging;
    g.output_bytes = output_bytes;
    for (int64_t pass = 0; pass < passes; pass++) {
        if (pass == passes - 1) {
            g.output_count = (int)output_count;
            for (int k = 0; k < output_count; k++)
                if ((g.outputs[k] = open(outputs[k], O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0) return __builtin_nan("");
        }
        parallel(stream_chunk, &g, g.input_bytes, BLOCK);
    }
    for (int k = 0; k < output_count; k++) close(g.outputs[k]);
    for (int k = 0; k < input_count; k++) munmap((void *)g.inputs[k], g.input_bytes);
    free(staging);
    for (int i = 0; i < pool.threads; i++) total += partial[i * 8];
    return g.failed ? __builtin_nan("") : total;
}
