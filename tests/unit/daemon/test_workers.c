/* Tests of the worker threads: priorities, withdrawal, groups of tasks, and a worker that hangs. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fixtures/process.h"
#include "tests/unit/daemon/workers_rig.h"

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

TEST_MAIN(.name = "workers")
