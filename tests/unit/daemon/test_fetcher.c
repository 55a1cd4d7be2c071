/* Tests of downloads and uploads with an HTTP server that is honest or hostile. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/web/fetcher.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/web_server.h"

#ifdef GPUIMGD_CURL

#include <curl/curl.h>

#define INPUT_BYTES 1000000

static struct {
    uv_loop_t loop;
    struct options options;
    struct metrics_urls totals;
    struct fetcher *fetcher;
    struct web_server *server;
    char origin[64], prefix[128];
} rig;

static time_t suspended_s; /* how long the host was suspended */

/* Replaces that of libc. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += clock == CLOCK_BOOTTIME ? suspended_s : 0;
    return status;
}

struct outcome {
    struct transfer *transfer;
    uint8_t *bytes;
    size_t length;
    struct error error;
    size_t begun, ended;
    struct outcome *cancels; /* `done` of this one cancels that one */
};

static void set(const char *name, const char *value)
{
    struct error error = {0};
    assert_true(options_set(&rig.options, name, value, &error));
}

static void create(void)
{
    struct error error = {0};
    rig.fetcher = fetcher_create(&rig.loop, &rig.options, &rig.totals, &error);
    if (!rig.fetcher)
        fail_msg("%s", error.text);
}

static int open_rig(void **state)
{
    struct error error = {0};
    rig.server = web_server_start();
    snprintf(rig.origin, sizeof rig.origin, "http://127.0.0.1:%u", web_server_port(rig.server));
    snprintf(rig.prefix, sizeof rig.prefix, "%s/", rig.origin);
    uv_loop_init(&rig.loop);
    assert_true(options_init(&rig.options, &error));
    memset(&rig.totals, 0, sizeof rig.totals);
    set("url_prefixes", rig.prefix);
    set("url_networks", "127.0.0.0/8");
    set("url_timeout_s", "20");
    return 0;
}

static int close_rig(void **state)
{
    fetcher_stop(rig.fetcher);
    uv_run(&rig.loop, UV_RUN_DEFAULT);
    fetcher_destroy(rig.fetcher);
    rig.fetcher = NULL;
    assert_int_equal(uv_loop_close(&rig.loop), 0);
    options_clear(&rig.options);
    web_server_stop(rig.server);
    return 0;
}

#define IN_RIG .setup_func = open_rig, .teardown_func = close_rig

static void on_begun(void *context)
{
    ((struct outcome *)context)->begun++;
}

static void on_done(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct outcome *outcome = context;
    outcome->bytes = bytes;
    outcome->length = length;
    outcome->ended++;
    if (error)
        outcome->error = *error;
    if (outcome->cancels) {
        fetcher_cancel(rig.fetcher, outcome->cancels->transfer);
        outcome->cancels->ended++;
    }
    uv_stop(&rig.loop); /* a timer may call this: then the loop must not wait for events */
}

/* path: of the test's server, or a whole URL, which must stay until the end. */
static void start_get(struct outcome *outcome, const char *url)
{
    struct transfer_request request = {.direction = TRANSFER_DOWNLOAD,
                                       .url = url,
                                       .bytes_max = INPUT_BYTES,
                                       .begun = on_begun,
                                       .done = on_done,
                                       .context = outcome};
    outcome->transfer = fetcher_start(rig.fetcher, &request);
    assert_non_null(outcome->transfer);
    assert_int_equal(outcome->begun + outcome->ended, 0);
}

static void run_until(const struct outcome *outcome)
{
    double end = process_now() + patience(60);
    while (outcome->ended == 0 && process_now() < end)
        uv_run(&rig.loop, UV_RUN_ONCE);
    assert_int_equal(outcome->ended, 1);
}

static void drop(struct outcome *outcome)
{
    if (outcome->bytes)
        fetcher_release(rig.fetcher, outcome->length);
    free(outcome->bytes);
    outcome->bytes = NULL;
}

static const char *url_of(const char *path)
{
    static char urls[8][9000];
    static unsigned next;
    char *url = urls[next++ % 8];
    snprintf(url, sizeof urls[0], "%s%s", *path == '/' ? rig.origin : "", path);
    return url;
}

static struct outcome get(const char *path)
{
    struct outcome outcome = {0};
    if (!rig.fetcher)
        create();
    start_get(&outcome, url_of(path));
    run_until(&outcome);
    return outcome;
}

