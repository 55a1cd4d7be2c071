/* Tests of the requests to the servers of roles, and of their answers, honest or hostile. */
#include <stdlib.h>
#include <unistd.h>

#include "daemon/web/role_answer.h"
#include "daemon/web/role_request.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

static const char *const variables[] = {"AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"};

static int clear_variables(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        unsetenv(variables[i]);
    return 0;
}

#define CLEARED .setup_func = clear_variables, .teardown_func = clear_variables

static void need_libcurl(void)
{
#ifndef GPUIMGD_CURL
    skip();
#endif
}

/* ---- requests ------------------------------------------------------------------------------- */

static struct role_request make(enum aws_role role, enum role_step step, const char *region)
{
    struct role_request request;
    struct error error = {0};
    if (!role_request_make(&request, role, step, region, "TOKEN", "my+role@x", &error))
        fail_msg("%s", error.text);
    return request;
}

static void check_request(enum aws_role role, enum role_step step, const char *region,
                          const char *method, const char *url, const char *header)
{
    struct role_request request = make(role, step, region);
    assert_string_equal(request.method, method);
    assert_string_equal(request.url.text, url);
    assert_string_equal(request.header, header);
    role_request_clear(&request);
    role_request_clear(&request);
}

static void check_refused(enum aws_role role, const char *text)
{
    struct error error = {0};
    assert_false(role_check(role, "eu-west-1", &error));
    if (!strstr(error.text, text))
        fail_msg("%s (expected %s)", error.text, text);
}

TEST(test_names)
{
    assert_int_equal(aws_role_by_name("instance"), AWS_ROLE_INSTANCE);
    assert_int_equal(aws_role_by_name("web-identity"), AWS_ROLE_WEB_IDENTITY);
    assert_int_equal(aws_role_by_name("container"), AWS_ROLE_CONTAINER);
    assert_int_equal(aws_role_by_name(""), AWS_ROLE_NONE);
    assert_int_equal(aws_role_by_name("Instance"), AWS_ROLE_NONE);
}

TEST(test_instance, CLEARED)
{
    need_libcurl();
    check_request(AWS_ROLE_INSTANCE, ROLE_STEP_TOKEN, "eu", "PUT",
                  "http://169.254.169.254/latest/api/token",
                  "X-aws-ec2-metadata-token-ttl-seconds: 60");
    check_request(AWS_ROLE_INSTANCE, ROLE_STEP_NAME, "eu", "GET",
                  "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
                  "X-aws-ec2-metadata-token: TOKEN");
    check_request(AWS_ROLE_INSTANCE, ROLE_STEP_KEYS, "eu", "GET",
                  "http://169.254.169.254/latest/meta-data/iam/security-credentials/my+role@x",
                  "X-aws-ec2-metadata-token: TOKEN");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://[fd00:ec2::254]/", 1);
    check_request(AWS_ROLE_INSTANCE, ROLE_STEP_TOKEN, "eu", "PUT",
                  "http://[fd00:ec2::254]/latest/api/token",
                  "X-aws-ec2-metadata-token-ttl-seconds: 60");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "file:///etc", 1);
    check_refused(AWS_ROLE_INSTANCE, "needs a URL in AWS_EC2_METADATA_SERVICE_ENDPOINT: the URL");
}

TEST(test_web_identity, CLEARED)
{
    need_libcurl();
    char path[] = "/tmp/gpuimgd-token.XXXXXX";
    close(mkstemp(path));
    check_refused(AWS_ROLE_WEB_IDENTITY, "needs AWS_ROLE_ARN, which is not set");
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a&b", 1);
    check_refused(AWS_ROLE_WEB_IDENTITY, "needs AWS_WEB_IDENTITY_TOKEN_FILE, which is not set");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
    static const char *const wrong[] = {"", " \n", "a b", "a\nb", "a\x7F", "\xC3\xA4"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_true(text_file_write(path, wrong[i], strlen(wrong[i])));
        check_refused(AWS_ROLE_WEB_IDENTITY, "needs a token of 1 to 16384 printable bytes");
    }
    assert_true(text_file_write(path, " a.B+/=&c \r\n", 12));
    struct role_request request = make(AWS_ROLE_WEB_IDENTITY, ROLE_STEP_KEYS, "eu-west-1");
    assert_string_equal(request.method, "POST");
    assert_string_equal(request.url.text, "https://sts.eu-west-1.amazonaws.com/");
    assert_string_equal(request.body,
                        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
                        "&RoleArn=%61%72%6E%3A%61%77%73%3A%69%61%6D%3A%3A%31%3A%72%6F%6C%65%2F"
                        "%61%26%62&RoleSessionName=%67%70%75%69%6D%67%64"
                        "&WebIdentityToken=%61%2E%42%2B%2F%3D%26%63");
    role_request_clear(&request);
    setenv("AWS_ROLE_SESSION_NAME", "s", 1);
    request = make(AWS_ROLE_WEB_IDENTITY, ROLE_STEP_KEYS, "cn-north-1");
    assert_string_equal(request.url.text, "https://sts.cn-north-1.amazonaws.com.cn/");
    assert_non_null(strstr(request.body, "&RoleSessionName=%73&"));
    role_request_clear(&request);
    setenv("AWS_ENDPOINT_URL_STS", "https://minio.example:9000", 1);
    request = make(AWS_ROLE_WEB_IDENTITY, ROLE_STEP_KEYS, "eu");
    assert_string_equal(request.url.text, "https://minio.example:9000/");
    role_request_clear(&request);
    assert_int_equal(remove(path), 0);
    check_refused(AWS_ROLE_WEB_IDENTITY, "No such file");
}

