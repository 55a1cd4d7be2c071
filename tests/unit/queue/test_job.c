/* Tests of each rule of a job, on both sides of each limit. */
#include "queue/job/client_labels.h"
#include "queue/job/job.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

static const struct job_rules rules = {"ns", 60};

/* Repeats `piece`, for limits. */
static char *repeat(const char *piece, size_t count, const char *between)
{
    char *text = calloc(count + 1, strlen(piece) + strlen(between) + 1);
    for (size_t i = 0; i < count; i++) {
        if (i)
            strcat(text, between);
        strcat(text, piece);
    }
    return text;
}

/* Parses a job whose text is `format` with one piece inserted. */
static enum status parse_with(const char *format, const char *piece, char *message)
{
    struct job job;
    struct error error = {0};
    char *text = NULL;
    assert_true(asprintf(&text, format, piece) > 0);
    enum status status = job_parse(&job, text, strlen(text), &rules, &error);
    assert_int_equal(error.status, status);
    if (message)
        strcpy(message, error.text);
    job_clear(&job);
    job_clear(&job); /* idempotent */
    free(text);
    return status;
}

static void expect(const char *format, const char *piece, enum status status, const char *says)
{
    char message[ERROR_TEXT_MAX];
    enum status got = parse_with(format, piece, message);
    if (got != status || (says && !strstr(message, says)))
        fail_msg("%s with %.100s: %s: %s (expected %s: %s)", format, piece, status_name(got),
                 message, status_name(status), says ? says : "");
}

TEST(test_defaults)
{
    static const char text[] = "{\"input\":\"a.jpg\",\"output\":\"b/c.png\"}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_OK);
    assert_string_equal(job.input.path, "a.jpg");
    assert_null(job.input.key);
    assert_int_equal(job.output_count, 1);
    assert_false(job.listed);
    assert_string_equal(job.outputs[0].place.path, "b/c.png");
    assert_null(job.outputs[0].format);
    assert_int_equal(job.outputs[0].encoder.quality, 85);
    assert_int_equal(job.outputs[0].encoder.compression, 3);
    assert_int_equal(job.outputs[0].encoder.colors, 0);
    assert_false(job.outputs[0].encoder.progressive);
    assert_int_equal(job.outputs[0].encoder.subsampling, SUBSAMPLING_420);
    assert_false(job.outputs[0].encoder.optimize);
    assert_int_equal(job.outputs[0].encoder.max_bytes, 0);
    assert_int_equal(job.outputs[0].ttl_s, 0);
    assert_null(job.outputs[0].ops);
    assert_true(job.timeout_s == 60);
    assert_true(job.orient);
    assert_true(job.pushed == 0 && job.not_before.seconds == 0 && job.expires.seconds == 0);
    assert_false(job.unique);
    assert_int_equal(job.background[0] & job.background[1] & job.background[2], 255);
    assert_null(job.id);
    assert_null(job.meta);
    assert_null(job.reply_to);
    job_clear(&job);
}

TEST(test_everything)
{
    static const char text[] =
        "{\"input\":{\"key\":\"ns:img:in\"},\"outputs\":["
        "{\"output\":{\"key\":\"ns:img:out\",\"format\":\"png\",\"compression\":9,\"ttl_s\":60},"
        "\"ops\":[\"grayscale\",{\"op\":\"sobel\",\"border\":\"zero\"}]},"
        "{\"output\":{\"path\":\"x.jpg\",\"format\":\"jpeg\",\"quality\":1,\"progressive\":true,"
        "\"subsampling\":\"444\",\"optimize\":true,\"max_bytes\":50000}}],"
        "\"id\":\"j\\u00f6b\",\"timeout_s\":0.5,\"background\":[1,2,3],\"orient\":false,"
        "\"page\":7,\"frames\":\"refuse\","
        "\"meta\":{\"n\":12345678901234567890,\n \"e\":[]},\"reply_to\":\"ns:reply:r\","
        "\"pushed\":1.5e9,\"not_before\":1600000000.5,\"expires\":1e11,\"unique\":true}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_OK);
    assert_string_equal(job.input.key, "ns:img:in");
    assert_int_equal(job.output_count, 2);
    assert_true(job.listed);
    assert_string_equal(job.outputs[0].place.key, "ns:img:out");
    assert_string_equal(job.outputs[0].format, "png");
    assert_int_equal(job.outputs[0].encoder.compression, 9);
    assert_int_equal(job.outputs[0].ttl_s, 60);
    assert_int_equal(cJSON_GetArraySize(job.outputs[0].ops), 2);
    assert_int_equal(job.outputs[1].encoder.quality, 1);
    assert_true(job.outputs[1].encoder.progressive);
    assert_int_equal(job.outputs[1].encoder.subsampling, SUBSAMPLING_444);
    assert_true(job.outputs[1].encoder.optimize);
    assert_int_equal(job.outputs[1].encoder.max_bytes, 50000);
    assert_int_equal(cJSON_GetArraySize(job.outputs[1].ops), 0);
    assert_string_equal(job.id, "j\xC3\xB6" "b");
    assert_true(job.timeout_s == 0.5);
    assert_int_equal(job.background[2], 3);
    assert_false(job.orient);
    assert_int_equal(job.page, 7);
    assert_int_equal(job.frames, JOB_FRAMES_REFUSE);
    char *meta = cJSON_PrintUnformatted(job.meta);
    assert_string_equal(meta, "{\"n\":12345678901234567890,  \"e\":[]}");
    free(meta);
    assert_string_equal(job.reply_to, "ns:reply:r");
    assert_true(job.pushed == 1.5e9);
    assert_true(job.not_before.seconds == 1600000000.5 && !job.not_before.relative);
    assert_true(job.expires.seconds == 1e11 && !job.expires.relative);
    assert_true(job.unique);
    job_clear(&job);
}

TEST(test_relative_times)
{
    static const char text[] = "{\"input\":\"a\",\"output\":\"b\",\"not_before\":\"+60\","
                               "\"expires\":\"+90.5\"}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_OK);
    assert_true(job.not_before.seconds == 60 && job.not_before.relative);
    assert_true(job.expires.seconds == 90.5 && job.expires.relative);
    job_clear(&job);
}

struct row {
    const char *piece;
    enum status status;
    const char *says;
};

static void run_rows(const char *format, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(format, rows[i].piece, rows[i].status, rows[i].says);
}
#define run(format, rows) run_rows(format, rows, sizeof rows / sizeof *rows)

