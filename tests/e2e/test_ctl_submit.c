/*
 * test_ctl_submit.c - gpuimgctl submit and result with a real Redis and a real daemon.
 */
#include <signal.h>
#include <unistd.h>

#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/text_file.h"

#define MANY 1000
#define HELD 32

/* ---- submit -------------------------------------------------------------------------------- */

static void check_queued(const char *line, ...)
{
    const char *text;
    va_list texts;
    ctl_expect(w, 0, line, " sent\n", NULL);
    char *jobs = ctl_queued();
    va_start(texts, line);
    while ((text = va_arg(texts, const char *)))
        if (!strstr(jobs, text))
            fail_msg("%s: no %s in\n%s", line, text, jobs);
    va_end(texts);
}

TEST(test_patterns)
{
    check_queued("ctl submit $at in/one.png -o edges", "\"input\":\"one.png\"",
                 "\"output\":\"edges/one.png\"", NULL);
    check_queued("ctl submit $at one.png -o edges.png", "\"output\":\"edges.png\"", NULL);
    check_queued("ctl submit $at in/one.png -o one.png",
                 "\"input\":\"one.png\",\"output\":\"one.png\"", NULL);
    check_queued("ctl submit $at in/one.png -o %i-%n-100%%.%e --format jpeg --quality 50",
                 "{\"path\":\"1-one-100%.jpg\",\"format\":\"jpeg\",\"quality\":50}", NULL);
    check_queued("ctl submit $at in/one.png -o x/%n.%e --format jpg",
                 "{\"path\":\"x/one.jpg\",\"format\":\"jpeg\"}", NULL);
    check_queued("ctl submit $at -r in/album -o x", "\"output\":\"x/a.png\"",
                 "\"output\":\"x/deep/b.PNG\"", NULL);
    check_queued("ctl submit $at -r in/album -o %n.jpg", "\"a.jpg\"", "\"b.jpg\"", NULL);
    /* a format that is only read */
    check_queued("mkdir in/phone; cp in/one.png in/phone/p.HEIC; ctl submit $at -r in/phone -o x; "
                 "ctl submit $at --list 2 in/phone/p.HEIC -o y; rm -r in/phone",
                 "\"input\":\"phone/p.HEIC\",\"output\":\"x/p.jpg\"", "\"output\":\"y/%p.jpg\"",
                 NULL);
    check_queued("ctl submit $at in/one.png -o $PWD/out/y/", "\"output\":\"y/one.png\"", NULL);
    check_queued("ln -s $PWD/in/one.png link.png; ctl submit $at link.png -o x",
                 "\"input\":\"one.png\",\"output\":\"x/link.png\"", NULL);
    check_queued("ctl submit $at in/one.png --no-output --ops stats --id %n-%i",
                 "{\"input\":\"one.png\",\"ops\":[{\"op\":\"stats\"}],\"id\":\"one-1\"", NULL);
    check_queued("ctl submit $at in/one.png -o x --set timeout_s=5 --set background=[1,2,3]",
                 "\"timeout_s\":5,\"background\":[1,2,3]}", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o %x", "the pattern %x is invalid", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o photo.jpg --format png",
               "the format is png, but the output photo.jpg ends in .jpg", NULL);
    ctl_expect(w, 64, "ctl submit $at in/cat.jpg -k -o cat.png --quality 50",
               "quality applies to JPEG, WebP, AVIF and JPEG XL, but the output cat.png is a PNG",
               NULL);
    check_queued("ctl submit $at in/one.png in/cat.jpg -o x --quality 50",
                 "{\"path\":\"x/one.png\"}", "{\"path\":\"x/cat.jpg\",\"quality\":50}", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -k -o photo.PNG --format jpeg",
               "the format is jpeg, but the output photo.PNG ends in .PNG", NULL);
}

/* --priority, --set and a job file choose the list. */
TEST(test_priority)
{
    ctl_expect(w, 0, "ctl submit $at in/one.png -o x --priority 9", " sent\n", NULL);
    ctl_expect(w, 0, "ctl submit $at in/one.png -o x --set priority=0", " sent\n", NULL);
    ctl_expect(w, 0, "echo '{\"priority\":7}' > job; ctl submit $at in/one.png -o x -j job",
               " sent\n", NULL);
    ctl_expect(w, 0, "ctl submit $at in/one.png -o x -j job -p 3 --first", " sent\n", NULL);
    static const int lists[] = {9, 0, 7, 3};
    for (size_t i = 0; i < 4; i++) {
        const char *job = redis_text(w->client, "LPOP %s:jobs:%d", w->ns, lists[i]);
        assert_non_null(job);
        assert_non_null(strstr(job, text_of("\"priority\":%d", lists[i])));
    }
    assert_int_equal(redis_integer(w->client, "DBSIZE"), 0);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x -p 10", "--priority is \"10\"", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x -p 1.5", "--priority is 1.5; it must be an "
               "integer from 0 to 9", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --set priority=12",
               "priority is 12; it must be an integer from 0 to 9", NULL);
}

