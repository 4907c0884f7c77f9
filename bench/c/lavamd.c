/* Forces between particles of boxes: a thread takes a box, a particle all particles around it in
 * vectors. */
#include <math.h>
#include <stdint.h>

#pragma omp declare simd notinbranch
__attribute__((const)) double exp(double);

typedef struct { const double *potential, *x, *y, *z, *charge; } particles;

static void feel(particles p, int64_t here, int64_t there, int64_t count, double *restrict weights,
                 double *restrict fx, double *restrict fy, double *restrict fz) {
    const double *restrict v = p.potential + there, *restrict x = p.x + there;
    const double *restrict y = p.y + there, *restrict z = p.z + there;
    const double *restrict q = p.charge + there;
    for (int64_t i = here; i < here + count; i++) {
        double vi = p.potential[i], xi = p.x[i], yi = p.y[i], zi = p.z[i];
        double weight = 0, sx = 0, sy = 0, sz = 0;
        #pragma omp simd reduction(+ : weight, sx, sy, sz)
        for (int64_t j = 0; j < count; j++) {
            double dot = xi * x[j] + yi * y[j] + zi * z[j];
            double w = q[j] * exp(-0.5 * (vi + v[j] - dot));
            weight += w;
            sx += 2 * w * (xi - x[j]);
            sy += 2 * w * (yi - y[j]);
            sz += 2 * w * (zi - z[j]);
        }
        weights[i] += weight;
        fx[i] += sx;
        fy[i] += sy;
        fz[i] += sz;
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

void lavamd(const double *potential, const double *place, const double *charge, double *forces,
            int64_t boxes, int64_t count) {
    int64_t total = boxes * boxes * boxes * count;
    particles p = {potential, place, place + total, place + 2 * total, charge};
    #pragma omp parallel for collapse(3) schedule(dynamic)
    for (int64_t z = 0; z < boxes; z++)
        for (int64_t y = 0; y < boxes; y++)
            for (int64_t x = 0; x < boxes; x++) {
                int64_t here = ((z * boxes + y) * boxes + x) * count;
                for (int64_t i = here; i < here + count; i++)
                    for (int64_t axis = 0; axis < 4; axis++) forces[axis * total + i] = 0;
                for (int64_t c = most(z - 1, 0); c < least(z + 2, boxes); c++)
                    for (int64_t b = most(y - 1, 0); b < least(y + 2, boxes); b++)
                        for (int64_t a = most(x - 1, 0); a < least(x + 2, boxes); a++)
                            feel(p, here, ((c * boxes + b) * boxes + a) * count, count, forces,
                                 forces + total, forces + 2 * total, forces + 3 * total);
            }
}