TEST(test_shape)
{
    static const struct row rows[] = {
        {"[]", STATUS_BAD_JOB, "must be an object"},
        {"1", STATUS_BAD_JOB, "must be an object"},
        {"{}", STATUS_BAD_JOB, "no input"},
        {"{\"input\":\"a\"}", STATUS_BAD_JOB, "no output"},
        {"{\"input\":\"a\",\"ops\":[]}", STATUS_BAD_JOB, "no output"},
        {"{\"input\":\"a\",\"ops\":[\"x\"]}", STATUS_OK, NULL},
        {"{\"input\":\"a\",\"output\":null,\"ops\":[\"x\"]}", STATUS_BAD_JOB, "output is null"},
        {"{\"output\":\"a\"}", STATUS_BAD_JOB, "no input"},
        {"{\"input\":\"a\",\"output\":\"b\",\"ouptut\":1}", STATUS_BAD_JOB,
         "unknown key \"ouptut\"; did you mean \"output\"?"},
        {"{\"input\":\"a\",\"output\":\"b\",\"Ops\":[]}", STATUS_BAD_JOB, "did you mean \"ops\""},
        {"{\"input\":\"a\",\"output\":\"b\",\"op\":[]}", STATUS_BAD_JOB, "did you mean \"ops\""},
        {"{\"input\":\"a\",\"output\":\"b\",\"quality\":9}", STATUS_BAD_JOB,
         "unknown key \"quality\"; it belongs in an output: "
         "\"output\":{\"path\":...,\"quality\":...}"},
        {"{\"input\":\"a\",\"output\":\"b\",\"zebra\":[]}", STATUS_BAD_JOB,
         "unknown key \"zebra\""},
        {"{\"input\":\"a\",\"output\":\"b\",\"outputs\":[{\"output\":\"c\"}]}", STATUS_BAD_JOB,
         "outputs and output"},
        {"{\"input\":\"a\",\"ops\":[],\"outputs\":[{\"output\":\"c\"}]}", STATUS_BAD_JOB,
         "outputs and ops"},
        {"{\"input\":null,\"output\":\"b\"}", STATUS_BAD_JOB, "input is null"},
        {"{\"input\":[],\"output\":\"b\"}", STATUS_BAD_JOB, "input is []"},
        {"{\"input\":{},\"output\":\"b\"}", STATUS_BAD_JOB, "must have path, key or url"},
        {"{\"input\":{\"path\":\"a\",\"key\":\"ns:img:a\"},\"output\":\"b\"}", STATUS_BAD_JOB,
         "not several"},
        {"{\"input\":{\"path\":\"a\",\"format\":\"png\"},\"output\":\"b\"}", STATUS_BAD_JOB,
         "input has the unknown key \"format\""},
        {"{\"input\":{\"path\":1},\"output\":\"b\"}", STATUS_BAD_JOB, "input.path is 1"},
        {"{\"input\":{\"key\":1},\"output\":\"b\"}", STATUS_BAD_JOB, "input.key is 1"},
    };
    run("%s", rows);
}

TEST(test_paths)
{
    static const struct row rows[] = {
        {"a", STATUS_OK, NULL}, {"a/b.c/d", STATUS_OK, NULL}, {"...", STATUS_OK, NULL},
        {"..a/.b", STATUS_OK, NULL}, {"\xC3\xA4/\\u00e4", STATUS_OK, NULL},
        {"", STATUS_PATH_REFUSED, "is empty"},
        {"/a", STATUS_PATH_REFUSED, "absolute"},
        {"a//b", STATUS_PATH_REFUSED, "empty part"},
        {"a/", STATUS_PATH_REFUSED, "empty part"},
        {".", STATUS_PATH_REFUSED, "\".\""},
        {"a/./b", STATUS_PATH_REFUSED, "\".\""},
        {"..", STATUS_PATH_REFUSED, "\"..\""},
        {"a/../b", STATUS_PATH_REFUSED, "\"..\""},
        {"a/..", STATUS_PATH_REFUSED, "\"..\""},
        {"a\\nb", STATUS_PATH_REFUSED, "control"},
        {"a\\u007f", STATUS_PATH_REFUSED, "control"},
        {"a\\u0085", STATUS_PATH_REFUSED, "control"},
    };
    run("{\"input\":\"%s\",\"output\":\"out\"}", rows);
    run("{\"output\":\"%s\",\"input\":\"in\"}", rows);
    run("{\"outputs\":[{\"output\":\"x\"},{\"output\":{\"path\":\"%s\"}}],\"input\":\"in\"}", rows);
    expect("{\"input\":\"in\",\"output\":\"%s\"}", ".gpuimgd/x", STATUS_PATH_REFUSED, ".gpuimgd");
    expect("{\"input\":\"in\",\"output\":\"%s\"}", ".gpuimgd2/x", STATUS_OK, NULL);
    for (size_t length = JOB_PATH_BYTES_MAX; length <= JOB_PATH_BYTES_MAX + 1; length++) {
        char *path = repeat("a", length, "");
        expect("{\"input\":\"%s\",\"output\":\"out\"}", path,
               length > JOB_PATH_BYTES_MAX ? STATUS_PATH_REFUSED : STATUS_OK, NULL);
        free(path);
    }
}

TEST(test_keys)
{
    static const struct row rows[] = {
        {"ns:img:a", STATUS_OK, NULL},
        {"ns:img:", STATUS_PATH_REFUSED, "must begin with \"ns:img:\""},
        {"ns:jobs", STATUS_PATH_REFUSED, "must begin with"},
        {"ns:reply:a", STATUS_PATH_REFUSED, "must begin with"},
        {"other:img:a", STATUS_PATH_REFUSED, "must begin with"},
        {"", STATUS_PATH_REFUSED, "must begin with"},
        {"ns:img:a\\n", STATUS_PATH_REFUSED, "control"},
    };
    static const struct row replies[] = {
        {"ns:reply:a", STATUS_OK, NULL},
        {"ns:reply:", STATUS_PATH_REFUSED, "reply_to"},
        {"ns:results", STATUS_PATH_REFUSED, "reply_to"},
        {"ns:img:a", STATUS_PATH_REFUSED, "reply_to"},
    };
    run("{\"input\":{\"key\":\"%s\"},\"output\":\"out\"}", rows);
    run("{\"input\":\"a\",\"output\":{\"key\":\"%s\"}}", rows);
    run("{\"input\":\"a\",\"output\":\"b\",\"reply_to\":\"%s\"}", replies);
    for (size_t length = JOB_KEY_BYTES_MAX; length <= JOB_KEY_BYTES_MAX + 1; length++) {
        char *key = repeat("a", length - strlen("ns:img:"), "");
        expect("{\"input\":{\"key\":\"ns:img:%s\"},\"output\":\"out\"}", key,
               length > JOB_KEY_BYTES_MAX ? STATUS_PATH_REFUSED : STATUS_OK, NULL);
        free(key);
    }
}

TEST(test_metadata)
{
    static const struct {
        const char *list;
        unsigned kinds;
    } rows[] = {{"\"none\"", 0}, {"[]", 0}, {"[\"xmp\"]", METADATA_XMP},
                {"[\"exif\",\"icc\"]", METADATA_ICC | METADATA_EXIF},
                {"[\"density\",\"copyright\"]", METADATA_COPYRIGHT | METADATA_DENSITY}};
    struct error error = {0};
    struct job job;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        int length = snprintf(text, sizeof text, "{\"input\":\"a\",\"outputs\":[{\"output\":"
                              "{\"path\":\"b\",\"metadata\":%s}},{\"output\":\"c\"}]}",
                              rows[i].list);
        assert_int_equal(job_parse(&job, text, (size_t)length, &rules, &error), STATUS_OK);
        assert_int_equal(job.outputs[0].metadata, rows[i].kinds);
        assert_int_equal(job.outputs[1].metadata, METADATA_ICC);
        job_clear(&job);
    }
}

