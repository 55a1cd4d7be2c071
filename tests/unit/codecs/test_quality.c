/*
 * Tests of the search for a quality: on made curves of sizes, and on images, whose files at all
 * qualities are the reference.
 */
#include "codecs/quality.h"
#include "tests/fixtures/codec_rig.h"

enum { qualities = 100 };

static bool more; /* quality_search.more */

/* Returns the quality that the search finds, from `start` on, for files of these sizes. */
static int search(const uint64_t sizes[qualities + 1], int start, uint64_t bytes_max, int *trials)
{
    struct quality_search search = {.bytes_max = bytes_max, .more = more};
    uint64_t tried[2] = {0, 0};
    for (int quality = start; quality > 0; quality = quality_search_next(&search)) {
        assert_in_range(quality, 1, start);
        assert_false(tried[quality / 64] >> quality % 64 & 1);
        tried[quality / 64] |= 1ull << quality % 64;
        quality_search_add(&search, quality, sizes[quality]);
        assert_true(search.count <= (more ? QUALITY_TRIALS_MORE : QUALITY_TRIALS_MAX));
    }
    *trials = search.count;
    if (search.fits.quality > 0)
        assert_int_equal(search.fits.bytes, sizes[search.fits.quality]);
    else
        assert_int_equal(search.above.quality, 1);
    return search.fits.quality;
}

/* The highest quality that fits, or 0. */
static int best_of(const uint64_t sizes[qualities + 1], int start, uint64_t bytes_max)
{
    while (start > 0 && sizes[start] > bytes_max)
        start--;
    return start;
}

struct tally {
    int searches, trials, near; /* near: the size is within 2% of the best one */
    double least;               /* the smallest part of the best one */
};

static void check_limits(const uint64_t sizes[qualities + 1], int start, struct tally *tally)
{
    for (uint64_t percent = 5; percent < 105; percent += 5) {
        uint64_t bytes_max = sizes[start] * percent / 100;
        int trials, best = best_of(sizes, start, bytes_max);
        int found = search(sizes, start, bytes_max, &trials);
        assert_int_equal(found == 0, sizes[1] > bytes_max);
        if (found == 0)
            continue;
        assert_true(sizes[found] <= bytes_max);
        double part = (double)sizes[found] / (double)sizes[best];
        tally->searches++;
        tally->trials += trials;
        tally->near += part >= 0.98;
        tally->least = part < tally->least ? part : tally->least;
    }
}

TEST(test_the_first_fits)
{
    uint64_t sizes[qualities + 1];
    int trials;
    for (int q = 0; q <= qualities; q++)
        sizes[q] = 1000 + 10 * (uint64_t)q;
    assert_int_equal(search(sizes, 85, 1850, &trials), 85);
    assert_int_equal(trials, 1);
    assert_int_equal(search(sizes, 1, 1010, &trials), 1);
    assert_int_equal(trials, 1);
    assert_int_equal(search(sizes, 1, 1009, &trials), 0);
    assert_int_equal(trials, 1);
    assert_int_equal(search(sizes, 2, 1019, &trials), 1);
    assert_int_equal(trials, 2);
}

/* All sizes equal, steps, one byte, and huge sizes: each search ends with a file that fits. */
TEST(test_strange_curves)
{
    uint64_t sizes[qualities + 1];
    struct tally tally = {0};
    for (int kind = 0; kind < 6; kind++) {
        for (int q = 0; q <= qualities; q++)
            sizes[q] = kind == 0   ? 5000
                       : kind == 1 ? (q < 50 ? 1000 : 100000)
                       : kind == 2 ? 1
                       : kind == 3 ? (uint64_t)q << 40
                       : kind == 4 ? (q == 1 ? 1 : 1000000)
                                   : 100ull << q / 4;
        for (int start = 1; start <= qualities; start++)
            check_limits(sizes, start, &tally);
    }
    assert_true(tally.searches > 1000);
}

/* Sizes of noise as AVIF: hardly any bytes at the lowest qualities, and then many at once. */
TEST(test_steep_curves)
{
    static const struct {
        int quality;
        double bytes;
    } points[] = {{1, 408},     {4, 700},     {10, 5000},   {13, 42000},  {20, 80000},
                  {41, 191304}, {60, 262000}, {85, 480000}, {95, 700000}, {100, 1200000}};
    uint64_t sizes[qualities + 1] = {400};
    struct tally tally = {.least = 1};
    for (size_t p = 0; p + 1 < COUNT_OF(points); p++)
        for (int q = points[p].quality; q <= points[p + 1].quality; q++) {
            double part = (double)(q - points[p].quality) /
                          (double)(points[p + 1].quality - points[p].quality);
            sizes[q] = (uint64_t)(points[p].bytes + part * (points[p + 1].bytes - points[p].bytes));
        }
    more = true;
    for (int start = 50; start <= qualities; start++)
        check_limits(sizes, start, &tally);
    more = false;
    print_message("%d searches, %.2f trials each, at least %.3f of the best\n", tally.searches,
                  (double)tally.trials / tally.searches, tally.least);
    assert_true(tally.searches > 500);
    assert_true(tally.least >= 0.98);
    assert_int_equal(tally.near, tally.searches);
}

