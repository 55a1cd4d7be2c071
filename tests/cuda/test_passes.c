/*
 * test_passes.c - every operation on gray, RGB and RGBA, at all widths around multiples of 32
 * bytes.
 *
 * The kernels and the CPU engine must give the same results and write nothing else (pass_rig.h).
 * Each size runs twice: alone in one pattern, and with the other sizes in another one. The kernels
 * are compiled as C++ for the host, and for a device if there is one.
 */
#include "tests/cuda/pass_rig.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/gpu/overlay.h"
#include "tests/fixtures/profile.h"

#include "gpu/colour/conversion.h"
#include "gpu/plan/op.h"

/* ---- sizes ---- */

/* Every remainder modulo 32 bytes for each number of channels; the sides of tiles, strips and
 * stretches; and widths of usual images at which the last four RGB pixels end after the padding. */
#define EVERY_WIDTH_UP_TO 43
static const uint32_t wide[] = {53,  63,  64,  65,  95,  96,  97,  127,
                                128, 129, 255, 256, 257, 330, 426, 511,
                                512, 513, 533, 554, 682, 853, 1066, 1290};
static const uint32_t heights[] = {1, 5, 2, 37, 3, 17, 8, 33};
#define SIZES (EVERY_WIDTH_UP_TO + COUNT_OF(wide))

static struct plan_source source_of(size_t size, uint32_t channels)
{
    struct plan_source source = {.channels = channels, .orientation = 1};
    source.width = size < EVERY_WIDTH_UP_TO ? (uint32_t)size + 1 : wide[size - EVERY_WIDTH_UP_TO];
    source.height = heights[size % COUNT_OF(heights)];
    memcpy(source.background, test_background, sizeof(test_background));
    return source;
}

/* ---- operations ---- */

enum profile { NO_PROFILE, MATRIX, TABLE, GRAY_CURVE, INKS, NO_INKS, YCC };
enum part { WHOLE, ALIGNED, ANYWHERE };

struct recipe {
    const char *ops;
    enum profile profile;
    bool opaque;
    enum part part; /* of the image, cut out before the operations */
};

#define WEIGHTS "[[0.5,0.3,0.2,3],[0.1,0.8,0.1,-9],[0.3,0.3,0.4,0]]"
#define LEVELS "{'op':'levels','in_black':20,'in_white':200,'gamma':1.4,'out_black':9}"
#define NINE "[1,2,3,4,5,4,3,2,1]"

