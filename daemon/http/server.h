/*
 * server.h - serves metrics, health checks and the status page over HTTP (option metrics_listen).
 *
 * libmicrohttpd runs in its own thread, so slow or hostile clients never delay the event loop. The
 * loop publishes snapshots under a lock, for which it never waits. The HTTP thread writes each
 * document at most once per snapshot and serves it from memory.
 *
 * Without libmicrohttpd at build time, web_check refuses every value except "". Loop thread only.
 */
#pragma once

#include "daemon/telemetry/snapshot.h"

struct web;

/* Checks a value of metrics_listen; "" (no server) is valid. false: error has the reason. */
bool web_check(const char *listen, struct error *error) MUST_CHECK;

/* The same, and whether this host has the address or can make the unix socket. Looks up the host
 * name. Another process may use the port. */
bool web_check_host(const char *listen, struct error *error) MUST_CHECK;

/* Opens the socket, starts the HTTP thread and serves the snapshot. NULL: error has the reason. */
struct web *web_create(const char *listen, const struct snapshot *snapshot, struct error *error);
/* Serves this snapshot from now on, or skips it if the HTTP thread holds the lock. */
void web_publish(struct web *web, const struct snapshot *snapshot);
/* The URL with the actual port: "http://127.0.0.1:9464/". */
const char *web_name(const struct web *web);
/* Closes all connections and joins the thread. Takes NULL. */
void web_destroy(struct web *web);
