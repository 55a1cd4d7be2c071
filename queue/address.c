/* address.c - the forms in which the option `redis` names a server (redis.h). */
#include "queue/redis.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "conf/text.h"

static enum status refuse(struct error *error, const char *text, const char *why)
{
    return error_set(error, STATUS_BAD_JOB, "the address \"%.100s\" of Redis %s", text, why);
}

enum status redis_address_parse(struct redis_address *address, const char *text,
                                struct error *error)
{
    memset(address, 0, sizeof *address);
    if (strncmp(text, "rediss://", 9) == 0)
        return refuse(error, text, "asks for TLS, which gpuimgd does not speak; use stunnel");
    if (strstr(text, "://"))
        return refuse(error, text, "is a URL; write host:port or unix:/path");
    if (strncmp(text, "unix:", 5) == 0) {
        address->is_unix = true;
        if (text[5] != '/')
            return refuse(error, text, "must name an absolute path after unix:");
        if (strlen(text + 5) >= sizeof(((struct sockaddr_un *)NULL)->sun_path) ||
            !text_copy(address->host, sizeof address->host, text + 5))
            return refuse(error, text, "is longer than a socket's path may be");
        return STATUS_OK;
    }
    const char *host = text, *end, *port;
    if (*text == '[') {
        host++;
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':'))
            return refuse(error, text, "must be [address]:port");
        port = end[1] ? end + 2 : "6379";
    } else {
        end = strrchr(text, ':');
        if (end && memchr(text, ':', (size_t)(end - text)))
            return refuse(error, text, "is an IPv6 one; write [address]:port");
        port = end ? end + 1 : "6379";
        end = end ? end : text + strlen(text);
    }
    size_t length = (size_t)(end - host);
    char *rest;
    long number = strtol(port, &rest, 10);
    if (length == 0 || length >= sizeof address->host)
        return refuse(error, text, "has no host");
    if (!strchr("123456789", *port) || !*port || *rest || number > 65535)
        return refuse(error, text, "must end in a port from 1 to 65535");
    memcpy(address->host, host, length);
    text_copy(address->port, sizeof address->port, port);
    return STATUS_OK;
}
