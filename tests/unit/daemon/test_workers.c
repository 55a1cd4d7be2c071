/* Tests of the worker threads: priorities, withdrawal, and a worker that hangs. */
#include <semaphore.h>
#include <unistd.h>

#include "daemon/pipeline/workers.h"
#include "tests/fixtures/test.h"

/* The state of the running test. */
static struct {
    uv_loop_t loop;
    struct workers *workers;
    sem_t begun, gate;
    char order[64];
    size_t ran, done;
} bench;

struct note {
    struct worker_task task;
    char letter;
    bool waits; /* at the gate */
    bool patient;
};

static void run(struct worker_task *task, struct worker_tools *tools)
{
    struct note *note = container_of(task, struct note, task);
    task->patient = note->patient;
    assert_non_null(tools->codec);
    assert_non_null(tools->sink);
    sem_post(&bench.begun);
    if (note->waits)
        sem_wait(&bench.gate);
    else
        bench.order[bench.ran++] = note->letter; /* one worker: no race */
}

static void done(struct worker_task *task)
{
    bench.done++;
}

static struct note note_of(char letter, uint32_t priority, bool waits)
{
    return (struct note){.task = {.priority = priority, .run = run, .done = done},
                         .letter = letter, .waits = waits};
}

static void bench_open(uint32_t threads)
{
    memset(&bench, 0, sizeof bench);
    assert_int_equal(uv_loop_init(&bench.loop), 0);
    sem_init(&bench.begun, 0, 0);
    sem_init(&bench.gate, 0, 0);
    bench.workers = workers_create(&bench.loop, threads);
    assert_non_null(bench.workers);
}

/* Submits to an idle worker, and waits until it has begun. */
static void submit_and_wait(struct note *note)
{
    workers_submit(bench.workers, &note->task);
    sem_wait(&bench.begun);
}

static void run_until_done(size_t count)
{
    while (bench.done < count)
        uv_run(&bench.loop, UV_RUN_ONCE);
}

static void bench_end(void)
{
    workers_stop(bench.workers);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    workers_destroy(bench.workers);
    assert_int_equal(uv_loop_close(&bench.loop), 0);
    sem_destroy(&bench.begun);
    sem_destroy(&bench.gate);
}

TEST(what_is_nearest_its_end_goes_first)
{
    bench_open(1);
    struct note gate = note_of('g', 0, true), a = note_of('a', 0, false),
                b = note_of('b', 3, false), c = note_of('c', 1, false),
                d = note_of('d', 3, false);
    struct note *all[] = {&a, &b, &c, &d};
    submit_and_wait(&gate); /* keeps the only worker busy */
    for (size_t i = 0; i < 4; i++)
        workers_submit(bench.workers, &all[i]->task);
    sem_post(&bench.gate);
    run_until_done(5);
    assert_string_equal(bench.order, "bdca");
    bench_end();
}

TEST(a_task_not_begun_can_be_withdrawn)
{
    bench_open(1);
    struct note gate = note_of('g', 0, true), a = note_of('a', 2, false);
    submit_and_wait(&gate);
    workers_submit(bench.workers, &a.task);
    assert_true(workers_withdraw(bench.workers, &a.task));
    assert_false(workers_withdraw(bench.workers, &a.task));
    assert_false(workers_withdraw(bench.workers, &gate.task));
    sem_post(&bench.gate);
    run_until_done(1);
    assert_string_equal(bench.order, "");
    bench_end();
}

TEST(a_worker_that_hangs_is_replaced)
{
    bench_open(1);
    struct note stuck = note_of('s', 0, true), a = note_of('a', 0, false);
    submit_and_wait(&stuck);
    assert_true(workers_give_up(bench.workers, &stuck.task));
    assert_int_equal(workers_given_up(bench.workers), 1);
    workers_submit(bench.workers, &a.task);
    run_until_done(1);
    assert_string_equal(bench.order, "a");
    /* The old thread returns after all: its task is handed in, and the thread ends. */
    sem_post(&bench.gate);
    run_until_done(2);
    bench_end();
}

/* ---- tasks that go on elsewhere ---- */

static struct worker_task *handed_on; /* by a worker; the test submits it again */

static void hand_on_once(struct worker_task *task, struct worker_tools *tools)
{
    struct note *note = container_of(task, struct note, task);
    note->task.run = run;
    if (note->waits)
        sem_wait(&bench.gate);
    note->waits = false;
    workers_hand_on(bench.workers, tools, task);
    handed_on = task;
    sem_post(&bench.begun);
}

TEST(a_task_that_was_handed_on_is_submitted_again)
{
    bench_open(1);
    struct note a = note_of('a', 0, false), b = note_of('b', 0, false);
    a.task.run = hand_on_once;
    submit_and_wait(&a);
    assert_ptr_equal(handed_on, &a.task);
    assert_false(workers_withdraw(bench.workers, &a.task));
    workers_submit(bench.workers, &b.task); /* its worker goes on with other tasks */
    run_until_done(1);
    assert_string_equal(bench.order, "b");
    assert_int_equal(workers_usage(bench.workers).busy, 0);
    workers_submit(bench.workers, &a.task);
    run_until_done(2);
    assert_string_equal(bench.order, "ba");
    bench_end();
}

/* The worker is replaced, and hands the task on after all. Its thread ends. */
TEST(a_worker_that_was_given_up_hands_its_task_on)
{
    bench_open(1);
    struct note a = note_of('a', 0, true), b = note_of('b', 0, false);
    a.task.run = hand_on_once;
    workers_submit(bench.workers, &a.task);
    while (workers_usage(bench.workers).busy == 0)
        usleep(1000);
    assert_true(workers_give_up(bench.workers, &a.task));
    sem_post(&bench.gate);
    sem_wait(&bench.begun);
    assert_true(workers_give_up(bench.workers, &a.task)); /* no worker runs it */
    assert_int_equal(workers_given_up(bench.workers), 1);
    workers_submit(bench.workers, &a.task);
    workers_submit(bench.workers, &b.task);
    run_until_done(2);
    assert_string_equal(bench.order, "ab");
    bench_end();
}

/* A patient task is reported together with the next one, or else by workers_collect. */
TEST(news_that_can_wait_does_not_get_lost)
{
    bench_open(1);
    struct note gate = note_of('g', 0, true), a = note_of('a', 0, false),
                long_one = note_of('l', 0, true);
    a.patient = true;
    submit_and_wait(&gate);
    workers_submit(bench.workers, &a.task);
    workers_submit(bench.workers, &long_one.task);
    sem_post(&bench.gate);
    run_until_done(1);
    sem_wait(&bench.begun);
    sem_wait(&bench.begun); /* the long one began: the other two have ended */
    workers_collect(bench.workers);
    assert_int_equal(bench.done, 2);
    sem_post(&bench.gate);
    run_until_done(3);
    bench_end();
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

TEST_MAIN(.name = "workers")
