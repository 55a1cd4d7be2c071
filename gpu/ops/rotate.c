/* rotate.c - the operation rotate: its geometry, and the CPU loop for any angle. */
#include "gpu/ops/rotate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/ops/orient.h"
#include "gpu/ops/pad.h"
#include "gpu/plan/op.h"

/* ---- the pass ---- */

/* Vectors for four channels, or four rows of gray, at once. */
typedef double reals __attribute__((vector_size(32)));
typedef int32_t ints __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint16_t shorts __attribute__((vector_size(32)));

/* Converts four of 16 bytes to integers: those at `at`, `at` + step and so on. */
#define WIDEN(from, at, step)                                                                      \
    ((ints)__builtin_shufflevector(from, (bytes){0}, at, 16, 16, 16, (at) + (step), 16, 16, 16,    \
                                   (at) + 2 * (step), 16, 16, 16, (at) + 3 * (step), 16, 16, 16))
#define WIDEN_ALL(to, from, first, step)                                                           \
    do {                                                                                           \
        (to)[0] = WIDEN(from, 0, step);                                                            \
        (to)[1] = WIDEN(from, first, step);                                                        \
        (to)[2] = WIDEN(from, 2 * (first), step);                                                  \
        (to)[3] = WIDEN(from, 3 * (first), step);                                                  \
    } while (0)

/* Whether all 4 x 4 pixels are inside of the image. 16 bytes are loaded per row, so with three
 * channels the two pixels after them must be inside, too. */
PIXEL bool is_within(const struct rotate_place *place, const struct image *from)
{
    return place->x >= 0 && place->y >= 0 && place->x + 5 < (int)from->width &&
           place->y + 3 < (int)from->height;
}

/* As resample_premultiply, for four pixels of RGBA. Alpha is multiplied by 255, which keeps it. All
 * values fit in 16 bits. */
PIXEL void premultiply_row(bytes *row)
{
    bytes factors = __builtin_shufflevector(*row, ~(bytes){0}, 3, 3, 3, 16, 7, 7, 7, 16, 11, 11,
                                            11, 16, 15, 15, 15, 16);
    shorts values = __builtin_convertvector(*row, shorts);
    shorts alphas = __builtin_convertvector(factors, shorts);
    *row = __builtin_convertvector(RESAMPLE_PREMULTIPLY(values, alphas), bytes);
}

/* Interpolates between the four columns p, for each channel, or for each row of gray. */
PIXEL void mix_columns(ints p[4], double dx, reals *to)
{
    reals a = __builtin_convertvector(p[0], reals), b = __builtin_convertvector(p[1], reals);
    reals c = __builtin_convertvector(p[2], reals), d = __builtin_convertvector(p[3], reals);
    *to = ROTATE_CUBIC(a, b, c, d, dx);
}

/* As rotate_pixel, if all 4 x 4 pixels are inside of the image. corner: the upper left of them. */
PIXEL void rotate_colours(const uint8_t *corner, size_t stride, const struct rotate_place *place,
                          uint8_t *to, int channels)
{
    reals rows[4];
    for (int r = 0; r < 4; r++) {
        bytes row;
        ints p[4];
        memcpy(&row, corner + (size_t)r * stride, sizeof(row));
        if (channels == 4)
            premultiply_row(&row);
        if (channels == 4)
            WIDEN_ALL(p, row, 4, 1);
        else
            WIDEN_ALL(p, row, 3, 1);
        mix_columns(p, place->dx, &rows[r]);
    }
    ints whole = __builtin_convertvector(
        ROTATE_CUBIC(rows[0], rows[1], rows[2], rows[3], place->dy), ints);
    uint32_t result[4];
    for (int c = 0; c < 4; c++)
        result[c] = rotate_clamp(whole[c]);
    if (channels == 4)
        rotate_divide(result);
    for (int c = 0; c < channels; c++)
        to[c] = (uint8_t)result[c];
}

