/*
 * test_bad.c - invalid jobs and files: each gets exactly one failed result with the right code and
 * a message that names the key and its limit, and its neighbours succeed.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

/* ---- one bad job between two good ones ------------------------------------------------------- */

static void push_good(void)
{
    world_push(w, "{'id':'good','input':'good.jpg','output':'good.png','ops':['sobel']}");
}

/* The result of the bad job that was pushed between two good ones. */
static cJSON *answer_to_bad(void)
{
    cJSON *bad = NULL;
    for (int i = 0; i < 3; i++) {
        cJSON *result = check_next(w);
        if (strcmp(json_text(result, "id"), "good") == 0) {
            check_done(result);
        } else {
            assert_null(bad);
            bad = result;
        }
    }
    assert_non_null(bad);
    return bad;
}

struct bad {
    const char *job;
    const char *code;
    const char *word; /* the message contains it; NULL: any message */
};

static void run_bad(const struct bad *bad, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        push_good();
        world_push(w, "%s", bad[i].job);
        push_good();
        cJSON *result = answer_to_bad();
        if (strcmp(json_text(result, "error.code"), bad[i].code) != 0)
            print_error("job %s\n", bad[i].job);
        assert_true(json_number(result, "attempt") == 1);
        assert_false(cJSON_IsTrue(json_at(result, "error.retryable")));
        check_failed(result, bad[i].code, bad[i].word, NULL);
    }
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
}
#define RUN_BAD(table) run_bad(table, sizeof table / sizeof *table)

TEST(test_bad_json)
{
    static const struct bad jobs[] = {
        {"", "bad_json", NULL},
        {"hello", "bad_json", NULL},
        {"{", "bad_json", NULL},
        {"{'input':'good.jpg','output':'x.png'", "bad_json", NULL},
        {"{'input':'good.jpg','output':'x.png'} x", "bad_json", NULL},
        {"{'input':'good.jpg','output':'x.png',}", "bad_json", NULL},
        {"{'input':'good.jpg','output':'x.png','id':'\\u0000'}", "bad_json", NULL},
        /* Duplicate keys are ambiguous. */
        {"{'input':'good.jpg','input':'other.jpg','output':'x.png'}", "bad_json", "input"},
        {"{'input':'good.jpg','output':'x.png','id':'\xff\xfe'}", "bad_json", NULL},
        {"{'input':'good.jpg','output':'x.png','id':'\xed\xa0\x80'}", "bad_json", NULL},
        {"{'input':'good.jpg','output':'x.png','meta':[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}",
         "bad_json", "16"},
    };
    RUN_BAD(jobs);
    /* arbitrary bytes, including NUL */
    struct picture_file garbage = picture_garbage(5000, 7);
    push_good();
    world_push_bytes(w, garbage.bytes, garbage.length);
    push_good();
    check_failed(answer_to_bad(), "bad_json", NULL, NULL);
    picture_free(&garbage);
}

