/* point.c - combines operations on single pixels into one pass (point.h), and has its CPU loops. */
#include "gpu/ops/point.h"

#include <string.h>

/* Pixels for which all steps run before the next pixels, so that they stay in the L1 cache. */
#define RUN 512

/* Looks up the colours; alpha is copied. from and to may be the same. */
static void table_run(const uint8_t *from, uint8_t *to, size_t count, uint32_t channels,
                      const uint8_t *table)
{
    if (channels != 4) {
        prologue_look_up(from, to, count * channels, table);
        return;
    }
    for (size_t x = 0; x < count; x++) {
        to[4 * x + 0] = table[from[4 * x + 0]];
        to[4 * x + 1] = table[from[4 * x + 1]];
        to[4 * x + 2] = table[from[4 * x + 2]];
        to[4 * x + 3] = from[4 * x + 3];
    }
}

/* The coefficients are passed by value. Otherwise the compiler would have to assume that stores to
 * the result change them. */
struct matrix {
    int32_t rows[3][4];
};

PIXEL uint8_t mixed(const uint8_t *pixel, const int32_t *row)
{
    return (uint8_t)(point_sum(pixel[0], pixel[1], pixel[2], row[0], row[1], row[2], row[3]) >> 16);
}

VECTOR_CLONES
static void matrix_run_rgb(const uint8_t *restrict from, uint8_t *restrict to, size_t count,
                           struct matrix matrix)
{
    for (size_t x = 0; x < count; x++)
        for (size_t c = 0; c < 3; c++)
            to[3 * x + c] = mixed(from + 3 * x, matrix.rows[c]);
}

VECTOR_CLONES
static void matrix_run_rgba(const uint8_t *restrict from, uint8_t *restrict to, size_t count,
                            struct matrix matrix)
{
    for (size_t x = 0; x < count; x++) {
        for (size_t c = 0; c < 3; c++)
            to[4 * x + c] = mixed(from + 4 * x, matrix.rows[c]);
        to[4 * x + 3] = from[4 * x + 3];
    }
}

static void tint_run(const uint8_t *restrict from, uint8_t *restrict to, size_t count,
                     const struct point *point)
{
    for (size_t x = 0; x < count; x++)
        for (size_t c = 0; c < 3; c++)
            to[3 * x + c] = point->tables[c][from[x]];
}

static void point_run(const struct point *point, const uint8_t *from, uint8_t *to, uint32_t count,
                      uint32_t channels, uint32_t to_channels)
{
    uint8_t changed[RUN * CHANNELS_MAX];
    struct matrix matrix;
    if (point->before) {
        uint8_t *place = point->mix == POINT_TABLE ? to : changed;
        table_run(from, place, count, channels, point->tables[POINT_BEFORE]);
        from = place;
    }
    memcpy(&matrix, point->matrix, sizeof(matrix));
    if (point->mix == POINT_GRAY)
        grayscale_row(from, to, count, channels, &point->gray);
    else if (point->mix == POINT_YCC || (point->mix == POINT_MATRIX && channels == 3))
        matrix_run_rgb(from, to, count, matrix);
    else if (point->mix == POINT_MATRIX)
        matrix_run_rgba(from, to, count, matrix);
    else if (point->mix == POINT_TINT)
        tint_run(from, to, count, point);
    if (point->after)
        table_run(to, to, count, to_channels, point->tables[POINT_AFTER]);
}

PASS_LOOP(point_cpu)
{
    const struct point *point = (const struct point *)pass->params;
    for (uint32_t y = 0; y < to->height && !pass_is_late_at(pass, y); y++) {
        const uint8_t *source = from->pixels + y * from->stride;
        uint8_t *row = to->pixels + y * to->stride;
        for (uint32_t x = 0; x < to->width; x += RUN) {
            uint32_t count = to->width - x < RUN ? to->width - x : RUN;
            point_run(point, source + (size_t)x * from->channels, row + (size_t)x * to->channels,
                      count, from->channels, to->channels);
        }
    }
}

/* ---- chains ---- */

pass_cuda point_cuda;

