/* How kernels of CUDA C++ are run on a host: see pretended_cuda.py.
 *
 * The threads of a block are contexts of one thread, each of which runs to its next barrier; they
 * take their turns in another order each time, so that what a barrier is missing for goes wrong.
 */
#include "pretended_cuda.h"
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>
#include <ucontext.h>

Three blockIdx, threadIdx, blockDim;

// What -fsanitize=alignment and bounds call are these, not libubsan's.
extern "C" { int misaligned = 0, outside = 0; }
extern "C" void __ubsan_handle_type_mismatch_v1(void *, void *) { misaligned = 1; }
extern "C" void __ubsan_handle_out_of_bounds(void *, void *) { outside = 1; }

constexpr size_t MOST = 40, STACK = 256 << 10;  // arguments, and bytes
static ucontext_t turns;
static std::vector<ucontext_t> threads;
static std::vector<char> ended, waits;
static void *kernel;
static const long long *given;

template <size_t... k> static void call(std::index_sequence<k...>) {
    ((void (*)(decltype((void)k, 0LL)...))kernel)(given[k]...);  // pointers are passed alike
}
static void body() {
    call(std::make_index_sequence<MOST>());
    ended[threadIdx.x] = 1;
}
void __syncthreads() {
    const unsigned self = threadIdx.x;
    waits[self] = 1;
    swapcontext(&threads[self], &turns);
}

/* Run a kernel; whether at some barrier a part of a block waited for threads that had ended. */
extern "C" int run_grid(void *function, const long long *arguments, unsigned blocks,
                        unsigned items) {
    static std::mt19937 random(1);
    kernel = function, given = arguments, blockDim.x = items;
    threads.resize(items);
    const auto stacks = std::make_unique_for_overwrite<char[]>(items * STACK);  // most stays unused
    std::vector<unsigned> order(items);
    std::iota(order.begin(), order.end(), 0);
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        ended.assign(items, 0);
        for (unsigned t = 0; t < items; t++) {
            getcontext(&threads[t]);
            threads[t].uc_stack.ss_sp = &stacks[t * STACK];
            threads[t].uc_stack.ss_size = STACK;
            threads[t].uc_link = &turns;
            makecontext(&threads[t], body, 0);
        }
        for (size_t left = items; left > 0;) {
            std::shuffle(order.begin(), order.end(), random);
            waits.assign(items, 0);
            for (unsigned t : order) {
                threadIdx.x = t;
                swapcontext(&turns, &threads[t]);
            }
            left = std::count(waits.begin(), waits.end(), 1);
            if (left != 0 && left != items) return 1;
        }
    }
    return 0;
}
