/* roles.c - the keys of roles (roles.h). In a build without libcurl, it is empty. */
#ifdef GPUIMGD_CURL

#include "daemon/web/roles.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/clock.h"
#include "conf/list.h"
#include "conf/log.h"
#include "daemon/web/role_answer.h"

#define REQUEST_MS       5000L
#define ANSWER_BYTES_MAX (16 * KIB) /* keys have 3 KiB */
#define AHEAD_S          900.0      /* new keys are asked for this long before the end */
#define LIFETIME_S_MAX   86400.0    /* keys that claim to last longer are renewed after this */
#define RETRY_S_MAX      10.0
/* Keys are not used in their last seconds: they must be valid when a request arrives. */
#define LAST_S 2.0
/* S3 refuses signatures of a host whose clock is wrong by 15 minutes. */
#define SKEW_S_MAX 300.0

/* The two arguments of a %.*s: scheme, host and port of a URL, cut so that a reason fits into a
 * message with them. */
#define ORIGIN_SHOWN_BYTES 100
#define ORIGIN_SHOWN(url)                                                                          \
    (int)((url)->origin_bytes < ORIGIN_SHOWN_BYTES ? (url)->origin_bytes : ORIGIN_SHOWN_BYTES),    \
        (url)->text

enum role_state {
    ROLE_UNUSED,
    ROLE_ASKING, /* a request runs */
    ROLE_RESTING /* its timer runs: it has keys, or will be asked again */
};

struct role {
    struct web_request web; /* its handle is NULL unless the role is ASKING */
    struct roles *roles;
    enum aws_role kind;
    enum role_state state;
    char user[URL_SHOWN_BYTES + 1], region[AWS_NAME_BYTES_MAX + 1]; /* of its first prefix */
    enum role_step step;
    struct role_request request; /* of the step */
    struct curl_slist *headers;
    uv_timer_t timer;

    char answer[ANSWER_BYTES_MAX];
    size_t length, header_bytes;
    bool too_long;
    double server_s;             /* the answer's header Date in Unix seconds; 0: there was none */
    char fault[CURL_ERROR_SIZE]; /* libcurl's message */
    char token[ROLE_WORD_BYTES], name[ROLE_WORD_BYTES]; /* of the steps before */

    struct aws_keys keys;
    double ends_s;     /* when they end, by since_boot_s; 0: there are none */
    unsigned failures; /* since the last success */
    bool said_keys, said_ended, said_skew;
    struct error error;   /* of the current request */
    struct error failure; /* of the last time that it gave no keys, until it gives some */
};

struct roles {
    struct web_loop *web;
    const struct options *options;
    uint64_t *errors;
    void (*changed)(void *context);
    void *context;
    struct role items[AWS_ROLE_COUNT];
};

/* Unlike the monotonic clock, this one goes on while the host is suspended. */
static double since_boot_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool has_keys(const struct role *role)
{
    return role->ends_s > 0 && since_boot_s() < role->ends_s - LAST_S;
}

static void drop_keys(struct role *role)
{
    explicit_bzero(&role->keys, sizeof role->keys);
    role->ends_s = 0;
}

/* ---- one request ---------------------------------------------------------------------------- */

static void ask(struct role *role);

static size_t take_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct role *role = context;
    size_t length = size * count;
    if (length > sizeof role->answer - role->length) {
        role->too_long = true;
        return 0;
    }
    memcpy(role->answer + role->length, bytes, length);
    role->length += length;
    return length;
}

static size_t take_header(char *line, size_t size, size_t count, void *context)
{
    struct role *role = context;
    char text[64];
    size_t length = size * count;
    if (length > 5 && length < sizeof text && strncasecmp(line, "Date:", 5) == 0) {
        memcpy(text, line + 5, length - 5);
        text[length - 5] = '\0';
        time_t server = curl_getdate(text, NULL);
        role->server_s = server > 0 ? (double)server : 0;
    }
    role->header_bytes += length;
    role->too_long |= role->header_bytes > TRANSFER_HEADERS_BYTES;
    return role->too_long ? 0 : length;
}

