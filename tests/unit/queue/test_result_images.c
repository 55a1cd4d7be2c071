/* Tests of results of jobs with many inputs. */
#include "conf/limits.h"
#include "queue/job/json.h"
#include "queue/job/result.h"
#include "tests/fixtures/test.h"

#define NO_TIMES                                                                                   \
    {                                                                                              \
        -1, -1, -1, -1, -1, -1, -1, -1, -1                                                         \
    }

static const struct job_rules rules = {"ns", 60};

static void parse(struct job *job, const char *text)
{
    struct error error = {0};
    if (job_parse(job, text, strlen(text), &rules, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void expect(const struct result *result, const char *text)
{
    struct error error = {0};
    char *written = result_write(result);
    assert_non_null(written);
    assert_string_equal(written, text);
    assert_int_equal(json_check(written, strlen(written), &error), STATUS_OK);
    free(written);
}

TEST(test_list)
{
    struct job job;
    parse(&job, "{\"inputs\":[\"a\",\"b\"],\"output\":\"e/%p.jpg\"}");
    const struct result_images images = {
        .count = 2, .done = 1, .failed = 1, .pixels = 16777216, .errors = "[{\"image\":1}]"};
    const struct result_output output = {.place = &job.outputs[0].place,
                                         .format = "jpeg",
                                         .images = 1,
                                         .bytes = 123456,
                                         .encoder = "cuda:0"};
    expect(&(struct result){.job = &job,
                            .text = "{}",
                            .text_bytes = 2,
                            .number = 7,
                            .status = "done",
                            .images = &images,
                            .outputs = &output,
                            .output_count = 1,
                            .attempt = 1,
                            .daemon = "h:1",
                            .ms = NO_TIMES},
           "{\"job\":7,\"status\":\"done\",\"images\":{\"count\":2,\"done\":1,\"failed\":1,"
           "\"copied\":0,\"pixels\":16777216,\"errors\":[{\"image\":1}]},\"outputs\":[{\"path\":"
           "\"e/%p.jpg\",\"format\":\"jpeg\",\"images\":1,\"bytes\":123456,\"encoder\":\"cuda:0\"}]"
           ",\"attempt\":1,\"daemon\":\"h:1\",\"ms\":{}}");
    job_clear(&job);
}

TEST(test_archive)
{
    struct job job;
    parse(&job, "{\"inputs\":{\"archive\":{\"url\":\"https://h/t.tar?X=1\"}},\"outputs\":["
                "{\"output\":\"o.tar\"},{\"output\":{\"path\":\"a.npy\",\"pack\":\"array\"}},"
                "{\"ops\":[\"stats\"]}]}");
    const struct result_images images = {.count = 5000000000,
                                         .done = 5000000000,
                                         .copied = 3,
                                         .skipped = 2,
                                         .warning = "why",
                                         .values = "[{\"image\":0,\"output\":2,\"values\":{}}]",
                                         .errors_omitted = 4,
                                         .values_omitted = 9,
                                         .archive_format = "tar"};
    const struct result_output outputs[] = {
        {.place = &job.outputs[0].place, .images = 254, .bytes = 10240},
        {.place = &job.outputs[1].place,
         .format = "npy",
         .images = 254,
         .bytes = 338,
         .dtype = "uint8",
         .shape = {5, 7, 3},
         .array = true,
         .count = 254},
        {.place = &job.outputs[2].place},
    };
    expect(&(struct result){.job = &job,
                            .number = 7,
                            .status = "done",
                            .input_bytes = 20480,
                            .images = &images,
                            .outputs = outputs,
                            .output_count = 3,
                            .attempt = 1,
                            .daemon = "h:1",
                            .ms = NO_TIMES},
           "{\"job\":7,\"status\":\"done\",\"input\":{\"url\":\"https://h/t.tar\",\"format\":"
           "\"tar\",\"bytes\":20480},\"images\":{\"count\":5000000000,\"done\":5000000000,"
           "\"failed\":0,\"copied\":3,\"skipped\":2,\"pixels\":0,\"warning\":\"why\",\"errors_"
           "omitted\":4,\"values\":[{\"image\":0,"
           "\"output\":2,\"values\":{}}],\"values_omitted\":9},\"outputs\":[{\"path\":\"o.tar\","
           "\"images\":254,\"bytes\":10240},{\"path\":\"a.npy\",\"format\":\"npy\",\"images\":254,"
           "\"bytes\":338,\"dtype\":\"uint8\",\"shape\":[254,5,7,3]},{\"images\":0}],\"attempt\":1,"
           "\"daemon\":\"h:1\",\"ms\":{}}");
    job_clear(&job);
}

/* Before the images are known, a result has the names of the job. */
TEST(test_failed)
{
    static const struct {
        const char *job, *shown;
    } rows[] = {
        {"{\"inputs\":{\"folder\":\"a/b\"},\"output\":\"%n\"}", "\"input\":{\"folder\":\"a/b\"},"},
        {"{\"inputs\":{\"archive\":\"a.zip\"},\"output\":\"%n\"}",
         "\"input\":{\"path\":\"a.zip\"},"},
        {"{\"inputs\":{\"archive\":{\"key\":\"other\"}},\"output\":\"%n\"}",
         "\"input\":{\"key\":\"other\"},"},
        {"{\"inputs\":{\"folder\":\"../b\"}}", "\"input\":{\"folder\":\"../b\"},"},
        {"{\"inputs\":[\"a\"],\"output\":\"%n\"}", ""},
        {"{\"inputs\":[]}", "\"text\":\"{\\\"inputs\\\":[]}\","},
        {"{\"inputs\":{}}", "\"text\":\"{\\\"inputs\\\":{}}\","},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job;
        struct error error = {0};
        char expected[300];
        enum status status = job_parse(&job, rows[i].job, strlen(rows[i].job), &rules, &error);
        assert_int_equal(status, error.status);
        snprintf(expected, sizeof expected,
                 "{\"job\":1,\"status\":\"failed\",%s\"outputs\":[],"
                 "\"attempt\":1,\"daemon\":\"h:1\",\"ms\":{}}",
                 rows[i].shown);
        expect(&(struct result){.job = &job,
                                .text = rows[i].job,
                                .text_bytes = strlen(rows[i].job),
                                .number = 1,
                                .status = "failed",
                                .attempt = 1,
                                .daemon = "h:1",
                                .ms = NO_TIMES},
               expected);
        job_clear(&job);
    }
}

static void expect_error(const char *name, const char *shown)
{
    struct error error = {0}, strict = {0};
    char expected[400];
    error_set(&error, STATUS_DECODE_FAILED, "no \"image\"");
    char *text = result_image_error(17, name, &error);
    snprintf(expected, sizeof expected,
             "{\"image\":17,%s\"error\":{\"code\":\"decode_failed\","
             "\"message\":\"no \\\"image\\\"\",\"retryable\":false}}",
             shown);
    assert_string_equal(text, expected);
    assert_int_equal(json_check(text, strlen(text), &strict), STATUS_OK);
    free(text);
}

/* Names of members are not checked: they can have any bytes. */
TEST(test_errors_of_images)
{
    expect_error("a/b.jpg", "\"name\":\"a/b.jpg\",");
    expect_error("\xC3\xA9.jpg", "\"name\":\"\xC3\xA9.jpg\",");
    expect_error("a\"\n\xFF\x1b[31m\\", "\"name\":\"a\\\"\\\\x0a\\\\xff\\\\x1b[31m\\\\\\\\\",");
    expect_error("https://u:secret@h/a.jpg?sig=1", "\"name\":\"https://h/a.jpg\",");
    expect_error("", "\"name\":\"\",");
    expect_error(NULL, "");
}

TEST(test_error_of_long_name)
{
    struct error error = {0};
    char *name = malloc(100001);
    memset(name, '\x01', 100000);
    strcpy(name + 100000 - 4, ".jpg");
    error_set(&error, STATUS_DECODE_FAILED, "x");
    char *text = result_image_error(0, name, &error);
    assert_true(strlen(text) < 2 * JOB_PATH_BYTES_MAX);
    assert_non_null(strstr(text, "\"name\":\"...\\\\x01"));
    free(text);
    free(name);
}

TEST(test_values_of_images)
{
    cJSON *values = cJSON_Parse("{\"otsu\":7}");
    char *text = result_image_values(4095, 2, values);
    assert_string_equal(text, "{\"image\":4095,\"output\":2,\"values\":{\"otsu\":7}}");
    free(text);
    cJSON_Delete(values);
}

/* A key of one image is a template in the result. The other images are in place. */
TEST(test_deny)
{
    static const char failure[] = "\"error\":{\"code\":\"path_refused\",\"message\":\"no\","
                                  "\"retryable\":false}";
    struct error error = {STATUS_PATH_REFUSED, "no"};
    static const struct {
        const char *key;
        int denied; /* -1: none */
    } rows[] = {{"ns:img:a/b-000001.png", 0}, {"ns:img:x/000001", 1}, {"ns:img:y", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[600], more[2][120];
        static const char done[] =
            "{\"job\":1,\"status\":\"done\",\"images\":{\"count\":2,\"pixels\":4000000000},"
            "\"outputs\":[{\"key\":\"ns:img:%p-%n.png\",\"images\":2,\"bytes\":4},"
            "{\"key\":\"ns:img:x/%n\",\"images\":2,\"bytes\":5}]}";
        for (int k = 0; k < 2; k++)
            snprintf(more[k], sizeof more[k], "%s%s", rows[i].denied == k ? "," : "",
                     rows[i].denied == k ? failure : "");
        snprintf(expected, sizeof expected,
                 "{\"job\":1,\"status\":\"failed\",%s,\"images\":{\"count\":2,"
                 "\"pixels\":4000000000},\"outputs\":[{\"key\":\"ns:img:%%p-%%n.png\",\"images\":2,"
                 "\"bytes\":4%s},{\"key\":\"ns:img:x/%%n\",\"images\":2,\"bytes\":5%s}]}",
                 failure, more[0], more[1]);
        char *denied = result_deny(done, rows[i].key, &error);
        assert_string_equal(denied, expected);
        free(denied);
    }
}

/* Only the beginning of a long template is compared. */
TEST(test_deny_long_keys)
{
    struct error error = {STATUS_PATH_REFUSED, "no"};
    for (int bytes = 100; bytes < 500; bytes++) {
        char result[800], key[600], *denied;
        snprintf(result, sizeof result,
                 "{\"job\":1,\"status\":\"done\",\"images\":{},\"outputs\":["
                 "{\"key\":\"ns:img:%%%%%%p%0*d%%n\"}]}",
                 bytes, 0);
        snprintf(key, sizeof key, "ns:img:%%a%0*d000001", bytes, 0);
        denied = result_deny(result, key, &error);
        assert_non_null(strstr(denied, "\"no\",\"retryable\":false}}]"));
        free(denied);
        denied = result_deny(result, "ns:img:a", &error);
        assert_null(strstr(denied, "\"retryable\":false}}]"));
        free(denied);
    }
}

TEST(test_shorten_and_repeat)
{
    static const char kept[] =
        "{\"id\":\"i\",\"job\":1,\"status\":\"done\",\"images\":{\"count\":2,\"done\":2,\"failed\":"
        "0,"
        "\"copied\":0,\"pixels\":123456789012},\"outputs\":[{\"path\":\"%p.png\",\"images\":2}],"
        "\"attempt\":1,\"daemon\":\"h:1\",\"ms\":{}}";
    struct error error = {STATUS_WRITE_FAILED, "too long"};
    char *text = result_shorten(kept, &error);
    assert_string_equal(text, "{\"id\":\"i\",\"job\":1,\"status\":\"failed\",\"error\":{\"code\":"
                              "\"write_failed\",\"message\":\"too long\",\"retryable\":true},"
                              "\"attempt\":1,\"daemon\":\"h:1\"}");
    free(text);
    struct job job;
    parse(&job, "{\"id\":\"i\",\"inputs\":[\"a\",\"b\"],\"output\":\"%p.png\"}");
    text = result_repeat(kept, &job, 2);
    assert_string_equal(text,
                        "{\"id\":\"i\",\"status\":\"done\",\"images\":{\"count\":2,\"done\":2,"
                        "\"failed\":0,\"copied\":0,\"pixels\":123456789012},\"outputs\":[{\"path\":"
                        "\"%p.png\",\"images\":2}],\"attempt\":1,\"daemon\":\"h:1\",\"ms\":{},"
                        "\"same_as\":1,\"job\":2}");
    free(text);
    job_clear(&job);
}

TEST_MAIN(.name = "result_images")
