/*
 * listener.h - the socket that HTTP is served on, and the forms in which an option names it.
 */
#ifndef GPUIMGD_DAEMON_HTTP_LISTENER_H
#define GPUIMGD_DAEMON_HTTP_LISTENER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/un.h>

#include "conf/status.h"

struct listener {
    int fd;          /* -1: none */
    char name[320];  /* for people: "http://127.0.0.1:9464/", with the port that it got */
    char host[256];  /* as the option names it; "" = unix */
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* removed at the end; "" = TCP */
};

/* Whether text is "port" (on 127.0.0.1), "host:port", "[v6]:port" or "unix:/path"; port 0 means
 * any that is free. No name is looked up. false with a sentence that begins with `option`. */
bool listener_check(const char *option, const char *text, struct error *error) MUST_CHECK;

/* Binds and listens, not blocking; looks names up, except localhost, which is 127.0.0.1. A socket
 * that a process which is gone has left at the path is replaced. Not the loop's while jobs run: a
 * name server may take its time. */
bool listener_open(struct listener *listener, const char *option, const char *text,
                   struct error *error) MUST_CHECK;
void listener_close(struct listener *listener); /* idempotent */

/* Whether a request with this Host header may be answered: it names an IP address, localhost or the
 * listener's own host, with or without a port. A web page of a foreign site can make its name point
 * at our address (DNS rebinding) and then read the answers as its own, but its name stays in Host.
 * A unix socket takes any: no browser gets there. NULL, no header, is taken. */
bool listener_takes_host(const struct listener *listener, const char *header);

#endif
