/* Tests of signed transfers with fixed keys, and with those of roles, which may come late. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/transfers.h"

#ifdef GPUIMGD_CURL

static time_t suspended_s; /* how long the host was suspended */

/* Replaces that of libc. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += clock == CLOCK_BOOTTIME ? suspended_s : 0;
    return status;
}

TEST(test_signed_requests, IN_RIG)
{
    char prefixes[256];
    snprintf(prefixes, sizeof prefixes, "%s/file/ aws:eu-west-1 %s/redirect/ aws:eu-west-1 %s/",
             transfers.origin, transfers.origin, transfers.origin);
    transfers_set("url_prefixes", prefixes);
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
    free(transfers_store("a", 10));
    struct transfer_outcome outcome = transfers_get("/file/a");
    transfers_drop(&outcome);
    assert_int_equal(outcome.error.status, STATUS_OK);
    char *head = web_server_head(transfers.server, "GET /file/a ");
    assert_non_null(strstr(head, "Authorization: AWS4-HMAC-SHA256 Credential=AKID/"));
    assert_non_null(strstr(head, "/eu-west-1/s3/aws4_request"));
    assert_non_null(strcasestr(head, "x-amz-security-token: TOKEN"));
    assert_null(strstr(head, "SECRET"));
    free(head);
    /* Neither the keys nor the token follow a redirect to a prefix that is not signed. */
    transfers_check_get("/redirect/302/status/404", STATUS_INPUT_MISSING, "404");
    head = web_server_head(transfers.server, "GET /status/404 ");
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
    struct transfer_outcome outcomes[6] = {0};
    struct error error = {0};
    const char *role =
        text_of("%s/file/ aws:eu-west-1:@instance %s/", transfers.origin, transfers.origin);
    transfers_set("url_prefixes", role);
    transfers_set("url_timeout_s", "0.05");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", text_of("%s/error/503/Busy/", transfers.origin), 1);
    free(transfers_store("a", 10));
    transfers_check_get(
        "/file/a", STATUS_INPUT_UNREADABLE,
        "/file/a\" is not signed: the role instance gets no keys: http://127.0.0.1");
    assert_int_equal(transfers.totals.role_errors, 1);
    assert_string_equal(fetcher_lacks_keys(transfers.fetcher), "");
    transfers_set("url_timeout_s", "20");
    transfers_check_get("/status/404", STATUS_INPUT_MISSING, "404"); /* is not signed */
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", text_of("%s/silent/", transfers.origin), 1);
    assert_true(fetcher_reload(transfers.fetcher, &error));
    for (size_t i = 0; i < COUNT_OF(outcomes); i++)
        transfers_start_get(&outcomes[i], transfers_url(i < 5 ? "/file/a" : "/status/404"));
    transfers_run_until(&outcomes[5]);
    assert_int_equal(outcomes[0].begun + outcomes[0].ended, 0);
    fetcher_cancel(transfers.fetcher, outcomes[0].transfer);
    transfers_set("url_prefixes", transfers.prefix);
    assert_true(fetcher_reload(transfers.fetcher, &error));
    for (size_t i = 1; i < 5; i++) {
        transfers_run_until(&outcomes[i]);
        assert_int_equal(outcomes[i].error.status, STATUS_OK);
        transfers_drop(&outcomes[i]);
    }
    assert_int_equal(outcomes[0].ended, 0);
    assert_int_equal(web_server_count(transfers.server, "GET /file/a "), 4);
    transfers_set("url_prefixes", role);
    assert_true(fetcher_reload(transfers.fetcher, &error));
    transfers_start_get(&outcomes[0], transfers_url("/file/a"));
    for (int i = 0; i < 20; i++) {
        uv_run(&transfers.loop, UV_RUN_NOWAIT);
        process_sleep(0.005);
    }
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
}

/* The reason is in the message beside a long URL, but no path of the endpoint, which is a secret.
 */
TEST(test_reason_of_a_role, IN_RIG)
{
    const char *code = "ReasonReasonReasonReasonReason";
    transfers_set("url_prefixes", text_of("%s/file/ aws:eu-west-1:@container", transfers.origin));
    transfers_set("url_timeout_s", "0.05");
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", text_of("%s/error/404/%s", transfers.origin, code),
           1);
    struct transfer_outcome outcome = transfers_get(text_of("/file/%0200d", 0));
    transfers_check_error(
        "a long URL", &outcome, STATUS_INPUT_UNREADABLE,
        text_of("gets no keys: %s: status 404, %s; check the role of the task, or the pod "
                "identity association",
                transfers.origin, code));
    assert_non_null(strstr(outcome.error.text, transfers.prefix));
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
    web_server_put(transfers.server, "keys", text, strlen(text));
}

