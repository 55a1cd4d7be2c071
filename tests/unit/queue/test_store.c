/* Tests of storing outputs of images in Redis, one by one. */
#include "tests/fixtures/queue/queue_bench.h"

#include "tests/fixtures/line.h"

#define MANY        300
#define LARGE_BYTES (3 << 20)

/* One output, and how it ended. */
struct item {
    void *handle; /* of queue_store */
    unsigned answers;
    struct error error;
};

static unsigned answers; /* of all items */
static int order[MANY];  /* indexes of the items, in the order of their ends */
static struct item items[MANY];

static void on_stored(void *context, const struct error *error)
{
    struct item *item = context;
    item->answers++;
    item->handle = NULL;
    if (error)
        item->error = *error;
    if (answers < MANY)
        order[answers] = (int)(item - items);
    answers++;
}

static void begin(void)
{
    memset(items, 0, sizeof items);
    answers = 0;
}

/* `bytes` times a letter that the index chooses. */
static void store_ranked(struct bench *bench, int index, const char *key, size_t bytes,
                         uint32_t ttl_s, struct rank rank)
{
    struct queue_value value = {.key = key, .value = malloc(bytes), .bytes = bytes, .ttl_s = ttl_s};
    memset(value.value, 'a' + index % 26, bytes);
    items[index].handle = queue_store(bench->queue, &value, &rank, on_stored, &items[index]);
    assert_non_null(items[index].handle);
}

static void store(struct bench *bench, int index, size_t bytes, uint32_t ttl_s)
{
    store_ranked(bench, index, text_of("t:img:%d", index), bytes, ttl_s, (struct rank){0});
}

static void check_stored(struct bench *bench, int index, size_t bytes)
{
    redisReply *reply = redis_command(bench->redis, "GET t:img:%d", index);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_int_equal(reply->len, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(reply->str[i], 'a' + index % 26);
    freeReplyObject(reply);
    assert_int_equal(items[index].answers, 1);
    assert_int_equal(items[index].error.status, STATUS_OK);
}

static long long exists(struct bench *bench, int index)
{
    return redis_integer(bench->redis, "EXISTS t:img:%d", index);
}

/* ---- the usual case ------------------------------------------------------------------------- */

TEST(test_values_and_ttls)
{
    static const size_t sizes[] = {1, 100, 16384, 65536, 65537, 1 << 20, LARGE_BYTES};
    struct bench *bench = set_up_started();
    begin();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        store(bench, (int)i, sizes[i], i % 2 ? 0 : 100 + (uint32_t)i);
    assert_int_equal(answers, 0); /* never inside the call */
    run_until(bench, answers == COUNT_OF(sizes));
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        check_stored(bench, (int)i, sizes[i]);
        long long ttl = redis_integer(bench->redis, "TTL t:img:%d", (int)i);
        if (i % 2)
            assert_int_equal(ttl, -1);
        else
            assert_in_range(ttl, 90 + i, 100 + i);
    }
    assert_int_equal(queue_view(bench->queue)->connects, 1);
    tear_down(bench);
}

/* A paused Redis answers no SET: at most STORES_MAX SETs and STORES_BYTES are on their way. */
TEST(test_calls_and_bytes_are_bounded)
{
    struct bench *bench = set_up_started();
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    begin();
    freeReplyObject(redis_command(bench->redis, "CLIENT PAUSE 60000 WRITE"));
    for (int i = 0; i < MANY; i++)
        store(bench, i, 10, 0);
    run_ms(bench, 100);
    assert_int_equal(answers, 0);
    for (int i = 0; i < MANY; i++)
        if (i % 3 == 0)
            queue_store_cancel(bench->queue, items[i].handle);
    freeReplyObject(redis_command(bench->redis, "CLIENT UNPAUSE"));
    run_until(bench, answers == MANY - MANY / 3);
    for (int i = 0; i < MANY; i++) {
        if (i % 3)
            check_stored(bench, i, 10);
        else /* of the cancelled ones, only those that were on their way are stored */
            assert_int_equal(exists(bench, i), i < STORES_MAX);
    }
    /* Two of 6 MiB may be on their way, but not three. */
    begin();
    freeReplyObject(redis_command(bench->redis, "FLUSHALL"));
    freeReplyObject(redis_command(bench->redis, "CLIENT PAUSE 60000 WRITE"));
    for (int i = 0; i < 5; i++)
        store(bench, i, 6 << 20, 0);
    run_ms(bench, 300);
    for (int i = 0; i < 5; i++)
        queue_store_cancel(bench->queue, items[i].handle);
    freeReplyObject(redis_command(bench->redis, "CLIENT UNPAUSE"));
    run_until(bench, exists(bench, 1) == 1);
    run_ms(bench, 100);
    for (int i = 0; i < 5; i++)
        assert_int_equal(exists(bench, i), i < 2);
    /* One that is larger than STORES_BYTES goes alone. */
    begin();
    store(bench, 0, STORES_BYTES + 1, 0);
    store(bench, 1, 1, 0);
    run_until(bench, answers == 2);
    check_stored(bench, 0, STORES_BYTES + 1);
    check_stored(bench, 1, 1);
    tear_down(bench);
}

