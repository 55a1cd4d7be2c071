/*
 * test_ctl.c - gpuimgctl with a real Redis and a real daemon: each command, its exit status and its
 * JSON. The terminal is test_ctl_screen.c's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tools/ctl.h"
#include "tests/tools/text_file.h"

#define MANY 1000

static struct world world;
static struct world *const w = &world;
static struct process *daemon_0;

static void put_small(const char *name, uint32_t seed)
{
    world_put_picture(w, name, picture_png(&(struct picture_png){
                                   .width = 8, .height = 8, .colour_type = 2, .seed = seed}));
}

static int open_world(void **state)
{
    (void)state;
    world_open(w, redis_server_start(NULL));
    world_put_photo(w, "cat.jpg", 160, 120);
    put_small("one.png", 1);
    put_small("album/a.png", 2);
    put_small("album/deep/b.PNG", 3);
    world_put(w, "album/notes.txt", "none", 4);
    world_put(w, "broken.jpg", "hello\n", 6);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(w);
    return 0;
}

/* Files' modes count for it, as for any user. */
static void start(void)
{
    daemon_0 = world_start_with(w, 0, &(struct process_options){.unprivileged = true}, NULL);
    check_ready(daemon_0);
}

static void stop(void)
{
    process_signal(daemon_0, SIGTERM);
    assert_int_equal(process_wait(daemon_0, patience(30)), 0);
    process_clear(daemon_0);
}

/* Without a daemon each test has the queue to itself. */
static int forget(void **state)
{
    (void)state;
    process_clear(&w->daemons[0]); /* of a test that failed */
    freeReplyObject(redis_command(w->client, "FLUSHALL"));
    return 0;
}

static size_t lines_of(const char *text, const char *begin)
{
    size_t count = 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        count += strncmp(at, begin, strlen(begin)) == 0;
    return count;
}

/* ---- the command line ------------------------------------------------------------------------ */

static void test_help(void **state)
{
    static const char *const commands[] = {"submit", "result", "status", "top",   "dead",
                                           "cancel", "pause",  "resume", "drain", "explain"};
    (void)state;
    ctl_expect(w, 0, "ctl -h", "usage: gpuimgctl COMMAND", "Commands:", "--json", NULL);
    ctl_expect(w, 64, "ctl", "usage: gpuimgctl COMMAND", NULL);
    ctl_expect(w, 0, "ctl --version", "gpuimgctl " GPUIMGD_VERSION "\n", NULL);
    ctl_expect(w, 0, "ctl top -V", "gpuimgctl " GPUIMGD_VERSION "\n", NULL);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[60], usage[60];
        snprintf(line, sizeof line, "ctl %s --help", commands[i]);
        snprintf(usage, sizeof usage, "usage: gpuimgctl %s", commands[i]);
        ctl_expect(w, 0, line, usage, "xit status", "--namespace=NS", NULL);
    }
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    ctl_expect(w, 64, "ctl sumbit", "there is no command \"sumbit\"; did you mean submit?", NULL);
    ctl_expect(w, 64, "ctl xyzzy", "there is no command \"xyzzy\"\n", NULL);
    ctl_expect(w, 64, "ctl --json status", "the command comes before \"--json\"", NULL);
    ctl_expect(w, 64, "ctl status --jsno", "\"--jsno\"; did you mean --json?", NULL);
    ctl_expect(w, 64, "ctl status --json=1", "--json takes no value", NULL);
    ctl_expect(w, 64, "ctl submit --out", "--out needs a value", NULL);
    ctl_expect(w, 64, "ctl submit -q", "there is no option \"-q\"", NULL);
    ctl_expect(w, 64, "ctl status here $at", "takes no operand, here is \"here\"", NULL);
    ctl_expect(w, 64, "ctl submit $at -o x", "FILE is missing", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png", "--out is missing", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x.gif", "ends in .gif; jpg, jpeg and png",
               NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --format gif",
               "--format is \"gif\"; it must be jpeg or png", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --no-output", "--out and --no-output", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o /etc/x", "not below output_root", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --quality 101",
               "--quality is \"101\"; it must be a number from 1 to 100", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --set 5", "--set is \"5\"", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --set nonsense=1",
               "one.png: ", "nonsense", "nothing was sent", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --wait --set meta=1", "meta", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png in/cat.jpg -o x.png", "a pattern such as", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png in/cat.jpg -o x --id y", "such as y-%i", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --timeout 5", "without --wait or --keys",
               NULL);
    ctl_expect(w, 64, "ctl result $at", "ID is missing", NULL);
    ctl_expect(w, 64, "ctl dead drop $at 1 ''", "a number or id is empty", NULL);
    ctl_expect(w, 64, "ctl result $at x --timeout 5", "of no use without --wait", NULL);
    ctl_expect(w, 64, "ctl cancel $at", "ID is missing", NULL);
    ctl_expect(w, 64, "ctl cancel $at ''", "1 to 128 bytes, here is one of 0", NULL);
    ctl_expect(w, 64, "ctl pause $at now", "pause takes no operand", NULL);
    ctl_expect(w, 64, "ctl resume $at now", "resume takes no operand", NULL);
    ctl_expect(w, 64, "ctl drain $at now", "drain takes no operand", NULL);
    ctl_expect(w, 64, "ctl pause $at --for never", "--for is \"never\"", NULL);
    ctl_expect(w, 64, "ctl dead $at lsit", "did you mean list?", NULL);
    ctl_expect(w, 64, "ctl dead $at retry", "needs the numbers of the list, ids, or --all", NULL);
    ctl_expect(w, 64, "ctl dead $at drop 1 --all", "here is \"1\" beside it", NULL);
    ctl_expect(w, 78, "ctl status --namespace=''", "option namespace is \"\"", NULL);
    ctl_expect(w, 78, "ctl status --redis=rediss://x", "rediss", NULL);
    ctl_expect(w, 78, "ctl status -c missing.conf", "missing.conf", NULL);
    assert_int_equal(redis_integer(w->client, "DBSIZE"), 0);
}

