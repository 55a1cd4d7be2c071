/* Tests of the normal form of URLs, of prefixes, and of the addresses that URLs may lead to. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include "conf/text.h"
#include "daemon/web/networks.h"
#include "daemon/web/prefixes.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

static void need_libcurl(void)
{
#ifndef GPUIMGD_CURL
    skip();
#endif
}

/* ---- the text ------------------------------------------------------------------------------- */

TEST(test_shown_without_secrets)
{
    static const char *const rows[][2] = {
        {"https://h/a.jpg?X-Amz-Signature=s", "https://h/a.jpg"},
        {"https://user:word@h/a@b.jpg#f", "https://h/a@b.jpg"},
        {"https://a@b@h?u=://x/", "https://h"},
        {"HTTPS://h/", "HTTPS://h/"},
        {"user:word@h/x?y", "h/x"},
        {"?https://h/", ""},
        {"", ""},
    };
    char text[64], small[10];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(text_copy_url(text, sizeof text, rows[i][0]));
        assert_string_equal(text, rows[i][1]);
    }
    assert_false(text_copy_url(small, sizeof small, "https://u@host/"));
    assert_string_equal(small, "https://h");
    assert_false(text_copy_url(small, 4, "https://u@host/"));
    assert_string_equal(small, "htt");
}

/* ---- the normal form ------------------------------------------------------------------------ */

