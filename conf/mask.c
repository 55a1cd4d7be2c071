#include "conf/mask.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/limits.h"
#include "conf/text.h"

#define SCHEME_BYTES_MAX 16
/* The member of JSON whose value is a URL, also without a scheme. */
#define URL_KEY "\"url\""
/* A text that was cut may end within an escape like "\u002f": the most bytes that are left of it.
 */
#define PARTIAL_ESCAPE_BYTES 6

/* One character of a text, perhaps escaped. */
struct symbol {
    unsigned char byte; /* decoded; 0: no byte of ASCII */
    bool escaped, percent;
    size_t bytes; /* in the text */
};

struct masking {
    char *text; /* masked in place: read at `at`, written at `used` */
    size_t length, at, used;
    enum mask_kind kind;
    bool in_url;  /* between the authority and the end of the path */
    bool percent; /* the delimiters of the URL may be percent-encoded */
    bool quoted;  /* only a quote ends the URL */
};

/* ---- symbols -------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the number of `count` hexadecimal digits, or -1. */
static int read_hex(const char *text, size_t left, size_t count)
{
    int value = 0;
    if (left < count)
        return -1;
    for (size_t i = 0; i < count && value >= 0; i++) {
        int digit = hex_digit(text[i]);
        value = digit < 0 ? -1 : value * 16 + digit;
    }
    return value;
}

/* Reads an escape: "\/", "\"", "\u002f" or "\x2f". In JSON within JSON it has several backslashes.
 */
static struct symbol read_backslash(const char *text, size_t left)
{
    size_t count = 1;
    while (count < left && text[count] == '\\')
        count++;
    char next = count < left ? text[count] : '\0';
    size_t digits = next == 'u' ? 4 : next == 'x' ? 2 : 0;
    int value = digits ? read_hex(text + count + 1, left - count - 1, digits) : -1;
    if (value >= 0)
        return (struct symbol){value < 0x80 ? (unsigned char)value : 0, true, false,
                               count + 1 + digits};
    if (next == '/' || next == '"')
        return (struct symbol){(unsigned char)next, true, false, count + 1};
    return (struct symbol){'\\', false, false, count};
}

/* Reads "%2f", also encoded twice: "%252f". */
static struct symbol read_percent(const char *text, size_t left)
{
    size_t at = 1;
    while (left - at >= 2 && text[at] == '2' && text[at + 1] == '5')
        at += 2;
    int value = read_hex(text + at, left - at, 2);
    if (value < 0)
        return (struct symbol){'%', false, false, 1};
    return (struct symbol){value < 0x80 ? (unsigned char)value : 0, true, true, at + 2};
}

static struct symbol peek(const struct masking *mask, size_t at)
{
    const char *text = mask->text + at;
    size_t left = mask->length - at;
    if (left == 0)
        return (struct symbol){0};
    if (*text == '\\')
        return read_backslash(text, left);
    if (*text == '%')
        return read_percent(text, left);
    return (struct symbol){(unsigned char)*text, false, false, 1};
}

/* Copies the text up to `end`. */
static void keep(struct masking *mask, size_t end)
{
    size_t bytes = end - mask->at;
    memmove(mask->text + mask->used, mask->text + mask->at, bytes);
    mask->used += bytes;
    mask->at = end;
}

