/*
 * test_ctl_sets.c - gpuimgctl submit --list and --shards: jobs with many images.
 *
 * The daemon is played by the test (tests/fixtures/fake_daemon.h), except in the last test.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "conf/limits.h"
#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/fake_daemon.h"
#include "tests/fixtures/text_file.h"

static void put_files(void)
{
    ctl_put_files();
    for (int i = 0; i < 7; i++)
        put_small_png(text_of("set/%d.png", i), (uint32_t)i);
    put_small_png("odd/50%.png", 1);
    put_small_png("odd/%p.png", 2);
    put_small_png("odd/line\nend.png", 3);
    world_put(w, "train/1.tar", "tar", 3);
    world_put(w, "train/2.zip", "zip", 3);
    world_put(w, "train/[3].tar", "tar", 3);
    world_put(w, "train/notes.txt", "txt", 3);
    world_put(w, "anim/a.gif", "gif", 3);
    world_put(w, "anim/b.gif", "gif", 3);
}

static const char *text_at(const cJSON *json, const char *place)
{
    return json_text(json, place);
}

/* ---- sending lists ------------------------------------------------------------------------- */

/* Checks the queued jobs, as an array, and removes them. */
#define check_jobs(line, ...)                                                                      \
    do {                                                                                           \
        ctl_expect(w, 0, line, " sent", NULL);                                                     \
        cJSON *queued = fake_take_all();                                                           \
        check_has(queued, __VA_ARGS__);                                                            \
        cJSON_Delete(queued);                                                                      \
    } while (0)

TEST(test_lists)
{
    ctl_expect(w, 0, "ctl submit $at --list 3 in/set/*.png --ops sobel -o 'edges/%p.jpg'",
               "7 sent in 3 jobs", NULL);
    cJSON *jobs = fake_take_all();
    check_has(jobs, "{'0.inputs.0':'set/0.png','0.inputs.2':'set/2.png','0.inputs.3':null,"
                    "'0.output':'edges/%%p.jpg','0.ops.0.op':'sobel','0.input':null,"
                    "'0.on_error':null,'0.meta':null,'1.inputs.0':'set/3.png',"
                    "'2.inputs.0':'set/6.png','2.inputs.1':null,'3':null}");
    assert_non_null(strstr(text_at(jobs, "0.id"), "ctl-"));
    assert_string_not_equal(text_at(jobs, "0.id"), text_at(jobs, "1.id"));
    cJSON_Delete(jobs);
    check_jobs("ls in/set/*.png | ctl submit $at --list 1024 - -o x/",
               "{'0.inputs.6':'set/6.png',"
               "'0.output':'x/%%p.png','1':null}");
    check_jobs("ctl submit $at --list 9 -r in/album -o x --format jpeg --quality 50",
               "{'0.output.path':'x/%%p.jpg','0.output.format':'jpeg','0.output.quality':50,"
               "'1':null}");
    check_jobs("ctl submit $at --list 9 in/set/*.png --no-output --ops stats --on-error fail "
               "--id 'a%%-%i'",
               "{'0.output':null,'0.id':'a%%-1','0.on_error':'fail','0.inputs.6':"
               "'set/6.png','1':null}");
    ctl_expect(w, 0, "ctl submit $at --list 2 one.png cat.jpg --json -o '%p.png'", "\"file\":\"",
               "and 1 more", "{\"sent\":2,\"not_sent\":0,\"jobs\":{\"sent\":1}", NULL);
    cJSON_Delete(fake_take_all());
}

/* The images of a job share their suffix if the outputs have it. */
TEST(test_suffixes)
{
    check_jobs("ctl submit $at --list 9 one.png cat.jpg set/1.png album/deep/b.PNG -o x",
               "{'0.inputs':['one.png','set/1.png'],'0.output':'x/%%p.png',"
               "'1.inputs':['cat.jpg'],'1.output':'x/%%p.jpg',"
               "'2.inputs':['album/deep/b.PNG'],'2.output':'x/%%p.PNG','3':null}");
    check_jobs("ctl submit $at --list 9 one.png cat.jpg -o 'x/%i/%n.webp'",
               "{'0.inputs':['one.png','cat.jpg'],'0.output':'x/1/%%n.webp','1':null}");
}

