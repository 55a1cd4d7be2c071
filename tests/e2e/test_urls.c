/*
 * test_urls.c - jobs whose inputs and outputs are URLs, with a server that is honest or hostile.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue/redis/script.h"
#include "tests/fixtures/ctl.h"
#include "tests/fixtures/reference.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/web_server.h"

#ifdef GPUIMGD_CURL
#define HAS_CURL 1
#else
#define HAS_CURL 0
#endif

static struct web_server *server;
static char origin[64], prefixes[192];

/* The photo p.jpg of the world is also /file/p.jpg of the server. */
static int open_all(void **state)
{
    size_t length;
    open_world(state);
    server = web_server_start();
    snprintf(origin, sizeof origin, "http://127.0.0.1:%u", web_server_port(server));
    snprintf(prefixes, sizeof prefixes, "--url_prefixes=%s/ http://localhost:%u/", origin,
             web_server_port(server));
    unsigned char *photo = text_file_bytes(in_path("p.jpg"), &length);
    web_server_put(server, "p.jpg", photo, length);
    free(photo);
    return 0;
}

static int close_all(void **state)
{
    web_server_stop(server);
    return close_world(state);
}

#define start_daemon(...)                                                                          \
    check_ready(world_start(w, 0, prefixes, "--url_networks=127.0.0.0/8", __VA_ARGS__, NULL))

