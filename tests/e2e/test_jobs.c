/*
 * test_jobs.c - valid jobs from push to result on each engine; pixels are compared bit for bit.
 */
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/fixtures/reference.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static const uint8_t white[3] = {255, 255, 255};

/* ---- the first job --------------------------------------------------------------------------- */

TEST(test_first_job)
{
    need_engine();
    world_put_photo(w, "cat.jpg", 640, 427);
    cJSON *result = check_answer(w, "{'input':'cat.jpg','output':'cat-edges.png',"
                                    "'ops':['grayscale','sobel']}");
    check_message(result);
    check_has(result, "{'input.format':'jpeg','input.width':640,'input.height':427,"
                      "'outputs.0.path':'cat-edges.png','outputs.0.format':'png',"
                      "'outputs.0.width':640,'outputs.0.height':427,'outputs.1':null,'attempt':1}");
    assert_true(json_number(result, "job") >= 1);
    assert_memory_equal(json_text(result, "engine"), world_engine, strlen(world_engine));
    const char *pid = text_of(":%ld", (long)w->daemons[0].pid);
    assert_non_null(strstr(json_text(result, "daemon"), pid));
    assert_true(json_number(result, "ms.total") >= json_number(result, "ms.decode"));

    struct stat in, out;
    assert_int_equal(stat(in_path("cat.jpg"), &in), 0);
    assert_int_equal(stat(out_path("cat-edges.png"), &out), 0);
    assert_true(json_number(result, "input.bytes") == (double)in.st_size);
    assert_true(json_number(result, "outputs.0.bytes") == (double)out.st_size);
    assert_int_equal(out.st_mode & 07777, 0644);
    check_done(result);

    struct raster luma = world_load_in(w, "cat.jpg", RASTER_LUMA);
    check_output(w, "cat-edges.png",
                 reference_sobel(&luma, REFERENCE_HALF, REFERENCE_REFLECT101), 0);
    raster_clear(&luma);
}

/* ---- every kind of input through every chain ------------------------------------------------- */

struct chain {
    const char *json;
    bool luma;                 /* starts with gray by the default weights */
    bool gray, sobel;
    const uint32_t *weights;
    enum reference_magnitude magnitude;
    enum reference_border border;
};

static const uint32_t own_weights[3] = {16384, 32768, 16384};
static const struct chain chains[] = {
    {"[]", false, false, false, NULL, 0, 0},
    {"['grayscale']", true, true, false, NULL, 0, 0},
    {"['sobel']", true, true, true, NULL, 0, 0},
    {"['grayscale','sobel']", true, true, true, NULL, 0, 0},
    {"[{'op':'grayscale'},{'op':'sobel','magnitude':'half','border':'reflect101'}]", true, true,
     true, NULL, REFERENCE_HALF, REFERENCE_REFLECT101},
    {"[{'op':'sobel','magnitude':'l1'}]", true, true, true, NULL, REFERENCE_L1, 0},
    {"[{'op':'sobel','magnitude':'l2'}]", true, true, true, NULL, REFERENCE_L2, 0},
    {"['grayscale',{'op':'sobel','magnitude':'l2','border':'replicate'}]", true, true, true, NULL,
     REFERENCE_L2, REFERENCE_REPLICATE},
    {"[{'op':'sobel','border':'replicate'}]", true, true, true, NULL, 0, REFERENCE_REPLICATE},
    {"[{'op':'sobel','border':'zero'}]", true, true, true, NULL, 0, REFERENCE_ZERO},
    {"[{'op':'grayscale','weights':[16384,32768,16384]}]", false, true, false, own_weights, 0, 0},
    {"[{'op':'grayscale','weights':[16384,32768,16384]},{'op':'sobel','magnitude':'l1'}]", false,
     true, true, own_weights, REFERENCE_L1, 0},
};
#define CHAINS (sizeof chains / sizeof *chains)

static struct raster chain_expected(const struct chain *chain, const char *input, int orientation)
{
    struct raster source = world_load_in(w, input, chain->luma ? RASTER_LUMA : RASTER_COLOUR);
    if (!source.pixels)
        return source;
    struct raster result = reference_orient(&source, orientation);
    raster_clear(&source);
    if (chain->gray) {
        struct raster gray = reference_gray(&result, chain->weights, white);
        raster_clear(&result);
        result = gray;
    }
    if (chain->sobel) {
        struct raster edges = reference_sobel(&result, chain->magnitude, chain->border);
        raster_clear(&result);
        result = edges;
    }
    return result;
}

