/*
 * http_server.h - serves metrics, health checks and the status page over HTTP (option
 * metrics_listen).
 *
 * libmicrohttpd runs in a thread of its own, so slow or hostile clients never delay the event loop.
 * Once per second the event loop takes a snapshot of the daemon's state and publishes it. The HTTP
 * thread writes each document (a page or a list of metrics) from the latest snapshot, keeps it for
 * up to one second, and serves it from memory.
 *
 * Without libmicrohttpd at build time, http_server_check refuses every value except "". Call all
 * functions on the loop thread.
 */
#pragma once

#include "daemon/http/fleet_reader.h"
#include "daemon/telemetry/snapshot.h"

struct http_server;

/* Checks a value of metrics_listen; "" (no server) is valid. false: error has the reason. */
bool http_server_check(const char *listen, struct error *error) MUST_CHECK;

/* The same, and whether this host has the address, or the unix socket can be created. Looks up the
 * host name. Does not find out if another process uses the port. */
bool http_server_check_host(const char *listen, struct error *error) MUST_CHECK;

/* Opens the socket, starts the HTTP thread and serves this snapshot. NULL: error has the reason. */
struct http_server *http_server_create(const char *listen, const struct snapshot *snapshot,
                                       struct error *error);
/* Serves this snapshot from now on, or skips it if the HTTP thread holds the lock. */
void http_server_publish(struct http_server *server, const struct snapshot *snapshot);
/* From now on, /fleet.json reads the daemons of the namespace with this reader, which must outlive
 * the server. */
void http_server_serve_fleet(struct http_server *server, struct fleet_reader *fleet);
/* The URL with the actual port: "http://127.0.0.1:9464/". */
const char *http_server_name(const struct http_server *server);
/* Closes all connections and joins the thread. Takes NULL. */
void http_server_destroy(struct http_server *server);