TEST(test_normal_form)
{
    need_libcurl();
    static const char *const rows[][2] = {
        {"https://h", "https://h/"},
        {"HTTPS://Host.Example/A", "https://host.example/A"},
        {"https://h:443/a", "https://h/a"},
        {"http://h:80/a", "http://h/a"},
        {"http://h:443/a", "http://h:443/a"},
        {"https://h:08443/", "https://h:8443/"},
        {"https://h/%7Euser/%61%2d%2E%5F", "https://h/~user/a-._"},
        {"https://h/a%2fb%c3%A9", "https://h/a%2Fb%C3%A9"},
        {"https://h/\xC3\xA9?q=\xC3\xA9", "https://h/%C3%A9?q=%C3%A9"},
        {"https://h/a+b,c;d=e:f@g", "https://h/a+b,c;d=e:f@g"},
        {"https://h/a//b", "https://h/a//b"},
        {"https://h/.../a..b/..c/.d", "https://h/.../a..b/..c/.d"},
        {"https://h/100%25/%252e%252e.png", "https://h/100%25/%252e%252e.png"},
        {"https://h/a?b=../..&c=%2E", "https://h/a?b=../..&c=%2E"},
        {"https://h?q", "https://h/?q"},
        {"https://0x7f.1/", "https://127.0.0.1/"},
        {"https://2130706433/", "https://127.0.0.1/"},
        {"https://[::1]:444/", "https://[::1]:444/"},
        {"https://h/<\">`{|}^", "https://h/%3C%22%3E%60%7B%7C%7D%5E"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct url url;
        struct error error = {0};
        if (url_parse(&url, rows[i][0], &error) != STATUS_OK)
            fail_msg("%s: %s", rows[i][0], error.text);
        assert_string_equal(url.text, rows[i][1]);
        assert_int_equal(url.base_bytes, strcspn(url.text, "?"));
        url_clear(&url);
    }
}

TEST(test_refused)
{
    need_libcurl();
    static const char *const rows[][2] = {
        {"ftp://h/", "does not begin with"},
        {"file:///etc/passwd", "does not begin with"},
        {"https:/h/", "does not begin with"},
        {"//h/a", "does not begin with"},
        {"", "does not begin with"},
        {"https:///h", "has no host"},
        {"https://?a", "has no host"},
        {"https://user@h/", "user or a password"},
        {"https://u:p@h/", "user or a password"},
        {"https://@h/", "user or a password"},
        {"https://h/a b", "has a space"},
        {"https://h/a\nb", "has a space"},
        {"https://h/a\\..\\b", "has a space"},
        {"https://h\\@evil/", "has a space"},
        {"https://h/#f", "has a fragment"},
        {"https://h/%", "two hexadecimal digits"},
        {"https://h/%2", "two hexadecimal digits"},
        {"https://h/%zz", "two hexadecimal digits"},
        {"https://h/%00", "control character"},
        {"https://h/%0d%0aX: y", "has a space"},
        {"https://h/%0d%0aX:y", "control character"},
        {"https://h/a/../b", "\"..\""},
        {"https://h/./b", "\"..\""},
        {"https://h/a/..", "\"..\""},
        {"https://h/a/%2e%2E/b", "\"..\""},
        {"https://h/a/.%2e", "\"..\""},
        {"https://h/a%2f..%2fb", "\"..\""},
        {"https://h/a/..%5cb", "\"..\""},
        {"https://h/a/..;x/b", "\"..\""},
        {"https://h/a/%252e%252e/b", "\"..\""},
        {"https://h/a/%25252E./b", "\"..\""},
        {"https://h/a/%25%32%65%252e", "\"..\""},
        {"https://h/a/%25%32%35%32%65.", "\"..\""},
        {"https://h/a%252f..%252fb", "\"..\""},
        {"https://h/a/..%255Cb", "\"..\""},
        {"https://h/a/..%253Bx/b", "\"..\""},
        {"https://h/a/%2e%2e;x", "\"..\""},
        {"https://h/%2500/%252e%252e/b", "\"..\""},
        {"https://h/;x/../b", "\"..\""},
        {"https://h./", "neither a name"},
        {"https://.h/", "neither a name"},
        {"https://h\xC3\xA9/", "neither a name"},
        {"https://[fe80::1%25eth0]/", "% in its host"},
        {"https://%68/", "% in its host"},
        {"https://h:99999/", "cannot be parsed"},
        {"https://h:x/", "cannot be parsed"},
        {"https://[::1/", "cannot be parsed"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct url url;
        struct error error = {0};
        enum status status = url_parse(&url, rows[i][0], &error);
        if (status != STATUS_PATH_REFUSED || !strstr(error.text, rows[i][1]))
            fail_msg("\"%s\": %s", rows[i][0], error.text);
        assert_null(url.text);
    }
}

TEST(test_messages_hide_the_query)
{
    need_libcurl();
    struct url url;
    struct error error = {0};
    assert_int_equal(url_parse(&url, "https://me:word@h/a?sig=secret", &error),
                     STATUS_PATH_REFUSED);
    assert_null(strstr(error.text, "secret"));
    assert_null(strstr(error.text, "word@"));
}

TEST(test_redirect_targets)
{
    need_libcurl();
    static const char *const rows[][2] = {
        {"/x", "https://h/x"},
        {"c?d", "https://h/a/c?d"},
        {"../c", "https://h/c"},
        {"../../../c", "https://h/c"},
        {"//other/c", "https://other/c"},
        {"http://h/c#f", "http://h/c"},
        {"HTTPS://H:443/", "https://h/"},
        {"https://u:p@h/", NULL},
        {"ftp://h/", NULL},
        {"file:///etc/passwd", NULL},
        {"/a b", "https://h/a%20b"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct url base, url;
        struct error error = {0};
        assert_int_equal(url_parse(&base, "https://h/a/b?q", &error), STATUS_OK);
        enum status status = url_resolve(&url, &base, rows[i][0], &error);
        assert_int_equal(status, rows[i][1] ? STATUS_OK : STATUS_PATH_REFUSED);
        if (rows[i][1])
            assert_string_equal(url.text, rows[i][1]);
        url_clear(&base);
        url_clear(&url);
    }
}

/* libcurl 7.88 keeps encoded dots, which are refused; libcurl 8.14 resolves them. */
TEST(test_redirect_with_encoded_dots)
{
    need_libcurl();
    struct url base, url;
    struct error error = {0};
    assert_int_equal(url_parse(&base, "https://h/a/b", &error), STATUS_OK);
    if (url_resolve(&url, &base, "/c/%2e%2e/x", &error) == STATUS_OK)
        assert_string_equal(url.text, "https://h/x");
    else
        assert_int_equal(error.status, STATUS_PATH_REFUSED);
    url_clear(&base);
    url_clear(&url);
}

static bool are_same(const char *a, const char *b)
{
    struct url first, second;
    struct error error = {0};
    assert_int_equal(url_parse(&first, a, &error), STATUS_OK);
    assert_int_equal(url_parse(&second, b, &error), STATUS_OK);
    bool same = url_same(&first, &second);
    url_clear(&first);
    url_clear(&second);
    return same;
}

TEST(test_same)
{
    need_libcurl();
    assert_true(are_same("https://H:443/%61", "https://h/a"));
    assert_true(are_same("https://h/a?X-Amz-Signature=1", "https://h/a?X-Amz-Signature=2"));
    assert_true(are_same("https://h/a?x-amz-signature=1", "https://h/a"));
    assert_false(are_same("https://h/a?id=1", "https://h/a?id=2"));
    assert_false(are_same("https://h/a", "http://h/a"));
    assert_false(are_same("https://h/a", "https://h/ab"));
    assert_false(are_same("https://h/a%2Fb", "https://h/a/b"));
}

TEST(test_path_of_a_signed_request)
{
    need_libcurl();
    struct url url;
    struct error error = {0};
    assert_int_equal(url_parse(&url, "https://h:9000/a+b/c=d,e%2B~(1)!*'.jpg?versionId=a+b",
                               &error), STATUS_OK);
    char *text = url_text_for_signing(&url);
    assert_string_equal(text, "https://h:9000/a%2Bb/c%3Dd%2Ce%2B~%281%29%21%2A%27.jpg"
                              "?versionId=a%20b");
    free(text);
    url_clear(&url);
}

/* The queries of AWS's published test suite for its signature version 4, and those of S3. */
TEST(test_query_of_a_signed_request)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"?", ""},
        {"?Param1=value1", "?Param1=value1"},
        {"?Param2=value2&Param1=value1", "?Param1=value1&Param2=value2"},
        {"?Param1=value2&Param1=Value1", "?Param1=Value1&Param1=value2"},
        {"?Param1=value2&Param1=value1", "?Param1=value1&Param1=value2"},
        {"?-._~09AZaz=-._~09AZaz", "?-._~09AZaz=-._~09AZaz"},
        {"?\xe1\x88\xb4=bar", "?%E1%88%B4=bar"},
        {"?acl", "?acl="},
        {"?versions&prefix=somePrefix&max-keys=20", "?max-keys=20&prefix=somePrefix&versions="},
        {"?a-b=1&a=2&a=", "?a=&a=2&a-b=1"},
        {"?b=%2f%7e%c3%bc&a=x+y&c=p/q:r=s?", "?a=x%20y&b=%2F~%C3%BC&c=p%2Fq%3Ar%3Ds%3F"},
        {"?&&z&&a=%&b=%4&", "?a=%25&b=%254&z="},
        {"?=v", "?=v"},
    };
    need_libcurl();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct url url;
        struct error error = {0};
        assert_int_equal(url_parse(&url, text_of("https://h/p%s", cases[i][0]), &error), STATUS_OK);
        char *text = url_text_for_signing(&url);
        assert_string_equal(text, text_of("https://h/p%s", cases[i][1]));
        free(text);
        url_clear(&url);
    }
}