TEST(test_order)
{
    ctl_expect(w, 0, "ctl submit $at in/one.png in/cat.jpg -o x", "2 sent", NULL);
    ctl_expect(w, 0, "ctl submit $at in/album/a.png -o x --first", "1 sent", NULL);
    char *jobs = ctl_queued();
    assert_true(strstr(jobs, "a.png") < strstr(jobs, "one.png"));
    assert_true(strstr(jobs, "one.png") < strstr(jobs, "cat.jpg"));
}

TEST(test_names_on_stdin)
{
    check_queued("printf 'in/one.png\\n\\ncat.jpg' | ctl submit $at - -o x", "x/one.png",
                 "x/cat.jpg", NULL);
    check_queued("printf 'in/one.png\\0cat.jpg\\0' | ctl submit $at -0 - -o x", "x/one.png",
                 "x/cat.jpg", NULL);
    /* Each name is sent immediately, before more names or the end of the input are read. */
    struct process process =
        ctl_begin(w, "mkfifo names; (echo in/one.png; read x < names) | ctl submit $at - -o x");
    bool came = world_until(w, patience(20), 1, "LLEN %s:jobs", w->ns);
    bool running = process_running(&process);
    assert_true(text_file_write(text_of("%s/names", w->folder), "\n", 1)); /* lets it end */
    struct ctl_run run = ctl_end(&process);
    assert_true(came && running);
    assert_int_equal(run.status, 0);
}

TEST(test_bad_files)
{
    ctl_expect(w, 66, "ctl submit $at none.png -o x", "none.png: No such file", NULL);
    ctl_expect(w, 66, "ctl submit $at in -o x", "in: is a folder; -r sends", NULL);
    ctl_expect(w, 66, "cp in/one.png far.png; ctl submit $at far.png -o x",
               "far.png: the file is not below input_root", "--keys", NULL);
    ctl_expect(w, 1, "ctl submit $at none.png in/one.png -o x", "1 sent, 1 not sent", NULL);
    ctl_expect(w, 0, "ctl submit $at -r in/album -o x", "2 sent", "1 files in folders were skipped",
               NULL);
    ctl_expect(w, 66, "mkdir -p empty; ctl submit $at -r --keys empty -o x", "no image found",
               NULL);
    ctl_expect(w, 66, "ctl submit $at in/one.png -o x --input_root=/nowhere",
               "input_root is /nowhere: No such", NULL);
}

/* Otherwise one result would silently overwrite another. */
TEST(test_same_names)
{
    put_small_png("twin/cat.jpg", 1);
    put_small_png("twin/cat.png", 2);
    put_small_png("twin/deep/cat.png", 3);
    check_queued("ctl submit $at in/twin/cat.jpg in/twin/cat.png -o x", "x/cat.jpg", "x/cat.png",
                 NULL);
    ctl_expect(w, 1, "ctl submit $at in/twin/cat.jpg in/twin/cat.png -o x --format jpeg",
               "twin/cat.png: not sent: in/twin/cat.jpg already has the output x/cat.jpg; "
               "use %i or %p", "1 sent, 1 not sent", NULL);
    ctl_expect(w, 1, "ctl submit $at -r in/twin -o %n.png", "1 sent, 2 not sent", NULL);
    check_queued("ctl submit $at -r in/twin -o %p%n-%i.png --first", "\"deep/cat-", NULL);
    ctl_expect(w, 1, "(echo in/one.png; echo none.png; echo in/one.png; echo one.png) | "
                     "ctl submit $at - -o x", "1 sent, 3 not sent", NULL);
    ctl_expect(w, 0, "seq 1 5000 | sed s,.*,one.png, | ctl submit $at - -o x/%i.png", "5,000 sent",
               NULL);
    ctl_expect(w, 1, "(seq 1 5000 | sed s,.*,one.png,; echo cat.jpg) | "
                     "ctl submit $at - -o %e/%n.%e", "2 sent, 4,999 not sent", NULL);
    empty_world(state);
    ctl_start_daemon();
    ctl_expect(w, 1, "ctl submit $at -k in/twin/cat.jpg in/twin/cat.png -o twins --format png",
               "1 done in ", ", 1 not sent", NULL);
    ctl_stop_daemon();
}

