/*
 * Tests of the choice of tasks that share a batch on a device (gpu/cuda/queue.c). No task runs: the
 * device has slots without streams.
 */
#include "tests/cuda/jobs.h"

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"
#include "gpu/cuda/device.h"
#include "tests/fixtures/picture.h"

#define SLOTS 8
#define TASKS 256

static struct jpeg_frame progressive_frame; /* of a small file */
static size_t progressive_bytes;

static struct cuda_engine engine;
static struct cuda_slot slots[SLOTS];
static struct queued {
    struct plan plan;
    struct engine_memory memory;
    struct engine_task task;
} queued[TASKS];
static unsigned queued_count;
static _Alignas(BUFFER_ALIGN) uint8_t device_memory[1]; /* only its address is used */
static uint64_t now_ns;
static struct plan_report report; /* of all tasks */

static void open_device(uint32_t slot_count)
{
    struct cuda_device *device = &engine.devices[0];
    memset(&engine, 0, sizeof engine);
    memset(slots, 0, sizeof slots);
    memset(queued, 0, sizeof queued);
    memset(&report, 0, sizeof report);
    queued_count = 0;
    now_ns = clock_now_ns();
    device->engine = &engine;
    device->slots = slots;
    device->base.slot_count = slot_count;
    for (enum cuda_queue queue = 0; queue < QUEUES; queue++)
        list_init(&device->queues[queue]);
    list_init(&device->finished);
    for (unsigned s = 0; s < SLOTS; s++)
        list_init(&slots[s].tasks);
}

/* A task of the codec with a source of this size. */
static struct queued *add(bool progressive, uint32_t width, uint32_t height)
{
    struct queued *added = &queued[queued_count];
    assert_true(queued_count < TASKS);
    added->plan = (struct plan){.source = {.width = width, .height = height, .channels = 3},
                                .written_bytes = BUFFER_ALIGN,
                                .device_bytes = (size_t)width * height * 9};
    added->memory.device_block.memory = device_memory;
    added->memory.output = (uint8_t *)&report;
    if (progressive) {
        added->plan.source.file = (struct plan_file){progressive_bytes, 1, 1};
        added->memory.input = (uint8_t *)&progressive_frame;
    }
    added->task = (struct engine_task){.plan = &added->plan, .memory = &added->memory,
                                       .submitted_ns = now_ns - TASKS + queued_count++};
    cuda_queue_accept(&engine.devices[0], &added->task);
    return added;
}

static void add_many(unsigned count, bool progressive, uint32_t width, uint32_t height)
{
    for (unsigned i = 0; i < count; i++)
        add(progressive, width, height);
}

/* Fills the next free slot. Returns the number of tasks of its batch; 0: no task can start. */
static size_t take(void)
{
    for (unsigned s = 0; s < engine.devices[0].base.slot_count; s++) {
        if (slots[s].busy)
            continue;
        if (!cuda_queue_take(&engine.devices[0], &slots[s], now_ns))
            return 0;
        slots[s].busy = true;
        return slots[s].tasks.length;
    }
    return 0;
}

/* Takes batches for all free slots, and compares their sizes. expected: ends with 0. */
static void check_batches(const char *what, const size_t *expected)
{
    for (size_t i = 0;; i++) {
        size_t got = take();
        if (got != expected[i])
            fail_msg("%s: batch %zu has %zu tasks instead of %zu", what, i, got, expected[i]);
        if (got == 0)
            return;
    }
}

