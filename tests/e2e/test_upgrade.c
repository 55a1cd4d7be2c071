/*
 * test_upgrade.c - daemons of two versions in one namespace (PROTOCOL.md, Compatibility).
 *
 * The older version is the first one whose upgrade is promised, 0.2.0. tests/fixtures/upgrade/ has
 * the texts of its scripts, and the keys that its daemons left in Redis when they were killed.
 * `make check-upgrade` runs real daemons of an older commit.
 *
 * GPUIMGD_RECORD=FILE writes the keys of this version's daemons to FILE, as Redis commands.
 */
#include <ctype.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/ctl.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/upgrade/scripts-0.2.0.inc"

#define KEYS_FILE "tests/fixtures/upgrade/keys-0.2.0.redis"

/* ---- incompatible versions ------------------------------------------------------------------- */

static struct process *start_later(size_t index)
{
    const struct process_options how = {.program = getenv("GPUIMGD_LATER")};
    return check_ready(world_start_with(w, index, &how, (const char *const[]){NULL}));
}

/* The daemons of two versions that cannot work together never do, in both directions. */
TEST(test_an_incompatible_daemon_waits)
{
    struct process *now = start_ready(0);
    assert_true(world_until(w, 10, 1, "ZCARD gpuimgd:inst"));
    struct process *later = start_later(1);
    assert_true(process_logged(later, 0, "cannot work beside the 1 daemons of an older protocol in "
                                         "gpuimgd, which have 0 jobs", 10));
    assert_true(process_noted(later, 0, "cannot work beside", 10)); /* in STATUS= */
    push_jobs(0, 5);
    take_jobs(5);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:inst"), 1);
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:protocol"), 0);

    check_stop(now); /* now the later daemon may work */
    push_jobs(5, 10);
    take_jobs(5);
    assert_string_equal(redis_text(w->client, "GET gpuimgd:protocol"), "999");
    now = start_ready(0);
    const char *refusal = "gpuimgd:protocol is 999, but this program knows only protocol 1; "
                          "upgrade this program";
    assert_true(process_logged(now, 0, refusal, 10));
    assert_true(process_noted(now, 0, refusal, 10));
    ctl_expect(w, 69, "ctl cancel $at x", refusal, NULL);
    assert_int_equal(process_wait((process_signal(later, SIGTERM), later), 20), 0);
    push_jobs(10, 15);
    process_sleep(0.3);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 5);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:inst"), 0);

    /* The way back: the queue of the later version is empty, so the mark may go. */
    assert_int_equal(redis_integer(w->client, "DEL gpuimgd:protocol"), 1);
    take_jobs(5);
    check_stop(now);
    check_clean(w);
}

/* ---- keys of killed daemons ------------------------------------------------------------------ */

/* Two daemons are killed while they hold jobs in all states. The jobs and their ends:
 *
 *     kept, dead                   ended before the kill: a kept result, a dead letter
 *     held-1                       unique, runs. A second one waits for it
 *     later                        waits for its time
 *     late                         waited for its time and is cancelled: to be woken
 *     again                        was lost with a daemon; waits in NS:alone, and its next one has
 *                                  the right
 *     held-2, held-3               run, with a priority
 *     urgent, slow, plain, reply, key, gone   wait in lists; `gone` is cancelled */
#define ENDS                                                                                       \
    "again done, gone cancelled, held-1 done, held-1 done, held-2 done, held-3 done, key done, "   \
    "late cancelled, later done, plain done, slow done, urgent done"

static struct process *start_held(size_t index, const char *inflight)
{
    const struct process_options how = {.program = getenv("GPUIMGD_FAULTY"), .unprivileged = true};
    const char *const extra[] = {"--workers=4", inflight, "--attempts=2", "--lease_s=60",
                                 "--block_s=0.2", NULL};
    setenv("GPUIMGD_FAULT", "run=decode,action=hang,match=held", 1);
    struct process *daemon = world_start_with(w, index, &how, extra);
    unsetenv("GPUIMGD_FAULT");
    return check_ready(daemon);
}