/* A name with control sequences: it sets the title, clears the screen, and ends a line. */
TEST(test_names_that_a_terminal_obeys)
{
#define EVIL "evil='" EVIL_BYTES "'; "
    ctl_check_plain(66, EVIL "ctl submit $at \"$evil\" -o x");
    ctl_check_plain(66, EVIL "mkdir -p \"in/$evil\"; ctl submit $at \"in/$evil\" -o x");
    ctl_check_plain(64, EVIL "ctl submit $at in/one.png -o x --ops \"$evil\"");
    ctl_check_plain(64, EVIL "ctl \"$evil\"");
    ctl_check_plain(64, EVIL "ctl dead $at \"$evil\"");
    ctl_check_plain(1, EVIL "ctl dead $at drop \"$evil\"");
    ctl_check_plain(1, EVIL "ctl result $at \"$evil\"");
    ctl_check_plain(1, EVIL "ctl cancel $at \"$evil\"; ctl cancel $at --json \"$evil\"");
    ctl_start_daemon();
    ctl_check_plain(-1, EVIL "cp in/one.png \"in/$evil.png\"; "
                             "ctl submit $at \"in/$evil.png\" -o x -w");
    ctl_check_plain(0, EVIL "ctl submit $at -k \"in/$evil.png\" -o got.png");
    ctl_check_plain(0, EVIL "ctl submit $at -k \"in/$evil.png\" -o got-2.png --json");
    ctl_check_plain(-1, EVIL "ctl submit $at -k in/broken.jpg -o \"$evil.png\"; rm -r in/*title*");
    ctl_stop_daemon();
#undef EVIL
}

/* ---- results ------------------------------------------------------------------------------- */

static size_t lines_of(const char *text, const char *begin)
{
    size_t count = 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        count += strncmp(at, begin, strlen(begin)) == 0;
    return count;
}

TEST(test_wait)
{
    ctl_start_daemon();
    ctl_expect(w, 0, "ctl submit $at cat.jpg one.png -o edges/%n.png --ops grayscale,sobel --wait",
               "-> edges/cat.png 160x120 ", "-> edges/one.png 8x8 ", "2 done in ", NULL);
    struct raster edges = world_load_out(w, "edges/cat.png");
    assert_int_equal(edges.channels, 1);
    raster_clear(&edges);
    ctl_expect(w, 1, "ctl submit $at broken.jpg one.png -o x --wait", "failed ",
               "broken.jpg: the input's 6 bytes are neither a JPEG, a PNG, a WebP",
               " (unsupported_format)", "1 done in ", ", 1 failed\n", NULL);
    ctl_expect(w, 0, "ctl submit $at one.png --no-output --ops phash --wait", "{\"phash\":\"",
               NULL);
    cJSON *lines = ctl_json(w, 1, "ctl submit $at broken.jpg one.png none.png -o x -w --json");
    assert_int_equal(cJSON_GetArraySize(lines), 3);
    const cJSON *sum = cJSON_GetArrayItem(lines, 2);
    check_has(sum, "{'sent':2,'not_sent':1,'done':1,'failed':1}");
    bool failed_first = strcmp(json_text(lines, "0.status"), "failed") == 0;
    assert_string_equal(json_text(lines, failed_first ? "1.status" : "0.status"), "done");
    assert_string_equal(json_text(lines, failed_first ? "0.error.code" : "1.error.code"),
                        "unsupported_format");
    /* Results of other clients are not taken, and none of its own are left. */
    assert_int_equal(redis_integer(w->client, "LLEN %s:results", w->ns), 0);
    redisReply *lists = redis_command(w->client, "KEYS %s:reply:*", w->ns);
    assert_int_equal(lists->elements, 0);
    freeReplyObject(lists);
    ctl_stop_daemon();
}

TEST(test_keys)
{
    ctl_start_daemon();
    ctl_expect(w, 0, "mkdir -p far/deep; cp in/cat.jpg far; cp in/one.png far/deep; "
                     "ctl submit $at --keys -r far -o got --format png --ops invert",
               "2 done in ", "far/deep/one.png -> got/deep/one.png 8x8", NULL);
    const char *path = text_of("%s/got/deep/one.png", w->folder);
    struct raster before = world_load_in(w, "one.png", RASTER_COLOUR);
    struct raster after = raster_load(path, RASTER_COLOUR);
    for (size_t i = 0; i < 8 * 8 * 3; i++)
        before.pixels[i] = 255 - before.pixels[i];
    check_pixels("inverted", after, before, 0);
    ctl_expect(w, 1, "ctl submit $at --keys in/broken.jpg -o got", "unsupported_format", NULL);
    ctl_expect(w, 1, "ctl submit $at --keys in/one.png -o /proc/x", "cannot be written: /proc/x",
               NULL);
    ctl_expect(w, 66, "ctl submit $at --keys in/cat.jpg -o got --input_bytes_max=9",
               "input_bytes_max allows 9", NULL);
    /* A result that could not be written stays in Redis. */
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 1);
    assert_true(redis_integer(w->client, "TTL %s", left->element[0]->str) > 3000);
    freeReplyObject(left);
    ctl_stop_daemon();
}

