/* Tests of the process that runs libavif: files that attack its memory and its time. */
#include "tests/fixtures/codec_rig.h"

#ifdef GPUIMGD_AVIF

#include <avif/avif.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codecs/process/process.h"
#include "tests/fixtures/avif_boxes.h"
#include "tests/fixtures/avif_items.h"
#include "tests/fixtures/process.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_LIMITS false
#else
#define HAS_LIMITS true
#endif

static struct picture_file flat_avif(uint32_t side)
{
    struct image image = {.width = side, .height = side, .channels = 3,
                          .stride = image_stride(side, 3)};
    image.pixels = calloc(side, image.stride);
    assert_non_null(image.pixels);
    struct picture_file file = rig_encode_as(&image, "avif", .encoder.quality = 30);
    free(image.pixels);
    return file;
}

/* Ends the process of the rig, and returns the largest resident memory of all processes so far. */
static size_t peak_bytes(void)
{
    struct rusage usage;
    codec_context_destroy(rig.context);
    rig.context = codec_context_create();
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return (size_t)usage.ru_maxrss * KIB;
}

/* The peak stays below what admission reserves, and the constant per worker. part: of the message,
 * NULL: the image may be decoded, too. */
static void expect_limit(const struct picture_file *file, const char *part)
{
    size_t before = peak_bytes();
    if (part)
        rig_reads(file, STATUS_DECODE_LIMIT, part);
    else if (rig_decode(&rig, file, DECODE_COLOUR) != STATUS_OK)
        assert_int_equal(rig.error.status, STATUS_DECODE_LIMIT);
    size_t most = rig.info.codec_bytes + CODEC_PROCESS_BYTES, peak = peak_bytes();
    print_message("%zu bytes: %s; peak %zu MiB of %zu\n", file->length, rig.error.text,
                  (size_t)(peak / MIB), (size_t)(most / MIB));
    assert_true(!HAS_LIMITS || peak <= most || peak == before);
}

/* A grid whose cells are 16 times as large as its boxes say. libavif 0.11 keeps one image per cell;
 * libavif 1 has one in memory at a time, and cuts out what the boxes say. */
TEST(test_cells_are_larger)
{
    if (!HAS_LIMITS)
        skip();
    struct picture_file source = flat_avif(4096);
    static const struct avif_layout layouts[] = {
        {.columns = 4, .rows = 4, .cell_width = 1024, .cell_height = 1024, .width = 4096,
         .height = 4096},
        {.columns = 16, .rows = 16, .cell_width = 64, .cell_height = 64, .width = 1024,
         .height = 1024},
        {.columns = 12, .rows = 12, .cell_width = 340, .cell_height = 340, .width = 4080,
         .height = 4080},
    };
    for (size_t i = 0; i < COUNT_OF(layouts); i++) {
        struct picture_file file = avif_build(&source, &layouts[i]);
        assert_true(file.length < 12000);
        expect_limit(&file, AVIF_VERSION < 1000000
                                ? "libavif needs more memory to decode the AVIF than " : NULL);
        picture_free(&file);
    }
    picture_free(&source);
}

/* The last row and column of cells may reach beyond the image. */
TEST(test_trimmed_grid)
{
    struct picture_file source = flat_avif(512);
    struct avif_layout layout = {.columns = 2, .rows = 2, .cell_width = 512, .cell_height = 512,
                                 .width = 520, .height = 700};
    struct picture_file file = avif_build(&source, &layout);
    rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(rig.info.width, 520);
    assert_int_equal(rig.info.height, 700);
    picture_free(&file);
    layout = (struct avif_layout){.width = 512, .height = 512, .cell_width = 512,
                                  .cell_height = 512, .thumbnail = true};
    file = avif_build(&source, &layout); /* two items share an extent */
    rig_reads(&file, STATUS_OK, NULL);
    picture_free(&file);
    picture_free(&source);
}

/* The cells count wherever the boxes of the header are in the file. */
TEST(test_late_header)
{
    struct picture_file source = flat_avif(64);
    struct avif_layout layout = {
        .columns = 8, .rows = 8, .cell_width = 64, .cell_height = 64, .width = 512, .height = 512};
    struct picture_file near = avif_build(&source, &layout);
    rig_reads(&near, STATUS_OK, NULL);
    size_t bytes = rig.info.codec_bytes;
    layout.padding = 3 * MIB;
    struct picture_file far = avif_build(&source, &layout);
    rig_reads(&far, STATUS_OK, NULL);
    assert_in_range(rig.info.codec_bytes, bytes + 3 * MIB - 64 * KIB, bytes + 3 * MIB + 64 * KIB);
    picture_free(&far);
    picture_free(&near);
    picture_free(&source);
}

