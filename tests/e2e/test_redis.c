/*
 * test_redis.c - what is lost when Redis or a daemon goes away, is slow, or says no: nothing.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/check.h"
#include "tests/tools/text_file.h"

#define JOBS_MAX 400

static struct world world;
static struct world *const w = &world;

static void put_pictures(void)
{
    world_put_photo(w, "p.jpg", 160, 120);
    world_put_slow(w);
}

static int open_world(void **state)
{
    (void)state;
    world_open(w, redis_server_start(NULL, NULL));
    put_pictures();
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(w);
    return 0;
}

static void push_jobs(int from, int to)
{
    for (int i = from; i < to; i++)
        world_push(w, "{'id':'%d','input':'p.jpg','output':'%d.png','ops':['sobel']}", i, i);
}

static void push_slow(int id)
{
    world_push(w, "{'id':'%d','input':'slow.png','output':{'path':'%d.png','compression':9},"
                  "'ops':[]}", id, id);
}

/* Results of jobs from..to, each exactly once, all done; marks those that have come in `seen`. */
static void take_results(bool *seen, int count)
{
    for (int i = 0; i < count; i++) {
        cJSON *result = check_next(w);
        int id = atoi(json_text(result, "id"));
        assert_in_range(id, 0, JOBS_MAX - 1);
        if (seen[id])
            print_error("job %d has two results\n", id);
        assert_false(seen[id]);
        seen[id] = true;
        check_done(result);
    }
}

static void finish(size_t daemons)
{
    for (size_t i = 0; i < daemons; i++)
        check_stop(&w->daemons[i]);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

/* ---- Redis is away --------------------------------------------------------------------------- */

static void test_redis_away_at_start(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    redis_server_kill9(w->redis);
    struct process *daemon = world_start(w, 0, NULL);
    check_ready(daemon); /* the engine is what READY stands for */
    assert_true(process_noted(daemon, 0, "Redis", 10)); /* in STATUS= */
    process_sleep(patience(0.7));
    size_t mark = process_log_mark(daemon);
    assert_true(mark > 0);
    process_sleep(patience(1.0));
    assert_int_equal(process_log_mark(daemon), mark); /* said once, not at every try */
    redis_server_restart(w->redis);
    world_reconnect(w);
    push_jobs(0, 5);
    take_results(seen, 5);
    finish(1);
}

static void test_redis_killed_under_load(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    check_ready(world_start(w, 0, NULL));
    push_jobs(0, 300);
    take_results(seen, 20);
    for (int i = 0; i < 3; i++) {
        redis_server_kill9(w->redis);
        process_sleep(0.1 * i);
        redis_server_restart(w->redis);
        world_reconnect(w);
        take_results(seen, 20);
    }
    take_results(seen, 220);
    finish(1);
}

static void test_result_is_posted_later(void **state)
{
    (void)state;
    check_ready(world_start(w, 0, NULL));
    push_slow(1);
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:lease"));
    redis_server_kill9(w->redis);
    /* The picture is finished meanwhile. */
    char *path = world_out_path(w, "1.png");
    double deadline = process_now() + patience(20);
    struct raster written;
    while (!(written = raster_load(path, RASTER_COLOUR)).pixels && process_now() < deadline)
        process_sleep(0.05);
    assert_non_null(written.pixels);
    raster_clear(&written);
    free(path);
    redis_server_restart(w->redis);
    world_reconnect(w);
    cJSON *result = check_next(w);
    assert_true(json_number(result, "attempt") == 1);
    check_done(result);
    finish(1);
}

static void test_redis_frozen(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    check_ready(world_start(w, 0, "--command_timeout_s=0.3", "--connect_timeout_s=0.3",
                            "--block_s=0.2", NULL));
    push_jobs(0, 50);
    take_results(seen, 5);
    redis_server_freeze(w->redis, true);
    process_sleep(1.0);
    redis_server_freeze(w->redis, false);
    push_jobs(50, 60);
    take_results(seen, 55);
    finish(1);
}

static int open_slow_loading(void **state)
{
    (void)state;
    world_open(w, redis_server_start("--key-load-delay", "400",
                                     "--loading-process-events-interval-bytes", "1024", NULL));
    put_pictures();
    return 0;
}

static void test_redis_loading(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    char filler[1000];
    memset(filler, 'x', sizeof filler);
    for (int i = 0; i < 2000; i++)
        freeReplyObject(redis_command(w->client, "SET fill:%d %b", i, filler, sizeof filler));
    check_ready(world_start(w, 0, NULL));
    push_jobs(0, 100);
    take_results(seen, 10);
    redis_server_kill9(w->redis);
    redis_server_restart_nowait(w->redis);
    process_sleep(1.2);
    redis_server_restart(w->redis); /* in the middle of loading, once more */
    world_reconnect(w);
    redisReply *reply;
    while ((reply = redis_command(w->client, "LLEN gpuimgd:jobs"))->type == REDIS_REPLY_ERROR) {
        freeReplyObject(reply);
        process_sleep(0.02);
    }
    freeReplyObject(reply);
    push_jobs(100, 110);
    take_results(seen, 100);
    finish(1);
}

/* ---- Redis says no --------------------------------------------------------------------------- */

static int open_with_password(void **state)
{
    (void)state;
    struct redis_server *redis = redis_server_start("--requirepass", "secret", NULL);
    world_open(w, redis);
    put_pictures();
    freeReplyObject(redis_command(w->client, "AUTH secret"));
    return 0;
}

static void test_password_file(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    char path[128], option[160];
    snprintf(path, sizeof path, "%s/password", w->folder);
    snprintf(option, sizeof option, "--redis_password_file=%s", path);
    assert_true(text_file_write(path, "wrong\n", 6));
    push_jobs(0, 3);
    struct process *daemon = world_start(w, 0, option, "--auth_retry_s=0.2", NULL);
    check_ready(daemon);
    assert_true(process_logged(daemon, 0, "password", 10));
    process_sleep(patience(0.6));
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 3);
    char *log = process_log(daemon);
    assert_null(strstr(log, "wrong\n")); /* the password itself is nowhere */
    assert_null(strstr(log, "secret"));
    free(log);
    assert_true(text_file_write(path, "secret\n", 7));
    take_results(seen, 3);
    finish(1);
}

