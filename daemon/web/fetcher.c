#include "daemon/web/fetcher.h"

#include <assert.h>
#include <stdlib.h>

#include "conf/log.h"
#include "daemon/web/networks.h"

bool fetcher_check(const struct options *options, struct errors *errors)
{
    struct prefixes prefixes;
    struct networks networks;
    struct error prefix = {0}, network = {0};
    bool good =
        prefixes_parse(&prefixes, options->url_prefixes, &prefix) || errors_add(errors, &prefix);
    good = (networks_parse(&networks, options->url_networks, &network) ||
            errors_add(errors, &network)) &&
           good;
    prefixes_clear(&prefixes);
    networks_clear(&networks);
    return good;
}

/* Parses the option into `prefixes`. false: it has a fault, and `prefixes` stay as they were. */
static bool take_prefixes(struct prefixes *prefixes, const struct options *options,
                          struct error *error)
{
    struct prefixes fresh;
    bool good = prefixes_parse(&fresh, options->url_prefixes, error) &&
                prefixes_read_keys(&fresh, error);
    prefixes_clear(good ? prefixes : &fresh);
    if (good)
        *prefixes = fresh;
    return good;
}

bool fetcher_check_keys(const struct options *options, struct error *error)
{
    struct prefixes prefixes = {0};
    bool good = take_prefixes(&prefixes, options, error);
    prefixes_clear(&prefixes);
    return good;
}

void fetcher_warn_of_order(const struct options *options)
{
    struct prefixes prefixes;
    struct error error = {0};
    bool good = prefixes_parse(&prefixes, options->url_prefixes, &error);
    for (size_t i = 0; good && i < prefixes.count; i++) {
        const struct prefix *hiding = prefixes_hiding(&prefixes, i);
        if (hiding)
            log_warning("option url_prefixes: \"%s\" never matches, because \"%s\" before it does; "
                        "put it first",
                        prefixes.items[i].url.text, hiding->url.text);
    }
    prefixes_clear(&prefixes);
}

#ifdef GPUIMGD_CURL

#include "daemon/web/transfer.h"

struct fetcher {
    uv_loop_t *loop;
    struct transfer_rules rules;
    struct metrics_urls *totals;
    CURLM *multi;
    uv_timer_t timeout;  /* calls libcurl when libcurl has asked for it: set_timeout */
    uv_timer_t soon;     /* starts transfers from the line on the next turn of the loop */
    struct list line;    /* transfers that wait, by rank */
    struct list running; /* the oldest first */
    size_t held; /* capacity of running downloads, and bytes of ended ones before fetcher_release */
    bool stopping;
};

/* A socket of libcurl, which the loop watches for libcurl. */
struct watched {
    uv_poll_t poll;
    struct fetcher *fetcher;
    curl_socket_t fd;
};

const struct prefixes *fetcher_prefixes(const struct fetcher *fetcher)
{
    return &fetcher->rules.prefixes;
}

