/* test_stats.c - when the stats line says something that the last one did not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "conf/status.h"
#include "daemon/telemetry/stats.h"

static struct stats *stats;

static bool line(uint32_t inflight, uint64_t queue_length)
{
    char text[1536];
    struct stats_now now = {.inflight = inflight, .queue_length = queue_length, .engine = "cpu"};
    bool news = stats_line(stats, &now, text, sizeof text);
    assert_int_equal(strncmp(text, "stats interval_s=", 17), 0); /* it is written in any case */
    return news;
}

static void test_an_idle_daemon_says_so_once(void **state)
{
    (void)state;
    stats = stats_create();
    assert_true(line(0, 0));
    for (int i = 0; i < 3; i++)
        assert_false(line(0, 0));
    /* A job that is held, one that ended, one that is tried again: each is news. */
    assert_true(line(1, 0));
    assert_true(line(1, 0));
    stats_add(stats, &(struct stats_job){.done = true, .total_ms = 1});
    assert_true(line(0, 0));
    assert_true(line(0, 0));
    assert_false(line(0, 0));
    stats_add(stats, &(struct stats_job){.retried = true});
    assert_true(line(0, 0));
    assert_true(line(0, 0));
    assert_false(line(0, 0));
    /* Jobs that come while it is paused. */
    assert_true(line(0, 7));
    assert_true(line(0, 7));
    assert_false(line(0, 7));
    stats_open_log(stats, NULL); /* as a reload does */
    assert_true(line(0, 7));
    assert_false(line(0, 7));
    stats_destroy(stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_idle_daemon_says_so_once),
    };
    return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
