/* Tests of the queue while Redis is away, full or frozen, or refuses its commands. */
#include "tests/fixtures/queue/queue_bench.h"

#include <dlfcn.h>
#include <unistd.h>

#include "queue/lease/lease_impl.h"
#include "queue/redis/script.h"
#include "tests/fixtures/line.h"

TEST(test_survives_redis_kill_and_restart)
{
    struct bench *bench = set_up_with_jobs(20);
    redis_server_kill9(bench->server);
    while (bench->lease_count)
        done(bench, bench->leases[0]);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_CONNECTING);
    assert_int_equal(queue_view(bench->queue)->unacknowledged, 20);
    assert_true(*queue_view(bench->queue)->reason);
    run_ms(bench, 300);
    assert_int_equal(bench->settled, 0);
    redis_server_restart(bench->server);
    reconnect(bench);
    run_until(bench, bench->settled == 20);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 20);
    assert_int_equal(queue_view(bench->queue)->state, QUEUE_READY);
    lease_jobs(bench, 1);
    tear_down(bench);
}

/* Each script's text is sent once, and again after Redis has lost it. */
TEST(test_scripts_are_loaded_again)
{
    struct bench *bench = set_up_started();
    bench->finish_at_once = true;
    queue_set_places(bench->queue, 64);
    push(bench, 1);
    run_until(bench, bench->settled == 1);
    long long by_text = calls(bench, "eval"), by_name = calls(bench, "evalsha");
    freeReplyObject(redis_command(bench->redis, "SCRIPT FLUSH"));
    for (size_t i = 0; i < 20; i++) {
        push(bench, 1);
        run_until(bench, bench->settled == 2 + i);
    }
    assert_in_range(calls(bench, "eval") - by_text, 2, 10);
    assert_true(calls(bench, "evalsha") - by_name >= 40);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

/* While Redis loads its data, it answers every command with LOADING. */
TEST(test_waits_out_loading)
{
    struct bench *bench =
        set_up(redis_server_start("--key-load-delay", "200", NULL)); /* microseconds per key */
    push(bench, 4000); /* Redis serves its connections after each 1024 keys */
    start_queue(bench);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    redis_server_restart_nowait(bench->server);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "LOADING") != NULL);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    reconnect(bench);
    tear_down(bench);
}

static void write_password(const char *path, const char *password)
{
    FILE *file = fopen(path, "w");
    fprintf(file, "%s\n", password);
    fclose(file);
}

TEST(test_wrong_password_then_right)
{
    struct bench *bench = set_up(redis_server_start("--requirepass", "right", NULL));
    freeReplyObject(redis_command(bench->redis, "AUTH right"));
    push(bench, 1);
    const char *path = text_of("%s/password", bench->server->folder);
    write_password(path, "wrong");
    bench->config.redis_password_file = (char *)path;
    start_queue(bench);
    queue_set_places(bench->queue, 1);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "WRONGPASS") != NULL);
    assert_int_equal(bench->leased, 0);
    write_password(path, "right");
    run_until(bench, bench->leased == 1);
    finish_jobs(bench);
    tear_down(bench);
}

TEST(test_acl_user_database_and_tcp)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker on >secret ~t:* +@read "
                                                "+@write +@scripting +@connection +@blocking "
                                                "+info +time")); /* PROTOCOL.md */
    freeReplyObject(redis_command(bench->redis, "SELECT 3"));
    push(bench, 1);
    const char *path = text_of("%s/password", bench->server->folder);
    write_password(path, "secret");
    bench->config.redis = bench->server->tcp;
    bench->config.redis_username = "worker";
    bench->config.redis_password_file = (char *)path;
    bench->config.redis_database = 3;
    start_queue(bench);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    finish_jobs(bench);
    /* After rights are taken away the queue waits; it resumes when they are back. */
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker -evalsha -eval"));
    queue_set_places(bench->queue, 1);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "NOPERM") != NULL);
    assert_int_equal(queue_view(bench->queue)->state, QUEUE_WAITING);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker +evalsha +eval"));
    push(bench, 1);
    run_until(bench, bench->leased == 2);
    tear_down(bench);
}

