/* Tests of the completion message, key by key. */
#include <float.h>
#include <math.h>

#include "conf/limits.h"
#include "conf/text.h"
#include "queue/job/result.h"
#include "queue/job/writer.h"
#include "tests/fixtures/test.h"

#define NO_TIMES {-1, -1, -1, -1, -1, -1, -1, -1, -1}

static void expect(const struct result *result, const char *text)
{
    char *written = result_write(result);
    assert_non_null(written);
    assert_string_equal(written, text);
    free(written);
}

TEST(test_done)
{
    static const struct job_rules rules = {"ns", 60};
    static const char text[] = "{\"input\":\"a\",\"output\":\"b.png\",\"id\":\"i\\\"\\u00e9\","
                               "\"meta\":{\"x\":1.10,\"y\":[ ]}}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_OK);
    struct result_output outputs[2] = {
        {.place = &job.outputs[0].place,
         .format = "png",
         .width = 10,
         .height = 20,
         .bytes = 300,
         .quality = 61,
         .encoder = "cuda:0"},
        {.place = &(struct job_place){.key = "ns:img:k"},
         .format = "jpeg",
         .width = 1,
         .height = 2,
         .bytes = 3,
         .quality = 61,
         .has_ssim = true,
         .ssim = 0.987654,
         .error = &error},
    };
    struct result result = {
        .job = &job,
        .number = 1000000000000000,
        .status = "done",
        .input_format = "jpeg",
        .input_width = 30,
        .input_height = 40,
        .input_bytes = 5000000000,
        .input_frames = 7,
        .input_gain_map = true,
        .outputs = outputs,
        .output_count = 2,
        .attempt = 1,
        .engine = "cuda:0",
        .decoder = "cpu",
        .daemon = "h:1",
        .ms = {0, 1.5, 2.0004, 3, 4, 5, 6, 7, 123456.789},
    };
    expect(&result,
           "{\"id\":\"i\\\"\xC3\xA9\",\"job\":1000000000000000,\"status\":\"done\","
           "\"meta\":{\"x\":1.10,\"y\":[ ]},"
           "\"input\":{\"path\":\"a\",\"format\":\"jpeg\",\"width\":30,\"height\":40,"
           "\"bytes\":5000000000,\"frames\":7,\"gain_map\":true},"
           "\"outputs\":[{\"path\":\"b.png\",\"format\":\"png\",\"width\":10,\"height\":20,"
           "\"bytes\":300,\"quality\":61,\"encoder\":\"cuda:0\"},"
           "{\"key\":\"ns:img:k\",\"format\":\"jpeg\",\"width\":1,\"height\":2,"
           "\"bytes\":3,\"quality\":61,\"ssim\":0.987654}],\"attempt\":1,\"engine\":\"cuda:0\","
           "\"decoder\":\"cpu\","
           "\"daemon\":\"h:1\","
           "\"ms\":{\"queue\":0.000,\"read\":1.500,\"admit\":2.000,\"decode\":3.000,"
           "\"h2d\":4.000,\"kernel\":5.000,\"d2h\":6.000,\"encode\":7.000,\"total\":123456.789}}");
    job_clear(&job);
}

TEST(test_tensor)
{
    struct job_place place = {.path = "o.npy"};
    struct result_output output = {.place = &place,
                                   .format = "npy",
                                   .width = 7,
                                   .height = 5,
                                   .bytes = 338,
                                   .encoder = "cpu",
                                   .dtype = "float16",
                                   .shape = {3, 5, 7}};
    struct result result = {.number = 7,
                            .status = "done",
                            .outputs = &output,
                            .output_count = 1,
                            .attempt = 1,
                            .daemon = "h:1",
                            .ms = NO_TIMES};
    expect(&result,
           "{\"job\":7,\"status\":\"done\",\"outputs\":[{\"path\":\"o.npy\",\"format\":\"npy\","
           "\"width\":7,\"height\":5,\"bytes\":338,\"encoder\":\"cpu\",\"dtype\":\"float16\","
           "\"shape\":[3,5,7]}],\"attempt\":1,\"daemon\":\"h:1\",\"ms\":{}}");
}