/* The rows of an array are in the order of the names, not in that of the filesystem. */
TEST(test_folders_are_sorted)
{
    ctl_expect(w, 0,
               "for i in 4 9 2 b/7 0 b/3 6 1 b.d/5 8; do mkdir -p in/order/b in/order/b.d; "
               "cp in/one.png in/order/$i.png; done; ln -s 0.png in/order/c.png; "
               "ctl submit $at -r --list 1024 in/order -o all.npy --pack array",
               "10 sent in 1 job", "1 links and special files in folders were skipped", NULL);
    cJSON *jobs = fake_take_all();
    check_has(jobs, "{'0.inputs':['order/0.png','order/1.png','order/2.png','order/4.png',"
                    "'order/6.png','order/8.png','order/9.png','order/b/3.png','order/b/7.png',"
                    "'order/b.d/5.png'],'1':null}");
    cJSON_Delete(jobs);
    text_file_remove_folder(in_path("order"));
}

/* A job has at most 64 KiB. */
TEST(test_long_names)
{
    enum { COUNT = 300 };
    char folder[200];
    size_t length = 0, seen = 0;
    for (int i = 0; i < 190; i++)
        folder[length++] = 'd';
    folder[length] = '\0';
    for (unsigned i = 0; i < COUNT; i++)
        put_small_png(text_of("long/%s/%s%u.png", folder, folder, i), 1);
    ctl_expect(w, 0, "ctl submit $at -r --list 1024 in/long -o '%p.png'", "300 sent in 2 jobs",
               NULL);
    redisReply *texts = redis_command(w->client, "LRANGE %s:jobs 0 -1", w->ns);
    assert_int_equal(texts->elements, 2);
    for (size_t i = 0; i < texts->elements; i++)
        assert_true(texts->element[i]->len <= JOB_BYTES_MAX);
    assert_true(texts->element[1]->len > JOB_BYTES_MAX - 4096); /* the first job is full */
    freeReplyObject(texts);
    cJSON *jobs = fake_take_all(), *job;
    cJSON_ArrayForEach(job, jobs) seen +=
        (size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(job, "inputs"));
    assert_int_equal(seen, COUNT);
    cJSON_Delete(jobs);
    text_file_remove_folder(in_path("long"));
}

TEST(test_odd_names)
{
    ctl_expect(w, 1, "ctl submit $at -r --list 9 in/odd -o 'x/%p.png'",
               "in/odd/line?end.png: the image \"odd/line\\nend.png\" has a control character",
               "2 sent in 1 job, 1 not sent", NULL);
    cJSON *jobs = fake_take_all();
    assert_true(strcmp(text_at(jobs, "0.inputs.0"), "odd/50%.png") == 0 ||
                strcmp(text_at(jobs, "0.inputs.1"), "odd/50%.png") == 0);
    cJSON_Delete(jobs);
    check_jobs("ctl submit $at --list 9 in/odd/50%.png one.png -o 'https://h/a%20b/%p.png'",
               "{'0.inputs':['odd/50%%.png','one.png'],"
               "'0.output.url':'https://h/a%%%%20b/%%p.png'}");
    /* The daemon encodes the name of a file, but not that of a URL. */
    ctl_expect(w, 1,
               "cp in/one.png in/50%.png; ctl submit $at --list 9 in/50%.png "
               "https://h/50%25.png -o 'https://o/%p.png'",
               "https://h/50%25.png: not sent: in/50%.png already has the output "
               "https://o/50%25.png",
               "1 sent in 1 job, 1 not sent", NULL);
    cJSON_Delete(fake_take_all());
    check_jobs("ctl submit $at --list 9 'https://h/d/a%20b.jpg?s=1' one.png -o '100%%/%p.png'",
               "{'0.inputs.0.url':'https://h/d/a%%20b.jpg?s=1','0.output':'100%%%%/%%p.png'}");
    ctl_expect(w, 1,
               "mkdir -p in/odd/d; cp in/one.png in/odd/d/x.png; cp in/one.png in/odd/d/x.PNG;"
               "ctl submit $at --list 9 in/odd/d/x.* -o '%p.webp'",
               "already has the output odd/d/x.webp; use %i, %a or %p",
               "1 sent in 1 job, 1 not sent", NULL);
    cJSON_Delete(fake_take_all());
}