/* An overlay's file is handed over as the images are. */
TEST(test_overlays)
{
#define LAY  " --ops composite:input="
    ctl_start_daemon();
    ctl_expect(w, 0, "mkdir -p own in/sub; cp in/cat.jpg in/sub/base.jpg; "
                     "cp in/one.png own/logo.png; cp in/one.png in/sub/logo.png; "
                     "ctl submit $at cat.jpg -o there.png -w" LAY "sub/logo.png,x=0,y=0", "1 done",
               NULL);
    struct raster there = world_load_out(w, "there.png");
    struct raster one = world_load_in(w, "one.png", RASTER_COLOUR);
    for (uint32_t i = 0; i < 8; i++)
        assert_memory_equal(raster_at(&there, i, 0), raster_at(&one, i, 0), 3);
    raster_clear(&there);
    raster_clear(&one);
    /* Without keys: in the current folder, if that is below input_root. */
    ctl_expect(w, 0, "cd in/sub; ctl submit $at base.jpg -o here.png -w" LAY "logo.png,x=0,y=0",
               "1 done", NULL);
    ctl_expect(w, 0, "cmp out/there.png out/here.png && echo same", "same", NULL);
    ctl_expect(w, 64, "ctl submit $at cat.jpg -o x.png" LAY "own/logo.png",
               "the overlay own/logo.png is not below input_root (", "with --keys", NULL);
    ctl_expect(w, 1, "ctl submit $at cat.jpg -o x.png -w" LAY "none.png", "input_missing", NULL);
    /* With keys: uploaded once, and deleted at the end. A file that is not here is the daemon's. */
    ctl_expect(w, 0, "ctl submit $at -k in/cat.jpg in/sub/base.jpg -o laid/%n.png" LAY
                     "own/logo.png,x=0,y=0", "2 done", NULL);
    ctl_expect(w, 0, "cmp out/there.png laid/cat.png && cmp laid/cat.png laid/base.png && "
                     "echo same", "same", NULL);
#define OVER(input) "{\"op\":\"composite\",\"input\":" input ",\"x\":0,\"y\":0}"
    ctl_expect(w, 0, "cp own/logo.png own/2.png; "
                     "echo '{\"outputs\":[{\"output\":\"a.png\",\"ops\":["
                     OVER("{\"path\":\"own/logo.png\"}") "," OVER("\"own/2.png\"") ","
                     OVER("\"sub/logo.png\"") "," OVER("\"own/2.png\"") "]}]}' | "
                     "ctl submit $at -k -j - in/cat.jpg && cmp out/there.png a.png && echo same",
               "same", NULL);
    ctl_expect(w, 0, "ctl submit $at -k in/cat.jpg -o of-daemon.png" LAY "sub/logo.png,x=0,y=0 && "
                     "cmp out/there.png of-daemon.png && echo same", "same", NULL);
    ctl_expect(w, 66, "ctl submit $at -k in/cat.jpg -o x.png --input_bytes_max=9" LAY
                      "own/logo.png", "the overlay own/logo.png: the file has ", NULL);
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
    ctl_stop_daemon();
#undef OVER
#undef LAY
}

/* A result never replaces an input: not by its name, not by another name of the same file, and not
 * with --force. */
TEST(test_pictures_are_kept)
{
    ctl_start_daemon();
#define KEPT "; echo $?; cmp in/cat.jpg own/cat.jpg && cmp in/one.png own/1.png && echo kept"
    ctl_expect(w, 0, "mkdir -p own/hard own/soft; cp in/cat.jpg own; cp in/one.png own/1.png; "
                     "ln own/cat.jpg own/hard; ln -s ../cat.jpg own/soft", NULL);
    ctl_expect(w, 0, "(cd own; ctl submit $at cat.jpg --keys --out .)" KEPT,
               "cat.jpg: ./cat.jpg is the input image cat.jpg, which a result must not replace",
               "0 done in ", ", 1 not sent\n1\nkept\n", NULL);
    ctl_expect(w, 0, "ctl submit $at own/cat.jpg -kf -o own" KEPT, "not sent\n1\nkept\n", NULL);
    ctl_expect(w, 0, "ctl submit $at own/cat.jpg -kf -o own/hard" KEPT,
               "own/hard/cat.jpg is the input image own/cat.jpg", "not sent\n1\nkept\n", NULL);
    ctl_expect(w, 0, "ctl submit $at own/cat.jpg -kf -o own/soft" KEPT,
               "own/soft/cat.jpg is the input image own/cat.jpg", "not sent\n1\nkept\n", NULL);
    /* This input has not been sent yet. */
    ctl_expect(w, 0, "ctl submit $at own/cat.jpg own/1.png -kf -o own/%i.png" KEPT,
               "own/cat.jpg: own/1.png is the input image own/1.png", "1 done in ",
               "not sent\n1\nkept\n", NULL);
    /* The folder is input_root and output_root. */
    ctl_expect(w, 1, "ln in/one.png in/other.png; "
                     "ctl submit $at --output_root=$PWD/in in/one.png -o other.png --wait; "
                     "status=$?; rm in/other.png; exit $status",
               "in/other.png is the input image in/one.png", NULL);
    ctl_stop_daemon();
#undef KEPT
}

