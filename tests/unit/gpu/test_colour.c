/* Tests of ICC profiles as input, and of the cache of their tables. */
#include "tests/fixtures/test.h"

#include <pthread.h>

#include "gpu/colour/conversion.h"
#include "gpu/colour/icc.h"
#include "tests/fixtures/profile.h"

static struct colour *take(const struct picture_file *profile, enum colour_intent intent)
{
    struct colour *colour = NULL;
    struct error error = {0};
    if (colour_take(profile->bytes, profile->length, intent, &colour, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return colour;
}

/* ---- hostile profiles ---- */

/* Every length, in a block of exactly that length, with and without a size field that agrees. The
 * last tag, which is not needed, may be cut. */
TEST(test_cut)
{
    enum { last_tag_bytes = 20 };
    struct picture_file whole = profile_of_matrix(&profile_p3);
    for (size_t length = 0; length < 2 * whole.length; length++) {
        struct picture_file part = picture_cut(&whole, length / 2);
        if (length % 2 && part.length >= 4) {
            part.bytes[2] = (uint8_t)(part.length >> 8);
            part.bytes[3] = (uint8_t)part.length;
        }
        struct colour *colour = NULL;
        struct error error = {0};
        enum status status =
            colour_take(part.bytes, part.length, COLOUR_RELATIVE, &colour, &error);
        bool usable = part.length == whole.length ||
                      (length % 2 && part.length >= whole.length - last_tag_bytes);
        assert_int_equal(status, usable ? STATUS_OK : STATUS_DECODE_FAILED);
        colour_release(colour);
        picture_free(&part);
    }
    picture_free(&whole);
}

/* Each byte in turn: curves and colorants of any value, and tags anywhere. */
static void break_bytes(const struct picture_file *whole, size_t step)
{
    for (size_t at = 0; at < whole->length; at += step)
        for (int value = 0; value < 256; value += 51) {
            struct picture_file bad = picture_cut(whole, whole->length);
            struct colour *colour = NULL;
            struct error error = {0};
            bad.bytes[at] = (uint8_t)value;
            enum status status =
                colour_take(bad.bytes, bad.length, COLOUR_RELATIVE, &colour, &error);
            assert_true(status == STATUS_OK || (status == STATUS_DECODE_FAILED && error.text[0]));
            colour_release(colour);
            picture_free(&bad);
        }
}

TEST(test_broken)
{
    struct picture_file profiles[] = {profile_of_matrix(&profile_p3),
                                      profile_of_matrix(&profile_adobe), profile_of_gray(2.2)};
    for (size_t i = 0; i < COUNT_OF(profiles); i++) {
        break_bytes(&profiles[i], 1);
        picture_free(&profiles[i]);
    }
}

TEST(test_broken_tables)
{
    if (!profile_has_lcms)
        skip();
    struct picture_file like = profile_of_matrix(&profile_p3), table = profile_of_table(&like, 2);
    break_bytes(&table, 41);
    picture_free(&like);
    picture_free(&table);
}

/* A table that says it has 255 nodes per axis: lcms2 would allocate 100 MB before it reads them. */
TEST(test_memory_is_limited)
{
    if (!profile_has_lcms)
        skip();
    struct picture_file like = profile_of_matrix(&profile_p3), table = profile_of_table(&like, 9);
    struct colour *colour = NULL;
    struct error error = {0};
    uint8_t *grid = memmem(table.bytes, table.length, "\x09\x09\x09\0\0\0", 6);
    assert_non_null(grid);
    memset(grid, 255, 3);
    assert_int_equal(colour_take(table.bytes, table.length, COLOUR_RELATIVE, &colour, &error),
                     STATUS_UNSUPPORTED_FORMAT);
    if (!strstr(error.text, "lcms2 needs more than 20971520 bytes for it"))
        fail_msg("%s", error.text);
    assert_null(colour);
    picture_free(&like);
    picture_free(&table);
}

/* ---- spaces ---- */

TEST(test_spaces)
{
    static const struct {
        const char *name;
        enum icc_space space;
    } spaces[] = {{"RGB ", ICC_SPACE_RGB}, {"GRAY", ICC_SPACE_GRAY}, {"CMYK", ICC_SPACE_CMYK},
                  {"Lab ", ICC_SPACE_OTHER}};
    for (size_t i = 0; i < COUNT_OF(spaces); i++) {
        struct picture_file icc = picture_icc(600, spaces[i].name);
        assert_int_equal(icc_space(icc.bytes, icc.length), spaces[i].space);
        assert_int_equal(icc_space(icc.bytes, icc.length - 1), ICC_SPACE_NONE);
        icc.bytes[36] = 'x';
        assert_int_equal(icc_space(icc.bytes, icc.length), ICC_SPACE_NONE);
        picture_free(&icc);
    }
    assert_int_equal(icc_space(NULL, 0), ICC_SPACE_NONE);
}

/* ---- the cache ---- */

TEST(test_cache)
{
    struct picture_file p3 = profile_of_matrix(&profile_p3);
    struct picture_file adobe = profile_of_matrix(&profile_adobe);
    struct colour *first = take(&p3, COLOUR_RELATIVE), *second = take(&p3, COLOUR_RELATIVE);
    assert_ptr_not_equal(first, second); /* there is no cache yet */
    assert_int_equal(colour_cache_bytes(), 0);
    colour_release(second);

    colour_cache_limit(2 * (colour_bytes(first) + p3.length) - 1); /* room for one */
    colour_release(first);
    first = take(&p3, COLOUR_RELATIVE);
    second = take(&p3, COLOUR_RELATIVE);
    assert_ptr_equal(first, second);
    colour_release(second);
    second = take(&adobe, COLOUR_RELATIVE); /* replaces the other one, which is still in use */
    assert_ptr_equal(take(&adobe, COLOUR_RELATIVE), second);
    colour_release(second);
    assert_int_equal(first->kind, COLOUR_MATRIX);
    struct colour *again = take(&p3, COLOUR_RELATIVE);
    assert_ptr_not_equal(again, first);
    assert_int_equal(again->tables_bytes, first->tables_bytes);
    assert_memory_equal(again->tables, first->tables, first->tables_bytes);
    colour_release(again);
    colour_release(first);
    colour_release(second);
    colour_cache_limit(0);
    assert_int_equal(colour_cache_bytes(), 0);
    picture_free(&p3);
    picture_free(&adobe);
}

TEST(test_cache_counts)
{
    colour_cache_limit(MIB);
    struct picture_file p3 = profile_of_matrix(&profile_p3);
    struct colour *relative = take(&p3, COLOUR_RELATIVE);
    size_t bytes = colour_cache_bytes();
    assert_in_range(bytes, colour_bytes(relative) + p3.length,
                    colour_bytes(relative) + p3.length + 200);
    struct colour *perceptual = take(&p3, COLOUR_PERCEPTUAL); /* an intent has its own tables */
    assert_int_equal(colour_cache_bytes(), 2 * bytes);
    colour_cache_limit(bytes - 1);
    assert_int_equal(colour_cache_bytes(), 0);
    colour_release(relative);
    colour_release(perceptual);
    colour_cache_limit(0);
    picture_free(&p3);
}

static void *take_often(void *context)
{
    const struct picture_file *profiles = context;
    for (int i = 0; i < 200; i++)
        colour_release(take(&profiles[i % 3], COLOUR_RELATIVE));
    return NULL;
}

TEST(test_cache_threads)
{
    struct picture_file profiles[] = {profile_of_matrix(&profile_p3), profile_of_gray(2.2),
                                      profile_of_matrix(&profile_adobe)};
    pthread_t threads[4];
    colour_cache_limit(30 * KIB); /* one matrix at a time */
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_often, profiles), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_true(colour_cache_bytes() <= 30 * KIB);
    colour_cache_limit(0);
    for (size_t i = 0; i < COUNT_OF(profiles); i++)
        picture_free(&profiles[i]);
}

TEST_MAIN()
