/* Square roots of the elements of a local array, many at once: those of `sqrt`, bit by bit.
 *
 * A divider takes some 16 cycles for the roots of a vector of AVX-512, and 9 for quotients, while
 * units that multiply and add have little to do. Here they find most roots instead, by Newton's
 * method from a seed of 14 bits: g comes to be the root, h half of its reciprocal, and the rest
 * x - g^2, which a fused operation gives without the bits that a product loses, rounds g
 * correctly (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000
 * processor", IBM Journal of Research and Development 34, 1990, section 4).
 *
 * Before it is rounded, what is given differs from the root by less than 2^-51 units of the last
 * place. Roots that are as near to the middle of two numbers are those of few x, which the tests
 * have all (tests/runtime/test_roots.py).
 *
 * This follows `pool.c`.
 */

static inline void roots_by_divider(double *restrict x, int64_t count) {
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) x[i] = __builtin_sqrt(x[i]);
}

#if defined(__AVX512F__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_rsqrt14pd512_mask) && __has_builtin(__builtin_ia32_vfmaddpd512_mask)
#define BY_OTHER_UNITS
#endif
#endif

#if defined(BY_OTHER_UNITS)
typedef double doubles __attribute__((vector_size(64), may_alias));

enum { VECTOR = 8 };
/* So many vectors of 8 are the divider's, which has quotients to find too: the rest takes as long.
 * Other processors' dividers take twice as long, and their other units half of it. */
enum { OF_AMD = 3, OF_OTHERS = 0 };
/* Of other numbers the rest would be subnormal; of zeros, infinities and negatives there is none. */
#define LEAST 0x0370000000000000
#define INFINITE 0x7ff0000000000000

static inline doubles fused(doubles a, doubles b, doubles c) {
    return __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4);
}

static inline doubles root(doubles x) {
    const doubles half = (doubles){} + 0.5;
    doubles y = __builtin_ia32_rsqrt14pd512_mask(x, x, (unsigned char)-1);
    doubles g = x * y, h = half * y, r = fused(-g, h, half);
    g = fused(g, r, g), h = fused(h, r, h), r = fused(-g, h, half);
    g = fused(g, r, g), h = fused(h, r, h);
    return fused(h, fused(-g, g, x), g);
}

/* Of `count` elements. The array is aligned to a vector and has whole ones. */
static void roots(double *restrict x, int64_t count) {
    const int64_t share = __builtin_cpu_is("amd") ? OF_AMD : OF_OTHERS;
    int64_t far = 0;
    _Pragma("omp simd reduction(|:far)") for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        far |= bits - LEAST >= INFINITE - LEAST;
    }
    const int64_t divided = far ? count : share * count / 64 * VECTOR;
    roots_by_divider(x, divided);
    for (int64_t i = divided; i < count; i += VECTOR) {
        doubles *const at = (doubles *)(x + i);
        *at = root(*at);
    }
}
#else
static void roots(double *restrict x, int64_t count) {
    roots_by_divider(x, count);
}
#endif