/* Other existing files are replaced only with --force. */
TEST(test_files_are_kept)
{
    ctl_expect(w, 1, "echo mine > kept.png; ctl submit $at in/one.png -k -o kept.png",
               "in/one.png: kept.png exists; --force replaces it", ", 1 not sent", NULL);
    ctl_expect(w, 0, "cat kept.png", "mine\n", NULL);
    assert_int_equal(redis_integer(w->client, "DBSIZE"), 0);
    /* The file is created while the job runs. */
    struct process process = ctl_begin(w, "ctl submit $at in/one.png -k -o late.png --json");
    assert_true(world_until(w, patience(20), 1, "LLEN %s:jobs", w->ns));
    ctl_expect(w, 0, "echo mine > late.png", NULL);
    ctl_start_daemon();
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "the result cannot be written: late.png exists; --force "
                                    "replaces it; Redis keeps it for another "));
    cJSON *result = cJSON_ParseWithOpts(run.out, NULL, false);
    assert_string_equal(json_text(result, "unwritten.0.path"), "late.png");
    const char *key = json_text(result, "unwritten.0.key");
    assert_non_null(strstr(run.err, key));
    assert_in_range(json_number(result, "unwritten.0.left_s"), 1, 3600);
    assert_non_null(strstr(run.out, "\"sent\":1,\"not_sent\":0,\"done\":0,"));
    assert_non_null(strstr(run.out, "\"unwritten\":1,"));
    assert_string_equal(redis_text(w->client, "GETRANGE %s 1 3", key), "PNG");
    cJSON_Delete(result);
    ctl_expect(w, 0, "cat late.png", "mine\n", NULL);
    ctl_expect(w, 0, "ctl submit $at in/one.png -k -o late.png --force; head -c 4 late.png",
               "1 done in ", "PNG", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --force", "has no effect without --keys",
               NULL);
    ctl_stop_daemon();
}

/* Answers a job of a waiting submit as the daemon would: pushes a result to its list. */
static void answer_job(const char *job, const char *status)
{
    cJSON *json = cJSON_Parse(job), *result = cJSON_CreateObject();
    const char *list = json_text(json, "reply_to");
    assert_non_null(list);
    cJSON_AddStringToObject(result, "status", status);
    cJSON_AddItemToObject(result, "meta", cJSON_Duplicate(json_at(json, "meta"), true));
    char *text = cJSON_PrintUnformatted(result);
    assert_int_equal(redis_integer(w->client, "LPUSH %s %s", list, text), 1);
    free(text);
    cJSON_Delete(result);
    cJSON_Delete(json);
}

/* Whether this many lines were printed in time. */
static bool printed(struct process *process, size_t lines)
{
    return await(20, lines_of(text_keep(process_out(process)), "") >= lines);
}

/* A program that reads from a pipe gets each result as soon as it arrives. */
TEST(test_results_as_they_come)
{
    static const char *const lines[] = {
        "ctl submit $at one.png cat.jpg -o x --wait | cat",
        "ctl submit $at one.png cat.jpg -o x --wait --json | cat"};
    for (size_t i = 0; i < 2; i++) {
        struct process process = ctl_begin(w, lines[i]);
        assert_true(world_until(w, patience(20), 2, "LLEN %s:jobs", w->ns));
        char *jobs = ctl_queued(), *rest = jobs;
        const char *first = strtok_r(rest, "\n", &rest), *second = strtok_r(rest, "\n", &rest);
        answer_job(first, "done");
        bool came = printed(&process, 1), running = process_running(&process);
        answer_job(second, "done");
        struct ctl_run run = ctl_end(&process);
        if (!came || !running || run.status != 0 || lines_of(run.out, "") != 3)
            fail_msg("%s: no output, or not three lines:\n%s", lines[i], run.out);
    }
}