static const struct recipe recipes[] = {
    {.ops = "['grayscale']"},
    {.ops = "['grayscale']", .profile = YCC},
    {.ops = "['invert']"},
    {.ops = "['invert']", .profile = YCC},
    {.ops = "['invert']", .part = ALIGNED},
    {.ops = "[" LEVELS ",'grayscale',{'op':'gamma','gamma':2}]"},
    {.ops = "[{'op':'threshold','value':99}]"},
    {.ops = "[{'op':'color_matrix','matrix':" WEIGHTS "}]"},
    {.ops = "[" LEVELS ",{'op':'color_matrix','matrix':" WEIGHTS "},{'op':'gamma','gamma':2}]"},
    {.ops = "[{'op':'color_matrix','matrix':" WEIGHTS "}," LEVELS "]"},
    {.ops = "[]", .opaque = true},
    {.ops = "['sobel']"},
    {.ops = "['sobel']", .part = ALIGNED},
    {.ops = "[" LEVELS ",{'op':'sobel','magnitude':'l2','border':'zero'}]"},
    {.ops = "['grayscale'," LEVELS ",{'op':'sobel','magnitude':'l1','border':'replicate'}]"},
    {.ops = "['canny']"},
    {.ops = "[" LEVELS ",{'op':'canny','low':10,'high':40}]"},
    {.ops = "[{'op':'resize','fit':'exact','width':50,'height':20}]"},
    {.ops = "[{'op':'resize','fit':'exact','width':9,'height':61,'filter':'bicubic'}]"},
    {.ops = "[{'op':'resize','fit':'exact','width':42,'height':3,'filter':'nearest'}]"},
    {.ops = "[{'op':'resize','fit':'cover','width':10,'height':9,'gravity':'attention'}]"},
    {.ops = "[{'op':'resize','fit':'contain','width':53,'height':30,'color':'transparent'}]"},
    {.ops = "['transpose']", .part = ANYWHERE},
    {.ops = "['invert','transpose']"},
    {.ops = "[{'op':'flip','axis':'horizontal'}]"},
    {.ops = "[{'op':'flip','axis':'horizontal'}]", .part = ANYWHERE},
    {.ops = "[{'op':'flip','axis':'vertical'}]", .part = ALIGNED},
    {.ops = "['rotate']"},
    {.ops = "[{'op':'rotate','angle':33}]"},
    {.ops = "[{'op':'rotate','angle':-9,'expand':false,'background':'transparent'}]",
     .part = ANYWHERE},
    {.ops = "[{'op':'pad','left':3,'right':2,'top':1,'color':[1,2,3]}]"},
    {.ops = "[{'op':'pad','left':17,'bottom':2,'color':'transparent'}]", .part = ANYWHERE},
    {.ops = "[{'op':'pad','left':5,'right':9,'color':[7,7,7]}]", .part = ANYWHERE},
    {.ops = "['to_srgb']", .profile = MATRIX},
    {.ops = "['to_srgb']", .profile = MATRIX, .part = ALIGNED},
    {.ops = "['to_srgb']", .profile = TABLE},
    {.ops = "['to_srgb']", .profile = GRAY_CURVE},
    {.ops = "['to_srgb']", .profile = INKS},
    {.ops = "['invert']", .profile = NO_INKS},
    {.ops = "[{'op':'gaussian','sigma':0.7}]"},
    {.ops = "[{'op':'gaussian','sigma':0.7}]", .part = ALIGNED},
    {.ops = "[" LEVELS ",{'op':'gaussian','sigma':1.2}]"},
    {.ops = "['grayscale',{'op':'gaussian','sigma':2}]"},
    {.ops = "[{'op':'gaussian','sigma':4.5}]"},
    {.ops = "['unsharp']"},
    {.ops = "[{'op':'convolve','kernel':[[0,1,0],[1,-4,1],[0,1,0]],'offset':20}]"},
    {.ops = "[" LEVELS ",{'op':'convolve','kernel':[[1,2,3,2,1]],'scale':9,'border':'zero'}]"},
    {.ops = "['grayscale',{'op':'convolve','kernel':[" NINE "," NINE "," NINE "],'scale':75}]"},
    {.ops = "['median']"},
    {.ops = "[" LEVELS ",{'op':'median','size':5}]"},
    {.ops = "['grayscale',{'op':'median','size':3}]"},
    {.ops = "[{'op':'composite','input':'colour-40x20','gravity':'southeast','opacity':0.7}]"},
    {.ops = "[{'op':'composite','input':'gray-9x7','tile':true}]"},
    {.ops = "[{'op':'text','text':'colour-30x9','size':9,'gravity':'south','opacity':0.9}]"},
    {.ops = "['equalize']"},
    {.ops = "['otsu']"},
    {.ops = "['histogram','stats']"},
    {.ops = "['histogram','stats']", .part = ALIGNED},
    {.ops = "[{'op':'histogram','gray':true},'grayscale','otsu']"},
    {.ops = "['palette']"},
    {.ops = "['palette']", .part = ALIGNED},
    {.ops = "['phash','blurhash','thumbhash','invert']"},
};

static struct picture_file profiles[YCC];

static void set_profile(struct plan_source *source, enum profile profile)
{
    source->icc = profiles[profile == YCC ? NO_PROFILE : profile].bytes;
    source->icc_bytes = profiles[profile == YCC ? NO_PROFILE : profile].length;
    source->cmyk = profile == INKS || profile == NO_INKS;
    source->ycc = profile == YCC;
}

static bool fits(const struct recipe *recipe, uint32_t channels)
{
    switch (recipe->profile) {
    case TABLE: return profile_has_lcms && channels >= 3;
    case INKS: return profile_has_lcms && channels == 4;
    case NO_INKS: return channels == 4;
    case YCC: return channels == 3;
    default: return !recipe->opaque || channels == 4;
    }
}

/* ---- a size of a recipe ---- */

struct course {
    struct plan plan;
    struct raster source, now; /* now: before the next pass of the chain or of a branch */
    struct raster kept;         /* of the chain, while now is the branch's */
    uint32_t next;
    char *what;
    uint64_t hash; /* of all results */
};

static void hash_bytes(struct course *course, const void *bytes, size_t count)
{
    for (const uint8_t *at = bytes; count > 0; at++, count--)
        course->hash = (course->hash ^ *at) * 0x100000001B3u;
}

static uint32_t cut_start(const struct recipe *recipe, uint32_t side)
{
    uint32_t start = recipe->part == WHOLE ? 0 : recipe->part == ALIGNED ? 32 : 3;
    return start < side ? start : 0;
}

