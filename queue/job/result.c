/* result.c - see result.h. */
#include "queue/job/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/mask.h"
#include "conf/text.h"
#include "queue/job/json.h"
#include "queue/job/member_name.h"
#include "queue/job/writer.h"

/* ---- a job's own result --------------------------------------------------------------------- */

static void put_error(struct writer *writer, const char *key, const struct error *error)
{
    writer_open(writer, key, '{');
    writer_text(writer, "code", status_name(error->status));
    writer_text(writer, "message", error->text);
    writer_bool(writer, "retryable", status_retryable(error->status));
    writer_close(writer, '}');
}

static void write_error(struct writer *writer, const struct error *error)
{
    if (error && error->status != STATUS_OK)
        put_error(writer, "error", error);
}

static void write_image(struct writer *writer, const char *format, uint32_t width,
                        uint32_t height, uint64_t bytes)
{
    writer_text(writer, "format", format);
    if (width)
        writer_number(writer, "width", width);
    if (height)
        writer_number(writer, "height", height);
    if (bytes)
        writer_number(writer, "bytes", bytes);
}

static void write_place(struct writer *writer, const struct job_place *place)
{
    char text[JOB_URL_BYTES_MAX + 1];
    const char *name = job_place_name(place, text);
    writer_text(writer, "path", place->path ? name : NULL);
    writer_text(writer, "key", place->key ? name : NULL);
    writer_text(writer, "url", place->url ? name : NULL);
}

static void write_set(struct writer *writer, const struct result *result)
{
    const struct job *job = result->job;
    const char *format = result->images ? result->images->archive_format : NULL;
    char text[JOB_URL_BYTES_MAX + 1];
    if (job->source == JOB_LIST)
        return;
    writer_open(writer, "input", '{');
    if (job->source == JOB_FOLDER)
        writer_text(writer, "folder", job_place_name(&job->input, text));
    else
        write_place(writer, &job->input);
    write_image(writer, format, result->input_width, result->input_height, result->input_bytes);
    if (result->input_frames > 1)
        writer_number(writer, "frames", result->input_frames);
    writer_close(writer, '}');
}

static void write_trim(struct writer *writer, const struct trim_part *part)
{
    if (part->width == 0)
        return;
    writer_open(writer, "trim", '{');
    writer_number(writer, "x", part->x);
    writer_number(writer, "y", part->y);
    writer_number(writer, "width", part->width);
    writer_number(writer, "height", part->height);
    writer_close(writer, '}');
}

static void write_input(struct writer *writer, const struct result *result)
{
    static const struct job_place nowhere;
    const struct job_place *place = result->job ? &result->job->input : &nowhere;
    char excerpt[JOB_EXCERPT_BYTES_MAX + 1];
    if (result->job && job_is_set(result->job) &&
        (job_place_is_given(place) || result->job->input_count > 0)) {
        write_set(writer, result);
        return;
    }
    if (!job_place_is_given(place) && result->text) {
        writer_text(writer, "text", job_excerpt(excerpt, result->text, result->text_bytes));
    }
    if (!job_place_is_given(place) && !result->input_format && !result->input_bytes)
        return;
    writer_open(writer, "input", '{');
    write_place(writer, place);
    write_image(writer, result->input_format, result->input_width, result->input_height,
                result->input_bytes);
    if (result->input_frames > 1)
        writer_number(writer, "frames", result->input_frames);
    if (result->input_gain_map)
        writer_bool(writer, "gain_map", true);
    write_trim(writer, &result->input_trim);
    writer_close(writer, '}');
}

static void write_images(struct writer *writer, const struct result_images *images)
{
    if (!images)
        return;
    writer_open(writer, "images", '{');
    writer_number(writer, "count", images->count);
    writer_number(writer, "done", images->done);
    writer_number(writer, "failed", images->failed);
    writer_number(writer, "copied", images->copied);
    if (images->skipped)
        writer_number(writer, "skipped", images->skipped);
    writer_number(writer, "pixels", images->pixels);
    writer_text(writer, "warning", images->warning);
    writer_raw(writer, "errors", images->errors);
    if (images->errors_omitted)
        writer_number(writer, "errors_omitted", images->errors_omitted);
    writer_raw(writer, "values", images->values);
    if (images->values_omitted)
        writer_number(writer, "values_omitted", images->values_omitted);
    writer_close(writer, '}');
}

static void write_shape(struct writer *writer, const struct result_output *output)
{
    writer_text(writer, "dtype", output->dtype);
    if (!output->dtype)
        return;
    writer_open(writer, "shape", '[');
    if (output->array)
        writer_number(writer, NULL, output->count);
    for (size_t i = 0; i < sizeof output->shape / sizeof *output->shape; i++)
        writer_number(writer, NULL, output->shape[i]);
    writer_close(writer, ']');
}

