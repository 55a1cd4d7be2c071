#include "daemon/pipeline/admission.h"

#include <assert.h>
#include <inttypes.h>

#include "codecs/ssim_quality.h"
#include "conf/lock.h"
#include "conf/options.h"
#include "daemon/pipeline/dispatch.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"

void admission_open(struct admission *admission, struct engine *engine, size_t lane_bytes_max,
                    size_t jobs_now, size_t jobs_max)
{
    *admission = (struct admission){.engine = engine, .lane_bytes_max = lane_bytes_max,
                                    .jobs_now = jobs_now, .jobs_max = jobs_max};
    lock_init(&admission->lock);
}

void admission_close(struct admission *admission)
{
    assert(admission->lane_bytes == 0 && admission->line == 0 && admission->need_long == 0);
    pthread_mutex_destroy(&admission->lock);
}

size_t admission_lane_bytes(uint64_t host_bytes)
{
    return host_bytes - host_bytes / HOST_FILES_PART - host_bytes / HOST_COLOUR_PART;
}

struct pool_usage admission_usage(struct admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    struct pool_usage usage = {.budget = admission->lane_bytes_max, .held = admission->lane_bytes,
                               .used = admission->lane_bytes};
    pthread_mutex_unlock(&admission->lock);
    return usage;
}

bool admission_is_short(struct admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    bool is_short = admission->line > 0 && admission->is_short;
    pthread_mutex_unlock(&admission->lock);
    return is_short;
}

bool admission_is_idle(struct admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    bool is_idle = admission->holders == 0;
    pthread_mutex_unlock(&admission->lock);
    return is_idle;
}

bool admission_is_stuck(struct admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    bool is_stuck = admission->line > 0 && admission->holders == 0 &&
                    (admission->lane_bytes > admission->long_bytes || admission->parked > 0);
    pthread_mutex_unlock(&admission->lock);
    return is_stuck;
}

static struct admission *lock(const struct job_run *run)
{
    struct admission *admission = &run->pipeline->admission;
    pthread_mutex_lock(&admission->lock);
    return admission;
}

/* Under the lock. */
static void set_needs_long(struct admission *admission, struct job_run *run, bool needs)
{
    admission->need_long += needs - run->reserved.needs_long;
    run->reserved.needs_long = needs;
}

/* Under the lock. */
static void set_state(struct admission *admission, struct job_run *run, enum reservation state)
{
    struct job_run_reserved *reserved = &run->reserved;
    bool counted = reserved->state == RESERVATION_HELD, counts = state == RESERVATION_HELD;
    admission->line += (state == RESERVATION_WAITS) - (reserved->state == RESERVATION_WAITS);
    admission->holders += counts - counted;
    admission->parked += (state == RESERVATION_PARKED) - (reserved->state == RESERVATION_PARKED);
    reserved->state = state;
    if (state != RESERVATION_WAITS && state != RESERVATION_ASIDE)
        set_needs_long(admission, run, false);
    if (reserved->by_device)
        return;
    uint32_t priority = run->worker_task.rank.priority;
    admission->jobs[priority] += counts - counted;
    admission->bytes[priority] += counts ? reserved->asked_bytes : 0;
    admission->bytes[priority] -= counted ? reserved->asked_bytes : 0;
}

void admission_wait(struct job_run *run)
{
    struct admission *admission = lock(run);
    set_state(admission, run, RESERVATION_WAITS);
    pthread_mutex_unlock(&admission->lock);
}

typedef size_t need_fn(const struct format *format, uint32_t width, uint32_t height,
                       uint32_t channels, const struct encoder_settings *settings,
                       size_t metadata_bytes);

/* The most that a function returns for a format of an output: it has one, or a list. */
static size_t most_of(const struct job_run *run, size_t index, need_fn *need)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct job_output *wanted = &run->job.outputs[index];
    const struct plan_variant *v = &run->plan.variants[output->variant];
    const struct format *format = NULL;
    uint32_t channels = v->channels;
    size_t most = 0, metadata = image_info_metadata_bytes(&run->info, output->metadata);
    if (run->reserved.opaque_only && output->format && wanted->encoder.ssim == 0)
        channels = codec_opaque_channels(output->format, channels);
    if (!wanted->formats)
        return need(output->format, v->width, v->height, channels, &wanted->encoder, metadata);
    while ((format = job_outputs_next_format(wanted, format, v->width, v->height, v->channels))) {
        struct encoder_settings settings = job_outputs_settings(wanted, format);
        size_t one = need(format, v->width, v->height, v->channels, &settings, metadata);
        most = one > most ? one : most;
    }
    return most;
}