static void test_ops(void **state)
{
    (void)state;
#define OPS "ctl submit $at in/one.png -o x --ops "
    ctl_expect(w, 64, OPS "gryscale", "no operation \"gryscale\"; did you mean grayscale?", NULL);
    ctl_expect(w, 64, OPS "width=5", "\"width=5\" stands behind no operation", NULL);
    ctl_expect(w, 64, OPS "resize:5", "\"5\" is no parameter of resize", NULL);
    ctl_expect(w, 64, OPS "resize:width=5,width=6", "resize has width twice", NULL);
    ctl_expect(w, 64, OPS "sobel --ops-file x", "--ops and --ops-file", NULL);
    ctl_expect(w, 66, "ctl submit $at in/one.png -o x --ops-file x", "cannot read x", NULL);
    ctl_expect(w, 64, "echo '[1' > x; ctl submit $at in/one.png -o x --ops-file x", "x: ", NULL);
    ctl_expect(w, 64, "echo '{}' > x; ctl submit $at in/one.png -o x --ops-file x",
               "x holds no array", NULL);
    ctl_expect(w, 0, OPS "'grayscale:weights=[65536,0,0],resize:width=5,height=4,fit=exact,sobel'",
               "1 sent", NULL);
    ctl_expect(w, 0, "echo '[\"invert\",{\"op\":\"gamma\",\"gamma\":2}]' > x; "
                     "ctl submit $at in/one.png -o x --ops-file x", "1 sent", NULL);
#undef OPS
    char *newest = redis_string(w->client, "LINDEX %s:jobs 0", w->ns);
    char *oldest = redis_string(w->client, "LINDEX %s:jobs -1", w->ns);
    assert_non_null(strstr(newest, "\"ops\":[\"invert\",{\"op\":\"gamma\",\"gamma\":2}]"));
    assert_non_null(strstr(oldest, "\"ops\":[{\"op\":\"grayscale\",\"weights\":[65536,0,0]},"
                                   "{\"op\":\"resize\",\"width\":5,\"height\":4,\"fit\":\"exact\"},"
                                   "{\"op\":\"sobel\"}]"));
    free(newest);
    free(oldest);
}

