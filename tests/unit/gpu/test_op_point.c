/*
 * Tests of invert, gamma, levels, threshold and color_matrix, alone and in chains that the plan
 * fuses. Both engines are compared with references that apply one operation after another.
 */
#include "tests/fixtures/gpu/both_engines.h"

#include <math.h>

#include "tests/fixtures/reference.h"

/* ---- the reference: one operation, one pixel at a time ---- */

static double number(const cJSON *op, const char *name, double standard)
{
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(op, name);
    return given ? given->valuedouble : standard;
}

/* floor(a / b), b > 0 */
static int64_t floor_ratio(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static int level(const cJSON *op, int v)
{
    int64_t in_black = (int64_t)number(op, "in_black", 0);
    int64_t in_white = (int64_t)number(op, "in_white", 255);
    int64_t out_black = (int64_t)number(op, "out_black", 0);
    int64_t range = (int64_t)number(op, "out_white", 255) - out_black;
    double gamma = number(op, "gamma", 1);
    int64_t n = in_white - in_black, k = v - in_black;
    k = k < 0 ? 0 : k > n ? n : k;
    if (gamma == 1) /* out_black + range k / n + 1/2, over 2 n */
        return (int)floor_ratio(2 * out_black * n + 2 * range * k + n, 2 * n);
    long double part = powl((long double)k / (long double)n, 1 / (long double)gamma);
    return (int)floorl((long double)out_black + (long double)range * part + 0.5L);
}

static int pointwise(const cJSON *op, const char *name, int v)
{
    if (strcmp(name, "invert") == 0)
        return 255 - v;
    if (strcmp(name, "levels") == 0)
        return level(op, v);
    if (strcmp(name, "gamma") == 0)
        return (int)floorl(
            255 * powl((long double)v / 255, 1 / (long double)number(op, "gamma", 1)) + 0.5L);
    bool above = v > (int)number(op, "value", 127);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(op, "invert")))
        above = !above;
    return above ? 255 : 0;
}

static struct raster reference_matrix(const struct raster *in, const cJSON *op)
{
    const cJSON *matrix = cJSON_GetObjectItemCaseSensitive(op, "matrix");
    struct raster out = raster_make(in->width, in->height, in->channels == 4 ? 4 : 3);
    for (uint32_t y = 0; y < in->height; y++) {
        for (uint32_t x = 0; x < in->width; x++) {
            const uint8_t *p = raster_at(in, x, y);
            uint8_t *q = raster_at(&out, x, y);
            for (int c = 0; c < 3; c++) {
                const cJSON *row = cJSON_GetArrayItem(matrix, c);
                int64_t sum = 32768;
                for (int i = 0; i < 4; i++) {
                    double exact = cJSON_GetArrayItem(row, i)->valuedouble;
                    int64_t value = i == 3 ? 1 : p[in->channels == 1 ? 0 : i];
                    sum += (int64_t)floor(exact * 65536 + 0.5) * value;
                }
                int64_t mixed = floor_ratio(sum, 65536);
                q[c] = (uint8_t)(mixed < 0 ? 0 : mixed > 255 ? 255 : mixed);
            }
            if (in->channels == 4)
                q[3] = p[3];
        }
    }
    return out;
}

static struct raster reference_op(const struct raster *in, const cJSON *op)
{
    const char *name = cJSON_IsString(op)
                           ? op->valuestring
                           : cJSON_GetObjectItemCaseSensitive(op, "op")->valuestring;
    if (strcmp(name, "grayscale") == 0)
        return reference_gray(in, NULL, test_background);
    if (strcmp(name, "sobel") == 0) {
        struct raster gray = reference_gray(in, NULL, test_background);
        struct raster out = reference_sobel(&gray, REFERENCE_HALF, REFERENCE_REFLECT101);
        raster_clear(&gray);
        return out;
    }
    if (strcmp(name, "color_matrix") == 0)
        return reference_matrix(in, op);
    struct raster out = strcmp(name, "threshold") == 0 ? reference_gray(in, NULL, test_background)
                                                       : raster_copy(in);
    int table[256];
    for (int v = 0; v < 256; v++)
        table[v] = pointwise(op, name, v);
    size_t bytes = (size_t)out.width * out.height * out.channels;
    for (size_t i = 0; i < bytes; i++)
        if (out.channels != 4 || i % 4 != 3)
            out.pixels[i] = (uint8_t)table[out.pixels[i]];
    return out;
}

static struct raster reference(struct image image, const cJSON *ops, bool opaque)
{
    struct raster now = raster_of(image);
    const cJSON *op;
    cJSON_ArrayForEach(op, ops)
    {
        struct raster next = reference_op(&now, op);
        raster_clear(&now);
        now = next;
    }
    if (!opaque)
        return now;
    struct raster flat = reference_flatten(&now, test_background);
    raster_clear(&now);
    return flat;
}

