/*
 * Tests of the choice of tasks that share a batch on a device (gpu/cuda/cuda_queue.c). No task
 * runs: the device has slots without streams.
 */
#include "tests/cuda/jobs.h"

#include "codecs/codec.h"
#include "codecs/jpeg/frame.h"
#include "gpu/cuda/device.h"
#include "tests/fixtures/picture.h"

#define SLOTS 8
#define TASKS 1200

static struct jpeg_frame progressive_frame; /* of a small file */
static size_t progressive_bytes;

static struct cuda_engine engine;
static struct cuda_slot slots[SLOTS + LONG_STREAMS];
static struct cuda_slot *taken; /* by the last take() */
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
    atomic_store(&device->long_count, LONG_STREAMS);
    for (enum cuda_queue queue = 0; queue < QUEUES; queue++)
        list_init(&device->queues[queue]);
    list_init(&device->finished);
    for (unsigned s = 0; s < COUNT_OF(slots); s++)
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
        added->plan.source.file = (struct plan_file){DEVICE_CODEC_JPEG, progressive_bytes, 1, 1, 0};
        added->memory.input = (uint8_t *)&progressive_frame;
    }
    added->task = (struct engine_task){.plan = &added->plan, .memory = &added->memory,
                                       .submitted_ns = now_ns - TASKS + queued_count++};
    cuda_queue_prepare(&added->task);
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
    taken = cuda_queue_fill_slot(&engine.devices[0], now_ns);
    if (!taken)
        return 0;
    assert_int_equal(taken->state, SLOT_FREE);
    taken->state = SLOT_BUSY;
    return taken->tasks.length;
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
        {"thumbnails share launches", 150, 256, 256, 8, {64, 64}}, /* 22 wait */
        {"the smallest images", 300, 1, 1, 8, {256, 44}},
        {"up to 16 larger ones", 100, 700, 500, 1, {16}},
        {"at least 4 megapixels", 16, 1000, 1000, 8, {4, 4, 4, 4}},
        {"the share is more than 4 megapixels", 40, 1000, 1000, 8, {5, 5, 5, 5, 5, 5, 5, 5}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_device(rows[i].slots);
        add_many(rows[i].count, false, rows[i].width, rows[i].height);
        check_batches(rows[i].what, rows[i].batches);
    }
}

/* Tasks that encode AVIFs, or other files. */
static void add_mixed(const char *kinds, unsigned count, uint32_t width, uint32_t height)
{
    for (unsigned i = 0; i < count; i++) {
        struct engine_task *task = &add(false, width, height)->task;
        task->images = 1;
        task->encoders = 1u << (kinds[i % strlen(kinds)] == 'a' ? CUDA_ENCODER_AVIF : 0);
    }
}

/* The steps of an AVIF take as long for one image as for many, but those of other files do not: a
 * batch with both has the usual limits. */
