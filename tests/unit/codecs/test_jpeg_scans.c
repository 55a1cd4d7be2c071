/* Tests of damage in the scans of a progressive JPEG that a decode to Y skips, and in the others.
 * test_row_decoder.c compares the pixels with libjpeg's. */
#include "tests/fixtures/codec_rig.h"

enum { scans_of_libjpeg = 10 };

struct scan {
    size_t at, header, end; /* offsets: marker, entropy-coded bytes, next marker */
    int component, first;   /* the first component's id; the first coefficient */
};

static struct picture_file file;
static struct scan scans[scans_of_libjpeg];
static size_t scan_count;

static size_t marker_from(size_t at)
{
    while (file.bytes[at] != 0xFF || file.bytes[at + 1] == 0 ||
           (file.bytes[at + 1] >= 0xD0 && file.bytes[at + 1] <= 0xD7))
        at++;
    return at;
}

static int setup(void **state)
{
    rig_open(&rig);
    file = make_jpeg(.width = 149, .height = 83, .progressive = true, .subsampling = 420);
    scan_count = 0;
    for (size_t at = picture_jpeg_marker(&file, 0xDA); file.bytes[at + 1] != 0xD9;) {
        size_t behind = at + 2 + (size_t)(file.bytes[at + 2] << 8 | file.bytes[at + 3]);
        if (file.bytes[at + 1] == 0xDA) {
            assert_true(scan_count < scans_of_libjpeg);
            scans[scan_count++] = (struct scan){at, behind, marker_from(behind), file.bytes[at + 5],
                                                file.bytes[behind - 3]};
        }
        at = marker_from(behind);
    }
    assert_int_equal(scan_count, scans_of_libjpeg);
    return 0;
}

static int teardown(void **state)
{
    picture_free(&file);
    rig_close(&rig);
    return 0;
}

/* Damage in a skipped scan has no effect; damage in other scans is reported. */
TEST(test_damage)
{
    assert_int_equal(rig_decode(&rig, &file, DECODE_LUMA), STATUS_OK);
    size_t row = rig.image.width, found = 0, passed = 0;
    uint8_t *sound = malloc(row * rig.image.height);
    for (uint32_t y = 0; y < rig.image.height; y++)
        memcpy(sound + y * row, rig.image.pixels + y * rig.image.stride, row);
    for (size_t i = 0; i < scan_count; i++) {
        /* A marker in the middle ends the entropy-coded bytes early. */
        size_t at = scans[i].header + (scans[i].end - scans[i].header) / 2;
        uint8_t saved[2] = {file.bytes[at], file.bytes[at + 1]};
        file.bytes[at] = 0xFF;
        file.bytes[at + 1] = 0xD0;
        enum status status = rig_decode(&rig, &file, DECODE_LUMA);
        bool left_out = scans[i].first > 0 && scans[i].component != 1;
        assert_int_equal(status, left_out ? STATUS_OK : STATUS_DECODE_FAILED);
        if (left_out)
            rig_expect_pixels(&rig, sound, 1);
        passed += left_out;
        found += !left_out;
        assert_int_equal(rig_decode(&rig, &file, DECODE_COLOUR), STATUS_DECODE_FAILED);
        memcpy(file.bytes + at, saved, 2);
    }
    assert_true(passed > 0 && found > 0);
    free(sound);
}

TEST_MAIN(.each_setup = setup, .each_teardown = teardown)
