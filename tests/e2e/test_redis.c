/*
 * test_redis.c - the daemon and Redis: outages, passwords, ACL users, a Cluster's slot, idle time,
 * and a second daemon that was stopped. Injected faults are in tests/faults.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static void finish(size_t daemons)
{
    for (size_t i = 0; i < daemons; i++)
        check_stop(&w->daemons[i]);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

/* ---- Redis is down --------------------------------------------------------------------------- */

TEST(test_redis_away_at_start)
{
    redis_server_kill9(w->redis);
    struct process *daemon = world_start(w, 0, "--stats_interval_s=0", NULL);
    check_ready(daemon); /* READY means that the engine is ready */
    assert_true(process_noted(daemon, 0, "Redis", 10)); /* in STATUS= */
    process_sleep(patience(0.7));
    size_t mark = process_log_mark(daemon);
    assert_true(mark > 0);
    process_sleep(patience(1.0));
    assert_int_equal(process_log_mark(daemon), mark); /* logged once, not at every retry */
    redis_server_restart(w->redis);
    world_reconnect(w);
    push_jobs(0, 5);
    take_jobs(5);
    finish(1);
}

TEST(test_result_is_posted_later)
{
    struct process *daemon = start_ready(0);
    push_slow(1);
    assert_true(world_until(w, 20, 1, "ZCARD gpuimgd:lease"));
    /* Redis has the lease; wait until the daemon knows it, too. */
    assert_true(await(20, (process_signal(daemon, SIGUSR1),
                           process_logged(daemon, 0, " inflight=1 ", 0.1))));
    redis_server_kill9(w->redis);
    /* The image is finished meanwhile. */
    struct raster written;
    assert_true(await(20, (written = world_load_out(w, "1.png")).pixels));
    raster_clear(&written);
    redis_server_restart(w->redis);
    world_reconnect(w);
    cJSON *result = check_next(w);
    assert_true(json_number(result, "attempt") == 1);
    check_done(result);
    finish(1);
}

/* ---- Redis returns errors -------------------------------------------------------------------- */

static const struct world_options with_password = {.photo = {"p.jpg", 160, 120}, .slow = true,
                                                   .password = "secret"};

TEST(test_password_file, IN_WORLD(&with_password))
{
    const char *path = text_of("%s/password", w->folder);
    const char *option = text_of("--redis_password_file=%s", path);
    push_jobs(0, 3);
    assert_int_equal(mkfifo(path, 0600), 0);
    struct process *daemon = start_ready(0, option, "--auth_retry_s=0.2");
    assert_true(process_logged(daemon, 0, "it is no regular file", 10));
    assert_int_equal(unlink(path), 0);
    assert_true(process_logged(daemon, 0, "No such file", 10));
    assert_int_equal(process_log_count(daemon, 0, "redis_password_file names it; trying again"), 2);
    assert_true(text_file_write(path, "wrong\n", 6));
    assert_true(process_logged(daemon, 0, "WRONGPASS", 10));
    assert_true(process_logged(daemon, 0, "see redis_username and redis_password_file", 10));
    process_sleep(patience(0.6));
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 3);
    const char *log = text_keep(process_log(daemon));
    assert_null(strstr(log, "wrong\n")); /* the password is never logged */
    assert_null(strstr(log, "secret"));
    assert_true(text_file_write(path, "secret\n", 7));
    take_jobs(3);
    finish(1);
}

TEST(test_acl_user)
{
    freeReplyObject(redis_command(
        w->client, "ACL SETUSER worker on >pw ~gpuimgd:* +@all -@admin -@dangerous"));
    const char *path = text_of("%s/password", w->folder);
    const char *option = text_of("--redis_password_file=%s", path);
    assert_true(text_file_write(path, "pw", 2));
    start_ready(0, option, "--redis_username=worker");
    push_jobs(0, 20);
    take_jobs(20);
    finish(1);
}

TEST(test_eviction_is_warned_of)
{
    const char *warning = "Redis has maxmemory-policy allkeys-lru: it may throw jobs";
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory-policy allkeys-lru"));
    assert_true(process_logged(world_start(w, 0, NULL), 0, warning, 10));
    finish(1);
}

static double expiry_of_the_daemon(void)
{
    redisReply *reply = redis_command(w->client, "ZRANGE gpuimgd:inst 0 0 WITHSCORES");
    double expiry = reply->elements == 2 ? atof(reply->element[1]->str) : 0;
    freeReplyObject(reply);
    return expiry;
}

/* Waits for renewals; each extends the expiry of the daemon's name. */
static void wait_for_renewals(int count)
{
    while (count-- > 0) {
        double before = expiry_of_the_daemon();
        assert_true(await(20, expiry_of_the_daemon() > before));
    }
}

TEST(test_results_are_trimmed)
{
    struct process *daemon = start_ready(0, "--results_max=5", "--inflight=2");
    push_jobs(0, 20);
    assert_true(process_logged(daemon, 0, "gpuimgd:results, :dead or a reply list is full", 20));
    check_stop(daemon);
    start_ready(0, "--results_max=5"); /* runs the job that the first one gave back */
    assert_true(world_until(w, 20, 0, "LLEN gpuimgd:jobs"));
    check_stop(&w->daemons[0]);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 5);
    take_jobs(5);
    finish(0);
}

