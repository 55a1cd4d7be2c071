/* Tests of the JSON check, and of the position that it reports for an error. */
#include <cjson/cJSON.h>

#include "queue/job/json.h"
#include "tests/fixtures/test.h"

static const char *const good[] = {
    "{}", "[]", " \t\r\n{ } \n", "0", "-0", "-1.5e+10", "1E-2", "0.0", "true", "false", "null",
    "\"\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"", "\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"",
    "{\"a\":1,\"A\":2,\"\":3}", "{\"a\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":2}]}",
    "[1,[2,[3]],\"x\"]",
    "\"\x7f\"", "1.7976931348623157e308", "1e-999", "[3000000000,-3000000000,-0.5,1e300]",
    "[{\"a\":[true,false,null,[],{}]},{\"b\":\"x\\ny\xC3\xA9z\"}]",
    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}",
    "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
};

static const struct {
    const char *text;
    size_t byte; /* from 1 */
    const char *says;
} bad[] = {
    {"", 1, "text ends"}, {"  ", 3, "text ends"}, {"{", 2, "key"}, {"[", 2, "text ends"},
    {"[1", 3, "','"}, {"[1,]", 4, "value"}, {"[,1]", 2, "value"}, {"[1 2]", 4, "','"},
    {"{\"a\"}", 5, "':'"}, {"{\"a\":}", 6, "value"}, {"{\"a\":1,}", 8, "key"},
    {"{a:1}", 2, "key"}, {"{'a':1}", 2, "key"}, {"{\"a\":1 \"b\":2}", 8, "','"}, {"{,}", 2, "key"},
    {"{} {}", 4, "text after"}, {"1 x", 3, "text after"}, {"[]]", 3, "text after"},
    {"[}", 2, "value"},
    {"tru", 1, "value"}, {"True", 1, "value"}, {"nul", 1, "value"}, {"NaN", 1, "value"},
    {"Infinity", 1, "value"}, {"-Infinity", 2, "digit"}, {"+1", 1, "value"}, {"-", 2, "digit"},
    {"01", 2, "begin with 0"}, {"-01", 3, "begin with 0"}, {"1.", 3, "digit"}, {".5", 1, "value"},
    {"1e", 3, "digit"}, {"1e+", 4, "digit"}, {"0x10", 2, "text after"}, {"1.5.2", 4, "text after"},
    {"1e999", 1, "double"}, {"[-1e999]", 2, "double"},
    {"\"", 1, "does not end"}, {"\"abc", 1, "does not end"}, {"\"\\", 3, "escape"},
    {"\"\\x\"", 3, "escape"}, {"\"\\'\"", 3, "escape"}, {"\"\\u12\"", 6, "four hex"},
    {"\"\\u12g4\"", 6, "four hex"}, {"\"\n\"", 2, "control"}, {"\"\x1f\"", 2, "control"},
    {"\"\\u0000\"", 2, "\\u0000"}, {"{\"\\u0000\":1}", 3, "\\u0000"},
    {"\"\\ud800\"", 2, "high surrogate"}, {"\"\\ud800\\u0041\"", 2, "high surrogate"},
    {"\"\\ud800x\"", 2, "high surrogate"},
    {"\"\\ud800\\u12\"", 12, "four hex"}, {"\"a\\udc00\"", 3, "low surrogate"},
    {"\"\\ude00\\ud83d\"", 2, "low surrogate"},
    {"\"\xff\"", 2, "UTF-8"}, {"\"\xc0\x80\"", 2, "UTF-8"}, {"\"\xed\xa0\x80\"", 2, "UTF-8"},
    {"\"\xf4\x90\x80\x80\"", 2, "UTF-8"}, {"\"\xc3\"", 2, "UTF-8"}, {"\xef\xbb\xbf{}", 1, "value"},
    {"{\"a\":1,\"a\":2}", 8, "\"a\" occurs twice"},
    {"{\"a\":1,\"b\":2,\"\\u0061\":3}", 14, "\"a\" occurs twice"},
    {"[{\"x\":{\"k\":1,\"j\":2,\"k\":3}}]", 20, "\"k\" occurs twice"},
    {"{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"b\":9}", 50,
     "\"b\" occurs twice"},
    {"{\"\\u00e9\":1,\"\xc3\xa9\":2}", 13, "occurs twice"},
    {"{\"\\u20ac\":1,\"\xe2\x82\xac\":2}", 13, "occurs twice"},
    {"{\"a\":1,/**/\"b\":2}", 8, "key"},
    {"[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", 17, "16 levels"},
};

