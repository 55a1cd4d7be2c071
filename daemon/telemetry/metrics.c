#include "daemon/telemetry/metrics.h"

#include <stdio.h>
#include <time.h>

#include "conf/clock.h"
#include "conf/text.h"

const double metrics_bucket_s[METRICS_BUCKETS] = {
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,     0.25,   0.5,     1,      2.5,   5,      10,    25,   60,
};

const char *const metrics_time_names[METRICS_TIMES] = {
    [METRICS_READ] = "read",     [METRICS_ADMIT] = "admit", [METRICS_DECODE] = "decode",
    [METRICS_H2D] = "h2d",       [METRICS_KERNEL] = "kernel", [METRICS_D2H] = "d2h",
    [METRICS_ENCODE] = "encode",
};

const char *const metrics_state_names[METRICS_STATES] = {
    [METRICS_STARTING] = "starting", [METRICS_RUNNING] = "running",
    [METRICS_PAUSED] = "paused",     [METRICS_DRAINING] = "draining",
    [METRICS_FAILED] = "failed",
};

/* ---- counting ------------------------------------------------------------------------------- */

/* Negative: it did not get there. */
static void add_ms(struct metrics_histogram *histogram, double ms)
{
    size_t bucket = 0;
    if (ms < 0)
        return;
    while (bucket < METRICS_BUCKETS && ms / 1e3 > metrics_bucket_s[bucket])
        bucket++;
    histogram->counts[bucket]++;
    histogram->sum_s += ms / 1e3;
}

static void note_error(struct metrics_totals *totals, const struct stats_job *job)
{
    struct metrics_error *error = &totals->recent[totals->recent_count++ % METRICS_RECENT_MAX];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *error = (struct metrics_error){
        .time_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
        .job = job->number,
        .attempt = job->attempt,
        .status = job->error->status,
        .retried = job->retried,
    };
    text_copy(error->input, sizeof error->input, job->input ? job->input : "");
    text_copy(error->text, sizeof error->text, job->error->text);
    totals->errors[job->error->status]++;
}

void metrics_count(struct metrics_totals *totals, const struct stats_job *job)
{
    const double ms[METRICS_TIMES] = {
        [METRICS_READ] = job->read_ms, [METRICS_ADMIT] = job->admit_ms,
        [METRICS_DECODE] = job->decode_ms, [METRICS_H2D] = job->h2d_ms,
        [METRICS_KERNEL] = job->kernel_ms, [METRICS_D2H] = job->d2h_ms,
        [METRICS_ENCODE] = job->encode_ms,
    };
    if (job->error && job->error->status != STATUS_OK)
        note_error(totals, job);
    if (job->retried) {
        totals->retried++;
        return;
    }
    bool cancelled = job->error && job->error->status == STATUS_CANCELLED;
    totals->done += job->done;
    totals->dead += job->dead;
    totals->cancelled += cancelled;
    totals->failed += !job->done && !job->dead && !cancelled;
    totals->images += job->images;
    totals->pixels += job->pixels;
    totals->input_bytes += job->bytes_in;
    totals->output_bytes += job->bytes_out;
    for (size_t i = 0; i < METRICS_TIMES; i++)
        add_ms(&totals->times[i], ms[i]);
    add_ms(&totals->job, job->total_ms);
    add_ms(&totals->queued, job->queue_ms);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

bool metrics_alive(const struct metrics *metrics, uint64_t now_ns, char *why, size_t size)
{
    double silent_s = clock_ms(metrics->taken_ns, now_ns) / 1e3;
    if (metrics->state == METRICS_FAILED) {
        snprintf(why, size, "failed: %s; to be started anew", metrics->why);
        return false;
    }
    /* Opening a device holds the loop up for as long as the driver likes. */
    if (metrics->state != METRICS_STARTING && silent_s > METRICS_STALL_S) {
        snprintf(why, size, "the loop has stood still for %.0f s; at most %d s are healthy",
                 silent_s, METRICS_STALL_S);
        return false;
    }
    if (!metrics->moving) {
        snprintf(why, size, "jobs stand still: one is past its deadline, or all wait and none "
                            "moves");
        return false;
    }
    snprintf(why, size, "%s", metrics_state_names[metrics->state]);
    return true;
}

bool metrics_ready(const struct metrics *metrics, uint64_t now_ns, char *why, size_t size)
{
    if (!metrics_alive(metrics, now_ns, why, size))
        return false;
    switch (metrics->state) {
    case METRICS_RUNNING:
        break;
    case METRICS_STARTING:
        snprintf(why, size, "starting: the self-test has not passed yet");
        return false;
    case METRICS_PAUSED:
        snprintf(why, size, "paused, by SIGUSR2 or for all daemons: no jobs are fetched");
        return false;
    default:
        snprintf(why, size, "draining: no jobs are fetched, %u are in flight", metrics->in_flight);
        return false;
    }
    if (!metrics->redis_ready) {
        snprintf(why, size, "Redis: %s", metrics->redis_reason);
        return false;
    }
    if (!metrics->disk_works) {
        snprintf(why, size, "%s", metrics->disk_reason);
        return false;
    }
    return true;
}
