/* The process-wide thread pool, and the call of a compiled segment.
 *
 * Each parallel_for is a job. The caller works on its own job and can always finish it
 * alone; idle workers join any job that has tiles left and room for another thread, so
 * callers on several Python threads share the workers and never wait for each other.
 *
 * Tiles are dealt out in shares, one for each thread and the same in each job: what a
 * thread wrote in one job is in its cache in the next. Who has done its own helps others.
 * Tiles that wait for earlier ones are one share.
 * Workers wait for the next job awake for some time, longer while a call goes on.
 *
 * A forked child starts with no workers and builds its own at its first job. SIGINT sets
 * the cancel flag of the call that runs on the main thread; SIGBUS (a mapped file that
 * shrank) ends the call that touched the page, or makes it a page of zeros where a library
 * is reading memory that is watched. Both handlers chain to what was there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef struct weft_context {
    void (*parallel_for)(struct weft_context *, void (*tile)(void *, int64_t, int32_t),
                         void *closure, int64_t tiles);
    volatile int32_t *cancel;
    int32_t threads;
    int32_t error;
    int64_t detail[4];
    void (*parallel_in_order)(struct weft_context *, void (*tile)(void *, int64_t, int32_t),
                              void *closure, int64_t tiles);
    void (*roots)(double *, int64_t count); /* see `roots.c` */
    void (*columns)(struct weft_context *, void *target, int64_t between, const void *source,
                    int64_t apart, int64_t step, int64_t columns, int64_t records,
                    int64_t bytes); /* see `columns.c` */
} weft_context;

typedef int32_t weft_entry(weft_context *context, char *const *buffers, const int64_t *integers);

enum { OK = 0, CANCELLED = 1, BUS_ERROR = 2 };
enum { MAXIMUM_THREADS = 1024, SHARES = 64 };
enum { AWAKE_NANOSECONDS = 30000, AWAKE_IN_CALL_NANOSECONDS = 200000, ATTEMPTS = 1000 };

#if defined(__linux__)
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define THREAD_LOCAL _Thread_local
#endif

/* ------------------------------------------------------------ state */

/* Tiles that follow each other: those of one thread, and then of any. */
typedef struct {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} share;

typedef struct job {
    weft_context *context;
    void (*tile)(void *, int64_t, int32_t);
    void *closure;
    int32_t threads;        /* at most this many, the caller included */
    int32_t parts;          /* how many shares there are */
    int32_t joined;         /* under the lock: also the next thread index */
    struct job *following;  /* under the lock */
    _Atomic int32_t running; /* workers inside; changed under the lock */
    share shares[SHARES];
} job;

typedef struct {
    weft_context context; /* first: parallel_for receives its address */
    volatile int32_t cancelled;
    _Atomic int32_t skipped; /* a parallel_for stopped before its last tile */
} call;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER; /* a job was published */
static pthread_cond_t done = PTHREAD_COND_INITIALIZER; /* a worker left a job */
static job *jobs;
enum { PLACED = 16 };
static pthread_t placed[PLACED]; /* the first workers */
static int avoided = -1;         /* the processor that they are kept off */
static int32_t workers, awake, sleeping, waiting; /* awake: without a job, not yet asleep */
static _Atomic int64_t published; /* counts jobs, for workers that are awake */
static _Atomic int32_t calls; /* calls on several threads that go on */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static THREAD_LOCAL sigjmp_buf *volatile guard; /* where a SIGBUS on this thread goes */
static THREAD_LOCAL void *volatile fault_address;
static THREAD_LOCAL int32_t inside_tile; /* this thread's index + 1 while it runs a tile */

static struct sigaction previous_bus, previous_interrupt;
static volatile int32_t *volatile interruptible; /* the main thread's cancel flag */

static void install_bus_handler(void);

/* ------------------------------------------------------------ watched memory */

/* What library code reads, on any thread. Never moved nor freed: the handler looks at all. */
typedef struct {
    _Atomic uintptr_t begin, end; /* end 0: free */
    _Atomic int32_t lost;
} watch;

enum { WATCHES = 256 };
static watch watches[WATCHES];

