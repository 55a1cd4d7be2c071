/*
 * Tests of grayscale and sobel, which one pass fuses: both engines, byte for byte, against
 * references written from the definitions. The references share no code with the engines.
 */
#include "tests/fixtures/gpu/both_engines.h"
#include "tests/fixtures/reference.h"

/* ---- a recipe on an engine ---- */

struct recipe {
    int orientation;
    bool gray;
    uint32_t weights[3]; /* 0: not given */
    int sobels;
    enum reference_magnitude magnitude;
    enum reference_border border;
    bool opaque;
};

static void replace(struct raster *raster, struct raster next)
{
    raster_clear(raster);
    *raster = next;
}

static struct raster reference(struct image image, const struct recipe *recipe)
{
    struct raster now = raster_of(image);
    const uint32_t *w = recipe->weights;
    replace(&now, reference_orient(&now, recipe->orientation));
    if (recipe->gray || recipe->sobels > 0)
        replace(&now, reference_gray(&now, w[0] + w[1] + w[2] ? w : NULL, test_background));
    for (int i = 0; i < recipe->sobels; i++)
        replace(&now, reference_sobel(&now, recipe->magnitude, recipe->border));
    if (recipe->opaque)
        replace(&now, reference_flatten(&now, test_background));
    return now;
}

static const char *const magnitudes[] = {[REFERENCE_HALF] = "half", [REFERENCE_L1] = "l1",
                                         [REFERENCE_L2] = "l2"};
static const char *const borders[] = {[REFERENCE_REFLECT101] = "reflect101",
                                      [REFERENCE_REPLICATE] = "replicate",
                                      [REFERENCE_ZERO] = "zero"};

static const char *recipe_ops(const struct recipe *recipe)
{
    const uint32_t *w = recipe->weights;
    const char *ops = "";
    if (recipe->gray && w[0] + w[1] + w[2])
        ops = text_of("{'op':'grayscale','weights':[%u,%u,%u]}", w[0], w[1], w[2]);
    else if (recipe->gray)
        ops = "'grayscale'";
    for (int i = 0; i < recipe->sobels; i++)
        ops = text_of("%s%s{'op':'sobel','magnitude':'%s','border':'%s'}", ops, *ops ? "," : "",
                      magnitudes[recipe->magnitude], borders[recipe->border]);
    return text_of("[%s]", ops);
}

static void check(struct engine *engine, uint32_t width, uint32_t height, uint32_t channels,
                  const struct recipe *recipe)
{
    struct gpu_run run;
    gpu_run_open(&run, engine,
                 SOURCE(width, height, channels, .orientation = recipe->orientation),
                 &(struct plan_target){.opaque = recipe->opaque}, recipe_ops(recipe));
    gpu_run_finish(&run);
    gpu_run_expect(&run, reference(run.input, recipe));
    gpu_run_close(&run);
}

/* ---- the table ---- */

/* The CUDA tile is 512 pixels wide and advances 16 rows (14 in the first step); tiles of the
 * transpositions are 64 (CUDA) or 32 (CPU) pixels square. */
static const uint32_t sizes[][2] = {
    {1, 1},     {1, 2},    {2, 1},    {2, 2},    {3, 3},     {1, 37},   {37, 1},   {5, 4},
    {15, 13},   {16, 14},  {17, 15},  {31, 16},  {32, 17},   {33, 30},  {63, 31},  {64, 32},
    {65, 33},   {127, 62}, {128, 64}, {129, 65}, {511, 29},  {512, 46}, {513, 47}, {1023, 3},
    {1024, 63}, {1025, 7}, {300, 201}, {100, 515},
};
static const uint32_t large[][2] = {{16384, 3}, {3, 16384}, {1000, 700}};

static void for_all_sizes(struct engine *engine, const struct recipe *recipe, bool with_large)
{
#ifdef __SANITIZE_ADDRESS__
    size_t step = 2;
#else
    size_t step = test_quick() ? 5 : 1;
#endif
    each_channels(channels) {
        for (size_t i = 0; i < COUNT_OF(sizes); i += step)
            check(engine, sizes[i][0], sizes[i][1], channels, recipe);
        for (size_t i = 0; with_large && !test_quick() && i < COUNT_OF(large); i++)
            check(engine, large[i][0], large[i][1], channels, recipe);
    }
}

static void all_grayscale(struct engine *engine)
{
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true}, true);
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true,
                                           .weights = {65536, 0, 0}}, false);
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true,
                                           .weights = {0, 1, 65535}}, false);
}

static void all_sobel(struct engine *engine)
{
    struct recipe recipe = {.orientation = 1, .sobels = 1};
    for (int i = 0; i < 9; i++) {
        recipe.magnitude = (enum reference_magnitude)(i / 3);
        recipe.border = (enum reference_border)(i % 3);
        for_all_sizes(engine, &recipe, i / 3 == i % 3);
    }
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true, .sobels = 1,
                                           .weights = {20000, 20000, 25536}}, false);
    for_all_sizes(engine, &(struct recipe){.orientation = 1, .gray = true, .sobels = 3,
                                           .magnitude = REFERENCE_L1,
                                           .border = REFERENCE_REPLICATE}, false);
}

/* Wide and tall enough that a CUDA block takes many steps down. */
static void all_long(struct engine *engine)
{
#ifndef __SANITIZE_ADDRESS__
    if (!test_quick())
        each_channels(channels)
            check(engine, 16384, 900 + channels, channels,
                  &(struct recipe){.orientation = 1, .sobels = 1});
#endif
}

static void all_orientations(struct engine *engine)
{
    for (int orientation = 2; orientation <= 8; orientation++) {
        for_all_sizes(engine, &(struct recipe){.orientation = orientation}, orientation == 6);
        for_all_sizes(engine, &(struct recipe){.orientation = orientation, .sobels = 1,
                                               .opaque = true}, false);
    }
}

static void all_flatten(struct engine *engine)
{
    struct recipe recipe = {.opaque = true};
    for (recipe.orientation = 1; recipe.orientation <= 7; recipe.orientation += 6)
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            check(engine, sizes[i][0], sizes[i][1], 4, &recipe);
    /* every pair of value and alpha */
    recipe.orientation = 7;
    check(engine, 700, 600, 4, &recipe);
}

ON_BOTH(grayscale)
ON_BOTH(sobel)
ON_BOTH(orientations)
ON_BOTH(flatten)
ON_BOTH(long)

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