/* The pass types, [mix][before][after]. They have the same code, and differ in their names. */
#define FORM(name) {name, point_cpu, PASS_CUDA(point_cuda)}
#define FORMS(mix)                                                                                 \
    {                                                                                              \
        {FORM(mix), FORM(mix "+table")}, {FORM("table+" mix), FORM("table+" mix "+table")}         \
    }
static const struct pass_type forms[POINT_MIXES][2][2] = {
    [POINT_TABLE] = {{FORM("table"), FORM("table")}, {FORM("table"), FORM("table")}},
    [POINT_GRAY] = FORMS("gray"),
    [POINT_MATRIX] = FORMS("matrix"),
    [POINT_YCC] = FORMS("ycc to rgb"),
    [POINT_TINT] = {{FORM("tint"), FORM("tint")}, {FORM("tint"), FORM("tint")}},
};

static_assert(sizeof(struct point) <= PASS_PARAMS_BYTES_MAX, "a pass must hold its tables");

/* Whether the last pass is a point pass. *point receives a copy of its parameters. */
static bool last_point(const struct chain *chain, struct point *point)
{
    const struct pass *last = NULL;
    for (int form = 0; form < POINT_MIXES * 4 && !last; form++)
        last = chain_last(chain, &forms[form / 4][form / 2 % 2][form % 2]);
    if (last)
        memcpy(point, last->params, sizeof(*point));
    return last != NULL;
}

static bool changes(const uint8_t table[256])
{
    for (int v = 0; v < 256; v++)
        if (table[v] != v)
            return true;
    return false;
}

/* Appends the pass, unless it changes nothing. */
static void append(struct chain *chain, struct point *point)
{
    struct pass_shape to = chain->shape;
    if (point->mix == POINT_GRAY)
        to.channels = 1;
    if (point->mix == POINT_TINT)
        to.channels = 3;
    point->before = point->mix != POINT_TINT && changes(point->tables[POINT_BEFORE]);
    point->after = point->mix != POINT_TINT && changes(point->tables[POINT_AFTER]);
    if (point->mix == POINT_GRAY && !point->before && !point->after)
        chain_add(chain, &pass_grayscale, to, &point->gray, sizeof(point->gray));
    else if (point->mix != POINT_TABLE || point->before)
        chain_add(chain, &forms[point->mix][point->before][point->after], to, point,
                  sizeof(*point));
}

/* A pass whose tables change nothing. */
static struct point plain(enum point_mix mix)
{
    struct point point = {.mix = mix};
    for (int t = 0; t < POINT_TABLES; t++)
        for (int v = 0; v < 256; v++)
            point.tables[t][v] = (uint8_t)v;
    return point;
}

static void compose(uint8_t first[256], const uint8_t second[256])
{
    for (int v = 0; v < 256; v++)
        first[v] = second[first[v]];
}

void point_add_table(struct chain *chain, const uint8_t table[256])
{
    struct point point;
    const struct pass *gray = chain_last(chain, &pass_grayscale);
    if (gray) {
        point = plain(POINT_GRAY);
        memcpy(&point.gray, gray->params, sizeof(point.gray));
        chain_drop(chain);
    } else if (last_point(chain, &point)) {
        chain_drop(chain);
    } else {
        point = plain(POINT_TABLE);
    }
    if (point.mix == POINT_TINT)
        for (int c = 0; c < 3; c++)
            compose(point.tables[c], table);
    else
        compose(point.tables[point.mix == POINT_TABLE ? POINT_BEFORE : POINT_AFTER], table);
    append(chain, &point);
}

/* Turns a matrix for a gray image into a table per channel of the result. before: the table before
 * the matrix. */
static struct point tint(const int32_t rows[3][4], const uint8_t before[256])
{
    struct point point = plain(POINT_TINT);
    for (int c = 0; c < 3; c++) {
        const int32_t *row = rows[c];
        for (int v = 0; v < 256; v++) {
            int32_t y = before[v];
            point.tables[c][v] =
                (uint8_t)(point_sum(y, y, y, row[0], row[1], row[2], row[3]) >> 16);
        }
    }
    return point;
}

