/*
 * apply - applies operations with the CPU engine to pixels from standard input, to compare them
 * with other programs:
 *
 *     apply WIDTH HEIGHT CHANNELS OPS [EIGHTHS [PROFILE]] < pixels > result
 *
 * Rows have no padding. The output starts with a line "WIDTH HEIGHT CHANNELS VALUES"; VALUES is the
 * JSON of the operations' values. With EIGHTHS, the pixels are those of an image of this size,
 * decoded at EIGHTHS / 8. An overlay is a file of RGBA pixels. Its name ends in "-WIDTHxHEIGHT". It
 * is not resized. PROFILE is a file
 * with the ICC profile of the pixels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/engine/engine.h"
#include "gpu/plan/op_list.h"
#include "gpu/plan/plan_values.h"

static enum status find_overlay(void *context, const struct plan_overlay_request *request,
                                struct plan_overlay *overlay, struct error *error)
{
    const char *path = request->place.path ? request->place.path : "";
    const char *sides = strrchr(path, '-');
    struct image *image = &overlay->image;
    (void)context;
    *overlay = (struct plan_overlay){.image = {.channels = 4}, .gray = true};
    FILE *file = fopen(path, "rb");
    if (!file || !sides || sscanf(sides, "-%ux%u", &image->width, &image->height) != 2)
        return error_set(error, STATUS_INPUT_MISSING, "no overlay \"%.100s\"", path);
    image->stride = (size_t)image->width * 4;
    size_t bytes = image->stride * image->height;
    image->pixels = malloc(bytes); /* until the program ends */
    bool read = image->pixels && fread(image->pixels, 1, bytes, file) == bytes;
    fclose(file);
    if (!read)
        return error_set(error, STATUS_INPUT_UNREADABLE, "\"%.100s\" is short", path);
    for (const uint8_t *pixel = image->pixels; pixel < image->pixels + bytes; pixel += 4)
        overlay->gray &= pixel[3] == 0 || (pixel[0] == pixel[1] && pixel[0] == pixel[2]);
    return STATUS_OK;
}

static int die(const struct error *error)
{
    fprintf(stderr, "apply: %s\n", error->text);
    return 1;
}

static bool copy_rows(struct image image, FILE *file, bool out)
{
    size_t row = (size_t)image.width * image.channels;
    for (uint32_t y = 0; y < image.height; y++) {
        uint8_t *pixels = image.pixels + y * image.stride;
        if ((out ? fwrite(pixels, 1, row, file) : fread(pixels, 1, row, file)) != row)
            return false;
    }
    return true;
}

static bool write_result(const struct plan *plan, const struct engine_memory *memory)
{
    struct image result = plan_result(plan, 0, memory->input, memory->output);
    cJSON *values = plan_values(plan, 0, memory->output);
    char *text = cJSON_PrintUnformatted(values);
    if (text)
        printf("%u %u %u %s\n", result.width, result.height, result.channels, text);
    bool written = text && copy_rows(result, stdout, true);
    cJSON_free(text);
    cJSON_Delete(values);
    return written;
}

/* Reads a whole file of at most ICC_BYTES_MAX. */
static bool read_profile(const char *path, struct plan_source *source)
{
    static uint8_t bytes[ICC_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    source->icc = bytes;
    source->icc_bytes = fread(bytes, 1, sizeof(bytes), file);
    return fclose(file) == 0;
}

static int apply(struct engine *engine, const struct plan *plan, struct error *error)
{
    struct engine_memory memory;
    struct engine_task task = {.plan = plan, .memory = &memory};
    if (engine_reserve(engine, plan, &memory, error) != ENGINE_RESERVED)
        return die(error);
    plan_put_constants(plan, memory.input);
    bool read = copy_rows(plan_input(plan, memory.input), stdin, false), written = false;
    if (read)
        engine_run(engine, &task);
    else
        fprintf(stderr, "apply: standard input has too few pixels\n");
    if (read && task.error.status == STATUS_OK) {
        written = write_result(plan, &memory);
    } else if (read) {
        die(&task.error);
    }
    engine_release(engine, &memory);
    return written ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct engine_config config = {.kind = "cpu", .pinned_bytes = 4 * GIB};
    struct plan_limits limits = {.pixels_max = PIXELS_CEILING, .side_max = SIDE_CEILING};
    struct engine *engine;
    struct plan plan;
    if (argc < 5 || argc > 7) {
        fprintf(stderr, "usage: apply WIDTH HEIGHT CHANNELS OPS [EIGHTHS [PROFILE]] < pixels "
                        "> result\n");
        return 64;
    }
    struct plan_source source = {.width = (uint32_t)atoi(argv[1]),
                                 .height = (uint32_t)atoi(argv[2]),
                                 .channels = (uint32_t)atoi(argv[3]),
                                 .orientation = 1,
                                 .eighths = argc > 5 ? (uint32_t)atoi(argv[5]) : 0};
    const struct plan_overlays overlays = {.find = find_overlay};
    cJSON *json = cJSON_Parse(argv[4]);
    struct op_item *ops;
    if (op_list_parse(&ops, json, -1, &error) != STATUS_OK)
        return die(&error);
    struct plan_target target = {.ops = ops, .overlays = &overlays};
    if (argc > 6 && !read_profile(argv[6], &source)) {
        fprintf(stderr, "apply: %s cannot be read\n", argv[6]);
        return 64;
    }
    if (engine_open(&config, &engine, &error) != STATUS_OK)
        return die(&error);
    int result = 1;
    if (plan_build(&plan, &source, &target, 1, &limits, &error) == STATUS_OK)
        result = apply(engine, &plan, &error);
    else
        die(&error);
    plan_clear(&plan);
    engine_close(engine);
    op_list_free(ops);
    cJSON_Delete(json);
    return result;
}
