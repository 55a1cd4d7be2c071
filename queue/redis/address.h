/*
 * address.h - the forms in which the option `redis` names a server, several, or Sentinels.
 */
#ifndef GPUIMGD_QUEUE_REDIS_ADDRESS_H
#define GPUIMGD_QUEUE_REDIS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/status.h"

/* A Cluster's seeds, or Sentinels: three or five are usual. */
#define REDIS_ENDPOINTS_MAX 16
#define REDIS_MASTER_BYTES_MAX 128
/* "[host]:port" */
#define REDIS_ENDPOINT_TEXT_MAX 272

/* Where one server listens. */
struct redis_endpoint {
    bool is_unix;
    char host[256]; /* or the socket's path */
    char port[8];
};

struct redis_address {
    char master[REDIS_MASTER_BYTES_MAX]; /* as Sentinels know it; "" = the endpoints are servers */
    size_t count;
    struct redis_endpoint endpoints[REDIS_ENDPOINTS_MAX];
};

/* "host:port", "host" (port 6379), "[v6]:port", several of them with commas between, "unix:/path",
 * "sentinel://MASTER@host:port,..." (port 26379). bad_job, with a sentence, for anything else;
 * rediss:// among it. */
enum status redis_address_parse(struct redis_address *address, const char *text,
                                struct error *error) MUST_CHECK;

/* "host:port" as Redis writes it: an IPv6 address has no brackets. False if it is no such thing. */
bool redis_endpoint_read(struct redis_endpoint *endpoint, const char *text);
bool redis_endpoint_set(struct redis_endpoint *endpoint, const char *host, const char *port);
bool redis_endpoint_equal(const struct redis_endpoint *a, const struct redis_endpoint *b);
/* For people: "host:port", "[v6]:port", "unix:/path". */
void redis_endpoint_text(const struct redis_endpoint *endpoint, char *text, size_t size);

#endif
