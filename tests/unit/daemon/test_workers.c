/* Tests of the worker threads: priorities, withdrawal, and a worker that hangs. */
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "conf/clock.h"
#include "daemon/workers/workers.h"
#include "tests/fixtures/process.h"
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

static void run(struct worker_task *task, struct worker_tools *tools)
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

static void done(struct worker_task *task)
{
    bench.done++;
    uv_stop(&bench.loop); /* a timer may call this: then the loop must not wait for events */
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

/* As if they were submitted one by one. */
TEST(tasks_of_a_list)
{
    struct note gate = note_of('g', 0, true), a = note_of('a', 0, false),
                b = note_of('b', 3, false), c = note_of('c', 0, false);
    struct list tasks;
    bench_open(1);
    list_init(&tasks);
    workers_submit_all(bench.workers, &tasks);
    submit_and_wait(&gate);
    list_push(&tasks, &a.task.node);
    list_push(&tasks, &b.task.node);
    list_push(&tasks, &c.task.node);
    workers_submit_all(bench.workers, &tasks);
    assert_true(list_empty(&tasks));
    assert_true(workers_withdraw(bench.workers, &c.task));
    sem_post(&bench.gate);
    run_until_done(3);
    assert_string_equal(bench.order, "ba");
    bench_end();
}

/* All idle workers get a task of a list. */
TEST(a_list_wakes_all_workers)
{
    struct note notes[4];
    struct list tasks;
    bench_open(COUNT_OF(notes));
    list_init(&tasks);
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        notes[i] = note_of('x', 0, true);
        list_push(&tasks, &notes[i].task.node);
    }
    workers_submit_all(bench.workers, &tasks);
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        sem_wait(&bench.begun); /* all of them wait at the gate now */
    for (size_t i = 0; i < COUNT_OF(notes); i++)
        sem_post(&bench.gate);
    run_until_done(COUNT_OF(notes));
    bench_end();
}

/* A task of a more urgent job goes first at any stage, but not before one of a lower rank. A task
 * of no job is overtaken, too. */
TEST(urgent_tasks_overtake)
{
    static const struct {
        char letter;
        uint32_t priority;
        struct rank rank;
    } cases[] = {{'a', 0, {32, 4}}, {'b', 1, {64, 4}}, {'n', 0, {0, 0}}, {'c', 0, {96, 4}},
                 {'u', 0, {33, 9}}, {'v', 0, {34, 9}}, {'w', 2, {65, 6}}};
    struct note notes[COUNT_OF(cases)], gate = note_of('g', 0, true);
    bench_open(1);
    submit_and_wait(&gate);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        notes[i] = note_of(cases[i].letter, cases[i].priority, false);
        notes[i].task.rank = cases[i].rank;
        workers_submit(bench.workers, &notes[i].task);
    }
    sem_post(&bench.gate);
    run_until_done(1 + COUNT_OF(cases));
    assert_string_equal(bench.order, "wbauvcn");
    bench_end();
}

/* No task waits while a worker is idle, although one wake-up at a time is under way. */
TEST(each_idle_worker_gets_a_task)
{
    struct note notes[6];
    bench_open(COUNT_OF(notes));
    for (size_t round = 1; round <= 300; round++) {
        for (size_t i = 0; i < COUNT_OF(notes); i++) {
            notes[i] = note_of('x', 0, true);
            workers_submit(bench.workers, &notes[i].task);
        }
        for (size_t i = 0; i < COUNT_OF(notes); i++)
            sem_wait(&bench.begun); /* all of them wait at the gate now */
        for (size_t i = 0; i < COUNT_OF(notes); i++)
            sem_post(&bench.gate);
        run_until_done(round * COUNT_OF(notes));
    }
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
    workers_give_up(bench.workers, &stuck.task);
    assert_int_equal(workers_given_up(bench.workers), 1);
    assert_int_equal(workers_away(bench.workers), 1);
    workers_submit(bench.workers, &a.task);
    run_until_done(1);
    assert_string_equal(bench.order, "a");
    /* The old thread returns after all: its task is handed in, and the thread ends. */
    sem_post(&bench.gate);
    run_until_done(2);
    assert_int_equal(workers_away(bench.workers), 0);
    assert_int_equal(workers_given_up(bench.workers), 1);
    assert_int_equal(workers_usage(bench.workers).threads, 1);
    bench_end();
}

