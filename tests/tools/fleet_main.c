/*
 * fleet - a hundred idle, busy and cut-off daemons on one Redis: what they cost it, as a table.
 *
 *     fleet [--daemon PATH] [--daemons 100] [--jobs 10000] [--followers 1000000]
 *           [--leases 80000]
 *
 * Each row has a figure and, where it is judged, a bound and a verdict. The exit status is 1 when
 * a bound is missed. Daemons are real processes in a small configuration; jobs go from key to key.
 *
 * CPU times are of the Redis process. Script times are wall times from SLOWLOG, and a busy machine
 * takes the processor from Redis in the middle of a script. So the time that Redis was ready to run
 * and did not is taken from schedstat and the host's steal; at least it is STALLS times the longest
 * command such as HGET, which needs a microsecond. On a quiet machine it is next to nothing.
 *
 * A phase passes when no script was longer than SCRIPT_MS_MAX and that time (LOST_MS_MAX at most),
 * and no more than STRAY were longer than SCRIPT_MS_MAX, plus one for each half of it lost.
 * Redis runs with a higher priority if that is permitted.
 */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/lease/queue.h"
#include "queue/redis/script.h"
#include "tests/fixtures/world.h"

#define SCRIPT_MS_MAX 10.0
#define STRAY 3
#define STALLS 4
#define LOST_MS_MAX 100.0
#define FETCHES_MAX 3.0
#define RATIO_MAX 2.0
#define IDLE_S 6.0          /* three looks of block_s = 2 s */
#define SETTLE_S 0.05       /* after a push's result, for the daemons that found nothing */
#define PUSHES 100
#define CANCELLED 50000
#define ANSWERS 20000       /* of the followers, before the program ends */
#define OUTPUTS 64          /* keys that outputs go to, over and over */
#define WAIT_S 120.0
#define NUMBER_FIRST 1000000000ull /* of followers that are put into Redis directly */
#define RESULT_CHUNK 5000
#define SLOWLOG_TEXT 100 /* SLOWLOG keeps more of each argument */

struct fleet {
    struct world world;
    unsigned daemons, jobs, followers, leases;
    unsigned missed;
    double scripts_before, lost_before; /* scripts and milliseconds when the phase began */
    double cpu_per_job;              /* with one daemon, s */
    char sha[SCRIPT_ID_COUNT][41];   /* of the scripts as Redis names them */
    unsigned char *seen;             /* a bit for each job number that has a result */
    unsigned long long seen_max;
    unsigned repeated;               /* jobs with a second result */
    const char *status;              /* that results are expected to have */
    unsigned bad;                    /* results that have not */
};

/* ---- the table ------------------------------------------------------------------------------- */

static void row_as(struct fleet *fleet, const char *what, double value, const char *unit,
                   double bound, bool good)
{
    char limit[32] = "";
    if (bound >= 0)
        snprintf(limit, sizeof limit, "<= %g", bound);
    printf("%-80s %11.3f %-10s %-9s %s\n", what, value, unit, limit,
           bound < 0 ? "" : good ? "ok" : "MISSED");
    fflush(stdout);
    fleet->missed += !good;
}

/* bound < 0: the row is not judged. */
static void row(struct fleet *fleet, const char *what, double value, const char *unit, double bound)
{
    row_as(fleet, what, value, unit, bound, bound < 0 || value <= bound);
}

/* ---- what Redis says of itself --------------------------------------------------------------- */

static double info_number(struct fleet *fleet, const char *section, const char *name)
{
    char *info = redis_string(fleet->world.client, section);
    char *at = strstr(info, name);
    double number = at ? strtod(at + strlen(name), NULL) : 0;
    free(info);
    return number;
}

static double redis_cpu_s(struct fleet *fleet)
{
    return info_number(fleet, "INFO cpu", "used_cpu_sys:") +
           info_number(fleet, "INFO cpu", "used_cpu_user:");
}

static void run(struct fleet *fleet, const char *command)
{
    redisReply *reply = redis_command(fleet->world.client, command);
    if (reply->type == REDIS_REPLY_ERROR)
        printf("%s: %s\n", command, reply->str);
    freeReplyObject(reply);
}

static void load_scripts(struct fleet *fleet)
{
    for (enum script script = 0; script < SCRIPT_ID_COUNT; script++) {
        char *sha = redis_string(fleet->world.client, "SCRIPT LOAD %s", script_text(script));
        snprintf(fleet->sha[script], sizeof fleet->sha[script], "%s", sha);
        free(sha);
    }
}

