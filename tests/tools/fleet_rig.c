#include "tests/tools/fleet_rig.h"

#include <sys/resource.h>

#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/lease/queue.h"

#define OUTPUTS 64          /* keys of outputs, overwritten in turn */
#define RESULT_CHUNK 5000
#define SLOWLOG_TEXT 100 /* SLOWLOG cuts longer arguments */

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

void fleet_row(struct fleet *fleet, const char *what, double value, const char *unit, double bound)
{
    row_as(fleet, what, value, unit, bound, bound < 0 || value <= bound);
}

/* ---- Redis's statistics ---------------------------------------------------------------------- */

void fleet_run(struct fleet *fleet, const char *command)
{
    redisReply *reply = redis_command(fleet->world.client, command);
    if (reply->type == REDIS_REPLY_ERROR)
        printf("%s: %s\n", command, reply->str);
    freeReplyObject(reply);
}

void fleet_load_scripts(struct fleet *fleet)
{
    for (enum script script = 0; script < SCRIPT_ID_COUNT; script++) {
        char *sha = redis_string(fleet->world.client, "SCRIPT LOAD %s", script_text(script));
        snprintf(fleet->sha[script], sizeof fleet->sha[script], "%s", sha);
        free(sha);
    }
}

void fleet_prefer_redis(struct fleet *fleet)
{
    if (setpriority(PRIO_PROCESS, (id_t)fleet->world.redis->pid, -20) != 0)
        printf("Redis runs without a higher priority: script times are those of a busy machine\n");
}

static double script_calls(struct fleet *fleet)
{
    return redis_info(fleet->world.client, "commandstats", "cmdstat_evalsha:calls=") +
           redis_info(fleet->world.client, "commandstats", "cmdstat_eval:calls=");
}

/* Returns how long Redis was runnable but did not run. */
static double lost_ms(struct fleet *fleet)
{
    char line[256];
    double waited_ns = 0, steal = 0;
    FILE *file = fopen(text_of("/proc/%d/schedstat", (int)fleet->world.redis->pid), "r");
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

void slowlog_watch(struct fleet *fleet, long us)
{
    freeReplyObject(redis_command(fleet->world.client, "CONFIG SET slowlog-log-slower-than %d",
                                  (int)us));
    fleet_run(fleet, "CONFIG SET slowlog-max-len 1000000");
    fleet_run(fleet, "SLOWLOG RESET");
    fleet->scripts_before = script_calls(fleet);
    fleet->lost_before = lost_ms(fleet);
}

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

struct slow slowlog_look(struct fleet *fleet)
{
    struct slow slow = {.name = "none"};
    redisReply *log = redis_command(fleet->world.client, "SLOWLOG GET 1000000");
    for (size_t i = 0; log->type == REDIS_REPLY_ARRAY && i < log->elements; i++)
        note_slow(fleet, &slow, log->element[i]);
    freeReplyObject(log);
    fleet_run(fleet, "SLOWLOG RESET");
    return slow;
}

void fleet_judge_scripts(struct fleet *fleet, const char *phase)
{
    struct slow slow = slowlog_look(fleet);
    double scripts = script_calls(fleet) - fleet->scripts_before;
    double lost = fmax(STALLS * slow.stall_ms, lost_ms(fleet) - fleet->lost_before);
    bool stray = slow.over <= STRAY + 2 * lost / SCRIPT_MS_MAX &&
                 slow.longest_ms <= SCRIPT_MS_MAX + fmin(lost, LOST_MS_MAX);
    const char *over = slow.over == 0 ? ""
                                      : text_of("; %u of %.0f above %g; CPU lost %.0f ms",
                                                slow.over, scripts, SCRIPT_MS_MAX, lost);
    const char *what = text_of("%s: longest script (%s%s)", phase, slow.name, over);
    row_as(fleet, what, slow.longest_ms, "ms", SCRIPT_MS_MAX, stray);
    fleet->scripts_before += scripts;
    fleet->lost_before = lost_ms(fleet);
}

/* ---- jobs and results ------------------------------------------------------------------------ */

void fleet_put_input(struct fleet *fleet)
{
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 8, .height = 8, .colour_type = 2});
    freeReplyObject(redis_command(fleet->world.client, "SET gpuimgd:img:in %b", file.bytes,
                                  file.length));
    picture_free(&file);
}

void fleet_push(struct fleet *fleet, unsigned count)
{
    for (unsigned i = 0; i < count;) {
        unsigned chunk = 0;
        for (; chunk < 1000 && i < count; chunk++, i++) {
            char job[256];
            snprintf(job, sizeof job, JOB, i % OUTPUTS, "");
            redisAppendCommand(fleet->world.client, "LPUSH gpuimgd:jobs %s", job);
        }
        redis_drain(fleet->world.client, chunk);
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

unsigned fleet_take_results(struct fleet *fleet, unsigned count, double seconds)
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

void fleet_judge_results(struct fleet *fleet, const char *phase, unsigned missing)
{
    unsigned more = (unsigned)redis_integer(fleet->world.client, "LLEN gpuimgd:results");
    fleet_row(fleet, text_of("%s: results missing, twice, or bad", phase),
              missing + fleet->repeated + fleet->bad + more, "results", 0);
    fleet->repeated = fleet->bad = 0;
    fleet_run(fleet, "DEL gpuimgd:results");
}

void fleet_put_waiting(struct fleet *fleet, const char *id, const char *conditions,
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
    const char *raw = text_of(JOB, 0u, text_of(",\"id\":\"%s\",%s", id, conditions));
    const char *due = text_of("%.0f", ((double)time(NULL) + 36000) * 1000);
    for (unsigned at = 0; at < count; at += 1000) {
        char from[32], to[32];
        unsigned end = at + 1000 < count ? at + 1000 : count;
        snprintf(from, sizeof from, "%llu", first + at);
        snprintf(to, sizeof to, "%llu", first + end - 1);
        freeReplyObject(redis_command(fleet->world.client, "EVAL %s 0 %s %s %s %s %s", script,
                                      from, to, raw, id, due));
    }
}

/* ---- leases of a daemon on another host ------------------------------------------------------ */

struct foreign {
    uv_loop_t loop;
    struct queue *queue;
    unsigned taken;
};

static void foreign_leased(void *context, struct lease *lease)
{
    ((struct foreign *)context)->taken++;
}

bool fleet_lease_elsewhere(struct fleet *fleet)
{
    struct foreign foreign = {0};
    struct queue_events events = {.context = &foreign, .leased = foreign_leased};
    char self[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX], name[INSTANCE_BYTES_MAX + 16];
    if (!instance_self(self, daemon))
        return false;
    snprintf(name, sizeof name, "elsewhere%s", strchr(self, ':'));
    struct options config = {
        .redis = fleet->world.redis->address, .namespace = fleet->world.ns,
        .lease_s = 36000, .renew_s = 3600, .reap_s = 3600, .retry_delay_s = 1, .block_s = 1,
        .connect_timeout_s = 5, .command_timeout_s = 60, .auth_retry_s = 1, .attempts = 3,
        .batch = QUEUE_BATCH_MAX, .result_ttl_s = 60, .results = "list", .results_max = 1000,
        .dead_max = 1000};
    struct error error = {0};
    log_set_level(LOG_LEVEL_WARNING);
    uv_loop_init(&foreign.loop);
    foreign.queue = queue_create(&foreign.loop, &config, name, &events, &error);
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
