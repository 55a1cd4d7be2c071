#include "queue/job/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"

#define FIRST_BYTES 512 /* enough for most results */
#define SLACK_BYTES 1024 /* writer_finish shrinks a text that has more unused bytes */

static void put(struct writer *writer, const char *bytes, size_t length)
{
    if (writer->room - writer->length < length + 1 && !writer->failed) {
        size_t room = 2 * (writer->length + length) + FIRST_BYTES;
        char *grown = realloc(writer->text, room);
        writer->failed = !grown;
        writer->text = grown ? grown : writer->text;
        writer->room = grown ? room : writer->room;
    }
    if (writer->failed)
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
    if (writer->follows)
        put(writer, ",", 1);
    writer->follows = true;
    if (!key)
        return;
    put_string(writer, key);
    put(writer, ":", 1);
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
    char rest[5] = {'.', (char)('0' + whole / 100 % 10), (char)('0' + whole / 10 % 10),
                    (char)('0' + whole % 10), '\0'};
    begin(writer, key);
    put_number(writer, whole / 1000);
    put(writer, rest, 4);
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
