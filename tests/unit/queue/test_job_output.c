/* Tests of the keys of a job's output: encoders, metadata, headers of uploads and tensors. */
#include "queue/job/job.h"
#include "tests/fixtures/job_rows.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

TEST(test_metadata)
{
    static const struct {
        const char *list;
        unsigned kinds;
    } rows[] = {{"\"none\"", 0},
                {"[]", 0},
                {"[\"xmp\"]", METADATA_XMP},
                {"[\"exif\",\"icc\"]", METADATA_ICC | METADATA_EXIF},
                {"[\"density\",\"copyright\"]", METADATA_COPYRIGHT | METADATA_DENSITY}};
    struct error error = {0};
    struct job job;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[200];
        int length = snprintf(text, sizeof text,
                              "{\"input\":\"a\",\"outputs\":[{\"output\":"
                              "{\"path\":\"b\",\"metadata\":%s}},{\"output\":\"c\"}]}",
                              rows[i].list);
        assert_int_equal(job_parse(&job, text, (size_t)length, &job_row_rules, &error), STATUS_OK);
        assert_int_equal(job.outputs[0].metadata, rows[i].kinds);
        assert_int_equal(job.outputs[1].metadata, METADATA_ICC);
        job_clear(&job);
    }
}

TEST(test_quality)
{
    static const struct job_row rows[] = {
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
    job_run("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:o\",%s}}", rows);
    static const char text[] = "{\"input\":\"a\",\"output\":{\"path\":\"b\",\"quality\":"
                               "{\"ssim\":0.9812345,\"min\":20,\"max\":90}}}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_OK);
    assert_int_equal(job.outputs[0].encoder.ssim, 981235);
    assert_int_equal(job.outputs[0].encoder.quality_min, 20);
    assert_int_equal(job.outputs[0].encoder.quality, 90);
    job_clear(&job);
}

TEST(test_formats)
{
    static const struct job_row rows[] = {
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
         "output.format is \"auto\", so the smallest file of several is written; set quality to an "
         "object with ssim"},
        {"[\"webp\"],\"quality\":80", STATUS_BAD_JOB, "output.format is [\"webp\"], so the"},
        {"\"auto\",\"quality\":{\"ssim\":0.9},\"max_bytes\":900", STATUS_BAD_JOB,
         "output.format is \"auto\", but max_bytes is 900; omit one of the two"},
    };
    job_run("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:o\",\"format\":%s}}", rows);
    job_expect("{\"inputs\":[\"a\"],\"output\":{\"path\":\"%%p\",\"format\":%s,"
               "\"quality\":{\"ssim\":0.9}}}",
               "\"auto\"", STATUS_BAD_JOB, "but the job has many images; name one format");
}

TEST(test_output_options)
{
    static const struct job_row rows[] = {
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
        {"\"depth\":8", STATUS_OK, NULL},
        {"\"depth\":16", STATUS_OK, NULL},
        {"\"depth\":12", STATUS_BAD_JOB, "output.depth is 12; it must be 8 or 16"},
        {"\"depth\":16.5", STATUS_BAD_JOB, "output.depth is 16.5; it must be 8 or 16"},
        {"\"depth\":\"16\"", STATUS_BAD_JOB, "output.depth is \"16\"; it must be 8 or 16"},
        {"\"depth\":8,\"colors\":9", STATUS_OK, NULL},
        {"\"depth\":16,\"colors\":9", STATUS_BAD_JOB, "output.depth is 16, but colors is 9"},
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
    job_run("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:o\",%s}}", rows);
    job_expect("{\"input\":\"a\",\"output\":{\"path\":\"b\",\"ttl_s\":%s}}", "1", STATUS_BAD_JOB,
               "path");
}

/* A value with a byte of each kind that could end a header, or that servers read differently. */
TEST(test_headers)
{
    static const struct job_row rows[] = {
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
    job_run("{\"input\":\"a\",\"output\":{\"url\":\"https://h/o\",\"headers\":%s}}", rows);
    job_expect("{\"input\":\"a\",\"output\":{\"path\":\"b\",\"headers\":%s}}", "{}", STATUS_BAD_JOB,
               "output.headers is for an output with a url; this output has a path");
    job_expect("{\"input\":\"a\",\"output\":{\"key\":\"ns:img:b\",\"headers\":%s}}", "{}",
               STATUS_BAD_JOB, "this output has a key");
}

TEST(test_headers_limits)
{
    static const char job[] = "{\"input\":\"a\",\"output\":{\"url\":\"https://h/o\",\"headers\":"
                              "{\"metadata\":{%s}}}}";
    char *longest = job_repeat("v", JOB_HEADER_BYTES_MAX, ""), *name = job_repeat("n", 64, "");
    job_expect(job, text_of("\"a\":\"%s\",\"b\":\"%.*s\"", longest, 1022, longest), STATUS_OK,
               NULL);
    job_expect(job, text_of("\"a\":\"%s\",\"b\":\"%.*s\"", longest, 1023, longest), STATUS_BAD_JOB,
               "has 2049 bytes of names and values; at most 2048 are allowed");
    job_expect(job, text_of("\"a\":\"%sv\"", longest), STATUS_BAD_JOB, "1 to 1024 bytes");
    job_expect(job, text_of("\"%s\":\"v\"", name), STATUS_OK, NULL);
    job_expect(job, text_of("\"%sn\":\"v\"", name), STATUS_BAD_JOB, "a name has 1 to 64");
    char many[1024] = "";
    for (int i = 0; i < JOB_METADATA_NAMES_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s\"n%d\":\"v\"", i ? "," : "",
                 i);
    job_expect(job, many, STATUS_OK, NULL);
    strcat(many, ",\"m\":\"v\"");
    job_expect(job, many, STATUS_BAD_JOB, "1 to 32 names");
    free(longest);
    free(name);
}

TEST(test_normalize)
{
    static const struct job_row rows[] = {
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
    job_run("{\"input\":\"a\",\"output\":{\"path\":\"b.npy\",\"normalize\":%s}}", rows);
}

TEST_MAIN(.name = "job_output")
