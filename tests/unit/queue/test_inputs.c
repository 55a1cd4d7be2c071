/* Tests of jobs with many inputs: each rule of `inputs`, `on_error`, `pack` and templates, on both
 * sides of each limit. */
#include "queue/job/job.h"
#include "tests/fixtures/test.h"

static const struct job_rules rules = {"ns", 60};

static enum status parse(struct job *job, const char *text, struct error *error)
{
    memset(error, 0, sizeof *error);
    enum status status = job_parse(job, text, strlen(text), &rules, error);
    assert_int_equal(error->status, status);
    return status;
}

static void must_parse(struct job *job, const char *text)
{
    struct error error;
    if (parse(job, text, &error) != STATUS_OK)
        fail_msg("%.200s: %s", text, error.text);
}

struct row {
    const char *text; /* with ' for " */
    enum status status;
    const char *says;
};

static void run_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job job;
        struct error error;
        char *text = strdup(rows[i].text);
        for (char *at = text; *at; at++)
            if (*at == '\'')
                *at = '"';
        enum status status = parse(&job, text, &error);
        if (status != rows[i].status || strcmp(error.text, rows[i].says) != 0)
            fail_msg("%s: %s: %s (expected %s: %s)", text, status_name(status), error.text,
                     status_name(rows[i].status), rows[i].says);
        job_clear(&job);
        job_clear(&job); /* idempotent */
        free(text);
    }
}
#define RUN(rows) run_rows(rows, sizeof(rows) / sizeof *(rows))

TEST(test_list)
{
    struct job job;
    must_parse(&job, "{\"inputs\":[\"a/b.jpg\",{\"path\":\"c\"},{\"key\":\"ns:img:d\"},"
                     "{\"url\":\"https://h/e.png\"},\"a/b.jpg\"],\"output\":\"x/%p\"}");
    assert_true(job_is_set(&job) && job.source == JOB_LIST);
    assert_false(job_place_is_given(&job.input));
    assert_int_equal(job.input_count, 5);
    assert_string_equal(job.inputs[0].path, "a/b.jpg");
    assert_string_equal(job.inputs[1].path, "c");
    assert_string_equal(job.inputs[2].key, "ns:img:d");
    assert_null(job.inputs[2].path);
    assert_string_equal(job.inputs[3].url, "https://h/e.png");
    assert_string_equal(job.inputs[4].path, "a/b.jpg");
    assert_int_equal(job.outputs[0].pack, JOB_FILES);
    assert_int_equal(job.pattern_count, 0);
    assert_false(job.fails_on_error);
    job_clear(&job);
    must_parse(&job, "{\"input\":\"a\",\"output\":\"x/%p\"}");
    assert_false(job_is_set(&job));
    assert_int_equal(job.outputs[0].pack, JOB_FILES);
    job_clear(&job);
}

TEST(test_folder_and_archive)
{
    struct job job;
    must_parse(&job, "{\"inputs\":{\"folder\":\"a/b\",\"pattern\":\"*.jpg\"},\"on_error\":\"fail\","
                     "\"output\":\"x/%n.png\"}");
    assert_int_equal(job.source, JOB_FOLDER);
    assert_string_equal(job.input.path, "a/b");
    assert_int_equal(job.pattern_count, 1);
    assert_string_equal(job.patterns[0], "*.jpg");
    assert_true(job.fails_on_error);
    assert_int_equal(job.input_count, 0);
    job_clear(&job);
    must_parse(&job,
               "{\"inputs\":{\"archive\":{\"key\":\"ns:img:t\"},\"pattern\":[\"*.jpg\",\"?\"]},"
               "\"on_error\":\"skip\",\"output\":\"x.tar\"}");
    assert_int_equal(job.source, JOB_ARCHIVE);
    assert_string_equal(job.input.key, "ns:img:t");
    assert_int_equal(job.pattern_count, 2);
    assert_string_equal(job.patterns[1], "?");
    assert_false(job.fails_on_error);
    assert_int_equal(job.outputs[0].pack, JOB_TAR);
    job_clear(&job);
    must_parse(&job, "{\"inputs\":{\"folder\":\"a/b/\"},\"output\":\"%n.png\"}");
    assert_string_equal(job.input.path, "a/b");
    job_clear(&job);
    must_parse(&job, "{\"inputs\":{\"folder\":\".\"},\"output\":\"%n.png\"}");
    assert_string_equal(job.input.path, ".");
    job_clear(&job);
    must_parse(&job, "{\"inputs\":{\"archive\":\"t.zip\"},\"ops\":[\"stats\"]}");
    assert_string_equal(job.input.path, "t.zip");
    assert_int_equal(job.outputs[0].pack, JOB_FILES);
    job_clear(&job);
}

