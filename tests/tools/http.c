#include "tests/tools/http.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/tools/process.h"

static int connect_to(int family, const struct sockaddr *address, socklen_t length)
{
    struct timeval patient = {.tv_sec = (time_t)patience(10)};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patient, sizeof patient);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patient, sizeof patient);
    if (connect(fd, address, length) == 0)
        return fd;
    close(fd);
    return -1;
}

int http_connect(const char *place)
{
    char host[128], port[8];
    if (strncmp(place, "unix:", 5) == 0) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", place + 5);
        return connect_to(AF_UNIX, (struct sockaddr *)&address, sizeof address);
    }
    if (sscanf(place, "http://[%127[^]]]:%7[0-9]/", host, port) != 2 &&
        sscanf(place, "http://%127[^:]:%7[0-9]/", host, port) != 2)
        return -1;
    struct addrinfo *found, wanted = {.ai_socktype = SOCK_STREAM};
    bool is_local = strcmp(host, "localhost") == 0; /* not every hosts file has it */
    if (getaddrinfo(is_local ? "127.0.0.1" : host, port, &wanted, &found) != 0)
        return -1;
    int fd = connect_to(found->ai_family, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return fd;
}

bool http_send(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        text += sent;
        length -= (size_t)sent;
    }
    return true;
}

static char *read_all(int fd, size_t *length)
{
    size_t size = 4096;
    char *text = malloc(size);
    ssize_t got = 0;
    for (*length = 0; text && (got = recv(fd, text + *length, size - *length - 1, 0)) > 0;) {
        *length += (size_t)got;
        if (size - *length < 2048)
            text = realloc(text, size *= 2);
    }
    if (!text)
        abort();
    if (got < 0)
        *length = 0; /* it did not close in time, or in a bad manner */
    text[*length] = '\0';
    return text;
}

struct http_reply http_receive(int fd)
{
    struct http_reply reply = {0};
    size_t length = 0;
    char *text = fd >= 0 ? read_all(fd, &length) : calloc(1, 1);
    char *end = text ? strstr(text, "\r\n\r\n") : NULL;
    if (fd >= 0)
        close(fd);
    if (end && sscanf(text, "HTTP/1.%*1[01] %d ", &reply.status) == 1) {
        reply.length = length - (size_t)(end + 4 - text);
        reply.body = malloc(reply.length + 1);
        if (!reply.body)
            abort();
        memcpy(reply.body, end + 4, reply.length + 1);
        end[2] = '\0';
    } else {
        reply.body = calloc(1, 1);
    }
    reply.head = text;
    return reply;
}

struct http_reply http_request_as(const char *place, const char *method, const char *path,
                                  const char *host)
{
    char text[1024];
    int fd = http_connect(place);
    int length = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, path,
                          host);
    if (fd >= 0)
        http_send(fd, text, (size_t)length);
    return http_receive(fd);
}

struct http_reply http_request(const char *place, const char *method, const char *path)
{
    char host[160] = "gpuimgd.test"; /* of a unix socket */
    sscanf(place, "http://%159[^/]/", host);
    return http_request_as(place, method, path, host);
}

void http_free(struct http_reply *reply)
{
    free(reply->head);
    free(reply->body);
    *reply = (struct http_reply){0};
}

const char *http_header(const struct http_reply *reply, const char *name)
{
    static char value[1024];
    size_t length = strlen(name);
    for (const char *line = strstr(reply->head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            line += strspn(line, " ");
            snprintf(value, sizeof value, "%.*s", (int)strcspn(line, "\r"), line);
            return value;
        }
    }
    return "";
}
