#include "daemon/web/url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/text.h"

void url_clear(struct url *url)
{
    free(url->text);
    *url = (struct url){0};
}

static enum status refuse(struct error *error, const char *text, const char *fault)
{
    char shown[URL_SHOWN_BYTES];
    text_copy_url(shown, sizeof shown, text);
    return error_set(error, STATUS_PATH_REFUSED, "the URL \"%s\" %s", shown, fault);
}

bool url_is_https(const struct url *url)
{
    return strncmp(url->text, "https:", 6) == 0;
}

static bool is_presigned(const struct url *url)
{
    return strcasestr(url->text + url->base_bytes, "X-Amz-Signature=") != NULL;
}

bool url_same(const struct url *a, const struct url *b)
{
    if (a->base_bytes != b->base_bytes || memcmp(a->text, b->text, a->base_bytes) != 0)
        return false;
    return is_presigned(a) || is_presigned(b) ||
           strcmp(a->text + a->base_bytes, b->text + b->base_bytes) == 0;
}

/* ---- percent-encoding ----------------------------------------------------------------------- */

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_' || c == '~';
}

static char *put_encoded(char *to, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";
    *to++ = '%';
    *to++ = digits[c >> 4];
    *to++ = digits[c & 15];
    return to;
}

/* The byte that "%XX" at `text` encodes. -1: two hexadecimal digits are missing. */
static int decode(const char *text)
{
    int value = 0;
    for (int i = 1; i <= 2; i++) {
        unsigned char c = (unsigned char)text[i];
        int digit = c >= '0' && c <= '9' ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* ---- the text that AWS signs ---------------------------------------------------------------- */

struct parameter {
    const char *name, *value; /* encoded */
    size_t name_bytes, value_bytes;
};

static int compare_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_parameters(const void *a, const void *b)
{
    const struct parameter *left = a, *right = b;
    int order = compare_bytes(left->name, left->name_bytes, right->name, right->name_bytes);
    return order ? order : compare_bytes(left->value, left->value_bytes, right->value,
                                         right->value_bytes);
}

/* Writes a part of a query with the encoding that AWS requires. In a query, '+' means a space. */
static char *put_component(char *to, const char *from, size_t bytes)
{
    for (const char *end = from + bytes; from < end; from++) {
        int c = *from == '%' ? decode(from) : *from == '+' ? ' ' : (unsigned char)*from;
        if (*from == '%' && c >= 0)
            from += 2;
        else if (*from == '%')
            c = '%';
        if (is_unreserved((unsigned char)c))
            *to++ = (char)c;
        else
            to = put_encoded(to, (unsigned char)c);
    }
    return to;
}

/* Splits the query into parameters, writes their encoded names and values to `to`, and returns the
 * number of parameters. */
static size_t take_parameters(const char *query, struct parameter *parameters, char *to)
{
    size_t count = 0;
    for (const char *end; *query; query = *end ? end + 1 : end) {
        end = query + strcspn(query, "&");
        if (end == query)
            continue;
        const char *mark = memchr(query, '=', (size_t)(end - query));
        const char *name_end = mark ? mark : end, *value = mark ? mark + 1 : end;
        struct parameter *parameter = &parameters[count++];
        parameter->name = to;
        to = put_component(to, query, (size_t)(name_end - query));
        parameter->name_bytes = (size_t)(to - parameter->name);
        parameter->value = to;
        to = put_component(to, value, (size_t)(end - value));
        parameter->value_bytes = (size_t)(to - parameter->value);
    }
    return count;
}

/* Returns the end of the written text. NULL: out of memory. */
static char *put_sorted_query(char *to, const char *query)
{
    size_t length = strlen(query), most = length / 2 + 1;
    struct parameter *parameters = calloc(most, sizeof *parameters);
    char *encoded = malloc(3 * length + 1);
    if (!parameters || !encoded) {
        free(parameters);
        free(encoded);
        return NULL;
    }
    size_t count = take_parameters(query, parameters, encoded);
    qsort(parameters, count, sizeof *parameters, compare_parameters);
    for (size_t i = 0; i < count; i++) {
        *to++ = i > 0 ? '&' : '?';
        to = mempcpy(to, parameters[i].name, parameters[i].name_bytes);
        *to++ = '=';
        to = mempcpy(to, parameters[i].value, parameters[i].value_bytes);
    }
    free(parameters);
    free(encoded);
    return to;
}

char *url_text_for_signing(const struct url *url)
{
    const char *query = url->text + url->base_bytes;
    char *text = malloc(4 * strlen(url->text) + 2), *to = text;
    if (!text)
        return NULL;
    memcpy(to, url->text, url->origin_bytes);
    to += url->origin_bytes;
    for (size_t i = url->origin_bytes; i < url->base_bytes; i++) {
        unsigned char c = (unsigned char)url->text[i];
        if (is_unreserved(c) || c == '/' || c == '%')
            *to++ = (char)c;
        else
            to = put_encoded(to, c);
    }
    to = put_sorted_query(to, *query == '?' ? query + 1 : query);
    if (to)
        *to = '\0';
    else
        free(text);
    return to ? text : NULL;
}

#ifdef GPUIMGD_CURL

#include <curl/curl.h>

/* ---- the path ------------------------------------------------------------------------------- */

/* Decodes a path in place until no %XX is left: several servers may decode it one after the
 * other. */
static void decode_fully(char *path)
{
    char *to = path;
    for (const char *from = path; *from; from++) {
        *to++ = *from;
        int c;
        while (to - path >= 3 && to[-3] == '%' && (c = decode(to - 3)) >= 0) {
            to -= 2;
            to[-1] = (char)(c ? c : '?'); /* a zero byte would end the text */
        }
    }
    *to = '\0';
}

/* Whether a server could take a segment of the path as "." or "..", and so leave the prefix that
 * allows the URL. Servers may decode %2F, %5C and %252F, and cut a segment at ";". */
static bool has_dots(const char *path)
{
    char decoded[JOB_URL_BYTES_MAX + 1];
    if (!text_copy(decoded, sizeof decoded, path))
        /* uncovered: promise (tests/coverage/reasons.txt) */
        return true;
    decode_fully(decoded);
    for (const char *at = decoded;; at++) {
        size_t dots = strspn(at, "."), length = strcspn(at, "/\\;");
        if (length == dots && (dots == 1 || dots == 2))
            return true;
        at += strcspn(at, "/\\");
        if (!*at)
            return false;
    }
}

/* Writes the normal form of the path and returns its end; NULL: `fault` says why it is refused. */
static char *put_path(char *to, const char *path, const char **fault)
{
    if (has_dots(path)) {
        *fault = "has a part \".\" or \"..\"";
        return NULL;
    }
    for (const char *at = path; *at; at++) {
        int c = (unsigned char)*at;
        bool encoded = c == '%';
        if (encoded)
            c = decode(at);
        if (c < 0x20 || c == 0x7F) {
            *fault = c < 0 ? "has a % without two hexadecimal digits" : "has a control character";
            return NULL;
        }
        if (encoded)
            at += 2;
        if (is_unreserved((unsigned char)c) || (!encoded && c < 0x80 && !strchr("\"<>^`{|}", c)))
            *to++ = (char)c;
        else
            to = put_encoded(to, (unsigned char)c);
    }
    return to;
}

/* The query stays as it is, except that bytes outside of ASCII are encoded. */
static char *put_query(char *to, const char *query)
{
    *to++ = '?';
    for (; *query; query++) {
        if ((unsigned char)*query < 0x80)
            *to++ = *query;
        else
            to = put_encoded(to, (unsigned char)*query);
    }
    return to;
}

/* ---- the whole URL -------------------------------------------------------------------------- */

struct parts {
    char *scheme, *host, *port, *path, *query;
};

static void clear_parts(struct parts *parts)
{
    curl_free(parts->scheme);
    curl_free(parts->host);
    curl_free(parts->port);
    curl_free(parts->path);
    curl_free(parts->query);
}

/* Finds faults that libcurl would repair silently, or that its parser does not report. NULL: there
 * is none. */
static const char *text_fault(const char *text)
{
    size_t scheme = strncasecmp(text, "https://", 8) == 0  ? 8
                    : strncasecmp(text, "http://", 7) == 0 ? 7
                                                           : 0;
    if (scheme == 0)
        return "does not begin with https:// or http://";
    if (strlen(text) > JOB_URL_BYTES_MAX)
        return "is longer than 4096 bytes";
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7F || *at == '\\')
            return "has a space, a backslash or a control character; percent-encode it";
    if (strchr(text, '#'))
        return "has a fragment (#...); remove it, or write # as %23";
    size_t host = strcspn(text + scheme, "/?");
    if (host == 0)
        return "has no host";
    if (memchr(text + scheme, '@', host))
        return "has a user or a password; use a presigned URL or a signing prefix";
    if (memchr(text + scheme, '%', host))
        return "has a % in its host";
    return NULL;
}

static bool is_good_host(const char *host)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t length = strlen(host);
    if (*host == '[')
        return length > 2 && strspn(host + 1, "0123456789abcdef:.") == length - 2 &&
               host[length - 1] == ']';
    return length > 0 && length <= 253 && strspn(host, name) == length && *host != '.' &&
           host[length - 1] != '.';
}

