#include "daemon/pipeline/set_spill.h"

#include <stdlib.h>

#include "daemon/pipeline/admission.h"
#include "daemon/pipeline/state.h"

static bool is_held(const struct set_item *item)
{
    return atomic_load(&item->state) == ITEM_DONE && !item->is_spilled;
}

bool set_spill_helps(struct image_set *set)
{
    for (uint64_t i = set->packed; set->pack_count > 0 && i < set->read; i++)
        if (is_held(image_set_item(set, i)))
            return true;
    return false;
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
        return files_spool_write(&set->spill, item->source.block.memory, item->source.bytes, error);
    for (size_t i = 0; i < item->run->job.output_count; i++) {
        const struct queue_value *value = &item->run->outputs[i].value;
        if (files_spool_write(&set->spill, value->value, value->bytes, error) != STATUS_OK)
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
    if (--set->spilled == 0)
        files_spool_empty(&set->spill);
}

void set_spill(struct job_run *run)
{
    struct image_set *set = run->set;
    if (set->spill.fd < 0 &&
        files_spool_open(run->pipeline->parts.files, &set->spill, &run->error) != STATUS_OK)
        return;
    for (uint64_t i = set->packed; i < set->read && run->error.status == STATUS_OK; i++) {
        struct set_item *item = image_set_item(set, i);
        uint64_t at = set->spill.bytes;
        if (!is_held(item) || write_item(set, item, &run->error) != STATUS_OK)
            continue;
        item->spilled_at = at;
        item->is_spilled = true;
        set->spilled++;
        set_spill_release(set, item);
    }
}
