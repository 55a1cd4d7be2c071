/*
 * Tests of to_srgb. Both engines are compared with lcms2's own 8-bit conversion, from which they
 * may differ by 1, and with each other, from which they may not differ. Simple profiles are also
 * compared with arithmetic in double, which needs no lcms2.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include <math.h>

#include "tests/fixtures/picture.h"
#include "tests/fixtures/profile.h"
#include "tests/fixtures/reference.h"

/* ---- running ---- */

#define SOURCE_ICC(w, h, c, profile, ...)                                                          \
    SOURCE(w, h, c, .icc = (profile)->bytes, .icc_bytes = (profile)->length, ##__VA_ARGS__)

static void expect_near(uint8_t got, int want, const char *what, uint32_t x, uint32_t y)
{
    if (abs(got - want) > 1)
        fail_msg("%s: %u instead of %d at column %u, row %u", what, got, want, x, y);
}

/* The same source on the CPU engine must give the same bits. */
static void expect_cpu(const struct gpu_run *run, const struct plan_source *source,
                       const char *ops)
{
    struct gpu_run again;
    if (run->engine == cpu)
        return;
    gpu_run_open(&again, cpu, source, NULL, ops);
    struct raster input = raster_of(run->input);
    for (uint32_t y = 0; y < run->input.height; y++)
        memcpy(again.input.pixels + y * again.input.stride,
               input.pixels + (size_t)y * input.width * input.channels,
               (size_t)input.width * input.channels);
    gpu_run_finish(&again);
    test_same(run->result, again.result, run->what);
    raster_clear(&input);
    gpu_run_close(&again);
}

/* ---- lcms2 ---- */

/* Fills the image with all colours that are multiples of 3, in order. */
static void fill_dense(struct image image)
{
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width; x++) {
            uint8_t *pixel = image.pixels + y * image.stride + (size_t)x * image.channels;
            uint32_t index = y * image.width + x;
            for (uint32_t c = 0; c < 3; c++, index /= 86)
                pixel[c] = (uint8_t)(index % 86 * 3);
        }
}

static void compare_lcms(const struct gpu_run *run, const struct picture_file *profile)
{
    uint32_t channels = run->input.channels;
    bool alpha = run->result.channels == 4;
    struct profile_conversion *lcms = profile_convert_open(profile, alpha ? 3 : channels);
    for (uint32_t y = 0; y < run->input.height; y++)
        for (uint32_t x = 0; x < run->input.width; x++) {
            const uint8_t *from =
                run->input.pixels + y * run->input.stride + (size_t)x * channels;
            const uint8_t *got = run->result.pixels + y * run->result.stride +
                                 (size_t)x * run->result.channels;
            uint8_t want[3];
            profile_convert(lcms, from, want, 1);
            for (uint32_t c = 0; c < (run->result.channels == 1 ? 1 : 3); c++)
                expect_near(got[c], want[run->result.channels == 1 ? 1 : c], run->what, x, y);
            if (alpha)
                assert_int_equal(got[3], from[3]);
        }
    profile_convert_close(lcms);
}

static void check_lcms(struct engine *engine, const struct picture_file *profile, uint32_t width,
                       uint32_t height, uint32_t channels, bool cmyk, bool dense)
{
    struct gpu_run run;
    const struct plan_source *source =
        SOURCE_ICC(width, height, channels, profile, .cmyk = cmyk, .orientation = 1);
    gpu_run_open(&run, engine, source, NULL, "['to_srgb']");
    if (dense)
        fill_dense(run.input);
    gpu_run_finish(&run);
    assert_int_equal(run.result.channels, cmyk ? 3 : channels);
    compare_lcms(&run, profile);
    expect_cpu(&run, source, "['to_srgb']");
    gpu_run_close(&run);
}

static struct picture_file table_of(const struct profile_matrix *matrix, unsigned side)
{
    struct picture_file like = profile_of_matrix(matrix), made = profile_of_table(&like, side);
    picture_free(&like);
    return made;
}