/* ---- prefixes ------------------------------------------------------------------------------- */

static const struct prefix *match(const struct prefixes *prefixes, const char *text)
{
    struct url url;
    struct error error = {0};
    assert_int_equal(url_parse(&url, text, &error), STATUS_OK);
    const struct prefix *prefix = prefixes_match(prefixes, &url, &error);
    assert_int_equal(error.status, prefix ? STATUS_OK : STATUS_PATH_REFUSED);
    url_clear(&url);
    return prefix;
}

TEST(test_prefixes)
{
    need_libcurl();
    struct prefixes prefixes;
    struct error error = {0};
    assert_true(
        prefixes_parse(&prefixes,
                       " https://h/a/  https://B.example:443 aws:eu-west-1\t"
                       "http://h:8080/c/d aws:us-east-1:key https://r/ aws:eu:@web-identity",
                       &error));
    assert_int_equal(prefixes.count, 4);
    const struct prefix *first = prefixes.items;
    assert_ptr_equal(match(&prefixes, "https://h/a/"), first);
    assert_ptr_equal(match(&prefixes, "https://h/a/b?c"), first);
    assert_ptr_equal(match(&prefixes, "https://h/%61/b"), first);
    assert_null(match(&prefixes, "https://h/a"));
    assert_null(match(&prefixes, "https://h/ab"));
    assert_null(match(&prefixes, "https://h/a%2Fb"));
    assert_null(match(&prefixes, "http://h/a/b"));
    assert_null(match(&prefixes, "https://h:444/a/b"));
    assert_null(match(&prefixes, "https://h.evil/a/b"));
    assert_ptr_equal(match(&prefixes, "https://b.example/x"), first + 1);
    assert_null(match(&prefixes, "https://b.example.evil/x"));
    assert_ptr_equal(match(&prefixes, "http://h:8080/c/d"), first + 2);
    assert_ptr_equal(match(&prefixes, "http://h:8080/c/d/e"), first + 2);
    assert_null(match(&prefixes, "http://h:8080/c/de"));
    assert_false(first[0].is_signed);
    assert_string_equal(first[1].region, "eu-west-1");
    assert_string_equal(first[1].credential, "");
    assert_string_equal(first[2].region, "us-east-1");
    assert_string_equal(first[2].credential, "key");
    assert_int_equal(first[2].role, AWS_ROLE_NONE);
    assert_string_equal(first[3].credential, "");
    assert_int_equal(first[3].role, AWS_ROLE_WEB_IDENTITY);
    prefixes_clear(&prefixes);
}

