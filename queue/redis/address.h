/* address.h - parses the option `redis`: one server, several servers, or a list of Sentinels. All
 * functions may be called on any thread. */
#pragma once

#include "conf/status.h"

/* The most servers or Sentinels in one address. Three or five are usual. */
#define REDIS_ENDPOINTS_MAX 16
#define REDIS_MASTER_BYTES_MAX 128
#define REDIS_USER_BYTES_MAX     256
#define REDIS_PASSWORD_BYTES_MAX 1024
/* "[host]:port" with its NUL. */
#define REDIS_ENDPOINT_TEXT_MAX 272

/* Where one server listens. */
struct redis_endpoint {
    bool is_unix;
    char host[256]; /* if is_unix: the path of the socket */
    char port[8];
};

struct redis_address {
    bool tls;                                /* connect to all servers or Sentinels with TLS */
    char user[REDIS_USER_BYTES_MAX];         /* of a URL; "": the default user */
    char password[REDIS_PASSWORD_BYTES_MAX]; /* of a URL; "": none, so use redis_username and
                                                redis_password_file */
    long database;                           /* of a URL; -1: none, so use redis_database */
    char master[REDIS_MASTER_BYTES_MAX]; /* if the endpoints are Sentinels: the name of the master
                                            that they monitor; else "" */
    size_t count;                        /* of endpoints */
    struct redis_endpoint endpoints[REDIS_ENDPOINTS_MAX];
};

/* Accepts "host" (port 6379), "host:port", "[v6]:port", a list of these separated by commas,
 * "unix:/path", "sentinel://MASTER@host:port,..." (port 26379), and
 * "redis://[user:password@]LIST[/database]". "rediss://" and "sentinels://" are the same with TLS;
 * a build without OpenSSL refuses them. For everything else it fails with STATUS_BAD_JOB and a
 * sentence in `error`. */
enum status redis_address_parse(struct redis_address *address, const char *text,
                                struct error *error) MUST_CHECK;

/* Whether one of the servers is on this host: a unix socket, or a loopback address. false for
 * Sentinels: their master may be anywhere. */
bool redis_address_is_local(const struct redis_address *address);

/* Parses "host:port" as Redis prints it: without brackets around an IPv6 address. Returns false if
 * the text has another form. */
bool redis_endpoint_read(struct redis_endpoint *endpoint, const char *text);
/* Returns false if the host is empty or too long, or if the port is not 1 to 65535. */
bool redis_endpoint_set(struct redis_endpoint *endpoint, const char *host, const char *port);
bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b);
/* Formats for log lines: "host:port", "[v6]:port" or "unix:/path". */
void redis_endpoint_text(const struct redis_endpoint *endpoint, char *text, size_t size);