TEST(test_batches_of_avifs_are_larger)
{
    static const struct {
        const char *what, *kinds; /* a: AVIF */
        unsigned count;
        uint32_t width, height, slots;
        size_t batches[SLOTS + 1];
    } rows[] = {
        {"others", "-", 80, 700, 500, 1, {16}},
        {"AVIFs", "a", 80, 700, 500, 1, {64}},
        {"every other one", "a-", 80, 700, 500, 1, {16}},
        {"AVIFs and one other", "aaaaaaaaaaaaaaaaaaaa-", 21, 700, 500, 1, {20}},
        {"one other, and AVIFs", "-aaaaaaaaaaaaaaaaaaa", 20, 700, 500, 1, {16}},
        {"5 times 12 megapixels of others", "-", 30, 4000, 3000, 1, {5}},
        {"21 times 12 megapixels of AVIFs", "a", 30, 4000, 3000, 1, {21}},
        {"12 megapixels each, mixed", "aaaa-", 30, 4000, 3000, 1, {5}},
        {"free slots share AVIFs, too", "a", 160, 700, 500, 8, {20, 20, 20, 20, 20, 20, 20, 20}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_device(rows[i].slots);
        add_mixed(rows[i].kinds, rows[i].count, rows[i].width, rows[i].height);
        check_batches(rows[i].what, rows[i].batches);
    }
}

/* Takes no batch until a small batch ends or the tasks are enough. */
TEST(test_small_batches_wait_for_each_other)
{
    open_device(8);
    for (unsigned i = 0; i < 2; i++) {
        add(false, 256, 256);
        assert_int_equal(take(), 1);
    }
    add_many(15, false, 256, 256);
    assert_int_equal(take(), 0);
    add(false, 256, 256);
    check_batches("16 of 256 x 256", (size_t[]){16, 0});
    add_many(9, false, 20, 20);
    assert_int_equal(take(), 0);
    slots[0].state = slots[2].state = SLOT_FREE;
    list_init(&slots[0].tasks);
    list_init(&slots[2].tasks);
    check_batches("a small batch has ended", (size_t[]){9, 0});
    add(false, 1200, 1000);
    check_batches("a larger one", (size_t[]){1, 0});
}

/* The more tasks the device has, the more small images share a batch: half of those beyond 32, but
 * 16 to 256. */
TEST(test_batches_of_small_images_grow)
{
    static const struct {
        size_t held;
        uint32_t wanted;
    } rows[] = {{2, 16}, {64, 16}, {65, 16}, {82, 25}, {224, 96}, {544, 256}, {4096, 256}};
    struct cuda_device *device = &engine.devices[0];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_device(8);
        for (uint32_t running = 0; running < 2; running++) {
            assert_int_equal(cuda_queue_wanted(device), 1);
            add(false, 256, 256);
            assert_int_equal(take(), 1);
        }
        for (uint32_t left = rows[i].wanted; left > 1; left--) {
            device->held = rows[i].held;
            assert_int_equal(cuda_queue_wanted(device), left);
            add(false, 256, 256);
            device->held = rows[i].held;
            assert_int_equal(take(), 0);
        }
        add(false, 256, 256);
        device->held = rows[i].held;
        assert_int_equal(take(), rows[i].wanted);
        assert_true(taken->is_light);
    }
}

TEST(test_pixels_of_a_batch_of_small_images)
{
    open_device(8);
    add(false, 8, 8);
    assert_int_equal(take(), 1);
    add(false, 8, 8);
    assert_int_equal(take(), 1);
    add_many(100, false, 512, 512);
    check_batches("16 megapixels", (size_t[]){64, 36, 0});
    open_device(8);
    add(false, 8, 8);
    assert_int_equal(take(), 1);
    add(false, 8, 8);
    assert_int_equal(take(), 1);
    add_many(20, false, 513, 512);
    check_batches("larger images: 4 megapixels", (size_t[]){15, 5, 0});
}

/* The thread must be woken for each task if nothing else would wake it. */
TEST(test_tasks_that_wake_the_thread)
{
    struct cuda_device *device = &engine.devices[0];
    open_device(8);
    for (unsigned i = 0; i < 2; i++) {
        add(false, 256, 256);
        assert_int_equal(take(), 1);
    }
    assert_int_equal(cuda_queue_wanted(device), 16);
    device->held = 0; /* the tasks of a failed device have ended, but its slots stay busy */
    assert_int_equal(cuda_queue_wanted(device), 1);
    device->held = 2;
    atomic_store(&device->base.state, DEVICE_FAILED);
    assert_int_equal(cuda_queue_wanted(device), 1);
    atomic_store(&device->base.state, DEVICE_IN_SERVICE);
    assert_int_equal(cuda_queue_wanted(device), 16);
    add(false, 700, 500); /* not small: the next task may start a batch */
    assert_int_equal(cuda_queue_wanted(device), 1);
    assert_true(cuda_queue_is_small(&add(false, 512, 512)->task));
    assert_false(cuda_queue_is_small(&add(false, 513, 512)->task));
}