TEST(test_usage)
{
#define BAD(options, said)                                                                         \
    ctl_expect(w, 64, "ctl submit $at set/1.png set/2.png " options, said, NULL)
    BAD("--list 0 -o x", "--list is \"0\"; it must be a number from 1 to 1024");
    BAD("--list 1025 -o x", "from 1 to 1024");
    BAD("--list 2 -o x.png", "--out is \"x.png\", one file for many images; put %p or %n into it");
    BAD("--list 1 -o '%n.png'", "all results would be written to %n.png");
    BAD("--list 1 -o all.tar", "all results would be written to all.tar");
    BAD("--list 2 -o '%p.tar'", "a tar or an array holds all images of a job");
    BAD("--list 2 -o 'https://h/x.tar'", "one file for many images");
    BAD("--list 2 -o x.tar --keys", "a tar is written to a path below output_root");
    BAD("--list 2 -o '%p.gif'", "which ends in .gif");
    BAD("--list 2 -o '%p%x.png'", "the pattern %p%x.png is invalid");
    BAD("--list 2 -o '%p%a.png'", "is not followed by p, n, i, e or %");
    BAD("--list 2 --pack array -o x", "--pack=array needs --format=npy or --format=raw");
    BAD("--list 2 --pack zip -o x", "--pack is \"zip\"; it must be tar or array");
    BAD("--list 2 --pack tar --keys -o x", "--pack writes a file of the daemon");
    BAD("--list 2 --on-error stop -o x", "--on-error is \"stop\"; it must be skip or fail");
    BAD("--on-error skip -o x", "--on-error has no effect without --list or --shards");
    BAD("--pack tar -o x", "--pack has no effect without --list, --shards or --frames=all");
    BAD("--frames all -o x.png",
        "one file for many images; put %p or %n into it, end it in .webp, .avif or .tar");
    BAD("--frames all -o x.webp", "all results would be written to x.webp; a pattern such as "
                                  "edges/%a.webp");
    BAD("--frames all -o 'https://h/x.webp'", "one file for many images");
    BAD("--frames all --keys -o x", "--keys does not send animations");
    BAD("--frames all --page 2 -o x", "the job has a page");
    BAD("--frames some -o x", "frames is \"some\"; it must be \"first\", \"refuse\", \"all\" or ");
    BAD("--frames strip:x -o x", "frames.strip is -1; it must be an integer from 2 to 64");
    BAD("--no-output --ops stats --recompress", "--recompress sets a key of the output, but the "
                                                "job has none");
    BAD("-o x --set output.=1", "it must be output.KEY=JSON");
    BAD("--list 2 --pattern '*.png' -o x", "--pattern has no effect without --shards");
    BAD("--list 2 --shards a.tar -o x", "--list and --shards exclude each other");
    BAD("--list 1 --id same -o x", "all jobs would have the id same");
    BAD("--list 2 --set inputs=5 -o x", "give the input as FILE");
    BAD("--list 2 --ops invert -o x --set timeout_s=no", "timeout_s");
    BAD("--shards a.tar --keys -o x", "--keys does not send archives");
    BAD("--shards train/1.tar --pattern '' -o x", "--pattern has 0 bytes");
#undef BAD
    assert_int_equal(redis_integer(w->client, "DBSIZE"), 0);
}

TEST(test_packs)
{
    check_jobs("cd in; ctl submit $at --list 4 set/*.png --pack tar -o packs",
               "{'0.output':{'path':'packs/1.tar','pack':'tar'},'1.output.path':'packs/2.tar',"
               "'2':null}");
    check_jobs("cd in; ctl submit $at --list 4 set/*.png -o 'p-%i.tar' --format jpeg",
               "{'0.output':{'path':'p-1.tar','format':'jpeg'},'1.output.path':'p-2.tar'}");
    check_jobs("cd in; ctl submit $at --list 9 set/*.png -o packs --pack array --format npy",
               "{'0.output':{'path':'packs/1.npy','format':'npy','pack':'array'},'1':null}");
}