static void test_configuration_file(void **state)
{
    char text[700], path[128];
    (void)state;
    snprintf(text, sizeof text, "redis = %s\nnamespace = elsewhere\ninput_root = %s\n",
             w->redis->tcp, w->in);
    snprintf(path, sizeof path, "%s/ctl.conf", w->folder);
    assert_true(text_file_write(path, text, strlen(text)));
    ctl_expect(w, 0, "ctl submit -c ctl.conf one.png -o x.png", "1 sent", NULL);
    assert_int_equal(redis_integer(w->client, "LLEN elsewhere:jobs"), 1);
    ctl_expect(w, 0, "ctl status -c ctl.conf", "namespace elsewhere", "waiting    1", NULL);
    ctl_expect(w, 0, "ctl status -c ctl.conf --namespace=other", "waiting    0", NULL);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

/* The jobs in the queue, oldest first, as one text. */
static char *queued(void)
{
    redisReply *reply = redis_command(w->client, "LRANGE %s:jobs 0 -1", w->ns);
    char *text = calloc(1, 1);
    for (size_t i = reply->elements; i-- > 0;) {
        text = realloc(text, strlen(text) + reply->element[i]->len + 2);
        strcat(strcat(text, reply->element[i]->str), "\n");
    }
    freeReplyObject(reply);
    freeReplyObject(redis_command(w->client, "DEL %s:jobs", w->ns));
    return text;
}

static void check_queued(const char *line, ...)
{
    const char *text;
    va_list texts;
    ctl_expect(w, 0, line, " sent\n", NULL);
    char *jobs = queued();
    va_start(texts, line);
    while ((text = va_arg(texts, const char *)))
        if (!strstr(jobs, text))
            fail_msg("%s: no %s in\n%s", line, text, jobs);
    va_end(texts);
    free(jobs);
}

static void test_patterns(void **state)
{
    (void)state;
    check_queued("ctl submit $at in/one.png -o edges", "\"input\":\"one.png\"",
                 "\"output\":\"edges/one.png\"", NULL);
    check_queued("ctl submit $at one.png -o edges.png", "\"output\":\"edges.png\"", NULL);
    check_queued("ctl submit $at in/one.png -o %i-%n-100%%.%e --format jpeg --quality 50",
                 "{\"path\":\"1-one-100%.jpg\",\"format\":\"jpeg\",\"quality\":50}", NULL);
    check_queued("ctl submit $at -r in/album -o x", "\"output\":\"x/a.png\"",
                 "\"output\":\"x/deep/b.PNG\"", NULL);
    check_queued("ctl submit $at -r in/album -o %n.jpg", "\"a.jpg\"", "\"b.jpg\"", NULL);
    check_queued("ctl submit $at in/one.png -o $PWD/out/y/", "\"output\":\"y/one.png\"", NULL);
    check_queued("ln -s $PWD/in/one.png link.png; ctl submit $at link.png -o x",
                 "\"input\":\"one.png\",\"output\":\"x/link.png\"", NULL);
    check_queued("ctl submit $at in/one.png --no-output --ops stats --id %n-%i",
                 "{\"input\":\"one.png\",\"ops\":[{\"op\":\"stats\"}],\"id\":\"one-1\"", NULL);
    check_queued("ctl submit $at in/one.png -o x --set timeout_s=5 --set background=[1,2,3]",
                 "\"timeout_s\":5,\"background\":[1,2,3]}", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o %x", "makes no name", NULL);
}

static void test_order(void **state)
{
    (void)state;
    ctl_expect(w, 0, "ctl submit $at in/one.png in/cat.jpg -o x", "2 sent", NULL);
    ctl_expect(w, 0, "ctl submit $at in/album/a.png -o x --first", "1 sent", NULL);
    char *jobs = queued();
    assert_true(strstr(jobs, "a.png") < strstr(jobs, "one.png"));
    assert_true(strstr(jobs, "one.png") < strstr(jobs, "cat.jpg"));
    free(jobs);
}

static void test_names_on_stdin(void **state)
{
    (void)state;
    check_queued("printf 'in/one.png\\n\\ncat.jpg' | ctl submit $at - -o x", "x/one.png",
                 "x/cat.jpg", NULL);
    check_queued("printf 'in/one.png\\0cat.jpg\\0' | ctl submit $at -0 - -o x", "x/one.png",
                 "x/cat.jpg", NULL);
    /* A name is sent when it comes, not when there are many, or no more. */
    struct process process =
        ctl_begin(w, "mkfifo names; (echo in/one.png; read x < names) | ctl submit $at - -o x");
    bool came = world_until(w, patience(20), 1, "LLEN %s:jobs", w->ns);
    bool running = process_running(&process);
    char path[128];
    snprintf(path, sizeof path, "%s/names", w->folder);
    assert_true(text_file_write(path, "\n", 1)); /* lets it end */
    struct ctl_run run = ctl_end(&process);
    assert_true(came && running);
    assert_int_equal(run.status, 0);
    ctl_clear(&run);
}

static void test_bad_files(void **state)
{
    (void)state;
    ctl_expect(w, 66, "ctl submit $at none.png -o x", "none.png: No such file", NULL);
    ctl_expect(w, 66, "ctl submit $at in -o x", "in: is a folder; -r sends", NULL);
    ctl_expect(w, 66, "cp in/one.png far.png; ctl submit $at far.png -o x",
               "far.png: it is not below input_root", "--keys", NULL);
    ctl_expect(w, 1, "ctl submit $at none.png in/one.png -o x", "1 sent, 1 not sent", NULL);
    ctl_expect(w, 0, "ctl submit $at -r in/album -o x", "2 sent", "1 files in folders were left",
               NULL);
    ctl_expect(w, 66, "mkdir -p empty; ctl submit $at -r --keys empty -o x", "no picture", NULL);
    ctl_expect(w, 66, "ctl submit $at in/one.png -o x --input_root=/nowhere",
               "input_root is /nowhere: No such", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o one.png", "one.png: both paths are", NULL);
}

/* ---- with a daemon --------------------------------------------------------------------------- */

static void test_wait(void **state)
{
    (void)state;
    start();
    ctl_expect(w, 0, "ctl submit $at cat.jpg one.png -o edges/%n.png --ops grayscale,sobel --wait",
               "-> edges/cat.png 160x120 ", "-> edges/one.png 8x8 ", "2 done in ", NULL);
    struct raster edges = world_load_out(w, "edges/cat.png");
    assert_int_equal(edges.channels, 1);
    raster_clear(&edges);
    ctl_expect(w, 1, "ctl submit $at broken.jpg one.png -o x --wait",
               "failed ", "broken.jpg: the input's 6 bytes are neither a JPEG nor a PNG "
               "(unsupported_format)", "1 done in ", ", 1 failed\n", NULL);
    ctl_expect(w, 0, "ctl submit $at one.png --no-output --ops phash --wait", "{\"phash\":\"",
               NULL);
    cJSON *lines = ctl_json(w, 1, "ctl submit $at broken.jpg one.png none.png -o x -w --json");
    assert_int_equal(cJSON_GetArraySize(lines), 3);
    const cJSON *sum = cJSON_GetArrayItem(lines, 2);
    assert_int_equal(json_number(sum, "sent"), 2);
    assert_int_equal(json_number(sum, "not_sent"), 1);
    assert_int_equal(json_number(sum, "done"), 1);
    assert_int_equal(json_number(sum, "failed"), 1);
    bool failed_first = strcmp(json_text(lines, "0.status"), "failed") == 0;
    assert_string_equal(json_text(lines, failed_first ? "1.status" : "0.status"), "done");
    assert_string_equal(json_text(lines, failed_first ? "0.error.code" : "1.error.code"),
                        "unsupported_format");
    cJSON_Delete(lines);
    /* Nobody else's results are taken, and none is left. */
    assert_int_equal(redis_integer(w->client, "LLEN %s:results", w->ns), 0);
    redisReply *lists = redis_command(w->client, "KEYS %s:reply:*", w->ns);
    assert_int_equal(lists->elements, 0);
    freeReplyObject(lists);
    stop();
}

static void test_keys(void **state)
{
    (void)state;
    start();
    ctl_expect(w, 0, "mkdir -p far/deep; cp in/cat.jpg far; cp in/one.png far/deep; "
                     "ctl submit $at --keys -r far -o got --format png --ops invert",
               "2 done in ", "far/deep/one.png -> got/deep/one.png 8x8", NULL);
    char path[128];
    snprintf(path, sizeof path, "%s/got/deep/one.png", w->folder);
    struct raster before = world_load_in(w, "one.png", RASTER_COLOUR);
    struct raster after = raster_load(path, RASTER_COLOUR);
    for (size_t i = 0; i < 8 * 8 * 3; i++)
        before.pixels[i] = 255 - before.pixels[i];
    check_pixels("inverted", after, before, 0);
    ctl_expect(w, 1, "ctl submit $at --keys in/broken.jpg -o got", "unsupported_format", NULL);
    ctl_expect(w, 1, "ctl submit $at --keys in/one.png -o /proc/x", "cannot be written: /proc/x",
               NULL);
    ctl_expect(w, 66, "ctl submit $at --keys in/cat.jpg -o got --input_bytes_max=9",
               "at most 9 are allowed", NULL);
    redisReply *left = redis_command(w->client, "KEYS %s:img:*", w->ns);
    assert_int_equal(left->elements, 0);
    freeReplyObject(left);
    stop();
}

/* More than the places of those that travel by key, and than a batch. */
static void test_many(void **state)
{
    char name[40];
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "many/%u/%u.png", i % 7, i);
        put_small(name, i);
    }
    start();
    struct ctl_run run = ctl_run(w, "ctl submit $at -r many -o made --ops invert --wait");
    assert_int_equal(run.status, 0);
    assert_int_equal(lines_of(run.out, "done   "), MANY);
    assert_non_null(strstr(run.out, "\n1,000 done in "));
    ctl_clear(&run);
    struct ctl_run count = ctl_run(w, "find out/made -name '*.png' | wc -l");
    assert_int_equal(atoi(count.out), MANY);
    ctl_clear(&count);
    ctl_expect(w, 0, "ctl submit $at -k -r in/many/0 -o fetched", "143 done", NULL);
    count = ctl_run(w, "find fetched -type f | wc -l");
    assert_int_equal(atoi(count.out), 143);
    ctl_clear(&count);
    stop();
}

static void test_result(void **state)
{
    (void)state;
    ctl_expect(w, 1, "ctl result $at first", "there is no result of first", NULL);
    ctl_expect(w, 75, "ctl result $at first --wait --timeout 0.2", "within the time", NULL);
    start();
    ctl_expect(w, 0, "ctl submit $at one.png -o x --id first && ctl result $at first --wait",
               "1 sent\n", "done   first -> x/one.png 8x8 ", NULL);
    ctl_expect(w, 1, "ctl submit $at broken.jpg -o x --id second; ctl result $at -w second first",
               "failed second: ", "done   first", NULL);
    cJSON *lines = ctl_json(w, 1, "ctl result $at first second --json");
    assert_string_equal(json_text(lines, "0.id"), "first");
    assert_string_equal(json_text(lines, "1.error.code"), "unsupported_format");
    cJSON_Delete(lines);
    stop();
}

static void test_no_daemon(void **state)
{
    (void)state;
    ctl_expect(w, 75, "ctl submit $at one.png -o x --wait --timeout 3.5",
               "no gpuimgd is running", "the time given with --timeout is over: 0 of 1 jobs",
               "1 go on in the background", NULL);
    struct process process = ctl_begin(w, "exec \"$GPUIMGCTL\" submit $at one.png -o x --wait");
    assert_true(world_until(w, patience(20), 2, "LLEN %s:jobs", w->ns));
    process_signal(&process, SIGINT);
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 130);
    assert_non_null(strstr(run.err, "interrupted: 0 of 1 jobs have ended"));
    assert_non_null(strstr(run.err, "1 go on in the background; their results come to the list"));
    ctl_clear(&run);
}

