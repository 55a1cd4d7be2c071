/* blurhash.c - the blurhash operation: its tables, its CPU loop, and the text of the hash. */
#include "gpu/ops/blurhash.h"

#include <math.h>
#include <string.h>

#include "gpu/plan/op.h"

/* ---- tables ---- */

/* The linear colour of an sRGB value: IEC 61966-2-1. */
static double linear_of(int value)
{
    double v = value / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static int32_t to_fixed(double value, int bits)
{
    return (int32_t)lrint(ldexp(value, bits));
}

/* Computes cos(pi i x / length) for `count` components i. Only the angles up to a quarter turn of i
 * = 1 are computed; all others are mirrored from them. So cosines whose sum is 0 in theory also
 * cancel here. */
static void cosines_fill(int32_t *rows, size_t count, size_t length)
{
    const int32_t one = 1 << BLURHASH_BITS;
    for (size_t i = 0; i < count; i++) {
        int32_t *row = rows + i * length;
        for (size_t x = 0; x < length; x++) {
            size_t angle = i * x % (2 * length); /* in units of pi / length */
            angle = angle > length ? 2 * length - angle : angle;
            if (angle == 0 || angle == length)
                row[x] = angle == 0 ? one : -one;
            else if (i > 1)
                row[x] = rows[length + angle];
            else if (2 * angle > length)
                row[x] = -rows[length + (length - angle)];
            else
                row[x] = 2 * angle == length ? 0 : to_fixed(cos(M_PI * (double)x / (double)length),
                                                            BLURHASH_BITS);
        }
    }
}

static void blurhash_fill(const struct pass *pass, uint8_t *constants)
{
    const struct blurhash *own = (const struct blurhash *)pass->params;
    int32_t *linear = (int32_t *)constants, *columns = linear + BLURHASH_COLOURS;
    for (int value = 0; value < BLURHASH_COLOURS; value++)
        linear[value] = to_fixed(linear_of(value), BLURHASH_SUM_BITS);
    cosines_fill(columns, (size_t)own->across, pass->from.width);
    cosines_fill(columns + (size_t)own->across * pass->from.width, (size_t)own->down,
                 pass->from.height);
}

/* ---- the CPU loop ---- */

/* The linear colours of a span: one array per channel, in units of 1/2^26, and their sums in units
 * of 1/2^30. */
struct span {
    int32_t of[3][BLURHASH_SPAN];
    int64_t sums[3];
};

PIXEL void span_load(struct span *span, const uint8_t *row, uint32_t count,
                     const struct flatten *under, const int32_t *linear, uint32_t channels)
{
    memset(span->sums, 0, sizeof(span->sums));
    for (uint32_t x = 0; x < count; x++) {
        const uint8_t *pixel = row + (size_t)x * channels;
        for (uint32_t c = 0; c < (channels == 1 ? 1 : 3); c++) {
            int32_t value = linear[channels == 4 ? flatten_byte(pixel[c], pixel[3],
                                                                under->background[c])
                                                 : pixel[c]];
            span->of[c][x] = blurhash_short(value);
            span->sums[c] += value;
        }
    }
}

VECTOR_CLONES
static int64_t dot(const int32_t *restrict a, const int32_t *restrict b, uint32_t count)
{
    int64_t sum = 0; /* uncovered: machine */
    for (uint32_t x = 0; x < count; x++)
        sum += (int64_t)a[x] * b[x];
    return sum;
}

PASS_LOOP(blurhash_cpu)
{
    const struct blurhash *own = (const struct blurhash *)pass->params;
    const int32_t *linear = (const int32_t *)pass->constants;
    uint32_t across = (uint32_t)own->across, down = (uint32_t)own->down;
    uint32_t planes = from->channels == 1 ? 1 : 3;
    const int32_t *columns = linear + BLURHASH_COLOURS;
    const int32_t *rows = columns + (size_t)across * from->width;
    int64_t *sums = (int64_t *)work;
    struct span span;
    memset(sums, 0, (size_t)across * down * planes * sizeof(*sums));
    for (uint32_t y = 0; y < from->height && !pass_is_late_at(pass, y); y++) {
        for (uint32_t x = 0; x < from->width; x += BLURHASH_SPAN) {
            uint32_t left = from->width - x, count = left < BLURHASH_SPAN ? left : BLURHASH_SPAN;
            const uint8_t *start = from->pixels + y * from->stride + (size_t)x * from->channels;
            BY_CHANNELS(from->channels, span_load, &span, start, count, &own->under, linear);
            for (uint32_t k = 0; k < across * planes; k++) {
                uint32_t i = k / planes, c = k % planes;
                int64_t sum = dot(span.of[c], columns + (size_t)i * from->width + x, count);
                sums[k] += i == 0 ? span.sums[c] : 0;
                for (uint32_t j = i == 0; j < down; j++)
                    sums[j * across * planes + k] += blurhash_weigh(
                        blurhash_narrow(sum), rows[(size_t)j * from->height + y]);
            }
        }
    }
}

pass_cuda_many blurhash_cuda;

static const struct pass_type pass_blurhash = {"blurhash", blurhash_cpu,
                                               PASS_CUDA_MANY(blurhash_cuda, 0)};

/* ---- the text ---- */

#define DIGITS 83
/* The hash contains the largest coefficient in steps of 1/166, of which there are 83. */
#define MAXIMUM_STEPS 83
#define MAXIMUM_UNIT 166.0
#define AC_STEPS 19
/* More than the error of the mean colour, in units of a byte. It is added so that a mean that is
 * exactly between two bytes, as is common for few dark pixels, always becomes the higher one. */
#define COLOUR_ERROR (1.0 / (1 << 18))

struct hash_text {
    char digits[8 + 2 * BLURHASH_SIDE_MAX * BLURHASH_SIDE_MAX];
    size_t length;
};

static void put_number(struct hash_text *text, unsigned value, unsigned places)
{
    static const char digits[DIGITS + 1] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs"
                                           "tuvwxyz#$%*+,-.:;=?@[]^_{|}~";
    assert(text->length + places < sizeof(text->digits));
    for (unsigned place = places; place > 0; place--, value /= DIGITS)
        text->digits[text->length + place - 1] = digits[value % DIGITS];
    text->length += places;
    text->digits[text->length] = '\0';
}

/* floor(value), limited to 0..steps - 1. */
static unsigned step_of(double value, unsigned steps)
{
    return value < 0 ? 0 : value >= steps ? steps - 1 : (unsigned)value;
}

/* The mean colour as sRGB, 8 bits per channel. */
static unsigned colour_of(const double mean[3])
{
    unsigned colour = 0;
    for (int c = 0; c < 3; c++) {
        double v = mean[c];
        double value = v <= 0.0031308 ? v * 12.92 : 1.055 * pow(v, 1 / 2.4) - 0.055;
        colour = colour << 8 | step_of(value * 255 + 0.5 + COLOUR_ERROR, 256);
    }
    return colour;
}

/* Any other coefficient, with 19 steps per channel. */
static unsigned waves_of(const double coefficient[3], double maximum)
{
    unsigned waves = 0;
    for (int c = 0; c < 3; c++) {
        double share = coefficient[c] / maximum;
        waves = waves * AC_STEPS + step_of(copysign(sqrt(fabs(share)), share) * 9 + 9.5, AC_STEPS);
    }
    return waves;
}

static cJSON *blurhash_values(const struct pass *pass, const uint8_t *work)
{
    const struct blurhash *own = (const struct blurhash *)pass->params;
    const int64_t *sums = (const int64_t *)work;
    double pixels = (double)pass->from.width * (double)pass->from.height, largest = 0;
    double coefficients[BLURHASH_SIDE_MAX * BLURHASH_SIDE_MAX][3];
    int count = own->across * own->down, planes = pass->from.channels == 1 ? 1 : 3;
    struct hash_text text = {.length = 0};
    for (int k = 0; k < count; k++) {
        for (int c = 0; c < 3; c++) {
            double sum = ldexp((double)sums[k * planes + c % planes], -BLURHASH_SUM_BITS);
            coefficients[k][c] = (k > 0 ? 2 : 1) * sum / pixels;
            largest = k > 0 ? fmax(largest, fabs(coefficients[k][c])) : 0;
        }
    }
    unsigned maximum = step_of(largest * MAXIMUM_UNIT - 0.5, MAXIMUM_STEPS);
    put_number(&text, (unsigned)(own->across - 1 + (own->down - 1) * BLURHASH_SIDE_MAX), 1);
    put_number(&text, maximum, 1);
    put_number(&text, colour_of(coefficients[0]), 4);
    for (int k = 1; k < count; k++)
        put_number(&text, waves_of(coefficients[k], (maximum + 1) / MAXIMUM_UNIT), 2);
    return cJSON_CreateString(text.digits);
}

/* ---- the operation ---- */

struct params {
    int components[2];
};

static const int standard_components[] = {4, 3};

static const struct op_param blurhash_params[] = {
    {OP_INTEGERS(struct params, components), .min = 1, .max = BLURHASH_SIDE_MAX, .columns = 2,
     .standards = standard_components, .help = "The number of components across and down"}};

static enum status blurhash_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    struct blurhash blurhash = {.across = own->components[0], .down = own->components[1]};
    memcpy(blurhash.under.background, chain->background, sizeof(blurhash.under.background));
    size_t across = (size_t)blurhash.across, down = (size_t)blurhash.down;
    size_t entries = BLURHASH_COLOURS + across * chain->shape.width + down * chain->shape.height;
    size_t sums = across * down * (chain->shape.channels == 1 ? 1 : 3);
    struct pass *pass = chain_look(chain, &pass_blurhash, &blurhash, sizeof(blurhash),
                                   sums * sizeof(int64_t), blurhash_values);
    return chain_constants(chain, pass, entries * sizeof(int32_t), blurhash_fill);
}

const struct op op_blurhash = {
    .name = "blurhash",
    .help = "Returns the BlurHash of the image, from which a blurred preview can be drawn",
    .definition = "The algorithm of woltapp/blurhash, over all pixels, without shrinking the image "
                  "first. Gray counts as R = G = B, and RGBA is flattened. Linear colours are "
                  "integers in 1/2^30, whose sum gives the mean colour; a mean less than 2^-18 "
                  "below the middle between two of the 256 values is rounded up. For the other "
                  "components, linear colours and cosines are rounded to 1/2^26. A row's products "
                  "are summed in spans of 1,024 columns; each sum is rounded to 1/2^26, "
                  "multiplied by the cosine of the row, and rounded to 1/2^30. The hash follows "
                  "from these sums in double. The errors are far below those of the published C "
                  "code, which sums in float32: if a value is that close to a step of the hash, "
                  "which is common in large images of almost one colour, the two can differ. The "
                  "image is not changed.",
    .flags = OP_VALUES,
    OP_PARAMS(struct params, blurhash_params),
    .step = blurhash_step,
};