static struct outcome put_with(const char *path, const void *bytes, size_t length,
                               const char *headers)
{
    struct outcome outcome = {0};
    if (!rig.fetcher)
        create();
    struct transfer_request request = {.direction = TRANSFER_UPLOAD,
                                       .url = url_of(path),
                                       .body = bytes,
                                       .body_bytes = length,
                                       .mime = "image/png",
                                       .headers = headers,
                                       .done = on_done,
                                       .context = &outcome};
    outcome.transfer = fetcher_start(rig.fetcher, &request);
    run_until(&outcome);
    return outcome;
}

static struct outcome put(const char *path, const void *bytes, size_t length)
{
    return put_with(path, bytes, length, NULL);
}

static void check_error(const char *what, const struct outcome *outcome, enum status status,
                        const char *text)
{
    if (outcome->error.status != status || !strstr(outcome->error.text, text))
        fail_msg("%s: %s: %s", what, status_name(outcome->error.status), outcome->error.text);
    assert_null(outcome->bytes);
}

static void check_get(const char *path, enum status status, const char *text)
{
    struct outcome outcome = get(path);
    check_error(path, &outcome, status, text);
}

/* A file with bytes that differ everywhere. */
static uint8_t *store(const char *name, size_t length)
{
    uint8_t *bytes = malloc(length + 1);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    web_server_put(rig.server, name, bytes, length);
    return bytes;
}

static void check_bytes(struct outcome *outcome, const uint8_t *bytes, size_t length)
{
    if (outcome->error.status != STATUS_OK)
        fail_msg("%s", outcome->error.text);
    assert_int_equal(outcome->length, length);
    assert_memory_equal(outcome->bytes, bytes, length);
    drop(outcome);
}

/* ---- downloads ------------------------------------------------------------------------------ */

TEST(test_download, IN_RIG)
{
    static const size_t lengths[] = {0, 1, 65535, 65536, 65537, 300000, INPUT_BYTES};
    static const char *const paths[] = {"/file/a", "/chunked/a", "/encoded/a"};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        uint8_t *bytes = store("a", lengths[i]);
        for (size_t p = 0; p < COUNT_OF(paths); p++) {
            struct outcome outcome = get(paths[p]);
            assert_int_equal(outcome.begun, 1);
            check_bytes(&outcome, bytes, lengths[i]);
        }
        free(bytes);
    }
    assert_int_equal(rig.totals.requests[TRANSFER_DOWNLOAD], 21);
    assert_int_equal(rig.totals.failed[TRANSFER_DOWNLOAD], 0);
    assert_true(rig.totals.bytes[TRANSFER_DOWNLOAD] ==
                3ull * (1 + 65535 + 65536 + 65537 + 300000 + INPUT_BYTES));
}

TEST(test_body_beyond_its_length, IN_RIG)
{
    uint8_t *bytes = store("a", 100000);
    struct outcome outcome = get("/long/a");
    check_bytes(&outcome, bytes, 100000);
    free(bytes);
}

TEST(test_connection_is_used_again, IN_RIG)
{
    uint8_t *bytes = store("a", 10);
    for (int i = 0; i < 5; i++) {
        struct outcome outcome = get("/file/a");
        check_bytes(&outcome, bytes, 10);
        check_get("/status/404", STATUS_INPUT_MISSING, "404");
        check_get("/redirect/302?/status/404", STATUS_INPUT_MISSING, "404");
    }
    assert_int_equal(web_server_connections(rig.server), 1);
    free(bytes);
}

TEST(test_request, IN_RIG)
{
    free(store("a", 10));
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    struct outcome outcome = get("/file/a?sig=%2f+b");
    drop(&outcome);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    assert_int_equal(outcome.error.status, STATUS_OK);
    char *head = web_server_head(rig.server, "GET /file/a?sig=%2f+b HTTP/1.1\r\n");
    assert_non_null(head);
    assert_non_null(strstr(head, "User-Agent: gpuimgd/"));
    assert_null(strstr(head, "Accept-Encoding"));
    assert_null(strstr(head, "Authorization"));
    free(head);
}