static void stop(struct process *daemon)
{
    check_stop(daemon);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

static void check_uploaded(const char *name, struct raster expected)
{
    size_t length;
    uint8_t *bytes = web_server_get(server, name, &length);
    assert_non_null(bytes);
    check_pixels(name, raster_decode(bytes, length, RASTER_COLOUR), expected, 0);
    free(bytes);
}

static struct raster edges(void)
{
    struct raster luma = world_load_in(w, "p.jpg", RASTER_LUMA);
    struct raster expected = reference_sobel(&luma, REFERENCE_HALF, REFERENCE_REFLECT101);
    raster_clear(&luma);
    return expected;
}

static void check_no_secret(struct process *daemon, const cJSON *result)
{
    char *log = process_log(daemon), *text = cJSON_PrintUnformatted(result);
    assert_null(strstr(log, "secret"));
    assert_null(strstr(text, "secret"));
    free(log);
    free(text);
}

/* ---- jobs that are done --------------------------------------------------------------------- */

TEST(test_url_to_url)
{
    struct process *daemon = start_daemon("--attempts=3");
    cJSON *result = check_answer(w, "{'input':{'url':'%s/file/p.jpg?secret=1'},'output':"
                                    "{'url':'%s/file/e.png?secret=2'},'ops':['sobel']}",
                                 origin, origin);
    check_message(result);
    check_has(result, "{'input.url':'%s/file/p.jpg','input.format':'jpeg','input.path':null,"
                      "'outputs.0.url':'%s/file/e.png','outputs.0.format':'png',"
                      "'outputs.0.width':160,'attempt':1}", origin, origin);
    assert_true(json_number(result, "ms.download") > 0 && json_number(result, "ms.upload") > 0);
    check_no_secret(daemon, result);
    check_done(result);
    check_uploaded("e.png", edges());
    char *head = web_server_head(server, "PUT /file/e.png?secret=2 ");
    assert_non_null(strstr(head, "Content-Type: image/png"));
    free(head);
    stop(daemon);
}

TEST(test_mixed_places)
{
    struct process *daemon = start_daemon("--attempts=3");
    cJSON *result = check_answer(
        w, "{'input':'p.jpg','outputs':[{'output':{'url':'%s/file/m1.png'},'ops':['sobel']},"
           "{'output':'m2.png','ops':['sobel']},{'output':{'key':'gpuimgd:img:m3','format':'png'},"
           "'ops':['sobel']},{'output':{'url':'%s/file/m4','format':'png'},'ops':['sobel',"
           "'stats']}]}", origin, origin);
    check_message(result);
    check_done(result);
    check_uploaded("m1.png", edges());
    check_uploaded("m4", edges());
    check_output(w, "m2.png", edges(), 0);
    result = check_answer(w, "{'input':{'key':'gpuimgd:img:m3'},'output':{'url':'%s/file/m5.png'}}",
                          origin);
    check_done(result);
    check_uploaded("m5.png", edges());
    freeReplyObject(redis_command(w->client, "DEL gpuimgd:img:m3"));
    stop(daemon);
}

TEST(test_many)
{
    struct process *daemon = start_daemon("--url_connections=5", "--inflight=40");
    for (int i = 0; i < 100; i++)
        world_push(w, "{'id':'%d','input':{'url':'%s/file/p.jpg?%d'},'output':"
                      "{'url':'%s/file/many.png?%d'},'ops':['sobel']}", i, origin, i, origin, i);
    for (int i = 0; i < 100; i++)
        check_done(check_next(w));
    check_uploaded("many.png", edges());
    assert_in_range(web_server_peak(server), 1, 5);
    stop(daemon);
}

/* ---- secrets -------------------------------------------------------------------------------- */

/* Jobs that are refused, or whose URL is where none belongs. The texts of jobs are shown in
 * results, the log, the trace, and by gpuimgctl. */
TEST(test_secrets_are_not_shown)
{
    static const char *const jobs[] = {
        "{\"input\":\"https://h.example/x?sig=SECRET\",\"output\":\"x.png\"}",
        "{\"input\":\"HTTPS:/h.example/x?sig=SECRET\",\"output\":\"x.png\"}",
        "{\"input\":\"//h.example/x?sig=SECRET\",\"output\":\"x.png\"}",
        "{\"input\":\"a https://h.example/x y?sig=SECRET\",\"output\":\"x.png\"}",
        "{\"input\":\"https:%2F%2Fh.example%2Fx%3Fsig=SECRET\",\"output\":\"x.png\"}",
        "{\"input\":{\"path\":\"https://h.example/x?sig=SECRET\"},\"output\":\"x.png\"}",
        "{\"input\":{\"key\":\"https://h.example/x?sig=SECRET\"},\"output\":\"x.png\"}",
        "{\"input\":{\"key\":\"//h.example/x?sig=SECRET\"},\"output\":\"x.png\"}",
        "{\"input\":{\"key\":\" https://h.example/x?sig=SECRET\"},\"output\":\"x.png\"}",
        "{\"input\":{\"key\":\"a/https://h.example/x?sig=SECRET\"},\"output\":\"x.png\"}",
        "{\"input\":{\"key\":\"a https://h.example/x?sig=SECRET:img:\"},\"output\":\"x.png\"}",
        "{\"input\":\"p.jpg\",\"output\":{\"key\":\"/https://h.example/x.png?sig=SECRET\"}}",
        "{\"input\":{\"url\":\"https:\\/\\/h.example\\/x?sig=SECRET\"},\"ouput\":\"x\"}",
        "{\"input\":{\"url\":\"https:\\u002f\\u002fh.example/x?sig=SECRET\"},\"ouput\":\"x\"}",
        "{\"input\":{\"url\":[\"https://h.example/x?sig=SECRET\"]},\"output\":\"x.png\"}",
        "{\"input\":{\"url\":\"https://user:SECRET@h.example/x\"},\"output\":\"x.png\"}",
        "{\"input\":{\"url\":\"https://user:SEC/SECRET@h.example/x\"},\"output\":\"x.png\"}",
        "{\"input\":{\"url\":\"https://h.example/x;sig=SECRET\"},\"output\":\"x.png\"}",
        "{\"input\":{\"url\":\"https://h.example/x#SECRET\"},\"output\":\"x.png\"}",
        "{\"input\":{\"url\":\"s3:h.example/x?sig=SECRET\"},\"output\":\"x.png\"}",
        "[{\"input\":{\"url\":\"https:\\/\\/h.example\\/x?sig=SECRET\"}}]",
        "[\"https://user:SECRETSECRETSECRETSECRETSECRETSECRETSECRET@h.example/x\"]",
        "{\"url\":\"https:\\/\\/h.example\\/x?sig=SECRET\",\"output\":\"x.png\"}",
        "{\"https://h.example/x?sig=SECRET\":1,\"input\":\"p.jpg\",\"output\":\"x.png\"}",
        "{\"input\":\"p.jpg\",\"output\":\"https://h.example/x.png?sig=SECRET\"}",
        "{\"input\":\"p.jpg\",\"output\":\"x.png\",\"reply_to\":\"https://h/?SECRET\"}",
        "{\"input\":\"p.jpg\",\"output\":{\"path\":\"x.png\",\"format\":\"https://h/?SECRET\"}}",
        "{\"input\":\"p.jpg\",\"output\":\"x.png\",\"ops\":[\"https://h.example/x?sig=SECRET\"]}",
        "{\"input\":\"p.jpg\",\"output\":\"x.png\",\"ops\":[{\"op\":\"composite\",\"input\":"
        "\"https://h.example/x?sig=SECRET\"}]}",
        "{\"input\":\"p.jpg\",\"output\":\"x.png\",\"ops\":[{\"op\":\"composite\",\"input\":"
        "{\"url\":\"https://h.example/x?sig=SECRET\"}}]}",
        "{\"input\":\"p.jpg\",\"output\":\"x.png\",\"ops\":[{\"op\":\"resize\",\"width\":9,"
        "\"height\":9,\"fit\":\"https://user:SECRETSECRETSECRETSECRETSECRET@h.example/x\"}]}",
        "{\"input\":\"https://h.example/x?sig=SECRET\",",
        "https://h.example/x?sig=SECRET",
    };
    const char *trace = text_of("%s/trace.json", w->folder);
    struct process *daemon = start_daemon(text_of("--trace=%s", trace), "--log_level=debug");
    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        world_push_bytes(w, jobs[i], strlen(jobs[i]));
        cJSON *result = check_next(w);
        char *text = cJSON_PrintUnformatted(result);
        if (strstr(text, "SEC") || !strcmp(json_text(result, "status"), "done"))
            fail_msg("%s: %s", jobs[i], text);
        free(text);
        cJSON_Delete(result);
    }
    /* Results are found by the id, so they repeat it. */
    world_push(w, "{'id':'https://h/?SECRET','input':'none.jpg','output':'x.png'}");
    check_failed(check_next(w), "input_missing", NULL, NULL);
    char *log = process_log(daemon);
    if (strstr(log, "SEC"))
        fail_msg("%.300s", strstr(log, "SEC") - 200);
    free(log);
    stop(daemon);
    char *text = text_file_read(trace);
    assert_null(strstr(text, "SEC"));
    free(text);
}