/* The user may write only some image and reply keys. The bench has leased three jobs. */
static struct bench *set_up_denied(char *path, size_t size, char *results)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker on >secret ~t:[^ir]* ~t:inst "
                                                "~t:results ~t:result:* ~t:img:ours ~t:reply:ours "
                                                "+@all"));
    push(bench, 3);
    snprintf(path, size, "%s/password", bench->server->folder);
    write_password(path, "secret");
    bench->config.redis_username = "worker";
    bench->config.redis_password_file = (char *)path;
    bench->config.attempts = 1;
    bench->config.results = results;
    start_queue(bench);
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 3);
    return bench;
}

static struct queue_value value_of(const char *key)
{
    struct queue_value value = {.key = key, .value = malloc(1), .bytes = 1};
    *value.value = 'v';
    return value;
}

#define META "{\"big\":12345678901234567890.10,\"text\":\"\\u00e9\"}"
#define OUTPUT(key) "{\"key\":\"" key "\",\"format\":\"png\",\"width\":8,\"height\":8,\"bytes\":1"

/* A key that an ACL denies fails its own job, not the other jobs of the batch. */
TEST(test_a_denied_key_fails_its_job_alone)
{
    char path[256];
    struct bench *bench = set_up_denied(path, sizeof path, "list");
    struct queue_value theirs[] = {value_of("t:img:ours"), value_of("t:img:theirs")};
    struct queue_value ours = value_of("t:img:ours");
    queue_done(bench->queue, bench->leases[0],
               &(struct queue_answer){
                   .result = strdup("{\"job\":1,\"status\":\"done\",\"meta\":" META ",\"outputs\":["
                                    OUTPUT("t:img:ours") "}," OUTPUT("t:img:theirs")
                                    ",\"values\":{}}]}"),
                   .values = theirs, .value_count = 2});
    queue_done(bench->queue, bench->leases[1],
               &(struct queue_answer){.result = strdup("to nobody"), .reply_to = "t:reply:theirs"});
    queue_done(bench->queue, bench->leases[2],
               &(struct queue_answer){.result = strdup("to us"), .reply_to = "t:reply:ours",
                                      .values = &ours, .value_count = 1});
    run_until(bench, bench->settled == 3);
    assert_int_equal(bench->stale + bench->dead, 0);
    assert_int_equal(bench->denied, 1);
    expect_text(bench, "to us", "RPOP t:reply:ours");
    const char *failed = redis_text(bench->redis, "RPOP t:results");
    const char *error = ",\"error\":{\"code\":\"path_refused\",\"message\":\"Redis does not let "
                        "this daemon write the key \\\"t:img:theirs\\\" (NOPERM";
    const char *start = "{\"job\":1,\"status\":\"failed\"";
    const char *meta = "},\"meta\":" META ",\"outputs\":[";
    assert_memory_equal(failed, start, strlen(start));
    assert_memory_equal(failed + strlen(start), error, strlen(error));
    const char *outputs = strstr(failed, meta);
    assert_non_null(outputs);
    outputs += strlen(meta);
    const char *both = OUTPUT("t:img:ours") "},{\"key\":\"t:img:theirs\",\"format\":\"png\"";
    assert_memory_equal(outputs, both, strlen(both));
    assert_memory_equal(outputs + strlen(both), error, strlen(error));
    expect_text(bench, "to nobody", "RPOP t:results");
    expect_text(bench, "v", "GET t:img:ours");
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:img:theirs t:reply:theirs"), 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 0);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:lease t:job:1 t:job:2 t:job:3"), 0);
    tear_down(bench);
}

/* The same for dead jobs, even if results are not listed: otherwise nobody would get the result. */
TEST(test_a_denied_reply_of_dead_jobs)
{
    char path[256];
    struct bench *bench = set_up_denied(path, sizeof path, "none");
    for (int i = 0; i < 3; i++)
        queue_retry(bench->queue, bench->leases[i],
                    &(struct queue_answer){.result = strdup(i == 1 ? "to nobody" : "to us"),
                                           .reply_to = i == 1 ? "t:reply:theirs" : "t:reply:ours"});
    run_until(bench, bench->settled == 3);
    assert_int_equal(bench->dead, 3);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:reply:ours"), 2);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:dead"), 3);
    expect_text(bench, "to nobody", "RPOP t:results");
    tear_down(bench);
}

