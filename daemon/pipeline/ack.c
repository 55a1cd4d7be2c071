#include "daemon/pipeline/ack.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/borders.h"
#include "codecs/tensor.h"
#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/counting.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/set_image.h"
#include "daemon/pipeline/set_stage.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/uploads.h"
#include "queue/job/result.h"

/* "cpu", or the job's device. */
static const char *codec_name(const struct job_run *run, enum codec_place place)
{
    return place == CODEC_ON_HOST
               ? "cpu" : engine_name(run->pipeline->parts.engine, run->reserved.device);
}

static void fill_shape(const struct job_run *run, size_t index, struct result_output *to)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct encoder_settings *settings = &run->job.outputs[index].encoder;
    if (!output->format->tensor)
        return;
    to->dtype = tensor_dtype(settings);
    tensor_shape(settings, output->width, output->height,
                 run->plan.variants[output->variant].channels, to->shape);
}

/* error: the job's. An output that is missing without an error of its own gets it. */
static void fill_outputs(const struct job_run *run, const struct error *error,
                         struct result_output *outputs)
{
    for (size_t i = 0; i < run->job.output_count; i++) {
        const struct job_run_output *output = &run->outputs[i];
        bool whole = output->error.status == STATUS_OK, written = output->bytes > 0 && whole;
        outputs[i] = (struct result_output){
            .place = &run->job.outputs[i].place,
            .format = output->format ? output->format->name : NULL,
            .error = !whole ? &output->error : written || output->values ? NULL : error,
            .values = whole ? output->values : NULL};
        if (written) {
            outputs[i].width = output->width;
            outputs[i].height = output->height;
            outputs[i].bytes = output->bytes;
            outputs[i].quality = (uint32_t)output->quality;
            outputs[i].has_ssim = run->job.outputs[i].encoder.ssim > 0;
            outputs[i].ssim = (double)output->ssim / SSIM_ONE;
            outputs[i].encoder = codec_name(run, output->encoder);
            fill_shape(run, i, &outputs[i]);
        }
    }
}

/* What is left of the upright image; nothing of a job that does not trim. */
static struct trim_part trim_of(const struct job_run *run)
{
    return borders_turn(run->trimmed, run->info.width, run->info.height,
                        run->job.orient ? run->info.orientation : 1);
}

static void fill_rest(const struct job_run *run, struct result *result)
{
    if (run->info.format) {
        result->input_format = run->info.format->name;
        result->input_width = run->info.width;
        result->input_height = run->info.height;
        result->input_frames = run->info.frames;
        result->input_gain_map = run->info.gain_map;
        result->input_trim = trim_of(run);
    }
    result->input_bytes = run->input.bytes;
    if (run->timing.ms[STAGE_DECODE] >= 0)
        result->decoder = codec_name(run, run->input.decoder);
    result->ms.read = run->timing.ms[STAGE_READ];
    result->ms.admit = run->timing.ms[STAGE_ADMIT];
    result->ms.decode = run->timing.ms[STAGE_DECODE];
    if (run->engine_task.plan) {
        result->engine = engine_name(run->pipeline->parts.engine, run->reserved.device);
        result->ms.h2d = run->engine_task.h2d_ms;
        result->ms.kernel = run->engine_task.kernel_ms;
        result->ms.d2h = run->engine_task.d2h_ms;
    }
    result->ms.encode = run->timing.ms[STAGE_ENCODE];
    result->ms.download = run->timing.download_ms;
    result->ms.upload = run->timing.upload_ms;
}

/* Of a job with many images. */
static void fill_set(const struct job_run *run, struct result *result, struct result_images *images,
                     struct result_output *outputs)
{
    static const struct set_total none;
    struct image_set *set = run->set; /* NULL: the archive was not read */
    *images = set ? image_set_result(set) : (struct result_images){0};
    result->images = images;
    result->input_bytes = set ? set->source.archive_bytes : 0;
    if (set) {
        result->input_width = set->source.animation.width;
        result->input_height = set->source.animation.height;
        result->input_frames = set->source.animation.frames;
    }
    for (size_t i = 0; i < run->job.output_count; i++) {
        const struct set_total *total = set ? &set->totals[i] : &none;
        const struct job_output *output = &run->job.outputs[i];
        outputs[i] = (struct result_output){.place = &output->place,
                                            .images = total->images,
                                            .bytes = total->bytes,
                                            .array = output->pack == JOB_ARRAY};
        if (total->images == 0 || !total->format)
            continue;
        outputs[i].format = total->format->name;
        outputs[i].encoder = total->encoder == CODEC_ON_HOST
                                 ? "cpu"
                                 : engine_name(run->pipeline->parts.engine, set->device);
        if (output->pack == JOB_MOVIE) {
            outputs[i].width = set->packs[i].movie.width;
            outputs[i].height = set->packs[i].movie.height;
        }
        if (output->pack != JOB_ARRAY)
            continue;
        outputs[i].dtype = tensor_dtype(&output->encoder);
        outputs[i].count = total->images;
        memcpy(outputs[i].shape, set->packs[i].shape, sizeof outputs[i].shape);
    }
}

