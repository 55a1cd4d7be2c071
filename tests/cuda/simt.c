/*
 * simt.c - runs kernels on the host: those of the codecs (gpu/simt/simt_host.h) and those of
 * the operations (tests/cuda/cuda_host.h).
 *
 * Each thread of a block is a coroutine with its own stack. A lane that waits for its warp
 * switches to the next lane of the warp. When all lanes of a warp wait for the block, or a lane
 * waits for another thread's value (relax), the next warp runs. After simt_shuffle, lanes and warps
 * take turns in random order. A thread that has returned counts as present at every barrier, as on
 * a device.
 *
 * ThreadSanitizer sees a kernel as work of the thread that executes the stream. So it finds races
 * of kernels with other threads, but not between the threads of a block. Its report names the line
 * of the kernel, then run_thread once per suspended coroutine. Fibers (sanitizer/tsan_interface.h)
 * would remove this repetition, but kernels take ten times as long with them: the time of a switch
 * grows with the number of fibers.
 */
#include "gpu/simt/simt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "tests/cuda/cuda_runtime.h"
#include "tests/cuda/simt.h"

#if defined(__SANITIZE_ADDRESS__) || defined(SIMT_ASAN)
#define ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifdef ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define THREADS_MAX 1024
#define LANES 32
#define STACK_BYTES (64 * 1024)
#define STACKS_BYTES ((size_t)THREADS_MAX * STACK_BYTES)
/* At the end of each stack, for AddressSanitizer. */
#define GUARD_BYTES 2048
/* The first frame of a lane is this much lower on its stack than that of the lane before. So those
 * of a warp are in different sets of the processor's cache. */
#define LANE_BYTES 128
/* Of the shared memory before a kernel. On a device, it has what the last kernel left. */
#define FILL 0xA5
/* Switches without an open barrier after which the block counts as deadlocked. A thread that waits
 * for another block never continues, because earlier blocks have ended. */
#define IDLE_SWITCHES_MAX 1000000

enum state { RUNS, AT_BLOCK_BARRIER, RETURNED };

struct thread {
#if defined(__x86_64__)
    void *stack_pointer; /* of a suspended thread */
#else
    ucontext_t context;
#endif
    unsigned char *stack;
    enum state state;
};

struct warp {
    unsigned alive, arrived, generation;
    uint32_t values[2][LANES]; /* exchanged at the barrier of an even and of an odd generation */
};

static struct {
    void (*kernel)(const void *args);
    const void *args;
    struct simt_shape block, blocks, shape; /* shape: of a block's threads */
    unsigned thread_count;
    struct thread threads[THREADS_MAX];
    struct warp warps[THREADS_MAX / LANES];
    unsigned alive, arrived, generation;
    int count, counted; /* of the flags at this block barrier, and at the last one */
    unsigned now;       /* the running thread */
    unsigned long idle;
    uint32_t random; /* state of the generator of the order of threads; 0: a fixed order */
    unsigned char *shared, *stacks;
    struct thread launcher;
} simt;

void (*simt_publishes)(void);

/* ---- coroutines ---- */

#if defined(__x86_64__)
/* Saves the callee-saved registers on the old stack and loads those of the new one. swapcontext
 * does the same with a system call for the signal mask, which takes ten times as long. */
__attribute__((naked, noinline)) static void
switch_stack(void **save __attribute__((unused)), void *load __attribute__((unused)))
{
    __asm__("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n\t"
            "movq %rsp, (%rdi); movq %rsi, %rsp\n\t"
            "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret");
}
#endif