static bool is_alnum(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_slash(struct symbol symbol)
{
    return symbol.byte == '/' || symbol.byte == '\\';
}

/* ---- the parts of a URL --------------------------------------------------------------------- */

static bool ends_url(const struct masking *mask, struct symbol symbol)
{
    if (symbol.bytes == 0 || (symbol.byte == '"' && !symbol.escaped))
        return true;
    bool blank = symbol.byte == ' ' || symbol.byte == '\t' || symbol.byte == '\n';
    return blank && !symbol.escaped && !mask->quoted;
}

/* Whether the symbol at `at` begins a secret part after the path: a query, a fragment or a
 * parameter. */
static bool begins_secret(const struct masking *mask, size_t at, struct symbol symbol)
{
    if (symbol.percent && !mask->percent)
        return false;
    if (symbol.byte != ';')
        return symbol.byte == '?' || symbol.byte == '#';
    size_t name = at + symbol.bytes, end = name;
    struct symbol next = peek(mask, end);
    for (; is_alnum(next.byte) || (next.byte && strchr("-_.~", next.byte)); next = peek(mask, end))
        end += next.bytes;
    return end > name && next.byte == '=';
}

static size_t end_of_url(const struct masking *mask, size_t at)
{
    for (struct symbol symbol; symbol = peek(mask, at), !ends_url(mask, symbol);)
        at += symbol.bytes;
    return at;
}

/* The part of a URL between the slashes and the path: user, password, host and port. */
struct authority {
    size_t host, end; /* offsets; the host begins after the last '@' */
    bool odd; /* "user:pass/word@host": the text after the colon is no port, so all is secret */
};

static struct authority read_authority(const struct masking *mask, size_t at)
{
    struct authority authority = {.host = at, .end = at};
    bool colon = false, bracket = false;
    for (struct symbol symbol; symbol = peek(mask, authority.end), !ends_url(mask, symbol);) {
        if (is_slash(symbol) || begins_secret(mask, authority.end, symbol))
            break;
        authority.end += symbol.bytes;
        bool encoded = symbol.percent && !mask->percent;
        if (symbol.byte == '@') {
            authority.host = authority.end;
            colon = authority.odd = bracket = false;
        } else if (symbol.byte == '[' || symbol.byte == ']') {
            bracket = symbol.byte == '[';
        } else if (symbol.byte == ':' && !bracket && !encoded) {
            colon = true;
        } else if (symbol.byte == ',') {
            colon = false; /* a list of servers */
        } else if (colon && !(symbol.byte && strchr("0123456789;:.)", symbol.byte))) {
            authority.odd = true;
        }
    }
    return authority;
}

/* Whether the URL's user is no secret, because the scheme before the colon at `at` is one of
 * Sentinels: "sentinel://MASTER@host". */
static bool has_public_user(const struct masking *mask, size_t at)
{
    static const char *const schemes[] = {"sentinel", "sentinels", "unix"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t length = strlen(schemes[i]);
        if (at >= length && memcmp(mask->text + at - length, schemes[i], length) == 0 &&
            (at == length || !is_alnum((unsigned char)mask->text[at - length - 1])))
            return true;
    }
    return false;
}

/* Masks the authority, which begins after the slashes, at mask->at. */
static void take_authority(struct masking *mask, bool public_user)
{
    struct authority authority = read_authority(mask, mask->at);
    size_t rest = mask->length - authority.end;
    bool cut = mask->kind == MASK_CUT &&
               (rest == 0 || (rest < PARTIAL_ESCAPE_BYTES && mask->text[authority.end] == '\\'));
    mask->in_url = true;
    if (public_user)
        return;
    if (authority.odd || cut) {
        mask->at = end_of_url(mask, mask->at);
        mask->in_url = false;
    } else {
        mask->at = authority.host;
        keep(mask, authority.end);
    }
}

/* ---- where a URL begins --------------------------------------------------------------------- */

/* Whether the scheme is a known one, after which a colon without slashes suffices for a URL. */
static bool is_known_scheme(const struct masking *mask)
{
    static const char *const schemes[] = {"http", "https", "s3", "gs"};
    size_t begin = mask->used;
    while (begin > 0 && is_alnum((unsigned char)mask->text[begin - 1]) &&
           mask->used - begin < SCHEME_BYTES_MAX)
        begin--;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strlen(schemes[i]) == mask->used - begin &&
            strncasecmp(mask->text + begin, schemes[i], mask->used - begin) == 0)
            return true;
    return false;
}

/* Returns the byte before the scheme that ends at `used`; 0 at the beginning of the text. */
static char before_scheme(const struct masking *mask)
{
    size_t begin = mask->used;
    while (begin > 0 && mask->used - begin < SCHEME_BYTES_MAX &&
           (is_alnum((unsigned char)mask->text[begin - 1]) || strchr("+-.", mask->text[begin - 1])))
        begin--;
    return begin > 0 ? mask->text[begin - 1] : '\0';
}