/* Returns malloc'd JSON, or NULL if memory is short. lease: on the loop, the job's; on a worker,
 * NULL. brief: read only members that no worker writes, because a worker still owns the job. */
static char *message(const struct job_run *run, const struct lease *lease, const char *status,
                     const struct error *error, bool brief)
{
    struct result_output outputs[JOB_OUTPUTS_MAX];
    struct result_images images;
    struct result result = {
        .job = &run->job,
        .number = run->number,
        .shard = run->shard,
        .shards = run->shards,
        .status = status,
        .error = error,
        .attempt = run->attempt,
        .daemon = run->pipeline->parts.daemon,
        .ms = {.read = -1, .admit = -1, .decode = -1, .h2d = -1, .kernel = -1, .d2h = -1,
               .encode = -1},
    };
    if (lease)
        result.text = lease_text(lease, &result.text_bytes);
    result.ms.queue = run->timing.queue_ms;
    result.ms.total = clock_ms(run->timing.fetched_ns, clock_now_ns());
    result.outputs = outputs;
    result.output_count = brief ? 0 : run->job.output_count;
    if (!brief && job_is_set(&run->job)) {
        fill_set(run, &result, &images, outputs);
    } else if (!brief) {
        fill_outputs(run, error, outputs);
        fill_rest(run, &result);
    }
    return result_write(&result);
}

void ack_write_result(struct job_run *run)
{
    if (run->error.status == STATUS_OK && job_run_is_open(run) && !run->is_image &&
        !uploads_are_due(run))
        run->result = message(run, NULL, "done", NULL, false);
}

/* The result that the worker has written, or else a new one. */
static char *take_result(struct job_run *run, const char *status, const struct error *error,
                         bool brief)
{
    bool is_written = !brief && !error && run->result;
    char *result = is_written ? run->result : message(run, run->lease, status, error, brief);
    if (is_written)
        run->result = NULL;
    return result;
}

/* dead: Redis moved the job to the dead letters. */
static enum metrics_outcome outcome_of(enum status status, bool dead)
{
    if (status == STATUS_OK)
        return METRICS_DONE;
    if (dead)
        return METRICS_DEAD;
    if (status_retryable(status))
        return METRICS_RETRIED;
    return status == STATUS_CANCELLED ? METRICS_CANCELLED : METRICS_FAILED;
}

/* Moves the outputs to Redis keys from the job to `values`. */
static size_t take_values(struct job_run *run, struct queue_value values[JOB_OUTPUTS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < run->job.output_count; i++) {
        if (run->outputs[i].value.value && run->job.outputs[i].place.key) {
            values[count++] = run->outputs[i].value;
            run->outputs[i].value = (struct queue_value){0};
        }
    }
    return count;
}

static void say_error(const struct job_run *run, const struct error *error)
{
    char label[LABEL_BYTES];
    if (status_retryable(error->status))
        log_warning("job %s, attempt %u: %s: %s", job_run_label(run, label), run->attempt,
                    status_name(error->status), error->text);
    else if (error->status != STATUS_OK)
        log_info("job %s failed: %s: %s", job_run_label(run, label), status_name(error->status),
                 error->text);
}

/* Drops the outputs to Redis keys, which would be stored with the answer, and those to URLs that
 * were not uploaded. */
static void withhold_values(struct job_run *run)
{
    for (size_t i = 0; i < run->job.output_count; i++) {
        if (run->outputs[i].value.value) { /* uncovered: refusal */
            free(run->outputs[i].value.value);
            run->outputs[i].value = (struct queue_value){0};
            run->outputs[i].bytes = 0;
        }
    }
}

/* A failed job keeps its good outputs, including those to Redis keys. A cancelled job keeps only
 * the files that were complete before the cancel. false: there is no memory for the answer. */