/* Pushes one job per chain and checks each result by its id; `limit` as in raster_differ. */
static void run_chains(const char *input, int orientation, int limit)
{
    for (size_t i = 0; i < CHAINS; i++)
        world_push(w, "{'id':'%zu','input':'%s','output':'chains/%s.%zu.png','ops':%s}", i, input,
                   input, i, chains[i].json);
    for (size_t i = 0; i < CHAINS; i++) {
        cJSON *result = check_next(w);
        const struct chain *chain = &chains[atoi(json_text(result, "id")) % (int)CHAINS];
        const char *name = text_of("%s", json_text(result, "outputs.0.path"));
        if (strcmp(json_text(result, "status"), "done") != 0)
            print_error("%s with %s:\n", input, chain->json);
        check_message(result);
        check_done(result);
        struct raster expected = chain_expected(chain, input, orientation);
        assert_non_null(expected.pixels);
        check_output(w, name, expected, limit);
    }
}

TEST(test_jpeg_inputs)
{
    need_engine();
    static const struct {
        const char *name;
        struct picture_jpeg how;
        int limit;
    } inputs[] = {
        {"420.jpg", {.width = 97, .height = 61}, 0},
        {"444.jpg", {.width = 64, .height = 48, .subsampling = 444, .quality = 95}, 0},
        {"422.jpg", {.width = 130, .height = 33, .subsampling = 422}, 0},
        {"gray.jpg", {.width = 97, .height = 61, .colour = PICTURE_GRAY}, 0},
        {"rgb.jpg", {.width = 97, .height = 61, .colour = PICTURE_RGB}, 0},
        {"progressive.jpg", {.width = 97, .height = 61, .progressive = true}, 0},
        {"scans.jpg", {.width = 97, .height = 61, .scans = 40}, 0},
        {"restart.jpg", {.width = 97, .height = 61, .restart_rows = 1}, 0},
        {"one.jpg", {.width = 1, .height = 1}, 0},
        {"row.jpg", {.width = 75, .height = 1}, 0},
        {"column.jpg", {.width = 1, .height = 75}, 0},
        {"two.jpg", {.width = 2, .height = 2}, 0},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        world_put_picture(w, inputs[i].name, picture_jpeg(&inputs[i].how));
        run_chains(inputs[i].name, 1, inputs[i].limit);
    }
}

/* R = C * K / 255 of inverted inks. The decoder may round either way, so one level of difference is
 * allowed, and only colour and gray are compared: sobel would multiply it. */
TEST(test_cmyk_inputs)
{
    need_engine();
    for (int ycck = 0; ycck < 2; ycck++) {
        put_jpeg("cmyk.jpg", .width = 97, .height = 61,
                 .colour = ycck ? PICTURE_YCCK : PICTURE_CMYK);
        check_done(check_answer(w, "{'input':'cmyk.jpg','output':'cmyk.png'}"));
        check_output(w, "cmyk.png", world_load_in(w, "cmyk.jpg", RASTER_COLOUR), 1);
        check_done(check_answer(w, "{'input':'cmyk.jpg','output':'k.png','ops':['grayscale']}"));
        check_output(w, "k.png", chain_expected(&chains[1], "cmyk.jpg", 1), 1);
        /* Gray and sobel of our own colour output are exact again. */
        struct raster rgb = world_load_out(w, "cmyk.png");
        struct raster gray = reference_gray(&rgb, NULL, white);
        check_output(w, "k.png", raster_copy(&gray), 0);
        check_done(check_answer(w, "{'input':'cmyk.jpg','output':'e.png','ops':['sobel']}"));
        check_output(w, "e.png", reference_sobel(&gray, REFERENCE_HALF, REFERENCE_REFLECT101), 0);
        raster_clear(&rgb);
        raster_clear(&gray);
    }
}

