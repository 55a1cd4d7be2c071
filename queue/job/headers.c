#include "queue/job/headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/mask.h"
#include "conf/text.h"

/* Messages show at most this many bytes of a key. */
#define SHOWN_BYTES 64

static const char *const headers_keys[] = {"cache_control", "content_disposition", "metadata"};
static const char *const header_names[] = {"Cache-Control", "Content-Disposition"};
#define METADATA_NAME "x-amz-meta-"

#define refuse(error, ...) (error_set(error, STATUS_BAD_JOB, __VA_ARGS__) == STATUS_OK)

/* The meaning of a value is not checked: servers know more of them than this program. */
static bool check_value(const cJSON *item, const char *where, const char *key, struct error *error)
{
    const char *value = cJSON_GetStringValue(item);
    size_t length = value ? strlen(value) : 0;
    if (length < 1 || length > JOB_HEADER_BYTES_MAX)
        return refuse(error, "%s.%s must be a string of 1 to %d bytes", where, key,
                      JOB_HEADER_BYTES_MAX);
    bool is_name = key == headers_keys[1];
    for (const char *at = value; *at; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            return refuse(error, "%s.%s has a byte that is not printable ASCII at %zu; %s", where,
                          key, (size_t)(at - value) + 1,
                          is_name ? "write a file name as filename*=UTF-8''na%C3%AFve.jpg"
                                  : "encode or remove it");
    return (*value != ' ' && value[length - 1] != ' ') ||
           refuse(error, "%s.%s begins or ends with a space", where, key);
}

/* Capital letters are refused, because servers ignore the case: "a" and "A" would be one name. */
static bool check_name(const char *name, const char *where, struct error *error)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    char shown[SHOWN_BYTES];
    size_t length = strlen(name);
    if (length >= 1 && length <= JOB_HEADER_NAME_BYTES_MAX && strspn(name, letters) == length)
        return true;
    mask_copy(shown, sizeof shown, name);
    return refuse(error,
                  "%s.metadata has the name \"%s\"; a name has 1 to %d of the characters a "
                  "to z, 0 to 9, \"-\", \"_\" and \".\"",
                  where, shown, JOB_HEADER_NAME_BYTES_MAX);
}

static bool check_metadata(const cJSON *metadata, const char *where, struct error *error)
{
    const cJSON *item;
    size_t bytes = 0;
    int count = cJSON_IsObject(metadata) ? cJSON_GetArraySize(metadata) : 0;
    if (count < 1 || count > JOB_METADATA_NAMES_MAX)
        return refuse(error, "%s.metadata must be an object of 1 to %d names and strings", where,
                      JOB_METADATA_NAMES_MAX);
    cJSON_ArrayForEach(item, metadata)
    {
        char key[sizeof "metadata." + JOB_HEADER_NAME_BYTES_MAX];
        if (!check_name(item->string, where, error))
            return false;
        snprintf(key, sizeof key, "metadata.%s", item->string);
        if (!check_value(item, where, key, error))
            return false;
        bytes += strlen(item->string) + strlen(item->valuestring);
    }
    return bytes <= JOB_METADATA_BYTES_MAX ||
           refuse(error, "%s.metadata has %zu bytes of names and values; at most %d are allowed",
                  where, bytes, JOB_METADATA_BYTES_MAX);
}

static bool check_keys(const cJSON *headers, const char *where, struct error *error)
{
    const size_t count = sizeof headers_keys / sizeof *headers_keys;
    const cJSON *item;
    char shown[SHOWN_BYTES];
    if (!cJSON_IsObject(headers) || !headers->child)
        return refuse(error,
                      "%s must be an object with cache_control, content_disposition or "
                      "metadata",
                      where);
    cJSON_ArrayForEach(item, headers)
    {
        size_t i = 0;
        while (i < count && strcmp(item->string, headers_keys[i]) != 0)
            i++;
        if (i < count)
            continue;
        const char *near = text_nearest(item->string, headers_keys, count);
        mask_copy(shown, sizeof shown, item->string);
        return refuse(error, "%s has the unknown key \"%s\"; %s%s%s", where, shown,
                      near ? "did you mean \""
                           : "it can have cache_control, content_disposition "
                             "and metadata",
                      near ? near : "", near ? "\"?" : "");
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* Appends a line to the text. */
static void put_line(char *text, const char *prefix, const char *name, const char *value)
{
    size_t used = strlen(text);
    snprintf(text + used, JOB_HEADERS_BYTES_MAX - used, "%s%s: %s\n", prefix, name, value);
}

static void put_metadata(char *text, const cJSON *metadata)
{
    const cJSON *items[JOB_METADATA_NAMES_MAX], *item;
    size_t count = 0;
    cJSON_ArrayForEach(item, metadata) items[count++] = item;
    qsort(items, count, sizeof *items, compare_names);
    for (size_t i = 0; i < count; i++)
        put_line(text, METADATA_NAME, items[i]->string, items[i]->valuestring);
}

/* Checks the values and writes their lines. */
static bool put_headers(char *text, const cJSON *headers, const char *where, struct error *error)
{
    *text = '\0';
    for (size_t i = 0; i < 2; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(headers, headers_keys[i]);
        if (item && !check_value(item, where, headers_keys[i], error))
            return false;
        if (item)
            put_line(text, "", header_names[i], item->valuestring);
    }
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(headers, headers_keys[2]);
    if (metadata && !check_metadata(metadata, where, error))
        return false;
    put_metadata(text, metadata);
    return true;
}

const char *job_headers_take(cJSON *output, const char *where, struct error *error)
{
    cJSON *headers = cJSON_GetObjectItemCaseSensitive(output, "headers");
    char text[JOB_HEADERS_BYTES_MAX], name[96];
    snprintf(name, sizeof name, "%s.headers", where);
    if (!check_keys(headers, name, error) || !put_headers(text, headers, name, error))
        return NULL;
    cJSON *lines = cJSON_CreateString(text);
    if (lines && cJSON_ReplaceItemViaPointer(output, headers, lines))
        return lines->valuestring;
    cJSON_Delete(lines); /* uncovered: memory */
    error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the headers of an output");
    return NULL;
}
