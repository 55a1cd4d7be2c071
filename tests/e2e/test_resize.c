/*
 * test_resize.c - checks by its results when the daemon decodes at a reduced size. The box filter
 * at half and quarter size has the weights 1/2 and 1/4, so the expected pixels are known.
 */
#include <stdio.h>
#include <jpeglib.h>

#include "tests/fixtures/test_world.h"

/* Decodes at `eighths`/8, like djpeg -scale. */
static struct raster load_scaled(const char *name, unsigned eighths)
{
    struct jpeg_decompress_struct reader;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(in_path(name), "rb");
    assert_non_null(file);
    reader.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&reader);
    jpeg_stdio_src(&reader, file);
    jpeg_read_header(&reader, TRUE);
    reader.scale_num = eighths;
    reader.scale_denom = 8;
    jpeg_start_decompress(&reader);
    struct raster raster = raster_make(reader.output_width, reader.output_height, 3);
    while (reader.output_scanline < reader.output_height) {
        JSAMPROW row = raster_at(&raster, 0, reader.output_scanline);
        jpeg_read_scanlines(&reader, &row, 1);
    }
    jpeg_finish_decompress(&reader);
    jpeg_destroy_decompress(&reader);
    fclose(file);
    return raster;
}

/* Means of `times` pixels along the rows, rounded half up, and then down the columns. */
static struct raster shrunk(struct raster in, uint32_t times)
{
    struct raster out = raster_make(in.width / times, in.height / times, 3);
    for (uint32_t y = 0; y < out.height; y++)
        for (uint32_t x = 0; x < out.width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                uint32_t down = times / 2;
                for (uint32_t j = 0; j < times; j++) {
                    uint32_t across = times / 2;
                    for (uint32_t i = 0; i < times; i++)
                        across += raster_at(&in, x * times + i, y * times + j)[c];
                    down += across / times;
                }
                raster_at(&out, x, y)[c] = (uint8_t)(down / times);
            }
    raster_clear(&in);
    return out;
}

#define SHRINK "{'op':'resize','width':%u,'filter':'box'%s}"

static void check_shrink(uint32_t width, const char *more, unsigned eighths, uint32_t times)
{
    cJSON *result = check_answer(w, "{'input':'p.jpg','output':'p.png','ops':[" SHRINK "]}", width,
                                 more);
    assert_true(json_number(result, "input.width") == 640);
    assert_true(json_number(result, "outputs.0.width") == width);
    assert_true(json_number(result, "outputs.0.height") == width * 448 / 640);
    check_done(result);
    check_output(w, "p.png", shrunk(load_scaled("p.jpg", eighths), times), 0);
}

TEST(test_decoded_smaller)
{
    world_put_photo(w, "p.jpg", 640, 448);
    check_shrink(160, "", 4, 2);
    check_shrink(80, "", 2, 2);
    check_shrink(40, "", 1, 2);
    check_shrink(320, "", 8, 2);
    check_shrink(160, ",'fast_shrink':false", 8, 4);
}

/* A job with a list of outputs is decoded at full size, even if all outputs are smaller. */
TEST(test_lists_are_decoded_in_full)
{
    world_put_photo(w, "p.jpg", 640, 448);
    check_done(check_answer(w, "{'input':'p.jpg','outputs':[{'output':'a.png','ops':[" SHRINK
                               "]}]}", 160, ",'fast_shrink':true"));
    check_output(w, "a.png", shrunk(load_scaled("p.jpg", 8), 4), 0);
    check_done(check_answer(w, "{'input':'p.jpg','outputs':[{'output':'a.png','ops':[" SHRINK "]},"
                               "{'output':'b.png','ops':[" SHRINK ",'invert']}]}",
                            160, "", 160, ""));
    check_output(w, "a.png", shrunk(load_scaled("p.jpg", 8), 4), 0);
    check_done(check_answer(w, "{'input':'p.jpg','outputs':[{'output':'a.png','ops':[" SHRINK "]},"
                               "{'output':'b.png','ops':[" SHRINK "]}]}", 160, "", 80, ""));
    check_output(w, "a.png", shrunk(load_scaled("p.jpg", 8), 4), 0);
    check_output(w, "b.png", shrunk(load_scaled("p.jpg", 8), 8), 0);
}

/* A PNG cannot be decoded at a reduced size. */
TEST(test_png)
{
    put_png("p.png", .width = 64, .height = 32, .colour_type = 2, .bit_depth = 8, .level = 1,
            .seed = 5);
    check_done(check_answer(w, "{'input':'p.png','output':'q.png','ops':[" SHRINK "]}", 16, ""));
    check_output(w, "q.png", shrunk(world_load_in(w, "p.png", RASTER_COLOUR), 4), 0);
}

WORLD_MAIN(ONE_WORLD, .start = true)