static void check(struct engine *engine, uint32_t width, uint32_t height, uint32_t channels,
                  const char *json, bool opaque)
{
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(width, height, channels),
                 &(struct plan_target){.opaque = opaque}, json);
    gpu_run_finish(&run);
    gpu_run_expect(&run, reference(run.input, run.ops, opaque));
    gpu_run_close(&run);
}

/* ---- the tables ---- */

/* A block of the CUDA engine takes 512 pixels of eight rows, or 16 KB if each pixel is independent;
 * the CPU takes runs of 512 pixels. */
static const uint32_t sizes[][2] = {
    {1, 1},   {1, 2},   {2, 1},   {3, 3},    {1, 37},  {37, 1},   {5, 4},   {15, 13},
    {17, 15}, {32, 17}, {64, 32}, {129, 65}, {511, 9}, {512, 8},  {513, 7}, {1023, 3},
    {341, 5}, {342, 6}, {1024, 17}, {1025, 9}, {300, 201},
};
static const uint32_t large[][2] = {{16384, 3}, {3, 16384}, {1000, 700}};

static void for_all_sizes(struct engine *engine, const char *json, bool with_large)
{
#ifdef __SANITIZE_ADDRESS__
    size_t step = 3;
#else
    size_t step = test_quick() ? 5 : 1;
#endif
    each_channels(channels) {
        for (size_t i = 0; i < COUNT_OF(sizes); i += step)
            check(engine, sizes[i][0], sizes[i][1], channels, json, i % 7 == 3);
        for (size_t i = 0; with_large && step == 1 && i < COUNT_OF(large); i++)
            check(engine, large[i][0], large[i][1], channels, json, false);
    }
}

#define SEPIA                                                                                      \
    "{'op':'color_matrix','matrix':[[0.393,0.769,0.189,0],[0.349,0.686,0.168,0],"                  \
    "[0.272,0.534,0.131,0]]}"
#define WILD                                                                                       \
    "{'op':'color_matrix','matrix':[[32,-32,0.5,-4096],[-1,-0.25,-3,255.5],[0,1.75,-0.5,20.25]]}"
#define EXTREME                                                                                    \
    "{'op':'color_matrix','matrix':[[32,32,32,4096],[-32,-32,-32,-4096],[-32,32,1,4096]]}"

static const char *const chains[] = {
    "['invert']",
    "[{'op':'gamma','gamma':2.2}]",
    "[{'op':'gamma','gamma':0.01}]",
    "[{'op':'gamma','gamma':100}]",
    "[{'op':'levels','in_black':16,'in_white':235}]",
    "[{'op':'levels','in_black':254,'in_white':255,'gamma':0.5}]",
    "[{'op':'levels','out_black':250,'out_white':3}]",
    "[{'op':'levels','in_black':3,'in_white':209,'gamma':1.7,'out_black':200,'out_white':90}]",
    "['threshold']",
    "[{'op':'threshold','value':0,'invert':true}]",
    "[{'op':'threshold','value':255}]",
    "[" SEPIA "]",
    "[" WILD "]",
    "[" EXTREME "]",
};
static const char *const fused[] = {
    "['grayscale',{'op':'gamma','gamma':1.4},'sobel']",
    "[{'op':'levels','out_black':250,'out_white':3},'sobel','invert','sobel']",
    "['invert',{'op':'gamma','gamma':2.2},{'op':'levels','in_black':10},'invert']",
    "['grayscale',{'op':'gamma','gamma':1.4}]",
    "[{'op':'gamma','gamma':1.4},'grayscale']",
    "['invert','threshold',{'op':'levels','out_black':9,'out_white':77}]",
    "['invert'," SEPIA "]",
    "[" SEPIA ",{'op':'gamma','gamma':2.2}]",
    "['invert'," WILD ",{'op':'levels','in_black':40,'in_white':90},'invert']",
    "[" SEPIA "," WILD "]",
    "[" SEPIA ",'grayscale','invert']",
    "['grayscale'," SEPIA ",'invert','threshold']",
    "[{'op':'gamma','gamma':0.7},'sobel','invert']",
    "['threshold','sobel','threshold']",
};

static void all_alone(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(chains); i++)
        for_all_sizes(engine, chains[i], i % 5 == 0);
}

static void all_fused(struct engine *engine)
{
    for (size_t i = 0; i < COUNT_OF(fused); i++)
        for_all_sizes(engine, fused[i], i % 5 == 1);
}

