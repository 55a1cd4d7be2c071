#include "daemon/pipeline/set_stage.h"

#include <assert.h>
#include <stdlib.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "conf/text.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/job_input.h"
#include "daemon/pipeline/line.h"
#include "daemon/pipeline/planning.h"
#include "daemon/pipeline/set_image.h"
#include "daemon/pipeline/set_spill.h"
#include "daemon/pipeline/set_work.h"
#include "daemon/pipeline/stage.h"
#include "daemon/pipeline/state.h"

/* For how long a job keeps a place in which it only waits for its turn, if there is no other. */
#define MAKE_ROOM_S 1
#define AHEAD_MS    20

/* ---- the ring ------------------------------------------------------------------------------- */

/* Images of all sets that may have begun. If workers compute them, more than they finish in
 * AHEAD_MS would only delay single jobs. */
static uint64_t most_images(const struct pipeline *pipeline)
{
    uint64_t workers = pipeline->parts.options->workers, slots = pipeline->image_slots;
    double ahead = pipeline->image_ms > 0 ? (double)workers * AHEAD_MS / pipeline->image_ms : 0;
    if (!engine_is_synchronous(pipeline->parts.engine) || ahead >= (double)slots)
        return slots;
    uint64_t most = 2 * workers + (uint64_t)ahead;
    return most < slots ? most : slots;
}

/* Images that the set may have begun. */
static uint64_t share(const struct image_set *set)
{
    uint64_t images = most_images(set->pipeline) / set->pipeline->sets_active;
    return images > 0 ? images : 1;
}

/* An image that is in its tar or array, or that these have refused, ends. */
static void end_packed(struct image_set *set, struct set_item *item)
{
    struct job_run *run = item->run;
    if (!run) {
        set->copied++;
        set_item_mark(item, ITEM_ENDED);
        return;
    }
    if (item->source.error.status != STATUS_OK)
        run->error = item->source.error;
    set_image_end(run);
}

/* Frees the oldest items that have ended. */
static void retire(struct image_set *set)
{
    for (; set->first < set->begun; set->first++) {
        struct set_item *item = image_set_item(set, set->first);
        if (atomic_load(&item->state) == ITEM_PACKED)
            end_packed(set, item);
        if (atomic_load(&item->state) != ITEM_ENDED)
            return;
        image_set_take_values(set, item);
        image_set_clear_item(set, item);
        set_item_mark(item, ITEM_FREE);
    }
}

/* Gives the next places or names of a source that needs no worker. */
static void read_quickly(struct image_set *set)
{
    while (set->is_opened && set_source_is_quick(&set->source) && set_work_can_read(set))
        set_work_read_one(set, &set->error);
}

static void begin_images(struct image_set *set)
{
    uint64_t most = share(set);
    read_quickly(set);
    for (; set->begun < set->read; set->begun++) {
        struct set_item *item = image_set_item(set, set->begun);
        if (atomic_load(&item->state) == ITEM_READ &&
            (set->running >= most || !set_image_begin(set, item)))
            return;
        read_quickly(set);
    }
}

/* ---- turns ---------------------------------------------------------------------------------- */

static bool is_animation(const struct job_run *owner)
{
    return owner->job.source == JOB_ANIMATION;
}

/* Further animations let other jobs pass, because each holds a canvas (set_source.sharers). No job
 * passes one that waits for the descriptors of its tars, or jobs with fewer would always be first.
 */
static void activate(struct pipeline *pipeline)
{
    uint32_t packs_max = pipeline->sets_max + SET_PACKS_MORE;
    list_each (node, &pipeline->sets) {
        struct image_set *set = container_of(node, struct image_set, node);
        if (pipeline->sets_active == pipeline->sets_max)
            return;
        if (set->is_active || !set->owner ||
            (is_animation(set->owner) &&
             pipeline->animations_active == pipeline->animations_max))
            continue;
        if (pipeline->packs_open + set->pack_count > packs_max)
            return;
        set->is_active = true;
        pipeline->sets_active++;
        pipeline->packs_open += set->pack_count;
        set->holds_packs = true;
        pipeline->animations_active += is_animation(set->owner);
    }
}

/* Whether the job can end now, and how. The set has no worker. */
static enum stage_result judge(struct image_set *set)
{
    struct job_run *owner = set->owner;
    bool is_read = set->step == SOURCE_END && set->begun == set->read;
    if (set->must_return) {
        owner->lacks_room = set->lacks_room;
        return RESULT_RETURN;
    }
    if (set->error.status != STATUS_OK) {
        owner->error = set->error;
        return RESULT_END;
    }
    if (!is_read || set->first < set->read)
        return RESULT_WAIT;
    if (set->done == 0 && set->failed > 0) {
        owner->error = set->first_error;
        return RESULT_END;
    }
    set->is_finishing = set->pack_count > 0 && !set->is_placed;
    set->is_unshared = set->references == 2; /* the job, and pipeline->sets */
    return set->is_finishing ? RESULT_RUN : RESULT_NEXT;
}

