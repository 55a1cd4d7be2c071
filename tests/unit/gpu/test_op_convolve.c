/* Tests of convolve: both engines against a 64-bit sum per pixel. */
#include "tests/fixtures/gpu/neighbours.h"

#include <math.h>

struct recipe {
    int columns, rows;
    double kernel[15 * 15];
    double scale, offset; /* scale 0: not given */
    const char *border;
};

/* The kernel of the current recipe, in units of 1/65536. */
static int64_t taps[15 * 15];

static void make_taps(const struct recipe *recipe)
{
    double scale = recipe->scale, all = 0;
    for (int i = 0; i < recipe->rows * recipe->columns; i++)
        all += recipe->kernel[i];
    if (scale == 0)
        scale = fabs(all) < 1e-12 ? 1 : all;
    for (int i = 0; i < recipe->rows * recipe->columns; i++)
        taps[i] = llrint(recipe->kernel[i] / scale * 65536);
}

static int reference(const struct channel *in, int x, int y, const void *context)
{
    const struct recipe *recipe = context;
    int64_t sum = llrint(recipe->offset * 65536) + 32768;
    for (int j = 0; j < recipe->rows; j++)
        for (int i = 0; i < recipe->columns; i++)
            sum += taps[j * recipe->columns + i] *
                   CHANNEL_AT(in, x + i - recipe->columns / 2, y + j - recipe->rows / 2);
    int64_t value = sum >= 0 ? sum / 65536 : -((65535 - sum) / 65536);
    return (int)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void sweep_behind(struct engine *engine, struct behind behind, const struct recipe *recipe,
                         size_t step, bool with_large)
{
    char ops[8000];
    int length = snprintf(ops, sizeof(ops), "[{\"op\":\"convolve\",\"border\":\"%s\","
                          "\"offset\":%.17g,\"kernel\":[", recipe->border, recipe->offset);
    for (int i = 0; i < recipe->rows * recipe->columns; i++)
        length += snprintf(ops + length, sizeof(ops) - (size_t)length, "%s%.17g%s",
                           i % recipe->columns ? "," : i ? ",[" : "[", recipe->kernel[i],
                           (i + 1) % recipe->columns ? "" : "]");
    length += snprintf(ops + length, sizeof(ops) - (size_t)length, "]");
    if (recipe->scale != 0)
        length += snprintf(ops + length, sizeof(ops) - (size_t)length, ",\"scale\":%.17g",
                           recipe->scale);
    snprintf(ops + length, sizeof(ops) - (size_t)length, "}]");
    struct neighbours_op op = {ops, reference, recipe, recipe->border};
    make_taps(recipe);
    neighbours_sweep_behind(engine, behind, &op, step, with_large);
}

static void sweep(struct engine *engine, const struct recipe *recipe, size_t step, bool with_large)
{
    sweep_behind(engine, behind_nothing, recipe, step, with_large);
}

static const char *const borders[] = {"reflect101", "replicate", "zero"};

static struct recipe draw_recipe(const int sides[2], uint32_t *random)
{
    struct recipe recipe = {.columns = sides[0], .rows = sides[1]};
    for (int i = 0; i < recipe.columns * recipe.rows; i++)
        recipe.kernel[i] = (double)(int)(test_random(random) % 2001) / 500 - 1.5;
    recipe.scale = 3.7 * recipe.columns * recipe.rows / 4;
    return recipe;
}

static void all_convolve(struct engine *engine)
{
    static const int sides[][2] = {{1, 1}, {3, 3}, {5, 5}, {7, 7},  {9, 9},  {15, 15}, {1, 15},
                                   {15, 1}, {3, 11}, {5, 3}, {9, 13}, {11, 9}, {13, 5}};
    uint32_t random = 4711;
    for (size_t s = 0; s < COUNT_OF(sides); s++) {
        struct recipe recipe = draw_recipe(sides[s], &random);
        recipe.border = borders[s % 3];
        if (s % 2)
            recipe.scale = 0;
        recipe.offset = s % 3 == 1 ? 100.3 : s % 3 == 2 ? -17 : 0;
        sweep(engine, &recipe, s < 6 ? 2 : 5, s < 3);
    }
    /* These weights sum to 0 except for rounding, so the scale is 1. */
    sweep(engine, &(struct recipe){3, 1, {0.1, 0.2, -0.3}, 0, 9, "replicate"}, 5, false);
    /* The computed scale may be small: the limits of scale apply only to a given scale. */
    sweep(engine, &(struct recipe){3, 1, {1e-10, 2e-10, 1e-10}, 0, 0, "replicate"}, 5, false);
    for (int b = 0; b < 3; b++)
        sweep(engine, &(struct recipe){3, 3, {-1, -2, -1, 0, 0, 0, 1, 2, 1}, 0, 128, borders[b]}, 1,
              false);
}

/* The largest possible sums of both signs must not wrap. */
static void all_extremes(struct engine *engine)
{
    struct recipe recipe = {3, 3, {127}, 1, 255, "replicate"};
    sweep(engine, &recipe, 5, false);
    recipe.kernel[0] = -127;
    recipe.offset = -255;
    sweep(engine, &recipe, 5, false);
    recipe.kernel[0] = -63.5;
    recipe.kernel[8] = 63.5;
    sweep(engine, &recipe, 5, false);
}

/* Every border, with asymmetric kernels of each of the four widths. The table must not be applied
 * to the zeros outside the image. */
static void sweep_borders(struct engine *engine, struct behind behind)
{
    static const int sides[][2] = {{1, 1}, {3, 3}, {5, 3}, {1, 5}, {5, 1}, {9, 7}, {15, 15}};
    uint32_t random = 815;
    for (size_t s = 0; s < COUNT_OF(sides); s++) {
        struct recipe recipe = draw_recipe(sides[s], &random);
        recipe.offset = 41;
        for (int b = 0; b < 3; b++) {
            recipe.border = borders[b];
            sweep_behind(engine, behind, &recipe, recipe.columns * recipe.rows > 20 ? 5 : 1,
                         s == 1);
        }
    }
}

ON_BOTH(convolve)
ON_BOTH(extremes)
ON_BOTH_BEHIND(sweep_borders)

TEST(test_refused)
{
    static const struct test_refusal refusals[] = {
        {"[\"convolve\"]", "kernel is missing; it must be an array of rows"},
        {"[{\"op\":\"convolve\",\"kernel\":3}]", "kernel is a number; it must be an array"},
        {"[{\"op\":\"convolve\",\"kernel\":[]}]", "kernel has 0 rows"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1],[2]]}]", "kernel has 2 rows; it must have an odd"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1,2]]}]", "kernel has 2 columns; it must have an odd"},
        {"[{\"op\":\"convolve\",\"kernel\":[[]]}]", "kernel has 0 columns"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]}]",
         "kernel has 17 columns; it must have an odd number of them, at most 15"},
        {"[{\"op\":\"convolve\",\"kernel\":[1]}]",
         "kernel[0] is a number; it must be an array of numbers"},
        {"[{\"op\":\"convolve\",\"kernel\":[{\"a\":1}]}]",
         "kernel[0] is an object; it must be an array of numbers"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1,2,1e308],[1,1e308,1],[1e308,1,1]]}]",
         "kernel[0][2] is 1e+308; it must be -1000000000 to 1000000000"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1,0,0],[0,0,0],[0,-1e999,0]]}]",
         "kernel[2][1] is -inf; it must be"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1,2,3],[1,2],[1,2,3]]}]",
         "kernel[1] must be an array of 3 numbers"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1,2,3],4,[1,2,3]]}]", "kernel[1] must be an array"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1,\"2\",3]]}]", "kernel[0][1] is a string"},
        {"[{\"op\":\"convolve\",\"kernel\":[[100,-100,0]],\"scale\":1}]", "sum to 200 or more"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1e9]],\"scale\":1}]", "at most 127 is allowed"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1]],\"scale\":0}]", "scale is 0"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1]],\"scale\":true}]", "scale is a boolean"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1]],\"offset\":256}]",
         "offset is 256; it must be -255 to 255"},
        {"[{\"op\":\"convolve\",\"kernel\":[[1]],\"border\":\"wrap\"}]",
         "border is \"wrap\"; it must be reflect101, replicate or zero"},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