/* Log lines and results name the job, and a job's text cannot forge a log line. */
TEST(test_bad_jobs_are_named)
{
    static const struct {
        const char *job, *place, *name, *line;
    } rows[] = {
        {"{'id':'i','input':'no.jpg','output':'x.png'}", "input.path", "no.jpg",
         " i (no.jpg) failed: input_missing: "},
        {"{'input':{'key':'gpuimgd:img:no'},'output':'x.png'}", "input.key", "gpuimgd:img:no",
         " (gpuimgd:img:no) failed: input_missing: "},
        {"{'input':'../up.jpg','output':'x.png'}", "input.path", "../up.jpg",
         " (../up.jpg) failed: path_refused: "},
        {"{'input':'a\\nb','output':'x.png'}", "input.path", "a\nb",
         " (a\\x0ab) failed: path_refused: "},
        {"{'output':'x.png'}", "text", "{\"output\":\"x.png\"}",
         " ({\"output\":\"x.png\"}) failed: bad_job: "},
        {"{'input':'a.jpg'\x1b[2J", "text", "{\"input\":\"a.jpg\"\\x1b[2J",
         " ({\"input\":\"a.jpg\"\\x1b[2J) failed: bad_json: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t mark = process_log_mark(&w->daemons[0]);
        cJSON *result = check_answer(w, "%s", rows[i].job);
        assert_string_equal(json_text(result, rows[i].place), rows[i].name);
        cJSON_Delete(result);
        assert_true(process_logged(&w->daemons[0], mark, rows[i].line, 20));
    }
    /* A long name is complete in the result, and its end is in the log. */
    char name[1000];
    memset(name, 'n', sizeof name);
    for (size_t i = 100; i < sizeof name; i += 100)
        name[i] = '/';
    snprintf(name + sizeof name - 8, 8, "end.jpg");
    size_t mark = process_log_mark(&w->daemons[0]);
    cJSON *result = check_answer(w, "{'input':'%s','output':'x.png'}", name);
    assert_string_equal(json_text(result, "input.path"), name);
    cJSON_Delete(result);
    assert_true(process_logged(&w->daemons[0], mark, " (...nnn", 20));
    assert_true(process_logged(&w->daemons[0], mark, "end.jpg) failed: input_missing: ", 20));
}

TEST(test_too_long_job)
{
    size_t length = 64 * 1024 + 1;
    char *job = malloc(length + 1);
    assert_non_null(job);
    memset(job, ' ', length);
    memcpy(job, "{\"input\":\"good.jpg\",\"output\":\"long.png\"}", 40);
    push_good();
    world_push_bytes(w, job, length);
    push_good();
    cJSON *result = answer_to_bad();
    char begins[] = "{\"input\":\"good.jpg\",\"output\":\"long.png\"}";
    assert_memory_equal(json_text(result, "text"), begins, sizeof begins - 1);
    assert_true(strlen(json_text(result, "text")) <= 200);
    check_failed(result, "bad_json", "65537", "65536", NULL);
    push_good();
    world_push_bytes(w, job, length - 1); /* as long as allowed */
    cJSON *first = check_next(w);
    check_done(first);
    check_done(check_next(w));
    free(job);
}

TEST(test_bad_keys)
{
    static const struct bad jobs[] = {
        {"[1]", "bad_job", NULL},
        {"7", "bad_job", NULL},
        {"{}", "bad_job", "input"},
        {"{'output':'x.png'}", "bad_job", "input"},
        {"{'input':7,'output':'x.png'}", "bad_job", "input"},
        {"{'input':'','output':'x.png'}", "path_refused", NULL},
        {"{'input':{},'output':'x.png'}", "bad_job", "input"},
        {"{'input':{'path':'good.jpg','key':'gpuimgd:img:x'},'output':'x.png'}", "bad_job", NULL},
        {"{'input':'good.jpg'}", "bad_job", "output"},
        {"{'input':'good.jpg','ops':['sobel']}", "bad_job", "the job has no output"},
        {"{'input':'good.jpg','outputs':[{'ops':['sobel']}]}", "bad_job",
         "outputs[0] has no output"},
        {"{'input':'good.jpg','output':'x.png','opps':['sobel']}", "bad_job", "opps"},
        {"{'input':'good.jpg','output':'x.png','Ops':[]}", "bad_job", "Ops"},
        {"{'input':'good.jpg','output':{'path':'x.png','compresion':3}}", "bad_job", "compresion"},
        {"{'input':'good.jpg','output':'x.png','id':7}", "bad_job", "id"},
        {"{'input':'good.jpg','output':'x.png','ops':'sobel'}", "bad_job", "ops"},
        {"{'input':'good.jpg','output':'a/x.gif'}", "bad_job",
         "output \"a/x.gif\" ends in .gif, which is not an output format; use the "
         "suffix .jpg, .jpeg, .png, .webp, .avif, .jxl, .npy or .raw, or set a format"},
        {"{'input':'good.jpg','outputs':[{'output':{'path':'x.TIFF'}}]}", "bad_job",
         "outputs[0].output \"x.TIFF\" ends in .TIFF"},
        {"{'input':'good.jpg','output':{'path':'x.png','format':'gif'}}", "bad_job",
         "output.format is \"gif\"; it must be \"jpeg\", \"png\", "},
        {"{'input':'good.jpg','output':{'path':'x.png','format':'PNG'}}", "bad_job", "PNG"},
        {"{'input':'good.jpg','output':{'path':'photo.jpg','format':'png'}}", "bad_job",
         "output.format is \"png\", but the suffix of \"photo.jpg\" means jpeg; omit the format, "
         "or change the suffix"},
        {"{'input':'good.jpg','outputs':[{'output':{'path':'x.PNG','format':'jpg'}}]}", "bad_job",
         "outputs[0].output.format is \"jpg\", but the suffix of \"x.PNG\" means png"},
        {"{'input':'good.jpg','output':{'path':'x.png','quality':90}}", "bad_job",
         "output.quality is a key of jpeg, webp, avif and jxl, but \"x.png\" is written as png; "
         "omit it"},
        {"{'input':'good.jpg','output':{'path':'x','format':'png','progressive':false}}", "bad_job",
         "output.progressive is a key of jpeg, but \"x\" is written as png"},
        {"{'input':'good.jpg','outputs':[{'output':{'key':'gpuimgd:img:x','format':'jpg',"
         "'compression':3}}]}",
         "bad_job",
         "outputs[0].output.compression is a key of png, but "
         "\"gpuimgd:img:x\" is written as jpeg; omit it"},
        /* the format of the input */
        {"{'input':'good.jpg','output':{'key':'gpuimgd:img:x','compression':3}}", "bad_job",
         "output.compression is a key of png, but \"gpuimgd:img:x\" is written as jpeg"},
        {"{'input':'good.jpg','outputs':[{'output':{'path':'x','compression':3},'ops':['sobel']}]}",
         "bad_job", "outputs[0].output.compression is a key of png, but \"x\" is written as jpeg"},
        {"{'input':'good.jpg','output':{'path':'x.png','max_bytes':9000}}", "bad_job",
         "output.max_bytes is a key of jpeg, webp, avif and jxl, but \"x.png\" is written as png; "
         "omit it"},
        {"{'input':'good.jpg','output':{'path':'x.png','subsampling':'444'}}", "bad_job",
         "output.subsampling is a key of jpeg"},
        {"{'input':'good.jpg','output':{'path':'x.jpg','subsampling':420}}", "bad_job",
         "output.subsampling is 420; it must be the string \"420\", \"422\", \"444\" or \"gray\""},
        {"{'input':'good.jpg','output':{'path':'x.jpg','quality':0}}", "bad_job", "quality"},
        {"{'input':'good.jpg','output':{'path':'x.jpg','quality':101}}", "bad_job", "100"},
        {"{'input':'good.jpg','output':{'path':'x.png','compression':10}}", "bad_job",
         "compression"},
        {"{'input':'good.jpg','output':'x.png','background':[1,2]}", "bad_job", "background"},
        {"{'input':'good.jpg','output':'x.png','background':[1,2,256]}", "bad_job", "background"},
        {"{'input':'good.jpg','output':'x.png','orient':1}", "bad_job", "orient"},
        {"{'input':'good.jpg','output':'x.png','timeout_s':-1}", "bad_job", "timeout_s"},
        {"{'input':'good.jpg','outputs':[]}", "bad_job", "outputs"},
        {"{'input':'good.jpg','output':'x.png','outputs':[{'output':'y.png'}]}", "bad_job",
         "output"},
        {"{'input':'good.jpg','outputs':[{'output':'y.png'},{'output':'y.png'}]}", "bad_job",
         "y.png"},
        {"{'input':{'key':'gpuimgd:img:x'},'output':{'key':'gpuimgd:img:x'}}", "bad_job",
         "both keys are \"gpuimgd:img:x\""},
    };
    RUN_BAD(jobs);
}

TEST(mistaken_names_get_hints)
{
    static const struct bad jobs[] = {
        {"{'input':'good.jpg','output':'cl.xyz'}", "bad_job",
         "output \"cl.xyz\" ends in .xyz, which is not an output format; use the suffix .jpg, "},
        {"{'input':'good.jpg','output':'o.x.pgn'}", "bad_job",
         "output \"o.x.pgn\" ends in .pgn, which is not an output format; did you mean .png? "
         "Otherwise set a format"},
        {"{'input':'good.jpg','output':'x.png','ops':['watermark']}", "unknown_op",
         "no operation is named \"watermark\"; did you mean \"composite\"?"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'op':'thumbnail','width':64}]}",
         "unknown_op", "ops[0]: no operation is named \"thumbnail\"; did you mean \"resize\"?"},
    };
    RUN_BAD(jobs);
}