TEST(test_urls_as_plain_strings)
{
    struct process *daemon = start_daemon("--attempts=3");
    check_failed(check_answer(w, "{'input':'%s/file/p.jpg?secret','output':'x.png'}", origin),
                 "path_refused", "is a URL; write {\"url\": \"https://...\"}", NULL);
    check_failed(check_answer(w, "{'input':'p.jpg','output':{'path':'%s/x.png?secret'}}", origin),
                 "path_refused", "is a URL; write {\"url\": \"https://...\"}", NULL);
    check_failed(check_answer(w, "{'url':'%s/file/p.jpg?secret','output':'x.png'}", origin),
                 "bad_job", "\"input\":{\"url\":...}", NULL);
    stop(daemon);
}

/* ---- explain --------------------------------------------------------------------------------- */

/* Runs gpuimgd --explain on a job of this URL. */
static struct process explain(const char *url, const char *option)
{
    struct process process;
    const char *job = text_of("{\"input\":{\"url\":\"%s%s\"},\"output\":{\"url\":"
                              "\"%s/file/x.png\"},\"ops\":[\"sobel\"]}", origin, url, origin);
    const char *file = text_of("%s/job.json", w->folder);
    const char *args[] = {prefixes, "--url_networks=127.0.0.0/8", "--json", "--explain", file,
                          option, NULL};
    struct process_options options = {.program = getenv("GPUIMGD"), .args = args,
                                      .folder = w->folder, .name = "explain"};
    assert_true(text_file_write(file, job, strlen(job)));
    assert_true(process_start(&process, &options));
    return process;
}

