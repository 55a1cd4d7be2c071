/* pause.c - gpuimgctl pause, resume and drain: stop and restart the fetching of jobs. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/progress.h"
#include "queue/ctl/show.h"

#define POLL_S 0.2

const struct ctl_option ctl_pause_options[] = {
    {"for", 0, "SECONDS", "resume automatically after this time"},
    {0}};
const struct ctl_option ctl_drain_options[] = {
    {"timeout", 0, "SECONDS", "wait no longer than this"},
    {0}};

static bool set(struct ctl *ctl, double seconds)
{
    const char *ns = ctl->options.namespace;
    redisReply *reply =
        seconds > 0
            ? client_ask(ctl->client, "SET %s:paused 1 PX %.0f", ns, ceil(seconds * 1000))
            : client_ask(ctl->client, "SET %s:paused 1", ns);
    freeReplyObject(reply);
    return reply != NULL;
}

static int say(struct ctl *ctl, bool paused, long long running, const char *sentence)
{
    if (!ctl->json) {
        out_line("%s", sentence);
        return CTL_OK;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "paused", paused);
    cJSON_AddNumberToObject(json, "running", (double)running);
    return ctl_print_json(json);
}

static bool running(struct ctl *ctl, long long *count)
{
    return client_integer(ctl->client, count, "ZCARD %s:lease", ctl->options.namespace);
}

int ctl_pause(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    double seconds = 0;
    long long jobs = 0;
    char text[160], left[SHOW_BYTES];
    if (!ctl_number(ctl, "for", 0.001, 1e9, &seconds))
        return CTL_USAGE;
    int status = ctl_connect(ctl);
    if (status) /* uncovered: gone */
        return status;
    if (!set(ctl, seconds) || !running(ctl, &jobs)) /* uncovered: gone */
        return ctl_no_answer(ctl);
    if (seconds > 0)
        snprintf(text, sizeof text, "paused for %s: daemons fetch no jobs; %lld still run",
                 show_age(seconds, left), jobs);
    else
        snprintf(text, sizeof text, "paused until gpuimgctl resume: daemons fetch no jobs; %lld "
                 "still run", jobs);
    return say(ctl, true, jobs, text);
}

int ctl_resume(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    long long was = 0, jobs = 0;
    int status = ctl_connect(ctl);
    if (status) /* uncovered: gone */
        return status;
    if (!client_integer(ctl->client, &was, "DEL %s:paused", ctl->options.namespace) ||
        !running(ctl, &jobs)) /* uncovered: gone */
        return ctl_no_answer(ctl);
    return say(ctl, false, jobs, was ? "daemons fetch jobs again" : "nothing was paused");
}

static void show_left(bool terminal, long long jobs)
{
    char text[64] = "";
    if (jobs > 0)
        snprintf(text, sizeof text, "%lld jobs still run", jobs);
    if (terminal)
        out_status(text);
}

int ctl_drain(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    double timeout_s = 1e15, began_s = clock_now_s();
    bool terminal = isatty(STDERR_FILENO);
    long long jobs = 0;
    if (!ctl_number(ctl, "timeout", 0.001, 1e9, &timeout_s)) /* uncovered: slip */
        return CTL_USAGE;
    int status = ctl_connect(ctl);
    if (status) /* uncovered: gone */
        return status;
    client_catch_interrupt();
    if (!set(ctl, 0)) /* uncovered: gone */
        return ctl_no_answer(ctl);
    for (;;) {
        if (!running(ctl, &jobs)) /* uncovered: gone */
            return ctl_no_answer(ctl);
        show_left(terminal, jobs);
        if (jobs == 0 || client_interrupted() || clock_now_s() - began_s > timeout_s)
            break;
        client_pause(ctl->client, POLL_S);
    }
    show_left(terminal, 0);
    if (jobs == 0)
        return say(ctl, true, 0, "drained: no job runs; daemons fetch none until gpuimgctl resume");
    ctl_say("%lld jobs still run; daemons fetch no more until gpuimgctl resume", jobs);
    return client_interrupted() ? CTL_INTERRUPTED : CTL_TIMEOUT;
}