/* ---- sending archives ---------------------------------------------------------------------- */

TEST(test_archives)
{
    check_jobs("ctl submit $at --shards 'train/*.tar' --ops invert -o out/ --format npy "
               "--pattern '*.jpg' --pattern '*.png' --on-error fail",
               "{'0.inputs':{'archive':'train/1.tar','pattern':['*.jpg','*.png']},"
               "'0.on_error':'fail','0.output':{'path':'out/1.tar','format':'npy'},"
               "'1.inputs.archive':'train/[3].tar','1.output.path':'out/[3].tar','2':null}");
    /* Expanded by the shell, and a name that looks like a pattern. */
    check_jobs("ctl submit $at --shards in/train/*.tar in/train/2.zip -o o",
               "{'0.inputs':{'archive':'train/1.tar'},'0.output':'o/1.tar',"
               "'1.inputs.archive':'train/[3].tar','2.inputs.archive':'train/2.zip',"
               "'2.output':'o/2.tar','3':null}");
    check_jobs("ctl submit $at --shards 'train/[3].tar' -o 'o/%a/%p.png'",
               "{'0.inputs.archive':'train/[3].tar','0.output':'o/[3]/%%p.png','1':null}");
    check_jobs("ctl submit $at -r --shards in/train -o o --pack array --format raw",
               "{'2.output.pack':'array','2.output.format':'raw','3':null}");
    check_jobs("ctl submit $at --shards https://h/x/9.tar?sig=1 -o o",
               "{'0.inputs.archive.url':'https://h/x/9.tar?sig=1','0.output':'o/9.tar'}");
    ctl_expect(w, 1, "ctl submit $at --shards 'none-*.tar' train/1.tar -o o",
               "none-*.tar: No such file", "1 archives sent, 1 not sent", NULL);
    ctl_expect(w, 66, "ctl submit $at --shards train -o o", "-r sends the archives in it", NULL);
    cJSON_Delete(fake_take_all());
    /* The option of the configuration has a number. */
    ctl_expect(w, 0, "ctl submit $at --shards=2 one.png -o o --id dog", "1 sent", NULL);
    assert_int_equal(redis_integer(w->client, "LLEN {%s:1}:jobs", w->ns), 1);
}

/* ---- frames, pages and keys of outputs ------------------------------------------------------ */

TEST(test_frames)
{
    check_jobs("cd in; ctl submit $at --frames all anim/a.gif -o 'fr/%n.png'",
               "{'0.input':'anim/a.gif','0.inputs':null,'0.frames':'all','0.output':'fr/%%n.png',"
               "'1':null}");
    check_jobs("ctl submit $at --frames=all in/anim/a.gif in/anim/b.gif -o o",
               "{'0.output':'o/a.webp','1.input':'anim/b.gif','1.output':'o/b.webp','2':null}");
    check_jobs("cd in; ctl submit $at --set 'frames=\"all\"' anim/a.gif -o x.webp --id 'f-%a'",
               "{'0.frames':'all','0.output':'x.webp','0.id':'f-a'}");
    check_jobs("cd in; ctl submit $at --frames all anim/a.gif -o o --format jpeg --quality 50",
               "{'0.output':{'path':'o/%%p.jpg','format':'jpeg','quality':50}}");
    check_jobs("cd in; ctl submit $at --frames all anim/a.gif -o o --pack tar",
               "{'0.output':{'path':'o/a.tar','pack':'tar'}}");
    check_jobs("ctl submit $at --frames all https://h/x/9.gif?s=1 -o o",
               "{'0.input.url':'https://h/x/9.gif?s=1','0.output':'o/9.webp'}");
    check_jobs("cd in; ctl submit $at --page 2 --frames refuse one.png -o x/",
               "{'0.page':2,'0.frames':'refuse','0.output':'x/one.png'}");
    check_jobs("cd in; ctl submit $at --frames strip:4 one.png -o x/",
               "{'0.frames.strip':4,'0.output':'x/one.png'}");
}