static void prefer(struct fleet *fleet)
{
    if (setpriority(PRIO_PROCESS, (id_t)fleet->world.redis->pid, -20) != 0)
        printf("Redis runs without a higher priority: script times are those of a busy machine\n");
}

static double script_calls(struct fleet *fleet)
{
    return info_number(fleet, "INFO commandstats", "cmdstat_evalsha:calls=") +
           info_number(fleet, "INFO commandstats", "cmdstat_eval:calls=");
}

/* How long Redis could have run and did not, so far. */
static double lost_ms(struct fleet *fleet)
{
    char path[64], line[256];
    double waited_ns = 0, steal = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)fleet->world.redis->pid);
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file))
        sscanf(line, "%*f %lf", &waited_ns);
    if (file)
        fclose(file);
    file = fopen("/proc/stat", "r");
    if (file && fgets(line, sizeof line, file))
        sscanf(line, "cpu %*f %*f %*f %*f %*f %*f %*f %lf", &steal);
    if (file)
        fclose(file);
    return waited_ns / 1e6 + steal * 1e3 / (double)sysconf(_SC_CLK_TCK);
}

/* From now on SLOWLOG keeps what takes longer than so many microseconds. */
static void watch(struct fleet *fleet, long us)
{
    freeReplyObject(redis_command(fleet->world.client, "CONFIG SET slowlog-log-slower-than %d",
                                  (int)us));
    run(fleet, "CONFIG SET slowlog-max-len 1000000");
    run(fleet, "SLOWLOG RESET");
    fleet->scripts_before = script_calls(fleet);
    fleet->lost_before = lost_ms(fleet);
}

struct slow {
    double longest_ms;
    double stall_ms;         /* the longest command of constant time */
    unsigned over;           /* scripts that took longer than SCRIPT_MS_MAX */
    const char *name;        /* of the longest */
    unsigned calls[SCRIPT_ID_COUNT];
};

static bool is_constant(const char *command)
{
    static const char *const names[] = {"HGET", "HMGET", "HSET", "HDEL", "HEXISTS", "HSTRLEN",
                                        "EXISTS", "TYPE", "GET", "LLEN", "TIME", "PEXPIRE",
                                        "INCRBY", "SREM", NULL};
    for (size_t i = 0; names[i]; i++)
        if (strcasecmp(command, names[i]) == 0)
            return true;
    return false;
}

static void note_slow(struct fleet *fleet, struct slow *slow, const redisReply *entry)
{
    const redisReply *words = entry->element[3];
    double ms = (double)entry->element[2]->integer / 1000;
    const char *name = "EVAL";
    if (words->elements > 0 && is_constant(words->element[0]->str))
        slow->stall_ms = fmax(slow->stall_ms, ms);
    if (words->elements < 2 || strncasecmp(words->element[0]->str, "EVAL", 4) != 0)
        return;
    for (enum script script = 0; script < SCRIPT_ID_COUNT; script++)
        if (strcmp(words->element[1]->str, fleet->sha[script]) == 0 ||
            strncmp(words->element[1]->str, script_text(script), SLOWLOG_TEXT) == 0) {
            name = script_name(script);
            slow->calls[script]++;
        }
    slow->over += ms > SCRIPT_MS_MAX;
    if (ms > slow->longest_ms) {
        slow->longest_ms = ms;
        slow->name = name;
    }
}

static struct slow look(struct fleet *fleet)
{
    struct slow slow = {.name = "none"};
    redisReply *log = redis_command(fleet->world.client, "SLOWLOG GET 1000000");
    for (size_t i = 0; log->type == REDIS_REPLY_ARRAY && i < log->elements; i++)
        note_slow(fleet, &slow, log->element[i]);
    freeReplyObject(log);
    run(fleet, "SLOWLOG RESET");
    return slow;
}