/* There is one replacement for each worker. If that hangs, too, tasks wait until a thread returns,
 * which then runs them. */
TEST(a_worker_that_was_not_replaced_works_again)
{
    bench_open(1);
    struct note stuck = note_of('s', 0, true), again = note_of('t', 0, true),
                a = note_of('a', 0, false), b = note_of('b', 0, false);
    submit_and_wait(&stuck);
    workers_give_up(bench.workers, &stuck.task);
    submit_and_wait(&again);
    workers_give_up(bench.workers, &again.task);
    assert_int_equal(workers_away(bench.workers), 2);
    assert_int_equal(workers_usage(bench.workers).threads, 0);
    workers_submit(bench.workers, &a.task);
    usleep(5000);
    assert_string_equal(bench.order, "");
    sem_post(&bench.gate); /* one of them returns and runs `a` */
    run_until_done(2);
    assert_string_equal(bench.order, "a");
    assert_int_equal(workers_away(bench.workers), 1);
    assert_int_equal(workers_usage(bench.workers).threads, 1);
    sem_post(&bench.gate); /* the other one is not needed */
    run_until_done(3);
    workers_submit(bench.workers, &b.task);
    run_until_done(4);
    assert_string_equal(bench.order, "ab");
    assert_int_equal(workers_away(bench.workers), 0);
    assert_int_equal(workers_usage(bench.workers).threads, 1);
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
    workers_hand_on(tools, task);
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
    workers_give_up(bench.workers, &a.task);
    sem_post(&bench.gate);
    sem_wait(&bench.begun);
    workers_give_up(bench.workers, &a.task); /* no worker runs it */
    assert_int_equal(workers_given_up(bench.workers), 1);
    workers_submit(bench.workers, &a.task);
    workers_submit(bench.workers, &b.task);
    run_until_done(2);
    assert_string_equal(bench.order, "ab");
    bench_end();
}

/* ---- groups of brief tasks ---- */

enum { BRIEF = 8 };

/* Submits brief tasks 'a' to 'h' to the only worker, which takes the first four at once: half of
 * those that wait. It waits at the gate in the one at `hangs`. */
static void submit_brief(struct note notes[BRIEF], struct note *gate, size_t hangs)
{
    *gate = note_of('g', 0, true);
    submit_and_wait(gate);
    for (size_t i = 0; i < BRIEF; i++) {
        notes[i] = note_of((char)('a' + i), 0, i == hangs);
        notes[i].task.brief = true;
        workers_submit(bench.workers, &notes[i].task);
    }
    sem_post(&bench.gate);
    for (size_t i = 0; i <= hangs; i++)
        sem_wait(&bench.begun);
}

TEST(a_worker_takes_several_brief_tasks)
{
    struct note notes[BRIEF], gate;
    bench_open(1);
    submit_brief(notes, &gate, 0);
    assert_false(workers_withdraw(bench.workers, &notes[3].task)); /* the last one of the group */
    assert_true(workers_withdraw(bench.workers, &notes[4].task));
    sem_post(&bench.gate);
    run_until_done(BRIEF); /* with the gate */
    assert_string_equal(bench.order, "bcdfgh");
    bench_end();
}

/* The loop gets the task before a group as soon as it has ended. */
TEST(a_task_ends_before_its_group)
{
    struct note notes[BRIEF], gate;
    bench_open(1);
    submit_brief(notes, &gate, 1);
    run_until_done(2); /* with the gate */
    assert_string_equal(bench.order, "a");
    sem_post(&bench.gate);
    run_until_done(BRIEF + 1);
    assert_string_equal(bench.order, "acdefgh");
    bench_end();
}