/* The exit status must be `status`. Returns the output as JSON. */
static cJSON *explained(struct process process, int status)
{
    assert_int_equal(process_wait(&process, patience(20)), status);
    char *out = process_out(&process), *log = process_log(&process);
    cJSON *json = cJSON_ParseWithOpts(out, NULL, true);
    assert_non_null(json);
    assert_null(strstr(log, "secret"));
    assert_null(strstr(out, "secret"));
    free(out);
    free(log);
    process_clear(&process);
    return json;
}

TEST(test_explain)
{
    cJSON *json = explained(explain("/file/p.jpg?secret=5", NULL), 0);
    check_has(json, "{'input.url':'%s/file/p.jpg','input.path':null,'input.width':160,"
                    "'decode.as':'luma','outputs.0.url':'%s/file/x.png','outputs.0.width':160}",
              origin, origin);
    assert_true(json_number(json, "memory.input") > 0);
    cJSON_Delete(json);
    assert_int_equal(web_server_count(server, "GET /file/p.jpg?secret=5 "), 1);
    assert_int_equal(web_server_count(server, "PUT /file/x.png "), 0);
    json = explained(explain("/status/404", NULL), 1);
    check_has(json, "{'error.code':'input_missing','input.url':'%s/status/404'}", origin);
    cJSON_Delete(json);
    json = explained(explain("/large", NULL), 1);
    check_has(json, "{'error.code':'input_too_large'}");
    cJSON_Delete(json);
    json = explained(explain("/file/p.jpg?refused", "--url_prefixes=https://elsewhere/"), 1);
    check_has(json, "{'error.code':'path_refused'}");
    cJSON_Delete(json);
    assert_int_equal(web_server_count(server, "GET /file/p.jpg?refused "), 0);
}

/* ---- gpuimgctl ------------------------------------------------------------------------------- */

TEST(test_submit)
{
    struct process *daemon = start_daemon("--attempts=3");
    const char *url = text_of("%s/file/p.jpg?secret=9", origin);
    /* From a URL to a file, and from files to URLs. */
    ctl_expect(w, 0, text_of("ctl submit $at '%s' -o x/%%n-%%i.png --ops sobel --wait", url),
               text_of("done   %s/file/p.jpg -> x/p-1.png 160x120", origin), NULL);
    check_output(w, "x/p-1.png", edges(), 0);
    ctl_expect(w, 0,
               text_of("cp in/p.jpg 'in/a b.jpg'; ctl submit $at p.jpg 'a b.jpg' --ops sobel -w "
                       "--format png -o '%s/file/up%%20to-%%n.%%e?secret=%%2F'", origin),
               "2 done in ", "/file/up%20to-a%20b.png 160x120", NULL);
    check_uploaded("up%20to-a%20b.png", edges());
    check_uploaded("up%20to-p.png", edges());
    /* Names on standard input, from a URL to a URL, through keys, and in a job file. */
    ctl_expect(w, 0, text_of("echo '%s' | ctl submit $at - -o %s/file/out/ --ops sobel -w --json",
                             url, origin),
               text_of("\"url\":\"%s/file/out/p.jpg\"", origin), NULL);
    ctl_expect(w, 0, text_of("ctl submit $at --keys '%s' -o got.png --ops sobel", url),
               "1 done in ", "-> got.png 160x120", NULL);
    check_pixels("got.png", raster_load(text_of("%s/got.png", w->folder), RASTER_COLOUR), edges(),
                 0);
    ctl_expect(w, 0, text_of("echo '{\"output\":{\"url\":\"%s/file/j-%%i.png\"},"
                             "\"ops\":[\"sobel\"]}' | ctl submit $at --keys -j - in/p.jpg", origin),
               "1 done in ", NULL);
    check_uploaded("j-1.png", edges());
    /* What does not work. */
    ctl_expect(w, 1, "ctl submit $at 'https://elsewhere/p.jpg?secret' -o x.png -w",
               "failed https://elsewhere/p.jpg: ", "(path_refused)", NULL);
    ctl_expect(w, 64, text_of("ctl submit $at p.jpg 'a b.jpg' -o %s/file/one%%20.png -w", origin),
               "all results would be written to ", NULL);
    struct ctl_run run = ctl_run(w, "ctl submit $at '%s' p.jpg -o '%s/file/%%n.png?secret=4' -w",
                                 url, origin);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "already has the output "));
    assert_non_null(strstr(run.out, ", 1 not sent"));
    assert_null(strstr(run.out, "secret"));
    assert_null(strstr(run.err, "secret"));
    redis_integer(w->client, "DEL gpuimgd:results");
    stop(daemon);
}

