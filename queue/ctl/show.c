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

/* Prints an output. Returns whether it has an error. */
static bool show_output(const cJSON *output, const char *file)
{
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(output, "values");
    const char *path = show_text(output, "path"), *url = show_text(output, "url");
    char text[SHOW_BYTES];
    path = file ? file : *path ? path : *url ? url : show_text(output, "key");
    if (*path)
        out_put(" -> %s", path);
    if (show_number(output, "bytes") > 0)
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

void show_result(const cJSON *result, const char *name, const char *const *files)
{
    const cJSON *output;
    const cJSON *ms = cJSON_GetObjectItemCaseSensitive(result, "ms");
    const char *status = show_text(result, "status");
    bool explained = false, whole = failed_as_a_whole(result);
    size_t index = 0;
    char word[SHOW_BYTES];
    /* "cancelled" is longer than the column, but rare. */
    out_put("%-6s %s", show_word(result, "status", word, sizeof word), name);
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
}
