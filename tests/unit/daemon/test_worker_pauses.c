/* Tests of worker threads that pause while the loop and others need their CPUs. */
#include <sys/syscall.h>
#include <unistd.h>

#include "conf/clock.h"
#include "tests/fixtures/process.h"
#include "tests/unit/daemon/workers_rig.h"

static atomic_ulong added_ns[2]; /* to the clocks: the time of day, and CPU time */

/* Replaces the C library's function. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    bool is_cpu = clock == CLOCK_THREAD_CPUTIME_ID;
    if (is_cpu || clock == CLOCK_MONOTONIC)
        time->tv_sec += (time_t)(added_ns[is_cpu] / NS_PER_S);
    return result;
}

/* The loop needs `percent` of a CPU for a while, then some task has finished. */
static void use_cpu(uint64_t percent)
{
    added_ns[0] += 100 * NS_PER_S;
    added_ns[1] += percent * NS_PER_S;
    workers_collect(bench.workers);
}

TEST(threads_pause_while_the_loop_needs_their_cpus)
{
    static const struct {
        uint64_t percent;
        uint32_t working;
    } cases[] = {{0, 4}, {20, 4}, {30, 3}, {70, 3}, {80, 2}, {100, 2}, {140, 2}, {5, 4}, {90, 2}};
    struct note notes[4];
    bench_open(COUNT_OF(notes));
    workers_leave_cpus(bench.workers, 2, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        use_cpu(cases[i].percent);
        assert_true(await(20, workers_spare(bench.workers) == cases[i].working));
    }
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        notes[i] = note_of('x', 0, true);
        assert_int_equal(workers_spare(bench.workers), i < 2 ? 2 - i : 0);
        workers_submit(bench.workers, &notes[i].task);
    }
    sem_wait(&bench.begun);
    sem_wait(&bench.begun);
    assert_int_equal(workers_usage(bench.workers).busy, 2);
    assert_int_equal(sem_trywait(&bench.begun), -1);
    use_cpu(50);
    sem_wait(&bench.begun);
    use_cpu(10);
    sem_wait(&bench.begun);
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        sem_post(&bench.gate);
    run_until_done(COUNT_OF(notes));
    bench_end();
}

static struct note next;
static bool next_began_early;

/* Hands its task on, and submits another one before it returns. */
static void hand_on_and_submit(struct worker_task *task, struct worker_tools *tools)
{
    workers_hand_on(tools, task);
    workers_submit(bench.workers, &next.task);
    next_began_early = await(0.3, sem_trywait(&bench.begun) == 0);
}

/* A thread that pauses would only be woken to find that there is no place for it. */
TEST(a_thread_keeps_its_place_between_two_tasks)
{
    struct note first = note_of('f', 0, false);
    first.task.run = hand_on_and_submit;
    next = note_of('n', 0, false);
    bench_open(2);
    workers_leave_cpus(bench.workers, 1, NULL, NULL);
    use_cpu(100);
    assert_true(await(20, workers_spare(bench.workers) == 1));
    workers_submit(bench.workers, &first.task);
    run_until_done(1);
    bench_end(); /* the first task has returned, too */
    assert_false(next_began_early);
    assert_string_equal(bench.order, "n");
}

static uint64_t others_ns;

static uint64_t read_others(const void *context)
{
    assert_ptr_equal(context, &others_ns);
    return others_ns;
}

/* The others use so many percent of a CPU besides the loop. */
static void use_others(uint64_t percent)
{
    others_ns += percent * NS_PER_S;
}

TEST(threads_pause_for_others)
{
    bench_open(4);
    workers_leave_cpus(bench.workers, 1, read_others, &others_ns);
    use_others(95);
    use_cpu(0);
    assert_true(await(20, workers_spare(bench.workers) == 3));
    use_others(180);
    use_cpu(80);
    assert_true(await(20, workers_spare(bench.workers) == 1));
    use_others(900);
    use_cpu(100);
    assert_true(await(20, workers_spare(bench.workers) == 1)); /* one always works */
    use_cpu(0);
    assert_true(await(20, workers_spare(bench.workers) == 4));
    bench_end();
}

/* A thread that hangs does not count, and the end of the pool waits for no other. */
TEST(threads_that_pause_replace_one_that_hangs)
{
    struct note gate = note_of('g', 0, true), other = note_of('h', 0, true),
                a = note_of('a', 0, false);
    bench_open(2);
    workers_leave_cpus(bench.workers, 1, NULL, NULL);
    use_cpu(100);
    submit_and_wait(&gate);
    workers_submit(bench.workers, &other.task);
    assert_int_equal(workers_spare(bench.workers), 0);
    workers_give_up(bench.workers, &gate.task);
    sem_wait(&bench.begun);
    workers_submit(bench.workers, &a.task);
    assert_int_equal(workers_usage(bench.workers).busy, 1);
    sem_post(&bench.gate);
    sem_post(&bench.gate);
    workers_stop(bench.workers);
    assert_string_equal(bench.order, "a");
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    await(20, workers_away(bench.workers) == 0);
    workers_destroy(bench.workers);
    assert_int_equal(uv_loop_close(&bench.loop), 0);
}

TEST_MAIN(.name = "worker_pauses")
