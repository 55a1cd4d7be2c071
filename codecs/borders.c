#include "codecs/borders.h"

#include "codecs/codec_impl.h"

#define ROWS_PER_CHECK 64 /* of 65,500 pixels: some hundredths of a second */

/* Whether the upright image begins at the right, or at the bottom, of the image as it is. */
static bool begins_right(int orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool begins_below(int orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

/* What is border: see borders.h. */
struct border_test {
    const struct image *image;
    uint8_t color[4];
    int threshold;
    bool is_clear; /* the colour of the borders is transparent */
};

static void take_pixel(const struct image *image, size_t x, size_t y, uint8_t rgba[4])
{
    const uint8_t *pixel = image->pixels + y * image->stride + x * image->channels;
    for (uint32_t c = 0; c < 3; c++)
        rgba[c] = pixel[image->channels == 1 ? 0 : c];
    rgba[3] = image->channels == 4 ? pixel[3] : 255;
}

static bool is_border(const struct border_test *test, size_t x, size_t y)
{
    uint8_t rgba[4];
    take_pixel(test->image, x, y, rgba);
    if (test->image->channels == 4 && rgba[3] <= test->threshold)
        return true;
    if (test->is_clear)
        return false;
    for (int c = 0; c < 4; c++) {
        int apart = rgba[c] - test->color[c];
        if (apart > test->threshold || -apart > test->threshold)
            return false;
    }
    return true;
}

/* The number of columns, at most `most`, that are border at the left end of a row, or at its right
 * end. */
static uint32_t border_left(const struct border_test *test, size_t y, uint32_t most)
{
    uint32_t count = 0;
    while (count < most && is_border(test, count, y))
        count++;
    return count;
}

static uint32_t border_right(const struct border_test *test, size_t y, uint32_t most)
{
    uint32_t count = 0;
    while (count < most && is_border(test, test->image->width - 1 - count, y))
        count++;
    return count;
}

/* Looks at the clock before some of the rows. */
static bool is_in_time(uint32_t row, uint64_t deadline_ns)
{
    return row % ROWS_PER_CHECK != 0 || !codec_late(deadline_ns);
}

static struct border_test test_of(const struct image *image, const struct trim_rule *rule,
                                  int orientation)
{
    struct border_test test = {.image = image, .threshold = rule->threshold};
    take_pixel(image, begins_right(orientation) ? image->width - 1 : 0,
               begins_below(orientation) ? image->height - 1 : 0, test.color);
    for (int c = 0; c < 4 && rule->has_color; c++)
        test.color[c] = c < 3 ? rule->color[c] : 255;
    test.is_clear = image->channels == 4 && test.color[3] <= test.threshold;
    return test;
}

bool borders_find(const struct image *image, const struct trim_rule *rule, int orientation,
                  uint64_t deadline_ns, struct trim_part *part)
{
    const struct border_test test = test_of(image, rule, orientation);
    uint32_t width = image->width, height = image->height, top = 0, bottom = 0;
    uint32_t left = width, right = width, y = 0;
    while (top < height && is_in_time(top, deadline_ns) && border_left(&test, top, width) == width)
        top++;
    while (top + bottom < height && is_in_time(bottom, deadline_ns) &&
           border_left(&test, height - 1 - bottom, width) == width)
        bottom++;
    for (y = top; y < height - bottom && is_in_time(y, deadline_ns); y++) {
        left = border_left(&test, y, left);
        right = border_right(&test, y, right);
    }
    if (y < height - bottom || codec_late(deadline_ns))
        return false;
    *part = top == height
                ? (struct trim_part){0, 0, width, height}
                : (struct trim_part){left, top, width - left - right, height - top - bottom};
    return true;
}

struct trim_part borders_turn(struct trim_part part, uint32_t width, uint32_t height,
                              int orientation)
{
    if (begins_right(orientation))
        part.x = width - part.x - part.width;
    if (begins_below(orientation))
        part.y = height - part.y - part.height;
    if (orientation < 5 || orientation > ORIENTATION_MAX)
        return part;
    return (struct trim_part){part.y, part.x, part.height, part.width};
}
