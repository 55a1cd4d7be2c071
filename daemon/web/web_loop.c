/* web_loop.c - libcurl on the loop (web_loop.h). In a build without libcurl, it is empty. */
#ifdef GPUIMGD_CURL

#include "daemon/web/web_loop.h"

#include <stdlib.h>

#include "conf/list.h"

struct web_loop {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timeout; /* calls libcurl when libcurl has asked for it: set_timeout */
    bool stopping;
};

/* A socket of libcurl, which the loop watches for libcurl. */
struct watched {
    uv_poll_t poll;
    struct web_loop *web;
    curl_socket_t fd;
};

void web_loop_collect(struct web_loop *web)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(web->multi, &left));) {
        struct web_request *request;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
        curl_multi_remove_handle(web->multi, request->easy);
        request->ended(request, code);
    }
}

static void act_on_socket(struct web_loop *web, curl_socket_t fd, int events)
{
    int running;
    curl_multi_socket_action(web->multi, fd, events, &running);
    web_loop_collect(web);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watched *watched = container_of(poll, struct watched, poll);
    int action = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
                 (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    act_on_socket(watched->web, watched->fd, status < 0 ? CURL_CSELECT_ERR : action);
}

static void on_timeout(uv_timer_t *timer)
{
    act_on_socket(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timeout(CURLM *multi, long ms, void *context)
{
    struct web_loop *web = context;
    (void)multi;
    if (ms < 0)
        uv_timer_stop(&web->timeout);
    else if (!web->stopping)
        uv_timer_start(&web->timeout, on_timeout, (uint64_t)ms, 0);
    return 0;
}

static void on_unwatched(uv_handle_t *handle)
{
    free(container_of((uv_poll_t *)handle, struct watched, poll));
}

static struct watched *watch(struct web_loop *web, curl_socket_t fd)
{
    struct watched *watched = calloc(1, sizeof *watched);
    if (!watched || uv_poll_init_socket(web->loop, &watched->poll, fd) != 0) {
        free(watched);
        return NULL;
    }
    watched->web = web;
    watched->fd = fd;
    curl_multi_assign(web->multi, fd, watched);
    return watched;
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
    struct web_loop *web = context;
    struct watched *watched = known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watched)
            uv_close((uv_handle_t *)&watched->poll, on_unwatched);
        return 0;
    }
    if (!watched && !(watched = watch(web, fd)))
        return -1;
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&watched->poll, events, on_poll) == 0 ? 0 : -1;
}

/* ---- requests ------------------------------------------------------------------------------- */

void web_loop_protect(CURL *easy, const char *ca_file)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* A slow name server must not block the loop when a request is cancelled. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* ignores http_proxy, https_proxy and ALL_PROXY */
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L); /* the caller checks each redirect */
    curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "gpuimgd/" GPUIMGD_VERSION);
    if (*ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
}

bool web_loop_add(struct web_loop *web, struct web_request *request)
{
    curl_easy_setopt(request->easy, CURLOPT_PRIVATE, request);
    return curl_multi_add_handle(web->multi, request->easy) == CURLM_OK;
}

void web_loop_remove(struct web_loop *web, struct web_request *request)
{
    curl_multi_remove_handle(web->multi, request->easy);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static bool open_multi(struct web_loop *web, long connections_max, struct error *error)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(web->multi = curl_multi_init()))
        return error_refuse(error, "libcurl does not start: no memory");
    if (!(curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_ASYNCHDNS))
        return error_refuse(error, "this libcurl looks up names on the thread that calls it; "
                                   "install one with AsynchDNS");
    curl_multi_setopt(web->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
    curl_multi_setopt(web->multi, CURLMOPT_SOCKETDATA, web);
    curl_multi_setopt(web->multi, CURLMOPT_TIMERFUNCTION, set_timeout);
    curl_multi_setopt(web->multi, CURLMOPT_TIMERDATA, web);
    curl_multi_setopt(web->multi, CURLMOPT_MAXCONNECTS, connections_max);
    /* No two requests share an HTTP/2 connection: if one of them paused, the others would stop. */
    curl_multi_setopt(web->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return true;
}

struct web_loop *web_loop_create(uv_loop_t *loop, long connections_max, struct error *error)
{
    struct web_loop *web = calloc(1, sizeof *web);
    if (!web) {
        error_refuse(error, "no memory for transfers");
        return NULL;
    }
    web->loop = loop;
    if (!open_multi(web, connections_max, error)) {
        web_loop_destroy(web);
        return NULL;
    }
    uv_timer_init(loop, &web->timeout);
    web->timeout.data = web;
    return web;
}

void web_loop_stop(struct web_loop *web)
{
    web->stopping = true;
    curl_multi_cleanup(web->multi); /* calls set_socket for each connection that was kept */
    web->multi = NULL;
    uv_close((uv_handle_t *)&web->timeout, NULL);
}

void web_loop_destroy(struct web_loop *web)
{
    if (!web)
        return;
    curl_multi_cleanup(web->multi);
    free(web);
}

#else

typedef int web_loop_without_libcurl; /* C forbids an empty file */

#endif