/* However many tiny images wait, three batches of them run. */
TEST(test_batches_of_tiny_images)
{
    struct cuda_device *device = &engine.devices[0];
    open_device(8);
    for (unsigned i = 0; i < 2; i++) {
        add(false, 256, 256);
        assert_int_equal(take(), 1);
    }
    add_many(800, false, 256, 256);
    device->held = 802;
    assert_int_equal(take(), 256);
    assert_int_equal(take(), 0);
    assert_int_equal(cuda_queue_wanted(device), 256);
    slots[0].state = SLOT_FREE; /* one has ended */
    list_init(&slots[0].tasks);
    assert_int_equal(take(), 256);
    assert_int_equal(take(), 0);
    open_device(8);
    for (unsigned i = 0; i < 2; i++) {
        add(false, 256, 256);
        assert_int_equal(take(), 1);
    }
    add_many(510, false, 257, 256);
    device->held = 512;
    check_batches("images that are not tiny", (size_t[]){255, 255, 0});
}

/* Large batches run for long. */
TEST(test_small_images_do_not_wait_for_large_ones)
{
    open_device(8);
    add_many(3, false, 4000, 3000);
    check_batches("large", (size_t[]){1, 1, 1, 0});
    add(false, 64, 64);
    assert_int_equal(take(), 1);
    add(false, 64, 64);
    assert_int_equal(take(), 1);
    add(false, 64, 64);
    assert_int_equal(take(), 0);
}

TEST(test_the_room_for_descriptions_ends_a_batch)
{
    open_device(1);
    for (unsigned i = 0; i < 6; i++)
        add(false, 100, 100)->task.description_bytes = STREAM_CODEC_BYTES / 4 + (i == 5);
    check_batches("quarters", (size_t[]){4, 0});
    slots[0].state = SLOT_FREE;
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
            .width = 60000,
            .height = 60000,
            .channels = 1,
            .encoder = {
                .codec = DEVICE_CODEC_JPEG, .h = 1, .v = 1, .header_bytes = 600, .capacity = MIB}};
    cuda_queue_prepare(&task);
    assert_true(task.description_bytes > STREAM_CODEC_BYTES && task.description_bytes < SIZE_MAX);
    cuda_queue_accept(&engine.devices[0], &task);
    assert_int_equal(take(), 0);
    assert_ptr_equal(list_first(&engine.devices[0].finished), &task.node);
    assert_int_equal(task.error.status, STATUS_OK);
    assert_int_not_equal(report.declined, 0);
}

/* ---- progressive files ----------------------------------------------------------------------- */

/* Ends the batch of a slot. */
static void end(struct cuda_slot *slot)
{
    slot->state = SLOT_FREE;
    list_init(&slot->tasks);
}

/* Takes batches until none can start. Returns their number, and checks their slots and tasks. */
static unsigned take_all(enum cuda_queue queue)
{
    unsigned count = 0;
    while (take() > 0) {
        bool progressive = taken->queue == QUEUE_SCANS;
        assert_int_equal(taken->queue, queue);
        assert_int_equal(taken >= slots + engine.devices[0].base.slot_count, progressive);
        list_each(node, &taken->tasks)
            assert_int_equal(cuda_task(node)->plan->source.file.bytes != 0, progressive);
        count++;
    }
    return count;
}

TEST(test_a_few_progressive_files_have_a_slot_each)
{
    open_device(2);
    add_many(LONG_STREAMS - 2, true, 300, 200);
    assert_int_equal(take_all(QUEUE_SCANS), LONG_STREAMS - 2);
    for (unsigned i = 0; i < LONG_STREAMS - 2; i++)
        assert_ptr_equal(list_first(&slots[2 + i].tasks), &queued[i].task.node);
    add_many(2, true, 300, 200);
    check_batches("the rest, one by one", (size_t[]){1, 1, 0});
}

TEST(test_many_progressive_files_share_the_slots)
{
    open_device(2);
    add_many(3 * LONG_STREAMS, true, 4000, 3000);
    assert_int_equal(take_all(QUEUE_SCANS), LONG_STREAMS);
    for (unsigned i = 0; i < LONG_STREAMS; i++)
        assert_int_equal(slots[2 + i].tasks.length, 3);
    add_many(40, true, 4000, 3000);
    assert_int_equal(take(), 0);
    end(&slots[2 + 5]);
    check_batches("the only free slot takes many", (size_t[]){15, 0});
}