static void run_worker(struct image_set *set)
{
    struct job_run *owner = set->owner;
    owner->timing.left_ns = (uint64_t)(owner->job.timeout_s * NS_PER_S);
    set->files_given = set->pipeline->files_given;
    set->stepped_ns = set->pipeline->pumped_ns;
    pipeline_resume(owner, RESULT_RUN);
}

/* Ends and begins images, also while a worker writes or reads others. */
static void turn_ring(struct image_set *set)
{
    if (!set->is_opened)
        return; /* a worker opens it */
    if (set_source_is_quick(&set->source))
        set->fraction = set_source_fraction(&set->source);
    retire(set);
    if (!job_run_is_open(set->owner) || set->must_return || set->error.status != STATUS_OK)
        return; /* the job ends as soon as no worker runs it */
    begin_images(set);
    retire(set); /* those that failed at once */
}

static void move_on(struct image_set *set)
{
    if (set->packed < set->first) /* no worker has passed images that failed */
        set->packed = set->first;
    enum stage_result result = judge(set);
    if (result == RESULT_RUN ||
        (result == RESULT_WAIT && (set->must_spill || set_work_is_due(set))))
        run_worker(set);
    else if (result != RESULT_WAIT)
        pipeline_resume(set->owner, result);
}

/* The job has left: ends the images that no worker runs. The others end when it returns them. While
 * a worker still runs the job, it may be writing images that are done. */
static void end_images(struct image_set *set)
{
    for (uint64_t i = set->first; i < set->begun; i++) {
        struct job_run *run = image_set_item(set, i)->run;
        bool is_written = set->has_zombie && run && run->stage == STAGE_SET;
        if (run && !is_written && stage_withdraw(run))
            pipeline_resume(run, RESULT_END);
    }
}

void set_stage_pump(struct pipeline *pipeline)
{
    if (list_empty(&pipeline->sets))
        return;
    pipeline->pumped_ns = clock_now_ns();
    activate(pipeline);
    bool is_stuck = line_is_stuck(pipeline);
    pipeline->gathers = true;
    list_each_safe (node, after, &pipeline->sets) {
        struct image_set *set = container_of(node, struct image_set, node);
        if (!set->owner || !set->is_active)
            continue;
        turn_ring(set);
        if (set->owner->owner != OWNER_LOOP)
            continue;
        set->must_spill = is_stuck && set_spill_helps(set);
        move_on(set);
    }
    pipeline->gathers = false;
    if (!list_empty(&pipeline->gathered))
        workers_submit_all(pipeline->parts.workers, &pipeline->gathered);
    list_each_safe (node, after, &pipeline->sets) {
        struct image_set *set = container_of(node, struct image_set, node);
        if (set->owner)
            continue;
        if (!set->is_ending)
            end_images(set);
        set->is_ending = !set->has_zombie;
        if (set->running == 0 && !set->has_zombie) {
            list_remove(&pipeline->sets, &set->node);
            image_set_unref(set);
        }
    }
}

/* ---- the stage ------------------------------------------------------------------------------ */

bool set_stage_waits(struct job_run *run)
{
    if (run->set->pack_count > 0)
        set_item_mark(run->item, ITEM_DONE);
    return run->set->pack_count > 0;
}

/* After an upload. */
static enum stage_result enter_image(struct job_run *run)
{
    job_input_release(run); /* a worker that carried the image has kept it */
    job_input_close(run);
    job_run_stop_clock(run);
    if (run->is_parked)
        admission_park(run);
    return set_stage_waits(run) ? RESULT_WAIT : RESULT_NEXT;
}

enum stage_result set_stage_enter(struct job_run *run)
{
    pipeline_wake(run->pipeline);
    if (run->is_image)
        return enter_image(run);
    job_run_stop_clock(run); /* it may wait for its turn */
    run->set->references++;
    list_push(&run->pipeline->sets, &run->set->node);
    return RESULT_WAIT;
}

/* Its images end without a result, and none of them renames a file or starts an upload any more. Of
 * those that wait for their turn in a tar, files, keys and URLs are in their places, which the
 * result says. */
