#include "daemon/pipeline/set_work.h"

#include <stdlib.h>

#include "conf/clock.h"
#include "daemon/pipeline/disk.h"
#include "daemon/pipeline/encoding.h"
#include "daemon/pipeline/image_set.h"
#include "daemon/pipeline/planning.h"
#include "daemon/pipeline/set_image.h"
#include "daemon/pipeline/set_spill.h"
#include "daemon/pipeline/state.h"
#include "queue/job/member_name.h"

/* Images that are read before others have begun: enough for a worker's next step. */
#define READ_AHEAD 128
/* A worker's step for few images costs the loop as much as one for many. While images run, a step
 * waits until so many can be read, or written, but a write waits for STEP_NS at most, because the
 * images hold memory. */
#define STEP_READS  (READ_AHEAD / 2)
#define STEP_WRITES 16
#define STEP_NS     1000000
/* After this time a member that found no room in the pool of input files is tried again: not all
 * who give memory back are counted in files_given. */
#define ROOM_NS 50000000
/* Bytes that are read or written in one step: a millisecond or two. The loop then begins other
 * images. */
#define STEP_BYTES (4 * MIB)

/* And not longer than this: each step has the job's timeout_s, which bounds the slowest frame. */
#define READ_NS 20000000

/* ---- reading -------------------------------------------------------------------------------- */

/* The oldest item that must not be filled again: a worker may still pass it. */
static uint64_t oldest(const struct image_set *set)
{
    uint64_t first = set->first, packed = set->packed;
    return set->pack_count > 0 && packed < first ? packed : first;
}

bool set_work_can_read(const struct image_set *set)
{
    return set->step != SOURCE_END && set->step != SOURCE_FAILED &&
           set->read - oldest(set) < SET_WINDOW && set->read - set->begun < READ_AHEAD;
}

void set_work_read_one(struct image_set *set, struct error *error)
{
    struct set_item *item = image_set_item(set, set->read);
    set->source.is_idle = set->first == set->read;
    set->step = set_source_next(&set->source, &item->source, error);
    if (set->step != SOURCE_IMAGE && set->step != SOURCE_COPY)
        return;
    item->is_copy = set->step == SOURCE_COPY;
    item->image = set->images;
    set->images += !item->is_copy;
    set_item_mark(item, item->is_copy ? ITEM_DONE : ITEM_READ);
    set->read++;
}

static void read_members(struct job_run *run)
{
    struct image_set *set = run->set;
    uint64_t end_ns = clock_now_ns() + READ_NS;
    set->source.deadline_ns = atomic_load(&run->timing.deadline_ns);
    for (size_t bytes = 0;
         bytes < STEP_BYTES && clock_now_ns() < end_ns && set_work_can_read(set);) {
        uint64_t before = set->read, taken = set->source.taken_bytes;
        struct error error = {0};
        set_work_read_one(set, &error);
        if (error.status != STATUS_OK)
            job_run_take_codec_error(run, &error);
        if (set->read == before)
            return;
        bytes += set->source.taken_bytes - taken; /* the loop may have begun the image already */
    }
}

/* ---- tars and arrays ------------------------------------------------------------------------ */

/* The part of an item for one output. url: room for a name. */
static struct pack_image part_of(struct image_set *set, const struct set_item *item, size_t index,
                                 char url[JOB_URL_BYTES_MAX + 1])
{
    struct pack_image image = {.modified_s = item->source.modified_s, .spool = &set->spill};
    if (item->is_copy) {
        image.name = item->source.name;
        image.is_copy = true;
        image.bytes = item->is_spilled ? NULL : item->source.block.memory;
        image.offset = item->spilled_at;
        image.length = item->source.bytes;
        return image;
    }
    const struct job_run *from = item->run;
    const struct job_run_output *output = &from->outputs[index];
    image.name = item->source.place ? member_of_place(item->source.place, from->bounds.ns, url)
                                    : from->image_name;
    image.suffix = output->format->suffixes[0];
    image.bytes = item->is_spilled ? NULL : output->value.value;
    image.offset = item->spilled_at + set_spill_offset(from, index);
    image.length = output->value.bytes;
    image.width = output->width;
    image.height = output->height;
    image.channels = from->plan.variants[output->variant].channels;
    image.delay_ms = item->source.delay_ms;
    image.plays = set->source.plays;
    image.frames = set->source.animation.frames;
    return image;
}

/* An image that one pack refuses is in none: the rows of an array and the members of a tar stay
 * those of the same images. */
static void pack_item(struct job_run *run, struct set_item *item)
{
    char url[JOB_URL_BYTES_MAX + 1];
    struct image_set *set = run->set;
    struct set_pack *packs = set->packs;
    bool takes = true;
    for (size_t i = 0; i < run->job.output_count && takes; i++) {
        if (!packs[i].is_begun)
            continue;
        struct pack_image image = part_of(set, item, i, url);
        takes = set_pack_takes(&packs[i], &image, &item->source.error);
    }
    for (size_t i = 0; i < run->job.output_count && takes; i++) {
        if (!packs[i].is_begun)
            continue;
        struct pack_image image = part_of(set, item, i, url);
        takes = set_pack_put(&packs[i], &image, &run->error) == STATUS_OK;
    }
}