TEST(test_statuses, IN_RIG)
{
    static const struct {
        const char *path;
        enum status status;
    } rows[] = {
        {"/file/none", STATUS_INPUT_MISSING},  {"/status/404", STATUS_INPUT_MISSING},
        {"/status/410", STATUS_INPUT_MISSING}, {"/status/400", STATUS_PATH_REFUSED},
        {"/status/401", STATUS_PATH_REFUSED},  {"/status/403", STATUS_PATH_REFUSED},
        {"/status/201", STATUS_PATH_REFUSED},  {"/status/206", STATUS_PATH_REFUSED},
        {"/status/300", STATUS_PATH_REFUSED},  {"/status/304", STATUS_PATH_REFUSED},
        {"/status/408", STATUS_INPUT_UNREADABLE}, {"/status/425", STATUS_INPUT_UNREADABLE},
        {"/status/429", STATUS_INPUT_UNREADABLE}, {"/status/500", STATUS_INPUT_UNREADABLE},
        {"/status/503", STATUS_INPUT_UNREADABLE}, {"/status/599", STATUS_INPUT_UNREADABLE},
        {"/body/404", STATUS_INPUT_MISSING},   {"/body/503", STATUS_INPUT_UNREADABLE},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_get(rows[i].path, rows[i].status, strrchr(rows[i].path, '/') + 1);
    assert_int_equal(rig.totals.failed[TRANSFER_DOWNLOAD], COUNT_OF(rows));
    assert_int_equal(rig.totals.bytes[TRANSFER_DOWNLOAD], 0);
}

/* The code of an error of S3 is in the message, unless it could be a secret. */
TEST(test_codes_of_errors, IN_RIG)
{
    static const struct {
        const char *path;
        enum status status;
        const char *text;
    } rows[] = {
        {"/error/403/SignatureDoesNotMatch", STATUS_PATH_REFUSED,
         "with status 403 (SignatureDoesNotMatch); check the access rights"},
        {"/error/400/ExpiredToken", STATUS_INPUT_UNREADABLE, "with status 400 (ExpiredToken)"},
        {"/error/400/RequestTimeout", STATUS_INPUT_UNREADABLE, "status 400 (RequestTimeout)"},
        {"/error/503/SlowDown", STATUS_INPUT_UNREADABLE, "with status 503 (SlowDown)"},
        {"/error/400/InvalidToken", STATUS_PATH_REFUSED, "with status 400 (InvalidToken)"},
        {"/error/404/NoSuchKey", STATUS_INPUT_MISSING, "does not exist (status 404)"},
        {"/error/403/", STATUS_PATH_REFUSED, "with status 403; check"},
        {"/error/403/No1", STATUS_PATH_REFUSED, "with status 403; check"},
        {"/error/403/abcdefabcdefabcdefabcdefabcdefabcdefabcdefabcdef", STATUS_PATH_REFUSED,
         "with status 403; check"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        check_get(rows[i].path, rows[i].status, rows[i].text);
        if (rows[i].status != STATUS_INPUT_MISSING) {
            struct outcome outcome = put(rows[i].path, "bytes", 5);
            check_error(rows[i].path, &outcome,
                        rows[i].status == STATUS_PATH_REFUSED ? rows[i].status
                                                              : STATUS_WRITE_FAILED,
                        rows[i].text);
        }
    }
}

TEST(test_hostile_answers, IN_RIG)
{
    set("url_timeout_s", "2"); /* below 1 KiB/s for one second is too slow */
    free(store("big", INPUT_BYTES + 1));
    check_get("/file/big", STATUS_INPUT_TOO_LARGE, "has 1000001 bytes; at most 1000000");
    check_get("/chunked/big", STATUS_INPUT_TOO_LARGE, "has more than 1000000 bytes");
    check_get("/endless", STATUS_INPUT_TOO_LARGE, "has more than 1000000 bytes");
    check_get("/large", STATUS_INPUT_TOO_LARGE, "has 10000000000 bytes");
    check_get("/short", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
    check_get("/rude", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
    check_get("/headers", STATUS_INPUT_UNREADABLE, "headers");
    check_get("/slow", STATUS_INPUT_UNREADABLE, "too slow");
    check_get("/silent", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
}

TEST(test_refused_connection, IN_RIG)
{
    set("url_prefixes", "http://127.0.0.1:1/ http://none.invalid/");
    check_get("http://127.0.0.1:1/a?secret", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
    check_get("http://none.invalid/a?secret", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
}

TEST(test_messages_have_no_query, IN_RIG)
{
    static const char *const paths[] = {"/status/404?secret", "/status/500?secret", "/loop?secret",
                                        "/short?secret", "/large?secret", "/headers?secret",
                                        "/redirect/302?http://h/?secret", "/lost?secret"};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct outcome outcome = get(paths[i]);
        assert_int_not_equal(outcome.error.status, STATUS_OK);
        if (strstr(outcome.error.text, "secret"))
            fail_msg("%s: %s", paths[i], outcome.error.text);
    }
}

/* ---- redirects ------------------------------------------------------------------------------ */

TEST(test_redirects, IN_RIG)
{
    static const unsigned statuses[] = {301, 302, 303, 307, 308};
    uint8_t *bytes = store("a", 1000);
    char path[256];
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        snprintf(path, sizeof path, "/redirect/%u?/redirect/%u?%s/file/a", statuses[i],
                 statuses[i], rig.origin);
        struct outcome outcome = get(path);
        check_bytes(&outcome, bytes, 1000);
        assert_int_equal(outcome.begun, 1);
    }
    free(bytes);
    check_get("/loop", STATUS_PATH_REFUSED, "redirected again after 5 redirects");
    assert_int_equal(web_server_count(rig.server, "GET /loop "), 6);
    check_get("/lost", STATUS_PATH_REFUSED, "without a Location");
}

TEST(test_redirects_must_stay_within_the_prefixes, IN_RIG)
{
    static const char *const targets[] = {
        "http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:1/", "https://127.0.0.1/",
        "http://localhost/", "file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/",
        "/outside", "/redirect/../outside", "/redirect/%2e%2e/outside", "//evil.example/redirect/",
        "http://u:p@127.0.0.1/redirect/", "http:///redirect/",
    };
    char path[256];
    snprintf(rig.prefix, sizeof rig.prefix, "%s/redirect/", rig.origin);
    set("url_prefixes", rig.prefix);
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        snprintf(path, sizeof path, "/redirect/302?%s", targets[i]);
        check_get(path, STATUS_PATH_REFUSED, "URL");
    }
    assert_int_equal(web_server_count(rig.server, ""), COUNT_OF(targets));
}

/* The name is allowed by its prefix, but its address is not. */
TEST(test_forbidden_addresses, IN_RIG)
{
    char prefixes[256], url[64];
    unsigned port = web_server_port(rig.server);
    set("url_networks", "127.0.0.2");
    snprintf(prefixes, sizeof prefixes, "%s/ http://localhost:%u/ http://[::1]:%u/ "
             "http://[::ffff:127.0.0.1]:%u/ http://169.254.169.254/ http://127.0.0.2:%u/",
             rig.origin, port, port, port, port);
    set("url_prefixes", prefixes);
    free(store("a", 10));
    check_get("/file/a", STATUS_PATH_REFUSED, "127.0.0.1 (loopback)");
    snprintf(url, sizeof url, "http://localhost:%u/file/a", port);
    check_get(url, STATUS_PATH_REFUSED, "(loopback)");
    snprintf(url, sizeof url, "http://[::1]:%u/file/a", port);
    check_get(url, STATUS_PATH_REFUSED, "::1 (loopback)");
    snprintf(url, sizeof url, "http://[::ffff:127.0.0.1]:%u/file/a", port);
    check_get(url, STATUS_PATH_REFUSED, "(loopback)");
    check_get("http://169.254.169.254/latest/", STATUS_PATH_REFUSED, "169.254.169.254 (link-local");
    /* Allowed, but nothing listens there. */
    snprintf(url, sizeof url, "http://127.0.0.2:%u/file/a", port);
    check_get(url, STATUS_INPUT_UNREADABLE, "cannot be downloaded");
    assert_int_equal(web_server_connections(rig.server), 0);
}

/* ---- uploads -------------------------------------------------------------------------------- */

TEST(test_upload, IN_RIG)
{
    static const size_t lengths[] = {1, 65536, 3000000};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        size_t length;
        uint8_t *bytes = store("from", lengths[i]);
        struct outcome outcome = put("/file/to.png?sig=1", bytes, lengths[i]);
        assert_int_equal(outcome.error.status, STATUS_OK);
        uint8_t *there = web_server_get(rig.server, "to.png", &length);
        assert_int_equal(length, lengths[i]);
        assert_memory_equal(there, bytes, length);
        free(there);
        free(bytes);
    }
    char *head = web_server_head(rig.server, "PUT /file/to.png?sig=1 HTTP/1.1\r\n");
    assert_non_null(strstr(head, "\r\nContent-Type: image/png\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Length: 3000000\r\n"));
    free(head);
    assert_int_equal(rig.totals.requests[TRANSFER_UPLOAD], 3);
    assert_true(rig.totals.bytes[TRANSFER_UPLOAD] == 1 + 65536 + 3000000);
}

TEST(test_upload_headers, IN_RIG)
{
    static const char headers[] = "Cache-Control: max-age=60\nx-amz-meta-a: 1\nx-amz-meta-b: 2\n";
    struct outcome outcome = put_with("/redirect/307?/file/h", "bytes", 5, headers);
    assert_int_equal(outcome.error.status, STATUS_OK);
    static const char *const requests[] = {"PUT /redirect/307", "PUT /file/h "};
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        char *head = web_server_head(rig.server, requests[i]);
        assert_non_null(strstr(head, "\r\nContent-Type: image/png\r\n"));
        assert_non_null(strstr(head, "\r\nCache-Control: max-age=60\r\n"));
        assert_non_null(strstr(head, "\r\nx-amz-meta-a: 1\r\nx-amz-meta-b: 2\r\n"));
        free(head);
    }
}

/* libcurl signs all of them, and before 8.10 not those whose names it sorts wrongly. */
TEST(test_signed_headers, IN_RIG)
{
    set("url_prefixes", text_of("%s/ aws:eu-west-1", rig.origin));
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    struct outcome outcome = put_with(
        "/file/h", "bytes", 5, "Cache-Control: no-store\nx-amz-meta-b: 2\nx-amz-meta-ba: 1\n");
    assert_int_equal(outcome.error.status, STATUS_OK);
    char *head = web_server_head(rig.server, "PUT /file/h ");
    assert_non_null(strstr(head,
                           "SignedHeaders=cache-control;content-type;host;x-amz-content-sha256;"
                           "x-amz-date;x-amz-meta-b;x-amz-meta-ba"));
    free(head);
    bool sorts = curl_version_info(CURLVERSION_NOW)->version_num >= 0x080A00;
    static const char *const alike[] = {"x-amz-meta-b: 2\nx-amz-meta-b-a: 1\n",
                                        "x-amz-meta-a: 1\nx-amz-meta-b: 2\nx-amz-meta-b.: 1\n",
                                        "x-amz-meta-b: 2\nx-amz-meta-b0: 1\nx-amz-meta-bb: 3\n"};
    for (size_t i = 0; i < COUNT_OF(alike); i++) {
        outcome = put_with("/file/h", "bytes", 5, alike[i]);
        if (!sorts)
            check_error(alike[i], &outcome, STATUS_BAD_JOB, "the metadata \"x-amz-meta-b\"");
        else
            assert_int_equal(outcome.error.status, STATUS_OK);
    }
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

TEST(test_upload_statuses, IN_RIG)
{
    static const struct {
        const char *path;
        enum status status;
    } rows[] = {
        {"/status/200", STATUS_OK},            {"/status/201", STATUS_OK},
        {"/status/204", STATUS_OK},            {"/status/301", STATUS_PATH_REFUSED},
        {"/redirect/302?/file/x", STATUS_PATH_REFUSED},
        {"/redirect/303?/file/x", STATUS_PATH_REFUSED},
        {"/redirect/307?http://127.0.0.1:1/", STATUS_PATH_REFUSED},
        {"/loop", STATUS_PATH_REFUSED},        {"/status/403", STATUS_PATH_REFUSED},
        {"/status/404", STATUS_PATH_REFUSED},  {"/status/405", STATUS_PATH_REFUSED},
        {"/status/408", STATUS_WRITE_FAILED},  {"/status/429", STATUS_WRITE_FAILED},
        {"/status/500", STATUS_WRITE_FAILED},  {"/body/503", STATUS_WRITE_FAILED},
        {"/rude", STATUS_WRITE_FAILED},        {"/redirect/307?/file/x", STATUS_OK},
        {"/redirect/308?/file/y", STATUS_OK},
    };
    size_t length;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct outcome outcome = put(rows[i].path, "bytes", 5);
        check_error(rows[i].path, &outcome, rows[i].status, "");
    }
    for (const char *name = "x"; name; name = *name == 'x' ? "y" : NULL) {
        uint8_t *there = web_server_get(rig.server, name, &length);
        assert_int_equal(length, 5);
        free(there);
    }
    assert_int_equal(web_server_count(rig.server, "GET "), 0);
}

/* ---- the line, memory and cancels ----------------------------------------------------------- */

TEST(test_line, IN_RIG)
{
    struct outcome outcomes[20] = {0};
    uint8_t *bytes = store("a", 200000);
    set("url_connections", "3");
    create();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        start_get(&outcomes[i], url_of("/file/a"));
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        run_until(&outcomes[i]);
        check_bytes(&outcomes[i], bytes, 200000);
    }
    free(bytes);
    assert_in_range(web_server_connections(rig.server), 1, 3);
    assert_in_range(web_server_peak(rig.server), 1, 3);
}

/* url_bytes holds four of the inputs. The others wait until those are released. */
TEST(test_memory, IN_RIG)
{
    struct outcome outcomes[12] = {0};
    size_t ended = 0;
    uint8_t *bytes = store("a", 240000);
    rig.options.url_bytes = 1000000;
    create();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        start_get(&outcomes[i], url_of(i % 2 ? "/file/a" : "/chunked/a"));
    run_until(&outcomes[0]);
    double end = process_now() + patience(1);
    while (process_now() < end) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        process_sleep(0.001);
    }
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        ended += outcomes[i].ended;
    assert_in_range(ended, 1, 5); /* the oldest one may exceed url_bytes */
    for (size_t left = COUNT_OF(outcomes); left > 0;) {
        uv_run(&rig.loop, UV_RUN_ONCE);
        for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
            if (!outcomes[i].bytes)
                continue;
            check_bytes(&outcomes[i], bytes, 240000);
            left--;
        }
    }
    free(bytes);
}

