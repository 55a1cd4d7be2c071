#include "daemon/http/http_server.h"

#include <string.h>

#include "daemon/http/listener.h"

#define OPTION_NAME "metrics_listen"

#ifndef GPUIMGD_HTTP

bool http_server_check(const char *listen, struct error *error)
{
    return !*listen ||
           error_refuse(error, "option " OPTION_NAME " is \"%.200s\", but this gpuimgd was built "
                        "without libmicrohttpd and serves no HTTP; leave it empty", listen);
}

bool http_server_check_host(const char *listen, struct error *error)
{
    return http_server_check(listen, error);
}

struct http_server *http_server_create(const char *listen, const struct snapshot *snapshot,
                                       struct error *error)
{
    (void)snapshot;
    (void)!http_server_check(listen, error);
    return NULL;
}

void http_server_publish(struct http_server *server, const struct snapshot *snapshot)
{
    (void)server, (void)snapshot;
}

void http_server_serve_fleet(struct http_server *server, struct fleet_reader *fleet)
{
    (void)server, (void)fleet;
}

const char *http_server_name(const struct http_server *server)
{
    (void)server;
    return "";
}

void http_server_destroy(struct http_server *server)
{
    (void)server;
}

#else

#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "conf/clock.h"
#include "conf/limits.h"
#include "daemon/http/fleet_json.h"
#include "daemon/http/pages.inc"
#include "daemon/telemetry/prometheus.h"
#include "daemon/telemetry/status_json.h"

/* If this many connections are open, a new one closes the oldest, so that a client with many slow
 * connections does not lock others out. HTTP_CONNECTIONS_MAX is higher, because a connection that
 * is being closed still counts for libmicrohttpd. */
#define CONNECTIONS_KEPT 32
/* A silent connection is closed after this time. */
#define IDLE_S 10
/* Memory per connection, which limits the length of a request header. Browsers also send the
 * cookies of all other services on the same host. */
#define CONNECTION_BYTES_MAX (32 * KIB)
/* A document is written again after this time even if the snapshot is still the same: the document
 * says how old the snapshot is, so that a stuck loop is noticed. */
#define DOCUMENT_NS NS_PER_S
/* Redis is asked for the fleet no more often, also if several pages of it are viewed. */
#define FLEET_NS             (NS_PER_S / 4)
/* After Redis has not answered, it is not asked for this time: the wait for it also delays answers
 * to probes. */
#define FLEET_PAUSE_NS       (3 * NS_PER_S)
/* 421 Misdirected Request (RFC 9110, section 15.5.20). Older versions of libmicrohttpd lack it. */
#define MISDIRECTED 421
/* The HTTP thread has a lower priority than the workers and the loop. */
#define NICENESS 10

/* What a path of the server returned last. */
struct document {
    struct MHD_Response *response; /* NULL: not written yet */
    unsigned status;               /* of HTTP */
    uint64_t generation, made_ns;  /* of which snapshot it was made, and when */
};

struct connection {
    int fd;         /* -1: this entry of the table is free */
    bool shut_down; /* by note_connection; libmicrohttpd closes it next */
    uint64_t since_ns;
};

enum { ROUTES = 8 };

struct http_server {
    struct listener listener;
    struct MHD_Daemon *mhd;
    pthread_mutex_t lock;
    struct snapshot shown;  /* the latest snapshot; guarded by lock */
    struct history history; /* guarded by lock */
    struct fleet_reader *fleet; /* borrowed, or NULL; guarded by lock */

    /* HTTP thread only: */
    struct snapshot seen;        /* copy of `shown` */
    struct history seen_history; /* copy of `history`, for history_json_write */
    struct document documents[ROUTES];
    uint32_t fleet_page;     /* of the document in the table */
    uint64_t fleet_asked_ns; /* when Redis answered last, or did not */
    uint64_t fleet_pause_ns; /* until when it is not asked; 0: none */
    struct error fleet_error; /* why it gave no fleet */
    struct connection connections[HTTP_CONNECTIONS_MAX];
    bool nice; /* the thread has set its priority */
};

/* ---- documents ------------------------------------------------------------------------------ */

static char *write_page(struct http_server *server, uint64_t now_ns)
{
    (void)server, (void)now_ns;
    return strdup(status_page);
}

static char *write_json(struct http_server *server, uint64_t now_ns)
{
    return status_json_write(&server->seen, now_ns);
}

static char *write_metrics(struct http_server *server, uint64_t now_ns)
{
    return prometheus_write(&server->seen, now_ns);
}

static char *write_history(struct http_server *server, uint64_t now_ns)
{
    (void)now_ns;
    pthread_mutex_lock(&server->lock);
    server->seen_history = server->history;
    pthread_mutex_unlock(&server->lock);
    return history_json_write(&server->seen_history);
}

static char *write_fleet_page(struct http_server *server, uint64_t now_ns)
{
    (void)server, (void)now_ns;
    return strdup(fleet_page);
}