static inline void switch_thread(struct thread *from, struct thread *to)
{
#if defined(__x86_64__)
    switch_stack(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
}

/* AddressSanitizer must know on which stack the code runs. It takes all stacks of a block for one,
 * because switches would take twice as long if it were told of each. enter_stacks: before the first
 * thread starts; in_stacks: when it has started; leave_stacks: before the launcher continues;
 * left_stacks: when it has continued. */
#ifdef ASAN
static struct {
    void *fake;
    const void *bottom;
    size_t bytes;
} of_launcher;

static void enter_stacks(void)
{
    __sanitizer_start_switch_fiber(&of_launcher.fake, simt.stacks, STACKS_BYTES);
}
static void in_stacks(void)
{
    __sanitizer_finish_switch_fiber(NULL, &of_launcher.bottom, &of_launcher.bytes);
}
static void leave_stacks(void)
{
    __sanitizer_start_switch_fiber(NULL, of_launcher.bottom, of_launcher.bytes);
}
static void left_stacks(void)
{
    __sanitizer_finish_switch_fiber(of_launcher.fake, NULL, NULL);
}
#else
static void enter_stacks(void)
{
}
static void in_stacks(void)
{
}
static void leave_stacks(void)
{
}
static void left_stacks(void)
{
}
#endif

static struct thread *thread_of(unsigned index) { return &simt.threads[index]; }

static uint32_t next_random(void)
{
    simt.random ^= simt.random << 13;
    simt.random ^= simt.random >> 17;
    simt.random ^= simt.random << 5;
    return simt.random;
}

void simt_shuffle(uint32_t seed)
{
    simt.random = seed;
}

/* Makes a lane of this warp the running thread. Returns NULL if none can run. */
static struct thread *next_lane(unsigned warp)
{
    unsigned first = simt.now + 1, step = 1;
    if (simt.random) {
        first = next_random();
        step = next_random() | 1; /* odd, so that every lane has its turn */
    }
    for (unsigned i = 0; i < LANES; i++) {
        unsigned index = warp * LANES + (first + i * step) % LANES;
        if (index < simt.thread_count && thread_of(index)->state == RUNS) {
            simt.now = index;
            return thread_of(index);
        }
    }
    return NULL;
}

/* The next thread to run: a lane of the same warp if one can run and `stays`, else one of the next
 * warp that has one. NULL: all have returned. */
static struct thread *next_thread(bool stays)
{
    enum { turns_of_warp = 64 }; /* on average, in random order */
    unsigned warps = (simt.thread_count + LANES - 1) / LANES, warp = simt.now / LANES;
    if (simt.random && next_random() % turns_of_warp == 0)
        stays = false;
    struct thread *next = stays ? next_lane(warp) : NULL;
    unsigned first = simt.random ? next_random() % warps : warp + 1;
    for (unsigned i = 0; i < warps && !next; i++)
        next = next_lane((first + i) % warps);
    return next;
}

static inline void switch_away(bool stays)
{
    struct thread *self = thread_of(simt.now), *next;
    unsigned index = simt.now + 1;
    if (stays && !simt.random && index % LANES != 0 && thread_of(index)->state == RUNS &&
        index < simt.thread_count) {
        simt.now = index;
        next = thread_of(index);
    } else {
        next = next_thread(stays);
    }
    if (++simt.idle > IDLE_SWITCHES_MAX || (!next && simt.alive > 0)) {
        fprintf(stderr, "simt: the threads of block %u, %u, %u wait for each other\n",
                simt.block.x, simt.block.y, simt.block.z);
        abort();
    }
    if (!next) {
        next = &simt.launcher;
        leave_stacks();
    }
    if (next != self)
        switch_thread(self, next);
}

static inline void yield(void)
{
    switch_away(true);
}

/* ---- barriers ---- */

static struct warp *warp_of(unsigned thread) { return &simt.warps[thread / LANES]; }

static inline void open_warp(struct warp *warp)
{
    if (warp->alive > 0 && warp->arrived == warp->alive) {
        warp->arrived = 0;
        warp->generation++;
        simt.idle = 0;
    }
}

static void open_block(void)
{
    if (simt.alive == 0 || simt.arrived < simt.alive)
        return;
    simt.arrived = 0;
    simt.generation++;
    simt.counted = simt.count;
    simt.count = 0;
    simt.idle = 0;
    for (unsigned i = 0; i < simt.thread_count; i++)
        if (thread_of(i)->state == AT_BLOCK_BARRIER)
            thread_of(i)->state = RUNS;
}

void warp_barrier(void)
{
    struct warp *warp = warp_of(simt.now);
    unsigned generation = warp->generation;
    warp->arrived++;
    open_warp(warp);
    while (warp->generation == generation)
        yield();
}

int block_count(bool flag)
{
    unsigned generation = simt.generation;
    simt.count += flag;
    simt.arrived++;
    thread_of(simt.now)->state = AT_BLOCK_BARRIER;
    open_block();
    while (simt.generation == generation)
        yield();
    return simt.counted;
}

void block_barrier(void) { (void)block_count(false); }

uint32_t warp_read(uint32_t value, int lane)
{
    struct warp *warp = warp_of(simt.now);
    uint32_t *values = warp->values[warp->generation % 2];
    values[simt.now % LANES] = value;
    warp_barrier();
    return values[lane & (LANES - 1)];
}

uint32_t warp_ballot(bool flag)
{
    struct warp *warp = warp_of(simt.now);
    uint32_t *values = warp->values[warp->generation % 2], ballot = 0;
    values[simt.now % LANES] = flag;
    warp_barrier();
    for (unsigned i = 0; i < LANES && simt.now / LANES * LANES + i < simt.thread_count; i++)
        ballot |= values[i] << i;
    return ballot;
}

void relax(void)
{
    switch_away(false);
}

int thread_index(void) { return (int)simt.now; }
int block_threads(void) { return (int)simt.thread_count; }
int block_index(void) { return (int)simt.block.x; }
int block_row(void) { return (int)simt.block.y; }
struct simt_shape simt_block(void) { return simt.block; }
struct simt_shape simt_blocks(void) { return simt.blocks; }
struct simt_shape simt_thread(void)
{
    unsigned x = simt.now % simt.shape.x, row = simt.now / simt.shape.x;
    return (struct simt_shape){x, row % simt.shape.y, row / simt.shape.y};
}
int lane_index(void) { return (int)(simt.now % LANES); }
unsigned char *simt_dynamic_shared(void) { return simt.shared; }

/* ---- launches ---- */

static void run_thread(void)
{
    if (simt.now == 0)
        in_stacks();
    simt.kernel(simt.args);
    unsigned self = simt.now;
    thread_of(self)->state = RETURNED;
    simt.alive--;
    warp_of(self)->alive--;
    open_warp(warp_of(self));
    open_block();
    yield();
}

static void prepare(struct thread *thread)
{
    thread->state = RUNS;
    if (!thread->stack) {
        thread->stack = simt.stacks + (size_t)(thread - simt.threads) * STACK_BYTES;
#ifdef ASAN
        __asan_poison_memory_region(thread->stack, GUARD_BYTES);
#endif
    }
#if defined(__x86_64__)
    /* The frame that switch_stack pops: six registers and the address of run_thread. At its entry
     * the stack pointer is 8 modulo 16, as after a call. */
    size_t lane = (size_t)(thread - simt.threads) % LANES;
    void **top = (void **)(thread->stack + STACK_BYTES - lane * LANE_BYTES) - 1;
    *--top = (void *)run_thread;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    thread->stack_pointer = top;
#else
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_BYTES;
    thread->context.uc_link = NULL;
    makecontext(&thread->context, run_thread, 0);
#endif
}

static void run_block(size_t shared)
{
    simt.shared = malloc(shared ? shared : 1);
    memset(simt.shared, FILL, shared);
    simt.alive = simt.thread_count;
    simt.arrived = simt.generation = 0;
    simt.count = simt.counted = 0;
    simt.idle = 0;
    memset(simt.warps, 0, sizeof simt.warps);
    for (unsigned i = 0; i < simt.thread_count; i++) {
        prepare(thread_of(i));
        warp_of(i)->alive++;
    }
    simt.now = 0;
    enter_stacks();
    switch_thread(&simt.launcher, thread_of(0));
    left_stacks();
    free(simt.shared);
    simt.shared = NULL;
}

struct launched {
    void (*kernel)(const void *args);
    struct simt_shape blocks, threads;
    size_t shared;
    _Alignas(16) unsigned char args[];
};

/* The static shared memory of all kernels, unless it has no section (gpu/simt/simt_host.h). */
extern unsigned char __start_simt_shared[] __attribute__((weak));
extern unsigned char __stop_simt_shared[] __attribute__((weak));

/* Runs on any thread, and frees the record. */
static void run_kernel(void *argument)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct launched *launched = argument;
    pthread_mutex_lock(&lock);
    if (!simt.stacks)
        simt.stacks = malloc(STACKS_BYTES);
    if (__start_simt_shared)
        memset(__start_simt_shared, FILL, (size_t)(__stop_simt_shared - __start_simt_shared));
    simt.kernel = launched->kernel;
    simt.args = launched->args;
    simt.blocks = launched->blocks;
    simt.shape = launched->threads;
    simt.thread_count = simt.shape.x * simt.shape.y * simt.shape.z;
    struct simt_shape *at = &simt.block;
    for (at->z = 0; at->z < simt.blocks.z; at->z++)
        for (at->y = 0; at->y < simt.blocks.y; at->y++)
            for (at->x = 0; at->x < simt.blocks.x; at->x++)
                run_block(launched->shared);
    pthread_mutex_unlock(&lock);
    free(launched);
}