TEST(test_quality)
{
    static const struct row rows[] = {
        {"\"quality\":[]", STATUS_BAD_JOB,
         "output.quality is []; it must be an integer from 1 to 100, or an object with the key "
         "ssim"},
        {"\"quality\":{\"ssim\":0.98}", STATUS_OK, NULL},
        {"\"quality\":{\"ssim\":0.000001,\"min\":100}", STATUS_OK, NULL},
        {"\"quality\":{\"ssim\":0.999999,\"min\":1,\"max\":1}", STATUS_OK, NULL},
        {"\"quality\":{}", STATUS_BAD_JOB, "output.quality has no ssim, the similarity to reach"},
        {"\"quality\":{\"min\":30}", STATUS_BAD_JOB, "has no ssim"},
        {"\"quality\":{\"ssim\":0}", STATUS_BAD_JOB,
         "output.quality.ssim is 0; it must be a number from 0.000001 to 0.999999"},
        {"\"quality\":{\"ssim\":1}", STATUS_BAD_JOB, "ssim is 1; it must"},
        {"\"quality\":{\"ssim\":0.9999999}", STATUS_BAD_JOB, "ssim is 0.9999999; it must"},
        {"\"quality\":{\"ssim\":-0.98}", STATUS_BAD_JOB, "ssim is -0.98; it must"},
        {"\"quality\":{\"ssim\":98}", STATUS_BAD_JOB, "ssim is 98; it must"},
        {"\"quality\":{\"ssim\":\"0.98\"}", STATUS_BAD_JOB, "ssim is \"0.98\"; it must"},
        {"\"quality\":{\"ssim\":null}", STATUS_BAD_JOB, "ssim is null; it must"},
        {"\"quality\":{\"ssim\":0.98,\"min\":0}", STATUS_BAD_JOB,
         "output.quality.min is 0; it must be an integer from 1 to 100"},
        {"\"quality\":{\"ssim\":0.98,\"max\":101}", STATUS_BAD_JOB, "quality.max is 101"},
        {"\"quality\":{\"ssim\":0.98,\"max\":50.5}", STATUS_BAD_JOB, "quality.max is 50.5"},
        {"\"quality\":{\"ssim\":0.98,\"min\":90,\"max\":80}", STATUS_BAD_JOB,
         "output.quality.min is 90; it must be at most max, which is 80"},
        {"\"quality\":{\"ssmi\":0.98}", STATUS_BAD_JOB,
         "output.quality has the unknown key \"ssmi\"; did you mean \"ssim\"?"},
    };
    run("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:o\",%s}}", rows);
    static const char text[] = "{\"input\":\"a\",\"output\":{\"path\":\"b\",\"quality\":"
                               "{\"ssim\":0.9812345,\"min\":20,\"max\":90}}}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_OK);
    assert_int_equal(job.outputs[0].encoder.ssim, 981235);
    assert_int_equal(job.outputs[0].encoder.quality_min, 20);
    assert_int_equal(job.outputs[0].encoder.quality, 90);
    job_clear(&job);
}

TEST(test_formats)
{
    static const struct row rows[] = {
        {"\"auto\",\"quality\":{\"ssim\":0.9}", STATUS_OK, NULL},
        {"[\"jxl\"],\"quality\":{\"ssim\":0.9}", STATUS_OK, NULL},
        {"[\"jpg\",\"jpeg\",\"webp\"],\"quality\":{\"ssim\":0.9}", STATUS_OK, NULL},
        {"[],\"quality\":{\"ssim\":0.9}", STATUS_BAD_JOB,
         "output.format is []; it must have a format"},
        {"[\"webp\",\"png\"],\"quality\":{\"ssim\":0.9}", STATUS_BAD_JOB,
         "output.format lists \"png\"; a list may have \"jpeg\", \"webp\", \"avif\" and \"jxl\""},
        {"[\"webp\",7],\"quality\":{\"ssim\":0.9}", STATUS_BAD_JOB, "output.format lists 7"},
        {"[\"auto\"],\"quality\":{\"ssim\":0.9}", STATUS_BAD_JOB, "format lists \"auto\""},
        {"{},\"quality\":{\"ssim\":0.9}", STATUS_BAD_JOB,
         "output.format is {}; it must be a string, or an array of strings"},
        {"\"auto\"", STATUS_BAD_JOB,
         "output.format is \"auto\", of which the smallest file is written; set quality to an "
         "object "
         "with ssim"},
        {"[\"webp\"],\"quality\":80", STATUS_BAD_JOB, "output.format is [\"webp\"], of which"},
        {"\"auto\",\"quality\":{\"ssim\":0.9},\"max_bytes\":900", STATUS_BAD_JOB,
         "output.format is \"auto\", but max_bytes is 900; omit one of the two"},
    };
    run("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:o\",\"format\":%s}}", rows);
    expect("{\"inputs\":[\"a\"],\"output\":{\"path\":\"%%p\",\"format\":%s,"
           "\"quality\":{\"ssim\":0.9}}}",
           "\"auto\"", STATUS_BAD_JOB, "but the job has many images; name one format");
}

