/*
 * test_operator.c - what an operator sees over HTTP: the fleet, and what blocks a daemon.
 */
#include <time.h>

#include "tests/fixtures/listening.h"

/* ---- the fleet ------------------------------------------------------------------------------- */

/* Reads /fleet.json until it has so many daemons; the daemon of another page may be asked for only
 * four times per second. */
static cJSON *get_fleet(const char *path, int daemons)
{
    double until = process_now() + patience(20);
    for (;;) {
        struct http_reply reply = get(path);
        cJSON *root = reply.status == 200 ? cJSON_Parse(reply.body) : NULL;
        http_free(&reply);
        if (root && cJSON_GetArraySize(json_at(root, "daemons")) == daemons)
            return root;
        cJSON_Delete(root);
        if (process_now() > until)
            fail_msg("%s has not %d daemons", path, daemons);
        process_sleep(0.1);
    }
}

TEST(the_fleet_is_shown)
{
    struct process *daemon = start_listening("127.0.0.1:0");
    check_done(check_answer(w, "{'input':'p.jpg','output':'t.png'}"));
    redis_integer(w->client, "ZADD gpuimgd:inst 99999999999999 a-far:boot:ns:12:34");
    redis_integer(w->client, "ZADD gpuimgd:inst 99999999999999 a-quiet:boot:ns:5:6");
    redis_integer(w->client, "ZADD gpuimgd:inst %lld000 a-dead:boot:ns:7:8",
                  (long long)time(NULL) - 2);
    redis_integer(w->client, "LPUSH gpuimgd:stats:a-quiet:boot:ns:5:6 x"); /* no string */
    freeReplyObject(redis_command(w->client, "SET gpuimgd:stats:a-far:boot:ns:12:34 %s PX 40000",
                                  "{\"version\":\"<\\u0007>\",\"lease_s\":50,\"jobs_s\":-7,"
                                  "\"done\":1e300,\"state\":7,\"engine\":\"cuda:0\"}"));
    cJSON *root = get_fleet("/fleet.json", 4);
    double until = process_now() + patience(10); /* it publishes its statistics within a second */
    while (json_number(root, "daemons.3.done") != 1 && process_now() < until) {
        cJSON_Delete(root);
        process_sleep(0.2);
        root = get_fleet("/fleet.json", 4);
    }
    check_has(root, "{'known':true,'namespace':'gpuimgd','names':4,'alive':3,'listed':4,'pages':1,"
                    "'daemons.0.name':'a-dead:7','daemons.0.life':'dead',"
                    "'daemons.1.name':'a-far:12','daemons.1.life':'alive',"
                    "'daemons.1.version':'<?>','daemons.1.jobs_s':0,'daemons.1.done':1e15,"
                    "'daemons.1.engine':'cuda:0','daemons.2.life':'silent',"
                    "'daemons.3.life':'alive','daemons.3.engine':'cpu','daemons.3.done':1}");
    assert_null(json_at(root, "daemons.1.state"));
    assert_true(json_number(root, "daemons.0.age_s") >= 2);
    assert_true(json_number(root, "daemons.1.age_s") >= 10);
    assert_true(json_number(root, "daemons.3.age_s") <= patience(10));
    cJSON_Delete(root);
    root = get_fleet("/fleet.json?page=1", 0);
    check_has(root, "{'known':true,'page':1,'pages':1}");
    cJSON_Delete(root);
    redis_integer(w->client, "DEL gpuimgd:stats:a-quiet:boot:ns:5:6");
    redis_integer(w->client, "DEL gpuimgd:stats:a-far:boot:ns:12:34");
    redis_integer(w->client, "ZREM gpuimgd:inst a-far:boot:ns:12:34 a-quiet:boot:ns:5:6 "
                             "a-dead:boot:ns:7:8");
    cJSON_Delete(get_fleet("/fleet.json", 1));
    redis_server_kill9(w->redis);
    assert_true(says("/readyz", 503, "Redis"));
    root = get_fleet("/fleet.json", 0);
    check_has(root, "{'known':false}");
    assert_true(*json_text(root, "reason") != '\0');
    cJSON_Delete(root);
    redis_server_restart(w->redis);
    world_reconnect(w);
    cJSON_Delete(get_fleet("/fleet.json", 1));
    check_stop(daemon);
}