static char *write_fleet(struct http_server *server, uint64_t now_ns)
{
    pthread_mutex_lock(&server->lock);
    struct fleet_reader *reader = server->fleet;
    pthread_mutex_unlock(&server->lock);
    struct fleet *fleet = NULL;
    if (reader && server->seen.redis_ready && now_ns >= server->fleet_pause_ns) {
        fleet = fleet_reader_read(reader, server->fleet_page * FLEET_PAGE, &server->fleet_error);
        server->fleet_asked_ns = clock_now_ns();
        server->fleet_pause_ns = fleet ? 0 : server->fleet_asked_ns + FLEET_PAUSE_NS;
    }
    char *text = fleet_json_write(&server->seen, fleet, &server->fleet_error);
    if (fleet)
        fleet_clear(fleet);
    free(fleet);
    return text;
}

#define PLAIN_TYPE "text/plain; charset=utf-8"
#define NO_POLICY  "default-src 'none'; frame-ancestors 'none'"

static const struct route {
    const char *path, *type, *policy;
    /* One of these two is set. `write` writes the document, which is then used for up to
     * DOCUMENT_NS. `verdict` is called for each request: its text is the document, and its result
     * is the status. */
    char *(*write)(struct http_server *server, uint64_t now_ns);
    bool (*verdict)(const struct snapshot *snapshot, uint64_t now_ns, char *why, size_t size);
} routes[ROUTES] = {
    {"/", "text/html; charset=utf-8", STATUS_PAGE_POLICY, write_page, NULL},
    {"/metrics", PROMETHEUS_TYPE, NO_POLICY, write_metrics, NULL},
    {"/status.json", "application/json", NO_POLICY, write_json, NULL},
    {"/history.json", "application/json", NO_POLICY, write_history, NULL},
    {"/fleet", "text/html; charset=utf-8", FLEET_PAGE_POLICY, write_fleet_page, NULL},
    {"/fleet.json", "application/json", NO_POLICY, write_fleet, NULL},
    {"/healthz", PLAIN_TYPE, NO_POLICY, NULL, snapshot_alive},
    {"/readyz", PLAIN_TYPE, NO_POLICY, NULL, snapshot_ready},
};

/* Takes ownership of text. NULL: out of memory. */
static struct MHD_Response *respond(char *text, const char *type, const char *policy)
{
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) { /* uncovered: service (tests/coverage/reasons.txt) */
        free(text);
        return NULL;
    }
    const char *const headers[][2] = {
        {"Content-Type", type},
        {"Content-Security-Policy", policy},
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    return response;
}

static void drop_document(struct document *document)
{
    if (document->response)
        MHD_destroy_response(document->response); /* connections keep their own reference */
    *document = (struct document){0};
}

/* The document of a route for the latest snapshot, cached or written now. NULL: out of memory. */
static const struct document *document_of(struct http_server *server, size_t index)
{
    const struct route *route = &routes[index];
    struct document *document = &server->documents[index];
    pthread_mutex_lock(&server->lock);
    if (server->seen.generation != server->shown.generation)
        server->seen = server->shown;
    pthread_mutex_unlock(&server->lock);
    uint64_t now_ns = clock_now_ns();
    if (document->response && route->write && document->generation == server->seen.generation &&
        now_ns - document->made_ns < DOCUMENT_NS)
        return document;
    drop_document(document);
    char why[ERROR_TEXT_MAX + 64], *text = NULL;
    bool good = !route->verdict || route->verdict(&server->seen, now_ns, why, sizeof why);
    if (route->write)
        text = route->write(server, now_ns);
    else if (asprintf(&text, "%s\n", why) < 0)
        text = NULL; /* uncovered: service */
    *document = (struct document){respond(text, route->type, route->policy),
                                  good ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                                  server->seen.generation, now_ns};
    return document->response ? document : NULL;
}

/* ---- requests ------------------------------------------------------------------------------- */

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
                              const char *sentence)
{
    struct MHD_Response *response = respond(strdup(sentence), PLAIN_TYPE, NO_POLICY);
    if (!response) /* uncovered: service */
        return MHD_NO;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, "Retry-After", "1");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* Prepares the document of a page of the fleet: ?page=N, by default 0. false: an answer that says
 * why it cannot be given was queued; *queued is its result. */
static bool choose_fleet_page(struct http_server *server, struct MHD_Connection *connection,
                              size_t index, enum MHD_Result *queued)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "page");
    size_t digits = text ? strspn(text, "0123456789") : 0;
    if (text && (digits < 1 || digits > 4 || text[digits])) {
        *queued = refuse(connection, MHD_HTTP_BAD_REQUEST, "page must be 0 to 9999\n");
        return false;
    }
    uint32_t page = text ? (uint32_t)atoi(text) : 0;
    if (page == server->fleet_page)
        return true;
    if (clock_now_ns() - server->fleet_asked_ns < FLEET_NS) {
        *queued = refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "another page was read a moment ago; try again\n");
        return false;
    }
    drop_document(&server->documents[index]);
    server->fleet_page = page;
    return true;
}

