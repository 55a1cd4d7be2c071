#include "daemon/pipeline/set_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/animation.h"
#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/counting.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/planning.h"
#include "daemon/pipeline/release.h"
#include "daemon/pipeline/route.h"
#include "daemon/pipeline/set_stage.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"
#include "daemon/pipeline/trace_hooks.h"
#include "daemon/pipeline/uploads.h"
#include "queue/job/member_name.h"

/* A worker may take several such images at once (workers.h). */
#define BRIEF_MS 0.1

/* ---- the beginning -------------------------------------------------------------------------- */

/* Of the lease, without the lease. */
static void take_lease(struct job_run *run, const struct job_run *owner)
{
    run->queue = owner->queue;
    run->number = owner->number;
    run->shard = owner->shard;
    run->shards = owner->shards;
    run->fetch = owner->fetch;
    run->attempt = owner->attempt;
    run->alone = owner->alone;
}

static void take_times(struct job_run *run, const struct job_run *owner)
{
    run->timing.fetched_ns = run->pipeline->pumped_ns;
    atomic_store_explicit(&run->timing.deadline_ns, CLOCK_STANDS, memory_order_relaxed);
    run->timing.left_ns = (uint64_t)(owner->job.timeout_s * NS_PER_S);
    run->timing.waits_until_ns = UINT64_MAX; /* the job may wait, not an image of it */
    run->timing.queue_ms = -1;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        run->timing.ms[stage] = -1;
}

/* Without strings: those that an image reads belong to the set. */
static void take_job(struct job_run *run)
{
    const struct set_model *model = &run->set->model;
    const struct job *from = &model->job;
    run->bounds = model->bounds;
    run->bounds.codec.caller = &run->bounds.caller;
    memset(&run->job, 0, offsetof(struct job, outputs));
    memcpy(run->job.background, from->background, sizeof from->background);
    run->job.listed = from->listed;
    run->job.orient = from->orient;
    run->job.trim = from->trim;
    run->job.frames = from->frames;
    run->job.page = from->page;
    run->job.strip = from->strip;
    run->job.timeout_s = from->timeout_s;
    run->job.output_count = from->output_count;
    memcpy(run->job.outputs, from->outputs, from->output_count * sizeof *from->outputs);
    memset(run->outputs, 0, from->output_count * sizeof *run->outputs);
    for (size_t i = 0; i < from->output_count; i++)
        run->outputs[i].ops = model->ops[i];
    job_overlays_begin(run);
    run->overlays.count = model->overlays;
    run->overlays.key_count = model->overlay_keys;
}

static bool has_template(const struct job_output *output)
{
    return output->pack == JOB_FILES && job_place_is_given(&output->place);
}

/* An output that is added to a tar or an array: it is in memory until then. */
static void name_part(struct job_output *output)
{
    if ((output->pack == JOB_ARRAY || output->pack == JOB_MOVIE) && !output->format)
        output->format = format_of_path(output->place.path)->name;
    output->place = (struct job_place){0};
}

/* Fills in the templates with the image's name. All texts are in one block, job.texts. */
static void name_outputs(struct job_run *run, const char *name)
{
    struct job_place place;
    bool is_url = run->job.input.url != NULL;
    size_t used = 0, count = 0;
    for (size_t i = 0; i < run->job.output_count; i++)
        count += has_template(&run->job.outputs[i]);
    char *texts = count > 0 ? malloc(count * (JOB_URL_BYTES_MAX + 1)) : NULL;
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct job_output *output = &run->job.outputs[i];
        if (!has_template(output))
            continue;
        if (!texts) { /* uncovered: memory */
            error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for the names of an image");
            return;
        }
        if (member_output(&output->place, name, is_url, run->image, run->bounds.ns, texts + used,
                          &place, &run->outputs[i].error) != STATUS_OK)
            continue;
        output->place = place;
        used += strlen(texts + used) + 1;
    }
    run->job.texts = texts;
}

/* The names of inputs, and of tars and arrays. */
static void add_fixed(struct image_set *set, const char *path, bool is_output)
{
    switch (set_names_add(&set->names, 'p', path, false)) {
    case NAME_IS_KNOWN:
        if (is_output)
            error_set(&set->error, STATUS_BAD_JOB,
                      "the output \"%.150s\" is also an input of the "
                      "job, or another output; give it another name",
                      path);
        break;
    case NAME_LACKS_MEMORY: /* uncovered: memory */
        error_set(&set->error, STATUS_OUT_OF_MEMORY, "no memory for the names of the inputs");
        break;
    default:
        break;
    }
}

/* If input_root is output_root, no image may be written to an input of another. */
static void add_inputs(struct image_set *set, const struct job_run *run)
{
    char text[JOB_URL_BYTES_MAX + 1];
    const struct job *job = &set->owner->job;
    uint64_t count = job->input_count + set->source.names.count; /* one of them */
    for (uint64_t i = 0; run->bounds.same_root && i < count; i++) {
        const char *path = set_source_path(&set->source, i, text);
        if (path)
            add_fixed(set, path, false);
    }
    set->has_input_names = true;
    for (size_t i = 0; i < job->output_count; i++)
        if (job->outputs[i].pack != JOB_FILES)
            add_fixed(set, job->outputs[i].place.path, true);
}

