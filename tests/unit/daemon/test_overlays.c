/*
 * Tests of the cache of overlays and of their maker: hits, changed files, eviction, references,
 * limits, lack of memory, and several threads.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/overlays/overlay_maker.h"
#include "daemon/pipeline/admission.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

#define POOL_BYTES (512 * KIB)
#define IDLE_BYTES (64 * KIB)
#define THREADS 8

static char folder[] = "/tmp/gpuimgd-overlays-XXXXXX";
static struct files files;
static struct pool *pool;
static struct overlays *overlays;
static struct codec_limits limits;
static struct overlay_maker maker;

static void put(const char *name, uint32_t width, uint32_t height, uint32_t seed)
{
    struct picture_file file =
        make_png(.width = width, .height = height, .colour_type = 6, .seed = seed);
    assert_true(text_file_write(text_of("%s/%s", folder, name), file.bytes, file.length));
    picture_free(&file);
}

static int open_all(void **state)
{
    struct error error = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_true(files_open_inputs(&files, folder, &error));
    put("a.png", 20, 10, 1);
    put("b.png", 30, 9, 2);
    maker.codec = codec_context_create();
    return maker.codec ? 0 : 1;
}

static int close_all(void **state)
{
    (void)state;
    codec_context_destroy(maker.codec);
    files_close(&files);
    text_file_remove_folder(folder);
    return 0;
}

static int open_cache(void **state)
{
    (void)state;
    limits = (struct codec_limits){.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};
    pool = pool_create("files", POOL_BYTES, POOL_BYTES, &pool_backend_pages);
    pool_use_no_shelves(pool);
    overlays = overlays_create(pool, IDLE_BYTES);
    maker = (struct overlay_maker){.overlays = overlays, .files = &files, .codec = maker.codec,
                                   .limits = &limits, .bytes_max = MIB};
    return overlays ? 0 : 1;
}

/* All memory must be back. */
static int close_cache(void **state)
{
    (void)state;
    overlays_destroy(overlays);
    size_t used = pool_usage(pool).used;
    pool_destroy(pool);
    return used == 0 && maker.held == 0 ? 0 : 1;
}

static struct overlay *get(const char *path, uint32_t width)
{
    struct error error = {0};
    struct overlay *overlay = overlay_from_path(&maker, path, width, &error);
    if (!overlay)
        fail_msg("%s: %s", path, error.text);
    return overlay;
}

static void refuse(const char *path, uint32_t width, enum status status, const char *text)
{
    struct error error = {0};
    assert_null(overlay_from_path(&maker, path, width, &error));
    assert_int_equal(error.status, status);
    if (!strstr(error.text, text))
        fail_msg("\"%s\" instead of \"%s\"", error.text, text);
}

/* ---- the same and others ---- */

TEST(test_hit)
{
    struct overlay *one = get("a.png", 0), *other = get("b.png", 0), *again = get("a.png", 0);
    assert_ptr_equal(one, again);
    assert_ptr_not_equal(one, other);
    assert_int_equal(one->pixels.image.width, 20);
    assert_int_equal(one->pixels.image.height, 10);
    assert_false(one->pixels.gray);
    overlays_release(overlays, one);
    overlays_release(overlays, again);
    assert_ptr_equal(get("a.png", 0), one); /* kept without references */
    overlays_release(overlays, one);
    overlays_release(overlays, other);
}

/* Equal texts are drawn once. */
TEST(test_texts)
{
    struct plan_text text = {"one", {.font = "Sans", .size = 20, .rgba = {9, 9, 9, 255}}};
    struct error error = {0};
    struct overlay *one = overlay_from_text(&maker, &text, &error), *again, *other;
    if (!one && (strstr(error.text, "without Pango") || strstr(error.text, "no font is installed")))
        skip();
    if (!one)
        fail_msg("%s", error.text);
    assert_true(one->pixels.gray);
    again = overlay_from_text(&maker, &text, &error);
    assert_ptr_equal(one, again);
    text.style.rgba[0] = 200;
    other = overlay_from_text(&maker, &text, &error);
    assert_ptr_not_equal(one, other);
    assert_false(other->pixels.gray);
    assert_int_equal(other->pixels.image.width, one->pixels.image.width);
    overlays_release(overlays, other);
    text.text = "on";
    other = overlay_from_text(&maker, &text, &error);
    assert_true(other->pixels.image.width < one->pixels.image.width);
    overlays_release(overlays, one);
    overlays_release(overlays, again);
    overlays_release(overlays, other);
}

