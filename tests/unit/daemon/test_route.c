/* Tests of the route: what a job is charged as after its plan is built. */
#include "daemon/pipeline/route.h"

#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"
#include "tests/fixtures/test.h"

static struct pipeline pipeline;
static struct job_run run;

/* A job with two outputs that a device may encode, charged to the device. */
static void charge(const char *first, const char *second)
{
    const struct dispatch_request request = {
        .kind = DISPATCH_AVIF, .rule = DISPATCH_TO_DEVICE, .pixels = 1000, .device_bytes = 1000};
    const char *names[] = {first, second};
    run = (struct job_run){.pipeline = &pipeline};
    run.job.output_count = COUNT_OF(names);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        run.outputs[i].format = format_by_name(names[i]);
        run.outputs[i].encoder = CODEC_ON_DEVICE;
        run.outputs[i].variant = i;
        run.plan.variants[i].encoder.codec =
            strcmp(names[i], "avif") == 0 ? DEVICE_CODEC_AVIF : DEVICE_CODEC_JPEG;
    }
    dispatch_choose(&pipeline.dispatch, &request, 1, &run.charge);
    assert_true(run.charge.on_device);
}

static void expect_kind(enum dispatch_kind kind)
{
    route_plan(&run);
    assert_int_equal(run.charge.request.kind, kind);
    route_end(&run);
}

/* Batches of AVIFs are larger than others. Jobs that count as such by mistake would make a device
 * wait for many of them. */
TEST(a_job_counts_as_avif_only_if_its_device_encodes_one)
{
    const size_t room = GIB;
    dispatch_open(&pipeline.dispatch, 4, 100 * MIB, 1, &room);
    charge("avif", "jpeg");
    expect_kind(DISPATCH_AVIF);
    assert_int_equal(run.outputs[0].encoder, CODEC_ON_DEVICE);
    charge("jpeg", "jpeg");
    expect_kind(DISPATCH_SEQUENTIAL);
    charge("avif", "jpeg"); /* which the plan leaves to the host: it is too large */
    run.plan.variants[0].encoder.codec = DEVICE_CODEC_NONE;
    expect_kind(DISPATCH_SEQUENTIAL);
    assert_int_equal(run.outputs[0].encoder, CODEC_ON_HOST);
    assert_int_equal(run.outputs[1].encoder, CODEC_ON_DEVICE);
    charge("avif", "avif"); /* one is too large, the other has failed */
    run.plan.variants[0].encoder.codec = DEVICE_CODEC_NONE;
    run.outputs[1].error.status = STATUS_BAD_OP;
    expect_kind(DISPATCH_SEQUENTIAL);
    dispatch_close(&pipeline.dispatch);
}

TEST_MAIN(.name = "route")
