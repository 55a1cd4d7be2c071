/* Tests of calls that Redis, or a proxy, cannot take, and of replies that it cannot send: only the
 * job that is too large fails. */
#include "tests/fixtures/queue/queue_bench.h"

#include "tests/fixtures/line.h"

#define LARGE_BYTES (3 << 20)
#define OUTPUT(key) "{\"key\":\"" key "\",\"format\":\"png\",\"width\":8,\"height\":8,\"bytes\":9}"
/* Enough for the batch, three tries with the outputs, and three without. */
#define CONNECTS_MOST 8

static struct queue_value value_of(const char *key, size_t bytes)
{
    struct queue_value value = {.key = key, .value = malloc(bytes), .bytes = bytes};
    memset(value.value, 'v', bytes);
    return value;
}

/* Ends a job with two outputs in Redis, of a few bytes and of LARGE_BYTES. */
static void end_large(struct bench *bench, struct lease *lease, bool dead)
{
    struct queue_value values[] = {value_of("t:img:small", 9),
                                   value_of("t:img:large", LARGE_BYTES)};
    struct queue_answer answer = {
        .result = strdup(text_of("{\"id\":\"large\",\"job\":%llu,\"status\":\"%s\",\"outputs\":["
                                 OUTPUT("t:img:small") "," OUTPUT("t:img:large") "]}",
                                 (unsigned long long)lease->number, dead ? "dead" : "done")),
        .id = "large", .values = values, .value_count = 2};
    take_off(bench, lease);
    if (dead)
        queue_retry(bench->queue, lease, &answer);
    else
        queue_done(bench->queue, lease, &answer);
}

/* Ends five jobs together, the second of which is too large, and then five others. */
static void run_large(struct bench *bench, bool dead)
{
    if (dead)
        bench->config.attempts = 1;
    start_queue(bench);
    lease_jobs(bench, 5);
    struct lease *leases[5];
    memcpy(leases, bench->leases, sizeof leases);
    for (size_t i = 0; i < 5; i++)
        if (i == 1)
            end_large(bench, leases[i], dead);
        else
            done(bench, leases[i]);
    run_until(bench, bench->settled == 5);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(bench->dead, dead);
    assert_int_equal(bench->denied, 1);
    assert_in_range(queue_view(bench->queue)->connects, 1, CONNECTS_MOST);
    lease_jobs(bench, 5);
    finish_jobs(bench);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 10);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:img:large t:lease"), 0);
}

/* Returns the result of the large job. */
static const char *check_large(struct bench *bench, bool dead, const char *bound)
{
    run_large(bench, dead);
    const char *result = redis_text(bench->redis, "GET t:result:large");
    assert_non_null(strstr(result, dead ? "\"status\":\"dead\"" : "\"status\":\"failed\""));
    assert_non_null(strstr(result, "\"path_refused\""));
    assert_non_null(strstr(result, text_of("the %d bytes of the output for the key "
                                           "\\\"t:img:large\\\"", LARGE_BYTES)));
    if (!strstr(result, bound))
        fail_msg("no \"%s\" in %s", bound, result);
    return result;
}

TEST(test_a_value_over_proto_max_bulk_len)
{
    for (int dead = 0; dead < 2; dead++) {
        struct bench *bench = set_up(redis_server_start("--proto-max-bulk-len", "1mb", NULL));
        check_large(bench, dead, "proto-max-bulk-len is 1048576");
        expect_text(bench, "vvvvvvvvv", "GET t:img:small"); /* the other output is stored */
        tear_down(bench);
    }
}

TEST(test_a_call_over_client_query_buffer_limit)
{
    struct bench *bench = set_up(redis_server_start("--client-query-buffer-limit", "1mb", NULL));
    check_large(bench, false, "it or a proxy may have a lower limit");
    tear_down(bench);
}

TEST(test_a_proxy_that_answers_large_calls_with_an_error)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct line *line = line_open(bench->server->socket);
    line_refuse(line, 1 << 20);
    bench->config.redis = (char *)line_address(line);
    check_large(bench, false, "it or a proxy may have a lower limit");
    assert_int_equal(queue_view(bench->queue)->connects, 1);
    tear_down(bench);
    line_close(line);
}

