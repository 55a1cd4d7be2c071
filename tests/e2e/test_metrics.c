/*
 * test_metrics.c - metrics_listen of a real daemon over HTTP: documents, counters while jobs run,
 * health and readiness, slow and hostile clients, and no cost when it is off.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/fixtures/listening.h"
#include "tests/fixtures/prometheus.h"
#include "tests/fixtures/test_world.h"

/* above the limit of open connections (http_server.c), so that some are closed */
#define CROWD 120

static struct prometheus scrape(void)
{
    struct prometheus read;
    struct http_reply reply = get("/metrics");
    assert_int_equal(reply.status, 200);
    if (!prometheus_read(&read, reply.body))
        fail_msg("invalid metrics: %s", read.error);
    http_free(&reply);
    return read;
}

/* Waits until the path returns this status and a body that contains the word. */
/* ---- documents ------------------------------------------------------------------------------- */

static void check_document(const char *path, const char *type, const char *word)
{
    struct http_reply whole = get(path), head = http_request(place, "HEAD", path);
    assert_int_equal(whole.status, 200);
    assert_int_equal(head.status, 200);
    const char *length = text_of("%zu", whole.length);
    assert_string_equal(http_header(&whole, "Content-Type"), type);
    assert_string_equal(http_header(&whole, "Content-Length"), length);
    assert_string_equal(http_header(&whole, "Cache-Control"), "no-store");
    assert_string_equal(http_header(&whole, "X-Content-Type-Options"), "nosniff");
    assert_non_null(strstr(http_header(&whole, "Content-Security-Policy"), "default-src 'none'"));
    assert_non_null(strstr(whole.body, word));
    assert_string_equal(http_header(&head, "Content-Type"), type);
    assert_true(atoi(http_header(&head, "Content-Length")) > 0);
    assert_int_equal(head.length, 0);
    http_free(&whole);
    http_free(&head);
}

static void check_refused(const char *method, const char *path, int status)
{
    struct http_reply reply = http_request(place, method, path);
    if (reply.status != status)
        print_error("%s %s: %d\n", method, path, reply.status);
    assert_int_equal(reply.status, status);
    if (status == 405)
        assert_string_equal(http_header(&reply, "Allow"), "GET, HEAD");
    http_free(&reply);
}

TEST(documents)
{
    struct process *daemon = start_listening("0");
    check_document("/", "text/html; charset=utf-8", "<title>gpuimgd</title>");
    check_document("/metrics", "text/plain; version=0.0.4; charset=utf-8", "gpuimgd_jobs_total");
    check_document("/metrics?x=1", "text/plain; version=0.0.4; charset=utf-8", "gpuimgd_info");
    check_document("/status.json", "application/json", "\"version\"");
    check_document("/history.json", "application/json", "\"samples\"");
    check_document("/fleet", "text/html; charset=utf-8", "<title>gpuimgd fleet</title>");
    check_document("/fleet.json", "application/json", "\"daemons\"");
    check_refused("GET", "/fleet.json?page=-1", 400);
    check_refused("GET", "/fleet.json?page=", 400);
    check_refused("GET", "/fleet.json?page=10000", 400);
    check_refused("GET", "/fleet/", 404);
    check_document("/healthz", "text/plain; charset=utf-8", "running");
    assert_true(says("/readyz", 200, "running"));
    check_refused("GET", "/metrics/", 404);
    check_refused("GET", "/../etc/passwd", 404);
    check_refused("HEAD", "/nothing", 404);
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        check_refused(methods[i], "/metrics", 405);
    check_stop(daemon);
    check_clean(w);
}

/* A page's own requests work, and it loads nothing from other hosts. */
TEST(the_pages_stand_alone)
{
    struct process *daemon = start_listening("0");
    for (int i = 0; i < 2; i++) {
        struct http_reply page = get(i ? "/fleet" : "/");
        const char *policy = http_header(&page, "Content-Security-Policy");
        assert_non_null(strstr(policy, "script-src 'sha256-"));
        assert_non_null(strstr(policy, "style-src 'sha256-"));
        assert_non_null(strstr(policy, "connect-src 'self'"));
        assert_null(strstr(policy, "unsafe"));
        static const char *const foreign[] = {"https://",  "url(",     "@import", "src=\"",
                                              " style=\"", " onclick", "eval(",   "innerHTML"};
        for (size_t k = 0; k < sizeof foreign / sizeof foreign[0]; k++)
            if (strstr(page.body, foreign[k]))
                fail_msg("the page has %s", foreign[k]);
        http_free(&page);
    }
    check_stop(daemon);
}

