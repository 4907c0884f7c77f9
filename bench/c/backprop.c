/* Backprop: one pass over the weights for the hidden units, one to change them. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_UNITS = 64 };

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* x without its bias; `units` is at most MOST_UNITS. Gives the output of the old weights. */
double backprop(const float *restrict x, const float *restrict w, const float *restrict v,
                float *restrict new_w, float *restrict new_v, int64_t inputs, int64_t units) {
    float sum[MOST_UNITS] = {0};
    memcpy(sum, w, units * sizeof(float));
    #pragma omp parallel for schedule(static) reduction(+ : sum[:MOST_UNITS])
    for (int64_t block = 0; block < inputs; block += 1024) {
        /* Blocks keep the roundings of long sums small. */
        float part[MOST_UNITS] = {0};
        const int64_t end = block + 1024 < inputs ? block + 1024 : inputs;
        if (units == 16) {
            for (int64_t i = block; i < end; i++)
                for (int64_t j = 0; j < 16; j++) part[j] += x[i] * w[(i + 1) * 16 + j];
        } else {
            for (int64_t i = block; i < end; i++)
                for (int64_t j = 0; j < units; j++) part[j] += x[i] * w[(i + 1) * units + j];
        }
        for (int64_t j = 0; j < units; j++) sum[j] += part[j];
    }
    float hidden[MOST_UNITS + 1] = {1}, total = v[0];
    for (int64_t j = 0; j < units; j++) {
        hidden[j + 1] = sigmoid(sum[j]);
        total += hidden[j + 1] * v[j + 1];
    }
    const float output = sigmoid(total), error = output * (1 - output) * (0.1f - output);
    float change[MOST_UNITS];
    for (int64_t j = 0; j <= units; j++) {
        if (j) change[j - 1] = 0.3f * hidden[j] * (1 - hidden[j]) * error * v[j];
        new_v[j] = v[j] + 0.3f * error * hidden[j];
    }
    for (int64_t j = 0; j < units; j++) new_w[j] = w[j] + change[j];
    if (units == 16) {
        #pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < inputs; i++)
            for (int64_t j = 0; j < 16; j++)
                new_w[(i + 1) * 16 + j] = w[(i + 1) * 16 + j] + x[i] * change[j];
    } else {
        #pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < inputs; i++)
            for (int64_t j = 0; j < units; j++)
                new_w[(i + 1) * units + j] = w[(i + 1) * units + j] + x[i] * change[j];
    }
    return output;
}
