/* Hotspot: each step a pass over the plate; the first and last cells of a row apart, so that
 * the rest is one vector loop. */
#include <stdint.h>
#include <string.h>

typedef struct { float share, vertical, horizontal, outward; } coefficients;

static inline float cell(float here, float north, float south, float west, float east,
                         float power, coefficients c) {
    return here + c.share * (power + (north + south - 2 * here) * c.vertical
                             + (east + west - 2 * here) * c.horizontal
                             + (80.0f - here) * c.outward);
}

static void step(const float *restrict from, const float *restrict power, float *restrict to,
                 int64_t rows, int64_t columns, coefficients c) {
    #pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float *here = from + i * columns, *p = power + i * columns;
        const float *north = i ? here - columns : here;
        const float *south = i + 1 < rows ? here + columns : here;
        float *out = to + i * columns;
        int64_t last = columns - 1;
        out[0] = cell(here[0], north[0], south[0], here[0], here[last ? 1 : 0], p[0], c);
        #pragma omp simd
        for (int64_t j = 1; j < last; j++)
            out[j] = cell(here[j], north[j], south[j], here[j - 1], here[j + 1], p[j], c);
        if (last)
            out[last] = cell(here[last], north[last], south[last], here[last - 1], here[last],
                             p[last], c);
    }
}

/* The result is in `first` after an odd number of steps, else in `second`. */
void hotspot(const float *temperature, const float *power, float *first, float *second,
             int64_t rows, int64_t columns, int64_t steps) {
    double height = 0.016 / rows, width = 0.016 / columns;
    double capacity = 437.5 * height * width;
    coefficients c = {0.001 / (3.0e6 / 437.5) / capacity, 0.1 * width / height,
                      0.1 * height / width, height * width / 5e-6};
    const float *from = temperature;
    for (int64_t s = 0; s < steps; s++) {
        float *to = s % 2 ? second : first;
        step(from, power, to, rows, columns, c);
        from = to;
    }
    if (steps == 0) memcpy(second, temperature, rows * columns * sizeof(float));
}
