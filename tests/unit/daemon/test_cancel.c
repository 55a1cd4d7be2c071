/* Tests of how a cancelled job ends after each stage. */
#include "codecs/codec.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "tests/fixtures/test.h"

/* A job with two outputs at the end of a stage: the first has only values, the second a file. */
static struct job_run run_at(enum stage stage)
{
    struct job_run run = {.stage = stage};
    run.job.output_count = 2;
    run.outputs[1].format = format_by_name("png");
    return run;
}

static enum status end(struct job_run *run)
{
    run->error = (struct error){0};
    job_outputs_end_cancelled(run);
    return run->error.status;
}

TEST(what_is_complete_is_done)
{
    struct job_run run = run_at(STAGE_ENCODE);
    cJSON *values = cJSON_CreateArray();
    assert_int_equal(end(&run), STATUS_CANCELLED);
    run.outputs[1].placed = true;
    assert_int_equal(end(&run), STATUS_CANCELLED); /* its values are missing */
    run.outputs[0].values = values;
    assert_int_equal(end(&run), STATUS_OK);
    run.outputs[1].placed = false;
    assert_int_equal(end(&run), STATUS_CANCELLED); /* its file is missing */
    run.outputs[1].error.status = STATUS_ENCODE_FAILED;
    assert_int_equal(end(&run), STATUS_OK); /* nothing is left to do */
    run.outputs[1].error.status = STATUS_CANCELLED;
    assert_int_equal(end(&run), STATUS_CANCELLED);
    cJSON_Delete(values);
}

TEST(values_alone)
{
    struct job_run run = run_at(STAGE_ENCODE);
    cJSON *values = cJSON_CreateArray();
    run.job.output_count = 1;
    assert_int_equal(end(&run), STATUS_CANCELLED);
    run.outputs[0].values = values;
    assert_int_equal(end(&run), STATUS_OK);
    run.stage = STAGE_GPU;
    assert_int_equal(end(&run), STATUS_CANCELLED);
    cJSON_Delete(values);
}

/* During the uploads, all other outputs are complete. */
TEST(uploads_are_waited_for)
{
    struct job_run run = run_at(STAGE_UPLOAD);
    run.outputs[0].format = run.outputs[1].format;
    run.outputs[0].placed = true;
    assert_int_equal(end(&run), STATUS_CANCELLED);
    assert_string_equal(run.error.text, "the job was cancelled in stage upload");
    run.outputs[1].placed = true;
    assert_int_equal(end(&run), STATUS_OK);
}

/* A key is set together with the result, so a cancel can always withhold it. */
TEST(keys_are_withheld)
{
    struct job_run run = run_at(STAGE_ENCODE);
    uint8_t byte = 0;
    run.job.output_count = 1;
    run.outputs[0].format = format_by_name("jpeg");
    run.outputs[0].value = (struct queue_value){.key = "k", .value = &byte, .bytes = 1};
    assert_int_equal(end(&run), STATUS_CANCELLED);
}

TEST(an_error_that_is_final_stays)
{
    struct job_run run = run_at(STAGE_DECODE);
    run.error.status = STATUS_DECODE_FAILED;
    job_outputs_end_cancelled(&run);
    assert_int_equal(run.error.status, STATUS_DECODE_FAILED);
    run.error.status = STATUS_WRITE_FAILED; /* the cancel prevents its retry */
    job_outputs_end_cancelled(&run);
    assert_int_equal(run.error.status, STATUS_CANCELLED);
}

TEST_MAIN(.name = "cancel")