#define push_to(list, id, rest) push_in(list, id, "", rest)
#define push_in(list, id, folder, rest)                                                            \
    redis_integer(w->client, "LPUSH gpuimgd:jobs" list " %s",                                      \
                  "{\"id\":\"" id "\",\"input\":\"p.jpg\","                                        \
                  "\"output\":\"" folder id ".png\"" rest "}")

static void put_key_image(void)
{
    size_t length;
    unsigned char *bytes = text_file_bytes(in_path("p.jpg"), &length);
    freeReplyObject(redis_command(w->client, "SET gpuimgd:img:in %b", bytes, length));
    free(bytes);
}

static void cancel(const char *id)
{
    freeReplyObject(redis_command(w->client, "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                                  "gpuimgd:waits:%s gpuimgd:result:%s %s", SCRIPT_CANCEL, id, id,
                                  id));
}

static void leave_ended_jobs(void)
{
    start_unprivileged("--attempts=1");
    push_to("", "kept", ",\"unique\":true");
    check_done(check_next(w));
    push_in("", "dead", "walled/", "");
    check_ended(check_next(w), "dead", "write_failed");
    check_stop(&w->daemons[0]);
}

/* Leaves the keys of two killed daemons. */
static void leave_keys(void)
{
    mkdir(out_path("walled"), 0755);
    assert_int_equal(chmod(out_path("walled"), 0555), 0);
    leave_ended_jobs();
    put_key_image();
    struct process *first = start_held(0, "--inflight=4");
    push_to("", "held-1", ",\"unique\":true");
    assert_true(world_until(w, 10, 1, "EXISTS gpuimgd:unique:held-1"));
    push_to("", "held-1", ",\"unique\":true,\"reply_to\":\"gpuimgd:reply:second\"");
    push_to("", "later", ",\"not_before\":\"+3\"");
    push_to("", "late", ",\"not_before\":\"+3600\"");
    assert_true(world_until(w, 10, 3, "ZCARD gpuimgd:delayed"));
    freeReplyObject(redis_command(
        w->client, "HSET gpuimgd:job:900 raw %s state alone attempt 1 crashed 1",
        "{\"id\":\"again\",\"input\":\"p.jpg\",\"output\":\"walled/again.png\"}"));
    redis_integer(w->client, "LPUSH gpuimgd:alone 900");
    assert_true(world_until(w, 10, 1, "EXISTS gpuimgd:alone:owner"));
    assert_int_equal(chmod(out_path("walled"), 0755), 0);

    /* Its right to run a job alone keeps the first daemon from taking these. */
    push_to("", "plain", "");
    push_to("", "gone", "");
    push_to("", "reply", ",\"reply_to\":\"gpuimgd:reply:r\"");
    redis_integer(w->client, "LPUSH gpuimgd:jobs %s",
                  "{\"id\":\"key\",\"input\":{\"key\":\"gpuimgd:img:in\"},"
                  "\"output\":{\"key\":\"gpuimgd:img:out\",\"format\":\"png\"}}");
    push_to(":9", "held-2", "");
    push_to(":9", "held-3", "");
    push_to(":9", "urgent", "");
    push_to(":2", "slow", "");
    struct process *second = start_held(1, "--inflight=2");
    assert_true(world_until(w, 10, 3, "ZCARD gpuimgd:lease"));
    cancel("gone");
    cancel("late");
    process_kill9(first);
    process_kill9(second);
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:jobs gpuimgd:jobs:9 gpuimgd:jobs:2 "
                                   "gpuimgd:shares gpuimgd:lease gpuimgd:inst gpuimgd:delayed "
                                   "gpuimgd:woken gpuimgd:alone gpuimgd:alone:owner gpuimgd:cancel "
                                   "gpuimgd:unique:held-1 gpuimgd:waits:held-1 gpuimgd:dead "
                                   "gpuimgd:dead:errors gpuimgd:result:kept"), 16);
}

/* ---- recording ------------------------------------------------------------------------------- */