static void check_waits_for_keys(const char *reason)
{
    struct transfer_outcome outcomes[3] = {0};
    uint64_t errors = transfers.totals.role_errors;
    double end = process_now() + patience(60);
    transfers_start_get(&outcomes[0], transfers_url("/file/a"));
    transfers_start_get(&outcomes[1], transfers_url("/file/a"));
    while (!*fetcher_lacks_keys(transfers.fetcher) && process_now() < end)
        uv_run(&transfers.loop, UV_RUN_ONCE);
    assert_true(transfers.totals.role_errors > errors);
    assert_non_null(strstr(fetcher_lacks_keys(transfers.fetcher), reason));
    transfers_start_get(&outcomes[2], transfers_url("/file/a")); /* the role rests */
    for (int i = 0; i < 20; i++) {
        uv_run(&transfers.loop, UV_RUN_NOWAIT);
        process_sleep(0.02);
    }
    assert_int_equal(outcomes[0].ended + outcomes[1].ended + outcomes[2].ended, 0);
    store_keys();
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        transfers_run_until(&outcomes[i]);
        assert_string_equal(outcomes[i].error.text, "");
        transfers_drop(&outcomes[i]);
    }
    assert_string_equal(fetcher_lacks_keys(transfers.fetcher), "");
}

/* Keys come late at the start, or after the old ones have ended: no transfer fails. */
TEST(test_keys_that_come_late, IN_RIG)
{
    transfers_set("url_prefixes", text_of("%s/file/ aws:eu-west-1:@container", transfers.origin));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", text_of("%s/file/keys", transfers.origin), 1);
    free(transfers_store("a", 10));
    transfers_create();
    check_waits_for_keys("status 404");
    suspended_s += 3601;
    web_server_put(transfers.server, "keys", "none", 4);
    check_waits_for_keys("neither JSON nor XML");
    suspended_s = 0;
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

/* Timers stand still while the host is suspended. */
TEST(test_role_after_a_suspension, IN_RIG)
{
    transfers_set("url_prefixes", text_of("%s/file/ aws:eu-west-1:@container", transfers.origin));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", text_of("%s/file/keys", transfers.origin), 1);
    store_keys();
    free(transfers_store("a", 10));
    transfers_create();
    for (size_t i = 1; i <= 3; i++) {
        struct transfer_outcome outcomes[3] = {0};
        for (size_t j = 0; j < COUNT_OF(outcomes); j++)
            transfers_start_get(&outcomes[j], transfers_url("/file/a"));
        for (size_t j = 0; j < COUNT_OF(outcomes); j++) {
            transfers_run_until(&outcomes[j]);
            assert_string_equal(outcomes[j].error.text, "");
            transfers_drop(&outcomes[j]);
        }
        assert_int_equal(web_server_count(transfers.server, "GET /file/keys "), i);
        suspended_s += 3601;
    }
    suspended_s = 0;
    assert_int_equal(transfers.totals.role_errors, 0);
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

static bool was_signed(const char *request)
{
    char *head = web_server_head(transfers.server, request);
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
        snprintf(prefixes, sizeof prefixes, rows[i].prefixes, transfers.origin);
        transfers_set("url_prefixes", prefixes);
        struct error error = {0};
        if (transfers.fetcher && !fetcher_reload(transfers.fetcher, &error))
            fail_msg("%s", error.text);
        snprintf(path, sizeof path, "r%zu", i);
        free(transfers_store(path, 10));
        snprintf(path, sizeof path, "/redirect/307/file/r%zu", i);
        struct transfer_outcome outcome = transfers_get(path);
        assert_int_equal(outcome.error.status, STATUS_OK);
        transfers_drop(&outcome);
        snprintf(path, sizeof path, "GET /file/r%zu ", i);
        assert_true(was_signed(path) == rows[i].is_signed);
        snprintf(path, sizeof path, "/redirect/307/file/u%zu", i);
        outcome = transfers_put(path, "bytes", 5);
        assert_int_equal(outcome.error.status, STATUS_OK);
        snprintf(path, sizeof path, "PUT /file/u%zu ", i);
        assert_true(was_signed(path) == rows[i].is_signed);
    }
    /* Out of a signed prefix and back. */
    transfers_set("url_prefixes", text_of("%s/redirect/302 aws:eu %s/file/ aws:eu %s/redirect/",
                                          transfers.origin, transfers.origin, transfers.origin));
    struct error error = {0};
    assert_true(fetcher_reload(transfers.fetcher, &error));
    free(transfers_store("back", 10));
    struct transfer_outcome outcome = transfers_get("/redirect/302/redirect/307/file/back");
    assert_int_equal(outcome.error.status, STATUS_OK);
    transfers_drop(&outcome);
    assert_true(was_signed("GET /redirect/302"));
    assert_false(was_signed("GET /redirect/307"));
    assert_false(was_signed("GET /file/back "));
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

#else

TEST(test_without_libcurl)
{
    skip();
}

#endif

TEST_MAIN()