static void end_request(struct role *role)
{
    if (role->web.easy) {
        web_loop_remove(role->roles->web, &role->web);
        curl_easy_cleanup(role->web.easy);
    }
    curl_slist_free_all(role->headers);
    role_request_clear(&role->request);
    explicit_bzero(role->answer, sizeof role->answer);
    role->web.easy = NULL;
    role->headers = NULL;
}

static bool add_header(struct role *role)
{
    if (*role->request.header)
        role->headers = curl_slist_append(NULL, role->request.header);
    return role->headers || !*role->request.header;
}

static void set_options(struct role *role)
{
    CURL *easy = role->web.easy;
    web_loop_protect(easy, role->roles->options->url_ca_file);
    curl_easy_setopt(easy, CURLOPT_URL, role->request.url.text);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, role->request.method);
    if (role->request.body)
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, role->request.body);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, role->headers);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, REQUEST_MS);
    /* A job's request must not go over this connection: its address was not checked. */
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, role->fault);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, role);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, role);
}

/* Starts the request of the current step. false: role->error is set. */
static bool start_step(struct role *role)
{
    struct error fault = {0};
    end_request(role);
    role->length = role->header_bytes = 0;
    role->too_long = false;
    role->server_s = 0;
    *role->fault = '\0';
    if (!role_request_make(&role->request, role->kind, role->step, role->region, role->token,
                           role->name, &fault))
        return error_refuse(&role->error, "the role %s %s", aws_role_name(role->kind), fault.text);
    role->web.easy = curl_easy_init();
    bool good = role->web.easy && add_header(role);
    if (good) {
        set_options(role);
        good = web_loop_add(role->roles->web, &role->web);
    }
    return good || error_refuse(&role->error, "no memory to ask for keys");
}

/* ---- the end of asking ---------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    ask(container_of(timer, struct role, timer));
}

static void rest(struct role *role, double seconds)
{
    end_request(role);
    explicit_bzero(role->token, sizeof role->token);
    role->state = ROLE_RESTING;
    uv_timer_start(&role->timer, on_timer, (uint64_t)(seconds * 1e3), 0);
    role->roles->changed(role->roles->context);
}

/* Logs the first failure, and the end of the old keys. */
static void fail(struct role *role)
{
    bool ended = !has_keys(role);
    double wait_s = role->failures < 4 ? (double)(1u << role->failures) : RETRY_S_MAX;
    if (ended)
        drop_keys(role);
    if (ended && !role->said_ended)
        log_warning("%s; until it gets some, jobs with URLs like %s wait, and fail after "
                    "url_timeout_s",
                    role->error.text, role->user);
    else if (role->failures == 0)
        log_warning("%s; the old keys end in %.0f s", role->error.text,
                    role->ends_s - since_boot_s());
    role->said_ended = ended;
    role->said_keys = false;
    role->failure = role->error;
    role->failures++;
    ++*role->roles->errors;
    rest(role, wait_s);
}

/* "the role instance gets no keys: http://169.254.169.254: REASON; HINT". Jobs' results have this
 * text, and the path of a container's URL is a secret. */
static bool refuse(struct role *role, const char *reason, const char *hint)
{
    return error_refuse(&role->error, "the role %s gets no keys: %.*s: %.120s%s%s",
                        aws_role_name(role->kind), ORIGIN_SHOWN(&role->request.url), reason,
                        *hint ? "; " : "", hint);
}

static const char *status_hint(const struct role *role, long status)
{
    if (role->kind == AWS_ROLE_INSTANCE)
        return role->step == ROLE_STEP_NAME && status == 404
                   ? "the instance has no role; attach an instance profile"
                   : "instance metadata version 2 must be enabled";
    if (role->kind == AWS_ROLE_CONTAINER)
        return "check the role of the task, or the pod identity association";
    return "check AWS_ROLE_ARN, and the trust policy of that role";
}

