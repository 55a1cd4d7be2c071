#include "daemon/telemetry/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/telemetry/metrics.h"

/* Total times fall into buckets an eighth of an octave wide, from 10 us to over an hour: a
 * percentile is off by at most 5%, and costs no memory that grows. */
#define BUCKETS          240
#define BUCKETS_A_OCTAVE 8
#define BUCKET_FIRST_MS  0.01

struct interval {
    uint64_t jobs, done, failed, dead, retried, images, pixels, bytes_in, bytes_out;
    double stage_ms[4];
    uint64_t stage_count[4];
    uint32_t total[BUCKETS];
    uint64_t total_count;
};

struct stats {
    struct interval now;
    uint64_t began_ns, began_cpu_ns;
    double images_per_s;
    uint64_t jobs_total;
    struct metrics_totals *totals;               /* NULL: nobody asks for them */
    struct engine_activity activity;             /* of the interval, all devices */
    struct engine_activity devices[DEVICES_MAX]; /* since the start */
    struct stats_totals before; /* of the intervals that are over */
    bool idle;                  /* the last line said that nothing happened */
    uint64_t queue_length;      /* in the last line */
    int log; /* -1: none */
};

struct stats *stats_create(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    if (!stats)
        return NULL;
    stats->log = -1;
    stats->began_ns = clock_now_ns();
    stats->began_cpu_ns = clock_thread_cpu_ns();
    return stats;
}

void stats_destroy(struct stats *stats)
{
    if (!stats)
        return;
    if (stats->log >= 0)
        close(stats->log);
    free(stats);
}

static size_t bucket_of(double ms)
{
    if (!(ms > BUCKET_FIRST_MS))
        return 0;
    double bucket = log2(ms / BUCKET_FIRST_MS) * BUCKETS_A_OCTAVE;
    return bucket < BUCKETS - 1 ? (size_t)bucket : BUCKETS - 1;
}

/* The upper end of the bucket that holds the given share of the jobs. */
static double percentile_ms(const struct interval *interval, double share)
{
    uint64_t wanted = (uint64_t)ceil(share * (double)interval->total_count), seen = 0;
    if (interval->total_count == 0)
        return 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += interval->total[i];
        if (seen >= wanted)
            return BUCKET_FIRST_MS * exp2((double)(i + 1) / BUCKETS_A_OCTAVE);
    }
    return 0;
}

void stats_count_into(struct stats *stats, struct metrics_totals *totals)
{
    stats->totals = totals;
}

void stats_add_attempt(struct stats *stats)
{
    if (stats->totals)
        stats->totals->attempts++;
}

void stats_add_returned(struct stats *stats)
{
    if (stats->totals)
        stats->totals->returned++;
}

/* The time on the engine, or -1. */
static double gpu_ms(const struct stats_job *job)
{
    return job->kernel_ms < 0 ? -1 : job->h2d_ms + job->kernel_ms + job->d2h_ms;
}

void stats_add(struct stats *stats, const struct stats_job *job)
{
    struct interval *now = &stats->now;
    if (stats->totals)
        metrics_count(stats->totals, job);
    if (job->retried) {
        now->retried++;
        return;
    }
    now->jobs++;
    stats->jobs_total++;
    now->done += job->done;
    now->dead += job->dead;
    now->failed += !job->done && !job->dead;
    now->images += job->images;
    now->pixels += job->pixels;
    now->bytes_in += job->bytes_in;
    now->bytes_out += job->bytes_out;
    const double ms[4] = {job->read_ms, job->decode_ms, gpu_ms(job), job->encode_ms};
    for (int i = 0; i < 4; i++) {
        if (ms[i] >= 0) {
            now->stage_ms[i] += ms[i];
            now->stage_count[i]++;
        }
    }
    now->total[bucket_of(job->total_ms)]++;
    now->total_count++;
}

static void add_activity(struct engine_activity *sum, const struct engine_activity *more)
{
    sum->h2d_s += more->h2d_s;
    sum->kernel_s += more->kernel_s;
    sum->d2h_s += more->d2h_s;
    sum->any_s += more->any_s;
    sum->h2d_bytes += more->h2d_bytes;
    sum->d2h_bytes += more->d2h_bytes;
    sum->turns += more->turns;
    sum->tasks += more->tasks;
}

void stats_take_activity(struct stats *stats, struct engine *engine)
{
    uint32_t count = engine_devices(engine);
    for (uint32_t d = 0; d < (count ? count : 1); d++) {
        struct engine_activity past = engine_take_activity_of(engine, d);
        add_activity(&stats->activity, &past);
        add_activity(&stats->devices[d], &past);
    }
}

const struct engine_activity *stats_activity(const struct stats *stats, uint32_t device)
{
    return &stats->devices[device];
}

