#include "queue/job/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "conf/text.h"

/* The keys of an object with this many are compared with each other, those of others are sorted. */
#define KEYS_FEW 8

/* A key of an object that is being read, unescaped in the scratch buffer. */
struct key {
    const char *text;
    size_t position;
};

struct reader {
    const unsigned char *text;
    size_t length, at;
    unsigned depth;
    char *scratch;      /* as long as the text: the quotes leave room for each string's NUL */
    size_t scratch_used;
    struct key *keys;   /* of all enclosing objects, innermost last */
    size_t key_count, key_room;
    const char *raw_name; /* a member of the outermost object, or NULL */
    struct error *error;
};

static enum status out_of_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, "out of memory while reading a job");
}

static bool fail_at(struct reader *reader, size_t at, const char *what)
{
    error_set(reader->error, STATUS_BAD_JSON, "the job is not valid JSON at byte %zu: %s", at + 1,
              what);
    return false;
}

static bool fail(struct reader *reader, const char *what)
{
    return fail_at(reader, reader->at, what);
}

static int peek(const struct reader *reader)
{
    return reader->at < reader->length ? reader->text[reader->at] : -1;
}

/* Consumes the byte c if it is next. */
static bool accept(struct reader *reader, int c)
{
    bool found = peek(reader) == c;
    reader->at += found;
    return found;
}