TEST(other_places)
{
    struct stat info;
    const char *socket = text_of("unix:%s/http.sock", w->folder);
    struct process *daemon = start_listening(socket);
    assert_string_equal(place, socket);
    assert_true(says("/healthz", 200, "running"));
    assert_int_equal(stat(socket + 5, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0660);
    check_stop(daemon);
    assert_int_equal(access(socket + 5, F_OK), -1);
    struct process *first = start_listening("localhost:0");
    assert_non_null(strstr(place, "http://localhost:"));
    assert_true(says("/healthz", 200, "running"));
    /* The port is taken: the log says so, and the exit status is for configuration. */
    char *log;
    const char *option = text_of("--metrics_listen=%d", atoi(strrchr(place, ':') + 1));
    struct process *second = world_start(w, 1, option, NULL);
    assert_int_equal(process_wait(second, 20), 78);
    log = process_log(second);
    assert_non_null(strstr(log, "metrics_listen"));
    assert_non_null(strstr(log, "in use"));
    free(log);
    second = world_start(w, 1, "--metrics_listen=nowhere", NULL);
    assert_int_equal(process_wait(second, 20), 78);
    check_stop(first);
    check_clean(w);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void check_host(const char *host, int status)
{
    static const char *const paths[] = {"/", "/metrics", "/status.json", "/healthz", "/nothing"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct http_reply reply = http_request_as(place, "GET", paths[i], host);
        int expected = status == 200 && i == 4 ? 404 : status;
        if (reply.status != expected)
            print_error("Host %s, %s: %d\n", host, paths[i], reply.status);
        assert_int_equal(reply.status, expected);
        if (status == 421) {
            assert_non_null(strstr(reply.body, "Host must be an IP address, localhost or"));
            assert_null(strstr(reply.body, "gpuimgd_"));
        }
        http_free(&reply);
    }
}

/* DNS rebinding: a foreign page whose host name resolves to this address gets no data. */
TEST(foreign_names_are_refused)
{
    struct process *daemon = start_listening("localhost:0");
    static const char *const good[] = {"localhost", "LocalHost:8080", "127.0.0.1", "192.0.2.7:80",
                                       "[::1]", "[2001:db8::7]:9464"};
    static const char *const bad[] = {"attacker.example", "attacker.example:9464", "localhost.evil",
                                      "127.0.0.1.attacker.example", "[attacker.example]", "::1",
                                      "localhost:80:80", "", "a@127.0.0.1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check_host(good[i], 200);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_host(bad[i], 421);
    check_stop(daemon);
    /* A unix socket accepts any Host: no browser connects to it, and a proxy may pass its own. */
    daemon = start_listening(text_of("unix:%s/http.sock", w->folder));
    check_host("gpuimgd.example", 200);
    check_stop(daemon);
    check_clean(w);
}

/* ---- counters -------------------------------------------------------------------------------- */

#define VALUE(read, ...) prometheus_value(&(read), __VA_ARGS__, NULL)

/* Scrapes until no job is in flight; meanwhile no counter may decrease. */
static struct prometheus scrape_to_rest(struct prometheus before, double ended)
{
    double until = process_now() + patience(30);
    for (;;) {
        struct prometheus now = scrape();
        const char *fallen = prometheus_fallen(&before, &now);
        if (fallen)
            fail_msg("%s has decreased", fallen);
        prometheus_free(&before);
        bool rest = VALUE(now, "gpuimgd_jobs_in_flight") == 0 &&
                    VALUE(now, "gpuimgd_job_duration_seconds_count") >= ended;
        if (rest || process_now() > until)
            return now;
        before = now;
        process_sleep(0.1);
    }
}

static void check_totals(struct prometheus read)
{
    assert_true(VALUE(read, "gpuimgd_jobs_total", "outcome", "done") == 40);
    assert_true(VALUE(read, "gpuimgd_jobs_total", "outcome", "failed") == 3);
    assert_true(VALUE(read, "gpuimgd_jobs_total", "outcome", "dead") == 1);
    assert_true(VALUE(read, "gpuimgd_errors_total", "code", "input_missing") == 2);
    assert_true(VALUE(read, "gpuimgd_errors_total", "code", "bad_json") == 1);
    assert_true(VALUE(read, "gpuimgd_errors_total", "code", "write_failed") == 3);
    assert_true(VALUE(read, "gpuimgd_retries_total") == 2);
    assert_true(VALUE(read, "gpuimgd_redelivered_total") == 2);
    assert_true(VALUE(read, "gpuimgd_attempts_total") ==
                44 + 2 + VALUE(read, "gpuimgd_returned_total"));
    assert_true(VALUE(read, "gpuimgd_images_total") == 40);
    assert_true(VALUE(read, "gpuimgd_pixels_total") == 40 * 160 * 120);
    assert_true(VALUE(read, "gpuimgd_decoded_images_total", "place", "host") == 40);
    assert_true(VALUE(read, "gpuimgd_decoded_pixels_total", "place", "host") == 40 * 160 * 120);
    assert_true(VALUE(read, "gpuimgd_encoded_images_total", "place", "host") == 40);
    assert_true(VALUE(read, "gpuimgd_decoded_images_total", "place", "device") == 0);
    assert_true(VALUE(read, "gpuimgd_output_bytes_total") > 40 * 100);
    assert_true(VALUE(read, "gpuimgd_job_duration_seconds_count") == 44);
    assert_true(VALUE(read, "gpuimgd_queue_wait_seconds_count") == 0);
    static const char *const stages[] = {"decode", "kernel", "encode"};
    for (size_t i = 0; i < 3; i++) { /* includes the job that cannot be written */
        assert_true(VALUE(read, "gpuimgd_stage_duration_seconds_count", "stage", stages[i]) == 41);
        assert_true(VALUE(read, "gpuimgd_stage_duration_seconds_sum", "stage", stages[i]) > 0);
    }
    assert_true(VALUE(read, "gpuimgd_worker_busy_seconds_total") >
                VALUE(read, "gpuimgd_stage_duration_seconds_sum", "stage", "encode"));
    assert_true(VALUE(read, "gpuimgd_loop_cpu_seconds_total") > 0);
    assert_true(VALUE(read, "gpuimgd_device_busy_seconds_total", "device", "cpu") > 0);
    assert_true(VALUE(read, "gpuimgd_sweeps_total") >= 1);
    assert_true(VALUE(read, "gpuimgd_workers", "state", "idle") == 2);
    assert_true(VALUE(read, "gpuimgd_redis_up") == 1);
    assert_true(VALUE(read, "gpuimgd_pool_used_bytes", "pool", "pinned") == 0);
    assert_true(VALUE(read, "gpuimgd_pool_limit_bytes", "pool", "pinned") > 0);
}

/* The history starts before all jobs, is in order of time, and ends with these counts. */
static void check_history(double done, double ended)
{
    struct http_reply json = get("/history.json");
    cJSON *root = cJSON_Parse(json.body), *sample;
    const cJSON *samples = json_at(root, "samples"), *last = NULL;
    assert_true(cJSON_GetArraySize(samples) >= 2);
    assert_true(json_number(cJSON_GetArrayItem(samples, 0), "jobs.done") == 0);
    cJSON_ArrayForEach(sample, samples) {
        assert_true(!last || json_number(sample, "time") > json_number(last, "time"));
        assert_true(!last || json_number(sample, "jobs.done") >= json_number(last, "jobs.done"));
        last = sample;
    }
    assert_true(json_number(last, "jobs.done") == done);
    assert_true(json_number(last, "jobs.failed") + json_number(last, "jobs.dead") == ended);
    assert_true(json_number(last, "times.decode.sum_s") > 0);
    assert_true(json_number(last, "times.decode.count") == 41);
    cJSON_Delete(root);
    http_free(&json);
}

static double scrape_one(const char *name)
{
    struct prometheus read = scrape();
    double value = VALUE(read, name);
    prometheus_free(&read);
    return value;
}

/* Scrapes until a sample has this value. */
static void scrape_until(const char *name, double value)
{
    if (!await(20, scrape_one(name) == value))
        fail_msg("%s is %g", name, scrape_one(name));
}

TEST(the_lists_are_measured)
{
    strcpy(w->ns, "lists");
    struct process *daemon = start_listening_with("0", "--results_max=1000");
    struct prometheus read = scrape();
    assert_true(prometheus_all_have(&read, "namespace", "lists"));
    assert_true(VALUE(read, "gpuimgd_queue_results_limit") == 1000);
    assert_true(VALUE(read, "gpuimgd_queue_dead_jobs_limit") == 100000);
    prometheus_free(&read);
    redis_integer(w->client, "LPUSH lists:results 1 2 3");
    redis_integer(w->client, "LPUSH lists:dead 1 2");
    redis_integer(w->client, "ZADD lists:delayed 99999999999999 1");
    scrape_until("gpuimgd_queue_results", 3);
    scrape_until("gpuimgd_queue_dead_jobs", 2);
    scrape_until("gpuimgd_queue_delayed_jobs", 1);
    redis_integer(w->client, "DEL lists:results lists:dead lists:delayed");
    scrape_until("gpuimgd_queue_results", 0);
    check_stop(daemon);
    strcpy(w->ns, "gpuimgd");
}

TEST(counters_follow_the_jobs)
{
    struct process *daemon = start_listening("127.0.0.1:0");
    struct prometheus before = scrape();
    assert_true(VALUE(before, "gpuimgd_attempts_total") == 0);
    assert_true(VALUE(before, "gpuimgd_jobs_in_flight_limit") >= 2);
    push_jobs(0, 40);
    world_push(w, "{'input':'no.jpg','output':'a.png'}");
    world_push(w, "{'input':'no.jpg','output':'b.png'}");
    world_push(w, "no JSON");
    const char *folder = out_path("locked");
    assert_int_equal(mkdir(folder, 0555), 0);
    world_push(w, "{'input':'p.jpg','output':'locked/x.png','ops':['sobel']}");
    take_results(44);
    struct prometheus read = scrape_to_rest(before, 44);
    check_totals(read);
    prometheus_free(&read);
    struct http_reply json = get("/status.json");
    cJSON *root = cJSON_Parse(json.body);
    check_has(root, "{'jobs.done':40,'error_counts.write_failed':3}");
    assert_int_equal(cJSON_GetArraySize(json_at(root, "errors")), 6);
    assert_string_equal(json_text(root, "errors.0.input"), "p.jpg"); /* the last: write_failed */
    assert_string_equal(json_text(root, "errors.0.error.code"), "write_failed");
    cJSON_Delete(root);
    http_free(&json);
    check_history(40, 4);
    rmdir(folder);
    check_stop(daemon);
    assert_true(world_settle(w));
}

/* A job that is done has failed images, too. */
TEST(failed_images_are_counted)
{
    struct process *daemon = start_listening("0");
    cJSON *result =
        check_answer(w, "{'inputs':['p.jpg','none1.jpg','p.jpg','none2.jpg','none3.jpg'],"
                        "'output':'failed/%%n.png'}");
    check_has(result, "{'status':'done','images.done':2,'images.failed':3}");
    cJSON_Delete(result);
    struct prometheus read = scrape_to_rest(scrape(), 1);
    assert_true(VALUE(read, "gpuimgd_images_failed_total") == 3);
    assert_true(VALUE(read, "gpuimgd_images_total") == 2);
    assert_true(VALUE(read, "gpuimgd_jobs_total", "outcome", "done") == 1);
    prometheus_free(&read);
    check_stop(daemon);
    check_clean(w);
}

TEST(clients_are_counted_by_their_tags)
{
    struct process *daemon = start_listening("127.0.0.1:0");
    struct prometheus read = scrape();
    cJSON *result = check_answer(w, "{'input':'p.jpg','output':'t.png','tag':'shop/eu'}");
    check_has(result, "{'status':'done','tag':'shop/eu'}");
    cJSON_Delete(result);
    result = check_answer(w, "{'input':'no.jpg','output':'t.png','tag':'shop/eu'}");
    check_has(result, "{'status':'failed','tag':'shop/eu'}");
    cJSON_Delete(result);
    result = check_answer(w, "{'input':'p.jpg','output':'t.png','tag':'b','opps':1}");
    check_has(result, "{'error.code':'bad_job','tag':'b'}");
    cJSON_Delete(result);
    check_failed(check_answer(w, "{'input':'p.jpg','output':'t.png','tag':'<b>'}"), "bad_job",
                 "tag is \"<b>\"; it must have 1 to 64 letters", NULL);
    read = scrape_to_rest(read, 4);
    assert_true(VALUE(read, "gpuimgd_tag_jobs_total", "tag", "shop/eu", "outcome", "done") == 1);
    assert_true(VALUE(read, "gpuimgd_tag_jobs_total", "tag", "shop/eu", "outcome", "failed") == 1);
    assert_true(VALUE(read, "gpuimgd_tag_jobs_total", "tag", "b", "outcome", "failed") == 1);
    assert_true(VALUE(read, "gpuimgd_tag_pixels_total", "tag", "shop/eu") > 0);
    assert_true(VALUE(read, "gpuimgd_tag_work_seconds_total", "tag", "shop/eu") > 0);
    prometheus_free(&read);
    struct http_reply json = get("/status.json");
    cJSON *root = cJSON_Parse(json.body);
    check_has(root, "{'tags.0.tag':'shop/eu','tags.0.done':1,'tags.0.failed':1,'tags.1.tag':'b'}");
    cJSON_Delete(root);
    http_free(&json);
    check_stop(daemon);
}

/* ---- health ---------------------------------------------------------------------------------- */

static void expect_status(const char *expected)
{
    struct http_reply json = get("/status.json");
    cJSON *root = cJSON_Parse(json.body);
    check_has(root, "%s", expected);
    cJSON_Delete(root);
    http_free(&json);
}

TEST(readiness)
{
    struct process *daemon = start_listening("0");
    assert_true(says("/readyz", 200, "running"));
    process_signal(daemon, SIGUSR2);
    assert_true(says("/readyz", 503, "paused"));
    assert_true(says("/healthz", 200, "paused"));
    expect_status("{'blocked.by':'signal','blocked.why':'SIGUSR2 has paused this daemon',"
                  "'blocked.advice':'Send SIGUSR2 again to resume.'}");
    process_signal(daemon, SIGUSR2);
    assert_true(says("/readyz", 200, "running"));
    redis_server_kill9(w->redis);
    assert_true(says("/readyz", 503, "Redis"));
    assert_true(says("/healthz", 200, "running"));
    expect_status("{'blocked.by':'redis'}");
    redis_server_restart(w->redis);
    world_reconnect(w);
    assert_true(says("/readyz", 200, "running"));
    struct prometheus read = scrape();
    assert_true(VALUE(read, "gpuimgd_redis_reconnects_total") >= 1);
    assert_true(VALUE(read, "gpuimgd_ready") == 1);
    prometheus_free(&read);
    for (int i = 0; i < 8; i++)
        world_push(w, "{'input':'slow.png','output':{'path':'s%d.png','compression':9}}", i);
    assert_true(world_until(w, 20, 0, "LLEN gpuimgd:jobs"));
    process_signal(daemon, SIGTERM);
    assert_true(says("/readyz", 503, "draining"));
    assert_true(says("/healthz", 200, "draining"));
    assert_int_equal(process_wait(daemon, 30), 0); /* a second SIGTERM would end the drain */
    assert_true(world_settle(w));
}

/* ---- clients --------------------------------------------------------------------------------- */

static void send_text(int fd, const char *text)
{
    (void)http_send(fd, text, strlen(text)); /* the other side may have closed */
}

/* Keeps connections open by sending one byte at a time. */
struct crowd {
    _Atomic int fds[CROWD]; /* -1: not connected yet */
    atomic_bool over;
    pthread_t thread;
};

static void *dawdle(void *context)
{
    struct crowd *crowd = context;
    while (!atomic_load(&crowd->over)) {
        for (size_t i = 0; i < CROWD; i++)
            if (crowd->fds[i] >= 0)
                send_text(crowd->fds[i], "a");
        process_sleep(0.1);
    }
    return NULL;
}

/* Clients send endless heads or never read answers: later clients are served, jobs are done, and
 * the number of open files is bounded. */
TEST(a_crowd_that_dawdles)
{
    static const char *const words[] = {"", "G", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
                                        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                                        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                        "Content-Length: 99\r\n\r\n"};
    struct process *daemon = start_listening("0");
    static struct crowd crowd; /* static: after a failed test its thread still runs */
    size_t before = process_descriptors(daemon);
    push_jobs(0, 20);
    for (size_t i = 0; i < CROWD; i++)
        crowd.fds[i] = -1;
    assert_int_equal(pthread_create(&crowd.thread, NULL, dawdle, &crowd), 0);
    for (size_t i = 0; i < CROWD; i++) {
        int fd = http_connect(place);
        assert_true(fd >= 0);
        send_text(fd, words[i % (sizeof words / sizeof words[0])]);
        crowd.fds[i] = fd;
    }
    for (int turn = 0; turn < 10; turn++) {
        assert_true(says("/healthz", 200, "running"));
        struct prometheus read = scrape();
        prometheus_free(&read);
    }
    assert_true(process_descriptors(daemon) < before + CROWD);
    take_results(20);
    atomic_store(&crowd.over, true);
    pthread_join(crowd.thread, NULL);
    for (size_t i = 0; i < CROWD; i++)
        close(crowd.fds[i]);
    check_stop(daemon);
    check_clean(w);
}

/* Sends the text and expects an answer with this status; 0: no answer. */
static void check_answer_to(const char *text, size_t length, int status)
{
    int fd = http_connect(place);
    assert_true(fd >= 0);
    http_send(fd, text, length);
    shutdown(fd, SHUT_WR);
    struct http_reply reply = http_receive(fd);
    if (reply.status != status)
        print_error("%.40s: %d, expected %d\n", text, reply.status, status);
    assert_int_equal(reply.status, status);
    http_free(&reply);
}

TEST(requests_that_are_none)
{
    struct process *daemon = start_listening("0");
    check_answer_to("GET / HTTP/1.0\r\n\r\n", 18, 200);
    check_answer_to("GET / HTTP/1.1\r\n\r\n", 18, 400); /* 1.1 without a Host */
    check_answer_to("\x16\x03\x01\x02garbage\r\n\r\n", 15, 0);
    size_t size = 1 << 20;
    char *large = malloc(size);
    assert_non_null(large);
    memset(large, 'a', size);
    memcpy(large, "GET /", 5);
    int fd = http_connect(place); /* an endless head is cut off */
    assert_true(fd >= 0);
    http_send(fd, large, size);
    struct http_reply reply = http_receive(fd);
    assert_true(reply.status == 0 || reply.status == 413 || reply.status == 414 ||
                reply.status == 431);
    http_free(&reply);
    free(large);
    assert_true(says("/healthz", 200, "running"));
    assert_true(process_running(daemon));
    check_stop(daemon);
}

/* ---- off ------------------------------------------------------------------------------------- */

static size_t thread_count(const struct process *process)
{
    size_t count = 0;
    DIR *folder = opendir(text_of("/proc/%d/task", (int)process->pid));
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

TEST(off_costs_no_thread_and_no_socket)
{
    struct process *daemon = start_ready(1);
    size_t threads = thread_count(daemon);
    assert_int_equal(process_log_count(daemon, 0, "metrics and status"), 0);
    check_stop(daemon);
    daemon = start_listening("0");
    assert_int_equal(thread_count(daemon), threads + 1);
    check_stop(daemon);
    check_clean(w);
}

int main(void)
{
#ifndef GPUIMGD_HTTP
    puts("1..1\nok 1 - metrics over HTTP # SKIP built without libmicrohttpd");
    return 0;
#endif
    world_options = &(struct world_options){.photo = {"p.jpg", 160, 120}, .slow = true};
    return run_all(.name = "metrics over HTTP", .setup = open_world, .teardown = close_world);
}