TEST(test_keys_of_outputs)
{
    check_jobs("cd in; ctl submit $at --recompress cat.jpg -o small",
               "{'0.output':{'path':'small/cat.jxl','recompress':true},'1':null}");
    check_jobs("cd in; ctl submit $at --set output.recompress=true --set output.effort=6 cat.jpg "
               "-o x.jxl",
               "{'0.output':{'path':'x.jxl','recompress':true,'effort':6}}");
    check_jobs("cd in; ctl submit $at --list 9 cat.jpg --recompress -o 'l/%p.%e'",
               "{'0.inputs':['cat.jpg'],'0.output':{'path':'l/%%p.jxl','recompress':true}}");
    check_jobs("cd in; ctl submit $at cat.jpg -o x.jpg --quality 40 --set output.progressive=true",
               "{'0.output':{'path':'x.jpg','quality':40,'progressive':true}}");
}

/* ---- results ------------------------------------------------------------------------------- */

TEST(test_wait)
{
    struct process process =
        ctl_begin(w, "cd in; ctl submit $at --list 4 set/*.png -o 'e/%p.png' --wait -v");
    cJSON *first = fake_take(4), *second = fake_take(3);
    check_has(first, "{'meta.n':1,'meta.file':'set/0.png and 3 more'}");
    fake_answer(second, "done",
                "'images':{'count':3,'done':3,'failed':0,'copied':0},"
                "'outputs':[{'path':'e/%%p.png','format':'png','images':3,'bytes':3000}]");
    fake_answer(first, "done",
                "'images':{'count':4,'done':2,'failed':2,'copied':0,'errors':[{'image':2,"
                "'name':'set/2.png','error':{'code':'truncated','message':'it ends early',"
                "'retryable':false}}]},"
                "'outputs':[{'path':'e/%%p.png','format':'png','images':2,'bytes':2000}]");
    fake_answer(first, "done", "'images':{'count':4,'done':4,'failed':0}"); /* ran twice */
    struct ctl_run run = ctl_end(&process);
    cJSON_Delete(first);
    cJSON_Delete(second);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, "done   set/4.png and 2 more: 3 of 3 images -> e/%p.png "
                                    "3 images 3.0 kB, 12.5 ms\n"));
    assert_non_null(strstr(run.out, "done   set/0.png and 3 more: 2 of 4 images -> e/%p.png "
                                    "2 images 2.0 kB, 12.5 ms\n"
                                    "failed set/2.png: it ends early (truncated)\n"
                                    "failed 1 more image of this job\n"));
    assert_non_null(strstr(run.out, "5 images done in "));
    assert_non_null(strstr(run.out, ", 2 failed; 2 jobs done\n"));
}

/* A job that fails as a whole fails all its images. */
TEST(test_failed_jobs)
{
    struct process process =
        ctl_begin(w, "cd in; ctl submit $at --list 4 set/*.png -o 'e/%p.png' --wait --json");
    cJSON *first = fake_take(4), *second = fake_take(3);
    fake_answer(first, "failed",
                "'images':{'count':2,'done':1,'failed':1},'error':{'code':"
                "'truncated','message':'it ends early','retryable':false}");
    fake_answer(second, "dead", "'error':{'code':'timeout','message':'slow','retryable':true}");
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, "{\"sent\":7,\"not_sent\":0,\"done\":0,\"failed\":4,\"dead\":3,"
                                    "\"cancelled\":0,\"unwritten\":0,\"jobs\":{\"sent\":2,"
                                    "\"done\":0,\"failed\":2},\"seconds\":"));
    cJSON_Delete(first);
    cJSON_Delete(second);
    process = ctl_begin(w, "cd in; ctl submit $at --shards train/1.tar train/2.zip -o o --wait");
    first = fake_take(0), second = fake_take(0);
    fake_answer(first, "failed",
                "'input':{'path':'train/1.tar'},'error':{'code':'bad_archive',"
                "'message':'the archive ends early','retryable':false}");
    fake_answer(second, "done",
                "'input':{'path':'train/2.zip','format':'zip','bytes':3},"
                "'images':{'count':12345,'done':12345,'failed':0,'copied':2},'outputs':[{'path':"
                "'o/2.tar','format':'png','images':12345,'bytes':20000000}]");
    run = ctl_end(&process);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, "failed train/1.tar: the archive ends early (bad_archive)\n"));
    assert_non_null(strstr(run.out, "done   train/2.zip: 12,345 of 12,345 images, 2 members copied"
                                    " -> o/2.tar 12,345 images 20.0 MB, 12.5 ms\n"));
    assert_non_null(strstr(run.out, "12,345 images done in "));
    assert_non_null(strstr(run.out, "; 1 job done, 1 job failed\n"));
    cJSON_Delete(first);
    cJSON_Delete(second);
}

