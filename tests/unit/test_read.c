/* test_read.c - images that lie in Redis. */
#include "tests/unit/queue_bench.h"

static void test_read(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    freeReplyObject(redis_command(bench->redis, "SET t:img:a %b", "\0\1\2\3", (size_t)4));
    redis_integer(bench->redis, "LPUSH t:img:list x");
    struct {
        const char *key;
        uint64_t max;
        enum status status;
    } cases[] = {
        {"t:img:a", 4, STATUS_OK},
        {"t:img:a", 3, STATUS_INPUT_TOO_LARGE},
        {"t:img:none", 4, STATUS_INPUT_MISSING},
        {"t:img:list", 4, STATUS_INPUT_MISSING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = bench->reads;
        assert_non_null(queue_read(bench->queue, cases[i].key, cases[i].max, on_read, bench));
        run_until(bench, bench->reads == before + 1);
        assert_int_equal(bench->read_status, cases[i].status);
        if (cases[i].status == STATUS_OK) {
            assert_int_equal(bench->length, 4);
            assert_memory_equal(bench->bytes, "\0\1\2\3", 4);
        }
    }
    /* Cancelled before and after it was sent: no callback. */
    int before = bench->reads;
    queue_read_cancel(bench->queue, queue_read(bench->queue, "t:img:a", 4, on_read, bench));
    run_ms(bench, 50);
    redis_server_kill9(bench->server);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_CONNECTING);
    queue_read_cancel(bench->queue, queue_read(bench->queue, "t:img:a", 4, on_read, bench));
    assert_int_equal(bench->reads, before);
    /* A Redis that stays away: input_unreadable in the end. */
    bench->config.connect_timeout_s = 0.1;
    queue_read(bench->queue, "t:img:a", 4, on_read, bench);
    redis_server_restart(bench->server);
    reconnect(bench);
    run_until(bench, bench->reads == before + 1);
    assert_int_equal(bench->read_status, STATUS_OK);
    tear_down(bench);
}

/* A read that Redis refuses waits before it tries again, however many others come meanwhile. */
static void test_refused_reads_wait_for_their_own_retry(void **state)
{
    struct bench *bench = set_up_started();
    (void)state;
    freeReplyObject(redis_command(bench->redis, "SET t:img:a x"));
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default -getrange"));
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    for (int i = 0; i < 12; i++) {
        queue_read(bench->queue, "t:img:a", 4, on_read, bench);
        run_ms(bench, 10);
    }
    assert_int_equal(bench->reads, 0);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default +getrange"));
    run_until(bench, bench->reads == 12);
    assert_int_equal(bench->read_status, STATUS_OK);
    tear_down(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_refused_reads_wait_for_their_own_retry),
    };
    signal(SIGPIPE, SIG_IGN);
    log_init();
    return cmocka_run_group_tests_name("read", tests, NULL, NULL);
}
