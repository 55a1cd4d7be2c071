/*
 * Tests of blurhash on both engines: against a reference in long double that follows the published
 * algorithm, and against hashes of the published C code.
 */
#include "tests/fixtures/gpu/values_run.h"

#include <math.h>

/* ---- the reference ---- */

#define SIDE_MAX 9

static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz#$%*+,-.:;=?@[]^_{|}~";

static unsigned colour_at(const struct image *image, uint32_t x, uint32_t y, int c)
{
    const uint8_t *pixel = image->pixels + y * image->stride + (size_t)x * image->channels;
    if (image->channels < 4)
        return pixel[image->channels == 1 ? 0 : c];
    unsigned alpha = pixel[3];
    return (2 * (pixel[c] * alpha + test_background[c] * (255 - alpha)) + 255) / 510;
}

static long double to_linear(unsigned value)
{
    long double v = value / 255.0L;
    return v <= 0.04045L ? v / 12.92L : powl((v + 0.055L) / 1.055L, 2.4L);
}

/* The mean of a channel times the cosines (i, j). */
static long double coefficient(const struct image *image, int c, int i, int j)
{
    static long double linear[256];
    long double sum = 0;
    for (unsigned value = 0; value < 256 && linear[255] == 0; value++)
        linear[value] = to_linear(value);
    long double *across = malloc(image->width * sizeof(*across));
    assert_non_null(across);
    for (uint32_t x = 0; x < image->width; x++)
        across[x] = cosl(acosl(-1) * i * x / image->width);
    for (uint32_t y = 0; y < image->height; y++) {
        long double down = cosl(acosl(-1) * j * y / image->height);
        for (uint32_t x = 0; x < image->width; x++)
            sum += linear[colour_at(image, x, y, c)] * across[x] * down;
    }
    free(across);
    return (i || j ? 2 : 1) * sum / image->width / image->height;
}

static int limited(long double value, int most)
{
    return value < 0 ? 0 : value > most ? most : (int)value;
}

static char *put(char *at, int value, int digits)
{
    for (int i = digits; i > 0; i--, value /= 83)
        at[i - 1] = alphabet[value % 83];
    at[digits] = '\0';
    return at + digits;
}

static int quantised(long double value)
{
    long double root = value < 0 ? -sqrtl(-value) : sqrtl(value);
    return limited(floorl(root * 9 + 9.5L), 18);
}

static void reference_hash(const struct image *image, int nx, int ny, char *text)
{
    static long double all[SIDE_MAX * SIDE_MAX][3];
    long double largest = 0;
    int dc = 0;
    for (int k = 0; k < nx * ny; k++)
        for (int c = 0; c < 3; c++) {
            all[k][c] = image->channels == 1 && c ? all[k][0]
                                                  : coefficient(image, c, k % nx, k / nx);
            largest = k ? fmaxl(largest, fabsl(all[k][c])) : 0;
        }
    int maximum = nx * ny > 1 ? limited(floorl(largest * 166 - 0.5L), 82) : 0;
    for (int c = 0; c < 3; c++) {
        long double v = all[0][c];
        v = v <= 0.0031308L ? v * 12.92L : 1.055L * powl(v, 1 / 2.4L) - 0.055L;
        dc = dc * 256 + limited(v * 255 + 0.5L + 1e-12L, 255); /* half a step is rounded up */
    }
    text = put(text, nx - 1 + (ny - 1) * 9, 1);
    text = put(put(text, maximum, 1), dc, 4);
    for (int k = 1; k < nx * ny; k++) {
        int digit[3];
        for (int c = 0; c < 3; c++)
            digit[c] = quantised(all[k][c] / ((maximum + 1) / 166.0L));
        text = put(text, (digit[0] * 19 + digit[1]) * 19 + digit[2], 2);
    }
}

/* ---- all sizes, channels and fills ---- */

static int nx = 4, ny = 3;

static void check_blurhash(struct engine *engine, const struct values_case *c)
{
    struct values_run run;
    char want[200];
    values_begin(&run, engine, c);
    reference_hash(&run.run.input, nx, ny, want);
    const char *got = cJSON_GetStringValue(cJSON_GetObjectItem(run.values, "blurhash"));
    if (!got || strcmp(got, want) != 0)
        fail_msg("%s: %s instead of %s", run.run.what, got ? got : "nothing", want);
    if (!c->no_picture)
        assert_ptr_equal(run.run.result.pixels, run.run.input.pixels);
    values_end(&run);
}

static void all_sizes(struct engine *engine)
{
    nx = 4, ny = 3;
    values_for_all(engine, "[\"blurhash\"]", check_blurhash);
}

