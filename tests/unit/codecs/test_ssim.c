/*
 * Tests of the similarity of two images, of the search for a similarity on made curves, and of the
 * search with the files of each format. The reference is written from the definition of ssim.h, in
 * floating point.
 */
#include <math.h>

#include "codecs/ssim_compare.h"
#include "codecs/ssim_quality.h"
#include "tests/fixtures/codec_rig.h"

enum { qualities = 100, window = 8, step = 4 };

/* ---- the reference -------------------------------------------------------------------------- */

static double luma_at(const struct image *image, uint32_t x, uint32_t y, int background)
{
    x = x < image->width ? x : image->width - 1;
    y = y < image->height ? y : image->height - 1;
    const uint8_t *at = image->pixels + y * image->stride + (size_t)x * image->channels;
    if (image->channels == 1)
        return at[0];
    double luma = floor((19595.0 * at[0] + 38470.0 * at[1] + 7471.0 * at[2]) / 65536 + 0.5);
    if (image->channels == 3)
        return luma;
    return floor((luma * at[3] + background * (255.0 - at[3])) / 255 + 0.5);
}

static double window_of(const struct image *a, const struct image *b, uint32_t x, uint32_t y,
                        int background)
{
    const double c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255, n = window * window;
    double mean_a = 0, mean_b = 0, var_a = 0, var_b = 0, both = 0;
    for (uint32_t i = 0; i < window * window; i++) {
        mean_a += luma_at(a, x + i % window, y + i / window, background) / n;
        mean_b += luma_at(b, x + i % window, y + i / window, background) / n;
    }
    for (uint32_t i = 0; i < window * window; i++) {
        double da = luma_at(a, x + i % window, y + i / window, background) - mean_a;
        double db = luma_at(b, x + i % window, y + i / window, background) - mean_b;
        var_a += da * da / n;
        var_b += db * db / n;
        both += da * db / n;
    }
    return (2 * mean_a * mean_b + c1) * (2 * both + c2) /
           ((mean_a * mean_a + mean_b * mean_b + c1) * (var_a + var_b + c2));
}

static uint32_t extended(uint32_t side)
{
    uint32_t whole = (side + step - 1) / step * step;
    return whole < window ? window : whole;
}

static double over(const struct image *a, const struct image *b, int background)
{
    double sum = 0, windows = 0;
    for (uint32_t y = 0; y + window <= extended(a->height); y += step)
        for (uint32_t x = 0; x + window <= extended(a->width); x += step, windows++)
            sum += window_of(a, b, x, y, background);
    return sum < 0 ? 0 : sum / windows;
}

static double reference(const struct image *a, const struct image *b)
{
    return fmin(over(a, b, 0), over(a, b, 255));
}

/* ---- the similarity ------------------------------------------------------------------------- */

static int compare(const struct image *a, const struct image *b)
{
    void *scratch = malloc(ssim_scratch_bytes(a->width));
    int found = ssim_compare(a, b, scratch, 0);
    free(scratch);
    return found;
}