/* cJSON's parser makes the same tree. */
static void check_same_tree(const char *text, const cJSON *tree)
{
    cJSON *expected = cJSON_Parse(text);
    char *printed = cJSON_Print(tree), *wanted = cJSON_Print(expected);
    if (!cJSON_Compare(tree, expected, true) || strcmp(printed, wanted) != 0)
        fail_msg("%s: the tree is %s, not %s", text, printed, wanted);
    free(printed);
    free(wanted);
    cJSON_Delete(expected);
}

TEST(test_good)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct error error = {0};
        cJSON *tree = json_parse(good[i], strlen(good[i]), NULL, &error);
        if (!tree || error.status != STATUS_OK)
            fail_msg("%s: %s", good[i], error.text);
        check_same_tree(good[i], tree);
        cJSON_Delete(tree);
    }
}

TEST(test_bad)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error = {0};
        char where[40];
        snprintf(where, sizeof where, "at byte %zu:", bad[i].byte);
        if (json_check(bad[i].text, strlen(bad[i].text), &error) != STATUS_BAD_JSON ||
            !strstr(error.text, where) || !strstr(error.text, bad[i].says))
            fail_msg("%s: \"%s\", expected %s %s", bad[i].text, error.text, where, bad[i].says);
    }
}

TEST(test_nul_bytes)
{
    struct error error = {0};
    assert_int_equal(json_check("{}\0", 3, &error), STATUS_BAD_JSON);
    error = (struct error){0};
    assert_int_equal(json_check("\"a\0b\"", 5, &error), STATUS_BAD_JSON);
}

TEST(test_number_length)
{
    char text[80];
    for (size_t length = JSON_NUMBER_BYTES_MAX; length <= JSON_NUMBER_BYTES_MAX + 1; length++) {
        struct error error = {0};
        memset(text, '1', length);
        assert_int_equal(json_check(text, length, &error),
                         length > JSON_NUMBER_BYTES_MAX ? STATUS_BAD_JSON : STATUS_OK);
    }
}

/* The largest number of keys must not take quadratic time. */
TEST(test_many_keys)
{
    char *text = malloc(JOB_BYTES_MAX + 64);
    size_t used = 1;
    struct error error = {0};
    text[0] = '{';
    for (unsigned i = 0; used + 16 < JOB_BYTES_MAX; i++)
        used += (size_t)sprintf(text + used, "%s\"%x\":0", i ? "," : "", i);
    text[used++] = '}';
    assert_int_equal(json_check(text, used, &error), STATUS_OK);
    free(text);
}

TEST(test_raw_member)
{
    static const char text[] = "{\"x\":{\"meta\":1.0},\"me\\u0074a\" : [1.0, 2] ,\"y\":0}";
    struct error error = {0};
    cJSON *tree = json_parse(text, strlen(text), "meta", &error);
    char *printed = cJSON_PrintUnformatted(tree);
    assert_string_equal(printed, "{\"x\":{\"meta\":1},\"meta\":[1.0, 2],\"y\":0}");
    free(printed);
    cJSON_Delete(tree);
    tree = json_parse("{\"a\":1}", 7, "meta", &error);
    assert_non_null(tree);
    assert_null(cJSON_GetObjectItem(tree, "meta"));
    cJSON_Delete(tree);
    assert_null(json_parse("{\"meta\":1,}", 11, "meta", &error));
    assert_int_equal(error.status, STATUS_BAD_JSON);
}

TEST(test_set)
{
    cJSON *object = cJSON_CreateObject();
    assert_true(json_set(object, "a", cJSON_CreateNumber(1)));
    assert_true(json_set(object, "A", cJSON_CreateNumber(2)));
    assert_true(json_set(object, "a", cJSON_CreateNumber(3)));
    assert_false(json_set(object, "a", NULL));
    char *printed = cJSON_PrintUnformatted(object);
    assert_string_equal(printed, "{\"a\":3,\"A\":2}");
    free(printed);
    cJSON_Delete(object);
}

TEST_MAIN(.name = "json")
