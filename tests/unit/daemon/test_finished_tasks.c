/* Tests of tasks that have ended: when the loop gets them back, and how often they wake it. */
#include <unistd.h>

#include "conf/clock.h"
#include "tests/fixtures/process.h"
#include "tests/unit/daemon/workers_rig.h"

static void finish_one(struct note *note)
{
    size_t before = bench.done;
    workers_submit(bench.workers, &note->task);
    run_until_done(before + 1);
}

/* A patient task waits a short time for others, or wakes the loop at once. */
TEST(a_patient_task_comes_back_soon)
{
    bench_open(1);
    struct note notes[9];
    uint64_t start = clock_now_ns();
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        notes[i] = note_of('x', 0, false);
        notes[i].patient = true;
        if (i % 3 == 0)
            usleep(5000); /* the next one wakes the loop */
        finish_one(&notes[i]);
    }
    assert_true(clock_ms(start, clock_now_ns()) < 1000 * patience(20));
    bench_end();
}

static void note_done(void *context)
{
    *(size_t *)context = bench.done;
}

TEST(finished_tasks_can_be_collected_at_once)
{
    size_t done_before_hook = 0;
    bench_open(1);
    workers_on_collected(bench.workers, note_done, &done_before_hook);
    struct note a = note_of('a', 0, false), gate = note_of('g', 0, true);
    a.patient = true;
    workers_submit(bench.workers, &a.task);
    workers_submit(bench.workers, &gate.task);
    sem_wait(&bench.begun);
    sem_wait(&bench.begun); /* the gate began: the other one has ended */
    workers_collect(bench.workers);
    assert_int_equal(bench.done, 1);
    assert_int_equal(done_before_hook, 1);
    sem_post(&bench.gate);
    run_until_done(2);
    bench_end();
}

/* The loop turns at an interval and for many patient tasks together, not for each of them. */
static void check_share_wake_ups(bool yields)
{
    static struct note notes[4000];
    size_t turns = 0;
    bench_open(2);
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        notes[i] = note_of('x', 0, true);
        notes[i].patient = !yields;
        notes[i].yields = yields;
        sem_post(&bench.gate);
    }
    uint64_t start = clock_now_ns();
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        workers_submit(bench.workers, &notes[i].task);
    for (; bench.done < COUNT_OF(notes); turns++)
        uv_run(&bench.loop, UV_RUN_ONCE);
    double ms = clock_ms(start, clock_now_ns());
    /* The last ones that yield find few others that wait. */
    assert_true((double)turns <= COUNT_OF(notes) / 32 + 2 * ms + 10 + (yields ? 32 : 0));
    bench_end();
}

TEST(patient_tasks_share_wake_ups)
{
    check_share_wake_ups(false);
}

TEST(tasks_that_yield_share_them_while_others_wait)
{
    check_share_wake_ups(true);
}

static void check_all_come_back(uint32_t threads, uint32_t priorities, bool patient)
{
    static struct note notes[2000];
    bench_open(threads);
    for (uint32_t i = 0; i < COUNT_OF(notes); i++) {
        notes[i] = note_of('x', i % priorities, true);
        notes[i].patient = patient;
        sem_post(&bench.gate);
        workers_submit(bench.workers, &notes[i].task);
    }
    run_until_done(COUNT_OF(notes)); /* the last patient one need not wait */
    bench_end();
}

TEST(patient_tasks_all_come_back)
{
    check_all_come_back(3, 2, true);
}

TEST(many_tasks_all_come_back)
{
    check_all_come_back(4, WORKERS_PRIORITIES, false);
}

TEST_MAIN(.name = "finished_tasks")
