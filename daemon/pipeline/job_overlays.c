#include "daemon/pipeline/job_overlays.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/clock.h"
#include "daemon/overlays/overlay_maker.h"
#include "daemon/overlays/overlays.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"
#include "gpu/plan/op_list.h"

/* The overlay of an operation, or of a key in its own size (key_number). */
struct reference {
    unsigned number;
    int position;
    struct overlay *overlay;
};
static const unsigned key_number = JOB_OUTPUTS_MAX + 1;

static struct reference *references(const struct job_run *run)
{
    return run->overlays.block.memory;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* As for the input: an output must not replace what the job reads. Compares only the texts. */
static enum status check_differs(const struct job_run *run, const struct job_place *place,
                                 const char *where, struct error *error)
{
    for (size_t i = 0; i < run->job.output_count; i++) {
        const struct job_place *to = &run->job.outputs[i].place;
        if (place->key && to->key && strcmp(place->key, to->key) == 0)
            return error_set(error, STATUS_BAD_JOB, "%s and an output are both the key \"%.100s\"; "
                             "give the output another name", where, to->key);
        if (run->bounds.same_root && place->path && to->path && strcmp(place->path, to->path) == 0)
            return error_set(error, STATUS_BAD_JOB, "%s and an output are both \"%.100s\", and "
                             "input_root is output_root; give the output another name", where,
                             to->path);
    }
    return STATUS_OK;
}

enum status job_overlays_check(struct job_run *run, size_t index, const char *ns,
                               struct error *error)
{
    const struct job_rules rules = {.ns = ns};
    const struct op_place *names;
    int position = -1;
    while ((names = op_list_next_overlay(run->outputs[index].ops, &position))) {
        run->overlays.count++;
        if (!names->path && !names->key)
            continue; /* a text */
        const cJSON *item = cJSON_GetArrayItem(run->job.outputs[index].ops, position);
        struct job_place place = {0};
        char where[64] = "";
        if (run->job.listed)
            snprintf(where, sizeof where, "outputs[%zu].", index);
        snprintf(where + strlen(where), sizeof where - strlen(where), "ops[%d].input", position);
        if (job_check_place(cJSON_GetObjectItemCaseSensitive(item, "input"), where, &rules, &place,
                            error) != STATUS_OK ||
            check_differs(run, &place, where, error) != STATUS_OK)
            return error->status;
        run->overlays.key_count += place.key != NULL;
    }
    return STATUS_OK;
}

/* ---- references ----------------------------------------------------------------------------- */

/* On a worker. */
static bool open_list(struct job_run *run, struct error *error)
{
    struct job_run_overlays *own = &run->overlays;
    size_t bytes = (own->count + own->key_count) * sizeof(struct reference);
    if (own->block.memory)
        return true;
    if (!overlay_maker_take(own->maker, bytes, &own->block, error))
        return false;
    own->held = own->block.bytes;
    return true;
}

static bool is_held(const void *holder, const struct overlay *overlay)
{
    const struct job_run *run = holder;
    for (uint32_t i = 0; i < run->overlays.length; i++)
        if (references(run)[i].overlay == overlay)
            return true;
    return false;
}

static void hold(struct job_run *run, unsigned number, int position, struct overlay *overlay)
{
    struct job_run_overlays *own = &run->overlays;
    assert(own->length < own->count + own->key_count);
    own->held += is_held(run, overlay) ? 0 : overlay->block.bytes;
    references(run)[own->length++] = (struct reference){number, position, overlay};
}

static struct overlay *find_held(const struct job_run *run, unsigned number, int position)
{
    for (uint32_t i = 0; i < run->overlays.length; i++)
        if (references(run)[i].number == number && references(run)[i].position == position)
            return references(run)[i].overlay;
    return NULL;
}

static struct overlay *find_held_key(const struct job_run *run, const char *key)
{
    for (uint32_t i = 0; i < run->overlays.length; i++)
        if (references(run)[i].number == key_number &&
            strcmp(references(run)[i].overlay->key, key) == 0)
            return references(run)[i].overlay;
    return NULL;
}

static void drop_key(struct job_run *run)
{
    free(run->overlays.loaded);
    run->overlays.loaded = NULL;
    run->overlays.key = NULL;
}

void job_overlays_release(struct job_run *run)
{
    struct job_run_overlays *own = &run->overlays;
    drop_key(run);
    own->position = -1;
    own->output = 0;
    if (!own->block.memory)
        return;
    for (uint32_t i = 0; i < own->length; i++)
        overlays_release(own->cache, references(run)[i].overlay);
    overlays_give(own->cache, &own->block);
    own->length = 0;
    own->held = 0;
}

/* ---- while the plan is built ---------------------------------------------------------------- */

/* param: the parameter that names the overlay. */
static void say_place(unsigned number, int position, const char *param, char text[64])
{
    if (number > 0)
        snprintf(text, 64, "outputs[%u].ops[%d].%s", number - 1, position, param);
    else
        snprintf(text, 64, "ops[%d].%s", position, param);
}

/* Errors of reading have the name in their text. */
static bool has_name(enum status status)
{
    return status == STATUS_PATH_REFUSED || status == STATUS_INPUT_MISSING ||
           status == STATUS_INPUT_UNREADABLE || status == STATUS_INPUT_TOO_LARGE;
}

static enum status say_error(const struct job_run *run, unsigned number, int position,
                             const char *param, const char *name, const struct error *why,
                             struct error *error)
{
    char place[64];
    say_place(number, position, param, place);
    if (why->status == STATUS_DECODE_LIMIT && clock_now_ns() >= run->timing.deadline_ns)
        job_run_set_late(run, error);
    else if (has_name(why->status))
        error_set(error, why->status, "%s: %s", place, why->text);
    else
        error_set(error, why->status, "%s \"%.80s\": %s", place, name, why->text);
    return error->status;
}

/* Returns a new reference. */
static struct overlay *make(struct job_run *run, const struct plan_overlay_request *request,
                            struct error *error)
{
    struct overlay_maker *maker = run->overlays.maker;
    const struct op_place *place = &request->place;
    struct overlay *whole, *sized = NULL;
    maker->held = run->overlays.held + run->input.file.bytes;
    if (request->text)
        return overlay_from_text(maker, request->text, error);
    if (place->path)
        return overlay_from_path(maker, place->path, request->width, error);
    whole = find_held_key(run, place->key);
    if (!whole) {
        error_set(error, STATUS_INPUT_MISSING, "the key \"%.80s\" is not read; only overlays from "
                  "files below input_root are explained", place->key);
        return NULL;
    }
    sized = overlays_find(maker->overlays, &whole->id, request->width);
    return sized ? sized : overlay_resized(maker, whole, request->width, error);
}

static enum status find(void *context, const struct plan_overlay_request *request,
                        struct plan_overlay *overlay, struct error *error)
{
    struct job_run *run = context;
    const struct op_place *place = &request->place;
    struct error why = {0};
    struct overlay *found = find_held(run, request->number, request->position);
    if (!found && place->key && request->width == 0)
        found = find_held_key(run, place->key);
    if (!found && !run->overlays.maker) /* uncovered: net */
        return error_set(error, STATUS_INTERNAL, "an overlay was released too early");
    if (!found && open_list(run, &why)) {
        found = make(run, request, &why);
        if (found)
            hold(run, request->number, request->position, found);
    }
    if (!found)
        return request->text ? say_error(run, request->number, request->position, "text",
                                         request->text->text, &why, error)
                             : say_error(run, request->number, request->position, "input",
                                         place->path ? place->path : place->key, &why, error);
    assert(found->asked_width == request->width);
    *overlay = found->pixels;
    return STATUS_OK;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Moves on to the next operation with a key that is not held. NULL: there is none. */
static const char *next_key(struct job_run *run)
{
    struct job_run_overlays *own = &run->overlays;
    for (; own->output < run->job.output_count; own->output++, own->position = -1) {
        const struct job_run_output *output = &run->outputs[own->output];
        const struct op_place *place;
        while (output->error.status == STATUS_OK &&
               (place = op_list_next_overlay(output->ops, &own->position)))
            if (place->key && !find_held_key(run, place->key))
                return place->key;
    }
    return NULL;
}

bool job_overlays_next_key(struct job_run *run)
{
    struct job_run_overlays *own = &run->overlays;
    if (own->key_count == 0 || own->loaded || run->error.status != STATUS_OK)
        return false;
    own->key = next_key(run);
    return own->key != NULL;
}

static void fail_key(struct job_run *run, const struct error *error)
{
    struct job_run_overlays *own = &run->overlays;
    struct error *of_output = &run->outputs[own->output].error;
    unsigned number = run->job.listed ? (unsigned)own->output + 1 : 0;
    say_error(run, number, own->position, "input", own->key, error, of_output);
    job_outputs_fail_if_all_failed(run);
}

void job_overlays_put_key(struct job_run *run, uint8_t *bytes, size_t length,
                          const struct error *error)
{
    if (error) {
        fail_key(run, error);
        return;
    }
    run->overlays.loaded = bytes;
    run->overlays.loaded_bytes = length;
    run->overlays.counted = true;
}

void job_overlays_take_key(struct job_run *run)
{
    struct job_run_overlays *own = &run->overlays;
    struct overlay *overlay = NULL;
    struct error why = {0};
    job_run_bound_codec(run);
    if (open_list(run, &why)) {
        own->maker->held = own->held;
        overlay = overlay_from_key(own->maker, own->key, own->loaded, own->loaded_bytes, &why);
    }
    if (overlay)
        hold(run, key_number, 0, overlay);
    else if (own->maker->lack == LACKS_NOTHING)
        fail_key(run, &why);
    drop_key(run);
}

/* ---- around the read ------------------------------------------------------------------------ */

void job_overlays_use(struct job_run *run, struct overlay_maker *maker)
{
    run->overlays.cache = maker->overlays;
    run->overlays.maker = maker;
    maker->holds = is_held;
    maker->holder = run;
}

void job_overlays_begin(struct job_run *run)
{
    run->overlays = (struct job_run_overlays){.finder = {find, run}, .position = -1};
}