static double thread_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Each box is read by itself, but does not cost a question to the daemon. */
TEST(test_many_small_boxes)
{
    static const uint8_t box[] = {0, 0, 0, 8, 'f', 'r', 'e', 'e'};
    struct picture_file source = flat_avif(16);
    struct picture_file file = {.length = 200000 * sizeof box + source.length};
    uint32_t head = (uint32_t)source.bytes[0] << 24 | source.bytes[1] << 16 | source.bytes[2] << 8 |
                    source.bytes[3]; /* the length of ftyp */
    file.bytes = malloc(file.length);
    assert_non_null(file.bytes);
    memcpy(file.bytes, source.bytes, head);
    for (size_t i = 0; i < 200000; i++)
        memcpy(file.bytes + head + i * sizeof box, box, sizeof box);
    memcpy(file.bytes + head + 200000 * sizeof box, source.bytes + head, source.length - head);
    uint64_t start_ns = clock_now_ns();
    double start_s = thread_s();
    rig_decode(&rig, &file, DECODE_COLOUR); /* the offsets of the items are wrong now */
    print_message("%.3f s, %.3f s of CPU here: %s\n", clock_ms(start_ns, clock_now_ns()) / 1e3,
                  thread_s() - start_s, rig.error.text);
    assert_true(thread_s() - start_s < 0.3);
    picture_free(&file);
    picture_free(&source);
}

/* Tasks of usual sizes follow one another without a new process, although the heap keeps pieces of
 * free memory. */
TEST(test_a_process_serves_many_tasks)
{
    static const uint32_t sides[][2] = {{2560, 1600}, {720, 1440}, {3200, 2000}, {40, 30}};
    uint64_t replaced = codec_process_replaced(CODEC_REPLACED_MEMORY);
    for (size_t i = 0; i < 2 * COUNT_OF(sides); i++) {
        size_t row = i % COUNT_OF(sides);
        struct image image = rig_picture(sides[row][0], sides[row][1], 3, 7);
        struct picture_file file =
            rig_encode_as(&image, "avif", .encoder = {.quality = 60, .effort = 0});
        rig_reads(&file, STATUS_OK, NULL);
        picture_free(&file);
        free(image.pixels);
    }
    assert_int_equal(codec_process_replaced(CODEC_REPLACED_MEMORY), replaced);
}

static void on_alarm(int number)
{
    (void)number;
}

/* A signal that interrupts the daemon does not end the process. */
TEST(test_signals)
{
    enum { tasks = 1500, often_us = 200 };
    const struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {.it_interval.tv_usec = often_us, .it_value.tv_usec = often_us};
    struct picture_file file = flat_avif(16);
    rig_reads(&file, STATUS_OK, NULL);
    uint64_t before = codec_process_replaced(CODEC_REPLACED_CRASHED);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    for (int i = 0; i < tasks; i++)
        rig_reads(&file, STATUS_OK, NULL);
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    assert_int_equal(codec_process_replaced(CODEC_REPLACED_CRASHED), before);
    picture_free(&file);
}

/* Small cells are decoded with the memory for their size. */
TEST(test_small_cells)
{
    static const struct {
        uint32_t cells, side;
        size_t most;
    } grids[] = {{16, 64, 144 * MIB}, {16, 66, 144 * MIB}, {16, 128, 164 * MIB},
                 {8, 256, 72 * MIB},  {4, 512, 48 * MIB},  {8, 64, 48 * MIB}};
    for (size_t i = 0; i < COUNT_OF(grids); i++) {
        uint32_t cells = grids[i].cells, side = grids[i].side;
        struct picture_file source = flat_avif(side);
        struct avif_layout layout = {.columns = cells, .rows = cells, .cell_width = side,
                                     .cell_height = side, .width = cells * side - cells,
                                     .height = cells * (side - 1)};
        struct picture_file file = avif_build(&source, &layout);
        rig_reads(&file, STATUS_OK, NULL);
        print_message("%u x %u cells of %u: %zu MiB\n", cells, cells, side,
                      (size_t)(rig.info.codec_bytes / MIB));
        assert_true(rig.info.codec_bytes <= grids[i].most);
        picture_free(&file);
        picture_free(&source);
    }
}