static void to_lower(char *text)
{
    for (; *text; text++)
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
}

/* Returns a fault, or NULL. */
static const char *split(CURLU *handle, struct parts *parts)
{
    if (curl_url_get(handle, CURLUPART_SCHEME, &parts->scheme, 0) != CURLUE_OK ||
        curl_url_get(handle, CURLUPART_HOST, &parts->host, 0) != CURLUE_OK ||
        curl_url_get(handle, CURLUPART_PATH, &parts->path, 0) != CURLUE_OK)
        return "cannot be parsed";
    CURLUcode port = curl_url_get(handle, CURLUPART_PORT, &parts->port, CURLU_NO_DEFAULT_PORT);
    CURLUcode query = curl_url_get(handle, CURLUPART_QUERY, &parts->query, 0);
    if ((port != CURLUE_OK && port != CURLUE_NO_PORT) ||
        (query != CURLUE_OK && query != CURLUE_NO_QUERY))
        return "cannot be parsed";
    to_lower(parts->scheme);
    to_lower(parts->host);
    if (strcmp(parts->scheme, "https") != 0 && strcmp(parts->scheme, "http") != 0)
        return "does not begin with https:// or http://";
    return is_good_host(parts->host) ? NULL
                                     : "has a host that is neither a name nor an address; write a "
                                       "name with other letters in its xn-- form";
}