TEST(test_png_inputs)
{
    need_engine();
    static const struct {
        const char *name;
        struct picture_png how;
    } inputs[] = {
        {"gray.png", {.width = 97, .height = 61}},
        {"bits1.png", {.width = 97, .height = 61, .bit_depth = 1}},
        {"bits4.png", {.width = 97, .height = 61, .bit_depth = 4}},
        {"gray16.png", {.width = 97, .height = 61, .bit_depth = 16}},
        {"gray-trns.png", {.width = 97, .height = 61, .transparent = true}},
        {"rgb.png", {.width = 97, .height = 61, .colour_type = 2}},
        {"rgb-trns.png", {.width = 97, .height = 61, .colour_type = 2, .transparent = true}},
        {"rgb16.png", {.width = 97, .height = 61, .colour_type = 2, .bit_depth = 16}},
        {"palette.png", {.width = 97, .height = 61, .colour_type = 3}},
        {"palette-trns.png", {.width = 97, .height = 61, .colour_type = 3, .transparent = true}},
        {"ga.png", {.width = 97, .height = 61, .colour_type = 4}},
        {"rgba.png", {.width = 97, .height = 61, .colour_type = 6}},
        {"rgba16.png", {.width = 97, .height = 61, .colour_type = 6, .bit_depth = 16}},
        {"adam7.png", {.width = 97, .height = 61, .colour_type = 6, .interlaced = true}},
        {"adam7-16.png", {.width = 5, .height = 3, .colour_type = 2, .bit_depth = 16,
                          .interlaced = true}},
        {"one.png", {.width = 1, .height = 1, .colour_type = 2}},
        {"row.png", {.width = 300, .height = 1, .colour_type = 6}},
        {"column.png", {.width = 1, .height = 300}},
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        world_put_picture(w, inputs[i].name, picture_png(&inputs[i].how));
        run_chains(inputs[i].name, 1, 0);
    }
}

/* Larger than any tile of a kernel and any run of a vector loop, and no multiple of them. */
TEST(test_large_picture)
{
    need_engine();
    world_put_photo(w, "large.jpg", 2047, 1531);
    run_chains("large.jpg", 1, 0);
}

TEST(test_orientations)
{
    need_engine();
    for (int orientation = 1; orientation <= 8; orientation++) {
        const char *name = text_of("turned%d.jpg", orientation);
        put_jpeg(name, .width = 45, .height = 31, .orientation = orientation);
        run_chains(name, orientation, 0);
    }
    /* With orient = false the stored pixels are not rotated. */
    check_done(check_answer(w, "{'input':'turned6.jpg','output':'stored.png','orient':false}"));
    check_output(w, "stored.png", world_load_in(w, "turned6.jpg", RASTER_COLOUR), 0);
    /* The output is upright and has no EXIF orientation. */
    check_done(check_answer(w, "{'input':'turned6.jpg','output':'upright.jpg'}"));
    size_t length = 0;
    unsigned char *bytes = text_file_bytes(out_path("upright.jpg"), &length);
    assert_non_null(bytes);
    assert_null(memmem(bytes, length, "Exif", 4));
    free(bytes);
}

/* ---- output formats -------------------------------------------------------------------------- */

static double out_size(const char *name)
{
    struct stat st;
    double size = stat(out_path(name), &st) ? -1 : (double)st.st_size;
    return size;
}

