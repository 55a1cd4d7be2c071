/*
 * http.h - an HTTP client over bare sockets, for tests: polite requests, and the sockets themselves
 * for those that are not.
 *
 * Functions that wait give up after patience(10) seconds. Failures to connect or to be answered end
 * in status 0.
 */
#ifndef GPUIMGD_TESTS_TOOLS_HTTP_H
#define GPUIMGD_TESTS_TOOLS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct http_reply {
    int status;   /* 0: none */
    char *head;   /* status line and headers, never NULL */
    char *body;   /* NUL-terminated, never NULL */
    size_t length; /* of body */
};

/* A socket that is connected to a place such as "http://127.0.0.1:9464/", "http://[::1]:9464/" or
 * "unix:/path"; -1. */
int http_connect(const char *place);
/* Sends as much as the other side takes; false: not all. */
bool http_send(int fd, const char *text, size_t length);
/* Reads until the other side closes. Closes the socket. */
struct http_reply http_receive(int fd);

/* One request on a connection of its own. */
struct http_reply http_request(const char *place, const char *method, const char *path);
/* With this text as its Host header. */
struct http_reply http_request_as(const char *place, const char *method, const char *path,
                                  const char *host);
void http_free(struct http_reply *reply);

/* The value of a header, in a static buffer; "" where it is not there. */
const char *http_header(const struct http_reply *reply, const char *name);

#endif