bool fetcher_reload(struct fetcher *fetcher, struct error *error)
{
    return take_prefixes(&fetcher->rules.prefixes, fetcher->rules.options, error);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void on_soon(uv_timer_t *timer);

static void pump_soon(struct fetcher *fetcher)
{
    if (!fetcher->stopping)
        uv_timer_start(&fetcher->soon, on_soon, 0, 0);
}

/* Counts memory for a download. false: it must wait. The oldest transfer gets memory even beyond
 * url_bytes, if all others together are within url_bytes. So one transfer always goes on, and at
 * most url_bytes and one input are in memory. */
static bool take_memory(struct fetcher *fetcher, struct transfer *transfer, size_t bytes)
{
    uint64_t most = fetcher->rules.options->url_bytes;
    bool fits = fetcher->held + bytes <= most;
    bool is_oldest = list_first(&fetcher->running) == &transfer->node;
    if (!fits && !(is_oldest && fetcher->held - transfer->capacity <= most))
        return false;
    fetcher->held += bytes;
    return true;
}

static void return_memory(struct fetcher *fetcher, size_t bytes)
{
    fetcher->held -= bytes;
    if (bytes > 0)
        pump_soon(fetcher);
}

void fetcher_release(struct fetcher *fetcher, size_t length)
{
    return_memory(fetcher, length);
}

/* ---- the end of a transfer ------------------------------------------------------------------ */

static void leave_list(struct transfer *transfer)
{
    struct fetcher *fetcher = transfer->fetcher;
    bool runs = transfer->easy != NULL;
    if (runs)
        curl_multi_remove_handle(fetcher->multi, transfer->easy);
    list_remove(runs ? &fetcher->running : &fetcher->line, &transfer->node);
    pump_soon(fetcher);
}

static void count_transfer(struct transfer *transfer)
{
    struct metrics_urls *totals = transfer->fetcher->totals;
    enum transfer_direction direction = transfer->request.direction;
    bool failed = transfer->error.status != STATUS_OK;
    totals->requests[direction]++;
    totals->failed[direction] += failed;
    if (!failed)
        totals->bytes[direction] +=
            direction == TRANSFER_UPLOAD ? transfer->request.body_bytes : transfer->length;
}

/* Returns the bytes of a download, which the caller then owns. Gives back the unused end. */
static uint8_t *take_bytes(struct transfer *transfer)
{
    size_t length = transfer->length;
    uint8_t *bytes = transfer->bytes;
    uint8_t *shrunk = realloc(bytes, length > 0 ? length : 1);
    return_memory(transfer->fetcher, transfer->capacity - length);
    transfer->bytes = NULL;
    transfer->capacity = 0;
    return shrunk ? shrunk : bytes;
}

static void end_transfer(struct transfer *transfer)
{
    struct transfer_request request = transfer->request;
    struct error error = transfer->error;
    size_t length = transfer->length;
    uint8_t *bytes = NULL;
    leave_list(transfer);
    count_transfer(transfer);
    if (request.direction == TRANSFER_DOWNLOAD && error.status == STATUS_OK) {
        bytes = take_bytes(transfer);
        if (!bytes)
            error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for an input");
    }
    transfer_clear(transfer);
    free(transfer);
    request.done(request.context, bytes, length, error.status == STATUS_OK ? NULL : &error);
}

void fetcher_cancel(struct fetcher *fetcher, struct transfer *transfer)
{
    (void)fetcher;
    leave_list(transfer);
    transfer_clear(transfer);
    free(transfer);
}

/* ---- libcurl on the loop -------------------------------------------------------------------- */

static bool add_to_multi(struct fetcher *fetcher, struct transfer *transfer)
{
    return curl_multi_add_handle(fetcher->multi, transfer->easy) == CURLM_OK ||
           error_fail(&transfer->error, STATUS_OUT_OF_MEMORY, "no memory for a transfer");
}

static void collect(struct fetcher *fetcher)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(fetcher->multi, &left));) {
        struct transfer *transfer;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        curl_multi_remove_handle(fetcher->multi, transfer->easy);
        if (transfer_finish_request(transfer, code) || !add_to_multi(fetcher, transfer))
            end_transfer(transfer);
    }
}