/* The row that ends each phase. */
static void judge_scripts(struct fleet *fleet, const char *phase)
{
    struct slow slow = look(fleet);
    double scripts = script_calls(fleet) - fleet->scripts_before;
    double lost = fmax(STALLS * slow.stall_ms, lost_ms(fleet) - fleet->lost_before);
    bool stray = slow.over <= STRAY + 2 * lost / SCRIPT_MS_MAX &&
                 slow.longest_ms <= SCRIPT_MS_MAX + fmin(lost, LOST_MS_MAX);
    char what[128], over[64] = "";
    if (slow.over > 0)
        snprintf(over, sizeof over, "; %u of %.0f above %g; CPU lost %.0f ms", slow.over, scripts,
                 SCRIPT_MS_MAX, lost);
    snprintf(what, sizeof what, "%s: longest script (%s%s)", phase, slow.name, over);
    row_as(fleet, what, slow.longest_ms, "ms", SCRIPT_MS_MAX, stray);
    fleet->scripts_before += scripts;
    fleet->lost_before = lost_ms(fleet);
}

/* ---- jobs and results ------------------------------------------------------------------------ */

static void put_input(struct fleet *fleet)
{
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 8, .height = 8, .colour_type = 2});
    freeReplyObject(redis_command(fleet->world.client, "SET gpuimgd:img:in %b", file.bytes,
                                  file.length));
    picture_free(&file);
}

static void drain_pipe(struct fleet *fleet, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        void *reply = NULL;
        if (redisGetReply(fleet->world.client, &reply) != REDIS_OK) {
            printf("the connection to Redis was lost: %s\n", fleet->world.client->errstr);
            exit(1);
        }
        freeReplyObject(reply);
    }
}

#define JOB                                                                                        \
    "{\"input\":{\"key\":\"gpuimgd:img:in\"},\"output\":{\"key\":\"gpuimgd:img:out:%u\","          \
    "\"format\":\"png\"},\"ops\":[]%s}"

static void push_many(struct fleet *fleet, unsigned count)
{
    for (unsigned i = 0; i < count;) {
        unsigned chunk = 0;
        for (; chunk < 1000 && i < count; chunk++, i++) {
            char job[256];
            snprintf(job, sizeof job, JOB, i % OUTPUTS, "");
            redisAppendCommand(fleet->world.client, "LPUSH gpuimgd:jobs %s", job);
        }
        drain_pipe(fleet, chunk);
    }
}

/* Whether it is the first result of its job. */
static void note_result(struct fleet *fleet, const char *result)
{
    const char *at = strstr(result, "\"job\":");
    unsigned long long number = at ? strtoull(at + 6, NULL, 10) : 0;
    const char *status = strstr(result, "\"status\":\"");
    fleet->bad += !status || strncmp(status + 10, fleet->status, strlen(fleet->status)) != 0;
    if (number >= NUMBER_FIRST)
        number = number - NUMBER_FIRST + fleet->seen_max / 2;
    if (number == 0 || number >= fleet->seen_max) {
        fleet->bad++;
        return;
    }
    unsigned char bit = (unsigned char)(1u << number % 8);
    fleet->repeated += (fleet->seen[number / 8] & bit) != 0;
    fleet->seen[number / 8] |= bit;
}

/* Waits for so many results and takes them; how many are missing then. */
static unsigned take_results(struct fleet *fleet, unsigned count, double seconds)
{
    double deadline = process_now() + seconds;
    unsigned taken = 0;
    while (taken < count && process_now() < deadline) {
        unsigned wanted = count - taken < RESULT_CHUNK ? count - taken : RESULT_CHUNK;
        redisReply *some = redis_command(fleet->world.client, "RPOP gpuimgd:results %u", wanted);
        size_t got = some->type == REDIS_REPLY_ARRAY ? some->elements : 0;
        for (size_t i = 0; i < got; i++)
            note_result(fleet, some->element[i]->str);
        taken += (unsigned)got;
        freeReplyObject(some);
        for (size_t i = 0; i < WORLD_DAEMONS_MAX; i++)
            process_mark(&fleet->world.daemons[i]);
        if (got == 0)
            process_sleep(0.02);
    }
    return taken < count ? count - taken : 0;
}

/* The row that each job has one result, and a good one. */
static void judge_results(struct fleet *fleet, const char *phase, unsigned missing)
{
    char what[96];
    unsigned more = (unsigned)redis_integer(fleet->world.client, "LLEN gpuimgd:results");
    snprintf(what, sizeof what, "%s: results missing, twice, or bad", phase);
    row(fleet, what, missing + fleet->repeated + fleet->bad + more, "results", 0);
    fleet->repeated = fleet->bad = 0;
    run(fleet, "DEL gpuimgd:results");
}

/* ---- daemons --------------------------------------------------------------------------------- */