/* ---- retries -------------------------------------------------------------------------------- */

TEST(test_retry)
{
    struct process *daemon = start_daemon("--attempts=3");
    cJSON *result = check_answer(w, "{'input':{'url':'%s/flaky/503/p.jpg?1'},'output':'r1.png'}",
                                 origin);
    check_has(result, "{'attempt':2}");
    check_done(result);
    result = check_answer(w, "{'input':'p.jpg','outputs':[{'output':{'url':"
                             "'%s/flaky/500/r2.png?2'},'ops':['sobel']},{'output':"
                             "{'url':'%s/file/r3.png'},'ops':['sobel']}]}", origin, origin);
    check_has(result, "{'attempt':2}");
    check_done(result);
    check_uploaded("r2.png", edges());
    check_uploaded("r3.png", edges());
    assert_int_equal(web_server_count(server, "PUT /file/r3.png"), 2);
    stop(daemon);
}

TEST(test_dead)
{
    struct process *daemon = start_daemon("--attempts=2");
    cJSON *result = check_answer(w, "{'input':{'url':'%s/status/503?secret'},'output':'d.png'}",
                                 origin);
    check_has(result, "{'attempt':2}");
    check_no_secret(daemon, result);
    check_ended(result, "dead", "input_unreadable");
    check_ended(check_answer(w, "{'input':'p.jpg','output':{'url':'%s/status/503'}}", origin),
                "dead", "write_failed");
    assert_int_equal(web_server_count(server, "GET /status/503?secret"), 2);
    freeReplyObject(redis_command(w->client, "DEL gpuimgd:dead gpuimgd:dead:errors"));
    stop(daemon);
}

/* ---- refusals ------------------------------------------------------------------------------- */