static void write_outputs(struct writer *writer, const struct result *result)
{
    writer_open(writer, "outputs", '[');
    for (size_t i = 0; i < result->output_count; i++) {
        const struct result_output *output = &result->outputs[i];
        writer_open(writer, NULL, '{');
        write_place(writer, output->place);
        write_image(writer, output->format, output->width, output->height, 0);
        if (result->images)
            writer_number(writer, "images", output->images);
        if (output->bytes)
            writer_number(writer, "bytes", output->bytes);
        if (output->quality)
            writer_number(writer, "quality", output->quality);
        if (output->has_ssim)
            writer_decimal(writer, "ssim", output->ssim, 6);
        writer_text(writer, "encoder", output->encoder);
        write_shape(writer, output);
        writer_json(writer, "values", output->values);
        write_error(writer, output->error);
        writer_close(writer, '}');
    }
    writer_close(writer, ']');
}

static void write_times(struct writer *writer, const struct result *result)
{
    writer_open(writer, "ms", '{');
    writer_thousandths(writer, "queue", result->ms.queue);
    if (result->ms.download > 0)
        writer_thousandths(writer, "download", result->ms.download);
    writer_thousandths(writer, "read", result->ms.read);
    writer_thousandths(writer, "admit", result->ms.admit);
    writer_thousandths(writer, "decode", result->ms.decode);
    writer_thousandths(writer, "h2d", result->ms.h2d);
    writer_thousandths(writer, "kernel", result->ms.kernel);
    writer_thousandths(writer, "d2h", result->ms.d2h);
    writer_thousandths(writer, "encode", result->ms.encode);
    if (result->ms.upload > 0)
        writer_thousandths(writer, "upload", result->ms.upload);
    writer_thousandths(writer, "total", result->ms.total);
    writer_close(writer, '}');
}

static void write_labels(struct writer *writer, const struct job *job)
{
    writer_text(writer, "tag", job ? job->tag : NULL);
    writer_text(writer, "traceparent", job ? job->traceparent : NULL);
    writer_text(writer, "tracestate", job ? job->tracestate : NULL);
}

char *result_write(const struct result *result)
{
    struct writer writer = {0};
    writer_open(&writer, NULL, '{');
    writer_text(&writer, "id", result->job ? result->job->id : NULL);
    writer_number(&writer, "job", result->number);
    if (result->shards > 1)
        writer_number(&writer, "shard", result->shard);
    writer_text(&writer, "status", result->status);
    write_error(&writer, result->error);
    writer_json(&writer, "meta", result->job ? result->job->meta : NULL);
    if (result->job && result->job->prioritized)
        writer_number(&writer, "priority", result->job->priority);
    write_labels(&writer, result->job);
    write_input(&writer, result);
    write_images(&writer, result->images);
    write_outputs(&writer, result);
    writer_number(&writer, "attempt", result->attempt);
    writer_text(&writer, "engine", result->engine);
    writer_text(&writer, "decoder", result->decoder);
    writer_text(&writer, "daemon", result->daemon);
    write_times(&writer, result);
    writer_close(&writer, '}');
    return writer_finish(&writer);
}

/* ---- images of a job with many -------------------------------------------------------------- */

char *result_image_error(uint64_t index, const char *name, const struct error *error)
{
    struct writer writer = {0};
    char masked[JOB_URL_BYTES_MAX + 1], shown[JOB_PATH_BYTES_MAX + 1];
    if (name) {
        mask_copy(masked, sizeof masked, name);
        text_escape_end(shown, sizeof shown, masked, strlen(masked));
    }
    writer_open(&writer, NULL, '{');
    writer_number(&writer, "image", index);
    writer_text(&writer, "name", name ? shown : NULL);
    put_error(&writer, "error", error);
    writer_close(&writer, '}');
    return writer_finish(&writer);
}

char *result_image_values(uint64_t index, size_t output, const cJSON *values)
{
    struct writer writer = {0};
    writer_open(&writer, NULL, '{');
    writer_number(&writer, "image", index);
    writer_number(&writer, "output", output);
    writer_json(&writer, "values", values);
    writer_close(&writer, '}');
    return writer_finish(&writer);
}

/* ---- changing a result ---------------------------------------------------------------------- */

/* Adds the number as a raw node: cJSON could print a double as "1e+15". */
static bool add_integer(cJSON *object, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_AddRawToObject(object, key, text) != NULL;
}

/* ---- result_deny ---------------------------------------------------------------------------- */

static cJSON *error_json(const struct error *error)
{
    struct writer writer = {0};
    put_error(&writer, NULL, error);
    char *text = writer_finish(&writer);
    cJSON *json = text ? cJSON_CreateRaw(text) : NULL;
    free(text);
    return json;
}

/* Inserts a new member after `member`, to keep the order of result_write. Takes ownership of item,
 * even on error. */
static bool insert_after(cJSON *object, cJSON *member, const char *key, cJSON *item)
{
    cJSON *rest = cJSON_CreateArray();
    while (rest && member->next)
        cJSON_AddItemToArray(rest, cJSON_DetachItemViaPointer(object, member->next));
    bool whole = json_set(object, key, item) && rest;
    while (rest && rest->child)
        cJSON_AddItemToArray(object, cJSON_DetachItemViaPointer(rest, rest->child));
    cJSON_Delete(rest);
    return whole;
}