/* Its number; -1 where there are too many. */
int32_t weft_watch(uintptr_t begin, uintptr_t end) {
    int32_t found = -1;
    install_bus_handler();
    pthread_mutex_lock(&lock);
    for (int32_t i = 0; i < WATCHES && found < 0; i++)
        if (!atomic_load(&watches[i].end)) found = i;
    if (found >= 0) {
        atomic_store(&watches[found].lost, 0);
        atomic_store(&watches[found].begin, begin);
        atomic_store(&watches[found].end, end);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Whether a page of it was lost. */
int32_t weft_unwatch(int32_t number) {
    atomic_store(&watches[number].end, 0);
    return atomic_load(&watches[number].lost);
}

/* In the handler: a page of zeros where a file ended, if that is watched. */
static int replace_lost_page(uintptr_t address) {
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = address & -size;
    int replaced = 0, number = errno;
    for (int32_t i = 0; i < WATCHES; i++) {
        if (page + size <= atomic_load(&watches[i].begin) || page >= atomic_load(&watches[i].end))
            continue;
        if (!replaced && mmap((void *)page, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            break;
        replaced = 1;
        atomic_store(&watches[i].lost, 1);
    }
    errno = number;
    return replaced;
}

/* ------------------------------------------------------------ signals */

static void chain(const struct sigaction *previous, int number, siginfo_t *info, void *machine) {
    if (previous->sa_flags & SA_SIGINFO) {
        previous->sa_sigaction(number, info, machine);
    } else if (previous->sa_handler == SIG_DFL) {
        /* Back to the default action: a fault repeats at once, another signal is sent again. */
        sigaction(number, previous, NULL);
        if (number != SIGBUS) raise(number);
    } else if (previous->sa_handler != SIG_IGN) {
        previous->sa_handler(number);
    }
}

static void on_bus_error(int number, siginfo_t *info, void *machine) {
    sigjmp_buf *target = guard;
    if (target) {
        fault_address = info->si_addr;
        siglongjmp(*target, 1);
    }
    if (number == SIGBUS && replace_lost_page((uintptr_t)info->si_addr)) return;
    chain(&previous_bus, number, info, machine);
}

static void on_interrupt(int number, siginfo_t *info, void *machine) {
    volatile int32_t *flag = interruptible;
    if (flag) *flag = 1;
    chain(&previous_interrupt, number, info, machine);
    /* A handler may put another in its place, as LLVM's does: put back, it would call itself. */
    struct sigaction current;
    if (sigaction(SIGINT, NULL, &current) == 0
        && !((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_interrupt))
        previous_interrupt = current;
}

static void install_bus_handler(void) {
    struct sigaction current;
    if (sigaction(SIGBUS, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO)
        && current.sa_sigaction == on_bus_error) return;
    pthread_mutex_lock(&lock);
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_bus_error;
    /* Not deferred: the handler leaves by a jump, which would keep the signal blocked. */
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGBUS, NULL, &current);
    if (!((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_bus_error)) {
        previous_bus = current;
        sigaction(SIGBUS, &ours, NULL);
    }
    pthread_mutex_unlock(&lock);
}

static void install_interrupt_handler(volatile int32_t *flag) {
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_interrupt;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    interruptible = flag;
    sigaction(SIGINT, &ours, &previous_interrupt);
}

static void restore_interrupt_handler(void) {
    sigaction(SIGINT, &previous_interrupt, NULL);
    interruptible = NULL;
}

/* ------------------------------------------------------------ fork */

static void in_forked_child(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work, NULL);
    pthread_cond_init(&done, NULL);
    jobs = NULL;
    workers = awake = sleeping = waiting = 0;
    avoided = -1;
    atomic_store(&calls, 0);
    guard = NULL;
    inside_tile = 0;
    for (int32_t i = 0; i < WATCHES; i++) atomic_store(&watches[i].end, 0);
    if (interruptible) restore_interrupt_handler();
}

static void prepare_process(void) { pthread_atfork(NULL, NULL, in_forked_child); }

/* ------------------------------------------------------------ running tiles */

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The lock is held for less than it takes to sleep and be woken. */
static void acquire(void) {
    for (int i = 0; i < ATTEMPTS; i++) {
        if (pthread_mutex_trylock(&lock) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&lock);
}

static void release(void) { pthread_mutex_unlock(&lock); }

static int stopped(const weft_context *context) {
    return *context->cancel || *(const volatile int32_t *)&context->error;
}

static void fail_with_bus_error(weft_context *context) {
    *(volatile int32_t *)&context->error = BUS_ERROR;
    context->detail[0] = (int64_t)(intptr_t)fault_address;
}

static void run_share(job *current, share *of, int32_t thread) {
    while (!stopped(current->context)) {
        int64_t tile = atomic_fetch_add_explicit(&of->next, 1, memory_order_relaxed);
        if (tile >= of->end) return;
        current->tile(current->closure, tile, thread);
    }
}

static int has_tiles(share *of) {
    return atomic_load_explicit(&of->next, memory_order_relaxed) < of->end;
}

/* Tiles of the own share, then of the following ones. */
static void run_tiles(job *current, int32_t thread, int32_t own) {
    sigjmp_buf here, *outer = guard;
    int32_t outer_index = inside_tile;
    if (sigsetjmp(here, 0)) {
        fail_with_bus_error(current->context);
    } else {
        guard = &here;
        inside_tile = thread + 1;
        for (int32_t i = 0; i < current->parts; i++) {
            share *of = &current->shares[(own + i) % current->parts];
            if (has_tiles(of)) run_share(current, of, thread);
        }
#if defined(__x86_64__)
        __builtin_ia32_sfence(); /* what tiles wrote past the caches comes before what follows */
#endif
    }
    guard = outer;
    inside_tile = outer_index;
}

static int unfinished(job *current) {
    for (int32_t i = 0; i < current->parts; i++)
        if (has_tiles(&current->shares[i])) return 1;
    return 0;
}

static job *joinable(void) {
    for (job *current = jobs; current; current = current->following)
        if (current->joined < current->threads && !stopped(current->context)
            && unfinished(current)) return current;
    return NULL;
}

/* Whether another job is published before it is time to sleep. */
static int stays_awake(int64_t seen, int64_t since) {
    for (;;) {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&published, memory_order_relaxed) != seen) return 1;
            pause_briefly();
        }
        int64_t idle = nanoseconds() - since;
        if (idle > AWAKE_IN_CALL_NANOSECONDS) return 0;
        if (idle > AWAKE_NANOSECONDS && !atomic_load_explicit(&calls, memory_order_relaxed))
            return 0;
    }
}

/* With the lock held: a job, if one comes before it is time to sleep. Jobs that others do
 * keep no worker awake. */
static job *job_while_awake(void) {
    job *found = joinable();
    int64_t since = nanoseconds();
    for (int more = 1; more && !found; found = joinable()) {
        int64_t seen = atomic_load(&published);
        awake++;
        release();
        more = stays_awake(seen, since);
        acquire();
        awake--;
    }
    return found;
}

/* With the lock held. Who is woken too late for one job is awake for the next. */
static job *next_job(void) {
    job *found;
    while (!(found = job_while_awake())) {
        sleeping++;
        pthread_cond_wait(&work, &lock);
        sleeping--;
    }
    return found;
}

static void *worker(void *number) {
    int32_t mine = (int32_t)(intptr_t)number;
    acquire();
    for (;;) {
        job *current = next_job();
        int32_t thread = current->joined++;
        atomic_fetch_add(&current->running, 1);
        release();
        /* The first share is the caller's. */
        run_tiles(current, thread, current->parts > 1 ? 1 + mine % (current->parts - 1) : 0);
        acquire();
        /* After this, under the lock, the job is its caller's to leave. */
        if (atomic_fetch_sub(&current->running, 1) == 1 && waiting) pthread_cond_broadcast(&done);
    }
    return NULL;
}

#if defined(__linux__)
/* With the lock held, before workers are woken: keep them off the caller's processor. Kernels of
 * virtual machines may take a halted processor for a busy one, and leave a woken thread waiting
 * behind the one that woke it. */
static void make_way(void) {
    int here = sched_getcpu();
    if (here < 0 || here == avoided || workers > PLACED) return;
    cpu_set_t others;
    if (sched_getaffinity(0, sizeof others, &others) != 0) return;
    CPU_CLR(here, &others);
    if (!CPU_COUNT(&others)) return;
    for (int32_t i = 0; i < workers; i++) pthread_setaffinity_np(placed[i], sizeof others, &others);
    avoided = here;
}
#else
static void make_way(void) {}
#endif

/* With the lock held. Fewer workers than wanted is no failure: the caller works too. */
static void start_workers(int32_t wanted) {
    if (workers >= wanted) return;
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    pthread_t thread;
    while (workers < wanted) {
        void *number = (void *)(intptr_t)workers;
        if (pthread_create(&thread, &attributes, worker, number) != 0) break;
        if (workers < PLACED) placed[workers] = thread;
        workers++;
    }
    avoided = -1;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void publish(job *mine, int32_t helpers) {
    acquire();
    start_workers(helpers);
    mine->following = jobs;
    jobs = mine;
    atomic_fetch_add(&published, 1);
    int32_t missing = helpers - awake;
    if (sleeping && missing > 0) make_way();
    if (sleeping && missing == 1) pthread_cond_signal(&work);
    else if (sleeping && missing > 1) pthread_cond_broadcast(&work);
    release();
}

static void withdraw(job *mine) {
    acquire();
    for (job **link = &jobs; *link; link = &(*link)->following)
        if (*link == mine) {
            *link = mine->following;
            break;
        }
    if (atomic_load(&mine->running)) {
        release();
        int64_t deadline = nanoseconds() + AWAKE_NANOSECONDS;
        while (atomic_load(&mine->running) && nanoseconds() < deadline) pause_briefly();
        acquire();
        while (atomic_load(&mine->running)) {
            waiting++;
            pthread_cond_wait(&done, &lock);
            waiting--;
        }
    }
    release();
}

static int64_t first_tile(const job *of, int64_t tiles, int32_t part) {
    return tiles / of->parts * part + tiles % of->parts * part / of->parts;
}

static void run(weft_context *context, void (*tile)(void *, int64_t, int32_t), void *closure,
                int64_t tiles, int32_t shares) {
    int32_t threads = context->threads;
    if (tiles <= 1 || threads <= 1 || inside_tile) {
        int32_t thread = inside_tile ? inside_tile - 1 : 0;
        for (int64_t i = 0; i < tiles; i++) {
            if (stopped(context)) {
                atomic_store(&((call *)context)->skipped, 1);
                return;
            }
            tile(closure, i, thread);
        }
        return;
    }
    int32_t most = tiles < threads ? (int32_t)tiles : threads;
    job mine; /* not all of its shares are written */
    mine.context = context;
    mine.tile = tile;
    mine.closure = closure;
    mine.threads = threads;
    mine.joined = 1;
    atomic_init(&mine.running, 0);
    mine.parts = most < shares ? most : shares;
    for (int32_t i = 0; i < mine.parts; i++) {
        atomic_init(&mine.shares[i].next, first_tile(&mine, tiles, i));
        mine.shares[i].end = first_tile(&mine, tiles, i + 1);
    }
    publish(&mine, most - 1);
    run_tiles(&mine, 0, 0);
    withdraw(&mine);
    if (unfinished(&mine)) atomic_store(&((call *)context)->skipped, 1);
}

static void parallel_for(weft_context *context, void (*tile)(void *, int64_t, int32_t),
                         void *closure, int64_t tiles) {
    run(context, tile, closure, tiles, SHARES);
}

/* Tiles begin in increasing order, so that one may wait for those before it. */
static void parallel_in_order(weft_context *context, void (*tile)(void *, int64_t, int32_t),
                              void *closure, int64_t tiles) {
    run(context, tile, closure, tiles, 1);
}

static void roots(double *x, int64_t count); /* see `roots.c` */
static void columns(weft_context *context, void *target, int64_t between, const void *source,
                    int64_t apart, int64_t step, int64_t columns, int64_t records, int64_t bytes);

/* ------------------------------------------------------------ the call from Python */

/* What Python fills in: then `buffers` pointers and the integers follow. */
typedef struct {
    weft_entry *entry;
    int64_t threads;
    volatile int32_t *cancel; /* the caller's flag, or NULL */
    int64_t interruptible;    /* on the main thread, with Python's default SIGINT handler */
    int64_t detail[4];        /* given back */
    int64_t buffers;
    char *arguments[];
} record;

int32_t weft_call(record *given) {
    call mine = {.cancelled = 0};
    weft_context *context = &mine.context;
    context->parallel_for = parallel_for;
    context->parallel_in_order = parallel_in_order;
    context->roots = roots;
    context->columns = columns;
    context->cancel = given->cancel ? given->cancel : &mine.cancelled;
    context->threads = given->threads < 1 ? 1
        : given->threads > MAXIMUM_THREADS ? MAXIMUM_THREADS : (int32_t)given->threads;

    pthread_once(&once, prepare_process);
    install_bus_handler();
    if (given->interruptible) install_interrupt_handler(context->cancel);
    const int several = context->threads > 1;
    if (several) atomic_fetch_add(&calls, 1);
    sigjmp_buf here, *outer = guard;
    volatile int32_t status = OK;
    if (sigsetjmp(here, 0)) {
        fail_with_bus_error(context);
    } else {
        guard = &here;
        status = given->entry(context, given->arguments,
                              (const int64_t *)(given->arguments + given->buffers));
    }
    guard = outer;
    if (several) atomic_fetch_sub(&calls, 1);
    if (given->interruptible) restore_interrupt_handler();

    memcpy(given->detail, context->detail, sizeof given->detail);
    if (context->error) return context->error;
    if (status == OK && atomic_load(&mine.skipped)) return CANCELLED;
    return status;
}

/* Calls one after another, up to one that fails. */
typedef struct {
    int64_t count, done; /* done is given back */
    int64_t places[];    /* where each record begins, in words from here */
} sequence;

int32_t weft_call_all(sequence *given) {
    atomic_fetch_add(&calls, 1); /* workers stay awake between them */
    int32_t status = OK;
    for (given->done = 0; given->done < given->count; given->done++) {
        status = weft_call((record *)((int64_t *)given + given->places[given->done]));
        if (status != OK) break;
    }
    atomic_fetch_sub(&calls, 1);
    return status;
}

/* How many workers there are, for tests. */
int32_t weft_workers(void) {
    acquire();
    int32_t count = workers;
    release();
    return count;
}
