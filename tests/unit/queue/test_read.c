/* Tests of reading images from Redis. */
#include "tests/fixtures/queue/queue_bench.h"

TEST(test_read)
{
    struct bench *bench = set_up_started();
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
        assert_non_null(queue_read(bench->queue, cases[i].key, cases[i].max, NULL, on_read, bench));
        run_until(bench, bench->reads == before + 1);
        assert_int_equal(bench->read_status, cases[i].status);
        if (cases[i].status == STATUS_OK) {
            assert_int_equal(bench->length, 4);
            assert_memory_equal(bench->bytes, "\0\1\2\3", 4);
        }
    }
    /* Reads cancelled before and after they were sent get no callback. */
    int before = bench->reads;
    queue_read_cancel(bench->queue, queue_read(bench->queue, "t:img:a", 4, NULL, on_read, bench));
    run_ms(bench, 50);
    redis_server_kill9(bench->server);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_CONNECTING);
    queue_read_cancel(bench->queue, queue_read(bench->queue, "t:img:a", 4, NULL, on_read, bench));
    assert_int_equal(bench->reads, before);
    /* If Redis stays away, the read ends with input_unreadable. */
    bench->config.connect_timeout_s = 0.1;
    queue_read(bench->queue, "t:img:a", 4, NULL, on_read, bench);
    redis_server_restart(bench->server);
    reconnect(bench);
    run_until(bench, bench->reads == before + 1);
    assert_int_equal(bench->read_status, STATUS_OK);
    tear_down(bench);
}

/* A read that Redis refuses waits for its retry, even if other reads come meanwhile. */
TEST(test_refused_reads_wait_for_their_own_retry)
{
    struct bench *bench = set_up_started();
    freeReplyObject(redis_command(bench->redis, "SET t:img:a x"));
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default -getrange"));
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    for (int i = 0; i < 12; i++) {
        queue_read(bench->queue, "t:img:a", 4, NULL, on_read, bench);
        run_ms(bench, 10);
    }
    assert_int_equal(bench->reads, 0);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default +getrange"));
    run_until(bench, bench->reads == 12);
    assert_int_equal(bench->read_status, STATUS_OK);
    tear_down(bench);
}

/* At most four large reads are in memory; small reads may overtake waiting large ones. */
TEST(test_large_reads_take_turns)
{
    struct bench *bench = set_up_started();
    char *large = calloc(1, QUEUE_READ_LARGE);
    void *last = NULL;
    freeReplyObject(redis_command(bench->redis, "SET t:img:large %b", large,
                                  (size_t)QUEUE_READ_LARGE));
    freeReplyObject(redis_command(bench->redis, "SET t:img:small %b", large,
                                  (size_t)QUEUE_READ_LARGE - 1));
    for (int i = 0; i < 7; i++)
        last = queue_read(bench->queue, "t:img:large", QUEUE_READ_LARGE, NULL, on_read, bench);
    run_until(bench, bench->reads == 4);
    for (int i = 0; i < 6; i++)
        queue_read(bench->queue, "t:img:small", QUEUE_READ_LARGE, NULL, on_read, bench);
    run_until(bench, bench->reads == 10);
    run_ms(bench, 50);
    assert_int_equal(bench->reads, 10);
    assert_int_equal(bench->length, QUEUE_READ_LARGE - 1);
    queue_read_release(bench->queue, QUEUE_READ_LARGE);
    run_until(bench, bench->reads == 11);
    assert_int_equal(bench->length, QUEUE_READ_LARGE);
    /* A cancelled read takes no slot; one that is too large, or missing, frees its slot. */
    queue_read_cancel(bench->queue, last);
    redis_integer(bench->redis, "DEL t:img:large");
    queue_read_release(bench->queue, QUEUE_READ_LARGE);
    run_until(bench, bench->reads == 12);
    assert_int_equal(bench->read_status, STATUS_INPUT_MISSING);
    freeReplyObject(redis_command(bench->redis, "SET t:img:large %b", large,
                                  (size_t)QUEUE_READ_LARGE));
    for (int i = 0; i < 5; i++) {
        queue_read(bench->queue, "t:img:large", QUEUE_READ_LARGE - 1, NULL, on_read, bench);
        run_until(bench, bench->reads == 13 + i);
        assert_int_equal(bench->read_status, STATUS_INPUT_TOO_LARGE);
    }
    /* Three slots are still taken, so the second of the next reads waits. */
    queue_read(bench->queue, "t:img:large", QUEUE_READ_LARGE, NULL, on_read, bench);
    run_until(bench, bench->reads == 18);
    queue_read(bench->queue, "t:img:large", QUEUE_READ_LARGE, NULL, on_read, bench);
    run_ms(bench, 50);
    assert_int_equal(bench->reads, 18);
    queue_read_release(bench->queue, QUEUE_READ_LARGE);
    run_until(bench, bench->reads == 19);
    assert_int_equal(bench->read_status, STATUS_OK);
    free(large);
    tear_down(bench);
}

/* The total bytes of large reads are limited. A read above the limit runs when it is alone. */
TEST(test_bytes_take_turns)
{
    struct bench *bench = set_up_started();
    const size_t part = READS_LARGE_BYTES / 5 * 2, whole = READS_LARGE_BYTES + 1;
    char *bytes = calloc(1, whole);
    freeReplyObject(redis_command(bench->redis, "SET t:img:part %b", bytes, part));
    freeReplyObject(redis_command(bench->redis, "SET t:img:whole %b", bytes, whole));
    for (int i = 0; i < 3; i++)
        queue_read(bench->queue, "t:img:part", whole, NULL, on_read, bench);
    queue_read(bench->queue, "t:img:whole", whole, NULL, on_read, bench);
    run_until(bench, bench->reads == 2);
    run_ms(bench, 50);
    assert_int_equal(bench->reads, 2);
    queue_read_release(bench->queue, part);
    run_until(bench, bench->reads == 3);
    queue_read_release(bench->queue, part);
    run_ms(bench, 50);
    assert_int_equal(bench->reads, 3);
    queue_read_release(bench->queue, part);
    run_until(bench, bench->reads == 4);
    assert_int_equal(bench->length, whole);
    queue_read(bench->queue, "t:img:part", whole, NULL, on_read, bench);
    run_ms(bench, 50);
    assert_int_equal(bench->reads, 4);
    queue_read_release(bench->queue, whole);
    run_until(bench, bench->reads == 5);
    assert_int_equal(bench->read_status, STATUS_OK);
    free(bytes);
    tear_down(bench);
}

TEST(test_small_reads_take_turns)
{
    struct bench *bench = set_up_started();
    redis_integer(bench->redis, "SETRANGE t:img:small 0 12345");
    for (int i = 0; i < READS_SMALL_MAX + 3; i++)
        queue_read(bench->queue, "t:img:small", MIB, NULL, on_read, bench);
    run_until(bench, bench->reads == READS_SMALL_MAX);
    run_ms(bench, 50);
    assert_int_equal(bench->reads, READS_SMALL_MAX);
    for (int i = 1; i <= 3; i++) {
        queue_read_release(bench->queue, bench->length);
        run_until(bench, bench->reads == READS_SMALL_MAX + i);
    }
    /* A read of a missing key frees its slot. */
    queue_read_release(bench->queue, bench->length);
    for (int i = 4; i <= 8; i++) {
        queue_read(bench->queue, "t:img:none", MIB, NULL, on_read, bench);
        run_until(bench, bench->reads == READS_SMALL_MAX + i);
        assert_int_equal(bench->read_status, STATUS_INPUT_MISSING);
    }
    tear_down(bench);
}

TEST_MAIN(.name = "read")
