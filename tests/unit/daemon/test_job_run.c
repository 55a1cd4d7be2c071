/*
 * Tests of every state transition and every decision of a job, legal or not.
 *
 * The legal ones are written here as rules, independently of the tables of job_run.h. Each pair of
 * states is tried: a legal move must reach its state and list, an illegal one must abort.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"
#include "tests/fixtures/test.h"

#define LEGAL_MOVES     52
#define LEGAL_DECISIONS 16

struct state {
    enum stage stage;
    enum owner owner;
};

/* ---- the rules ------------------------------------------------------------------------------ */

static bool is_carried_out_by_worker(enum stage stage)
{
    return stage == STAGE_READ || stage == STAGE_DECODE || stage == STAGE_GPU ||
           stage == STAGE_ENCODE || stage == STAGE_SET;
}

static bool exists(struct state state)
{
    switch (state.owner) {
    case OWNER_NONE:
        return state.stage == STAGE_ASK;
    case OWNER_LOOP:
        return true;
    default:
        return is_carried_out_by_worker(state.stage);
    }
}

/* A worker may carry a job on through later stages, and an image of a set to STAGE_SET. */
static bool may_return_to_loop(struct state from, enum stage to)
{
    return from.owner != OWNER_ZOMBIE && from.stage <= to && is_carried_out_by_worker(to);
}

static bool is_legal(struct state from, struct state to)
{
    bool same = from.stage == to.stage;
    if (!exists(from) || !exists(to))
        return false;
    if (from.owner == OWNER_NONE) /* a new lease, or an image of a set */
        return to.owner == OWNER_LOOP && (to.stage == STAGE_ASK || to.stage == STAGE_READ);
    if (from.owner == OWNER_ZOMBIE)
        return to.owner == OWNER_NONE;
    if (from.owner != OWNER_LOOP) /* the job returns, or becomes a zombie */
        return to.owner == OWNER_LOOP ? may_return_to_loop(from, to.stage)
                                      : to.owner == OWNER_ZOMBIE && same;
    if (from.stage == STAGE_ACK)
        return to.owner == OWNER_NONE;
    if (from.stage == STAGE_SET && to.owner == OWNER_NONE) /* an image ends */
        return true;
    if (to.owner == OWNER_LOOP) /* to the next stage, to the end, or back after a decline */
        return to.stage == from.stage + 1 || to.stage == STAGE_ACK ||
               (from.stage == STAGE_GPU && to.stage == STAGE_READ) ||
               (from.stage == STAGE_DECODE && to.stage == STAGE_READ) || /* trim */
               (from.stage == STAGE_READ && to.stage == STAGE_SET);      /* many images */
    return to.owner == OWNER_WORKER && same;
}

static bool is_legal_decision(enum outcome from, enum outcome to)
{
    if (from == to || from == OUTCOME_RETURNED || to == OUTCOME_OPEN)
        return false; /* the queue has the returned lease */
    if (from == OUTCOME_LOST || to == OUTCOME_RETURNED)
        return to == OUTCOME_RETURNED;
    if (to == OUTCOME_LOST || from == OUTCOME_OPEN)
        return true;
    return from == OUTCOME_CANCELLED && to == OUTCOME_ANSWERED;
}

/* ---- one transition ------------------------------------------------------------------------- */

struct bench {
    struct pipeline pipeline;
    struct job_run run, other; /* `other` follows `run` in its list */
};

static struct list *list_at(struct pipeline *pipeline, struct state state)
{
    switch (state.owner) {
    case OWNER_NONE:
        return &pipeline->free;
    case OWNER_ZOMBIE:
        return &pipeline->zombies;
    default:
        return &pipeline->stages[state.stage];
    }
}

static void put(struct bench *bench, struct job_run *run, struct state state)
{
    *run = (struct job_run){.pipeline = &bench->pipeline, .stage = state.stage,
                            .owner = state.owner, .at = state.stage};
    list_push(list_at(&bench->pipeline, state), &run->node);
}

static void set_up(struct bench *bench, struct state state)
{
    list_init(&bench->pipeline.free);
    list_init(&bench->pipeline.zombies);
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        list_init(&bench->pipeline.stages[stage]);
    put(bench, &bench->run, state);
    put(bench, &bench->other, state);
}

/* Whether the call ends the process by SIGABRT. */
static bool aborts(void (*act)(struct job_run *, struct state), struct job_run *run,
                   struct state to)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* hides the assertion's message */
        act(run, to);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void move(struct job_run *run, struct state to)
{
    job_run_move(run, to.stage, to.owner);
}