static void test_acl_user(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    char path[128], option[160];
    freeReplyObject(redis_command(
        w->client, "ACL SETUSER worker on >pw ~gpuimgd:* +@all -@admin -@dangerous"));
    snprintf(path, sizeof path, "%s/password", w->folder);
    snprintf(option, sizeof option, "--redis_password_file=%s", path);
    assert_true(text_file_write(path, "pw", 2));
    check_ready(world_start(w, 0, option, "--redis_username=worker", NULL));
    push_jobs(0, 20);
    take_results(seen, 20);
    finish(1);
}

static void test_full_redis_drains(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    check_ready(world_start(w, 0, NULL));
    push_jobs(0, 200);
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 1"));
    redisReply *reply = redis_command(w->client, "LPUSH gpuimgd:jobs x");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_memory_equal(reply->str, "OOM", 3);
    freeReplyObject(reply);
    take_results(seen, 200);
    /* A daemon that starts into a full Redis drains it as well. */
    check_stop(&w->daemons[0]);
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 0"));
    push_jobs(200, 220);
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 1"));
    check_ready(world_start(w, 0, NULL));
    take_results(seen, 20);
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 0"));
    push_jobs(220, 230);
    take_results(seen, 10);
    finish(1);
}

static void test_scripts_and_clients_vanish(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    check_ready(world_start(w, 0, NULL));
    push_jobs(0, 200);
    for (int i = 0; i < 10; i++) {
        take_results(seen, 15);
        freeReplyObject(redis_command(w->client, "SCRIPT FLUSH"));
        freeReplyObject(redis_command(w->client, "CLIENT KILL TYPE normal SKIPME yes"));
    }
    take_results(seen, 50);
    /* A blocked, idle connection that is killed is noticed as well. */
    process_sleep(0.3);
    freeReplyObject(redis_command(w->client, "CLIENT KILL TYPE normal SKIPME yes"));
    push_jobs(200, 210);
    take_results(seen, 10);
    finish(1);
}

static void test_wrong_type_of_results(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    struct process *daemon = world_start(w, 0, NULL);
    check_ready(daemon);
    freeReplyObject(redis_command(w->client, "SET gpuimgd:results mine"));
    push_jobs(0, 3);
    assert_true(process_logged(daemon, 0, "WRONGTYPE", 20));
    process_sleep(0.3);
    assert_true(process_running(daemon));
    freeReplyObject(redis_command(w->client, "DEL gpuimgd:results"));
    take_results(seen, 3);
    finish(1);
}

static void test_namespace_of_a_cluster_slot(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    strcpy(w->ns, "{gpuimgd}");
    check_ready(world_start(w, 0, NULL));
    push_jobs(0, 20);
    take_results(seen, 20);
    check_stop(&w->daemons[0]);
    check_clean(w);
    long long others = redis_integer(w->client, "EXISTS gpuimgd:seq");
    assert_int_equal(others, 0);
}

static void test_idle_daemon_answers_at_once(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    check_ready(world_start(w, 0, NULL));
    process_sleep(0.5);
    for (int i = 0; i < 5; i++) {
        double start = process_now();
        push_jobs(i, i + 1);
        take_results(seen, 1);
        assert_true(process_now() - start < patience(1.0));
        process_sleep(0.05);
    }
    finish(1);
}

/* ---- a daemon goes away ---------------------------------------------------------------------- */

