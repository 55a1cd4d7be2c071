/*
 * transfer.h - one download or upload over HTTP, with its redirects; a part of fetcher.c.
 *
 * A transfer consists of one request, or of several if the server redirects it. These functions set
 * libcurl's options for a request, receive the body, and decide after each request whether the
 * transfer has ended. Loop thread only.
 */
#pragma once

#include "conf/list.h"
#include "daemon/web/fetcher.h"
#include "daemon/web/networks.h"
#include "daemon/web/roles.h"
#include "daemon/web/web_loop.h"

/* What all transfers of a fetcher share. */
struct transfer_rules {
    const struct options *options; /* a reload changes them */
    struct prefixes prefixes;
    struct networks networks;
    struct roles *roles;
    /* Asks the fetcher for `bytes` more of the option url_bytes. false: the transfer must pause;
     * the fetcher lets it go on later. */
    bool (*take_memory)(struct fetcher *fetcher, struct transfer *transfer, size_t bytes);
    void (*return_memory)(struct fetcher *fetcher, size_t bytes);
};

struct transfer {
    struct list_node node;
    struct list *list; /* of the fetcher: the one that has the transfer */
    struct fetcher *fetcher;
    const struct transfer_rules *rules;
    struct transfer_request request;
    struct url url;             /* of the current request */
    struct web_request web;     /* its handle is NULL until the first request is prepared */
    struct curl_slist *headers; /* sent with the current request */
    unsigned redirects;         /* followed so far */
    enum aws_role role;         /* whose keys it waits for */
    uint64_t keyless_until_ns;  /* when it stops waiting for them; 0: it has not waited */
    bool left_prefix; /* a redirect has left its URL's prefix: no request is signed any more */

    uint8_t *bytes;          /* received by a download; malloc'd */
    size_t length, capacity; /* of `bytes`; the fetcher counts the capacity */
    size_t sent;             /* bytes of an upload's body */
    size_t skipped;          /* bytes of answers that nobody needs */
    char reason[512];        /* the beginning of such an answer: S3 puts a code there, */
    size_t reason_bytes;     /* and its length */
    size_t header_bytes;     /* of the answer */
    bool paused;             /* waits for memory */

    bool opened;                 /* a socket to an allowed address was opened */
    char forbidden[96];          /* the last address that was refused, and why; or "" */
    char fault[CURL_ERROR_SIZE]; /* libcurl's message */
    struct error error;          /* STATUS_OK: none */
};

/* Whether the first request must be signed with keys of a role that has none. After url_timeout_s
 * it does so only while the role is being asked. */
bool transfer_waits_for_keys(struct transfer *transfer);
/* Prepares the first request, or the next one after a redirect. false: transfer->error is set. */
bool transfer_prepare(struct transfer *transfer);
/* Call it when libcurl has ended a request with `code`. true: the transfer has ended, and
 * transfer->error says how. false: the server redirects the request, and the next one is
 * prepared. */
bool transfer_finish_request(struct transfer *transfer, CURLcode code);
/* Frees everything except the transfer itself, whose request must have ended. */
void transfer_clear(struct transfer *transfer);
