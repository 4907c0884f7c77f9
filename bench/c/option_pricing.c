/* Prices by quasi-random paths: a thread takes a block of paths, which are the lanes of every
 * loop and stay in its cache. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#pragma omp declare simd notinbranch
__attribute__((const)) double exp(double);
#pragma omp declare simd notinbranch
__attribute__((const)) double log(double);

enum { BLOCK = 256 };

typedef struct {
    int64_t contract, dates, underlyings, bits;
    const int32_t *directions, *index, *left, *right;
    const double *deviation, *left_weight, *right_weight;
    const double *correlation, *volatility, *drift, *start, *deterministic, *discount;
} problem;

static const double START[3] = {3758.05, 11840.0, 1200.0}, BARRIER[3] = {2630.635, 8288.0, 840.0};

/* Algorithm AS 241 (M. J. Wichura, 1988); 30 bits do not reach its tails. */
static inline double normal_quantile(double p) {
    double q = p - 0.5, a = 0.180625 - q * q, r = sqrt(-log(0.5 - fabs(q))) - 1.6;
    double inside = q
        * (((((((2.5090809287301226727e3 * a + 3.3430575583588128105e4) * a
                + 6.7265770927008700853e4) * a + 4.5921953931549871457e4) * a
              + 1.3731693765509461125e4) * a + 1.9715909503065514427e3) * a
            + 1.3314166789178437745e2) * a + 3.3871328727963666080e0)
        / (((((((5.2264952788528545610e3 * a + 2.8729085735721942674e4) * a
                + 3.9307895800092710610e4) * a + 2.1213794301586595867e4) * a
              + 5.3941960214247511077e3) * a + 6.8718700749205790830e2) * a
            + 4.2313330701600911252e1) * a + 1.0);
    double outside =
        (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r
              + 2.41780725177450611770e-1) * r + 1.27045825245236838258e0) * r
            + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r
          + 4.63033784615654529590e0) * r + 1.42343711074968357734e0)
        / (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r
                + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1) * r
              + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r
            + 2.05319162663775882187e0) * r + 1.0);
    return fabs(q) <= 0.425 ? inside : copysign(outside, q);
}

static void make_noise(problem g, int64_t first, double (*restrict noise)[BLOCK]) {
    int32_t gray[BLOCK], number[BLOCK];
    for (int32_t l = 0; l < BLOCK; l++) {
        int32_t i = (int32_t)first + l;
        gray[l] = i ^ (i >> 1);
    }
    for (int64_t d = 0; d < g.dates * g.underlyings; d++) {
        memset(number, 0, sizeof number);
        for (int64_t bit = 0; bit < g.bits; bit++) {
            int32_t direction = g.directions[d * 30 + bit];
            #pragma omp simd
            for (int l = 0; l < BLOCK; l++) number[l] ^= -(gray[l] >> bit & 1) & direction;
        }
        #pragma omp simd
        for (int l = 0; l < BLOCK; l++) noise[d][l] = normal_quantile(number[l] * 0x1p-30);
    }
}

static void bridge(problem g, double (*restrict noise)[BLOCK], double (*restrict motion)[BLOCK]) {
    int64_t n = g.underlyings;
    memset(motion, 0, n * sizeof *motion);
    for (int64_t k = 0; k < g.dates; k++)
        for (int64_t u = 0; u < n; u++) {
            double *to = motion[g.index[k] * n + u];
            const double *left = motion[g.left[k] * n + u], *right = motion[g.right[k] * n + u];
            const double *z = noise[k * n + u];
            if (g.left[k] == 0 && g.right[k] == 0) {
                #pragma omp simd
                for (int l = 0; l < BLOCK; l++) to[l] = g.deviation[k] * z[l];
                continue;
            }
            #pragma omp simd
            for (int l = 0; l < BLOCK; l++)
                to[l] = g.left_weight[k] * left[l] + g.right_weight[k] * right[l]
                        + g.deviation[k] * z[l];
        }
}

