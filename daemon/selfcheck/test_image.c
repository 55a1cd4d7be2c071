#include "daemon/selfcheck/test_image.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/plan/op_list.h"
#include "gpu/plan/plan_values.h"

/* Odd sides, so that the kernels also run their code for partial tiles and row ends. The least
 * device_bytes have room for all outputs. */
#define WIDTH        173
#define HEIGHT       121
#define CHANNELS     4
#define OVERLAY_SIDE 23
#define FILE_BYTES   (WIDTH * HEIGHT * CHANNELS + 65536)

/* The operations of the outputs: one list per output. Every kernel of gpu/ops is used at least
 * once, and a wrong bit in its result changes the output (tests/cuda/test_test_image.c checks
 * this). No output has alpha but the deep ones (codecs/image.h), the DEEP_CHAINS before the last
 * one, which is a tensor. */
#define DEEP_CHAINS 3
static const char chains[] =
    "[[\"transpose\",\"stats\",\"grayscale\",\"sobel\"],"
    "[\"gaussian\",\"stats\",\"grayscale\",\"histogram\",\"equalize\"],"
    "[\"thumbhash\",\"canny\"],"
    "[{\"op\":\"composite\",\"input\":\"drawn\",\"tile\":true,\"x\":3,\"y\":4}],"
    "[\"blurhash\",\"palette\",\"otsu\"],"
    "[\"grayscale\",{\"op\":\"resize\",\"width\":40,\"height\":90,\"fit\":\"cover\","
    "\"gravity\":\"attention\"}],"
    "[\"phash\",\"median\"],"
    "[{\"op\":\"rotate\",\"angle\":7},{\"op\":\"pad\",\"left\":3,\"bottom\":2}],"
    "[{\"op\":\"resize\",\"width\":90,\"height\":160,\"fit\":\"exact\"},\"unsharp\"],"
    "[{\"op\":\"resize\",\"width\":90,\"filter\":\"nearest\"},\"stats\","
    "{\"op\":\"convolve\",\"kernel\":[[0,-1,0],[-1,5,-1],[0,-1,0]]},\"invert\"],"
    "[\"to_srgb\",{\"op\":\"levels\",\"in_black\":128}],"
    "[{\"op\":\"resize\",\"width\":60,\"height\":121,\"fit\":\"exact\"},\"transpose\","
    "{\"op\":\"pad\",\"left\":3}],"
    "[{\"op\":\"resize\",\"width\":173,\"height\":50,\"fit\":\"exact\"}],"
    "[{\"op\":\"resize\",\"width\":40,\"filter\":\"nearest\"}],"
    "[{\"op\":\"crop\",\"width\":40,\"height\":30,\"x\":0,\"y\":0}]]";
static const struct normalization normalize = {
    .given = true, .mean_count = 1, .std_count = 1, .mean = {0.5}, .std = {0.3}};

/* An ICC profile for the operation to_srgb: the primaries of Display P3 and a gamma of 2.2. */
#define TAG(a, b, c, d, at, bytes) a, b, c, d, 0, 0, (at) >> 8, (at) & 255, 0, 0, 0, bytes
#define XYZ(x, y, z) 'X', 'Y', 'Z', ' ', 0, 0, 0, 0, FIXED(x), FIXED(y), FIXED(z)
#define FIXED(number) 0, 0, (uint8_t)((number) >> 8), (uint8_t)(number)
enum { RED_AT = 204, GREEN_AT = 224, BLUE_AT = 244, CURVE_AT = 264, PROFILE_BYTES = 280 };
static const uint8_t profile[PROFILE_BYTES] = {
    [2] = PROFILE_BYTES >> 8, PROFILE_BYTES & 255,
    [8] = 2,
    [12] = 'm', 'n', 't', 'r', 'R', 'G', 'B', ' ', 'X', 'Y', 'Z', ' ',
    [36] = 'a', 'c', 's', 'p',
    [131] = 6,
    TAG('r', 'X', 'Y', 'Z', RED_AT, 20), TAG('g', 'X', 'Y', 'Z', GREEN_AT, 20),
    TAG('b', 'X', 'Y', 'Z', BLUE_AT, 20), TAG('r', 'T', 'R', 'C', CURVE_AT, 14),
    TAG('g', 'T', 'R', 'C', CURVE_AT, 14), TAG('b', 'T', 'R', 'C', CURVE_AT, 14),
    [RED_AT] = XYZ(33759, 15807, 0), /* in 1/65536 */
    [GREEN_AT] = XYZ(19135, 45367, 2745),
    [BLUE_AT] = XYZ(10296, 4363, 51385),
    [CURVE_AT] = 'c', 'u', 'r', 'v', 0, 0, 0, 0, 0, 0, 0, 1, 2, 51};
