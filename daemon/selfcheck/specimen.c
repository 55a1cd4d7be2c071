#include "daemon/selfcheck/specimen.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/plan/plan.h"

/* Odd sides, so that every tail of a tile and of a row is taken. */
#define WIDTH      173
#define HEIGHT     131
#define FILE_BYTES (WIDTH * HEIGHT * 3 + 65536)

struct file {
    uint8_t bytes[FILE_BYTES];
    size_t length;
};

struct specimen {
    struct file source, result; /* PNG */
    struct image_info info;
    cJSON *ops;
    struct plan plan;
    uint8_t *pixels;            /* the result's, of rows of row_bytes */
    size_t row_bytes;
};

static bool wrong(struct error *error, const char *what)
{
    error_set(error, STATUS_GPU_FAILED, "%s", what);
    return false;
}

/* ---- codecs ---------------------------------------------------------------------------------- */

struct file_sink {
    struct codec_sink sink;
    struct file *file;
};

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    struct file *file = container_of(sink, struct file_sink, sink)->file;
    if (file->length + used > FILE_BYTES)
        return error_set(error, STATUS_ENCODE_FAILED, "the test image grew to over %d bytes",
                         FILE_BYTES);
    memcpy(file->bytes + file->length, sink->buffer, used);
    file->length += used;
    return STATUS_OK;
}

static bool encode(struct codec_context *codec, const struct image *image, struct file *file,
                   struct error *error)
{
    uint8_t buffer[4096];
    struct file_sink sink = {{.buffer = buffer, .capacity = sizeof buffer, .flush = keep}, file};
    struct encode_request png = {.codec = codec_by_name("png"), .compression = 1};
    file->length = 0;
    return codec_encode(codec, image, &png, &sink.sink, error) == STATUS_OK;
}

static const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};

static bool decode(const struct specimen *specimen, struct codec_context *codec,
                   struct image *image, struct error *error)
{
    struct decode_request request = {0};
    return codec_decode(codec, specimen->source.bytes, specimen->source.length, &specimen->info,
                        &request, &limits, image, error) == STATUS_OK;
}

bool specimen_decode(const struct specimen *specimen, struct codec_context *codec,
                     const struct engine_memory *memory, struct error *error)
{
    struct image image = plan_input(&specimen->plan, memory->input);
    memset(memory->output, 0xA5, specimen->plan.output_bytes);
    return decode(specimen, codec, &image, error);
}

bool specimen_compare(const struct specimen *specimen, struct codec_context *codec,
                      const struct engine_memory *memory, struct error *error)
{
    struct image image = plan_result(&specimen->plan, 0, memory->input, memory->output);
    for (uint32_t y = 0; y < image.height; y++)
        if (memcmp(image.pixels + y * image.stride, specimen->pixels + y * specimen->row_bytes,
                   specimen->row_bytes) != 0)
            return wrong(error, "the engine's pixels differ from the CPU's");
    struct file *file = malloc(sizeof *file);
    bool ok = file ? encode(codec, &image, file, error) : wrong(error, "no memory");
    if (ok && (file->length != specimen->result.length ||
               memcmp(file->bytes, specimen->result.bytes, file->length) != 0))
        ok = wrong(error, "the encoder's bytes differ from the first ones");
    free(file);
    return ok;
}

/* ---- making it ------------------------------------------------------------------------------- */

/* A picture with smooth and with wild places, the same on every machine. */
static void draw(const struct image *image)
{
    uint32_t state = 2463534242u;
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width * image->channels; x++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5; /* Marsaglia, Xorshift RNGs, 2003 */
            row[x] = (uint8_t)((x / 40 + y / 40) % 2 ? state >> 24 : x + y);
        }
    }
}

