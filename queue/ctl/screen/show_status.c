/* show_status.c - gpuimgctl status: the queue, the running jobs and the daemons on one screen. */
#include <stdio.h>
#include <string.h>

#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/screen/overviews.h"
#include "queue/ctl/screen/running_sets.h"
#include "queue/ctl/show.h"

static void print_pause(const struct overviews *all)
{
    const struct overview *sum = &all->sum;
    uint32_t paused = 0;
    char age[SHOW_BYTES], shards[48] = "";
    for (uint32_t i = 0; i < SHARDS_MAX; i++)
        paused += all->read[i] && all->parts[i].paused;
    if (paused < all->count)
        snprintf(shards, sizeof shards, " from %u of %u shards", paused, all->count);
    if (sum->paused && sum->paused_s >= 0)
        out_line("paused     daemons fetch no jobs%s for another %s", shards,
                 show_age(sum->paused_s, age));
    else if (sum->paused)
        out_line("paused     daemons fetch no jobs%s until gpuimgctl resume", shards);
}

static void print_queue(const struct overviews *all)
{
    const struct overview *overview = &all->sum;
    const long long *counts = overview->counts;
    char count[SHOW_BYTES], age[SHOW_BYTES];
    print_pause(all);
    out_put("waiting    %s", show_count((double)counts[OVERVIEW_WAITING], count));
    if (overview->oldest_s >= 0)
        out_put(", the next one for %s", show_age(overview->oldest_s, age));
    if (counts[OVERVIEW_WAITING] > 0 && overview->queue_oldest_s > 0)
        out_put(", the oldest for at most %s", show_age(overview->queue_oldest_s, age));
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

/* Prints why a daemon takes no jobs, and what to do. */
static void print_blocked(const cJSON *stats)
{
    char by[SHOW_BYTES], why[512], advice[256], age[SHOW_BYTES];
    const cJSON *blocked = show_blocked(stats);
    if (!blocked)
        return;
    out_line("    blocked by %s for %s: %s. %s", show_word(blocked, "by", by, sizeof by),
             show_age(show_number(blocked, "for_s"), age),
             show_word(blocked, "why", why, sizeof why),
             show_word(blocked, "advice", advice, sizeof advice));
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
    print_blocked(stats);
}

static void print_sets(const struct overview *overview)
{
    size_t count = running_sets_count(overview);
    if (count == 0)
        return;
    out_end();
    out_put("  ");
    running_sets_put_titles();
    out_end();
    for (size_t i = 0; i < count; i++) {
        out_put("  ");
        running_sets_put(overview, i);
        out_end();
    }
}

static void print_shard(const struct overviews *all, const struct ctl_shard *shard)
{
    const struct overview *part = &all->parts[shard->index];
    static const enum overview_count columns[] = {OVERVIEW_WAITING, OVERVIEW_LEASED,
                                                  OVERVIEW_DELAYED, OVERVIEW_ALONE, OVERVIEW_DEAD,
                                                  OVERVIEW_RESULTS};
    char count[SHOW_BYTES];
    if (!all->read[shard->index]) {
        out_line("  %5u  away: %s", shard->index, shard->why);
        return;
    }
    out_put("  %5u", shard->index);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        out_put(" %9s", show_count((double)part->counts[columns[i]], count));
    out_line("  %s%s", show_redis(shard->options.redis), part->paused ? "  paused" : "");
}

static void print_shards(const struct ctl *ctl, const struct overviews *all)
{
    out_line("  %5s %9s %9s %9s %9s %9s %9s  redis", "shard", "waiting", "running", "delayed",
             "alone", "dead", "results");
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (ctl->shards[i].client)
            print_shard(all, &ctl->shards[i]);
    out_end();
}

static void print_screen(const struct ctl *ctl, const struct overviews *all)
{
    const struct overview *sum = &all->sum;
    if (ctl_is_sharded(ctl))
        out_line("%s, namespace %s, %u shards", show_redis(ctl->options.redis),
                 ctl->options.namespace, ctl->shard_count);
    else
        out_line("%s, namespace %s", show_redis(ctl->options.redis), ctl->options.namespace);
    out_end();
    print_queue(all);
    out_end();
    if (ctl_is_sharded(ctl))
        print_shards(ctl, all);
    if (sum->daemon_count == 0) {
        out_line("no gpuimgd is running in this namespace");
        return;
    }
    out_line("  %-28s %4s  %-8s %-8s %10s %8s %10s", "daemon", "jobs", "version", "engine", "done",
             "failed", "up");
    for (size_t i = 0; i < sum->daemon_count; i++)
        print_daemon(&sum->daemons[i]);
    print_sets(sum);
}

int ctl_status(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    struct overviews all;
    ctl_connect(ctl);
    if (!overviews_read(&all, ctl, true, false))
        ctl_no_answer(ctl);
    if (ctl->json)
        ctl_print_json(ctl, overviews_json(&all, ctl));
    else
        print_screen(ctl, &all);
    overviews_clear(&all);
    return ctl_worst(ctl, CTL_OK);
}