/* The operations with a crop before them, owned by the caller. */
static char *ops_of(const struct recipe *recipe, const struct plan_source *source)
{
    char *text = NULL;
    uint32_t x = cut_start(recipe, source->width), y = source->height > 2;
    uint32_t width = source->width - x - (source->width - x > 2);
    int written = recipe->part == WHOLE
                      ? asprintf(&text, "%s", recipe->ops)
                      : asprintf(&text, "[{'op':'crop','x':%u,'y':%u,'width':%u,'height':%u},%s",
                                 x, y, width, source->height - y, recipe->ops + 1);
    assert_true(written > 0);
    return text;
}

static void course_begin_as(struct course *course, const struct plan_source *source,
                            const struct plan_target *target, const char *ops)
{
    uint32_t width = source->width, height = source->height, channels = source->channels;
    *course = (struct course){.hash = 0xCBF29CE484222325u};
    test_plan(&course->plan, source, target, ops);
    course->source = raster_make(width, height, channels);
    struct image image = {course->source.pixels, width, height, channels, (size_t)width * channels};
    test_fill(image, width * 31 + channels);
    course->now = raster_copy(&course->source);
    assert_true(asprintf(&course->what, "%ux%ux%u %s", width, height, channels, ops) > 0);
}

static void course_begin(struct course *course, const struct plan_source *source, bool opaque,
                         const char *ops)
{
    course_begin_as(course, source, &(struct plan_target){.opaque = opaque}, ops);
}

static void course_open(struct course *course, const struct recipe *recipe, size_t size,
                        uint32_t channels)
{
    struct plan_source source = source_of(size, channels);
    set_profile(&source, recipe->profile);
    char *ops = ops_of(recipe, &source);
    course_begin(course, &source, recipe->opaque, ops);
    free(ops);
}

static void course_close(struct course *course)
{
    plan_clear(&course->plan);
    raster_clear(&course->source);
    raster_clear(&course->now);
    raster_clear(&course->kept);
    free(course->what);
}

static const struct pass *course_next(const struct course *course)
{
    const struct plan_variant *variant = &course->plan.variants[0];
    return course->next < variant->pass_count ? &variant->passes[course->next] : NULL;
}

/* Takes the result of the next pass. As in layout.c, a branch begins with a pass that is aside, and
 * ends with one that is aside and only looks. */
static void course_advance(struct course *course, const struct rig_pass *done)
{
    const struct pass *pass = done->pass;
    if (done->values)
        hash_bytes(course, done->values, strlen(done->values));
    if (!pass->looks) {
        hash_bytes(course, done->out.pixels,
                   (size_t)done->out.width * done->out.height * done->out.channels);
        if (pass->aside && !course->kept.pixels)
            course->kept = course->now;
        else
            raster_clear(&course->now);
        course->now = done->out;
    } else if (pass->aside && course->kept.pixels) {
        raster_clear(&course->now);
        course->now = course->kept;
        course->kept = (struct raster){.pixels = NULL};
    }
    course->next++;
}

/* ---- running all sizes ---- */

static bool is_alike(const struct pass *a, const struct pass *b)
{
    return a->type == b->type && a->type->cuda_many && a->from.channels == b->from.channels &&
           a->to.channels == b->to.channels &&
           memcmp(a->params, b->params, a->type->shared_params) == 0;
}

/* Runs the first pass that is left, and up to `most` in all that are like it. Returns false if none
 * is left. */
static bool run_some(struct course *courses, size_t count, size_t most, uint32_t pattern)
{
    struct rig_pass passes[PASSES_SHARED_MAX];
    struct course *owners[PASSES_SHARED_MAX];
    size_t taken = 0;
    for (size_t i = 0; i < count && taken < most; i++) {
        const struct pass *pass = course_next(&courses[i]);
        if (!pass || (taken > 0 && !is_alike(passes[0].pass, pass)))
            continue;
        assert_false(pass->deferred);
        owners[taken] = &courses[i];
        passes[taken++] =
            (struct rig_pass){.pass = pass, .in = courses[i].now, .what = courses[i].what};
    }
    if (taken == 0)
        return false;
    pass_rig_run(passes, taken, pattern);
    for (size_t i = 0; i < taken; i++) {
        course_advance(owners[i], &passes[i]);
        free(passes[i].values);
    }
    return true;
}

/* With a sanitizer, which slows down the kernels, some of the sizes. */
static size_t size_step(void)
{
#ifdef __SANITIZE_ADDRESS__
    return test_quick() ? 13 : 5;
#endif
    return test_quick() ? 7 : 1;
}