TEST(test_values)
{
    struct process process = ctl_begin(
        w, "cd in; ctl submit $at --list 9 set/0.png set/1.png --no-output --ops phash --wait");
    cJSON *job = fake_take(2);
    fake_answer(job, "done",
                "'images':{'count':2,'done':2,'failed':0,'values':[{'image':0,"
                "'output':0,'values':{'phash':'aa'}},{'image':1,'output':0,'values':{'phash':'bb'}}"
                "]},'outputs':[{'images':2,'bytes':0}]");
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "done   set/0.png and 1 more: 2 of 2 images, 12.5 ms\n"
                                    "values set/0.png {\"phash\":\"aa\"}\n"
                                    "values set/1.png {\"phash\":\"bb\"}\n2 images done in "));
    cJSON_Delete(job);
}

/* gpuimgctl result and results show the same lines; only the result knows the names then. */
TEST(test_stored_results)
{
    freeReplyObject(redis_command(
        w->client, "SET %s:result:set %s", w->ns,
        "{\"job\":3,\"id\":\"set\",\"status\":\"done\",\"images\":{\"count\":300,\"done\":299,"
        "\"failed\":1,\"errors\":[{\"image\":7,\"name\":\"a/7.png\",\"error\":{\"code\":"
        "\"truncated\",\"message\":\"it ends early\"}}],\"values\":[{\"image\":8,\"output\":1,"
        "\"values\":{\"x\":1}}],\"values_omitted\":4},\"outputs\":[{\"path\":\"s.npy\",\"format\":"
        "\"npy\",\"images\":299,\"bytes\":4096,\"dtype\":\"uint8\",\"shape\":[299,8,8,3]}],"
        "\"ms\":{\"total\":3}}"));
    ctl_expect(w, 1, "ctl result $at set",
               "done   set: 299 of 300 images -> s.npy 299 images 299x8x8x3 uint8 4.1 kB, 3.0 ms\n"
               "values image 8 output 2 {\"x\":1}\n"
               "and the values of 4 more, which the result omits\n"
               "failed a/7.png: it ends early (truncated)\n",
               NULL);
}

TEST(test_dead_jobs)
{
    static const char *const jobs[] = {
        "{\"inputs\":[\"a.jpg\",\"b.jpg\",\"c.jpg\"],\"output\":\"%p.png\"}",
        "{\"inputs\":{\"archive\":{\"url\":\"https://h/1.tar?sig=secret\"}},\"output\":\"1.tar\"}",
        "{\"inputs\":{\"folder\":\"photos\"},\"output\":\"%p.png\"}"};
    for (size_t i = 0; i < 3; i++)
        freeReplyObject(redis_command(w->client, "LPUSH %s:dead %s", w->ns, jobs[i]));
    struct ctl_run run = ctl_run(w, "ctl dead $at list");
    assert_non_null(strstr(run.out, " a.jpg and 2 more: "));
    assert_non_null(strstr(run.out, " https://h/1.tar"));
    assert_null(strstr(run.out, "secret"));
    assert_non_null(strstr(run.out, " photos: "));
}