TEST(test_bad_inputs)
{
    static const struct row rows[] = {
        {"{'output':'x.tar'}", STATUS_BAD_JOB, "the job has no input"},
        {"{'input':'a','inputs':['b'],'output':'x.tar'}", STATUS_BAD_JOB,
         "the job has input and inputs; it must have one or the other"},
        {"{'inptus':['b'],'output':'x.tar'}", STATUS_BAD_JOB,
         "the job has the unknown key \"inptus\"; did you mean \"inputs\"?"},
        {"{'folder':'b','output':'x.tar'}", STATUS_BAD_JOB,
         "the job has the unknown key \"folder\"; it belongs in inputs: "
         "\"inputs\":{\"folder\":...}"},
        {"{'pack':'tar','inputs':['a'],'output':'x'}", STATUS_BAD_JOB,
         "the job has the unknown key \"pack\"; it belongs in an output: "
         "\"output\":{\"path\":...,\"pack\":...}"},
        {"{'inputs':'a.jpg','output':'x.tar'}", STATUS_BAD_JOB,
         "inputs is \"a.jpg\"; it must be an array of places, or an object with a folder or an "
         "archive"},
        {"{'inputs':[],'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs has 0 places; it must have 1 to 1024"},
        {"{'inputs':['a',7],'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs[1] is 7; it must be a path or an object with path, key or url"},
        {"{'inputs':['a','../b'],'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs[1] \"../b\" has a part \"..\""},
        {"{'inputs':[{'key':'ns:queue'}],'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs[0].key is \"ns:queue\"; it must begin with \"ns:img:\""},
        {"{'inputs':[{'url':'ftp://a'}],'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs[0].url is \"ftp://a\"; it must begin with https:// or http://"},
        {"{'inputs':[{'path':'a','key':'ns:img:a'}],'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs[0] must have one of path, key and url, not several"},
        {"{'inputs':{},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs must have a folder or an archive"},
        {"{'inputs':{'folder':'a','archive':'b'},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs must have a folder or an archive, not both"},
        {"{'inputs':{'foldr':'a'},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs has the unknown key \"foldr\"; did you mean \"folder\"?"},
        {"{'inputs':{'folder':'/etc'},'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs.folder \"/etc\" is absolute; it must be relative to input_root or output_root"},
        {"{'inputs':{'folder':'a//'},'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs.folder \"a/\" has an empty part"},
        {"{'inputs':{'folder':'/'},'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs.folder \"/\" is absolute; it must be relative to input_root or output_root"},
        {"{'inputs':{'folder':'./a'},'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs.folder \"./a\" has a part \".\""},
        {"{'inputs':{'folder':'..'},'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs.folder \"..\" has a part \"..\""},
        {"{'inputs':{'archive':'.'},'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs.archive \".\" has a part \".\""},
        {"{'inputs':{'folder':{'path':'a'}},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs.folder is {\"path\":\"a\"}; it must be a string"},
        {"{'inputs':{'archive':7},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs.archive is 7; it must be a path or an object with path, key or url"},
        {"{'inputs':{'archive':{'path':'..'}},'output':'x.tar'}", STATUS_PATH_REFUSED,
         "inputs.archive.path \"..\" has a part \"..\""},
        {"{'inputs':{'folder':'a','pattern':[]},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs.pattern has 0 patterns; it must have 1 to 8"},
        {"{'inputs':{'folder':'a','pattern':['1','2','3','4','5','6','7','8','9']},"
         "'output':'x.tar'}",
         STATUS_BAD_JOB, "inputs.pattern has 9 patterns; it must have 1 to 8"},
        {"{'inputs':{'folder':'a','pattern':['*',7]},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs.pattern is 7; it must be a string, or an array of 1 to 8 strings"},
        {"{'inputs':{'folder':'a','pattern':null},'output':'x.tar'}", STATUS_BAD_JOB,
         "inputs.pattern is null; it must be a string, or an array of 1 to 8 strings"},
        {"{'inputs':{'folder':'a','pattern':''},'output':'x.tar'}", STATUS_BAD_JOB,
         "a pattern of inputs has 0 bytes; it must have 1 to 128"},
        {"{'input':'a','on_error':'skip','output':'x'}", STATUS_BAD_JOB,
         "on_error is for a job with inputs; this job has one input"},
        {"{'inputs':['a'],'on_error':'stop','output':'x.tar'}", STATUS_BAD_JOB,
         "on_error is \"stop\"; it must be \"skip\" or \"fail\""},
        {"{'inputs':['a'],'on_error':true,'output':'x.tar'}", STATUS_BAD_JOB,
         "on_error is true; it must be \"skip\" or \"fail\""},
    };
    RUN(rows);
}

