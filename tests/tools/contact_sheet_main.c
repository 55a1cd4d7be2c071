/*
 * contact_sheet - every operation on one picture, as one PNG with captions:
 *
 *     contact_sheet OUT.png [PHOTO]
 *
 * Decoded, planned, computed (on the CPU engine) and encoded by the daemon's own code. Without a
 * photograph it draws a landscape.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/op.h"
#include "tests/fixtures/lettering.h"
#include "tests/fixtures/text_file.h"

#define COLUMNS 5
#define TILE_WIDTH 336
#define TILE_HEIGHT 224
#define CAPTION 44
#define GAP 20
#define TITLE 64
#define PAPER 248
#define HISTOGRAM_LEFT 40 /* columns before its 256 */

struct tile {
    const char *operation, *parameters; /* as a job has them, without quotes and braces */
};

static const struct tile tiles[] = {
    {"", ""},
    {"grayscale", ""},
    {"sobel", ""},
    {"sobel", "magnitude:l2"},
    {"invert", ""},
    {"gamma", "gamma:2.2"},
    {"levels", "in_black:60,in_white:190"},
    {"threshold", "value:125"},
    {"color_matrix", "matrix:[[.39,.77,.19,0],[.35,.69,.17,0],[.27,.53,.13,0]]"},
    {"transpose", ""},
    {"rotate", "angle:90"},
    {"rotate", "angle:180"},
    {"flip", "axis:horizontal"},
    {"flip", "axis:vertical"},
    {"crop", "width:200,height:140"},
    {"resize", "width:168"},
    {"resize", "width:42,filter:box"},
    {"gaussian", "ksize:5"},
    {"gaussian", "ksize:21,sigma:6"},
    {"unsharp", "amount:3"},
    {"convolve", "kernel:[[-2,-1,0],[-1,1,1],[0,1,2]]"},
    {"convolve", "kernel:[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]"},
    {"median", "size:3"},
    {"median", "size:5"},
    {"canny", ""},
    {"canny", "low:100,high:300"},
    {"histogram", ""},
    {"stats", ""},
    {"otsu", ""},
    {"equalize", ""},
    {"phash", ""},
};
#define TILES (sizeof(tiles) / sizeof(tiles[0]))

static struct engine *engine;

static void die(const char *what, const struct error *error)
{
    fprintf(stderr, "contact_sheet: %s: %s\n", what, error->text);
    exit(1);
}

static struct image image_new(uint32_t width, uint32_t height, uint32_t channels)
{
    struct image image = {NULL, width, height, channels, image_stride(width, channels)};
    image.pixels = calloc(1, image_bytes(width, height, channels));
    if (!image.pixels)
        exit(1);
    return image;
}

/* ---- the picture ---- */

static struct image decode(const char *path, int *orientation)
{
    struct error error = {0};
    struct image_info info = {0};
    struct codec_limits limits = {.pixels_max = PIXELS_CEILING, .side_max = SIDE_CEILING,
                                  .jpeg_scans_max = 100, .jpeg_warnings_max = 100};
    struct decode_request request = {.as = DECODE_COLOUR};
    struct codec_context *context = codec_context_create();
    size_t length = 0;
    unsigned char *bytes = text_file_bytes(path, &length);
    if (!bytes || !context) {
        fprintf(stderr, "contact_sheet: %s cannot be read\n", path);
        exit(1);
    }
    if (codec_probe(context, bytes, length, &limits, &info, &error) != STATUS_OK)
        die(path, &error);
    struct image image = image_new(info.width, info.height, info.channels);
    if (codec_decode(context, bytes, length, &info, &request, &limits, &image, &error))
        die(path, &error);
    *orientation = info.orientation;
    image_info_clear(&info);
    codec_context_destroy(context);
    free(bytes);
    return image;
}

static void put(struct image *image, uint32_t x, uint32_t y, int red, int green, int blue)
{
    int values[3] = {red, green, blue};
    for (int c = 0; c < 3; c++)
        image->pixels[y * image->stride + (size_t)x * 3 + (size_t)c] =
            (uint8_t)(values[c] < 0 ? 0 : values[c] > 255 ? 255 : values[c]);
}