TEST(test_output_formats)
{
    need_engine();
    put_jpeg("f.jpg", .width = 320, .height = 200, .subsampling = 444);
    struct raster luma = world_load_in(w, "f.jpg", RASTER_LUMA);
    struct raster edges = reference_sobel(&luma, REFERENCE_HALF, REFERENCE_REFLECT101);

    /* A gray JPEG depends only on the quality: it must equal libjpeg's file of the reference. */
    size_t length;
    uint8_t *bytes = raster_to_jpeg(&edges, 85, &length);
    check_done(check_answer(w, "{'input':'f.jpg','output':'e.jpg','ops':['sobel']}"));
    check_output(w, "e.jpg", raster_decode(bytes, length, RASTER_COLOUR), 0);
    free(bytes);

    check_done(check_answer(w, "{'input':'f.jpg','output':{'path':'q95.JPEG','quality':95}}"));
    check_output_near(w, "q95.JPEG", world_load_in(w, "f.jpg", RASTER_COLOUR), 30);
    check_done(check_answer(w, "{'input':'f.jpg','output':{'path':'q20.jpg','quality':20}}"));
    assert_true(out_size("q20.jpg") < out_size("q95.JPEG") / 2);

    check_done(check_answer(w, "{'input':'f.jpg','output':{'path':'p.jpg','progressive':true}}"));
    struct raster progressive = world_load_out(w, "p.jpg");
    assert_non_null(progressive.pixels);
    assert_true(progressive.progressive);
    raster_clear(&progressive);

    check_done(check_answer(w, "{'input':'f.jpg','output':{'path':'c0.png','compression':0}}"));
    check_done(check_answer(w, "{'input':'f.jpg','output':{'path':'c9.png','compression':9}}"));
    assert_true(out_size("c9.png") < out_size("c0.png"));
    check_output(w, "c9.png", world_load_in(w, "f.jpg", RASTER_COLOUR), 0);
    put_png("c9.png", .width = 32, .height = 20);

    /* The format is the named one, else the suffix's, else the input's. Folders are created. */
    check_done(check_answer(w, "{'input':'f.jpg','output':"
                               "{'path':'deep/er/x.bin','format':'png'}}"));
    check_output(w, "deep/er/x.bin", world_load_in(w, "f.jpg", RASTER_COLOUR), 0);
    cJSON *result = check_answer(w, "{'input':'f.jpg','output':'nosuffix'}");
    assert_string_equal(json_text(result, "outputs.0.format"), "jpeg");
    check_done(result);
    result = check_answer(w, "{'input':'c9.png','outputs':["
                             "{'output':{'path':'x.jpeg','format':'jpg','quality':50}},"
                             "{'output':{'path':'x.bin','format':'jpg'}},"
                             "{'output':{'path':'y.v2','compression':1}}]}");
    for (int i = 0; i < 3; i++) {
        const char *place = text_of("outputs.%d.format", i);
        assert_string_equal(json_text(result, place), i < 2 ? "jpeg" : "png");
    }
    check_done(result);
    raster_clear(&luma);
    raster_clear(&edges);
}

