/* ack.c - the end of a job: its completion message, DONE or NACK, and what the stats hear of it. */
#include <stdlib.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/pipeline_impl.h"
#include "queue/job/result.h"

/* ---- the message ---------------------------------------------------------------------------- */

/* error: the job's, which an output that is not there for no reason of its own has, too. */
static void fill_outputs(const struct work *work, const struct error *error,
                         struct result_output *outputs)
{
    for (size_t i = 0; i < work->job.output_count; i++) {
        const struct work_output *output = &work->outputs[i];
        bool whole = output->error.status == STATUS_OK, written = output->bytes > 0 && whole;
        outputs[i] = (struct result_output){
            .place = &work->job.outputs[i].place,
            .format = output->format ? output->format->name : NULL,
            .width = written ? output->width : 0,
            .height = written ? output->height : 0,
            .bytes = written ? output->bytes : 0,
            .error = !whole ? &output->error : written || output->values ? NULL : error,
            .values = whole ? output->values : NULL,
        };
    }
}

static void fill_rest(const struct work *work, struct result *result)
{
    if (work->info.format) {
        result->input_format = work->info.format->name;
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
    result.text = lease_text(work->lease, &result.text_bytes);
    result.ms.queue = work->queue_ms;
    result.ms.total = clock_ms(work->fetched_ns, clock_now_ns());
    if (!brief) {
        fill_outputs(work, error, outputs);
        result.outputs = outputs;
        result.output_count = work->job.output_count;
        fill_rest(work, &result);
    }
    return result_write(&result);
}

/* ---- names ---------------------------------------------------------------------------------- */

static const char *input_label(const struct work *work, char input[LABEL_INPUT_BYTES_MAX + 1])
{
    size_t bytes;
    const char *text = lease_text(work->lease, &bytes);
    return label_input(input, &work->job, text, bytes);
}

const char *work_label(const struct work *work, char label[LABEL_BYTES])
{
    size_t bytes;
    const char *text = lease_text(work->lease, &bytes);
    return label_job(label, work->number, &work->job, text, bytes);
}

/* ---- done or not ---------------------------------------------------------------------------- */

/* Times that are not known yet are -1. */
static struct metrics_job metrics_of(const struct work *work, const struct error *error,
                                     enum metrics_outcome outcome, const char *input)
{
    return (struct metrics_job){
        .number = work->number,
        .attempt = work->lease->attempt,
        .input = input,
        .error = error,
        .outcome = outcome,
        .ms = {-1, -1, -1, -1, -1, -1, -1},
        .queue_ms = -1,
        .total_ms = clock_ms(work->fetched_ns, clock_now_ns()),
    };
}

static void count(const struct work *work, enum metrics_outcome outcome)
{
    const struct engine_task *task = &work->task;
    char input[LABEL_INPUT_BYTES_MAX + 1];
    struct metrics_job job = metrics_of(work, &work->error, outcome, input_label(work, input));
    if (outcome == METRICS_DONE)
        job.pixels = (uint64_t)work->info.width * work->info.height;
    job.bytes_in = work->file_bytes;
    job.queue_ms = work->queue_ms;
    job.ms[METRICS_READ] = work->ms[STAGE_READ];
    job.ms[METRICS_ADMIT] = work->ms[STAGE_ADMIT];
    job.ms[METRICS_DECODE] = work->ms[STAGE_DECODE];
    job.ms[METRICS_ENCODE] = work->ms[STAGE_ENCODE];
    if (work->computed) {
        job.ms[METRICS_H2D] = task->h2d_ms;
        job.ms[METRICS_KERNEL] = task->kernel_ms;
        job.ms[METRICS_D2H] = task->d2h_ms;
    }
    for (size_t i = 0; i < work->job.output_count; i++) {
        if (work->outputs[i].bytes > 0 && work->outputs[i].error.status == STATUS_OK) {
            job.images++;
            job.bytes_out += work->outputs[i].bytes;
        }
    }
    metrics_count(work->pipeline->parts.totals, &job);
}

/* dead: Redis made a dead job of it. */
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

/* The outputs that go to Redis keys change hands. */
static size_t take_values(struct work *work, struct queue_value values[JOB_OUTPUTS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < work->job.output_count; i++) {
        if (work->outputs[i].value.value) {
            values[count++] = work->outputs[i].value;
            work->outputs[i].value = (struct queue_value){0};
        }
    }
    return count;
}

static void say_error(const struct work *work, const struct error *error)
{
    char label[LABEL_BYTES];
    if (status_retryable(error->status))
        log_warning("job %s, attempt %u: %s: %s", work_label(work, label), work->lease->attempt,
                    status_name(error->status), error->text);
    else if (error->status != STATUS_OK)
        log_info("job %s failed: %s: %s", work_label(work, label), status_name(error->status),
                 error->text);
}

/* The outputs that would only come to be with the answer. */
static void withhold_values(struct work *work)
{
    struct queue_value values[JOB_OUTPUTS_MAX];
    for (size_t i = 0; i < work->job.output_count; i++)
        if (work->outputs[i].value.value)
            work->outputs[i].bytes = 0;
    for (size_t i = take_values(work, values); i > 0; i--)
        free(values[i - 1].value);
}

static const char *status_word(enum status status, bool retry)
{
    if (status == STATUS_OK)
        return "done";
    if (status == STATUS_CANCELLED)
        return "cancelled";
    return retry ? "dead" : "failed";
}

/* Whatever the job ends with, its good outputs are there, those in Redis as well; of a cancelled
 * one only the files that were in their places before. */
static void answer(struct work *work, const struct error *error, bool brief)
{
    struct queue *queue = work->pipeline->queue;
    struct queue_value values[JOB_OUTPUTS_MAX];
    bool ok = error->status == STATUS_OK, retry = !ok && status_retryable(error->status);
    say_error(work, error);
    /* The result kept under a unique id is that of a job which began: a slip in one that is sent
     * later must not take its place, nor answer those that are sent then without it. */
    bool keeps = !(work->unfit && work->job.unique);
    struct queue_answer whole = {.id = keeps ? work->job.id : NULL,
                                 .reply_to = work->job.reply_to,
                                 .unique = keeps && work->job.unique, .values = values};
    const struct queue_answer *answer = NULL;
    if (error->status == STATUS_CANCELLED && !brief)
        withhold_values(work);
    if (!retry || queue_last_attempt(work->lease)) {
        whole.result =
            message(work, status_word(error->status, retry), ok ? NULL : error, brief);
        whole.value_count = brief ? 0 : take_values(work, values);
        answer = &whole;
    }
    if (!(retry ? queue_retry(queue, work->lease, answer)
                : queue_done(queue, work->lease, answer)))
        work->give_back = true;
}

/* The kept result stays the one of the first job, whose id it is too. */
static void answer_with_repeat(struct work *work)
{
    struct queue_answer whole = {.result = work->repeat, .reply_to = work->job.reply_to};
    work->repeat = NULL;
    if (!queue_done(work->pipeline->queue, work->lease, &whole))
        work->give_back = true;
}

void work_enter_ack(struct work *work)
{
    if (work->give_back || atomic_load(&work->lost)) {
        work_release(work);
        queue_give_back(work->pipeline->queue, work->lease);
        return;
    }
    if (work->repeat)
        answer_with_repeat(work);
    else
        answer(work, &work->error, false);
    work_drop_results(work); /* what is answered is the queue's, in the result's text */
    pipeline_note_length(work->pipeline, work);
    work_release(work);
}

void work_abandon(struct work *work, const struct error *error)
{
    struct pipeline *pipeline = work->pipeline;
    atomic_store(&work->lost, true);
    work->abandoned = true;
    admission_abandon(work);
    pipeline_leave(work);
    list_push(&pipeline->zombies, &work->node);
    if (atomic_load(&work->at) > STAGE_READ)
        reads_end_key(work);
    work->lease->job = NULL;
    if (error) {
        char input[LABEL_INPUT_BYTES_MAX + 1];
        bool cancelled = error->status == STATUS_CANCELLED;
        struct metrics_job job =
            metrics_of(work, error, cancelled ? METRICS_CANCELLED : METRICS_FAILED,
                       input_label(work, input));
        answer(work, error, true);
        metrics_count(pipeline->parts.totals, &job);
    } else {
        pipeline->parts.totals->returned++;
        queue_give_back(work->pipeline->queue, work->lease);
    }
    work->lease = NULL;
}

void ack_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct pipeline *pipeline = context;
    struct work *work = lease->job;
    if (!work)
        return; /* abandoned: it became a zombie or a free place long ago */
    if (lease->denied)
        error_set(&work->error, lease->denied->status, "%s", lease->denied->text);
    if (!stale && !work->give_back && !atomic_load(&work->lost))
        count(work, outcome_of(work->error.status, dead));
    else
        pipeline->parts.totals->returned++;
    pipeline_recycle(work, &pipeline->stages[STAGE_ACK]);
    pipeline_pump(pipeline);
}