static void run_recipe(const struct recipe *recipe, uint32_t channels)
{
    static struct course courses[SIZES];
    static uint64_t hashes[SIZES];
    for (uint32_t run = 0; run < 2; run++) {
        size_t count = 0;
        for (size_t size = 0; size < SIZES; size += size_step())
            course_open(&courses[count++], recipe, size, channels);
        while (run_some(courses, count, run == 0 ? 1 : PASSES_SHARED_MAX, run))
            ;
        for (size_t i = 0; i < count; i++) {
            if (run > 0 && courses[i].hash != hashes[i])
                fail_msg("%s: the result depends on what was in the memory", courses[i].what);
            hashes[i] = courses[i].hash;
            course_close(&courses[i]);
        }
    }
}

static bool is_ready;

static int open_all(void **state)
{
    struct picture_file p3 = profile_of_matrix(&profile_p3);
    profiles[MATRIX] = p3;
    profiles[GRAY_CURVE] = profile_of_gray(1.8);
    if (profile_has_lcms) {
        profiles[TABLE] = profile_of_table(&p3, 9);
        profiles[INKS] = profile_of_inks();
    }
    colour_cache_limit(64 * MIB); /* every size has the same tables */
    is_ready = pass_rig_open();
    return 0;
}

static int close_all(void **state)
{
    for (size_t i = 0; i < COUNT_OF(profiles); i++)
        picture_free(&profiles[i]);
    pass_rig_close();
    return 0;
}

TEST(test_passes_keep_to_their_rows_cuda)
{
    if (!is_ready)
        skip();
    for (size_t i = 0; i < COUNT_OF(recipes); i++)
        each_channels (channels)
            if (fits(&recipes[i], channels))
                run_recipe(&recipes[i], channels);
    print_message("%zu passes at %zu sizes in %zu launches, %.1f MB of guarded memory\n",
                  pass_rig_totals.passes, (SIZES + size_step() - 1) / size_step(),
                  pass_rig_totals.launches, (double)pass_rig_totals.bytes * 1e-6);
}

/* Resizes by ratios and to sizes that the recipes do not have: weights with and without room in
 * shared memory, in several parts, tiles that share chunks, several strips and blocks, and rows
 * after columns. A quick run takes each with one number of channels. */
static const struct {
    uint32_t width, height, to_width, to_height;
    const char *filter;
} resizes[] = {
    {1500, 150, 193, 20, "lanczos3"},  {1024, 300, 512, 150, "bicubic"},
    {900, 40, 880, 39, "box"},         {4000, 17, 9, 1, "lanczos3"},
    {9, 4000, 5, 3, "lanczos3"},       {3, 2000, 2, 70, "box"},
    {16384, 3, 130, 2, "bilinear"},    {2, 16384, 1, 17, "bicubic"},
    {40, 30, 700, 310, "lanczos3"},    {16384, 1, 1, 1, "lanczos3"},
    {700, 130, 1400, 130, "bicubic"},  {2100, 9, 300, 9, "lanczos3"},
    {251, 4000, 250, 167, "lanczos3"}, {701, 2420, 700, 100, "lanczos3"},
};

TEST(test_resizes_by_any_ratio_cuda)
{
    static struct course courses[COUNT_OF(resizes)];
    if (!is_ready)
        skip();
    each_channels (channels) {
        size_t count = 0;
        for (size_t i = 0; i < COUNT_OF(resizes); i++) {
            struct plan_source source = {.width = resizes[i].width,
                                         .height = resizes[i].height,
                                         .channels = channels,
                                         .orientation = 1};
            if (test_quick() && i % 3 != channels / 2)
                continue;
            course_begin(&courses[count++], &source, false,
                         text_of("[{'op':'resize','fit':'exact','width':%u,'height':%u,"
                                 "'filter':'%s'}]",
                                 resizes[i].to_width, resizes[i].to_height, resizes[i].filter));
        }
        while (run_some(courses, count, 1 + channels, channels))
            ;
        for (size_t i = 0; i < count; i++)
            course_close(&courses[i]);
    }
}

/* Passes of images with 16 bits per sample, and the conversions from and to them. Few sizes are
 * enough: each thread computes one pixel. */