TEST(test_free_slots_share_the_queue)
{
    static const struct {
        const char *what;
        unsigned count;
        uint32_t width, height, slots;
        size_t batches[SLOTS + 1];
    } rows[] = {
        {"one photograph", 1, 4000, 3000, 8, {1}},
        {"fewer photographs than slots", 5, 4000, 3000, 8, {1, 1, 1, 1, 1}},
        {"photographs for all slots", 20, 4000, 3000, 8, {3, 3, 3, 3, 2, 2, 2, 2}},
        {"up to 64 megapixels in one slot", 20, 4000, 3000, 1, {5}},
        {"larger than a batch", 3, 10000, 9000, 2, {1, 1}},
        {"thumbnails share launches", 40, 256, 256, 8, {16, 16, 8}},
        {"at least 4 megapixels", 16, 1000, 1000, 8, {4, 4, 4, 4}},
        {"the share is more than 4 megapixels", 40, 1000, 1000, 8, {5, 5, 5, 5, 5, 5, 5, 5}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_device(rows[i].slots);
        add_many(rows[i].count, false, rows[i].width, rows[i].height);
        check_batches(rows[i].what, rows[i].batches);
    }
}

TEST(test_the_room_for_descriptions_ends_a_batch)
{
    open_device(1);
    for (unsigned i = 0; i < 6; i++)
        add(false, 100, 100)->task.description_bytes = STREAM_JPEG_BYTES / 4 + (i == 5);
    check_batches("quarters", (size_t[]){4, 0});
    slots[0].busy = false;
    list_init(&slots[0].tasks);
    check_batches("a quarter, and one byte more", (size_t[]){2, 0});
    assert_true(list_empty(&engine.devices[0].finished));
}

/* Its descriptions exceed the room, so the device declines the task at once. */
TEST(test_a_task_that_no_batch_can_hold)
{
    static struct jpeg_prelude prelude;
    open_device(1);
    struct plan plan = {.source = {.width = 60000, .height = 60000, .channels = 1},
                        .variant_count = JOB_OUTPUTS_MAX, .written_bytes = BUFFER_ALIGN};
    struct engine_memory memory = {.input = (uint8_t *)&prelude, .output = (uint8_t *)&report,
                                   .device_block = {.memory = device_memory}};
    struct engine_task task = {.plan = &plan, .memory = &memory};
    for (int i = 0; i < 64; i++)
        prelude.quant[0][i] = prelude.quant[1][i] = 16;
    for (unsigned v = 0; v < JOB_OUTPUTS_MAX; v++)
        plan.variants[v] = (struct plan_variant){
            .width = 60000, .height = 60000, .channels = 1,
            .encoder = {.on_device = true, .header_bytes = 600, .capacity = MIB}};
    size_t bytes = cuda_codec_description_bytes(&task);
    assert_true(bytes > STREAM_JPEG_BYTES && bytes < SIZE_MAX);
    cuda_queue_accept(&engine.devices[0], &task);
    assert_int_equal(take(), 0);
    assert_ptr_equal(list_first(&engine.devices[0].finished), &task.node);
    assert_int_equal(task.error.status, STATUS_OK);
    assert_int_not_equal(report.declined, 0);
}

/* ---- progressive files ----------------------------------------------------------------------- */

TEST(test_progressive_files_have_batches_of_their_own)
{
    open_device(2);
    for (unsigned i = 0; i < 6; i++)
        add(i % 2, 300, 200);
    assert_int_equal(take(), 3);
    assert_int_equal(take(), 3);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(queued[i].task.description_bytes > 0, i % 2);
    assert_int_equal(slots[0].queue, QUEUE_CODEC);
    assert_int_equal(slots[1].queue, QUEUE_PROGRESSIVE);
    list_each(node, &slots[1].tasks)
        assert_int_not_equal(cuda_task(node)->plan->source.file.bytes, 0);
}

/* They fill six of eight slots, and the other two stay free for other tasks. */
TEST(test_progressive_files_leave_slots)
{
    open_device(8);
    add_many(200, true, 4000, 3000);
    check_batches("progressive", (size_t[]){16, 16, 16, 16, 16, 16, 0});
    add_many(2, false, 4000, 3000);
    check_batches("sequential", (size_t[]){1, 1, 0});
    slots[3].busy = false;
    list_init(&slots[3].tasks);
    check_batches("again progressive", (size_t[]){16, 0});
    open_device(1);
    add_many(3, true, 4000, 3000);
    check_batches("the only slot", (size_t[]){3, 0});
}

static int read_frame(void **state)
{
    static const struct codec_limits limits = {.pixels_max = PIXELS_DEFAULT,
                                               .side_max = SIDE_DEFAULT,
                                               .jpeg_scans_max = JPEG_SCANS_DEFAULT};
    struct picture_file file = make_jpeg(.width = 99, .height = 60, .progressive = true);
    struct codec_context *context = codec_context_create();
    struct image_info info = {0};
    struct error error = {0};
    (void)state;
    bool ok = context && codec_probe(context, file.bytes, file.length, &limits, &info, &error) ==
                             STATUS_OK &&
              codec_read_frame(context, file.bytes, file.length, &info, &limits,
                               &progressive_frame);
    progressive_bytes = file.length;
    image_info_clear(&info);
    codec_context_destroy(context);
    free(file.bytes);
    return ok && progressive_frame.progressive ? 0 : -1;
}

int main(void)
{
    return run_all(.setup = read_frame);
}
