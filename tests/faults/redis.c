/* redis.c - a Redis that is down, returns errors or loses data, and connections that fail. */
#include <string.h>
#include <sys/stat.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/measure.h"
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

/* ---- Redis is down --------------------------------------------------------------------------- */

static void absent_at_start(struct rig *rig)
{
    struct world *w = &rig->world;
    redis_server_kill9(w->redis);
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_saw_if(rig, process_noted(daemon, 0, "STATUS=running on cpu; Redis:", 10),
               "ready without Redis");
    redis_server_restart(w->redis);
    world_reconnect(w);
    rig_push(rig, "n", 5);
    rig_wait_done(rig, 20, "n");
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
    rig_wait_done_at(rig, 30, "n", 1);
}

/* As if Redis's host crashed: the append-only file lacks the last two seconds. Earlier jobs have at
 * least one result, and may have a second one. */
static void loses_its_last_seconds(struct rig *rig)
{
    struct world *w = &rig->world;
    rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "old", 100);
    rig_wait_for(rig, 20, 20);
    /* Redis delays writes while a sync is running. */
    RIG_WAIT_UNTIL(10, redis_info(w->client, "persistence", "aof_buffer_length:") == 0);
    off_t before = rig_aof_bytes(rig);
    rig_push(rig, "new", 20);
    rig_wait_for(rig, 60, 20);
    rig_crash_redis(rig, before);
    rig_saw_if(rig, world_until(w, 30, 0, "LLEN gpuimgd:jobs") &&
                        world_until(w, 30, 0, "ZCARD gpuimgd:lease"), "drained");
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
    rig_wait_done_at(rig, 30, "n", 1);
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
    rig_wait_done(rig, 30, "n");
}

/* ---- Redis returns errors -------------------------------------------------------------------- */

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
    rig_wait_done_at(rig, 20, "n", 1);
}

/* A full Redis is drained by a running daemon and by one that starts. */
static void full(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, NULL, "--inflight=2", "--batch=2", NULL);
    rig_push(rig, "n", 100);
    tell(rig, "CONFIG SET maxmemory 1");
    redisReply *reply = redis_command(rig->world.client, "LPUSH gpuimgd:jobs x");
    rig_saw(rig, "%.3s", reply->type == REDIS_REPLY_ERROR ? reply->str : "no error");
    freeReplyObject(reply);
    rig_wait_done(rig, 30, "n");
    rig_saw_terminated(rig, daemon);
    tell(rig, "CONFIG SET maxmemory 0");
    rig_push(rig, "m", 20);
    tell(rig, "CONFIG SET maxmemory 1");
    rig_start(rig, 1, NULL, NULL);
    rig_wait_done(rig, 30, "m");
    tell(rig, "CONFIG SET maxmemory 0");
}

/* with: two commands, between which Redis answers the daemon with errors, and their code. */
static void refuses(struct rig *rig)
{
    const char *const *with = rig->fault->with;
    struct process *daemon = rig_start(rig, 0, NULL, "--inflight=2", "--batch=2", NULL);
    rig_push(rig, "n", 60);
    rig_wait_for(rig, 10, 20);
    tell(rig, with[0]);
    saw_logged(rig, daemon, with[2]);
    process_sleep(0.3);
    tell(rig, with[1]);
    rig_wait_done_at(rig, 30, "n", 1);
}

static void wrong_type(struct rig *rig)
{
    tell(rig, "SET gpuimgd:results mine");
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 5);
    saw_logged(rig, daemon, "WRONGTYPE");
    process_sleep(0.3);
    tell(rig, "DEL gpuimgd:results");
    rig_wait_done_at(rig, 30, "n", 1);
}

static void busy(struct rig *rig)
{
    int sent = 0;
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_push(rig, "n", 60);
    rig_wait_for(rig, 10, 20);
    redisContext *other = redis_server_connect(rig->world.redis);
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    while (!sent)
        if (redisBufferWrite(other, &sent) != REDIS_OK)
            abort();
    saw_logged(rig, daemon, "BUSY");
    tell(rig, "SCRIPT KILL");
    rig_wait_done(rig, 30, "n");
    redisFree(other);
}