static bool is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(struct reader *reader)
{
    while (is_space(peek(reader)))
        reader->at++;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* Takes ownership of the node. */
static bool set_node(struct reader *reader, cJSON **value, cJSON *node)
{
    if (!node)
        out_of_memory(reader->error);
    *value = node;
    return node != NULL;
}

/* The functions below read a value, and set *value to its tree. If they fail, *value is NULL.
 * value NULL: only check the text. */

static bool read_literal(struct reader *reader, const char *literal, int type, cJSON **value)
{
    size_t length = strlen(literal);
    if (reader->length - reader->at < length ||
        memcmp(reader->text + reader->at, literal, length) != 0)
        return fail(reader, "expected a value");
    reader->at += length;
    if (!value)
        return true;
    return set_node(reader, value,
                    type == cJSON_NULL ? cJSON_CreateNull() : cJSON_CreateBool(type == cJSON_True));
}

static bool read_digits(struct reader *reader)
{
    if (!is_digit(peek(reader)))
        return fail(reader, "expected a digit");
    while (is_digit(peek(reader)))
        reader->at++;
    return true;
}

static bool read_number(struct reader *reader, cJSON **value)
{
    size_t start = reader->at;
    char copy[JSON_NUMBER_BYTES_MAX + 1];
    accept(reader, '-');
    if (accept(reader, '0')) {
        if (is_digit(peek(reader)))
            return fail(reader, "a number must not begin with 0 and another digit");
    } else if (!read_digits(reader)) {
        return false;
    }
    if (accept(reader, '.') && !read_digits(reader))
        return false;
    if (accept(reader, 'e') || accept(reader, 'E')) {
        if (!accept(reader, '+'))
            accept(reader, '-');
        if (!read_digits(reader))
            return false;
    }
    size_t length = reader->at - start;
    if (length > JSON_NUMBER_BYTES_MAX)
        return fail_at(reader, start, "a number of more than 63 characters");
    memcpy(copy, reader->text + start, length);
    copy[length] = '\0';
    double number = strtod(copy, NULL);
    if (!isfinite(number))
        return fail_at(reader, start, "a number that a double cannot hold");
    return !value || set_node(reader, value, cJSON_CreateNumber(number));
}

static int hex_digit(int c)
{
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Reads the four digits after \u. Returns -1 with the error set if they are missing. */
static int32_t read_hex4(struct reader *reader)
{
    int32_t value = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        int digit = hex_digit(peek(reader));
        if (digit < 0) {
            fail(reader, "expected four hexadecimal digits after \\u");
            return -1;
        }
        value = value << 4 | digit;
    }
    return value;
}

static void put(struct reader *reader, unsigned char byte)
{
    reader->scratch[reader->scratch_used++] = (char)byte;
}

static void put_code_point(struct reader *reader, uint32_t code)
{
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    put(reader, (unsigned char)(lead[more] | code >> 6 * more));
    while (more-- > 0)
        put(reader, (unsigned char)(0x80 | (code >> 6 * more & 0x3F)));
}

static bool read_unicode_escape(struct reader *reader)
{
    size_t start = reader->at - 2;
    int32_t code = read_hex4(reader);
    if (code < 0)
        return false;
    if (code == 0)
        return fail_at(reader, start, "\\u0000 is not allowed");
    if (code >= 0xDC00 && code <= 0xDFFF)
        return fail_at(reader, start, "a low surrogate without a high one before it");
    if (code >= 0xD800 && code <= 0xDBFF) {
        bool escaped = accept(reader, '\\') && accept(reader, 'u');
        int32_t low = escaped ? read_hex4(reader) : 0;
        if (low < 0)
            return false;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail_at(reader, start, "a high surrogate without a low one after it");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    put_code_point(reader, (uint32_t)code);
    return true;
}

static bool read_escape(struct reader *reader)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (accept(reader, 'u'))
        return read_unicode_escape(reader);
    int c = peek(reader);
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (!found)
        return fail(reader, "an escape sequence that JSON does not have");
    put(reader, (unsigned char)to[found - from]);
    reader->at++;
    return true;
}

/* Copies the bytes of a string up to one that needs a closer look. */
static void copy_plain(struct reader *reader)
{
    const unsigned char *from = reader->text + reader->at;
    size_t count = 0, most = reader->length - reader->at;
    while (count < most && from[count] >= 0x20 && from[count] < 0x80 && from[count] != '"' &&
           from[count] != '\\')
        count++;
    memcpy(reader->scratch + reader->scratch_used, from, count);
    reader->scratch_used += count;
    reader->at += count;
}

/* Appends the unescaped text and a NUL to the scratch buffer. */
static bool read_text(struct reader *reader)
{
    size_t start = reader->at++;
    for (int c; copy_plain(reader), (c = peek(reader)) != '"';) {
        if (c < 0)
            return fail_at(reader, start, "a string that does not end");
        if (c < 0x20)
            return fail(reader, "a control character in a string must be escaped");
        if (c == '\\') {
            reader->at++;
            if (!read_escape(reader))
                return false;
            continue;
        }
        size_t count = text_utf8_sequence(reader->text + reader->at, reader->length - reader->at);
        if (count == 0)
            return fail(reader, "not valid UTF-8");
        for (size_t i = 0; i < count; i++)
            put(reader, reader->text[reader->at++]);
    }
    reader->at++;
    put(reader, '\0');
    return true;
}

static bool read_string(struct reader *reader, cJSON **value)
{
    size_t scratch = reader->scratch_used;
    bool ok = read_text(reader) &&
              (!value || set_node(reader, value, cJSON_CreateString(reader->scratch + scratch)));
    reader->scratch_used = scratch;
    return ok;
}

static bool read_value(struct reader *reader, cJSON **value);

/* Reads an object or array, from its opening bracket on. list: its node, or NULL. */
static bool read_list(struct reader *reader, bool (*read_item)(struct reader *, cJSON *list),
                      cJSON *list, char close, const char *expected)
{
    reader->at++;
    skip_space(reader);
    if (accept(reader, close))
        return true;
    do {
        skip_space(reader);
        if (!read_item(reader, list))
            return false;
    } while (accept(reader, ','));
    return accept(reader, close) || fail(reader, expected);
}

static bool read_element(struct reader *reader, cJSON *array)
{
    cJSON *item = NULL;
    if (!read_value(reader, array ? &item : NULL))
        return false;
    if (array)
        cJSON_AddItemToArray(array, item); /* fails only without an item */
    return true;
}

static int key_order(const void *a, const void *b)
{
    const struct key *left = a, *right = b;
    int order = strcmp(left->text, right->text);
    return order != 0 ? order : left->position < right->position ? -1 : 1;
}

static bool few_differ(const struct key *keys, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (keys[i].text[0] == keys[k].text[0] && strcmp(keys[i].text, keys[k].text) == 0)
                return false;
    return true;
}

/* Sorts the keys to find equal neighbours, so that a hostile object costs n log n, not n^2. */
static bool keys_differ(struct reader *reader, size_t first)
{
    struct key *keys = reader->keys + first;
    size_t count = reader->key_count - first;
    char what[160];
    if (count <= KEYS_FEW && few_differ(keys, count))
        return true;
    qsort(keys, count, sizeof *keys, key_order);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(keys[i].text, keys[i - 1].text) != 0)
            continue;
        snprintf(what, sizeof what, "the key \"%.80s\" occurs twice in one object", keys[i].text);
        return fail_at(reader, keys[i].position, what);
    }
    return true;
}

static bool add_key(struct reader *reader, struct key key)
{
    if (reader->key_count == reader->key_room) {
        size_t room = reader->key_room ? 2 * reader->key_room : 32;
        struct key *keys = realloc(reader->keys, room * sizeof *keys);
        if (!keys) { /* uncovered: memory */
            out_of_memory(reader->error);
            return false;
        }
        reader->keys = keys;
        reader->key_room = room;
    }
    reader->keys[reader->key_count++] = key;
    return true;
}

static cJSON *create_raw(const unsigned char *from, const unsigned char *end)
{
    while (is_space(end[-1]))
        end--;
    char *text = strndup((const char *)from, (size_t)(end - from));
    cJSON *node = text ? cJSON_CreateRaw(text) : NULL;
    free(text);
    return node;
}

