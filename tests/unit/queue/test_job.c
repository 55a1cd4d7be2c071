/* Tests of each rule of a job, on both sides of each limit. */
#include "queue/job/job.h"
#include "tests/fixtures/job_rows.h"
#include "tests/fixtures/test.h"

TEST(test_defaults)
{
    static const char text[] = "{\"input\":\"a.jpg\",\"output\":\"b/c.png\"}";
    struct job job;
    struct error error = {0};
    assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_OK);
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
    assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_OK);
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
    assert_string_equal(job.id, "j\xC3\xB6"
                                "b");
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
    assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_OK);
    assert_true(job.not_before.seconds == 60 && job.not_before.relative);
    assert_true(job.expires.seconds == 90.5 && job.expires.relative);
    job_clear(&job);
}

TEST(test_shape)
{
    static const struct job_row rows[] = {
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
    job_run("%s", rows);
}

TEST(test_paths)
{
    static const struct job_row rows[] = {
        {"a", STATUS_OK, NULL},
        {"a/b.c/d", STATUS_OK, NULL},
        {"...", STATUS_OK, NULL},
        {"..a/.b", STATUS_OK, NULL},
        {"\xC3\xA4/\\u00e4", STATUS_OK, NULL},
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
    job_run("{\"input\":\"%s\",\"output\":\"out\"}", rows);
    job_run("{\"output\":\"%s\",\"input\":\"in\"}", rows);
    job_run("{\"outputs\":[{\"output\":\"x\"},{\"output\":{\"path\":\"%s\"}}],\"input\":\"in\"}",
            rows);
    job_expect("{\"input\":\"in\",\"output\":\"%s\"}", ".gpuimgd/x", STATUS_PATH_REFUSED,
               ".gpuimgd");
    job_expect("{\"input\":\"in\",\"output\":\"%s\"}", ".gpuimgd2/x", STATUS_OK, NULL);
    for (size_t length = JOB_PATH_BYTES_MAX; length <= JOB_PATH_BYTES_MAX + 1; length++) {
        char *path = job_repeat("a", length, "");
        job_expect("{\"input\":\"%s\",\"output\":\"out\"}", path,
                   length > JOB_PATH_BYTES_MAX ? STATUS_PATH_REFUSED : STATUS_OK, NULL);
        free(path);
    }
}

TEST(test_keys)
{
    static const struct job_row rows[] = {
        {"ns:img:a", STATUS_OK, NULL},
        {"ns:img:", STATUS_PATH_REFUSED, "must begin with \"ns:img:\""},
        {"ns:jobs", STATUS_PATH_REFUSED, "must begin with"},
        {"ns:reply:a", STATUS_PATH_REFUSED, "must begin with"},
        {"other:img:a", STATUS_PATH_REFUSED, "must begin with"},
        {"", STATUS_PATH_REFUSED, "must begin with"},
        {"ns:img:a\\n", STATUS_PATH_REFUSED, "control"},
    };
    static const struct job_row replies[] = {
        {"ns:reply:a", STATUS_OK, NULL},
        {"ns:reply:", STATUS_PATH_REFUSED, "reply_to"},
        {"ns:results", STATUS_PATH_REFUSED, "reply_to"},
        {"ns:img:a", STATUS_PATH_REFUSED, "reply_to"},
    };
    job_run("{\"input\":{\"key\":\"%s\"},\"output\":\"out\"}", rows);
    job_run("{\"input\":\"a\",\"output\":{\"key\":\"%s\"}}", rows);
    job_run("{\"input\":\"a\",\"output\":\"b\",\"reply_to\":\"%s\"}", replies);
    for (size_t length = JOB_KEY_BYTES_MAX; length <= JOB_KEY_BYTES_MAX + 1; length++) {
        char *key = job_repeat("a", length - strlen("ns:img:"), "");
        job_expect("{\"input\":{\"key\":\"ns:img:%s\"},\"output\":\"out\"}", key,
                   length > JOB_KEY_BYTES_MAX ? STATUS_PATH_REFUSED : STATUS_OK, NULL);
        free(key);
    }
}

TEST(test_ops)
{
    static const struct job_row rows[] = {
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
    job_run("{\"input\":\"a\",\"output\":\"b\",\"ops\":%s}", rows);
    job_run("{\"input\":\"a\",\"outputs\":[{\"output\":\"b\",\"ops\":%s}]}", rows);
    for (size_t count = JOB_OPS_MAX; count <= JOB_OPS_MAX + 1; count++) {
        char *ops = job_repeat("\"x\"", count, ",");
        job_expect("{\"input\":\"a\",\"output\":\"b\",\"ops\":[%s]}", ops,
                   count > JOB_OPS_MAX ? STATUS_BAD_JOB : STATUS_OK, NULL);
        free(ops);
    }
}

TEST(test_outputs)
{
    static const struct job_row rows[] = {
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
    job_run("{\"input\":\"a\",\"outputs\":%s}", rows);
    job_expect("{\"input\":{\"key\":\"ns:img:a\"},\"output\":{\"key\":\"ns:img:%s\"}}", "a",
               STATUS_BAD_JOB, "both keys are \"ns:img:a\"; the output must");
    for (size_t count = JOB_OUTPUTS_MAX; count <= JOB_OUTPUTS_MAX + 1; count++) {
        char text[2048] = "";
        for (size_t i = 0; i < count; i++)
            sprintf(text + strlen(text), "%s{\"output\":\"o%zu\"}", i ? "," : "", i);
        job_expect("{\"input\":\"a\",\"outputs\":[%s]}", text,
                   count > JOB_OUTPUTS_MAX ? STATUS_BAD_JOB : STATUS_OK, NULL);
    }
}

TEST(test_how_an_input_is_read)
{
    static const struct job_row rows[] = {
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
         "frames is \"every\"; it must be \"first\", \"refuse\", \"all\" or {\"strip\":N}"},
        {"\"frames\":{\"strip\":2}", STATUS_OK, NULL},
        {"\"frames\":{\"strip\":64}", STATUS_OK, NULL},
        {"\"frames\":{\"strip\":1}", STATUS_BAD_JOB,
         "frames.strip is 1; it must be an integer from 2 to 64"},
        {"\"frames\":{\"strip\":65}", STATUS_BAD_JOB, "frames.strip is 65"},
        {"\"frames\":{}", STATUS_BAD_JOB, "frames is {}; it must be {\"strip\":N}"},
        {"\"frames\":{\"strips\":3}", STATUS_BAD_JOB, "strips"},
        {"\"frames\":{\"strip\":3},\"page\":0", STATUS_BAD_JOB,
         "frames is a strip, but the job has a page"},
        {"\"frames\":2", STATUS_BAD_JOB, "frames is 2"},
        {"\"frames\":\"all\",\"page\":0", STATUS_BAD_JOB, "the job has a page"},
        {"\"frames\":\"all\",\"on_error\":\"skip\"", STATUS_BAD_JOB, "on_error"},
        {"\"frames\":\"all\"", STATUS_BAD_JOB,
         "output names one file for many images; put %p or %n into it, end it in .webp, .avif or "
         ".tar, or set pack to \"array\""},
    };
    job_run("{\"input\":\"a\",\"output\":\"b\",%s}", rows);
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
        assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_OK);
        assert_int_equal(job.source, JOB_ANIMATION);
        assert_true(job.fails_on_error);
        assert_int_equal(job.outputs[0].pack, cases[i].pack);
        job_clear(&job);
    }
    job_expect("{\"inputs\":[\"a.gif\"],\"frames\":\"all\",\"output\":\"%%n.png\"}", NULL,
               STATUS_BAD_JOB, "the job has inputs");
    job_expect(
        "{\"input\":\"a.gif\",\"frames\":\"all\",\"output\":{\"key\":\"ns:img:a\",\"format\":"
        "\"webp\"}}",
        NULL, STATUS_BAD_JOB,
        "output names one file for many images; put %p or %n into it; an animation, a tar or an "
        "array needs a path");
}

TEST(test_the_rest)
{
    static const struct job_row rows[] = {
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
    job_run("{\"input\":\"a\",\"output\":\"b\",%s}", rows);
    for (size_t length = JOB_ID_BYTES_MAX; length <= JOB_ID_BYTES_MAX + 1; length++) {
        char *id = job_repeat("i", length, "");
        job_expect("{\"input\":\"a\",\"output\":\"b\",\"id\":\"%s\"}", id,
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
        assert_int_equal(job_parse(&job, text, length, &job_row_rules, &error),
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
        assert_int_not_equal(job_parse(&job, texts[i], strlen(texts[i]), &job_row_rules, &error),
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
    assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_BAD_JOB);
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
    assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_OK);
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
    assert_int_equal(job_parse(&job, text, strlen(text), &job_row_rules, &error), STATUS_BAD_JOB);
    assert_true(job_drop_tree(&job));
    assert_null(job.root);
    assert_string_equal(job.id, "i");
    assert_string_equal(job.meta->valuestring, "5");
    assert_string_equal(job.input.path, "a");
    job_clear(&job);
    assert_int_equal(job_parse(&job, "{", 1, &job_row_rules, &error), STATUS_BAD_JSON);
    assert_true(job_drop_tree(&job));
    job_clear(&job);
}

TEST_MAIN(.name = "job")
