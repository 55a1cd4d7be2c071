#include "queue/redis/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "conf/mask.h"
#include "conf/text.h"
#include "queue/redis/tls.h"

#define REDIS_PORT "6379"
#define SENTINEL_PORT "26379"

/* The length of the text up to a colon that no port follows. It may separate a user and a password,
 * if the scheme of a URL is missing or misspelt. */
static size_t length_before_secret(const char *text)
{
    for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
        size_t digits = strspn(colon + 1, "0123456789");
        if (digits > 5 || (colon[1 + digits] && !strchr(":]/", colon[1 + digits])))
            return (size_t)(colon - text);
    }
    return strlen(text);
}

/* Shows neither a user nor a password, wherever they are in a wrong address. */
static enum status refuse(struct error *error, const char *text, const char *why)
{
    char shown[100];
    const char *at = strrchr(text, '@'), *host = at ? at + 1 : text;
    mask_copy(shown, sizeof shown, host);
    size_t length = at || !strstr(host, "://") ? length_before_secret(shown) : strlen(shown);
    return error_set(error, STATUS_BAD_JOB, "the Redis address \"%s%.*s%s\" %s", at ? "...@" : "",
                     (int)length, shown, shown[length] ? ":..." : "", why);
}

static bool is_port(const char *text)
{
    char *rest;
    long number = strtol(text, &rest, 10);
    return *text && strchr("123456789", *text) && !*rest && number <= 65535;
}

bool redis_endpoint_set(struct redis_endpoint *endpoint, const char *host, const char *port)
{
    memset(endpoint, 0, sizeof *endpoint);
    return *host && is_port(port) && text_copy(endpoint->host, sizeof endpoint->host, host) &&
           text_copy(endpoint->port, sizeof endpoint->port, port);
}

bool redis_endpoint_read(struct redis_endpoint *endpoint, const char *text)
{
    char host[sizeof endpoint->host];
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof host) /* uncovered: sentinel */
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    return redis_endpoint_set(endpoint, host, colon + 1);
}

bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b)
{
    return a->is_unix == b->is_unix && strcmp(a->host, b->host) == 0 &&
           strcmp(a->port, b->port) == 0;
}

void redis_endpoint_text(const struct redis_endpoint *endpoint, char *text, size_t size)
{
    bool is_v6 = strchr(endpoint->host, ':') != NULL;
    if (endpoint->is_unix)
        snprintf(text, size, "unix:%s", endpoint->host);
    else
        snprintf(text, size, is_v6 ? "[%s]:%s" : "%s:%s", endpoint->host, endpoint->port);
}

static enum status parse_socket(struct redis_address *address, const char *text,
                                struct error *error)
{
    const char *path = text + strlen("unix:");
    struct redis_endpoint *endpoint = &address->endpoints[address->count++];
    endpoint->is_unix = true;
    if (*path != '/')
        return refuse(error, text, "must name an absolute path after unix:");
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path) ||
        !text_copy(endpoint->host, sizeof endpoint->host, path))
        return refuse(error, text, "has a path that is too long for a socket");
    return STATUS_OK;
}

/* Parses one element of a list: "host", "host:port" or "[v6]:port". port: if it has none. */
static enum status parse_endpoint(struct redis_endpoint *endpoint, const char *text,
                                  const char *port, struct error *error)
{
    const char *host = text, *end;
    if (*text == '/')
        return refuse(error, text, "is a path; write unix:/path for a socket");
    if (*text == '[') {
        host++;
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':'))
            return refuse(error, text, "needs the form [address]:port for IPv6");
        port = end[1] ? end + 2 : port;
    } else {
        end = strrchr(text, ':');
        if (end && memchr(text, ':', (size_t)(end - text)))
            return refuse(error, text, "is an IPv6 address; write [address]:port");
        port = end ? end + 1 : port;
        end = end ? end : text + strlen(text);
    }
    size_t length = (size_t)(end - host);
    char name[sizeof endpoint->host];
    if (length == 0)
        return refuse(error, text, "has no host");
    if (length >= sizeof name)
        return refuse(error, text, "has a host of more than 255 bytes");
    snprintf(name, sizeof name, "%.*s", (int)length, host);
    if (!redis_endpoint_set(endpoint, name, port))
        return refuse(error, text, "must end in a port from 1 to 65535");
    return STATUS_OK;
}

/* Parses a list separated by commas. port: of an element without a port. */
static enum status parse_list(struct redis_address *address, const char *text, const char *port,
                              struct error *error)
{
    char one[REDIS_ENDPOINT_TEXT_MAX];
    do {
        text += strspn(text, " ");
        size_t length = strcspn(text, ",");
        if (address->count == REDIS_ENDPOINTS_MAX)
            return error_set(error, STATUS_BAD_JOB, "the option redis names more than %d servers",
                             REDIS_ENDPOINTS_MAX);
        if (length >= sizeof one)
            return refuse(error, text, "has a host of more than 255 bytes");
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (strncmp(one, "unix:", 5) == 0)
            return refuse(error, one, "is a socket; a list can contain only host:port");
        if (parse_endpoint(&address->endpoints[address->count++], one, port, error) != STATUS_OK)
            return error->status;
        text += length;
    } while (*text++ == ',');
    return STATUS_OK;
}

