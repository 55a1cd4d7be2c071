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
                          struct errors *errors)
{
    struct prefixes fresh;
    struct error error = {0};
    bool good = prefixes_parse(&fresh, options->url_prefixes, &error)
                    ? prefixes_read_keys(&fresh, errors)
                    : errors_add(errors, &error);
    prefixes_clear(good ? prefixes : &fresh);
    if (good)
        *prefixes = fresh;
    return good;
}

bool fetcher_check_keys(const struct options *options, struct errors *errors)
{
    struct prefixes prefixes = {0};
    bool good = take_prefixes(&prefixes, options, errors);
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

/* How often transfers that wait for keys check whether they have waited too long. */
#define KEYLESS_MS 250

struct fetcher {
    struct transfer_rules rules;
    struct metrics_urls *totals;
    struct web_loop *web;
    uv_timer_t soon;     /* starts transfers from the line on the next turn of the loop */
    uv_timer_t patience; /* runs while transfers are keyless */
    struct list line;    /* transfers that wait, by rank */
    struct list keyless; /* transfers that have left the line and wait for keys of a role */
    struct list running; /* the oldest first */
    size_t held; /* capacity of running downloads, and bytes of ended ones before fetcher_release */
    bool stopping;
};

const struct prefixes *fetcher_prefixes(const struct fetcher *fetcher)
{
    return &fetcher->rules.prefixes;
}

static void use_roles(struct fetcher *fetcher)
{
    const struct prefixes *prefixes = &fetcher->rules.prefixes;
    const struct prefix *first[AWS_ROLE_COUNT] = {NULL};
    for (size_t i = prefixes->count; i-- > 0;)
        first[prefixes->items[i].role] = &prefixes->items[i];
    roles_use(fetcher->rules.roles, first);
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
    if (transfer->list == &fetcher->running)
        web_loop_remove(fetcher->web, &transfer->web);
    list_remove(transfer->list, &transfer->node);
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

static bool add_request(struct fetcher *fetcher, struct transfer *transfer)
{
    return web_loop_add(fetcher->web, &transfer->web) ||
           error_fail(&transfer->error, STATUS_OUT_OF_MEMORY, "no memory for a transfer");
}

/* A request of the transfer has ended. */
static void on_ended(struct web_request *request, CURLcode code)
{
    struct transfer *transfer = container_of(request, struct transfer, web);
    if (transfer_finish_request(transfer, code) || !add_request(transfer->fetcher, transfer))
        end_transfer(transfer);
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
        CURLcode code = curl_easy_pause(transfer->web.easy, CURLPAUSE_CONT);
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

static void move_to(struct list *list, struct transfer *transfer)
{
    list_remove(transfer->list, &transfer->node);
    list_push(list, &transfer->node);
    transfer->list = list;
}

static void enter_line(struct fetcher *fetcher, struct transfer *transfer)
{
    transfer->list = &fetcher->line;
    rank_push(&fetcher->line, &transfer->node, RANK_OFFSET(struct transfer, node, request.rank));
    pump_soon(fetcher);
}

/* A role has keys, or gives none: the transfers that wait begin, wait again, or fail. */
static void on_roles_changed(void *context)
{
    struct fetcher *fetcher = context;
    for (struct list_node *node; (node = list_pop(&fetcher->keyless));)
        enter_line(fetcher, container_of(node, struct transfer, node));
}

static void on_patience(uv_timer_t *timer)
{
    struct fetcher *fetcher = timer->data;
    on_roles_changed(fetcher);
    on_soon(&fetcher->soon);
}

static void begin_transfer(struct fetcher *fetcher, struct transfer *transfer)
{
    if (transfer_waits_for_keys(transfer)) {
        move_to(&fetcher->keyless, transfer);
        if (!uv_is_active((uv_handle_t *)&fetcher->patience))
            uv_timer_start(&fetcher->patience, on_patience, KEYLESS_MS, 0);
        return;
    }
    bool prepared = transfer_prepare(transfer);
    if (transfer->web.easy)
        move_to(&fetcher->running, transfer);
    if (!prepared || !add_request(fetcher, transfer))
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
    web_loop_collect(fetcher->web);
}

struct transfer *fetcher_start(struct fetcher *fetcher, const struct transfer_request *request)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    transfer->web.ended = on_ended;
    transfer->fetcher = fetcher;
    transfer->rules = &fetcher->rules;
    transfer->request = *request;
    enter_line(fetcher, transfer);
    return transfer;
}

const char *fetcher_lacks_keys(const struct fetcher *fetcher)
{
    const struct list_node *first = list_first(&fetcher->keyless);
    return first ? roles_failure(fetcher->rules.roles,
                                 container_of(first, struct transfer, node)->role)
                 : "";
}

/* ---- the fetcher ---------------------------------------------------------------------------- */

/* Opens everything that has handles on the loop. What can fail comes first. */
static bool open_web(struct fetcher *fetcher, uv_loop_t *loop, struct error *error)
{
    const struct options *options = fetcher->rules.options;
    fetcher->rules.roles =
        roles_create(options, &fetcher->totals->role_errors, on_roles_changed, fetcher);
    if (!fetcher->rules.roles)
        return error_refuse(error, "no memory for transfers");
    fetcher->web = web_loop_create(loop, (long)options->url_connections, error);
    if (!fetcher->web)
        return false;
    roles_start(fetcher->rules.roles, loop, fetcher->web);
    uv_timer_init(loop, &fetcher->soon);
    uv_timer_init(loop, &fetcher->patience);
    fetcher->soon.data = fetcher->patience.data = fetcher;
    return true;
}

struct fetcher *fetcher_create(uv_loop_t *loop, const struct options *options,
                               struct metrics_urls *totals, struct error *error)
{
    struct fetcher *fetcher = calloc(1, sizeof *fetcher);
    struct errors errors = {0};
    if (!fetcher) {
        error_refuse(error, "no memory for transfers");
        return NULL;
    }
    fetcher->rules = (struct transfer_rules){
        .options = options, .take_memory = take_memory, .return_memory = return_memory};
    fetcher->totals = totals;
    list_init(&fetcher->line);
    list_init(&fetcher->running);
    list_init(&fetcher->keyless);
    if (!take_prefixes(&fetcher->rules.prefixes, options, &errors)) {
        *error = errors.first;
        fetcher_destroy(fetcher);
        return NULL;
    }
    if (!networks_parse(&fetcher->rules.networks, options->url_networks, error) ||
        !open_web(fetcher, loop, error)) {
        fetcher_destroy(fetcher);
        return NULL;
    }
    use_roles(fetcher);
    return fetcher;
}

bool fetcher_reload(struct fetcher *fetcher, struct error *error)
{
    struct errors errors = {0};
    bool good = take_prefixes(&fetcher->rules.prefixes, fetcher->rules.options, &errors);
    if (!good) {
        *error = errors.first;
        return false;
    }
    use_roles(fetcher);
    on_roles_changed(fetcher); /* a role that is no longer used will not answer */
    return true;
}

void fetcher_try_roles(const struct options *options)
{
    uv_loop_t loop;
    struct metrics_urls ignored = {0};
    struct error error = {0};
    const struct aws_keys *keys;
    if (uv_loop_init(&loop) != 0)
        return;
    struct fetcher *fetcher = fetcher_create(&loop, options, &ignored, &error);
    for (enum aws_role role = AWS_ROLE_NONE + 1; fetcher && role < AWS_ROLE_COUNT; role++)
        while (roles_keys(fetcher->rules.roles, role, &keys, &error) == ROLES_AWAITED)
            uv_run(&loop, UV_RUN_ONCE);
    fetcher_stop(fetcher);
    uv_run(&loop, UV_RUN_DEFAULT);
    fetcher_destroy(fetcher);
    uv_loop_close(&loop);
}

void fetcher_stop(struct fetcher *fetcher)
{
    if (!fetcher)
        return;
    fetcher->stopping = true;
    struct list *const lists[] = {&fetcher->running, &fetcher->line, &fetcher->keyless};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        while (!list_empty(lists[i]))
            fetcher_cancel(fetcher, container_of(list_first(lists[i]), struct transfer, node));
    roles_stop(fetcher->rules.roles);
    web_loop_stop(fetcher->web);
    uv_close((uv_handle_t *)&fetcher->soon, NULL);
    uv_close((uv_handle_t *)&fetcher->patience, NULL);
}

void fetcher_destroy(struct fetcher *fetcher)
{
    if (!fetcher)
        return;
    roles_destroy(fetcher->rules.roles);
    web_loop_destroy(fetcher->web);
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
    struct errors errors = {0};
    (void)loop;
    (void)totals;
    if (fetcher && take_prefixes(&fetcher->prefixes, options, &errors))
        return fetcher;
    if (errors.count > 0)
        *error = errors.first;
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

void fetcher_try_roles(const struct options *options)
{
    (void)options;
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

const char *fetcher_lacks_keys(const struct fetcher *fetcher)
{
    (void)fetcher;
    return "";
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
