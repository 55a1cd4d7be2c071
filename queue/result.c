/* result.c - see result.h. */
#include "queue/result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Every adder returns whether memory sufficed; numbers are written raw, so that no double's
 * shortest form ("1e+15") gets into a job number. */
static bool add_integer(cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_AddRawToObject(object, key, text) != NULL;
}

static bool add_string(cJSON *object, const char *key, const char *value)
{
    return !value || cJSON_AddStringToObject(object, key, value) != NULL;
}

static bool add_ms(cJSON *object, const char *key, double ms)
{
    char text[40];
    if (!(ms >= 0) || !isfinite(ms))
        return true;
    snprintf(text, sizeof text, "%.3f", ms < 1e15 ? ms : 1e15);
    return cJSON_AddRawToObject(object, key, text) != NULL;
}

static bool add_error(cJSON *object, const struct error *error)
{
    if (!error || error->status == STATUS_OK)
        return true;
    cJSON *inner = cJSON_AddObjectToObject(object, "error");
    return inner && add_string(inner, "code", status_name(error->status)) &&
           add_string(inner, "message", error->text) &&
           cJSON_AddBoolToObject(inner, "retryable", status_retryable(error->status)) != NULL;
}

static bool add_picture(cJSON *object, const char *format, uint32_t width, uint32_t height,
                        uint64_t bytes)
{
    return add_string(object, "format", format) &&
           (!width || add_integer(object, "width", width)) &&
           (!height || add_integer(object, "height", height)) &&
           (!bytes || add_integer(object, "bytes", bytes));
}

static bool add_input(cJSON *root, const struct result *result)
{
    if (!result->input_format && !result->input_bytes)
        return true;
    cJSON *input = cJSON_AddObjectToObject(root, "input");
    return input && add_picture(input, result->input_format, result->input_width,
                                result->input_height, result->input_bytes);
}

/* Takes the item over, in any case. */
static bool add_item(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

/* An object, which the item borrows: values can be thousands of numbers. */
static bool add_values(cJSON *item, const cJSON *values)
{
    return !values || add_item(item, "values", cJSON_CreateObjectReference(values->child));
}

static bool add_outputs(cJSON *root, const struct result *result)
{
    cJSON *list = cJSON_AddArrayToObject(root, "outputs");
    if (!list)
        return false;
    for (size_t i = 0; i < result->output_count; i++) {
        const struct result_output *output = &result->outputs[i];
        cJSON *item = cJSON_CreateObject();
        if (!item)
            return false;
        cJSON_AddItemToArray(list, item);
        if (!add_string(item, "path", output->place->path) ||
            !add_string(item, "key", output->place->key) ||
            !add_picture(item, output->format, output->width, output->height, output->bytes) ||
            !add_values(item, output->values) || !add_error(item, output->error))
            return false;
    }
    return true;
}

static bool add_meta(cJSON *root, const struct job *job)
{
    return !job || !job->meta || add_item(root, "meta", cJSON_Duplicate(job->meta, true));
}

static bool add_times(cJSON *root, const struct result *result)
{
    cJSON *ms = cJSON_AddObjectToObject(root, "ms");
    return ms && add_ms(ms, "queue", result->ms.queue) && add_ms(ms, "read", result->ms.read) &&
           add_ms(ms, "admit", result->ms.admit) && add_ms(ms, "decode", result->ms.decode) &&
           add_ms(ms, "h2d", result->ms.h2d) && add_ms(ms, "kernel", result->ms.kernel) &&
           add_ms(ms, "d2h", result->ms.d2h) && add_ms(ms, "encode", result->ms.encode) &&
           add_ms(ms, "total", result->ms.total);
}

char *result_write(const struct result *result)
{
    char *text = NULL;
    cJSON *root = cJSON_CreateObject();
    if (root && add_string(root, "id", result->job ? result->job->id : NULL) &&
        add_integer(root, "job", result->number) && add_string(root, "status", result->status) &&
        add_error(root, result->error) && add_meta(root, result->job) &&
        add_input(root, result) && add_outputs(root, result) &&
        add_integer(root, "attempt", result->attempt) &&
        add_string(root, "engine", result->engine) && add_string(root, "daemon", result->daemon) &&
        add_times(root, result))
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

/* Puts it in the member's place, or at the end; takes the item over, in any case. */
static bool set_item(cJSON *object, const char *key, cJSON *item)
{
    if (!cJSON_HasObjectItem(object, key))
        return add_item(object, key, item);
    if (item && cJSON_ReplaceItemInObjectCaseSensitive(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool set_meta(cJSON *root, const struct job *job)
{
    if (job->meta)
        return set_item(root, "meta", cJSON_Duplicate(job->meta, true));
    cJSON_DeleteItemFromObjectCaseSensitive(root, "meta");
    return true;
}

char *result_repeat(const char *kept, const struct job *job, uint64_t number)
{
    char *text = NULL, own[24];
    cJSON *root = cJSON_Parse(kept);
    cJSON *first = cJSON_DetachItemFromObjectCaseSensitive(root, "job");
    snprintf(own, sizeof own, "%" PRIu64, number);
    if (cJSON_IsNumber(first) && add_integer(root, "same_as", (uint64_t)first->valuedouble) &&
        cJSON_AddItemToObject(root, "job", cJSON_CreateRaw(own)) && set_meta(root, job))
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(first);
    cJSON_Delete(root);
    return text;
}