/* On ECS, the path alone protects the keys. */
static void hide_urls_of_containers(void)
{
    static const char full[] = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    static const char relative[] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    static const char *const urls[] = {"ftp://h/private",     "http://u:private@h/",
                                       "https://h/private#a", "https://h/ private",
                                       "http://h/private/%",  "private"};
    static const char *const paths[] = {"/private#a", "/private\n", "/private/%2", "private"};
    for (size_t i = 0; i < COUNT_OF(urls) + COUNT_OF(paths); i++) {
        struct error error = {0};
        bool is_url = i < COUNT_OF(urls);
        setenv(is_url ? full : relative, is_url ? urls[i] : paths[i - COUNT_OF(urls)], 1);
        assert_false(role_check(AWS_ROLE_CONTAINER, "eu", &error));
        if (strstr(error.text, "private") || !strstr(error.text, is_url ? full : relative))
            fail_msg("%s", error.text);
    }
    unsetenv(relative);
}

static bool is_safe(const char *text)
{
    struct url url;
    struct error error = {0};
    assert_int_equal(url_parse(&url, text, &error), STATUS_OK);
    bool safe = role_url_is_safe(&url);
    url_clear(&url);
    return safe;
}

TEST(test_container, CLEARED)
{
    need_libcurl();
    char path[] = "/tmp/gpuimgd-token.XXXXXX";
    static const char full[] = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    static const char *const good[] = {"http://169.254.170.23/v1/credentials",
                                       "http://169.254.170.2/x",
                                       "http://[fd00:ec2::23]/v1",
                                       "http://localhost:1234/",
                                       "http://127.9.9.9/",
                                       "http://[::1]:80/a",
                                       "https://any.example/"};
    static const char *const bad[] = {
        "http://any.example/",       "http://169.254.169.254/",        "http://127.example/",
        "http://localhost.example/", "http://169.254.170.23.example/", "http://[::2]/"};
    check_refused(AWS_ROLE_CONTAINER, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER");
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct error error = {0};
        setenv(full, good[i], 1);
        if (!role_check(AWS_ROLE_CONTAINER, "eu", &error))
            fail_msg("%s: %s", good[i], error.text);
        assert_true(is_safe(good[i]));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        setenv(full, bad[i], 1);
        check_refused(AWS_ROLE_CONTAINER, "needs https, or an address of this host");
        assert_false(is_safe(bad[i]));
    }
    hide_urls_of_containers();
    setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "v2", 1);
    check_refused(AWS_ROLE_CONTAINER, "that begins with /");
    setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/1-2", 1);
    check_request(AWS_ROLE_CONTAINER, ROLE_STEP_KEYS, "eu", "GET",
                  "http://169.254.170.2/v2/credentials/1-2", "");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic abc", 1);
    check_request(AWS_ROLE_CONTAINER, ROLE_STEP_KEYS, "eu", "GET",
                  "http://169.254.170.2/v2/credentials/1-2", "Authorization: Basic abc");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "a\r\nX: 1", 1);
    check_refused(AWS_ROLE_CONTAINER, "printable bytes in AWS_CONTAINER_AUTHORIZATION_TOKEN");
    close(mkstemp(path));
    assert_true(text_file_write(path, "file\n", 5));
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
    check_request(AWS_ROLE_CONTAINER, ROLE_STEP_KEYS, "eu", "GET",
                  "http://169.254.170.2/v2/credentials/1-2", "Authorization: file");
    assert_int_equal(remove(path), 0);
}

/* ---- answers -------------------------------------------------------------------------------- */

#define KEYS "\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S/+\",\"Token\":\"T==\""
#define ENDS "\"Expiration\":\"2001-09-09T01:46:40Z\""

TEST(test_keys)
{
    static const char *const texts[] = {
        "{" KEYS "," ENDS "}",
        " {\"Code\":\"Success\"," ENDS ",\n" KEYS ",\"Other\":[1,{}]} ",
        "{" KEYS ",\"Expiration\":\"2001-09-09T01:46:40.123Z\"}",
        "<R><Credentials>\n<AccessKeyId>A</AccessKeyId><SecretAccessKey>S/+</SecretAccessKey>"
        "<SessionToken>T==</SessionToken><Expiration>2001-09-09T01:46:40Z</Expiration>"
        "</Credentials></R>",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct aws_keys keys;
        struct error error = {0};
        double ends;
        if (!role_answer_keys(texts[i], strlen(texts[i]), &keys, &ends, &error))
            fail_msg("%s: %s", texts[i], error.text);
        assert_string_equal(keys.id, "A");
        assert_string_equal(keys.secret, "S/+");
        assert_string_equal(keys.token, "T==");
        assert_true(ends == 1e9);
    }
}