TEST(test_no_prefixes)
{
    need_libcurl();
    struct prefixes prefixes;
    struct error error = {0};
    assert_true(prefixes_parse(&prefixes, "", &error));
    assert_null(match(&prefixes, "https://h/"));
    prefixes_clear(&prefixes);
}

TEST(test_wrong_prefixes)
{
    need_libcurl();
    static const char *const rows[][2] = {
        {"aws:eu", "must follow a prefix"},
        {"https://h/ aws:", "must be aws:REGION"},
        {"https://h/ aws:eu:", "must be aws:REGION"},
        {"https://h/ aws:eu:../key", "must be aws:REGION"},
        {"https://h/ aws:eu:.key", "must be aws:REGION"},
        {"https://h/ aws:eu:@", "\"aws:eu:@\", which must be aws:REGION"},
        {"https://h/ aws:eu:@Instance", "@instance, @web-identity or @container"},
        {"https://h/ aws:eu:@instance:x", "must be aws:REGION"},
        {"https://h/ aws:eu aws:eu", "second signing"},
        {"https://h/ aws:eu:@instance aws:eu", "second signing"},
        {"https://h/?a", "has a query"},
        {"https://h/ s3://b", "does not begin with"},
        {"https://u:p@h/", "user or a password"},
        {"x", "does not begin with"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct prefixes prefixes;
        struct error error = {0};
        assert_false(prefixes_parse(&prefixes, rows[i][0], &error));
        if (!strstr(error.text, rows[i][1]) || !strstr(error.text, "url_prefixes"))
            fail_msg("\"%s\": %s", rows[i][0], error.text);
        prefixes_clear(&prefixes);
    }
}

TEST(test_keys)
{
    need_libcurl();
    char folder[] = "/tmp/gpuimgd-keys.XXXXXX", path[64];
    struct aws_keys keys;
    struct error error = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    FILE *file = fopen(path, "w");
    fputs("[default]\naws_access_key_id=ID\n aws_secret_access_key = a/b+c= \n"
          "aws_session_token = T\n", file);
    fclose(file);
    unsetenv("CREDENTIALS_DIRECTORY");
    assert_false(aws_keys_read(&keys, "key", &error));
    assert_non_null(strstr(error.text, "CREDENTIALS_DIRECTORY, which is not set"));
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    error_clear(&error);
    assert_true(aws_keys_read(&keys, "key", &error));
    assert_string_equal(keys.id, "ID");
    assert_string_equal(keys.secret, "a/b+c=");
    assert_string_equal(keys.token, "T");
    assert_false(aws_keys_read(&keys, "none", &error));
    assert_non_null(strstr(error.text, "No such file"));
    remove(path);
    remove(folder);
    unsetenv("CREDENTIALS_DIRECTORY");
}

/* Each row: a file, and the id, the secret and the token that are used; NULL: none. */
TEST(test_keys_are_those_of_one_profile)
{
    static const char *const rows[][4] = {
        {"[default]\naws_access_key_id=A\naws_secret_access_key=B\naws_session_token=C\n"
         "[other]\naws_access_key_id=D\naws_secret_access_key=E\naws_session_token=F\n",
         "A", "B", "C"},
        {"[other]\naws_access_key_id=D\naws_secret_access_key=E\naws_session_token=F\n"
         "[ default ]\r\naws_access_key_id=A\r\naws_secret_access_key=B\r\n",
         "A", "B", ""},
        {"aws_access_key_id=A\naws_secret_access_key=B\n[other]\naws_session_token=F\n", "A", "B",
         ""},
        {"[one]\nregion = eu\n[two]\naws_access_key_id=A\naws_secret_access_key=B\n[three]\n"
         "aws_access_key_id=D\naws_secret_access_key=E\naws_session_token=F",
         "A", "B", ""},
        {"[default]\naws_access_key_id=A\n[other]\naws_secret_access_key=E\n", NULL, NULL, NULL},
        {"#aws_access_key_id=X\naws_access_key_id=A\n;aws_secret_access_key=X\n"
         "aws_secret_access_key=B\n",
         "A", "B", ""},
        {"", NULL, NULL, NULL},
    };
    char folder[] = "/tmp/gpuimgd-keys.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct aws_keys keys;
        struct error error = {0};
        assert_true(text_file_write(path, rows[i][0], strlen(rows[i][0])));
        assert_true(aws_keys_read(&keys, "key", &error) == (rows[i][1] != NULL));
        if (!rows[i][1])
            continue;
        assert_string_equal(keys.id, rows[i][1]);
        assert_string_equal(keys.secret, rows[i][2]);
        assert_string_equal(keys.token, rows[i][3]);
    }
    text_file_remove_folder(folder);
    unsetenv("CREDENTIALS_DIRECTORY");
}