/* While more files than slots are decoded, a slot takes as many as it can. */
TEST(test_many_progressive_files_take_few_slots)
{
    open_device(2);
    engine.devices[0].scanning = LONG_STREAMS + 1;
    engine.devices[0].scans_due = true;
    add_many(SCANS_TASKS_MAX + 5, true, 300, 200);
    check_batches("of many free slots", (size_t[]){15, 6, 0});
}

/* While more files than slots are decoded, they start at intervals, unless a slot can take no
 * more. */
TEST(test_many_progressive_files_start_at_intervals)
{
    struct cuda_device *device = &engine.devices[0];
    open_device(2);
    device->scanning = LONG_STREAMS + 1;
    add_many(SCANS_TASKS_MAX - 1, true, 300, 200);
    assert_int_equal(take(), 0);
    add(false, 300, 200);
    assert_int_equal(take(), 1); /* another kind of task */
    device->scans_due = true;
    assert_int_equal(take(), SCANS_TASKS_MAX - 1);
    device->scans_due = false;
    add_many(2, true, 300, 200);
    assert_int_equal(take(), 0);
    device->scanning = LONG_STREAMS;
    assert_int_equal(take(), 1);
    device->scanning = LONG_STREAMS + 1;
    add_many(SCANS_TASKS_MAX - 1, true, 300, 200);
    assert_int_equal(take(), 15);
    assert_int_equal(take(), 0);
}

/* Then batches of the codec are larger, too. */
TEST(test_the_rest_of_progressive_files)
{
    open_device(8);
    add_many(20, false, 1000, 1000);
    check_batches("few are decoded", (size_t[]){4, 4, 4, 4, 4, 0});
    open_device(8);
    engine.devices[0].scanning = LONG_STREAMS + 1;
    add_many(20, false, 1000, 1000);
    check_batches("many are decoded", (size_t[]){16, 4, 0});
}

/* All slots of one kind are busy, and files wait for them: the other kind starts nevertheless. */
TEST(test_progressive_and_other_files_do_not_wait_for_each_other)
{
    open_device(8);
    add_many(3 * LONG_STREAMS, true, 4000, 3000);
    assert_int_equal(take_all(QUEUE_SCANS), LONG_STREAMS);
    add(true, 4000, 3000);
    add_many(20, false, 4000, 3000);
    check_batches("sequential", (size_t[]){3, 3, 3, 3, 2, 2, 2, 2, 0});
    open_device(8);
    add_many(100, false, 10000, 9000);
    assert_int_equal(take_all(QUEUE_CODEC), 8);
    add_many(20, true, 4000, 3000);
    assert_int_equal(take_all(QUEUE_SCANS), 20);
}

/* Before and after its scans are decoded, a progressive file that must be alone shares no batch. */
TEST(test_a_progressive_file_that_must_be_alone)
{
    open_device(1);
    add_many(2 * LONG_STREAMS, true, 300, 200);
    queued[4].task.alone = true;
    do
        assert_true(take() > 0);
    while (list_first(&taken->tasks) != &queued[4].task.node);
    assert_int_equal(taken->tasks.length, 1);
    open_device(1);
    add_many(9, false, 256, 256);
    queued[4].task.alone = true;
    for (unsigned i = 0; i < 3; i++, slots[0].state = SLOT_FREE, list_init(&slots[0].tasks))
        assert_int_equal(take(), i == 1 ? 1 : 4);
}

/* Each of them can also start if it is not the oldest. */
TEST(test_progressive_and_other_files_take_turns)
{
    open_device(2);
    for (unsigned i = 0; i < 6; i++)
        add(i % 2, 300, 200);
    for (unsigned i = 0; i < 4; i++)
        assert_true(take() > 0);
    assert_int_equal(take(), 0);
    assert_int_equal(slots[0].tasks.length, 3);
    for (unsigned i = 2; i < 5; i++)
        assert_int_equal(slots[i].queue, QUEUE_SCANS);
}

