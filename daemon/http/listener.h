/* listener.h - parses the address in an option and opens the socket for the HTTP server. Only
 * listener_takes_host runs on the HTTP thread. */
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

/* The same, and whether listener_open could bind the address if no process had its port. Opens no
 * port, but looks up the host name, as listener_open does. */
bool listener_check_host(const char *option, const char *text, struct error *error) MUST_CHECK;

/* Opens a non-blocking socket, binds it and listens. Replaces the unix socket of a dead process.
 * Looks up the host name, which may block on DNS: call it only before jobs run. localhost is
 * 127.0.0.1, without a lookup. */
bool listener_open(struct listener *listener, const char *option, const char *text,
                   struct error *error) MUST_CHECK;
void listener_close(struct listener *listener); /* idempotent */

/* Returns true if a request with this Host header (NULL: none) may be answered. This stops DNS
 * rebinding: a foreign site can point its name to our address, but the browser still sends that
 * name as Host. A unix socket accepts any Host, because browsers cannot connect to it. */
bool listener_takes_host(const struct listener *listener, const char *header);