/* A pass that only multiplies by a matrix. Adds 1/2 to the offsets, for rounding. */
static struct point mixture(enum point_mix mix, const int32_t coefficients[12])
{
    struct point point = plain(mix);
    memcpy(point.matrix, coefficients, sizeof(point.matrix));
    for (int c = 0; c < 3; c++)
        point.matrix[c][3] += 32768;
    return point;
}

/* Appends a pass that mixes channels. If the last pass is only a table, it becomes a part of this
 * pass. */
static void append_mixture(struct chain *chain, struct point *point)
{
    struct point last;
    if (last_point(chain, &last) && last.mix == POINT_TABLE) {
        chain_drop(chain);
        memcpy(point->tables[POINT_BEFORE], last.tables[POINT_BEFORE], 256);
    }
    if (point->mix == POINT_MATRIX && chain->shape.channels == 1)
        *point = tint(point->matrix, point->tables[POINT_BEFORE]);
    append(chain, point);
}

void point_add_matrix(struct chain *chain, const int32_t coefficients[12])
{
    struct point point = mixture(POINT_MATRIX, coefficients);
    append_mixture(chain, &point);
}

bool point_takes_gray(const struct chain *chain)
{
    struct point last;
    return chain->shape.channels != 1 && last_point(chain, &last) && last.mix == POINT_TABLE;
}

void point_add_gray(struct chain *chain, const struct grayscale *gray)
{
    if (chain->shape.channels == 1)
        return;
    struct point point = plain(POINT_GRAY);
    point.gray = *gray;
    append_mixture(chain, &point);
}

struct pass_shape point_lift(struct chain *chain, struct prologue *prologue)
{
    const struct pass *gray = chain_last(chain, &pass_grayscale);
    struct point point;
    memset(prologue, 0, sizeof(*prologue));
    if (gray) {
        prologue->makes_gray = true;
        memcpy(&prologue->gray, gray->params, sizeof(prologue->gray));
        chain_drop(chain);
    } else if (last_point(chain, &point) &&
               (point.mix == POINT_TABLE || (point.mix == POINT_GRAY && !point.before))) {
        prologue->makes_gray = point.mix == POINT_GRAY;
        prologue->looks_up = true;
        prologue->gray = point.gray;
        memcpy(prologue->table, point.tables[prologue->makes_gray ? POINT_AFTER : POINT_BEFORE],
               sizeof(prologue->table));
        chain_drop(chain);
    }
    struct pass_shape shape = chain->shape;
    shape.channels = prologue->makes_gray ? 1 : shape.channels;
    return shape;
}

void step_gray(struct chain *chain)
{
    struct grayscale gray = grayscale_default(chain->background);
    point_add_gray(chain, &gray);
}

/* ---- the colours of a JPEG ---- */

/* FIX of libjpeg: x in units of 1/65536, rounded half up. */
#define FIX(x) ((int32_t)((x) * 65536 + 0.5))

/*
 * JFIF: R = Y + 1.402 Cr', G = Y - 0.34414 Cb' - 0.71414 Cr', B = Y + 1.772 Cb', where Cb' and Cr'
 * are Cb - 128 and Cr - 128. libjpeg's jdcolor.c has coefficients in units of 1/65536, rounds the
 * product (for G the sum of two) half up, adds Y and clamps to 0..255. Y is an integer, so it can
 * also be added before the rounding. The conversion is thus a multiplication by a matrix, with the
 * same result.
 */
void step_rgb(struct chain *chain)
{
    static const int32_t coefficients[12] = {
        65536, 0, FIX(1.40200), -128 * FIX(1.40200),
        65536, -FIX(0.34414), -FIX(0.71414), 128 * (FIX(0.34414) + FIX(0.71414)),
        65536, FIX(1.77200), 0, -128 * FIX(1.77200),
    };
    struct point point = mixture(POINT_YCC, coefficients);
    assert(chain->shape.channels == 3);
    append(chain, &point);
}

/* Gray whose weight is all on the first channel is that channel. */
void step_luma(struct chain *chain)
{
    struct grayscale gray = grayscale_default(chain->background);
    gray.r = GRAYSCALE_WHOLE;
    gray.g = gray.b = 0;
    point_add_gray(chain, &gray);
}