static const struct {
    const char *ops;
    bool from_bytes, to_bytes; /* the source, and the result, has 8 bits */
} deep_recipes[] = {
    {.ops = "[]", .from_bytes = true},
    {.ops = "[{'op':'crop','x':1,'y':0,'width':1,'height':1}]", .to_bytes = true},
    {.ops = "['invert']", .to_bytes = true},
    {.ops = "['transpose']"},
    {.ops = "['rotate']"},
    {.ops = "[{'op':'flip'}]"},
    {.ops = "[{'op':'pad','left':3,'right':2,'top':1,'color':[1,2,3]}]"},
    {.ops = "[{'op':'pad','left':1,'bottom':2,'color':'transparent'}]"},
    {.ops =
         "[{'op':'crop','x':1,'y':0,'width':1,'height':1},{'op':'pad','left':5,'color':[7,7,7]}]"},
    {.ops = "[{'op':'resize','fit':'exact','width':50,'height':20}]"},
    {.ops = "[{'op':'resize','fit':'exact','width':9,'height':61,'filter':'bicubic'}]"},
    {.ops = "[{'op':'resize','fit':'cover','width':3,'height':2,'filter':'box'}]"},
    {.ops = "[{'op':'resize','fit':'exact','width':42,'height':3,'filter':'nearest'}]"},
};

TEST(test_deep_passes_cuda)
{
    static const uint32_t sides[][2] = {{2, 1},  {2, 9},   {31, 2}, {33, 17},
                                        {64, 9}, {97, 33}, {2, 500}};
    static struct course courses[COUNT_OF(deep_recipes) * COUNT_OF(sides)];
    static uint64_t hashes[COUNT_OF(courses)];
    if (!is_ready)
        skip();
    each_channels (channels)
        for (uint32_t run = 0; run < 2; run++) {
            size_t count = 0;
            for (size_t i = 0; i < COUNT_OF(courses); i++) {
                size_t r = i % COUNT_OF(deep_recipes);
                const uint32_t *side = sides[i / COUNT_OF(deep_recipes)];
                struct plan_source source = {.width = side[0],
                                             .height = side[1],
                                             .channels =
                                                 channels * (deep_recipes[r].from_bytes ? 1 : 2),
                                             .orientation = 1};
                course_begin_as(&courses[count++], &source,
                                &(struct plan_target){.deep = !deep_recipes[r].to_bytes},
                                deep_recipes[r].ops);
            }
            while (run_some(courses, count, 1, run))
                ;
            for (size_t i = 0; i < count; i++) {
                if (run > 0 && courses[i].hash != hashes[i])
                    fail_msg("%s: the result depends on what was in the memory", courses[i].what);
                hashes[i] = courses[i].hash;
                course_close(&courses[i]);
            }
        }
}

/* Tensors of all types and layouts, of images at aligned and other addresses. */
TEST(test_tensors_cuda)
{
    static const struct normalization normalize = {
        .given = true, .mean_count = 1, .std_count = 1, .mean = {0.4}, .std = {0.2}};
    static struct course courses[SIZES + 1];
    if (!is_ready)
        skip();
    for (int how = 0; how < 2 * 3 * 2 * 2; how++) {
        struct plan_tensor tensor = {.wanted = true,
                                     .type = (enum tensor_type)(how % 3),
                                     .layout = (enum tensor_layout)(how / 3 % 2),
                                     .rgb = how / 6 % 2};
        const char *ops = how >= 12 ? "[{'op':'crop','x':1,'y':0,'width':3,'height':1}]" : "[]";
        tensor.normalize = tensor.type == TENSOR_U8 ? NULL : &normalize;
        each_channels (channels) {
            size_t count = 0;
            struct plan_source large = source_of(0, channels);
            large.width = 16384;
            large.height = 5;
            for (size_t size = how >= 12 ? 3 : 0; size < SIZES; size += size_step()) {
                struct plan_source source = source_of(size, channels);
                course_begin_as(&courses[count++], &source, &(struct plan_target){.tensor = tensor},
                                ops);
            }
            course_begin_as(&courses[count++], &large, &(struct plan_target){.tensor = tensor},
                            ops);
            while (run_some(courses, count, how % 2 ? 1 : PASSES_SHARED_MAX, (uint32_t)how))
                ;
            for (size_t i = 0; i < count; i++)
                course_close(&courses[i]);
        }
    }
}

TEST(test_every_operation_has_a_recipe)
{
    for (size_t i = 0; i < op_count; i++) {
        char name[64];
        bool found = false;
        snprintf(name, sizeof(name), "'%s'", op_table[i]->name);
        for (size_t k = 0; k < COUNT_OF(recipes); k++)
            found = found || strstr(recipes[k].ops, name) ||
                    (strcmp(op_table[i]->name, "crop") == 0 && recipes[k].part != WHOLE);
        if (!found)
            fail_msg("add a recipe for %s", op_table[i]->name);
    }
}

TEST_MAIN(.setup = open_all, .teardown = close_all)