/* Writes a word for redis-cli, which reads escapes in double quotes. */
static void write_word(FILE *file, const char *bytes, size_t length)
{
    fputs(" \"", file);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '"' || byte == '\\')
            fprintf(file, "\\%c", byte);
        else if (isprint(byte))
            fputc(byte, file);
        else
            fprintf(file, "\\x%02x", byte);
    }
    fputc('"', file);
}

/* Writes one command that creates the key, and one for its expiry. */
static void record_key(FILE *file, const char *key)
{
    static const struct { const char *type, *read, *rest, *write; bool swap; } types[] = {
        {"string", "GET", "", "SET", false},
        {"list", "LRANGE", "0 -1", "RPUSH", false},
        {"set", "SMEMBERS", "", "SADD", false},
        {"hash", "HGETALL", "", "HSET", false},
        {"zset", "ZRANGE", "0 -1 WITHSCORES", "ZADD", true},
    };
    const char *type = redis_text(w->client, "TYPE %s", key);
    size_t t = 0;
    while (strcmp(types[t].type, type) != 0)
        t++;
    redisReply *reply = redis_command(w->client, text_of("%s %s %s", types[t].read, key,
                                                         types[t].rest));
    fputs(types[t].write, file);
    write_word(file, key, strlen(key));
    if (reply->type == REDIS_REPLY_STRING)
        write_word(file, reply->str, reply->len);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        redisReply *word = reply->element[types[t].swap ? i ^ 1 : i];
        write_word(file, word->str, word->len);
    }
    freeReplyObject(reply);
    long long ms = redis_integer(w->client, "PTTL %s", key);
    if (ms > 0)
        fprintf(file, "\nPEXPIRE \"%s\" %lld", key, ms);
    fputc('\n', file);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(redisReply *const *)a)->str, (*(redisReply *const *)b)->str);
}

static void record(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    redisReply *keys = redis_command(w->client, "KEYS gpuimgd:*");
    qsort(keys->element, keys->elements, sizeof *keys->element, by_key);
    for (size_t i = 0; i < keys->elements; i++)
        if (!strstr(keys->element[i]->str, ":img:"))
            record_key(file, keys->element[i]->str);
    freeReplyObject(keys);
    assert_int_equal(fclose(file), 0);
}

/* ---- the jobs' ends -------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes the results, which must be ENDS. */
static void check_ends(void)
{
    char *ends[12], all[512] = "";
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        /* The second job with the id held-1 has its own list. */
        const char *list = i ? "gpuimgd:results" : "gpuimgd:reply:second";
        cJSON *result = world_result_from(w, list, 20);
        if (!result)
            fail_msg("only %zu results came", i);
        ends[i] = (char *)text_of("%s %s", json_text(result, "id"), json_text(result, "status"));
        cJSON_Delete(result);
    }
    qsort(ends, COUNT_OF(ends), sizeof *ends, by_text);
    for (size_t i = 0; i < COUNT_OF(ends); i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", ends[i]);
    assert_string_equal(all, ENDS);
    check_done(world_result_from(w, "gpuimgd:reply:r", 10));
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:dead"), 1);
}

/* Sets the scores of a sorted set to a past time; and not_before, if its members are jobs. */
static void pass_time_of(const char *set, bool jobs)
{
    redisReply *members = redis_command(w->client, "ZRANGE gpuimgd:%s 0 -1", set);
    for (size_t i = 0; i < members->elements; i++) {
        redis_integer(w->client, "ZADD gpuimgd:%s XX 1 %s", set, members->element[i]->str);
        if (jobs)
            redis_integer(w->client, "HSET gpuimgd:job:%s not_before 1", members->element[i]->str);
    }
    freeReplyObject(members);
}

/* All jobs are due, and all leases and names of daemons have expired. */
static void pass_time(void)
{
    pass_time_of("delayed", true);
    pass_time_of("lease", false);
    pass_time_of("inst", false);
    redis_integer(w->client, "DEL gpuimgd:alone:owner gpuimgd:alone:owner:fetch");
}