TEST(test_output_options)
{
    static const struct row rows[] = {
        {"\"subsampling\":\"422\"", STATUS_OK, NULL},
        {"\"subsampling\":\"gray\"", STATUS_OK, NULL},
        {"\"subsampling\":444", STATUS_BAD_JOB,
         "output.subsampling is 444; it must be the string \"420\", \"422\", \"444\" or \"gray\""},
        {"\"subsampling\":\"4:2:0\"", STATUS_BAD_JOB, "output.subsampling is \"4:2:0\"; it must"},
        {"\"subsampling\":\"\"", STATUS_BAD_JOB, "is \"\"; it must"},
        {"\"subsampling\":null", STATUS_BAD_JOB, "is null; it must"},
        {"\"optimize\":true", STATUS_OK, NULL},
        {"\"optimize\":1", STATUS_BAD_JOB, "output.optimize is 1; it must be true or false"},
        {"\"max_bytes\":2147483647", STATUS_OK, NULL},
        {"\"max_bytes\":2147483648", STATUS_BAD_JOB, "an integer from 0 to 2147483647"},
        {"\"max_bytes\":-1", STATUS_BAD_JOB, "output.max_bytes is -1"},
        {"\"quality\":1", STATUS_OK, NULL},
        {"\"quality\":100", STATUS_OK, NULL},
        {"\"quality\":0", STATUS_BAD_JOB,
         "output.quality is 0; it must be an integer from 1 to 100"},
        {"\"quality\":101", STATUS_BAD_JOB, "101"},
        {"\"quality\":85.5", STATUS_BAD_JOB, "85.5"},
        {"\"quality\":\"85\"", STATUS_BAD_JOB, "integer"},
        {"\"quality\":null", STATUS_BAD_JOB, "null"},
        {"\"quality\":1e300", STATUS_BAD_JOB, "integer"},
        {"\"compression\":0", STATUS_OK, NULL},
        {"\"compression\":9", STATUS_OK, NULL},
        {"\"compression\":-1", STATUS_BAD_JOB, "0 to 9"},
        {"\"compression\":10", STATUS_BAD_JOB, "0 to 9"},
        {"\"colors\":2", STATUS_OK, NULL},
        {"\"colors\":256", STATUS_OK, NULL},
        {"\"colors\":0", STATUS_BAD_JOB, "output.colors is 0; it must be an integer from 2 to 256"},
        {"\"colors\":1", STATUS_BAD_JOB, "2 to 256"},
        {"\"colors\":257", STATUS_BAD_JOB, "2 to 256"},
        {"\"colors\":-256", STATUS_BAD_JOB, "2 to 256"},
        {"\"colors\":2.5", STATUS_BAD_JOB, "2.5"},
        {"\"colors\":\"x\"", STATUS_BAD_JOB, "integer"},
        {"\"colors\":null", STATUS_BAD_JOB, "null"},
        {"\"progressive\":true", STATUS_OK, NULL},
        {"\"progressive\":false", STATUS_OK, NULL},
        {"\"progressive\":1", STATUS_BAD_JOB, "true or false"},
        {"\"format\":\"png\"", STATUS_OK, NULL},
        {"\"format\":\"jpeg\"", STATUS_OK, NULL},
        {"\"format\":\"any\"", STATUS_OK, NULL},
        {"\"format\":1", STATUS_BAD_JOB, "output.format is 1; it must be a string"},
        {"\"ttl_s\":0", STATUS_OK, NULL},
        {"\"ttl_s\":4294967295", STATUS_OK, NULL},
        {"\"ttl_s\":-1", STATUS_BAD_JOB, "ttl_s"},
        {"\"ttl_s\":4294967296", STATUS_BAD_JOB, "ttl_s"},
        {"\"ttl_s\":0.5", STATUS_BAD_JOB, "ttl_s"},
        {"\"metadata\":\"none\"", STATUS_OK, NULL},
        {"\"metadata\":[]", STATUS_OK, NULL},
        {"\"metadata\":[\"icc\",\"exif\",\"xmp\"]", STATUS_OK, NULL},
        {"\"metadata\":\"exif\"", STATUS_BAD_JOB,
         "output.metadata is \"exif\"; it must be \"none\", or a list of \"icc\", \"exif\", "
         "\"xmp\", \"copyright\" and \"density\""},
        {"\"metadata\":[\"iptc\"]", STATUS_BAD_JOB, "output.metadata is [\"iptc\"]; it must be"},
        {"\"metadata\":[\"icc\",1]", STATUS_BAD_JOB, "output.metadata is [\"icc\",1]"},
        {"\"metadata\":{}", STATUS_BAD_JOB, "output.metadata is {}"},
        {"\"metadata\":null", STATUS_BAD_JOB, "output.metadata is null"},
        {"\"qualtiy\":1", STATUS_BAD_JOB, "did you mean \"quality\"?"},
    };
    run("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:o\",%s}}", rows);
    expect("{\"input\":\"a\",\"output\":{\"path\":\"b\",\"ttl_s\":%s}}", "1", STATUS_BAD_JOB,
           "path");
}

/* A value with a byte of each kind that could end a header, or that servers read differently. */
TEST(test_headers)
{
    static const struct row rows[] = {
        {"{\"cache_control\":\"public, max-age=31536000\"}", STATUS_OK, NULL},
        {"{\"content_disposition\":\"attachment; filename=\\\"a.jpg\\\"\"}", STATUS_OK, NULL},
        {"{\"metadata\":{\"a-z_0.9\":\"v\"}}", STATUS_OK, NULL},
        {"{}", STATUS_BAD_JOB, "output.headers must be an object with cache_control"},
        {"[]", STATUS_BAD_JOB, "output.headers must be an object"},
        {"null", STATUS_BAD_JOB, "output.headers must be an object"},
        {"{\"cache-control\":\"a\"}", STATUS_BAD_JOB,
         "output.headers has the unknown key \"cache-control\"; did you mean \"cache_control\"?"},
        {"{\"content_type\":\"a\"}", STATUS_BAD_JOB, "unknown key \"content_type\""},
        {"{\"cache_control\":\"\"}", STATUS_BAD_JOB, "output.headers.cache_control must be"},
        {"{\"cache_control\":1}", STATUS_BAD_JOB, "a string of 1 to 1024 bytes"},
        {"{\"cache_control\":null}", STATUS_BAD_JOB, "a string of 1 to 1024 bytes"},
        {"{\"cache_control\":\" a\"}", STATUS_BAD_JOB, "begins or ends with a space"},
        {"{\"cache_control\":\"a \"}", STATUS_BAD_JOB, "begins or ends with a space"},
        {"{\"cache_control\":\"a\\r\\nX-Evil: 1\"}", STATUS_BAD_JOB, "ASCII at 2"},
        {"{\"cache_control\":\"\\n\"}", STATUS_BAD_JOB, "ASCII at 1"},
        {"{\"cache_control\":\"a\\tb\"}", STATUS_BAD_JOB, "ASCII at 2"},
        {"{\"cache_control\":\"a\\u007f\"}", STATUS_BAD_JOB, "ASCII at 2"},
        {"{\"content_disposition\":\"na\\u00efve\"}", STATUS_BAD_JOB,
         "output.headers.content_disposition has a byte that is not printable ASCII at 3; write a "
         "file name as filename*=UTF-8''na%C3%AFve.jpg"},
        {"{\"metadata\":{}}", STATUS_BAD_JOB, "output.headers.metadata must be an object of 1 to"},
        {"{\"metadata\":[]}", STATUS_BAD_JOB, "output.headers.metadata must be an object"},
        {"{\"metadata\":{\"a\":1}}", STATUS_BAD_JOB, "output.headers.metadata.a must be a string"},
        {"{\"metadata\":{\"a\":\"b\\n\"}}", STATUS_BAD_JOB, "metadata.a has a byte"},
        {"{\"metadata\":{\"\":\"b\"}}", STATUS_BAD_JOB, "metadata has the name \"\""},
        {"{\"metadata\":{\"A\":\"b\"}}", STATUS_BAD_JOB, "metadata has the name \"A\""},
        {"{\"metadata\":{\"a:b\":\"b\"}}", STATUS_BAD_JOB, "metadata has the name \"a:b\""},
        {"{\"metadata\":{\"a\\r\\nb\":\"b\"}}", STATUS_BAD_JOB, "metadata has the name"},
    };
    run("{\"input\":\"a\",\"output\":{\"url\":\"https://h/o\",\"headers\":%s}}", rows);
    expect("{\"input\":\"a\",\"output\":{\"path\":\"b\",\"headers\":%s}}", "{}", STATUS_BAD_JOB,
           "output.headers is for an output with a url; this output has a path");
    expect("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:b\",\"headers\":%s}}", "{}",
           STATUS_BAD_JOB, "this output has a key");
}

TEST(test_headers_limits)
{
    static const char job[] = "{\"input\":\"a\",\"output\":{\"url\":\"https://h/o\",\"headers\":"
                              "{\"metadata\":{%s}}}}";
    char *longest = repeat("v", JOB_HEADER_BYTES_MAX, ""), *name = repeat("n", 64, "");
    expect(job, text_of("\"a\":\"%s\",\"b\":\"%.*s\"", longest, 1022, longest), STATUS_OK, NULL);
    expect(job, text_of("\"a\":\"%s\",\"b\":\"%.*s\"", longest, 1023, longest), STATUS_BAD_JOB,
           "has 2049 bytes of names and values; at most 2048 are allowed");
    expect(job, text_of("\"a\":\"%sv\"", longest), STATUS_BAD_JOB, "1 to 1024 bytes");
    expect(job, text_of("\"%s\":\"v\"", name), STATUS_OK, NULL);
    expect(job, text_of("\"%sn\":\"v\"", name), STATUS_BAD_JOB, "a name has 1 to 64");
    char many[1024] = "";
    for (int i = 0; i < JOB_METADATA_NAMES_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s\"n%d\":\"v\"", i ? "," : "",
                 i);
    expect(job, many, STATUS_OK, NULL);
    strcat(many, ",\"m\":\"v\"");
    expect(job, many, STATUS_BAD_JOB, "1 to 32 names");
    free(longest);
    free(name);
}