/* Redis dies and comes back while results are waited for: none is missing, none counts twice. */
static void test_redis_restarts(void **state)
{
    (void)state;
    struct process process =
        ctl_begin(w, "ctl submit $at -r in/many/2 in/many/3 -o again --wait --command_timeout_s=1");
    assert_true(world_until(w, patience(30), 286, "LLEN %s:jobs", w->ns));
    start();
    process_sleep(0.05); /* some are through, most are not */
    redis_server_kill9(w->redis);
    process_sleep(0.3);
    redis_server_restart(w->redis);
    world_reconnect(w);
    struct ctl_run run = ctl_end(&process);
    if (run.status != 0 || !strstr(run.out, "\n286 done in "))
        fail_msg("exit status %d\n%s", run.status, run.err);
    ctl_clear(&run);
    stop();
}

/* ---- what is there --------------------------------------------------------------------------- */

static void test_status(void **state)
{
    (void)state;
    ctl_expect(w, 0, "ctl submit $at one.png one.png -o x/%i.png && ctl status $at",
               "waiting    2, the next one since ", "dead       0\n", "no gpuimgd is running",
               NULL);
    redis_integer(w->client, "LPUSH %s:dead {}", w->ns);
    redis_integer(w->client, "LPUSH %s:jobs @7", w->ns);
    cJSON *lines = ctl_json(w, 0, "ctl status $at --json");
    assert_int_equal(cJSON_GetArraySize(lines), 1);
    assert_int_equal(json_number(lines, "0.waiting"), 3);
    assert_int_equal(json_number(lines, "0.dead"), 1);
    assert_true(json_number(lines, "0.oldest_s") >= 0);
    assert_int_equal(cJSON_GetArraySize(json_at(lines, "0.daemons")), 0);
    cJSON_Delete(lines);
    /* A daemon elsewhere holds three jobs, one on its second attempt, and one lease is over. */
    redis_integer(w->client, "ZADD %s:inst 99999999999999 far:boot:ns:12:34", w->ns);
    for (int i = 1; i <= 3; i++) {
        redis_integer(w->client, "HSET %s:job:%d owner far:boot:ns:12:34 attempt %d", w->ns, i,
                      i == 3 ? 2 : 1);
        redis_integer(w->client, "ZADD %s:lease %s %d", w->ns, i == 1 ? "5" : "99999999999999", i);
    }
    ctl_expect(w, 0, "ctl status $at", "running    3, 1 on attempt 2, 1 whose daemon was lost",
               "far:12 ", NULL);
    lines = ctl_json(w, 0, "ctl status $at --json");
    assert_string_equal(json_text(lines, "0.daemons.0.name"), "far:12");
    assert_int_equal(json_number(lines, "0.daemons.0.leases"), 3);
    assert_int_equal(json_number(lines, "0.attempts.1"), 1);
    assert_int_equal(json_number(lines, "0.expired"), 1);
    cJSON_Delete(lines);
}

