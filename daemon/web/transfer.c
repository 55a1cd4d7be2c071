/* transfer.c - one download or upload (transfer.h). In a build without libcurl, it is empty. */
#ifdef GPUIMGD_CURL

#include "daemon/web/transfer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/text.h"

#define URL_REDIRECTS_MAX 5

#define CONNECT_S 10.0
#define FIRST_BYTES  (64 * KIB) /* first capacity for a body whose length is not announced */
#define BUFFER_BYTES (64 * KIB) /* libcurl's receive buffer */
/* Bodies that nobody needs: of errors, of redirects, and of all answers to uploads. Up to this size
 * a body is read and dropped, because libcurl can then use the connection again. */
#define SKIPPED_BYTES_MAX (64 * KIB)
/* A transfer below this speed for half of url_timeout_s counts as broken. */
#define BYTES_PER_S_MIN 1024L

/* An upload sends the header "Expect: 100-continue" and waits this long for the server's answer
 * before it sends its body. A server that knows the header can refuse the upload first; many do not
 * know it, and each upload to them takes this much longer. */
#define EXPECT_MS 100L

/* Before libcurl 8.10, a signature sorts headers as lines "name:value" instead of by name, so that
 * "x-amz-meta-a-b:" precedes "x-amz-meta-a:". Servers then refuse the signature. */
#define CURL_SORTS_NAMES 0x080A00

/* The longest code of an error of S3, and a NUL: a signature has 64 digits. */
#define S3_CODE_BYTES 48

/* A callback that returns 0 used bytes makes libcurl end the request. */
#define ABORT 0

static bool is_upload(const struct transfer *transfer)
{
    return transfer->request.direction == TRANSFER_UPLOAD;
}

/* The status of a failure that a later attempt of the job may not have. */
static enum status retryable_error(const struct transfer *transfer)
{
    return is_upload(transfer) ? STATUS_WRITE_FAILED : STATUS_INPUT_UNREADABLE;
}

static long status_of(const struct transfer *transfer)
{
    long status = 0;
    curl_easy_getinfo(transfer->web.easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* ---- libcurl's callbacks -------------------------------------------------------------------- */

/* Checks each address when libcurl connects to it. An earlier lookup of the name would prove
 * nothing: the name may have another address each time. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = context;
    char text[INET6_ADDRSTRLEN] = "?";
    (void)purpose;
    const char *kind = networks_forbid(&transfer->rules->networks, &address->addr);
    if (!kind) {
        transfer->opened = true;
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    }
    const void *bytes = address->family == AF_INET6
                            ? (const void *)&((struct sockaddr_in6 *)&address->addr)->sin6_addr
                            : (const void *)&((struct sockaddr_in *)&address->addr)->sin_addr;
    inet_ntop(address->family, bytes, text, sizeof text);
    snprintf(transfer->forbidden, sizeof transfer->forbidden, "%s (%s)", text, kind);
    return CURL_SOCKET_BAD;
}

static size_t take_header(char *line, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    (void)line;
    transfer->header_bytes += size * count;
    if (transfer->header_bytes <= TRANSFER_HEADERS_BYTES)
        return size * count;
    error_set(&transfer->error, retryable_error(transfer),
              "the server's headers for \"%.*s\" have more than %llu bytes",
              URL_SHOWN(&transfer->url), TRANSFER_HEADERS_BYTES);
    return ABORT;
}

/* bytes: the announced length; 0: the server announced none. */
static void refuse_size(struct transfer *transfer, uint64_t bytes)
{
    error_set(&transfer->error, STATUS_INPUT_TOO_LARGE,
              "\"%.*s\" has %s%llu bytes; at most %llu are allowed", URL_SHOWN(&transfer->url),
              bytes ? "" : "more than ",
              (unsigned long long)(bytes ? bytes : transfer->request.bytes_max),
              (unsigned long long)transfer->request.bytes_max);
}

/* The header Content-Length; 0: there is none. */
static uint64_t announced_bytes(const struct transfer *transfer)
{
    curl_off_t announced = -1;
    curl_easy_getinfo(transfer->web.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    return announced > 0 ? (uint64_t)announced : 0;
}

/* Doubles the capacity, or sets it to the announced length if that is less. false: the transfer
 * pauses, or has an error. */
static bool grow(struct transfer *transfer, size_t needed)
{
    uint64_t most = announced_bytes(transfer);
    most = most > 0 && most < transfer->request.bytes_max ? most : transfer->request.bytes_max;
    size_t capacity = 2 * transfer->capacity > FIRST_BYTES ? 2 * transfer->capacity : FIRST_BYTES;
    capacity = capacity < most ? capacity : most;
    capacity = capacity > needed ? capacity : needed;
    size_t added = capacity - transfer->capacity;
    if (!transfer->rules->take_memory(transfer->fetcher, transfer, added)) {
        transfer->paused = true;
        return false;
    }
    uint8_t *grown = realloc(transfer->bytes, capacity);
    if (!grown) {
        transfer->rules->return_memory(transfer->fetcher, added);
        error_set(&transfer->error, STATUS_OUT_OF_MEMORY, "no memory for an input of %zu bytes",
                  needed);
        return false;
    }
    transfer->bytes = grown;
    transfer->capacity = capacity;
    return true;
}

static size_t skip_body(struct transfer *transfer, const char *bytes, size_t length)
{
    size_t room = sizeof transfer->reason - transfer->reason_bytes;
    size_t kept = length < room ? length : room;
    memcpy(transfer->reason + transfer->reason_bytes, bytes, kept);
    transfer->reason_bytes += kept;
    transfer->skipped += length;
    return transfer->skipped <= SKIPPED_BYTES_MAX ? length : ABORT;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t length = size * count, needed = transfer->length + length;
    if (is_upload(transfer) || status_of(transfer) != 200)
        return skip_body(transfer, bytes, length);
    uint64_t announced = announced_bytes(transfer);
    if (announced > transfer->request.bytes_max || needed > transfer->request.bytes_max) {
        refuse_size(transfer, announced);
        return ABORT;
    }
    if (needed > transfer->capacity && !grow(transfer, needed))
        return transfer->paused ? CURL_WRITEFUNC_PAUSE : ABORT;
    memcpy(transfer->bytes + transfer->length, bytes, length);
    transfer->length = needed;
    return length;
}

static size_t give_body(char *to, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t left = transfer->request.body_bytes - transfer->sent;
    size_t length = left < size * count ? left : size * count;
    memcpy(to, transfer->request.body + transfer->sent, length);
    transfer->sent += length;
    return length;
}

/* libcurl sends an upload again from the start if the server had closed the connection, which was
 * kept from an earlier request. */
static int seek_body(void *context, curl_off_t offset, int origin)
{
    struct transfer *transfer = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > transfer->request.body_bytes)
        return CURL_SEEKFUNC_CANTSEEK;
    transfer->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- one request ---------------------------------------------------------------------------- */

static void set_callbacks(struct transfer *transfer)
{
    CURL *easy = transfer->web.easy;
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->fault);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
    curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek_body);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, transfer);
}

