/* redis.c - a Redis that is down, returns errors or loses data, and connections that fail. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/text_file.h"

/* A command whose reply does not matter. */
static void tell(struct rig *rig, const char *command)
{
    freeReplyObject(redis_command(rig->world.client, command));
}

static void saw_logged(struct rig *rig, struct process *daemon, const char *text)
{
    rig_saw(rig, "%s %s", process_logged(daemon, 0, text, 20) ? "said" : "did not say", text);
}

/* ---- away ------------------------------------------------------------------------------------ */

static void absent_at_start(struct rig *rig)
{
    struct world *w = &rig->world;
    redis_server_kill9(w->redis);
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_saw_if(rig, process_noted(daemon, 0, "STATUS=running on cpu; Redis:", 10),
               "ready without Redis", "no status");
    redis_server_restart(w->redis);
    world_reconnect(w);
    rig_push(rig, "n", 5);
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
}

static void killed_three_times(struct rig *rig)
{
    struct world *w = &rig->world;
    rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 150);
    for (size_t i = 1; i <= 3; i++) {
        rig_wait_for(rig, 20 * i, 20);
        redis_server_kill9(w->redis);
        process_sleep(0.1);
        redis_server_restart(w->redis);
        world_reconnect(w);
    }
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

/* Redis delays writes while a sync is running. */
static bool has_written_all(struct world *w)
{
    redisReply *reply = redis_command(w->client, "INFO persistence");
    bool written = strstr(reply->str, "\naof_buffer_length:0\r") != NULL;
    freeReplyObject(reply);
    return written;
}

/* As if Redis's host crashed: the append-only file lacks the last two seconds. Earlier jobs have at
 * least one result, and may have a second one. */
static void loses_its_last_seconds(struct rig *rig)
{
    struct world *w = &rig->world;
    char aof[512];
    struct stat before;
    rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "old", 100);
    rig_wait_for(rig, 20, 20);
    rig_aof(rig, aof, sizeof aof);
    for (int i = 0; i < 1000 && !has_written_all(w); i++)
        process_sleep(0.01);
    if (stat(aof, &before) != 0)
        rig_saw(rig, "no %s", aof);
    rig_push(rig, "new", 20);
    rig_wait_for(rig, 60, 20);
    redis_server_kill9(w->redis);
    if (truncate(aof, before.st_size) != 0)
        rig_saw(rig, "not truncated");
    redis_server_restart(w->redis);
    world_reconnect(w);
    rig_saw_if(rig, world_until(w, 30, 0, "LLEN gpuimgd:jobs") &&
                        world_until(w, 30, 0, "ZCARD gpuimgd:lease"), "drained", "not drained");
    rig_wait_for(rig, 0, 0);
    rig_saw(rig, "%zu of 100 old jobs answered", rig_answered(rig, "old"));
}

static void loading(struct rig *rig)
{
    struct world *w = &rig->world;
    char filler[1000];
    memset(filler, 'x', sizeof filler);
    for (int i = 0; i < 2000; i++)
        freeReplyObject(redis_command(w->client, "SET fill:%d %b", i, filler, sizeof filler));
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 60);
    rig_wait_for(rig, 10, 20);
    redis_server_restart_nowait(w->redis);
    saw_logged(rig, daemon, "LOADING");
    redis_server_restart(w->redis); /* again, while jobs run */
    world_reconnect(w);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void stands_still(struct rig *rig)
{
    rig_start(rig, 0, NULL, rig_option_s("command_timeout_s", 0.3),
              rig_option_s("connect_timeout_s", 0.3), "--block_s=0.2", NULL);
    rig_push(rig, "n", 60);
    rig_wait_for(rig, 5, 20);
    redis_server_freeze(rig->world.redis, true);
    process_sleep(patience(1.2));
    redis_server_freeze(rig->world.redis, false);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
}

/* ---- says no --------------------------------------------------------------------------------- */

static void forgets_scripts_and_clients(struct rig *rig)
{
    rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 100);
    for (size_t i = 1; i <= 5; i++) {
        rig_wait_for(rig, 15 * i, 20);
        tell(rig, "SCRIPT FLUSH");
        tell(rig, "CLIENT KILL TYPE normal SKIPME yes");
    }
    rig_wait(rig, 20);
    process_sleep(0.3); /* and again while the queue is idle */
    tell(rig, "CLIENT KILL TYPE normal SKIPME yes");
    rig_push(rig, "nn", 10);
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

