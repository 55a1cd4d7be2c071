/* Tests of the borders that a job trims, against a scan of all pixels of the upright image. */
#include "codecs/borders.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/test.h"

static uint8_t *pixel_at(const struct image *image, uint32_t x, uint32_t y)
{
    return image->pixels + y * image->stride + (size_t)x * image->channels;
}

/* The pixel x, y of the upright image, by the definition of the EXIF orientations. */
static const uint8_t *upright_at(const struct image *image, uint32_t x, uint32_t y, int orientation)
{
    uint32_t right = image->width - 1, below = image->height - 1;
    switch (orientation) {
    case 2:
        return pixel_at(image, right - x, y);
    case 3:
        return pixel_at(image, right - x, below - y);
    case 4:
        return pixel_at(image, x, below - y);
    case 5:
        return pixel_at(image, y, x);
    case 6:
        return pixel_at(image, y, below - x);
    case 7:
        return pixel_at(image, right - y, below - x);
    case 8:
        return pixel_at(image, right - y, x);
    default:
        return pixel_at(image, x, y);
    }
}

static void spread(const uint8_t *pixel, uint32_t channels, int rgba[4])
{
    for (int c = 0; c < 4; c++)
        rgba[c] = c == 3 ? (channels == 4 ? pixel[3] : 255) : pixel[channels == 1 ? 0 : c];
}

static bool is_content(const uint8_t *pixel, uint32_t channels, const int colour[4], int threshold)
{
    int rgba[4], most = 0;
    spread(pixel, channels, rgba);
    for (int c = 0; c < 4; c++)
        most = abs(rgba[c] - colour[c]) > most ? abs(rgba[c] - colour[c]) : most;
    bool seen = channels < 4 || rgba[3] > threshold;
    bool clear = channels == 4 && colour[3] <= threshold;
    return seen && (clear || most > threshold);
}

/* The part in the upright image. */
static struct trim_part slow_find(const struct image *image, const struct trim_rule *rule,
                                  int orientation)
{
    bool turned = orientation >= 5 && orientation <= 8;
    uint32_t width = turned ? image->height : image->width;
    uint32_t height = turned ? image->width : image->height;
    uint32_t left = width, top = height, right = 0, bottom = 0;
    int colour[4];
    spread(upright_at(image, 0, 0, orientation), image->channels, colour);
    for (int c = 0; c < 4 && rule->has_color; c++)
        colour[c] = c < 3 ? rule->color[c] : 255;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            if (!is_content(upright_at(image, x, y, orientation), image->channels, colour,
                            rule->threshold))
                continue;
            left = x < left ? x : left;
            right = x + 1 > right ? x + 1 : right;
            top = y < top ? y : top;
            bottom = y + 1;
        }
    return right == 0 ? (struct trim_part){0, 0, width, height}
                      : (struct trim_part){left, top, right - left, bottom - top};
}

static struct image make_image(uint32_t width, uint32_t height, uint32_t channels)
{
    struct image image = {.width = width,
                          .height = height,
                          .channels = channels,
                          .stride = image_stride(width, channels)};
    image.pixels = malloc(image.stride * height);
    assert_non_null(image.pixels);
    return image;
}

/* A background with a slight noise, and some pixels of other colours in its middle. */
static void fill(const struct image *image, int noise, uint32_t spots, uint32_t *random)
{
    uint8_t background[4];
    for (int c = 0; c < 4; c++)
        background[c] = (uint8_t)(picture_random(random) % 8 * 36);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < image->channels; c++) {
                int value = background[c] + (int)(picture_random(random) % (unsigned)(noise + 1));
                pixel_at(image, x, y)[c] = (uint8_t)(value > 255 ? 255 : value);
            }
    for (uint32_t i = 0; i < spots; i++) {
        uint32_t x = image->width / 4 + picture_random(random) % (image->width / 2 + 1);
        uint32_t y = image->height / 4 + picture_random(random) % (image->height / 2 + 1);
        for (uint32_t c = 0; c < image->channels; c++)
            pixel_at(image, x % image->width, y % image->height)[c] =
                (uint8_t)picture_random(random);
    }
}

static struct trim_part find(const struct image *image, const struct trim_rule *rule,
                             int orientation)
{
    struct trim_part part;
    assert_true(borders_find(image, rule, orientation, 0, &part));
    return part;
}