static size_t packed_bytes(const struct set_item *item)
{
    size_t bytes = item->is_copy ? item->source.bytes : 0;
    for (size_t i = 0; !item->is_copy && i < item->run->job.output_count; i++)
        bytes += item->run->outputs[i].value.bytes;
    return bytes;
}

/* Writes the images that are done, up to the first that is not, or until the step ends. */
static void pack_images(struct job_run *run)
{
    struct image_set *set = run->set;
    size_t bytes = 0;
    for (; set->packed < set->read && bytes < STEP_BYTES; set->packed++) {
        if (set->packed < set->first)
            continue; /* it has failed */
        struct set_item *item = image_set_item(set, set->packed);
        enum set_item_state state = atomic_load(&item->state);
        if (state == ITEM_ENDED)
            continue;
        if (state != ITEM_DONE)
            return;
        pack_item(run, item);
        if (run->error.status != STATUS_OK || !job_run_is_open(run))
            return;
        bytes += packed_bytes(item);
        set_spill_forget(set, item);
        set_spill_release(set, item);
        set_item_mark(item, ITEM_PACKED);
    }
}

/* other: NULL: the target is the archive. */
static enum status refuse_target(const struct image_set *set, size_t index,
                                 const struct set_pack *other, struct error *error)
{
    const char *path = set->packs[index].output->place.path;
    if (!other)
        return error_set(error, STATUS_BAD_JOB,
                         "the output \"%.100s\" is the file of the input; give it another name",
                         path);
    return error_set(error, STATUS_BAD_JOB,
                     "the output \"%.100s\" is the file of another output, \"%.100s\"; give it "
                     "another name",
                     path, other->output->place.path);
}

struct placing {
    const struct image_set *set;
    size_t index; /* of the output */
};

/* Refuses to replace the archive that is read, or another output of the job. check_target has done
 * so before, but names can change meanwhile. */
static enum status may_replace(void *context, const struct files_identity *target,
                               struct error *error)
{
    const struct placing *placing = context;
    const struct image_set *set = placing->set;
    if (files_same(target, &set->source.identity))
        return refuse_target(set, placing->index, NULL, error);
    for (size_t i = 0; i < placing->index; i++)
        if (set->packs[i].is_begun && files_same(target, &set->packs[i].file.identity))
            return refuse_target(set, placing->index, &set->packs[i], error);
    return STATUS_OK;
}

/* Whoever receives the result may delete the files. The last close then frees their bytes, which
 * takes 10 ms for a tar of 100 MB in a tmpfs. So a worker closes them before the result is sent,
 * not the loop after it. */
static void close_files(struct image_set *set)
{
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++)
        if (set->packs[i].is_begun)
            files_output_end(&set->packs[i].file);
    if (set->is_unshared)
        set_source_release(&set->source);
}

static void place_packs(struct job_run *run)
{
    struct image_set *set = run->set;
    for (size_t i = 0; i < run->job.output_count; i++)
        if (set->packs[i].is_begun &&
            set_pack_finish(&set->packs[i], run->bounds.sync, &run->error) != STATUS_OK)
            return;
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct set_pack *pack = &set->packs[i];
        struct placing placing = {set, i};
        /* If the lease is lost, another daemon may write this output. */
        if (!pack->is_begun)
            continue;
        if (!job_run_is_open(run))
            return;
        if (files_output_place(&pack->file, run->bounds.sync, may_replace, &placing, &run->error) !=
            STATUS_OK)
            return;
        set->totals[i].images = pack->images;
        set->totals[i].bytes = pack->bytes;
    }
    set->is_placed = true;
    close_files(set);
}

/* ---- a failed write ------------------------------------------------------------------------- */

/* A file whose write has failed, after it is closed. */
struct failed_file {
    int reason;      /* errno */
    uint64_t needed; /* bytes */
    bool has_room;   /* `room` is known: for so many bytes of it */
    uint64_t room;
};

static void judge_file(struct job_run *run, const struct failed_file *file,
                       struct worker_tools *tools)
{
    bool is_full = disk_is_full(file->reason);
    if (!disk_may_be_why(file->reason))
        return;
    if (is_full && file->has_room) {
        run->needed = file->needed;
        run->room = file->room;
    }
    if (is_full)
        disk_lack_room(&run->pipeline->disk, file->needed);
    encoding_judge_disk(run, is_full, tools);
}