static void test_killed_daemon_restarts(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    /* Leases that outlast the test: only the restart can bring the jobs back. */
    const char *lease = "--lease_s=600", *renew = "--renew_s=5", *reap = "--reap_s=600";
    check_ready(world_start(w, 0, "--inflight=6", lease, renew, reap, NULL));
    push_jobs(0, 60);
    take_results(seen, 10);
    push_slow(60);
    push_slow(61);
    assert_true(world_until(w, 20, 0, "LLEN gpuimgd:jobs"));
    process_kill9(&w->daemons[0]); /* while it holds the last six */
    double start = process_now();
    check_ready(world_start(w, 0, "--inflight=6", lease, renew, reap, NULL));
    take_results(seen, 52);
    assert_true(process_now() - start < patience(20));
    finish(1);
}

static void test_frozen_daemon_loses_its_lease(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    char lease[32], renew[32];
    snprintf(lease, sizeof lease, "--lease_s=%g", patience(1));
    snprintf(renew, sizeof renew, "--renew_s=%g", patience(0.2));
    struct process *first = world_start(w, 0, "--inflight=3", lease, renew, NULL);
    check_ready(first);
    for (int i = 0; i < 3; i++)
        push_slow(i);
    assert_true(world_until(w, 20, 3, "ZCARD gpuimgd:lease"));
    process_signal(first, SIGSTOP);
    check_ready(world_start(w, 1, "--inflight=3", lease, renew, NULL));
    for (int i = 0; i < 3; i++) {
        cJSON *result = check_next(w);
        char pid[32];
        snprintf(pid, sizeof pid, ":%ld", (long)w->daemons[1].pid);
        assert_non_null(strstr(json_text(result, "daemon"), pid));
        assert_true(json_number(result, "attempt") == 2);
        check_done(result);
    }
    process_signal(first, SIGCONT);
    process_sleep(patience(1.5)); /* long enough for the first to finish, too, and be turned down */
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    /* Both work on. */
    push_jobs(0, 40);
    take_results(seen, 40);
    assert_true(process_running(first));
    finish(2);
}

/* Waits until the first job is at this attempt, and leased. */
static bool at_attempt(int attempt)
{
    double deadline = process_now() + patience(20);
    bool there = false;
    while (!there && process_now() < deadline) {
        char *text = redis_string(w->client, "HGET gpuimgd:job:1 attempt");
        there = text && atoi(text) == attempt &&
                redis_integer(w->client, "ZCARD gpuimgd:lease") == 1;
        free(text);
        process_sleep(0.002);
    }
    return there;
}

/* A job that takes its daemon down three times ends as dead, with a result; its neighbours run. */
static void test_poisonous_job(void **state)
{
    (void)state;
    bool seen[JOBS_MAX] = {false};
    world_push(w, "{'id':'poison','input':'slow.png','output':{'path':'x.png','compression':9}}");
    for (int attempt = 1; attempt <= 3; attempt++) {
        check_ready(world_start(w, 0, NULL));
        assert_true(at_attempt(attempt));
        process_kill9(&w->daemons[0]);
    }
    push_jobs(0, 10);
    check_ready(world_start(w, 0, NULL));
    cJSON *dead = NULL;
    for (int i = 0; i < 11; i++) {
        cJSON *result = check_next(w);
        if (strcmp(json_text(result, "id"), "poison") == 0) {
            assert_null(dead);
            dead = result;
        } else {
            int id = atoi(json_text(result, "id"));
            assert_false(seen[id]);
            seen[id] = true;
            check_done(result);
        }
    }
    assert_non_null(dead);
    assert_true(json_number(dead, "attempt") == 3);
    check_ended(dead, "dead", "attempts_exhausted");
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:dead"), 1);
    finish(1);
}

static void test_reclaims_temporary_files(void **state)
{
    (void)state;
    struct process *daemon = world_start(w, 0, NULL);
    check_ready(daemon);
    push_slow(1);
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:lease"));
    double deadline = process_now() + patience(20);
    while (text_file_count(w->out, ".tmp") == 0 && process_now() < deadline)
        process_sleep(0.002);
    process_kill9(daemon);
    size_t left = text_file_count(w->out, ".tmp");
    check_ready(world_start(w, 0, NULL));
    check_done(check_next(w));
    if (left == 0)
        print_message("(the file was in place before the kill)\n");
    finish(1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    cmocka_set_test_filter(getenv("GPUIMGD_TEST_ONLY")); /* a pattern such as test_acl* */
    const struct CMUnitTest tests[] = {
        TEST(test_redis_away_at_start),
        TEST(test_redis_killed_under_load),
        TEST(test_result_is_posted_later),
        TEST(test_redis_frozen),
        cmocka_unit_test_setup_teardown(test_redis_loading, open_slow_loading, close_world),
        cmocka_unit_test_setup_teardown(test_password_file, open_with_password, close_world),
        TEST(test_acl_user),
        TEST(test_full_redis_drains),
        TEST(test_scripts_and_clients_vanish),
        TEST(test_wrong_type_of_results),
        TEST(test_namespace_of_a_cluster_slot),
        TEST(test_idle_daemon_answers_at_once),
        TEST(test_killed_daemon_restarts),
        TEST(test_frozen_daemon_loses_its_lease),
        TEST(test_poisonous_job),
        TEST(test_reclaims_temporary_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
