/* The worker threads: priorities, withdrawal, and a worker that does not come back. */
#include <semaphore.h>

#include "daemon/pipeline/workers.h"
#include "tests/fixtures/test.h"

struct bench {
    uv_loop_t loop;
    struct workers *workers;
    sem_t begun, gate;
    char order[64];
    size_t ran, done;
};

struct note {
    struct worker_task task;
    struct bench *bench;
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
    sem_post(&note->bench->begun);
    if (note->waits)
        sem_wait(&note->bench->gate);
    else
        note->bench->order[note->bench->ran++] = note->letter; /* one worker: no race */
}

static void done(struct worker_task *task)
{
    container_of(task, struct note, task)->bench->done++;
}

static struct note note_of(struct bench *bench, char letter, uint32_t priority, bool waits)
{
    return (struct note){.task = {.priority = priority, .run = run, .done = done},
                         .bench = bench, .letter = letter, .waits = waits};
}

static struct bench *bench_create(uint32_t threads)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_int_equal(uv_loop_init(&bench->loop), 0);
    sem_init(&bench->begun, 0, 0);
    sem_init(&bench->gate, 0, 0);
    bench->workers = workers_create(&bench->loop, threads);
    assert_non_null(bench->workers);
    return bench;
}

static void run_until_done(struct bench *bench, size_t count)
{
    while (bench->done < count)
        uv_run(&bench->loop, UV_RUN_ONCE);
}

static void bench_end(struct bench *bench)
{
    workers_stop(bench->workers);
    uv_run(&bench->loop, UV_RUN_DEFAULT);
    workers_destroy(bench->workers);
    assert_int_equal(uv_loop_close(&bench->loop), 0);
    sem_destroy(&bench->begun);
    sem_destroy(&bench->gate);
    free(bench);
}

TEST(what_is_nearest_its_end_goes_first)
{
    struct bench *bench = bench_create(1);
    struct note gate = note_of(bench, 'g', 0, true), a = note_of(bench, 'a', 0, false),
                b = note_of(bench, 'b', 3, false), c = note_of(bench, 'c', 1, false),
                d = note_of(bench, 'd', 3, false);
    struct note *all[] = {&a, &b, &c, &d};
    workers_submit(bench->workers, &gate.task);
    sem_wait(&bench->begun); /* the only worker is busy: the rest gathers */
    for (size_t i = 0; i < 4; i++)
        workers_submit(bench->workers, &all[i]->task);
    sem_post(&bench->gate);
    run_until_done(bench, 5);
    assert_string_equal(bench->order, "bdca");
    bench_end(bench);
}

TEST(a_task_not_begun_can_be_withdrawn)
{
    struct bench *bench = bench_create(1);
    struct note gate = note_of(bench, 'g', 0, true), a = note_of(bench, 'a', 2, false);
    workers_submit(bench->workers, &gate.task);
    sem_wait(&bench->begun);
    workers_submit(bench->workers, &a.task);
    assert_true(workers_withdraw(bench->workers, &a.task));
    assert_false(workers_withdraw(bench->workers, &a.task));
    assert_false(workers_withdraw(bench->workers, &gate.task));
    sem_post(&bench->gate);
    run_until_done(bench, 1);
    assert_string_equal(bench->order, "");
    bench_end(bench);
}

TEST(a_worker_that_hangs_is_replaced)
{
    struct bench *bench = bench_create(1);
    struct note stuck = note_of(bench, 's', 0, true), a = note_of(bench, 'a', 0, false);
    workers_submit(bench->workers, &stuck.task);
    sem_wait(&bench->begun);
    assert_true(workers_give_up(bench->workers, &stuck.task));
    assert_int_equal(workers_given_up(bench->workers), 1);
    workers_submit(bench->workers, &a.task);
    run_until_done(bench, 1);
    assert_string_equal(bench->order, "a");
    /* The old thread comes back after all: its task is handed in, the thread ends. */
    sem_post(&bench->gate);
    run_until_done(bench, 2);
    bench_end(bench);
}

/* Its news waits for that of the next one; where that does not come, somebody has to ask. */
TEST(news_that_can_wait_does_not_get_lost)
{
    struct bench *bench = bench_create(1);
    struct note gate = note_of(bench, 'g', 0, true), a = note_of(bench, 'a', 0, false),
                long_one = note_of(bench, 'l', 0, true);
    a.patient = true;
    workers_submit(bench->workers, &gate.task);
    sem_wait(&bench->begun);
    workers_submit(bench->workers, &a.task);
    workers_submit(bench->workers, &long_one.task);
    sem_post(&bench->gate);
    run_until_done(bench, 1);
    sem_wait(&bench->begun);
    sem_wait(&bench->begun); /* the long one: the other two are through */
    workers_collect(bench->workers);
    assert_int_equal(bench->done, 2);
    sem_post(&bench->gate);
    run_until_done(bench, 3);
    bench_end(bench);
}

TEST(patient_tasks_all_come_back)
{
    struct bench *bench = bench_create(3);
    enum { COUNT = 2000 };
    struct note *notes = calloc(COUNT, sizeof *notes);
    for (int i = 0; i < COUNT; i++) {
        notes[i] = note_of(bench, 'x', (uint32_t)i % 2, true);
        notes[i].patient = true;
        sem_post(&bench->gate);
        workers_submit(bench->workers, &notes[i].task);
    }
    run_until_done(bench, COUNT); /* the last one has nothing to wait for */
    free(notes);
    bench_end(bench);
}

TEST(many_tasks_all_come_back)
{
    struct bench *bench = bench_create(4);
    enum { COUNT = 2000 };
    struct note *notes = calloc(COUNT, sizeof *notes);
    for (int i = 0; i < COUNT; i++) {
        notes[i] = note_of(bench, 'x', (uint32_t)i % WORKERS_PRIORITIES, true);
        sem_post(&bench->gate);
        workers_submit(bench->workers, &notes[i].task);
    }
    run_until_done(bench, COUNT);
    free(notes);
    bench_end(bench);
}

TEST_MAIN(.name = "workers")