TEST(test_pixels)
{
    uint32_t channels;
    struct picture_png how = {.width = 20, .height = 10, .colour_type = 6, .seed = 1};
    uint8_t *want = picture_png_expected(&how, &channels);
    struct overlay *one = get("a.png", 0);
    const struct image *image = &one->pixels.image;
    assert_int_equal(channels, 4);
    for (size_t y = 0; y < 10; y++)
        assert_memory_equal(image->pixels + y * image->stride, want + y * 80, 80);
    free(want);
    overlays_release(overlays, one);
}

TEST(test_sizes)
{
    struct overlay *small = get("a.png", 7), *whole = get("a.png", 0), *large = get("a.png", 25);
    assert_int_equal(small->pixels.image.width, 7);
    assert_int_equal(small->pixels.image.height, 4); /* 3.5, rounded up */
    assert_int_equal(large->pixels.image.height, 13);
    assert_ptr_equal(get("a.png", 7), small);
    overlays_release(overlays, small);
    overlays_release(overlays, small);
    overlays_release(overlays, whole);
    overlays_release(overlays, large);
}

TEST(test_changed)
{
    put("c.png", 16, 16, 3);
    struct overlay *one = get("c.png", 0), *two;
    usleep(20000); /* more than a step of the file's times */
    put("c.png", 16, 16, 4);
    two = get("c.png", 0);
    assert_ptr_not_equal(one, two);
    assert_memory_not_equal(one->pixels.image.pixels, two->pixels.image.pixels, 64);
    overlays_release(overlays, one);
    overlays_release(overlays, two);
}

/* A file that has just changed is read again, and again. */
TEST(test_not_settled)
{
    put("e.png", 16, 16, 5);
    maker.settled_s = 3600;
    struct overlay *one = get("e.png", 0), *two = get("e.png", 0);
    assert_ptr_not_equal(one, two);
    overlays_release(overlays, one);
    overlays_release(overlays, two);
}

TEST(test_keys)
{
    struct picture_file a = make_png(.width = 20, .height = 10, .colour_type = 0, .seed = 1);
    struct picture_file b = make_png(.width = 20, .height = 10, .colour_type = 0, .seed = 2);
    struct error error = {0};
    struct overlay *one = overlay_from_key(&maker, "ns:img:a", a.bytes, a.length, &error);
    struct overlay *same = overlay_from_key(&maker, "ns:img:a", a.bytes, a.length, &error);
    struct overlay *name = overlay_from_key(&maker, "ns:img:b", a.bytes, a.length, &error);
    struct overlay *bytes = overlay_from_key(&maker, "ns:img:a", b.bytes, b.length, &error);
    assert_int_equal(error.status, STATUS_OK);
    assert_ptr_equal(one, same);
    assert_ptr_not_equal(one, name);
    assert_ptr_not_equal(one, bytes);
    assert_true(one->pixels.gray);
    struct overlay *small = overlay_resized(&maker, one, 5, &error);
    assert_ptr_equal(overlays_find(overlays, &one->id, 5), small);
    assert_null(overlays_find(overlays, &name->id, 5));
    struct overlay *all[] = {one, same, name, bytes, small, small};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        overlays_release(overlays, all[i]);
    picture_free(&a);
    picture_free(&b);
}

