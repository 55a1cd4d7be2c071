/* ack.c - the end of a job: its completion message, DONE or NACK, and what the stats hear of it. */
#include <inttypes.h>
#include <stdlib.h>

#include "conf/log.h"
#include "daemon/clock.h"
#include "daemon/pipeline_impl.h"
#include "queue/result.h"

/* ---- the message ---------------------------------------------------------------------------- */

/* with_values: keys are stored in the same step as the result. */
static void fill_outputs(const struct work *work, struct result_output *outputs, bool with_values)
{
    for (size_t i = 0; i < work->job.output_count; i++) {
        const struct work_output *output = &work->outputs[i];
        bool written = output->bytes > 0 && output->error.status == STATUS_OK &&
                       (with_values || !output->value.value);
        outputs[i] = (struct result_output){
            .place = &work->job.outputs[i].place,
            .format = output->codec ? codec_name(output->codec) : NULL,
            .width = written ? output->width : 0,
            .height = written ? output->height : 0,
            .bytes = written ? output->bytes : 0,
            .error = output->error.status != STATUS_OK ? &output->error : NULL,
            .values = output->error.status == STATUS_OK ? output->values : NULL,
        };
    }
}

static void fill_rest(const struct work *work, struct result *result)
{
    if (work->info.codec) {
        result->input_format = codec_name(work->info.codec);
        result->input_width = work->info.width;
        result->input_height = work->info.height;
    }
    result->input_bytes = work->file_bytes;
    if (work->reached_engine)
        result->engine = engine_name(work->pipeline->parts.engine, work->memory.device);
    result->ms.read = work->ms[STAGE_READ];
    result->ms.admit = work->ms[STAGE_ADMIT];
    result->ms.decode = work->ms[STAGE_DECODE];
    if (work->reached_engine) {
        result->ms.h2d = work->task.h2d_ms;
        result->ms.kernel = work->task.kernel_ms;
        result->ms.d2h = work->task.d2h_ms;
    }
    result->ms.encode = work->ms[STAGE_ENCODE];
}

/* JSON, malloc'd, or NULL when memory is short. With brief, only what the job itself says is used:
 * a worker may still be writing the rest. */
static char *message(const struct work *work, const char *status, const struct error *error,
                     bool brief)
{
    struct result_output outputs[JOB_OUTPUTS_MAX];
    struct result result = {
        .job = &work->job,
        .number = work->lease->number,
        .status = status,
        .error = error,
        .attempt = work->lease->attempt,
        .daemon = work->pipeline->parts.daemon,
        .ms = {.read = -1, .admit = -1, .decode = -1, .h2d = -1, .kernel = -1, .d2h = -1,
               .encode = -1},
    };
    result.ms.queue = work->queue_ms;
    result.ms.total = clock_ms(work->fetched_ns, clock_now_ns());
    if (!brief) {
        fill_outputs(work, outputs, !error || !status_retryable(error->status));
        result.outputs = outputs;
        result.output_count = work->job.output_count;
        fill_rest(work, &result);
    }
    return result_write(&result);
}

/* ---- done or not ---------------------------------------------------------------------------- */

static void count(const struct work *work, bool done, bool retried, bool dead)
{
    const struct engine_task *task = &work->task;
    struct stats_job job = {
        .done = done,
        .retried = retried,
        .dead = dead,
        .pixels = (uint64_t)work->info.width * work->info.height,
        .bytes_in = work->file_bytes,
        .read_ms = work->ms[STAGE_READ],
        .decode_ms = work->ms[STAGE_DECODE],
        .gpu_ms = work->computed ? task->h2d_ms + task->kernel_ms + task->d2h_ms : -1,
        .encode_ms = work->ms[STAGE_ENCODE],
        .total_ms = clock_ms(work->fetched_ns, clock_now_ns()),
    };
    for (size_t i = 0; i < work->job.output_count; i++) {
        if (work->outputs[i].bytes > 0 && work->outputs[i].error.status == STATUS_OK) {
            job.images++;
            job.bytes_out += work->outputs[i].bytes;
        }
    }
    if (!done)
        job.pixels = 0;
    stats_add(work->pipeline->parts.stats, &job);
}

static void give_lease_back(struct work *work)
{
    queue_nack(work->pipeline->queue, work->lease, NACK_GIVE_BACK, NULL, work->job.id,
               work->job.reply_to);
}

static void answer(struct work *work, const struct error *error, bool brief)
{
    struct pipeline *pipeline = work->pipeline;
    struct queue_value values[JOB_OUTPUTS_MAX];
    size_t value_count = 0;
    bool ok = error->status == STATUS_OK, retry = !ok && status_retryable(error->status);
    char *text =
        message(work, ok ? "done" : retry ? "dead" : "failed", ok ? NULL : error, brief);
    if (!text) {
        log_error("job %" PRIu64 ": no memory for its result; the job goes back",
                  work->lease->number);
        give_lease_back(work);
        return;
    }
    if (retry) {
        log_warning("job %" PRIu64 ", attempt %u: %s: %s", work->lease->number,
                    work->lease->attempt, status_name(error->status), error->text);
        queue_nack(pipeline->queue, work->lease, NACK_RETRY, text, work->job.id,
                   work->job.reply_to);
        return;
    }
    if (!ok)
        log_info("job %" PRIu64 " failed: %s: %s", work->lease->number,
                 status_name(error->status), error->text);
    for (size_t i = 0; !brief && i < work->job.output_count; i++) {
        if (work->outputs[i].value.value) {
            values[value_count++] = work->outputs[i].value;
            work->outputs[i].value = (struct queue_value){0};
        }
    }
    queue_done(pipeline->queue, work->lease, text, work->job.id, work->job.reply_to, values,
               value_count);
}

void work_enter_ack(struct work *work)
{
    if (work->give_back || atomic_load(&work->lost)) {
        work_release(work);
        give_lease_back(work);
        return;
    }
    answer(work, &work->error, false);
    work_release(work);
}

void work_abandon(struct work *work, const struct error *error)
{
    struct pipeline *pipeline = work->pipeline;
    atomic_store(&work->lost, true);
    work->abandoned = true;
    list_remove(&pipeline->stages[work->stage], &work->node);
    list_push(&pipeline->zombies, &work->node);
    work->lease->job = NULL;
    if (error) {
        struct stats_job job = {.read_ms = -1, .decode_ms = -1, .gpu_ms = -1, .encode_ms = -1,
                                .total_ms = clock_ms(work->fetched_ns, clock_now_ns())};
        answer(work, error, true);
        stats_add(pipeline->parts.stats, &job);
    } else {
        give_lease_back(work);
    }
    work->lease = NULL;
}

void ack_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct pipeline *pipeline = context;
    struct work *work = lease->job;
    if (!work)
        return; /* abandoned: it became a zombie or a free place long ago */
    bool retry = work->error.status != STATUS_OK && status_retryable(work->error.status);
    if (!stale && !work->give_back && !atomic_load(&work->lost))
        count(work, work->error.status == STATUS_OK, retry && !dead, dead);
    pipeline_recycle(work, &pipeline->stages[STAGE_ACK]);
    pipeline_pump(pipeline);
}