/* How high the range of hills stands at x: parabolas side by side. */
static int hill(int x, int period, int height)
{
    int at = x % period * 2 - period;
    return height - height * at / period * at / period;
}

static struct image landscape(void)
{
    struct image image = image_new(3 * TILE_WIDTH, 3 * TILE_HEIGHT, 3);
    int height = (int)image.height;
    uint32_t state = 7;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < (int)image.width; x++) {
            state = state * 1664525u + 1013904223u;
            int grain = (int)(state >> 28) - 8, light = y * 120 / height;
            int far_x = x - 760, far_y = y - 150, sun = far_x * far_x + far_y * far_y;
            int red = 90 + light, green = 150 + light / 2, blue = 235 - light / 3;
            if (sun < 70 * 70)
                red = 255, green = 236, blue = 170;
            if (y > height - 200 - hill(x + 90, 420, 150))
                red = 96 + grain, green = 112 + grain, blue = 150 + grain;
            if (y > height - 120 - hill(x, 560, 130))
                red = 60 + grain, green = 120 + y / 12 + 2 * grain, blue = 60 + grain;
            if (y > height - 90 && (x / 48 + (y - height) / 24) % 2 == 0)
                red = 190 + 2 * grain, green = 160 + grain, blue = 70 + grain;
            put(&image, (uint32_t)x, (uint32_t)y, red, green, blue);
        }
    }
    return image;
}

/* ---- a tile ---- */

