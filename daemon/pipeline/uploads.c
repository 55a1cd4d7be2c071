#include "daemon/pipeline/uploads.h"

#include <stdlib.h>

#include "conf/clock.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"

/* DONE stores the keys of a job with one image, together with its result. */
static bool is_due(const struct job_run *run, size_t index)
{
    const struct job_place *place = &run->job.outputs[index].place;
    bool is_uploaded = place->url || (place->key && run->is_image);
    return is_uploaded && run->outputs[index].value.value && !run->outputs[index].upload;
}

bool uploads_are_due(const struct job_run *run)
{
    for (size_t i = 0; i < run->job.output_count; i++)
        if (is_due(run, i))
            return true;
    return false;
}

static void drop_value(struct job_run_output *output)
{
    admission_end_result(output->run, output->value.bytes);
    free(output->value.value);
    output->value = (struct queue_value){0};
}

/* The clock stands while all uploads of the job wait for their turn, or for Redis. */
static enum stage_result finish(struct job_run *run)
{
    bool waits = false, moves = false;
    for (size_t i = 0; i < run->job.output_count; i++) {
        waits |= run->outputs[i].upload != NULL;
        moves |= run->outputs[i].upload && run->outputs[i].upload_begun;
    }
    if (waits && !moves)
        job_run_stop_clock(run);
    else
        job_run_start_clock(run);
    if (waits)
        return RESULT_WAIT;
    run->timing.upload_ms = clock_ms(run->timing.transfer_ns, clock_now_ns());
    error_clear(&run->error);
    job_outputs_judge(run);
    return RESULT_NEXT;
}

static void on_begun(void *context)
{
    struct job_run_output *output = context;
    output->upload_begun = true;
    job_run_start_clock(output->run);
}

static void on_stored(void *context, const struct error *error)
{
    struct job_run_output *output = context;
    struct pipeline *pipeline = output->run->pipeline;
    output->upload = NULL;
    output->placed = !error;
    if (error)
        output->error = *error;
    drop_value(output);
    pipeline_resume(output->run, finish(output->run));
    pipeline_wake(pipeline);
}

static void on_uploaded(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    (void)bytes;
    (void)length;
    on_stored(context, error);
}

static void *start_upload(struct job_run *run, size_t index)
{
    struct job_run_output *output = &run->outputs[index];
    struct transfer_request request = {
        .direction = TRANSFER_UPLOAD,
        .url = run->job.outputs[index].place.url,
        .body = output->value.value,
        .body_bytes = output->value.bytes,
        .mime = output->format->mime,
        .headers = run->job.outputs[index].headers,
        .begun = on_begun,
        .done = on_uploaded,
        .context = output,
    };
    return fetcher_start(run->pipeline->parts.fetcher, &request);
}

/* The queue takes the bytes; value.bytes stays until they are no longer reserved. */
static void *start_store(struct job_run *run, size_t index)
{
    struct job_run_output *output = &run->outputs[index];
    struct queue_value value = output->value;
    output->value.value = NULL;
    return queue_store(run->queue, &value, &run->worker_task.rank, on_stored, output);
}

static void start(struct job_run *run, size_t index)
{
    struct job_run_output *output = &run->outputs[index];
    output->run = run;
    output->upload =
        run->job.outputs[index].place.url ? start_upload(run, index) : start_store(run, index);
    if (output->upload)
        return;
    error_set(&output->error, STATUS_OUT_OF_MEMORY, "no memory for an upload");
    drop_value(output);
}

enum stage_result uploads_enter(struct job_run *run)
{
    if (!uploads_are_due(run))
        return RESULT_NEXT;
    run->timing.transfer_ns = clock_now_ns();
    job_input_release(run); /* a worker that carried the job has kept it */
    job_input_close(run);
    for (size_t i = 0; i < run->job.output_count; i++)
        if (is_due(run, i))
            start(run, i);
    return finish(run);
}

void uploads_leave(struct job_run *run)
{
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct job_run_output *output = &run->outputs[i];
        if (!output->upload)
            continue;
        if (run->job.outputs[i].place.url)
            fetcher_cancel(run->pipeline->parts.fetcher, output->upload);
        else
            queue_store_cancel(run->queue, output->upload);
        output->upload = NULL;
        output->bytes = 0;
        drop_value(output);
    }
}
