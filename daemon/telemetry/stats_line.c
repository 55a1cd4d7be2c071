#include "daemon/telemetry/stats_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/log.h"

void stats_begin(struct stats *stats, const struct snapshot *now)
{
    *stats = (struct stats){.before = *now, .log = -1};
}

void stats_end(struct stats *stats)
{
    if (stats->log >= 0)
        close(stats->log);
    stats->log = -1;
}

/* The time that a line covers: the totals at its beginning and end, and the jobs that ended in
 * it. */
struct span {
    const struct metrics_totals *from, *to;
    uint64_t jobs;
};

/* Returns a time within which `share` (0 to 1) of the jobs ended: the upper bound of a bucket. */
static double percentile_ms(const struct span *span, double share)
{
    uint64_t wanted = (uint64_t)ceil(share * (double)span->jobs), seen = 0;
    for (size_t i = 0; i < METRICS_FINE_BUCKETS && span->jobs > 0; i++) {
        seen += span->to->fine[i] - span->from->fine[i];
        if (seen >= wanted)
            return metrics_fine_bucket_ms(i);
    }
    return 0; /* uncovered: net (tests/coverage/reasons.txt) */
}

static double mean_ms(const struct span *span, enum stage stage)
{
    uint64_t jobs = 0, jobs_before = 0;
    double ms = 0, ms_before = 0;
    metrics_stage(span->to, stage, &jobs, &ms);
    metrics_stage(span->from, stage, &jobs_before, &ms_before);
    return jobs > jobs_before ? (ms - ms_before) / (double)(jobs - jobs_before) : 0;
}

/* All devices together. */
static struct snapshot_device sum_of(const struct snapshot *snapshot)
{
    struct snapshot_device sum = {0};
    for (uint32_t d = 0; d < snapshot->device_count; d++) {
        const struct snapshot_device *one = &snapshot->devices[d];
        sum.activity.any_s += one->activity.any_s;
        sum.activity.h2d_s += one->activity.h2d_s;
        sum.activity.kernel_s += one->activity.kernel_s;
        sum.activity.d2h_s += one->activity.d2h_s;
        sum.memory.held += one->memory.held;
    }
    return sum;
}

static void write_line(const struct snapshot *before, const struct snapshot *now, char *text,
                       size_t size)
{
    const struct metrics_totals *from = &before->totals, *to = &now->totals;
    struct span span = {from, to, metrics_jobs(to) - metrics_jobs(from)};
    double seconds = clock_ms(before->taken_ns, now->taken_ns) / 1e3;
    double per_s = seconds > 0 ? 1 / seconds : 0;
    struct snapshot_device all = sum_of(now);
    struct engine_activity then = sum_of(before).activity, since = all.activity;
    double any_s = since.any_s - then.any_s, busy = any_s * per_s;
    double sum_s = since.h2d_s + since.kernel_s + since.d2h_s - then.h2d_s - then.kernel_s -
                   then.d2h_s;
    double loop_us = (now->loop_cpu_s - before->loop_cpu_s) * 1e6;
#define SINCE(member) (to->member - from->member)
#define MP_S(member) ((double)SINCE(member) * per_s / 1e6)
    snprintf(text, size,
             "stats interval_s=%.1f jobs=%" PRIu64 " done=%" PRIu64 " failed=%" PRIu64
             " dead=%" PRIu64 " retried=%" PRIu64 " img_s=%.1f mp_s=%.1f in_mb_s=%.1f "
             "out_mb_s=%.1f decode_host=%" PRIu64 " decode_host_mp_s=%.1f decode_device=%" PRIu64
             " decode_device_mp_s=%.1f encode_host=%" PRIu64 " encode_host_mp_s=%.1f "
             "encode_device=%" PRIu64 " encode_device_mp_s=%.1f inflight=%u waiting=%u "
             "queue=%" PRIu64
             " queue_oldest_s=%.1f oldest_s=%.1f read_ms=%.2f decode_ms=%.2f gpu_ms=%.2f "
             "encode_ms=%.2f loop_us=%.1f total_p50_ms=%.1f total_p95_ms=%.1f total_p99_ms=%.1f "
             "gpu_busy=%.2f overlap=%.2f pinned_mb=%.0f device_mb=%.0f rss_mb=%.0f engine=%s",
             seconds, span.jobs, SINCE(jobs[METRICS_DONE]),
             SINCE(jobs[METRICS_FAILED]) + SINCE(jobs[METRICS_CANCELLED]),
             SINCE(jobs[METRICS_DEAD]), SINCE(retried), (double)SINCE(images) * per_s, MP_S(pixels),
             (double)SINCE(input_bytes) * per_s / 1e6, (double)SINCE(output_bytes) * per_s / 1e6,
             SINCE(decoder.images[METRICS_HOST]), MP_S(decoder.pixels[METRICS_HOST]),
             SINCE(decoder.images[METRICS_DEVICE]), MP_S(decoder.pixels[METRICS_DEVICE]),
             SINCE(encoder.images[METRICS_HOST]), MP_S(encoder.pixels[METRICS_HOST]),
             SINCE(encoder.images[METRICS_DEVICE]), MP_S(encoder.pixels[METRICS_DEVICE]),
             now->in_flight, now->waiting, now->queue_length, now->queue_oldest_s, now->oldest_s,
             mean_ms(&span, STAGE_READ), mean_ms(&span, STAGE_DECODE), mean_ms(&span, STAGE_GPU),
             mean_ms(&span, STAGE_ENCODE), span.jobs ? loop_us / (double)span.jobs : 0,
             percentile_ms(&span, 0.50), percentile_ms(&span, 0.95), percentile_ms(&span, 0.99),
             busy < 1 ? busy : 1, any_s > 0 ? sum_s / any_s : 0,
             (double)now->pools[SNAPSHOT_PINNED].held / 1e6, (double)all.memory.held / 1e6,
             now->resident_bytes / 1e6, now->engine);
#undef MP_S
#undef SINCE
}

static bool is_idle(const struct snapshot *before, const struct snapshot *now)
{
    return metrics_jobs(&now->totals) == metrics_jobs(&before->totals) &&
           now->totals.retried == before->totals.retried && now->in_flight == 0 &&
           now->waiting == 0 && now->queue_length == before->queue_length;
}

bool stats_line(struct stats *stats, const struct snapshot *now, char *text, size_t size)
{
    const struct snapshot *before = &stats->before;
    bool idle = is_idle(before, now), news = !idle || !stats->idle;
    double seconds = clock_ms(before->taken_ns, now->taken_ns) / 1e3;
    write_line(before, now, text, size);
    stats->images_per_s =
        seconds > 0 ? (double)(now->totals.images - before->totals.images) / seconds : 0;
    stats->idle = idle;
    stats->before = *now;
    return news;
}

void stats_open_log(struct stats *stats, const char *path)
{
    stats_end(stats);
    stats->idle = false;
    if (!path || !*path)
        return;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    stats->log = open(path, flags, 0644);
    if (stats->log < 0)
        log_warning("option stats_log is \"%s\", which cannot be opened: %s", path,
                    strerror(errno));
}

void stats_write_log(struct stats *stats, const char *line)
{
    char stamp[CLOCK_STAMP_BYTES], stamped[2048];
    if (stats->log < 0)
        return;
    clock_stamp(stamp);
    int length = snprintf(stamped, sizeof stamped, "time=%s %s\n", stamp, line);
    if (length > 0 && write(stats->log, stamped, (size_t)length) != length) /* uncovered: promise */
        log_debug("stats_log: cannot write a line: %s", strerror(errno));
}
