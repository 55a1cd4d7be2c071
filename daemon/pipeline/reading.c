#include "daemon/pipeline/reading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/jpeg/frame.h"
#include "codecs/strip.h"
#include "conf/clock.h"
#include "daemon/overlays/overlays.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/planning.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/route.h"
#include "daemon/pipeline/set_stage.h"
#include "daemon/pipeline/state.h"

/* Whether the file pool can ever hold the input, plus one byte for files_read_input. A device that
 * reads the file needs no room there, but may decline it. */
static bool fits_pool(struct job_run *run)
{
    struct pool *pool = run->pipeline->file_pool;
    if (pool_fits(pool, run->input.bytes + 1))
        return true;
    error_set(&run->error, STATUS_OVER_BUDGET, /* uncovered: net */
              "the input needs %" PRIu64 " bytes; the limit is %zu bytes, half of host_bytes",
              run->input.bytes, pool_usage(pool).budget - HOST_FILES_SPARE);
    return false;
}

/* Takes room for the input from the file pool; evicts unused overlays if it is full. false: the job
 * waits for room, or has failed. */
static bool take_room(struct job_run *run)
{
    bool exhausted = false;
    size_t held = run->overlays.held;
    if (overlays_take(run->pipeline->overlays, run->input.bytes + 1, held, &run->input.file,
                      &exhausted))
        return true;
    if (!exhausted) {
        run->wait.lack = LACKS_FILES;
        return false;
    }
    if (!overlays_fit(run->pipeline->overlays, run->input.bytes + 1, held))
        error_set(&run->error, STATUS_OVER_BUDGET,
                  "with %zu bytes of overlays, the input of %" PRIu64 " bytes does not fit into "
                  "half of host_bytes", held, run->input.bytes);
    else
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for an input of %" PRIu64 " bytes",
                  run->input.bytes);
    return false;
}

static void see_file(struct job_run *run)
{
    run->input.seen = run->input.file.memory;
    run->input.seen_bytes = run->input.bytes;
}

static bool open_path(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    struct files_input input;
    run->input.is_open |= run->input.is_lent; /* a member, which needs no path */
    if (run->input.is_open)                   /* or a device has declined it */
        return true;
    if (files_open_input(pipeline->parts.files, run->is_image ? &run->set->inputs_known : NULL,
                         run->job.input.path, run->bounds.input_bytes_max, &input,
                         &run->error) != STATUS_OK) {
        run->is_lasting = files_is_lasting(input.reason);
        return false;
    }
    run->input.is_open = true;
    run->input.fd = input.fd;
    run->input.bytes = input.size;
    run->input.identity = input.identity;
    atomic_fetch_add(&pipeline->inputs_open, 1);
    return true;
}

/* Reads the head of a file that a device may decode. It should be short, because it is copied to
 * pinned memory, where the rest of the file is read to directly. false: the whole file is needed. A
 * member may have only a head: its file stays open anyway. */
static bool read_head(struct job_run *run, struct worker_tools *tools)
{
    struct pipeline *pipeline = run->pipeline;
    uint64_t all = run->input.bytes, most = all < INPUT_HEAD_BYTES ? all : INPUT_HEAD_BYTES;
    uint64_t next = all <= INPUT_HEAD_BYTES ? all : INPUT_HEAD_FIRST_BYTES;
    bool has_header = false;
    if (!engine_codecs(pipeline->parts.engine).decodes[DEVICE_CODEC_JPEG] || run->input.declined ||
        (all <= INPUT_HEAD_BYTES && !run->input.is_lent) ||
        atomic_load(&pipeline->inputs_open) > pipeline->inputs_open_max)
        return false;
    for (uint64_t seen = 0; !has_header && seen < most; next = most) {
        if (pread(run->input.fd, tools->sink + seen, next - seen,
                  (off_t)(run->input.offset + seen)) != (ssize_t)(next - seen))
            return false;
        seen = run->input.seen_bytes = next;
        size_t header = jpeg_header_bytes(tools->sink, seen);
        /* A header with an index of further images (MPF): one of them may be a gain map, and is
         * looked for in the whole head. */
        bool has_more = seen < most && memmem(tools->sink, header, "MPF", sizeof "MPF");
        has_header = header > 0 && !has_more;
    }
    tools->head_of = run;
    return has_header;
}

/* Reads the file into the file pool, except the head if that was read. */
static bool read_whole(struct job_run *run)
{
    struct job_run_input *input = &run->input;
    if (!take_room(run))
        return false;
    memcpy(input->file.memory, input->seen, input->seen_bytes);
    enum status status =
        job_input_read(run, input->file.memory, input->seen_bytes, NULL, &run->error);
    see_file(run);
    return status == STATUS_OK;
}

static bool read_loaded(struct job_run *run)
{
    if (!take_room(run))
        return false;
    memcpy(run->input.file.memory, run->input.loaded, run->input.bytes);
    free(run->input.loaded); /* spine_done returns its budget, on the loop */
    run->input.loaded = NULL;
    see_file(run);
    return true;
}

