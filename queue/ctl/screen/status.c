/* status.c - gpuimgctl status: the queue, the running jobs and the daemons on one screen. */
#include <string.h>

#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/screen/overview.h"
#include "queue/ctl/show.h"

static void print_queue(const struct overview *overview)
{
    const long long *counts = overview->counts;
    char count[SHOW_BYTES], age[SHOW_BYTES];
    if (overview->paused && overview->paused_s >= 0)
        out_line("paused     daemons fetch no jobs for another %s",
                 show_age(overview->paused_s, age));
    else if (overview->paused)
        out_line("paused     daemons fetch no jobs until gpuimgctl resume");
    out_put("waiting    %s", show_count((double)counts[OVERVIEW_WAITING], count));
    if (overview->oldest_s >= 0)
        out_put(", the next one for %s", show_age(overview->oldest_s, age));
    for (int i = JOB_PRIORITIES - 1; i >= 0; i--)
        if (overview->waiting[i] > 0)
            out_put(", %s with priority %d", show_count((double)overview->waiting[i], count), i);
    out_end();
    out_put("running    %s", show_count((double)counts[OVERVIEW_LEASED], count));
    for (int i = 2; i < OVERVIEW_ATTEMPTS; i++)
        if (overview->attempts[i] > 0)
            out_put(", %s on attempt %d%s", show_count((double)overview->attempts[i], count), i,
                    i == OVERVIEW_ATTEMPTS - 1 ? " or later" : "");
    if (counts[OVERVIEW_EXPIRED] > 0)
        out_put(", %s whose daemon was lost", show_count((double)counts[OVERVIEW_EXPIRED], count));
    out_end();
    out_put("delayed    %s", show_count((double)counts[OVERVIEW_DELAYED], count));
    if (overview->next_s >= 0)
        out_put(", the next one in %s", show_age(overview->next_s, age));
    out_end();
    out_put("alone      %s", show_count((double)counts[OVERVIEW_ALONE], count));
    if (counts[OVERVIEW_ALONE] > 0 || *overview->alone_owner)
        out_put(" on their last attempt, run one at a time");
    out_end();
    out_line("dead       %s%s", show_count((double)counts[OVERVIEW_DEAD], count),
             counts[OVERVIEW_DEAD] > 0 ? " (gpuimgctl dead list)" : "");
    out_line("results    %s not yet read", show_count((double)counts[OVERVIEW_RESULTS], count));
}

static void print_daemon(const struct overview_daemon *daemon)
{
    const cJSON *stats = daemon->stats;
    char engine[SHOW_BYTES], state[SHOW_BYTES], version[SHOW_BYTES];
    char done[SHOW_BYTES], failed[SHOW_BYTES], up[SHOW_BYTES];
    out_put("  %-28s %4lld", daemon->name, daemon->leases);
    if (stats)
        out_put("  %-8s %-8s %10s %8s %10s",
               *show_word(stats, "version", version, sizeof version) ? version : "-",
               show_word(stats, "engine", engine, sizeof engine),
               show_count(show_number(stats, "done"), done),
               show_count(show_number(stats, "failed") + show_number(stats, "dead"), failed),
               show_age(show_number(stats, "up_s"), up));
    show_word(stats, "state", state, sizeof state);
    if (*state && strcmp(state, "running") != 0)
        out_put("  %s", state);
    out_end();
}

static void print_screen(const struct ctl *ctl, const struct overview *overview)
{
    out_line("%s, namespace %s", ctl->options.redis, ctl->options.namespace);
    out_end();
    print_queue(overview);
    out_end();
    if (overview->daemon_count == 0) {
        out_line("no gpuimgd is running in this namespace");
        return;
    }
    out_line("  %-28s %4s  %-8s %-8s %10s %8s %10s", "daemon", "jobs", "version", "engine", "done",
             "failed", "up");
    for (size_t i = 0; i < overview->daemon_count; i++)
        print_daemon(&overview->daemons[i]);
}

int ctl_status(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    struct overview overview;
    ctl_connect(ctl);
    if (!overview_read(&overview, ctl->client, ctl->options.namespace, true))
        ctl_no_answer(ctl);
    if (ctl->json)
        ctl_print_json(ctl, overview_json(&overview));
    else
        print_screen(ctl, &overview);
    overview_clear(&overview);
    return CTL_OK;
}