/* The id of the daemon's connection that waits in BLMOVE, or 0. */
static long long blocked_now(struct rig *rig)
{
    long long id = 0;
    char *list = redis_string(rig->world.client, "CLIENT LIST"), *rest = list;
    for (char *line; id == 0 && (line = strsep(&rest, "\n"));)
        if (strstr(line, "cmd=blmove") && strstr(line, "flags=b"))
            sscanf(line, "id=%lld", &id);
    free(list);
    return id;
}

static long long blocked_client(struct rig *rig)
{
    RIG_WAIT_UNTIL(10, blocked_now(rig) != 0);
    return blocked_now(rig);
}

/* With a poll interval of a minute, only the retry of the poll can find the job in time. */
static void unblocked(struct rig *rig)
{
    rig_start(rig, 0, NULL, "--block_s=60", NULL);
    long long id = blocked_client(rig);
    rig_saw(rig, "%lld unblocked",
            redis_integer(rig->world.client, "CLIENT UNBLOCK %lld ERROR", id));
    rig_saw_if(rig, blocked_client(rig) != 0, "it looks again");
    double start = process_now();
    rig_push(rig, "n", 1);
    rig_wait_done(rig, 30, "n");
    rig_saw_in_time(rig, start, 20);
}

/* Writes the password to a file and returns "--redis_password_file=" with its path. */
static const char *password_option(struct rig *rig, const char *password)
{
    const char *path = rig_flag(rig, "password");
    text_file_write(path, password, strlen(password));
    return text_of("--redis_password_file=%s", path);
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
    rig_wait_done_at(rig, 20, "n", 1);
}

static void forbidden_scripts(struct rig *rig)
{
    tell(rig, "ACL SETUSER worker on >pw ~gpuimgd:* +@all -@scripting");
    struct process *daemon = rig_start(rig, 0, NULL, password_option(rig, "pw"),
                                       "--redis_username=worker", "--auth_retry_s=0.2", NULL);
    rig_push(rig, "n", 5);
    saw_logged(rig, daemon, "NOPERM");
    tell(rig, "ACL SETUSER worker +@scripting");
    rig_wait_done_at(rig, 20, "n", 1);
}

static void forbidden_blmove(struct rig *rig)
{
    tell(rig, "ACL SETUSER worker on >pw ~gpuimgd:* +@all -blmove");
    rig_start(rig, 0, NULL, password_option(rig, "pw"), "--redis_username=worker",
              "--block_s=0.3", NULL);
    process_sleep(0.5);
    double start = process_now();
    rig_push(rig, "n", 5);
    rig_wait_done(rig, 20, "n");
    rig_saw_in_time(rig, start, 20);
}

/* ---- the connection -------------------------------------------------------------------------- */

/* The results may have arrived before the line has read the reply that it withholds. */
static void saw_cuts(struct rig *rig, unsigned wanted)
{
    for (double end = process_now() + 5; line_cuts(rig->line) < wanted && process_now() < end;)
        process_sleep(0.01);
    rig_saw(rig, "%u cut", line_cuts(rig->line));
}

/* The key gpuimgd:seq occurs only in FETCH. */
static void reply_cut(struct rig *rig)
{
    const char *way = rig_line(rig);
    rig_push(rig, "n", 2);
    line_cut(rig->line, rig->fault->with[0], (unsigned)rig->fault->number[0]);
    rig_start(rig, 0, NULL, way, "--lease_s=600", "--renew_s=5", NULL);
    rig_wait(rig, 20);
    saw_cuts(rig, (unsigned)rig->fault->number[0]);
    rig_saw_done_at(rig, "n", 1);
}

/* Jobs cannot write to the folder "locked". */
static void lock_folder(struct rig *rig)
{
    mkdir(text_of("%s/locked", rig->world.out), 0555);
    rig->unprivileged = true;
}

