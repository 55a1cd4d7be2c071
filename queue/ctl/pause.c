/* pause.c - gpuimgctl pause, resume and drain: stop and restart the fetching of jobs. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"

#define POLL_S 0.2

const struct ctl_option ctl_pause_options[] = {
    {"for", 0, "SECONDS", "resume automatically after this time"},
    {0}};
const struct ctl_option ctl_drain_options[] = {
    {"timeout", 0, "SECONDS", "wait no longer than this"},
    {0}};

/* The outcome of a command in all shards that answer. */
struct outcome {
    bool changed;       /* resume: fetching was paused */
    long long running;  /* jobs that still run */
    cJSON *rows;        /* a JSON object for each shard, for --json */
};

static void set(struct ctl *ctl, double seconds)
{
    freeReplyObject(seconds > 0
                        ? ctl_ask(ctl, "SET %s:paused 1 PX %.0f", ctl->ns, ceil(seconds * 1000))
                        : ctl_ask(ctl, "SET %s:paused 1", ctl->ns));
}

static void pause_all(struct ctl *ctl, double seconds)
{
    for (uint32_t at = 0; ctl_next(ctl, &at);)
        set(ctl, seconds);
}

static void count_running(struct ctl *ctl, struct outcome *outcome, bool paused)
{
    outcome->running = 0;
    cJSON_Delete(outcome->rows);
    outcome->rows = cJSON_CreateArray();
    for (uint32_t at = 0; ctl_next(ctl, &at);) {
        long long running = ctl_integer(ctl, "ZCARD", "lease");
        cJSON *row = ctl->shard->away ? NULL : cJSON_CreateObject();
        outcome->running += running;
        if (row && cJSON_AddItemToArray(outcome->rows, row)) {
            ctl_add_shard(ctl, row);
            cJSON_AddBoolToObject(row, "paused", paused);
            cJSON_AddNumberToObject(row, "running", (double)running);
        }
    }
}

/* Prints the outcome, and frees its rows. */
static int say(struct ctl *ctl, bool paused, struct outcome *outcome, const char *sentence)
{
    if (ctl->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddBoolToObject(json, "paused", paused);
        cJSON_AddNumberToObject(json, "running", (double)outcome->running);
        ctl_add_rows(ctl, json, outcome->rows);
        ctl_print_json(ctl, json);
    } else {
        out_line("%s", sentence);
        cJSON_Delete(outcome->rows);
    }
    return ctl_worst(ctl, CTL_OK);
}

int ctl_pause(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    double seconds = ctl_number(ctl, "for", 0.001, 1e9, 0);
    struct outcome outcome = {0};
    char text[160], left[SHOW_BYTES];
    ctl_connect(ctl);
    pause_all(ctl, seconds);
    count_running(ctl, &outcome, true);
    snprintf(text, sizeof text, "paused %s %s: daemons fetch no jobs; %lld still run",
             seconds > 0 ? "for" : "until",
             seconds > 0 ? show_age(seconds, left) : "gpuimgctl resume", outcome.running);
    return say(ctl, true, &outcome, text);
}

int ctl_resume(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    struct outcome outcome = {0};
    ctl_connect(ctl);
    for (uint32_t at = 0; ctl_next(ctl, &at);)
        outcome.changed |= ctl_integer(ctl, "DEL", "paused") != 0;
    count_running(ctl, &outcome, false);
    return say(ctl, false, &outcome,
               outcome.changed ? "daemons fetch jobs again" : "nothing was paused");
}

static void show_left(long long jobs)
{
    char text[64] = "";
    if (jobs > 0)
        snprintf(text, sizeof text, "%lld jobs still run", jobs);
    if (isatty(STDERR_FILENO))
        out_status(text);
}

int ctl_drain(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    double until_s = clock_now_s() + ctl_number(ctl, "timeout", 0.001, 1e9, 1e15);
    struct outcome outcome = {0};
    ctl_connect(ctl);
    client_catch_interrupt();
    pause_all(ctl, 0);
    for (;;) {
        count_running(ctl, &outcome, true);
        show_left(outcome.running);
        if (outcome.running == 0 || client_interrupted() || clock_now_s() > until_s)
            break;
        client_pause(ctl->client, POLL_S);
    }
    show_left(0);
    if (outcome.running == 0)
        return say(ctl, true, &outcome,
                   ctl_worst(ctl, CTL_OK) == CTL_OK
                       ? "drained: no job runs; daemons fetch none until gpuimgctl resume"
                       : "no job of the shards that answer runs; daemons fetch none from them "
                         "until gpuimgctl resume");
    cJSON_Delete(outcome.rows);
    ctl_say("%lld jobs still run; daemons fetch no more until gpuimgctl resume", outcome.running);
    return client_interrupted() ? CTL_INTERRUPTED : CTL_TIMEOUT;
}