TEST(test_bad_colors)
{
    static const struct bad jobs[] = {
        {"{'input':'good.jpg','output':{'path':'x.png','colors':0}}", "bad_job",
         "output.colors is 0; it must be an integer from 2 to 256"},
        {"{'input':'good.jpg','output':{'path':'x.png','colors':1}}", "bad_job", "colors is 1"},
        {"{'input':'good.jpg','output':{'path':'x.png','colors':257}}", "bad_job", "257"},
        {"{'input':'good.jpg','output':{'path':'x.png','colors':'x'}}", "bad_job", "colors"},
        {"{'input':'good.jpg','output':{'path':'x.jpg','colors':16}}", "bad_job",
         "output.colors is a key of png, but \"x.jpg\" is written as jpeg; omit it"},
    };
    RUN_BAD(jobs);
}

TEST(test_bad_job_keeps_its_id)
{
    cJSON *result = check_answer(w, "{'id':'mine','meta':{'a':1},'input':'good.jpg',"
                                    "'output':'x.png','opps':[]}");
    check_has(result, "{'id':'mine','meta.a':1}");
    check_failed(result, "bad_job", "opps", NULL);
    assert_int_equal(redis_integer(w->client, "EXISTS gpuimgd:result:mine"), 1);

    char id[160];
    memset(id, 'i', sizeof id);
    id[129] = '\0';
    check_failed(check_answer(w, "{'id':'%s','input':'good.jpg','output':'x.png'}", id), "bad_job",
                 "128", NULL);
}