TEST(test_failures)
{
    struct process *daemon = start_daemon("--attempts=3");
    static const struct {
        const char *path, *code, *text;
    } rows[] = {
        {"/file/none.jpg", "input_missing", "404"},
        {"/status/403", "path_refused", "403"},
        {"/redirect/302?http://169.254.169.254/latest/", "path_refused", "no prefix"},
        {"/redirect/302?http://127.0.0.1:1/", "path_refused", "no prefix"},
        {"/loop", "path_refused", "redirected again"},
        {"/status/200", "unsupported_format", ""},
        {"/a/../b", "path_refused", "\"..\""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        cJSON *result = check_answer(w, "{'input':{'url':'%s%s'},'output':'f.png'}", origin,
                                     rows[i].path);
        check_failed(result, rows[i].code, rows[i].text, NULL);
    }
    check_failed(check_answer(w, "{'input':{'url':'http://other/a'},'output':'f.png'}"),
                 "path_refused", "http://other/a", NULL);
    check_failed(check_answer(w, "{'input':'p.jpg','output':{'url':'http://other/a.png?secret'}}"),
                 "path_refused", "http://other/a.png", NULL);
    check_failed(check_answer(w, "{'input':'p.jpg','output':{'url':'%s/status/403'}}", origin),
                 "path_refused", "403", NULL);
    check_failed(check_answer(w, "{'input':'p.jpg','output':{'url':'%s/file/x.gif'}}", origin),
                 "bad_job", ".gif", NULL);
    check_failed(check_answer(w, "{'input':{'url':'%s/endless'},'output':'f.png'}", origin),
                 "input_too_large", "67108864", NULL);
    stop(daemon);
}

TEST(test_forbidden_address)
{
    struct process *daemon = start_ready(0, prefixes);
    size_t connections = web_server_connections(server);
    check_failed(check_answer(w, "{'input':{'url':'%s/file/p.jpg'},'output':'a.png'}", origin),
                 "path_refused", "127.0.0.1 (loopback)", NULL);
    check_failed(check_answer(w, "{'input':{'url':'http://localhost:%u/file/p.jpg'},"
                                 "'output':'a.png'}", web_server_port(server)),
                 "path_refused", "(loopback)", NULL);
    check_failed(check_answer(w, "{'input':'p.jpg','output':{'url':'%s/file/a.png'}}", origin),
                 "path_refused", "(loopback)", NULL);
    assert_int_equal(web_server_connections(server), connections);
    stop(daemon);
}

TEST(test_no_prefixes)
{
    struct process *daemon = start_ready(0, "--attempts=3");
    check_failed(check_answer(w, "{'input':{'url':'%s/file/p.jpg'},'output':'a.png'}", origin),
                 "path_refused", "url_prefixes is empty", NULL);
    stop(daemon);
}

TEST(test_same_url)
{
    struct process *daemon = start_daemon("--attempts=3");
    check_failed(check_answer(w, "{'input':{'url':'%s/file/p.jpg'},'output':"
                                 "{'url':'%s/file/%%70.jpg'}}", origin, origin),
                 "bad_job", "input and output are both", NULL);
    cJSON *result = check_answer(w, "{'input':'p.jpg','outputs':[{'output':{'url':"
                                    "'%s/file/s.png?X-Amz-Signature=1'}},{'output':{'url':"
                                    "'%s/file/s.png?X-Amz-Signature=2'}}]}", origin, origin);
    check_has(result, "{'outputs.0.format':'png','outputs.1.error.code':'bad_job'}");
    check_failed(result, "bad_job", "two outputs are", NULL);
    assert_int_equal(web_server_count(server, "PUT /file/s.png?X-Amz-Signature=1 "), 1);
    stop(daemon);
}

TEST(test_one_output_fails)
{
    struct process *daemon = start_daemon("--attempts=3");
    cJSON *result = check_answer(w, "{'input':'p.jpg','outputs':[{'output':{'url':'%s/status/403'},"
                                    "'ops':['sobel']},{'output':{'url':'%s/file/o.png'},"
                                    "'ops':['sobel']},{'output':'o.png','ops':['sobel']}]}",
                                 origin, origin);
    check_has(result, "{'outputs.0.error.code':'path_refused','outputs.0.bytes':null,"
                      "'outputs.1.error':null,'outputs.2.error':null}");
    check_failed(result, "path_refused", "403", NULL);
    check_uploaded("o.png", edges());
    check_output(w, "o.png", edges(), 0);
    stop(daemon);
}

TEST(test_text_without_secrets)
{
    struct process *daemon = start_daemon("--attempts=3");
    static const char *const jobs[] = {
        "{\"input\":{\"url\":\"https://h/a?secret\"},",
        "{\"input\":{\"url\":\"https://h/a?secret\"},\"output\":{\"url\":\"https://h/b?secret\"},"
        "\"outputs\":1}",
        "{\"input\":{\"url\":\"https://u:secret@h/a?secret\"},\"output\":\"a.png\"}",
        "{\"input\":\"p.jpg\",\"output\":{\"url\":\"https://u:secret@h/a?secret\"}}",
        "{\"input\":{\"url\":\"ftp://h/a?secret\"},\"output\":\"a.png\"}",
        "{\"input\":{\"url\":[\"https://h/a?secret\"]},\"output\":\"a.png\"}",
    };
    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        world_push_bytes(w, jobs[i], strlen(jobs[i]));
        cJSON *result = check_next(w);
        check_no_secret(daemon, result);
        assert_string_equal(json_text(result, "status"), "failed");
        cJSON_Delete(result);
    }
    stop(daemon);
}

/* ---- ends before the end -------------------------------------------------------------------- */

static void cancel(const char *id)
{
    freeReplyObject(
        redis_command(w->client, "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                                 "gpuimgd:waits:%s gpuimgd:result:%s %s",
                      script_text(SCRIPT_ID_CANCEL), id, id, id));
}