static void test_top_piped(void **state)
{
    (void)state;
    start();
    ctl_expect(w, 0, "ctl top $at -n 2 -i 0.1", "gpuimgctl top: unix:", "waiting 0   running 0",
               "since their start: done 0", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl top $at -n 3 -i 0.1 --json");
    assert_int_equal(cJSON_GetArraySize(lines), 3);
    assert_int_equal(json_number(lines, "2.waiting"), 0);
    assert_int_equal(cJSON_GetArraySize(json_at(lines, "2.daemons")), 1);
    cJSON_Delete(lines);
    ctl_expect(w, 64, "ctl top $at -i 0", "--interval is \"0\"", NULL);
    stop();
}

/* What a daemon publishes adds up to what it did, and goes when it goes. */
static void test_published(void **state)
{
    (void)state;
    start();
    ctl_expect(w, 1, "ctl submit $at -r in/many/1 in/broken.jpg -o p --ops invert --wait", NULL);
    struct ctl_run run = ctl_run(w, "until ctl status $at | grep -q ' cpu .* 143 .* 1 '; do "
                                    "sleep 0.1; done");
    assert_int_equal(run.status, 0);
    ctl_clear(&run);
    cJSON *lines = ctl_json(w, 0, "ctl status $at --json");
    const cJSON *stats = json_at(lines, "0.daemons.0.stats");
    assert_string_equal(json_text(stats, "state"), "running");
    assert_string_equal(json_text(stats, "engine"), "cpu");
    assert_int_equal(json_number(stats, "jobs"), 144);
    assert_int_equal(json_number(stats, "images"), 143);
    assert_int_equal(json_number(stats, "pixels"), 143 * 64);
    assert_int_equal(json_number(stats, "in_flight"), 0);
    assert_int_equal(json_number(stats, "workers"), 2);
    assert_int_equal(json_number(stats, "streams"), 0); /* the workers do it */
    assert_true(json_number(stats, "up_s") > 0);
    assert_int_equal(json_number(stats, "stages.encode.jobs"), 143);
    assert_true(json_number(stats, "stages.encode.ms") > 0);
    assert_int_equal(json_number(stats, "stages.admit.now"), 0);
    cJSON_Delete(lines);
    /* Two looks at a daemon at work give its rates. */
    run = ctl_run(w, "ctl submit $at -r in/many/4 -o p --ops invert; "
                     "ctl top $at -n 30 -i 0.1 --json");
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "\"images_s\":"));
    ctl_clear(&run);
    assert_true(world_until(w, patience(60), 0, "ZCARD %s:lease", w->ns));
    process_signal(daemon_0, SIGUSR2);
    run = ctl_run(w, "until ctl status $at | grep -q paused; do sleep 0.1; done");
    assert_int_equal(run.status, 0);
    ctl_clear(&run);
    redisReply *keys = redis_command(w->client, "KEYS %s:stats:*", w->ns);
    assert_int_equal(keys->elements, 1);
    assert_true(redis_integer(w->client, "PTTL %s", keys->element[0]->str) > 0);
    stop();
    assert_int_equal(redis_integer(w->client, "EXISTS %s", keys->element[0]->str), 0);
    freeReplyObject(keys);
}