int simt_launch_shape(void (*kernel)(const void *args), const void *args, size_t args_bytes,
                      struct simt_shape blocks, struct simt_shape threads, size_t shared,
                      struct CUstream_st *stream)
{
    unsigned count = threads.x * threads.y * threads.z;
    struct launched *launched = malloc(sizeof *launched + args_bytes);
    if (count == 0 || count > THREADS_MAX || !launched) {
        fprintf(stderr, "simt: %u threads per block; 1 to %d are allowed\n", count, THREADS_MAX);
        abort();
    }
    launched->kernel = kernel;
    launched->blocks = blocks;
    launched->threads = threads;
    launched->shared = shared;
    memcpy(launched->args, args, args_bytes);
    if (!stream) {
        run_kernel(launched);
        return 0;
    }
    int result = (int)cuda_launch_codec(stream, run_kernel, launched);
    if (result != 0)
        free(launched); /* the launch was refused */
    return result;
}

int simt_launch(void (*kernel)(const void *args), const void *args, size_t args_bytes,
                simt_grid grid, unsigned threads, size_t shared, struct CUstream_st *stream)
{
    return simt_launch_shape(kernel, args, args_bytes, (struct simt_shape){grid.x, grid.y, 1},
                             (struct simt_shape){threads, 1, 1}, shared, stream);
}