/* Redis hangs: the answer comes nevertheless, and so do those to probes. */
TEST(the_fleet_of_a_redis_that_hangs)
{
    struct process *daemon = start_listening_with("127.0.0.1:0", "--shards=3");
    cJSON_Delete(get_fleet("/fleet.json", 1));
    redis_server_freeze(w->redis, true);
    double began = process_now();
    cJSON *root = get_fleet("/fleet.json", 0);
    assert_true(process_now() - began < patience(4));
    check_has(root, "{'known':false,'reason':'Redis does not answer in time'}");
    cJSON_Delete(root);
    /* Requests for other pages do not wait for it again: probes are answered meanwhile. */
    began = process_now();
    for (int i = 0; i < 20; i++) {
        struct http_reply reply = get(text_of("/fleet.json?page=%d", i));
        http_free(&reply);
    }
    assert_true(says("/healthz", 200, "running"));
    assert_true(process_now() - began < patience(4));
    redis_server_freeze(w->redis, false);
    cJSON_Delete(get_fleet("/fleet.json", 1));
    check_stop(daemon);
}

/* The page says why Redis refuses to list the daemons, also while it is not asked again. */
TEST(the_fleet_of_a_redis_that_refuses)
{
    struct process *daemon = start_listening("127.0.0.1:0");
    cJSON_Delete(get_fleet("/fleet.json", 1));
    freeReplyObject(redis_command(w->client, "ACL SETUSER default -zscore"));
    for (int i = 0; i < 3; i++) {
        cJSON *root = get_fleet("/fleet.json", 0);
        check_has(root, "{'known':false}");
        if (!strstr(json_text(root, "reason"), "Redis refuses FLEET: "))
            fail_msg("%s", json_text(root, "reason"));
        cJSON_Delete(root);
        process_sleep(0.5);
    }
    freeReplyObject(redis_command(w->client, "ACL SETUSER default +zscore"));
    cJSON_Delete(get_fleet("/fleet.json", 1));
    check_stop(daemon);
}

/* ---- what blocks a daemon -------------------------------------------------------------------- */

/* Reads /status.json until the daemon is blocked by this for so long. */
static cJSON *status_blocked_by(const char *by, double seconds)
{
    double until = process_now() + patience(30);
    for (;;) {
        struct http_reply json = get("/status.json");
        cJSON *root = cJSON_Parse(json.body);
        http_free(&json);
        if (cJSON_HasObjectItem(root, "blocked") &&
            strcmp(json_text(root, "blocked.by"), by) == 0 &&
            json_number(root, "blocked.for_s") >= seconds)
            return root;
        cJSON_Delete(root);
        if (process_now() > until)
            fail_msg("nothing is blocked by %s", by);
        process_sleep(0.1);
    }
}

/* Two jobs of 5.8 MB do not fit: one waits while the other is encoded, for less than a second each.
 * The daemon is short of memory for longer. */
TEST(memory_that_jobs_wait_for_is_named)
{
    struct process *daemon = start_listening_with("127.0.0.1:0", "--pinned_bytes=8M");
    for (int i = 0; i < 24; i++)
        world_push(w, "{'input':'slow.png','output':{'path':'s%d.png','compression':9}}", i);
    cJSON *root = status_blocked_by("pinned", 4);
    double wanted = json_number(root, "blocked.wanted"), room = json_number(root, "blocked.free");
    assert_true(wanted > 5.7e6 && wanted < 5.9e6);
    assert_true(room < wanted && json_number(root, "blocked.limit") == 8 << 20);
    assert_non_null(strstr(json_text(root, "blocked.why"), "MB of pinned memory; "));
    assert_string_equal(json_text(root, "blocked.advice"), "Raise pinned_bytes if this lasts.");
    cJSON_Delete(root);
    redis_integer(w->client, "DEL gpuimgd:jobs");
    assert_true(world_settle(w));
    redis_integer(w->client, "DEL gpuimgd:results");
    check_stop(daemon);
}

/* All places are taken, and jobs wait in the queue. */
TEST(a_full_daemon_is_named)
{
    struct process *daemon = start_listening_with("127.0.0.1:0", "--inflight=2");
    for (int i = 0; i < 12; i++)
        world_push(w, "{'input':'slow.png','output':{'path':'s%d.png','compression':9}}", i);
    cJSON *root = status_blocked_by("inflight", 0);
    check_has(root, "{'blocked.limit':2,'state':'running','ready':true}");
    assert_non_null(strstr(json_text(root, "blocked.why"), "2 of 2 jobs are in flight"));
    cJSON_Delete(root);
    take_results(12);
    assert_true(world_settle(w));
    check_stop(daemon);
}

int main(void)
{
#ifndef GPUIMGD_HTTP
    puts("1..1\nok 1 - the operator's view # SKIP built without libmicrohttpd");
    return 0;
#endif
    world_options = &(struct world_options){.photo = {"p.jpg", 160, 120}, .slow = true};
    return run_all(.name = "the operator's view", .setup = open_world, .teardown = close_world);
}