/* Takes ownership of the item. */
static bool add_member(struct reader *reader, cJSON *object, const char *key, cJSON *item)
{
    bool added = item && cJSON_AddItemToObject(object, key, item);
    if (!added) /* uncovered: memory */
        cJSON_Delete(item);
    if (added && item->string) /* cJSON returns true even if it could not copy the key */
        return true;
    out_of_memory(reader->error); /* uncovered: memory */
    return false;
}

static bool read_member(struct reader *reader, cJSON *object)
{
    struct key key = {reader->scratch + reader->scratch_used, reader->at};
    cJSON *item = NULL;
    if (peek(reader) != '"')
        return fail(reader, "expected a key in double quotes");
    if (!read_text(reader) || !add_key(reader, key))
        return false;
    skip_space(reader);
    if (!accept(reader, ':'))
        return fail(reader, "expected ':' after a key");
    skip_space(reader);
    const unsigned char *start = reader->text + reader->at;
    bool raw = object && reader->raw_name && reader->depth == 1 &&
               strcmp(key.text, reader->raw_name) == 0;
    if (!read_value(reader, object && !raw ? &item : NULL))
        return false;
    if (raw)
        item = create_raw(start, reader->text + reader->at);
    return !object || add_member(reader, object, key.text, item);
}

static bool read_object(struct reader *reader, cJSON *object)
{
    size_t first_key = reader->key_count, scratch = reader->scratch_used;
    if (!read_list(reader, read_member, object, '}', "expected ',' or '}'") ||
        (reader->key_count > first_key && !keys_differ(reader, first_key)))
        return false;
    reader->key_count = first_key;
    reader->scratch_used = scratch;
    return true;
}

static bool read_nested(struct reader *reader, cJSON **value)
{
    bool is_object = peek(reader) == '{';
    if (reader->depth == JOB_DEPTH_MAX)
        return fail(reader, "more than 16 levels of objects and arrays");
    if (value && !set_node(reader, value, is_object ? cJSON_CreateObject() : cJSON_CreateArray()))
        return false; /* uncovered: memory */
    cJSON *list = value ? *value : NULL;
    reader->depth++;
    bool ok = is_object ? read_object(reader, list)
                        : read_list(reader, read_element, list, ']', "expected ',' or ']'");
    reader->depth--;
    if (!ok && value) {
        cJSON_Delete(list);
        *value = NULL;
    }
    return ok;
}

/* Reads also the whitespace around the value. */
static bool read_value(struct reader *reader, cJSON **value)
{
    bool ok;
    skip_space(reader);
    switch (peek(reader)) {
    case '{':
    case '[': ok = read_nested(reader, value); break;
    case '"': ok = read_string(reader, value); break;
    case 't': ok = read_literal(reader, "true", cJSON_True, value); break;
    case 'f': ok = read_literal(reader, "false", cJSON_False, value); break;
    case 'n': ok = read_literal(reader, "null", cJSON_NULL, value); break;
    case -1: ok = fail(reader, "the text ends where a value is expected"); break;
    default:
        ok = peek(reader) == '-' || is_digit(peek(reader)) ? read_number(reader, value)
                                                          : fail(reader, "expected a value");
    }
    if (ok)
        skip_space(reader);
    return ok;
}

static enum status read_all(struct reader *reader, const char *text, size_t length, cJSON **tree,
                            struct error *error)
{
    reader->text = (const unsigned char *)text;
    reader->length = length;
    reader->error = error;
    reader->scratch = malloc(length + 1);
    if (!reader->scratch)
        return out_of_memory(error);
    if (read_value(reader, tree) && reader->at < length)
        fail(reader, "there is text after the value");
    free(reader->scratch);
    free(reader->keys);
    return error->status;
}

enum status json_check(const char *text, size_t length, struct error *error)
{
    struct reader reader = {0};
    return read_all(&reader, text, length, NULL, error);
}

cJSON *json_parse(const char *text, size_t length, const char *raw, struct error *error)
{
    struct reader reader = {.raw_name = raw};
    cJSON *tree = NULL;
    if (read_all(&reader, text, length, &tree, error) == STATUS_OK)
        return tree;
    cJSON_Delete(tree);
    return NULL;
}

bool json_set(cJSON *object, const char *key, cJSON *item)
{
    bool known = cJSON_GetObjectItemCaseSensitive(object, key) != NULL;
    if (item && (known ? cJSON_ReplaceItemInObjectCaseSensitive(object, key, item)
                       : cJSON_AddItemToObject(object, key, item)))
        return item->string != NULL; /* cJSON returns true even if it could not copy the key */
    cJSON_Delete(item); /* uncovered: memory */
    return false;
}

int json_numbers(const cJSON *list, double low, double high, double *numbers, int most)
{
    int count = 0;
    const cJSON *item;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > most)
        return 0;
    cJSON_ArrayForEach(item, list)
    {
        double number = cJSON_GetNumberValue(item); /* NaN: not a number */
        if (!(number >= low && number <= high))
            return 0;
        numbers[count++] = number;
    }
    return count;
}