static void nack_reply_cut(struct rig *rig)
{
    const char *way = rig_line(rig);
    rig_push_text(rig, "x", "{'id':'x','input':'p.jpg','output':'locked/x.png'}");
    line_cut(rig->line, "retry", 3); /* only NACK contains this word */
    lock_folder(rig);
    rig_start(rig, 0, NULL, way, NULL);
    rig_wait(rig, 20);
    saw_cuts(rig, 3);
    rig_saw_jobs(rig, "x");
}

static void byte_by_byte(struct rig *rig)
{
    const char *way = rig_line(rig);
    line_bytewise(rig->line, true);
    rig_start(rig, 0, NULL, way, NULL);
    rig_push(rig, "n", 30);
    rig_wait_done_at(rig, 30, "n", 1);
    line_bytewise(rig->line, false);
}

/* number: the timeout, and within what time the daemon must have another connection. */
static void silent_line(struct rig *rig)
{
    const double *seconds = rig->fault->number;
    const char *way = rig_line(rig);
    rig_start(rig, 0, NULL, way, rig_option_s("command_timeout_s", seconds[0]), NULL);
    rig_push(rig, "n", 100);
    rig_wait_for(rig, 10, 20);
    unsigned before = line_connections(rig->line);
    line_silence(rig->line);
    double start = process_now();
    RIG_WAIT_UNTIL(20, line_connections(rig->line) > before);
    rig_saw_in_time(rig, start, seconds[1]);
    rig_wait_done_at(rig, 30, "n", 1);
}

