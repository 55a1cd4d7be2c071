/* Tests of the line: which job is admitted next while an animation's codec, zombies and other jobs
 * hold memory. */
#include "daemon/pipeline/line.h"

#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/state.h"
#include "tests/fixtures/test.h"

#define LANE_BYTES   1000
#define PINNED_BYTES (128 * MIB)
#define JOBS         4

static struct pipeline pipeline;
static struct engine *engine;
static struct admission *const admission = &pipeline.admission;

/* spine_resume, for jobs that are admitted: the test itself runs them. */
static void resume(struct job_run *run, enum stage_result result)
{
    assert_int_equal(result, RESULT_NEXT);
    line_leave(run);
    job_run_move(run, STAGE_DECODE, OWNER_LOOP);
}

static int set_up(void **state)
{
    struct engine_config config = {
        .kind = "cpu", .devices = "all", .streams = 1, .pinned_bytes = PINNED_BYTES};
    struct error error = {0};
    memset(&pipeline, 0, sizeof pipeline);
    if (engine_open(&config, &engine, &error) != STATUS_OK)
        return -1;
    pipeline.resume = resume;
    list_init(&pipeline.zombies);
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        list_init(&pipeline.stages[stage]);
    admission_open(admission, engine, LANE_BYTES, JOBS, JOBS);
    return 0;
}

/* Whatever a failed test has left would be an assertion of admission_close. */
static int tear_down(void **state)
{
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        each_run (run, &pipeline.stages[stage])
            admission_release(run);
    admission_end_long(admission, admission->long_bytes);
    admission_close(admission);
    engine_close(engine);
    return 0;
}

/* A job that has just been read, and needs so much memory for its codec. */
static void enter(struct job_run *run, size_t codec_bytes)
{
    *run = (struct job_run){.pipeline = &pipeline, .stage = STAGE_ADMIT, .owner = OWNER_LOOP};
    run->info.codec_bytes = codec_bytes;
    run->plan.input_bytes = 1;
    list_push(&pipeline.stages[STAGE_ADMIT], &run->node);
    assert_int_equal(line_enter_admit(run), RESULT_WAIT);
    line_pump(&pipeline);
}

static void expect_admitted(const struct job_run *run)
{
    assert_int_equal(run->stage, STAGE_DECODE);
    assert_int_equal(run->reserved.state, RESERVATION_HELD);
}

static void expect_waiting(const struct job_run *run, enum turn turn)
{
    assert_int_equal(run->stage, STAGE_ADMIT);
    assert_int_equal(run->wait.turn, turn);
}

/* The job ends, in any stage. */
static void end(struct job_run *run)
{
    line_leave(run);
    admission_release(run);
    job_run_move(run, STAGE_ACK, OWNER_LOOP);
    list_remove(&pipeline.stages[STAGE_ACK], &run->node);
    line_pump(&pipeline);
}

/* An animation begins, if it may. */
static bool lend(size_t bytes)
{
    bool exhausted = false, fits = admission_lend_long(admission, bytes, &exhausted);
    assert_false(exhausted);
    return fits;
}

static void end_loan(size_t bytes)
{
    admission_end_long(admission, bytes);
    line_pump(&pipeline);
}

/* The codec of an animation has its memory until the last frame. A job that needs a part of it must
 * not keep the frames after it from theirs. */
TEST(frames_overtake_a_job_that_needs_the_memory_of_their_animation)
{
    static struct job_run large, frames[3], other;
    assert_true(lend(400));
    enter(&large, 700);
    expect_waiting(&large, TURN_ASIDE);
    for (size_t i = 0; i < COUNT_OF(frames); i++) {
        enter(&frames[i], 200);
        expect_admitted(&frames[i]);
    }
    end(&frames[0]);
    expect_waiting(&large, TURN_ASIDE);
    end_loan(400);
    expect_waiting(&large, TURN_REFUSED); /* 400 of its 700 bytes are still in use */
    enter(&other, 200);
    expect_waiting(&other, TURN_IN_ORDER); /* the large job has its place again */
    end(&frames[1]);
    expect_admitted(&large);
    expect_waiting(&other, TURN_IN_ORDER);
    end(&frames[2]);
    expect_admitted(&other);
    end(&large);
    end(&other);
}