/* Memory of an output that the host encodes. */
static size_t output_need(const struct job_run *run, size_t index)
{
    const struct encoder_settings *encoder = &run->job.outputs[index].encoder;
    if (encoder->recompress)
        return codec_recompress_bytes(&run->info, run->input.bytes);
    return most_of(run, index, encoder->ssim > 0 ? codec_ssim_bytes : codec_encoder_bytes);
}

size_t admission_encoder_bytes(const struct job_run *run)
{
    size_t need = 0;
    for (size_t i = 0; i < run->job.output_count && !run->measures; i++) {
        const struct job_run_output *output = &run->outputs[i];
        if (output->error.status != STATUS_OK || !output->format ||
            output->encoder == CODEC_ON_DEVICE)
            continue;
        size_t bytes = output_need(run, i);
        if (bytes > need)
            need = bytes; /* outputs are encoded one at a time */
    }
    return need;
}

/* Whether the output is encoded by a device, or needs no encoder: tensors. */
static bool needs_no_encoder(const struct job_run_output *output)
{
    return output->encoder == CODEC_ON_DEVICE || output->format->tensor;
}

/* Whether a device decodes the input, and no worker encodes an output. */
static bool needs_device_only(const struct job_run *run)
{
    bool only = run->input.decoder == CODEC_ON_DEVICE;
    for (size_t i = 0; i < run->job.output_count; i++)
        only &= run->outputs[i].error.status != STATUS_OK || !run->outputs[i].format ||
                needs_no_encoder(&run->outputs[i]);
    return only;
}

bool admission_lends_output(const struct job_run *run, size_t index)
{
    return run->job.outputs[index].pack != JOB_FILES && needs_no_encoder(&run->outputs[index]) &&
           needs_device_only(run);
}

/* Memory of the job without its results. The decoder and the encoder never run at the same time.
 * Codecs that run on a device need no memory here. */
static size_t working_need(const struct job_run *run)
{
    size_t encoder = admission_encoder_bytes(run);
    size_t decoder = run->input.decoder == CODEC_ON_HOST ? run->info.codec_bytes : 0;
    return (encoder > decoder ? encoder : decoder) + run->plan_bytes +
           image_info_metadata_bytes(&run->info, METADATA_ALL);
}

/* A recompressed file is at most this many times as large as its input, or nearly always: a JPEG of
 * noise half as large again as its JPEG XL. */
#define RECOMPRESSED_TIMES 2

/* Results wait for Redis or a server: values, and outputs to keys and URLs. */
static size_t results_need(const struct job_run *run)
{
    size_t keys = 0;
    for (size_t i = 0; i < run->job.output_count && !run->measures; i++) {
        const struct job_run_output *output = &run->outputs[i];
        const struct job_output *wanted = &run->job.outputs[i];
        if (output->error.status != STATUS_OK || !output->format ||
            (!job_place_is_in_memory(&wanted->place) && wanted->pack == JOB_FILES) ||
            admission_lends_output(run, i))
            continue;
        keys += wanted->encoder.recompress ? RECOMPRESSED_TIMES * run->input.bytes
                                           : most_of(run, i, codec_encoded_bytes);
    }
    return run->values_bytes + (keys < KEY_OUTPUTS_BYTES_MAX ? keys : KEY_OUTPUTS_BYTES_MAX);
}

size_t admission_need(const struct job_run *run)
{
    const struct plan *plan = &run->plan;
    return plan->input_bytes + plan->output_bytes + plan->scratch_bytes + working_need(run) +
           results_need(run);
}

/* Under the lock. Whether a worker or a device can start the job soon; admission.h gives the
 * rule. */