/* If a URL's colon or slashes are at mask->at, takes them and masks the authority. */
static bool take_beginning(struct masking *mask, struct symbol symbol)
{
    bool colon =
        symbol.byte == ':' && mask->used > 0 && is_alnum((unsigned char)mask->text[mask->used - 1]);
    char before = colon ? before_scheme(mask) : mask->used ? mask->text[mask->used - 1] : '\0';
    bool at_begin = before == '\0' || before == '"';
    if (!colon && !(is_slash(symbol) && at_begin))
        return false;
    size_t at = mask->at + (colon ? symbol.bytes : 0), slashes = 0;
    bool percent = colon && symbol.percent;
    for (struct symbol next; next = peek(mask, at), is_slash(next); at += next.bytes) {
        percent |= next.percent;
        slashes++;
    }
    if (colon ? slashes == 0 && !is_known_scheme(mask) : slashes < 2)
        return false;
    bool public_user = colon && has_public_user(mask, mask->used);
    mask->percent = percent;
    mask->quoted = mask->kind != MASK_MESSAGE || before == '"';
    keep(mask, at);
    take_authority(mask, public_user);
    return true;
}

static size_t skip_blanks_back(const char *text, size_t end)
{
    while (end > 0 && strchr(" \t\r\n", text[end - 1]))
        end--;
    return end;
}

/* Whether the text before mask->at ends with `"url":"`, with or without blanks, and a URL without a
 * scheme follows: "host:80/path?query", or "user:password@host". */
static bool is_bare_url(const struct masking *mask)
{
    const char *text = mask->text;
    size_t used = mask->used, at = mask->at, length = strlen(URL_KEY);
    if (used == 0 || text[used - 1] != '"' || text[at] == '"')
        return false;
    used = skip_blanks_back(text, used - 1);
    if (used == 0 || text[used - 1] != ':')
        return false;
    used = skip_blanks_back(text, used - 1);
    if (used < length || memcmp(text + used - length, URL_KEY, length) != 0)
        return false;
    while (at < mask->length && text[at] != '"' && text[at] != ':')
        at++;
    return at + 1 >= mask->length || text[at] == '"' || !strchr("/\\%", text[at + 1]);
}

size_t mask_bytes(char *text, size_t length, enum mask_kind kind)
{
    struct masking mask = {.text = text, .length = length, .kind = kind};
    while (mask.at < mask.length) {
        struct symbol symbol = peek(&mask, mask.at);
        if (mask.in_url && ends_url(&mask, symbol))
            mask.in_url = false;
        if (mask.in_url && begins_secret(&mask, mask.at, symbol)) {
            mask.at = end_of_url(&mask, mask.at);
            mask.in_url = false;
        } else if (!mask.in_url && is_bare_url(&mask)) {
            mask.percent = false;
            mask.quoted = true;
            take_authority(&mask, false);
        } else if (!take_beginning(&mask, symbol)) {
            keep(&mask, mask.at + symbol.bytes);
        }
    }
    return mask.used;
}

void mask_text(char *text, enum mask_kind kind)
{
    text[mask_bytes(text, strlen(text), kind)] = '\0';
}

/* Copies a value, masks it as it would be after `before`, and cuts it to fit. */
static const char *copy_after(const char *before, char *to, size_t size, const char *value)
{
    char whole[JOB_URL_BYTES_MAX + sizeof URL_KEY ":\""];
    size_t length = strlen(before);
    assert(size > 0);
    memcpy(whole, before, length);
    bool cut = !text_copy(whole + length, JOB_URL_BYTES_MAX + 1, value);
    mask_text(whole, cut ? MASK_CUT : MASK_VALUE);
    text_copy(to, size, whole + length);
    return to;
}

const char *mask_copy(char *to, size_t size, const char *value)
{
    return copy_after("", to, size, value);
}

const char *mask_copy_url(char *to, size_t size, const char *value)
{
    return copy_after(URL_KEY ":\"", to, size, value);
}

bool mask_is_url(const char *value)
{
    size_t scheme = 0;
    while (is_alnum((unsigned char)value[scheme]) ||
           (scheme > 0 && value[scheme] && strchr("+-.", value[scheme])))
        scheme++;
    return scheme > 0 && strncmp(value + scheme, "://", 3) == 0;
}