/* A daemon that runs drains it, and one that starts does. */
static void full(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, NULL, "--inflight=2", "--batch=2", NULL);
    rig_push(rig, "n", 100);
    tell(rig, "CONFIG SET maxmemory 1");
    redisReply *reply = redis_command(rig->world.client, "LPUSH gpuimgd:jobs x");
    rig_saw(rig, "%.3s", reply->type == REDIS_REPLY_ERROR ? reply->str : "no error");
    freeReplyObject(reply);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    process_signal(daemon, SIGTERM);
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
    tell(rig, "CONFIG SET maxmemory 0");
    rig_push(rig, "m", 20);
    tell(rig, "CONFIG SET maxmemory 1");
    rig_start(rig, 1, NULL, NULL);
    rig_wait(rig, 30);
    rig_saw_done(rig, "m");
    tell(rig, "CONFIG SET maxmemory 0");
}

/* Between the two commands Redis answers the daemon's commands with an error of this code. */
static void refuses(struct rig *rig, const char *command, const char *code, const char *end)
{
    struct process *daemon = rig_start(rig, 0, NULL, "--inflight=2", "--batch=2", NULL);
    rig_push(rig, "n", 60);
    rig_wait_for(rig, 10, 20);
    tell(rig, command);
    saw_logged(rig, daemon, code);
    process_sleep(0.3);
    tell(rig, end);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void becomes_replica(struct rig *rig)
{
    refuses(rig, "REPLICAOF 127.0.0.1 1", "READONLY", "REPLICAOF NO ONE");
}

static void has_no_replicas(struct rig *rig)
{
    refuses(rig, "CONFIG SET min-replicas-to-write 1", "NOREPLICAS",
            "CONFIG SET min-replicas-to-write 0");
}

static void wrong_type(struct rig *rig)
{
    tell(rig, "SET gpuimgd:results mine");
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 5);
    saw_logged(rig, daemon, "WRONGTYPE");
    process_sleep(0.3);
    tell(rig, "DEL gpuimgd:results");
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void busy(struct rig *rig)
{
    struct world *w = &rig->world;
    int sent = 0;
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 60);
    rig_wait_for(rig, 10, 20);
    redisContext *other = redis_server_connect(w->redis);
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    while (!sent)
        if (redisBufferWrite(other, &sent) != REDIS_OK)
            abort();
    saw_logged(rig, daemon, "BUSY");
    tell(rig, "SCRIPT KILL");
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    redisFree(other);
}

/* The id of the daemon's connection that waits in BLMOVE, or 0. */
static long long blocked_client(struct rig *rig)
{
    long long id = 0;
    double deadline = process_now() + patience(10);
    while (id == 0 && process_now() < deadline) {
        char *list = redis_string(rig->world.client, "CLIENT LIST");
        for (char *line = list; line && id == 0;) {
            char *end = strchr(line, '\n');
            if (end)
                *end = '\0';
            if (strstr(line, "cmd=blmove") && strstr(line, "flags=b"))
                sscanf(line, "id=%lld", &id);
            line = end ? end + 1 : NULL;
        }
        free(list);
        process_sleep(0.01);
    }
    return id;
}

/* With a poll interval of a minute, only the retry of the poll can find the job in time. */
static void unblocked(struct rig *rig)
{
    rig_start(rig, 0, NULL, "--block_s=60", NULL);
    long long id = blocked_client(rig);
    rig_saw(rig, "%lld unblocked",
            redis_integer(rig->world.client, "CLIENT UNBLOCK %lld ERROR", id));
    rig_saw_if(rig, blocked_client(rig) != 0, "it looks again", "it does not look again");
    double start = process_now();
    rig_push(rig, "n", 1);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_in_time(rig, start, 5);
}

/* Writes the password to a file and returns "--redis_password_file=" with its path. */
static const char *password_option(struct rig *rig, const char *password)
{
    static char path[128], option[160];
    snprintf(path, sizeof path, "%s/password", rig->world.folder);
    snprintf(option, sizeof option, "--redis_password_file=%s", path);
    text_file_write(path, password, strlen(password));
    return option;
}