/* false: the job waits for room, or has failed. */
static bool read_input(struct job_run *run, struct worker_tools *tools)
{
    run->input.seen = tools->sink; /* nothing is seen yet; read_head may put the head here */
    run->input.seen_bytes = 0;
    if (run->input.loaded)
        return fits_pool(run) && read_loaded(run);
    if (!run->input.file.memory)
        return open_path(run) && fits_pool(run) && (read_head(run, tools) || read_whole(run));
    see_file(run); /* a device has declined it */
    return true;
}

/* The clock stops between read and decode. A read that found no room costs the job no time. */
static void stop_clock(struct job_run *run)
{
    uint64_t now_ns = clock_now_ns(), deadline_ns = atomic_load(&run->timing.deadline_ns);
    bool began = run->wait.lack == LACKS_NOTHING;
    if (now_ns >= deadline_ns && began)
        job_run_set_late(run, &run->error);
    if (began)
        run->timing.left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    atomic_store(&run->timing.deadline_ns, CLOCK_STANDS);
}

/* Keeps only little memory on the heap until the job is admitted. */
static void drop_large(struct job_run *run)
{
    if (run->error.status != STATUS_OK) {
        release_plan(run);
        return;
    }
    if (image_info_metadata_bytes(&run->info, METADATA_ALL) > METADATA_KEPT_BYTES)
        image_info_drop_metadata(&run->info);
    if (run->plan_bytes > PLAN_KEPT_BYTES)
        plan_drop_passes(&run->plan);
}

static void probe_and_plan(struct job_run *run, struct worker_tools *tools)
{
    struct error error = {0};
    job_run_bound_codec(run);
    run->bounds.codec.metadata = planning_metadata(run);
    run->bounds.codec.keeps_orientation = !run->job.orient;
    run->bounds.codec.page = run->job.page;
    if (strip_probe(tools->codec, run->input.seen, run->input.seen_bytes, &run->bounds.codec,
                    run->job.strip, &run->info, &error) == STATUS_OK)
        planning_build(run, tools);
    else
        job_run_take_codec_error(run, &error);
}

/* Whether a device decodes the file and only its head was read. Then fd stays open, and decoding.c
 * reads the file into pinned memory, in DECODE. */
static bool is_read_later(const struct job_run *run)
{
    return run->error.status == STATUS_OK && run->input.decoder == CODEC_ON_DEVICE &&
           !run->input.file.memory;
}

static void read_and_plan(struct job_run *run, struct worker_tools *tools)
{
    if (!read_input(run, tools))
        return;
    probe_and_plan(run, tools);
    if (run->error.status == STATUS_OK && !is_read_later(run) && !run->input.file.memory &&
        !read_whole(run))
        release_plan(run);
    drop_large(run);
}

/* Whether the input is a member of an archive, which is read only once. */
static bool is_member(const struct job_run *run)
{
    return run->is_image && run->image_name && !run->input.is_open;
}

/* An overlay, or the plan, failed for lack of room: the job must read again. */
static void give_up_read(struct job_run *run, enum lack lack)
{
    run->error = (struct error){0};
    run->wait.lack = lack;
    release_plan(run);
    route_end(run);
    if (is_member(run))
        return;
    pool_give(run->pipeline->file_pool, &run->input.file);
    run->trimmed = (struct trim_part){0}; /* the next read may be of other bytes */
}

enum stage_result reading_run(struct job_run *run, struct worker_tools *tools)
{
    struct pipeline *pipeline = run->pipeline;
    struct overlay_maker maker = {.overlays = pipeline->overlays,
                                  .files = pipeline->parts.files,
                                  .codec = tools->codec,
                                  .limits = &run->bounds.codec,
                                  .bytes_max = run->bounds.input_bytes_max,
                                  .settled_s = OVERLAY_SETTLED_S,
                                  .lend = admission_lend,
                                  .end_loan = admission_end_loan,
                                  .admission = &pipeline->admission};
    if (job_is_set(&run->job))
        return set_stage_read(run, tools);
    run->wait.lack = LACKS_NOTHING;
    job_overlays_use(run, &maker); /* for the plan; no effect on a job without overlays */
    if (run->input.step == READ_OVERLAY)
        job_overlays_take_key(run);
    else
        read_and_plan(run, tools);
    run->overlays.maker = NULL;
    if (maker.lack != LACKS_NOTHING)
        give_up_read(run, maker.lack);
    bool lacks = run->wait.lack != LACKS_NOTHING;
    if (lacks)
        job_overlays_release(run);
    if (lacks || !is_read_later(run))
        job_input_close(run);
    stop_clock(run);
    if (lacks)
        return RESULT_WAIT;
    return run->input.step == READ_OVERLAY ? RESULT_AGAIN : RESULT_NEXT;
}