TEST(test_outputs)
{
    static const struct row rows[] = {
        {"{'inputs':['a','b','c'],'output':'x.jpg'}", STATUS_BAD_JOB,
         "output names one file for 3 images; put %p or %n into it, end it in .tar, or set pack to "
         "\"array\""},
        {"{'inputs':{'folder':'a'},'outputs':[{'output':'%n'},{'output':{'path':'x'}}]}",
         STATUS_BAD_JOB,
         "outputs[1].output names one file for many images; put %p or %n into it, end it in .tar, "
         "or set pack to \"array\""},
        {"{'inputs':['a'],'output':{'key':'ns:img:x.tar'}}", STATUS_BAD_JOB,
         "output names one file for 1 images; put %p or %n into it"},
        {"{'inputs':['a'],'output':{'url':'https://h/%%p'}}", STATUS_BAD_JOB,
         "output names one file for 1 images; put %p or %n into it"},
        {"{'inputs':['a'],'output':'%p-%x.png'}", STATUS_BAD_JOB,
         "output has \"%x\"; in the output of a job with inputs, a % must begin %p (name), %n "
         "(index) or %% (a percent sign)"},
        {"{'inputs':['a'],'output':'%n%'}", STATUS_BAD_JOB,
         "output has \"%\"; in the output of a job with inputs, a % must begin %p (name), %n "
         "(index) or %% (a percent sign)"},
        {"{'inputs':['a'],'output':{'url':'https://h/%20/%p'}}", STATUS_BAD_JOB,
         "output has \"%2\"; in the output of a job with inputs, a % must begin %p (name), %n "
         "(index) or %% (a percent sign)"},
        {"{'inputs':['a'],'output':'%\xC3\xA9%p'}", STATUS_BAD_JOB,
         "output has \"%\"; in the output of a job with inputs, a % must begin %p (name), %n "
         "(index) or %% (a percent sign)"},
        {"{'inputs':['a'],'output':'../%p'}", STATUS_PATH_REFUSED,
         "output \"../%p\" has a part \"..\""},
        {"{'inputs':['a'],'output':'.gpuimgd/%p'}", STATUS_PATH_REFUSED,
         "output is in .gpuimgd, the folder for temporary files"},
        {"{'input':'a','output':{'path':'x','pack':'tar'}}", STATUS_BAD_JOB,
         "output.pack is for a job with inputs; this job has one input"},
        {"{'inputs':['a'],'output':{'path':'x','pack':'zip'}}", STATUS_BAD_JOB,
         "output.pack is \"zip\"; it must be \"tar\" or \"array\""},
        {"{'inputs':['a'],'output':{'path':'x','pack':7}}", STATUS_BAD_JOB,
         "output.pack is 7; it must be \"tar\" or \"array\""},
        {"{'inputs':['a'],'output':{'key':'ns:img:x','pack':'tar'}}", STATUS_BAD_JOB,
         "output.pack is \"tar\", but a tar is written to a path; this output has a key"},
        {"{'inputs':['a'],'output':{'url':'https://h/x','pack':'array','format':'npy'}}",
         STATUS_BAD_JOB,
         "output.pack is \"array\", but an array is written to a path; this output has a url"},
        {"{'inputs':['a'],'output':{'path':'x','pack':'array'}}", STATUS_BAD_JOB,
         "output.pack is \"array\", but the format is not given; an array must be \"npy\" or "
         "\"raw\""},
        {"{'inputs':['a'],'output':{'path':'x.jpg','pack':'array'}}", STATUS_BAD_JOB,
         "output.pack is \"array\", but the format is jpeg; an array must be \"npy\" or \"raw\""},
        {"{'inputs':['a'],'outputs':[{'output':'x.tar'},{'output':{'path':'x.tar','pack':'tar'}}]}",
         STATUS_BAD_JOB, "two outputs are \"x.tar\""},
        {"{'inputs':['a'],'outputs':[{'output':'%p'},{'output':{'path':'%p','format':'png'}}]}",
         STATUS_BAD_JOB, "two outputs are \"%p\""},
        {"{'inputs':['a']}", STATUS_BAD_JOB, "the job has no output"},
        /* valid */
        {"{'inputs':['a'],'output':'%%/%p-%n'}", STATUS_OK, ""},
        {"{'inputs':['a'],'output':{'url':'https://h/%p%%20%n?x=%%2F'}}", STATUS_OK, ""},
        {"{'inputs':['a'],'output':{'key':'ns:img:%n'}}", STATUS_OK, ""},
        {"{'inputs':['a'],'output':'50% off.tar'}", STATUS_OK, ""},
        {"{'inputs':['a'],'output':{'path':'50% off','pack':'tar','format':'jpeg'}}", STATUS_OK,
         ""},
        {"{'inputs':['a'],'output':{'path':'%.npy','pack':'array'}}", STATUS_OK, ""},
        {"{'inputs':['a'],'output':{'path':'x','pack':'array','format':'raw'}}", STATUS_OK, ""},
        {"{'input':'a','output':'100%.jpg'}", STATUS_OK, ""},
    };
    RUN(rows);
}