static void test_dead(void **state)
{
    (void)state;
    ctl_expect(w, 0, "ctl dead $at", "no job is dead", NULL);
    /* A folder that may not be written to is worth trying again, and so to the last. */
    start();
    ctl_expect(w, 1, "mkdir out/wall; chmod 555 out/wall; "
                     "ctl submit $at one.png -o wall/x.png --id walled --wait",
               "dead   ", "(write_failed)", ", 1 dead", NULL);
    ctl_expect(w, 0, "ctl dead list $at", "   1  walled           one.png: ", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl dead list $at --json");
    assert_int_equal(json_number(lines, "0.number"), 1);
    assert_string_equal(json_text(lines, "0.job.id"), "walled");
    assert_string_equal(json_text(lines, "0.error.code"), "write_failed");
    cJSON_Delete(lines);
    freeReplyObject(redis_command(w->client, "DEL %s:result:walled", w->ns));
    ctl_expect(w, 0, "chmod 755 out/wall; ctl dead retry $at walled && ctl result $at -w walled",
               "1 dead job tried again", "done   walled -> wall/x.png", NULL);
    assert_int_equal(redis_integer(w->client, "LLEN %s:dead", w->ns), 0);
    stop();
}

static void test_dead_many(void **state)
{
    (void)state;
    for (int i = 1; i <= 250; i++) /* number 1 is the last */
        redis_integer(w->client, "LPUSH %s:dead {\"input\":\"%d.png\",\"id\":\"j%d\"}", w->ns,
                      251 - i, 251 - i);
    redis_integer(w->client, "RPUSH %s:dead nonsense", w->ns);
    ctl_expect(w, 0, "ctl dead $at", "  50  j50 ", "and 201 more", NULL);
    ctl_expect(w, 0, "ctl dead list -n 300 $at", " 250  j250 ", " 251 ", "nonsense", NULL);
    ctl_expect(w, 0, "ctl dead $at retry 2 j250 3", "3 dead jobs tried again", NULL);
    char *jobs = queued();
    assert_string_equal(jobs, "{\"input\":\"2.png\",\"id\":\"j2\"}\n"
                              "{\"input\":\"250.png\",\"id\":\"j250\"}\n"
                              "{\"input\":\"3.png\",\"id\":\"j3\"}\n");
    free(jobs);
    ctl_expect(w, 1, "ctl dead $at drop 1 j2", "no dead job has the number or id j2",
               "1 dead job dropped", NULL);
    ctl_expect(w, 1, "ctl dead $at drop 900", "the number or id 900", NULL);
    assert_int_equal(redis_integer(w->client, "LLEN %s:dead", w->ns), 247);
    cJSON *lines = ctl_json(w, 0, "ctl dead $at retry --all --json");
    assert_int_equal(json_number(lines, "0.retried"), 247);
    cJSON_Delete(lines);
    assert_int_equal(redis_integer(w->client, "LLEN %s:jobs", w->ns), 247);
    redis_integer(w->client, "LPUSH %s:dead {}", w->ns);
    ctl_expect(w, 0, "ctl dead $at drop --all", "1 dead job dropped", NULL);
    ctl_expect(w, 0, "ctl dead $at drop --all", "0 dead jobs dropped", NULL);
}

/* Who may write to Redis shall not write to the operator's terminal. */
static void test_hostile_texts(void **state)
{
    static const char *const lines[] = {
        "ctl result $at torn", "ctl result $at wild", "ctl cancel $at wild", "ctl dead list $at",
        "ctl status $at", "ctl top -n 1 $at"};
    static const char stats[] = "{\"engine\":\"\\u001b[31m\",\"state\":\"\\u009b2J\"}";
    static const char wild[] = "{\"status\":\"\\u001b[5m\",\"error\":{\"code\":\"\\u001b[7m\","
                               "\"message\":\"\\u009b2J\"},\"outputs\":[{\"error\":{},"
                               "\"values\":{\"\\u007f\\u009b\":1}}]}";
    (void)state;
    freeReplyObject(redis_command(w->client, "SET %s:result:torn \033[2J{", w->ns));
    freeReplyObject(redis_command(w->client, "SET %s:result:list []", w->ns));
    freeReplyObject(redis_command(w->client, "SET %s:result:wild %s", w->ns, wild));
    redis_integer(w->client, "LPUSH %s:dead {\"id\":\"\\u001b]0;x\\u0007\"} \033[1m", w->ns);
    redis_integer(w->client, "ZADD %s:inst 99999999999999 \033h:b:n:\0331:2", w->ns);
    freeReplyObject(redis_command(w->client, "SET %s:stats:?h:b:n:?1:2 %s", w->ns, stats));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct ctl_run run = ctl_run(w, "%s", lines[i]);
        for (const unsigned char *at = (unsigned char *)run.out; *at; at++)
            if ((*at < 0x20 && *at != '\n') || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
                fail_msg("%s shows the byte %02x: %s", lines[i], *at, run.out);
        assert_int_equal(run.status, i == 0 ? 70 : i == 1);
        ctl_clear(&run);
    }
    ctl_expect(w, 70, "ctl result $at torn --json", "what is kept as the result of torn", NULL);
    ctl_expect(w, 70, "ctl result $at list", "what is kept as the result of list", NULL);
    ctl_expect(w, 0, "ctl top -n 1 $at", "?[31m", "??2J", NULL);
}

static void test_cancel(void **state)
{
    (void)state;
    ctl_expect(w, 0, "ctl submit $at one.png cat.jpg -o x --id job-%i", "2 sent", NULL);
    ctl_expect(w, 0, "ctl cancel $at job-1", "job-1: what waits or runs", NULL);
    start();
    ctl_expect(w, 1, "ctl result $at -w job-1 job-2", "cancelled job-1: ", "done   job-2", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl cancel $at --json job-2 none");
    assert_string_equal(json_text(lines, "0.cancelled"), "job-2");
    assert_string_equal(json_text(lines, "0.result.status"), "done");
    assert_true(cJSON_IsNull(json_at(lines, "1.result")));
    cJSON_Delete(lines);
    ctl_expect(w, 0, "ctl cancel $at job-2", "; one has ended before (done)", NULL);
    stop();
    struct process process = ctl_begin(w, "ctl submit $at one.png -o x --id late --wait");
    assert_true(world_until(w, patience(20), 1, "LLEN %s:jobs", w->ns));
    ctl_expect(w, 0, "ctl cancel $at late", "late: what waits", NULL);
    start();
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, ", 1 cancelled\n"));
    ctl_clear(&run);
    stop();
}

