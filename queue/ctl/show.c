#include "queue/ctl/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "conf/mask.h"
#include "conf/text.h"
#include "queue/ctl/out.h"

const char *show_count(double count, char text[SHOW_BYTES])
{
    char digits[SHOW_BYTES];
    int length = snprintf(digits, sizeof digits, "%.0f", fmin(fmax(count, 0), 1e15)), to = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[to++] = ',';
        text[to++] = digits[i];
    }
    text[to] = '\0';
    return text;
}

const char *show_bytes(double bytes, char text[SHOW_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, SHOW_BYTES, unit && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *show_time(double seconds, char text[SHOW_BYTES])
{
    long whole = (long)fmin(fmax(ceil(seconds), 0), 3.6e6);
    if (whole < 3600)
        snprintf(text, SHOW_BYTES, "%ld:%02ld", whole / 60, whole % 60);
    else
        /* uncovered: screen */
        snprintf(text, SHOW_BYTES, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    return text;
}

const char *show_age(double seconds, char text[SHOW_BYTES])
{
    if (seconds < 10)
        snprintf(text, SHOW_BYTES, "%.1f s", fmax(seconds, 0));
    else if (seconds < 180)
        snprintf(text, SHOW_BYTES, "%.0f s", seconds);
    else if (seconds < 3 * 3600)
        snprintf(text, SHOW_BYTES, "%.0f min", seconds / 60);
    else
        snprintf(text, SHOW_BYTES, "%.0f h", fmin(seconds / 3600, 1e9));
    return text;
}

const char *show_rate(double rate, char text[SHOW_BYTES])
{
    if (rate >= 9.95)
        return show_count(round(rate), text);
    snprintf(text, SHOW_BYTES, "%.1f", fmax(rate, 0));
    return text;
}

const char *show_redis(const char *redis)
{
    static char text[JOB_URL_BYTES_MAX + 1];
    return mask_copy(text, sizeof text, redis);
}

const char *show_text(const cJSON *json, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
    return text ? text : "";
}

double show_number(const cJSON *json, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

const char *show_word(const cJSON *json, const char *name, char *word, size_t size)
{
    text_copy(word, size, show_text(json, name));
    return word;
}

/* Shorter times do not count. */
#define BLOCKED_LEAST_S 5

const cJSON *show_blocked(const cJSON *stats)
{
    const cJSON *blocked = cJSON_GetObjectItemCaseSensitive(stats, "blocked");
    bool counts = cJSON_IsObject(blocked) && show_number(blocked, "for_s") >= BLOCKED_LEAST_S &&
                  strcmp(show_text(blocked, "by"), "inflight") != 0;
    return counts ? blocked : NULL;
}

const char *show_state(const cJSON *stats, char text[SHOW_BYTES])
{
    const cJSON *blocked = show_blocked(stats);
    show_word(stats, "state", text, SHOW_BYTES);
    if (blocked && strcmp(text, "running") == 0)
        show_word(blocked, "by", text, SHOW_BYTES);
    return text;
}

static bool show_error(const cJSON *holder)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(holder, "error");
    if (!error)
        return false;
    char code[SHOW_BYTES];
    out_put(": %s (%s)", show_text(error, "message"),
            show_word(error, "code", code, sizeof code));
    return true;
}

/* Prints how many images an output of a job with many has, their bytes, and the shape of an array.
 */
static void show_images_output(const cJSON *output)
{
    const cJSON *side, *shape = cJSON_GetObjectItemCaseSensitive(output, "shape");
    double images = show_number(output, "images");
    char count[SHOW_BYTES], bytes[SHOW_BYTES], word[SHOW_BYTES];
    out_put(" %s image%s", show_count(images, count), images == 1 ? "" : "s");
    cJSON_ArrayForEach(side, shape) out_put("%s%.0f", side == shape->child ? " " : "x",
                                            cJSON_IsNumber(side) ? side->valuedouble : 0);
    if (shape)
        out_put(" %s", show_word(output, "dtype", word, sizeof word));
    out_put(" %s", show_bytes(show_number(output, "bytes"), bytes));
}

/* Prints an output. Returns whether it has an error. */
static bool show_output(const cJSON *output, const char *file)
{
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(output, "values");
    const char *path = show_text(output, "path"), *url = show_text(output, "url");
    char text[SHOW_BYTES];
    path = file ? file : *path ? path : *url ? url : show_text(output, "key");
    if (*path)
        out_put(" -> %s", path);
    if (show_number(output, "bytes") > 0 && cJSON_HasObjectItem(output, "images"))
        show_images_output(output);
    else if (show_number(output, "bytes") > 0)
        out_put(" %.0fx%.0f %s", show_number(output, "width"),
                show_number(output, "height"), show_bytes(show_number(output, "bytes"), text));
    char *printed = values ? cJSON_PrintUnformatted(values) : NULL;
    if (printed)
        out_put(" %s", printed);
    free(printed);
    return show_error(output);
}

/* Whether each output has the error of the whole job, which is then printed only once. */
static bool failed_as_a_whole(const cJSON *result)
{
    const cJSON *output, *whole = cJSON_GetObjectItemCaseSensitive(result, "error");
    cJSON_ArrayForEach(output, cJSON_GetObjectItemCaseSensitive(result, "outputs")) {
        const cJSON *error = cJSON_GetObjectItemCaseSensitive(output, "error");
        if (!whole || !error || strcmp(show_text(error, "message"), show_text(whole, "message")))
            return false;
    }
    return true;
}

static void put_image(const char *status, const cJSON *item, char *const *names, size_t count)
{
    double index = show_number(item, "image");
    if (names && index >= 0 && index < (double)count)
        out_put("%-6s %s", status, names[(size_t)index]);
    else if (cJSON_HasObjectItem(item, "name"))
        out_put("%-6s %s", status, show_text(item, "name"));
    else
        out_put("%-6s image %.0f", status, index);
}

/* Prints the images that failed, and the values, of a job with many images. */
static void show_images(const cJSON *images, char *const *names, size_t count)
{
    const cJSON *item, *errors = cJSON_GetObjectItemCaseSensitive(images, "errors");
    double more = show_number(images, "failed") - cJSON_GetArraySize(errors);
    char text[SHOW_BYTES], warning[ERROR_TEXT_MAX];
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(images, "values"))
    {
        const cJSON *values = cJSON_GetObjectItemCaseSensitive(item, "values");
        char *printed = cJSON_PrintUnformatted(values);
        put_image("values", item, names, count);
        if (show_number(item, "output") > 0)
            out_put(" output %.0f", show_number(item, "output") + 1);
        out_line(" %s", printed ? printed : "");
        free(printed);
    }
    if (show_number(images, "values_omitted") > 0)
        out_line("and the values of %s more, which the result omits",
                 show_count(show_number(images, "values_omitted"), text));
    cJSON_ArrayForEach(item, errors)
    {
        put_image("failed", item, names, count);
        show_error(item);
        out_end();
    }
    if (*show_text(images, "warning"))
        out_line("warning %s", show_word(images, "warning", warning, sizeof warning));
    if (more > 0)
        out_line("failed %s more image%s of this job", show_count(more, text),
                 more == 1 ? "" : "s");
}

/* "cat.jpg: 254 of 256 images" */
static void put_images(const cJSON *images)
{
    char done[SHOW_BYTES], count[SHOW_BYTES], copied[SHOW_BYTES];
    out_put(": %s of %s images", show_count(show_number(images, "done"), done),
            show_count(show_number(images, "count"), count));
    if (show_number(images, "copied") > 0)
        out_put(", %s members copied", show_count(show_number(images, "copied"), copied));
    if (show_number(images, "skipped") > 0)
        out_put(", %s links and special files skipped",
                show_count(show_number(images, "skipped"), copied));
}

void show_result(const cJSON *result, const char *name, const char *const *files,
                 char *const *names, size_t count)
{
    const cJSON *images = cJSON_GetObjectItemCaseSensitive(result, "images");
    const cJSON *output;
    const cJSON *ms = cJSON_GetObjectItemCaseSensitive(result, "ms");
    const char *status = show_text(result, "status");
    bool explained = false, whole = failed_as_a_whole(result);
    size_t index = 0;
    char word[SHOW_BYTES];
    /* "cancelled" is longer than the column, but rare. */
    out_put("%-6s %s", show_word(result, "status", word, sizeof word), name);
    if (images)
        put_images(images);
    cJSON_ArrayForEach(output, cJSON_GetObjectItemCaseSensitive(result, "outputs")) {
        const char *file = files && index < JOB_OUTPUTS_MAX ? files[index++] : NULL;
        if (strcmp(status, "done") == 0 || (!whole && cJSON_HasObjectItem(output, "error")))
            explained = show_output(output, file) || explained;
    }
    if (!explained)
        show_error(result);
    if (strcmp(status, "done") == 0)
        out_put(", %.1f ms", show_number(ms, "total"));
    out_end();
    if (images)
        show_images(images, names, count);
}