static const char *text_of_place(const struct job_place *place)
{
    return place->path ? place->path : place->key ? place->key : place->url;
}

/* Fails the output of an image if an earlier image of the job has its name, or an input. */
static void check_name(struct image_set *set, const struct job_place *place, const char *template,
                       bool is_distinct, struct error *error)
{
    char kind = place->path ? 'p' : place->key ? 'k' : 'u';
    const char *name = text_of_place(place);
    switch (set_names_add(&set->names, kind, name, is_distinct)) {
    case NAME_IS_NEW:
        return;
    case NAME_IS_KNOWN:
        error_set(error, STATUS_BAD_JOB,
                  "an earlier image has the output \"%.150s\", too, or it "
                  "is an input of the job; put %%n into the name",
                  name);
        return;
    case NAME_LACKS_PLACE: /* and so will all later images */
        error_set(error, STATUS_BAD_JOB,
                  "the job has more than %d outputs of images, and their names can no longer be "
                  "compared; put %%n into \"%.100s\", so that they differ, or use a tar",
                  SET_NAMES_MAX, template);
        error_set(&set->error, error->status, "%s", error->text);
        return;
    case NAME_LACKS_MEMORY: /* uncovered: memory */
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the names of outputs");
    }
}

/* Whether no two names of the output are equal, nor one of them and one of another output. */
static bool are_distinct(const struct job *model, size_t index)
{
    const char *template = text_of_place(&model->outputs[index].place);
    bool are = member_names_differ(template);
    for (size_t i = 0; i < model->output_count && are; i++)
        are = i == index || !job_place_is_given(&model->outputs[i].place) ||
              member_templates_part(template, text_of_place(&model->outputs[i].place));
    return are;
}

static void check_names(struct image_set *set, struct job_run *run)
{
    if (!set->has_input_names)
        add_inputs(set, run);
    for (size_t i = 0; i < run->job.output_count; i++) {
        const struct job_place *place = &run->job.outputs[i].place;
        struct error *error = &run->outputs[i].error;
        if (job_place_is_given(place) && error->status == STATUS_OK)
            check_name(set, place, text_of_place(&set->model.job.outputs[i].place),
                       are_distinct(&set->model.job, i), error);
    }
}

static void name_image(struct job_run *run, const struct job_place *place)
{
    char url[JOB_URL_BYTES_MAX + 1];
    if (place)
        run->job.input = *place;
    name_outputs(run, place ? member_of_place(place, run->bounds.ns, url) : run->image_name);
    check_names(run->set, run);
}

void set_image_prepare(struct job_run *run)
{
    if (run->is_prepared)
        return;
    take_job(run);
    run->job.input.path = run->image_name;
    run->is_prepared = true;
}

static void prepare_early(struct job_run *run, const struct job_place *place)
{
    set_image_prepare(run);
    name_image(run, place);
    if (run->error.status == STATUS_OK)
        planning_check_image(run);
}

void set_image_model(struct image_set *set, const struct job_run *owner)
{
    struct set_model *model = &set->model;
    model->job = owner->job;
    model->bounds = owner->bounds;
    model->overlays = owner->overlays.count;
    model->overlay_keys = owner->overlays.key_count;
    model->is_early = model->overlay_keys > 0;
    for (size_t i = 0; i < owner->job.output_count; i++) {
        model->ops[i] = owner->outputs[i].ops;
        model->is_early |= has_template(&owner->job.outputs[i]);
        if (!has_template(&owner->job.outputs[i]))
            name_part(&model->job.outputs[i]);
    }
}

/* The bytes of a member, or where they are in the archive. */
static void take_input(struct job_run *run, struct set_item *item)
{
    struct source_image *source = &item->source;
    run->is_frame = codec_is_animation(&run->set->source.animation);
    run->input.bytes = source->bytes;
    run->input.file = source->block;
    source->block = (struct pool_block){0};
    run->input.is_lent = run->input.is_open = source->is_in_file;
    run->input.fd = run->set->source.fd;
    run->input.offset = source->is_in_file ? source->offset : 0;
    run->image_name = source->name; /* of the run: a zombie outlives its item */
    source->name = NULL;
    run->error = source->error;
}

static struct job_run *take_slot(struct pipeline *pipeline)
{
    struct list_node *node = pipeline->free_images.head.prev;
    if (list_empty(&pipeline->free_images))
        return NULL;
    /* The slot that became free last: it is still in the caches of this thread. */
    struct job_run *run = container_of(node, struct job_run, node);
    job_run_reset(run, pipeline);
    run->is_image = true;
    return run;
}

/* Whether images have needed little of a worker's time, and this one, too, is a short file. At
 * first the time is not known, and of files that are not yet open neither is the length. */
static bool is_brief(const struct pipeline *pipeline, const struct set_item *item)
{
    return pipeline->image_ms > 0 && pipeline->image_ms < BRIEF_MS &&
           item->source.bytes <= INPUT_HEAD_BYTES;
}

