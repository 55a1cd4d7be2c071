#include "daemon/pipeline/admission.h"

#include <assert.h>

#include "daemon/pipeline/pipeline_impl.h"
#include "daemon/pipeline/work.h"

void admission_open(struct admission *admission, struct engine *engine, size_t lane_bytes_max,
                    size_t jobs_now, size_t jobs_max)
{
    *admission = (struct admission){.engine = engine, .lane_bytes_max = lane_bytes_max,
                                    .jobs_now = jobs_now, .jobs_max = jobs_max};
    pthread_mutex_init(&admission->lock, NULL);
}

void admission_close(struct admission *admission)
{
    assert(admission->lane_bytes == 0 && admission->line == 0);
    pthread_mutex_destroy(&admission->lock);
}

struct pool_usage admission_usage(const struct admission *admission)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&admission->lock;
    pthread_mutex_lock(lock);
    struct pool_usage usage = {.budget = admission->lane_bytes_max,
                               .held = admission->lane_bytes,
                               .used = admission->lane_bytes};
    pthread_mutex_unlock(lock);
    return usage;
}

bool admission_is_short(const struct admission *admission)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&admission->lock;
    pthread_mutex_lock(lock);
    bool is_short = admission->line > 0 && admission->is_short;
    pthread_mutex_unlock(lock);
    return is_short;
}

static struct admission *admission_of(const struct work *work)
{
    return &work->pipeline->admission;
}

/* ---- the line ------------------------------------------------------------------------------- */

static void join_line(struct admission *admission, struct work *work)
{
    admission->line += !work->in_line;
    work->in_line = true;
}

static void leave_line(struct admission *admission, struct work *work)
{
    admission->line -= work->in_line;
    work->in_line = false;
}

void admission_wait(struct work *work)
{
    struct admission *admission = admission_of(work);
    pthread_mutex_lock(&admission->lock);
    join_line(admission, work);
    pthread_mutex_unlock(&admission->lock);
}

/* ---- memory --------------------------------------------------------------------------------- */

static size_t encoder_need(const struct work *work)
{
    size_t need = 0;
    for (size_t i = 0; i < work->job.output_count; i++) {
        const struct work_output *output = &work->outputs[i];
        if (output->error.status != STATUS_OK || !output->format)
            continue;
        const struct plan_variant *variant = &work->plan.variants[output->variant];
        size_t bytes = codec_encoder_bytes(output->format, variant->width, variant->height,
                                           variant->channels, &work->job.outputs[i].encoder);
        if (bytes > need)
            need = bytes; /* one after the other, so the largest counts */
    }
    return need;
}

/* All but results: the decoder's need and then the encoder's, the plan, and the profile. */
static size_t working_need(const struct work *work)
{
    size_t encoder = encoder_need(work), decoder = work->info.codec_bytes;
    return (encoder > decoder ? encoder : decoder) + work->plan_bytes + work->info.icc_bytes;
}

/* What waits for Redis: values, and outputs that go to keys. */
static size_t results_need(const struct work *work)
{
    size_t keys = 0;
    for (size_t i = 0; i < work->job.output_count; i++) {
        const struct work_output *output = &work->outputs[i];
        const struct job_output *wanted = &work->job.outputs[i];
        if (output->error.status != STATUS_OK || !output->format || !wanted->place.key)
            continue;
        const struct plan_variant *variant = &work->plan.variants[output->variant];
        keys += codec_encoded_bytes(output->format, variant->width, variant->height,
                                    variant->channels, &wanted->encoder, work->info.icc_bytes);
    }
    return work->values_bytes + (keys < KEY_OUTPUTS_BYTES_MAX ? keys : KEY_OUTPUTS_BYTES_MAX);
}

size_t admission_need(const struct work *work)
{
    const struct plan *plan = &work->plan;
    return plan->input_bytes + plan->output_bytes + plan->scratch_bytes + working_need(work) +
           results_need(work);
}

/* ---- the count ------------------------------------------------------------------------------ */

/* Under the lock. */
static bool is_soon(const struct admission *admission, const struct work *work, size_t bytes)
{
    if (admission->jobs < admission->jobs_now ||
        admission->bytes + bytes <= admission->jobs_max * SMALL_JOB_BYTES)
        return true;
    return admission->jobs < admission->jobs_max &&
           (bytes <= SMALL_JOB_BYTES || engine_has_room(admission->engine, &work->plan));
}

static void count(struct admission *admission, struct work *work, size_t bytes)
{
    admission->jobs++;
    admission->bytes += bytes;
    work->admitted = work->counted = true;
    work->admitted_bytes = bytes;
}