static void wrong_password(struct rig *rig)
{
    tell(rig, "AUTH secret");
    struct process *daemon = rig_start(rig, 0, NULL, password_option(rig, "wrong\n"),
                                       "--auth_retry_s=0.2", NULL);
    rig_push(rig, "n", 5);
    saw_logged(rig, daemon, "WRONGPASS");
    process_sleep(0.5);
    rig_saw(rig, "%lld wait", redis_integer(rig->world.client, "LLEN gpuimgd:jobs"));
    password_option(rig, "secret\n");
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void forbidden_scripts(struct rig *rig)
{
    tell(rig, "ACL SETUSER worker on >pw ~gpuimgd:* +@all -@scripting");
    struct process *daemon = rig_start(rig, 0, NULL, password_option(rig, "pw"),
                                       "--redis_username=worker", "--auth_retry_s=0.2", NULL);
    rig_push(rig, "n", 5);
    saw_logged(rig, daemon, "NOPERM");
    tell(rig, "ACL SETUSER worker +@scripting");
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void forbidden_blmove(struct rig *rig)
{
    tell(rig, "ACL SETUSER worker on >pw ~gpuimgd:* +@all -blmove");
    rig_start(rig, 0, NULL, password_option(rig, "pw"), "--redis_username=worker",
              "--block_s=0.3", NULL);
    process_sleep(0.5);
    double start = process_now();
    rig_push(rig, "n", 5);
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
    rig_saw_in_time(rig, start, 3);
}

/* ---- the line -------------------------------------------------------------------------------- */

static void reply_cut(struct rig *rig, const char *text, unsigned times)
{
    const char *way = rig_line(rig);
    rig_push(rig, "n", 2);
    line_cut(rig->line, text, times);
    rig_start(rig, 0, NULL, way, "--lease_s=600", "--renew_s=5", NULL);
    rig_wait(rig, 20);
    rig_saw(rig, "%u cut", line_cuts(rig->line));
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void done_reply_cut(struct rig *rig)
{
    reply_cut(rig, "\"status\":\"done\"", 1);
}

static void fetch_reply_cut(struct rig *rig)
{
    reply_cut(rig, "gpuimgd:seq", 3); /* only FETCH uses this key */
}

static void nack_reply_cut(struct rig *rig)
{
    const char *way = rig_line(rig);
    rig_push_text(rig, "x", "{'id':'x','input':'p.jpg','output':'locked/x.png'}");
    line_cut(rig->line, "retry", 3); /* only NACK contains this word */
    char *locked = world_out_path(&rig->world, "locked");
    mkdir(locked, 0555);
    rig->unprivileged = true;
    rig_start(rig, 0, NULL, way, NULL);
    rig_wait(rig, 20);
    free(locked);
    rig_saw(rig, "%u cut", line_cuts(rig->line));
    rig_saw_jobs(rig, "x");
}

static void byte_by_byte(struct rig *rig)
{
    const char *way = rig_line(rig);
    line_bytewise(rig->line, true);
    rig_start(rig, 0, NULL, way, NULL);
    rig_push(rig, "n", 30);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
    line_bytewise(rig->line, false);
}

static void silent_line(struct rig *rig, const char *timeout, double within_s)
{
    const char *way = rig_line(rig);
    rig_start(rig, 0, NULL, way, timeout, NULL);
    rig_push(rig, "n", 100);
    rig_wait_for(rig, 10, 20);
    unsigned before = line_connections(rig->line);
    line_silence(rig->line);
    double start = process_now();
    while (line_connections(rig->line) == before && process_now() < start + patience(20))
        process_sleep(0.01);
    rig_saw_in_time(rig, start, within_s);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

static void silent_for_the_default_time(struct rig *rig)
{
    silent_line(rig, "--command_timeout_s=5", 6);
}

static void silent_shortly(struct rig *rig)
{
    silent_line(rig, rig_option_s("command_timeout_s", 0.5), 1.5);
}

/* ---- what others write ----------------------------------------------------------------------- */

/* 300 leases of a daemon on another host expire one after the other; two daemons reap them. */
static void two_reapers(struct rig *rig)
{
    static const char seed[] =
        "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "
        "for n = 1, 300 do "
        "  redis.call('HSET', 'gpuimgd:job:' .. n, 'raw', ARGV[1]:gsub('ID', n), 'state', 'leased',"
        "    'attempt', 1, 'owner', 'else:a:1:1:1', 'token', 'else:a:1:1:1:1') "
        "  redis.call('ZADD', 'gpuimgd:lease', now + n * 4, n) "
        "end redis.call('SET', 'gpuimgd:seq', 300)";
    size_t back = 0;
    int took_part = 0;
    for (size_t i = 0; i < 2; i++)
        rig_start(rig, i, NULL, "--reap_s=0.05", "--renew_s=0.05", NULL);
    freeReplyObject(redis_command(rig->world.client, "EVAL %s 0 %s", seed,
                                  "{\"id\":\"nID\",\"input\":\"p.jpg\",\"ops\":[\"stats\"]}"));
    for (int i = 1; i <= 300; i++)
        rig_expect(rig, "n%d", i);
    rig_wait(rig, 30);
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 2);
    for (size_t i = 0; i < 2; i++) {
        char *log = process_log(&rig->world.daemons[i]);
        size_t here = 0;
        for (char *at = log; (at = strstr(at, " jobs of daemons that are gone went back")); at++) {
            char *number = at;
            while (number > log && number[-1] != ' ')
                number--;
            here += strtoul(number, NULL, 10);
        }
        free(log);
        back += here;
        took_part += here > 0;
    }
    rig_saw(rig, "%zu put back by %d", back, took_part);
}

static void forged_numbers(struct rig *rig)
{
    rig_push_slow(rig, "n", 1);
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    world_until(&rig->world, 20, 1, "ZCARD gpuimgd:lease");
    /* The number of no job, of a running job, and one that is too large for a Lua number. */
    tell(rig, "LPUSH gpuimgd:jobs @7 @1 @0 @1 @9999999999999999");
    rig_push(rig, "m", 3);
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
    rig_saw_done(rig, "m");
    saw_logged(rig, daemon, "5 entries of gpuimgd:jobs");
}

/* ---- pictures in keys ------------------------------------------------------------------------ */

/* A hung job holds the memory for input files. Only a limited number of waiting inputs may be
 * requested from Redis; otherwise all of them would be in the client's memory. */
static void keys_without_room(struct rig *rig)
{
    struct world *w = &rig->world;
    const size_t bytes = 5 << 20;
    char fault[96], *file = calloc(1, bytes);
    size_t length;
    char *path = world_in_path(w, "p.jpg");
    unsigned char *photo = text_file_bytes(path, &length);
    memcpy(file, photo, length); /* an image followed by zeros */
    world_put(w, "big.jpg", file, bytes);
    freeReplyObject(redis_command(w->client, "SET gpuimgd:img:big %b", file, bytes));
    free(file);
    free(photo);
    free(path);
    snprintf(fault, sizeof fault, "run=decode,action=hang,match=first,seconds=%g", patience(1.5));
    rig_start(rig, 0, fault, "--host_bytes=16M", "--input_bytes_max=8M",
              "--inflight=32", "--workers=4", NULL);
    rig_push_text(rig, "first", "{'id':'first','input':'big.jpg','ops':['stats']}");
    process_sleep(patience(0.3));
    static const char all_at_once[] = "for n = 1, 20 do "
                                      "redis.call('LPUSH', 'gpuimgd:jobs', (ARGV[1]:gsub('ID', n)))"
                                      " end";
    freeReplyObject(redis_command(w->client, "EVAL %s 0 %s", all_at_once,
                                  "{\"id\":\"nID\",\"input\":{\"key\":\"gpuimgd:img:big\"},"
                                  "\"ops\":[\"stats\"]}"));
    for (int i = 1; i <= 20; i++)
        rig_expect(rig, "n%d", i);
    process_sleep(patience(0.6));
    char *stats = redis_string(w->client, "INFO commandstats");
    const char *at = strstr(stats, "cmdstat_strlen:calls=");
    rig_saw(rig, "%d asked for", at ? atoi(strchr(at, '=') + 1) : 0);
    free(stats);
    rig_wait(rig, 30);
    rig_saw_done(rig, "");
}

static void dead_beside_a_key(struct rig *rig)
{
    struct world *w = &rig->world;
    char *locked = world_out_path(w, "locked");
    mkdir(locked, 0555);
    free(locked);
    rig->unprivileged = true;
    rig_start(rig, 0, NULL, "--block_s=60", NULL); /* retries do not wait for the next poll */
    double start = process_now();
    rig_push_text(rig, "x", "{'id':'x','input':'p.jpg','outputs':[{'output':{'key':"
                            "'gpuimgd:img:x','format':'png'}},{'output':'locked/x.png'}]}");
    rig_wait(rig, 20);
    rig_saw_in_time(rig, start, 5);
    rig_saw_jobs(rig, "x");
    char *text = redis_string(w->client, "GET gpuimgd:result:x");
    cJSON *result = cJSON_Parse(text);
    rig_saw(rig, "key \"%s\"", json_text(result, "outputs.0.key"));
    rig_saw_if(rig, json_at(result, "outputs.0.bytes"), "with bytes", "without bytes");
    rig_saw_if(rig, redis_integer(w->client, "EXISTS gpuimgd:img:x") == 1, "it is there",
               "it is not there");
    cJSON_Delete(result);
    free(text);
}

static const struct fault_case cases[] = {
    {"absent", "at the start", .run = absent_at_start, .quick = true,
     .expected = "ready without Redis; 5 done once"},
    {"150 jobs", "kill -9, three times", .run = killed_three_times, .quick = true,
     .expected = "150 done once; all at attempt 1"},
    {"120 jobs, appendfsync everysec", "host dies: 2 s are lost",
     .run = loses_its_last_seconds, .quick = true,
     .redis_args = {"--appendfsync", "everysec"},
     .expected = "drained; 100 of 100 old jobs answered"},
    {"60 jobs", "LOADING after a kill -9", .run = loading, .quick = true,
     .redis_args = {"--key-load-delay", "400", "--loading-process-events-interval-bytes", "1024"},
     .expected = "said LOADING; 60 done once; all at attempt 1"},
    {"60 jobs", "SIGSTOP beyond the timeouts", .run = stands_still, .quick = true,
     .expected = "60 done once"},
    {"110 jobs", "SCRIPT FLUSH, CLIENT KILL", .run = forgets_scripts_and_clients, .quick = true,
     .expected = "110 done once; all at attempt 1"},
    {"100 jobs, and 20 after a start", "maxmemory 1", .run = full, .quick = true,
     .expected = "OOM; 100 done once; exit 0; 20 done once"},
    {"60 jobs", "REPLICAOF", .run = becomes_replica, .quick = true,
     .expected = "said READONLY; 60 done once; all at attempt 1"},
    {"60 jobs", "min-replicas-to-write", .run = has_no_replicas, .quick = true,
     .expected = "said NOREPLICAS; 60 done once; all at attempt 1"},
    {"60 jobs", "a script that does not end", .run = busy,
     .redis_args = {"--busy-reply-threshold", "200"},
     .expected = "said BUSY; 60 done once"},
    {"5 jobs", "results is no list", .run = wrong_type, .quick = true,
     .expected = "said WRONGTYPE; 5 done once; all at attempt 1"},
    {"a look of 60 s", "CLIENT UNBLOCK ERROR", .run = unblocked, .quick = true,
     .expected = "1 unblocked; it looks again; 1 done once; within 5 s"},
    {"5 jobs", "wrong password", .run = wrong_password, .quick = true,
     .redis_args = {"--requirepass", "secret"},
     .expected = "said WRONGPASS; 5 wait; 5 done once; all at attempt 1"},
    {"5 jobs", "an ACL without scripts", .run = forbidden_scripts, .quick = true,
     .expected = "said NOPERM; 5 done once; all at attempt 1"},
    {"5 jobs", "an ACL without BLMOVE", .run = forbidden_blmove, .quick = true,
     .expected = "5 done once; within 3 s"},
    {"2 jobs", "reply to DONE cut", .run = done_reply_cut, .quick = true,
     .expected = "1 cut; 2 done once; all at attempt 1"},
    {"2 jobs", "reply to FETCH cut, three times", .run = fetch_reply_cut, .quick = true,
     .expected = "3 cut; 2 done once; all at attempt 1"},
    {"a write that fails", "reply to NACK cut, three times", .run = nack_reply_cut, .quick = true,
     .expected = "3 cut; x: dead write_failed, attempt 3"},
    {"30 jobs", "replies byte by byte", .run = byte_by_byte, .quick = true,
     .expected = "30 done once; all at attempt 1"},
    {"100 jobs, timeout of 0.5 s", "the line falls silent", .run = silent_shortly, .quick = true,
     .expected = "within 1.5 s; 100 done once; all at attempt 1"},
    {"100 jobs, timeout of 5 s", "the line falls silent", .run = silent_for_the_default_time,
     .expected = "within 6 s; 100 done once; all at attempt 1"},
    {"300 leases run out", "two reapers", .run = two_reapers, .quick = true,
     .expected = "300 done once; all at attempt 2; 300 put back by 2"},
    {"4 jobs", "forged @N", .run = forged_numbers, .quick = true,
     .expected = "1 done once; 3 done once; said 5 entries of gpuimgd:jobs"},
    {"20 pictures in keys", "no room for them", .run = keys_without_room, .quick = true,
     .expected = "4 asked for; 21 done once"},
    {"a key and a file as outputs", "the file cannot be written",
     .run = dead_beside_a_key, .quick = true,
     .expected = "within 5 s; x: dead write_failed, attempt 3; key \"gpuimgd:img:x\"; "
                 "with bytes; it is there"},
    {.name = NULL},
};

const struct fault_group redis_faults = {"redis", cases};
