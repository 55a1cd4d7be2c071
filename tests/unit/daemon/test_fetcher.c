/* Tests of downloads and uploads with an HTTP server that is honest or hostile. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/transfers.h"

#ifdef GPUIMGD_CURL

#include <curl/curl.h>

static void check_bytes(struct transfer_outcome *outcome, const uint8_t *bytes, size_t length)
{
    if (outcome->error.status != STATUS_OK)
        fail_msg("%s", outcome->error.text);
    assert_int_equal(outcome->length, length);
    assert_memory_equal(outcome->bytes, bytes, length);
    transfers_drop(outcome);
}

/* ---- downloads ------------------------------------------------------------------------------ */

TEST(test_download, IN_RIG)
{
    static const size_t lengths[] = {0, 1, 65535, 65536, 65537, 300000, TRANSFER_BYTES_MAX};
    static const char *const paths[] = {"/file/a", "/chunked/a", "/encoded/a"};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        uint8_t *bytes = transfers_store("a", lengths[i]);
        for (size_t p = 0; p < COUNT_OF(paths); p++) {
            struct transfer_outcome outcome = transfers_get(paths[p]);
            assert_int_equal(outcome.begun, 1);
            check_bytes(&outcome, bytes, lengths[i]);
        }
        free(bytes);
    }
    assert_int_equal(transfers.totals.requests[TRANSFER_DOWNLOAD], 21);
    assert_int_equal(transfers.totals.failed[TRANSFER_DOWNLOAD], 0);
    assert_true(transfers.totals.bytes[TRANSFER_DOWNLOAD] ==
                3ull * (1 + 65535 + 65536 + 65537 + 300000 + TRANSFER_BYTES_MAX));
}

TEST(test_body_beyond_its_length, IN_RIG)
{
    uint8_t *bytes = transfers_store("a", 100000);
    struct transfer_outcome outcome = transfers_get("/long/a");
    check_bytes(&outcome, bytes, 100000);
    free(bytes);
}

TEST(test_connection_is_used_again, IN_RIG)
{
    uint8_t *bytes = transfers_store("a", 10);
    for (int i = 0; i < 5; i++) {
        struct transfer_outcome outcome = transfers_get("/file/a");
        check_bytes(&outcome, bytes, 10);
        transfers_check_get("/status/404", STATUS_INPUT_MISSING, "404");
        transfers_check_get("/redirect/302?/status/404", STATUS_INPUT_MISSING, "404");
    }
    assert_int_equal(web_server_connections(transfers.server), 1);
    free(bytes);
}

TEST(test_request, IN_RIG)
{
    free(transfers_store("a", 10));
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    struct transfer_outcome outcome = transfers_get("/file/a?sig=%2f+b");
    transfers_drop(&outcome);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    assert_int_equal(outcome.error.status, STATUS_OK);
    char *head = web_server_head(transfers.server, "GET /file/a?sig=%2f+b HTTP/1.1\r\n");
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
        transfers_check_get(rows[i].path, rows[i].status, strrchr(rows[i].path, '/') + 1);
    assert_int_equal(transfers.totals.failed[TRANSFER_DOWNLOAD], COUNT_OF(rows));
    assert_int_equal(transfers.totals.bytes[TRANSFER_DOWNLOAD], 0);
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
        transfers_check_get(rows[i].path, rows[i].status, rows[i].text);
        if (rows[i].status != STATUS_INPUT_MISSING) {
            struct transfer_outcome outcome = transfers_put(rows[i].path, "bytes", 5);
            transfers_check_error(rows[i].path, &outcome,
                                  rows[i].status == STATUS_PATH_REFUSED ? rows[i].status
                                                                        : STATUS_WRITE_FAILED,
                                  rows[i].text);
        }
    }
}