/* Writes the normal form. Returns a fault, or NULL. */
static const char *join(struct url *url, const struct parts *parts)
{
    const char *fault = NULL;
    size_t query = parts->query ? strlen(parts->query) : 0;
    size_t most = strlen(parts->host) + 3 * (strlen(parts->path) + query) + 32;
    char *to = url->text = malloc(most);
    if (!to)
        return "cannot be stored: no memory";
    to = stpcpy(stpcpy(stpcpy(to, parts->scheme), "://"), parts->host);
    if (parts->port)
        to = stpcpy(stpcpy(to, ":"), parts->port);
    url->origin_bytes = (size_t)(to - url->text);
    to = put_path(to, parts->path, &fault);
    if (!to)
        return fault;
    url->base_bytes = (size_t)(to - url->text);
    if (parts->query)
        to = put_query(to, parts->query);
    *to = '\0';
    return NULL;
}

enum status url_parse(struct url *url, const char *text, struct error *error)
{
    struct parts parts = {0};
    *url = (struct url){0};
    const char *fault = text_fault(text);
    if (fault)
        return refuse(error, text, fault);
    CURLU *handle = curl_url();
    if (!handle)
        fault = "cannot be parsed: no memory";
    else if (curl_url_set(handle, CURLUPART_URL, text, CURLU_PATH_AS_IS | CURLU_DISALLOW_USER) !=
             CURLUE_OK)
        fault = "cannot be parsed";
    else
        fault = split(handle, &parts);
    if (!fault)
        fault = join(url, &parts);
    clear_parts(&parts);
    curl_url_cleanup(handle);
    if (fault)
        url_clear(url);
    return fault ? refuse(error, text, fault) : STATUS_OK;
}

enum status url_resolve(struct url *url, const struct url *base, const char *location,
                        struct error *error)
{
    char *text = NULL;
    CURLU *handle = curl_url();
    enum status status = STATUS_OK;
    *url = (struct url){0};
    bool joined = handle && strlen(location) <= JOB_URL_BYTES_MAX &&
                  curl_url_set(handle, CURLUPART_URL, base->text, CURLU_PATH_AS_IS) == CURLUE_OK &&
                  curl_url_set(handle, CURLUPART_URL, location, 0) == CURLUE_OK &&
                  curl_url_set(handle, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
                  curl_url_get(handle, CURLUPART_URL, &text, 0) == CURLUE_OK;
    if (joined)
        status = url_parse(url, text, error);
    else
        status = refuse(error, location, "is the target of a redirect and cannot be parsed");
    curl_free(text);
    curl_url_cleanup(handle);
    return status;
}

#else

enum status url_parse(struct url *url, const char *text, struct error *error)
{
    *url = (struct url){0};
    return refuse(error, text, "cannot be used: this build has no libcurl");
}

enum status url_resolve(struct url *url, const struct url *base, const char *location,
                        struct error *error)
{
    (void)base;
    return url_parse(url, location, error);
}

#endif