static bool is_soon(const struct admission *admission, const struct job_run *run, size_t bytes)
{
    size_t jobs = 0, all_bytes = bytes;
    for (uint32_t p = run->worker_task.rank.priority; p < JOB_PRIORITIES; p++) {
        jobs += admission->jobs[p];
        all_bytes += admission->bytes[p];
    }
    if (run->reserved.by_device || jobs < admission->jobs_now ||
        all_bytes <= admission->jobs_max * SMALL_JOB_BYTES)
        return true;
    return jobs < admission->jobs_max &&
           (bytes <= SMALL_JOB_BYTES || engine_has_room(admission->engine, &run->plan));
}

/* The job gets its device here. The device that decodes, if the dispatcher has chosen one, is tried
 * first; otherwise the engine chooses. */
static enum engine_reserved reserve(struct engine *engine, struct job_run *run)
{
    struct engine_memory *memory = &run->reserved.memory;
    if (run->charge.on_device && engine_devices(engine) > 1 &&
        engine_device_state(engine, run->charge.device) == DEVICE_IN_SERVICE) {
        if (engine_reserve_on(engine, run->charge.device, &run->plan, memory, &run->error) ==
            ENGINE_RESERVED) {
            run->reserved.device = memory->device;
            return ENGINE_RESERVED;
        }
        run->error = (struct error){0};
    }
    enum engine_reserved reserved = engine_reserve(engine, &run->plan, memory, &run->error);
    if (reserved == ENGINE_RESERVED) {
        dispatch_move(&run->pipeline->dispatch, &run->charge, memory->device);
        run->reserved.device = memory->device;
    }
    return reserved;
}

/* The most that a job may have of the lane. */
static size_t lane_most(const struct job_run *run, size_t lane_bytes_max)
{
    return run->is_frame ? lane_bytes_max / 2 : lane_bytes_max;
}

bool admission_check(struct job_run *run, size_t lane_bytes_max)
{
    size_t most = lane_most(run, lane_bytes_max);
    run->reserved.opaque_only = false;
    size_t working = working_need(run);
    if (working <= most)
        return true;
    run->reserved.opaque_only = true;
    if (working_need(run) <= most)
        return true;
    error_set(&run->error, STATUS_OVER_BUDGET,
              "decoding and encoding %s %zu bytes; the limit is %zu bytes, three %s of "
              "host_bytes: set host_bytes to %" PRIu64 "M or more",
              run->is_frame ? "a frame needs" : "need", working, most,
              run->is_frame ? "sixteenths" : "eighths",
              options_host_mib(working, 3, run->is_frame ? 16 : 8));
    return false;
}

/* What a job needs of the lane. If the working memory and the largest possible results together
 * exceed its limit, the job reserves all of that: real results are usually smaller. false: the job
 * has failed. */
static bool lane_need(struct job_run *run, size_t *results, size_t *all)
{
    size_t lane_bytes_max = run->pipeline->admission.lane_bytes_max;
    if (!admission_check(run, lane_bytes_max))
        return false;
    size_t most = lane_most(run, lane_bytes_max);
    size_t working = working_need(run);
    *results = results_need(run);
    if (*results > most - working)
        *results = most - working;
    *all = working + *results;
    run->reserved.by_device = needs_device_only(run) ||
                              (run->charge.on_device && run->charge.request.kind == DISPATCH_AVIF);
    return true;
}

/* Under the lock. Gives the job its part of the lane; false: it must wait. */
static bool take_lane(struct admission *admission, struct job_run *run, size_t results, size_t all)
{
    size_t asked = admission_need(run);
    bool soon = is_soon(admission, run, asked);
    admission->is_short = soon; /* if it is refused */
    if (!soon || all > admission->lane_bytes_max - admission->lane_bytes)
        return false;
    admission->lane_bytes += all;
    run->reserved.lane_bytes = all;
    run->reserved.results_room = results;
    run->reserved.asked_bytes = asked;
    set_state(admission, run, RESERVATION_HELD);
    return true;
}