/* This version takes over the keys that daemons of 0.2.0 left. */
TEST(test_this_version_takes_over_older_keys)
{
    const char *line = text_of("redis-cli -s %s/redis.sock < " KEYS_FILE " | grep -i err",
                               w->redis->folder);
    assert_int_not_equal(system(line), 0);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:lease"), 3);
    pass_time();
    put_key_image();
    struct process *daemon = start_ready(0, "--block_s=0.2");
    check_ends();
    ctl_expect(w, 0, "ctl dead list $at", "write_failed", NULL);
    ctl_expect(w, 0, "ctl dead retry $at --all", NULL);
    check_done(check_next(w));
    assert_true(access(out_path("walled/dead.png"), F_OK) == 0);
    /* A unique job that comes later gets the kept result. */
    push_to("", "kept", ",\"unique\":true");
    cJSON *result = check_next(w);
    assert_non_null(json_at(result, "same_as"));
    check_done(result);
    assert_true(world_until(w, 10, 1, "ZCARD gpuimgd:inst"));
    check_stop(daemon);
    check_clean(w);
}

/* ---- a daemon of 0.2.0 ----------------------------------------------------------------------- */

/* A call of its scripts: keys without the namespace, and arguments; "''" is the empty word. */
static redisReply *older(const char *script, const char *keys, const char *args)
{
    const char *argv[64] = {"EVAL", script, NULL};
    size_t argc = 3, key_count = 0;
    char *save, *line = (char *)text_of("%s", keys);
    for (char *key = strtok_r(line, " ", &save); key; key = strtok_r(NULL, " ", &save), key_count++)
        argv[argc++] = text_of("gpuimgd:%s", key);
    argv[2] = text_of("%zu", key_count);
    line = (char *)text_of("%s", args);
    for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(word, "''") ? word : "";
    assert_true(argc <= COUNT_OF(argv));
    redisReply *reply = redisCommandArgv(w->client, (int)argc, argv, NULL);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    return reply;
}

/* The same, for a reply of integers: returns the one at `index` (-1: the reply is one integer). */
static long long older_integer(int index, const char *script, const char *keys, const char *args)
{
    redisReply *reply = older(script, keys, args);
    long long value = index < 0 ? reply->integer : reply->element[index]->integer;
    freeReplyObject(reply);
    return value;
}

#define OLDER "older:1:1:1:1"
enum { OLDER_HEAD = 8 };

static redisReply *older_fetch(int counter, int places)
{
    return older(SCRIPT_FETCH, "jobs delayed alone alone:owner lease inst seq cancel paused "
                 "watcher wake woken",
                 text_of("gpuimgd " OLDER " %d %d 60000 3 65536 1 0 none", counter, places));
}

/* Asks START about a lease and ends it as START says. Returns the results posted, 0 or 1. */
static unsigned older_work(const char *number, int counter, const char *text)
{
    cJSON *job = cJSON_Parse(text);
    const char *id = json_text(job, "id"), *reply_to = json_text(job, "reply_to");
    bool unique = cJSON_HasObjectItem(job, "unique"), listed = !*reply_to;
    redisReply *reply = older(
        SCRIPT_START, text_of("lease delayed cancel job:%s waits:%s unique:%s result:%s", number,
                              id, id, id),
        text_of("gpuimgd 1000 %s " OLDER ":%d %s %d %s -1", number, counter, id, unique,
                cJSON_HasObjectItem(job, "not_before") ? "+1" : "-1"));
    long long decision = reply->element[0]->integer;
    freeReplyObject(reply);
    assert_in_range(decision, 1, 5);
    const char *status = decision == 5 ? "cancelled" : "done";
    const char *keys = text_of("lease results job:%s result:%s%s%s", number, id,
                               unique ? text_of(" unique:%s waits:%s woken", id, id) : "",
                               listed ? "" : text_of(" %s", strchr(reply_to, ':') + 1));
    const char *args = text_of("100 60000 %s " OLDER ":%d "
                               "{\"job\":%s,\"status\":\"%s\",\"id\":\"%s\"} %d %d 0", number,
                               counter, number, status, id, unique ? 2 : 1, !listed);
    if (decision != 2)
        assert_int_equal(older_integer(1, SCRIPT_DONE, keys, args), 1);
    cJSON_Delete(job);
    return decision != 2;
}

