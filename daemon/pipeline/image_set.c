#include "daemon/pipeline/image_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/mask.h"
#include "conf/text.h"
#include "daemon/overlays/overlays.h"
#include "daemon/pipeline/state.h"
#include "gpu/plan/op_list.h"
#include "queue/job/result.h"

/* Bounds of a result, which Redis keeps and clients parse. */
#define ERRORS_MAX       4096
#define ERRORS_BYTES_MAX (1 * MIB)
#define VALUES_MAX       65536
#define VALUES_BYTES_MAX (4 * MIB)

/* ---- life ----------------------------------------------------------------------------------- */

struct image_set *image_set_create(struct job_run *run)
{
    struct pipeline *pipeline = run->pipeline;
    struct image_set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->pipeline = pipeline;
    set->owner = run;
    set->references = 1;
    set->spill.fd = -1;
    files_known_open(&set->inputs_known);
    files_known_open(&set->outputs_known);
    bool has_tars = false;
    for (size_t i = 0; i < run->job.output_count; i++) {
        set->pack_count += run->job.outputs[i].pack != JOB_FILES;
        has_tars |= run->job.outputs[i].pack == JOB_TAR;
    }
    set->source = (struct set_source){.job = &run->job,
                                      .ns = run->bounds.ns,
                                      .limits = run->bounds.codec,
                                      .decode_timeout_s = run->bounds.decode_timeout_s,
                                      .files = pipeline->parts.files,
                                      .pool = pipeline->file_pool,
                                      .overlays = pipeline->overlays,
                                      .lend = admission_lend_long,
                                      .end_loan = admission_end_long,
                                      .admission = &pipeline->admission,
                                      .copies = has_tars,
                                      .bytes_max = run->bounds.input_bytes_max,
                                      .sharers = pipeline->animations_max,
                                      .fd = -1};
    set->source.limits.metadata = 0;
    return set;
}

void image_set_clear_item(struct image_set *set, struct set_item *item)
{
    free(item->source.name);
    item->source.name = NULL;
    free(item->values);
    item->values = NULL;
    item->value_count = 0;
    item->is_spilled = false;
    if (item->source.block.memory)
        pool_give(set->pipeline->file_pool, &item->source.block);
}

static void destroy(struct image_set *set)
{
    for (size_t i = 0; set->items && i < SET_WINDOW; i++)
        image_set_clear_item(set, &set->items[i]);
    for (size_t i = 0; set->packs && i < JOB_OUTPUTS_MAX; i++)
        set_pack_end(&set->packs[i]);
    set_source_close(&set->source);
    if (set->is_spooled)
        atomic_fetch_sub(&set->pipeline->inputs_open, 1);
    files_spool_close(&set->spill);
    files_known_close(&set->inputs_known);
    files_known_close(&set->outputs_known);
    set_names_clear(&set->names);
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++)
        op_list_free(set->ops[i]);
    job_clear(&set->job);
    free(set->items);
    free(set->packs);
    free(set->errors);
    free(set->values);
    free(set);
}

void image_set_unref(struct image_set *set)
{
    if (--set->references == 0)
        destroy(set);
}

void image_set_forget_packs(struct image_set *set)
{
    set->pipeline->packs_open -= set->holds_packs ? set->pack_count : 0;
    set->holds_packs = false;
    pipeline_wake(set->pipeline); /* another job may have its turn */
}

void image_set_adopt(struct image_set *set, struct job_run *run)
{
    set->owner = NULL;
    set->has_zombie = false; /* its worker has returned */
    image_set_forget_packs(set);
    set->source.job = &set->job;
    set->job = run->job;
    memset(&run->job, 0, sizeof run->job);
    for (size_t i = 0; i < set->job.output_count; i++) {
        set->ops[i] = run->outputs[i].ops;
        run->outputs[i].ops = NULL;
    }
}

/* ---- the result ----------------------------------------------------------------------------- */

/* Appends an element, which it frees, to the text of an array without its last bracket. false: no
 * memory; the text is as before. */
static bool append(char **array, size_t *bytes, char first, char *element)
{
    size_t length = element ? strlen(element) : 0;
    char *grown = element ? realloc(*array, *bytes + length + 3) : NULL;
    if (grown) {
        grown[*bytes] = *bytes == 0 ? first : ',';
        memcpy(grown + *bytes + 1, element, length + 1);
        *array = grown;
        *bytes += length + 1;
    }
    free(element);
    return grown != NULL;
}

void image_set_note_error(struct image_set *set, uint64_t image, const char *name,
                          const struct error *error)
{
    set->failed++;
    if (set->first_error.status == STATUS_OK || image < set->first_failed) {
        set->first_error = *error;
        set->first_failed = image;
    }
    if (set->error_count < ERRORS_MAX && set->errors_bytes < ERRORS_BYTES_MAX &&
        append(&set->errors, &set->errors_bytes, '[', result_image_error(image, name, error)))
        set->error_count++;
    else
        set->errors_omitted++;
}

/* The elements of an item begin with a comma, which image_set_take_values leaves out. */
void image_set_note_values(struct image_set *set, struct set_item *item, size_t output,
                           const cJSON *values)
{
    size_t bytes = item->values ? strlen(item->values) : 0;
    if (append(&item->values, &bytes, ',', result_image_values(item->image, output, values)))
        item->value_count++;
    else /* uncovered: memory */
        set->values_omitted++;
}

void image_set_take_values(struct image_set *set, struct set_item *item)
{
    if (!item->values)
        return;
    if (set->value_count + item->value_count <= VALUES_MAX &&
        set->values_bytes < VALUES_BYTES_MAX &&
        append(&set->values, &set->values_bytes, '[', strdup(item->values + 1)))
        set->value_count += item->value_count;
    else
        set->values_omitted += item->value_count;
}

/* append has left room for the bracket. */
static const char *closed(char *array, size_t bytes)
{
    if (array)
        memcpy(array + bytes, "]", 2);
    return array;
}

/* Nothing matched, which is often a mistake in the pattern. */
static const char *write_warning(struct image_set *set)
{
    const struct job *job = set->source.job;
    bool is_folder = job->source == JOB_FOLDER;
    char url[JOB_URL_BYTES_MAX + 1], skipped[80] = "";
    const char *name = job_place_name(&job->input, url);
    if (set->step != SOURCE_END || set->images > 0)
        return NULL;
    if (set->source.skipped > 0)
        snprintf(skipped, sizeof skipped, "; %" PRIu64 " links and special files were skipped",
                 set->source.skipped);
    snprintf(set->warning, sizeof set->warning,
             "there was no image: no %s \"%.120s\" matches the pattern%s%s",
             is_folder ? "file in the folder" : "member of the archive", name ? name : "",
             job->pattern_count > 0 ? "" : ", which is by default the suffixes of images", skipped);
    mask_text(set->warning, MASK_MESSAGE);
    text_make_printable(set->warning);
    return set->warning;
}

struct result_images image_set_result(struct image_set *set)
{
    return (struct result_images){
        .count = set->done + set->failed,
        .done = set->done,
        .failed = set->failed,
        .copied = set->copied,
        .skipped = set->source.skipped,
        .pixels = set->pixels,
        .warning = write_warning(set),
        .errors = closed(set->errors, set->errors_bytes),
        .values = closed(set->values, set->values_bytes),
        .errors_omitted = set->errors_omitted,
        .values_omitted = set->values_omitted,
        .archive_format = set_source_format(&set->source),
    };
}