TEST(test_kind_of_output)
{
    static const struct {
        const char *output;
        enum job_pack pack;
    } rows[] = {
        {"\"a/%p.jpg\"", JOB_FILES},
        {"\"a.tar\"", JOB_TAR},
        {"\"%p.TAR\"", JOB_TAR}, /* a literal % */
        {"{\"path\":\"a\",\"pack\":\"tar\"}", JOB_TAR},
        {"{\"path\":\"a.tar\",\"pack\":\"array\",\"format\":\"npy\"}", JOB_ARRAY},
        {"\"%p.tar.gz\"", JOB_FILES},
        {"{\"key\":\"ns:img:%p.tar\"}", JOB_FILES},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job;
        char text[300];
        snprintf(text, sizeof text, "{\"inputs\":[\"a\"],\"output\":%s}", rows[i].output);
        must_parse(&job, text);
        if (job.outputs[0].pack != rows[i].pack)
            fail_msg("%s: %d", text, job.outputs[0].pack);
        job_clear(&job);
    }
}

/* Returns a job whose list has this many inputs of `bytes` bytes each, all different. */
static char *list_of(size_t count, int bytes)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    fputs("{\"output\":\"%p\",\"inputs\":[", file);
    for (size_t i = 0; i < count; i++)
        fprintf(file, "%s\"%0*zu\"", i ? "," : "", bytes, i);
    fputs("]}", file);
    fclose(file);
    return text;
}

TEST(test_number_of_inputs)
{
    struct job job;
    struct error error;
    char *most = list_of(1024, 50), *more = list_of(1025, 5);
    must_parse(&job, most);
    assert_int_equal(job.input_count, 1024);
    assert_int_equal(strtol(job.inputs[1023].path, NULL, 10), 1023);
    job_clear(&job);
    assert_int_equal(parse(&job, more, &error), STATUS_BAD_JOB);
    assert_string_equal(error.text, "inputs has 1025 places; it must have 1 to 1024");
    assert_int_equal(job.input_count, 0);
    job_clear(&job);
    free(most);
    free(more);
}

TEST(test_size)
{
    struct job job;
    struct error error;
    char *text = list_of(1024, 60), *longest;
    assert_true(asprintf(&longest, "%*s", (int)JOB_BYTES_MAX, text) > 0);
    must_parse(&job, longest);
    assert_int_equal(job.input_count, 1024);
    job_clear(&job);
    free(longest);
    assert_true(asprintf(&longest, "%*s", (int)JOB_BYTES_MAX + 1, text) > 0);
    assert_int_equal(parse(&job, longest, &error), STATUS_BAD_JSON);
    job_clear(&job);
    free(longest);
    free(text);
}

TEST(test_length_of_patterns)
{
    char text[400], pattern[130];
    struct job job;
    struct error error;
    for (int bytes = 128; bytes <= 129; bytes++) {
        memset(pattern, '*', sizeof pattern);
        pattern[bytes] = '\0';
        snprintf(text, sizeof text,
                 "{\"inputs\":{\"folder\":\"a\",\"pattern\":[\"a\",\"%s\"]},\"output\":\"%%n\"}",
                 pattern);
        assert_int_equal(parse(&job, text, &error), bytes == 128 ? STATUS_OK : STATUS_BAD_JOB);
        if (bytes == 129)
            assert_string_equal(error.text,
                                "a pattern of inputs has 129 bytes; it must have 1 to 128");
        job_clear(&job);
    }
}