/* Called by libmicrohttpd when a request header is complete. A body is not read: with a response
 * queued at this point, libmicrohttpd closes the connection after it. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *url, const char *method, const char *version,
                                  const char *upload, size_t *upload_size, void **state)
{
    struct http_server *server = context;
    (void)version, (void)upload, (void)upload_size, (void)state;
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    if (!listener_takes_host(&server->listener, host))
        return refuse(connection, MISDIRECTED,
                      "Host must be an IP address, localhost or the name in " OPTION_NAME "\n");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "the method must be GET or HEAD\n");
    for (size_t i = 0; i < ROUTES; i++) {
        if (strcmp(url, routes[i].path) != 0)
            continue;
        enum MHD_Result queued;
        if (routes[i].write == write_fleet && !choose_fleet_page(server, connection, i, &queued))
            return queued;
        const struct document *document = document_of(server, i);
        return document ? MHD_queue_response(connection, document->status, document->response)
                        : MHD_NO;
    }
    return refuse(connection, MHD_HTTP_NOT_FOUND,
                  "not found; the paths are /, /metrics, /status.json, /history.json, /fleet, "
                  "/fleet.json, /healthz and /readyz\n");
}

/* ---- connections ---------------------------------------------------------------------------- */

/* Notes a new connection. If CONNECTIONS_KEPT are open already, it shuts the oldest one down;
 * libmicrohttpd then closes that connection and calls on_connection. */
static void note_connection(struct http_server *server, int fd, void **socket_context)
{
    size_t kept = 0;
    struct connection *place = NULL, *oldest = NULL;
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        struct connection *connection = &server->connections[i];
        if (connection->fd < 0) {
            place = connection;
        } else if (!connection->shut_down) {
            kept++;
            oldest = !oldest || connection->since_ns < oldest->since_ns ? connection : oldest;
        }
    }
    if (kept >= CONNECTIONS_KEPT) {
        oldest->shut_down = true;
        shutdown(oldest->fd, SHUT_RDWR);
    }
    *socket_context = place;
    if (place)
        *place = (struct connection){.fd = fd, .since_ns = clock_now_ns()};
}

static void on_connection(void *context, struct MHD_Connection *handle, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    if (!server->nice) {
        setpriority(PRIO_PROCESS, 0, NICENESS); /* on Linux of this thread only; may fail */
        server->nice = true;
    }
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info)
            note_connection(server, info->connect_fd, socket_context);
    } else if (*socket_context) {
        struct connection *connection = *socket_context;
        *connection = (struct connection){.fd = -1};
        *socket_context = NULL;
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

bool http_server_check(const char *listen, struct error *error)
{
    return !*listen || listener_check(OPTION_NAME, listen, error);
}

bool http_server_check_host(const char *listen, struct error *error)
{
    return !*listen || listener_check_host(OPTION_NAME, listen, error);
}

struct http_server *http_server_create(const char *listen, const struct snapshot *snapshot,
                                       struct error *error)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (!server) { /* uncovered: memory */
        error_set(error, STATUS_INTERNAL, "no memory to serve " OPTION_NAME);
        return NULL;
    }
    if (!listener_open(&server->listener, OPTION_NAME, listen, error)) {
        free(server);
        return NULL;
    }
    pthread_mutex_init(&server->lock, NULL);
    server->shown = *snapshot;
    history_add(&server->history, snapshot);
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        server->connections[i].fd = -1;
    server->mhd = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET,
        server->listener.fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES_MAX,
        MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    /* libmicrohttpd owns the socket now, even if its thread did not start. */
    server->listener.fd = -1;
    if (!server->mhd) { /* uncovered: service */
        error_set(error, STATUS_INTERNAL, "option " OPTION_NAME " is \"%.200s\", but the HTTP "
                  "server does not start: no memory, threads or file descriptors", listen);
        http_server_destroy(server);
        return NULL;
    }
    return server;
}

/* Skips the snapshot rather than wait for the lock: the HTTP thread has a low priority, so it may
 * lose its CPU for a long time while it holds the lock. */
void http_server_publish(struct http_server *server, const struct snapshot *snapshot)
{
    if (pthread_mutex_trylock(&server->lock) != 0) /* uncovered: service */
        return;
    server->shown = *snapshot;
    history_add(&server->history, snapshot);
    pthread_mutex_unlock(&server->lock);
}

void http_server_serve_fleet(struct http_server *server, struct fleet_reader *fleet)
{
    pthread_mutex_lock(&server->lock);
    server->fleet = fleet;
    pthread_mutex_unlock(&server->lock);
}

const char *http_server_name(const struct http_server *server)
{
    return server->listener.name;
}

void http_server_destroy(struct http_server *server)
{
    if (!server)
        return;
    if (server->mhd)
        MHD_stop_daemon(server->mhd);
    for (size_t i = 0; i < ROUTES; i++)
        drop_document(&server->documents[i]);
    listener_close(&server->listener);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

#endif