/* Values over the noise, which is no longer needed. */
static void black_scholes(problem g, double (*restrict motion)[BLOCK],
                          double (*restrict values)[BLOCK]) {
    int64_t n = g.underlyings;
    for (int64_t d = 0; d < g.dates; d++)
        for (int64_t u = 0; u < n; u++) {
            double mixed[BLOCK] = {0};
            for (int64_t k = 0; k <= u; k++) {
                const double *before = motion[d * n + k], *after = motion[(d + 1) * n + k];
                double factor = g.correlation[u * n + k];
                #pragma omp simd
                for (int l = 0; l < BLOCK; l++) mixed[l] += factor * (after[l] - before[l]);
            }
            double volatility = g.volatility[d * n + u], drift = g.drift[d * n + u];
            double *value = values[d * n + u];
            #pragma omp simd
            for (int l = 0; l < BLOCK; l++) value[l] = exp(volatility * mixed[l] + drift);
            if (d == 0) {
                #pragma omp simd
                for (int l = 0; l < BLOCK; l++) value[l] *= g.start[u];
            } else {
                #pragma omp simd
                for (int l = 0; l < BLOCK; l++) value[l] *= values[(d - 1) * n + u][l];
            }
        }
}

static inline double least(double a, double b) { return a < b ? a : b; }

/* The smallest quotient of three underlyings and their limits. */
static inline double lowest(const double *values, const double *limits, int l) {
    double a = values[l] / limits[0], b = values[BLOCK + l] / limits[1];
    return least(least(a, b), values[2 * BLOCK + l] / limits[2]);
}

static double pays(problem g, const double *restrict values) {
    double pay[BLOCK], total = 0;
    const double *last = values + (g.dates - 1) * g.underlyings * BLOCK;
    if (g.contract == 1) {
        #pragma omp simd
        for (int l = 0; l < BLOCK; l++)
            pay[l] = (values[l] > 4000 ? values[l] - 4000 : 0) * g.deterministic[0] * g.discount[0];
    } else if (g.contract == 2) {
        #pragma omp simd
        for (int l = 0; l < BLOCK; l++) {
            double worst = lowest(last, START, l);
            pay[l] = (worst > 0.75 ? 1000 : 1000 * worst) * g.discount[g.dates - 1];
        }
        for (int64_t d = g.dates - 1; d >= 0; d--) {
            double amount = (1150 + 150.0 * d) * g.discount[d];
            #pragma omp simd
            for (int l = 0; l < BLOCK; l++)
                pay[l] = lowest(values + 3 * d * BLOCK, START, l) >= 1 ? amount : pay[l];
        }
    } else {
        int64_t low[BLOCK] = {0};
        for (int64_t d = 0; d < g.dates; d++) {
            #pragma omp simd
            for (int l = 0; l < BLOCK; l++) low[l] |= lowest(values + 3 * d * BLOCK, BARRIER, l) <= 1;
        }
        #pragma omp simd
        for (int l = 0; l < BLOCK; l++) {
            double worst = lowest(last, START, l);
            pay[l] = 100 * g.discount[0] + (low[l] && worst < 1 ? 1000 * worst : 1000) * g.discount[1];
        }
    }
    #pragma omp simd reduction(+ : total)
    for (int l = 0; l < BLOCK; l++) total += pay[l];
    return total;
}

double option_pricing(int64_t contract, int64_t paths, int64_t dates, int64_t underlyings, int64_t bits,
                      const int32_t *directions, const int32_t *index, const int32_t *left,
                      const int32_t *right, const double *deviation, const double *left_weight,
                      const double *right_weight, const double *correlation,
                      const double *volatility, const double *drift, const double *start,
                      const double *deterministic, const double *discount) {
    problem g = {contract, dates, underlyings, bits, directions, index, left, right, deviation,
                 left_weight, right_weight, correlation, volatility, drift, start, deterministic,
                 discount};
    double total = 0;
    #pragma omp parallel for schedule(dynamic, 16) reduction(+ : total)
    for (int64_t block = 0; block < paths / BLOCK; block++) {
        double noise[dates * underlyings][BLOCK], motion[(dates + 1) * underlyings][BLOCK];
        make_noise(g, 1 + block * BLOCK, noise);
        bridge(g, noise, motion);
        black_scholes(g, motion, noise);
        total += pays(g, noise[0]);
    }
    return total / paths;
}
