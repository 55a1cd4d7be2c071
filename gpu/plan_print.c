/* plan_print.c - a plan as text. Bytes are those of whole rows, padding included. */
#include <inttypes.h>
#include <stdio.h>

#include "gpu/pass.h"
#include "gpu/plan.h"
#include "gpu/pool.h"

static const char *place_name(enum pass_buffer buffer)
{
    return buffer == PASS_INPUT ? "input" : buffer == PASS_OUTPUT ? "results" : "scratch";
}

static void print_shape(struct pass_shape shape, FILE *out)
{
    char text[40];
    snprintf(text, sizeof(text), "%" PRIu32 " x %" PRIu32 " x %" PRIu32, shape.width,
             shape.height, shape.channels);
    fprintf(out, "%17s", text);
}

/* Where a rectangle begins, unless it is the whole of the image. */
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
        fprintf(out, "  no pass: the result is what was decoded");
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
        if (pass->deferred) {
            fprintf(out, "  done with the last %s\n", pass->type->name);
            continue;
        }
        fprintf(out, "  reads %zu of %s", pass_shape_bytes(pass->from),
                place_name(pass->from_place.buffer));
        print_window(pass->window, pass->from.width, pass->from.height, out);
        if (!pass->looks)
            fprintf(out, ", writes %zu of %s", pass_shape_bytes(pass->to),
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
    size_t pinned = pool_align(plan->input_bytes) + pool_align(plan->output_bytes);
    fprintf(out, "pinned   %zu bytes: input %zu, results %zu%s\n", pinned, plan->input_bytes,
            plan->output_bytes, plan->idle ? "; no engine is needed" : "");
    fprintf(out, "scratch  %zu bytes: on the device, or pinned too with the CPU engine\n",
            plan->scratch_bytes);
    fprintf(out, "device   %zu bytes: input, results and scratch\n", plan->device_bytes);
}
