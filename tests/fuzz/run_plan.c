/* run_plan.c - see run_plan.h. */
#include "tests/fuzz/run_plan.h"

#include <string.h>

#include "gpu/engine/engine.h"
#include "gpu/plan/pass.h"
#include "tests/fuzz/fuzz.h"

/* ---- layout ---- */

/* Bytes that a pass touches in one of the three buffers. */
struct extent {
    enum pass_buffer buffer;
    size_t from, to;
};

static struct extent extent_of(const struct plan *plan, struct pass_place place, size_t bytes)
{
    struct extent extent = {place.buffer, place.offset, place.offset + bytes};
    size_t room = place.buffer == PASS_INPUT    ? plan->input_bytes
                  : place.buffer == PASS_OUTPUT ? plan->output_bytes
                                                : plan->scratch_bytes;
    FUZZ_MUST(place.offset % BUFFER_ALIGN == 0);
    FUZZ_MUST(bytes == 0 || (extent.to > extent.from && extent.to <= room));
    return extent;
}

static bool overlap(struct extent a, struct extent b)
{
    return a.buffer == b.buffer && a.from < b.to && b.from < a.to;
}

static void check_pass(const struct plan *plan, const struct pass *pass,
                       const struct plan_limits *limits)
{
    const struct pass_window *window = &pass->window;
    struct pass_shape from = pass->from, to = pass->to;
    size_t read = image_bytes(window->width, window->height, from.channels);
    size_t written = pass->looks ? 0 : image_bytes(to.width, to.height, to.channels);
    FUZZ_MUST(from.width >= 1 && window->x + from.width <= window->width);
    FUZZ_MUST(from.height >= 1 && window->y + from.height <= window->height);
    FUZZ_MUST(to.width >= 1 && to.height >= 1);
    FUZZ_MUST(pass->aside || (to.width <= limits->side_max && to.height <= limits->side_max));
    FUZZ_MUST(to.channels == 1 || to.channels == 3 || to.channels == 4);
    struct extent in = extent_of(plan, pass->from_place, read);
    struct extent out = extent_of(plan, pass->to_place, written);
    struct extent work = extent_of(plan, pass->work_place, pass->work_bytes);
    FUZZ_MUST(!written || (!overlap(in, out) && out.buffer != PASS_INPUT));
    FUZZ_MUST(!pass->work_bytes || (!overlap(work, in) && (!written || !overlap(work, out))));
    FUZZ_MUST(pass->constants_at + pass->constants_bytes <= plan->constants_bytes);
    FUZZ_MUST((pass->fill != NULL) == (pass->constants_bytes > 0));
}

void run_plan_check_layout(const struct plan *plan, const struct plan_limits *limits)
{
    FUZZ_MUST(plan->constants_at + plan->constants_bytes <= plan->input_bytes);
    for (uint32_t v = 0; v < plan->variant_count; v++) {
        const struct plan_variant *variant = &plan->variants[v];
        for (uint32_t p = 0; p < variant->pass_count; p++) {
            const struct pass *pass = &variant->passes[p];
            if (pass->deferred)
                FUZZ_MUST(pass->work_place.offset + pass->work_bytes <= plan->output_bytes);
            else
                check_pass(plan, pass, limits);
        }
        FUZZ_MUST((uint64_t)variant->width * variant->height <= limits->pixels_max);
        FUZZ_MUST(variant->width <= limits->side_max && variant->height <= limits->side_max);
    }
}

/* ---- running ---- */

static uint8_t *allocate(size_t bytes, uint8_t fill)
{
    void *memory = NULL;
    FUZZ_MUST(posix_memalign(&memory, BUFFER_ALIGN, bytes > 0 ? bytes : 1) == 0);
    memset(memory, fill, bytes);
    return memory;
}

/* The decoded picture: the same at each run, padding aside. */
static void draw(const struct plan *plan, uint8_t *input)
{
    struct image image = plan_input(plan, input);
    for (uint32_t y = 0; y < image.height; y++)
        for (size_t x = 0; x < (size_t)image.width * image.channels; x++)
            image.pixels[y * image.stride + x] = (uint8_t)(x * 37 + y * y * 11 + x * y);
}

static struct engine_memory run(struct engine *engine, const struct plan *plan, uint8_t fill)
{
    struct engine_memory memory = {.input = allocate(plan->input_bytes, fill),
                                   .output = allocate(plan->output_bytes, fill),
                                   .scratch = allocate(plan->scratch_bytes, fill)};
    struct engine_task task = {.plan = plan, .memory = &memory};
    draw(plan, memory.input);
    plan_put_constants(plan, memory.input);
    engine_run(engine, &task);
    FUZZ_MUST(task.error.status == STATUS_OK);
    return memory;
}

static void release(struct engine_memory *memory)
{
    free(memory->input);
    free(memory->output);
    free(memory->scratch);
}

static void compare_pictures(const struct plan *plan, size_t variant,
                             const struct engine_memory *a, const struct engine_memory *b)
{
    struct image one = plan_result(plan, variant, a->input, a->output);
    struct image two = plan_result(plan, variant, b->input, b->output);
    for (uint32_t y = 0; y < one.height; y++)
        FUZZ_MUST(memcmp(one.pixels + y * one.stride, two.pixels + y * two.stride,
                         (size_t)one.width * one.channels) == 0);
}

static void compare_values(const struct plan *plan, size_t variant,
                           const struct engine_memory *a, const struct engine_memory *b)
{
    cJSON *one = plan_values(plan, variant, a->output);
    cJSON *two = plan_values(plan, variant, b->output);
    FUZZ_MUST(one != NULL && two != NULL && cJSON_Compare(one, two, true));
    cJSON_Delete(one);
    cJSON_Delete(two);
}

void run_plan_twice(const struct plan *plan)
{
    static struct engine *engine;
    struct engine_config config = {.kind = "cpu", .pinned_bytes = MIB};
    struct error error = {0};
    if (engine == NULL)
        FUZZ_MUST(engine_open(&config, &engine, &error) == STATUS_OK);
    struct engine_memory a = run(engine, plan, 0x5A), b = run(engine, plan, 0xA5);
    for (size_t v = 0; v < plan->variant_count; v++) {
        if (!plan->variants[v].no_picture)
            compare_pictures(plan, v, &a, &b);
        if (plan_has_values(plan, v))
            compare_values(plan, v, &a, &b);
    }
    release(&a);
    release(&b);
}