TEST(test_cancel)
{
    struct process *daemon = start_daemon("--results=id", "--url_timeout_s=600");
    world_push(w, "{'id':'down','input':{'url':'%s/silent?down'},'output':'c.png'}", origin);
    world_push(w, "{'id':'up','input':'p.jpg','outputs':[{'output':'c1.png'},"
                  "{'output':{'url':'%s/silent?up'}},{'output':{'url':'%s/file/c2.png'}}]}",
               origin, origin);
    assert_true(await(10, web_server_count(server, "GET /silent?down") == 1 &&
                              web_server_count(server, "PUT /silent?up") == 1 &&
                              web_server_count(server, "PUT /file/c2.png") == 1));
    process_sleep(0.1);
    cancel("down");
    cancel("up");
    assert_true(world_until(w, 30, 1, "EXISTS gpuimgd:result:down"));
    assert_true(world_until(w, 30, 1, "EXISTS gpuimgd:result:up"));
    redisReply *reply = redis_command(w->client, "GET gpuimgd:result:up");
    cJSON *result = cJSON_Parse(reply->str);
    check_has(result, "{'outputs.0.error':null,'outputs.1.error.code':'cancelled',"
                      "'outputs.2.error':null,"
                      "'error.message':'the job was cancelled in stage upload'}");
    check_ended(result, "cancelled", "cancelled");
    freeReplyObject(reply);
    stop(daemon);
}

TEST(test_timeouts)
{
    struct process *daemon = start_daemon("--url_timeout_s=30");
    check_failed(check_answer(w, "{'input':{'url':'%s/silent'},'output':'t.png',"
                                 "'timeout_s':%g}", origin, patience(0.4)),
                 "timeout", "in stage read", NULL);
    cJSON *result = check_answer(w,
                                 "{'input':'p.jpg','output':{'url':'%s/silent'},"
                                 "'timeout_s':%g}",
                                 origin, patience(2));
    check_has(result, "{'outputs.0.error.code':'timeout','outputs.0.bytes':null}");
    check_failed(result, "timeout", "in stage upload", NULL);
    stop(daemon);
    daemon = start_daemon("--url_timeout_s=0.3", "--attempts=2");
    check_ended(check_answer(w, "{'input':{'url':'%s/silent'},'output':'t.png'}", origin), "dead",
                "input_unreadable");
    freeReplyObject(redis_command(w->client, "DEL gpuimgd:dead gpuimgd:dead:errors"));
    stop(daemon);
}

/* A drain waits for transfers until drain_timeout_s, and then gives the jobs back. */
TEST(test_drain)
{
    struct process *daemon = start_daemon("--drain_timeout_s=0.3");
    size_t before = web_server_count(server, "");
    world_push(w, "{'input':{'url':'%s/silent?drain'},'output':'x.png'}", origin);
    world_push(w, "{'input':'p.jpg','output':{'url':'%s/silent?drain'}}", origin);
    assert_true(await(10, web_server_count(server, "") == before + 2));
    process_signal(daemon, SIGTERM);
    assert_int_equal(process_wait(daemon, 10), 0);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 2);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:lease"), 0);
    freeReplyObject(redis_command(w->client, "FLUSHDB"));
}

/* A job holds an overlay of 4 MB, and its download does not end. Until it is cancelled there is no
 * room for the input of the other job, which is not downloaded again and again meanwhile. */
TEST(test_room_beside_overlay)
{
    struct picture_file padded = picture_padded(5400 * 1024);
    world_set_picture(w, "gpuimgd:img:wide", make_jpeg(.width = 1100, .height = 900, .quality = 1));
    web_server_put(server, "padded.jpg", padded.bytes, padded.length);
    picture_free(&padded);
    put_jpeg("room.jpg", .width = 2400, .height = 1800);
    struct process *daemon = start_daemon("--host_bytes=16M", "--input_bytes_max=6M", "--workers=2",
                                          "--inflight=4", "--url_timeout_s=600", "--attempts=1");
    world_push(w, "{'id':'slow','input':{'url':'%s/silent?room'},'output':'r.png','ops':["
                  "{'op':'composite','input':{'key':'gpuimgd:img:wide'}}]}", origin);
    assert_true(await(10, web_server_count(server, "GET /silent?room") == 1));
    /* These give memory back while the large job waits, which tries again. */
    for (int i = 0; i < 2; i++)
        world_push(w, "{'input':'room.jpg','output':'r%d.png'}", i);
    world_push(w, "{'id':'large','input':{'url':'%s/file/padded.jpg'},'output':'l.png'}", origin);
    check_done(check_next(w));
    check_done(check_next(w));
    cancel("slow");
    cJSON *result = check_next(w);
    check_has(result, "{'id':'slow'}");
    check_ended(result, "cancelled", "cancelled");
    result = check_next(w);
    check_has(result, "{'id':'large'}");
    check_done(result);
    assert_in_range(web_server_count(server, "GET /file/padded.jpg"), 1, 3);
    freeReplyObject(redis_command(w->client, "DEL gpuimgd:img:wide"));
    stop(daemon);
}