/* If standard output and error go to the same file, lines are never mixed. */
TEST(test_lines_are_whole)
{
    size_t errors = 0, results = 0;
    put_small_pngs("torn", HELD);
    ctl_start_daemon();
    struct ctl_run run = ctl_run(w, "ctl submit $at -k -r in/torn -o /proc/x --json 2>&1");
    ctl_stop_daemon();
    for (char *rest = run.out, *line; (line = strtok_r(rest, "\n", &rest));) {
        cJSON *json = cJSON_ParseWithOpts(line, NULL, true);
        bool said = strncmp(line, "gpuimgctl: ", 11) == 0 && !strchr(line, '{');
        if (!json && !said)
            fail_msg("incomplete line: %s", line);
        results += json != NULL;
        errors += said;
        cJSON_Delete(json);
    }
    assert_int_equal(errors, HELD);
    assert_int_equal(results, HELD + 1);
}

/* ---- ids, and jobs from a file ------------------------------------------------------------- */

/* Without waiting, standard output has only the ids, for later queries. */
TEST(test_ids)
{
    struct ctl_run run = ctl_run(w, "ctl submit $at one.png cat.jpg -o x");
    struct ctl_run again = ctl_run(w, "ctl submit $at one.png -o x");
    char *jobs = ctl_queued(), first[80] = "", second[80] = "", third[80] = "";
    assert_int_equal(sscanf(run.out, "%79s %79s %79s", first, second, third), 2);
    assert_int_equal(sscanf(again.out, "%79s %79s", third, third), 1);
    assert_string_not_equal(first, second);
    assert_string_not_equal(first, third); /* of another submit */
    assert_non_null(strstr(run.err, "2 sent\n"));
    for (size_t i = 0; i < 3; i++) {
        const char *const ids[] = {first, second, third};
        assert_non_null(strstr(jobs, text_of("\"id\":\"%s\"", ids[i])));
    }
    ctl_expect(w, 0, "ctl submit $at one.png cat.jpg -o x --id %n", "one\ncat\n", NULL);
    cJSON *lines = ctl_json(w, 1, "ctl submit $at one.png none.png cat.jpg -o x --json");
    assert_int_equal(cJSON_GetArraySize(lines), 3);
    assert_int_equal(strncmp(json_text(lines, "0.id"), "ctl-", 4), 0);
    assert_non_null(strstr(json_text(lines, "1.file"), "cat.jpg"));
    check_has(lines, "{'2.sent':2,'2.not_sent':1}");
    ctl_start_daemon();
    ctl_expect(w, 0, "ctl submit $at one.png cat.jpg -o x | while read -r id; do "
                     "ctl result $at --wait \"$id\"; done",
               "-> x/one.png 8x8", "-> x/cat.jpg 160x120", NULL);
    ctl_stop_daemon();
}

#define SIZES "{\"input\":\"tried.jpg\",\"meta\":{\"n\":12345678901234567890},\"outputs\":["       \
              "{\"output\":\"%p%n-4.%e\",\"ops\":[{\"op\":\"resize\",\"width\":4}]},"           \
              "{\"output\":{\"path\":\"gray/%i-%n.png\",\"compression\":9},"                      \
              "\"ops\":[\"grayscale\"]},{\"ops\":[\"stats\"]}],\"id\":\"%n of %i\"}"