TEST(test_normalize)
{
    static const struct row rows[] = {
        {"{}", STATUS_OK, NULL},
        {"{\"mean\":[0.485,0.456,0.406],\"std\":[0.229,0.224,0.225]}", STATUS_OK, NULL},
        {"{\"std\":[1e-6,1e6,1,2]}", STATUS_OK, NULL},
        {"{\"mean\":[-1e6]}", STATUS_OK, NULL},
        {"[]", STATUS_BAD_JOB, "output.normalize is []; it must be an object"},
        {"true", STATUS_BAD_JOB, "output.normalize is true"},
        {"null", STATUS_BAD_JOB, "output.normalize is null"},
        {"{\"mean\":[]}", STATUS_BAD_JOB,
         "output.normalize.mean is []; it must be an array of 1 to 4 numbers from -1e+06 to 1e+06"},
        {"{\"mean\":[1,1,1,1,1]}", STATUS_BAD_JOB, "1 to 4 numbers"},
        {"{\"mean\":0.5}", STATUS_BAD_JOB, "output.normalize.mean is 0.5"},
        {"{\"std\":{\"a\":1}}", STATUS_BAD_JOB, "1 to 4 numbers"},
        {"{\"mean\":[\"a\"]}", STATUS_BAD_JOB,
         "output.normalize.mean is [\"a\"]; it must be an array of"},
        {"{\"mean\":[1000001]}", STATUS_BAD_JOB, "numbers from -1e+06 to 1e+06"},
        {"{\"std\":[1,0]}", STATUS_BAD_JOB,
         "output.normalize.std is [1,0]; it must be an array of 1 to 4 numbers from 1e-06 to "
         "1e+06"},
        {"{\"std\":[-1]}", STATUS_BAD_JOB, "output.normalize.std is [-1]"},
        {"{\"std\":[9e-7]}", STATUS_BAD_JOB, "from 1e-06"},
        {"{\"std\":[1],\"means\":[1]}", STATUS_BAD_JOB,
         "normalize has the unknown key \"means\"; did you mean \"mean\"?"},
    };
    run("{\"input\":\"a\",\"output\":{\"path\":\"b.npy\",\"normalize\":%s}}", rows);
}

TEST(test_ops)
{
    static const struct row rows[] = {
        {"[]", STATUS_OK, NULL},
        {"[\"x\",{\"op\":\"y\",\"any\":{\"thing\":[1]}}]", STATUS_OK, NULL},
        {"{}", STATUS_BAD_JOB, "must be an array"},
        {"\"grayscale\"", STATUS_BAD_JOB, "must be an array"},
        {"null", STATUS_BAD_JOB, "must be an array"},
        {"[\"a\",1]", STATUS_BAD_JOB, "[1] is 1"},
        {"[{}]", STATUS_BAD_JOB, "[0] is {}"},
        {"[{\"op\":1}]", STATUS_BAD_JOB, "[0]"},
        {"[[]]", STATUS_BAD_JOB, "[0]"},
    };
    run("{\"input\":\"a\",\"output\":\"b\",\"ops\":%s}", rows);
    run("{\"input\":\"a\",\"outputs\":[{\"output\":\"b\",\"ops\":%s}]}", rows);
    for (size_t count = JOB_OPS_MAX; count <= JOB_OPS_MAX + 1; count++) {
        char *ops = repeat("\"x\"", count, ",");
        expect("{\"input\":\"a\",\"output\":\"b\",\"ops\":[%s]}", ops,
               count > JOB_OPS_MAX ? STATUS_BAD_JOB : STATUS_OK, NULL);
        free(ops);
    }
}

TEST(test_outputs)
{
    static const struct row rows[] = {
        {"[{\"output\":\"b\"}]", STATUS_OK, NULL},
        {"[]", STATUS_BAD_JOB, "1 to 16"},
        {"{}", STATUS_BAD_JOB, "1 to 16"},
        {"[\"b\"]", STATUS_BAD_JOB, "outputs[0] is \"b\"; it must be an object"},
        {"[{}]", STATUS_BAD_JOB, "outputs[0] has no output"},
        {"[{\"output\":\"b\"},{\"ops\":[]}]", STATUS_BAD_JOB, "outputs[1] has no output"},
        {"[{\"ops\":[\"x\"]},{\"output\":{\"key\":\"ns:img:b\"}},{\"ops\":[\"x\"]}]", STATUS_OK,
         NULL},
        {"[{\"output\":\"b\",\"input\":\"c\"}]", STATUS_BAD_JOB, "unknown key \"input\""},
        {"[{\"output\":\"b\"},{\"output\":{\"path\":\"c\",\"quality\":0}}]", STATUS_BAD_JOB,
         "outputs[1].output.quality is 0"},
        {"[{\"output\":\"a\"}]", STATUS_OK, NULL},
        {"[{\"output\":\"b\"},{\"output\":{\"path\":\"b\"}}]", STATUS_BAD_JOB,
         "two outputs are \"b\""},
        {"[{\"output\":{\"key\":\"ns:img:b\"}},{\"output\":{\"key\":\"ns:img:b\"}}]",
         STATUS_BAD_JOB, "two outputs"},
        {"[{\"output\":{\"key\":\"ns:img:a\"}},{\"output\":\"ns:img:a\"}]", STATUS_OK, NULL},
    };
    run("{\"input\":\"a\",\"outputs\":%s}", rows);
    expect("{\"input\":{\"key\":\"ns:img:a\"},\"output\":{\"key\":\"ns:img:%s\"}}", "a",
           STATUS_BAD_JOB, "both keys are \"ns:img:a\"; the output must");
    for (size_t count = JOB_OUTPUTS_MAX; count <= JOB_OUTPUTS_MAX + 1; count++) {
        char text[2048] = "";
        for (size_t i = 0; i < count; i++)
            sprintf(text + strlen(text), "%s{\"output\":\"o%zu\"}", i ? "," : "", i);
        expect("{\"input\":\"a\",\"outputs\":[%s]}", text,
               count > JOB_OUTPUTS_MAX ? STATUS_BAD_JOB : STATUS_OK, NULL);
    }
}

TEST(test_priority)
{
#define JOB(value) "{\"input\":\"a\",\"output\":\"b\",\"priority\":" value "}"
    expect(JOB("0"), NULL, STATUS_OK, NULL);
    expect(JOB("9"), NULL, STATUS_OK, NULL);
    expect(JOB("10"), NULL, STATUS_BAD_JOB, "priority is 10; it must be an integer from 0 to 9");
    expect(JOB("-1"), NULL, STATUS_BAD_JOB, "priority is -1; it must be an integer");
    expect(JOB("4.5"), NULL, STATUS_BAD_JOB, "priority is 4.5; it must be an integer");
    expect(JOB("\"9\""), NULL, STATUS_BAD_JOB, "priority is \"9\"; it must be an integer");
#undef JOB
}

