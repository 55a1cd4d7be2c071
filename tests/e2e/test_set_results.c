/*
 * test_set_results.c - what the result of a job with many images says about images that are denied,
 * links, or not there at all.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define IMAGES 6

static void fill(void)
{
    for (uint32_t i = 0; i < IMAGES; i++) {
        put_jpeg(text_of("a/%u.jpg", i), .width = 40, .height = 30, .seed = i + 1);
        put_jpeg(text_of("top%u.jpg", i), .width = 30, .height = 40, .seed = i + 1);
    }
}

/* ---- permissions ---------------------------------------------------------------------------- */

/* Only the image without permission fails, at the first attempt. */
TEST(test_a_denied_input)
{
    struct process *daemon = start_unprivileged("--attempts=3");
    assert_int_equal(chmod(in_path("a/3.jpg"), 0), 0);
    cJSON *result = check_answer(w, "{'inputs':{'folder':'a'},'output':'d/%%p.png'}");
    check_has(result, "{'status':'done','attempt':1,'images.done':5,'images.failed':1,"
                      "'images.errors.0.image':3,'images.errors.0.error.code':'input_unreadable'}");
    assert_non_null(strstr(json_text(result, "images.errors.0.error.message"),
                           "\"a/3.jpg\" cannot be opened: Permission denied"));
    cJSON_Delete(result);
    assert_int_equal(chmod(in_path("a/3.jpg"), 0644), 0);
    check_stop(daemon);
}

/* The outputs of two images are in a folder without permission. */
TEST(test_a_denied_output)
{
    struct process *daemon = start_unprivileged("--attempts=3");
    assert_int_equal(mkdir(out_path("a"), 0555), 0);
    cJSON *result = check_answer(w, "{'inputs':['a/0.jpg','top0.jpg','a/1.jpg'],"
                                    "'output':'%%p.png','ops':['invert']}");
    check_has(result, "{'status':'done','attempt':1,'images.done':1,'images.failed':2,"
                      "'images.errors.0.error.code':'write_failed'}");
    cJSON_Delete(result);
    assert_int_equal(access(out_path("top0.png"), F_OK), 0);
    check_stop(daemon);
}

/* ---- links ---------------------------------------------------------------------------------- */

/* Files with many names are stored once in a tar: the other names are links. */
TEST(test_links_are_counted)
{
    struct process *daemon = start_ready(0);
    assert_int_equal(
        ctl_run(w, "mkdir l; cp in/a/0.jpg l/a.jpg; ln l/a.jpg l/b.jpg; ln l/a.jpg l/c.txt; "
                   "ln -s a.jpg l/d.jpg; mkfifo l/e.jpg; mkdir l/f.jpg; "
                   "tar -cf in/links.tar l/a.jpg l/b.jpg l/c.txt l/d.jpg l/e.jpg l/f.jpg; "
                   "tar -cf in/kept.tar --hard-dereference l/a.jpg l/b.jpg; "
                   "mv l in/links")
            .status,
        0);
    static const struct {
        const char *inputs, *output;
        int done, skipped;
    } rows[] = {
        {"{'archive':'links.tar'}", "t/%p.png", 1, 3},
        {"{'archive':'links.tar','pattern':'*.txt'}", "t/%p.png", 0, 1},
        {"{'archive':'links.tar'}", "t.tar", 1, 4}, /* it copies members, but not a link */
        {"{'archive':'kept.tar'}", "t/%p.png", 2, 0},
        {"{'folder':'links'}", "f/%p.png", 2, 2},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        cJSON *result = check_answer(w, "{'inputs':%s,'output':'%s','ops':['invert']}",
                                     rows[i].inputs, rows[i].output);
        check_has(result, "{'status':'done','images.done':%d,'images.failed':0}", rows[i].done);
        assert_int_equal(rows[i].skipped, json_at(result, "images.skipped")
                                              ? json_number(result, "images.skipped")
                                              : 0);
        cJSON_Delete(result);
    }
    check_stop(daemon);
}

/* ---- failed jobs ---------------------------------------------------------------------------- */

/* A slow image holds up the tar. When a truncated image fails the job, the files of two later
 * images are in their places. */
TEST(test_files_of_a_failed_job_are_counted)
{
    put_png("large.png", .width = 3000, .height = 2000, .colour_type = 2, .level = 1);
    world_put_slow(w);
    assert_int_equal(ctl_run(w, "head -c -1000 in/slow.png > in/cut.png").status, 0);
    struct process *daemon = start_ready(0, "--workers=3");
    cJSON *result =
        check_answer(w, "{'inputs':['large.png','cut.png','a/0.jpg','a/1.jpg'],'on_error':'fail',"
                        "'outputs':[{'output':'fail/%%n.png','ops':['sobel']},"
                        "{'output':{'path':'fail.tar','format':'png'},'ops':['sobel']}]}");
    check_has(result, "{'outputs.0.format':'png','outputs.0.encoder':'cpu'}");
    double images = json_number(result, "outputs.0.images"), files = 0;
    for (int i = 0; i < 4; i++)
        files += access(out_path(text_of("fail/00000%d.png", i)), F_OK) == 0;
    /* A worker may move the slow one to its place at that moment. */
    assert_true(images >= 2 && images <= files && images >= files - 1);
    check_failed(result, "decode_failed", "of 1200 rows", NULL);
    assert_int_equal(access(out_path("fail.tar"), F_OK), -1);
    check_stop(daemon);
}

