/* Tests of the JPEG encoder against cjpeg, bit for bit, and of colour profiles. */
#include "tests/fixtures/jpeg_tools.h"
#include "tests/fixtures/text_file.h"

static struct picture_file pnm_of(const struct image *image)
{
    char header[64];
    struct picture_file pnm = picture_empty();
    picture_insert(&pnm, 0, header,
                   jpeg_tools_pnm_header(header, image->width, image->height, image->channels));
    for (uint32_t y = 0; y < image->height; y++)
        picture_insert(&pnm, pnm.length, image->pixels + y * image->stride,
                       (size_t)image->width * image->channels);
    return pnm;
}

TEST(test_encode_like_cjpeg)
{
    static const uint32_t sizes[][2] = {{1, 1}, {1, 19}, {19, 1}, {16, 16}, {61, 47}, {300, 200}};
    static const int qualities[] = {1, 50, 85, 100};
    if (!jpeg_tools_have("cjpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int variant = 0; variant < 4; variant++) {
            struct image image =
                rig_picture(sizes[i][0], sizes[i][1], variant % 2 != 0 ? 3 : 1, (uint32_t)i);
            int quality = qualities[(i + (size_t)variant) % 4];
            bool progressive = variant / 2 != 0;
            struct picture_file ours = rig_encode_as(
                &image, "jpeg", .encoder = {.quality = quality, .progressive = progressive});
            struct picture_file pnm = pnm_of(&image);
            const char *options =
                text_of("-baseline -quality %d %s", quality, progressive ? "-progressive" : "");
            struct picture_file theirs = jpeg_tools_run("cjpeg", options, &pnm);
            assert_int_equal(ours.length, theirs.length);
            assert_memory_equal(ours.bytes, theirs.bytes, ours.length);
            if (jpeg_tools_have("djpeg"))
                jpeg_tools_compare(&ours, false);
            picture_free(&ours);
            picture_free(&theirs);
            picture_free(&pnm);
            free(image.pixels);
        }
}

/* Every subsampling with each kind of Huffman tables, at sizes around an MCU. */
TEST(test_encode_parameters_like_cjpeg)
{
    static const uint32_t sizes[][2] = {{1, 1},  {1, 9},   {9, 1},   {8, 8},  {15, 17},
                                        {16, 8}, {17, 15}, {33, 16}, {61, 47}};
    static const char *const samplings[] = {[SUBSAMPLING_420] = "-sample 2x2",
                                            [SUBSAMPLING_422] = "-sample 2x1",
                                            [SUBSAMPLING_444] = "-sample 1x1",
                                            [SUBSAMPLING_GRAY] = "-grayscale"};
    static const char *const tables[] = {"", "-optimize", "-progressive", "-optimize -progressive"};
    if (!jpeg_tools_have("cjpeg"))
        skip();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (unsigned s = 0; s < COUNT_OF(samplings); s++)
            for (unsigned t = 0; t < COUNT_OF(tables); t++) {
                uint32_t channels = (i + s + t) % 4 == 0 ? 1 : 3;
                int quality = 100 - (int)(i * 16 + s * 4 + t) % 100;
                struct image image = rig_picture(sizes[i][0], sizes[i][1], channels, (uint32_t)i);
                struct picture_file ours = rig_encode_as(&image, "jpeg",
                                                         .encoder = {.quality = quality,
                                                                     .subsampling = (int)s,
                                                                     .optimize = t % 2,
                                                                     .progressive = t / 2});
                struct picture_file pnm = pnm_of(&image);
                struct picture_file theirs =
                    jpeg_tools_run("cjpeg",
                                   text_of("-baseline -quality %d %s %s", quality, tables[t],
                                           channels == 1 ? "" : samplings[s]),
                                   &pnm);
                assert_int_equal(ours.length, theirs.length);
                assert_memory_equal(ours.bytes, theirs.bytes, ours.length);
                picture_free(&ours);
                picture_free(&theirs);
                picture_free(&pnm);
                free(image.pixels);
            }
}

/* The Huffman tables of a progressive image must not be used for the next image. */
TEST(test_encode_is_stateless)
{
    struct image image = rig_picture(50, 40, 3, 1);
    struct picture_file files[3];
    for (int i = 0; i < 3; i++)
        files[i] = rig_encode_as(&image, "jpeg", .encoder = {.quality = 80, .progressive = i == 1});
    assert_int_equal(files[0].length, files[2].length);
    assert_memory_equal(files[0].bytes, files[2].bytes, files[0].length);
    for (int i = 0; i < 3; i++)
        picture_free(&files[i]);
    free(image.pixels);
}

TEST(test_profile)
{
    static const size_t sizes[] = {132, 3144, 200000}; /* the last one takes several markers */
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct picture_file icc = picture_icc(sizes[i], "RGB ");
        struct picture_file file =
            make_jpeg(.width = 16, .height = 16, .icc = icc.bytes, .icc_bytes = icc.length);
        assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
        assert_int_equal(rig.info.icc_bytes, icc.length);
        assert_memory_equal(rig.info.icc, icc.bytes, icc.length);
        picture_free(&file);
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            struct image image = rig_picture(16, 16, channels, 1);
            file = rig_encode_as(&image, "jpeg", .encoder.quality = 80, .icc = icc.bytes,
                                 .icc_bytes = icc.length);
            assert_int_equal(rig_probe(&rig, &file), STATUS_OK);
            assert_int_equal(rig.info.icc_bytes, channels == 3 ? icc.length : 0);
            picture_free(&file);
            free(image.pixels);
        }
        picture_free(&icc);
    }
}