TEST(test_ranks)
{
    struct bench *bench = set_up_started();
    begin();
    for (int i = 0; i < 20; i++)
        store_ranked(bench, i, text_of("t:img:%d", i), 10, 0,
                     (struct rank){.at = 100 + (uint64_t)i, .priority = 4});
    store_ranked(bench, 20, "t:img:20", 10, 0, (struct rank){.at = 1, .priority = 9});
    run_until(bench, answers == 21);
    assert_int_equal(order[0], 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(order[i + 1], i);
    tear_down(bench);
}

/* ---- Redis is away or refuses --------------------------------------------------------------- */

TEST(test_they_wait_for_redis)
{
    struct bench *bench = set_up_started();
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    begin();
    redis_server_freeze(bench->server, true);
    for (int i = 0; i < MANY; i++)
        store(bench, i, i % 2 ? 10 : 20000, 0);
    run_ms(bench, 50);
    redis_server_kill9(bench->server); /* some are on their way */
    run_until(bench, queue_view(bench->queue)->state == QUEUE_CONNECTING);
    queue_store_cancel(bench->queue, items[0].handle);
    queue_store_cancel(bench->queue, items[MANY - 1].handle);
    run_ms(bench, 1000);
    assert_int_equal(answers, 0);
    redis_server_restart(bench->server);
    reconnect(bench);
    run_until(bench, answers == MANY - 2);
    for (int i = 1; i < MANY - 1; i++)
        check_stored(bench, i, i % 2 ? 10 : 20000);
    assert_int_equal(exists(bench, MANY - 1), 0);
    assert_int_equal(items[0].answers + items[MANY - 1].answers, 0);
    tear_down(bench);
}

/* Over maxmemory, outputs wait until there is memory. */
TEST(test_out_of_memory)
{
    struct bench *bench = set_up_started();
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    begin();
    freeReplyObject(redis_command(bench->redis, "CONFIG SET maxmemory 1"));
    for (int i = 0; i < 100; i++)
        store(bench, i, 20000, 0);
    run_ms(bench, 1500);
    assert_int_equal(answers, 0);
    assert_int_equal(redis_integer(bench->redis, "DBSIZE"), 1); /* t:inst */
    freeReplyObject(redis_command(bench->redis, "CONFIG SET maxmemory 0"));
    run_until(bench, answers == 100);
    for (int i = 0; i < 100; i++)
        check_stored(bench, i, 20000);
    assert_int_equal(queue_view(bench->queue)->connects, 1);
    tear_down(bench);
}

/* ---- denied keys and commands --------------------------------------------------------------- */

TEST(test_a_denied_key)
{
    struct bench *bench = set_up_started();
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    begin();
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default resetkeys ~t:[^i]* ~t:inst "
                                                "~t:img:*[02468]"));
    for (int i = 0; i < MANY; i++)
        store(bench, i, 20000, 0);
    run_until(bench, answers == MANY);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default allkeys"));
    for (int i = 0; i < MANY; i += 2)
        check_stored(bench, i, 20000);
    for (int i = 1; i < MANY; i += 2) {
        assert_int_equal(items[i].answers, 1);
        assert_int_equal(items[i].error.status, STATUS_PATH_REFUSED);
        assert_non_null(strstr(items[i].error.text, text_of("Redis does not let this daemon write "
                                                            "the key \"t:img:%d\" (",
                                                            i)));
        assert_int_equal(exists(bench, i), 0);
    }
    tear_down(bench);
}

/* Only outputs of images need SET: they fail, and do not wait for an administrator. */
TEST(test_a_denied_command)
{
    struct bench *bench = set_up_started();
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    begin();
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default -set"));
    for (int i = 0; i < 100; i++)
        store(bench, i, 100, 0);
    run_until(bench, answers == 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(items[i].answers, 1);
        assert_int_equal(items[i].error.status, STATUS_PATH_REFUSED);
        assert_non_null(strstr(items[i].error.text,
                               text_of("Redis does not let this daemon run SET, which stores the "
                                       "key \"t:img:%d\" (NOPERM ",
                                       i)));
        assert_non_null(strstr(items[i].error.text, "+set"));
    }
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default +set"));
    begin();
    store(bench, 0, 100, 0);
    run_until(bench, answers == 1);
    check_stored(bench, 0, 100);
    tear_down(bench);
}

