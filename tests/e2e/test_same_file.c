/*
 * test_same_file.c - an output is refused if, and only if, it would replace its job's input or
 * another output of the job.
 */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static struct picture_file photo; /* the contents of in/cat.jpg */

static void put_photo(void)
{
    photo = make_jpeg(.width = 64, .height = 48);
    world_put(w, "cat.jpg", photo.bytes, photo.length);
}

static void start(const char *output_root)
{
    start_ready(0, text_of("--output_root=%s", output_root));
}

static void check_input_is_whole(void)
{
    struct picture_file now = picture_load(in_path("cat.jpg"));
    assert_int_equal(now.length, photo.length);
    assert_memory_equal(now.bytes, photo.bytes, photo.length);
    picture_free(&now);
}

#define SAME "{'input':'cat.jpg','output':'cat.jpg','ops':['invert']}"

TEST(test_same_path_below_two_roots)
{
    start(w->out);
    check_done(check_answer(w, SAME));
    check_input_is_whole();
    assert_int_equal(access(out_path("cat.jpg"), F_OK), 0);
    check_stop(&w->daemons[0]);
}

/* Other jobs replace the outputs of a job, and their files get the numbers of the replaced ones. */
TEST(test_jobs_with_the_same_outputs)
{
    enum { JOBS = 600 };
    start(w->out);
    for (int i = 0; i < JOBS; i++)
        world_push(w, "{'input':'cat.jpg','outputs':[{'output':'r%d.jpg'},{'output':'r%d.png'}]}",
                   i % 2, i % 2);
    for (int i = 0; i < JOBS; i++)
        check_done(check_next(w));
    check_stop(&w->daemons[0]);
}

TEST(test_one_root)
{
    start(w->in);
    check_failed(check_answer(w, SAME), "bad_job",
                 "input and output are both \"cat.jpg\", and input_root is output_root", NULL);
    check_input_is_whole();
    check_stop(&w->daemons[0]);
}

#define OVER "{'input':'other.jpg','output':'%s','ops':[{'op':'composite','input':'cat.jpg'}]}"

TEST(test_overlay)
{
    world_put(w, "other.jpg", photo.bytes, photo.length);
    start(w->in);
    check_failed(check_answer(w, OVER, "cat.jpg"), "bad_job",
                 "ops[0].input and an output are both \"cat.jpg\", and input_root is output_root",
                 NULL);
    check_done(check_answer(w, OVER, "dog.jpg"));
    check_input_is_whole();
    check_stop(&w->daemons[0]);
}

TEST(test_one_root_by_a_link)
{
    const char *link = text_of("%s/link", w->folder);
    assert_int_equal(symlink(w->in, link), 0);
    start(link);
    check_failed(check_answer(w, SAME), "bad_job", "input_root is output_root", NULL);
    check_input_is_whole();
    check_stop(&w->daemons[0]);
}

/* output_root contains input_root, so other paths lead to the same file. */
TEST(test_root_in_root)
{
    start(w->folder);
    const char *name = strrchr(w->in, '/') + 1;
    check_failed(check_answer(w, "{'input':'cat.jpg','output':'%s/cat.jpg','ops':['invert']}",
                              name),
                 "bad_job", "cat.jpg\" is the file of the input, \"cat.jpg\"; give it another name",
                 NULL);
    check_input_is_whole();
    check_done(check_answer(w, SAME));
    check_input_is_whole();
    check_stop(&w->daemons[0]);
}

TEST(test_links)
{
    struct stat info;
    assert_int_equal(link(in_path("cat.jpg"), out_path("hard.jpg")), 0);
    assert_int_equal(symlink(in_path("cat.jpg"), out_path("soft.jpg")), 0);
    start(w->out);
    cJSON *result = check_answer(w, "{'input':'cat.jpg','outputs':[{'output':'hard.jpg'},"
                                    "{'output':'soft.jpg'},{'output':'new.jpg'}]}");
    assert_string_equal(json_text(result, "outputs.0.error.code"), "bad_job");
    assert_non_null(strstr(json_text(result, "outputs.0.error.message"), "the file of the input"));
    check_has(result, "{'outputs.1.error':null,'outputs.2.error':null}");
    cJSON_Delete(result);
    check_input_is_whole();
    assert_int_equal(lstat(out_path("soft.jpg"), &info), 0); /* the link is replaced */
    assert_true(S_ISREG(info.st_mode));
    check_stop(&w->daemons[0]);
}

static void check_refused(const char *job, const char *message)
{
    check_failed(check_answer(w, job, NULL), "bad_job", message, NULL);
}

/* A link makes two folders the same: the later output would replace the earlier one. */
TEST(test_two_outputs)
{
    const char *one = out_path("one"), *two = out_path("two");
    assert_int_equal(mkdir(one, 0755), 0);
    assert_int_equal(mkdir(two, 0755), 0);
    bool bound = unshare(CLONE_NEWNS) == 0 &&
                 mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount("tmpfs", one, "tmpfs", 0, "size=16m") == 0 &&
                 mount(one, two, NULL, MS_BIND, NULL) == 0;
    if (!bound) {
        fprintf(stderr, "cannot mount a folder in two places: %s\n", strerror(errno));
        skip();
        return;
    }
    start(w->out);
    const char *job = "{'input':'cat.jpg','outputs':[{'output':'one/cat.png'},"
                      "{'output':'two/cat.png','ops':['invert']},{'output':'two/dog.png'}]}";
    for (int i = 0; i < 2; i++) { /* first new files, then existing ones */
        cJSON *result = check_answer(w, job, NULL);
        check_has(result, "{'status':'failed','outputs.0.error':null}");
        assert_string_equal(json_text(result, "outputs.1.error.message"),
                            "the output \"two/cat.png\" is the file of another output, "
                            "\"one/cat.png\"; give it another name");
        assert_null(json_at(result, "outputs.2.error"));
        cJSON_Delete(result);
    }
    /* Of tars and arrays, neither is written. */
    check_refused("{'inputs':['cat.jpg'],'outputs':[{'output':'one/all.tar'},"
                  "{'output':'two/all.tar'}]}",
                  "the output \"two/all.tar\" is the file of another output, \"one/all.tar\"");
    assert_int_not_equal(access(out_path("one/all.tar"), F_OK), 0);
    check_done(check_answer(w, "{'inputs':['cat.jpg'],'outputs':[{'output':'one/all.tar'},"
                               "{'output':'two/others.tar'}]}"));
    check_stop(&w->daemons[0]);
    umount2(two, MNT_DETACH);
    umount2(one, MNT_DETACH);
}

/* The second tar would replace the archive that is read: the first one is not written, either. */
TEST(test_two_tars)
{
    const struct shard_member member = {"cat.jpg", photo.bytes, photo.length};
    struct picture_file shard = shard_make(&member, 1);
    picture_save(&shard, in_path("shard.tar"));
    picture_free(&shard);
    assert_int_equal(link(in_path("shard.tar"), out_path("link.tar")), 0);
    start(w->out);
    check_refused("{'inputs':{'archive':'shard.tar'},'outputs':[{'output':'first.tar'},"
                  "{'output':'link.tar'}]}",
                  "the output \"link.tar\" is the file of the input");
    assert_int_not_equal(access(out_path("first.tar"), F_OK), 0);
    check_stop(&w->daemons[0]);
}

int main(void)
{
    world_options = &(struct world_options){.fill = put_photo};
    int failed = run_all(.name = "same file", .setup = open_world, .teardown = close_world);
    picture_free(&photo);
    return failed;
}