/* Whether the output with this name wrote the key. An output of many images has a template as its
 * name; its %p and %n can be any text. Only the beginning of a long template is compared. */
static bool is_key_of(const char *name, const char *key, bool is_set)
{
    char pattern[JOB_PATTERN_BYTES_MAX + 1];
    const char *const patterns[] = {pattern};
    size_t used = 0;
    const char *at = name;
    if (!is_set)
        return strcmp(name, key) == 0;
    for (; *at && used < JOB_PATTERN_BYTES_MAX - 1; at++) {
        bool is_place = *at == '%' && (at[1] == 'p' || at[1] == 'n');
        pattern[used++] = is_place ? '*' : *at;
        if (*at == '%' && at[1])
            at++;
    }
    if (*at)
        pattern[used++] = '*';
    pattern[used] = '\0';
    return member_matches(key, patterns, 1);
}

/* Other images of an output of many are in place. */
static bool deny_output(cJSON *output, const struct error *error, bool is_set)
{
    static const char *const written[] = {"width",   "height", "bytes", "quality", "ssim",
                                          "encoder", "dtype",  "shape", "values"};
    for (size_t i = 0; i < sizeof written / sizeof *written && !is_set; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(output, written[i]);
    return json_set(output, "error", error_json(error));
}

char *result_deny(const char *result, const char *key, const struct error *error)
{
    char *text = NULL;
    struct error ignored = {0};
    cJSON *root = json_parse(result, strlen(result), "meta", &ignored), *output;
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "status"));
    bool whole = status != NULL, is_set = cJSON_HasObjectItem(root, "images");
    cJSON_ArrayForEach(output, cJSON_GetObjectItemCaseSensitive(root, "outputs")) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(output, "key"));
        if (name && is_key_of(name, key, is_set))
            whole = whole && deny_output(output, error, is_set);
    }
    if (whole && strcmp(status, "done") == 0)
        whole = json_set(root, "status", cJSON_CreateString("failed")) &&
                insert_after(root, cJSON_GetObjectItemCaseSensitive(root, "status"), "error",
                             error_json(error));
    if (whole)
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    return text;
}

/* ---- result_shorten ------------------------------------------------------------------------- */

char *result_shorten(const char *result, const struct error *error)
{
    static const char *const kept[] = {"id",          "job",        "shard",   "tag",
                                       "traceparent", "tracestate", "attempt", "daemon"};
    char *text = NULL;
    struct error ignored = {0};
    cJSON *root = json_parse(result, strlen(result), "meta", &ignored);
    cJSON *brief = cJSON_CreateObject();
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "status"));
    bool whole = status && brief;
    for (size_t i = 0; whole && i < sizeof kept / sizeof *kept; i++) {
        cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(root, kept[i]);
        whole = !item || json_set(brief, kept[i], item);
        if (whole && strcmp(kept[i], "shard") == 0)
            whole = json_set(brief, "status",
                             cJSON_CreateString(strcmp(status, "done") == 0 ? "failed" : status)) &&
                    json_set(brief, "error", error_json(error));
    }
    if (whole)
        text = cJSON_PrintUnformatted(brief);
    cJSON_Delete(brief);
    cJSON_Delete(root);
    return text;
}

/* ---- result_repeat -------------------------------------------------------------------------- */

static bool set_meta(cJSON *root, const struct job *job)
{
    if (job->meta)
        return json_set(root, "meta", cJSON_Duplicate(job->meta, true));
    cJSON_DeleteItemFromObjectCaseSensitive(root, "meta");
    return true;
}

static bool set_priority(cJSON *root, const struct job *job)
{
    if (job->prioritized)
        return json_set(root, "priority", cJSON_CreateNumber(job->priority));
    cJSON_DeleteItemFromObjectCaseSensitive(root, "priority");
    return true;
}

static bool set_text(cJSON *root, const char *key, const char *text)
{
    if (text)
        return json_set(root, key, cJSON_CreateString(text));
    cJSON_DeleteItemFromObjectCaseSensitive(root, key);
    return true;
}

static bool set_labels(cJSON *root, const struct job *job)
{
    return set_text(root, "tag", job->tag) && set_text(root, "traceparent", job->traceparent) &&
           set_text(root, "tracestate", job->tracestate);
}

char *result_repeat(const char *kept, const struct job *job, uint64_t number)
{
    char *text = NULL;
    cJSON *root = cJSON_Parse(kept);
    cJSON *first = cJSON_DetachItemFromObjectCaseSensitive(root, "job");
    if (cJSON_IsNumber(first) && add_integer(root, "same_as", (uint64_t)first->valuedouble) &&
        add_integer(root, "job", number) && set_meta(root, job) && set_priority(root, job) &&
        set_labels(root, job))
        text = cJSON_PrintUnformatted(root);
    cJSON_Delete(first);
    cJSON_Delete(root);
    return text;
}
