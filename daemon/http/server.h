/*
 * web.h - metrics, health and the status page over HTTP, where the option metrics_listen is set.
 *
 * libmicrohttpd serves on one thread of its own: what clients send and how slowly they read never
 * takes the loop's time, which parsing and writing on it would. The loop hands a snapshot over
 * under a lock that either side holds for one copy, and that the loop never waits for; the thread
 * makes each document of a snapshot once, however often it is asked for. Built without
 * libmicrohttpd, the option is refused.
 */
#ifndef GPUIMGD_DAEMON_HTTP_SERVER_H
#define GPUIMGD_DAEMON_HTTP_SERVER_H

#include <stdbool.h>

#include "conf/status.h"
#include "daemon/telemetry/snapshot.h"

struct web;

/* Whether metrics_listen may have this text; "" always. false with a sentence in error. */
bool web_check(const char *listen, struct error *error) MUST_CHECK;

/* Listens there from here on and shows the snapshot. NULL with a sentence in error. */
struct web *web_create(const char *listen, const struct snapshot *snapshot, struct error *error);
/* Shows this one from here on. Loop thread; does not wait: where the last one is being copied at
 * this moment, this one is left out, and the next one shows all that it had. */
void web_publish(struct web *web, const struct snapshot *snapshot);
/* "http://127.0.0.1:9464/", with the port that it got. */
const char *web_name(const struct web *web);
/* Ends all connections at once. Takes NULL. */
void web_destroy(struct web *web);

#endif
