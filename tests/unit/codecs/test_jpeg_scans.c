/* Tests of which scans of a progressive JPEG are skipped, and that the pixels stay the same.
 * test_jpeg.c compares the pixels with djpeg. */
#include "tests/fixtures/codec_rig.h"

#include "codecs/jpeg/state.h"

enum { scans_of_libjpeg = 10, kept_for_luma = 6 };

struct scan {
    size_t at, header, end; /* offsets: marker, entropy-coded bytes, next marker */
    int component, first;   /* the first component's id; the first coefficient */
};

static struct picture_file file;
static struct scan scans[JPEG_SPANS_MAX];
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
            assert_true(scan_count < JPEG_SPANS_MAX);
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

static bool choose(J_COLOR_SPACE space, unsigned eighths, uint32_t scans_max,
                   struct jpeg_scans *chosen)
{
    struct jpeg_decompress_struct reader;
    struct jpeg_error_mgr errors;
    struct codec_limits limits = {.jpeg_scans_max = scans_max};
    reader.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&reader);
    jpeg_mem_src(&reader, file.bytes, file.length);
    jpeg_read_header(&reader, TRUE);
    assert_ptr_equal(reader.src->next_input_byte, file.bytes + scans[0].header);
    reader.out_color_space = space;
    reader.scale_num = eighths;
    reader.scale_denom = DECODE_EIGHTHS;
    bool chose = jpeg_scans_choose(&reader, reader.src->next_input_byte,
                                   reader.src->bytes_in_buffer, &limits, chosen);
    assert_int_equal(chose, chosen->count > 0);
    jpeg_destroy_decompress(&reader);
    return chose;
}

static bool holds(const struct jpeg_scans *chosen, const struct scan *scan)
{
    for (size_t i = 0; i < chosen->count; i++) {
        size_t begin = (size_t)(chosen->spans[i].bytes - file.bytes);
        if (begin <= scan->at && scan->end <= begin + chosen->spans[i].length)
            return true;
        /* not even a part of the scan */
        assert_false(scan->at < begin + chosen->spans[i].length && begin < scan->end &&
                     scan != &scans[0]);
    }
    return false;
}

TEST(test_luma_alone)
{
    struct jpeg_scans chosen;
    size_t kept = 1; /* the first scan */
    assert_true(choose(JCS_GRAYSCALE, 8, 100, &chosen));
    for (size_t i = 1; i < scan_count; i++) {
        bool needed = scans[i].first == 0 || scans[i].component == 1;
        assert_int_equal(holds(&chosen, &scans[i]), needed);
        kept += needed;
    }
    assert_int_equal(kept, kept_for_luma);
    const struct jpeg_span *last = &chosen.spans[chosen.count - 1];
    assert_ptr_equal(chosen.spans[0].bytes, file.bytes + scans[0].header);
    assert_ptr_equal(last->bytes + last->length, file.bytes + file.length);
}

/* At 1/8 luma needs only its DC coefficients, but 4:2:0 chroma is decoded at 2/8. */
TEST(test_an_eighth)
{
    struct jpeg_scans chosen;
    assert_true(choose(JCS_RGB, 1, 100, &chosen));
    for (size_t i = 1; i < scan_count; i++)
        assert_int_equal(holds(&chosen, &scans[i]), scans[i].first == 0 || scans[i].component != 1);
    assert_true(choose(JCS_GRAYSCALE, 1, 100, &chosen));
    for (size_t i = 1; i < scan_count; i++)
        assert_int_equal(holds(&chosen, &scans[i]), scans[i].first == 0);
}

TEST(test_all_wanted)
{
    struct jpeg_scans chosen;
    assert_false(choose(JCS_GRAYSCALE, 8, 0, &chosen));
    assert_false(choose(JCS_RGB, 8, 100, &chosen));
}

/* If libjpeg would report an error or a warning, no scan is skipped. */
TEST(test_not_in_order)
{
    struct jpeg_scans chosen;
    assert_false(choose(JCS_GRAYSCALE, 8, scans_of_libjpeg - 1, &chosen));
    assert_true(choose(JCS_GRAYSCALE, 8, scans_of_libjpeg, &chosen));
    for (size_t i = 1; i < scan_count; i++) {
        uint8_t *tail = file.bytes + scans[i].header - 3, saved[3];
        memcpy(saved, tail, 3);
        tail[2] ^= 0x20; /* Ah does not match the earlier scans */
        assert_false(choose(JCS_GRAYSCALE, 8, 100, &chosen));
        memcpy(tail, saved, 3);
        tail[1] = 64; /* Se */
        assert_false(choose(JCS_GRAYSCALE, 8, 100, &chosen));
        memcpy(tail, saved, 3);
        file.bytes[scans[i].at + 5] += 3; /* no such component */
        assert_false(choose(JCS_GRAYSCALE, 8, 100, &chosen));
        file.bytes[scans[i].at + 5] -= 3;
        file.bytes[scans[i].at + 1] = 0xC0; /* a second frame */
        assert_false(choose(JCS_GRAYSCALE, 8, 100, &chosen));
        file.bytes[scans[i].at + 1] = 0xDA;
    }
    assert_true(choose(JCS_GRAYSCALE, 8, 100, &chosen));
    /* If a wanted scan is missing, libjpeg would smooth over it. */
    for (size_t i = scan_count - 1; i > 0; i--)
        if (scans[i].component == 1 && scans[i].first > 0) {
            memmove(file.bytes + scans[i].at, file.bytes + scans[i].end,
                    file.length - scans[i].end);
            file.length -= scans[i].end - scans[i].at;
            break;
        }
    assert_false(choose(JCS_GRAYSCALE, 8, 100, &chosen));
}

TEST(test_truncated)
{
    struct jpeg_scans chosen;
    for (size_t full = file.length; file.length > scans[0].header; file.length--) {
        if (file.length < full)
            assert_false(choose(JCS_GRAYSCALE, 8, 100, &chosen));
        if (file.length < full && file.length > full - 300)
            assert_int_equal(rig_decode(&rig, &file, DECODE_LUMA), STATUS_DECODE_FAILED);
    }
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
