/*
 * web_loop.h - runs libcurl's requests on the libuv loop.
 *
 * libcurl says which sockets and which time it waits for, and the loop waits for them. Loop thread
 * only.
 */
#pragma once

#include <stdbool.h>

#include <curl/curl.h>
#include <uv.h>

#include "conf/status.h"

struct web_loop;

/* A member of a struct of the caller. */
struct web_request {
    CURL *easy;
    /* Called when the request has ended with `code`. It runs no more then, and may be added
     * again. */
    void (*ended)(struct web_request *request, CURLcode code);
};

/* connections_max: connections that are kept for later requests. NULL: the error is set. */
struct web_loop *web_loop_create(uv_loop_t *loop, long connections_max, struct error *error);

/* Sets the protocols, the redirects and the checks of certificates explicitly, so that neither
 * libcurl's defaults, nor environment variables, nor a user's files, nor a server change them.
 * ca_file: "" for the system's authorities. */
void web_loop_protect(CURL *easy, const char *ca_file);

/* Begins the request; sets CURLOPT_PRIVATE of its handle. false: out of memory. */
bool web_loop_add(struct web_loop *web, struct web_request *request) MUST_CHECK;
/* Ends a request without a callback. Nothing happens if it does not run. */
void web_loop_remove(struct web_loop *web, struct web_request *request);
/* Calls `ended` of requests that have ended. The loop calls it by itself, except after
 * curl_easy_pause. */
void web_loop_collect(struct web_loop *web);

/* Closes all connections and handles. All requests must have been removed. Run the loop once more,
 * then call web_loop_destroy. */
void web_loop_stop(struct web_loop *web);
void web_loop_destroy(struct web_loop *web); /* NULL is allowed */