TEST(test_bad_operations)
{
    static const struct bad jobs[] = {
        {"{'input':'good.jpg','output':'x.png','ops':['sobell']}", "unknown_op", "sobell"},
        {"{'input':'good.jpg','output':'x.png','ops':['Sobel']}", "unknown_op", "Sobel"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'op':'nothing'}]}", "unknown_op", "nothing"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'op':'sobel','magnitud':'l1'}]}", "bad_op",
         "magnitud"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'op':'sobel','magnitude':'l3'}]}", "bad_op",
         "l3"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'op':'sobel','border':1}]}", "bad_op",
         "border"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'op':'grayscale','weights':[1,1]}]}",
         "bad_op", "weights"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'op':'grayscale','weights':[1,1,1]}]}",
         "bad_op", "weights"},
        {"{'input':'good.jpg','output':'x.png','ops':['grayscale',{'op':'sobel','magnitude':7}]}",
         "bad_op", "sobel"},
    };
    RUN_BAD(jobs);
    static const struct bad shapes[] = {
        {"{'input':'good.jpg','output':'x.png','ops':[7]}", "bad_job", "ops"},
        {"{'input':'good.jpg','output':'x.png','ops':[{'magnitude':'l1'}]}", "bad_job", "op"},
    };
    RUN_BAD(shapes);
    char many[2048] = "'sobel'";
    for (int i = 0; i < 32; i++)
        strcat(many, ",'sobel'");
    check_failed(check_answer(w, "{'input':'good.jpg','output':'x.png','ops':[%s]}", many),
                 "bad_job", "32", NULL);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void make_link(const char *to, const char *at, bool in)
{
    assert_int_equal(symlink(to, in ? in_path(at) : out_path(at)), 0);
}

