/* status.c - gpuimgctl status: one screen of what waits, what runs, and where. */
#include <stdio.h>
#include <string.h>

#include "queue/ctl/ctl.h"
#include "queue/ctl/overview.h"
#include "queue/ctl/show.h"

static void print_queue(const struct overview *overview)
{
    char count[SHOW_BYTES], age[SHOW_BYTES];
    if (overview->paused) {
        printf("paused     no daemon takes a job, ");
        if (overview->paused_s >= 0)
            printf("for another %s\n", show_age(overview->paused_s, age));
        else
            puts("until gpuimgctl resume");
    }
    printf("waiting    %s", show_count((double)overview->waiting, count));
    if (overview->oldest_s >= 0)
        printf(", the next one since %s", show_age(overview->oldest_s, age));
    printf("\nrunning    %s", show_count((double)overview->leased, count));
    for (int i = 2; i < OVERVIEW_ATTEMPTS; i++)
        if (overview->attempts[i] > 0)
            printf(", %s on attempt %d%s", show_count((double)overview->attempts[i], count), i,
                   i == OVERVIEW_ATTEMPTS - 1 ? " or later" : "");
    if (overview->expired > 0)
        printf(", %s whose daemon was lost", show_count((double)overview->expired, count));
    printf("\ndelayed    %s", show_count((double)overview->delayed, count));
    if (overview->next_s >= 0)
        printf(", the next one in %s", show_age(overview->next_s, age));
    printf("\nalone      %s", show_count((double)overview->alone, count));
    if (overview->alone > 0 || *overview->alone_owner)
        printf(" on their last attempt, with nothing beside them");
    printf("\ndead       %s%s", show_count((double)overview->dead, count),
           overview->dead > 0 ? " (gpuimgctl dead list)" : "");
    printf("\nresults    %s not yet taken\n", show_count((double)overview->results, count));
}

static void print_daemon(const struct overview_daemon *daemon)
{
    const cJSON *stats = daemon->stats;
    char engine[SHOW_BYTES], state[SHOW_BYTES];
    char done[SHOW_BYTES], failed[SHOW_BYTES], up[SHOW_BYTES];
    printf("  %-28s %4lld", daemon->name, daemon->leases);
    if (stats)
        printf("  %-8s %10s %8s %10s", show_word(stats, "engine", engine, sizeof engine),
               show_count(show_number(stats, "done"), done),
               show_count(show_number(stats, "failed") + show_number(stats, "dead"), failed),
               show_age(show_number(stats, "up_s"), up));
    show_word(stats, "state", state, sizeof state);
    if (*state && strcmp(state, "running") != 0)
        printf("  %s", state);
    putchar('\n');
}

static void print_screen(const struct ctl *ctl, const struct overview *overview)
{
    printf("%s, namespace %s\n\n", client_server(ctl->client), ctl->options.namespace);
    print_queue(overview);
    if (overview->daemon_count == 0) {
        puts("\nno gpuimgd is running here");
        return;
    }
    printf("\n  %-28s %4s  %-8s %10s %8s %10s\n", "daemon", "jobs", "engine", "done", "failed",
           "up");
    for (size_t i = 0; i < overview->daemon_count; i++)
        print_daemon(&overview->daemons[i]);
}

int ctl_status(struct ctl *ctl, int count, char **operands)
{
    struct overview overview;
    if (count > 0)
        return ctl_usage(ctl, "status takes no operand, here is \"%s\"", operands[0]);
    int status = ctl_connect(ctl);
    if (status)
        return status;
    if (!overview_read(&overview, ctl->client, ctl->options.namespace, true))
        return ctl_no_answer(ctl);
    if (ctl->json)
        status = ctl_print_json(overview_json(&overview));
    else
        print_screen(ctl, &overview);
    overview_clear(&overview);
    return status;
}