TEST(test_failed)
{
    struct error error = {0}, inner = {0};
    error_set(&error, STATUS_GPU_FAILED, "a \"b\"\n\xff");
    error_set(&inner, STATUS_WRITE_FAILED, "no space");
    struct job_place place = {.path = "o"};
    struct result_output output = {.place = &place, .error = &inner};
    struct result result = {.number = 7, .status = "failed", .error = &error, .outputs = &output,
                            .output_count = 1, .attempt = 2, .daemon = "h:1", .ms = NO_TIMES};
    expect(&result,
           "{\"job\":7,\"status\":\"failed\",\"error\":{\"code\":\"gpu_failed\","
           "\"message\":\"a \\\"b\\\"??\",\"retryable\":true},\"outputs\":[{\"path\":\"o\","
           "\"error\":{\"code\":\"write_failed\",\"message\":\"no space\",\"retryable\":true}}],"
           "\"attempt\":2,\"daemon\":\"h:1\",\"ms\":{}}");
}

/* An output has its values, with an image or alone. The caller keeps their ownership. */
TEST(test_values)
{
    struct job_place place = {.path = "o"}, none = {0};
    cJSON *values = cJSON_Parse("{\"stats\":{\"mean\":[0.1]}}");
    cJSON_AddItemToObject(values, "histogram", cJSON_CreateRaw("[1,2]"));
    struct result_output outputs[2] = {{.place = &place,
                                        .format = "png",
                                        .width = 1,
                                        .height = 2,
                                        .bytes = 3,
                                        .values = values,
                                        .encoder = "cpu"},
                                       {.place = &none, .values = values}};
    struct result result = {.number = 7, .status = "done", .outputs = outputs, .output_count = 2,
                            .attempt = 1, .daemon = "h:1", .ms = NO_TIMES};
    for (int i = 0; i < 2; i++)
        expect(&result, "{\"job\":7,\"status\":\"done\",\"outputs\":[{\"path\":\"o\","
                        "\"format\":\"png\",\"width\":1,\"height\":2,\"bytes\":3,"
                        "\"encoder\":\"cpu\",\"values\":"
                        "{\"stats\":{\"mean\":[0.1]},\"histogram\":[1,2]}},{\"values\":"
                        "{\"stats\":{\"mean\":[0.1]},\"histogram\":[1,2]}}],\"attempt\":1,"
                        "\"daemon\":\"h:1\",\"ms\":{}}");
    cJSON_Delete(values);
}

TEST(test_nothing_known)
{
    struct job job = {0};
    struct result result = {.job = &job, .number = 1, .status = "failed", .daemon = "h:1",
                            .attempt = 1, .ms = {-1, -1, -1, -1, -1, -1, -1, -1, 0.25}};
    expect(&result, "{\"job\":1,\"status\":\"failed\",\"outputs\":[],\"attempt\":1,"
                    "\"daemon\":\"h:1\",\"ms\":{\"total\":0.250}}");
}

/* The result names a job, even a bad one, by its input, or by the start of its text. */
TEST(test_input_of_bad_jobs)
{
    static const struct job_rules rules = {"ns", 60};
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"{\"input\":\"a/b.jpg\"}", "\"input\":{\"path\":\"a/b.jpg\"},"},
        {"{\"input\":\"../b.jpg\",\"output\":\"c.png\"}", "\"input\":{\"path\":\"../b.jpg\"},"},
        {"{\"input\":{\"path\":\"a\\n\"},\"x\":1}", "\"input\":{\"path\":\"a\\n\"},"},
        {"{\"input\":{\"key\":\"other:1\"}}", "\"input\":{\"key\":\"other:1\"},"},
        {"{\"output\":\"c.png\"}", "\"text\":\"{\\\"output\\\":\\\"c.png\\\"}\","},
        {"{\"input\":7}", "\"text\":\"{\\\"input\\\":7}\","},
        {"{\"input\":\"\"}", "\"text\":\"{\\\"input\\\":\\\"\\\"}\","},
        {"no\tJSON \\ \xff", "\"text\":\"no\\\\x09JSON \\\\\\\\ \\\\xff\","},
        {"", "\"text\":\"\","},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job;
        struct error error = {0};
        char expected[300];
        assert_int_not_equal(job_parse(&job, rows[i].text, strlen(rows[i].text), &rules, &error),
                             STATUS_OK);
        snprintf(expected, sizeof expected, "{\"job\":1,\"status\":\"failed\",%s\"outputs\":[],"
                 "\"attempt\":1,\"daemon\":\"h:1\",\"ms\":{}}", rows[i].shown);
        expect(&(struct result){.job = &job, .text = rows[i].text,
                                .text_bytes = strlen(rows[i].text), .number = 1,
                                .status = "failed", .attempt = 1, .daemon = "h:1", .ms = NO_TIMES},
               expected);
        job_clear(&job);
    }
}