/* If an ACL denies more than a job's key, the batch is retried until the rights are back. */
TEST(test_rights_taken_away_deny_no_job)
{
    char path[256];
    struct bench *bench = set_up_denied(path, sizeof path, "list");
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker -@scripting"));
    for (int i = 0; i < 3; i++)
        queue_done(bench->queue, bench->leases[i],
                   &(struct queue_answer){.result = strdup("to us"), .reply_to = "t:reply:ours"});
    run_until(bench, strstr(queue_view(bench->queue)->reason, "NOPERM") != NULL);
    assert_int_equal(bench->settled, 0);
    freeReplyObject(redis_command(bench->redis, "ACL SETUSER worker +@scripting"));
    run_until(bench, bench->settled == 3);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:reply:ours"), 3);
    assert_int_equal(bench->denied, 0);
    tear_down(bench);
}

TEST(test_cut_connection_and_resume)
{
    struct bench *bench = set_up_started();
    push(bench, 2);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    /* A lease in Redis that the daemon does not know: the reply of its FETCH was lost. */
    redis_integer(bench->redis, "HSET t:job:50 raw cut state leased attempt 1 owner %s token %s:0",
                  bench->inst, bench->inst);
    redis_integer(bench->redis, "ZADD t:lease 99999999999999 50");
    redis_integer(bench->redis, "SADD t:leases:%s 50", bench->inst);
    redis_integer(bench->redis, "CLIENT KILL TYPE normal SKIPME yes");
    run_until(bench, redis_integer(bench->redis, "ZCARD t:lease") == 1);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 2);
    assert_string_equal(bench->leases[1]->raw, "cut");
    assert_int_equal(bench->leases[1]->attempt, 1); /* RESUME returned the attempt */
    assert_int_equal(bench->lost, 0);
    finish_jobs(bench);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

/* The same for a daemon that ends before its second RESUME is due. */
TEST(test_close_returns_unknown_leases)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->config.renew_s = 600;
    start_queue(bench);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    run_ms(bench, 50);
    redis_integer(bench->redis, "HSET t:job:50 raw cut state leased attempt 1 owner %s token %s:0",
                  bench->inst, bench->inst);
    redis_integer(bench->redis, "ZADD t:lease 99999999999999 50");
    redis_integer(bench->redis, "SADD t:leases:%s 50", bench->inst);
    close_queue(bench, 10);
    expect_text(bench, "@50", "LINDEX t:jobs 0");
    expect_text(bench, "0", "HGET t:job:50 attempt");
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:lease t:inst"), 0);
    tear_down(bench);
}

/* Redis knows LEAVE, and has lost the other scripts. So the RENEW that passes the watch on is sent
 * twice: the second time after LEAVE, if LEAVE does not wait for it. */
TEST(test_no_renew_follows_leave)
{
    struct bench *first = set_up(redis_server_start(NULL));
    first->config.renew_s = 0.05;
    struct bench *second = set_up_beside(first, "host2");
    start_queue(first);
    queue_set_places(first->queue, 1);
    run_until(first, redis_integer(first->redis, "EXISTS t:watcher") == 1);
    start_queue(second);
    queue_set_places(second->queue, 1);
    run_until(first, redis_integer(first->redis, "ZCARD t:inst") == 2);
    run_ms(first, 300); /* a RENEW says that there are two daemons */
    struct bench *watcher =
        strcmp(redis_text(first->redis, "GET t:watcher"), first->inst) == 0 ? first : second;
    struct bench *other = watcher == first ? second : first;
    freeReplyObject(redis_command(first->redis, "SCRIPT FLUSH"));
    freeReplyObject(
        redis_command(first->redis, "SCRIPT LOAD %s", script_text(SCRIPT_ID_LEAVE)));
    close_queue(watcher, 10);
    assert_null(redis_string(first->redis, "ZSCORE t:inst %s", watcher->inst));
    run_until(first, redis_integer(first->redis, "ZCARD t:inst") == 1);
    close_queue(other, 10);
    assert_int_equal(redis_integer(first->redis, "EXISTS t:inst t:watcher t:wake"), 0);
    tear_down_beside(second);
    tear_down(first);
}