#undef TAG
#undef XYZ
#undef FIXED

struct file {
    uint8_t bytes[FILE_BYTES];
    size_t length;
};

struct test_image {
    struct file source, result; /* PNG files; `result` is the expected first output */
    struct image_info info;
    struct plan plan;
    uint8_t *output; /* the CPU engine's output buffer */
    uint8_t overlay[OVERLAY_SIDE * OVERLAY_SIDE * 4]; /* RGBA; the plan points to it */
};

static bool wrong(struct error *error, const char *what)
{
    return error_fail(error, STATUS_GPU_FAILED, "%s", what);
}

enum status test_image_flush(struct codec_sink *sink, size_t used, struct error *error)
{
    (void)used;
    if (sink->total == 0)
        return STATUS_OK;
    /* uncovered: selftest (tests/coverage/reasons.txt) */
    return error_set(error, STATUS_ENCODE_FAILED, "the test image has more than %zu bytes",
                     sink->capacity);
}

static bool encode(struct codec_context *codec, const struct image *image, struct file *file,
                   struct error *error)
{
    struct codec_sink sink = {file->bytes, FILE_BYTES, .flush = test_image_flush};
    struct encode_request png = {.format = &formats[FORMAT_png], .encoder.compression = 1};
    enum status status = codec_encode(codec, image, &png, &sink, error);
    file->length = sink.total;
    return status == STATUS_OK;
}

static const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};

bool test_image_decode(const struct test_image *test, struct codec_context *codec,
                       const struct engine_memory *memory, struct error *error)
{
    struct image image = plan_input(&test->plan, memory->input);
    struct decode_request request = {0};
    memset(memory->output, 0xA5, test->plan.output_bytes);
    plan_put_constants(&test->plan, memory->input);
    return codec_decode(codec, test->source.bytes, test->source.length, &test->info, &request,
                        &limits, &image, error) == STATUS_OK;
}

static bool same_pixels(const struct plan *plan, size_t chain, uint8_t *a, uint8_t *b)
{
    size_t tensor_bytes = plan->variants[chain].tensor_bytes;
    if (tensor_bytes > 0)
        return memcmp(plan_tensor(plan, chain, a), plan_tensor(plan, chain, b), tensor_bytes) == 0;
    struct image one = plan_result(plan, chain, NULL, a);
    struct image other = plan_result(plan, chain, NULL, b);
    for (uint32_t y = 0; y < one.height; y++)
        if (memcmp(one.pixels + y * one.stride, other.pixels + y * other.stride,
                   (size_t)one.width * one.channels) != 0)
            return false;
    return true;
}

bool test_image_compare(const struct test_image *test, struct codec_context *codec,
                        const struct engine_memory *memory, struct error *error)
{
    const struct plan *plan = &test->plan;
    for (size_t i = 0; i < plan->variant_count; i++) {
        if (!same_pixels(plan, i, memory->output, test->output))
            return wrong(error, "the engine's pixels differ from the CPU's");
        if (!plan_same_values(plan, i, memory->output, test->output))
            return wrong(error, "the engine's values differ from the CPU's");
    }
    struct image image = plan_result(plan, 0, memory->input, memory->output);
    struct file *file = malloc(sizeof *file);
    bool ok = file ? encode(codec, &image, file, error) : wrong(error, "no memory");
    if (ok && (file->length != test->result.length ||
               memcmp(file->bytes, test->result.bytes, file->length) != 0))
        /* uncovered: selftest */
        ok = wrong(error, "the encoded file differs from the expected one");
    free(file);
    return ok;
}

/* Draws squares of noise and of smooth gradients, with the same pixels on every machine. The first
 * pixel is nearly opaque and neither black nor white, so that a wrong bit in it changes the
 * results. */
static void draw(const struct image *image)
{
    uint32_t state = 2463534242u;
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width * image->channels; x++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5; /* Marsaglia, Xorshift RNGs, 2003 */
            row[x] = (uint8_t)((x / 40 + y / 40) % 2 ? state >> 24 : 200 - x - y);
        }
    }
}