TEST(test_cancel, IN_RIG)
{
    struct outcome outcomes[6] = {0};
    uint8_t *bytes = store("a", 100);
    set("url_connections", "3");
    create();
    /* One is silent, one is endless, one is cancelled in the line, one by the end of another. */
    static const char *const paths[] = {"/silent", "/slow", "/file/a", "/file/a", "/silent",
                                        "/file/a"};
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        start_get(&outcomes[i], url_of(paths[i]));
    fetcher_cancel(rig.fetcher, outcomes[3].transfer);
    outcomes[2].cancels = &outcomes[4];
    run_until(&outcomes[2]);
    run_until(&outcomes[5]);
    fetcher_cancel(rig.fetcher, outcomes[0].transfer);
    fetcher_cancel(rig.fetcher, outcomes[1].transfer);
    check_bytes(&outcomes[2], bytes, 100);
    check_bytes(&outcomes[5], bytes, 100);
    assert_int_equal(outcomes[0].ended + outcomes[1].ended + outcomes[3].ended, 0);
    struct outcome last = get("/file/a");
    check_bytes(&last, bytes, 100);
    free(bytes);
}

TEST(test_stop_with_transfers, IN_RIG)
{
    static struct outcome outcomes[40];
    memset(outcomes, 0, sizeof outcomes);
    create();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        start_get(&outcomes[i], url_of(i % 2 ? "/silent" : "/slow"));
    for (int i = 0; i < 20; i++) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        process_sleep(0.005);
    }
}