static const char *const small[] = {
    "--workers=1", "--inflight=8", "--pinned_bytes=4M", "--host_bytes=4M", "--input_bytes_max=1M",
    "--lease_s=30",
    "--renew_s=5", "--reap_s=10", "--retry_delay_s=1", "--stats_interval_s=0",
    "--log_level=warning", NULL};

static bool start_daemons(struct fleet *fleet, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        world_start_with(&fleet->world, i, &(struct process_options){0}, small);
    for (size_t i = from; i < to; i++)
        if (!world_ready(&fleet->world.daemons[i]))
            return false;
    return true;
}

static void signal_all(struct fleet *fleet, int signal)
{
    for (size_t i = 0; i < fleet->daemons; i++)
        process_signal(&fleet->world.daemons[i], signal);
}

/* ---- the phases ------------------------------------------------------------------------------ */

static double measure_load(struct fleet *fleet, const char *phase)
{
    double cpu = redis_cpu_s(fleet), start = process_now();
    char what[96];
    watch(fleet, 1000);
    push_many(fleet, fleet->jobs);
    unsigned missing = take_results(fleet, fleet->jobs, WAIT_S);
    double seconds = process_now() - start;
    cpu = (redis_cpu_s(fleet) - cpu) / fleet->jobs;
    snprintf(what, sizeof what, "%s: throughput", phase);
    row(fleet, what, fleet->jobs / seconds, "jobs/s", -1);
    snprintf(what, sizeof what, "%s: Redis CPU per job", phase);
    row(fleet, what, cpu * 1e6, "us", -1);
    judge_scripts(fleet, phase);
    judge_results(fleet, phase, missing);
    return cpu;
}

static bool phase_one(struct fleet *fleet)
{
    if (!start_daemons(fleet, 0, 1))
        return false;
    push_many(fleet, 100); /* the daemon's own memory, Redis's tables */
    if (take_results(fleet, 100, WAIT_S) > 0)
        return false;
    fleet->cpu_per_job = measure_load(fleet, "1 daemon");
    return true;
}

static bool phase_start(struct fleet *fleet)
{
    double start = process_now(), rss = 0;
    watch(fleet, 1000);
    if (!start_daemons(fleet, 1, fleet->daemons))
        return false;
    row(fleet, "start: until all are ready", process_now() - start, "s", -1);
    for (size_t i = 1; i < fleet->daemons; i++)
        rss += (double)process_rss_kib(&fleet->world.daemons[i]) / 1024;
    row(fleet, "start: memory of one idle daemon", rss / (fleet->daemons - 1), "MiB", 100);
    judge_scripts(fleet, "start");
    return true;
}

/* How many FETCH a second all idle daemons make by themselves. */
static double phase_idle(struct fleet *fleet)
{
    process_sleep(2.5); /* all have looked once since they started */
    watch(fleet, 0);
    double cpu = redis_cpu_s(fleet), start = process_now();
    double commands = info_number(fleet, "INFO stats", "total_commands_processed:");
    process_sleep(IDLE_S);
    double seconds = process_now() - start;
    cpu = redis_cpu_s(fleet) - cpu;
    commands = info_number(fleet, "INFO stats", "total_commands_processed:") - commands - 3;
    struct slow slow = look(fleet);
    row(fleet, "idle: Redis CPU", cpu * 1e3 / seconds, "ms/s", 50);
    row(fleet, "idle: commands", commands / seconds, "1/s", -1);
    row(fleet, "idle: FETCH", slow.calls[SCRIPT_ID_FETCH] / seconds, "1/s", -1);
    return slow.calls[SCRIPT_ID_FETCH] / seconds;
}

/* Each push comes when all daemons sleep. Their looks by themselves are taken off the count. */
static void phase_pushes(struct fleet *fleet, double idle_fetches)
{
    unsigned missing = 0;
    watch(fleet, 0);
    double start = process_now(), cpu = redis_cpu_s(fleet);
    for (unsigned i = 0; i < PUSHES; i++) {
        push_many(fleet, 1);
        missing += take_results(fleet, 1, WAIT_S / PUSHES);
        process_sleep(SETTLE_S);
    }
    double seconds = process_now() - start;
    cpu = redis_cpu_s(fleet) - cpu;
    struct slow slow = look(fleet);
    double fetches = slow.calls[SCRIPT_ID_FETCH] - idle_fetches * seconds;
    row(fleet, "single pushes: FETCH per push", fmax(fetches, 0) / PUSHES, "FETCH", FETCHES_MAX);
    row(fleet, "single pushes: Redis CPU per push", cpu * 1e6 / PUSHES, "us", -1);
    judge_results(fleet, "single pushes", missing);
}

