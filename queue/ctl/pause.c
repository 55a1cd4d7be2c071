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

static void set(struct ctl *ctl, double seconds)
{
    const char *ns = ctl->options.namespace;
    freeReplyObject(seconds > 0
                        ? ctl_ask(ctl, "SET %s:paused 1 PX %.0f", ns, ceil(seconds * 1000))
                        : ctl_ask(ctl, "SET %s:paused 1", ns));
}

static int say(struct ctl *ctl, bool paused, long long running, const char *sentence)
{
    if (ctl->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddBoolToObject(json, "paused", paused);
        cJSON_AddNumberToObject(json, "running", (double)running);
        ctl_print_json(ctl, json);
    } else {
        out_line("%s", sentence);
    }
    return CTL_OK;
}

int ctl_pause(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    double seconds = ctl_number(ctl, "for", 0.001, 1e9, 0);
    char text[160], left[SHOW_BYTES];
    ctl_connect(ctl);
    set(ctl, seconds);
    long long jobs = ctl_integer(ctl, "ZCARD", "lease");
    snprintf(text, sizeof text, "paused %s %s: daemons fetch no jobs; %lld still run",
             seconds > 0 ? "for" : "until",
             seconds > 0 ? show_age(seconds, left) : "gpuimgctl resume", jobs);
    return say(ctl, true, jobs, text);
}

int ctl_resume(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    ctl_connect(ctl);
    bool was = ctl_integer(ctl, "DEL", "paused") != 0;
    return say(ctl, false, ctl_integer(ctl, "ZCARD", "lease"),
               was ? "daemons fetch jobs again" : "nothing was paused");
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
    long long jobs;
    ctl_connect(ctl);
    client_catch_interrupt();
    set(ctl, 0);
    for (;;) {
        jobs = ctl_integer(ctl, "ZCARD", "lease");
        show_left(jobs);
        if (jobs == 0 || client_interrupted() || clock_now_s() > until_s)
            break;
        client_pause(ctl->client, POLL_S);
    }
    show_left(0);
    if (jobs == 0)
        return say(ctl, true, 0, "drained: no job runs; daemons fetch none until gpuimgctl resume");
    ctl_say("%lld jobs still run; daemons fetch no more until gpuimgctl resume", jobs);
    return client_interrupted() ? CTL_INTERRUPTED : CTL_TIMEOUT;
}