/* Around the spans of 1,024 columns, with the numbers of components at their limits. */
static void all_components(struct engine *engine)
{
    static const int table[][4] = {
        {1, 1, 40, 30},  {9, 9, 40, 30},   {9, 1, 1025, 3}, {1, 9, 3, 1025}, {9, 9, 1, 1},
        {2, 2, 1024, 2}, {3, 9, 2049, 17}, {9, 9, 1023, 5}, {5, 4, 8, 8},    {9, 9, 7, 5},
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        each_channels(channels) {
            struct values_case c = {.width = (uint32_t)table[i][2],
                                    .height = (uint32_t)table[i][3], .channels = channels,
                                    .no_picture = i % 2};
            nx = table[i][0], ny = table[i][1];
            c.ops = text_of("[{\"op\":\"blurhash\",\"components\":[%d,%d]}]", nx, ny);
            check_blurhash(engine, &c);
        }
    }
}

/* Small images of all kinds, where each pixel counts most. */
static void all_small(struct engine *engine)
{
    uint32_t state = 83;
    for (int i = 0; i < (test_quick() ? 60 : 1000); i++) {
        struct values_case c = {.width = test_random(&state) % 24 + 1,
                                .height = test_random(&state) % 24 + 1,
                                .channels = (uint32_t[]){1, 3, 4}[i % 3],
                                .fill = (enum fill)(i / 3 % 2 ? FILL_NOISE : FILL_RAMP)};
        nx = (int)(test_random(&state) % 9 + 1), ny = (int)(test_random(&state) % 9 + 1);
        c.ops = text_of("[{\"op\":\"blurhash\",\"components\":[%d,%d]}]", nx, ny);
        check_blurhash(engine, &c);
    }
}

/* ---- published hashes ---- */

static uint8_t pixel_at(int kind, int64_t x, int64_t y, int64_t c)
{
    int64_t value = kind == 0   ? (x * x * 3 + y * y * 5 + x * y * (c + 1)) / 97 + 40 * c
                    : kind == 1 ? (x * 255 / 63 * 3 + y * 255 / 40 * 2) / 5 + c
                    : kind == 2 ? ((x * 5 / 64 + y * 3 / 41 * 2 + c) % 3 == 0 ? 200 : 30)
                    : kind == 3 ? (x * 2654435761 + y * 40503 * 7 + c * 977) >> 5
                                : 255;
    return (uint8_t)value;
}

/* Of images of 64 x 41, by the C code of woltapp/blurhash (PyPI: blurhash-python 1.2.2). */
static void all_known(struct engine *engine)
{
    static const struct {
        const char *components, *hash;
    } known[] = {
        {"[4,3]", "LVAxo.8y$]SQDkxRXVi^s%XUi_f|"},
        {"[9,9]",
         "|bG98L00t7WBjtj[ayj[WB9Fxufkj[j[ayj[ayj[ofj[f6fkf6fkf6fkfQayayfkf6fkf6fkf6fRayj["
         "f6fkfQfQfQfQfQofayj[f6fkfQfQfQfQWBj[f6fkfQfQfQfQfQofayj[f6fQfQfQfQfQWBj[fQfkfQfQ"
         "fQfQfQ"},
        {"[5,2]", "DQEMLDoen%ovbH+Ot0:C\?2Gl"},
        {"[1,9]", "=2HV9w~Xn$~ER;_MjY_MSi"},
        {"[4,4]", "U7TSUA\?bfQ\?b~qj[fQj[fQfQfQfQ~qj[fQj["},
    };
    for (int kind = 0; kind < (int)COUNT_OF(known); kind++) {
        struct gpu_run run;
        gpu_run_open(&run, engine, SOURCE(64, 41, 3), NULL,
                     text_of("[{'op':'blurhash','components':%s}]", known[kind].components));
        for (uint32_t y = 0; y < 41; y++)
            for (uint32_t x = 0; x < 64 * 3; x++)
                run.input.pixels[y * run.input.stride + x] = pixel_at(kind, x / 3, y, x % 3);
        gpu_run_finish(&run);
        cJSON *values = plan_values(&run.plan, 0, run.memory.output);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(values, "blurhash")),
                            known[kind].hash);
        cJSON_Delete(values);
        gpu_run_close(&run);
    }
}

TEST(test_parameters)
{
    static const struct test_refusal refusals[] = {
        {"[{'op':'blurhash','components':[0,3]}]", "components[0] is 0; it must be an integer of"},
        {"[{'op':'blurhash','components':[4,10]}]", "components[1] is 10"},
        {"[{'op':'blurhash','components':[4]}]", "components has 1 items; it must have 2"},
        {"[{'op':'blurhash','components':4}]", "components is a number; it must be an array of 2"},
        {"[{'op':'blurhash','x':4}]", "there is no parameter \"x\""},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

ON_BOTH(sizes)
ON_BOTH(components)
ON_BOTH(small)
ON_BOTH(known)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
