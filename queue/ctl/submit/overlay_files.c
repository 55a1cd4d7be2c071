#include "queue/ctl/submit/overlay_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/text.h"
#include "queue/ctl/submit/key_file.h"
#include "queue/job/json.h"

/* A marked `input` is an object with this member, the index of its file. Jobs never have it. */
#define MARK "local"

/* ---- the operations of a job ---------------------------------------------------------------- */

/* Called for each operation with an overlay, which is its member `input`. false: stop. */
typedef bool overlay_visit(void *context, cJSON *op, const cJSON *input);

static bool visit_ops(const cJSON *holder, overlay_visit *visit, void *context)
{
    cJSON *op;
    cJSON_ArrayForEach(op, cJSON_GetObjectItemCaseSensitive(holder, "ops")) {
        const cJSON *input = cJSON_GetObjectItemCaseSensitive(op, "input");
        if (input && !visit(context, op, input))
            return false;
    }
    return true;
}

static bool visit_job(const cJSON *job, overlay_visit *visit, void *context)
{
    const cJSON *output;
    bool ok = visit_ops(job, visit, context);
    cJSON_ArrayForEach(output, cJSON_GetObjectItemCaseSensitive(job, "outputs"))
        ok = ok && visit_ops(output, visit, context);
    return ok;
}

/* ---- finding -------------------------------------------------------------------------------- */

struct search {
    struct overlay_files *overlays;
    struct ctl *ctl;
    const char *root;
};

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Adds a file, unless it is known. Returns its index. */
static size_t take_file(struct search *search, const char *path)
{
    struct overlay_files *overlays = search->overlays;
    size_t i = 0;
    while (i < overlays->count && strcmp(overlays->files[i].path, path) != 0)
        i++;
    if (i == OVERLAY_FILES_MAX) /* uncovered: slip */
        ctl_usage(search->ctl, "the job has more than %d overlays on this machine",
                  OVERLAY_FILES_MAX);
    if (i == overlays->count) {
        text_copy(overlays->files[i].path, PATH_MAX, path);
        overlays->count++;
    }
    return i;
}

/* Returns the path of an overlay below input_root; NULL: its path needs no change. */
static cJSON *path_below(struct search *search, const char *path)
{
    const char *root = strcmp(search->root, "/") == 0 ? "" : search->root;
    char below[2 * PATH_MAX], real[PATH_MAX];
    size_t length = strlen(root);
    snprintf(below, sizeof below, "%s/%s", root, path);
    if ((*path != '/' && is_file(below)) || !is_file(path) || !realpath(path, real))
        return NULL;
    if (strncmp(real, root, length) != 0 || real[length] != '/')
        ctl_usage(search->ctl, "the overlay %s is not below input_root (%s); copy it there, or "
                  "send it through Redis with --keys", path, search->root);
    return cJSON_CreateString(real + length + 1);
}

static cJSON *mark(struct search *search, const char *path)
{
    cJSON *input = is_file(path) ? cJSON_CreateObject() : NULL;
    if (input && !cJSON_AddNumberToObject(input, MARK, (double)take_file(search, path)))
        ctl_out_of_memory(search->ctl, "an overlay"); /* uncovered: memory */
    return input;
}

static bool find(void *context, cJSON *op, const cJSON *input)
{
    struct search *search = context;
    const cJSON *place = cJSON_IsString(input) ? input
                                               : cJSON_GetObjectItemCaseSensitive(input, "path");
    const char *path = cJSON_GetStringValue(place);
    cJSON *changed = !path ? NULL : search->root ? path_below(search, path) : mark(search, path);
    return !changed || json_set(op, "input", changed);
}

void overlay_files_find(struct overlay_files *overlays, struct ctl *ctl, cJSON *job,
                        const char *root)
{
    struct search search = {overlays, ctl, root};
    if (!visit_job(job, find, &search)) /* uncovered: memory */
        ctl_out_of_memory(ctl, "an overlay");
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void name_key(const struct overlay_files *overlays, const struct ctl_shard *shard,
                     size_t index, char key[SUBMIT_KEY_BYTES])
{
    snprintf(key, SUBMIT_KEY_BYTES, "%s:img:%s:overlay%zu", shard->options.namespace,
             overlays->run, index + 1);
}

struct filling {
    const struct overlay_files *overlays;
    const struct ctl_shard *shard;
};

static bool fill(void *context, cJSON *op, const cJSON *input)
{
    const struct filling *filling = context;
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(input, MARK);
    char key[SUBMIT_KEY_BYTES];
    if (!number)
        return true;
    name_key(filling->overlays, filling->shard, (size_t)number->valuedouble, key);
    cJSON *keyed = cJSON_CreateObject();
    if (keyed && cJSON_AddStringToObject(keyed, "key", key))
        return json_set(op, "input", keyed);
    cJSON_Delete(keyed); /* uncovered: memory */
    return false;
}

bool overlay_files_fill(const struct overlay_files *overlays, cJSON *job,
                        const struct ctl_shard *shard)
{
    struct filling filling = {overlays, shard};
    return overlays->count == 0 || visit_job(job, fill, &filling);
}

bool overlay_files_upload(struct overlay_files *overlays, const struct ctl_shard *shard,
                          uint64_t bytes_max, bool *redis_lost, struct error *error)
{
    uint64_t bit = (uint64_t)1 << shard->index;
    char key[SUBMIT_KEY_BYTES];
    for (size_t i = 0; i < overlays->count; i++) {
        struct overlay_file *file = &overlays->files[i];
        struct error own = {0};
        name_key(overlays, shard, i, key);
        if (file->shards & bit)
            continue;
        if (!key_file_put(shard->client, key, file->path, bytes_max, redis_lost, &own)) {
            if (own.status)
                error_set(error, own.status, "the overlay %.200s: %.300s", file->path, own.text);
            return false;
        }
        file->shards |= bit;
    }
    return true;
}

void overlay_files_delete(struct overlay_files *overlays, struct ctl *ctl)
{
    char key[SUBMIT_KEY_BYTES];
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (ctl->shards[i].client)
            client_retry_for(ctl->shards[i].client, 0, NULL, NULL);
    for (size_t i = 0; i < overlays->count; i++)
        for (uint32_t at = 0; ctl_next(ctl, &at);)
            if (overlays->files[i].shards >> ctl->shard->index & 1) {
                name_key(overlays, ctl->shard, i, key);
                freeReplyObject(client_ask(ctl->client, "DEL %s", key));
            }
}