static void check(const struct image *image, const struct trim_rule *rule)
{
    for (int orientation = 0; orientation <= 9; orientation++) {
        struct trim_part part = find(image, rule, orientation);
        assert_true(part.width > 0 && part.x + part.width <= image->width);
        assert_true(part.height > 0 && part.y + part.height <= image->height);
        part = borders_turn(part, image->width, image->height, orientation);
        struct trim_part want = slow_find(image, rule, orientation);
        if (memcmp(&part, &want, sizeof part) != 0)
            fail_msg("%u x %u x %u, orientation %d, threshold %u: %u x %u at %u, %u instead of "
                     "%u x %u at %u, %u",
                     image->width, image->height, image->channels, orientation, rule->threshold,
                     part.width, part.height, part.x, part.y, want.width, want.height, want.x,
                     want.y);
    }
}

TEST(test_random_images)
{
    static const uint32_t sides[][2] = {{1, 1}, {1, 9}, {9, 1}, {2, 3}, {13, 8}, {40, 31}};
    static const uint8_t thresholds[] = {0, 3, 10, 100, 254, 255};
    uint32_t random = 7;
    for (unsigned i = 0; i < 1200; i++) {
        static const uint32_t channels[] = {1, 3, 4};
        const uint32_t *side = sides[i % COUNT_OF(sides)];
        struct image image = make_image(side[0], side[1], channels[i / 6 % 3]);
        fill(&image, i % 4 == 0 ? 0 : 6, i % 5, &random);
        struct trim_rule rule = {.wanted = true,
                                 .has_color = i % 7 == 0,
                                 .threshold = thresholds[i / 18 % COUNT_OF(thresholds)]};
        for (int c = 0; c < 3; c++)
            rule.color[c] = i % 14 == 0 ? pixel_at(&image, 0, 0)[image.channels == 1 ? 0 : c]
                                        : (uint8_t)picture_random(&random);
        check(&image, &rule);
        free(image.pixels);
    }
}

/* A pixel at each edge is found, and the threshold belongs to the border. */
TEST(test_single_pixels)
{
    struct image image = make_image(11, 7, 3);
    struct trim_rule rule = {.wanted = true, .threshold = 10};
    static const struct trim_part rows[] = {
        {5, 0, 1, 1}, {5, 6, 1, 1}, {0, 3, 1, 1}, {10, 3, 1, 1}, {4, 2, 1, 1}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int apart = 10; apart <= 11; apart++) {
            memset(image.pixels, 100, image.stride * image.height);
            pixel_at(&image, rows[i].x, rows[i].y)[i % 3] =
                (uint8_t)(i % 2 ? 100 - apart : 100 + apart);
            struct trim_part part = find(&image, &rule, 1);
            struct trim_part want = apart > 10 ? rows[i] : (struct trim_part){0, 0, 11, 7};
            assert_memory_equal(&part, &want, sizeof part);
        }
    free(image.pixels);
}

/* The colour of transparent pixels does not matter. */
TEST(test_transparent)
{
    struct image image = make_image(20, 10, 4);
    struct trim_rule rule = {.wanted = true, .threshold = 10};
    uint32_t random = 3;
    for (uint32_t y = 0; y < 10; y++)
        for (uint32_t x = 0; x < 20; x++) {
            for (int c = 0; c < 3; c++)
                pixel_at(&image, x, y)[c] = (uint8_t)picture_random(&random);
            pixel_at(&image, x, y)[3] = x >= 6 && x < 15 && y >= 2 && y < 9 ? 11 : 10;
        }
    struct trim_part part = find(&image, &rule, 1), want = {6, 2, 9, 7};
    assert_memory_equal(&part, &want, sizeof part);
    free(image.pixels);
}

/* A deadline that has passed, also in an image that is nothing but border. */
TEST(test_late)
{
    struct image image = make_image(20, 10, 3);
    struct trim_part part;
    memset(image.pixels, 9, image.stride * 10);
    assert_false(borders_find(&image, &(struct trim_rule){.wanted = true}, 1, 1, &part));
    pixel_at(&image, 7, 3)[1] = 200;
    assert_false(borders_find(&image, &(struct trim_rule){.wanted = true}, 1, 1, &part));
    free(image.pixels);
}

TEST_MAIN()