TEST(test_excerpt_is_bounded)
{
    static const struct job_rules rules = {"ns", 60};
    char text[5000] = "{\"input\":\"", excerpt[JOB_EXCERPT_BYTES_MAX + 1] = "";
    struct job job;
    struct error error = {0};
    memset(text + strlen(text), 'x', sizeof text - strlen(text) - 1);
    memcpy(text + sizeof text - 3, "\"}", 3);
    /* A name that is not a valid path counts as none. */
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error),
                     STATUS_PATH_REFUSED);
    assert_null(job.input.path);
    char *written = result_write(&(struct result){.job = &job, .text = text, .number = 1,
                                                  .text_bytes = strlen(text), .status = "failed",
                                                  .daemon = "h:1", .ms = NO_TIMES});
    text_escape(excerpt, sizeof excerpt, text, strlen(text));
    assert_int_equal(strlen(excerpt), JOB_EXCERPT_BYTES_MAX);
    cJSON *result = cJSON_Parse(written);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(result, "text")), excerpt);
    cJSON_Delete(result);
    free(written);
    job_clear(&job);
}

TEST(test_escapes)
{
    expect(&(struct result){.number = UINT64_MAX, .status = "done",
                            .daemon = "\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9",
                            .ms = {.queue = 0, .read = 0.0004, .admit = 0.0005, .decode = 1e300,
                                   .h2d = -1, .kernel = 12.3456, .d2h = -1, .encode = -1,
                                   .total = 59999.9996}},
           "{\"job\":18446744073709551615,\"status\":\"done\",\"outputs\":[],\"attempt\":0,"
           "\"daemon\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\","
           "\"ms\":{\"queue\":0.000,\"read\":0.000,\"admit\":0.001,"
           "\"decode\":1000000000000000.000,\"kernel\":12.346,\"total\":60000.000}}");
}

static void expect_repeat(const char *kept, const char *own, const char *expected)
{
    static const struct job_rules rules = {"ns", 60};
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, own, strlen(own), &rules, &error), STATUS_OK);
    char *text = result_repeat(kept, &job, 1000000000000001);
    if (expected)
        assert_string_equal(text, expected);
    else
        assert_null(text);
    free(text);
    job_clear(&job);
}