static void set_limits(struct transfer *transfer)
{
    CURL *easy = transfer->web.easy;
    double timeout_s = transfer->rules->options->url_timeout_s;
    double connect_s = timeout_s < CONNECT_S ? timeout_s : CONNECT_S;
    long slow_s = timeout_s > 2 ? (long)(timeout_s / 2) : 1;
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(timeout_s * 1e3));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_s * 1e3));
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, BYTES_PER_S_MIN);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, slow_s);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
}

static CURLcode add_header(struct transfer *transfer, const char *name, const char *value)
{
    size_t length = strlen(name) + strlen(value) + 3;
    char *line = malloc(length);
    if (!line)
        return CURLE_OUT_OF_MEMORY;
    snprintf(line, length, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);
    explicit_bzero(line, length); /* the value may be a secret */
    free(line);
    if (longer)
        transfer->headers = longer;
    return longer ? CURLE_OK : CURLE_OUT_OF_MEMORY;
}

/* Adds the lines of the request's headers. */
static CURLcode add_headers(struct transfer *transfer)
{
    const char *line = transfer->request.headers;
    CURLcode code = CURLE_OK;
    for (size_t length; code == CURLE_OK && line && *line; line += length + 1) {
        length = strcspn(line, "\n");
        char *copy = strndup(line, length);
        struct curl_slist *longer = copy ? curl_slist_append(transfer->headers, copy) : NULL;
        free(copy);
        if (longer)
            transfer->headers = longer;
        else
            code = CURLE_OUT_OF_MEMORY;
    }
    return code;
}

/* The lines are sorted by name, so a name directly precedes those that begin with it. */
static bool can_sign_headers(struct transfer *transfer)
{
    const char *line = transfer->request.headers, *end;
    const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
    if (!line || version->version_num >= CURL_SORTS_NAMES)
        return true;
    for (; (end = strchr(line, '\n')) && end[1]; line = end + 1) {
        size_t name = strcspn(line, ":");
        if (strncmp(line, end + 1, name) == 0 && end[1 + name] < ':')
            return error_fail(&transfer->error, STATUS_BAD_JOB,
                              "libcurl %s cannot sign the metadata \"%.*s\", because another name "
                              "begins with it; rename one, or install libcurl 8.10 or later",
                              version->version, (int)name, line);
    }
    return true;
}