void set_stage_stop(struct job_run *run)
{
    struct image_set *set = run->set;
    for (uint64_t i = set->first; i < set->begun; i++) {
        struct job_run *image = image_set_item(set, i)->run;
        if (!image || !job_run_is_open(image))
            continue;
        if (atomic_load(&image->at) == STAGE_SET) /* also if its worker has not returned it */
            set_image_count_outputs(image);
        job_run_decide(image, OUTCOME_LOST);
        if (image->stage == STAGE_UPLOAD)
            pipeline_resume(image, RESULT_END);
    }
}

static void part_from(struct job_run *run)
{
    struct image_set *set = run->set;
    set_stage_stop(run);
    run->pipeline->sets_active -= set->is_active;
    run->pipeline->animations_active -= set->is_active && is_animation(run);
    set->is_active = false;
    set->owner = NULL;
    pipeline_wake(run->pipeline);
}

void set_stage_leave(struct job_run *run)
{
    if (!run->is_image)
        part_from(run);
}

void set_stage_abandon(struct job_run *run)
{
    run->set->has_zombie = true;
    image_set_forget_packs(run->set);
    part_from(run);
}

void set_stage_returned(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    pipeline_wake(pipeline);
    if (run->is_image) {
        pipeline->files_given += run->has_given;
        pipeline->moved_ns = pipeline->pumped_ns;
        return;
    }
    job_run_stop_clock(run);
    run->set->fraction = set_source_fraction(&run->set->source);
}

/* If jobs that wait for their turn leave no place for others, the youngest goes back once per
 * second: the next FETCH brings a more urgent job, if there is one. */
static bool makes_room(const struct job_run *run, uint64_t now_ns)
{
    struct pipeline *pipeline = run->pipeline;
    if (pipeline->has_places || now_ns < clock_after_s(run->timing.entered_ns, MAKE_ROOM_S) ||
        now_ns < clock_after_s(pipeline->made_room_ns, MAKE_ROOM_S))
        return false;
    pipeline->made_room_ns = now_ns;
    return true;
}

void set_stage_send_back(struct pipeline *pipeline, uint64_t now_ns)
{
    char label[LABEL_BYTES];
    for (struct list_node *node = pipeline->sets.head.prev; node != &pipeline->sets.head;
         node = node->prev) {
        struct image_set *set = container_of(node, struct image_set, node);
        struct job_run *run = set->owner;
        if (!run || set->is_active ||
            (now_ns < run->timing.waits_until_ns && !makes_room(run, now_ns)))
            continue;
        log_debug("job %s goes back after it waited %.1f s for other jobs with many images",
                  job_run_label(run, label), clock_ms(run->timing.fetched_ns, now_ns) / 1e3);
        pipeline_resume(run, RESULT_RETURN);
    }
}

/* Of the input: the part that was read, less the images that have not ended. */
static double fraction_done(const struct image_set *set)
{
    uint64_t read = set->read, ended = set->first;
    return read > 0 ? set->fraction * (double)ended / (double)read : 0;
}

void set_stage_look(struct pipeline *pipeline, struct snapshot *snapshot)
{
    snapshot->set_count = 0;
    list_each (node, &pipeline->sets) {
        const struct image_set *set = container_of(node, struct image_set, node);
        if (!set->owner || !set->is_active || snapshot->set_count == SNAPSHOT_SETS_MAX)
            continue;
        struct snapshot_set *to = &snapshot->sets[snapshot->set_count++];
        *to = (struct snapshot_set){.number = set->owner->number,
                                    .shard = set->owner->shard,
                                    .images = set->done + set->failed,
                                    .failed = set->failed,
                                    .fraction = fraction_done(set)};
        text_copy(to->id, sizeof to->id, set->owner->job.id ? set->owner->job.id : "");
    }
}

/* ---- on a worker ---------------------------------------------------------------------------- */

enum stage_result set_stage_read(struct job_run *run, struct worker_tools *tools)
{
    struct files_spool spool;
    run->set = image_set_create(run);
    if (!run->set) { /* uncovered: memory */
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for a job with many images");
        return RESULT_NEXT;
    }
    if (!run->input.loaded)
        return RESULT_NEXT;
    if (set_source_spool(&run->set->source, run->input.loaded, run->input.bytes, &spool,
                         &run->error) != STATUS_OK) {
        set_work_judge_spool(run, &spool, tools);
        return RESULT_NEXT;
    }
    run->set->is_spooled = true;
    atomic_fetch_add(&run->pipeline->inputs_open, 1);
    free(run->input.loaded); /* spine_done returns its budget, on the loop */
    run->input.loaded = NULL;
    return RESULT_NEXT;
}

enum stage_result set_stage_run(struct job_run *run, struct worker_tools *tools)
{
    set_work(run, tools);
    if (run->error.status != STATUS_OK || run->set->is_placed)
        return RESULT_NEXT;
    run->worker_task.yields = true;
    return RESULT_WAIT;
}
