/* Tests of the plain headers of a tar. test_archive_reader compares whole archives with Python. */
#include "codecs/archive/tar_header.h"
#include "tests/fixtures/test.h"

/* A header as POSIX.1-1988 describes it. */
static uint8_t unit[TAR_UNIT_BYTES];

static void put(size_t at, const char *text)
{
    memcpy(unit + at, text, strlen(text));
}

static void put_sum(void)
{
    char digits[8];
    unsigned sum = 0;
    memset(unit + 148, ' ', 8);
    for (size_t i = 0; i < sizeof unit; i++)
        sum += unit[i];
    snprintf(digits, sizeof digits, "%06o", sum);
    memcpy(unit + 148, digits, 7);
}

/* A file of 0o1750 = 1000 bytes, of the second 0o17 = 15. */
static void make(void)
{
    memset(unit, 0, sizeof unit);
    put(0, "b.jpg");
    put(124, "00000001750");
    put(136, "00000000017");
    unit[156] = '0';
    put(257, "ustar");
    put(263, "00");
    put_sum();
}

static bool is_plain(struct tar_header *header)
{
    put_sum();
    return tar_header_read(unit, header);
}

TEST(a_file)
{
    struct tar_header header;
    make();
    assert_true(tar_header_read(unit, &header));
    assert_string_equal(header.name, "b.jpg");
    assert_int_equal(header.bytes, 1000);
    assert_int_equal(header.modified_s, 15);
    assert_false(header.is_folder);
    put(345, "a/long/prefix");
    assert_true(is_plain(&header));
    assert_string_equal(header.name, "a/long/prefix/b.jpg");
    memset(unit + 345, 0, 155);
    put(345, "a/long/path/");
    assert_true(is_plain(&header));
    assert_string_equal(header.name, "a/long/path/b.jpg");
    memcpy(unit + 257, "ustar  ", 8); /* of GNU, which has other members at the prefix */
    assert_true(is_plain(&header));
    assert_string_equal(header.name, "b.jpg");
}

TEST(the_longest_name)
{
    struct tar_header header;
    make();
    memset(unit, 'n', 100);
    memset(unit + 345, 'p', 155);
    assert_true(is_plain(&header));
    assert_int_equal(strlen(header.name), 256);
    assert_memory_equal(header.name + 154, "p/n", 3);
}

TEST(a_folder)
{
    struct tar_header header;
    make();
    unit[156] = '5';
    assert_false(is_plain(&header)); /* with contents */
    put(124, "00000000000");
    assert_true(is_plain(&header));
    assert_true(header.is_folder);
}

/* libarchive reads these. */
TEST(headers_that_are_not_plain)
{
    static const struct {
        size_t at, bytes;
        const char *text;
    } changes[] = {{156, 1, "2"},          /* a link */
                   {156, 1, "x"},          /* an extended header */
                   {156, 1, "L"},          /* a long name of GNU */
                   {156, 1, "S"},          /* a sparse file */
                   {156, 1, "\0"},         /* a file of a tar of Unix V7 */
                   {257, 5, "\0\0\0\0\0"}, /* the same */
                   {0, 1, "\0"},           /* no name */
                   {4, 1, "/"},            /* a folder of a tar of Unix V7 */
                   {124, 1, "\x80"},       /* a size in base 256 */
                   {124, 2, " 1"},         /* padded with a space */
                   {136, 1, "-"},          /* before 1970 */
                   {135, 1, "8"}};         /* a digit more */
    struct tar_header header;
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        make();
        memcpy(unit + changes[i].at, changes[i].text, changes[i].bytes);
        if (is_plain(&header))
            fail_msg("change %zu", i);
    }
}

TEST(the_sum_of_a_header)
{
    struct tar_header header;
    make();
    assert_true(tar_header_is_valid(unit, sizeof unit));
    assert_false(tar_header_is_valid(unit, sizeof unit - 1));
    unit[500]++;
    assert_false(tar_header_is_valid(unit, sizeof unit));
    assert_false(tar_header_read(unit, &header));
    memset(unit, 0, sizeof unit); /* the end of a tar */
    assert_false(tar_header_read(unit, &header));
}

TEST_MAIN()
