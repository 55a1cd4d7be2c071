#include "queue/ctl/sets/set_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "queue/ctl/sets/set_job.h"
#include "queue/ctl/sets/set_pattern.h"
#include "queue/ctl/show.h"
#include "queue/ctl/submit/key_transfer.h"

/* Keys per DEL. */
#define DELETE_MAX 128

bool set_jobs_hold(struct set_jobs *jobs, struct image_list *list)
{
    size_t number = (size_t)list->image.number;
    if (number >= jobs->room) {
        size_t room = 2 * number + 64;
        struct image_list **lists = realloc(jobs->lists, room * sizeof *lists);
        if (!lists) /* uncovered: memory */
            return false;
        memset(lists + jobs->room, 0, (room - jobs->room) * sizeof *lists);
        jobs->lists = lists;
        jobs->room = room;
    }
    jobs->lists[number] = list;
    jobs->jobs++;
    jobs->images += list->count;
    return true;
}

struct image_list *set_jobs_find(const struct set_jobs *jobs, uint64_t number)
{
    return number < jobs->room ? jobs->lists[number] : NULL;
}

struct image_list *set_jobs_find_id(const struct set_jobs *jobs, const char *id)
{
    for (size_t i = 0; i < jobs->room && *id; i++)
        if (jobs->lists[i] && strcmp(jobs->lists[i]->id, id) == 0)
            return jobs->lists[i];
    return NULL;
}

bool set_jobs_note(struct set_jobs *jobs, struct image_list *list, double fraction, uint64_t done,
                   uint64_t failed)
{
    bool is_new = done != list->live_done || failed != list->live_failed;
    jobs->fraction += fraction - list->fraction;
    jobs->live_done += done - list->live_done;
    jobs->live_failed += failed - list->live_failed;
    list->fraction = fraction;
    list->live_done = done;
    list->live_failed = failed;
    return is_new;
}

void set_jobs_end(struct set_jobs *jobs, uint64_t number)
{
    struct image_list *list = set_jobs_find(jobs, number);
    if (!list)
        return;
    set_jobs_note(jobs, list, 0, 0, 0);
    jobs->jobs--;
    jobs->images -= list->count;
    jobs->lists[number] = NULL;
    image_list_free(list);
}

void set_jobs_clear(struct set_jobs *jobs)
{
    for (size_t i = 0; i < jobs->room; i++)
        image_list_free(jobs->lists[i]);
    free(jobs->lists);
    *jobs = (struct set_jobs){0};
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool has_failed(const cJSON *errors, size_t index)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, errors) if (show_number(item, "image") == (double)index) return true;
    return false;
}

cJSON *set_jobs_download(const struct job_template *template, const struct output_file_rules *rules,
                         const struct image_list *list, const cJSON *result)
{
    const cJSON *images = cJSON_GetObjectItemCaseSensitive(result, "images");
    const cJSON *errors = cJSON_GetObjectItemCaseSensitive(images, "errors");
    /* A result names at most 100 failed images; others have no output either. */
    bool all_named = show_number(images, "failed") <= cJSON_GetArraySize(errors);
    struct client *client = list->image.shard->client;
    cJSON *unwritten = cJSON_CreateArray();
    char key[SUBMIT_KEY_BYTES], path[PATH_MAX];
    struct error ignored = {0};
    if (strcmp(show_text(result, "status"), "done") != 0)
        return unwritten;
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < JOB_OUTPUTS_MAX && !has_failed(errors, i); k++) {
            if (!list->image.outs[k] ||
                !set_pattern_name(list->image.outs[k], list->stems[i], false, i, path, &ignored))
                continue;
            set_job_image_key(template, &list->image, k, i, key);
            key_transfer_fetch(rules, client, key, path, !all_named, unwritten);
        }
    return unwritten;
}

static void delete (struct client *client, char keys[][SUBMIT_KEY_BYTES], int count)
{
    const char *argv[DELETE_MAX + 1] = {"DEL"};
    for (int i = 0; i < count; i++)
        argv[i + 1] = keys[i];
    /* If DEL fails, the keys expire later. */
    if (count > 0)
        freeReplyObject(client_ask_words(client, count + 1, argv, NULL));
}

void set_jobs_delete_keys(const struct job_template *template, const struct image_list *list,
                          const cJSON *unwritten)
{
    static char keys[DELETE_MAX][SUBMIT_KEY_BYTES];
    int count = 0;
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = 0; k <= JOB_OUTPUTS_MAX; k++) {
            if (k > 0 && !list->image.outs[k - 1])
                continue;
            if (k == 0)
                set_job_input_key(template, &list->image, i, keys[count]);
            else
                set_job_image_key(template, &list->image, k - 1, i, keys[count]);
            if (!key_transfer_is_unwritten(unwritten, keys[count]))
                count++;
            if (count == DELETE_MAX) {
                delete (list->image.shard->client, keys, count);
                count = 0;
            }
        }
    }
    delete (list->image.shard->client, keys, count);
}
