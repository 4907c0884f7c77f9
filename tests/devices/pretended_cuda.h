/* What kernels of CUDA C++ find on a host: see pretended_cuda.py and pretended_cuda.cpp. */
#include <cmath>
#include <cstring>
using namespace std;
#define __global__
#define __launch_bounds__(...)
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static  // blocks run one after another
struct Three { unsigned x; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
extern Three blockIdx, threadIdx, blockDim;
extern void __syncthreads();
static float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
static int atomicCAS(int *at, int old, int now) {
    __atomic_compare_exchange_n(at, &old, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return old;
}
template <class T, class F> static T atomically(T *at, F f) {
    T was = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(at, &was, f(was), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {}
    return was;
}
#define ATOMIC(name, result) template <class T> static T name(T *at, T value) { \
    return atomically(at, [=](T was) { return (T)(result); }); }
ATOMIC(atomicAdd, was + value)
ATOMIC(atomicMin, was < value ? was : value)
ATOMIC(atomicMax, was > value ? was : value)
ATOMIC(atomicAnd, was & value)
ATOMIC(atomicOr, was | value)
ATOMIC(atomicXor, was ^ value)
static void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