TEST(test_refused_paths)
{
    world_put(w, "sub/x", "", 0);
    make_link("good.jpg", "link.jpg", true);
    make_link("/etc", "linked", true);
    make_link("sub", "inside", true);
    make_link("/tmp", "linked", false);
    make_link("/tmp/never-made-by-gpuimgd.png", "link.png", false);
    assert_int_equal(mkfifo(in_path("fifo.jpg"), 0644), 0);
    static const struct bad jobs[] = {
        {"{'input':'../secret.jpg','output':'x.png'}", "path_refused", "../secret.jpg"},
        {"{'input':'a/../good.jpg','output':'x.png'}", "path_refused", "a/../good.jpg"},
        {"{'input':'./good.jpg','output':'x.png'}", "path_refused", NULL},
        {"{'input':'/etc/passwd','output':'x.png'}", "path_refused", "/etc/passwd"},
        {"{'input':'sub//x','output':'x.png'}", "path_refused", NULL},
        {"{'input':'good.jpg','output':'../x.png'}", "path_refused", "../x.png"},
        {"{'input':'good.jpg','output':'/tmp/x.png'}", "path_refused", "/tmp/x.png"},
        {"{'input':'link.jpg','output':'x.png'}", "path_refused", "link.jpg"},
        {"{'input':'linked/passwd','output':'x.png'}", "path_refused", "linked/passwd"},
        {"{'input':'inside/x','output':'x.png'}", "path_refused", "inside/x"},
        {"{'input':'good.jpg/x','output':'x.png'}", "path_refused", "good.jpg/x"},
        {"{'input':'good.jpg','output':'linked/x.png'}", "path_refused", "linked/x.png"},
        {"{'input':'fifo.jpg','output':'x.png'}", "path_refused", "fifo.jpg"},
        {"{'input':'sub','output':'x.png'}", "path_refused", "regular"},
        {"{'input':{'key':'other:thing'},'output':'x.png'}", "path_refused", "other:thing"},
        {"{'input':'good.jpg','output':{'key':'gpuimgd:jobs','format':'png'}}", "path_refused",
         "gpuimgd:jobs"},
        {"{'input':'good.jpg','output':'x.png','reply_to':'gpuimgd:jobs'}", "path_refused",
         "gpuimgd:jobs"},
    };
    RUN_BAD(jobs);
    /* A link with the target's own name is never followed: the job replaces or refuses it. */
    cJSON *result = check_answer(w, "{'input':'good.jpg','output':'link.png'}");
    assert_true(!strcmp(json_text(result, "status"), "done") ||
                !strcmp(json_text(result, "error.code"), "path_refused"));
    cJSON_Delete(result);
    assert_int_equal(access("/tmp/never-made-by-gpuimgd.png", F_OK), -1);

    /* /dev/zero; only root can create it */
    if (mknod(in_path("device.png"), S_IFCHR | 0666, makedev(1, 5)) == 0)
        check_failed(check_answer(w, "{'input':'device.png','output':'x.png'}"), "path_refused",
                     "device.png", NULL);
}

