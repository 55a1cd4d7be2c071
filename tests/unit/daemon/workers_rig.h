/* workers_rig.h - a pool of worker threads with a loop, and tasks that note their order or wait. */
#pragma once

#include <semaphore.h>
#include <stdatomic.h>

#include "daemon/workers/workers.h"
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
    bool patient, yields;
};

static inline void run(struct worker_task *task, struct worker_tools *tools)
{
    struct note *note = container_of(task, struct note, task);
    task->patient = note->patient;
    task->yields = note->yields;
    assert_non_null(tools->codec);
    assert_non_null(tools->sink);
    sem_post(&bench.begun);
    if (note->waits)
        sem_wait(&bench.gate);
    else
        bench.order[bench.ran++] = note->letter; /* one worker: no race */
}

static inline void done(struct worker_task *task)
{
    bench.done++;
    uv_stop(&bench.loop); /* a timer may call this: then the loop must not wait for events */
}

static inline struct note note_of(char letter, uint32_t priority, bool waits)
{
    return (struct note){.task = {.priority = priority, .run = run, .done = done},
                         .letter = letter, .waits = waits};
}

static inline void bench_open(uint32_t threads)
{
    memset(&bench, 0, sizeof bench);
    assert_int_equal(uv_loop_init(&bench.loop), 0);
    sem_init(&bench.begun, 0, 0);
    sem_init(&bench.gate, 0, 0);
    bench.workers = workers_create(&bench.loop, threads);
    assert_non_null(bench.workers);
}

/* Submits to an idle worker, and waits until it has begun. */
static inline void submit_and_wait(struct note *note)
{
    workers_submit(bench.workers, &note->task);
    sem_wait(&bench.begun);
}

static inline void run_until_done(size_t count)
{
    while (bench.done < count)
        uv_run(&bench.loop, UV_RUN_ONCE);
}

static inline void bench_end(void)
{
    workers_stop(bench.workers);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    workers_destroy(bench.workers);
    assert_int_equal(uv_loop_close(&bench.loop), 0);
    sem_destroy(&bench.begun);
    sem_destroy(&bench.gate);
}