/* Whether there is an answer with the status 200. false: role->error is set. */
static bool is_answered(struct role *role, CURLcode code)
{
    char reason[160], word[64];
    long status = 0;
    curl_easy_getinfo(role->web.easy, CURLINFO_RESPONSE_CODE, &status);
    if (role->too_long)
        return refuse(role, "the answer is too long", "");
    if (code != CURLE_OK) {
        bool far = role->kind == AWS_ROLE_INSTANCE && code == CURLE_OPERATION_TIMEDOUT;
        const char *hint = far ? "in a container, the instance's hop limit must be 2" : "";
        return refuse(role, *role->fault ? role->fault : curl_easy_strerror(code), hint);
    }
    if (status == 200)
        return true;
    role_answer_code(role->answer, role->length, word, sizeof word);
    snprintf(reason, sizeof reason, "status %ld%s%s", status, *word ? ", " : "", word);
    return refuse(role, reason, status < 500 ? status_hint(role, status) : "");
}

static void check_clock(struct role *role)
{
    double ahead_s = role->server_s > 0 ? clock_unix_s() - role->server_s : 0;
    if (fabs(ahead_s) > SKEW_S_MAX && !role->said_skew)
        log_warning("the clock of this host is %.0f s %s than that of %.*s; servers of S3 refuse "
                    "signatures that are wrong by 15 minutes",
                    fabs(ahead_s), ahead_s > 0 ? "later" : "earlier",
                    ORIGIN_SHOWN(&role->request.url));
    role->said_skew = fabs(ahead_s) > SKEW_S_MAX;
}

/* Takes the keys of the answer. Their time is measured by the clock of the server that gave them,
 * if it says the time. false: role->error is set. */
static bool take_keys(struct role *role)
{
    char reason[160];
    double ends_unix_s;
    struct error fault = {0};
    struct aws_keys keys;
    if (!role_answer_keys(role->answer, role->length, &keys, &ends_unix_s, &fault)) {
        snprintf(reason, sizeof reason, "the answer %.100s", fault.text);
        return refuse(role, reason, "");
    }
    double left_s = ends_unix_s - (role->server_s > 0 ? role->server_s : clock_unix_s());
    if (left_s <= LAST_S) {
        explicit_bzero(&keys, sizeof keys);
        snprintf(reason, sizeof reason,
                 left_s > 0 ? "its keys end in %.0f s" : "its keys ended %.0f s ago", fabs(left_s));
        return refuse(role, reason, "");
    }
    check_clock(role);
    left_s = fmin(left_s, LIFETIME_S_MAX);
    role->keys = keys;
    explicit_bzero(&keys, sizeof keys);
    role->ends_s = since_boot_s() + left_s;
    return true;
}

static void succeed(struct role *role)
{
    double left_s = role->ends_s - since_boot_s();
    double ahead_s = left_s < 2 * AHEAD_S ? left_s / 2 : AHEAD_S;
    log_at(role->said_keys ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "the role %s has keys for %.0f s",
           aws_role_name(role->kind), left_s);
    role->failures = 0;
    role->said_keys = true;
    role->said_ended = false;
    error_clear(&role->failure);
    rest(role, fmax(left_s - ahead_s, 1));
}

/* Takes the answer of a step. Returns whether the role has keys now; if not and there is no error,
 * the next step follows. */
static bool take_step(struct role *role)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_+=,.@-";
    bool is_token = role->step == ROLE_STEP_TOKEN;
    char *word = is_token ? role->token : role->name;
    if (role->step == ROLE_STEP_KEYS)
        return take_keys(role);
    if (!role_answer_word(role->answer, role->length, word, ROLE_WORD_BYTES) ||
        (!is_token && word[strspn(word, letters)]))
        return refuse(role, is_token ? "the answer is no token" : "the answer is no name of a role",
                      "");
    role->step++;
    return false;
}

static void on_ended(struct web_request *request, CURLcode code)
{
    struct role *role = container_of(request, struct role, web);
    assert(role->state == ROLE_ASKING);
    error_clear(&role->error);
    if (is_answered(role, code) && take_step(role))
        succeed(role);
    else if (role->error.status != STATUS_OK || !start_step(role))
        fail(role);
}