/* 86 values of each colour, and noise. */
static void all_colours(struct engine *engine)
{
    if (!profile_has_lcms)
        skip();
    struct picture_file profiles[] = {
        profile_of_matrix(&profile_p3), profile_of_matrix(&profile_adobe),
        profile_of_matrix(&profile_prophoto), table_of(&profile_p3, 17),
        table_of(&profile_prophoto, 9), table_of(&profile_srgb, 33)};
    uint32_t rows = test_quick() ? 20 : 86;
    for (size_t i = 0; i < COUNT_OF(profiles); i++) {
        check_lcms(engine, &profiles[i], 86 * 86, rows, 3, false, true);
        check_lcms(engine, &profiles[i], 1000, rows, 4, false, false);
        picture_free(&profiles[i]);
    }
}

ON_BOTH(colours)

static void all_gray(struct engine *engine)
{
    if (!profile_has_lcms)
        skip();
    static const double gammas[] = {1.8, 2.2, 2.4};
    for (size_t i = 0; i < COUNT_OF(gammas); i++) {
        struct picture_file profile = profile_of_gray(gammas[i]);
        check_lcms(engine, &profile, 1000, 20, 1, false, false);
        picture_free(&profile);
    }
}

ON_BOTH(gray)

static void all_inks(struct engine *engine)
{
    if (!profile_has_lcms)
        skip();
    struct picture_file profile = profile_of_inks();
    check_lcms(engine, &profile, 1000, test_quick() ? 20 : 300, 4, true, false);
    check_lcms(engine, &profile, 1, 1, 4, true, false);
    check_lcms(engine, &profile, 37, 5, 4, true, false);
    picture_free(&profile);
}

ON_BOTH(inks)

/* ---- doubles ---- */

static double encoded(double linear)
{
    linear = linear < 0 ? 0 : linear > 1 ? 1 : linear;
    return linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
}

/* D50 XYZ to linear sRGB: the inverse of its colorants, as Lindbloom computed it. */
static void to_srgb(const struct profile_matrix *matrix, const uint8_t from[3], double to[3])
{
    static const double inverse[3][3] = {{3.1338561, -1.6168667, -0.4906146},
                                         {-0.9787684, 1.9161415, 0.0334540},
                                         {0.0719453, -0.2289914, 1.4052427}};
    double xyz[3] = {0, 0, 0};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 3; i++)
            xyz[i] += matrix->colorants[c][i] * profile_curve_at(matrix, from[c] / 255.0);
    for (int c = 0; c < 3; c++)
        to[c] = 255 * encoded(inverse[c][0] * xyz[0] + inverse[c][1] * xyz[1] +
                              inverse[c][2] * xyz[2]);
}

static void check_double(struct engine *engine, const struct profile_matrix *matrix,
                         uint32_t width, uint32_t height, uint32_t channels)
{
    struct picture_file profile = profile_of_matrix(matrix);
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE_ICC(width, height, channels, &profile), NULL, "['to_srgb']");
    gpu_run_finish(&run);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            const uint8_t *from = run.input.pixels + y * run.input.stride + (size_t)x * channels;
            const uint8_t *got = run.result.pixels + y * run.result.stride + (size_t)x * channels;
            uint8_t gray[3] = {from[0], from[0], from[0]};
            double want[3];
            to_srgb(matrix, channels == 1 ? gray : from, want);
            for (uint32_t c = 0; c < (channels == 1 ? 1 : 3); c++)
                if (fabs(got[c] - want[c]) >= 1.5)
                    fail_msg("%s: %u instead of %f at %u, %u", run.what, got[c], want[c], x, y);
            if (channels == 4)
                assert_int_equal(got[3], from[3]);
        }
    expect_cpu(&run, SOURCE_ICC(width, height, channels, &profile), "['to_srgb']");
    gpu_run_close(&run);
    picture_free(&profile);
}

/* A thread of the CUDA engine takes four pixels. At widths of 9, 10, 21, 41, 42, 53 and 1066, the
 * last four pixels of RGB end after the row's padding. */
