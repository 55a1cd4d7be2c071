/* member_name.c - see member_name.h. */
#include "queue/job/member_name.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/format.h"
#include "conf/text.h"

/* A set of numbers 0 to 127: how many bytes and question marks of the pattern have been matched. */
typedef unsigned __int128 counts;
static_assert(JOB_PATTERN_BYTES_MAX <= 128, "a pattern with a star has at most 127 other bytes");

/* Follows all ways to match the pattern at once, in one step per byte of the name. */
static bool matches_with_stars(const char *name, const char *pattern)
{
    counts fitting[256] = {0}; /* after which counts this byte matches next */
    counts starred = 0;        /* after which counts there is a star */
    counts any = 0, found = 1; /* any: after which counts there is a question mark */
    unsigned count = 0;
    for (; *pattern; pattern++) {
        const counts here = (counts)1 << count;
        if (*pattern == '*')
            starred |= here;
        else if (*pattern == '?')
            any |= here;
        else
            fitting[(unsigned char)*pattern] |= here;
        count += *pattern != '*';
        assert(count < 128);
    }
    for (; *name && found; name++)
        found = (found & (fitting[(unsigned char)*name] | any)) << 1 | (found & starred);
    return found >> count & 1;
}

static bool matches(const char *name, const char *pattern)
{
    if (strchr(pattern, '*'))
        return matches_with_stars(name, pattern);
    while (*name && (*pattern == '?' || *pattern == *name)) {
        name++;
        pattern++;
    }
    return !*name && !*pattern;
}

bool member_matches(const char *name, const char *const *patterns, size_t count)
{
    if (count == 0)
        return format_reads_path(name);
    for (size_t i = 0; i < count; i++)
        if (matches(name, patterns[i]))
            return true;
    return false;
}

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

size_t member_stem(const char *name)
{
    const char *part = last_part(name), *dot = strrchr(part, '.');
    return dot && dot != part ? (size_t)(dot - name) : strlen(name);
}

const char *member_of_place(const struct job_place *place, const char *ns,
                            char text[JOB_URL_BYTES_MAX + 1])
{
    if (place->key)
        return place->key + strlen(ns) + strlen(":img:");
    if (!place->url)
        return place->path;
    text_copy_url(text, JOB_URL_BYTES_MAX + 1, place->url);
    const char *host = strstr(text, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    return path ? last_part(path) : "";
}

int member_of_folder(char *text, size_t size, const char *folder, const char *name)
{
    bool is_root = strcmp(folder, ".") == 0;
    return snprintf(text, size, "%s%s%s", is_root ? "" : folder, is_root ? "" : "/", name);
}

int member_expand(char *text, size_t size, const char *pattern, const char *stem, uint64_t index)
{
    char number[TEXT_DIGITS_MAX + 1];
    snprintf(number, sizeof number, "%06" PRIu64, index);
    size_t used = 0, length;
    if (size == 0)
        return -1;
    for (const char *at = pattern; *at;) {
        const char *piece = at;
        if (*at == '%') {
            piece = at[1] == 'p' ? stem : at[1] == 'n' ? number : "%";
            length = strlen(piece);
            at += at[1] ? 2 : 1;
        } else {
            length = strcspn(at, "%");
            at += length;
        }
        if (length >= size - used)
            return -1;
        memcpy(text + used, piece, length);
        used += length;
    }
    text[used] = '\0';
    return (int)used;
}

int member_encode(char *text, size_t size, const char *stem)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0;
    for (const unsigned char *at = (const unsigned char *)stem; *at; at++) {
        if (used + 4 > size)
            return -1;
        if (strchr(plain, *at)) {
            text[used++] = (char)*at;
            continue;
        }
        text[used++] = '%';
        text[used++] = digits[*at >> 4];
        text[used++] = digits[*at & 15];
    }
    if (used >= size)
        return -1;
    text[used] = '\0';
    return (int)used;
}

enum status member_output(const struct job_place *template, const char *name, bool is_url,
                          uint64_t index, const char *ns, char text[JOB_URL_BYTES_MAX + 1],
                          struct job_place *place, struct error *error)
{
    const char *pattern = template->path  ? template->path
                          : template->key ? template->key
                                          : template->url;
    char stem[JOB_URL_BYTES_MAX + 1], encoded[JOB_URL_BYTES_MAX + 1];
    size_t length = member_stem(name);
    bool encodes = template->url && !is_url, fits = length < sizeof stem;
    memcpy(stem, name, fits ? length : 0);
    stem[fits ? length : 0] = '\0';
    fits =
        fits && (!encodes || member_encode(encoded, sizeof encoded, stem) >= 0) &&
        member_expand(text, JOB_URL_BYTES_MAX + 1, pattern, encodes ? encoded : stem, index) >= 0;
    if (!fits)
        return error_set(error, STATUS_PATH_REFUSED,
                         "the name of the image has %zu bytes; its output would have more than %d",
                         strlen(name), JOB_URL_BYTES_MAX);
    *place = (struct job_place){.path = template->path ? text : NULL,
                                .key = template->key ? text : NULL,
                                .url = template->url ? text : NULL};
    return job_check_output(place, ns, error);
}

const char *member_template_fault(const char *pattern, bool *names)
{
    *names = false;
    for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 2, '%')) {
        if (at[1] != 'p' && at[1] != 'n' && at[1] != '%')
            return at;
        *names = *names || at[1] != '%';
    }
    return NULL;
}

bool member_templates_part(const char *one, const char *other)
{
    while (*one == *other && *one != '%' && *one != '\0') {
        one++;
        other++;
    }
    return *one != *other && *one != '%' && *other != '%';
}

bool member_names_differ(const char *pattern)
{
    bool has_index = false;
    char before = 0; /* 'n' or 'p': this came last, and then only digits */
    for (const char *at = pattern; *at; at++) {
        bool is_part = *at == '%' && (at[1] == 'n' || at[1] == 'p');
        if (is_part && before != 0 && before != at[1])
            return false;
        has_index |= is_part && at[1] == 'n';
        if (is_part)
            before = at[1];
        else if (*at < '0' || *at > '9')
            before = 0;
        at += *at == '%' && at[1] != '\0';
    }
    return has_index;
}
