/*
 * transfer.h - one transfer of fetcher.c: a download or an upload with its redirects.
 *
 * It sets libcurl's options, receives the body into memory that the fetcher counts, and decides how
 * the transfer ended. Loop thread only.
 */
#pragma once

#include <curl/curl.h>

#include "conf/list.h"
#include "daemon/web/fetcher.h"
#include "daemon/web/networks.h"

/* The same for all transfers of a fetcher. */
struct transfer_rules {
    const struct options *options; /* live */
    struct prefixes prefixes;
    struct networks networks;
    /* Counts `bytes` more for the transfer. false: it must pause; the fetcher unpauses it later. */
    bool (*count)(struct fetcher *fetcher, struct transfer *transfer, size_t bytes);
    void (*uncount)(struct fetcher *fetcher, size_t bytes);
};

struct transfer {
    struct list_node node; /* in the fetcher's line, or in its list of running transfers */
    struct fetcher *fetcher;
    const struct transfer_rules *rules;
    struct transfer_request request;
    struct url url;        /* of the current request */
    CURL *easy;            /* NULL in the line */
    struct curl_slist *headers;
    unsigned redirects;    /* followed so far */
    bool strayed; /* a redirect has left the prefix of its URL: nothing is signed any more */

    uint8_t *bytes;        /* of a download */
    size_t length, capacity; /* capacity: counted by the fetcher */
    size_t sent;           /* of an upload */
    size_t skipped;        /* bytes of the body of an error or a redirect */
    size_t header_bytes;
    bool paused;           /* waits for memory */

    bool opened;           /* a socket to an allowed address was opened */
    char forbidden[96];    /* the last address that was refused, and why; or "" */
    char fault[CURL_ERROR_SIZE];
    struct error error;    /* found in a callback, which then aborted the request */
};

/* Prepares the first request, or the next one after a redirect. false: transfer->error is set. */
bool transfer_prepare(struct transfer *transfer);
/* libcurl has ended a request. true: the transfer has ended, and transfer->error says how. false:
 * it was redirected, and the next request is prepared. */
bool transfer_judge(struct transfer *transfer, CURLcode code);
/* Frees everything except the transfer itself. The request is not in a multi handle any more. */
void transfer_clear(struct transfer *transfer);
