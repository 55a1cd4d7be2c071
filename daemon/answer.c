/* The completion message of a work. */
#include "daemon/work.h"

#include <string.h>

#include "daemon/clock.h"
#include "daemon/pipeline_impl.h"
#include "queue/result.h"

static void fill_outputs(const struct work *work, struct result_output *outputs)
{
    for (size_t i = 0; i < work->job.output_count; i++) {
        const struct work_output *output = &work->outputs[i];
        bool written = output->bytes > 0 && output->error.status == STATUS_OK;
        outputs[i] = (struct result_output){
            .place = &work->job.outputs[i].place,
            .format = output->codec ? codec_name(output->codec) : NULL,
            .width = written ? output->width : 0,
            .height = written ? output->height : 0,
            .bytes = written ? output->bytes : 0,
            .error = output->error.status != STATUS_OK ? &output->error : NULL,
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
        result->engine = engine_name(pipeline_engine(work->pipeline), work->memory.device);
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

char *work_answer(const struct work *work, const char *status, const struct error *error,
                  const char *daemon, bool brief)
{
    struct result_output outputs[JOB_OUTPUTS_MAX];
    struct result result = {
        .job = &work->job,
        .number = work->lease->number,
        .status = status,
        .error = error,
        .attempt = work->lease->attempt,
        .daemon = daemon,
        .ms = {.read = -1, .admit = -1, .decode = -1, .h2d = -1, .kernel = -1, .d2h = -1,
               .encode = -1},
    };
    result.ms.queue = work->queue_ms;
    result.ms.total = clock_ms(work->fetched_ns, clock_now_ns());
    if (!brief) {
        fill_outputs(work, outputs);
        result.outputs = outputs;
        result.output_count = work->job.output_count;
        fill_rest(work, &result);
    }
    return result_write(&result);
}