static void check_moved(struct bench *bench, struct state from, struct state to)
{
    struct list *left = list_at(&bench->pipeline, from), *list = list_at(&bench->pipeline, to);
    move(&bench->run, to);
    assert_int_equal(bench->run.stage, to.stage);
    assert_int_equal(bench->run.owner, to.owner);
    assert_int_equal(bench->run.at, to.stage);
    assert_int_equal(left->length, left == list ? 2 : 1);
    assert_int_equal(list->length, left == list ? 2 : 1);
    /* A new owner in the same stage does not change the order. */
    assert_ptr_equal(list_first(list), &bench->run.node);
    assert_ptr_equal(left->head.prev, &bench->other.node);
}

TEST(every_move)
{
    static struct bench bench;
    size_t legal = 0;
    for (unsigned i = 0; i < STAGE_COUNT * OWNER_COUNT; i++) {
        for (unsigned j = 0; j < STAGE_COUNT * OWNER_COUNT; j++) {
            struct state from = {i / OWNER_COUNT, i % OWNER_COUNT};
            struct state to = {j / OWNER_COUNT, j % OWNER_COUNT};
            bool is = is_legal(from, to);
            if (job_run_may_move(from.stage, from.owner, to.stage, to.owner) != is)
                fail_msg("stage %u owner %u to stage %u owner %u must%s be legal", from.stage,
                         from.owner, to.stage, to.owner, is ? "" : " not");
            legal += is;
            set_up(&bench, from);
            if (is)
                check_moved(&bench, from, to);
            else
                assert_true(aborts(move, &bench.run, to));
        }
    }
    assert_int_equal(legal, LEGAL_MOVES);
}

/* If a worker has set `at` to a later stage, a change of owner keeps it. */
TEST(the_owner_alone_keeps_at)
{
    static struct bench bench;
    set_up(&bench, (struct state){STAGE_READ, OWNER_WORKER});
    bench.run.at = STAGE_GPU;
    job_run_move(&bench.run, STAGE_READ, OWNER_ZOMBIE);
    assert_int_equal(bench.run.at, STAGE_GPU);
}

/* ---- decisions ------------------------------------------------------------------------------ */

static void decide(struct job_run *run, struct state to)
{
    job_run_decide(run, (enum outcome)to.stage);
}

TEST(every_decision)
{
    static struct job_run run;
    size_t legal = 0;
    for (enum outcome from = 0; from < OUTCOME_COUNT; from++) {
        for (enum outcome to = 0; to < OUTCOME_COUNT; to++) {
            bool is = is_legal_decision(from, to);
            assert_int_equal(job_run_may_decide(from, to), is);
            legal += is;
            run.outcome = from;
            assert_int_equal(job_run_is_open(&run), from == OUTCOME_OPEN);
            if (!is) {
                assert_true(aborts(decide, &run, (struct state){(enum stage)to, OWNER_NONE}));
                continue;
            }
            job_run_decide(&run, to);
            assert_int_equal(run.outcome, to);
        }
    }
    assert_int_equal(legal, LEGAL_DECISIONS);
}

/* ---- places --------------------------------------------------------------------------------- */

TEST(a_free_slot_is_reset_in_its_list)
{
    static struct bench bench;
    set_up(&bench, (struct state){STAGE_ASK, OWNER_NONE});
    bench.run.number = 7;
    bench.run.outcome = OUTCOME_ANSWERED;
    error_set(&bench.run.error, STATUS_TIMEOUT, "late");
    error_set(&bench.run.disk_error, STATUS_WRITE_FAILED, "full");
    bench.run.plan.variant_count = 1;
    bench.run.engine_task.plan = &bench.run.plan;
    bench.run.trace.count = 1;
    job_run_reset(&bench.run, &bench.pipeline);
    assert_int_equal(bench.run.number, 0);
    assert_int_equal(bench.run.error.status, STATUS_OK);
    assert_int_equal(bench.run.disk_error.status, STATUS_OK);
    assert_int_equal(bench.run.plan.variant_count, 0);
    assert_null(bench.run.engine_task.plan);
    assert_int_equal(bench.run.trace.count, 0);
    assert_true(job_run_is_open(&bench.run));
    assert_int_equal(bench.pipeline.free.length, 2);
    assert_ptr_equal(list_first(&bench.pipeline.free), &bench.run.node);
    job_run_move(&bench.run, STAGE_ASK, OWNER_LOOP);
    assert_int_equal(bench.pipeline.free.length, 1);
}

TEST_MAIN(.name = "job_run")
