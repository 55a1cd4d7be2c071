#include "tests/tools/fleet.h"

#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#define SLOWLOG_TEXT 100 /* SLOWLOG keeps more of each argument */

/* ---- the table ------------------------------------------------------------------------------- */

void fleet_row_as(struct fleet *fleet, const char *what, double value, const char *unit,
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
    fleet_row_as(fleet, what, value, unit, bound, bound < 0 || value <= bound);
}

/* ---- what Redis says of itself --------------------------------------------------------------- */

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
    char what[128], over[64] = "";
    if (slow.over > 0)
        snprintf(over, sizeof over, "; %u of %.0f above %g; CPU lost %.0f ms", slow.over, scripts,
                 SCRIPT_MS_MAX, lost);
    snprintf(what, sizeof what, "%s: longest script (%s%s)", phase, slow.name, over);
    fleet_row_as(fleet, what, slow.longest_ms, "ms", SCRIPT_MS_MAX, stray);
    fleet->scripts_before += scripts;
    fleet->lost_before = lost_ms(fleet);
}