TEST(test_tag)
{
#define JOB(value) "{\"input\":\"a\",\"output\":\"b\",\"tag\":" value "}"
    static const char fault[] = "it must have 1 to 64 letters, digits and characters of \"._:/@-\"";
    expect(JOB("\"web-shop/eu.1:a_b@c\""), NULL, STATUS_OK, NULL);
    expect(JOB("\"0123456789012345678901234567890123456789012345678901234567890123\""), NULL,
           STATUS_OK, NULL);
    expect(JOB("\"01234567890123456789012345678901234567890123456789012345678901234\""), NULL,
           STATUS_BAD_JOB, fault);
    expect(JOB("\"\""), NULL, STATUS_BAD_JOB, fault);
    expect(JOB("\"a b\""), NULL, STATUS_BAD_JOB, fault);
    expect(JOB("\"\\u00e4\""), NULL, STATUS_BAD_JOB, fault);
    expect(JOB("\"a\\u000a\""), NULL, STATUS_BAD_JOB, fault);
    expect(JOB("\"<b>\""), NULL, STATUS_BAD_JOB, "tag is \"<b>\"; it must have");
    expect(JOB("7"), NULL, STATUS_BAD_JOB, "tag is 7; it must be a string");
    expect(JOB("null"), NULL, STATUS_BAD_JOB, "tag is null; it must be a string");
#undef JOB
}

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

TEST(test_traceparent)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"00-" TRACE "-" PARENT "-01", NULL},
        {"00-" TRACE "-" PARENT "-00", NULL},
        {"00-" TRACE "-" PARENT "-ff", NULL},
        {"cc-" TRACE "-" PARENT "-01", NULL},
        {"cc-" TRACE "-" PARENT "-01-what.the future/brings", NULL},
        {"cc-" TRACE "-" PARENT "-01x", "more than 55 bytes"},
        {"00-" TRACE "-" PARENT "-01-", "more than 55 bytes"},
        {"ff-" TRACE "-" PARENT "-01", "version ff"},
        {"", "hexadecimal"},
        {"00", "hexadecimal"},
        {"00-" TRACE "-" PARENT "-1", "hexadecimal"},
        {"0-" TRACE "-" PARENT "-011", "hexadecimal"},
        {"00-" TRACE "0-" PARENT "-01", "hexadecimal"},
        {"00-" TRACE "-" PARENT "0-01", "hexadecimal"},
        {"00_" TRACE "-" PARENT "-01", "hexadecimal"},
        {"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", "hexadecimal"},
        {"00-" TRACE "-b7ad6b716920333g-01", "hexadecimal"},
        {" 00-" TRACE "-" PARENT "-01", "hexadecimal"},
        {"00-00000000000000000000000000000000-" PARENT "-01", "id of zeros"},
        {"00-" TRACE "-0000000000000000-01", "id of zeros"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *fault = traceparent_fault(rows[i].text);
        if (!fault != !rows[i].fault || (fault && !strstr(fault, rows[i].fault)))
            fail_msg("\"%s\": %s", rows[i].text, fault ? fault : "good");
    }
    struct trace_context context;
    trace_context_read(&context, rows[0].text);
    assert_string_equal(context.trace_id, TRACE);
    assert_string_equal(context.parent_id, PARENT);
    trace_context_read(&context, NULL);
    assert_string_equal(context.trace_id, "");
}

TEST(test_tracestate)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"a=1", NULL},
        {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", NULL},
        {"a=1 , b= 2,\tc=3\t", NULL},
        {"a=1,,b=2,", NULL},
        {"0a@b-c=!\"#$%&'()*+-./:;<>?@[\\]^_`{|}~", NULL},
        {"a/b*c_d-e=x y", NULL},
        {"1=2", NULL},
        {"", "no member"},
        {" , ,", "no member"},
        {"a", "not key=value"},
        {"a=", "not key=value"},
        {"=1", "not key=value"},
        {"A=1", "not key=value"},
        {"a=1=2", "not key=value"},
        {"a b=1", "not key=value"},
        {"a@=1", "not key=value"},
        {"a@0=1", "not key=value"},
        {"a@b@c=1", "not key=value"},
        {"@a=1", "not key=value"},
        {"a@abcdefghijklmno=1", "not key=value"},
        {"a=\xc3\xa4", "not key=value"},
        {"a=1\x7f", "not key=value"},
        {"a=1,b=2,a=3", "key twice"},
        {"a0=1,a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,b0=1,b1=1,b2=1,b3=1,b4=1,b5=1,b6=1,b7=1,"
         "c0=1,c1=1,c2=1,c3=1,c4=1,c5=1,c6=1,c7=1,d0=1,d1=1,d2=1,d3=1,d4=1,d5=1,d6=1,d7=1",
         NULL},
        {"a0=1,a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,b0=1,b1=1,b2=1,b3=1,b4=1,b5=1,b6=1,b7=1,"
         "c0=1,c1=1,c2=1,c3=1,c4=1,c5=1,c6=1,c7=1,d0=1,d1=1,d2=1,d3=1,d4=1,d5=1,d6=1,d7=1,e=1",
         "more than 32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *fault = tracestate_fault(rows[i].text);
        if (!fault != !rows[i].fault || (fault && !strstr(fault, rows[i].fault)))
            fail_msg("\"%s\": %s", rows[i].text, fault ? fault : "good");
    }
    char text[800] = "a=";
    memset(text + 2, 'x', 256);
    assert_null(tracestate_fault(text));
    text[258] = 'x';
    assert_non_null(tracestate_fault(text));
    memset(text, 'a', 256);
    text[256] = '=';
    text[257] = '1';
    text[258] = '\0';
    assert_null(tracestate_fault(text));
    strcat(text, ",b=1,c=");
    memset(text + strlen(text), 'x', 250);
    assert_non_null(strstr(tracestate_fault(text), "at most 512 bytes"));
}

TEST(test_trace_context_of_jobs)
{
#define JOB(more) "{\"input\":\"a\",\"output\":\"b\"," more "}"
    expect(JOB("\"traceparent\":\"00-" TRACE "-" PARENT "-01\",\"tracestate\":\"a=1\""), NULL,
           STATUS_OK, NULL);
    expect(JOB("\"traceparent\":1"), NULL, STATUS_BAD_JOB, "traceparent is 1; it must be a string");
    expect(JOB("\"traceparent\":\"00-1\""), NULL, STATUS_BAD_JOB,
           "traceparent is \"00-1\"; it must be 2, 32, 16 and 2 lower-case hexadecimal digits");
    expect(JOB("\"tracestate\":\"a=1\""), NULL, STATUS_BAD_JOB,
           "the job has a tracestate, but no traceparent");
    expect(JOB("\"traceparent\":\"\",\"tracestate\":\"a=1\""), NULL, STATUS_BAD_JOB,
           "traceparent is \"\"; it must be");
    expect(JOB("\"traceparent\":\"00-" TRACE "-" PARENT "-01\",\"tracestate\":[]"), NULL,
           STATUS_BAD_JOB, "tracestate is []; it must be a string");
#undef JOB
}

