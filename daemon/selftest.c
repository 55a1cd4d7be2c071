#include "daemon/selftest.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/codec.h"
#include "daemon/clock.h"
#include "gpu/plan.h"

/* Odd sides, so that every tail of a tile and of a row is taken. */
#define WIDTH       173
#define HEIGHT      131
#define TIMEOUT_S   30
#define TASKS_MAX   (DEVICES_MAX * STREAMS_CEILING)
#define FILE_BYTES  (WIDTH * HEIGHT * 3 + 65536)

struct selftest {
    uv_loop_t *loop;
    struct engine *engine, *reference;
    struct error *error;
    struct codec_context *codec;
    struct image source;      /* the decoded test image */
    uint8_t *file;            /* the same as a PNG */
    size_t file_bytes;
    cJSON *ops;
    struct plan plan;
    struct run {
        struct engine_memory memory;
        struct engine_task task;
        bool ended;
    } *runs;
    uint32_t run_count;
};

static bool wrong(struct selftest *test, const char *what)
{
    error_set(test->error, STATUS_GPU_FAILED, "self-test: %s", what);
    return false;
}

struct file_sink {
    struct codec_sink sink;
    struct selftest *test;
};

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    struct selftest *test = container_of(sink, struct file_sink, sink)->test;
    if (test->file_bytes + used > FILE_BYTES)
        return error_set(error, STATUS_ENCODE_FAILED, "the test image grew to over %d bytes",
                         FILE_BYTES);
    memcpy(test->file + test->file_bytes, sink->buffer, used);
    test->file_bytes += used;
    return STATUS_OK;
}

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
static bool make_source(struct selftest *test)
{
    struct image drawn = {.width = WIDTH, .height = HEIGHT, .channels = 3,
                          .stride = image_stride(WIDTH, 3)};
    size_t bytes = image_bytes(WIDTH, HEIGHT, 3);
    uint8_t *buffer = malloc(4096);
    drawn.pixels = calloc(1, bytes);
    test->source = drawn;
    test->source.pixels = calloc(1, bytes);
    test->file = malloc(FILE_BYTES);
    bool ok = buffer && drawn.pixels && test->source.pixels && test->file && test->codec;
    struct error *error = test->error;
    struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};
    struct image_info info = {0};
    if (ok) {
        draw(&drawn);
        struct file_sink sink = {{.buffer = buffer, .capacity = 4096, .flush = keep}, test};
        struct encode_request png = {.codec = codec_by_name("png"), .compression = 1};
        struct decode_request request = {0};
        ok = codec_encode(test->codec, &drawn, &png, &sink.sink, error) == STATUS_OK &&
             codec_probe(test->codec, test->file, test->file_bytes, &limits, &info, error) ==
                 STATUS_OK &&
             codec_decode(test->codec, test->file, test->file_bytes, &info, &request, &limits,
                          &test->source, error) == STATUS_OK;
        if (ok && memcmp(drawn.pixels, test->source.pixels, bytes) != 0)
            ok = wrong(test, "PNG does not give back what went in");
    } else {
        wrong(test, "no memory");
    }
    image_info_clear(&info);
    free(drawn.pixels);
    free(buffer);
    return ok;
}

static bool make_plan(struct selftest *test)
{
    test->ops = cJSON_Parse("[\"grayscale\",\"sobel\"]");
    if (!test->ops)
        return wrong(test, "no memory");
    /* Turned by 90 degrees, so that the orientation pass is in it as well. */
    struct plan_source source = {.width = WIDTH, .height = HEIGHT, .channels = 3,
                                 .orientation = 6, .background = {255, 255, 255}};
    struct plan_target target = {.ops = test->ops};
    struct plan_limits limits = {PIXELS_DEFAULT, SIDE_DEFAULT};
    return plan_build(&test->plan, &source, &target, 1, &limits, test->error) == STATUS_OK;
}

static void on_done(struct engine_task *task)
{
    container_of(task, struct run, task)->ended = true;
}

