/* Tests of mask.c: which parts of a text are shown. */
#include "conf/clock.h"
#include "conf/log.h"
#include "conf/mask.h"
#include "conf/status.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"

static void check(enum mask_kind kind, const char *text, const char *expected)
{
    char masked[512];
    snprintf(masked, sizeof masked, "%s", text);
    mask_text(masked, kind);
    if (strcmp(masked, expected) != 0)
        fail_msg("%s is shown as %s, not as %s", text, masked, expected);
    mask_text(masked, kind); /* logs mask what an error has masked */
    assert_string_equal(masked, expected);
}

TEST(values)
{
    static const char *const rows[][2] = {
        {"https://h/x?sig=S", "https://h/x"},
        {"HTTPS://h/x?sig=S", "HTTPS://h/x"},
        {"https://h/x#S", "https://h/x"},
        {"https://h?S", "https://h"},
        {"https://h/a;sig=S/b", "https://h/a"},
        {"https://h/a;b/c", "https://h/a;b/c"},
        {"https://user:S@h:80/x", "https://h:80/x"},
        {"https://S@h/x", "https://h/x"},
        {"https://a@S:S@h/x@y", "https://h/x@y"},
        {"https://u:S/S@h/x", "https://"},
        {"https://[::1]:80/x?S", "https://[::1]:80/x"},
        {"https:/h/x?S", "https:/h/x"},
        {"s3:h/x?S", "s3:h/x"},
        {"s3://bucket/x?S", "s3://bucket/x"},
        {"ftp:/u:S@h/x", "ftp:/h/x"},
        {"//h/x?S", "//h/x"},
        {"https:\\\\h\\x?S", "https:\\\\h\\x"},
        {"http://proxy/https://u:S@h/x?S", "http://proxy/https://h/x"},
        {"a https://h/x y?S z", "a https://h/x y"},
        {"https:%2F%2Fu:S@h%2Fx%3FS", "https:%2F%2Fh%2Fx"},
        {"https%3a%2f%2fh%2fx%3fS", "https%3a%2f%2fh%2fx"},
        {"https%253A%252F%252Fh%252Fx%253FS", "https%253A%252F%252Fh%252Fx"},
        {"rediss://user:S@h:6379/0", "rediss://h:6379/0"},
        {"redis://:S@h:6379", "redis://h:6379"},
        /* no secrets */
        {"https://h/a%3Fb.jpg", "https://h/a%3Fb.jpg"},
        {"cat?w=100.png", "cat?w=100.png"},
        {"gpuimgd:img:a/b?c#d", "gpuimgd:img:a/b?c#d"},
        {"sentinel://master@h:1,h:2", "sentinel://master@h:1,h:2"},
        {"unix:/a@b/c", "unix:/a@b/c"},
        {"a:1,b:2", "a:1,b:2"},
        {"", ""},
        {":", ":"},
        {"//", "//"},
        {"%", "%"},
        {"\\", "\\"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(MASK_VALUE, rows[i][0], rows[i][1]);
}

TEST(json)
{
    static const char *const rows[][2] = {
        {"{\"a\":\"https://h/x?S\",\"b\":\"c?d\"}", "{\"a\":\"https://h/x\",\"b\":\"c?d\"}"},
        {"[\"https:\\/\\/h\\/x?S\",1]", "[\"https:\\/\\/h\\/x\",1]"},
        {"[\"https:\\u002f\\u002Fh/x\\u003fS\"]", "[\"https:\\u002f\\u002Fh/x\"]"},
        {"[\"https\\u003a//u:S\\u0040h/x\"]", "[\"https\\u003a//h/x\"]"},
        {"[\"//h/x?S\",2]", "[\"//h/x\",2]"},
        {"{\"url\":\"h/x?S\",\"b\":\"c?d\"}", "{\"url\":\"h/x\",\"b\":\"c?d\"}"},
        {"{\"url\" : \"u:S@h:80/x?S\"}", "{\"url\" : \"h:80/x\"}"},
        {"{\"url\":\"u:S/S@h/x\"}", "{\"url\":\"\"}"},
        {"{\"url\":\"https://u:S@h/x?S\"}", "{\"url\":\"https://h/x\"}"},
        {"{\"url\":\"?S\",\"x\":\"\"}", "{\"url\":\"\",\"x\":\"\"}"},
        {"{\"url\":\"\"}", "{\"url\":\"\"}"},
        {"[\"https://h/x?a=\\\"S S\",2]", "[\"https://h/x\",2]"},
        {"{\"https://h/x?S\":1}", "{\"https://h/x\":1}"},
        {"\"{\\\"a\\\":\\\"https:\\\\/\\\\/h?S\\\"}\",3", "\"{\\\"a\\\":\\\"https:\\\\/\\\\/h\",3"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(MASK_VALUE, rows[i][0], rows[i][1]);
}

TEST(texts_that_were_cut)
{
    static const char *const rows[][2] = {
        {"[\"https://user:SECR", "[\"https://"},
        {"[\"https://SECR", "[\"https://"},
        {"[\"https:\\/\\/SECR\\u00", "[\"https:\\/\\/"},
        {"https://h/x?SEC", "https://h/x"},
        {"https://h/pa", "https://h/pa"},
        {"https:", "https:"},
        {"https:/", "https:/"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(MASK_CUT, rows[i][0], rows[i][1]);
}

TEST(messages)
{
    static const char *const rows[][2] = {
        {"https://h/x?S is refused. Why?", "https://h/x is refused. Why?"},
        {"the URL \"https://h/x y?S S\" is refused?", "the URL \"https://h/x y\" is refused?"},
        {"job 5 (https://h/x) failed: is it one?", "job 5 (https://h/x) failed: is it one?"},
        {"https://h:80: refused", "https://h:80: refused"},
        {"write {\"url\": \"https://...\"}", "write {\"url\": \"https://...\"}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(MASK_MESSAGE, rows[i][0], rows[i][1]);
}

TEST(errors_are_masked)
{
    struct error error = {0};
    error_set(&error, STATUS_BAD_JOB, "\"%s\" is wrong", "https://u:S@h/x?S");
    assert_string_equal(error.text, "\"https://h/x\" is wrong");
}

TEST(copies_are_cut)
{
    char text[12];
    assert_string_equal(mask_copy(text, sizeof text, "https://user:SECRET@host/x?S"),
                        "https://hos");
    assert_string_equal(mask_copy(text, sizeof text, "a"), "a");
}

TEST(urls_are_known)
{
    static const char *const yes[] = {"https://h", "HTTP://", "s3://b/k", "git+ssh://h"};
    static const char *const no[] = {"", "a/b", "https:/h", "://h", "a:img:https://h", "https"};
    for (size_t i = 0; i < COUNT_OF(yes); i++)
        assert_true(mask_is_url(yes[i]));
    for (size_t i = 0; i < COUNT_OF(no); i++)
        assert_false(mask_is_url(no[i]));
}

/* Texts of clients cost linear time. 1 MB of each takes milliseconds. */
TEST(hostile_texts_cost_little)
{
    static const char *const parts[] = {
        "%25", "25",   "\\",         ":",    "a:", "a:/",   "/",   ";",
        ";a",  "a://", "https://u:", "\"//", "@",  "\\u00", "a;a="};
    size_t size = 1000000;
    char *text = malloc(size + 1);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        for (int head = 0; head < 2; head++) {
            double begin_s = clock_now_s();
            size_t length = strlen(parts[i]);
            for (size_t at = 0; at < size; at++)
                text[at] = parts[i][at % length];
            if (head)
                memcpy(text, "https://h%25", 12);
            assert_true(mask_bytes(text, size, MASK_CUT) <= size);
            if (clock_now_s() - begin_s > patience(1))
                fail_msg("%s: %g s", parts[i], clock_now_s() - begin_s);
        }
    }
    free(text);
}

TEST_MAIN()