static void phase_load(struct fleet *fleet)
{
    char phase[32];
    snprintf(phase, sizeof phase, "%u daemons", fleet->daemons);
    double cpu = measure_load(fleet, phase);
    row(fleet, "Redis CPU per job, against one daemon", cpu / fleet->cpu_per_job, "times",
        RATIO_MAX);
}

/* Redis is killed in the middle of the load and comes back with its append-only file. */
static void phase_failover(struct fleet *fleet)
{
    struct world *w = &fleet->world;
    push_many(fleet, fleet->jobs);
    unsigned taken = fleet->jobs / 4;
    unsigned missing = take_results(fleet, taken, WAIT_S);
    double start = process_now();
    redis_server_restart(w->redis);
    prefer(fleet);
    world_reconnect(w);
    load_scripts(fleet);
    watch(fleet, 1000);
    missing += take_results(fleet, 1, WAIT_S) ? 1 : 0;
    row(fleet, "failover: until the next result", process_now() - start, "s", -1);
    missing += take_results(fleet, fleet->jobs - taken - 1, WAIT_S);
    process_sleep(1); /* a second result would come now */
    judge_scripts(fleet, "failover");
    judge_results(fleet, "failover", missing);
    row(fleet, "failover: leases left", (double)redis_integer(w->client, "ZCARD gpuimgd:lease"),
        "leases", 0);
}

/* ---- leases of a daemon elsewhere ------------------------------------------------------------ */

struct foreign {
    uv_loop_t loop;
    struct queue *queue;
    unsigned taken;
};

static void foreign_leased(void *context, struct lease *lease)
{
    (void)lease;
    ((struct foreign *)context)->taken++;
}

static void foreign_lost(void *context, struct lease *lease)
{
    (void)context;
    (void)lease;
}

static void foreign_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    (void)context;
    (void)lease;
    (void)stale;
    (void)dead;
}

static void foreign_start_decided(void *context, struct lease *lease, enum start_decision decision,
                                  const char *kept)
{
    (void)context;
    (void)lease;
    (void)decision;
    (void)kept;
}

/* A daemon on another host fetches them by the protocol and is gone: only its leases stay. */
static bool lease_elsewhere(struct fleet *fleet)
{
    struct foreign foreign = {0};
    struct queue_events events = {&foreign, foreign_leased, foreign_lost, foreign_settled,
                                  foreign_start_decided};
    char self[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX], name[INSTANCE_BYTES_MAX + 16];
    if (!instance_self(self, daemon))
        return false;
    snprintf(name, sizeof name, "elsewhere%s", strchr(self, ':'));
    struct queue_config config = {
        .redis = fleet->world.redis->address, .ns = fleet->world.ns, .instance = name,
        .lease_s = 36000, .renew_s = 3600, .reap_s = 3600, .retry_delay_s = 1, .block_s = 1,
        .connect_timeout_s = 5, .command_timeout_s = 60, .auth_retry_s = 1, .attempts = 3,
        .batch = QUEUE_BATCH_MAX, .result_ttl_s = 60, .results_max = 1000, .dead_max = 1000};
    struct error error = {0};
    log_set_level(LOG_LEVEL_WARNING);
    uv_loop_init(&foreign.loop);
    foreign.queue = queue_create(&foreign.loop, &config, &events, &error);
    if (!foreign.queue) {
        printf("%s\n", error.text);
        return false;
    }
    queue_start(foreign.queue);
    queue_set_places(foreign.queue, fleet->leases);
    double deadline = process_now() + WAIT_S;
    while (foreign.taken < fleet->leases && process_now() < deadline)
        uv_run(&foreign.loop, UV_RUN_ONCE);
    queue_destroy(foreign.queue); /* without LEAVE */
    uv_run(&foreign.loop, UV_RUN_DEFAULT);
    uv_loop_close(&foreign.loop);
    return foreign.taken == fleet->leases;
}