/* Where sizes do not always grow, the result may not be the best, but it fits. */
TEST(test_curves_with_noise)
{
    uint64_t sizes[qualities + 1];
    struct tally tally = {0};
    uint32_t random = 3;
    for (int i = 0; i < 200; i++) {
        sizes[0] = sizes[1] = 500 + picture_random(&random) % 1000;
        for (int q = 2; q <= qualities; q++)
            sizes[q] = sizes[1] + picture_random(&random) % (uint32_t)(q * 1000);
        for (int start = 40; start <= qualities; start += 20)
            for (uint64_t bytes_max = sizes[1]; bytes_max < 90000; bytes_max += 7001) {
                int trials, found = search(sizes, start, bytes_max, &trials);
                assert_true(found > 0 && sizes[found] <= bytes_max);
                tally.searches++;
            }
    }
    assert_true(tally.searches > 1000);
}

/* ---- images ---------------------------------------------------------------------------------- */

static uint64_t size_at(const struct image *image, struct encode_request request, int quality)
{
    request.encoder.quality = quality;
    struct picture_file file = rig_encode(&rig, image, &request);
    uint64_t bytes = file.length;
    picture_free(&file);
    return bytes;
}

static void fill_sizes(const struct image *image, const struct encode_request *request,
                       uint64_t sizes[qualities + 1])
{
    for (int q = 1; q <= qualities; q++)
        sizes[q] = size_at(image, *request, q);
}

/* Averages of neighbours make each image smoother, from noise to a photograph out of focus. */
static void smooth(struct image *image, int times)
{
    for (int i = 0; i < times; i++)
        for (uint32_t y = 1; y < image->height; y++)
            for (uint32_t x = image->channels; x < image->width * image->channels; x++) {
                uint8_t *at = image->pixels + y * image->stride + x;
                *at = (uint8_t)((2 * at[0] + at[-(int)image->channels] + at[-(int)image->stride]) /
                                4);
            }
}

/* Images of all sizes and kinds, against the sizes of their files at all qualities. */
TEST(test_images)
{
    struct tally tally = {.least = 1};
    for (unsigned i = 0; i < 24; i++) {
        static const uint32_t sides[] = {320, 150, 64};
        uint64_t sizes[qualities + 1];
        uint32_t side = sides[i % 3];
        struct image image = rig_picture(side, side * 2 / 3, i % 4 == 3 ? 1 : 3, i + 1);
        struct encode_request request = {
            .format = format_by_name("jpeg"),
            .encoder = {.progressive = i % 5 == 4, .optimize = i % 2, .subsampling = (int)i % 3}};
        smooth(&image, (int)i % 7);
        fill_sizes(&image, &request, sizes);
        for (int start = 60; start <= qualities; start += 5)
            check_limits(sizes, start, &tally);
        free(image.pixels);
    }
    print_message("%d searches: %.2f trials, %.1f%% within 2%% of the best, all above %.0f%%\n",
                  tally.searches, (double)tally.trials / tally.searches,
                  100.0 * tally.near / tally.searches, 100 * tally.least);
    assert_true(tally.near >= tally.searches * 95 / 100);
    assert_true(tally.trials <= tally.searches * 4);
}

static enum status find(const struct image *image, struct encode_request *request, int *quality)
{
    uint8_t *buffer = malloc(4096);
    rig.error = (struct error){0};
    enum status status =
        codec_find_quality(rig.context, image, request, buffer, 4096, quality, &rig.error);
    free(buffer);
    return status;
}

TEST(test_find_quality)
{
    struct image image = rig_picture(200, 150, 3, 9);
    struct encode_request request = {.format = format_by_name("jpeg"),
                                     .encoder = {.quality = 90}};
    uint64_t sizes[qualities + 1];
    int quality = 0;
    fill_sizes(&image, &request, sizes);
    for (int wanted = 5; wanted <= 90; wanted += 17) {
        request.encoder.max_bytes = (int)sizes[wanted];
        assert_int_equal(find(&image, &request, &quality), STATUS_OK);
        assert_true(sizes[quality] <= sizes[wanted] && sizes[quality] * 100 >= sizes[wanted] * 97);
    }
    assert_int_equal(quality, 90);
    request.encoder.max_bytes = (int)sizes[1] - 1;
    assert_int_equal(find(&image, &request, &quality), STATUS_ENCODE_FAILED);
    char wanted[200];
    snprintf(wanted, sizeof wanted,
             "the JPEG has %llu bytes at quality 1, the lowest, with 0 bytes of metadata, but "
             "max_bytes is %d; raise max_bytes, keep less metadata, or make the image smaller",
             (unsigned long long)sizes[1], request.encoder.max_bytes);
    assert_string_equal(rig.error.text, wanted);
    uint8_t exif[3000] = "II*";
    request.exif = exif;
    request.exif_bytes = sizeof exif;
    assert_int_equal(find(&image, &request, &quality), STATUS_ENCODE_FAILED);
    assert_non_null(strstr(rig.error.text, "with 3000 bytes of metadata"));
    request.deadline_ns = 1;
    assert_int_equal(find(&image, &request, &quality), STATUS_TIMEOUT);
    free(image.pixels);
}

TEST_MAIN(.name = "quality", .each_setup = rig_setup, .each_teardown = rig_teardown)
