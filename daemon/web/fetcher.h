/*
 * fetcher.h - downloads inputs from URLs and uploads outputs to them, with libcurl on the libuv
 * loop.
 *
 * At most `url_connections` transfers run at once; the others wait in line. The bytes of downloads
 * stay below `url_bytes`: a transfer that gets no more memory is paused. The oldest one may exceed
 * the limit by itself, so that it always ends. Each request, also after a redirect, must begin with
 * a prefix of the option `url_prefixes`, and each address that libcurl connects to is checked
 * (networks.h). The fetcher never blocks the loop. It calls `begun` and `done` from the loop, never
 * from inside its own functions. Loop thread only.
 */
#pragma once

#include <uv.h>

#include "conf/options.h"
#include "conf/rank.h"
#include "daemon/telemetry/metrics.h"
#include "daemon/web/prefixes.h"

struct fetcher;
struct transfer;

struct transfer_request {
    enum metrics_direction direction;
    const char *url;       /* this, body and mime: borrowed until `done` or fetcher_cancel */
    uint64_t bytes_max;    /* of a download */
    struct rank rank;      /* of the job: its order in the line */
    const uint8_t *body;   /* this and the next two: of an upload */
    size_t body_bytes;
    const char *mime;
    /* Optional. The first request is sent now: the transfer was in the line until now. */
    void (*begun)(void *context);
    /* A download gives malloc'd bytes, which the callee owns and counts until fetcher_release; an
     * upload gives NULL. error NULL: success. Else one of input_missing, input_unreadable,
     * input_too_large, write_failed, path_refused, out_of_memory. */
    void (*done)(void *context, uint8_t *bytes, size_t length, const struct error *error);
    void *context;
};

/* Checks the options url_prefixes and url_networks. Adds the first error of each. */
bool fetcher_check(const struct options *options, struct errors *errors) MUST_CHECK;
/* Reads the keys of url_prefixes that fetcher_check has accepted. Fails if one is missing. */
bool fetcher_check_keys(const struct options *options, struct error *error) MUST_CHECK;

/* Logs a warning for each prefix of url_prefixes that matches no URL, because an earlier one allows
 * all of its URLs. */
void fetcher_warn_of_order(const struct options *options);

/* options, which are live, and totals must outlive the fetcher. NULL: an option is wrong, a key for
 * signing is missing, or memory is short. */
struct fetcher *fetcher_create(uv_loop_t *loop, const struct options *options,
                               struct metrics_urls *totals, struct error *error);
/* Takes the new value of url_prefixes, and reads all keys again. If it fails, the old prefixes
 * stay. */
bool fetcher_reload(struct fetcher *fetcher, struct error *error) MUST_CHECK;
const struct prefixes *fetcher_prefixes(const struct fetcher *fetcher);

/* NULL: out of memory. The transfer is valid until `done` or fetcher_cancel. */
struct transfer *fetcher_start(struct fetcher *fetcher, const struct transfer_request *request);
/* Ends the transfer without a callback. */
void fetcher_cancel(struct fetcher *fetcher, struct transfer *transfer);
/* The bytes of a download of this length were freed. */
void fetcher_release(struct fetcher *fetcher, size_t length);

/* Cancels all transfers and closes the handles. Run the loop once more, then call
 * fetcher_destroy. */
void fetcher_stop(struct fetcher *fetcher);
void fetcher_destroy(struct fetcher *fetcher);