TEST(a_worker_that_hangs_loses_its_group)
{
    struct note notes[BRIEF], gate;
    bench_open(1);
    submit_brief(notes, &gate, 1);
    workers_give_up(bench.workers, &notes[0].task); /* it has ended */
    workers_give_up(bench.workers, &notes[2].task); /* it has not begun */
    assert_int_equal(workers_given_up(bench.workers), 0);
    workers_give_up(bench.workers, &notes[1].task);
    assert_int_equal(workers_given_up(bench.workers), 1);
    run_until_done(BRIEF);                       /* all but the one that hangs, with the gate */
    assert_string_equal(bench.order, "aefghcd"); /* the others of its group wait again */
    sem_post(&bench.gate);
    run_until_done(BRIEF + 1);
    bench_end();
}

/* A worker hands on a task of its group, and runs the others. */
TEST(tasks_of_a_group_are_handed_on)
{
    struct note notes[BRIEF], gate = note_of('g', 0, true);
    bench_open(1);
    submit_and_wait(&gate);
    for (size_t i = 0; i < BRIEF; i++) {
        notes[i] = note_of((char)('a' + i), 0, false);
        notes[i].task.brief = true;
        if (i == 1)
            notes[i].task.run = hand_on_once;
        workers_submit(bench.workers, &notes[i].task);
    }
    sem_post(&bench.gate);
    run_until_done(BRIEF);
    assert_string_equal(bench.order, "acdefgh");
    workers_submit(bench.workers, &notes[1].task);
    run_until_done(BRIEF + 1);
    assert_string_equal(bench.order, "acdefghb");
    bench_end();
}

/* A worker is no longer spare when a task is submitted, before it takes the task. */
TEST(tasks_that_wait_take_spare_workers)
{
    bench_open(1);
    struct note gate = note_of('g', 0, true), a = note_of('a', 0, false);
    submit_and_wait(&gate);
    assert_int_equal(workers_spare(bench.workers), 0);
    workers_submit(bench.workers, &a.task);
    assert_int_equal(workers_spare(bench.workers), 0);
    sem_post(&bench.gate);
    run_until_done(2);
    for (size_t i = 0; i < 40; i++) {
        assert_true(await(20, workers_spare(bench.workers) == 1));
        workers_submit(bench.workers, &gate.task);
        assert_int_equal(workers_spare(bench.workers), 0);
        sem_post(&bench.gate);
        run_until_done(bench.done + 1);
    }
    bench_end();
}

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
    next_began_early = await(20, sem_trywait(&bench.begun) == 0);
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
    assert_false(next_began_early);
    assert_string_equal(bench.order, "n");
    bench_end();
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

static int first_ends[2], second_ends[2]; /* pipes */
static atomic_uint busy_at_close;         /* when second_ends[1] was closed */

/* Replaces the C library's function. */
int close(int descriptor)
{
    if (descriptor > 0 && descriptor == second_ends[1])
        busy_at_close = workers_usage(bench.workers).busy;
    return (int)syscall(SYS_close, descriptor);
}

static bool is_open(int descriptor)
{
    return fcntl(descriptor, F_GETFD) >= 0;
}

static void close_both(struct worker_task *task, struct worker_tools *tools)
{
    (void)task;
    worker_close_later(tools, first_ends[1]);
    assert_true(is_open(first_ends[1]));
    worker_close_later(tools, second_ends[1]);
    assert_false(is_open(first_ends[1]));
    assert_true(is_open(second_ends[1]));
}

/* A worker closes the last descriptor of a task when the task is finished. */
TEST(descriptors_are_closed_later)
{
    char byte;
    bench_open(1);
    assert_int_equal(pipe(first_ends), 0);
    assert_int_equal(pipe(second_ends), 0);
    busy_at_close = 99;
    struct note note = note_of('x', 0, false);
    note.task.run = close_both;
    workers_submit(bench.workers, &note.task);
    run_until_done(1);
    assert_int_equal(read(second_ends[0], &byte, 1), 0); /* returns when it is closed */
    assert_int_equal(busy_at_close, 0);
    second_ends[1] = -1;
    close(first_ends[0]);
    close(second_ends[0]);
    bench_end();
}

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

TEST_MAIN(.name = "workers")