TEST(test_missing_inputs)
{
    static const struct bad jobs[] = {
        {"{'input':'none.jpg','output':'x.png'}", "input_missing", "none.jpg"},
        {"{'input':'none/at/all.jpg','output':'x.png'}", "input_missing", "none/at/all.jpg"},
        {"{'input':{'key':'gpuimgd:img:none'},'output':'x.png'}", "input_missing",
         "gpuimgd:img:none"},
    };
    RUN_BAD(jobs);
    /* A key that is not a string is not an image. */
    redis_integer(w->client, "LPUSH gpuimgd:img:list x");
    push_good();
    world_push(w, "{'id':'list','input':{'key':'gpuimgd:img:list'},'output':{'path':'x.png'}}");
    push_good();
    cJSON *result = answer_to_bad();
    assert_string_not_equal(json_text(result, "status"), "done");
    assert_non_null(strstr(json_text(result, "error.message"), "gpuimgd:img:list"));
    cJSON_Delete(result);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void put_cut(const char *name, struct picture_file file, double part)
{
    world_put_picture(w, name, picture_cut_at(&file, part));
    picture_free(&file);
}

static void put_bad_files(void)
{
    const struct picture_jpeg jpeg = {.width = 200, .height = 150};
    const struct picture_png png = {.width = 200, .height = 150, .colour_type = 2};
    const struct picture_jpeg scans = {.width = 64, .height = 64, .scans = 1000};
    world_put_picture(w, "empty.jpg", picture_empty());
    world_put_picture(w, "text.jpg", picture_text());
    world_put_picture(w, "garbage.jpg", picture_garbage(20000, 3));
    put_cut("half.jpg", picture_jpeg(&jpeg), 0.5);
    put_cut("half.png", picture_png(&png), 0.5);
    put_cut("head.jpg", picture_jpeg(&jpeg), 0.02);
    put_cut("head.png", picture_png(&png), 0.0005);
    struct picture_file file = picture_png(&png);
    picture_png_break_crc(&file, "IDAT");
    world_put_picture(w, "crc.png", file);
    file = picture_png(&png);
    picture_png_break_crc(&file, "IHDR");
    world_put_picture(w, "crc-head.png", file);
    world_put_picture(w, "huge.png", picture_png_huge(50000, 50000));
    world_put_picture(w, "huge.jpg", picture_jpeg_huge(65500, 65500));
    world_put_picture(w, "wide.png", picture_png_huge(16385, 10));
    world_put_picture(w, "scans.jpg", picture_jpeg(&scans));
    world_put(w, "large.jpg", "\xff\xd8\xff", 3);
    assert_int_equal(truncate(in_path("large.jpg"), (64 << 20) + 1), 0);
}

TEST(test_bad_files)
{
    put_bad_files();
    static const struct {
        const char *name, *code, *word;
    } files[] = {
        {"empty.jpg", "unsupported_format", NULL},
        {"text.jpg", "unsupported_format", NULL},
        {"garbage.jpg", "unsupported_format", NULL},
        {"half.jpg", "decode_failed", NULL},
        {"half.png", "decode_failed", NULL},
        {"head.jpg", "decode_failed", NULL},
        {"head.png", "decode_failed", NULL},
        {"crc.png", "decode_failed", "CRC"},
        {"crc-head.png", "decode_failed", "CRC"},
        {"huge.png", "image_too_large", "50000"},
        {"huge.jpg", "image_too_large", "65500"},
        {"wide.png", "image_too_large", "16384"},
        {"scans.jpg", "decode_limit", "100"},
        {"large.jpg", "input_too_large", "67108864"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        for (int ops = 0; ops < 2; ops++) {
            push_good();
            world_push(w, "{'id':'bad','input':'%s','output':'never/%s.png','ops':[%s]}",
                       files[i].name, files[i].name, ops ? "'sobel'" : "");
            push_good();
            cJSON *result = answer_to_bad();
            if (strcmp(json_text(result, "error.code"), files[i].code) != 0)
                print_error("file %s\n", files[i].name);
            check_failed(result, files[i].code, files[i].word, NULL);
        }
    }
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    assert_int_equal(text_file_count(w->out, "never/"), 0);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
}

/* ---- outputs that cannot be written ---------------------------------------------------------- */

TEST(test_unwritable_output)
{
    const char *folder = out_path("locked");
    assert_int_equal(mkdir(folder, 0555), 0);
    long long dead = redis_integer(w->client, "LLEN gpuimgd:dead");
    push_good();
    world_push(w, "{'id':'locked','input':'good.jpg','output':'locked/x.png'}");
    push_good();
    cJSON *result = answer_to_bad();
    check_has(result, "{'id':'locked','attempt':3,'error.retryable':true}");
    assert_non_null(strstr(json_text(result, "error.message"), "locked/x.png"));
    check_ended(result, "dead", "write_failed");
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:dead"), dead + 1);
    assert_non_null(strstr(redis_text(w->client, "LINDEX gpuimgd:dead 0"), "locked/x.png"));
    const char *why = redis_text(w->client, "LINDEX gpuimgd:dead:errors 0");
    cJSON *record = cJSON_Parse(why);
    check_has(record, "{'error.code':'write_failed','input.path':'good.jpg'}");
    assert_true(json_number(record, "attempt") == 3 && json_number(record, "time") > 1e9);
    assert_true(*json_text(record, "daemon") && strlen(json_text(record, "of")) > 41);
    cJSON_Delete(record);

    /* After the cause is removed, the command of the manual retries the job. */
    assert_int_equal(chmod(folder, 0755), 0);
    free(redis_string(w->client, "LMOVE gpuimgd:dead gpuimgd:jobs LEFT RIGHT"));
    result = check_next(w);
    assert_string_equal(json_text(result, "id"), "locked");
    check_done(result);

    /* A job whose folder is opened between two attempts succeeds at the second or third. */
    assert_int_equal(chmod(folder, 0555), 0);
    world_push(w, "{'id':'later','input':'good.jpg','output':'locked/y.png'}");
    assert_true(world_until(w, 10, 1, "ZCARD gpuimgd:delayed"));
    assert_int_equal(chmod(folder, 0755), 0);
    result = check_next(w);
    assert_true(json_number(result, "attempt") >= 2);
    check_done(result);
}

TEST(test_output_is_a_folder)
{
    assert_int_equal(mkdir(out_path("folder.png"), 0755), 0);
    cJSON *result = check_answer(w, "{'input':'good.jpg','output':'folder.png'}");
    assert_string_not_equal(json_text(result, "status"), "done");
    assert_non_null(strstr(json_text(result, "error.message"), "folder.png"));
    cJSON_Delete(result);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
}

/* The kernel sends SIGXFSZ, which would end the daemon. */
TEST(test_a_limit_of_the_file_size)
{
    const struct rlimit limit = {1000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    pid_t daemon = w->daemons[0].pid;
    assert_int_equal(prlimit(daemon, RLIMIT_FSIZE, &limit, NULL), 0);
    cJSON *result = check_answer(w, "{'input':'good.jpg','output':'large.png'}");
    assert_int_equal(prlimit(daemon, RLIMIT_FSIZE, &none, NULL), 0);
    assert_non_null(strstr(json_text(result, "error.message"), "File too large"));
    check_ended(result, "dead", "write_failed");
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
    check_done(check_answer(w, "{'input':'good.jpg','output':'large.png'}"));
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* An input of the maximum size fits, although it is half of host_bytes. */
TEST(test_largest_input)
{
    struct picture_file file = picture_jpeg(&(struct picture_jpeg){.width = 40, .height = 30});
    struct picture_file rest = {calloc(1, MIB), MIB - file.length};
    assert_non_null(rest.bytes);
    picture_insert(&file, file.length, rest.bytes, rest.length);
    world_put_picture(w, "largest.jpg", file);
    strcpy(w->ns, "half");
    struct process *half = start_ready(1, "--host_bytes=2M", "--input_bytes_max=1M");
    check_done(check_answer(w, "{'input':'largest.jpg','output':'largest-out.png'}"));
    check_stop(half);
    check_clean(w);
    strcpy(w->ns, "gpuimgd");
    picture_free(&rest);
}

TEST(test_over_budget)
{
    put_png("big.png", .width = 1500, .height = 1000, .colour_type = 2);
    strcpy(w->ns, "small");
    struct process *small = start_ready(1, "--pinned_bytes=2M");
    push_good();
    world_push(w, "{'input':'big.png','output':'big-out.png','ops':['sobel']}");
    push_good();
    check_failed(answer_to_bad(), "over_budget", "pinned", NULL);
    check_stop(small);
    /* A progressive JPEG's coefficients are the codec's own memory. */
    put_jpeg("coefficients.jpg", .width = 800, .height = 600, .progressive = true);
    struct process *narrow = start_ready(1, "--host_bytes=1M", "--input_bytes_max=512K");
    check_failed(check_answer(w, "{'input':'coefficients.jpg','output':'x.png'}"), "over_budget",
                 "decoding", "393216 bytes, three eighths of host_bytes", NULL);
    push_good();
    check_done(check_next(w));
    check_stop(narrow);
    check_clean(w);
    strcpy(w->ns, "gpuimgd");
}

/* An AVIF of opaque pixels needs less memory than one with alpha. */
TEST(test_alpha_over_budget)
{
    static const uint8_t unused_colour[] = {0, 1, 0, 254, 0, 3};
    struct picture_file opaque = make_png(.width = 160, .height = 120, .colour_type = 2);
    picture_png_insert(&opaque, "IDAT", "tRNS", unused_colour, sizeof unused_colour);
    world_put_picture(w, "opaque.png", opaque);
    put_png("alpha.png", .width = 160, .height = 120, .colour_type = 6);
    strcpy(w->ns, "narrow");
    struct process *narrow = start_ready(1, "--host_bytes=4M", "--input_bytes_max=1M");
    check_done(check_answer(w, "{'input':'opaque.png','output':'opaque.avif'}"));
    check_failed(check_answer(w, "{'input':'alpha.png','output':'alpha.avif'}"), "over_budget",
                 "an AVIF of 160 x 120 pixels that are not all opaque", NULL);
    check_failed(check_answer(w, "{'input':'opaque.png','output':{'path':'x.avif','effort':4}}"),
                 "over_budget", "decoding and encoding", NULL);
    check_stop(narrow);
    check_clean(w);
    strcpy(w->ns, "gpuimgd");
}

/* Limits of size and time that the configuration lowers. */
TEST(test_lowered_limits)
{
    strcpy(w->ns, "strict");
    put_png("side.png", .width = 101, .height = 5);
    put_png("area.png", .width = 90, .height = 90);
    struct process *strict = start_ready(1, "--side_max=100", "--pixels_max=5000",
                                         "--input_bytes_max=20K");
    check_failed(check_answer(w, "{'input':'side.png','output':'x.png'}"), "image_too_large", "101",
                 "100", NULL);
    check_failed(check_answer(w, "{'input':'area.png','output':'x.png'}"), "image_too_large",
                 "5000", NULL);
    check_failed(check_answer(w, "{'input':'garbage.jpg','output':'x.png'}"), "unsupported_format",
                 NULL, NULL);
    world_put_picture(w, "bytes.png", picture_garbage(20481, 1));
    check_failed(check_answer(w, "{'input':'bytes.png','output':'x.png'}"), "input_too_large",
                 "20481", "20480", NULL);
    check_stop(strict);
    strcpy(w->ns, "gpuimgd");
}

/* Memory use after 2,000 bad jobs is the same as after the first 500. */
TEST(test_many_bad_jobs)
{
    static const char *const jobs[] = {
        "{'input':'half.jpg','output':'x.png','ops':['sobel']}",
        "{'input':'half.png','output':'x.png'}",
        "{'input':'huge.png','output':'x.png'}",
        "{'input':'scans.jpg','output':'x.png'}",
        "{'input':'none.jpg','output':'x.png'}",
        "{'input':'link.jpg','output':'x.png'}",
        "{'input':'good.jpg','output':'x.png','ops':['sobell']}",
        "{'input':'good.jpg','output':'x.png','opps':[1,2,3]}",
        "nonsense",
        "{'input':'text.jpg','output':'x.png','meta':{'a':'b'}}",
    };
    size_t early = 0;
    for (int batch = 0; batch < 20; batch++) {
        for (int i = 0; i < 100; i++)
            world_push(w, "%s", jobs[i % 10]);
        for (int i = 0; i < 100; i++) {
            cJSON *result = check_next(w);
            assert_string_equal(json_text(result, "status"), "failed");
            cJSON_Delete(result);
        }
        if (batch == 4)
            early = process_rss_kib(&w->daemons[0]);
    }
    size_t late = process_rss_kib(&w->daemons[0]);
    if (late > early + early / 20)
        print_error("resident memory grew from %zu to %zu KiB\n", early, late);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(late <= early + early / 20);
#endif
    push_good();
    check_done(check_next(w));
}

TEST(test_stop)
{
    redis_integer(w->client, "DEL gpuimgd:img:list");
    check_stop(&w->daemons[0]);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

int main(void)
{
    world_options = &(struct world_options){
        .photo = {"good.jpg", 50, 40}, .start = true, .unprivileged = true,
        .daemon = {"--inflight=8"}};
    return run_all(.setup = open_world, .teardown = close_world, .each_setup = settle_world);
}