static struct image changed(const struct image *image, uint32_t most, uint32_t seed)
{
    struct image copy = rig_picture(image->width, image->height, image->channels, 1);
    for (uint32_t y = 0; y < image->height; y++)
        for (size_t x = 0; x < (size_t)image->width * image->channels; x++) {
            int noise = (int)(picture_random(&seed) % (2 * most + 1)) - (int)most;
            int value = image->pixels[y * image->stride + x] + noise;
            copy.pixels[y * copy.stride + x] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    return copy;
}

TEST(test_similarity)
{
    static const uint32_t sides[][2] = {{1, 1},   {1, 9},   {7, 7},   {8, 8},   {9, 8},
                                        {12, 11}, {13, 16}, {3, 100}, {65, 33}, {96, 64}};
    double least = 1, most = 0;
    for (size_t i = 0; i < COUNT_OF(sides) * 12; i++) {
        const uint32_t channels[] = {1, 3, 4};
        const uint32_t *side = sides[i % COUNT_OF(sides)], noise[] = {2, 9, 40, 255};
        struct image a = rig_picture(side[0], side[1], channels[i % 3], (uint32_t)i + 1);
        struct image b = changed(&a, noise[i / 3 % 4], (uint32_t)i + 7);
        double wanted = reference(&a, &b);
        int found = compare(&a, &b);
        if (fabs(found - wanted * SSIM_ONE) > 2.5)
            fail_msg("%u x %u x %u: %d, expected %.2f", a.width, a.height, a.channels, found,
                     wanted * SSIM_ONE);
        assert_int_equal(compare(&b, &a), found);
        assert_int_equal(compare(&a, &a), SSIM_ONE);
        least = wanted < least ? wanted : least;
        most = wanted > most ? wanted : most;
        free(a.pixels);
        free(b.pixels);
    }
    assert_true(least < 0.1 && most > 0.95);
}

static struct image flat(uint32_t channels, const uint8_t pixel[4])
{
    struct image image = rig_picture(20, 20, channels, 1);
    for (uint32_t y = 0; y < 20; y++)
        for (uint32_t x = 0; x < 20; x++)
            memcpy(image.pixels + y * image.stride + (size_t)x * channels, pixel, channels);
    return image;
}

/* Without structure, only the luminance counts: (2ab + C1) / (a^2 + b^2 + C1). */
TEST(test_flat_images)
{
    struct image a = flat(1, (uint8_t[4]){100}), b = flat(1, (uint8_t[4]){110});
    struct image white = flat(3, (uint8_t[4]){255, 255, 255}), black = flat(1, (uint8_t[4]){0});
    struct image clear = flat(4, (uint8_t[4]){255, 255, 255, 0});
    assert_in_range(compare(&a, &b), 995474, 995476);  /* 22006.5025 / 22106.5025 */
    assert_in_range(compare(&white, &black), 99, 101); /* C1 / (255^2 + C1) */
    assert_in_range(compare(&clear, &white), 99, 101); /* over black */
    assert_in_range(compare(&clear, &black), 99, 101); /* over white */
    free(a.pixels);
    free(b.pixels);
    free(white.pixels);
    free(black.pixels);
    free(clear.pixels);
}

/* An image and its negative have a negative similarity. */
TEST(test_negative)
{
    struct image a = rig_picture(40, 40, 1, 3), b = rig_picture(40, 40, 1, 3);
    for (size_t i = 0; i < b.stride * 40; i++)
        b.pixels[i] = (uint8_t)~a.pixels[i];
    assert_int_equal(compare(&a, &b), 0);
    uint8_t scratch[4096];
    assert_int_equal(ssim_compare(&a, &b, scratch, 1), -1);
    free(a.pixels);
    free(b.pixels);
}

/* ---- the search ----------------------------------------------------------------------------- */

/* longest: files of higher qualities are too long. */
static struct ssim_search search_within(const int curve[qualities + 1], int least, int most,
                                        int target, int longest)
{
    struct ssim_search search = {.target = target, .least = least, .most = most};
    uint64_t tried[2] = {0, 0};
    for (int quality; (quality = ssim_search_next(&search)) > 0;) {
        assert_in_range(quality, least, most);
        assert_false(tried[quality / 64] >> quality % 64 & 1);
        tried[quality / 64] |= 1ull << quality % 64;
        if (quality <= longest)
            ssim_search_add(&search, quality, curve[quality]);
        else
            ssim_search_exclude(&search, quality);
        assert_true(search.count <= SSIM_TRIALS_MAX);
    }
    most = most < longest ? most : longest;
    if (search.reaches.quality == 0) {
        assert_int_equal(search.below.quality, most);
        assert_true(curve[most] < target);
    } else {
        assert_true(search.reaches.ssim == curve[search.reaches.quality]);
        assert_true(search.reaches.ssim >= target);
        assert_int_equal(search.below.quality,
                         search.reaches.quality == least ? 0 : search.reaches.quality - 1);
        assert_true(search.below.quality == 0 || curve[search.below.quality] < target);
    }
    return search;
}

static struct ssim_search search(const int curve[qualities + 1], int least, int most, int target)
{
    return search_within(curve, least, most, target, most);
}

/* Curves that rise: the lowest quality is found, within all bounds. */
TEST(test_rising_curves)
{
    int curve[qualities + 1] = {0};
    for (int kind = 0; kind < 5; kind++) {
        for (int q = 1; q <= qualities; q++)
            curve[q] = kind == 0   ? 9000 * q
                       : kind == 1 ? SSIM_ONE - (int)(500000 * pow(0.95, q))
                       : kind == 2 ? (q < 60 ? 0 : SSIM_ONE)
                       : kind == 3 ? 999000 + q
                                   : SSIM_ONE - 100000000 / (q * q * q + 100);
        for (int i = 0; i < 3000; i++) {
            uint32_t random = (uint32_t)(5000 * kind + i + 1);
            int least = (int)(picture_random(&random) % qualities) + 1;
            int most = least + (int)(picture_random(&random) % (uint32_t)(101 - least));
            if (i % 2)
                least = 1, most = qualities;
            int target = 1 + (int)(picture_random(&random) % (SSIM_ONE - 1)), lowest = least;
            if (i % 3)
                target =
                    curve[least + (int)(picture_random(&random) % (uint32_t)(most - least + 1))] -
                    i % 5 % 2;
            if (target < 1 || target >= SSIM_ONE)
                continue;
            while (lowest <= most && curve[lowest] < target)
                lowest++;
            struct ssim_search found = search(curve, least, most, target);
            assert_int_equal(found.reaches.quality, lowest <= most ? lowest : 0);
        }
    }
}

/* Where the similarity does not always rise, the result reaches the target, and the next lower
 * quality does not: search() checks it. */
TEST(test_curves_with_noise)
{
    int curve[qualities + 1] = {0};
    uint32_t random = 3;
    int found = 0;
    for (int i = 0; i < 3000; i++) {
        for (int q = 1; q <= qualities; q++)
            curve[q] = (int)(picture_random(&random) % (SSIM_ONE + 1));
        found += search(curve, 1, qualities, 1 + i * 300).reaches.quality > 0;
    }
    assert_true(found > 1000);
}

/* The result is that of a search up to the longest file that is allowed. */
TEST(test_files_too_long)
{
    int curve[qualities + 1] = {0};
    for (int q = 1; q <= qualities; q++)
        curve[q] = 9000 * q;
    for (int longest = 1; longest <= qualities; longest++)
        for (int target = 4500; target < SSIM_ONE; target += 9000) {
            struct ssim_search found = search_within(curve, 1, qualities, target, longest);
            int lowest = target / 9000 + 1;
            assert_int_equal(found.reaches.quality, lowest <= longest ? lowest : 0);
        }
    struct ssim_search odd = {.target = 500000, .least = 1, .most = qualities};
    ssim_search_add(&odd, 90, 600000);
    ssim_search_exclude(&odd, 80);
    for (int quality; (quality = ssim_search_next(&odd)) > 0;) {
        assert_in_range(quality, 81, 89);
        ssim_search_add(&odd, quality, quality < 85 ? 0 : 500000);
    }
    assert_int_equal(odd.reaches.quality, 85);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Averages of neighbours: a photograph out of focus. */
static struct image make_image(uint32_t width, uint32_t height, uint32_t channels, uint32_t seed)
{
    struct image image = rig_picture(width, height, channels, seed);
    for (int i = 0; i < 4; i++)
        for (uint32_t y = 1; y < height; y++)
            for (uint32_t x = channels; x < width * channels; x++) {
                uint8_t *at = image.pixels + y * image.stride + x;
                *at = (uint8_t)((2 * at[0] + at[-(int)channels] + at[-(int)image.stride]) / 4);
            }
    return image;
}

static enum status find(const struct image *image, const struct encode_request *request,
                        struct ssim_trial *found)
{
    uint8_t *buffer = malloc(4096);
    rig.error = (struct error){0};
    enum status status =
        codec_find_ssim(rig.context, image, request, buffer, 4096, found, &rig.error);
    free(buffer);
    return status;
}

static bool can(const struct format *format)
{
    const char *refusal = codec_refusal(format, true);
    refusal = refusal ? refusal : codec_refusal(format, false);
    if (refusal)
        print_message("without %s: %s\n", format->name, refusal);
    return !refusal;
}

/* The similarity of a file at a quality, by the decoder of the rig and the reference. Checks the
 * memory of the decoder. */
static double similarity(const struct image *image, struct encode_request request, int quality)
{
    request.encoder.quality = quality;
    struct picture_file file = rig_encode(&rig, image, &request);
    bool is_jpeg = strcmp(request.format->name, "jpeg") == 0;
    assert_int_equal(rig_decode(&rig, &file, is_jpeg ? DECODE_LUMA : DECODE_COLOUR), STATUS_OK);
    size_t most = codec_decoder_bytes(request.format, image->width, image->height, image->channels,
                                      &request.encoder);
    if (rig.info.codec_bytes > most + (request.format->library ? file.length : 0))
        fail_msg("%s %u x %u x %u, quality %d: %zu bytes, at most %zu expected",
                 request.format->name, image->width, image->height, image->channels, quality,
                 rig.info.codec_bytes, most);
    double found = reference(image, &rig.image);
    picture_free(&file);
    return found;
}

static const struct codec_request {
    const char *format;
    struct encoder_settings settings;
    uint32_t channels;
} kinds[] = {
    {"jpeg", {0}, 3},
    {"jpeg", {.progressive = 1, .subsampling = SUBSAMPLING_444}, 3},
    {"jpeg", {.optimize = 1, .subsampling = SUBSAMPLING_422}, 1},
    {"webp", {.effort = 2}, 3},
    {"webp", {.effort = 2}, 4},
    {"webp", {.effort = 0}, 1},
    {"avif", {.effort = 2}, 3},
    {"avif", {.effort = 0}, 4},
    {"jxl", {.effort = 2}, 3},
    {"jxl", {.effort = 2}, 1},
    {"jxl", {.effort = 2}, 4},
};

/* The result reaches the target, and the next lower quality does not. */
TEST(test_files)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const struct format *format = format_by_name(kinds[i].format);
        struct encode_request request = {.format = format, .encoder = kinds[i].settings};
        struct image image = make_image(97, 50, kinds[i].channels, (uint32_t)i + 1);
        struct ssim_trial found;
        request.encoder.quality = qualities;
        request.encoder.quality_min = 1;
        for (int target = 900000; target <= 980000 && can(format); target += 40000) {
            request.encoder.ssim = target;
            if (find(&image, &request, &found) != STATUS_OK)
                fail_msg("%s: %s", format->name, rig.error.text);
            double wanted = similarity(&image, request, found.quality) * SSIM_ONE;
            if (found.ssim < target || fabs(found.ssim - wanted) > 2.5)
                fail_msg("%s x %u, quality %d: %d, expected %.1f, of at least %d", format->name,
                         image.channels, found.quality, found.ssim, wanted, target);
            if (found.quality > 1)
                assert_true(similarity(&image, request, found.quality - 1) * SSIM_ONE < target);
        }
        free(image.pixels);
    }
}