TEST(test_job_file)
{
    check_queued("echo '" SIZES "' > sizes.json; ctl submit $at -r in/album -j sizes.json",
                 "{\"input\":\"album/deep/b.PNG\",\"outputs\":[{\"output\":\"deep/b-4.PNG\","
                 "\"ops\":[{\"op\":\"resize\",\"width\":4}]},{\"output\":{\"path\":\"gray/",
                 "-b.png\",\"compression\":9},\"ops\":[\"grayscale\"]},{\"ops\":[\"stats\"]}],"
                 "\"id\":\"b of ",
                 "\"meta\":{\"n\":12345678901234567890}}", NULL);
    check_queued("echo '{\"ops\":[\"sobel\"]}' | ctl submit $at one.png -j - -o e --id it",
                 "\"ops\":[\"sobel\"],\"output\":\"e/one.png\",\"id\":\"it\",", NULL);
    check_queued("echo '{\"output\":{\"key\":\"gpuimgd:img:%n\",\"ttl_s\":9},\"timeout_s\":5}' | "
                 "ctl submit $at one.png -j - --set timeout_s=7",
                 "{\"key\":\"gpuimgd:img:one\",\"ttl_s\":9}", "\"timeout_s\":7}", NULL);
#define BAD(status, job, options, said)                                                            \
    ctl_expect(w, status, "echo '" job "' > bad.json; ctl submit $at one.png -j bad.json " options,\
               said, NULL)
    BAD(64, "{\"output\":\"%n.png\"}", "-o x", "the job already has outputs; remove --out");
    BAD(64, "{\"output\":\"%n.png\"}", "--quality 5", "remove --quality");
    BAD(64, "{\"outputs\":[]}", "", "must be an array of 1 to 16");
    BAD(64, "{\"ops\":[\"sobel\"]}", "-o x --ops sobel", "both give operations");
    BAD(64, "{\"ops\":[\"sobel\"]}", "", "--out is missing");
    BAD(64, "{\"output\":\"%x.png\"}", "", "the pattern %x.png is invalid");
    BAD(64, "{\"output\":\"x.png\"}", "cat.jpg", "all results would be written to x.png");
    BAD(64, "{\"output\":\"x.png\",\"id\":5}", "", "id must be a string");
    BAD(64, "{\"output\":\"x.png\",\"unique\":true}", "", "no id");
    BAD(64, "{\"output\":\"x.png\",\"meta\":5}", "--wait", "set meta and reply_to");
    BAD(64, "[5]", "", "bad.json must hold a job");
    BAD(64, "{\"output\":", "", "bad.json: ");
    BAD(64, "", "-j - -", "are both standard input");
    BAD(66, "", "-j none.json", "cannot read none.json");
    BAD(64, "{\"output\":\"x.png\"}", "--set input=5", "give the input as FILE");
    BAD(1, "{\"outputs\":[{\"output\":\"%n.png\"},{\"output\":\"%n.%e\"}]}", "",
        "two of its outputs are one.png");
#undef BAD
}

/* With --keys every output of an image is written to its own file. */
TEST(test_job_file_with_keys)
{
    ctl_start_daemon();
    ctl_expect(w, 0, "mkdir -p trip; cp in/one.png in/cat.jpg trip; echo '" SIZES "' | "
                     "sed 's/\"meta\":[^}]*},//' > sizes.json; cd trip; "
                     "ctl submit $at *.png *.jpg -k -j ../sizes.json",
               "-> one-4.png 4x4 ", "-> gray/1-one.png 8x8 ", "{\"stats\":", "-> cat-4.jpg 4x3 ",
               "-> gray/2-cat.png 160x120 ", "2 done in ", NULL);
    struct raster gray = raster_load(text_of("%s/trip/gray/2-cat.png", w->folder), RASTER_COLOUR);
    assert_int_equal(gray.channels, 1);
    raster_clear(&gray);
    /* A file in the way of one output does not prevent the others. */
    ctl_expect(w, 1, "rm -r trip/*-4.* trip/gray; touch trip/gray; cd trip; "
                     "ctl submit $at cat.jpg -k -j ../sizes.json; status=$?; ls; exit $status",
               "gray/1-cat.png: Not a directory; Redis keeps it for another ",
               ":out2\n", "0 done in ", ", 1 not written\n", "cat-4.jpg\n", NULL);
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 1);
    freeReplyObject(left);
    ctl_stop_daemon();
}

/* More than the limit of inputs in keys, and more than a batch. */
TEST(test_many)
{
    for (unsigned i = 0; i < MANY; i++)
        put_small_png(text_of("many/%u/%u.png", i % 7, i), i);
    ctl_start_daemon();
    struct ctl_run run = ctl_run(w, "ctl submit $at -r many -o made --ops invert --wait");
    assert_int_equal(run.status, 0);
    assert_int_equal(lines_of(run.out, "done   "), MANY);
    assert_non_null(strstr(run.out, "\n1,000 done in "));
    struct ctl_run count = ctl_run(w, "find out/made -name '*.png' | wc -l");
    assert_int_equal(atoi(count.out), MANY);
    ctl_expect(w, 0, "ctl submit $at -k -r in/many/0 -o fetched", "143 done", NULL);
    count = ctl_run(w, "find fetched -type f | wc -l");
    assert_int_equal(atoi(count.out), 143);
    ctl_stop_daemon();
}

TEST(test_result)
{
    ctl_expect(w, 1, "ctl result $at first", "no result of first: ", NULL);
    ctl_expect(w, 75, "ctl result $at first --wait --timeout 0.2",
               "no result of first within --timeout", NULL);
    ctl_start_daemon();
    ctl_expect(w, 0, "ctl submit $at one.png -o x --id first && ctl result $at first --wait",
               "1 sent\n", "done   first -> x/one.png 8x8 ", NULL);
    ctl_expect(w, 1, "ctl submit $at broken.jpg -o x --id second; ctl result $at -w second first",
               "failed second: ", "done   first", NULL);
    cJSON *lines = ctl_json(w, 1, "ctl result $at first second --json");
    check_has(lines, "{'0.id':'first','1.error.code':'unsupported_format'}");
    ctl_stop_daemon();
}