/* ---- prefixes and signatures ---------------------------------------------------------------- */

TEST(test_reload, IN_RIG)
{
    struct error error = {0};
    uint8_t *bytes = store("a", 10);
    struct outcome outcome = get("/file/a");
    check_bytes(&outcome, bytes, 10);
    set("url_prefixes", "https://h/ aws:eu:none");
    unsetenv("CREDENTIALS_DIRECTORY");
    assert_false(fetcher_reload(rig.fetcher, &error));
    outcome = get("/file/a");
    check_bytes(&outcome, bytes, 10);
    set("url_prefixes", "https://h/");
    error_clear(&error);
    assert_true(fetcher_reload(rig.fetcher, &error));
    check_get("/file/a", STATUS_PATH_REFUSED, "begins with no prefix");
    set("url_prefixes", "");
    assert_true(fetcher_reload(rig.fetcher, &error));
    check_get("/file/a", STATUS_PATH_REFUSED, "url_prefixes is empty");
    free(bytes);
}

TEST(test_signed_requests, IN_RIG)
{
    char prefixes[256];
    snprintf(prefixes, sizeof prefixes, "%s/file/ aws:eu-west-1 %s/redirect/ aws:eu-west-1 %s/",
             rig.origin, rig.origin, rig.origin);
    set("url_prefixes", prefixes);
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
    free(store("a", 10));
    struct outcome outcome = get("/file/a");
    drop(&outcome);
    assert_int_equal(outcome.error.status, STATUS_OK);
    char *head = web_server_head(rig.server, "GET /file/a ");
    assert_non_null(strstr(head, "Authorization: AWS4-HMAC-SHA256 Credential=AKID/"));
    assert_non_null(strstr(head, "/eu-west-1/s3/aws4_request"));
    assert_non_null(strcasestr(head, "x-amz-security-token: TOKEN"));
    assert_null(strstr(head, "SECRET"));
    free(head);
    /* Neither the keys nor the token follow a redirect to a prefix that is not signed. */
    check_get("/redirect/302/status/404", STATUS_INPUT_MISSING, "404");
    head = web_server_head(rig.server, "GET /status/404 ");
    assert_null(strcasestr(head, "authorization"));
    assert_null(strcasestr(head, "token"));
    free(head);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_SESSION_TOKEN");
}

