/* Tests of external text, errors and log lines. */
#include <sys/stat.h>
#include <unistd.h>

#include "conf/log.h"
#include "conf/status.h"
#include "conf/text.h"
#include "tests/fixtures/test.h"

TEST(utf8_follows_rfc_3629)
{
    static const struct {
        const char *bytes;
        size_t length;
    } rows[] = {
        {"a", 1}, {"\x7f", 1}, {"\xc2\x80", 2}, {"\xdf\xbf", 2}, {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3}, {"\xee\x80\x80", 3}, {"\xf0\x90\x80\x80", 4}, {"\xf4\x8f\xbf\xbf", 4},
        /* overlong, surrogate, too large, stray and truncated sequences */
        {"\xc0\x80", 0}, {"\xc1\xbf", 0}, {"\xe0\x9f\xbf", 0}, {"\xed\xa0\x80", 0},
        {"\xf0\x8f\xbf\xbf", 0}, {"\xf4\x90\x80\x80", 0}, {"\xf5\x80\x80\x80", 0}, {"\x80", 0},
        {"\xc2", 0}, {"\xe2\x82", 0}, {"\xff", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(text_utf8_sequence((const unsigned char *)rows[i].bytes,
                                            strlen(rows[i].bytes)),
                         rows[i].length);
}

TEST(escaped_text_is_printable_and_bounded)
{
    static const struct {
        const char *text, *front, *end; /* within 11 bytes */
    } rows[] = {
        {"", "", ""},
        {"cat.jpg", "cat.jpg", "cat.jpg"},
        {"0123456789", "0123456789", "0123456789"},
        {"0123456789a", "0123456...", "...456789a"},
        {"a\\b", "a\\\\b", "a\\\\b"},
        {"a\nb", "a\\x0ab", "a\\x0ab"},
        {"\xc2\x9b", "\\xc2\\x9b", "\\xc2\\x9b"},
        {"\xff\xfe", "\\xff\\xfe", "\\xff\\xfe"},
        {"abc\n\n", "abc\\x0a...", "...\\x0a"},
        {"abcdef\xc3\xa9\xc3\xa9\xc3\xa9", "abcdef...", "...f\xc3\xa9\xc3\xa9\xc3\xa9"},
        {"abc\xc3", "abc\\xc3", "abc\\xc3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[11];
        text_escape(text, sizeof text, rows[i].text, strlen(rows[i].text));
        assert_string_equal(text, rows[i].front);
        text_escape_end(text, sizeof text, rows[i].text, strlen(rows[i].text));
        assert_string_equal(text, rows[i].end);
    }
    char text[16];
    text_escape(text, sizeof text, "a\0b", 3);
    assert_string_equal(text, "a\\x00b");
}

TEST(unprintable_bytes_become_question_marks)
{
    char text[] = "a\nb\x1b[1m \xc3\xa9 \xff\xe2\x82";
    text_make_printable(text);
    assert_string_equal(text, "a?b?[1m \xc3\xa9 ???");
    char c1[] = "\xc2\x9b" "2J\xc2\x80 \xc2\x9f\xc2\xa0\xc3\x9b\x7f\xc2";
    text_make_printable(c1);
    assert_string_equal(c1, "??2J?? ??\xc2\xa0\xc3\x9b??");
}

/* The visible neighbours of each hidden character are shown. */
TEST(texts_that_look_like_others_are_unprintable)
{
    static const char *const hidden[] = {
        "\xc2\xad",     "\xd8\x9c",     "\xe1\xa0\x8e", "\xe2\x80\x8b", "\xe2\x80\x8e",
        "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa", "\xe2\x80\xab",
        "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa0", "\xe2\x81\xa6",
        "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9", "\xe2\x81\xaf", "\xef\xbb\xbf",
        "\xef\xbf\xb9", "\xf3\xa0\x80\x81", "\xf3\xa0\x87\xaf",
    };
    static const char *const shown[] = {
        "\xc2\xac",     "\xc2\xae",     "\xd8\x9b",     "\xd8\x9d",     "\xe1\xa0\x8f",
        "\xe2\x80\x8a", "\xe2\x80\x8c", "\xe2\x80\x8d", "\xe2\x80\x90", "\xe2\x80\xa7",
        "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe2\x81\xb0", "\xef\xbb\xbe", "\xef\xbf\xbc",
        "\xf0\x9f\x98\x80", "\xf3\x9f\xbf\xbd",
    };
    char text[16];
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        snprintf(text, sizeof text, "a%sz", hidden[i]);
        text_make_printable(text);
        if (strspn(text + 1, "?") != strlen(hidden[i]))
            fail_msg("row %zu is shown", i);
    }
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        snprintf(text, sizeof text, "%s", shown[i]);
        text_make_printable(text);
        assert_string_equal(text, shown[i]);
    }
    assert_int_equal(text_code_point((const unsigned char *)"z"), 'z');
    assert_int_equal(text_code_point((const unsigned char *)"\xc3\xa9"), 0xE9);
    assert_int_equal(text_code_point((const unsigned char *)"\xe2\x82\xac"), 0x20AC);
    assert_int_equal(text_code_point((const unsigned char *)"\xf0\x9f\x98\x80"), 0x1F600);
}

TEST(json_is_escaped_rather_than_changed)
{
    static const struct {
        const char *json, *printable;
    } rows[] = {
        {"", ""}, {"{\"a\":\"\xc3\xa9\"}", "{\"a\":\"\xc3\xa9\"}"},
        {"\"\x7f\xc2\x9b\"", "\"\\u007f\\u009b\""},
        {"\"\xe2\x80\xae\xef\xbb\xbf\"", "\"\\u202e\\ufeff\""},
        {"\"\xf3\xa0\x80\x81\"", "\"\\udb40\\udc01\""},
        {"\"\xff\xe2\x82\"", "\"\\ufffd\\ufffd\\ufffd\""}, {"\xff", "\\ufffd"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = text_printable_json(rows[i].json);
        assert_string_equal(text, rows[i].printable);
        free(text);
    }
}

TEST(a_typing_mistake_has_a_nearest_name)
{
    static const char *const names[] = {"ops", "input", "grayscale", "grace"};
    static const struct {
        const char *word, *nearest;
    } rows[] = {
        {"op", "ops"}, {"Ops", "ops"}, {"inptu", "input"}, {"imput", "input"},
        {"greyscale", "grayscale"}, {"grascalle", "grayscale"}, {"garce", "grace"},
        {"o", NULL}, {"", NULL}, {"xyz", NULL}, {"inlet", NULL}, {"sobel", NULL},
        {"a word that is longer than any name could be, and so near none of them", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *nearest = text_nearest(rows[i].word, names, 4);
        if (!nearest != !rows[i].nearest || (nearest && strcmp(nearest, rows[i].nearest) != 0))
            fail_msg("\"%s\": %s", rows[i].word, nearest ? nearest : "none");
    }
}

TEST(the_first_error_is_kept)
{
    struct error error = {0};
    assert_int_equal(error_set(&error, STATUS_BAD_OP, "radius is %d\n", 7), STATUS_BAD_OP);
    assert_int_equal(error_set(&error, STATUS_TIMEOUT, "later"), STATUS_BAD_OP);
    assert_string_equal(error.text, "radius is 7?");
    char long_text[2 * ERROR_TEXT_MAX];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    struct error other = {0};
    error_set(&other, STATUS_BAD_JOB, "%s", long_text);
    assert_int_equal(strlen(other.text), ERROR_TEXT_MAX - 1);
}

TEST(every_status_has_a_name_and_a_meaning)
{
    for (int i = 0; i < STATUS_COUNT; i++) {
        assert_true(strlen(status_name((enum status)i)) > 1);
        assert_true(strlen(status_meaning((enum status)i)) > 10);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(status_name((enum status)i), status_name((enum status)j));
    }
    assert_true(status_retryable(STATUS_WRITE_FAILED));
    assert_false(status_retryable(STATUS_BAD_JOB));
}

/* Runs the body with standard error in a file, and returns what it wrote. */
static char *captured(void (*body)(void), const char *journal_stream)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    struct stat info;
    fstat(STDERR_FILENO, &info);
    char stream[64];
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)info.st_dev,
             (unsigned long long)info.st_ino);
    setenv("JOURNAL_STREAM", journal_stream ? journal_stream : stream, 1);
    log_init();
    body();
    dup2(saved, STDERR_FILENO);
    close(saved);
    char *text = calloc(1, 4096);
    rewind(file);
    size_t length = fread(text, 1, 4095, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

static void say_things(void)
{
    log_set_level(LOG_LEVEL_INFO);
    log_debug("hidden");
    log_warning("%s", "two\nlines");
}

TEST(journal_lines_have_a_priority)
{
    char *text = captured(say_things, NULL);
    assert_string_equal(text, "<4>two?lines\n");
    free(text);
}

TEST(other_lines_have_a_time)
{
    char *text = captured(say_things, "1:2");
    int year, month, day, hour, minute, end = 0;
    float second;
    assert_int_equal(sscanf(text, "%d-%d-%dT%d:%d:%fZ warning two?lines%n", &year, &month, &day,
                            &hour, &minute, &second, &end), 6);
    assert_int_equal(text[end], '\n');
    free(text);
}

TEST(numbers_have_their_digits)
{
    static const uint64_t some[] = {0, 1, 9, 10, 99, 100, 4294967295u, 9999999999u, UINT64_MAX};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        char wanted[32], made[TEXT_DIGITS_MAX + 1];
        snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)some[i]);
        size_t length = strlen(wanted);
        memset(made, '?', sizeof made);
        assert_int_equal(text_number(made, some[i]), length);
        assert_memory_equal(made, wanted, length);
        assert_int_equal(made[length], '?');
    }
}

TEST_MAIN(.name = "text")