static void act_on_socket(struct fetcher *fetcher, curl_socket_t fd, int events)
{
    int running;
    curl_multi_socket_action(fetcher->multi, fd, events, &running);
    collect(fetcher);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watched *watched = container_of(poll, struct watched, poll);
    int action = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
                 (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
    act_on_socket(watched->fetcher, watched->fd, status < 0 ? CURL_CSELECT_ERR : action);
}

static void on_timeout(uv_timer_t *timer)
{
    act_on_socket(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timeout(CURLM *multi, long ms, void *context)
{
    struct fetcher *fetcher = context;
    (void)multi;
    if (ms < 0)
        uv_timer_stop(&fetcher->timeout);
    else if (!fetcher->stopping)
        uv_timer_start(&fetcher->timeout, on_timeout, (uint64_t)ms, 0);
    return 0;
}

static void on_unwatched(uv_handle_t *handle)
{
    free(container_of((uv_poll_t *)handle, struct watched, poll));
}

static struct watched *watch(struct fetcher *fetcher, curl_socket_t fd)
{
    struct watched *watched = calloc(1, sizeof *watched);
    if (!watched || uv_poll_init_socket(fetcher->loop, &watched->poll, fd) != 0) {
        free(watched);
        return NULL;
    }
    watched->fetcher = fetcher;
    watched->fd = fd;
    curl_multi_assign(fetcher->multi, fd, watched);
    return watched;
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
    struct fetcher *fetcher = context;
    struct watched *watched = known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watched)
            uv_close((uv_handle_t *)&watched->poll, on_unwatched);
        return 0;
    }
    if (!watched && !(watched = watch(fetcher, fd)))
        return -1;
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&watched->poll, events, on_poll) == 0 ? 0 : -1;
}

/* ---- the line ------------------------------------------------------------------------------- */

/* Continues paused downloads, the oldest first, until one of them gets no memory again. */
static void unpause(struct fetcher *fetcher)
{
    list_each (node, &fetcher->running) {
        struct transfer *transfer = container_of(node, struct transfer, node);
        if (!transfer->paused)
            continue;
        transfer->paused = false;
        CURLcode code = curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
        if (transfer->paused)
            return;
        if (code != CURLE_OK) {
            bool ended = transfer_finish_request(transfer, code);
            assert(ended); /* only a status 200 pauses, so this is no redirect */
            end_transfer(transfer);
            return; /* `done` may have changed the list; leave_list() has called pump_soon */
        }
    }
}

static void begin_transfer(struct fetcher *fetcher, struct transfer *transfer)
{
    bool prepared = transfer_prepare(transfer);
    if (transfer->easy) {
        list_remove(&fetcher->line, &transfer->node);
        list_push(&fetcher->running, &transfer->node);
    }
    if (!prepared || !add_to_multi(fetcher, transfer))
        end_transfer(transfer);
    else if (transfer->request.begun)
        transfer->request.begun(transfer->request.context);
}

static void on_soon(uv_timer_t *timer)
{
    struct fetcher *fetcher = timer->data;
    unpause(fetcher);
    while (!list_empty(&fetcher->line) &&
           fetcher->running.length < fetcher->rules.options->url_connections)
        begin_transfer(fetcher, container_of(list_first(&fetcher->line), struct transfer, node));
    collect(fetcher);
}

struct transfer *fetcher_start(struct fetcher *fetcher, const struct transfer_request *request)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    transfer->fetcher = fetcher;
    transfer->rules = &fetcher->rules;
    transfer->request = *request;
    rank_push(&fetcher->line, &transfer->node, RANK_OFFSET(struct transfer, node, request.rank));
    pump_soon(fetcher);
    return transfer;
}

/* ---- the fetcher ---------------------------------------------------------------------------- */