double stats_rss_bytes(void)
{
    unsigned long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%lu %lu", &size, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double mean_ms(const struct interval *interval, int stage)
{
    return interval->stage_count[stage]
               ? interval->stage_ms[stage] / (double)interval->stage_count[stage]
               : 0;
}

/* No job ended or was tried, none is held, and no more wait than before. */
static bool is_idle(const struct stats *stats, const struct stats_now *now)
{
    return stats->now.jobs == 0 && stats->now.retried == 0 && now->inflight == 0 &&
           now->waiting == 0 && now->queue_length == stats->queue_length;
}

bool stats_line(struct stats *stats, const struct stats_now *now, char *text, size_t size)
{
    struct interval *past = &stats->now;
    uint64_t end = clock_now_ns(), cpu_end = clock_thread_cpu_ns();
    bool idle = is_idle(stats, now), news = !idle || !stats->idle;
    double seconds = clock_ms(stats->began_ns, end) / 1e3;
    double per_s = seconds > 0 ? 1 / seconds : 0;
    const struct engine_activity *activity = &stats->activity;
    double busy = activity->any_s * per_s;
    double sum = activity->h2d_s + activity->kernel_s + activity->d2h_s;
    double overlap = activity->any_s > 0 ? sum / activity->any_s : 0;
    double loop_us = clock_ms(stats->began_cpu_ns, cpu_end) * 1e3;
    snprintf(text, size,
             "stats interval_s=%.1f jobs=%" PRIu64 " done=%" PRIu64 " failed=%" PRIu64
             " dead=%" PRIu64 " retried=%" PRIu64 " img_s=%.1f mp_s=%.1f in_mb_s=%.1f "
             "out_mb_s=%.1f inflight=%u waiting=%u queue=%" PRIu64 " oldest_s=%.1f read_ms=%.2f "
             "decode_ms=%.2f gpu_ms=%.2f encode_ms=%.2f loop_us=%.1f total_p50_ms=%.1f "
             "total_p95_ms=%.1f total_p99_ms=%.1f gpu_busy=%.2f overlap=%.2f pinned_mb=%.0f "
             "device_mb=%.0f rss_mb=%.0f engine=%s",
             seconds, past->jobs, past->done, past->failed, past->dead, past->retried,
             (double)past->images * per_s, (double)past->pixels * per_s / 1e6,
             (double)past->bytes_in * per_s / 1e6, (double)past->bytes_out * per_s / 1e6,
             now->inflight, now->waiting, now->queue_length, now->oldest_s, mean_ms(past, 0),
             mean_ms(past, 1), mean_ms(past, 2), mean_ms(past, 3),
             past->jobs ? loop_us / (double)past->jobs : 0, percentile_ms(past, 0.50),
             percentile_ms(past, 0.95), percentile_ms(past, 0.99), busy < 1 ? busy : 1, overlap,
             (double)now->pinned_bytes / 1e6, (double)now->device_bytes / 1e6,
             stats_rss_bytes() / 1e6, now->engine);
    stats->images_per_s = (double)past->images * per_s;
    struct stats_totals totals;
    stats_totals(stats, &totals);
    stats->before = totals;
    memset(past, 0, sizeof *past);
    stats->activity = (struct engine_activity){0};
    stats->began_ns = end;
    stats->began_cpu_ns = cpu_end;
    stats->idle = idle;
    stats->queue_length = now->queue_length;
    return news;
}

double stats_images_per_s(const struct stats *stats)
{
    return stats->images_per_s;
}

uint64_t stats_jobs_total(const struct stats *stats)
{
    return stats->jobs_total;
}

void stats_totals(const struct stats *stats, struct stats_totals *totals)
{
    const struct interval *now = &stats->now;
    *totals = stats->before;
    totals->jobs += now->jobs;
    totals->done += now->done;
    totals->failed += now->failed;
    totals->dead += now->dead;
    totals->retried += now->retried;
    totals->images += now->images;
    totals->pixels += now->pixels;
    totals->bytes_in += now->bytes_in;
    totals->bytes_out += now->bytes_out;
    for (int i = 0; i < STATS_STAGES; i++) {
        totals->stage_ms[i] += now->stage_ms[i];
        totals->stage_count[i] += now->stage_count[i];
    }
}

void stats_open_log(struct stats *stats, const char *path)
{
    if (stats->log >= 0)
        close(stats->log);
    stats->log = -1;
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
    if (stats->log < 0)
        return;
    char stamped[2048];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    int length = snprintf(stamped, sizeof stamped, "time=%s %s\n", stamp, line);
    if (length > 0 && write(stats->log, stamped, (size_t)length) != length)
        log_debug("stats_log: a line could not be written: %s", strerror(errno));
}