PIXEL void rotate_gray(const uint8_t *corner, size_t stride, const struct rotate_place *place,
                       uint8_t *to)
{
    int32_t words[4];
    reals rows;
    ints p[4];
    for (int r = 0; r < 4; r++)
        memcpy(&words[r], corner + (size_t)r * stride, sizeof(words[r]));
    ints square = {words[0], words[1], words[2], words[3]};
    WIDEN_ALL(p, (bytes)square, 1, 4);
    mix_columns(p, place->dx, &rows);
    *to = (uint8_t)rotate_clamp(
        (int)ROTATE_CUBIC(rows[0], rows[1], rows[2], rows[3], place->dy));
}

PIXEL void rotate_run(const struct rotate *rotate, const struct image *from, uint8_t *to,
                      uint32_t y, uint32_t count, int channels)
{
    int width = (int)from->width, height = (int)from->height;
    for (uint32_t x = 0; x < count; x++, to += channels) {
        struct rotate_place place;
        if (!rotate_locate(rotate->matrix, (int)x, (int)y, width, height, &place)) {
            memcpy(to, rotate->fill, (size_t)channels);
        } else if (!is_within(&place, from)) {
            rotate_pixel(from->pixels, from->stride, width, height, &place, to, channels);
        } else {
            const uint8_t *corner = from->pixels + (size_t)place.y * from->stride +
                                    (size_t)(place.x * channels);
            if (channels == 1)
                rotate_gray(corner, from->stride, &place, to);
            else
                rotate_colours(corner, from->stride, &place, to, channels);
        }
    }
}

VECTOR_CLONES
static void rotate_row(const struct rotate *rotate, const struct image *from,
                       const struct image *to, uint32_t y)
{
    BY_CHANNELS(to->channels, rotate_run, rotate, from, to->pixels + (size_t)y * to->stride, y,
                to->width);
}

PASS_LOOP(rotate_cpu)
{
    const struct rotate *rotate = (const struct rotate *)pass->params;
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++)
        rotate_row(rotate, from, to, y);
}

pass_cuda rotate_cuda;

static const struct pass_type pass_rotate = {"rotate", rotate_cpu, PASS_CUDA(rotate_cuda)};

/* ---- geometry, as in Image.rotate ---- */

/* Rounds to 15 decimals like Python's round. */
static double round_15(double value)
{
    char text[64];
    snprintf(text, sizeof(text), "%.15f", value);
    return strtod(text, NULL);
}

/* A point of the source. */
struct point {
    double x, y;
};

