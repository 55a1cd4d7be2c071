/* Tests of the stats line, and of when it is worth logging. */
#include <math.h>

#include "conf/status.h"
#include "daemon/telemetry/stats_line.h"
#include "tests/fixtures/test.h"

static struct stats stats;
static struct snapshot now = {.engine = "cpu"};
static char text[1536];

static bool line(uint32_t in_flight, uint64_t queue_length)
{
    now.in_flight = in_flight;
    now.queue_length = queue_length;
    bool news = stats_line(&stats, &now, text, sizeof text);
    assert_int_equal(strncmp(text, "stats interval_s=", 17), 0); /* always written */
    return news;
}

TEST(test_an_idle_daemon_says_so_once)
{
    stats_begin(&stats, &now);
    assert_true(line(0, 0));
    for (int i = 0; i < 3; i++)
        assert_false(line(0, 0));
    /* A held job, an ended job and a retried job are each worth a line. */
    assert_true(line(1, 0));
    assert_true(line(1, 0));
    metrics_count(&now.totals, &(struct metrics_job){.outcome = METRICS_DONE, .total_ms = 1});
    assert_true(line(0, 0));
    assert_true(line(0, 0));
    assert_false(line(0, 0));
    metrics_count(&now.totals, &(struct metrics_job){.outcome = METRICS_RETRIED});
    assert_true(line(0, 0));
    assert_true(line(0, 0));
    assert_false(line(0, 0));
    /* Jobs arrive while the daemon is paused. */
    assert_true(line(0, 7));
    assert_true(line(0, 7));
    assert_false(line(0, 7));
    stats_open_log(&stats, NULL); /* after a reload */
    assert_true(line(0, 7));
    assert_false(line(0, 7));
    stats_end(&stats);
}

/* The number after " key=" in the line. */
static double value(const char *key)
{
    char word[32];
    snprintf(word, sizeof word, " %s=", key);
    const char *at = strstr(text, word);
    if (!at)
        fail_msg("no %s in %s", key, text);
    return atof(at + strlen(word));
}

static void check_value(const char *key, double expected, double tolerance)
{
    if (fabs(value(key) - expected) > tolerance)
        fail_msg("%s is %g, expected %g: %s", key, value(key), expected, text);
}

/* 100 jobs of 1 to 100 ms in 2 s. The line must not include the job before stats_begin. */
TEST(test_a_line_has_what_came_since_the_last_one)
{
    struct metrics_job job = {.outcome = METRICS_DEAD, .total_ms = 5000, .images = 50,
                              .ms = {100, 100, 100, 100, 100, 100, 100}};
    now = (struct snapshot){.engine = "cpu", .device_count = 2, .taken_ns = 1000000000,
                            .loop_cpu_s = 3};
    now.devices[0].activity = (struct engine_activity){.any_s = 9, .kernel_s = 8};
    metrics_count(&now.totals, &job);
    stats_begin(&stats, &now);
    for (int i = 1; i <= 100; i++) {
        job = (struct metrics_job){
            .outcome = i % 10 == 1 ? METRICS_CANCELLED : METRICS_DONE, .images = 2,
            .pixels = 1000000, .bytes_in = 500000, .bytes_out = 100000, .total_ms = i,
            .decoder = {.images = {[METRICS_DEVICE] = 1}, .pixels = {[METRICS_DEVICE] = 1000000}},
            .encoder = {.images = {1, 2}, .pixels = {20000, 400000}},
            .ms = {[METRICS_READ] = i, [METRICS_DECODE] = 4, [METRICS_H2D] = i % 2 ? -1 : 1,
                   [METRICS_KERNEL] = i % 2 ? -1 : 2, [METRICS_D2H] = i % 2 ? -1 : 3,
                   [METRICS_ENCODE] = -1}};
        metrics_count(&now.totals, &job);
    }
    now.taken_ns += 2000000000;
    now.loop_cpu_s += 0.25;
    now.devices[0].activity.any_s += 0.5;
    now.devices[0].activity.kernel_s += 0.5;
    now.devices[1].activity = (struct engine_activity){.any_s = 1, .h2d_s = 0.5, .d2h_s = 1};
    now.devices[0].memory.held = now.devices[1].memory.held = 3000000;
    assert_true(line(7, 8));
    check_value("interval_s", 2, 0);
    check_value("jobs", 100, 0);
    check_value("done", 90, 0);
    check_value("failed", 10, 0);
    check_value("dead", 0, 0);
    check_value("img_s", 100, 0);
    check_value("mp_s", 50, 0);
    check_value("in_mb_s", 25, 0);
    check_value("out_mb_s", 5, 0);
    check_value("decode_host", 0, 0);
    check_value("decode_host_mp_s", 0, 0);
    check_value("decode_device", 100, 0);
    check_value("decode_device_mp_s", 50, 0);
    check_value("encode_host", 100, 0);
    check_value("encode_host_mp_s", 1, 0);
    check_value("encode_device", 200, 0);
    check_value("encode_device_mp_s", 20, 0);
    check_value("inflight", 7, 0);
    check_value("queue", 8, 0);
    check_value("read_ms", 50.5, 0.001);
    check_value("decode_ms", 4, 0.001);
    check_value("gpu_ms", 6, 0.001);
    check_value("encode_ms", 0, 0);
    check_value("loop_us", 2500, 0.1);
    check_value("total_p50_ms", 50, 50 * 0.1);
    check_value("total_p95_ms", 95, 95 * 0.1);
    check_value("total_p99_ms", 99, 99 * 0.1);
    check_value("gpu_busy", 0.75, 0.001);
    check_value("overlap", 2 / 1.5, 0.01);
    check_value("device_mb", 6, 0);
    assert_true(stats.images_per_s == 100);
    stats_end(&stats);
}

TEST_MAIN(.name = "stats")
