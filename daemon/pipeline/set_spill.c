#include "daemon/pipeline/set_spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/files/folder.h"
#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/state.h"

static bool is_held(const struct set_item *item)
{
    return atomic_load(&item->state) == ITEM_DONE && !item->is_spilled;
}

bool set_spill_helps(struct image_set *set)
{
    for (uint64_t i = set->packed; set->has_packs && i < set->read; i++)
        if (is_held(image_set_item(set, i)))
            return true;
    return false;
}

/* ---- writing -------------------------------------------------------------------------------- */

static uint64_t bytes_of(const struct set_item *item)
{
    return item->is_copy ? item->source.bytes
                         : set_spill_offset(item->run, item->run->job.output_count);
}

uint64_t set_spill_offset(const struct job_run *image, size_t index)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < index; i++)
        bytes += image->outputs[i].value.bytes;
    return bytes;
}

static enum status write_item(struct image_set *set, const struct set_item *item,
                              struct error *error)
{
    if (item->is_copy)
        return files_spool_write(set->spill, item->source.block.memory, item->source.bytes, error);
    for (size_t i = 0; i < item->run->job.output_count; i++) {
        const struct queue_value *value = &item->run->outputs[i].value;
        if (files_spool_write(set->spill, value->value, value->bytes, error) != STATUS_OK)
            return error->status;
    }
    return STATUS_OK;
}

void set_spill_release(struct image_set *set, struct set_item *item)
{
    if (item->source.block.memory)
        pool_give(set->pipeline->file_pool, &item->source.block);
    if (item->is_copy)
        return;
    for (size_t i = 0; i < item->run->job.output_count; i++) {
        struct job_run_output *output = &item->run->outputs[i];
        if (!output->is_borrowed)
            free(output->value.value);
        output->value.value = NULL;
        output->is_borrowed = false;
    }
    if (item->run->is_parked) { /* of borrowed outputs */
        bool others_wait = admission_release(item->run);
        (void)others_wait; /* the loop tries them after this step */
    }
    admission_settle(item->run);
}

void set_spill_forget(struct image_set *set, struct set_item *item)
{
    if (!item->is_spilled)
        return;
    item->is_spilled = false;
    if (--set->spilled > 0 || ftruncate(set->spill, 0) != 0 || lseek(set->spill, 0, SEEK_SET) != 0)
        return;
    set->spill_bytes = 0;
}

void set_spill(struct job_run *run)
{
    struct image_set *set = run->set;
    if (set->spill < 0)
        set->spill = files_spool_open(run->pipeline->parts.files, &run->error);
    for (uint64_t i = set->packed; i < set->read && run->error.status == STATUS_OK; i++) {
        struct set_item *item = image_set_item(set, i);
        if (!is_held(item) || write_item(set, item, &run->error) != STATUS_OK)
            continue;
        item->spilled_at = set->spill_bytes;
        item->is_spilled = true;
        set->spilled++;
        set->spill_bytes += bytes_of(item);
        set_spill_release(set, item);
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The part of a page before the item, and the length of its map. */
static size_t before(const struct set_item *item)
{
    return item->spilled_at % (uint64_t)sysconf(_SC_PAGESIZE);
}

static size_t mapped_bytes(const struct set_item *item)
{
    return before(item) + bytes_of(item) + 1;
}

const uint8_t *set_spill_map(const struct image_set *set, const struct set_item *item,
                             struct error *error)
{
    if (!item->is_spilled)
        return NULL;
    uint8_t *map = mmap(NULL, mapped_bytes(item), PROT_READ, MAP_PRIVATE, set->spill,
                        (off_t)(item->spilled_at - before(item)));
    if (map != MAP_FAILED)
        return map + before(item);
    error_set(error, STATUS_OUT_OF_MEMORY, "an image that was moved to a file cannot be mapped: %s",
              strerror(errno));
    return NULL;
}

void set_spill_unmap(const struct image_set *set, const struct set_item *item, const uint8_t *map)
{
    (void)set;
    if (map)
        munmap((void *)(uintptr_t)(map - before(item)), mapped_bytes(item));
}

void set_spill_close(struct image_set *set)
{
    if (set->spill >= 0)
        close(set->spill);
    set->spill = -1;
}