/* ---- keys ---------------------------------------------------------------------------------- */

/* Compares the inputs in Redis with the files in/set/FIRST.png and so on, and stores outputs "made
 * I of JOB", but not for image `failed`. */
static void run_keys(const cJSON *job, int first, int failed)
{
    const cJSON *item;
    const char *output = text_at(job, "output.key");
    int index = 0, number = (int)json_number(job, "meta.n");
    const char *place = strstr(output, "%n");
    assert_non_null(place);
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(job, "inputs"))
    {
        size_t length;
        unsigned char *file =
            text_file_bytes(in_path(text_of("set/%d.png", first + index)), &length);
        redisReply *got = redis_command(w->client, "GET %s", text_at(item, "key"));
        assert_int_equal(got->type, REDIS_REPLY_STRING);
        assert_int_equal(got->len, length);
        assert_memory_equal(got->str, file, length);
        freeReplyObject(got);
        free(file);
        if (index != failed)
            freeReplyObject(redis_command(
                w->client, "SET %s %s",
                text_of("%.*s%06d%s", (int)(place - output), output, index, place + 2),
                text_of("made %d of %d", index, number)));
        index++;
    }
}

static void check_file(const char *name, const char *expected)
{
    char *text = text_file_read(text_of("%s/%s", w->folder, name));
    assert_string_equal(text, expected);
    free(text);
}

TEST(test_keys)
{
    struct process process = ctl_begin(
        w, "mkdir -p got; echo mine > got/6.jpg; ctl submit $at --list 4 in/set/*.png --keys -o "
           "'got/%p.jpg'");
    cJSON *first = fake_take(4), *second = fake_take(2);
    check_has(first, "{'output.format':'jpeg','output.ttl_s':3600,'output.path':null}");
    run_keys(first, 0, 2);
    fake_answer(first, "done",
                "'images':{'count':4,'done':3,'failed':1,'errors':[{'image':2,"
                "'name':'ctl:1','error':{'code':'truncated','message':'it ends early'}}]},"
                "'outputs':[{'images':3,'bytes':30}]");
    run_keys(second, 4, -1);
    fake_answer(second, "done",
                "'images':{'count':2,'done':2,'failed':0},"
                "'outputs':[{'images':2,'bytes':20}]");
    struct ctl_run run = ctl_end(&process);
    cJSON_Delete(first);
    cJSON_Delete(second);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "in/set/6.png: got/6.jpg exists; --force replaces it"));
    assert_non_null(strstr(run.out, "\nfailed in/set/2.png: it ends early (truncated)\n"));
    assert_non_null(strstr(run.out, "5 images done in "));
    assert_non_null(strstr(run.out, ", 1 failed, 1 not sent; 2 jobs done\n"));
    check_file("got/0.jpg", "made 0 of 1");
    check_file("got/3.jpg", "made 3 of 1");
    check_file("got/5.jpg", "made 1 of 2");
    check_file("got/6.jpg", "mine\n");
    assert_int_equal(access(text_of("%s/got/2.jpg", w->folder), F_OK), -1);
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
}

/* A result that cannot be written stays in Redis, and a folder's images keep their folders. */
TEST(test_keys_unwritten)
{
    struct process process =
        ctl_begin(w, "rm -rf kept; mkdir kept; ctl submit $at -r --list 9 in/album -k -o kept "
                     "--format webp");
    cJSON *job = fake_take(2);
    bool deep_first = strstr(text_at(job, "meta.file"), "deep");
    const char *output = text_at(job, "output.key"), *place = strstr(output, "%n");
    for (int i = 0; i < 2; i++)
        freeReplyObject(
            redis_command(w->client, "SET %s %s",
                          text_of("%.*s%06d%s", (int)(place - output), output, i, place + 2),
                          text_of("image %d", i)));
    assert_true(text_file_write(text_of("%s/kept/deep", w->folder), "in the way", 10));
    fake_answer(job, "done",
                "'images':{'count':2,'done':2,'failed':0},"
                "'outputs':[{'images':2,'bytes':14}]");
    struct ctl_run run = ctl_end(&process);
    cJSON_Delete(job);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "kept/deep/b.webp: Not a directory; Redis keeps it"));
    assert_non_null(strstr(run.out, "1 images done in "));
    assert_non_null(strstr(run.out, ", 1 not written; 1 job done\n"));
    check_file("kept/a.webp", deep_first ? "image 1" : "image 0");
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 1);
    freeReplyObject(left);
}