/* Transfers wait for the answer of a role, and fail if it stays an error. A cancel, a reload and
 * the end come while others wait. */
TEST(test_role_without_keys, IN_RIG)
{
    struct outcome outcomes[6] = {0};
    struct error error = {0};
    const char *role = text_of("%s/file/ aws:eu-west-1:@instance %s/", rig.origin, rig.origin);
    set("url_prefixes", role);
    set("url_timeout_s", "0.05");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", text_of("%s/error/503/Busy/", rig.origin), 1);
    free(store("a", 10));
    check_get("/file/a", STATUS_INPUT_UNREADABLE,
              "/file/a\" is not signed: the role instance gets no keys: http://127.0.0.1");
    assert_int_equal(rig.totals.role_errors, 1);
    assert_string_equal(fetcher_lacks_keys(rig.fetcher), "");
    set("url_timeout_s", "20");
    check_get("/status/404", STATUS_INPUT_MISSING, "404"); /* is not signed */
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", text_of("%s/silent/", rig.origin), 1);
    assert_true(fetcher_reload(rig.fetcher, &error));
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        start_get(&outcomes[i], url_of(i < 5 ? "/file/a" : "/status/404"));
    run_until(&outcomes[5]);
    assert_int_equal(outcomes[0].begun + outcomes[0].ended, 0);
    fetcher_cancel(rig.fetcher, outcomes[0].transfer);
    set("url_prefixes", rig.prefix);
    assert_true(fetcher_reload(rig.fetcher, &error));
    for (size_t i = 1; i < 5; i++) {
        run_until(&outcomes[i]);
        assert_int_equal(outcomes[i].error.status, STATUS_OK);
        drop(&outcomes[i]);
    }
    assert_int_equal(outcomes[0].ended, 0);
    assert_int_equal(web_server_count(rig.server, "GET /file/a "), 4);
    set("url_prefixes", role);
    assert_true(fetcher_reload(rig.fetcher, &error));
    start_get(&outcomes[0], url_of("/file/a"));
    for (int i = 0; i < 20; i++) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        process_sleep(0.005);
    }
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
}