/* ---- keys that others write ------------------------------------------------------------------ */

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
        rig_expects(rig, text_of("n%d", i));
    rig_wait_done_at(rig, 30, "n", 2);
    for (size_t i = 0; i < 2; i++) {
        char *log = process_log(&rig->world.daemons[i]), *rest = log;
        size_t here = 0;
        for (char *line; (line = strsep(&rest, "\n"));) {
            char *end = strstr(line, " jobs whose daemon died or lost its lease went back");
            if (end)
                *end = '\0';
            here += end ? strtoul(strrchr(line, ' '), NULL, 10) : 0;
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
    rig_wait_done(rig, 20, "n");
    rig_saw_done(rig, "m");
    saw_logged(rig, daemon, "5 entries of the lists of gpuimgd");
}

/* ---- images in keys -------------------------------------------------------------------------- */

/* A hung job holds the memory for input files. Only a limited number of waiting inputs may be
 * requested from Redis; otherwise all of them would be in the client's memory. */
static void keys_without_room(struct rig *rig)
{
    struct world *w = &rig->world;
    size_t bytes;
    rig_put_large_file(rig, "big.jpg", 5 << 20);
    unsigned char *file = text_file_bytes(text_of("%s/big.jpg", w->in), &bytes);
    freeReplyObject(redis_command(w->client, "SET gpuimgd:img:big %b", file, bytes));
    free(file);
    const char *fault = text_of("run=decode,action=hang,match=first,seconds=%g", patience(1.5));
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
        rig_expects(rig, text_of("n%d", i));
    process_sleep(patience(0.6));
    rig_saw(rig, "%g asked for", redis_info(w->client, "commandstats", "cmdstat_strlen:calls="));
    rig_wait_done(rig, 30, "");
}

static void dead_beside_a_key(struct rig *rig)
{
    lock_folder(rig);
    rig_start(rig, 0, NULL, "--block_s=60", NULL); /* retries do not wait for the next poll */
    double start = process_now();
    rig_push_text(rig, "x", "{'id':'x','input':'p.jpg','outputs':[{'output':{'key':"
                            "'gpuimgd:img:x','format':'png'}},{'output':'locked/x.png'}]}");
    rig_wait(rig, 20);
    rig_saw_in_time(rig, start, 20);
    rig_saw_jobs(rig, "x");
    char *text = redis_string(rig->world.client, "GET gpuimgd:result:x");
    cJSON *result = cJSON_Parse(text);
    rig_saw(rig, "key \"%s\"", json_text(result, "outputs.0.key"));
    rig_saw_if(rig, json_at(result, "outputs.0.bytes"), "with bytes");
    rig_saw_if(rig, redis_integer(rig->world.client, "EXISTS gpuimgd:img:x") == 1, "it is there");
    cJSON_Delete(result);
    free(text);
}

const struct fault_case redis_faults[] = {
    CASE("absent", "at the start", absent_at_start, "ready without Redis; 5 done once"),
    CASE("150 jobs", "kill -9, three times", killed_three_times, "150 done once; all at attempt 1"),
    CASE("120 jobs, appendfsync everysec", "host dies: 2 s are lost", loses_its_last_seconds,
         "drained; 100 of 100 old jobs answered", .redis_args = {"--appendfsync", "everysec"}),
    CASE("60 jobs", "LOADING after a kill -9", loading,
         "said LOADING; 60 done once; all at attempt 1",
         .redis_args = {"--key-load-delay", "400", "--loading-process-events-interval-bytes",
                        "1024"}),
    CASE("60 jobs", "SIGSTOP beyond the timeouts", stands_still, "60 done once"),
    CASE("110 jobs", "SCRIPT FLUSH, CLIENT KILL", forgets_scripts_and_clients,
         "110 done once; all at attempt 1"),
    CASE("100 jobs, and 20 after a start", "maxmemory 1", full,
         "OOM; 100 done once; exit 0; 20 done once"),
    CASE("60 jobs", "REPLICAOF", refuses, "said READONLY; 60 done once; all at attempt 1",
         .with = {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"}),
    CASE("60 jobs", "min-replicas-to-write", refuses,
         "said NOREPLICAS; 60 done once; all at attempt 1",
         .with = {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
                  "NOREPLICAS"}),
    CASE("60 jobs", "a script that does not end", busy, "said BUSY; 60 done once", .slow = true,
         .redis_args = {"--busy-reply-threshold", "200"}),
    CASE("5 jobs", "results is no list", wrong_type,
         "said WRONGTYPE; 5 done once; all at attempt 1"),
    CASE("a look of 60 s", "CLIENT UNBLOCK ERROR", unblocked,
         "1 unblocked; it looks again; 1 done once; within 20 s"),
    CASE("5 jobs", "wrong password", wrong_password,
         "said WRONGPASS; 5 wait; 5 done once; all at attempt 1",
         .redis_args = {"--requirepass", "secret"}),
    CASE("5 jobs", "an ACL without scripts", forbidden_scripts,
         "said NOPERM; 5 done once; all at attempt 1"),
    CASE("5 jobs", "an ACL without BLMOVE", forbidden_blmove, "5 done once; within 20 s"),
    CASE("2 jobs", "reply to DONE cut", reply_cut, "1 cut; 2 done once; all at attempt 1",
         .with = {"\"status\":\"done\""}, .number = {1}),
    CASE("2 jobs", "reply to FETCH cut, three times", reply_cut,
         "3 cut; 2 done once; all at attempt 1", .with = {"gpuimgd:seq"}, .number = {3}),
    CASE("a write that fails", "reply to NACK cut, three times", nack_reply_cut,
         "3 cut; x: dead write_failed, attempt 3"),
    CASE("30 jobs", "replies byte by byte", byte_by_byte, "30 done once; all at attempt 1"),
    CASE("100 jobs, timeout of 0.5 s", "the line falls silent", silent_line,
         "within 10 s; 100 done once; all at attempt 1", .number = {0.5, 10}),
    CASE("100 jobs, timeout of 5 s", "the line falls silent", silent_line,
         "within 15 s; 100 done once; all at attempt 1", .number = {5, 15}, .slow = true),
    CASE("300 leases run out", "two reapers", two_reapers,
         "300 done once; all at attempt 2; 300 put back by 2"),
    CASE("4 jobs", "forged @N", forged_numbers,
         "1 done once; 3 done once; said 5 entries of the lists of gpuimgd"),
    CASE("20 pictures in keys", "no room for them", keys_without_room, "4 asked for; 21 done once"),
    CASE("a key and a file as outputs", "the file cannot be written", dead_beside_a_key,
         "within 20 s; x: dead write_failed, attempt 3; key \"gpuimgd:img:x\"; with bytes; it is "
         "there"),
    {.name = NULL},
};