/* If the daemon may do nothing, or no key is permitted, an administrator must act. */
TEST(test_denied_daemons_wait)
{
    static const char *const denials[] = {"ACL SETUSER default -set -eval",
                                          "ACL SETUSER default resetkeys"};
    struct bench *bench = set_up_started();
    for (size_t i = 0; i < COUNT_OF(denials); i++) {
        run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
        begin();
        freeReplyObject(redis_command(bench->redis, denials[i]));
        for (int k = 0; k < 100; k++)
            store(bench, k, 100, 0);
        run_ms(bench, 600);
        assert_int_equal(answers, 0);
        freeReplyObject(redis_command(bench->redis, "ACL SETUSER default allkeys +@all"));
        run_until(bench, answers == 100);
        for (int k = 0; k < 100; k++)
            check_stored(bench, k, 100);
        freeReplyObject(redis_command(bench->redis, "FLUSHALL"));
    }
    tear_down(bench);
}

/* ---- values that are too large -------------------------------------------------------------- */

static void check_too_large(struct bench *bench, const char *bound)
{
    begin();
    for (int i = 0; i < 40; i++)
        store(bench, i, i == 7 ? LARGE_BYTES : 30000, 0);
    run_until(bench, answers == 40);
    for (int i = 0; i < 40; i++)
        if (i != 7)
            check_stored(bench, i, 30000);
    assert_int_equal(items[7].error.status, STATUS_PATH_REFUSED);
    assert_non_null(strstr(items[7].error.text,
                           text_of("Redis does not take the %d bytes of the output for the key "
                                   "\"t:img:7\": ",
                                   LARGE_BYTES)));
    if (!strstr(items[7].error.text, bound))
        fail_msg("no \"%s\" in %s", bound, items[7].error.text);
    assert_int_equal(exists(bench, 7), 0);
}

/* Redis says so: the value is not sent. */
TEST(test_a_value_over_proto_max_bulk_len)
{
    struct bench *bench = set_up(redis_server_start("--proto-max-bulk-len", "1mb", NULL));
    start_queue(bench);
    check_too_large(bench, "proto-max-bulk-len is 1048576");
    assert_int_equal(queue_view(bench->queue)->connects, 1);
    tear_down(bench);
}

/* Redis closes the connection. */
TEST(test_a_value_over_an_unknown_limit)
{
    struct bench *bench = set_up(redis_server_start("--proto-max-bulk-len", "1mb", NULL));
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER default -config"));
    start_queue(bench);
    check_too_large(bench, "its proto-max-bulk-len is not known");
    assert_in_range(queue_view(bench->queue)->connects, 2, 4);
    tear_down(bench);
}

TEST(test_a_value_over_client_query_buffer_limit)
{
    struct bench *bench = set_up(redis_server_start("--client-query-buffer-limit", "1mb", NULL));
    start_queue(bench);
    check_too_large(bench, "it or a proxy may have a lower limit");
    assert_in_range(queue_view(bench->queue)->connects, 3, 5);
    tear_down(bench);
}

TEST(test_a_proxy_that_answers_large_calls_with_an_error)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct line *line = line_open(bench->server->socket);
    line_refuse(line, 1 << 20);
    bench->config.redis = (char *)line_address(line);
    start_queue(bench);
    check_too_large(bench, "it or a proxy may have a lower limit");
    assert_int_equal(queue_view(bench->queue)->connects, 1);
    tear_down(bench);
    line_close(line);
}

/* ---- the end of the queue ------------------------------------------------------------------- */

/* Those that wait or are on their way when the queue is destroyed get no callback. */
TEST(test_destroyed_with_the_queue)
{
    struct bench *bench = set_up_started();
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    begin();
    redis_server_freeze(bench->server, true);
    for (int i = 0; i < MANY; i++)
        store(bench, i, i % 2 ? 10 : 1 << 18, 0);
    run_ms(bench, 50);
    queue_destroy(bench->queue);
    bench->queue = NULL;
    run_ms(bench, 50);
    assert_int_equal(answers, 0);
    redis_server_freeze(bench->server, false);
    tear_down(bench);
}

TEST_MAIN(.name = "store")
