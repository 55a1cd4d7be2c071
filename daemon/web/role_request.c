#include "daemon/web/role_request.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/content.h"
#include "conf/text.h"

#define TOKEN_BYTES_MAX 16384 /* of a web identity */

static const char *const names[] = {[AWS_ROLE_NONE] = "",
                                    [AWS_ROLE_INSTANCE] = "instance",
                                    [AWS_ROLE_WEB_IDENTITY] = "web-identity",
                                    [AWS_ROLE_CONTAINER] = "container"};

enum aws_role aws_role_by_name(const char *name)
{
    enum aws_role role = AWS_ROLE_COUNT - 1;
    while (role > AWS_ROLE_NONE && strcmp(name, names[role]) != 0)
        role--;
    return role;
}

const char *aws_role_name(enum aws_role role)
{
    return names[role];
}

enum role_step role_first_step(enum aws_role role)
{
    return role == AWS_ROLE_INSTANCE ? ROLE_STEP_TOKEN : ROLE_STEP_KEYS;
}

/* ---- the environment ------------------------------------------------------------------------ */

/* The value of a variable; NULL: it is not set, or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *need(const char *name, struct error *error)
{
    const char *value = variable(name);
    if (!value)
        error_refuse(error, "needs %s, which is not set in the environment", name);
    return value;
}

/* Reads a token, without the white space around it. Returns malloc'd text, or NULL. */
static char *read_token(const char *variable_name, const char *path, struct error *error)
{
    struct error fault = {0};
    size_t length;
    char *text = content_read(path, 0, &length, &fault);
    if (!text) {
        error_refuse(error, "needs the file of %s: %s", variable_name, fault.text);
        return NULL;
    }
    size_t begin = strspn(text, " \t\r\n"), end = strlen(text);
    while (end > begin && strchr(" \t\r\n", text[end - 1]))
        end--;
    memmove(text, text + begin, end - begin);
    text[end - begin] = '\0';
    bool good = *text && end - begin <= TOKEN_BYTES_MAX;
    for (const char *at = text; *at && good; at++)
        good = *at > ' ' && *at <= '~';
    if (good)
        return text;
    error_refuse(error, "needs a token of 1 to %d printable bytes in the file %.160s of %s",
                 TOKEN_BYTES_MAX, path, variable_name);
    explicit_bzero(text, length);
    free(text);
    return NULL;
}

/* ---- URLs ----------------------------------------------------------------------------------- */

/* Joins the base, without a slash at its end, and the path. */
static bool make_url(struct url *url, const char *base, const char *path, const char *source,
                     struct error *error)
{
    char text[JOB_URL_BYTES_MAX + 2];
    struct error fault = {0};
    size_t length = strlen(base);
    while (length > 0 && base[length - 1] == '/' && *path == '/')
        length--;
    if (length + strlen(path) > JOB_URL_BYTES_MAX)
        return error_refuse(error, "needs a shorter URL in %s", source);
    snprintf(text, sizeof text, "%.*s%s", (int)length, base, path);
    return url_parse(url, text, &fault) == STATUS_OK ||
           error_refuse(error, "needs a URL in %s: %s", source, fault.text);
}

/* Without TLS, AWS's programs send the token of a container only to the host itself and to the
 * addresses of ECS and EKS. */
static bool is_local(const struct url *url)
{
    static const char *const hosts[] = {"localhost", "[::1]", "169.254.170.2", "169.254.170.23",
                                        "[fd00:ec2::23]"};
    const char *host = url->text + strlen("http://");
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        if (strlen(hosts[i]) == length && strncmp(host, hosts[i], length) == 0)
            return true;
    char text[INET_ADDRSTRLEN];
    struct in_addr address;
    if (length >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)length, host);
    return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

bool role_url_is_safe(const struct url *url)
{
    return url_is_https(url) || is_local(url);
}

/* On ECS, the path of this URL alone protects the keys, so no message shows it. */
static bool make_secret_url(struct url *url, const char *base, const char *path, const char *source,
                            struct error *error)
{
    struct error fault = {0};
    return make_url(url, base, path, source, &fault) ||
           error_refuse(error,
                        "needs a URL of at most %d bytes in %s, as jobs have it; the value may be "
                        "a secret and is not shown",
                        JOB_URL_BYTES_MAX, source);
}

static bool make_container_url(struct url *url, struct error *error)
{
    static const char relative[] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    static const char full[] = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    const char *path = variable(relative), *whole = variable(full);
    if (!path && !whole)
        return error_refuse(error, "needs %s or %s, which are not set in the environment", relative,
                            full);
    if (path)
        return *path == '/' ? make_secret_url(url, "http://169.254.170.2", path, relative, error)
                            : error_refuse(error, "needs a %s that begins with /", relative);
    if (!make_secret_url(url, whole, "", full, error))
        return false;
    return role_url_is_safe(url) ||
           error_refuse(error, "needs https, or an address of this host, in %s", full);
}

