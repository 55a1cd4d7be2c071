#include "daemon/telemetry/metrics.h"

#include <math.h>

#include "conf/clock.h"
#include "conf/text.h"

#define FINE_PER_OCTAVE 8
#define FINE_FIRST_MS   0.01

const double metrics_bucket_s[METRICS_BUCKETS] = {
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,     0.25,   0.5,     1,      2.5,   5,      10,    25,   60,
};

const char *const metrics_time_names[METRICS_TIMES] = {
    [METRICS_READ] = "read",     [METRICS_ADMIT] = "admit", [METRICS_DECODE] = "decode",
    [METRICS_H2D] = "h2d",       [METRICS_KERNEL] = "kernel", [METRICS_D2H] = "d2h",
    [METRICS_ENCODE] = "encode",
};

const char *const metrics_outcome_names[METRICS_OUTCOMES] = {
    [METRICS_DONE] = "done", [METRICS_FAILED] = "failed",
    [METRICS_DEAD] = "dead", [METRICS_CANCELLED] = "cancelled",
};

const char *const transfer_direction_names[TRANSFER_DIRECTIONS] = {
    [TRANSFER_DOWNLOAD] = "download", [TRANSFER_UPLOAD] = "upload"};
const char *const metrics_place_names[METRICS_PLACES] = {
    [METRICS_HOST] = "host", [METRICS_DEVICE] = "device",
};

/* A negative time is not counted: the job did not reach this stage. */
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

uint64_t metrics_histogram_count(const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        count += histogram->counts[i];
    return count;
}

static size_t fine_bucket(double ms)
{
    if (!(ms > FINE_FIRST_MS))
        return 0;
    double bucket = log2(ms / FINE_FIRST_MS) * FINE_PER_OCTAVE;
    return bucket < METRICS_FINE_BUCKETS - 1 ? (size_t)bucket : METRICS_FINE_BUCKETS - 1;
}

double metrics_fine_bucket_ms(size_t bucket)
{
    return FINE_FIRST_MS * exp2((double)(bucket + 1) / FINE_PER_OCTAVE);
}

static void note_error(struct metrics_totals *totals, const struct metrics_job *job)
{
    struct metrics_error *error = &totals->recent[totals->recent_count++ % METRICS_RECENT_MAX];
    *error = (struct metrics_error){
        .time_s = clock_unix_s(), .job = job->number, .shard = job->shard, .shards = job->shards,
        .attempt = job->attempt, .status = job->error->status,
        .retried = job->outcome == METRICS_RETRIED};
    text_copy(error->input, sizeof error->input, job->input ? job->input : "");
    text_copy(error->text, sizeof error->text, job->error->text);
    totals->errors[job->error->status]++;
}

static void add_codec(struct metrics_codec *total, const struct metrics_codec *codec)
{
    for (size_t i = 0; i < METRICS_PLACES; i++) {
        total->images[i] += codec->images[i];
        total->pixels[i] += codec->pixels[i];
    }
}

static void add_work(struct metrics_totals *totals, const struct metrics_job *job)
{
    totals->images += job->images;
    totals->pixels += job->pixels;
    totals->input_bytes += job->bytes_in;
    totals->output_bytes += job->bytes_out;
    add_codec(&totals->decoder, &job->decoder);
    add_codec(&totals->encoder, &job->encoder);
    totals->declined += job->declined;
    for (size_t i = 0; i < METRICS_TIMES; i++)
        add_ms(&totals->times[i], job->ms[i]);
}

void metrics_count_image(struct metrics_totals *totals, const struct metrics_job *image)
{
    totals->images_failed += image->outcome != METRICS_DONE;
    add_work(totals, image);
}

void metrics_count(struct metrics_totals *totals, const struct metrics_job *job)
{
    if (job->error && job->error->status != STATUS_OK)
        note_error(totals, job);
    if (job->outcome == METRICS_RETRIED) {
        totals->retried++;
        return;
    }
    totals->jobs[job->outcome]++;
    add_work(totals, job);
    add_ms(&totals->job, job->total_ms);
    add_ms(&totals->queued, job->queue_ms);
    totals->fine[fine_bucket(job->total_ms)]++;
}

uint64_t metrics_jobs(const struct metrics_totals *totals)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < METRICS_OUTCOMES; i++)
        sum += totals->jobs[i];
    return sum;
}

bool metrics_stage(const struct metrics_totals *totals, enum stage stage, uint64_t *jobs,
                   double *ms)
{
    static const struct {
        bool is_measured;
        enum metrics_time first, last; /* the times that the stage consists of */
        enum metrics_time counted;     /* one of them, which each job of the stage has */
    } of[STAGE_COUNT] = {
        [STAGE_READ] = {true, METRICS_READ, METRICS_READ, METRICS_READ},
        [STAGE_DECODE] = {true, METRICS_DECODE, METRICS_DECODE, METRICS_DECODE},
        [STAGE_GPU] = {true, METRICS_H2D, METRICS_D2H, METRICS_KERNEL},
        [STAGE_ENCODE] = {true, METRICS_ENCODE, METRICS_ENCODE, METRICS_ENCODE},
    };
    if (!of[stage].is_measured)
        return false;
    *jobs = metrics_histogram_count(&totals->times[of[stage].counted]);
    *ms = 0;
    for (enum metrics_time time = of[stage].first; time <= of[stage].last; time++)
        *ms += totals->times[time].sum_s * 1e3;
    return true;
}
