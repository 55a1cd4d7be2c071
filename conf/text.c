#include "conf/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t text_utf8_sequence(const unsigned char *text, size_t length)
{
    if (length == 0) /* uncovered: net */
        return 0;
    unsigned char first = text[0];
    if (first < 0x80)
        return 1;
    size_t count = first >= 0xC2 && first <= 0xDF   ? 2
                   : first >= 0xE0 && first <= 0xEF ? 3
                   : first >= 0xF0 && first <= 0xF4 ? 4
                                                    : 0;
    if (count == 0 || count > length)
        return 0;
    /* The range of the second byte excludes overlong forms, surrogates and values over U+10FFFF. */
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < count; i++)
        if (text[i] < 0x80 || text[i] > 0xBF)
            return 0;
    return count;
}

uint32_t text_code_point(const unsigned char *sequence)
{
    size_t more = *sequence < 0x80 ? 0 : *sequence < 0xE0 ? 1 : *sequence < 0xF0 ? 2 : 3;
    uint32_t point = more == 0 ? *sequence : *sequence & (0x3Fu >> more);
    for (size_t i = 1; i <= more; i++)
        point = point << 6 | (sequence[i] & 0x3Fu);
    return point;
}

bool text_is_control(const unsigned char *sequence)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1F},       {0x7F, 0x9F},     /* C0, DEL, C1: U+009B begins an escape sequence */
        {0xAD, 0xAD},       {0x61C, 0x61C},   /* soft hyphen; Arabic letter mark */
        {0x180E, 0x180E},   {0x200B, 0x200B}, /* separators without a width */
        {0x200E, 0x200F},   {0x2028, 0x202E}, /* marks, line ends, embeddings, overrides */
        {0x2060, 0x206F},   {0xFEFF, 0xFEFF}, /* joiners, isolates, deprecated format characters */
        {0xFFF9, 0xFFFB},   {0xE0000, 0xE0FFF}, /* annotations; tags and variation selectors */
    };
    uint32_t point = text_code_point(sequence);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return true;
    return false;
}

void text_make_printable(char *text)
{
    unsigned char *at = (unsigned char *)text;
    size_t left = strlen(text);
    while (left > 0) {
        size_t count = text_utf8_sequence(at, left);
        if (count == 0 || text_is_control(at)) {
            count = count ? count : 1;
            memset(at, '?', count);
        }
        at += count;
        left -= count;
    }
}

/* The longest sequence has four bytes, each written as \xNN. printf adds a NUL. */
#define ESCAPED_MAX 17

/* Writes the first sequence of text[0..length), length > 0, to `escaped`, without a NUL. Sets
 * *count to the bytes written. Returns the number of bytes of text that it consumed. */
static size_t escape_one(const unsigned char *text, size_t length, char escaped[ESCAPED_MAX],
                         size_t *count)
{
    size_t bytes = text_utf8_sequence(text, length), at = 0;
    bool plain = bytes > 0 && !text_is_control(text);
    bytes = bytes ? bytes : 1;
    if (*text == '\\')
        escaped[at++] = '\\';
    if (plain) {
        memcpy(escaped + at, text, bytes);
        at += bytes;
    }
    for (size_t i = 0; i < bytes && !plain; i++)
        at += (size_t)snprintf(escaped + at, ESCAPED_MAX - at, "\\x%02x", text[i]);
    *count = at;
    return bytes;
}

void text_escape(char *to, size_t size, const char *text, size_t length)
{
    static const char dots[] = "...";
    size_t used = 0, before_dots = 0, count;
    char escaped[ESCAPED_MAX];
    for (size_t at = 0; at < length;) {
        at += escape_one((const unsigned char *)text + at, length - at, escaped, &count);
        if (used + count >= size) {
            memcpy(to + before_dots, dots, sizeof dots);
            return;
        }
        memcpy(to + used, escaped, count);
        used += count;
        if (used + sizeof dots <= size)
            before_dots = used;
    }
    to[used] = '\0';
}

void text_escape_end(char *to, size_t size, const char *text, size_t length)
{
    static const char dots[] = "...";
    size_t total = 0, count, at = 0;
    char escaped[ESCAPED_MAX];
    for (size_t i = 0; i < length; total += count)
        i += escape_one((const unsigned char *)text + i, length - i, escaped, &count);
    bool fits = total < size;
    for (; !fits && total + sizeof dots > size; total -= count)
        at += escape_one((const unsigned char *)text + at, length - at, escaped, &count);
    size_t skipped = fits ? 0 : sizeof dots - 1;
    memcpy(to, dots, skipped);
    text_escape(to + skipped, size - skipped, text + at, length - at);
}

static size_t escape(uint32_t point, char to[16])
{
    if (point <= 0xFFFF)
        return (size_t)snprintf(to, 16, "\\u%04" PRIx32, point);
    return (size_t)snprintf(to, 16, "\\u%04" PRIx32 "\\u%04" PRIx32,
                            0xD800 + ((point - 0x10000) >> 10),
                            0xDC00 + ((point - 0x10000) & 0x3FF));
}

char *text_printable_json(const char *json)
{
    const unsigned char *at = (const unsigned char *)json;
    size_t left = strlen(json);
    char *text = malloc(6 * left + 16), *to = text; /* a byte becomes at most six */
    while (left > 0 && text) {
        size_t count = text_utf8_sequence(at, left);
        if (count == 0 || text_is_control(at)) {
            to += escape(count ? text_code_point(at) : 0xFFFD, to);
        } else {
            memcpy(to, at, count);
            to += count;
        }
        at += count ? count : 1;
        left -= count ? count : 1;
    }
    if (text)
        *to = '\0';
    return text;
}

bool text_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    bool fits = length < size;
    size_t count = fits ? length : size - 1;
    memcpy(to, from, count);
    to[count] = '\0';
    return fits;
}

bool text_copy_url(char *to, size_t size, const char *url)
{
    const char *scheme = strstr(url, "://");
    size_t begin = scheme && scheme < url + strcspn(url, "?#") ? (size_t)(scheme - url) + 3 : 0;
    size_t name = begin, end = strcspn(url, "?#");
    for (size_t at = begin; at < end && url[at] != '/'; at++)
        if (url[at] == '@')
            name = at + 1;
    size_t length = begin + end - name, kept = length < size ? length : size - 1;
    size_t first = begin < kept ? begin : kept;
    memcpy(to, url, first);
    memcpy(to + first, url + name, kept - first);
    to[kept] = '\0';
    return length < size;
}

size_t text_number(char *to, uint64_t number)
{
    char digits[TEXT_DIGITS_MAX];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    memcpy(to, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

/* Edit distance between two short words (Damerau-Levenshtein): inserted, deleted, changed and
 * swapped letters. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][40];
    size_t length = strlen(b);
    if (length >= 40 || strlen(a) >= 40)
        return 99;
    for (size_t j = 0; j <= length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= length; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[strlen(a) % 3][length];
}

const char *text_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t length = strlen(word);
    unsigned least = length < 2 ? 1 : length < 6 ? 2 : (unsigned)length / 3 + 1;
    for (size_t i = 0; i < count; i++) {
        unsigned edits = distance(word, names[i]);
        if (edits < least) {
            least = edits;
            nearest = names[i];
        }
    }
    return nearest;
}
