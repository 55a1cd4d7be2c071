/* Tests of the waker: many wakes of other threads cause one callback, and no wake is lost. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "daemon/workers/waker.h"
#include "tests/fixtures/test.h"

#define THREADS 4
#define WAKES   50000

struct bench {
    uv_loop_t loop;
    struct waker waker;
    uv_timer_t limit;
    pthread_t threads[THREADS];
    atomic_size_t written[THREADS]; /* relaxed: the last wake must order them */
    atomic_size_t begun;
    size_t seen, calls;
    bool late;
};

static void on_limit(uv_timer_t *timer)
{
    struct bench *bench = timer->data;
    bench->late = true;
    uv_stop(&bench->loop);
}

static void open_bench(struct bench *bench, waker_cb callback)
{
    *bench = (struct bench){.calls = 0};
    assert_int_equal(uv_loop_init(&bench->loop), 0);
    assert_int_equal(waker_open(&bench->waker, &bench->loop, callback, bench), 0);
    uv_timer_init(&bench->loop, &bench->limit);
    bench->limit.data = bench;
    uv_timer_start(&bench->limit, on_limit, 60000, 0);
}

static void close_bench(struct bench *bench)
{
    waker_close(&bench->waker);
    uv_close((uv_handle_t *)&bench->limit, NULL);
    assert_int_equal(uv_run(&bench->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&bench->loop), 0);
}

static void count(void *context)
{
    struct bench *bench = context;
    bench->calls++;
}

TEST(test_once_for_many)
{
    struct bench bench;
    open_bench(&bench, count);
    uv_run(&bench.loop, UV_RUN_NOWAIT);
    assert_int_equal(bench.calls, 0);
    for (size_t round = 1; round <= 3; round++) {
        for (int i = 0; i < 5; i++)
            waker_wake(&bench.waker);
        for (int i = 0; i < 3; i++)
            uv_run(&bench.loop, UV_RUN_NOWAIT);
        assert_int_equal(bench.calls, round);
    }
    close_bench(&bench);
}

static void wake_again(void *context)
{
    struct bench *bench = context;
    if (++bench->calls < 3)
        waker_wake(&bench->waker);
    else
        uv_stop(&bench->loop);
}

TEST(test_woken_by_its_callback)
{
    struct bench bench;
    open_bench(&bench, wake_again);
    waker_wake(&bench.waker);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    assert_int_equal(bench.calls, 3);
    assert_false(bench.late);
    close_bench(&bench);
}

static void *wake_often(void *context)
{
    struct bench *bench = context;
    for (size_t i = 0; i < WAKES; i++)
        waker_wake(&bench->waker);
    size_t mine = atomic_fetch_add_explicit(&bench->begun, 1, memory_order_relaxed);
    atomic_store_explicit(&bench->written[mine], WAKES, memory_order_relaxed);
    waker_wake(&bench->waker);
    return NULL;
}

static void add_up(void *context)
{
    struct bench *bench = context;
    bench->calls++;
    bench->seen = 0;
    for (size_t i = 0; i < THREADS; i++)
        bench->seen += atomic_load_explicit(&bench->written[i], memory_order_relaxed);
    if (bench->seen == THREADS * (size_t)WAKES)
        uv_stop(&bench->loop);
}

/* A thread's writes before its last wake are seen, even if that wake is merged with others. */
TEST(test_no_wake_is_lost)
{
    struct bench bench;
    open_bench(&bench, add_up);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&bench.threads[i], NULL, wake_often, &bench), 0);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(bench.threads[i], NULL);
    assert_false(bench.late);
    assert_int_equal(bench.seen, THREADS * (size_t)WAKES);
    assert_true(bench.calls <= THREADS * (size_t)WAKES + THREADS);
    close_bench(&bench);
}

TEST(test_no_descriptor_left)
{
    struct rlimit before, none;
    struct waker waker;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    getrlimit(RLIMIT_NOFILE, &before);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    int status = waker_open(&waker, &loop, count, NULL);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(status, UV_EMFILE);
    assert_int_equal(uv_loop_close(&loop), 0); /* no handle is left */
}

TEST_MAIN()