/* The end of a long comment is no line of its own. */
TEST(test_long_lines_of_keys)
{
    char folder[] = "/tmp/gpuimgd-keys.XXXXXX", path[64];
    struct aws_keys keys;
    struct error error = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/key", folder);
    setenv("CREDENTIALS_DIRECTORY", folder, 1);
    const char *text = text_of("aws_access_key_id=A\naws_secret_access_key=B\n#%04094d"
                               "aws_access_key_id=X\n",
                               0);
    assert_true(text_file_write(path, text, strlen(text)));
    assert_true(aws_keys_read(&keys, "key", &error));
    assert_string_equal(keys.id, "A");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(aws_keys_read(&keys, "key", &error));
    assert_non_null(strstr(error.text, "no process writes"));
    text_file_remove_folder(folder);
    unsetenv("CREDENTIALS_DIRECTORY");
}

TEST(test_keys_of_the_environment)
{
    struct aws_keys keys;
    struct error error = {0};
    unsetenv("AWS_SECRET_ACCESS_KEY");
    setenv("AWS_ACCESS_KEY_ID", "I", 1);
    assert_false(aws_keys_read(&keys, "", &error));
    assert_non_null(strstr(error.text, "AWS_SECRET_ACCESS_KEY"));
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    error_clear(&error);
    assert_true(aws_keys_read(&keys, "", &error));
    assert_string_equal(keys.id, "I");
    assert_string_equal(keys.secret, "S");
    assert_string_equal(keys.token, "");
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* NULL: allowed. */
static const char *forbid(const char *allowed, const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct networks networks;
    struct error error = {0};
    assert_true(networks_parse(&networks, allowed, &error));
    bool is_v4 = inet_pton(AF_INET, text, &v4.sin_addr) == 1;
    assert_true(is_v4 || inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
    const char *kind = networks_forbid(&networks, is_v4 ? (struct sockaddr *)&v4
                                                        : (struct sockaddr *)&v6);
    networks_clear(&networks);
    return kind;
}

TEST(test_public_addresses)
{
    static const char *const addresses[] = {
        "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
        "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
        "168.63.129.15", "2000::", "2606:4700::1111", "2001:200::1", "3ffe::1", "::ffff:1.1.1.1",
    };
    for (size_t i = 0; i < COUNT_OF(addresses); i++)
        if (forbid("", addresses[i]))
            fail_msg("%s: %s", addresses[i], forbid("", addresses[i]));
}

TEST(test_forbidden_addresses)
{
    static const char *const addresses[] = {
        "0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.100.100.200",
        "100.127.255.255", "127.0.0.1", "127.255.255.255", "168.63.129.16", "169.254.169.254",
        "172.16.0.0", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
        "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
        "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::1.1.1.1", "64:ff9b::10.0.0.1",
        "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "fc00::1",
        "fd00:ec2::254", "fe80::1", "febf::1", "fec0::1", "ff02::1", "4000::1", "1fff::1",
    };
    for (size_t i = 0; i < COUNT_OF(addresses); i++)
        if (!forbid("", addresses[i]))
            fail_msg("%s is allowed", addresses[i]);
}

TEST(test_allowed_networks)
{
    assert_null(forbid("127.0.0.0/8", "127.1.2.3"));
    assert_null(forbid("127.0.0.0/8", "::ffff:127.1.2.3"));
    assert_non_null(forbid("127.0.0.0/8", "::1"));
    assert_non_null(forbid("127.0.0.1", "127.0.0.2"));
    assert_null(forbid("10.0.0.0/9,fd00::/8 192.168.1.0/24", "10.127.0.1"));
    assert_non_null(forbid("10.0.0.0/9,fd00::/8 192.168.1.0/24", "10.128.0.1"));
    assert_null(forbid("10.0.0.0/9,fd00::/8 192.168.1.0/24", "fd12::1"));
    assert_null(forbid("10.0.0.0/9,fd00::/8 192.168.1.0/24", "192.168.1.255"));
    assert_non_null(forbid("10.0.0.0/9,fd00::/8 192.168.1.0/24", "192.168.2.0"));
    assert_null(forbid("0.0.0.0/0", "10.0.0.1"));
    assert_non_null(forbid("0.0.0.0/0", "fd00::1"));
    /* NAT64 leads to the IPv4 address in it. */
    assert_null(forbid("64:ff9b::/96", "64:ff9b::1.1.1.1"));
    assert_non_null(forbid("64:ff9b::/96", "64:ff9b::10.0.0.1"));
    assert_null(forbid("64:ff9b::/96 10.0.0.0/8", "64:ff9b::10.0.0.1"));
}

TEST(test_no_internet_protocol)
{
    struct networks networks;
    struct error error = {0};
    struct sockaddr address = {.sa_family = AF_UNIX};
    assert_true(networks_parse(&networks, "::/0 0.0.0.0/0", &error));
    assert_non_null(networks_forbid(&networks, &address));
    networks_clear(&networks);
}

TEST(test_wrong_networks)
{
    static const char *const rows[][2] = {
        {"localhost", "is no network"},   {"10.0.0", "is no network"},
        {"10.0.0.0/33", "wrong prefix"},  {"10.0.0.0/", "wrong prefix"},
        {"10.0.0.0/8x", "wrong prefix"},  {"fd00::/129", "wrong prefix"},
        {"fd00::/-1", "wrong prefix"},    {"10.0.0.1/8", "bits after"},
        {"fd00::1/8", "bits after"},      {"10.0.0.0/8/8", "wrong prefix"},
        {"[::1]", "is no network"},       {"/8", "is no network"},
        {"1111:1111:1111:1111:1111:1111:1111:1111:1111:1111", "is no network"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct networks networks;
        struct error error = {0};
        assert_false(networks_parse(&networks, rows[i][0], &error));
        if (!strstr(error.text, rows[i][1]) || !strstr(error.text, "url_networks"))
            fail_msg("\"%s\": %s", rows[i][0], error.text);
        networks_clear(&networks);
    }
}

TEST_MAIN()