/* values: what the operations found out, to be deleted; may be NULL. */
static struct image apply(struct image image, int orientation, const char *json, cJSON **values)
{
    struct error error = {0};
    struct plan plan;
    struct engine_memory memory;
    struct plan_source source = {.width = image.width, .height = image.height,
                                 .channels = image.channels, .orientation = orientation,
                                 .background = {255, 255, 255}};
    struct plan_target target = {.ops = cJSON_Parse(json), .opaque = true};
    struct plan_limits limits = {.pixels_max = PIXELS_CEILING, .side_max = SIDE_CEILING};
    if (plan_build(&plan, &source, &target, 1, &limits, &error) != STATUS_OK ||
        engine_reserve(engine, &plan, &memory, &error) != ENGINE_RESERVED)
        die(json, &error);
    struct image input = plan_input(&plan, memory.input);
    memcpy(input.pixels, image.pixels, input.stride * input.height);
    plan_put_constants(&plan, memory.input);
    struct engine_task task = {.plan = &plan, .memory = &memory};
    engine_run(engine, &task);
    if (task.error.status != STATUS_OK)
        die(json, &task.error);
    struct image view = plan_result(&plan, 0, memory.input, memory.output);
    struct image result = image_new(view.width, view.height, view.channels);
    for (uint32_t y = 0; y < view.height; y++)
        memcpy(result.pixels + y * result.stride, view.pixels + y * view.stride,
               (size_t)view.width * view.channels);
    if (values) {
        cJSON *made = plan_values(&plan, 0, memory.output);
        char *text = cJSON_PrintUnformatted(made);
        *values = cJSON_Parse(text); /* as a reader of the result has them: long ones are text */
        free(text);
        cJSON_Delete(made);
    }
    engine_release(engine, &memory);
    plan_clear(&plan);
    cJSON_Delete((cJSON *)target.ops);
    return result;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* "ksize:5" to [{"op":...,"ksize":5}]: words get quotes, and ".39" its zero. */
static void write_json(const struct tile *tile, char *json, size_t size)
{
    size_t n = (size_t)snprintf(json, size, "[");
    if (*tile->operation)
        n += (size_t)snprintf(json + n, size - n, "{\"op\":\"%s\"%s", tile->operation,
                              *tile->parameters ? "," : "");
    bool inside = false;
    for (const char *at = tile->parameters; n + 8 < size; at++) {
        if (is_word(*at) != inside && (is_word(*at) || !(*at >= '0' && *at <= '9'))) {
            json[n++] = '"';
            inside = !inside;
        }
        if (!*at)
            break;
        if (*at == '.' && !(at > tile->parameters && at[-1] >= '0' && at[-1] <= '9'))
            json[n++] = '0';
        json[n++] = *at;
    }
    snprintf(json + n, size - n, "%s]", *tile->operation ? "}" : "");
}

static void paste(struct image sheet, struct image image, uint32_t left, uint32_t top)
{
    for (uint32_t y = 0; y < image.height; y++) {
        for (uint32_t x = 0; x < image.width; x++) {
            const uint8_t *from = image.pixels + y * image.stride + (size_t)x * image.channels;
            put(&sheet, left + x, top + y, from[0], from[image.channels > 1 ? 1 : 0],
                from[image.channels > 1 ? 2 : 0]);
        }
    }
}

/* A histogram over the lower half of its picture, each channel's line in its colour. */
static void draw_histogram(struct image image, const cJSON *channels)
{
    const cJSON *counts, *each;
    double most = 1;
    int channel = 0;
    cJSON_ArrayForEach(counts, channels)
        cJSON_ArrayForEach(each, counts)
            most = each->valuedouble > most ? each->valuedouble : most;
    cJSON_ArrayForEach(counts, channels)
    {
        int value = 0;
        cJSON_ArrayForEach(each, counts)
        {
            uint32_t bar = (uint32_t)(each->valuedouble / most * image.height / 2);
            for (uint32_t y = image.height - bar; y < image.height; y++)
                image.pixels[y * image.stride +
                             (HISTOGRAM_LEFT + (size_t)value) * 3 + (size_t)channel] = 255;
            value++;
        }
        channel++;
    }
}

/* The means beside each other, "otsu 118"; nothing where there is nothing to say. */
static void describe(const cJSON *values, char *text, size_t size)
{
    const cJSON *stats = cJSON_GetObjectItem(values, "stats"), *mean;
    const cJSON *otsu = cJSON_GetObjectItem(values, "otsu");
    const cJSON *phash = cJSON_GetObjectItem(values, "phash");
    size_t length = 0;
    if (otsu)
        snprintf(text, size, "gives the threshold: %d", otsu->valueint);
    if (phash)
        snprintf(text, size, "gives %s", phash->valuestring);
    if (!stats)
        return;
    length = (size_t)snprintf(text, size, "gives mean");
    cJSON_ArrayForEach(mean, cJSON_GetObjectItem(stats, "mean"))
        length += (size_t)snprintf(text + length, size - length, " %.2f", mean->valuedouble);
    snprintf(text + length, size - length, ", min, max");
}

/* Whole if it fits, else its largest view. Small ones are shown as they are, in the middle. */
static void draw_tile(struct image sheet, struct image photo, const struct tile *tile,
                      uint32_t left, uint32_t top)
{
    char json[600], text[120];
    cJSON *values = NULL;
    write_json(tile, json, sizeof(json));
    snprintf(text, sizeof(text), "%s", tile->parameters);
    struct image result = apply(photo, 1, json, &values);
    if (result.channels == 3 && result.width > HISTOGRAM_LEFT + 256)
        draw_histogram(result, cJSON_GetObjectItem(values, "histogram"));
    describe(values, text, sizeof(text));
    cJSON_Delete(values);
    if (result.width > TILE_WIDTH || result.height > TILE_HEIGHT) {
        char fit[120];
        snprintf(fit, sizeof(fit), "[{\"op\":\"resize\",\"width\":%d,\"height\":%d}]", TILE_WIDTH,
                 TILE_HEIGHT);
        struct image smaller = apply(result, 1, fit, NULL);
        free(result.pixels);
        result = smaller;
    }
    for (uint32_t y = 0; y < TILE_HEIGHT; y++)
        for (uint32_t x = 0; x < TILE_WIDTH; x++)
            put(&sheet, left + x, top + y, 232, 232, 236);
    paste(sheet, result, left + (TILE_WIDTH - result.width) / 2,
          top + (TILE_HEIGHT - result.height) / 2);
    const char *name = *tile->operation ? tile->operation : "the picture itself";
    lettering_draw(&sheet, left, top + TILE_HEIGHT + 6, 2, TILE_WIDTH, 30, name);
    lettering_draw(&sheet, left, top + TILE_HEIGHT + 26, 1, TILE_WIDTH, 110, text);
    free(result.pixels);
}

/* ---- the sheet ---- */

static bool all_are_there(void)
{
    bool all = true;
#define X(name)                                                                                    \
    {                                                                                              \
        size_t i = 0;                                                                              \
        while (i < TILES && strcmp(tiles[i].operation, #name) != 0)                                \
            i++;                                                                                   \
        if (i == TILES)                                                                            \
            fprintf(stderr, "contact_sheet: there is no tile for %s\n", #name);                    \
        all = all && i < TILES;                                                                    \
    }
    OP_TABLE(X)
#undef X
    return all;
}

struct file_sink {
    struct codec_sink sink;
    FILE *file;
};

static enum status flush(struct codec_sink *sink, size_t used, struct error *error)
{
    struct file_sink *self = (struct file_sink *)sink;
    if (fwrite(sink->buffer, 1, used, self->file) == used)
        return STATUS_OK;
    return error_set(error, STATUS_WRITE_FAILED, "the sheet cannot be written");
}

static void save(const struct image *sheet, const char *path)
{
    static uint8_t buffer[65536];
    struct error error = {0};
    struct encode_request request = {.format = format_by_name("png"), .encoder.compression = 6};
    struct file_sink sink = {{.buffer = buffer, .capacity = sizeof(buffer), .flush = flush},
                             fopen(path, "wb")};
    struct codec_context *context = codec_context_create();
    if (!sink.file || !context) {
        fprintf(stderr, "contact_sheet: %s cannot be written\n", path);
        exit(1);
    }
    if (codec_encode(context, sheet, &request, &sink.sink, &error) != STATUS_OK)
        die(path, &error);
    codec_context_destroy(context);
    if (fclose(sink.file) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct engine_config config = {.kind = "cpu", .pinned_bytes = 4 * GIB};
    int orientation = 1;
    char cover[120];
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: contact_sheet OUT.png [PHOTO]\n");
        return 64;
    }
    if (!all_are_there())
        return 1;
    if (engine_open(&config, &engine, &error) != STATUS_OK)
        die("engine", &error);
    struct image whole = argc > 2 ? decode(argv[2], &orientation) : landscape();
    snprintf(cover, sizeof(cover),
             "[{\"op\":\"resize\",\"width\":%d,\"height\":%d,\"fit\":\"cover\",\"enlarge\":true}]",
             TILE_WIDTH, TILE_HEIGHT);
    struct image photo = apply(whole, orientation, cover, NULL);

    uint32_t rows = (TILES + COLUMNS - 1) / COLUMNS;
    struct image sheet = image_new(COLUMNS * (TILE_WIDTH + GAP) + GAP,
                                   TITLE + rows * (TILE_HEIGHT + CAPTION + GAP), 3);
    memset(sheet.pixels, PAPER, sheet.stride * sheet.height);
    lettering_draw(&sheet, GAP, 22, 3, sheet.width, 30, "gpuimgd: its operations");
    for (uint32_t i = 0; i < TILES; i++)
        draw_tile(sheet, photo, &tiles[i], GAP + i % COLUMNS * (TILE_WIDTH + GAP),
                  TITLE + i / COLUMNS * (TILE_HEIGHT + CAPTION + GAP));
    save(&sheet, argv[1]);
    printf("%s: %u x %u, %zu tiles\n", argv[1], sheet.width, sheet.height, TILES);
    free(sheet.pixels);
    free(photo.pixels);
    free(whole.pixels);
    engine_close(engine);
    return 0;
}