static struct point transform(const double *m, double x, double y)
{
    return (struct point){m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
}

/* Sets the matrix that maps a result of the source's size to the source, with the same centre.
 * degrees: counterclockwise. */
static void set_matrix(double *m, double degrees, double width, double height)
{
    double angle = -(degrees * (M_PI / 180.0));
    m[0] = m[4] = round_15(cos(angle));
    m[1] = round_15(sin(angle));
    m[3] = round_15(-sin(angle));
    m[2] = m[5] = 0.0;
    struct point corner = transform(m, -(width / 2.0), -(height / 2.0));
    m[2] = corner.x + width / 2.0;
    m[5] = corner.y + height / 2.0;
}

/* Changes the size of the result so that it contains the whole rotated image, and the matrix so
 * that the centres are the same again. */
static void expand(double *m, double *width, double *height)
{
    double w = *width, h = *height;
    struct point corners[] = {transform(m, 0, 0), transform(m, w, 0), transform(m, w, h),
                              transform(m, 0, h)};
    struct point low = corners[0], high = corners[0];
    for (int i = 1; i < 4; i++) {
        low = (struct point){fmin(low.x, corners[i].x), fmin(low.y, corners[i].y)};
        high = (struct point){fmax(high.x, corners[i].x), fmax(high.y, corners[i].y)};
    }
    *width = ceil(high.x) - floor(low.x);
    *height = ceil(high.y) - floor(low.y);
    struct point corner = transform(m, -(*width - w) / 2.0, -(*height - h) / 2.0);
    m[2] = corner.x;
    m[5] = corner.y;
}

/* ---- the operation ---- */

struct params {
    double angle;
    bool clockwise, expand;
    struct op_color background;
};

static const struct op_param rotate_params[] = {
    {OP_NUMBER(struct params, angle), .standard = 90, .min = -360, .max = 360,
     .help = "In degrees"},
    {OP_BOOLEAN(struct params, clockwise), .standard = true},
    {OP_BOOLEAN(struct params, expand), .standard = true,
     .help = "Whether the result is large enough for the whole rotated image; false keeps the "
             "size"},
    {OP_COLOR(struct params, background), .need = OP_OPTIONAL,
     .help = "The colour outside the rotated image; by default the job's `background`"}};

/* The angle counterclockwise, from 0 to 360. */
static double degrees_of(const struct params *own)
{
    double degrees = fmod(own->clockwise ? -own->angle : own->angle, 360.0);
    return degrees < 0 ? degrees + 360.0 : degrees;
}

/* op.moves. A quarter turn without `expand` is not counted, because it moves pixels only if the
 * image is square. */
static bool rotate_moves(const void *params)
{
    const struct params *own = params;
    return fmod(own->angle, own->expand ? 90.0 : 180.0) == 0.0;
}

static enum status add_rotate(struct chain *chain, const struct params *own, double degrees)
{
    struct pad_fill fill = pad_fill_of(chain, &own->background);
    double width = chain->shape.width, height = chain->shape.height;
    struct rotate rotate = {.fill = {0}};
    memcpy(rotate.fill, fill.pixel, sizeof(rotate.fill));
    set_matrix(rotate.matrix, degrees, width, height);
    if (own->expand)
        expand(rotate.matrix, &width, &height);
    enum status status = chain_check_size(chain, (uint64_t)width, (uint64_t)height);
    if (status)
        return status;
    pad_convert(chain, &fill);
    struct pass_shape to = {(uint32_t)width, (uint32_t)height, fill.channels};
    chain_append(chain, &pass_rotate, to, &rotate, sizeof(rotate));
    return STATUS_OK;
}

static enum status rotate_step(const void *params, struct chain *chain)
{
    static const int turns[] = {0, TURNED_270, TURNED_180, TURNED_90};
    const struct params *own = params;
    double degrees = degrees_of(own);
    bool square = chain->shape.width == chain->shape.height;
    bool moves = rotate_moves(own) || (square && fmod(own->angle, 90.0) == 0.0);
    if (!moves && image_is_deep(chain->shape.channels))
        return op_refuse(chain->item, chain->error,
                         ": with a depth of 16, only turns by a multiple of 90 degrees that keep "
                         "all pixels are possible; angle is %.10g and expand %s",
                         own->angle, own->expand ? "true" : "false");
    if (!moves)
        return add_rotate(chain, own, degrees);
    step_orient(chain, turns[(int)(degrees / 90.0) % 4]);
    return STATUS_OK;
}

const struct op op_rotate = {
    .name = "rotate",
    .help = "Rotates by any angle, as Pillow's rotate with BICUBIC",
    .definition = "By a multiple of 90, it only moves pixels. For a source of w x h, the pixel (x, "
                  "y) is then the source's (y, h-1-x) for 90 clockwise, so that the left column "
                  "becomes the top row; (w-1-x, h-1-y) for 180; (w-1-y, x) for 270. As OpenCV's "
                  "`rotate`; Pillow's `ROTATE_90` is `clockwise` false.\n\n"
                  "By other angles (and by 90 and 270 with `expand` false, if the image is not "
                  "square), it equals Pillow's `Image.rotate(degrees, Image.BICUBIC, expand, "
                  "fillcolor=background)` to the bit, with counterclockwise degrees; RGBA if the "
                  "image has alpha or the background's alpha is below 255. All arithmetic is in "
                  "double. c and s, the cosine and the sine of the clockwise angle, are rounded to "
                  "15 decimals. The centre of the result pixel (x, y), X = x + 1/2 and Y = y + "
                  "1/2, is mapped to (c X + s Y + p, -s X + c Y + q), which keeps the centre of "
                  "the image. A source outside the image gives the background. The others are "
                  "interpolated from 4 x 4 pixels by Keys' cubic with a = -1, along rows and then "
                  "down, with replicated borders; rounded down, and clamped to 0..255. RGBA is "
                  "premultiplied before and divided after, as in Pillow's `RGBa` mode, but the "
                  "background is used as it is. With `expand`, each side of the result spans from "
                  "the rotated corners' floor(min) to ceil(max).",
    .flags = OP_MOVES | OP_DEEP,
    OP_PARAMS(struct params, rotate_params),
    .moves = rotate_moves,
    .step = rotate_step,
};
