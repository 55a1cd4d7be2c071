/*
 * listener.h - opens the socket of the HTTP server, at the address in an option.
 *
 * listener_takes_host runs on the HTTP thread, all other functions run on the loop thread.
 */
#pragma once

#include <netinet/in.h>
#include <sys/un.h>

#include "conf/status.h"

struct listener {
    int fd;         /* -1: closed */
    char name[320]; /* for messages: "http://127.0.0.1:9464/", with the actual port */
    char host[256]; /* host name in the option; "": unix socket */
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* removed on close; "": TCP */
};

/* Checks that text is "port" (on 127.0.0.1), "host:port", "[v6]:port" or "unix:/path". Port 0 means
 * any free port. Looks up no name. false: error names the option and the reason. */
bool listener_check(const char *option, const char *text, struct error *error) MUST_CHECK;

/* The same, and whether listener_open could open the socket, as far as this can be known without
 * taking the port: another process may use it. Looks up the host name. */
bool listener_check_host(const char *option, const char *text, struct error *error) MUST_CHECK;

/* Opens a non-blocking socket, binds it and listens. Replaces a unix socket whose process is dead.
 * The lookup of the host name may block for long: call it only before jobs run. localhost is
 * 127.0.0.1, without a lookup. */
bool listener_open(struct listener *listener, const char *option, const char *text,
                   struct error *error) MUST_CHECK;
void listener_close(struct listener *listener); /* idempotent */

/* Whether a request with this Host header (NULL: none) may be answered. The check stops DNS
 * rebinding: a foreign website can let its name point to the address of this server, so that its
 * scripts may read the answers. But the browser still sends that name as Host. A unix socket
 * accepts any Host, because browsers cannot connect to it. */
bool listener_takes_host(const struct listener *listener, const char *header);