static void ask(struct role *role)
{
    assert(role->state != ROLE_ASKING);
    uv_timer_stop(&role->timer);
    role->state = ROLE_ASKING;
    role->step = role_first_step(role->kind);
    error_clear(&role->error);
    if (!start_step(role))
        fail(role);
}

/* ---- the roles ------------------------------------------------------------------------------ */

struct roles *roles_create(const struct options *options, uint64_t *errors,
                           void (*changed)(void *context), void *context)
{
    struct roles *roles = calloc(1, sizeof *roles);
    if (!roles)
        return NULL;
    roles->options = options;
    roles->errors = errors;
    roles->changed = changed;
    roles->context = context;
    for (enum aws_role kind = 0; kind < AWS_ROLE_COUNT; kind++) {
        struct role *role = &roles->items[kind];
        role->roles = roles;
        role->kind = kind;
        role->web.ended = on_ended;
    }
    return roles;
}

void roles_start(struct roles *roles, uv_loop_t *loop, struct web_loop *web)
{
    roles->web = web;
    for (enum aws_role kind = 0; kind < AWS_ROLE_COUNT; kind++)
        uv_timer_init(loop, &roles->items[kind].timer);
}

static void forget(struct role *role)
{
    end_request(role);
    uv_timer_stop(&role->timer);
    drop_keys(role);
    error_clear(&role->failure);
    role->failures = 0;
    role->said_keys = role->said_ended = role->said_skew = false;
    role->state = ROLE_UNUSED;
}

/* The operator may trust the network between, so this is no error. */
static void warn_of_http(const struct role *role)
{
    const struct url *url = &role->request.url;
    if (role->kind == AWS_ROLE_WEB_IDENTITY && url->text && !role_url_is_safe(url))
        log_warning("the role web-identity sends its token to %.*s without TLS; "
                    "AWS_ENDPOINT_URL_STS should begin with https://",
                    ORIGIN_SHOWN(url));
}

void roles_use(struct roles *roles, const struct prefix *const first[AWS_ROLE_COUNT])
{
    for (enum aws_role kind = AWS_ROLE_NONE + 1; kind < AWS_ROLE_COUNT; kind++) {
        struct role *role = &roles->items[kind];
        const struct prefix *prefix = first[kind];
        if (!prefix) {
            forget(role);
            continue;
        }
        snprintf(role->user, sizeof role->user, "%.*s", URL_SHOWN(&prefix->url));
        snprintf(role->region, sizeof role->region, "%s", prefix->region);
        if (role->state != ROLE_ASKING)
            ask(role);
        warn_of_http(role);
    }
}

/* Whether its keys have ended before its timer has: the timer stands still while the host is
 * suspended. */
static bool is_overdue(const struct role *role)
{
    return role->state == ROLE_RESTING && role->failures == 0 && !has_keys(role);
}

enum roles_answer roles_keys(struct roles *roles, enum aws_role kind, const struct aws_keys **keys,
                             struct error *error)
{
    struct role *role = &roles->items[kind];
    if (has_keys(role)) {
        *keys = &role->keys;
        return ROLES_READY;
    }
    if (role->failure.status != STATUS_OK)
        error_refuse(error, "%s", role->failure.text);
    else
        error_refuse(error, "the role %s has no keys", aws_role_name(kind));
    if (is_overdue(role)) {
        uv_timer_start(&role->timer, on_timer, 0, 0); /* `changed` must not be called from here */
        return ROLES_AWAITED;
    }
    return role->state == ROLE_ASKING ? ROLES_AWAITED : ROLES_FAILED;
}

const char *roles_failure(const struct roles *roles, enum aws_role kind)
{
    return roles->items[kind].failure.text;
}

void roles_stop(struct roles *roles)
{
    for (enum aws_role kind = 0; kind < AWS_ROLE_COUNT; kind++) {
        forget(&roles->items[kind]);
        uv_close((uv_handle_t *)&roles->items[kind].timer, NULL);
    }
}

void roles_destroy(struct roles *roles)
{
    free(roles);
}

#else

typedef int roles_without_libcurl; /* C forbids an empty file */

#endif