static void phase_leases(struct fleet *fleet)
{
    struct world *w = &fleet->world;
    unsigned before = fleet->missed;
    signal_all(fleet, SIGUSR2); /* fetching is paused */
    process_sleep(0.5);
    push_many(fleet, fleet->leases);
    if (!lease_elsewhere(fleet)) {
        row(fleet, "foreign leases: could not be made", 1, "", 0);
        return;
    }
    process_sleep(1);
    watch(fleet, 1000);
    process_signal(&w->daemons[0], SIGTERM);
    process_wait(&w->daemons[0], 30);
    if (!start_daemons(fleet, 0, 1)) {
        row(fleet, "foreign leases: a daemon did not start", 1, "", 0);
        return;
    }
    process_sleep(6); /* its second RESUME comes with the first RENEW */
    judge_scripts(fleet, "foreign leases, one reconnects");
    if (fleet->missed > before) {
        printf("foreign leases: that all reconnect at once is not tried\n");
    } else {
        run(fleet, "CLIENT KILL TYPE normal SKIPME yes");
        process_sleep(8);
        judge_scripts(fleet, "foreign leases, all reconnect");
        double now = process_now();
        run(fleet, "PING");
        row(fleet, "foreign leases: PING after that", (process_now() - now) * 1e3, "ms", -1);
    }
    row(fleet, "foreign leases: taken from their daemon",
        (double)fleet->leases - (double)redis_integer(w->client, "ZCARD gpuimgd:lease"), "leases",
        0);
    for (size_t i = 1; i < fleet->daemons; i++) /* the first one was started anew */
        process_signal(&w->daemons[i], SIGUSR2);
}

/* ---- jobs that wait -------------------------------------------------------------------------- */

/* As START leaves jobs that wait under an id, for another job or for a time. */
static void put_waiting(struct fleet *fleet, const char *id, const char *conditions,
                        unsigned long long first, unsigned count)
{
    static const char script[] =
        "for number = ARGV[1], ARGV[2] do\n"
        "    local n = string.format('%.0f', number)\n"
        "    redis.call('HSET', 'gpuimgd:job:' .. n, 'raw', ARGV[3], 'state', 'delayed',\n"
        "               'attempt', 0, 'waits', ARGV[4])\n"
        "    redis.call('ZADD', 'gpuimgd:delayed', ARGV[5], n)\n"
        "    redis.call('SADD', 'gpuimgd:waits:' .. ARGV[4], n)\n"
        "end\n";
    char raw[256], keys[128], due[32];
    snprintf(keys, sizeof keys, ",\"id\":\"%s\",%s", id, conditions);
    snprintf(raw, sizeof raw, JOB, 0u, keys);
    snprintf(due, sizeof due, "%.0f", ((double)time(NULL) + 36000) * 1000);
    for (unsigned at = 0; at < count; at += 1000) {
        char from[32], to[32];
        unsigned end = at + 1000 < count ? at + 1000 : count;
        snprintf(from, sizeof from, "%llu", first + at);
        snprintf(to, sizeof to, "%llu", first + end - 1);
        freeReplyObject(redis_command(fleet->world.client, "EVAL %s 0 %s %s %s %s %s", script,
                                      from, to, raw, id, due));
    }
}

/* All wait for their time under one id, which is cancelled: the answers come at once. */
static void phase_cancelled(struct fleet *fleet)
{
    long long last = redis_integer(fleet->world.client, "INCRBY gpuimgd:seq %d", CANCELLED);
    put_waiting(fleet, "late", "\"not_before\":4000000000",
                (unsigned long long)last - CANCELLED + 1, CANCELLED);
    watch(fleet, 1000);
    fleet->status = "cancelled";
    double start = process_now();
    redisReply *reply = redis_command(
        fleet->world.client, "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                             "gpuimgd:waits:late gpuimgd:result:late late",
        script_text(SCRIPT_ID_CANCEL));
    if (reply->type == REDIS_REPLY_ERROR)
        printf("CANCEL: %s\n", reply->str);
    freeReplyObject(reply);
    unsigned missing = take_results(fleet, CANCELLED, WAIT_S);
    row(fleet, "cancelled: answered", CANCELLED / (process_now() - start), "jobs/s", -1);
    judge_scripts(fleet, "cancelled");
    judge_results(fleet, "cancelled", missing);
    fleet->status = "done";
}

/* A job that is pushed while followers are woken is not held up by all of them. */
static double lone_job_s(struct fleet *fleet)
{
    char job[256];
    double start = process_now();
    snprintf(job, sizeof job, JOB, 1u, ",\"reply_to\":\"gpuimgd:reply:lone\"");
    freeReplyObject(redis_command(fleet->world.client, "LPUSH gpuimgd:jobs %s", job));
    freeReplyObject(redis_command(fleet->world.client, "BRPOP gpuimgd:reply:lone 60"));
    return process_now() - start;
}