/* Under the lock, after reserve(). true: admitted, or failed. */
static bool settle(struct admission *admission, struct job_run *run, enum engine_reserved reserved)
{
    if (reserved == ENGINE_RESERVED)
        return true;
    bool waits = reserved == ENGINE_WAIT;
    admission->lane_bytes -= run->reserved.lane_bytes;
    run->reserved.lane_bytes = run->reserved.results_room = 0;
    set_state(admission, run, waits ? RESERVATION_WAITS : RESERVATION_NONE);
    admission->is_short = waits;
    return !waits;
}

/* The lock is held while the engine is asked, so that no job overtakes the line meanwhile. */
bool admission_try(struct job_run *run)
{
    size_t results, all;
    bool through = !lane_need(run, &results, &all);
    struct admission *admission = lock(run);
    if (through)
        set_state(admission, run, RESERVATION_NONE);
    else if (take_lane(admission, run, results, all))
        through = settle(admission, run, reserve(admission->engine, run));
    pthread_mutex_unlock(&admission->lock);
    return through;
}

/* The lock is not held while the engine is asked: many threads are here at once. If the engine
 * refuses a job, the loop tries it again, because memory may have been given back meanwhile. */
bool admission_pass(struct job_run *run)
{
    size_t results, all;
    if (!lane_need(run, &results, &all))
        return true;
    struct admission *admission = lock(run);
    bool goes = admission->line == 0 && take_lane(admission, run, results, all);
    if (!goes)
        set_state(admission, run, RESERVATION_WAITS);
    pthread_mutex_unlock(&admission->lock);
    if (!goes)
        return false;
    enum engine_reserved reserved = reserve(admission->engine, run);
    if (reserved == ENGINE_RESERVED)
        return true;
    pthread_mutex_lock(&admission->lock);
    bool through = settle(admission, run, reserved);
    pthread_mutex_unlock(&admission->lock);
    return through;
}

static size_t room_in(struct pool_usage usage)
{
    return usage.used < usage.budget ? usage.budget - usage.used : 0;
}

/* Sets `memory` to the device with the most room. */
static void look_at_devices(struct engine *engine, struct blocked_memory *memory)
{
    for (uint32_t d = 0; d < engine_devices(engine); d++) {
        struct pool_usage usage = engine_device_usage(engine, d);
        if (memory->limit == 0 || room_in(usage) > memory->free) {
            memory->free = room_in(usage);
            memory->limit = usage.budget;
        }
    }
}

void admission_look(struct job_run *run, struct blocked_memory *memory)
{
    struct admission *admission = lock(run);
    const struct plan *plan = &run->plan;
    size_t heap = working_need(run) + results_need(run), limit = admission->lane_bytes_max;
    size_t room = limit - admission->lane_bytes;
    bool is_short = admission->line > 0 && admission->is_short;
    pthread_mutex_unlock(&admission->lock);
    struct pool_usage usage = engine_pinned_usage(admission->engine);
    size_t pinned = engine_pinned_need(admission->engine, plan);
    *memory = (struct blocked_memory){.since_ns = run->timing.entered_ns};
    if (!is_short)
        return;
    if (heap > room) {
        *memory = (struct blocked_memory){BLOCKED_BY_CODECS, heap < limit ? heap : limit, room,
                                          limit, run->timing.entered_ns};
    } else if (pinned > room_in(usage) || engine_is_synchronous(admission->engine)) {
        *memory = (struct blocked_memory){BLOCKED_BY_PINNED, pinned, room_in(usage), usage.budget,
                                          run->timing.entered_ns};
    } else {
        memory->by = BLOCKED_BY_DEVICE;
        memory->wanted = plan->device_bytes;
        look_at_devices(admission->engine, memory);
    }
}

bool admission_step_aside(struct job_run *run)
{
    struct admission *admission = lock(run);
    bool aside = admission->holders == 0;
    if (aside) {
        set_state(admission, run, RESERVATION_ASIDE);
        set_needs_long(admission, run, admission->long_bytes > 0);
    }
    pthread_mutex_unlock(&admission->lock);
    return aside;
}

/* Under the lock. */
static void keep(struct admission *admission, struct job_run *run, size_t need)
{
    if (run->reserved.lane_bytes <= need)
        return;
    admission->lane_bytes -= run->reserved.lane_bytes - need;
    run->reserved.lane_bytes = need;
}

