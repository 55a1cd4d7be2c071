/*
 * test_siblings.c - the outputs of a job are independent: each has the same bytes and values as
 * alone in a job, and an error fails only its own output.
 *
 * The test prints its seed; GPUIMGD_TEST_SEED=N repeats it.
 */
#include <errno.h>
#include <sys/stat.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define ROUNDS 10 /* jobs with several outputs, per input file */
#define TOGETHER_MAX 8

static uint32_t random_state;

static void seed_random(void)
{
    const char *given = getenv("GPUIMGD_TEST_SEED");
    uint32_t seed = given && *given ? (uint32_t)strtoul(given, NULL, 10) : 1;
    print_message("GPUIMGD_TEST_SEED=%u\n", seed);
    random_state = seed * 2654435761u + 1;
}

/* ---- variants of outputs --------------------------------------------------------------------- */

static const struct variant {
    const char *ops, *suffix; /* suffix NULL: values only */
    bool shrinks;             /* alone, without a list, a job may decode it smaller */
} variants[] = {
    {"[]", "png", false},
    {"[]", "jpg", false},
    {"['grayscale']", "png", false},
    {"['sobel']", "jpg", false},
    {"['grayscale',{'op':'sobel','magnitude':'l2'}]", "png", false},
    {"[{'op':'grayscale','weights':[16384,32768,16384]}]", "png", false},
    {"[{'op':'crop','width':31,'height':17,'x':5,'y':3},'sobel']", "png", false},
    {"[{'op':'crop','width':31,'height':17,'x':5,'y':3}]", "png", false},
    {"['rotate',{'op':'flip'},'threshold']", "png", false},
    {"['transpose']", "png", false},
    {"['invert']", "jpg", false},
    {"['invert','grayscale']", "png", false},
    {"['otsu']", "png", false},
    {"['canny']", "png", false},
    {"['equalize','median']", "png", false},
    {"[{'op':'gamma','gamma':2},'gaussian']", "png", false},
    {"[{'op':'color_matrix','matrix':[[0,1,0,0],[0,0,1,0],[1,0,0,8]]}]", "png", false},
    {"[{'op':'resize','width':9}]", "png", true},
    {"['grayscale',{'op':'resize','width':11}]", "png", true},
    {"[{'op':'resize','width':9,'fast_shrink':false},'sobel']", "png", false},
    {"[{'op':'resize','width':9,'fast_shrink':true},'stats']", "jpg", true},
    {"['stats',{'op':'histogram','gray':true}]", NULL, false},
    {"['sobel','histogram','otsu']", NULL, false},
};
#define VARIANTS (sizeof variants / sizeof *variants)

static void put_inputs(void)
{
    enum { width = 97, height = 61 };
    static const struct {
        const char *name;
        struct picture_jpeg how;
    } jpegs[] = {
        {"420.jpg", {.width = width, .height = height}},
        {"422.jpg", {.width = width, .height = height, .subsampling = 422}},
        {"444.jpg", {.width = width, .height = height, .subsampling = 444, .quality = 99}},
        {"gray.jpg", {.width = width, .height = height, .colour = PICTURE_GRAY}},
        {"rgb.jpg", {.width = width, .height = height, .colour = PICTURE_RGB}},
        {"cmyk.jpg", {.width = width, .height = height, .colour = PICTURE_CMYK}},
        {"ycck.jpg", {.width = width, .height = height, .colour = PICTURE_YCCK}},
        {"scans.jpg", {.width = width, .height = height, .progressive = true}},
        {"turned.jpg", {.width = width, .height = height, .orientation = 6}},
        {"mirrored.jpg", {.width = width, .height = height, .orientation = 2,
                          .progressive = true, .subsampling = 422}},
    };
    for (size_t i = 0; i < sizeof jpegs / sizeof *jpegs; i++)
        world_put_picture(w, jpegs[i].name, picture_jpeg(&jpegs[i].how));
    put_png("rgb.png", .width = width, .height = height, .colour_type = 2);
    put_png("rgba.png", .width = width, .height = height, .colour_type = 6);
    put_png("palette.png", .width = width, .height = height, .colour_type = 3);
}

static const char *const inputs[] = {"420.jpg",  "422.jpg",   "444.jpg",    "gray.jpg", "rgb.jpg",
                                     "cmyk.jpg", "ycck.jpg",  "scans.jpg",  "turned.jpg",
                                     "mirrored.jpg", "rgb.png", "rgba.png", "palette.png"};
#define INPUTS (sizeof inputs / sizeof *inputs)

/* ---- jobs ------------------------------------------------------------------------------------ */

/* "FOLDER/INPUT/3.png", the output of variant 3. */
static const char *output_name(const char *folder, const char *input, size_t v)
{
    return text_of("%s/%s/%zu.%s", folder, input, v, variants[v].suffix);
}