static void test_pause(void **state)
{
    (void)state;
    start();
    ctl_expect(w, 0, "ctl pause $at", "paused until gpuimgctl resume", NULL);
    ctl_expect(w, 0, "ctl status $at", "paused     no daemon takes a job, until ", NULL);
    ctl_expect(w, 75, "ctl submit $at one.png -o x --wait --timeout 4",
               "taking jobs is paused (gpuimgctl resume)", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl resume $at --json");
    assert_true(cJSON_IsFalse(json_at(lines, "0.paused")));
    cJSON_Delete(lines);
    assert_true(world_until(w, patience(20), 0, "LLEN %s:jobs", w->ns));
    ctl_expect(w, 0, "ctl resume $at", "nothing was paused", NULL);
    ctl_expect(w, 0, "ctl pause $at --for 600", "paused for 10 min", NULL);
    ctl_expect(w, 0, "ctl status $at", "for another 10 min", NULL);
    lines = ctl_json(w, 0, "ctl status $at --json");
    assert_true(cJSON_IsTrue(json_at(lines, "0.paused")));
    assert_true(json_number(lines, "0.paused_s") <= 600);
    cJSON_Delete(lines);
    ctl_expect(w, 0, "ctl top $at -n 1; ctl resume $at", "PAUSED", "take jobs again", NULL);
    stop();
}

static void test_drain(void **state)
{
    (void)state;
    world_put_slow(w);
    start();
    ctl_expect(w, 0, "ctl submit $at slow.png --no-output "
                     "--set 'output={\"path\":\"s.png\",\"compression\":9}'", "1 sent", NULL);
    assert_true(world_until(w, patience(20), 0, "LLEN %s:jobs", w->ns));
    ctl_expect(w, 0, "ctl drain $at", "drained: no job runs", NULL);
    assert_int_equal(redis_integer(w->client, "ZCARD %s:lease", w->ns), 0);
    redis_integer(w->client, "ZADD %s:lease 99999999999999 77", w->ns);
    ctl_expect(w, 75, "ctl drain $at --timeout 0.1", "1 jobs still run", NULL);
    redis_integer(w->client, "ZREM %s:lease 77", w->ns);
    ctl_expect(w, 0, "ctl drain $at --json", "{\"paused\":true,\"running\":0}", NULL);
    stop();
}

static void test_explain(void **state)
{
    (void)state;
#define JOB "echo '{\"input\":\"one.png\",\"output\":\"o.png\",\"ops\":[\"sobel\"]}' > job.json; " \
            "roots=\"--input_root=$PWD/in --output_root=$PWD/out\"; "
    struct ctl_run ours = ctl_run(w, JOB "ctl explain $roots job.json");
    struct ctl_run theirs = ctl_run(w, JOB "\"$GPUIMGD\" $roots --explain job.json");
    assert_int_equal(ours.status, 0);
    assert_non_null(strstr(ours.out, "output   o.png: png, 8 x 8 x 1"));
    assert_string_equal(ours.out, theirs.out);
    ctl_clear(&ours);
    ctl_clear(&theirs);
    ctl_expect(w, 0, JOB "ctl explain $roots - < job.json", "8 x 8 x 1", NULL);
    ctl_expect(w, 1, JOB "ctl explain --input_root=$PWD/out --output_root=$PWD/out job.json",
               "one.png", NULL);
#undef JOB
    ctl_expect(w, 64, "ctl explain", "JOBFILE is missing", NULL);
}

/* ---- Redis --------------------------------------------------------------------------------- */

static void test_redis_away(void **state)
{
    (void)state;
    ctl_expect(w, 69, "ctl status --redis=127.0.0.1:1",
               "cannot reach Redis at 127.0.0.1:1: connection refused; is redis-server running?",
               NULL);
    ctl_expect(w, 69, "ctl submit $at one.png -o x --redis=unix:/nowhere/r.sock",
               "unix:/nowhere/r.sock: no such file or directory; is redis-server running?", NULL);
    ctl_expect(w, 69, "ctl top --redis=127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1,127.0.0.1:2", NULL);
    ctl_expect(w, 69, "ctl dead --redis=sentinel://pictures@127.0.0.1:1", "cannot reach", NULL);
    redis_server_freeze(w->redis, true);
    ctl_expect(w, 69, "ctl status $at --connect_timeout_s=0.3", "cannot reach", "within 0.3 s",
               NULL);
    redis_server_freeze(w->redis, false);
    /* A word that another has in the middle of its line goes on behind it. */
    char address[100];
    snprintf(address, sizeof address, "ctl status --redis=127.0.0.1:1,%s", w->redis->tcp);
    ctl_expect(w, 0, address, "waiting ", NULL);
    freeReplyObject(redis_command(w->client, "SET %s:jobs text", w->ns));
    ctl_expect(w, 69, "ctl submit $at one.png -o x", "refuses LPUSH: WRONGTYPE", "no more are",
               NULL);
    ctl_expect(w, 69, "ctl status $at", "refuses LLEN: WRONGTYPE", NULL);
}

static void test_password(void **state)
{
    (void)state;
    freeReplyObject(redis_command(w->client, "CONFIG SET requirepass secret"));
    ctl_expect(w, 69, "ctl status $at --redis_password_file=/nowhere",
               "cannot read the password file /nowhere: No such file or directory; "
               "redis_password_file names it", NULL);
    ctl_expect(w, 69, "ctl status $at", "NOAUTH", "see redis_username and redis_password_file",
               NULL);
    ctl_expect(w, 0, "echo secret > word; ctl status $at --redis_password_file=word", "waiting ",
               NULL);
    ctl_expect(w, 69, "echo wrong > word; ctl status $at --redis_password_file=word", "WRONGPASS",
               NULL);
    freeReplyObject(redis_command(w->client, "CONFIG SET requirepass %s", ""));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, forget)
    const struct CMUnitTest tests[] = {
        TEST(test_help), TEST(test_wrong_arguments), TEST(test_ops),
        TEST(test_configuration_file), TEST(test_patterns), TEST(test_order),
        TEST(test_names_on_stdin), TEST(test_bad_files), TEST(test_wait), TEST(test_keys),
        TEST(test_many), TEST(test_result), TEST(test_no_daemon), TEST(test_redis_restarts),
        TEST(test_status), TEST(test_top_piped), TEST(test_published), TEST(test_dead),
        TEST(test_dead_many), TEST(test_hostile_texts), TEST(test_cancel), TEST(test_pause),
        TEST(test_drain),
        TEST(test_explain), TEST(test_redis_away), TEST(test_password),
    };
#undef TEST
    return cmocka_run_group_tests(tests, open_world, close_world);
}