void set_work_judge_spool(struct job_run *run, struct files_spool *spool,
                          struct worker_tools *tools)
{
    struct failed_file file = {.reason = spool->reason, .needed = spool->wanted};
    file.has_room = files_spool_room(spool, &file.room);
    file.room += spool->bytes;
    files_spool_close(spool); /* the disk may lack just this room */
    judge_file(run, &file, tools);
}

static void judge_pack(struct job_run *run, struct set_pack *pack, struct worker_tools *tools)
{
    struct failed_file file = {.reason = pack->file.reason, .needed = pack->bytes};
    file.has_room = files_output_room(&pack->file, &file.room);
    set_pack_end(pack); /* the disk may lack just this room */
    judge_file(run, &file, tools);
}

/* After a write of a tar, an array or the spill file has failed. */
static void look_at_disk(struct job_run *run, struct worker_tools *tools)
{
    struct image_set *set = run->set;
    if (set->spill.reason != 0) {
        set_work_judge_spool(run, &set->spill, tools);
        return;
    }
    for (size_t i = 0; i < run->job.output_count; i++)
        if (set->packs[i].is_begun && set->packs[i].file.reason != 0) {
            judge_pack(run, &set->packs[i], tools);
            return;
        }
}

/* ---- the beginning -------------------------------------------------------------------------- */

static enum status may_go_on(void *context, struct error *error)
{
    struct job_run *run = context;
    if (!job_run_is_open(run))
        return error_set(error, STATUS_CANCELLED, "the job ended while folders were created");
    return STATUS_OK;
}

/* Refuses to replace the archive, or an earlier output, before any of them is written. */
static void check_target(struct job_run *run, size_t index)
{
    const struct image_set *set = run->set;
    struct files_identity target = files_output_target(&set->packs[index].file);
    if (files_same(&target, &set->source.identity))
        refuse_target(set, index, NULL, &run->error);
    for (size_t i = 0; i < index; i++)
        if (set->packs[i].is_begun &&
            files_output_same(&set->packs[index].file, &set->packs[i].file))
            refuse_target(set, index, &set->packs[i], &run->error);
}

static void begin_packs(struct job_run *run)
{
    struct image_set *set = run->set;
    struct files_making making = {.sync = run->bounds.sync, .may_go_on = may_go_on, .context = run};
    for (size_t i = 0; i < run->job.output_count && run->error.status == STATUS_OK; i++) {
        struct job_output *output = &run->job.outputs[i];
        if (output->pack == JOB_FILES)
            continue;
        if (output->pack == JOB_ARRAY)
            planning_set_defaults(output);
        if (set_pack_begin(&set->packs[i], output, run->pipeline->parts.files, run->number,
                           run->fetch, i, &making, &run->error) == STATUS_OK)
            check_target(run, i);
    }
}

static void open_set(struct job_run *run)
{
    struct image_set *set = run->set;
    set->items = calloc(SET_WINDOW, sizeof *set->items);
    set->packs = calloc(JOB_OUTPUTS_MAX, sizeof *set->packs);
    if (!set->items || !set->packs)
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for a job with many images");
    else if (set_source_open(&set->source, &run->error) == STATUS_OK)
        begin_packs(run);
    set_image_model(set, run);
    set->is_opened = run->error.status == STATUS_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static bool has_room(const struct image_set *set)
{
    return set->step != SOURCE_WAITS || set->files_given != set->pipeline->files_given ||
           set->pipeline->pumped_ns - set->stepped_ns >= ROOM_NS;
}

/* All images from the next to write on that have begun are fewer than those of one step, or the
 * last of these is done: the event for which the step waited. */
static bool is_worth_writing(struct image_set *set)
{
    uint64_t last = set->packed + STEP_WRITES - 1;
    if (last >= set->begun || set->pipeline->pumped_ns - set->stepped_ns >= STEP_NS)
        return true;
    return atomic_load(&image_set_item(set, last)->state) >= ITEM_DONE;
}

bool set_work_is_due(struct image_set *set)
{
    if (!set->is_opened)
        return true;
    if (!set_source_is_quick(&set->source) && set_work_can_read(set) && has_room(set) &&
        set->read - set->begun <= STEP_READS)
        return true;
    if (set->pack_count == 0 || set->packed == set->read)
        return false;
    enum set_item_state state = atomic_load(&image_set_item(set, set->packed)->state);
    return state == ITEM_DONE && is_worth_writing(set);
}

void set_work(struct job_run *run, struct worker_tools *tools)
{
    struct image_set *set = run->set;
    if (!set->is_opened)
        open_set(run);
    if (run->error.status == STATUS_OK && set->pack_count > 0)
        pack_images(run);
    if (run->error.status == STATUS_OK && set->must_spill)
        set_spill(run);
    if (run->error.status == STATUS_OK && set->is_finishing)
        place_packs(run);
    else if (run->error.status == STATUS_OK && !set_source_is_quick(&set->source))
        read_members(run);
    if (run->error.status == STATUS_WRITE_FAILED)
        look_at_disk(run, tools);
}