bool set_image_begin(struct image_set *set, struct set_item *item)
{
    const struct job_run *owner = set->owner;
    struct job_run *run = take_slot(set->pipeline);
    if (!run)
        return false;
    run->set = set;
    run->item = item;
    run->image = item->image;
    item->run = run;
    set_item_mark(item, ITEM_RUNS);
    set->references++;
    set->running++;
    run->worker_task.run = owner->worker_task.run;
    run->worker_task.done = owner->worker_task.done;
    run->worker_task.rank = ranks_next(&set->pipeline->ranks, owner->worker_task.rank.priority);
    run->worker_task.brief = is_brief(set->pipeline, item);
    take_lease(run, owner);
    take_times(run, owner);
    trace_hooks_begin(run);
    take_input(run, item);
    if (set->model.is_early || item->source.place || run->error.status != STATUS_OK)
        prepare_early(run, item->source.place);
    set->pipeline->begin(run, OUTCOME_OPEN);
    return true;
}

/* ---- the end -------------------------------------------------------------------------------- */

bool set_image_joins(struct job_run *run)
{
    if (run->error.status != STATUS_OK || run->disk_error.status != STATUS_OK || run->lacks_room ||
        !job_run_is_open(run) || uploads_are_due(run))
        return false;
    run->has_given = job_input_give(run);
    job_input_close(run);
    route_end(run);
    image_info_clear(&run->info);
    job_run_stop_clock(run);
    if (run->is_parked)
        admission_park(run);
    run->has_joined = true;
    return true;
}

static const char *name_of(const struct job_run *run, char url[JOB_URL_BYTES_MAX + 1])
{
    return job_place_name(&run->job.input, url);
}

/* An error that a later attempt may not have ends the job, which is then retried as a whole. On its
 * last attempt it counts as any other error. So does a permission that is missing: a retry would
 * process all other images again for nothing. */
static void note_failure(struct image_set *set, const struct job_run *run,
                         const struct error *error)
{
    char url[JOB_URL_BYTES_MAX + 1];
    bool is_retried = status_retryable(error->status) && !run->is_lasting && set->owner &&
                      !queue_last_attempt(set->owner->lease);
    if (is_retried || (set->owner && set->owner->job.fails_on_error))
        set->error = set->error.status == STATUS_OK ? *error : set->error;
    image_set_note_error(set, run->item->image, name_of(run, url), error);
}

/* Updates the average time of a worker per image. */
static void note_length(const struct job_run *run)
{
    double *mean = &run->pipeline->image_ms, ms = 0;
    for (enum stage stage = STAGE_READ; stage <= STAGE_ENCODE; stage++)
        if (stage != STAGE_ADMIT && run->timing.ms[stage] > 0)
            ms += run->timing.ms[stage];
    *mean = *mean > 0 ? *mean + (ms - *mean) / 16 : ms;
}

void set_image_count_outputs(const struct job_run *run)
{
    struct image_set *set = run->set;
    set->device = run->reserved.device;
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct set_total *total = &set->totals[i];
        total->format = run->outputs[i].format;
        total->encoder = run->outputs[i].encoder;
        if (run->job.outputs[i].pack != JOB_FILES)
            continue; /* its numbers are known when the tar or array is in its place */
        total->images += run->outputs[i].bytes > 0;
        total->bytes += run->outputs[i].bytes;
    }
}

static void note_success(struct image_set *set, const struct job_run *run)
{
    note_length(run);
    set->done++;
    set->pixels += (uint64_t)run->info.width * run->info.height;
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].values)
            image_set_note_values(set, run->item, i, run->outputs[i].values);
    set_image_count_outputs(run);
}

static void leave_set(struct job_run *run, enum set_item_state state)
{
    struct image_set *set = run->set;
    run->item->run = NULL;
    set_item_mark(run->item, state);
    set->running--;
    pipeline_wake(run->pipeline);
}

void set_image_end(struct job_run *run)
{
    struct image_set *set = run->set;
    bool returns = run->outcome == OUTCOME_RETURNED,
         ends = run->outcome != OUTCOME_LOST && !returns;
    if (returns) {
        set->must_return = true;
        set->lacks_room |= run->lacks_room;
    } else if (ends && run->error.status != STATUS_OK) {
        note_failure(set, run, &run->error);
    } else if (ends) {
        note_success(set, run);
    }
    if (ends)
        counting_image(run);
    if (job_run_is_open(run))
        job_run_decide(run, OUTCOME_ANSWERED);
    leave_set(run, ITEM_ENDED);
    release_slot(run);
}

void set_image_abandon(struct job_run *run, const struct error *error)
{
    struct image_set *set = run->set;
    if (run->outcome != OUTCOME_LOST)
        job_run_decide(run, OUTCOME_LOST);
    admission_abandon(run);
    stage_make_zombie(run);
    if (atomic_load(&run->at) > STAGE_READ)
        job_input_end_key(run);
    if (error) {
        note_failure(set, run, error);
        run->pipeline->parts.totals->images_failed++; /* its worker may still write the rest */
    } else {
        set->must_return = true;
    }
    leave_set(run, ITEM_ENDED);
}
