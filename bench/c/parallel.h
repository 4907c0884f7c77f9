/* A small pool of threads that share chunks of a range, for the hand-written kernels. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

typedef void chunk_body(const void *arguments, int64_t begin, int64_t end, int thread);

static struct {
    pthread_mutex_t lock;
    pthread_cond_t start, finish;
    chunk_body *body;
    const void *arguments;
    int64_t n, grain;
    _Atomic int64_t next;
    _Atomic int64_t round;
    _Atomic int busy;
    int threads;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .start = PTHREAD_COND_INITIALIZER,
          .finish = PTHREAD_COND_INITIALIZER, .threads = 1};

static void take_chunks(int thread) {
    for (;;) {
        int64_t begin = atomic_fetch_add(&pool.next, pool.grain);
        if (begin >= pool.n) return;
        int64_t end = begin + pool.grain < pool.n ? begin + pool.grain : pool.n;
        pool.body(pool.arguments, begin, end, thread);
    }
}

static void *pool_worker(void *thread) {
    int64_t seen = 0;
    for (;;) {
        for (int spin = 0; spin < 2000 && atomic_load(&pool.round) == seen; spin++)
            __builtin_ia32_pause();
        pthread_mutex_lock(&pool.lock);
        while (atomic_load(&pool.round) == seen) pthread_cond_wait(&pool.start, &pool.lock);
        seen = atomic_load(&pool.round);
        pthread_mutex_unlock(&pool.lock);
        take_chunks((int)(intptr_t)thread);
        pthread_mutex_lock(&pool.lock);
        if (atomic_fetch_sub(&pool.busy, 1) == 1) pthread_cond_signal(&pool.finish);
        pthread_mutex_unlock(&pool.lock);
    }
    return NULL;
}

/* Once, before anything else. */
void start_threads(int threads) {
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, pool_worker, (void *)(intptr_t)i)) abort();
    }
    pool.threads = threads;
}

/* The body on chunks of `grain` indices, in increasing order, on all threads. */
static void parallel(chunk_body *body, const void *arguments, int64_t n, int64_t grain) {
    pthread_mutex_lock(&pool.lock);
    pool.body = body;
    pool.arguments = arguments;
    pool.n = n;
    pool.grain = grain;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.busy, pool.threads - 1);
    atomic_fetch_add(&pool.round, 1);
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.lock);
    take_chunks(0);
    for (int spin = 0; spin < 2000 && atomic_load(&pool.busy); spin++) __builtin_ia32_pause();
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.busy)) pthread_cond_wait(&pool.finish, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

#endif
