/* check.c - the parts of checks that job.c, inputs.c and place.c share. */
#include "queue/job/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/mask.h"
#include "conf/text.h"

const char *const job_keys[] = {"input",   "inputs",   "output",    "ops",         "outputs",
                                "id",      "on_error", "timeout_s", "background",  "orient",
                                "meta",    "reply_to", "pushed",    "unique",      "not_before",
                                "expires", "priority", "tag",       "traceparent", "tracestate",
                                "page",    "frames",   "trim",      NULL};
const char *const variant_keys[] = {"output", "ops", NULL};
const char *const inputs_keys[] = {"folder", "archive", "pattern", NULL};
const char *const input_keys[] = {"path", "key", "url", NULL};
const char *const output_keys[] = {"path",      "key",      "url",   "format",
#define PARAMETER(name, ...) #name,
#include "conf/formats.def"
                                   "normalize", "metadata", "ttl_s", "headers", "pack", NULL};
const char *const metadata_words[] = {"icc", "exif", "xmp", "copyright", "density", NULL};

const char *shown(const cJSON *value)
{
    static _Thread_local char text[SHOWN_MAX + 4];
    char *json = cJSON_PrintUnformatted(value);
    if (json)
        mask_text(json, MASK_VALUE);
    bool fits = text_copy(text, SHOWN_MAX, json ? json : "?");
    if (!fits) {
        text_make_printable(text); /* the cut may have split a UTF-8 sequence */
        strcat(text, "...");
    }
    free(json);
    return text;
}

/* Most words differ in their first byte: then no function is called. */
static bool same(const char *a, const char *b)
{
    return *a == *b && strcmp(a, b) == 0;
}

static bool is_one_of(const char *word, const char *const *names)
{
    while (*names && !same(*names, word))
        names++;
    return *names != NULL;
}

bool check_keys(const struct check *check, const cJSON *object, const char *where,
                const char *const *known)
{
    const cJSON *item;
    size_t count = 0;
    char key[SHOWN_MAX + 1];
    while (known[count])
        count++;
    cJSON_ArrayForEach(item, object)
    {
        if (is_one_of(item->string, known))
            continue;
        const char *near = text_nearest(item->string, known, count);
        mask_copy(key, sizeof key, item->string);
        if (near)
            return refuse(check, "%s has the unknown key \"%s\"; did you mean \"%s\"?", where, key,
                          near);
        if (known == job_keys && is_one_of(key, inputs_keys))
            return refuse(check,
                          "%s has the unknown key \"%s\"; it belongs in inputs: "
                          "\"inputs\":{\"%s\":...}",
                          where, key, key);
        if (known == job_keys && is_one_of(key, input_keys))
            return refuse(check,
                          "%s has the unknown key \"%s\"; it belongs in the input or an "
                          "output: \"input\":{\"%s\":...}",
                          where, key, key);
        if (known == job_keys && is_one_of(key, output_keys))
            return refuse(check,
                          "%s has the unknown key \"%s\"; it belongs in an output: "
                          "\"output\":{\"path\":...,\"%s\":...}",
                          where, key, key);
        return refuse(check, "%s has the unknown key \"%s\"", where, key);
    }
    return true;
}

const cJSON *member(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_IsObject(object) ? object->child : NULL;
    while (item && !(item->string && same(item->string, key)))
        item = item->next;
    return item;
}

bool is_integer(const cJSON *item, double low, double high)
{
    return cJSON_IsNumber(item) && item->valuedouble == floor(item->valuedouble) &&
           item->valuedouble >= low && item->valuedouble <= high;
}

bool read_integer(const struct check *check, const cJSON *object, const char *where,
                  const char *key, double low, double high, double *value)
{
    const cJSON *item = member(object, key);
    if (!item)
        return true;
    if (!is_integer(item, low, high))
        return refuse(check, "%s.%s is %s; it must be an integer from %.0f to %.0f", where, key,
                      shown(item), low, high);
    *value = item->valuedouble;
    return true;
}

bool read_bool(const struct check *check, const cJSON *object, const char *where, const char *key,
               bool *value)
{
    const cJSON *item = member(object, key);
    if (!item)
        return true;
    if (!cJSON_IsBool(item))
        return refuse(check, "%s.%s is %s; it must be true or false", where, key, shown(item));
    *value = cJSON_IsTrue(item);
    return true;
}

bool has_control(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_c1 = c == 0xC2 && (unsigned char)text[1] < 0xA0; /* U+0080..U+009F */
        if (c < 0x20 || c == 0x7F || is_c1)
            return true;
    }
    return false;
}