/* The bit depth and the colour type in the header of an output. */
static void check_header(const char *name, int depth, int type)
{
    uint8_t head[26] = {0};
    FILE *file = fopen(out_path(name), "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    if (head[24] != depth || head[25] != type)
        fail_msg("%s has colour type %d with %d bits", name, head[25], head[24]);
}

static size_t count_colours(const struct raster *raster)
{
    uint32_t seen[256];
    size_t count = 0, pixels = (size_t)raster->width * raster->height;
    for (size_t i = 0, at; i < pixels && count < 256; i++) {
        uint32_t colour = 0;
        memcpy(&colour, raster->pixels + i * raster->channels, raster->channels);
        for (at = 0; at < count && seen[at] != colour; at++) {
        }
        if (at == count)
            seen[count++] = colour;
    }
    return count;
}

/* A palette is exact if it can be; after otsu and threshold there is 1 bit per pixel. */
TEST(test_few_bits)
{
    enum { gray = 0, palette = 3 };
    need_engine();
    put_jpeg("f.jpg", .width = 333, .height = 200);
    put_png("few.png", .width = 77, .height = 50, .colour_type = 3, .bit_depth = 4,
            .transparent = true);
    check_done(check_answer(
        w, "{'input':'f.jpg','outputs':[{'output':{'path':'p9.png','colors':9}},"
           "{'output':{'path':'p256.png','colors':256,'compression':9}},"
           "{'output':{'path':'t.png','compression':6},'ops':['threshold']},"
           "{'output':'o.png','ops':['otsu',{'op':'rotate','angle':90},'stats']},"
           "{'output':'i.png','ops':['threshold','invert']},"
           "{'output':{'key':'gpuimgd:img:k','format':'png','colors':2},'ops':['otsu']}]}"));
    check_header("p9.png", 4, palette);
    check_header("p256.png", 8, palette);
    check_header("t.png", 1, gray);
    check_header("o.png", 1, gray);
    check_header("i.png", 8, gray);
    struct raster nine = world_load_out(w, "p9.png");
    assert_in_range(count_colours(&nine), 5, 9);
    raster_clear(&nine);
    check_output(w, "p9.png", world_load_in(w, "f.jpg", RASTER_COLOUR), 128);
    check_output(w, "p256.png", world_load_in(w, "f.jpg", RASTER_COLOUR), 64);

    struct raster wanted = world_load_in(w, "f.jpg", RASTER_LUMA);
    for (size_t i = 0; i < (size_t)wanted.width * wanted.height; i++)
        wanted.pixels[i] = wanted.pixels[i] > 127 ? 255 : 0;
    check_output(w, "t.png", raster_copy(&wanted), 0);
    for (size_t i = 0; i < (size_t)wanted.width * wanted.height; i++)
        wanted.pixels[i] = (uint8_t)(255 - wanted.pixels[i]);
    check_output(w, "i.png", wanted, 0);

    check_done(check_answer(w, "{'input':'few.png','output':{'path':'x.png','colors':16}}"));
    check_header("x.png", 4, palette);
    check_output(w, "x.png", world_load_in(w, "few.png", RASTER_COLOUR), 0);
}

TEST(test_background)
{
    need_engine();
    static const uint8_t orange[3] = {250, 120, 10};
    put_png("glass.png", .width = 120, .height = 90, .colour_type = 6);
    struct raster in = world_load_in(w, "glass.png", RASTER_COLOUR);
    check_done(check_answer(w, "{'input':'glass.png','output':'g.png','ops':['grayscale'],"
                               "'background':[250,120,10]}"));
    check_output(w, "g.png", reference_gray(&in, NULL, orange), 0);
    check_done(check_answer(w, "{'input':'glass.png','output':{'path':'g.jpg','quality':100},"
                               "'background':[250,120,10]}"));
    check_output_near(w, "g.jpg", reference_flatten(&in, orange), 25);
    /* PNG keeps alpha and ignores the background. */
    check_done(check_answer(w, "{'input':'glass.png','output':'kept.png','background':[9,9,9]}"));
    check_output(w, "kept.png", raster_copy(&in), 0);
    raster_clear(&in);
}

TEST(test_icc_profiles)
{
    need_engine();
    struct picture_file rgb = picture_icc(560, "RGB "), gray = picture_icc(560, "GRAY");
    put_jpeg("p.jpg", .width = 40, .height = 30, .icc = rgb.bytes, .icc_bytes = 560);
    put_png("p.png", .width = 40, .height = 30, .colour_type = 2, .icc = rgb.bytes,
            .icc_bytes = 560);
    put_jpeg("k.jpg", .width = 40, .height = 30, .colour = PICTURE_GRAY, .icc = gray.bytes,
             .icc_bytes = 560);
    for (int i = 0; i < 2; i++) {
        const char *from = i ? "p.png" : "p.jpg";
        check_done(check_answer(w, "{'input':'%s','outputs':[{'output':'a.jpg'},{'output':'a.png'},"
                                   "{'output':'b.png','ops':['grayscale']}]}", from));
        assert_int_equal(icc_bytes_of("a.jpg"), 560);
        assert_int_equal(icc_bytes_of("a.png"), 560);
        assert_int_equal(icc_bytes_of("b.png"), 0);
    }
    check_done(check_answer(w, "{'input':'k.jpg','output':'k.png'}"));
    assert_int_equal(icc_bytes_of("k.png"), 0);
    picture_free(&rgb);
    picture_free(&gray);
}

/* ---- several outputs ------------------------------------------------------------------------- */

TEST(test_several_outputs)
{
    need_engine();
    world_put_photo(w, "s.jpg", 300, 200);
    cJSON *result = check_answer(w, "{'input':'s.jpg','outputs':["
                                    "{'output':'s/gray.png','ops':['grayscale']},"
                                    "{'output':'s/edges.png','ops':['grayscale','sobel']},"
                                    "{'output':{'path':'s/l2.png'},"
                                    "'ops':[{'op':'sobel','magnitude':'l2'}]}]}");
    check_message(result);
    assert_int_equal(cJSON_GetArraySize(json_at(result, "outputs")), 3);
    check_has(result, "{'outputs.0.path':'s/gray.png','outputs.2.path':'s/l2.png'}");
    check_done(result);
    struct raster luma = world_load_in(w, "s.jpg", RASTER_LUMA);
    check_output(w, "s/gray.png", raster_copy(&luma), 0);
    check_output(w, "s/edges.png", reference_sobel(&luma, REFERENCE_HALF, REFERENCE_REFLECT101), 0);
    check_output(w, "s/l2.png", reference_sobel(&luma, REFERENCE_L2, REFERENCE_REFLECT101), 0);

    /* Gray is the Y channel even beside colour outputs. Custom weights apply to the colours. */
    check_done(check_answer(w, "{'input':'s.jpg','outputs':[{'output':'s/copy.png','ops':[]},"
                               "{'output':'s/gray2.png','ops':['grayscale']},"
                               "{'output':'s/own.png','ops':[{'op':'grayscale',"
                               "'weights':[16384,32768,16384]}]}]}"));
    struct raster colour = world_load_in(w, "s.jpg", RASTER_COLOUR);
    check_output(w, "s/gray2.png", luma, 0);
    check_output(w, "s/own.png", reference_gray(&colour, own_weights, white), 0);
    check_output(w, "s/copy.png", colour, 0);
}

TEST(test_one_of_several_fails)
{
    need_engine();
    world_put_photo(w, "s.jpg", 80, 50);
    assert_int_equal(symlink("/tmp", out_path("elsewhere")), 0);
    cJSON *result = check_answer(w, "{'input':'s.jpg','outputs':["
                                    "{'output':'half/good.png','ops':['sobel']},"
                                    "{'output':'elsewhere/bad.png','ops':['sobel']}]}");
    assert_string_equal(json_text(result, "outputs.0.path"), "half/good.png");
    assert_true(json_number(result, "outputs.0.bytes") > 0);
    assert_false(cJSON_IsObject(json_at(result, "outputs.0.error")));
    assert_string_equal(json_text(result, "outputs.1.path"), "elsewhere/bad.png");
    assert_string_equal(json_text(result, "outputs.1.error.code"), "path_refused");
    check_failed(result, "path_refused", "elsewhere", NULL);
    check_output(w, "half/good.png", chain_expected(&chains[2], "s.jpg", 1), 0);
}

/* ---- id, meta, keys and reply lists ---------------------------------------------------------- */

TEST(test_keys)
{
    need_engine();
    struct picture_file file = make_jpeg(.width = 90, .height = 70);
    struct raster luma = raster_decode(file.bytes, file.length, RASTER_LUMA);
    freeReplyObject(redis_command(w->client, "SET gpuimgd:img:a %b", file.bytes, file.length));
    cJSON *result = check_answer(
        w, "{'input':{'key':'gpuimgd:img:a'},"
           "'output':{'key':'gpuimgd:img:b','format':'png','ttl_s':100},'ops':['sobel']}");
    check_message(result);
    assert_string_equal(json_text(result, "outputs.0.key"), "gpuimgd:img:b");
    assert_true(json_number(result, "input.bytes") == (double)file.length);
    double bytes = json_number(result, "outputs.0.bytes");
    check_done(result);
    redisReply *value = redis_command(w->client, "GET gpuimgd:img:b");
    assert_int_equal(value->type, REDIS_REPLY_STRING);
    assert_true(bytes == (double)value->len);
    check_pixels("gpuimgd:img:b", raster_decode((uint8_t *)value->str, value->len, RASTER_COLOUR),
                 reference_sobel(&luma, REFERENCE_HALF, REFERENCE_REFLECT101), 0);
    freeReplyObject(value);
    long long ttl = redis_integer(w->client, "TTL gpuimgd:img:b");
    assert_in_range(ttl, 90, 100);

    /* From a file to a key without expiry, and from a key to a file. */
    world_put(w, "k.jpg", file.bytes, file.length);
    check_done(check_answer(w, "{'input':'k.jpg','output':{'key':'gpuimgd:img:c'}}"));
    assert_int_equal(redis_integer(w->client, "TTL gpuimgd:img:c"), -1);
    check_done(check_answer(w, "{'input':{'key':'gpuimgd:img:a'},'output':'from-key.png',"
                               "'ops':['grayscale']}"));
    check_output(w, "from-key.png", luma, 0);
    picture_free(&file);
}

TEST(test_reply_to_and_id)
{
    need_engine();
    put_png("r.png", .width = 20, .height = 10);
    world_push(w, "{'id':'order-7','reply_to':'gpuimgd:reply:me','input':'r.png',"
                  "'output':'r.jpg'}");
    cJSON *result = world_result_from(w, "gpuimgd:reply:me", 20);
    assert_non_null(result);
    assert_string_equal(json_text(result, "id"), "order-7");
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    const char *kept = redis_text(w->client, "GET gpuimgd:result:order-7");
    assert_non_null(kept);
    cJSON *again = cJSON_Parse(kept);
    assert_true(cJSON_Compare(result, again, true));
    cJSON_Delete(again);
    check_done(result);
    assert_in_range(redis_integer(w->client, "TTL gpuimgd:result:order-7"), 3500, 3600);

    /* A reply list that nobody reads expires. */
    world_push(w, "{'id':'order-8','reply_to':'gpuimgd:reply:me','input':'r.png',"
                  "'output':'r.jpg'}");
    assert_true(world_until(w, 20, 1, "LLEN gpuimgd:reply:me"));
    assert_in_range(redis_integer(w->client, "TTL gpuimgd:reply:me"), 3500, 3600);

    /* A failed job has its result in the same places. */
    world_push(w, "{'id':'order-9','reply_to':'gpuimgd:reply:you','input':'none.png',"
                  "'output':'r.jpg'}");
    result = world_result_from(w, "gpuimgd:reply:you", 20);
    assert_non_null(result);
    check_failed(result, "input_missing", "none.png", NULL);
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:result:order-9"), 1);
}

TEST(test_meta_and_pushed)
{
    need_engine();
    static const char meta[] = "{\"a\":[1,2.5,-0.125,\"\\u00fc \\\"quoted\\\"\",null],\"b\":"
                               "{\"c\":true,\"d\":{}},\"big\":12345678901}";
    put_png("m.png", .width = 20, .height = 10);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char job[512];
    int length = snprintf(job, sizeof job,
                          "{\"input\":\"m.png\",\"output\":\"m.jpg\",\"meta\":%s,\"pushed\":%.3f}",
                          meta, (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - 2.0);
    world_push_bytes(w, job, (size_t)length);
    cJSON *result = check_next(w), *wanted = cJSON_Parse(meta);
    assert_true(cJSON_Compare(json_at(result, "meta"), wanted, true));
    double queue_ms = json_number(result, "ms.queue");
    if (!(queue_ms >= 1990 && queue_ms < 2000 + patience(5000)))
        print_error("ms.queue is %g\n", queue_ms);
    assert_true(queue_ms >= 1990 && queue_ms < 2000 + patience(5000));
    check_message(result);
    check_done(result);
    cJSON_Delete(wanted);
}

TEST(test_rpush_goes_first)
{
    need_engine();
    put_png("o.png", .width = 20, .height = 10);
    strcpy(w->ns, "order"); /* a separate queue, filled before its daemon starts */
    for (int i = 1; i <= 3; i++)
        world_push(w, "{'id':'%d','input':'o.png','output':'o%d.png'}", i, i);
    redis_integer(w->client, "RPUSH order:jobs %s",
                  "{\"id\":\"0\",\"input\":\"o.png\",\"output\":\"o0.png\"}");
    struct process *one = start_ready(1, "--workers=1", "--inflight=1");
    for (int i = 0; i <= 3; i++) {
        cJSON *result = check_next(w);
        assert_int_equal(atoi(json_text(result, "id")), i);
        check_done(result);
    }
    check_stop(one);
    check_clean(w);
    strcpy(w->ns, "gpuimgd");
}

/* After tiny jobs and an idle moment, larger ones come: few are fetched ahead, so that a more
 * urgent one need not wait for them. */
TEST(test_few_jobs_ahead_after_idle)
{
    need_engine();
    put_png("tiny.png", .width = 8, .height = 8);
    put_png("large.png", .width = 500, .height = 500);
    strcpy(w->ns, "ahead");
    struct process *one = start_ready(1, "--workers=4");
    for (int i = 0; i < 100; i++)
        world_push(w, "{'input':'tiny.png','output':'t%d.png'}", i);
    for (int i = 0; i < 100; i++)
        check_done(check_next(w));
    for (int i = 0; i < 80; i++)
        world_push(w, "{'input':'large.png','output':{'path':'l%d.png','compression':9}}", i);
    check_done(check_next(w));
    assert_in_range(redis_integer(w->client, "ZCARD ahead:lease"), 0, 30);
    for (int i = 1; i < 80; i++)
        check_done(check_next(w));
    check_stop(one);
    check_clean(w);
    strcpy(w->ns, "gpuimgd");
}

/* Two hundred jobs in flight: each has its own result, and the daemon leaves nothing behind. */
TEST(test_many_then_stop)
{
    need_engine();
    world_put_photo(w, "p.jpg", 160, 120);
    push_jobs(0, 200);
    take_jobs(200);
    check_output(w, "0.png", chain_expected(&chains[2], "p.jpg", 1), 0);
    check_output(w, "199.png", chain_expected(&chains[2], "p.jpg", 1), 0);
    check_stop(&w->daemons[0]);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

ENGINES_MAIN()