TEST(test_repeat)
{
    static const char with_priority[] = "{\"input\":\"a\",\"output\":\"b.png\",\"priority\":9}";
    expect_repeat("{\"job\":1,\"priority\":0,\"status\":\"done\"}", with_priority,
                  "{\"priority\":9,\"status\":\"done\",\"same_as\":1,\"job\":1000000000000001}");
    expect_repeat("{\"job\":1,\"tag\":\"its\",\"traceparent\":\"00\",\"tracestate\":\"a=1\"}",
                  with_priority, "{\"same_as\":1,\"job\":1000000000000001,\"priority\":9}");
    static const char with_labels[] =
        "{\"input\":\"a\",\"output\":\"b\",\"tag\":\"mine\",\"traceparent\":\"00-0af7651916cd43dd84"
        "48eb211c80319c-b7ad6b7169203331-01\",\"tracestate\":\"a=1\"}";
    expect_repeat("{\"job\":1,\"tag\":\"its\",\"status\":\"done\"}", with_labels,
                  "{\"tag\":\"mine\",\"status\":\"done\",\"same_as\":1,\"job\":1000000000000001,"
                  "\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\","
                  "\"tracestate\":\"a=1\"}");
    static const char bare[] = "{\"input\":\"a\",\"output\":\"b\"}";
    static const char with_meta[] = "{\"input\":\"a\",\"output\":\"b\",\"meta\":1.50}";
    expect_repeat("{\"id\":\"i\",\"job\":999999999999999,\"status\":\"done\",\"meta\":[1],"
                  "\"ms\":{\"read\":0.412}}", bare,
                  "{\"id\":\"i\",\"status\":\"done\",\"ms\":{\"read\":0.412},"
                  "\"same_as\":999999999999999,\"job\":1000000000000001}");
    expect_repeat("{\"job\":1,\"meta\":[1]}", with_meta,
                  "{\"meta\":1.50,\"same_as\":1,\"job\":1000000000000001}");
    expect_repeat("{\"job\":1}", with_meta,
                  "{\"same_as\":1,\"job\":1000000000000001,\"meta\":1.50}");
    expect_repeat("{\"job\":\"1\"}", bare, NULL);
    expect_repeat("[1]", bare, NULL);
    expect_repeat("no JSON", bare, NULL);
}

/* meta fills most of the job, so the result is longer than any job. */
TEST(test_deny)
{
    static const char start[] = "{\"job\":1,\"status\":";
    static const char outputs[] = "\"outputs\":[{\"key\":\"ns:img:a\",\"format\":\"png\"";
    static const char failure[] = "\"error\":{\"code\":\"path_refused\",\"message\":\"\\\"no\\\"\","
                                  "\"retryable\":false}";
    struct error error = {STATUS_PATH_REFUSED, "\"no\""};
    char *meta = NULL, *result = NULL, *expected = NULL;
    assert_true(asprintf(&meta, "\"meta\":[1.50,12345678901234567890,\"%0*d\"]",
                         (int)JOB_BYTES_MAX - 100, 0) > 0);
    assert_true(asprintf(&result, "%s\"done\",%s,%s,\"width\":1,\"height\":2,\"bytes\":3,"
                         "\"values\":{}},{\"key\":\"ns:img:b\",\"bytes\":4}],\"attempt\":1}",
                         start, meta, outputs) > 0);
    assert_true(asprintf(&expected, "%s\"failed\",%s,%s,%s,%s},{\"key\":\"ns:img:b\","
                         "\"bytes\":4}],\"attempt\":1}", start, failure, meta, outputs,
                         failure) > 0);
    assert_true(strlen(result) > JOB_BYTES_MAX);
    char *denied = result_deny(result, "ns:img:a", &error);
    assert_non_null(denied);
    assert_string_equal(denied, expected);
    free(denied);
    assert_null(result_deny("{", "ns:img:a", &error));
    free(expected);
    free(result);
    free(meta);
}

/* Functions of the writer that results do not use. */
TEST(test_decimals_and_restart)
{
    struct writer w = {0};
    writer_open(&w, NULL, '[');
    writer_text(&w, NULL, "gone");
    writer_restart(&w);
    writer_open(&w, NULL, '{');
    writer_decimal(&w, "a", 0.0000006, 6);
    writer_decimal(&w, "b", -2.5, 1);
    writer_decimal(&w, "none", (double)NAN, 1);
    writer_decimal(&w, "nor", (double)INFINITY, 1);
    writer_decimal(&w, "c", 1e15 + 0.5, 3);
    writer_decimal(&w, "d", 7, 0);
    writer_close(&w, '}');
    char *text = writer_finish(&w);
    assert_string_equal(text, "{\"a\":0.000001,\"b\":-2.5,\"c\":1000000000000000.500,\"d\":7}");
    free(text);
    writer_decimal(&w, NULL, DBL_MAX, 17); /* the longest number */
    text = writer_finish(&w);
    assert_int_equal(strlen(text), 309 + 1 + 17);
    assert_true(strtod(text, NULL) == DBL_MAX);
    free(text);
}

TEST_MAIN(.name = "result")