TEST(test_hostile_answers, IN_RIG)
{
    transfers_set("url_timeout_s", "2");
    free(transfers_store("big", TRANSFER_BYTES_MAX + 1));
    transfers_check_get("/file/big", STATUS_INPUT_TOO_LARGE, "has 1000001 bytes; at most 1000000");
    transfers_check_get("/chunked/big", STATUS_INPUT_TOO_LARGE, "has more than 1000000 bytes");
    transfers_check_get("/endless", STATUS_INPUT_TOO_LARGE, "has more than 1000000 bytes");
    transfers_check_get("/large", STATUS_INPUT_TOO_LARGE, "has 10000000000 bytes");
    transfers_check_get("/short", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
    transfers_check_get("/rude", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
    transfers_check_get("/headers", STATUS_INPUT_UNREADABLE, "headers");
    transfers_check_get("/silent", STATUS_INPUT_UNREADABLE, "cannot be downloaded");
}

/* The timeout leaves 3 s between the limit of the speed and the end, so that a busy machine does
 * not reach the end first. */
TEST(test_slow_answers, IN_RIG)
{
    transfers_set("url_timeout_s", "6"); /* below 1 KiB/s for 3 s is too slow */
    transfers_check_get("/slow", STATUS_INPUT_UNREADABLE, "too slow");
}

TEST(test_refused_connection, IN_RIG)
{
    transfers_set("url_prefixes", "http://127.0.0.1:1/ http://none.invalid/");
    transfers_check_get("http://127.0.0.1:1/a?secret", STATUS_INPUT_UNREADABLE,
                        "cannot be downloaded");
    transfers_check_get("http://none.invalid/a?secret", STATUS_INPUT_UNREADABLE,
                        "cannot be downloaded");
}

TEST(test_messages_have_no_query, IN_RIG)
{
    static const char *const paths[] = {"/status/404?secret", "/status/500?secret", "/loop?secret",
                                        "/short?secret", "/large?secret", "/headers?secret",
                                        "/redirect/302?http://h/?secret", "/lost?secret"};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct transfer_outcome outcome = transfers_get(paths[i]);
        assert_int_not_equal(outcome.error.status, STATUS_OK);
        if (strstr(outcome.error.text, "secret"))
            fail_msg("%s: %s", paths[i], outcome.error.text);
    }
}

/* ---- redirects ------------------------------------------------------------------------------ */

TEST(test_redirects, IN_RIG)
{
    static const unsigned statuses[] = {301, 302, 303, 307, 308};
    uint8_t *bytes = transfers_store("a", 1000);
    char path[256];
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        snprintf(path, sizeof path, "/redirect/%u?/redirect/%u?%s/file/a", statuses[i], statuses[i],
                 transfers.origin);
        struct transfer_outcome outcome = transfers_get(path);
        check_bytes(&outcome, bytes, 1000);
        assert_int_equal(outcome.begun, 1);
    }
    free(bytes);
    transfers_check_get("/loop", STATUS_PATH_REFUSED, "redirected again after 5 redirects");
    assert_int_equal(web_server_count(transfers.server, "GET /loop "), 6);
    transfers_check_get("/lost", STATUS_PATH_REFUSED, "without a Location");
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
    snprintf(transfers.prefix, sizeof transfers.prefix, "%s/redirect/", transfers.origin);
    transfers_set("url_prefixes", transfers.prefix);
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        snprintf(path, sizeof path, "/redirect/302?%s", targets[i]);
        transfers_check_get(path, STATUS_PATH_REFUSED, "URL");
    }
    assert_int_equal(web_server_count(transfers.server, ""), COUNT_OF(targets));
}

/* The name is allowed by its prefix, but its address is not. */
TEST(test_forbidden_addresses, IN_RIG)
{
    char prefixes[256], url[64];
    unsigned port = web_server_port(transfers.server);
    transfers_set("url_networks", "127.0.0.2");
    snprintf(prefixes, sizeof prefixes,
             "%s/ http://localhost:%u/ http://[::1]:%u/ "
             "http://[::ffff:127.0.0.1]:%u/ http://169.254.169.254/ http://127.0.0.2:%u/",
             transfers.origin, port, port, port, port);
    transfers_set("url_prefixes", prefixes);
    free(transfers_store("a", 10));
    transfers_check_get("/file/a", STATUS_PATH_REFUSED, "127.0.0.1 (loopback)");
    snprintf(url, sizeof url, "http://localhost:%u/file/a", port);
    transfers_check_get(url, STATUS_PATH_REFUSED, "(loopback)");
    snprintf(url, sizeof url, "http://[::1]:%u/file/a", port);
    transfers_check_get(url, STATUS_PATH_REFUSED, "::1 (loopback)");
    snprintf(url, sizeof url, "http://[::ffff:127.0.0.1]:%u/file/a", port);
    transfers_check_get(url, STATUS_PATH_REFUSED, "(loopback)");
    transfers_check_get("http://169.254.169.254/latest/", STATUS_PATH_REFUSED,
                        "169.254.169.254 (link-local");
    /* Allowed, but nothing listens there. */
    snprintf(url, sizeof url, "http://127.0.0.2:%u/file/a", port);
    transfers_check_get(url, STATUS_INPUT_UNREADABLE, "cannot be downloaded");
    assert_int_equal(web_server_connections(transfers.server), 0);
}