TEST(test_drop_tree)
{
    struct job job;
    char *text = list_of(1024, 5);
    must_parse(&job, text);
    assert_true(job_drop_tree(&job));
    assert_null(job.root);
    for (size_t i = 0; i < 1024; i++) {
        char name[8];
        snprintf(name, sizeof name, "%05zu", i);
        assert_string_equal(job.inputs[i].path, name);
        assert_null(job.inputs[i].key);
    }
    assert_int_equal(job.bytes, 1024 * (6 + sizeof(struct job_place)) + sizeof "%p");
    assert_true(job.bytes <= 5 * strlen(text) + JOB_INPUTS_MAX * JOB_PLACE_BYTES);
    job_clear(&job);
    job_clear(&job);
    free(text);
    must_parse(&job, "{\"inputs\":{\"archive\":\"t.tar\",\"pattern\":[\"*.a\",\"*.b\"]},"
                     "\"output\":\"%p\"}");
    assert_true(job_drop_tree(&job));
    assert_string_equal(job.input.path, "t.tar");
    assert_string_equal(job.patterns[0], "*.a");
    assert_string_equal(job.patterns[1], "*.b");
    job_clear(&job);
}

/* Logs and results name a refused job, too. */
TEST(test_labels)
{
    static const struct {
        const char *text, *label;
    } rows[] = {
        {"{\"inputs\":[\"a\",\"b\"],\"output\":\"%p\"}", "7 (list of 2)"},
        {"{\"id\":\"i\",\"inputs\":[\"a\",\"../b\"],\"output\":\"%p\"}", "7 i (list of 2)"},
        {"{\"inputs\":{\"folder\":\"a/b\"},\"output\":\"%p\"}", "7 (a/b)"},
        {"{\"inputs\":{\"folder\":\"../b\"},\"output\":\"%p\"}", "7 (../b)"},
        {"{\"inputs\":{\"archive\":{\"url\":\"https://u:p@h/t.tar?X=1\"}},\"output\":\"%p\"}",
         "7 (https://h/t.tar)"},
        {"{\"x\":0,\"inputs\":{\"archive\":\"t.tar\"}}", "7 (t.tar)"},
        {"{\"inputs\":[]}", "7 ({\"inputs\":[]})"},
        {"{\"inputs\":7}", "7 ({\"inputs\":7})"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job;
        struct error error;
        char label[LABEL_BYTES];
        (void)parse(&job, rows[i].text, &error);
        label_job(label, (struct job_name){.number = 7}, &job, rows[i].text, strlen(rows[i].text));
        assert_string_equal(label, rows[i].label);
        assert_true(job_drop_tree(&job));
        label_job(label, (struct job_name){.number = 7}, &job, rows[i].text, strlen(rows[i].text));
        assert_string_equal(label, rows[i].label);
        job_clear(&job);
    }
}

/* An expanded output has the rules of an output of a job. */
TEST(test_check_output)
{
    char path[JOB_PATH_BYTES_MAX + 2], key[JOB_KEY_BYTES_MAX + 2];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    memset(key, 'k', sizeof key);
    memcpy(key, "ns:img:", 7);
    key[sizeof key - 1] = '\0';
    const struct {
        struct job_place place;
        const char *says; /* NULL: good */
    } rows[] = {
        {{.path = "a/b.png"}, NULL},
        {{.path = path + 1}, NULL},
        {{.key = "ns:img:a"}, NULL},
        {{.url = "https://h/a"}, NULL},
        {{.path = "a/../b"}, "output.path \"a/../b\" has a part \"..\""},
        {{.path = "/b"},
         "output.path \"/b\" is absolute; it must be relative to input_root or output_root"},
        {{.path = "a\nb"}, "output.path \"a\\nb\" has a control character"},
        {{.path = ""}, "output.path \"\" is empty"},
        {{.path = ".gpuimgd/a"}, "output.path is in .gpuimgd, the folder for temporary files"},
        {{.path = path}, "is longer than 2048 bytes"},
        {{.key = "ns:img:"}, "output.key is \"ns:img:\"; it must begin with \"ns:img:\""},
        {{.key = key}, "is longer than 512 bytes"},
        {{.key = "ns:img:\x7f"}, "has a control character"},
        {{.url = "https://h/\x1b"}, "has a control character"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error error = {0};
        enum status status = job_check_output(&rows[i].place, "ns", &error);
        assert_int_equal(status, rows[i].says ? STATUS_PATH_REFUSED : STATUS_OK);
        if (!strstr(error.text, rows[i].says ? rows[i].says : ""))
            fail_msg("%s", error.text);
    }
}

TEST(test_same_places)
{
    const struct job_place a = {.path = "a"}, b = {.path = "b"}, key = {.key = "a"}, none = {0};
    assert_true(job_places_are_same(&a, &a));
    assert_true(job_places_are_same(&key, &key));
    assert_false(job_places_are_same(&a, &b));
    assert_false(job_places_are_same(&a, &key));
    assert_false(job_places_are_same(&key, &a));
    assert_false(job_places_are_same(&none, &none));
}

TEST_MAIN(.name = "inputs")