static void uncount(struct admission *admission, struct work *work)
{
    if (!work->counted)
        return;
    admission->jobs--;
    admission->bytes -= work->admitted_bytes;
    work->counted = false;
}

/* Under the lock. */
static bool lack_memory(struct admission *admission)
{
    admission->is_short = true;
    return false;
}

/* Under the lock. Results whose largest size is beyond the lane get all that is left of it: most
 * are smaller, and the job then runs while nobody else has any. */
static bool take(struct admission *admission, struct work *work)
{
    size_t working = working_need(work), results = results_need(work);
    if (working > admission->lane_bytes_max) {
        error_set(&work->error, STATUS_OVER_BUDGET,
                  "decoding and encoding need %zu bytes; three eighths of host_bytes, %zu, is all "
                  "there is", working, admission->lane_bytes_max);
        return true;
    }
    if (results > admission->lane_bytes_max - working)
        results = admission->lane_bytes_max - working;
    admission->is_short = false;
    if (!is_soon(admission, work, admission_need(work)))
        return false;
    if (working + results > admission->lane_bytes_max - admission->lane_bytes)
        return lack_memory(admission);
    enum engine_reserved reserved =
        engine_reserve(admission->engine, &work->plan, &work->memory, &work->error);
    if (reserved == ENGINE_WAIT)
        return lack_memory(admission);
    if (reserved == ENGINE_RESERVED) {
        admission->lane_bytes += working + results;
        work->lane_bytes = working + results;
        work->results_room = results;
        count(admission, work, admission_need(work));
    }
    return true;
}

bool admission_try(struct work *work)
{
    struct admission *admission = admission_of(work);
    pthread_mutex_lock(&admission->lock);
    bool through = take(admission, work);
    if (through)
        leave_line(admission, work);
    pthread_mutex_unlock(&admission->lock);
    return through;
}

bool admission_pass(struct work *work)
{
    struct admission *admission = admission_of(work);
    pthread_mutex_lock(&admission->lock);
    bool through = admission->line == 0 && take(admission, work);
    if (!through)
        join_line(admission, work);
    pthread_mutex_unlock(&admission->lock);
    return through;
}

bool admission_step_aside(struct work *work)
{
    struct admission *admission = admission_of(work);
    pthread_mutex_lock(&admission->lock);
    bool aside = admission->jobs == 0;
    if (aside)
        leave_line(admission, work);
    pthread_mutex_unlock(&admission->lock);
    return aside;
}

/* Under the lock. */
static void keep(struct admission *admission, struct work *work, size_t need)
{
    if (work->lane_bytes <= need)
        return;
    admission->lane_bytes -= work->lane_bytes - need;
    work->lane_bytes = need;
}

void admission_keep_encoder(struct work *work)
{
    struct admission *admission = admission_of(work);
    size_t need = encoder_need(work) + work->plan_bytes + work->info.icc_bytes;
    pthread_mutex_lock(&admission->lock);
    keep(admission, work, need + work->results_room);
    pthread_mutex_unlock(&admission->lock);
}

bool admission_extend(struct work *work, size_t bytes)
{
    struct admission *admission = admission_of(work);
    pthread_mutex_lock(&admission->lock);
    bool fits = bytes <= admission->lane_bytes_max - admission->lane_bytes;
    if (fits) {
        admission->lane_bytes += bytes;
        work->lane_bytes += bytes;
        work->results_room += bytes;
    }
    pthread_mutex_unlock(&admission->lock);
    return fits;
}

bool admission_release(struct work *work)
{
    struct admission *admission = admission_of(work);
    if (!work->admitted && !work->in_line)
        return false;
    pthread_mutex_lock(&admission->lock);
    assert(work->results_bytes <= work->lane_bytes);
    keep(admission, work, work->results_bytes);
    leave_line(admission, work);
    uncount(admission, work);
    bool others_wait = admission->line > 0;
    pthread_mutex_unlock(&admission->lock);
    engine_release(admission->engine, &work->memory);
    work->admitted = false;
    return others_wait;
}

void admission_settle(struct work *work)
{
    struct admission *admission = admission_of(work);
    if (work->lane_bytes == 0)
        return;
    pthread_mutex_lock(&admission->lock);
    keep(admission, work, 0);
    pthread_mutex_unlock(&admission->lock);
}

void admission_abandon(struct work *work)
{
    struct admission *admission = admission_of(work);
    pthread_mutex_lock(&admission->lock);
    uncount(admission, work);
    pthread_mutex_unlock(&admission->lock);
}