static const uint32_t sizes[][2] = {
    {1, 1},   {1, 2},   {2, 1},    {3, 3},    {1, 37}, {37, 1},   {5, 4},     {15, 13},
    {17, 15}, {32, 17}, {255, 65}, {257, 5},  {511, 9}, {1025, 9}, {300, 201}, {16384, 3},
    {9, 37},  {10, 1},  {21, 9},   {41, 5},   {42, 3}, {53, 2},   {1066, 37}};

/* A table for gray is exact: it has nothing to interpolate. A gray profile also serves RGB. */
static void all_exact_gray(struct engine *engine)
{
    static const double gammas[] = {1, 1.8, 2.19921875, 2.5}; /* in 1/256, as in the profile */
    for (size_t i = 0; i < COUNT_OF(gammas); i++)
        each_channels (channels) {
            struct picture_file profile = profile_of_gray(gammas[i]);
            double gamma = round(gammas[i] * 256) / 256;
            struct gpu_run run;
            gpu_run_open(&run, engine, SOURCE_ICC(301, 20, channels, &profile), NULL,
                         "['to_srgb']");
            gpu_run_finish(&run);
            struct raster want = raster_of(run.input);
            for (size_t at = 0; at < (size_t)301 * 20 * channels; at++)
                if (channels < 4 || at % 4 != 3)
                    want.pixels[at] =
                        (uint8_t)lround(255 * encoded(pow(want.pixels[at] / 255.0, gamma)));
            gpu_run_expect(&run, want);
            gpu_run_close(&run);
            picture_free(&profile);
        }
}

ON_BOTH(exact_gray)

static void all_sizes(struct engine *engine)
{
    const struct profile_matrix *const matrices[] = {&profile_p3, &profile_adobe,
                                                     &profile_prophoto};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        each_channels (channels)
            check_double(engine, matrices[i % 3], sizes[i][0], sizes[i][1], channels);
}

ON_BOTH(sizes)

static void all_table_sizes(struct engine *engine)
{
    if (!profile_has_lcms)
        skip();
    struct picture_file profile = table_of(&profile_adobe, 9);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (uint32_t channels = 3; channels <= 4; channels++)
            check_lcms(engine, &profile, sizes[i][0], sizes[i][1], channels, false, false);
    picture_free(&profile);
}

ON_BOTH(table_sizes)

/* ---- CMYK without its profile ---- */

static void all_products(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct gpu_run run;
        gpu_run_open(&run, engine, SOURCE(sizes[i][0], sizes[i][1], 4, .cmyk = true), NULL, "[]");
        gpu_run_finish(&run);
        struct raster want = raster_make(sizes[i][0], sizes[i][1], 3);
        for (uint32_t y = 0; y < want.height; y++)
            for (uint32_t x = 0; x < want.width; x++) {
                const uint8_t *from = run.input.pixels + y * run.input.stride + 4 * (size_t)x;
                for (int c = 0; c < 3; c++)
                    raster_at(&want, x, y)[c] = (uint8_t)lround(from[c] * from[3] / 255.0);
            }
        gpu_run_expect(&run, want);
        gpu_run_close(&run);
    }
}

ON_BOTH(products)

/* ---- plans ---- */

static void expect_passes(const struct plan_source *source, const char *ops, const char *names)
{
    struct plan plan;
    test_plan(&plan, source, NULL, ops);
    assert_string_equal(pass_names(&plan, ','), names);
    plan_clear(&plan);
}