/* An upload that does not end has the only connection. The time in which another job waits for its
 * turn to upload does not count, and its input takes no memory of jobs without URLs. */
TEST(test_waits_for_its_turn_to_upload)
{
    struct picture_file padded = picture_padded(5400 * 1024);
    world_put(w, "padded.jpg", padded.bytes, padded.length);
    picture_free(&padded);
    struct process *daemon =
        start_daemon("--host_bytes=16M", "--input_bytes_max=6M", "--workers=1", "--inflight=4",
                     "--url_timeout_s=600", "--url_connections=1");
    world_push(w, "{'id':'silent','input':'p.jpg','output':{'url':'%s/silent?turn'}}", origin);
    assert_true(await(10, web_server_count(server, "PUT /silent?turn") == 1));
    world_push(w,
               "{'id':'waits','input':'padded.jpg','output':{'url':'%s/file/turn.png'},"
               "'timeout_s':%g}",
               origin, patience(0.5));
    for (int i = 0; i < 2; i++) {
        world_push(w, "{'id':'file','input':'padded.jpg','output':'f.png'}");
        cJSON *result = check_next(w);
        check_has(result, "{'id':'file'}");
        check_done(result);
        process_sleep(patience(0.5));
    }
    cancel("silent");
    cJSON *result = check_next(w);
    check_has(result, "{'id':'silent'}");
    check_ended(result, "cancelled", "cancelled");
    result = check_next(w);
    check_has(result, "{'id':'waits'}");
    check_done(result);
    stop(daemon);
}

/* The daemon dies during an upload: the job runs again and uploads the same bytes. */
TEST(test_death)
{
    struct process *daemon = start_daemon("--attempts=3");
    world_push(w, "{'input':'p.jpg','outputs':[{'output':{'url':'%s/flaky/503/k.png?die'},"
                  "'ops':['sobel']},{'output':{'url':'%s/silent?die'},'ops':['sobel']}]}", origin,
               origin);
    assert_true(await(10, web_server_count(server, "PUT /silent?die") == 1 &&
                              web_server_count(server, "PUT /flaky/503/k.png?die") == 1));
    process_kill9(daemon);
    daemon = start_daemon(text_of("--url_timeout_s=%g", patience(2)), "--attempts=2");
    cJSON *result = check_next(w);
    check_has(result, "{'outputs.0.error':null,'attempt':2}");
    check_ended(result, "dead", "write_failed");
    check_uploaded("k.png", edges());
    freeReplyObject(redis_command(w->client, "DEL gpuimgd:dead gpuimgd:dead:errors"));
    stop(daemon);
}

/* ---- the configuration ---------------------------------------------------------------------- */

TEST(test_wrong_options)
{
    static const char *const wrong[][2] = {
        {"--url_prefixes=ftp://h/", "url_prefixes"},
        {"--url_networks=10.0.0.1/8", "url_networks"},
        {"--url_prefixes=https://h/ aws:eu:none", "none"},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct process *daemon = world_start(w, 0, wrong[i][0], NULL);
        assert_int_equal(process_wait(daemon, 20), 78);
        assert_true(process_log_count(daemon, 0, wrong[i][1]) > 0);
        process_clear(daemon);
    }
}

int main(void)
{
    if (!HAS_CURL) {
        puts("ok - urls # SKIP this build has no libcurl");
        return 77;
    }
    world_options = &(struct world_options){.photo = {"p.jpg", 160, 120}};
    return run_all(.name = "urls", .setup = open_all, .teardown = close_all,
                   .each_setup = empty_world);
}