/* Random chains of 1 to 7 operations. */
static void all_random(struct engine *engine)
{
    static const char *const some[] = {
        "'invert'", "{'op':'gamma','gamma':1.9}", "{'op':'levels','in_black':30,'in_white':220}",
        "{'op':'levels','in_white':128,'gamma':0.8,'out_black':255,'out_white':20}", SEPIA, WILD,
        "'grayscale'", "'threshold'", "'sobel'"};
    uint32_t state = 20250117;
    int count = test_quick() ? 20 : 300;
    for (int i = 0; i < count; i++) {
        char text[1200] = "[";
        uint32_t length = 1 + test_random(&state) % 7;
        for (uint32_t k = 0; k < length; k++) {
            strcat(text, k ? "," : "");
            /* The last two lose most of the image, so they are drawn less often. */
            uint32_t which = test_random(&state) % 16;
            strcat(text, some[which < 14 ? which % 7 : which - 7]);
        }
        strcat(text, "]");
        uint32_t channels = test_random(&state) % 3;
        uint32_t width = 1 + test_random(&state) % 700, height = 1 + test_random(&state) % 20;
        check(engine, width, height, channels == 0 ? 1 : channels + 2, text,
              test_random(&state) % 2);
    }
}

ON_BOTH(alone)
ON_BOTH(fused)
ON_BOTH(random)

/* ---- refused parameters ---- */

#define ROWS "[1,0,0,0],[0,1,0,0]"

static const struct test_refusal refusals[] = {
    {"[{'op':'invert','value':1}]", "ops[0] invert: there is no parameter \"value\"; it has none"},
    {"['gamma']", "ops[0] gamma: gamma is missing"},
    {"[{'op':'gamma','gamma':'2'}]", "gamma is a string; it must be a number"},
    {"[{'op':'gamma','gamma':null}]", "gamma is null; it must be a number"},
    {"[{'op':'gamma','gamma':0}]", "gamma is 0; it must be 0.01 to 100"},
    {"[{'op':'gamma','gamma':-1}]", "gamma is -1; it must be"},
    {"[{'op':'gamma','gamma':100.5}]", "gamma is 100.5; it must be"},
    {"[{'op':'levels','in_black':1.5}]", "in_black is 1.5; it must be an integer of 0 to 255"},
    {"[{'op':'levels','in_white':256}]", "in_white is 256; it must be an integer of 0 to 255"},
    {"[{'op':'levels','out_black':-1}]", "out_black is -1; it must be"},
    {"[{'op':'levels','out_white':true}]", "out_white is a boolean; it must be an integer"},
    {"[{'op':'levels','in_black':255}]", "in_black is 255; it must be below in_white, 255"},
    {"[{'op':'levels','in_black':9,'in_white':8}]", "it must be below in_white, 8"},
    {"[{'op':'levels','gamma':0.001}]", "gamma is 0.001; it must be 0.01 to 100"},
    {"[{'op':'threshold','value':-1}]", "value is -1; it must be an integer of 0 to 255"},
    {"[{'op':'threshold','value':1e300}]", "value is 1e+300; it must be an integer"},
    {"[{'op':'threshold','value':[1]}]", "value is an array; it must be an integer"},
    {"[{'op':'threshold','invert':1}]", "invert is a number; it must be true or false"},
    {"['color_matrix']", "ops[0] color_matrix: matrix is missing"},
    {"[{'op':'color_matrix','matrix':1}]", "matrix must be an array of 3 rows of 4 numbers"},
    {"[{'op':'color_matrix','matrix':[" ROWS "]}]", "matrix must be an array of 3 rows"},
    {"[{'op':'color_matrix','matrix':[" ROWS ",[1,2,3]]}]", "matrix[2] must be an array of 4"},
    {"[{'op':'color_matrix','matrix':[" ROWS ",4]}]", "matrix[2] must be an array of 4 numbers"},
    {"[{'op':'color_matrix','matrix':[" ROWS ",[1,'2',3,4]]}]", "matrix[2][1] is a string"},
    {"[{'op':'color_matrix','matrix':[" ROWS ",[1,32.5,3,4]]}]",
     "matrix[2][1] is 32.5; it must be -32 to 32"},
    {"[{'op':'color_matrix','matrix':[" ROWS ",[1,3,3,-4097]]}]",
     "matrix[2][3] is -4097; it must be -4096 to 4096"},
    {"[{'op':'color_matrix','matrix':[" ROWS ",[1e999,3,3,0]]}]", "matrix[2][0] is inf"},
};

TEST(test_point_refused)
{
    check_refused(refusals, COUNT_OF(refusals));
}

/* A threshold needs no colour at any value; the other operations need it. */
TEST(test_point_wants_gray)
{
    static const struct {
        const char *ops;
        bool gray;
    } rows[] = {{"['threshold']", true},
                {"[{'op':'threshold','value':9,'invert':true},'invert']", true},
                {"['invert','threshold']", false},
                {"['levels']", false},
                {"[" SEPIA "]", false}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan_target target = {.ops = test_ops(rows[i].ops)};
        assert_int_equal(plan_decode_as(&target, 1),
                         rows[i].gray ? DECODE_LUMA : DECODE_COLOUR);
        op_list_free(target.ops);
    }
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
