#include "queue/job/client_labels.h"

#include <stddef.h>
#include <string.h>

#include "conf/limits.h"

#define HEX    "0123456789abcdef"
#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
/* Characters of keys in tracestate. */
#define KEY LOWER DIGITS "_-*/"
/* Characters of tags. */
#define TAG LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "._:/@-"

/* Positions in "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01". */
enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, LENGTH = 55 };

#define STATE_MEMBERS_MAX 32
#define KEY_BYTES_MAX     256
#define TENANT_BYTES_MAX  241
#define SYSTEM_BYTES_MAX  14
#define VALUE_BYTES_MAX   256

const char *tag_fault(const char *text)
{
    size_t length = strspn(text, TAG);
    return length >= 1 && length <= JOB_TAG_BYTES_MAX && !text[length]
               ? NULL
               : "must have 1 to 64 letters, digits and characters of \"._:/@-\"";
}

/* Whether `digits` lower-case hexadecimal digits are at `text`. */
static bool has_digits(const char *text, size_t digits)
{
    return strspn(text, HEX) == digits;
}

static bool are_zero(const char *text, size_t digits)
{
    return strspn(text, "0") >= digits;
}

const char *traceparent_fault(const char *text)
{
    if (strlen(text) > JOB_TRACEPARENT_BYTES_MAX)
        return "must have at most 128 bytes";
    if (strlen(text) < LENGTH || !has_digits(text, 2) || text[TRACE_AT - 1] != '-' ||
        !has_digits(text + TRACE_AT, 32) || text[PARENT_AT - 1] != '-' ||
        !has_digits(text + PARENT_AT, 16) || text[FLAGS_AT - 1] != '-' ||
        !has_digits(text + FLAGS_AT, 2))
        return "must be 2, 32, 16 and 2 lower-case hexadecimal digits with \"-\" between them";
    if (strncmp(text, "ff", 2) == 0)
        return "has the version ff, which is not valid";
    if (text[LENGTH] && (strncmp(text, "00", 2) == 0 || text[LENGTH] != '-'))
        return "has more than 55 bytes";
    if (are_zero(text + TRACE_AT, 32) || are_zero(text + PARENT_AT, 16))
        return "has an id of zeros, which is not valid";
    return NULL;
}

/* Whether text[0..length) is a key: lower-case letters, digits, "_-*" and "/", or such a tenant,
 * "@" and a system. Level 2 lets all keys begin with a digit. */
static bool is_key(const char *text, size_t length)
{
    size_t first = strspn(text, KEY);
    if (first == 0 || !strchr(LOWER DIGITS, *text))
        return false;
    if (first >= length)
        return length <= KEY_BYTES_MAX;
    size_t rest = length - first - 1;
    return text[first] == '@' && first <= TENANT_BYTES_MAX && rest >= 1 &&
           rest <= SYSTEM_BYTES_MAX && strchr(LOWER, text[first + 1]) &&
           strspn(text + first + 1, KEY) >= rest;
}

/* Printable ASCII without "," and "=", at most 256 bytes, the last one not blank. */
static bool is_value(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~' || text[i] == '=')
            return false;
    return length >= 1 && length <= VALUE_BYTES_MAX && text[length - 1] != ' ';
}

/* A key of one of the members at keys[0..count). */
static bool is_repeated(const char *const *keys, const size_t *lengths, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        if (lengths[i] == lengths[count - 1] && memcmp(keys[i], keys[count - 1], lengths[i]) == 0)
            return true;
    return false;
}

const char *tracestate_fault(const char *text)
{
    const char *keys[STATE_MEMBERS_MAX];
    size_t lengths[STATE_MEMBERS_MAX], count = 0;
    if (strlen(text) > JOB_TRACESTATE_BYTES_MAX)
        return "must have at most 512 bytes";
    for (const char *next = text; next;) {
        const char *at = next + strspn(next, " \t");
        const char *comma = strchr(at, ',');
        next = comma ? comma + 1 : NULL;
        size_t length = strcspn(at, ",");
        while (length > 0 && strchr(" \t", at[length - 1]))
            length--;
        if (length == 0)
            continue; /* empty members are valid */
        size_t key = strcspn(at, "=");
        if (count == STATE_MEMBERS_MAX)
            return "has more than 32 members";
        if (key >= length || !is_key(at, key) || !is_value(at + key + 1, length - key - 1))
            return "has a member that is not key=value";
        keys[count] = at;
        lengths[count++] = key;
        if (is_repeated(keys, lengths, count))
            return "has a key twice";
    }
    return count > 0 ? NULL : "has no member";
}

void trace_context_read(struct trace_context *context, const char *traceparent)
{
    *context = (struct trace_context){.trace_id = "", .parent_id = ""};
    if (!traceparent)
        return;
    memcpy(context->trace_id, traceparent + TRACE_AT, TRACE_ID_BYTES - 1);
    memcpy(context->parent_id, traceparent + PARENT_AT, PARENT_ID_BYTES - 1);
}
