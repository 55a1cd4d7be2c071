/* place.c - reads where an image is: a path, a key or a URL. */
#include "queue/job/check.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conf/limits.h"
#include "conf/mask.h"

/* Returns NULL if the text of the path keeps it below its root, else a description of the fault. */
static const char *path_fault(const char *path)
{
    if (!*path)
        return "is empty";
    if (strlen(path) > JOB_PATH_BYTES_MAX)
        return "is longer than 2048 bytes";
    if (has_control(path))
        return "has a control character";
    if (*path == '/')
        return "is absolute; it must be relative to input_root or output_root";
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0)
            return "has an empty part";
        if (length <= 2 && strncmp(part, "..", length) == 0)
            return length == 1 ? "has a part \".\"" : "has a part \"..\"";
        part += length;
        if (!*part)
            return NULL;
    }
}

bool check_path(const struct check *check, const cJSON *item, const char *where)
{
    if (!cJSON_IsString(item))
        return refuse(check, "%s is %s; it must be a string", where, shown(item));
    if (mask_is_url(item->valuestring))
        return refuse_as(check, STATUS_PATH_REFUSED, "%s %s is a URL; %s", where, shown(item),
                         check->no_urls ? "an overlay must be a path or a key"
                                        : "write {\"url\": \"https://...\"}");
    const char *fault = path_fault(item->valuestring);
    return !fault || refuse_as(check, STATUS_PATH_REFUSED, "%s %s %s", where, shown(item), fault);
}

bool check_key(const struct check *check, const cJSON *item, const char *where, const char *kind)
{
    if (!cJSON_IsString(item))
        return refuse(check, "%s is %s; it must be a string", where, shown(item));
    const char *key = item->valuestring;
    size_t ns = strlen(check->rules->ns), length = strlen(kind);
    if (strncmp(key, check->rules->ns, ns) != 0 || strncmp(key + ns, kind, length) != 0 ||
        !key[ns + length])
        return refuse_as(check, STATUS_PATH_REFUSED, "%s is %s; it must begin with \"%s%s\"", where,
                         shown(item), check->rules->ns, kind);
    if (strlen(key) > JOB_KEY_BYTES_MAX)
        return refuse_as(check, STATUS_PATH_REFUSED, "%s %s is longer than %d bytes", where,
                         shown(item), JOB_KEY_BYTES_MAX);
    return !has_control(key) || refuse_as(check, STATUS_PATH_REFUSED,
                                          "%s %s has a control character", where, shown(item));
}

/* Messages show a URL without its query. */
static bool check_url(const struct check *check, const cJSON *item, const char *where)
{
    if (!cJSON_IsString(item))
        return refuse(check, "%s is %s; it must be a string", where, shown(item));
    const char *url = item->valuestring;
    char text[2 * SHOWN_MAX];
    mask_copy_url(text, sizeof text, url);
    if (strlen(url) > JOB_URL_BYTES_MAX)
        return refuse_as(check, STATUS_PATH_REFUSED, "%s \"%s\" is longer than %d bytes", where,
                         text, JOB_URL_BYTES_MAX);
    if (has_control(url))
        return refuse_as(check, STATUS_PATH_REFUSED, "%s \"%s\" has a control character", where,
                         text);
    return strncasecmp(url, "https://", 8) == 0 || strncasecmp(url, "http://", 7) == 0 ||
           refuse_as(check, STATUS_PATH_REFUSED,
                     "%s is \"%s\"; it must begin with https:// or http://", where, text);
}

bool check_output_path(const struct check *check, const char *path, const char *where)
{
    return strncmp(path, ".gpuimgd", 8) != 0 || (path[8] && path[8] != '/') ||
           refuse_as(check, STATUS_PATH_REFUSED,
                     "%s is in .gpuimgd, the folder for temporary files", where);
}

bool read_place(const struct check *check, const cJSON *item, const char *where,
                const char *const *keys, struct job_place *place)
{
    char name[96];
    const cJSON *path = item, *key = NULL, *url = NULL;
    if (cJSON_IsObject(item)) {
        if (!check_keys(check, item, where, keys))
            return false;
        path = member(item, "path");
        key = member(item, "key");
        url = member(item, "url");
        if (!!path + !!key + !!url != 1)
            return refuse(check, "%s must have %s", where,
                          path || key || url ? "one of path, key and url, not several"
                                             : "path, key or url");
        snprintf(name, sizeof name, "%s.%s", where, path ? "path" : key ? "key" : "url");
        where = name;
    } else if (!cJSON_IsString(item)) {
        return refuse(check, "%s is %s; it must be a path or an object with path, key or url",
                      where, shown(item));
    }
    if (path  ? !check_path(check, path, where)
        : key ? !check_key(check, key, where, ":img:")
              : !check_url(check, url, where))
        return false;
    place->path = cJSON_GetStringValue(path);
    place->key = cJSON_GetStringValue(key);
    place->url = cJSON_GetStringValue(url);
    return true;
}

enum status job_check_place(const cJSON *item, const char *where, const struct job_rules *rules,
                            struct job_place *place, struct error *error)
{
    const struct check check = {rules, error, .no_urls = true};
    return read_place(&check, item, where, input_keys, place) ? STATUS_OK : error->status;
}

enum status job_check_output(const struct job_place *place, const char *ns, struct error *error)
{
    const struct job_rules rules = {.ns = ns};
    const struct check check = {&rules, error, .no_urls = false};
    const char *text = place->path ? place->path : place->key ? place->key : place->url;
    const cJSON item = {.type = cJSON_String, .valuestring = (char *)text};
    bool ok = place->path ? check_path(&check, &item, "output.path") &&
                                check_output_path(&check, text, "output.path")
              : place->key ? check_key(&check, &item, "output.key", ":img:")
                           : check_url(&check, &item, "output.url");
    return ok ? STATUS_OK : error->status;
}

bool job_places_are_same(const struct job_place *a, const struct job_place *b)
{
    return a->path ? b->path && strcmp(a->path, b->path) == 0
                   : a->key && b->key && strcmp(a->key, b->key) == 0;
}