TEST(test_no_keys)
{
    static const char *const rows[][2] = {
        {"", "neither JSON nor XML"},
        {"[]", "neither JSON nor XML"},
        {"null", "neither JSON nor XML"},
        {"{" KEYS "," ENDS, "neither JSON nor XML"},
        {"{" KEYS "," KEYS "," ENDS "}", "neither JSON nor XML"},
        {"{}", "has no AccessKeyId"},
        {"{\"AccessKeyId\":1,\"SecretAccessKey\":{}}", "has no AccessKeyId"},
        {"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"\"}", "has no AccessKeyId"},
        {"{\"AccessKeyId\":\"A b\",\"SecretAccessKey\":\"S\"}", "has no AccessKeyId"},
        {"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\"," ENDS "}", "has no Token"},
        {"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T\\r\\nX: 1\"," ENDS "}",
         "has no Token"},
        {"{" KEYS "}", "has no Expiration"},
        {"{" KEYS ",\"Expiration\":1000000000}", "has no Expiration"},
        {"{" KEYS ",\"Expiration\":\"2001-09-09T01:46:40\"}", "has no Expiration"},
        {"{" KEYS ",\"Expiration\":\"2001-09-09\"}", "has no Expiration"},
        {"{" KEYS ",\"Expiration\":\"2001-09-09T01:46:40+00:00\"}", "has no Expiration"},
        {"{\"Code\":\"AssumeRoleUnauthorizedAccess\"}", "the code AssumeRoleUnauthorizedAccess"},
        {"{\"Code\":\"/v2/1\"," KEYS "," ENDS "}", "has the code of an error"},
        {"<Credentials></Credentials>", "has no AccessKeyId"},
        {"<Credentials><AccessKeyId>A", "neither JSON nor XML"},
        {"<Credentials><AccessKeyId>A<SecretAccessKey>S</Credentials>", "has no AccessKeyId"},
        {"</Credentials><Credentials>", "neither JSON nor XML"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct aws_keys keys;
        struct error error = {0};
        double ends;
        assert_false(role_answer_keys(rows[i][0], strlen(rows[i][0]), &keys, &ends, &error));
        if (!strstr(error.text, rows[i][1]))
            fail_msg("%s: %s", rows[i][0], error.text);
        assert_string_equal(keys.secret, "");
    }
}

/* Each cut of an answer is refused, and read only to its end. */
TEST(test_cut_answers)
{
    static const char *const texts[] = {
        "{" KEYS "," ENDS "}",
        "<Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>S</SecretAccessKey>"
        "<SessionToken>T</SessionToken><Expiration>2001-09-09T01:46:40Z</Expiration>"
        "</Credentials>"};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        for (size_t length = 0; length < strlen(texts[i]); length++) {
            struct aws_keys keys;
            struct error error = {0};
            double ends;
            char *text = malloc(length + 1); /* without a NUL at its end */
            memcpy(text, texts[i], length);
            char *exact = realloc(text, length > 0 ? length : 1);
            assert_false(role_answer_keys(exact, length, &keys, &ends, &error));
            free(exact);
        }
}

TEST(test_words)
{
    char word[8];
    assert_true(role_answer_word(" a+b \r\n", 7, word, sizeof word));
    assert_string_equal(word, "a+b");
    assert_true(role_answer_word("1234567", 7, word, sizeof word));
    assert_false(role_answer_word("12345678", 8, word, sizeof word));
    assert_false(role_answer_word(" \n", 2, word, sizeof word));
    assert_false(role_answer_word("a\nb", 3, word, sizeof word));
    assert_false(role_answer_word("a\0b", 3, word, sizeof word));
    assert_false(role_answer_word("\xC3\xA4", 2, word, sizeof word));
}

TEST(test_codes)
{
    static const char *const rows[][2] = {
        {"<E><Error><Type>Sender</Type><Code>AccessDenied</Code></Error></E>", "AccessDenied"},
        {"{\"code\":\"InvalidToken\",\"message\":\"no\"}", "InvalidToken"},
        {"{\"Code\":\"a\\u001b[1m\"}", ""},
        {"{\"code\":\"/v2/credentials/1-2\",\"message\":\"no\"}", "no"},
        {"<Code>5f1c3b1e-0000</Code>", ""},
        {"<Code></Code>", ""},
        {"<Code>", ""},
        {"", ""},
    };
    char code[64];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        role_answer_code(rows[i][0], strlen(rows[i][0]), code, sizeof code);
        assert_string_equal(code, rows[i][1]);
    }
}

TEST_MAIN()