/* Pushes a job of these variants and waits for it. The result's outputs are in the same order. */
static cJSON *run_list(const char *folder, const char *input, const size_t *which, size_t count)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    fprintf(out, "{'input':'%s','outputs':[", input);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s{", i ? "," : "");
        if (variants[which[i]].suffix)
            fprintf(out, "'output':'%s',", output_name(folder, input, which[i]));
        fprintf(out, "'ops':%s}", variants[which[i]].ops);
    }
    fprintf(out, "]}");
    fclose(out);
    cJSON *result = check_answer(w, "%s", text);
    if (strcmp(json_text(result, "status"), "done") != 0)
        print_error("of %s\n", text);
    free(text);
    return result;
}

static char *values_of(const cJSON *result, size_t output)
{
    const cJSON *values = json_at(result, text_of("outputs.%zu.values", output));
    return values ? cJSON_PrintUnformatted(values) : strdup("none");
}

/* Whether both folders have the same file for this variant. */
static bool same_file(const char *a, const char *b, const char *input, size_t v)
{
    unsigned char *bytes[2];
    size_t lengths[2];
    for (int i = 0; i < 2; i++) {
        bytes[i] = text_file_bytes(out_path(output_name(i ? b : a, input, v)), &lengths[i]);
        assert_non_null(bytes[i]);
    }
    bool same = lengths[0] == lengths[1] && memcmp(bytes[0], bytes[1], lengths[0]) == 0;
    free(bytes[0]);
    free(bytes[1]);
    return same;
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* Draws some variants in random order, without repetition; returns their number. */
static size_t draw_variants(size_t which[VARIANTS])
{
    for (size_t i = 0; i < VARIANTS; i++)
        which[i] = i;
    size_t count = 2 + picture_random(&random_state) % (TOGETHER_MAX - 1);
    for (size_t i = 0; i < count; i++) {
        size_t other = i + picture_random(&random_state) % (VARIANTS - i), held = which[i];
        which[i] = which[other];
        which[other] = held;
    }
    return count;
}

static void check_together(const char *input, char *const *values, unsigned round)
{
    size_t which[VARIANTS], count = draw_variants(which);
    const char *folder = text_of("round%u", round);
    cJSON *result = run_list(folder, input, which, count);
    for (size_t i = 0; i < count; i++) {
        size_t v = which[i];
        char *got = values_of(result, i);
        bool same = strcmp(got, values[v]) == 0 &&
                    (!variants[v].suffix || same_file("alone", folder, input, v));
        if (!same) {
            print_error("%s with %s differs together with", input, variants[v].ops);
            for (size_t k = 0; k < count; k++)
                print_error(" %s", k == i ? "" : variants[which[k]].ops);
            print_error("\n");
        }
        assert_true(same);
        free(got);
    }
    check_done(result);
}

/* Without a list the output must be the same as in a list of one, unless it is decoded smaller. */
static void check_single(const char *input, size_t v)
{
    if (!variants[v].suffix || variants[v].shrinks)
        return;
    check_done(check_answer(w, "{'input':'%s','output':'%s','ops':%s}", input,
                            output_name("single", input, v), variants[v].ops));
    if (!same_file("alone", "single", input, v))
        fail_msg("%s with %s: a list of one differs from no list", input, variants[v].ops);
}

TEST(test_alone_and_together)
{
    need_engine();
    put_inputs();
    for (size_t f = 0; f < INPUTS; f++) {
        char *values[VARIANTS];
        for (size_t v = 0; v < VARIANTS; v++) {
            cJSON *result = run_list("alone", inputs[f], &v, 1);
            values[v] = values_of(result, 0);
            check_done(result);
            check_single(inputs[f], v);
        }
        for (unsigned round = 0; round < ROUNDS; round++)
            check_together(inputs[f], values, round);
        for (size_t v = 0; v < VARIANTS; v++)
            free(values[v]);
    }
}

/* Creates a file where an output needs a folder, and a folder that is not writable. */
static void put_obstacles(void)
{
    world_put(w, "../out/file", "x", 1);
    assert_true(mkdir(out_path("locked"), 0555) == 0 || errno == EEXIST);
}

static void check_errors(const cJSON *result, const char *const *codes, size_t count)
{
    assert_int_equal(cJSON_GetArraySize(json_at(result, "outputs")), count);
    for (size_t i = 0; i < count; i++) {
        const char *place = text_of("outputs.%zu.error.code", i);
        assert_string_equal(json_text(result, place), codes[i]);
        place = text_of("outputs.%zu.bytes", i);
        assert_int_equal(json_number(result, place) > 0, codes[i][0] == '\0');
    }
}

/* Other outputs have invalid names, parameters or sizes. */
TEST(test_failures_stay_alone)
{
    static const char *const codes[] = {"bad_job", "",       "unknown_op",      "bad_op",
                                        "bad_op",  "",       "bad_op",          "image_too_large",
                                        "path_refused", "write_failed"};
    need_engine();
    put_inputs();
    put_obstacles();
    check_done(check_answer(w, "{'input':'420.jpg','outputs':[{'output':'one.png','ops':["
                               "'sobel']}]}"));
    cJSON *result = check_answer(
        w, "{'input':'420.jpg','outputs':["
           "{'output':{'path':'a.png','format':'gif'}},"
           "{'output':'b.png','ops':['sobel']},"
           "{'output':'c.png','ops':['edges']},"
           "{'output':'d.png','ops':['gamma']},"
           "{'output':'e.png','ops':[{'op':'crop','width':98,'height':9}]},"
           "{'output':'f.png','ops':['transpose']},"
           "{'output':'g.png','ops':['rotate',{'op':'crop','width':62,'height':9}]},"
           "{'output':'h.png','ops':[{'op':'resize','width':60000,'enlarge':true}]},"
           "{'output':'file/i.png'},"
           "{'output':'locked/j.png'}]}");
    check_errors(result, codes, 10);
    assert_non_null(strstr(json_text(result, "outputs.0.error.message"),
                           "outputs[0].output.format is \"gif\""));
    assert_non_null(strstr(json_text(result, "outputs.4.error.message"),
                           "outputs[4].ops[0] crop: width is 98"));
    assert_non_null(strstr(json_text(result, "outputs.6.error.message"),
                           "outputs[6].ops[1] crop: width is 62"));
    check_ended(result, "dead", "write_failed"); /* only this error is retried */
    check_output(w, "b.png", world_load_out(w, "one.png"), 0);
    struct raster colour = world_load_in(w, "420.jpg", RASTER_COLOUR), turned;
    turned = raster_make(colour.height, colour.width, 3);
    for (uint32_t y = 0; y < turned.height; y++)
        for (uint32_t x = 0; x < turned.width; x++)
            memcpy(raster_at(&turned, x, y), raster_at(&colour, y, x), 3);
    check_output(w, "f.png", turned, 0);
    raster_clear(&colour);
}

/* The input's format applies to the output "two", and has no key `compression`. */
TEST(test_refused_after_reading)
{
    static const char *const codes[] = {"", "bad_job", ""};
    need_engine();
    put_inputs();
    cJSON *result = check_answer(
        w, "{'input':'420.jpg','outputs':[{'output':'one','ops':['sobel']},"
           "{'output':{'path':'two','compression':1},'ops':['invert']},"
           "{'output':{'key':'gpuimgd:img:3','quality':10},'ops':['transpose']}]}");
    check_errors(result, codes, 3);
    assert_non_null(strstr(json_text(result, "outputs.1.error.message"),
                           "outputs[1].output.compression is a key of png, but \"two\" is "
                           "written as jpeg"));
    check_ended(result, "failed", "bad_job");
}

/* After a retryable error the other outputs exist, too, when the job becomes a dead letter. */
TEST(test_unwritable_beside_good)
{
    static const char *const codes[] = {"write_failed", "", ""};
    need_engine();
    put_inputs();
    put_obstacles();
    redis_integer(w->client, "DEL %s:img:good", w->ns);
    cJSON *result = check_answer(w, "{'input':'rgb.png','outputs':[{'output':'locked/x.png'},"
                                    "{'output':'good.png'},{'output':{'key':'%s:img:good',"
                                    "'ttl_s':100}}]}", w->ns);
    check_errors(result, codes, 3);
    assert_int_equal(redis_integer(w->client, "STRLEN %s:img:good", w->ns),
                     (long long)json_number(result, "outputs.2.bytes"));
    assert_in_range(redis_integer(w->client, "TTL %s:img:good", w->ns), 90, 100);
    assert_non_null(strstr(json_text(result, "outputs.0.error.message"), "locked/x.png"));
    check_ended(result, "dead", "write_failed");
    check_output(w, "good.png", world_load_in(w, "rgb.png", RASTER_COLOUR), 0);
}

/* If all outputs fail, the job's error is that of the first. */
TEST(test_none_is_left)
{
    static const char *const codes[] = {"bad_op", "image_too_large"};
    need_engine();
    put_inputs();
    cJSON *result = check_answer(
        w, "{'input':'420.jpg','outputs':[{'output':'e.png','ops':[{'op':'crop','width':98,"
           "'height':9}]},{'output':'h.png','ops':[{'op':'resize','width':60000,"
           "'enlarge':true}]}]}");
    check_errors(result, codes, 2);
    check_failed(result, "bad_op", "outputs[0].ops[0] crop", NULL);
}

ENGINES_MAIN(.fill = seed_random, .unprivileged = true)