/* A large result without outputs in Redis becomes a short one. */
TEST(test_a_result_that_is_too_large)
{
    struct bench *bench = set_up(redis_server_start("--proto-max-bulk-len", "1mb", NULL));
    start_queue(bench);
    lease_jobs(bench, 2);
    struct lease *lease = bench->leases[0];
    char *meta = malloc(LARGE_BYTES + 1);
    memset(meta, 'm', LARGE_BYTES);
    meta[LARGE_BYTES] = '\0';
    char *result = NULL;
    assert_true(asprintf(&result, "{\"id\":\"x\",\"job\":%llu,\"status\":\"done\",\"meta\":\"%s\","
                                  "\"outputs\":[],\"attempt\":1,\"daemon\":\"h:1\"}",
                         (unsigned long long)lease->number, meta) > 0);
    free(meta);
    take_off(bench, lease);
    queue_done(bench->queue, lease, &(struct queue_answer){.result = result, .id = "x"});
    done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 2);
    assert_int_equal(bench->denied, 1);
    const char *start = "{\"id\":\"x\",\"job\":1,\"status\":\"failed\",\"error\":{\"code\":"
                        "\"path_refused\",\"message\":\"Redis does not take the 31458";
    const char *text = redis_text(bench->redis, "GET t:result:x");
    assert_memory_equal(text, start, strlen(start));
    assert_non_null(strstr(text, "},\"attempt\":1,\"daemon\":\"h:1\"}"));
    tear_down(bench);
}

/* A connection that breaks under small ends fails none of them. */
TEST(test_small_ends_are_never_the_reason)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct line *line = line_open(bench->server->socket);
    bench->config.redis = (char *)line_address(line);
    start_queue(bench);
    lease_jobs(bench, 3);
    line_cut(line, "{\"status\":\"done\"}", 6);
    finish_jobs(bench);
    assert_int_equal(line_cuts(line), 6);
    assert_int_equal(bench->denied + bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 3);
    tear_down(bench);
    line_close(line);
}

/* Each reconnect waits longer while the call that breaks the connection is not accepted. */
TEST(test_reconnects_slow_down)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct line *line = line_open(bench->server->socket);
    bench->config.redis = (char *)line_address(line);
    start_queue(bench);
    lease_jobs(bench, 1);
    line_cut(line, "{\"status\":\"done\"}", 1000);
    done(bench, bench->leases[0]);
    run_ms(bench, 1500);
    assert_in_range(line_cuts(line), 2, 8); /* without longer pauses: 25 */
    line_cut(line, "", 0);
    run_until(bench, bench->settled == 1);
    tear_down(bench);
    line_close(line);
}

static void push_texts(struct bench *bench, int count, size_t bytes)
{
    char *text = malloc(bytes + 1);
    memset(text, 'j', bytes);
    text[bytes] = '\0';
    for (int i = 0; i < count; i++)
        redis_integer(bench->redis, "LPUSH t:jobs %s", text);
    free(text);
}

/* FETCH asks for fewer jobs if Redis cannot send the reply. */
TEST(test_replies_over_client_output_buffer_limit)
{
    struct bench *bench = set_up(redis_server_start("--client-output-buffer-limit",
                                                    "normal 200kb 0 0", NULL));
    push_texts(bench, 60, 30000);
    bench->finish_at_once = true;
    start_queue(bench);
    queue_set_places(bench->queue, 64);
    run_until(bench, bench->settled == 60);
    assert_int_equal(bench->stale + bench->dead + bench->lost, 0);
    assert_in_range(queue_view(bench->queue)->connects, 2, 8);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 60);
    tear_down(bench);
}

/* One text that alone is too long comes as its beginning, and the others are fetched. */
TEST(test_a_job_over_client_output_buffer_limit)
{
    struct bench *bench = set_up(redis_server_start("--client-output-buffer-limit",
                                                    "normal 40kb 0 0", NULL));
    push_texts(bench, 3, 100);
    push_texts(bench, 1, 60000);
    push_texts(bench, 3, 100);
    start_queue(bench);
    queue_set_places(bench->queue, 64);
    run_until(bench, bench->leased == 7);
    size_t cut = 0;
    for (size_t i = 0; i < bench->lease_count; i++) {
        const struct lease *lease = bench->leases[i];
        if (lease->raw)
            continue;
        cut++;
        assert_int_equal(lease->raw_bytes, 60000);
        assert_in_range(lease->raw_bytes_max, 1, 40000);
        assert_int_equal(lease->attempt, 1);
    }
    assert_int_equal(cut, 1);
    finish_jobs(bench);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

/* The reply of each script exceeds this limit: the reason names it, until it is raised. */
TEST(test_no_reply_fits_into_client_output_buffer_limit)
{
    struct bench *bench = set_up(redis_server_start("--client-output-buffer-limit",
                                                    "normal 10kb 0 0", NULL));
    push_texts(bench, 3, 300);
    bench->finish_at_once = true;
    start_queue(bench);
    queue_set_places(bench->queue, 8);
    const struct queue_view *view = queue_view(bench->queue);
    run_until(bench, strstr(view->reason, "set client-output-buffer-limit normal to at least"));
    freeReplyObject(redis_command(bench->redis, "CONFIG SET client-output-buffer-limit %s",
                                  "normal 32kb 0 0"));
    run_until(bench, bench->settled == 3);
    assert_null(strstr(queue_view(bench->queue)->reason, "client-output-buffer-limit"));
    tear_down(bench);
}

TEST_MAIN(.name = "bounds")