TEST(test_nothing_to_do)
{
    struct picture_file srgb = profile_of_matrix(&profile_srgb), gray = profile_of_gray(2.2);
    struct picture_file p3 = profile_of_matrix(&profile_p3), inks = picture_icc(500, "CMYK");
    struct picture_file lab = picture_icc(500, "Lab ");
    expect_passes(SOURCE(9, 9, 3), "['to_srgb']", "");
    expect_passes(SOURCE_ICC(9, 9, 3, &srgb), "['to_srgb']", "");
    expect_passes(SOURCE_ICC(9, 9, 3, &inks), "['to_srgb']", "");
    expect_passes(SOURCE_ICC(9, 9, 3, &lab), "['to_srgb']", "");
    expect_passes(SOURCE_ICC(9, 9, 4, &p3, .cmyk = true), "['to_srgb']", "cmyk to rgb");
    expect_passes(SOURCE_ICC(9, 9, 3, &p3), "['invert']", "table");
    expect_passes(SOURCE_ICC(9, 9, 3, &p3), "['to_srgb','to_srgb']", "matrix to srgb");
    expect_passes(SOURCE_ICC(9, 9, 3, &p3, .ycc = true), "['to_srgb']",
                  "ycc to rgb,matrix to srgb");
    expect_passes(SOURCE_ICC(9, 9, 1, &p3), "['to_srgb','invert']", "table");
    expect_passes(SOURCE_ICC(9, 9, 3, &gray), "['to_srgb']", "table");
    picture_free(&srgb);
    picture_free(&gray);
    picture_free(&p3);
    picture_free(&inks);
    picture_free(&lab);
}

/* The profile of CMYK applies before any operation that needs colours, and after those that only
 * move pixels. */
TEST(test_inks_come_first)
{
    if (!profile_has_lcms)
        skip();
    struct picture_file inks = profile_of_inks();
    const struct plan_source *source = SOURCE_ICC(90, 60, 4, &inks, .cmyk = true);
    expect_passes(source, "['transpose','invert','to_srgb']", "orient,cmyk to srgb,table");
    expect_passes(source, "['transpose','invert']", "orient,cmyk to rgb,table");
    expect_passes(source, "['sobel']", "cmyk to rgb,sobel");
    picture_free(&inks);
}

/* ---- damaged profiles ---- */

/* Pixels stay; of CMYK, they are converted as without a profile. */
static void expect_unused(const struct picture_file *profile)
{
    expect_passes(SOURCE_ICC(9, 9, 3, profile), "['invert','to_srgb']", "table");
    expect_passes(SOURCE_ICC(9, 9, 3, profile, .ycc = true), "['to_srgb']", "ycc to rgb");
}

TEST(test_damaged)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } damages[] = {{8, 5},             /* the version */
                   {12, 'x'},          /* the class: a device link, or none */
                   {20, 'x'},          /* the connection space */
                   {36, 'x'},          /* the signature */
                   {130, 1},           /* more than 100 tags */
                   {131, 50},          /* the table of tags is truncated */
                   {132, 'x'},         /* no curve of red */
                   {132 + 5, 0xFF},    /* its place */
                   {132 + 11, 19}};    /* its length */
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        struct picture_file p3 = profile_of_matrix(&profile_p3);
        p3.bytes[damages[i].at] = damages[i].byte;
        expect_unused(&p3);
        picture_free(&p3);
    }
    struct profile_matrix far = profile_p3;
    far.colorants[0][0] = 900;
    struct picture_file file = profile_of_matrix(&far), link = profile_of_matrix(&profile_p3);
    expect_unused(&file);
    memcpy(link.bytes + 12, "link", 4);
    expect_unused(&link);
    picture_free(&file);
    picture_free(&link);
}

/* Tables without contents. A program without lcms2 cannot know that. */
TEST(test_damaged_tables)
{
    struct picture_file p3 = profile_of_matrix(&profile_p3), inks = picture_icc(500, "CMYK");
    memcpy(p3.bytes + 132, "A2B0", 4);
    if (profile_has_lcms) {
        expect_unused(&p3);
        expect_passes(SOURCE_ICC(9, 9, 4, &inks, .cmyk = true), "['to_srgb']", "cmyk to rgb");
    } else {
        check_misfit(SOURCE_ICC(9, 9, 3, &p3), NULL, "['invert','to_srgb']", STATUS_BAD_OP,
                     "ops[1] to_srgb: the input's ICC profile cannot be used: it has tables, which "
                     "only lcms2 reads");
    }
    picture_free(&p3);
    picture_free(&inks);
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