/* The reason is in the message beside a long URL, but no path of the endpoint, which is a secret.
 */
TEST(test_reason_of_a_role, IN_RIG)
{
    const char *code = "ReasonReasonReasonReasonReason";
    set("url_prefixes", text_of("%s/file/ aws:eu-west-1:@container", rig.origin));
    set("url_timeout_s", "0.05");
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", text_of("%s/error/404/%s", rig.origin, code), 1);
    struct outcome outcome = get(text_of("/file/%0200d", 0));
    check_error("a long URL", &outcome, STATUS_INPUT_UNREADABLE,
                text_of("gets no keys: %s: status 404, %s; check the role of the task, or the pod "
                        "identity association",
                        rig.origin, code));
    assert_non_null(strstr(outcome.error.text, rig.prefix));
    assert_null(strstr(outcome.error.text, "/error"));
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

static void store_keys(void)
{
    char text[256], end[32];
    time_t time_s = time(NULL) + 3600;
    struct tm utc;
    strftime(end, sizeof end, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time_s, &utc));
    snprintf(text, sizeof text,
             "{\"AccessKeyId\":\"ASIA\",\"SecretAccessKey\":\"S\",\"Token\":\"T\","
             "\"Expiration\":\"%s\"}",
             end);
    web_server_put(rig.server, "keys", text, strlen(text));
}

static void check_waits_for_keys(const char *reason)
{
    struct outcome outcomes[3] = {0};
    uint64_t errors = rig.totals.role_errors;
    double end = process_now() + patience(60);
    start_get(&outcomes[0], url_of("/file/a"));
    start_get(&outcomes[1], url_of("/file/a"));
    while (!*fetcher_lacks_keys(rig.fetcher) && process_now() < end)
        uv_run(&rig.loop, UV_RUN_ONCE);
    assert_true(rig.totals.role_errors > errors);
    assert_non_null(strstr(fetcher_lacks_keys(rig.fetcher), reason));
    start_get(&outcomes[2], url_of("/file/a")); /* the role rests */
    for (int i = 0; i < 20; i++) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        process_sleep(0.02);
    }
    assert_int_equal(outcomes[0].ended + outcomes[1].ended + outcomes[2].ended, 0);
    store_keys();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        run_until(&outcomes[i]);
        assert_string_equal(outcomes[i].error.text, "");
        drop(&outcomes[i]);
    }
    assert_string_equal(fetcher_lacks_keys(rig.fetcher), "");
}