/* `text` is the address after "sentinel://": MASTER@host:port,host:port. */
static enum status parse_sentinels(struct redis_address *address, const char *text,
                                   struct error *error)
{
    const char *at = strchr(text, '@');
    size_t length = at ? (size_t)(at - text) : 0;
    if (length == 0)
        return refuse(error, text, "names no master; write sentinel://MASTER@host:port,host:port");
    if (length >= sizeof address->master)
        return refuse(error, text, "has a master name of more than 127 bytes");
    if (memchr(text, ':', length))
        return refuse(error, text,
                      "has a \":\" before the \"@\", which no name of a master has; the "
                      "options redis_username and sentinel_username name users");
    memcpy(address->master, text, length);
    return parse_list(address, at + 1, SENTINEL_PORT, error);
}

/* ---- URLs --------------------------------------------------------------------------------- */

/* Decodes %XX of text[0..length). Returns false if the result is empty, does not fit, or has a NUL.
 */
static bool decode(char *to, size_t size, const char *text, size_t length)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++, used++) {
        unsigned byte = (unsigned char)text[i];
        if (used + 1 >= size)
            return false;
        if (byte == '%') {
            if (length - i < 3 || sscanf(text + i + 1, "%2x", &byte) != 1 ||
                strspn(text + i + 1, "0123456789abcdefABCDEF") < 2 || byte == 0)
                return false;
            i += 2;
        }
        to[used] = (char)byte;
    }
    to[used] = '\0';
    return used > 0;
}

/* Parses "user:password", ":password" or "password", in text[0..length). */
static enum status parse_user(struct redis_address *address, const char *text, size_t length,
                              const char *url, struct error *error)
{
    const char *colon = memchr(text, ':', length);
    size_t user = colon ? (size_t)(colon - text) : 0, skipped = colon ? user + 1 : 0;
    if (!decode(address->password, sizeof address->password, text + skipped, length - skipped))
        return refuse(error, url,
                      "has no password before its @, one of more than 1023 bytes, or a "
                      "% without two hexadecimal digits");
    if (user > 0 && !decode(address->user, sizeof address->user, text, user))
        return refuse(error, url,
                      "has a user of more than 255 bytes, or a % without two "
                      "hexadecimal digits");
    return STATUS_OK;
}

static enum status parse_database(struct redis_address *address, const char *text, const char *url,
                                  struct error *error)
{
    size_t digits = strspn(text, "0123456789");
    if (text[digits] || digits > 6)
        return refuse(error, url, "must end in /DATABASE, a number, or in no path");
    if (digits > 0)
        address->database = strtol(text, NULL, 10);
    return STATUS_OK;
}

/* `text` is the URL after "redis://" or "rediss://". */
static enum status parse_url(struct redis_address *address, const char *text, const char *url,
                             struct error *error)
{
    char list[REDIS_ENDPOINTS_MAX * REDIS_ENDPOINT_TEXT_MAX];
    const char *at = strrchr(text, '@');
    if (strpbrk(at ? at : text, "?#"))
        return refuse(error, url, "has a query or a fragment; set options instead");
    if (at && parse_user(address, text, (size_t)(at - text), url, error) != STATUS_OK)
        return error->status;
    text = at ? at + 1 : text;
    size_t length = strcspn(text, "/");
    if (text[length] && parse_database(address, text + length + 1, url, error) != STATUS_OK)
        return error->status;
    if (length >= sizeof list)
        return refuse(error, url, "names too many servers");
    snprintf(list, sizeof list, "%.*s", (int)length, text);
    return parse_list(address, list, REDIS_PORT, error);
}

enum status redis_address_parse(struct redis_address *address, const char *text,
                                struct error *error)
{
    static const struct {
        const char *name;
        bool tls, sentinels;
    } schemes[] = {{"redis://", false, false},
                   {"rediss://", true, false},
                   {"sentinel://", false, true},
                   {"sentinels://", true, true}};
    memset(address, 0, sizeof *address);
    address->database = -1;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t length = strlen(schemes[i].name);
        if (strncasecmp(text, schemes[i].name, length) != 0)
            continue;
        address->tls = schemes[i].tls;
        if (address->tls && !tls_is_built())
            return refuse(error, text,
                          "asks for TLS, but this gpuimgd was built without OpenSSL; "
                          "build it with libssl-dev, or use the stunnel recipe of "
                          "gpuimgd.conf(5)");
        return schemes[i].sentinels ? parse_sentinels(address, text + length, error)
                                    : parse_url(address, text + length, text, error);
    }
    if (strstr(text, "://"))
        return refuse(error, text,
                      "is another URL; write host:port, redis://host:port, "
                      "rediss://host:port, unix:/path or sentinel://MASTER@host:port");
    if (strncmp(text, "unix:", 5) == 0)
        return parse_socket(address, text, error);
    return parse_list(address, text, REDIS_PORT, error);
}

static bool is_local(const struct redis_endpoint *endpoint)
{
    return endpoint->is_unix || strcmp(endpoint->host, "localhost") == 0 ||
           strncmp(endpoint->host, "127.", 4) == 0 || strcmp(endpoint->host, "::1") == 0;
}

bool redis_address_is_local(const struct redis_address *address)
{
    bool found = false;
    for (size_t i = 0; i < address->count && !*address->master; i++)
        found |= is_local(&address->endpoints[i]);
    return found;
}