static bool answer(struct job_run *run, const struct error *error, bool brief)
{
    struct queue *queue = run->queue;
    struct queue_value values[JOB_OUTPUTS_MAX];
    bool ok = error->status == STATUS_OK, retry = !ok && status_retryable(error->status);
    say_error(run, error);
    /* Only a job that started stores its result under a unique id. If a later job with the same id
     * has an error in its JSON, that error must not replace the stored result. */
    bool keeps = !(run->outcome == OUTCOME_REFUSED && run->job.unique);
    struct queue_answer whole = {.id = keeps ? run->job.id : NULL, .reply_to = run->job.reply_to,
                                 .unique = keeps && run->job.unique, .values = values};
    const struct queue_answer *answer = NULL;
    if (error->status == STATUS_CANCELLED && !brief)
        withhold_values(run);
    if (!retry || queue_last_attempt(run->lease)) {
        const char *word = ok                                  ? "done"
                           : error->status == STATUS_CANCELLED ? "cancelled"
                           : retry                             ? "dead"
                                                               : "failed";
        whole.result = take_result(run, word, ok ? NULL : error, brief);
        whole.value_count = brief ? 0 : take_values(run, values);
        answer = &whole;
    }
    return retry ? queue_retry(queue, run->lease, answer) : queue_done(queue, run->lease, answer);
}

/* No id: the stored result must remain that of the first job. Returns as answer. */
static bool answer_with_repeat(struct job_run *run)
{
    struct queue_answer whole = {.result = run->repeat, .reply_to = run->job.reply_to};
    run->repeat = NULL;
    return queue_done(run->queue, run->lease, &whole);
}

static bool is_answered(const struct job_run *run)
{
    return run->outcome != OUTCOME_RETURNED && run->outcome != OUTCOME_LOST;
}

/* Updates the average time per job: the pipeline decides from it how many jobs it fetches ahead. */
static void note_length(const struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    double ms = 0;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        if (stage != STAGE_ADMIT && run->timing.ms[stage] > 0)
            ms += run->timing.ms[stage];
    pipeline->job_ms = pipeline->job_ms < 0 ? ms : pipeline->job_ms + (ms - pipeline->job_ms) / 8;
}

enum stage_result ack_enter(struct job_run *run)
{
    if (run->is_image) {
        set_image_end(run);
        return RESULT_WAIT;
    }
    if (!is_answered(run)) {
        release_memory(run);
        if (run->lacks_room)
            queue_give_back_later(run->queue, run->lease);
        else
            queue_give_back(run->queue, run->lease);
        return RESULT_WAIT;
    }
    if (job_run_is_open(run) || run->outcome == OUTCOME_CANCELLED)
        job_run_decide(run, run->repeat ? OUTCOME_REPEATED : OUTCOME_ANSWERED);
    if (!(run->repeat ? answer_with_repeat(run) : answer(run, &run->error, false)))
        job_run_decide(run, OUTCOME_RETURNED);
    release_results(run); /* the queue now owns the result's text and the key outputs */
    note_length(run);
    release_memory(run);
    return RESULT_WAIT;
}

void ack_abandon(struct job_run *run, const struct error *error)
{
    struct pipeline *pipeline = run->pipeline;
    if (run->is_image) {
        set_image_abandon(run, error);
        return;
    }
    if (run->stage == STAGE_SET)
        set_stage_abandon(run);
    if (run->outcome != OUTCOME_LOST)
        job_run_decide(run, OUTCOME_LOST);
    admission_abandon(run);
    stage_make_zombie(run);
    if (atomic_load(&run->at) > STAGE_READ)
        job_input_end_key(run);
    run->lease->job = NULL;
    if (error) {
        counting_job(run, error,
                     error->status == STATUS_CANCELLED ? METRICS_CANCELLED : METRICS_FAILED, true);
        bool answered = answer(run, error, true);
        (void)answered; /* else the job goes back to the queue */
    } else {
        pipeline->parts.totals->returned++;
        queue_give_back(run->queue, run->lease);
    }
    run->lease = NULL;
}

void ack_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct pipeline *pipeline = context;
    struct job_run *run = lease->job;
    if (!run)
        return; /* abandoned: a zombie, or its slot is free already */
    if (lease->denied)
        error_set(&run->error, lease->denied->status, "%s", lease->denied->text);
    if (!stale && is_answered(run))
        counting_job(run, &run->error, outcome_of(run->error.status, dead), false);
    else
        pipeline->parts.totals->returned++;
    release_slot(run);
}