/* ---- uploads -------------------------------------------------------------------------------- */

TEST(test_upload, IN_RIG)
{
    static const size_t lengths[] = {1, 65536, 3000000};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        size_t length;
        uint8_t *bytes = transfers_store("from", lengths[i]);
        struct transfer_outcome outcome = transfers_put("/file/to.png?sig=1", bytes, lengths[i]);
        assert_int_equal(outcome.error.status, STATUS_OK);
        uint8_t *there = web_server_get(transfers.server, "to.png", &length);
        assert_int_equal(length, lengths[i]);
        assert_memory_equal(there, bytes, length);
        free(there);
        free(bytes);
    }
    char *head = web_server_head(transfers.server, "PUT /file/to.png?sig=1 HTTP/1.1\r\n");
    assert_non_null(strstr(head, "\r\nContent-Type: image/png\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Length: 3000000\r\n"));
    free(head);
    assert_int_equal(transfers.totals.requests[TRANSFER_UPLOAD], 3);
    assert_true(transfers.totals.bytes[TRANSFER_UPLOAD] == 1 + 65536 + 3000000);
}

TEST(test_upload_headers, IN_RIG)
{
    static const char headers[] = "Cache-Control: max-age=60\nx-amz-meta-a: 1\nx-amz-meta-b: 2\n";
    struct transfer_outcome outcome =
        transfers_put_with("/redirect/307?/file/h", "bytes", 5, headers);
    assert_int_equal(outcome.error.status, STATUS_OK);
    static const char *const requests[] = {"PUT /redirect/307", "PUT /file/h "};
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        char *head = web_server_head(transfers.server, requests[i]);
        assert_non_null(strstr(head, "\r\nContent-Type: image/png\r\n"));
        assert_non_null(strstr(head, "\r\nCache-Control: max-age=60\r\n"));
        assert_non_null(strstr(head, "\r\nx-amz-meta-a: 1\r\nx-amz-meta-b: 2\r\n"));
        free(head);
    }
}

/* libcurl signs all of them, and before 8.10 not those whose names it sorts wrongly. */
TEST(test_signed_headers, IN_RIG)
{
    transfers_set("url_prefixes", text_of("%s/ aws:eu-west-1", transfers.origin));
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    struct transfer_outcome outcome = transfers_put_with(
        "/file/h", "bytes", 5, "Cache-Control: no-store\nx-amz-meta-b: 2\nx-amz-meta-ba: 1\n");
    assert_int_equal(outcome.error.status, STATUS_OK);
    char *head = web_server_head(transfers.server, "PUT /file/h ");
    assert_non_null(strstr(head,
                           "SignedHeaders=cache-control;content-type;host;x-amz-content-sha256;"
                           "x-amz-date;x-amz-meta-b;x-amz-meta-ba"));
    free(head);
    bool sorts = curl_version_info(CURLVERSION_NOW)->version_num >= 0x080A00;
    static const char *const alike[] = {"x-amz-meta-b: 2\nx-amz-meta-b-a: 1\n",
                                        "x-amz-meta-a: 1\nx-amz-meta-b: 2\nx-amz-meta-b.: 1\n",
                                        "x-amz-meta-b: 2\nx-amz-meta-b0: 1\nx-amz-meta-bb: 3\n"};
    for (size_t i = 0; i < COUNT_OF(alike); i++) {
        outcome = transfers_put_with("/file/h", "bytes", 5, alike[i]);
        if (!sorts)
            transfers_check_error(alike[i], &outcome, STATUS_BAD_JOB,
                                  "the metadata \"x-amz-meta-b\"");
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
        struct transfer_outcome outcome = transfers_put(rows[i].path, "bytes", 5);
        transfers_check_error(rows[i].path, &outcome, rows[i].status, "");
    }
    for (const char *name = "x"; name; name = *name == 'x' ? "y" : NULL) {
        uint8_t *there = web_server_get(transfers.server, name, &length);
        assert_int_equal(length, 5);
        free(there);
    }
    assert_int_equal(web_server_count(transfers.server, "GET "), 0);
}