/* Resident memory of the only process that this thread has started. */
static size_t resident_bytes(void)
{
    FILE *children = fopen("/proc/thread-self/children", "r");
    int pid = 0;
    assert_true(children && fscanf(children, "%d", &pid) == 1);
    fclose(children);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *pages = fopen(path, "r");
    size_t resident = 0;
    assert_true(pages && fscanf(pages, "%*s %zu", &resident) == 1);
    fclose(pages);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* A decoder per cell leaves free blocks between used ones. The process must not keep them, because
 * admission has reserved memory for the task only. */
TEST(test_memory_is_returned)
{
    if (!HAS_LIMITS)
        skip();
    struct picture_file source = flat_avif(64);
    struct avif_layout layout = {.columns = 30,
                                 .rows = 30,
                                 .cell_width = 64,
                                 .cell_height = 64,
                                 .width = 1920,
                                 .height = 1920};
    struct picture_file file = avif_build(&source, &layout);
    for (int i = 0; i < 3; i++) {
        rig_reads(&file, STATUS_OK, NULL);
        print_message("%zu MiB stay resident\n", (size_t)(resident_bytes() / MIB));
        assert_true(resident_bytes() <= CODEC_PROCESS_BYTES);
    }
    picture_free(&file);
    picture_free(&source);
}

/* A layer of this image is decoded after so many others. */
static struct picture_file layered_avif(uint32_t side, unsigned layers)
{
    struct picture_file source = flat_avif(side);
    struct avif_layout layout = {.width = side, .height = side, .cell_width = side,
                                 .cell_height = side, .layers = layers};
    struct picture_file file = avif_build(&source, &layout);
    picture_free(&source);
    return file;
}

/* Wherever the frames are in the file, they are counted before they are decoded. */
TEST(test_too_many_frames)
{
    struct picture_file file = layered_avif(1024, AVIF_FRAMES_MAX - 1);
    rig_reads(&file, STATUS_OK, NULL);
    picture_free(&file);
    rig_reads_once(layered_avif(1024, AVIF_FRAMES_MAX), STATUS_DECODE_LIMIT,
                   "an image of the AVIF has 65 frames; at most 64");
    uint64_t late = codec_process_replaced(CODEC_REPLACED_LATE);
    for (unsigned i = 0; i < 4; i++) {
        const struct avif_pieces pieces = {.count = i % 2 ? 1000 : 1, .idat = i / 2};
        file = layered_avif(2048, 5000);
        avif_put_in_pieces(&file, &pieces);
        rig.limits.deadline_ns = clock_after_s(clock_now_ns(), patience(3));
        rig_reads(&file, STATUS_DECODE_LIMIT, "an image of the AVIF has 5001 frames; at most 64");
        picture_free(&file);
    }
    assert_int_equal(codec_process_replaced(CODEC_REPLACED_LATE), late);
}

/* Large frames before the one that is shown: the deadline ends them. */
TEST(test_many_frames)
{
    struct picture_file file = layered_avif(4096, AVIF_FRAMES_MAX - 1);
    uint64_t start_ns = clock_now_ns();
    uint64_t late = codec_process_replaced(CODEC_REPLACED_LATE);
    rig.limits.deadline_ns = clock_after_s(start_ns, 0.7);
    expect_limit(&file, "the deadline for decoding passed while libavif ran");
    assert_true(clock_now_ns() < clock_after_s(start_ns, patience(3)));
    assert_int_equal(codec_process_replaced(CODEC_REPLACED_LATE), late + 1);
    rig.limits.deadline_ns = 0;
    rig_reads_once(flat_avif(2048), STATUS_OK, NULL); /* by another process */
    picture_free(&file);
}

/* Boxes for which libavif makes far more entries than they have bytes. */
TEST(test_many_entries)
{
    struct picture_file source = flat_avif(16);
    for (size_t i = 0; i < avif_entries_length; i++) {
        struct picture_file file = picture_cut(&source, source.length);
        avif_append(&file, &avif_entries[i], 400000);
        size_t before = peak_bytes();
        rig.limits.deadline_ns = clock_after_s(clock_now_ns(), patience(1));
        enum status status = rig_decode(&rig, &file, DECODE_COLOUR);
        size_t most = rig.info.codec_bytes + CODEC_PROCESS_BYTES, peak = peak_bytes();
        print_message("%s: %s %s; peak %zu MiB\n", avif_entries[i].name, status_name(status),
                      rig.error.text, (size_t)(peak / MIB));
        assert_true(!HAS_LIMITS || peak <= most || peak == before);
        picture_free(&file);
    }
    rig.limits.deadline_ns = 0;
    rig_reads(&source, STATUS_OK, NULL);
    picture_free(&source);
}

static bool is_gone(const struct codec_caller *caller)
{
    (void)caller;
    return true;
}

/* A cancelled job ends within a fraction of a second. */
TEST(test_cancelled)
{
    static const struct codec_caller caller = {is_gone};
    struct picture_file file = layered_avif(4096, AVIF_FRAMES_MAX - 1);
    rig.limits.caller = &caller;
    rig_reads(&file, STATUS_CANCELLED, "the job ended while libavif ran");
    picture_free(&file);
}

#else

TEST(test_without_avif)
{
    skip();
}

#endif

TEST_MAIN(.name = "codec_process", .each_setup = rig_setup, .each_teardown = rig_teardown)
