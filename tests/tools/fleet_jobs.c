#include "tests/tools/fleet.h"

#include <time.h>

#define OUTPUTS 64          /* keys that outputs go to, over and over */
#define RESULT_CHUNK 5000

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
    char what[96];
    unsigned more = (unsigned)redis_integer(fleet->world.client, "LLEN gpuimgd:results");
    snprintf(what, sizeof what, "%s: results missing, twice, or bad", phase);
    fleet_row(fleet, what, missing + fleet->repeated + fleet->bad + more, "results", 0);
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