/* Keys come late at the start, or after the old ones have ended: no transfer fails. */
TEST(test_keys_that_come_late, IN_RIG)
{
    set("url_prefixes", text_of("%s/file/ aws:eu-west-1:@container", rig.origin));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", text_of("%s/file/keys", rig.origin), 1);
    free(store("a", 10));
    create();
    check_waits_for_keys("status 404");
    suspended_s += 3601;
    web_server_put(rig.server, "keys", "none", 4);
    check_waits_for_keys("neither JSON nor XML");
    suspended_s = 0;
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

/* Timers stand still while the host is suspended. */
TEST(test_role_after_a_suspension, IN_RIG)
{
    set("url_prefixes", text_of("%s/file/ aws:eu-west-1:@container", rig.origin));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", text_of("%s/file/keys", rig.origin), 1);
    store_keys();
    free(store("a", 10));
    create();
    for (size_t i = 1; i <= 3; i++) {
        struct outcome outcomes[3] = {0};
        for (size_t j = 0; j < COUNT_OF(outcomes); j++)
            start_get(&outcomes[j], url_of("/file/a"));
        for (size_t j = 0; j < COUNT_OF(outcomes); j++) {
            run_until(&outcomes[j]);
            assert_string_equal(outcomes[j].error.text, "");
            drop(&outcomes[j]);
        }
        assert_int_equal(web_server_count(rig.server, "GET /file/keys "), i);
        suspended_s += 3601;
    }
    suspended_s = 0;
    assert_int_equal(rig.totals.role_errors, 0);
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

static bool was_signed(const char *request)
{
    char *head = web_server_head(rig.server, request);
    assert_non_null(head);
    bool is_signed = strcasestr(head, "authorization") || strcasestr(head, "x-amz-");
    free(head);
    return is_signed;
}

/* A server must not choose what the keys of another prefix sign: not by a redirect into it, and not
 * by one that comes back. Within the prefix of the job's URL, it may. */
TEST(test_redirects_are_signed_within_a_prefix, IN_RIG)
{
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    static const struct {
        const char *prefixes; /* %1$s: the server */
        bool is_signed;
    } rows[] = {
        {"%1$s/file/ aws:eu %1$s/redirect/", false},
        {"%1$s/file/ aws:eu %1$s/redirect/ aws:us", false},
        {"%1$s/ aws:eu", true},
        {"%1$s/", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char prefixes[256], path[128];
        snprintf(prefixes, sizeof prefixes, rows[i].prefixes, rig.origin);
        set("url_prefixes", prefixes);
        struct error error = {0};
        if (rig.fetcher && !fetcher_reload(rig.fetcher, &error))
            fail_msg("%s", error.text);
        snprintf(path, sizeof path, "r%zu", i);
        free(store(path, 10));
        snprintf(path, sizeof path, "/redirect/307/file/r%zu", i);
        struct outcome outcome = get(path);
        assert_int_equal(outcome.error.status, STATUS_OK);
        drop(&outcome);
        snprintf(path, sizeof path, "GET /file/r%zu ", i);
        assert_true(was_signed(path) == rows[i].is_signed);
        snprintf(path, sizeof path, "/redirect/307/file/u%zu", i);
        outcome = put(path, "bytes", 5);
        assert_int_equal(outcome.error.status, STATUS_OK);
        snprintf(path, sizeof path, "PUT /file/u%zu ", i);
        assert_true(was_signed(path) == rows[i].is_signed);
    }
    /* Out of a signed prefix and back. */
    set("url_prefixes", text_of("%s/redirect/302 aws:eu %s/file/ aws:eu %s/redirect/", rig.origin,
                                rig.origin, rig.origin));
    struct error error = {0};
    assert_true(fetcher_reload(rig.fetcher, &error));
    free(store("back", 10));
    struct outcome outcome = get("/redirect/302/redirect/307/file/back");
    assert_int_equal(outcome.error.status, STATUS_OK);
    drop(&outcome);
    assert_true(was_signed("GET /redirect/302"));
    assert_false(was_signed("GET /redirect/307"));
    assert_false(was_signed("GET /file/back "));
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

#else

TEST(test_without_libcurl)
{
    struct options options;
    struct error error = {0};
    assert_true(options_init(&options, &error));
    struct errors errors = {0};
    assert_true(fetcher_check(&options, &errors));
    assert_true(options_set(&options, "url_prefixes", "https://h/", &error));
    assert_false(fetcher_check(&options, &errors));
    assert_non_null(strstr(errors.first.text, "no libcurl"));
    options_clear(&options);
}

#endif

TEST_MAIN()