/* ---- the log -------------------------------------------------------------------------------- */

/* The images of a job are no jobs. */
TEST(test_the_log_of_a_drain)
{
    world_put_slow(w);
    struct process *daemon =
        start_ready(0, "--workers=1", text_of("--drain_timeout_s=%g", patience(0.2)));
    char inputs[40 * 12] = "'slow.png'";
    for (size_t i = 1, end = strlen(inputs); i < 40; i++)
        end += (size_t)snprintf(inputs + end, sizeof inputs - end, ",'slow.png'");
    world_push(w, "{'inputs':[%s],'output':'slow/%%n.png','ops':['sobel']}", inputs);
    assert_true(await(20, access(out_path("slow/000000.png"), F_OK) == 0));
    process_signal(daemon, SIGTERM);
    assert_int_equal(process_wait(daemon, 30), 0);
    assert_true(process_logged(daemon, 0, "SIGTERM: draining, 1 jobs with ", 10));
    assert_true(process_logged(daemon, 0, " images in flight get ", 1));
    assert_true(process_logged(daemon, 0, "giving back 1 jobs with ", 1));
    assert_true(process_logged(daemon, 0, " images that did not end within", 1));
    assert_true(process_logged(daemon, 0, "stopped after 0 jobs", 1));
}

/* ---- input_root itself ---------------------------------------------------------------------- */

TEST(test_the_root_as_folder)
{
    struct process *daemon = start_ready(0);
    cJSON *result = check_answer(w, "{'inputs':{'folder':'.','pattern':'top*.jpg'},"
                                    "'output':'r/%%p.png','ops':['invert']}");
    check_has(result, "{'status':'done','images.done':6,'input.folder':'.'}");
    cJSON_Delete(result);
    assert_int_equal(access(out_path("r/top5.png"), F_OK), 0);
    check_stop(daemon);
    /* The names of inputs are compared with those of outputs. */
    daemon = start_ready(0, text_of("--output_root=%s", w->in));
    result = check_answer(w, "{'inputs':{'folder':'.','pattern':'top*.jpg'},'output':'%%p.jpg'}");
    check_failed(result, "bad_job", "is an input of the job", NULL);
    check_stop(daemon);
    struct ctl_run run = ctl_run(
        w,
        "echo '{\"inputs\":{\"folder\":\".\",\"pattern\":\"t*.jpg\"},\"output\":\"%%n.png\"}' "
        "> job.json; ctl explain job.json --input_root=%s",
        w->in);
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "folder .: 6 images"));
    assert_non_null(strstr(run.out, "input    top0.jpg: jpeg"));
}

/* ---- no image ------------------------------------------------------------------------------- */

TEST(test_no_image)
{
    struct process *daemon = start_ready(0);
    assert_int_equal(ctl_run(w, "mkdir in/empty; ln -s ../a/0.jpg in/empty/0.jpg; "
                                "tar -cf in/a.tar -C in a/0.jpg")
                         .status,
                     0);
    static const char *const rows[][2] = {
        {"{'folder':'a','pattern':'*.gif'}",
         "there was no image: no file in the folder \"a\" matches the pattern"},
        {"{'folder':'empty'}",
         "there was no image: no file in the folder \"empty\" matches the pattern, which is by "
         "default the suffixes of images; 1 links and special files were skipped"},
        {"{'archive':'a.tar','pattern':'*.png'}",
         "there was no image: no member of the archive \"a.tar\" matches the pattern"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        cJSON *result =
            check_answer(w, "{'inputs':%s,'output':'e/%%p.png','ops':['invert']}", rows[i][0]);
        check_has(result, "{'status':'done','images.count':0}");
        assert_string_equal(json_text(result, "images.warning"), rows[i][1]);
        cJSON_Delete(result);
    }
    cJSON *result = check_answer(w, "{'inputs':{'folder':'a'},'output':'e/%%p.png'}");
    check_has(result, "{'images.done':6,'images.warning':null,'images.skipped':null}");
    check_done(result);
    ctl_expect(
        w, 1, "cd in; ctl submit $at --shards a.tar --pattern '*.png' --out e/%p.png --wait",
        "done   a.tar: 0 of 0 images",
        "\nwarning there was no image: no member of the archive \"a.tar\" matches the pattern\n",
        "0 images done in ", "; 1 job done, 1 without images\n", NULL);
    check_stop(daemon);
}

WORLD_MAIN(EMPTY_WORLD, .fill = fill)