static bool make_sts_url(struct url *url, const char *region, struct error *error)
{
    static const char override[] = "AWS_ENDPOINT_URL_STS";
    char regional[128];
    const char *dot_cn = strncmp(region, "cn-", 3) == 0 ? ".cn" : "";
    snprintf(regional, sizeof regional, "https://sts.%s.amazonaws.com%s/", region, dot_cn);
    return make_url(url, variable(override) ? variable(override) : regional, "", override, error);
}

static bool make_instance_url(struct url *url, enum role_step step, const char *name,
                              struct error *error)
{
    static const char override[] = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    char path[64 + ROLE_WORD_BYTES];
    const char *base = variable(override) ? variable(override) : "http://169.254.169.254";
    if (step == ROLE_STEP_TOKEN)
        return make_url(url, base, "/latest/api/token", override, error);
    snprintf(path, sizeof path, "/latest/meta-data/iam/security-credentials/%s",
             step == ROLE_STEP_KEYS ? name : "");
    return make_url(url, base, path, override, error);
}

static bool make_url_of(struct url *url, enum aws_role role, enum role_step step,
                        const char *region, const char *name, struct error *error)
{
    return role == AWS_ROLE_INSTANCE    ? make_instance_url(url, step, name, error)
           : role == AWS_ROLE_CONTAINER ? make_container_url(url, error)
                                        : make_sts_url(url, region, error);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Appends "&name=value", percent-encoded. */
static char *put_field(char *to, const char *name, const char *value)
{
    to += sprintf(to, "&%s=", name);
    for (; *value; value++)
        to += sprintf(to, "%%%02X", (unsigned char)*value);
    return to;
}

static bool make_web_identity(struct role_request *request, struct error *error)
{
    static const char file[] = "AWS_WEB_IDENTITY_TOKEN_FILE";
    const char *arn = need("AWS_ROLE_ARN", error), *path = arn ? need(file, error) : NULL;
    const char *session = variable("AWS_ROLE_SESSION_NAME");
    session = session ? session : "gpuimgd";
    char *token = path ? read_token(file, path, error) : NULL;
    if (!token)
        return false;
    request->method = "POST";
    request->body = malloc(3 * (strlen(token) + strlen(arn) + strlen(session)) + 256);
    if (request->body) {
        char *to = stpcpy(request->body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
        to = put_field(to, "RoleArn", arn);
        to = put_field(to, "RoleSessionName", session);
        put_field(to, "WebIdentityToken", token);
    }
    explicit_bzero(token, strlen(token));
    free(token);
    return request->body || error_refuse(error, "needs more memory");
}

static bool make_container(struct role_request *request, struct error *error)
{
    static const char file[] = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
    static const char direct[] = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
    const char *path = variable(file), *given = variable(direct);
    char *token = path ? read_token(file, path, error) : NULL;
    if (path && !token)
        return false;
    const char *value = token ? token : given ? given : "";
    bool good = strlen(value) < ROLE_HEADER_BYTES - 32;
    for (const char *at = value; *at && good; at++)
        good = *at >= ' ' && *at <= '~';
    if (good && *value)
        snprintf(request->header, sizeof request->header, "Authorization: %s", value);
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
    return good || error_refuse(error, "needs a token of less than %d printable bytes in %s",
                                ROLE_HEADER_BYTES - 32, path ? file : direct);
}

bool role_request_make(struct role_request *request, enum aws_role role, enum role_step step,
                       const char *region, const char *token, const char *name, struct error *error)
{
    *request = (struct role_request){.method = "GET"};
    if (role == AWS_ROLE_WEB_IDENTITY && !make_web_identity(request, error))
        return false;
    if (role == AWS_ROLE_CONTAINER && !make_container(request, error))
        return false;
    if (role == AWS_ROLE_INSTANCE && step == ROLE_STEP_TOKEN) {
        request->method = "PUT";
        snprintf(request->header, sizeof request->header,
                 "X-aws-ec2-metadata-token-ttl-seconds: 60");
    } else if (role == AWS_ROLE_INSTANCE) {
        snprintf(request->header, sizeof request->header, "X-aws-ec2-metadata-token: %s", token);
    }
    return make_url_of(&request->url, role, step, region, name, error);
}

void role_request_clear(struct role_request *request)
{
    url_clear(&request->url);
    if (request->body)
        explicit_bzero(request->body, strlen(request->body));
    free(request->body);
    explicit_bzero(request->header, sizeof request->header);
    request->body = NULL;
}

bool role_check(enum aws_role role, const char *region, struct error *error)
{
    struct role_request request;
    bool good = role_request_make(&request, role, role_first_step(role), region, "", "", error);
    role_request_clear(&request);
    return good;
}