/* The memory of a decode is that of the estimate, for all sizes and at the highest quality. */
TEST(test_decoder_bytes)
{
    static const uint32_t sides[][2] = {{1, 1}, {8, 200}, {333, 17}, {129, 257}};
    for (size_t i = 0; i < COUNT_OF(kinds) * COUNT_OF(sides); i++) {
        const struct codec_request *kind = &kinds[i / COUNT_OF(sides)];
        const uint32_t *side = sides[i % COUNT_OF(sides)];
        struct encode_request request = {.format = format_by_name(kind->format),
                                         .encoder = kind->settings};
        if (codec_refusal(request.format, true) || codec_refusal(request.format, false))
            continue;
        struct image image = rig_picture(side[0], side[1], kind->channels, (uint32_t)i);
        for (int quality = 1; quality <= qualities; quality += 33)
            assert_true(similarity(&image, request, quality) >= 0); /* it checks the memory */
        free(image.pixels);
    }
}

TEST(test_bounds)
{
    struct encode_request request = {.format = format_by_name("jpeg"),
                                     .encoder = {.ssim = 999999, .quality_min = 30, .quality = 60}};
    struct image image = make_image(200, 150, 3, 9);
    struct ssim_trial found, again;
    assert_int_equal(find(&image, &request, &found), STATUS_OK); /* the highest one */
    assert_int_equal(found.quality, 60);
    assert_in_range(found.ssim, 500000, 999998);
    request.encoder.ssim = 1;
    assert_int_equal(find(&image, &request, &found), STATUS_OK);
    assert_int_equal(found.quality, 30);
    request.encoder.quality_min = request.encoder.quality = 47;
    assert_int_equal(find(&image, &request, &found), STATUS_OK);
    assert_int_equal(found.quality, 47);
    uint8_t buffer[4096];
    assert_int_equal(codec_measure_ssim(rig.context, &image, &request, buffer, sizeof buffer,
                                        &again, &rig.error),
                     STATUS_OK);
    assert_int_equal(again.quality, 47);
    assert_int_equal(again.ssim, found.ssim);
    free(image.pixels);
}