TEST(test_how_an_input_is_read)
{
    static const struct row rows[] = {
        {"\"background\":[0,128,255]", STATUS_OK, NULL},
        {"\"background\":[0,0]", STATUS_BAD_JOB, "background"},
        {"\"background\":[0,0,0,0]", STATUS_BAD_JOB, "background"},
        {"\"background\":[0,0,256]", STATUS_BAD_JOB, "background is [0,0,256]"},
        {"\"background\":[-1,0,0]", STATUS_BAD_JOB, "background"},
        {"\"background\":[0,0.5,0]", STATUS_BAD_JOB, "background"},
        {"\"background\":[0,\"1\",0]", STATUS_BAD_JOB, "background"},
        {"\"background\":\"white\"", STATUS_BAD_JOB, "background"},
        {"\"orient\":1", STATUS_BAD_JOB, "orient"},
        {"\"orient\":false", STATUS_OK, NULL},
        {"\"trim\":{}", STATUS_OK, NULL},
        {"\"trim\":{\"threshold\":255,\"color\":[0,255,7]}", STATUS_OK, NULL},
        {"\"trim\":true", STATUS_BAD_JOB, "trim is true; it must be an object"},
        {"\"trim\":{\"threshold\":256}", STATUS_BAD_JOB,
         "trim.threshold is 256; it must be an integer from 0 to 255"},
        {"\"trim\":{\"color\":[1,2]}", STATUS_BAD_JOB,
         "trim.color is [1,2]; it must be three integers from 0 to 255"},
        {"\"trim\":{\"colour\":[1,2,3]}", STATUS_BAD_JOB, "colour"},
        {"\"frames\":\"all\",\"trim\":{}", STATUS_BAD_JOB, "the job has trim, but frames"},
        {"\"page\":0", STATUS_OK, NULL},
        {"\"page\":65535", STATUS_OK, NULL},
        {"\"page\":65536", STATUS_BAD_JOB, "page is 65536; it must be an integer from 0 to 65535"},
        {"\"page\":-1", STATUS_BAD_JOB, "page is -1"},
        {"\"page\":1.5", STATUS_BAD_JOB, "1.5"},
        {"\"page\":\"1\"", STATUS_BAD_JOB, "page is \"1\""},
        {"\"frames\":\"first\"", STATUS_OK, NULL},
        {"\"frames\":\"refuse\"", STATUS_OK, NULL},
        {"\"frames\":\"every\"", STATUS_BAD_JOB,
         "frames is \"every\"; it must be \"first\", \"refuse\" or \"all\""},
        {"\"frames\":2", STATUS_BAD_JOB, "frames is 2"},
        {"\"frames\":\"all\",\"page\":0", STATUS_BAD_JOB, "the job has a page"},
        {"\"frames\":\"all\",\"on_error\":\"skip\"", STATUS_BAD_JOB, "on_error"},
        {"\"frames\":\"all\"", STATUS_BAD_JOB,
         "output names one file for many images; put %p or %n into it, or end it in .webp or .tar"},
    };
    run("{\"input\":\"a\",\"output\":\"b\",%s}", rows);
}

/* The frames of an input are many images, whose outputs are those of a list, or a movie. */
TEST(test_all_frames)
{
    static const struct {
        const char *output;
        enum job_pack pack;
    } cases[] = {{"\"a.webp\"", JOB_MOVIE},
                 {"\"a.WEBP\"", JOB_MOVIE},
                 {"{\"path\":\"a\",\"format\":\"webp\"}", JOB_MOVIE},
                 {"\"%n.webp\"", JOB_FILES},
                 {"{\"key\":\"ns:img:%n\",\"format\":\"webp\"}", JOB_FILES},
                 {"\"a.tar\"", JOB_TAR},
                 {"{\"path\":\"a.webp\",\"pack\":\"tar\"}", JOB_TAR},
                 {"{\"path\":\"a.npy\",\"pack\":\"array\"}", JOB_ARRAY}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[200];
        struct job job;
        struct error error = {0};
        snprintf(text, sizeof text, "{\"input\":\"a.gif\",\"frames\":\"all\",\"output\":%s}",
                 cases[i].output);
        assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_OK);
        assert_int_equal(job.source, JOB_ANIMATION);
        assert_true(job.fails_on_error);
        assert_int_equal(job.outputs[0].pack, cases[i].pack);
        job_clear(&job);
    }
    expect("{\"inputs\":[\"a.gif\"],\"frames\":\"all\",\"output\":\"%%n.png\"}", NULL,
           STATUS_BAD_JOB, "the job has inputs");
    expect("{\"input\":\"a.gif\",\"frames\":\"all\",\"output\":{\"key\":\"ns:img:a\",\"format\":"
           "\"webp\"}}",
           NULL, STATUS_BAD_JOB, "output names one file for many images; put %p or %n into it");
}

TEST(test_the_rest)
{
    static const struct row rows[] = {
        {"\"timeout_s\":60", STATUS_OK, NULL},
        {"\"timeout_s\":0.001", STATUS_OK, NULL},
        {"\"timeout_s\":0", STATUS_BAD_JOB, "above 0, at most 60"},
        {"\"timeout_s\":60.001", STATUS_BAD_JOB, "at most 60"},
        {"\"timeout_s\":\"1\"", STATUS_BAD_JOB, "timeout_s"},
        {"\"pushed\":0", STATUS_OK, NULL},
        {"\"pushed\":-1", STATUS_BAD_JOB, "pushed"},
        {"\"pushed\":\"now\"", STATUS_BAD_JOB, "pushed"},
        {"\"not_before\":1e9,\"expires\":1000000000.001", STATUS_OK, NULL},
        {"\"not_before\":1e9,\"expires\":1e9", STATUS_BAD_JOB,
         "expires is 1000000000.000; it must be later than not_before, which is 1000000000.000"},
        {"\"not_before\":0", STATUS_BAD_JOB,
         "not_before is 0; it must be Unix seconds from "
         "978307200 to 100000000000, or a relative time like \"+60\", at most \"+1000000000\""},
        {"\"not_before\":-5", STATUS_BAD_JOB, "not_before is -5; it must be Unix seconds"},
        {"\"not_before\":5", STATUS_BAD_JOB,
         "not_before is 5, before 2001; it must be Unix "
         "seconds, or \"+5\" to count from the job's first fetch"},
        {"\"expires\":978307199", STATUS_BAD_JOB, "expires is 978307199, before 2001"},
        {"\"expires\":978307200", STATUS_OK, NULL},
        {"\"expires\":1700000000000", STATUS_BAD_JOB,
         "expires is 1700000000000, which looks like "
         "milliseconds; it must be Unix seconds: 1700000000.000"},
        {"\"not_before\":1e15", STATUS_BAD_JOB, "not_before is 1e+15; it must be Unix seconds"},
        {"\"expires\":\"tomorrow\"", STATUS_BAD_JOB, "expires is \"tomorrow\"; it must be"},
        {"\"not_before\":null", STATUS_BAD_JOB, "not_before is null"},
        {"\"not_before\":\"+60\"", STATUS_OK, NULL},
        {"\"expires\":\"+0.25\"", STATUS_OK, NULL},
        {"\"not_before\":\"+1000000000\"", STATUS_OK, NULL},
        {"\"not_before\":\"+1000000001\"", STATUS_BAD_JOB, "is \"+1000000001\"; it must be"},
        {"\"not_before\":\"60\"", STATUS_BAD_JOB, "not_before is \"60\"; it must be"},
        {"\"not_before\":\"\"", STATUS_BAD_JOB, "not_before is \"\"; it must be"},
        {"\"not_before\":\"+\"", STATUS_BAD_JOB, "must be"},
        {"\"not_before\":\"+0\"", STATUS_BAD_JOB, "must be"},
        {"\"not_before\":\"+-5\"", STATUS_BAD_JOB, "must be"},
        {"\"not_before\":\"+ 5\"", STATUS_BAD_JOB, "must be"},
        {"\"not_before\":\"+5.\"", STATUS_BAD_JOB, "must be"},
        {"\"not_before\":\"+.5\"", STATUS_BAD_JOB, "must be"},
        {"\"not_before\":\"+1e3\"", STATUS_BAD_JOB, "must be"},
        {"\"not_before\":\"+60\",\"expires\":\"+60\"", STATUS_BAD_JOB,
         "expires is +60.000; it must be later than not_before, which is +60.000"},
        {"\"not_before\":\"+60\",\"expires\":\"+61\"", STATUS_OK, NULL},
        {"\"not_before\":\"+60\",\"expires\":1e9", STATUS_OK, NULL},
        {"\"unique\":true", STATUS_BAD_JOB, "unique is true, but the job has no id"},
        {"\"unique\":true,\"id\":7", STATUS_BAD_JOB, "id is 7"},
        {"\"unique\":false", STATUS_OK, NULL},
        {"\"unique\":1,\"id\":\"x\"", STATUS_BAD_JOB, "unique"},
        {"\"meta\":null", STATUS_OK, NULL},
        {"\"meta\":[1e5,\"x\"]", STATUS_OK, NULL},
        {"\"id\":\"x\"", STATUS_OK, NULL},
        {"\"id\":\"\"", STATUS_BAD_JOB, "id has 0 bytes"},
        {"\"id\":7", STATUS_BAD_JOB, "id is 7; it must be a string"},
        {"\"id\":\"a\\u0001\"", STATUS_BAD_JOB, "control"},
        {"\"id\":\"a\\u0080\"", STATUS_BAD_JOB, "control"},
        {"\"id\":\"\\u00a0\"", STATUS_OK, NULL},
    };
    run("{\"input\":\"a\",\"output\":\"b\",%s}", rows);
    for (size_t length = JOB_ID_BYTES_MAX; length <= JOB_ID_BYTES_MAX + 1; length++) {
        char *id = repeat("i", length, "");
        expect("{\"input\":\"a\",\"output\":\"b\",\"id\":\"%s\"}", id,
               length > JOB_ID_BYTES_MAX ? STATUS_BAD_JOB : STATUS_OK, NULL);
        free(id);
    }
}