/* Pushes jobs with an id, without one and with a reply list, and waits for the last. */
static void push_three(void)
{
    world_push(w, "{'input':'p.jpg','output':'a.png','id':'named'}");
    world_push(w, "{'input':'p.jpg','output':'b.png'}");
    world_push(w, "{'input':'p.jpg','output':'c.png','reply_to':'gpuimgd:reply:c'}");
    cJSON *result = world_result_from(w, "gpuimgd:reply:c", 20);
    check_traceable(result);
    check_done(result);
    assert_true(world_until(w, 20, 0, "ZCARD gpuimgd:lease"));
}

TEST(test_results_by_id_or_none)
{
    struct process *daemon = start_ready(0, "--results=id");
    push_three();
    const char *kept = redis_text(w->client, "GET gpuimgd:result:named");
    cJSON *result = cJSON_Parse(kept);
    check_traceable(result);
    check_done(result);
    check_stop(daemon);
    redis_integer(w->client, "DEL gpuimgd:result:named");
    daemon = start_ready(0, "--results=none");
    push_three();
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:result:named"), 0);
    check_stop(daemon);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    finish(0);
}

/* The daemon warns once before it drops results that nobody reads. It warns again only after the
 * list was much shorter. */
TEST(test_results_that_nobody_reads)
{
    static const char warning[] = "gpuimgd:results holds ";
    static const char full[] = " of at most 100 results (results_max)";
    struct process *daemon = start_ready(0, "--results_max=100", "--renew_s=0.05");
    for (int round = 0; round < 2; round++) {
        size_t mark = process_log_mark(daemon);
        for (int i = 0; i < 80; i++)
            redis_integer(w->client, "LPUSH gpuimgd:results x");
        assert_true(process_logged(daemon, mark, full, 20));
        assert_int_equal(process_log_count(daemon, mark, warning), 1);
        /* The list stays nearly full or gets shorter: no second warning before there is room. */
        free(redis_string(w->client, "LTRIM gpuimgd:results 0 69"));
        wait_for_renewals(3);
        for (int i = 0; i < 20; i++)
            redis_integer(w->client, "LPUSH gpuimgd:results x");
        wait_for_renewals(3);
        assert_int_equal(process_log_count(daemon, mark, warning), 1);
        redis_integer(w->client, "DEL gpuimgd:results");
        assert_true(process_logged(daemon, mark, " of at most 100 results again", 20));
    }
    finish(1);
}

/* A DNS label has at most 63 letters, so this name is refused without a query. */
TEST(test_host_that_is_not_found)
{
    char option[128] = "--redis=";
    memset(option + strlen(option), 'n', 64);
    strcat(option, ":6379");
    struct process *daemon = start_ready(0, option);
    assert_true(process_logged(daemon, 0, "is not found: ", 10));
    assert_true(process_noted(daemon, 0, "is not found: ", 10)); /* in STATUS= */
    finish(1);
}

TEST(test_namespace_of_a_cluster_slot)
{
    strcpy(w->ns, "{gpuimgd}");
    start_ready(0);
    push_jobs(0, 20);
    take_jobs(20);
    check_stop(&w->daemons[0]);
    check_clean(w);
    long long others = redis_integer(w->client, "EXISTS gpuimgd:seq");
    assert_int_equal(others, 0);
}

TEST(test_idle_daemon_answers_at_once)
{
    start_ready(0, "--block_s=60"); /* a poll would be too late */
    process_sleep(0.5);
    for (int i = 0; i < 5; i++) {
        double start = process_now();
        push_jobs(i, i + 1);
        take_jobs(1);
        assert_true(process_now() - start < patience(10));
        process_sleep(0.05);
    }
    finish(1);
}

/* ---- a stopped daemon ------------------------------------------------------------------------ */

TEST(test_frozen_daemon_loses_its_lease)
{
    const char *lease = text_of("--lease_s=%g", patience(1));
    const char *renew = text_of("--renew_s=%g", patience(0.2));
    struct process *first = start_ready(0, "--inflight=3", lease, renew);
    for (int i = 0; i < 3; i++)
        push_slow(i);
    assert_true(world_until(w, 20, 3, "ZCARD gpuimgd:lease"));
    process_signal(first, SIGSTOP);
    start_ready(1, "--inflight=3", lease, renew);
    for (int i = 0; i < 3; i++) {
        cJSON *result = check_next(w);
        const char *pid = text_of(":%ld", (long)w->daemons[1].pid);
        assert_non_null(strstr(json_text(result, "daemon"), pid));
        assert_true(json_number(result, "attempt") == 2);
        check_done(result);
    }
    process_signal(first, SIGCONT);
    process_sleep(patience(1.5)); /* the first one finishes, too, and is refused */
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    /* Both daemons work again. */
    push_jobs(0, 40);
    take_jobs(40);
    assert_true(process_running(first));
    finish(2);
}

WORLD_MAIN(OWN_WORLDS, .photo = {"p.jpg", 160, 120}, .slow = true)
