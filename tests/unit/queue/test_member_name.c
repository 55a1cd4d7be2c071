/* Tests of patterns and templates of jobs with many inputs, against their definitions. */
#include <fnmatch.h>
#include <time.h>

#include "queue/job/member_name.h"
#include "tests/fixtures/picture.h"
#include "tests/fixtures/test.h"

static bool matches(const char *name, const char *pattern)
{
    return member_matches(name, &pattern, 1);
}

TEST(test_patterns)
{
    static const struct {
        const char *name, *pattern;
        bool match;
    } rows[] = {
        {"a.jpg", "*.jpg", true},
        {"a.JPG", "*.jpg", false},
        {"a/b/c.jpg", "*.jpg", true},
        {".jpg", "*.jpg", true},
        {"a.jpgx", "*.jpg", false},
        {"abc", "a?c", true},
        {"a/c", "a?c", true},
        {"ac", "a?c", false},
        {"", "*", true},
        {"", "?", false},
        {"a", "", false},
        {"", "", true},
        {"[a]", "[a]", true},
        {"a", "[a]", false},
        {"a\\*", "a\\*", true},
        {"aab", "*ab", true},
        {"abab", "*ab", true},
        {"abcabd", "*ab*d", true},
        {"mississippi", "m*iss*i?pi", true},
        {"mississippi", "m*iss*i??pi", false},
        {"\xC3\xA9", "?", false},
        {"\xC3\xA9", "??", true},
        {"\xFF.png", "*.png", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (matches(rows[i].name, rows[i].pattern) != rows[i].match)
            fail_msg("%s with %s", rows[i].name, rows[i].pattern);
    const char *several[] = {"*.a", "*.b"};
    assert_true(member_matches("x.b", several, 2));
    assert_false(member_matches("x.c", several, 2));
}

TEST(test_default_patterns)
{
    static const char *const yes[] = {"a.jpg", "A/B.JPEG", "x.y.png", "a.WebP", "b.avif"};
    static const char *const no[] = {"a",     "a.txt", "jpg",       "a.jpg/b",
                                     "a.npy", "a.raw", "a.jpg.bak", ""};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(member_matches(yes[i], NULL, 0));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(member_matches(no[i], NULL, 0));
}

/* fnmatch has the same stars and question marks, if nothing else is special. */
TEST(test_random_patterns)
{
    uint32_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        char name[13], pattern[9];
        size_t n = picture_random(&seed) % sizeof name, p = picture_random(&seed) % sizeof pattern;
        for (size_t k = 0; k < n; k++)
            name[k] = "ab/"[picture_random(&seed) % 3];
        for (size_t k = 0; k < p; k++)
            pattern[k] = "ab/**?"[picture_random(&seed) % 6];
        name[n] = pattern[p] = '\0';
        if (matches(name, pattern) != (fnmatch(pattern, name, FNM_NOESCAPE) == 0))
            fail_msg("\"%s\" with \"%s\"", name, pattern);
    }
}

/* Stars and question marks at all positions of the longest patterns. */
TEST(test_long_patterns)
{
    char name[130], pattern[129];
    for (int at = 0; at < 128; at++) {
        memset(name, 'a', sizeof name);
        memset(pattern, at % 2 ? 'a' : '?', 128);
        pattern[128] = '\0';
        name[128] = '\0';
        assert_true(matches(name, pattern));
        name[127] = '\0';
        assert_false(matches(name, pattern));
        pattern[at] = '*';
        assert_true(matches(name, pattern));
        name[127] = name[128] = 'a';
        name[129] = '\0';
        assert_true(matches(name, pattern));
        name[126] = '\0';
        assert_false(matches(name, pattern));
    }
}

/* A recursive matcher would not end, and one that goes back to the last star would need 100 times
 * as long. */
TEST(test_hostile_patterns_are_fast)
{
    char name[2049], stars[129], pairs[129], tail[129];
    memset(name, 'a', 2048);
    memset(stars, '*', 128);
    memset(tail, 'a', 128);
    tail[0] = '*';
    for (int i = 0; i < 128; i++)
        pairs[i] = i % 2 ? 'a' : '*';
    name[2048] = stars[128] = pairs[128] = tail[128] = '\0';
    pairs[127] = tail[127] = 'b';
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < 100; i++) {
        assert_true(matches(name, stars));
        assert_false(matches(name, pairs));
        assert_false(matches(name, tail));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    assert_true(seconds < 0.1); /* 0.003 s, and 0.01 s with sanitizers */
}

TEST(test_stems)
{
    static const struct {
        const char *name, *stem;
    } rows[] = {
        {"a.jpg", "a"},     {"x/a.seg.png", "x/a.seg"}, {"a", "a"},
        {"a.b/c", "a.b/c"}, {".png", ".png"},           {"x/.png", "x/.png"},
        {"a.", "a"},        {"x/a.b.", "x/a.b"},        {"", ""},
        {"..png", "."},     {"a.jpg/", "a.jpg/"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(member_stem(rows[i].name), strlen(rows[i].stem));
        assert_memory_equal(rows[i].name, rows[i].stem, strlen(rows[i].stem));
    }
}

TEST(test_names_of_places)
{
    static const struct {
        struct job_place place;
        const char *name;
    } rows[] = {
        {{.path = "a/b.jpg"}, "a/b.jpg"},
        {{.key = "ns:img:c:d/e.png"}, "c:d/e.png"},
        {{.url = "https://h/a/b.jpg?X=/y.png#z"}, "b.jpg"},
        {{.url = "https://h/a%20b.jpg"}, "a%20b.jpg"},
        {{.url = "https://u:p@h:1/"}, ""},
        {{.url = "http://h"}, ""},
        {{.url = "http://h?a/b"}, ""},
    };
    char text[JOB_URL_BYTES_MAX + 1];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(member_of_place(&rows[i].place, "ns", text), rows[i].name);
}

TEST(test_expand)
{
    static const struct {
        const char *pattern, *stem;
        uint64_t index;
        const char *text;
    } rows[] = {
        {"edges/%p.jpg", "a/b", 0, "edges/a/b.jpg"},
        {"%n.png", "x", 17, "000017.png"},
        {"%n", "x", 999999, "999999"},
        {"%n", "x", 1000000, "1000000"},
        {"%n", "x", UINT64_MAX, "18446744073709551615"},
        {"%p/%n/%p%n", "s", 1, "s/000001/s000001"},
        {"100%%-%p", "s", 1, "100%-s"},
        {"%%p%%n", "s", 1, "%p%n"},
        {"%p", "%p%n%%", 1, "%p%n%%"}, /* a name is not a template */
        {"%p", "", 1, ""},
        {"", "s", 1, ""},
        {"plain", "s", 1, "plain"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64], exact[64];
        size_t length = strlen(rows[i].text);
        assert_int_equal(
            member_expand(text, sizeof text, rows[i].pattern, rows[i].stem, rows[i].index), length);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(
            member_expand(exact, length + 1, rows[i].pattern, rows[i].stem, rows[i].index), length);
        assert_string_equal(exact, rows[i].text);
        for (size_t size = 0; size <= length; size++)
            assert_int_equal(
                member_expand(exact, size, rows[i].pattern, rows[i].stem, rows[i].index), -1);
    }
}

TEST(test_encode)
{
    char text[64], small[14];
    assert_int_equal(member_encode(text, sizeof text, "aZ09-._~/b"), 10);
    assert_string_equal(text, "aZ09-._~/b");
    assert_int_equal(member_encode(text, sizeof text, "\xC3\xA9 ?#%&\x01"), 24);
    assert_string_equal(text, "%C3%A9%20%3F%23%25%26%01");
    assert_int_equal(member_encode(text, sizeof text, ""), 0);
    assert_string_equal(text, "");
    assert_int_equal(member_encode(small, sizeof small, "%%%"), 9);
    assert_int_equal(member_encode(small, sizeof small, "%%%%"), 12);
    assert_int_equal(member_encode(small, sizeof small, "%%%%%"), -1);
    assert_int_equal(member_encode(small, 0, ""), -1);
}

TEST(test_outputs)
{
    static const struct {
        struct job_place template;
        const char *name;
        bool is_url;
        const char *text; /* NULL: refused */
    } rows[] = {
        {{.path = "e/%p-%n.jpg"}, "a/b.seg.png", false, "e/a/b.seg-000007.jpg"},
        {{.path = "%p"}, "a b?.png", false, "a b?"},
        {{.path = "%p"}, "../x.png", false, NULL},
        {{.path = "%p/x"}, "/etc/a.png", false, NULL},
        {{.path = "%p/x"}, ".gpuimgd.png", false, NULL},
        {{.path = "e/%p.jpg"}, "a\nb.png", false, NULL},
        {{.path = "%p"}, "", false, NULL},
        {{.key = "ns:img:%p"}, "c:d.png", false, "ns:img:c:d"},
        {{.key = "ns:img:%p"}, ".png", false, "ns:img:.png"},
        {{.url = "https://h/%p?x=%n"}, "a b?#.png", false, "https://h/a%20b%3F%23?x=000007"},
        {{.url = "https://h/%p"}, "a%20b.png", true, "https://h/a%20b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[JOB_URL_BYTES_MAX + 1];
        struct job_place place = {0};
        struct error error = {0};
        enum status status = member_output(&rows[i].template, rows[i].name, rows[i].is_url, 7, "ns",
                                           text, &place, &error);
        assert_int_equal(status, error.status);
        assert_int_equal(status, rows[i].text ? STATUS_OK : STATUS_PATH_REFUSED);
        if (!rows[i].text)
            continue;
        assert_string_equal(text, rows[i].text);
        assert_ptr_equal(place.path, rows[i].template.path ? text : NULL);
        assert_ptr_equal(place.key, rows[i].template.key ? text : NULL);
        assert_ptr_equal(place.url, rows[i].template.url ? text : NULL);
    }
}

/* Long names do not fit, whether they are encoded or not. */
TEST(test_output_of_long_name)
{
    static const struct job_place url = {.url = "https://h/%p"}, key = {.key = "ns:img:%p"};
    char *name = calloc(1, 100001), text[JOB_URL_BYTES_MAX + 1];
    for (size_t bytes = 1; bytes <= 100000; bytes *= 10) {
        struct job_place place;
        struct error error = {0}, other = {0};
        memset(name, ' ', bytes);
        bool fits = strlen("https://h/") + 3 * bytes <= JOB_URL_BYTES_MAX;
        assert_int_equal(member_output(&url, name, false, 0, "ns", text, &place, &error),
                         fits ? STATUS_OK : STATUS_PATH_REFUSED);
        assert_int_equal(member_output(&key, name, false, 0, "ns", text, &place, &other),
                         bytes + 7 <= JOB_KEY_BYTES_MAX ? STATUS_OK : STATUS_PATH_REFUSED);
        if (bytes == 100000)
            assert_string_equal(other.text, "the name of the image has 100000 bytes; its output "
                                            "would have more than 4096");
    }
    free(name);
}

TEST(test_templates)
{
    static const struct {
        const char *pattern;
        int fault; /* the position; -1: none */
        bool names, differ;
    } rows[] = {
        {"a", -1, false, false},      {"%p", -1, true, false},          {"a%n", -1, true, true},
        {"%%", -1, false, false},     {"%%p", -1, false, false},        {"%%n", -1, false, false},
        {"%%%n", -1, true, true},     {"%p/n%%%n.png", -1, true, true}, {"%%%p", -1, true, false},
        {"%", 0, false, false},       {"%p%", 2, true, false},          {"%P", 0, false, false},
        {"a%%%", 3, false, false},    {"%06n", 0, false, false},        {"%n%%%d", 4, true, true},
        {"%p%n", -1, true, false},    {"%n%p", -1, true, false},        {"%p12%n", -1, true, false},
        {"%p-%n", -1, true, true},    {"%n/%p", -1, true, true},        {"%n7%n", -1, true, true},
        {"%p-%n%p", -1, true, false}, {"%p%%%n", -1, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool names = !rows[i].names;
        const char *fault = member_template_fault(rows[i].pattern, &names);
        assert_int_equal(fault ? fault - rows[i].pattern : -1, rows[i].fault);
        if (!fault)
            assert_int_equal(names, rows[i].names);
        assert_int_equal(member_names_differ(rows[i].pattern), rows[i].differ);
    }
}

TEST(test_templates_that_part)
{
    assert_true(member_templates_part("o0/%n.png", "o1/%n.png"));
    assert_true(member_templates_part("a", "ab%n"));
    assert_false(member_templates_part("b%n.jpg", "%p.png"));
    assert_false(member_templates_part("a%n.jpg", "a%n.png"));
    assert_false(member_templates_part("a", "a%n"));
    assert_false(member_templates_part("a", "a"));
    assert_false(member_templates_part("a%%b%n", "a%%c%n")); /* not looked at */
}

TEST_MAIN(.name = "member_name")