static CURLcode sign(struct transfer *transfer, const struct prefix *prefix,
                     const struct aws_keys *keys)
{
    char signing[sizeof "aws:amz::s3" + AWS_NAME_BYTES_MAX];
    snprintf(signing, sizeof signing, "aws:amz:%s:s3", prefix->region);
    CURLcode code = curl_easy_setopt(transfer->web.easy, CURLOPT_AWS_SIGV4, signing);
    if (code == CURLE_OK)
        code = curl_easy_setopt(transfer->web.easy, CURLOPT_USERNAME, keys->id);
    if (code == CURLE_OK)
        code = curl_easy_setopt(transfer->web.easy, CURLOPT_PASSWORD, keys->secret);
    /* Without this header libcurl 7.88 signs an upload as if its body were empty, and the server
     * refuses it. The header leaves the body out of the signature; with https, TLS protects it. */
    if (code == CURLE_OK)
        code = add_header(transfer, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    if (code == CURLE_OK && *keys->token)
        code = add_header(transfer, "x-amz-security-token", keys->token);
    return code;
}

static bool is_signed(const struct transfer *transfer, const struct prefix *prefix)
{
    return prefix->is_signed && !transfer->left_prefix;
}

/* keys: NULL: the request is not signed. */
static CURLcode set_target(struct transfer *transfer, const struct prefix *prefix,
                           const struct aws_keys *keys)
{
    char *signing = keys ? url_text_for_signing(&transfer->url) : NULL;
    const char *text = keys ? signing : transfer->url.text;
    CURLcode code =
        text ? curl_easy_setopt(transfer->web.easy, CURLOPT_URL, text) : CURLE_OUT_OF_MEMORY;
    if (code == CURLE_OK && keys)
        code = sign(transfer, prefix, keys);
    free(signing);
    if (code == CURLE_OK && is_upload(transfer)) {
        curl_easy_setopt(transfer->web.easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(transfer->web.easy, CURLOPT_EXPECT_100_TIMEOUT_MS, EXPECT_MS);
        curl_easy_setopt(transfer->web.easy, CURLOPT_INFILESIZE_LARGE,
                         (curl_off_t)transfer->request.body_bytes);
        code = add_header(transfer, "Content-Type", transfer->request.mime);
        if (code == CURLE_OK)
            code = add_headers(transfer);
    }
    return code == CURLE_OK
               ? curl_easy_setopt(transfer->web.easy, CURLOPT_HTTPHEADER, transfer->headers)
               : code;
}

/* Clears the options of an earlier request: its keys and headers must not reach the server to which
 * it was redirected. */
static void forget_request(struct transfer *transfer)
{
    curl_easy_reset(transfer->web.easy);
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    transfer->sent = transfer->skipped = transfer->header_bytes = transfer->reason_bytes = 0;
    transfer->opened = false;
    *transfer->forbidden = *transfer->fault = '\0';
}

/* NULL: transfer->error is set. */
static const struct prefix *find_prefix(struct transfer *transfer)
{
    struct error *error = &transfer->error;
    if (!transfer->url.text && url_parse(&transfer->url, transfer->request.url, error) != STATUS_OK)
        return NULL;
    return prefixes_match(&transfer->rules->prefixes, &transfer->url, error);
}

bool transfer_waits_for_keys(struct transfer *transfer)
{
    const struct prefix *prefix = find_prefix(transfer);
    const struct aws_keys *keys;
    struct error ignored = {0};
    if (!prefix || prefix->role == AWS_ROLE_NONE)
        return false;
    transfer->role = prefix->role;
    enum roles_answer answer = roles_keys(transfer->rules->roles, prefix->role, &keys, &ignored);
    uint64_t now_ns = clock_now_ns();
    if (answer != ROLES_READY && transfer->keyless_until_ns == 0)
        transfer->keyless_until_ns = clock_after_s(now_ns, transfer->rules->options->url_timeout_s);
    return answer == ROLES_AWAITED ||
           (answer == ROLES_FAILED && now_ns < transfer->keyless_until_ns);
}

/* The reason of the role is never cut for the URL. */
static bool refuse_unsigned(struct transfer *transfer, const char *reason)
{
    static const char text[] = "\"\" is not signed: ";
    const size_t room = ERROR_TEXT_MAX - sizeof text, used = strlen(reason);
    size_t shown = transfer->url.base_bytes;
    shown = shown < URL_SHOWN_BYTES ? shown : URL_SHOWN_BYTES;
    if (shown + used > room)
        shown = used < room ? room - used : 0;
    return error_fail(&transfer->error, retryable_error(transfer), "\"%.*s\" is not signed: %s",
                      (int)shown, transfer->url.text, reason);
}

/* Finds the keys that sign the request. false: there are none, and transfer->error is set. */
static bool find_keys(struct transfer *transfer, const struct prefix *prefix,
                      const struct aws_keys **keys)
{
    struct error fault = {0};
    *keys = &prefix->keys;
    if (!can_sign_headers(transfer))
        return false;
    if (prefix->role == AWS_ROLE_NONE ||
        roles_keys(transfer->rules->roles, prefix->role, keys, &fault) == ROLES_READY)
        return true;
    return refuse_unsigned(transfer, fault.text);
}

bool transfer_prepare(struct transfer *transfer)
{
    struct error *error = &transfer->error;
    const struct aws_keys *keys = NULL;
    const struct prefix *prefix = find_prefix(transfer);
    if (!prefix || (is_signed(transfer, prefix) && !find_keys(transfer, prefix, &keys)))
        return false;
    if (!transfer->web.easy)
        transfer->web.easy = curl_easy_init();
    if (!transfer->web.easy)
        return error_fail(error, STATUS_OUT_OF_MEMORY, "no memory for a transfer");
    forget_request(transfer);
    set_callbacks(transfer);
    set_limits(transfer);
    web_loop_protect(transfer->web.easy, transfer->rules->options->url_ca_file);
    CURLcode code = set_target(transfer, prefix, keys);
    if (code != CURLE_OK)
        error_set(error, STATUS_OUT_OF_MEMORY, "libcurl cannot prepare \"%.*s\": %s",
                  URL_SHOWN(&transfer->url), curl_easy_strerror(code));
    return code == CURLE_OK;
}

void transfer_clear(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->web.easy);
    curl_slist_free_all(transfer->headers);
    transfer->rules->return_memory(transfer->fetcher, transfer->capacity);
    free(transfer->bytes);
    url_clear(&transfer->url);
    transfer->web.easy = NULL;
    transfer->headers = NULL;
    transfer->bytes = NULL;
    transfer->capacity = 0;
}

/* ---- the end of a request ------------------------------------------------------------------- */

/* Too busy, too early, or a fault of the server: the same request may succeed later. Of S3, also
 * keys that ended while the request was on its way, and a body that came too slowly. */
static bool is_retryable_answer(long status, const char *code)
{
    return status >= 500 || status == 408 || status == 425 || status == 429 ||
           (status == 400 &&
            (strcmp(code, "ExpiredToken") == 0 || strcmp(code, "RequestTimeout") == 0));
}

/* An upload follows only 307 and 308: after 301 to 303 a client continues with GET, which would
 * download something. */
static bool is_redirect(const struct transfer *transfer, long status)
{
    return status == 307 || status == 308 ||
           (!is_upload(transfer) && status >= 301 && status <= 303);
}

static bool is_success(const struct transfer *transfer, long status)
{
    return is_upload(transfer) ? status >= 200 && status < 300 : status == 200;
}

/* Whether a redirect leads to a URL with the same prefix. Only then is the next request signed:
 * otherwise a server could make the daemon read or write with its keys what no job has named. */
static bool stays_in_prefix(const struct transfer *transfer, const struct url *target)
{
    const struct prefixes *prefixes = &transfer->rules->prefixes;
    struct error ignored = {0};
    const struct prefix *from = prefixes_match(prefixes, &transfer->url, &ignored);
    return from && from == prefixes_match(prefixes, target, &ignored);
}

/* Writes the code if the answer is an error of S3, like "AccessDenied", else "". Letters alone: the
 * text goes into logs and results, and a server could repeat a signature. */
static void find_code(const struct transfer *transfer, char code[S3_CODE_BYTES])
{
    static const char tag[] = "<Code>", letters[] = "abcdefghijklmnopqrstuvwxyz"
                                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[sizeof transfer->reason + 1];
    memcpy(text, transfer->reason, transfer->reason_bytes);
    text[transfer->reason_bytes] = '\0';
    const char *begin = strstr(text, tag);
    size_t length = begin ? strspn(begin + sizeof tag - 1, letters) : 0;
    bool found = length > 0 && length < S3_CODE_BYTES && begin[sizeof tag - 1 + length] == '<';
    snprintf(code, S3_CODE_BYTES, "%.*s", found ? (int)length : 0,
             found ? begin + sizeof tag - 1 : "");
}

/* Follows a redirect. true: the next request is prepared. */
static bool follow(struct transfer *transfer)
{
    struct error *error = &transfer->error;
    struct curl_header *location;
    struct url target;
    char code[S3_CODE_BYTES];
    const struct url *from = &transfer->url;
    if (transfer->redirects >= URL_REDIRECTS_MAX)
        return error_fail(error, STATUS_PATH_REFUSED,
                          "\"%.*s\" is redirected again after %d redirects, the maximum",
                          URL_SHOWN(from), URL_REDIRECTS_MAX);
    find_code(transfer, code);
    if (curl_easy_header(transfer->web.easy, "Location", 0, CURLH_HEADER, -1, &location) !=
        CURLHE_OK)
        return error_fail(error, STATUS_PATH_REFUSED,
                          "\"%.*s\" is redirected without a Location header%s%s%s", URL_SHOWN(from),
                          *code ? " (" : "", code,
                          *code ? "); the bucket may be in another region" : "");
    if (url_resolve(&target, from, location->value, error) != STATUS_OK)
        return false;
    if (url_is_https(from) && !url_is_https(&target))
        error_set(error, STATUS_PATH_REFUSED, "\"%.*s\" is redirected from https to http",
                  URL_SHOWN(from));
    transfer->left_prefix |= !stays_in_prefix(transfer, &target);
    url_clear(&transfer->url);
    transfer->url = target;
    transfer->redirects++;
    return error->status == STATUS_OK && transfer_prepare(transfer);
}

/* Sets the error for an answer whose status is neither a success nor a redirect. */
static void refuse_status(struct transfer *transfer, long status)
{
    const struct url *url = &transfer->url;
    struct error *error = &transfer->error;
    char code[S3_CODE_BYTES];
    find_code(transfer, code);
    const char *open = *code ? " (" : "", *close = *code ? ")" : "";
    if (is_retryable_answer(status, code))
        error_set(error, retryable_error(transfer),
                  "the server answered \"%.*s\" with status %ld%s%s%s", URL_SHOWN(url), status,
                  open, code, close);
    else if (!is_upload(transfer) && (status == 404 || status == 410))
        error_set(error, STATUS_INPUT_MISSING, "\"%.*s\" does not exist (status %ld)",
                  URL_SHOWN(url), status);
    else
        error_set(error, STATUS_PATH_REFUSED, "the server refuses \"%.*s\" with status %ld%s%s%s%s",
                  URL_SHOWN(url), status, open, code, close,
                  status == 401 || status == 403
                      ? "; check the access rights, and the signature if the URL is signed"
                      : "");
}

/* Sets the error for a request without an answer. The text goes into logs and results, so it must
 * have no query of a URL, which may be a signature. libcurl's messages have host names, addresses
 * and times, but never a query. */
static void explain_fault(struct transfer *transfer, CURLcode code)
{
    const char *fault = *transfer->fault ? transfer->fault : curl_easy_strerror(code);
    if (code == CURLE_OUT_OF_MEMORY)
        error_set(&transfer->error, STATUS_OUT_OF_MEMORY, "no memory for a transfer");
    else if (*transfer->forbidden && !transfer->opened)
        error_set(&transfer->error, STATUS_PATH_REFUSED,
                  "\"%.*s\" leads to %s; the option url_networks can allow it",
                  URL_SHOWN(&transfer->url), transfer->forbidden);
    else
        error_set(&transfer->error, retryable_error(transfer), "\"%.*s\" cannot be %s: %.140s",
                  URL_SHOWN(&transfer->url), is_upload(transfer) ? "uploaded" : "downloaded",
                  fault);
}

bool transfer_finish_request(struct transfer *transfer, CURLcode code)
{
    long status = status_of(transfer);
    /* CURLE_WRITE_ERROR: take_body has ended the request, because the body of an error or a
     * redirect is longer than SKIPPED_BYTES_MAX. The status is known all the same. */
    bool answered = code == CURLE_OK ||
                    (code == CURLE_WRITE_ERROR && !is_success(transfer, status) && status > 0);
    if (transfer->error.status != STATUS_OK) /* set by a callback, which then ended the request */
        return true;
    if (!answered) {
        explain_fault(transfer, code);
        return true;
    }
    if (is_redirect(transfer, status))
        return !follow(transfer);
    if (!is_success(transfer, status))
        refuse_status(transfer, status);
    return true;
}

#else

typedef int transfer_without_libcurl; /* C forbids an empty file */

#endif
