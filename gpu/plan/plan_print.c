#include "gpu/plan/plan_print.h"

#include <inttypes.h>

#include "gpu/plan/pass.h"

static const char *place_name(enum pass_buffer buffer)
{
    return buffer == PASS_INPUT ? "input" : buffer == PASS_OUTPUT ? "results" : "scratch";
}

static void print_shape(struct pass_shape shape, FILE *out)
{
    char text[40];
    snprintf(text, sizeof(text), "%" PRIu32 " x %" PRIu32 " x %" PRIu32, shape.width, shape.height,
             image_samples(shape.channels));
    fprintf(out, "%17s", text);
}

/* Prints the position of a rectangle, unless it is the whole image. */
static void print_window(struct pass_window window, uint32_t width, uint32_t height, FILE *out)
{
    if (width != window.width || height != window.height)
        fprintf(out, " (from column %" PRIu32 " and row %" PRIu32 " of %" PRIu32 " x %" PRIu32 ")",
                window.x, window.y, window.width, window.height);
}

void plan_print_passes(const struct plan *plan, size_t variant, FILE *out)
{
    const struct plan_variant *result = &plan->variants[variant];
    assert(variant < plan->variant_count);
    if (result->pass_count == 0) {
        fprintf(out, "  no pass: the result is the decoded image");
        print_window((struct pass_window){plan->source.width, plan->source.height, result->x,
                                          result->y}, result->width, result->height, out);
        fputc('\n', out);
    }
    for (uint32_t p = 0; p < result->pass_count; p++) {
        const struct pass *pass = &result->passes[p];
        fprintf(out, "  pass %-2" PRIu32 " %-18s", p + 1, pass->type->name);
        print_shape(pass->from, out);
        fprintf(out, " ->");
        print_shape(pass->to, out);
        if (pass->same || pass->deferred) {
            fprintf(out, pass->same ? "  done for an earlier output\n" : "  done by the last %s\n",
                    pass->type->name);
            continue;
        }
        fprintf(out, "  reads %zu of %s", pass_shape_bytes(pass->from),
                place_name(pass->from_place.buffer));
        print_window(pass->window, pass->from.width, pass->from.height, out);
        if (!pass->looks)
            fprintf(out, ", writes %zu of %s", pass_written_bytes(pass),
                    place_name(pass->to_place.buffer));
        if (pass->values)
            fprintf(out, ", values in %zu", pass->work_bytes);
        else if (pass->work_bytes)
            fprintf(out, ", works in %zu", pass->work_bytes);
        fputc('\n', out);
    }
}

void plan_print_memory(const struct plan *plan, FILE *out)
{
    size_t pinned = buffer_align(plan->input_bytes) + buffer_align(plan->output_bytes);
    fprintf(out, "pinned   %zu bytes: input %zu, results %zu%s\n", pinned, plan->input_bytes,
            plan->output_bytes, plan->idle ? "; no engine is needed" : "");
    fprintf(out, "scratch  %zu bytes: on the device, or pinned too with the CPU engine\n",
            plan->scratch_bytes);
    fprintf(out, "device   %zu bytes: input, results and scratch\n", plan->device_bytes);
}

/* ---- as JSON ------------------------------------------------------------------------------- */

static bool add_number(cJSON *object, const char *key, double value)
{
    return cJSON_AddNumberToObject(object, key, value) != NULL;
}

static bool add_shape(cJSON *object, const char *key, struct pass_shape shape)
{
    cJSON *item = cJSON_AddObjectToObject(object, key);
    return item && add_number(item, "width", shape.width) &&
           add_number(item, "height", shape.height) &&
           add_number(item, "channels", image_samples(shape.channels)) &&
           (!image_is_deep(shape.channels) || add_number(item, "depth", 16));
}

/* The bytes that a pass reads or writes, and their buffer. */
static bool add_transfer(cJSON *object, const char *key, size_t bytes, enum pass_buffer buffer)
{
    cJSON *item = cJSON_AddObjectToObject(object, key);
    return item && add_number(item, "bytes", (double)bytes) &&
           cJSON_AddStringToObject(item, "buffer", place_name(buffer));
}

static bool fill_pass(cJSON *item, const struct pass *pass)
{
    if (!cJSON_AddStringToObject(item, "name", pass->type->name) ||
        !add_shape(item, "from", pass->from) || !add_shape(item, "to", pass->to))
        return false;
    if (!pass_runs(pass))
        return cJSON_AddTrueToObject(item, pass->same ? "shared" : "deferred") != NULL;
    return add_transfer(item, "reads", pass_shape_bytes(pass->from), pass->from_place.buffer) &&
           (pass->looks ||
            add_transfer(item, "writes", pass_written_bytes(pass), pass->to_place.buffer)) &&
           (pass->work_bytes == 0 || add_number(item, pass->values ? "values_bytes" : "work_bytes",
                                                (double)pass->work_bytes));
}

cJSON *plan_json_passes(const struct plan *plan, size_t variant)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;
    assert(variant < plan->variant_count);
    for (uint32_t p = 0; p < plan->variants[variant].pass_count && ok; p++) {
        cJSON *item = cJSON_CreateObject();
        ok = item && cJSON_AddItemToArray(list, item) &&
             fill_pass(item, &plan->variants[variant].passes[p]);
    }
    if (ok)
        return list;
    cJSON_Delete(list);
    return NULL;
}

cJSON *plan_json_memory(const struct plan *plan)
{
    size_t pinned = buffer_align(plan->input_bytes) + buffer_align(plan->output_bytes);
    cJSON *json = cJSON_CreateObject();
    if (json && add_number(json, "pinned", (double)pinned) &&
        add_number(json, "input", (double)plan->input_bytes) &&
        add_number(json, "results", (double)plan->output_bytes) &&
        add_number(json, "scratch", (double)plan->scratch_bytes) &&
        add_number(json, "device", (double)plan->device_bytes))
        return json;
    cJSON_Delete(json);
    return NULL;
}
