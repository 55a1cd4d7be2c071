#include "queue/redis/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "conf/text.h"

#define SENTINEL_SCHEME "sentinel://"
#define REDIS_PORT "6379"
#define SENTINEL_PORT "26379"

static enum status refuse(struct error *error, const char *text, const char *why)
{
    return error_set(error, STATUS_BAD_JOB, "the address \"%.100s\" of Redis %s", text, why);
}

static bool is_port(const char *text)
{
    char *rest;
    long number = strtol(text, &rest, 10);
    return *text && strchr("123456789", *text) && !*rest && number <= 65535;
}

bool redis_point_set(struct redis_point *point, const char *host, const char *port)
{
    memset(point, 0, sizeof *point);
    return *host && is_port(port) && text_copy(point->host, sizeof point->host, host) &&
           text_copy(point->port, sizeof point->port, port);
}

bool redis_point_read(struct redis_point *point, const char *text)
{
    char host[sizeof point->host];
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    return redis_point_set(point, host, colon + 1);
}

bool redis_point_equal(const struct redis_point *a, const struct redis_point *b)
{
    return a->is_unix == b->is_unix && strcmp(a->host, b->host) == 0 &&
           strcmp(a->port, b->port) == 0;
}

void redis_point_text(const struct redis_point *point, char *text, size_t size)
{
    bool is_v6 = strchr(point->host, ':') != NULL;
    if (point->is_unix)
        snprintf(text, size, "unix:%s", point->host);
    else
        snprintf(text, size, is_v6 ? "[%s]:%s" : "%s:%s", point->host, point->port);
}

static enum status parse_socket(struct redis_point *point, const char *text, struct error *error)
{
    const char *path = text + strlen("unix:");
    point->is_unix = true;
    if (*path != '/')
        return refuse(error, text, "must name an absolute path after unix:");
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path) ||
        !text_copy(point->host, sizeof point->host, path))
        return refuse(error, text, "is longer than a socket's path may be");
    return STATUS_OK;
}

/* One of a list; `text` is the whole of it without its commas. */
static enum status parse_point(struct redis_point *point, const char *text, const char *port,
                               struct error *error)
{
    const char *host = text, *end;
    if (*text == '/')
        return refuse(error, text, "is a path; a socket is written unix:/path");
    if (*text == '[') {
        host++;
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':'))
            return refuse(error, text, "must be [address]:port");
        port = end[1] ? end + 2 : port;
    } else {
        end = strrchr(text, ':');
        if (end && memchr(text, ':', (size_t)(end - text)))
            return refuse(error, text, "is an IPv6 one; write [address]:port");
        port = end ? end + 1 : port;
        end = end ? end : text + strlen(text);
    }
    size_t length = (size_t)(end - host);
    char name[sizeof point->host];
    if (length == 0)
        return refuse(error, text, "has no host");
    if (length >= sizeof name)
        return refuse(error, text, "has a host of more than 255 bytes");
    memcpy(name, host, length);
    name[length] = '\0';
    if (!redis_point_set(point, name, port))
        return refuse(error, text, "must end in a port from 1 to 65535");
    return STATUS_OK;
}

static enum status parse_list(struct redis_address *address, const char *text, const char *port,
                              struct error *error)
{
    char one[REDIS_POINT_TEXT_MAX];
    do {
        text += strspn(text, " ");
        size_t length = strcspn(text, ",");
        if (address->count == REDIS_POINTS_MAX)
            return error_set(error, STATUS_BAD_JOB,
                             "the option redis names more than %d servers", REDIS_POINTS_MAX);
        if (length >= sizeof one)
            return refuse(error, text, "has a host of more than 255 bytes");
        memcpy(one, text, length);
        one[length] = '\0';
        if (strncmp(one, "unix:", 5) == 0)
            return refuse(error, one, "is a socket; a list takes host:port alone");
        if (parse_point(&address->points[address->count++], one, port, error) != STATUS_OK)
            return error->status;
        text += length;
    } while (*text++ == ',');
    return STATUS_OK;
}

/* `text` begins behind sentinel:// */
static enum status parse_sentinels(struct redis_address *address, const char *text,
                                   struct error *error)
{
    const char *at = strchr(text, '@');
    size_t length = at ? (size_t)(at - text) : 0;
    if (length == 0)
        return refuse(error, text, "names no master; write sentinel://MASTER@host:port,host:port");
    if (length >= sizeof address->master)
        return refuse(error, text, "has a master's name of more than 127 bytes");
    memcpy(address->master, text, length);
    return parse_list(address, at + 1, SENTINEL_PORT, error);
}

enum status redis_address_parse(struct redis_address *address, const char *text,
                                struct error *error)
{
    size_t scheme = strlen(SENTINEL_SCHEME);
    memset(address, 0, sizeof *address);
    if (strncmp(text, SENTINEL_SCHEME, scheme) == 0)
        return parse_sentinels(address, text + scheme, error);
    if (strncmp(text, "rediss://", 9) == 0)
        return refuse(error, text, "asks for TLS, which gpuimgd does not speak; use stunnel");
    if (strstr(text, "://"))
        return refuse(error, text,
                      "is a URL; write host:port, unix:/path or sentinel://MASTER@host:port");
    if (strncmp(text, "unix:", 5) == 0) {
        address->count = 1;
        return parse_socket(&address->points[0], text, error);
    }
    return parse_list(address, text, REDIS_PORT, error);
}