TEST(test_size)
{
    static const char job_text[] = "{\"input\":\"a\",\"output\":\"b\"}";
    char text[JOB_BYTES_MAX + 1];
    memset(text, ' ', sizeof text);
    memcpy(text, job_text, strlen(job_text));
    for (size_t length = JOB_BYTES_MAX; length <= JOB_BYTES_MAX + 1; length++) {
        struct job job;
        struct error error = {0};
        bool fits = length <= JOB_BYTES_MAX;
        assert_int_equal(job_parse(&job, text, length, &rules, &error),
                         fits ? STATUS_OK : STATUS_BAD_JSON);
        assert_string_equal(error.text,
                            fits ? "" : "the job has 65537 bytes; at most 65536 are allowed");
        job_clear(&job);
    }
}

/* The result of a bad job has the members that could be parsed. */
TEST(test_bad_job_gives_back_id_meta_reply)
{
    static const char *const texts[] = {
        "{\"zebra\":1,\"id\":\"i\",\"meta\":0.10,\"reply_to\":\"ns:reply:r\"}",
        "{\"id\":\"i\",\"input\":\"/\",\"meta\":0.10,\"reply_to\":\"ns:reply:r\",\"output\":\"x\"}",
    };
    for (size_t i = 0; i < 2; i++) {
        struct job job;
        struct error error = {0};
        assert_int_not_equal(job_parse(&job, texts[i], strlen(texts[i]), &rules, &error),
                             STATUS_OK);
        assert_string_equal(job.id, "i");
        assert_string_equal(job.reply_to, "ns:reply:r");
        assert_string_equal(job.meta->valuestring, "0.10");
        job_clear(&job);
    }
    /* If one member is bad itself, the result has the others. */
    struct job job;
    struct error error = {0};
    static const char text[] = "{\"id\":1,\"meta\":2,\"reply_to\":\"ns:reply:r\"}";
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_BAD_JOB);
    assert_null(job.id);
    assert_non_null(job.meta);
    assert_string_equal(job.reply_to, "ns:reply:r");
    job_clear(&job);
}

/* A job without its tree keeps its strings, and its meta as text. */
TEST(test_drop_tree)
{
    static const char text[] =
        "{\"id\":\"\\u00e9\",\"reply_to\":\"ns:reply:r\",\"input\":{\"key\":\"ns:img:i\"},"
        "\"meta\":[1,{\"x\":[2]}],"
        "\"outputs\":[{\"output\":{\"path\":\"a.png\",\"format\":\"png\"}},{\"output\":{\"key\":"
        "\"ns:img:o\"},\"ops\":[\"sobel\",{\"op\":\"convolve\",\"kernel\":[[1]]}]},{\"output\":{"
        "\"url\":\"https://h/"
        "o.png\",\"headers\":{\"metadata\":{\"b\":\"1\",\"a\":\"2\",\"a-b\":\"3\"},"
        "\"content_disposition\":\"inline\",\"cache_control\":\"no-store\"}}}]}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_OK);
    assert_true(job_drop_tree(&job));
    assert_null(job.root);
    assert_null(job.outputs[1].ops);
    assert_true(job.bytes < strlen(text));
    assert_string_equal(job.id, "\xC3\xA9");
    assert_string_equal(job.reply_to, "ns:reply:r");
    assert_string_equal(job.meta->valuestring, "[1,{\"x\":[2]}]");
    assert_string_equal(job.input.key, "ns:img:i");
    assert_string_equal(job.outputs[0].place.path, "a.png");
    assert_string_equal(job.outputs[0].format, "png");
    assert_null(job.outputs[0].place.key);
    assert_string_equal(job.outputs[1].place.key, "ns:img:o");
    assert_null(job.outputs[1].headers);
    assert_string_equal(job.outputs[2].headers,
                        "Cache-Control: no-store\nContent-Disposition: inline\n"
                        "x-amz-meta-a: 2\nx-amz-meta-a-b: 3\nx-amz-meta-b: 1\n");
    job_clear(&job);
    job_clear(&job);
}

/* So does a bad job: its result needs id, meta, reply_to and the input. */
TEST(test_drop_tree_of_bad)
{
    static const char text[] = "{\"id\":\"i\",\"meta\":5,\"ops\":[0],\"input\":\"a\"}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &rules, &error), STATUS_BAD_JOB);
    assert_true(job_drop_tree(&job));
    assert_null(job.root);
    assert_string_equal(job.id, "i");
    assert_string_equal(job.meta->valuestring, "5");
    assert_string_equal(job.input.path, "a");
    job_clear(&job);
    assert_int_equal(job_parse(&job, "{", 1, &rules, &error), STATUS_BAD_JSON);
    assert_true(job_drop_tree(&job));
    job_clear(&job);
}

TEST_MAIN(.name = "job")