/* The memory in which an overlay was decoded leaves no gap below it, but its file does. */
TEST(test_no_gaps)
{
    struct picture_file file = make_png(.width = 120, .height = 100, .colour_type = 6, .seed = 1);
    struct error error = {0};
    struct pool_block block, rest;
    assert_true(pool_take(pool, 40 * KIB, &block, NULL));
    const uint8_t *end = (uint8_t *)block.memory + block.bytes;
    struct overlay *keyed = overlay_from_key(&maker, "ns:img:a", file.bytes, file.length, &error);
    assert_ptr_equal(keyed, end);
    assert_string_equal(keyed->key, "ns:img:a");
    assert_memory_equal(keyed->file, file.bytes, file.length);
    end += keyed->block.bytes;
    assert_true((uint8_t *)keyed->file > (uint8_t *)keyed && keyed->file + file.length < end);
    put("d.png", 90, 60, 7);
    struct overlay *of_file = get("d.png", 0);
    size_t gap = (size_t)((uint8_t *)of_file - end);
    assert_int_equal(gap, buffer_align(of_file->file_bytes + 1));
    assert_true(pool_take(pool, POOL_BYTES - pool_usage(pool).used - gap, &rest, NULL));
    pool_give(pool, &rest);
    overlays_release(overlays, keyed);
    overlays_release(overlays, of_file);
    pool_give(pool, &block);
    picture_free(&file);
}

/* ---- errors and limits ---- */

TEST(test_errors)
{
    text_file_write(text_of("%s/no.txt", folder), "no image", 8);
    assert_int_equal(mkfifo(text_of("%s/pipe", folder), 0600), 0);
    refuse("none.png", 0, STATUS_INPUT_MISSING, "\"none.png\" does not exist");
    refuse("none.png", 9, STATUS_INPUT_MISSING, "\"none.png\" does not exist");
    refuse("no.txt", 0, STATUS_UNSUPPORTED_FORMAT, "");
    refuse("pipe", 0, STATUS_PATH_REFUSED, "not a regular file");
    assert_int_equal(maker.lack, LACKS_NOTHING);
}

/* An overlay in the cache must obey the limits of each job. */
TEST(test_limits)
{
    struct overlay *one = get("a.png", 0);
    limits.side_max = 19;
    refuse("a.png", 0, STATUS_IMAGE_TOO_LARGE, "");
    limits.side_max = SIDE_DEFAULT;
    limits.pixels_max = 199;
    refuse("a.png", 0, STATUS_IMAGE_TOO_LARGE, "");
    limits.pixels_max = 200;
    assert_ptr_equal(get("a.png", 0), one);
    refuse("a.png", 21, STATUS_IMAGE_TOO_LARGE, "");
    maker.bytes_max = 10;
    refuse("a.png", 0, STATUS_INPUT_TOO_LARGE, "");
    put("thin.png", 1, 300, 6);
    maker.bytes_max = MIB;
    limits.side_max = 300;
    limits.pixels_max = PIXELS_DEFAULT;
    refuse("thin.png", 2, STATUS_IMAGE_TOO_LARGE, "2 pixels wide, it is 600 pixels high");
    overlays_release(overlays, one);
    overlays_release(overlays, one);
}

/* ---- memory ---- */

/* Overlays of about 40 KiB each: at most one of them stays without references. */
TEST(test_eviction)
{
    struct overlay *held[3];
    char name[16];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "m%u.png", i);
        put(name, 100, 100, i);
        held[i] = get(name, 0);
    }
    size_t all = pool_usage(pool).used;
    assert_true(all > 3 * 40000);
    for (uint32_t i = 0; i < 3; i++)
        overlays_release(overlays, held[i]);
    assert_true(pool_usage(pool).used <= IDLE_BYTES);
    assert_ptr_equal(get("m2.png", 0), held[2]); /* the last one was kept */
    overlays_release(overlays, held[2]);

    /* One that is too large itself does not evict the others. */
    put("large.png", 200, 100, 9);
    overlays_release(overlays, get("large.png", 0));
    assert_ptr_equal(get("m2.png", 0), held[2]);
    overlays_release(overlays, held[2]);

    struct pool_block block;
    bool exhausted = true;
    assert_true(overlays_take(overlays, POOL_BYTES, 0, &block, &exhausted));
    assert_int_equal(pool_usage(pool).used, POOL_BYTES);
    overlays_give(overlays, &block);
}