static bool open_multi(struct fetcher *fetcher, struct error *error)
{
    long most = (long)fetcher->rules.options->url_connections;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(fetcher->multi = curl_multi_init()))
        return error_refuse(error, "libcurl does not start: no memory");
    if (!(curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_ASYNCHDNS))
        return error_refuse(error, "this libcurl looks up names on the thread that calls it; "
                            "install one with AsynchDNS");
    curl_multi_setopt(fetcher->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
    curl_multi_setopt(fetcher->multi, CURLMOPT_SOCKETDATA, fetcher);
    curl_multi_setopt(fetcher->multi, CURLMOPT_TIMERFUNCTION, set_timeout);
    curl_multi_setopt(fetcher->multi, CURLMOPT_TIMERDATA, fetcher);
    curl_multi_setopt(fetcher->multi, CURLMOPT_MAXCONNECTS, most);
    /* No two transfers share an HTTP/2 connection: if one of them paused, the others would stop. */
    curl_multi_setopt(fetcher->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return true;
}

struct fetcher *fetcher_create(uv_loop_t *loop, const struct options *options,
                               struct metrics_urls *totals, struct error *error)
{
    struct fetcher *fetcher = calloc(1, sizeof *fetcher);
    if (!fetcher) {
        error_refuse(error, "no memory for transfers");
        return NULL;
    }
    fetcher->loop = loop;
    fetcher->rules = (struct transfer_rules){
        .options = options, .take_memory = take_memory, .return_memory = return_memory};
    fetcher->totals = totals;
    list_init(&fetcher->line);
    list_init(&fetcher->running);
    if (!take_prefixes(&fetcher->rules.prefixes, options, error) ||
        !networks_parse(&fetcher->rules.networks, options->url_networks, error) ||
        !open_multi(fetcher, error)) {
        fetcher_destroy(fetcher);
        return NULL;
    }
    uv_timer_init(loop, &fetcher->timeout);
    uv_timer_init(loop, &fetcher->soon);
    fetcher->timeout.data = fetcher->soon.data = fetcher;
    return fetcher;
}

void fetcher_stop(struct fetcher *fetcher)
{
    if (!fetcher)
        return;
    fetcher->stopping = true;
    while (!list_empty(&fetcher->running))
        fetcher_cancel(fetcher, container_of(list_first(&fetcher->running), struct transfer, node));
    while (!list_empty(&fetcher->line))
        fetcher_cancel(fetcher, container_of(list_first(&fetcher->line), struct transfer, node));
    curl_multi_cleanup(fetcher->multi); /* calls set_socket for each connection that was kept */
    fetcher->multi = NULL;
    uv_close((uv_handle_t *)&fetcher->timeout, NULL);
    uv_close((uv_handle_t *)&fetcher->soon, NULL);
}

void fetcher_destroy(struct fetcher *fetcher)
{
    if (!fetcher)
        return;
    curl_multi_cleanup(fetcher->multi);
    prefixes_clear(&fetcher->rules.prefixes);
    networks_clear(&fetcher->rules.networks);
    free(fetcher);
}

#else

/* A build without libcurl accepts no URL, so url_prefixes is empty and no transfer starts. */
struct fetcher {
    struct prefixes prefixes;
};

struct fetcher *fetcher_create(uv_loop_t *loop, const struct options *options,
                               struct metrics_urls *totals, struct error *error)
{
    struct fetcher *fetcher = calloc(1, sizeof *fetcher);
    (void)loop;
    (void)totals;
    if (fetcher && take_prefixes(&fetcher->prefixes, options, error))
        return fetcher;
    error_refuse(error, "no memory for transfers");
    free(fetcher);
    return NULL;
}

bool fetcher_reload(struct fetcher *fetcher, struct error *error)
{
    (void)fetcher;
    (void)error;
    return true;
}

const struct prefixes *fetcher_prefixes(const struct fetcher *fetcher)
{
    return &fetcher->prefixes;
}

struct transfer *fetcher_start(struct fetcher *fetcher, const struct transfer_request *request)
{
    (void)fetcher;
    (void)request;
    return NULL;
}

void fetcher_cancel(struct fetcher *fetcher, struct transfer *transfer)
{
    (void)fetcher;
    (void)transfer;
}

void fetcher_release(struct fetcher *fetcher, size_t length)
{
    (void)fetcher;
    (void)length;
}

void fetcher_stop(struct fetcher *fetcher)
{
    (void)fetcher;
}

void fetcher_destroy(struct fetcher *fetcher)
{
    if (fetcher)
        prefixes_clear(&fetcher->prefixes);
    free(fetcher);
}

#endif