static bool is_gone(const struct codec_caller *caller)
{
    (void)caller;
    return true;
}

TEST(test_failures)
{
    const struct codec_caller gone = {.is_gone = is_gone};
    struct encode_request request = {.format = format_by_name("jpeg"),
                                     .encoder = {.ssim = 980000, .quality_min = 1, .quality = 100}};
    struct image image = make_image(200, 150, 3, 9);
    struct ssim_trial found;
    request.caller = &gone;
    assert_int_equal(find(&image, &request, &found), STATUS_CANCELLED);
    assert_string_equal(rig.error.text, "the job ended amid the search for a quality");
    request.caller = NULL;
    request.deadline_ns = 1;
    assert_int_equal(find(&image, &request, &found), STATUS_TIMEOUT);
    free(image.pixels);
}

/* Noise of black and white: the largest files, which must fit the memory that is reserved. */
TEST(test_noise)
{
    struct encode_request request = {
        .format = format_by_name("jpeg"),
        .encoder = {.ssim = 999999, .quality_min = 100, .quality = 100, .subsampling = 2}};
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        struct image noise = rig_picture(400, 300, channels, 9);
        struct ssim_trial found;
        uint32_t random = 1;
        for (size_t i = 0; i < noise.stride * noise.height; i++)
            noise.pixels[i] = picture_random(&random) & 1 ? 255 : 0;
        assert_int_equal(find(&noise, &request, &found), STATUS_OK);
        assert_in_range(found.ssim, 990000, SSIM_ONE);
        free(noise.pixels);
    }
}

TEST_MAIN(.name = "ssim", .each_setup = rig_setup, .each_teardown = rig_teardown)