/* Draws, encodes as PNG, decodes again: lossless, so both must be equal. */
static bool make_source(struct specimen *specimen, struct codec_context *codec,
                        struct error *error)
{
    size_t bytes = image_bytes(WIDTH, HEIGHT, 3);
    uint8_t *pixels = calloc(2, bytes);
    struct image drawn = {.pixels = pixels, .width = WIDTH, .height = HEIGHT, .channels = 3,
                          .stride = image_stride(WIDTH, 3)};
    struct image decoded = drawn;
    if (!pixels)
        return wrong(error, "no memory");
    decoded.pixels = pixels + bytes;
    draw(&drawn);
    bool ok = encode(codec, &drawn, &specimen->source, error) &&
              codec_probe(codec, specimen->source.bytes, specimen->source.length, &limits,
                          &specimen->info, error) == STATUS_OK &&
              decode(specimen, codec, &decoded, error);
    if (ok && memcmp(drawn.pixels, decoded.pixels, bytes) != 0)
        ok = wrong(error, "PNG does not give back what went in");
    free(pixels);
    return ok;
}

static bool make_plan(struct specimen *specimen, struct error *error)
{
    specimen->ops = cJSON_Parse("[\"grayscale\",\"sobel\"]");
    if (!specimen->ops)
        return wrong(error, "no memory");
    /* Turned by 90 degrees, so that the orientation pass is in it as well. */
    struct plan_source source = {.width = WIDTH, .height = HEIGHT, .channels = 3,
                                 .orientation = 6, .background = {255, 255, 255}};
    struct plan_target target = {.ops = specimen->ops};
    struct plan_limits bounds = {PIXELS_DEFAULT, SIDE_DEFAULT};
    return plan_build(&specimen->plan, &source, &target, 1, &bounds, error) == STATUS_OK;
}

static bool keep_result(struct specimen *specimen, struct codec_context *codec,
                        const struct engine_memory *memory, struct error *error)
{
    struct image image = plan_result(&specimen->plan, 0, memory->input, memory->output);
    specimen->row_bytes = (size_t)image.width * image.channels;
    specimen->pixels = malloc(specimen->row_bytes * image.height);
    if (!specimen->pixels)
        return wrong(error, "no memory");
    for (uint32_t y = 0; y < image.height; y++)
        memcpy(specimen->pixels + y * specimen->row_bytes, image.pixels + y * image.stride,
               specimen->row_bytes);
    return encode(codec, &image, &specimen->result, error);
}

static bool make_result(struct specimen *specimen, struct codec_context *codec,
                        struct error *error)
{
    struct engine_config config = {.kind = "cpu", .pinned_bytes = 16 * MIB};
    struct engine_memory memory = {0};
    struct engine_task task = {.plan = &specimen->plan, .memory = &memory};
    struct engine *cpu = NULL;
    if (engine_open(&config, &cpu, error) != STATUS_OK)
        return false;
    bool ok = engine_reserve(cpu, &specimen->plan, &memory, error) == ENGINE_RESERVED &&
              specimen_decode(specimen, codec, &memory, error);
    if (ok) { /* the plan has no constants */
        engine_run(cpu, &task);
        ok = keep_result(specimen, codec, &memory, error);
    }
    engine_release(cpu, &memory);
    engine_close(cpu);
    return ok;
}

struct specimen *specimen_create(struct error *error)
{
    struct specimen *specimen = calloc(1, sizeof *specimen);
    struct codec_context *codec = codec_context_create();
    bool ok = specimen && codec ? make_source(specimen, codec, error) &&
                                      make_plan(specimen, error) &&
                                      make_result(specimen, codec, error)
                                : wrong(error, "no memory");
    codec_context_destroy(codec);
    if (ok)
        return specimen;
    specimen_destroy(specimen);
    return NULL;
}

void specimen_destroy(struct specimen *specimen)
{
    if (!specimen)
        return;
    image_info_clear(&specimen->info);
    plan_clear(&specimen->plan);
    cJSON_Delete(specimen->ops);
    free(specimen->pixels);
    free(specimen);
}

const struct plan *specimen_plan(const struct specimen *specimen)
{
    return &specimen->plan;
}
