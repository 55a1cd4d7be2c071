/*
 * networks.h - decides which addresses the daemon may connect to for a URL.
 *
 * A client of the queue must not reach internal services through the daemon. So addresses that are
 * not on the public internet are forbidden: loopback, private and link-local networks, the metadata
 * servers of clouds, and the other special networks of networks.c. The option url_networks lists
 * networks that are allowed in spite of this. An IPv4 address that is mapped into IPv6
 * (::ffff:a.b.c.d) is treated as that IPv4 address. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "conf/status.h"

struct network {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;       /* length of the prefix: 0 to 128, for IPv4 96 to 128 */
};

struct networks {
    struct network *items;
    size_t count;
};

/* Parses "10.0.0.0/8 fd00::/8 127.0.0.1". Separators are blanks and commas. Call networks_clear in
 * any case. */
bool networks_parse(struct networks *networks, const char *text, struct error *error) MUST_CHECK;
void networks_clear(struct networks *networks); /* idempotent */

/* NULL: the daemon may connect to this address. Else the kind of network, for a message: "a private
 * network". */
const char *networks_forbid(const struct networks *networks, const struct sockaddr *address);