/* false: no room in the pools for one more. */
static bool start(struct selftest *test, struct engine *engine, struct run *run)
{
    struct error ignored = {0};
    if (engine_reserve(engine, &test->plan, &run->memory, &ignored) != ENGINE_RESERVED)
        return false;
    memcpy(run->memory.input, test->source.pixels,
           test->source.stride * test->source.height);
    memset(run->memory.output, 0xA5, test->plan.output_bytes);
    run->task = (struct engine_task){.plan = &test->plan, .memory = &run->memory, .done = on_done};
    if (engine_is_synchronous(engine)) {
        engine_run(engine, &run->task);
        run->ended = true;
    } else {
        engine_submit(engine, &run->task);
    }
    return true;
}

static void on_tick(uv_timer_t *timer)
{
    engine_reap(timer->data);
}

static bool all_ended(const struct selftest *test)
{
    for (uint32_t i = 0; i < test->run_count; i++)
        if (!test->runs[i].ended)
            return false;
    return true;
}

static bool wait_for_all(struct selftest *test)
{
    uint64_t limit = clock_after_s(clock_now_ns(), TIMEOUT_S);
    uv_timer_t timer;
    uv_timer_init(test->loop, &timer);
    timer.data = test->engine;
    uv_timer_start(&timer, on_tick, 20, 20);
    while (!all_ended(test) && clock_now_ns() < limit)
        uv_run(test->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(test->loop, UV_RUN_NOWAIT);
    return all_ended(test) || wrong(test, "the engine did not answer within 30 s");
}

static bool same_pixels(const struct selftest *test, const struct engine_memory *a,
                        const struct engine_memory *b)
{
    struct image one = plan_result(&test->plan, 0, a->input, a->output);
    struct image two = plan_result(&test->plan, 0, b->input, b->output);
    for (uint32_t y = 0; y < one.height; y++)
        if (memcmp(one.pixels + y * one.stride, two.pixels + y * two.stride,
                   (size_t)one.width * one.channels) != 0)
            return false;
    return true;
}

static bool run_all(struct selftest *test)
{
    struct run expected = {0};
    bool ok = start(test, test->reference, &expected) || wrong(test, "no room for its image");
    uint32_t slots = engine_slots(test->engine);
    uint32_t wanted = slots == 0 ? 1 : slots < TASKS_MAX ? slots : TASKS_MAX;
    test->runs = calloc(wanted, sizeof *test->runs);
    ok = ok && (test->runs || wrong(test, "no memory"));
    while (ok && test->run_count < wanted &&
           start(test, test->engine, &test->runs[test->run_count]))
        test->run_count++;
    if (ok && test->run_count == 0)
        ok = wrong(test, "no room for its image in the pools");
    ok = ok && wait_for_all(test);
    for (uint32_t i = 0; ok && i < test->run_count; i++) {
        struct run *run = &test->runs[i];
        if (run->task.error.status != STATUS_OK)
            ok = wrong(test, run->task.error.text);
        else if (!same_pixels(test, &expected.memory, &run->memory))
            ok = wrong(test, "the engine's pixels differ from the CPU's");
    }
    for (uint32_t i = 0; i < test->run_count; i++)
        if (test->runs[i].ended) /* else the device may still write to it */
            engine_release(test->engine, &test->runs[i].memory);
    engine_release(test->reference, &expected.memory);
    return ok;
}

bool selftest_run(uv_loop_t *loop, struct engine *engine, struct error *error)
{
    struct selftest test = {.loop = loop, .engine = engine, .error = error};
    struct engine_config config = {.kind = "cpu", .pinned_bytes = 16 * MIB};
    test.codec = codec_context_create();
    bool ok = make_source(&test) && make_plan(&test) &&
              engine_open(&config, &test.reference, error) == STATUS_OK && run_all(&test);
    engine_close(test.reference);
    plan_clear(&test.plan);
    cJSON_Delete(test.ops);
    codec_context_destroy(test.codec);
    free(test.source.pixels);
    free(test.file);
    if (all_ended(&test))
        free(test.runs);
    return ok;
}
