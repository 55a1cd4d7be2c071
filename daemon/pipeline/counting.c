#include "daemon/pipeline/counting.h"

#include "conf/clock.h"
#include "daemon/pipeline/state.h"
#include "daemon/telemetry/tags.h"

static void add_image(struct metrics_codec *codec, enum codec_place where, uint64_t pixels)
{
    enum metrics_place place = where == CODEC_ON_HOST ? METRICS_HOST : METRICS_DEVICE;
    codec->images[place]++;
    codec->pixels[place] += pixels;
}

static void add_work(const struct job_run *run, struct metrics_job *job)
{
    const struct engine_task *task = &run->engine_task;
    if (job->outcome == METRICS_DONE)
        job->pixels = (uint64_t)run->info.width * run->info.height;
    if (job->outcome == METRICS_DONE && run->timing.ms[STAGE_DECODE] >= 0)
        add_image(&job->decoder, run->input.decoder, job->pixels);
    job->declined = run->input.declined;
    job->bytes_in = run->input.bytes;
    job->queue_ms = run->timing.queue_ms;
    job->ms[METRICS_READ] = run->timing.ms[STAGE_READ];
    job->ms[METRICS_ADMIT] = run->timing.ms[STAGE_ADMIT];
    job->ms[METRICS_DECODE] = run->timing.ms[STAGE_DECODE];
    job->ms[METRICS_ENCODE] = run->timing.ms[STAGE_ENCODE];
    if (task->plan && !task->plan->idle) {
        job->ms[METRICS_H2D] = task->h2d_ms;
        job->ms[METRICS_KERNEL] = task->kernel_ms;
        job->ms[METRICS_D2H] = task->d2h_ms;
    }
    for (size_t i = 0; i < run->job.output_count; i++) {
        const struct job_run_output *output = &run->outputs[i];
        if (output->bytes > 0 && output->error.status == STATUS_OK) {
            job->images++;
            job->bytes_out += output->bytes;
            add_image(&job->encoder, output->encoder, (uint64_t)output->width * output->height);
        }
    }
}

/* Unknown times are -1. brief: as message. */
void counting_job(const struct job_run *run, const struct error *error,
                  enum metrics_outcome outcome, bool brief)
{
    char input[LABEL_INPUT_BYTES_MAX + 1];
    struct metrics_job job = {
        .number = run->number,
        .shard = run->shard,
        .shards = run->shards,
        .attempt = run->attempt,
        .tag = run->job.tag,
        .error = error,
        .outcome = outcome,
        .ms = {-1, -1, -1, -1, -1, -1, -1},
        .queue_ms = -1,
        .total_ms = clock_ms(run->timing.fetched_ns, clock_now_ns()),
    };
    if (error->status != STATUS_OK) {
        size_t bytes;
        const char *text = lease_text(run->lease, &bytes);
        job.input = label_input(input, &run->job, text, bytes);
    }
    if (!brief)
        add_work(run, &job);
    metrics_count(run->pipeline->parts.totals, &job);
    tags_count(run->pipeline->parts.tags, &job);
}

void counting_image(const struct job_run *run)
{
    struct metrics_job image = {.tag = NULL, .ms = {-1, -1, -1, -1, -1, -1, -1}, .queue_ms = -1};
    image.outcome = run->error.status == STATUS_OK ? METRICS_DONE : METRICS_FAILED;
    add_work(run, &image);
    metrics_count_image(run->pipeline->parts.totals, &image);
}