/* At most 64 images, or two lists, are in Redis. */
TEST(test_keys_are_bounded)
{
    put_small_pngs("hundred", 100);
    struct process process = ctl_begin(w, "ctl submit $at -r --list 20 in/hundred -k -o hundred");
    assert_true(world_until(w, patience(20), 4, "LLEN %s:jobs", w->ns));
    process_sleep(0.3); /* a fifth job would come now */
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 64);
    freeReplyObject(left);
    int images = 0;
    for (int sum = 0; images < 100; images += sum) {
        cJSON *job = cJSON_Parse(redis_text(w->client, "RPOP %s:jobs", w->ns));
        if (!job) {
            process_sleep(0.01);
            sum = 0;
            continue;
        }
        sum = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(job, "inputs"));
        fake_answer(job, "failed",
                    "'images':{'count':%d,'done':0,'failed':%d},'error':{'code':"
                    "'truncated','message':'no'}",
                    sum, sum);
        cJSON_Delete(job);
    }
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, "0 images done in "));
    assert_non_null(strstr(run.out, ", 100 failed; "));
}

/* ---- status -------------------------------------------------------------------------------- */

TEST(test_status)
{
    fake_heartbeat("{'job':12,'id':'train-1','images':4210,'failed':1,'fraction':0.4299},"
                   "{'job':7,'shard':1,'images':3,'failed':0,'fraction':1}");
    static const char *const lines[] = {
        "images of  id                               images   failed   done\n",
        "job 12     train-1                           4,210        1    42%\n",
        "job 1:7    -                                     3        0   100%\n"};
    ctl_expect(w, 0, "ctl status $at", lines[0], lines[1], lines[2], NULL);
    ctl_expect(w, 0, "ctl top $at -n 1", lines[0], lines[1], lines[2], NULL);
    cJSON *status = ctl_json(w, 0, "ctl status $at --json");
    check_has(status, "{'0.daemons.0.stats.sets.0.images':4210}");
}

/* ---- a real daemon ------------------------------------------------------------------------- */

/* Runs a command line beside a daemon. Skips the test if the daemon refuses many images. */
static struct ctl_run run_with_daemon(const char *line)
{
    ctl_start_daemon();
    struct ctl_run run = ctl_run(w, "%s", line);
    ctl_stop_daemon();
    if (strstr(run.out, "does not run jobs with inputs"))
        skip();
    return run;
}

TEST(test_with_a_daemon)
{
    struct ctl_run run = run_with_daemon("cd in; ctl submit $at --list 4 set/*.png broken.jpg "
                                         "--ops invert -o 'real/%p.webp' --wait");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, "\nfailed broken.jpg: "));
    assert_non_null(strstr(run.out, "7 images done in "));
    assert_non_null(strstr(run.out, ", 1 failed; 2 jobs done\n"));
    assert_int_equal(text_file_count(out_path("real/set"), ".webp"), 7);
}

TEST(test_keys_with_a_daemon)
{
    struct ctl_run run = run_with_daemon("ctl submit $at --list 4 in/set/*.png in/broken.jpg -k "
                                         "--ops invert -o 'real/%p.png'");
    assert_string_equal(run.err, "");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, "\nfailed in/broken.jpg: "));
    assert_non_null(strstr(run.out, ", 1 failed; 2 jobs done\n"));
    for (int i = 0; i < 7; i++) {
        struct raster got = raster_load(text_of("%s/real/%d.png", w->folder, i), RASTER_COLOUR);
        assert_int_equal(got.width, 8);
        raster_clear(&got);
    }
}

WORLD_MAIN(EMPTY_WORLD, .fill = put_files)