static bool make_source(struct test_image *test, struct codec_context *codec, struct error *error)
{
    struct image drawn = {calloc(1, image_bytes(WIDTH, HEIGHT, CHANNELS)), WIDTH, HEIGHT, CHANNELS,
                          image_stride(WIDTH, CHANNELS)};
    if (!drawn.pixels) /* uncovered: selftest */
        return wrong(error, "no memory");
    draw(&drawn);
    bool ok = encode(codec, &drawn, &test->source, error) &&
              codec_probe(codec, test->source.bytes, test->source.length, &limits, &test->info,
                          error) == STATUS_OK;
    free(drawn.pixels);
    return ok;
}

/* Draws the overlay for the operation composite. It has all values of alpha. */
static enum status draw_overlay(void *context, const struct plan_overlay_request *request,
                                struct plan_overlay *overlay, struct error *error)
{
    struct test_image *test = context;
    (void)request, (void)error;
    for (uint32_t i = 0; i < sizeof test->overlay; i++)
        test->overlay[i] = (uint8_t)(i * 37 + i / 7);
    *overlay = (struct plan_overlay){.image = {test->overlay, OVERLAY_SIDE, OVERLAY_SIDE, 4,
                                               OVERLAY_SIDE * 4}};
    return STATUS_OK;
}

static bool make_plan(struct test_image *test, struct error *error)
{
    struct plan_source source = {.width = WIDTH, .height = HEIGHT, .channels = CHANNELS,
                                 .orientation = 1, .background = {255, 255, 255},
                                 .icc = profile, .icc_bytes = sizeof profile};
    const struct plan_overlays overlays = {.find = draw_overlay, .context = test};
    struct plan_target targets[JOB_OUTPUTS_MAX];
    struct plan_limits bounds = {PIXELS_DEFAULT, SIDE_DEFAULT};
    struct op_item *ops[JOB_OUTPUTS_MAX];
    size_t count = 0;
    cJSON *json = cJSON_Parse(chains);
    const cJSON *chain;
    bool ok = json || wrong(error, "no memory");
    cJSON_ArrayForEach(chain, json)
    {
        ok = op_list_parse(&ops[count], chain, -1, error) == STATUS_OK && ok;
        targets[count] =
            (struct plan_target){.ops = ops[count], .opaque = true, .overlays = &overlays};
        count++;
    }
    for (size_t i = 0; ok && i < DEEP_CHAINS; i++)
        targets[count - 2 - i].deep = true;
    if (ok)
        targets[count - 1].tensor = (struct plan_tensor){
            .wanted = true, .type = TENSOR_F16, .layout = TENSOR_CHW, .normalize = &normalize};
    ok = ok && plan_build(&test->plan, &source, targets, count, &bounds, error) == STATUS_OK;
    while (count > 0)
        op_list_free(ops[--count]);
    cJSON_Delete(json);
    return ok;
}

static bool make_result(struct test_image *test, struct codec_context *codec, struct error *error)
{
    struct engine_config config = {.kind = "cpu", .pinned_bytes = 2 * MIB};
    struct engine_memory memory = {0};
    struct engine_task task = {.plan = &test->plan, .memory = &memory};
    struct engine *cpu = NULL;
    test->output = malloc(test->plan.output_bytes);
    if (!test->output) /* uncovered: selftest */
        return wrong(error, "no memory");
    if (engine_open(&config, &cpu, error) != STATUS_OK) /* uncovered: memory */
        return false;
    bool ok = engine_reserve(cpu, &test->plan, &memory, error) == ENGINE_RESERVED &&
              test_image_decode(test, codec, &memory, error);
    if (ok) {
        engine_run(cpu, &task);
        memcpy(test->output, memory.output, test->plan.output_bytes);
        struct image image = plan_result(&test->plan, 0, memory.input, memory.output);
        ok = encode(codec, &image, &test->result, error);
    }
    engine_release(cpu, &memory);
    engine_close(cpu);
    return ok;
}

struct test_image *test_image_create(struct error *error)
{
    struct test_image *test = calloc(1, sizeof *test);
    struct codec_context *codec = codec_context_create();
    bool ok = test && codec ? make_source(test, codec, error) && make_plan(test, error) &&
                                  make_result(test, codec, error)
                            : wrong(error, "no memory");
    codec_context_destroy(codec);
    if (ok)
        return test;
    test_image_destroy(test); /* uncovered: memory */
    return NULL;
}

void test_image_destroy(struct test_image *test)
{
    if (!test)
        return;
    image_info_clear(&test->info);
    plan_clear(&test->plan);
    free(test->output);
    free(test);
}

const struct plan *test_image_plan(const struct test_image *test)
{
    return &test->plan;
}