/* A RENEW takes longer than renew_s, so one is always without a reply. */
TEST(test_slow_renews_do_not_hold_the_end)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct line *line = line_open(bench->server->socket);
    bench->config.redis = (char *)line_address(line);
    bench->config.renew_s = 0.05;
    start_queue(bench);
    queue_set_places(bench->queue, 1);
    run_until(bench, redis_integer(bench->redis, "EXISTS t:watcher") == 1);
    line_slow(line, 5);
    run_ms(bench, 300);
    close_queue(bench, 10);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:inst t:watcher t:wake"), 0);
    tear_down(bench);
    line_close(line);
}

TEST(test_frozen_redis_is_left_and_come_back_to)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->config.command_timeout_s = 0.3;
    bench->config.connect_timeout_s = 0.3;
    start_queue(bench);
    lease_jobs(bench, 3);
    redis_server_freeze(bench->server, true);
    while (bench->lease_count) /* Redis runs their DONE later, and its reply is lost */
        done(bench, bench->leases[0]);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "no answer") != NULL);
    redis_server_freeze(bench->server, false);
    run_until(bench, bench->settled == 3);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 3);
    tear_down(bench);
}

TEST(test_full_redis_drains)
{
    struct bench *bench = set_up_started();
    push(bench, 50);
    run_until(bench, queue_view(bench->queue)->state == QUEUE_READY);
    freeReplyObject(redis_command(bench->redis, "CONFIG SET maxmemory 1"));
    assert_non_null(strstr(redis_text(bench->redis, "LPUSH t:jobs x"), "OOM"));
    bench->finish_at_once = true;
    queue_set_places(bench->queue, 64);
    run_until(bench, bench->settled == 50);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 50);
    tear_down(bench);
}

TEST(test_wrongtype_is_waited_out)
{
    struct bench *bench = set_up_with_jobs(1);
    freeReplyObject(redis_command(bench->redis, "SET t:results oops"));
    done(bench, bench->leases[0]);
    run_until(bench, strstr(queue_view(bench->queue)->reason, "WRONGTYPE") != NULL);
    assert_int_equal(queue_view(bench->queue)->state, QUEUE_WAITING);
    assert_int_equal(queue_view(bench->queue)->unacknowledged, 1);
    redis_integer(bench->redis, "DEL t:results");
    run_until(bench, bench->settled == 1);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1);
    tear_down(bench);
}

/* The command timeout does not apply while the bytes of the command still move. */
TEST(test_large_done_over_a_slow_line)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct queue_value value = {.key = "t:img:a", .bytes = 1 << 20};
    struct line *line = line_open(bench->server->socket);
    line_slow(line, 2000); /* bytes per ms: at least half a second for the whole command */
    bench->config.redis = (char *)line_address(line);
    bench->config.command_timeout_s = 0.3;
    start_queue(bench);
    lease_jobs(bench, 1);
    value.value = calloc(1, value.bytes);
    queue_done(bench->queue, bench->leases[0],
               &(struct queue_answer){
                   .result = strdup("{}"), .values = &value, .value_count = 1});
    run_until(bench, bench->settled == 1);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "STRLEN t:img:a"), 1 << 20);
    tear_down(bench);
    line_close(line);
}

TEST(test_close_while_redis_is_down)
{
    struct bench *bench = set_up_with_jobs(2);
    redis_server_kill9(bench->server);
    done(bench, bench->leases[0]); /* queue_destroy drops the other lease */
    close_queue(bench, 0.2);
    redis_server_restart(bench->server);
    reconnect(bench);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 2);
    tear_down(bench);
}

/* ---- many daemons reconnect --------------------------------------------------------------- */

#define DAEMONS 20
#define RETRY_FIRST_MS 100 /* the longest pause before the first try */