/* A profile counts if it is for the file's colours. Gray may also have one for RGB. Only those for
 * RGB are written. */
TEST(test_profile_of_other_colours)
{
    static const char *const spaces[] = {"GRAY", "RGB ", "CMYK", "Lab "};
    static const struct {
        enum picture_colour colour;
        const char *kept; /* of `spaces` */
    } rows[] = {{PICTURE_GRAY, "yynn"},
                {PICTURE_YCBCR, "nynn"},
                {PICTURE_RGB, "nynn"},
                {PICTURE_CMYK, "nnyn"},
                {PICTURE_YCCK, "nnyn"}};
    for (size_t i = 0; i < COUNT_OF(rows) * COUNT_OF(spaces); i++) {
        size_t row = i / COUNT_OF(spaces), space = i % COUNT_OF(spaces);
        struct picture_file icc = picture_icc(500, spaces[space]);
        struct picture_file file = make_jpeg(.width = 16, .height = 16, .icc = icc.bytes,
                                             .icc_bytes = icc.length, .colour = rows[row].colour);
        bool kept = rows[row].kept[space] == 'y';
        rig_reads(&file, STATUS_OK, NULL);
        assert_int_equal(rig.info.icc_bytes, kept ? icc.length : 0);
        assert_int_equal(image_info_icc_is_rgb(&rig.info), kept && space == 1);
        assert_int_equal(image_info_icc_is_cmyk(&rig.info), kept && space == 2);
        picture_free(&file);
        picture_free(&icc);
    }
}

TEST(test_profile_damaged)
{
    for (int i = 0; i < 3; i++) {
        struct picture_file icc = picture_icc(i == 2 ? ICC_BYTES_MAX + 1 : 500, "RGB ");
        icc.bytes[3] += i == 0;  /* a wrong size field */
        icc.bytes[36] += i == 1; /* the signature is wrong */
        struct picture_file file =
            make_jpeg(.width = 16, .height = 16, .icc = icc.bytes, .icc_bytes = icc.length);
        assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_OK);
        assert_null(rig.info.icc);
        assert_int_equal(rig.info.icc_bytes, 0);
        picture_free(&file);
        picture_free(&icc);
    }
}

TEST_MAIN(.name = "jpeg_encoder", .each_setup = rig_setup, .each_teardown = rig_teardown)
