#include "queue/job/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"

#define FIRST_BYTES 512 /* enough for most results */
#define SLACK_BYTES 1024 /* writer_finish shrinks a text that has more unused bytes */

/* Makes room for `bytes` more and the final NUL. */
static bool reserve(struct writer *writer, size_t bytes)
{
    if (writer->room - writer->length > bytes || writer->failed)
        return !writer->failed;
    size_t room = 2 * (writer->length + bytes) + FIRST_BYTES;
    char *grown = realloc(writer->text, room);
    writer->failed = !grown;
    if (!grown) /* uncovered: memory */
        return false;
    writer->text = grown;
    writer->room = room;
    return true;
}

static void put(struct writer *writer, const char *bytes, size_t length)
{
    if (!reserve(writer, length))
        return;
    memcpy(writer->text + writer->length, bytes, length);
    writer->length += length;
}

static void put_escape(struct writer *writer, unsigned char byte)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = strchr(plain, byte);
    char text[8];
    int length = found ? snprintf(text, sizeof text, "\\%c", letters[found - plain])
                       : snprintf(text, sizeof text, "\\u%04x", byte);
    put(writer, text, (size_t)length);
}

static void put_string(struct writer *writer, const char *string)
{
    put(writer, "\"", 1);
    for (const char *at = string; *at;) {
        size_t plain = 0;
        while ((unsigned char)at[plain] >= 0x20 && at[plain] != '"' && at[plain] != '\\')
            plain++;
        put(writer, at, plain);
        at += plain;
        if (*at)
            put_escape(writer, (unsigned char)*at++);
    }
    put(writer, "\"", 1);
}

static void begin(struct writer *writer, const char *key)
{
    size_t bytes = key ? strlen(key) : 0;
    if (!reserve(writer, bytes + 4))
        return;
    char *to = writer->text + writer->length;
    if (writer->follows)
        *to++ = ',';
    if (key) {
        *to = '"';
        memcpy(to + 1, key, bytes);
        memcpy(to + 1 + bytes, "\":", 2);
        to += bytes + 3;
    }
    writer->length = (size_t)(to - writer->text);
    writer->follows = true;
}

static void put_number(struct writer *writer, uint64_t value)
{
    char digits[TEXT_DIGITS_MAX];
    put(writer, digits, text_number(digits, value));
}

void writer_open(struct writer *writer, const char *key, char bracket)
{
    begin(writer, key);
    put(writer, &bracket, 1);
    writer->follows = false;
}

void writer_close(struct writer *writer, char bracket)
{
    put(writer, &bracket, 1);
    writer->follows = true;
}

void writer_text(struct writer *writer, const char *key, const char *value)
{
    if (!value)
        return;
    begin(writer, key);
    put_string(writer, value);
}

void writer_number(struct writer *writer, const char *key, uint64_t value)
{
    begin(writer, key);
    put_number(writer, value);
}

void writer_thousandths(struct writer *writer, const char *key, double value)
{
    if (!(value >= 0) || !isfinite(value))
        return;
    uint64_t whole = (uint64_t)round((value < 1e15 ? value : 1e15) * 1000);
    char text[TEXT_DIGITS_MAX + 4];
    size_t length = text_number(text, whole / 1000);
    const char rest[] = {'.', (char)('0' + whole / 100 % 10), (char)('0' + whole / 10 % 10),
                         (char)('0' + whole % 10)};
    memcpy(text + length, rest, sizeof rest);
    begin(writer, key);
    put(writer, text, length + sizeof rest);
}

void writer_decimal(struct writer *writer, const char *key, double value, int digits)
{
    char text[352]; /* the largest double has 309 digits before the point */
    if (!isfinite(value))
        return;
    int length = snprintf(text, sizeof text, "%.*f", digits, value);
    begin(writer, key);
    put(writer, text, (size_t)length);
}

void writer_bool(struct writer *writer, const char *key, bool value)
{
    begin(writer, key);
    put(writer, value ? "true" : "false", value ? 4 : 5);
}

void writer_json(struct writer *writer, const char *key, const cJSON *value)
{
    if (!value)
        return;
    char *text = cJSON_PrintUnformatted(value);
    begin(writer, key);
    if (text)
        put(writer, text, strlen(text));
    else
        writer->failed = true;
    free(text);
}

void writer_raw(struct writer *writer, const char *key, const char *json)
{
    if (!json)
        return;
    begin(writer, key);
    put(writer, json, strlen(json));
}

void writer_restart(struct writer *writer)
{
    *writer = (struct writer){.text = writer->text, .room = writer->room};
}

char *writer_finish(struct writer *writer)
{
    put(writer, "", 1);
    char *text = writer->text;
    if (!writer->failed && writer->room - writer->length > SLACK_BYTES) {
        char *shrunk = realloc(text, writer->length);
        text = shrunk ? shrunk : text;
    }
    if (writer->failed) {
        free(text);
        text = NULL;
    }
    *writer = (struct writer){0};
    return text;
}
