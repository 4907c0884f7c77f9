/* Calls under a local volatility: values [y][x][strike], so that strikes are the lanes of every
 * loop. Each half of a step solves where it reads; the second one column by column in place. */
#include <math.h>
#include <stdint.h>

typedef struct {
    int64_t strikes, prices, volatilities;
    const double *restrict local, *restrict inner_x, *restrict inner_y;
} grid;

/* Explicit in both directions, then implicit along x, for one row of the grid. */
static void along_prices(grid g, const double *restrict value, double *restrict next,
                         double *restrict ratios, int64_t y, double rate, double decay) {
    int64_t n = g.strikes, row = g.prices * n;
    int64_t up = y > 0 ? row : 0, down = y < g.volatilities - 1 ? row : 0;
    double across_y = 2 * g.inner_y[y], ratio = 0;
    for (int64_t x = 0; x < g.prices; x++) {
        double across_x = g.inner_x[x] * (g.local[y * g.prices + x] * decay);
        double pivot = 1 / (rate + 2 * across_x + across_x * ratio);
        ratio = -across_x * pivot;
        ratios[x] = ratio;
        int64_t at = y * row + x * n, before = x > 0 ? n : 0, after = x < g.prices - 1 ? n : 0;
        const double *here = value + at;
        double *out = next + at;
        const double *last = x > 0 ? out - n : here;
        double carried = x > 0 ? across_x : 0;
        #pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            double twice = 2 * here[k];
            double right = rate * here[k] + across_x * (here[k - before] - twice + here[k + after])
                           + across_y * (here[k - up] - twice + here[k + down]);
            out[k] = (right + carried * last[k]) * pivot;
        }
    }
    for (int64_t x = g.prices - 2; x >= 0; x--) {
        double *out = next + y * row + x * n;
        #pragma omp simd
        for (int64_t k = 0; k < n; k++) out[k] -= ratios[x] * out[k + n];
    }
}

/* Implicit along y, for one column. */
static void along_volatilities(grid g, double *restrict value, double *restrict next,
                               double *restrict ratios, int64_t x, double rate) {
    int64_t n = g.strikes, row = g.prices * n;
    double ratio = 0;
    for (int64_t y = 0; y < g.volatilities; y++) {
        double across_y = g.inner_y[y];
        double pivot = 1 / (rate + 2 * across_y + across_y * ratio);
        ratio = -across_y * pivot;
        ratios[y] = ratio;
        int64_t at = y * row + x * n, up = y > 0 ? row : 0;
        int64_t down = y < g.volatilities - 1 ? row : 0;
        const double *here = value + at;
        double *out = next + at;
        double carried = y > 0 ? across_y : 0;
        #pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            double bend = here[k - up] - 2 * here[k] + here[k + down];
            double right = rate * out[k] - across_y * bend;
            out[k] = (right + carried * out[k - up]) * pivot;
        }
    }
    for (int64_t y = g.volatilities - 1; y >= 0; y--) {
        int64_t at = y * row + x * n, down = y < g.volatilities - 1 ? row : 0;
        double factor = down ? ratios[y] : 0;
        #pragma omp simd
        for (int64_t k = 0; k < n; k++)
            value[at + k] = next[at + k] - factor * value[at + k + down];
    }
}

void locvolcalib(const double *strikes, const double *x, const double *y, const double *t,
                 double *value, double *next, double *local, double *inner_x, double *inner_y,
                 double *prices, int64_t count, int64_t nx, int64_t ny, int64_t nt, int64_t i,
                 int64_t j, double nu, double beta) {
    grid g = {count, nx, ny, local, inner_x, inner_y};
    double dx = x[1] - x[0], dy = y[1] - y[0];
    for (int64_t a = 0; a < nx; a++) inner_x[a] = a > 0 && a < nx - 1 ? 0.25 / (dx * dx) : 0;
    for (int64_t b = 0; b < ny; b++) inner_y[b] = b > 0 && b < ny - 1 ? 0.25 * nu * nu / (dy * dy) : 0;
    #pragma omp parallel
    {
        double ratios[nx > ny ? nx : ny];
        #pragma omp for schedule(static)
        for (int64_t b = 0; b < ny; b++)
            for (int64_t a = 0; a < nx; a++) {
                local[b * nx + a] = exp(2 * (beta * log(x[a]) + y[b]));
                for (int64_t k = 0; k < count; k++)
                    value[(b * nx + a) * count + k] = fmax(x[a] - strikes[k], 0);
            }
        for (int64_t time = nt - 2; time >= 0; time--) {
            double rate = 1 / (t[time + 1] - t[time]), decay = exp(-nu * nu * t[time]);
            #pragma omp for schedule(static)
            for (int64_t b = 0; b < ny; b++) along_prices(g, value, next, ratios, b, rate, decay);
            #pragma omp for schedule(static)
            for (int64_t a = 0; a < nx; a++) along_volatilities(g, value, next, ratios, a, rate);
        }
    }
    for (int64_t k = 0; k < count; k++) prices[k] = value[(j * nx + i) * count + k];
}