void admission_keep_encoder(struct job_run *run)
{
    size_t need = admission_encoder_bytes(run) + run->plan_bytes +
                  image_info_metadata_bytes(&run->info, METADATA_ALL);
    struct admission *admission = lock(run);
    keep(admission, run, need + run->reserved.results_room);
    pthread_mutex_unlock(&admission->lock);
}

bool admission_extend(struct job_run *run, size_t bytes)
{
    struct admission *admission = lock(run);
    bool fits = bytes <= admission->lane_bytes_max - admission->lane_bytes;
    if (fits) {
        admission->lane_bytes += bytes;
        run->reserved.lane_bytes += bytes;
        run->reserved.results_room += bytes;
    }
    pthread_mutex_unlock(&admission->lock);
    return fits;
}

bool admission_lend(struct admission *admission, size_t bytes, bool *exhausted)
{
    pthread_mutex_lock(&admission->lock);
    bool fits = bytes <= admission->lane_bytes_max - admission->lane_bytes;
    admission->lane_bytes += fits ? bytes : 0;
    pthread_mutex_unlock(&admission->lock);
    *exhausted = bytes > admission->lane_bytes_max;
    return fits;
}

void admission_end_loan(struct admission *admission, size_t bytes)
{
    pthread_mutex_lock(&admission->lock);
    admission->lane_bytes -= bytes;
    pthread_mutex_unlock(&admission->lock);
}

bool admission_lend_long(struct admission *admission, size_t bytes, bool *exhausted)
{
    size_t most = admission->lane_bytes_max / 2;
    pthread_mutex_lock(&admission->lock);
    bool fits = bytes <= admission->lane_bytes_max - admission->lane_bytes &&
                admission->long_bytes + bytes <= most && admission->need_long == 0;
    admission->lane_bytes += fits ? bytes : 0;
    admission->long_bytes += fits ? bytes : 0;
    pthread_mutex_unlock(&admission->lock);
    *exhausted = bytes > most;
    return fits;
}

void admission_end_long(struct admission *admission, size_t bytes)
{
    pthread_mutex_lock(&admission->lock);
    admission->lane_bytes -= bytes;
    admission->long_bytes -= bytes;
    admission->long_ended = true;
    pthread_mutex_unlock(&admission->lock);
}

bool admission_has_long(struct admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    bool has = admission->long_bytes > 0;
    pthread_mutex_unlock(&admission->lock);
    return has;
}

bool admission_take_long_end(struct admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    bool ended = admission->long_ended;
    admission->long_ended = false;
    pthread_mutex_unlock(&admission->lock);
    return ended;
}

bool admission_release(struct job_run *run)
{
    struct admission *admission = lock(run);
    bool had_part = run->reserved.state != RESERVATION_NONE;
    if (had_part) {
        assert(run->reserved.results_bytes <= run->reserved.lane_bytes);
        keep(admission, run, run->reserved.results_bytes);
        set_state(admission, run, RESERVATION_NONE);
    }
    bool others_wait = had_part && admission->line > 0;
    pthread_mutex_unlock(&admission->lock);
    if (had_part)
        engine_release(admission->engine, &run->reserved.memory);
    return others_wait;
}

void admission_end_result(struct job_run *run, size_t bytes)
{
    struct admission *admission = lock(run);
    size_t held = run->reserved.lane_bytes, results = run->reserved.results_bytes;
    keep(admission, run, held > bytes ? held - bytes : 0);
    run->reserved.results_bytes = results > bytes ? results - bytes : 0;
    pthread_mutex_unlock(&admission->lock);
}

void admission_settle(struct job_run *run)
{
    if (run->reserved.lane_bytes == 0)
        return;
    struct admission *admission = lock(run);
    keep(admission, run, 0);
    pthread_mutex_unlock(&admission->lock);
}

void admission_park(struct job_run *run)
{
    struct admission *admission = lock(run);
    set_state(admission, run, RESERVATION_PARKED);
    pthread_mutex_unlock(&admission->lock);
}

void admission_abandon(struct job_run *run)
{
    struct admission *admission = lock(run);
    if (run->reserved.state == RESERVATION_HELD)
        set_state(admission, run, RESERVATION_ABANDONED);
    pthread_mutex_unlock(&admission->lock);
}