/* The input of tasks: a frame, and a prelude for the outputs. */
#define HEADER_AT (sizeof(struct jpeg_frame) / BUFFER_ALIGN * BUFFER_ALIGN + BUFFER_ALIGN)
static _Alignas(BUFFER_ALIGN) uint8_t input[HEADER_AT + sizeof(struct jpeg_prelude)];

/* The largest file: all scans and all tables. */
static void make_largest(void)
{
    struct jpeg_frame *frame = (struct jpeg_frame *)input;
    struct jpeg_prelude *prelude = (struct jpeg_prelude *)(input + HEADER_AT);
    for (int i = 0; i < 64; i++)
        prelude->quant[0][i] = prelude->quant[1][i] = 16;
    *frame = progressive_frame;
    frame->scan_count = JPEG_FRAME_SCANS_MAX;
    frame->huffman_count = JPEG_FRAME_HUFFMAN_MAX;
    for (uint8_t i = 0, table = 0; i < JPEG_FRAME_SCANS_MAX; i++) {
        bool dc = i < 4; /* 3 tables each, which the next scans refine */
        struct jpeg_scan *scan = &frame->scans[i];
        *scan = (struct jpeg_scan){.component_count = dc ? 3 : 1, .at = 700, .bytes = 9,
                                   .components = {0, 1, 2}, .first = !dc, .last = dc ? 0 : 63};
        for (uint32_t c = 0; c < scan->component_count; c++, table++)
            scan->dc[c] = scan->ac[c] = table;
    }
}

/* outputs: JPEGs of `side` x `side` pixels that the device encodes, besides the decode. */
static struct engine_task *add_largest(unsigned outputs, uint32_t side)
{
    struct queued *largest = &queued[queued_count];
    struct plan plan = {.source = {.width = 99,
                                   .height = 60,
                                   .channels = 3,
                                   .file = {DEVICE_CODEC_JPEG, progressive_bytes, 1, 1, 0}},
                        .variant_count = outputs,
                        .written_bytes = BUFFER_ALIGN};
    for (unsigned v = 0; v < outputs; v++)
        plan.variants[v] = (struct plan_variant){.width = side,
                                                 .height = side,
                                                 .channels = 3,
                                                 .encoder = {.codec = DEVICE_CODEC_JPEG,
                                                             .h = 2,
                                                             .v = 2,
                                                             .header_at = HEADER_AT,
                                                             .header_bytes = 600,
                                                             .capacity = MIB}};
    largest->plan = plan;
    largest->memory = (struct engine_memory){.input = input,
                                             .output = (uint8_t *)&report,
                                             .device_block = {.memory = device_memory}};
    largest->task = (struct engine_task){.plan = &largest->plan, .memory = &largest->memory,
                                         .submitted_ns = now_ns - TASKS + queued_count++};
    cuda_queue_prepare(&largest->task);
    cuda_queue_accept(&engine.devices[0], &largest->task);
    return &largest->task;
}

TEST(test_the_room_of_progressive_files)
{
    make_largest();
    open_device(1);
    struct engine_task *task = add_largest(0, 0);
    assert_in_range(task->scans_bytes, 12 * KIB, 18 * KIB);
    assert_true(task->description_bytes < 2 * 18 * KIB);
    task = add_largest(JOB_OUTPUTS_MAX, 7000);
    assert_true(task->scans_bytes <= 18 * KIB && task->description_bytes < STREAM_CODEC_BYTES);
    assert_int_equal(report.declined, 0);
    assert_int_equal(take_all(QUEUE_SCANS), 2);
    open_device(1);
    atomic_store(&engine.devices[0].long_count, 1);
    for (unsigned i = 0; i < 5; i++)
        add_largest(0, 0);
    check_batches("four of the largest share a slot", (size_t[]){4, 0});
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

TEST_MAIN(.setup = read_frame)