struct pauses {
    const struct redis *connections[2 * DAEMONS]; /* each daemon has two */
    uint64_t ms[2 * DAEMONS];
    size_t connection_count, count;
};

/* Notes the pause of a connection that now waits to retry, and leaves its place. */
static void note_pause(uv_handle_t *handle, void *context)
{
    struct pauses *pauses = context;
    if (handle->type != UV_TIMER || !uv_is_active(handle))
        return;
    for (size_t i = 0; i < pauses->connection_count; i++)
        if (pauses->connections[i] == handle->data) {
            pauses->connections[i] = NULL;
            pauses->ms[pauses->count++] = uv_timer_get_due_in((uv_timer_t *)handle);
        }
}

static long long connected(struct bench *bench)
{
    char *info = redis_string(bench->redis, "INFO clients");
    long long count = atoll(strstr(info, "connected_clients:") + 18);
    free(info);
    return count;
}

/* Replaces hiredis's function: the next reply becomes that of a Cluster that moved the slot. */
static bool next_is_moved;

int redisReaderGetReply(redisReader *reader, void **reply)
{
    static int (*next)(redisReader *, void **);
    static const char moved[] = "-MOVED 1 127.0.0.1:1\r\n";
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "redisReaderGetReply");
    int status = next(reader, reply);
    if (!next_is_moved || status != REDIS_OK || !*reply)
        return status;
    next_is_moved = false;
    freeReplyObject(*reply);
    redisReader *other = redisReaderCreate();
    redisReaderFeed(other, moved, sizeof moved - 1);
    status = next(other, reply);
    redisReaderFree(other);
    return status;
}

/* The reply to LEAVE changes the server for all connections, while the queue closes them. */
TEST(test_slot_moves_while_the_queue_leaves)
{
    struct bench *bench = set_up_with_jobs(1);
    finish_jobs(bench);
    run_ms(bench, 50);
    bench->closed = false;
    queue_close(bench->queue, 5, on_closed, bench);
    next_is_moved = true;
    run_until(bench, bench->closed);
    assert_false(next_is_moved);
    queue_destroy(bench->queue);
    bench->queue = NULL;
    tear_down(bench);
}

/* Daemons that lose Redis at the same time retry after different random pauses. */
TEST(test_reconnects_are_spread)
{
    struct bench *all[DAEMONS] = {set_up(redis_server_start(NULL))}, *first = all[0];
    struct pauses pauses = {.count = 0};
    first->config.lease_s = 3600; /* no other timer is due soon */
    first->config.renew_s = first->config.reap_s = first->config.block_s = 600;
    first->config.connect_timeout_s = first->config.command_timeout_s = 60;
    for (size_t i = 0; i < DAEMONS; i++) {
        const char *host = text_of("host%zu", i);
        if (i > 0)
            all[i] = set_up_beside(first, host);
        start_queue(all[i]);
        run_until(first, queue_view(all[i]->queue)->state == QUEUE_READY);
    }
    run_until(first, connected(first) == 2 * DAEMONS + 1);
    for (size_t i = 0; i < DAEMONS; i++) {
        pauses.connections[pauses.connection_count++] = all[i]->queue->redis;
        pauses.connections[pauses.connection_count++] = all[i]->queue->wait.redis;
    }
    redis_integer(first->redis, "CLIENT KILL TYPE normal SKIPME yes");
    for (int turns = 0; pauses.count < 2 * DAEMONS && turns < 10000; turns++) {
        uv_run(&first->loop, UV_RUN_ONCE);
        uv_walk(&first->loop, note_pause, &pauses);
    }
    assert_int_equal(pauses.count, 2 * DAEMONS);
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < pauses.count; i++) {
        least = pauses.ms[i] < least ? pauses.ms[i] : least;
        most = pauses.ms[i] > most ? pauses.ms[i] : most;
    }
    assert_in_range(most - least, RETRY_FIRST_MS / 2, RETRY_FIRST_MS);
    for (size_t i = DAEMONS - 1; i > 0; i--)
        tear_down_beside(all[i]);
    tear_down(first);
}

TEST_MAIN(.name = "connection")
