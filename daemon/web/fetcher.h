/*
 * fetcher.h - downloads images from URLs and uploads images to URLs, with libcurl on the libuv
 * loop.
 *
 * At most `url_connections` transfers run at once; the others wait in a line, in the order of their
 * ranks. The memory of downloads stays below `url_bytes`: a download that gets no more memory is
 * paused. The oldest running one may exceed the limit by its own size, so that it always ends.
 *
 * The URL of each request, also after a redirect, must begin with a prefix of the option
 * `url_prefixes`, and each address that libcurl connects to is checked (networks.h).
 *
 * Requests of S3 may be signed with keys of a role (roles.h). A transfer that needs them before the
 * role has answered waits outside of the line.
 *
 * The fetcher never blocks the loop. It calls `begun` and `done` from the loop, never from inside
 * the functions below. Loop thread only.
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
    enum transfer_direction direction;
    const char *url;     /* all texts and `body` are borrowed until `done` or fetcher_cancel */
    uint64_t bytes_max;  /* download: the largest length */
    struct rank rank;    /* of the job: its order in the line */
    const uint8_t *body; /* upload: the file, */
    size_t body_bytes;   /* its length, */
    const char *mime;    /* the value of the header Content-Type, */
    const char *headers; /* and other headers, or NULL: lines "Name: value\n", sorted by name, of
                          * job_output */
    /* Optional. Called when the transfer leaves the line: its first request is sent now. */
    void (*begun)(void *context);
    /* Called at the end. error NULL: success; else the status is input_missing, input_unreadable,
     * input_too_large, write_failed, path_refused or out_of_memory. A successful download gives
     * malloc'd bytes, which the callee frees. They count in url_bytes until the callee calls
     * fetcher_release. */
    void (*done)(void *context, uint8_t *bytes, size_t length, const struct error *error);
    void *context;
};

/* Checks the options url_prefixes and url_networks. Adds the first error of each. */
bool fetcher_check(const struct options *options, struct errors *errors) MUST_CHECK;
/* Reads the keys that url_prefixes names, and what roles need. Adds an error for each prefix that
 * lacks something, and for a wrong option. */
bool fetcher_check_keys(const struct options *options, struct errors *errors) MUST_CHECK;

/* Asks each role that url_prefixes names for keys, and logs whether it gives some. Takes up to 15
 * s.
 */
void fetcher_try_roles(const struct options *options);

/* Logs a warning for each prefix of url_prefixes that matches no URL, because an earlier one allows
 * all of its URLs. */
void fetcher_warn_of_order(const struct options *options);

/* `options` and `totals` must outlive the fetcher, which reads the options whenever it needs them:
 * a reload changes them. NULL: an option is wrong, a key for signing is missing, or memory is
 * short. */
struct fetcher *fetcher_create(uv_loop_t *loop, const struct options *options,
                               struct metrics_urls *totals, struct error *error);
/* Parses url_prefixes after a reload, reads all keys again, and asks all roles for new ones. false:
 * the old prefixes stay, and error has the reason. */
bool fetcher_reload(struct fetcher *fetcher, struct error *error) MUST_CHECK;
const struct prefixes *fetcher_prefixes(const struct fetcher *fetcher);

/* NULL: out of memory. The transfer is valid until `done` or fetcher_cancel. */
struct transfer *fetcher_start(struct fetcher *fetcher, const struct transfer_request *request);
/* Ends the transfer without a callback. */
void fetcher_cancel(struct fetcher *fetcher, struct transfer *transfer);
/* Why transfers wait for keys of a role that gave none, or "". Valid until the loop runs again. */
const char *fetcher_lacks_keys(const struct fetcher *fetcher);
/* Call it after the bytes of a download were freed. length: that of `done`. */
void fetcher_release(struct fetcher *fetcher, size_t length);

/* Cancels all transfers and closes the handles. Run the loop once more, then call
 * fetcher_destroy. */
void fetcher_stop(struct fetcher *fetcher);
void fetcher_destroy(struct fetcher *fetcher);