/* Room that others hold comes back; the job's own does not. */
TEST(test_lack_of_room)
{
    struct pool_block others, own;
    bool exhausted = false;
    assert_true(overlays_take(overlays, POOL_BYTES - 8 * KIB, 0, &others, &exhausted));
    refuse("m0.png", 0, STATUS_OUT_OF_MEMORY, "no memory for");
    assert_int_equal(maker.lack, LACKS_FILES);
    overlays_give(overlays, &others);

    maker.lack = LACKS_NOTHING;
    assert_true(overlays_take(overlays, POOL_BYTES - 8 * KIB, 0, &own, &exhausted));
    maker.held = own.bytes;
    refuse("m0.png", 0, STATUS_OVER_BUDGET, "do not fit into half of host_bytes");
    assert_int_equal(maker.lack, LACKS_NOTHING);
    maker.held -= own.bytes;
    overlays_give(overlays, &own);

    limits.side_max = SIDE_DEFAULT;
    refuse("a.png", 10000, STATUS_OVER_BUDGET, "do not fit into half of host_bytes");
    assert_int_equal(maker.lack, LACKS_NOTHING);
    assert_true(overlays_fit(overlays, POOL_BYTES, 0));
    assert_true(overlays_fit(overlays, POOL_BYTES / 4, POOL_BYTES / 2));
    assert_false(overlays_fit(overlays, POOL_BYTES / 4 + 1, POOL_BYTES / 2)); /* two pieces */
}

/* The decoder of a progressive JPEG takes its memory from the lane. */
TEST(test_lack_of_lane)
{
    struct admission admission;
    struct picture_file file = make_jpeg(.width = 800, .height = 600, .progressive = true);
    struct pool *large = pool_create("files", 16 * MIB, MIB, &pool_backend_pages);
    struct overlays *cache = overlays_create(large, 0);
    bool exhausted;
    assert_true(text_file_write(text_of("%s/p.jpg", folder), file.bytes, file.length));
    picture_free(&file);
    limits.jpeg_scans_max = JPEG_SCANS_DEFAULT;
    maker.overlays = cache;
    maker.lend = admission_lend;
    maker.end_loan = admission_end_loan;
    maker.admission = &admission;
    admission_open(&admission, NULL, 4 * MIB, 1, 1);
    overlays_release(cache, get("p.jpg", 0));
    assert_int_equal(admission_usage(&admission).used, 0);
    assert_true(admission_lend(&admission, 3 * MIB, &exhausted));
    refuse("p.jpg", 0, STATUS_OVER_BUDGET, "three eighths of host_bytes");
    assert_int_equal(maker.lack, LACKS_LANE);
    admission_end_loan(&admission, 3 * MIB);
    admission_close(&admission);
    admission_open(&admission, NULL, 1 * MIB, 1, 1);
    maker.lack = LACKS_NOTHING;
    refuse("p.jpg", 0, STATUS_OVER_BUDGET, "three eighths of host_bytes");
    assert_int_equal(maker.lack, LACKS_NOTHING);
    admission_close(&admission);
    overlays_destroy(cache);
    pool_destroy(large);
}

/* ---- threads ---- */

static void *use_overlays(void *number)
{
    struct codec_limits own_limits = {.pixels_max = PIXELS_DEFAULT, .side_max = SIDE_DEFAULT};
    struct overlay_maker own = {.overlays = overlays, .files = &files, .limits = &own_limits,
                                .codec = codec_context_create(), .bytes_max = MIB};
    uintptr_t state = (uintptr_t)number, wrong = !own.codec;
    for (int i = 0; i < 200 && !wrong; i++) {
        struct error error = {0};
        state = state * 1103515245u + 12345u;
        uint32_t width = (uint32_t)(state >> 16) % 6 * 5;
        const char *name = (state >> 24) % 2 ? "a.png" : "b.png";
        struct overlay *overlay = overlay_from_path(&own, name, width, &error);
        if (!overlay) { /* the others hold the room */
            wrong |= error.status != STATUS_OUT_OF_MEMORY || own.lack != LACKS_FILES;
            own.lack = LACKS_NOTHING;
            continue;
        }
        uint32_t whole = strcmp(name, "a.png") == 0 ? 20 : 30;
        wrong |= overlay->pixels.image.width != (width ? width : whole) || own.held != 0;
        overlays_release(overlays, overlay);
    }
    codec_context_destroy(own.codec);
    return (void *)wrong;
}

TEST(test_threads)
{
    pthread_t threads[THREADS];
    void *wrong = NULL;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_overlays, (void *)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

TEST_MAIN(.setup = open_all, .teardown = close_all, .each_setup = open_cache,
          .each_teardown = close_cache)