/* Other jobs give their memory back without the help of the jobs after them. */
TEST(a_job_that_needs_the_memory_of_other_jobs_keeps_its_place)
{
    static struct job_run running, large, small;
    assert_true(lend(400));
    enter(&running, 200);
    enter(&large, 500);
    expect_waiting(&large, TURN_IN_ORDER);
    enter(&small, 200);
    expect_waiting(&small, TURN_IN_ORDER);
    end(&running);
    expect_admitted(&large);
    end(&large);
    end(&small);
    end_loan(400);
}

/* Otherwise a job would wait for ever beside a stream of animations. */
TEST(no_animation_begins_before_a_job_that_needs_the_memory_of_another)
{
    static struct job_run large, small;
    assert_true(lend(200));
    assert_true(lend(100));
    enter(&small, 100);
    enter(&large, 950);
    expect_waiting(&large, TURN_IN_ORDER); /* the small job may make room for it */
    assert_true(lend(100));
    end(&small);
    expect_waiting(&large, TURN_ASIDE);
    assert_false(lend(100));
    end_loan(200);
    end_loan(100);
    expect_waiting(&large, TURN_ASIDE);
    assert_false(lend(100));
    enter(&small, 100); /* a frame of the last animation */
    expect_admitted(&small);
    end_loan(100);
    expect_waiting(&large, TURN_REFUSED);
    assert_false(lend(100));
    end(&small);
    expect_admitted(&large);
    assert_true(lend(50));
    end_loan(50);
    end(&large);
}

/* The job has its input in memory, which it gives back when the animation has ended. */
TEST(a_read_waits_for_a_job_that_waits_for_an_animation)
{
    static struct job_run large, reader;
    assert_true(lend(200));
    enter(&large, 900);
    expect_waiting(&large, TURN_ASIDE);
    reader = (struct job_run){.pipeline = &pipeline, .stage = STAGE_READ, .owner = OWNER_LOOP};
    list_push(&pipeline.stages[STAGE_READ], &reader.node);
    reader.wait.lack = LACKS_FILES;
    line_rejoin(&reader);
    line_pump(&pipeline); /* else resume() would refuse to run the read */
    assert_false(line_is_stuck(&pipeline));
    end_loan(200);
    expect_admitted(&large);
    list_remove(&pipeline.stages[STAGE_READ], &reader.node);
    end(&large);
}

/* A job may end while it waits, as when it is cancelled. */
TEST(animations_begin_after_a_waiting_job_has_ended)
{
    static struct job_run large, small;
    assert_true(lend(200));
    enter(&large, 900);
    expect_waiting(&large, TURN_ASIDE);
    assert_false(lend(100));
    end(&large);
    assert_true(lend(100));
    enter(&large, 950);
    end_loan(200);
    assert_false(lend(200));
    expect_waiting(&large, TURN_ASIDE);
    end(&large);
    enter(&small, 900);
    end_loan(100);
    expect_admitted(&small);
    end(&small);
}

/* A frame that needs more than the codecs of animations leave could wait for the end of its own
 * animation. */
TEST(a_frame_gets_half_of_the_memory_for_codecs)
{
    static struct job_run run;
    assert_true(lend(LANE_BYTES / 2));
    enter(&run, 0);
    expect_admitted(&run);
    end(&run);
    run.is_frame = true;
    run.info.codec_bytes = LANE_BYTES / 2;
    assert_true(admission_check(&run, LANE_BYTES));
    run.info.codec_bytes++;
    assert_false(admission_check(&run, LANE_BYTES));
    assert_int_equal(run.error.status, STATUS_OVER_BUDGET);
    assert_non_null(strstr(run.error.text, "a frame needs 501 bytes; the limit is 500 bytes, three "
                                           "sixteenths of host_bytes: set host_bytes to 1M"));
    end_loan(LANE_BYTES / 2);
}

TEST_MAIN(.name = "line", .each_setup = set_up, .each_teardown = tear_down)
