/* test_values.c - jobs whose results have values, with images and without, on each engine. */
#include <unistd.h>

#include "tests/fixtures/reference.h"
#include "tests/fixtures/test_world.h"

static void check_counts(const cJSON *result, const char *place, const struct raster *raster,
                         uint32_t channel)
{
    double counts[256] = {0};
    for (uint32_t y = 0; y < raster->height; y++)
        for (uint32_t x = 0; x < raster->width; x++)
            counts[raster_at(raster, x, y)[channel]]++;
    const cJSON *list = json_at(result, place), *item;
    assert_int_equal(cJSON_GetArraySize(list), 256);
    int i = 0;
    cJSON_ArrayForEach(item, list)
        assert_true(item->valuedouble == counts[i++]);
}

TEST(test_values_without_a_picture)
{
    need_engine();
    world_put_photo(w, "a.jpg", 333, 222);
    cJSON *result = check_answer(w, "{'input':'a.jpg','ops':['histogram','stats','otsu']}");
    struct raster colour = world_load_in(w, "a.jpg", RASTER_COLOUR);
    check_counts(result, "outputs.0.values.histogram.0", &colour, 0);
    check_counts(result, "outputs.0.values.histogram.2", &colour, 2);
    double sum = 0;
    for (uint32_t i = 0; i < 333 * 222; i++)
        sum += colour.pixels[3 * i + 1];
    assert_true(json_number(result, "outputs.0.values.stats.mean.1") == sum / (333 * 222));
    assert_non_null(json_at(result, "outputs.0.values.otsu"));
    check_has(result, "{'outputs.0.path':null,'outputs.0.format':null,'outputs.0.bytes':null,"
                      "'input.width':333}");
    raster_clear(&colour);
    check_done(result);
}

TEST(test_values_beside_a_picture)
{
    need_engine();
    world_put_photo(w, "b.jpg", 200, 100);
    cJSON *result = check_answer(w, "{'input':'b.jpg','output':'b.png',"
                                    "'ops':['grayscale','histogram','sobel']}");
    check_message(result);
    struct raster luma = world_load_in(w, "b.jpg", RASTER_LUMA);
    check_counts(result, "outputs.0.values.histogram.0", &luma, 0);
    check_done(result);
    check_output(w, "b.png", reference_sobel(&luma, REFERENCE_HALF, REFERENCE_REFLECT101), 0);
    raster_clear(&luma);
}

/* Images, values and both in one job. If the operations only read the image, the output is the
 * source. */
TEST(test_several)
{
    need_engine();
    world_put_photo(w, "c.jpg", 64, 48);
    cJSON *result = check_answer(
        w, "{'input':'c.jpg','outputs':[{'output':'c1.png','ops':['stats']},"
           "{'ops':['stats']},{'output':'c2.png'},"
           "{'output':{'key':'gpuimgd:img:c','format':'png'},'ops':['otsu']},{'ops':['sobel']}]}");
    struct raster colour = world_load_in(w, "c.jpg", RASTER_COLOUR);
    double mean = json_number(result, "outputs.0.values.stats.mean.0");
    assert_true(mean == json_number(result, "outputs.1.values.stats.mean.0"));
    check_has(result, "{'outputs.2.values':null,'outputs.3.key':'gpuimgd:img:c'}");
    assert_non_null(json_at(result, "outputs.3.values.otsu"));
    assert_string_equal(json_text(result, "outputs.4.error.code"), "bad_job");
    assert_non_null(strstr(json_text(result, "outputs.4.error.message"), "outputs[4]"));
    check_failed(result, "bad_job", "outputs[4] has no output", NULL);
    check_output(w, "c1.png", raster_copy(&colour), 0);
    check_output(w, "c2.png", raster_copy(&colour), 0);
    raster_clear(&colour);
}

/* Changes nothing, but needs colours. */
#define SAME "{'op':'color_matrix','matrix':[[1,0,0,0],[0,1,0,0],[0,0,1,0]]}"

/* The hash equals the reference hash of the image resized to 32 x 32 gray. Gray is made from the
 * JPEG's colours, not from its Y channel, even if other outputs have hashes. */
TEST(test_hash)
{
    need_engine();
    world_put_photo(w, "e.jpg", 640, 427);
    cJSON *result = check_answer(
        w, "{'input':'e.jpg','outputs':[{'ops':['phash']},{'output':'e.png','ops':[" SAME
           ",'grayscale',{'op':'resize','width':32,'height':32,'fit':'exact'}]},{'output':'f.png',"
           "'ops':['phash','flip','phash','sobel']}]}");
    struct raster small = world_load_out(w, "e.png");
    const char *text = text_of("%016llx", (unsigned long long)reference_phash(&small));
    assert_string_equal(json_text(result, "outputs.0.values.phash"), text);
    assert_string_equal(json_text(result, "outputs.2.values.phash"), text);
    assert_string_not_equal(json_text(result, "outputs.2.values.phash_2"), text);
    assert_null(json_at(result, "outputs.1.values"));
    raster_clear(&small);
    check_done(result);
}

TEST(test_no_values_no_picture)
{
    need_engine();
    world_put_photo(w, "d.jpg", 64, 48);
    check_failed(check_answer(w, "{'input':'d.jpg','ops':['sobel']}"), "bad_job",
                 "the job has no output", "no operation that gives values", NULL);
    check_failed(check_answer(w, "{'input':'d.jpg'}"), "bad_job", "the job has no output", NULL);
}

ENGINES_MAIN()