/* ---- the line, memory and cancels ----------------------------------------------------------- */

TEST(test_line, IN_RIG)
{
    struct transfer_outcome outcomes[20] = {0};
    uint8_t *bytes = transfers_store("a", 200000);
    transfers_set("url_connections", "3");
    transfers_create();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        transfers_start_get(&outcomes[i], transfers_url("/file/a"));
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        transfers_run_until(&outcomes[i]);
        check_bytes(&outcomes[i], bytes, 200000);
    }
    free(bytes);
    assert_in_range(web_server_connections(transfers.server), 1, 3);
    assert_in_range(web_server_peak(transfers.server), 1, 3);
}

/* url_bytes holds four of the inputs. The others wait until those are released. */
TEST(test_memory, IN_RIG)
{
    struct transfer_outcome outcomes[12] = {0};
    size_t ended = 0;
    uint8_t *bytes = transfers_store("a", 240000);
    transfers.options.url_bytes = 1000000;
    transfers_create();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        transfers_start_get(&outcomes[i], transfers_url(i % 2 ? "/file/a" : "/chunked/a"));
    transfers_run_until(&outcomes[0]);
    double end = process_now() + patience(1);
    while (process_now() < end) {
        uv_run(&transfers.loop, UV_RUN_NOWAIT);
        process_sleep(0.001);
    }
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        ended += outcomes[i].ended;
    assert_in_range(ended, 1, 5); /* the oldest one may exceed url_bytes */
    for (size_t left = COUNT_OF(outcomes); left > 0;) {
        uv_run(&transfers.loop, UV_RUN_ONCE);
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
    struct transfer_outcome outcomes[6] = {0};
    uint8_t *bytes = transfers_store("a", 100);
    transfers_set("url_connections", "3");
    transfers_create();
    /* One is silent, one is endless, one is cancelled in the line, one by the end of another. */
    static const char *const paths[] = {"/silent", "/slow", "/file/a", "/file/a", "/silent",
                                        "/file/a"};
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        transfers_start_get(&outcomes[i], transfers_url(paths[i]));
    fetcher_cancel(transfers.fetcher, outcomes[3].transfer);
    outcomes[2].cancels = &outcomes[4];
    transfers_run_until(&outcomes[2]);
    transfers_run_until(&outcomes[5]);
    fetcher_cancel(transfers.fetcher, outcomes[0].transfer);
    fetcher_cancel(transfers.fetcher, outcomes[1].transfer);
    check_bytes(&outcomes[2], bytes, 100);
    check_bytes(&outcomes[5], bytes, 100);
    assert_int_equal(outcomes[0].ended + outcomes[1].ended + outcomes[3].ended, 0);
    struct transfer_outcome last = transfers_get("/file/a");
    check_bytes(&last, bytes, 100);
    free(bytes);
}

TEST(test_stop_with_transfers, IN_RIG)
{
    static struct transfer_outcome outcomes[40];
    memset(outcomes, 0, sizeof outcomes);
    transfers_create();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        transfers_start_get(&outcomes[i], transfers_url(i % 2 ? "/silent" : "/slow"));
    for (int i = 0; i < 20; i++) {
        uv_run(&transfers.loop, UV_RUN_NOWAIT);
        process_sleep(0.005);
    }
}

/* ---- prefixes and signatures ---------------------------------------------------------------- */

TEST(test_reload, IN_RIG)
{
    struct error error = {0};
    uint8_t *bytes = transfers_store("a", 10);
    struct transfer_outcome outcome = transfers_get("/file/a");
    check_bytes(&outcome, bytes, 10);
    transfers_set("url_prefixes", "https://h/ aws:eu:none");
    unsetenv("CREDENTIALS_DIRECTORY");
    assert_false(fetcher_reload(transfers.fetcher, &error));
    outcome = transfers_get("/file/a");
    check_bytes(&outcome, bytes, 10);
    transfers_set("url_prefixes", "https://h/");
    error_clear(&error);
    assert_true(fetcher_reload(transfers.fetcher, &error));
    transfers_check_get("/file/a", STATUS_PATH_REFUSED, "begins with no prefix");
    transfers_set("url_prefixes", "");
    assert_true(fetcher_reload(transfers.fetcher, &error));
    transfers_check_get("/file/a", STATUS_PATH_REFUSED, "url_prefixes is empty");
    free(bytes);
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