/* Takes and ends jobs until it has posted `wanted` results. */
static void older_run(unsigned wanted)
{
    unsigned ended = 0;
    for (int counter = 10; ended < wanted && counter < 100; counter++) {
        redisReply *leases = older_fetch(counter, 4);
        for (size_t i = OLDER_HEAD; i + 2 < leases->elements; i += 3)
            ended += older_work(leases->element[i]->str, counter, leases->element[i + 2]->str);
        freeReplyObject(leases);
    }
    assert_int_equal(ended, wanted);
}

/* A daemon of 0.2.0 takes over the keys that this version leaves. */
TEST(test_an_older_version_takes_over_these_keys)
{
    leave_keys();
    if (getenv("GPUIMGD_RECORD"))
        record(getenv("GPUIMGD_RECORD"));
    pass_time();
    char gone[512] = "";
    redisReply *names = redis_command(w->client, "ZRANGE gpuimgd:inst 0 -1");
    for (size_t i = 0; i < names->elements; i++)
        snprintf(gone + strlen(gone), sizeof gone - strlen(gone), " %s", names->element[i]->str);
    freeReplyObject(names);
    const char *renew = "lease inst alone:owner cancel watcher wake";
    older_integer(0, SCRIPT_RENEW, renew, OLDER " 60000 none none");
    assert_int_equal(older_integer(0, SCRIPT_REAP, "lease inst jobs alone alone:owner watcher",
                                   text_of("gpuimgd " OLDER " 1 60000 3 65536 64 -1%s", gone)), 3);
    assert_int_equal(older_integer(0, SCRIPT_LOOK, "jobs delayed alone alone:owner watcher paused "
                                   "woken", "gpuimgd " OLDER), 1);

    /* Its FETCH without a reply, a job given back, and the rest. */
    freeReplyObject(older_fetch(1, 4));
    assert_true(older_integer(0, SCRIPT_RESUME, "lease jobs alone", "gpuimgd " OLDER " 3 9") > 0);
    redisReply *lease = older_fetch(2, 1);
    const char *number = text_of("%s", lease->element[OLDER_HEAD]->str);
    freeReplyObject(lease);
    assert_int_equal(
        older_integer(1, SCRIPT_NACK, text_of("lease results jobs delayed alone dead woken job:%s",
                                              number),
                      text_of("9 9 9 3 100 %s " OLDER ":2 back '' 0 - 0", number)), 1);
    older_run(13);
    check_ends();
    freeReplyObject(older(SCRIPT_DEAD, "dead", "0 1"));
    assert_int_equal(older_integer(-1, SCRIPT_REVIVE, "dead jobs", "'' oldest"), 1);
    older_run(1);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 1);
    freeReplyObject(older(SCRIPT_LEAVE, "inst alone:owner stats:" OLDER " leases:" OLDER
                          " watcher wake", OLDER " 60000"));
    check_clean(w);
}

/* `gpuimgctl status` names the version of each daemon, if it publishes one. */
TEST(test_status_names_the_versions)
{
    struct process *daemon = start_ready(0);
    freeReplyObject(redis_command(w->client, "ZADD gpuimgd:inst 9999999999999 h:1:1:77:1"));
    freeReplyObject(redis_command(w->client, "SET gpuimgd:stats:h:1:1:77:1 %s",
                                  "{\"engine\":\"cpu\",\"up_s\":1}"));
    struct ctl_run run = ctl_run(w, "until ctl status $at | grep -q '   0  " GPUIMGD_VERSION
                                 " *cpu '; do sleep 0.05; done");
    assert_int_equal(run.status, 0);
    ctl_expect(w, 0, "ctl status $at", "  h:77  ", "    0  -        cpu ", NULL);
    redis_integer(w->client, "ZREM gpuimgd:inst h:1:1:77:1");
    redis_integer(w->client, "DEL gpuimgd:stats:h:1:1:77:1");
    check_stop(daemon);
}

static const struct world_options options = {.photo = {"p.jpg", 160, 120}, .fill = NULL};

int main(void)
{
    world_options = &options;
    return run_all(.setup = open_world, .teardown = close_world, .each_setup = empty_world);
}