static void phase_followers(struct fleet *fleet)
{
    struct world *w = &fleet->world;
    char job[256];
    put_waiting(fleet, "crowd", "\"unique\":true", NUMBER_FIRST, fleet->followers);
    unsigned answers = fleet->followers < ANSWERS ? fleet->followers : ANSWERS;
    watch(fleet, 1000);
    double start = process_now(), cpu = redis_cpu_s(fleet);
    snprintf(job, sizeof job, JOB, 0u, ",\"id\":\"crowd\",\"unique\":true");
    freeReplyObject(redis_command(w->client, "LPUSH gpuimgd:jobs %s", job));
    unsigned missing = take_results(fleet, 1000, WAIT_S);
    double lone_s = lone_job_s(fleet);
    missing += take_results(fleet, answers - 1000, WAIT_S);
    row(fleet, "followers: answered", answers / (process_now() - start), "jobs/s", -1);
    row(fleet, "followers: Redis CPU per answer", (redis_cpu_s(fleet) - cpu) * 1e6 / answers, "us",
        -1);
    row(fleet, "followers: a job that is pushed meanwhile", lone_s, "s", -1);
    judge_scripts(fleet, "followers");
    row(fleet, "followers: results missing, twice, or bad", missing + fleet->repeated + fleet->bad,
        "results", 0);
    fleet->repeated = fleet->bad = 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool run_phases(struct fleet *fleet)
{
    printf("%-80s %11s %-10s %-9s %s\n", "what", "figure", "", "bound", "verdict");
    if (!phase_one(fleet) || !phase_start(fleet))
        return false;
    double idle_fetches = phase_idle(fleet);
    phase_pushes(fleet, idle_fetches);
    phase_load(fleet);
    phase_failover(fleet);
    phase_leases(fleet);
    phase_cancelled(fleet);
    phase_followers(fleet);
    return true;
}

static bool parse(struct fleet *fleet, int argc, char **argv)
{
    static const struct option options[] = {
        {"daemons", required_argument, NULL, 'd'}, {"jobs", required_argument, NULL, 'j'},
        {"followers", required_argument, NULL, 'f'}, {"leases", required_argument, NULL, 'l'},
        {"daemon", required_argument, NULL, 'p'}, {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        unsigned value = optarg ? (unsigned)strtoul(optarg, NULL, 10) : 0;
        switch (option) {
        case 'd': fleet->daemons = value; break;
        case 'j': fleet->jobs = value; break;
        case 'f': fleet->followers = value; break;
        case 'l': fleet->leases = value; break;
        case 'p': setenv("GPUIMGD", optarg, 1); break;
        default: return false;
        }
    }
    return optind == argc && fleet->daemons >= 2 && fleet->daemons <= WORLD_DAEMONS_MAX &&
           fleet->jobs >= 1000 && fleet->followers >= 2000 && fleet->leases >= 1;
}

int main(int argc, char **argv)
{
    static struct fleet fleet = {.daemons = 100, .jobs = 10000, .followers = 1000000,
                                 .leases = 80000, .status = "done"};
    if (!parse(&fleet, argc, argv)) {
        fprintf(stderr, "usage: fleet [--daemon PATH] [--daemons 2-%d] [--jobs N] [--followers N] "
                        "[--leases N]\n",
                WORLD_DAEMONS_MAX);
        return 64;
    }
    world_open(&fleet.world, redis_server_start("--auto-aof-rewrite-percentage", "0",
                                                "--maxclients", "1000", NULL));
    prefer(&fleet);
    fleet.seen_max = 4ull * (fleet.followers + fleet.leases + CANCELLED + 8ull * fleet.jobs);
    fleet.seen = calloc(fleet.seen_max / 8 + 1, 1);
    if (!fleet.seen)
        abort();
    load_scripts(&fleet);
    put_input(&fleet);
    bool ran = run_phases(&fleet);
    printf("%s\n", !ran ? "a daemon did not do its part" : fleet.missed ? "bounds were missed"
                                                                        : "all bounds are kept");
    world_close(&fleet.world);
    free(fleet.seen);
    return !ran || fleet.missed > 0;
}