TEST(test_no_daemon)
{
    ctl_expect(w, 75, "ctl submit $at one.png -o x --wait --timeout 3.5",
               "no gpuimgd is running", "the --timeout is over: 0 of 1 jobs",
               "1 go on in the background", NULL);
    struct process process = ctl_begin(w, "exec \"$GPUIMGCTL\" submit $at one.png -o x --wait");
    assert_true(world_until(w, patience(20), 2, "LLEN %s:jobs", w->ns));
    process_signal(&process, SIGINT);
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 130);
    assert_non_null(strstr(run.err, "interrupted: 0 of 1 jobs have ended"));
    assert_non_null(strstr(run.err, "1 go on in the background; their results go to the list"));
}

static void kill_redis(void)
{
    redis_server_kill9(w->redis);
}

static void revive_redis(void)
{
    redis_server_restart(w->redis);
    world_reconnect(w);
}

/* Redis is killed and restarted while images are sent and results are awaited: no result is missing
 * or counted twice, and the outage is reported once. */
static void check_outage(const char *line, int queued_first)
{
    struct process process = ctl_begin(w, line);
    assert_true(world_until(w, patience(30), queued_first, "LLEN %s:jobs", w->ns));
    for (int i = 0; i < HELD; i++) /* keeps the run from ending before Redis dies */
        freeReplyObject(redis_command(w->client, "LMOVE %s:jobs held LEFT LEFT", w->ns));
    ctl_start_daemon();
    process_sleep(0.05); /* some jobs are done */
    kill_redis();
    bool told = process_logged(&process, 0, "waiting until it is back", patience(30));
    revive_redis();
    for (int i = 0; i < HELD; i++)
        freeReplyObject(redis_command(w->client, "LMOVE held %s:jobs LEFT LEFT", w->ns));
    struct ctl_run run = ctl_end(&process);
    if (!told || run.status != 0 || !strstr(run.out, "\n286 done in "))
        fail_msg("%s: exit status %d\n%s", line, run.status, run.err);
    const char *first = strstr(run.err, "waiting until");
    assert_null(strstr(first + 1, "waiting until"));
    ctl_stop_daemon();
}

TEST(test_redis_restarts)
{
    check_outage("ctl submit $at -r in/many/2 in/many/3 -o again --wait", 286);
}

TEST(test_redis_restarts_while_pictures_travel)
{
    check_outage("ctl submit $at -k -r in/many/2 in/many/3 -o fetched-again", 64);
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
}

TEST(test_interrupt_without_redis)
{
    struct process process =
        ctl_begin(w, "exec \"$GPUIMGCTL\" submit $at one.png -o x --wait --id late");
    assert_true(world_until(w, patience(20), 1, "LLEN %s:jobs", w->ns));
    kill_redis();
    assert_true(process_logged(&process, 0, "waiting until it is back", patience(30)));
    process_signal(&process, SIGINT);
    struct ctl_run run = ctl_end(&process);
    revive_redis();
    assert_int_equal(run.status, 130);
    assert_non_null(strstr(run.err, "interrupted: 0 of 1 jobs have ended\n"));
    assert_non_null(strstr(run.err, "; gpuimgctl result --wait shows them by their ids\n"));
    kill_redis();
    ctl_expect(w, 69, "ctl submit $at one.png -o x --wait", "cannot reach Redis", NULL);
    revive_redis();
    process = ctl_begin(w, "ctl submit $at one.png -o x --wait --timeout 4");
    assert_true(world_until(w, patience(20), 2, "LLEN %s:jobs", w->ns));
    kill_redis();
    run = ctl_end(&process);
    revive_redis();
    assert_int_equal(run.status, 75);
}

/* Submit retries commands that Redis refuses for a while. */
TEST(test_redis_full)
{
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 1"));
    ctl_expect(w, 69, "ctl submit $at one.png -o x", "OOM", NULL);
    struct process process = ctl_begin(w, "ctl submit $at one.png -o x --wait --verbose");
    bool told = process_logged(&process, 0, "refuses LPUSH: OOM", patience(30));
    freeReplyObject(redis_command(w->client, "CONFIG SET maxmemory 0"));
    ctl_start_daemon();
    struct ctl_run run = ctl_end(&process);
    assert_true(told);
    assert_int_equal(run.status, 0);
    ctl_stop_daemon();
}

WORLD_MAIN(EMPTY_WORLD, .fill = ctl_put_files)
