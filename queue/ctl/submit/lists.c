/* lists.c - collects the images of gpuimgctl submit --list into jobs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "queue/ctl/sets/set_job.h"
#include "queue/ctl/sets/set_pattern.h"
#include "queue/ctl/submit/submit.h"
#include "queue/job/member_name.h"

/* Room in a job's text for what its first image does not show: the text "and 1023 more", and
 * the end of an id that moves the job to another shard. */
#define LABEL_BYTES_MORE 64

/* ---- lists ---------------------------------------------------------------------------------- */

static void remove_open(struct submit *submit, size_t index)
{
    submit->open_count--;
    memmove(submit->open + index, submit->open + index + 1,
            (submit->open_count - index) * sizeof *submit->open);
}

/* Names the list's outputs and its job, and chooses the shard. */
static bool begin(struct submit *submit, struct image_list *list, struct error *error)
{
    const struct job_template *template = &submit->template;
    struct job_image *image = &list->image;
    char id[PATH_MAX];
    image->number = ++submit->list_number;
    submit_require_pattern(submit, image->number);
    if (!job_template_name_outputs(template, image, error) ||
        !job_template_name_id(template, image, id, error))
        return false;
    for (size_t i = 0; i < template->output_count; i++) {
        const char *place = job_image_place(image, i);
        if (place &&
            set_options_is_whole(&template->set, job_template_output(template, i), place) &&
            !output_checks_try(&submit->checks, place, error))
            return false;
    }
    if (!shard_choice_next(&submit->choice, id, error)) {
        submit->shard_lost = true;
        return false;
    }
    image->shard = submit->ctl->shard;
    if (!text_copy(list->id, sizeof list->id, id))
        return error_fail(error, STATUS_BAD_JOB, "the id %.40s... is longer than %d bytes", id,
                          JOB_ID_BYTES_MAX);
    return true;
}

/* Whether the names of outputs depend on the suffix of the images. */
static bool uses_ending(const struct job_template *template)
{
    for (size_t i = 0; i < template->output_count; i++) {
        const cJSON *output = job_template_output(template, i);
        const char *path = cJSON_GetStringValue(output), *members[] = {"path", "url", "key"};
        for (size_t k = 0; k < 3 && !path; k++)
            path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(output, members[k]));
        if (path && !cJSON_HasObjectItem(output, "format") && set_pattern_has_ending(path))
            return true;
    }
    return false;
}

/* Returns the open list for an image with this suffix, whose entry has at most `bytes`; NULL with
 * `error` set on failure. Adds at most one list to the batch. */
static struct image_list *find_list(struct submit *submit, const char *suffix, size_t bytes,
                                    struct error *error)
{
    char ending[LIST_ENDING_BYTES];
    if (!uses_ending(&submit->template))
        suffix = "";
    if (!text_copy(ending, sizeof ending, job_template_ending(&submit->template, suffix))) {
        error_set(error, STATUS_PATH_REFUSED, "its suffix is longer than %d bytes",
                  LIST_ENDING_BYTES - 1);
        return NULL;
    }
    for (size_t i = 0; i < submit->open_count; i++) {
        struct image_list *list = submit->open[i];
        if (strcmp(list->ending, ending) != 0)
            continue;
        if (list->bytes + bytes <= JOB_BYTES_MAX)
            return list;
        memmove(submit->open + 1, submit->open, i * sizeof *submit->open);
        submit->open[0] = list;
        lists_end_oldest(submit);
        break;
    }
    if (submit->open_count == OPEN_LISTS_MAX)
        lists_end_oldest(submit);
    struct image_list *list = image_list_new(submit->template.set.images_max);
    if (!list) { /* uncovered: memory */
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for a list of images");
        return NULL;
    }
    strcpy(list->ending, ending);
    if (begin(submit, list, error)) {
        submit->open[submit->open_count++] = list;
        return list;
    }
    image_list_free(list);
    return NULL;
}

static void refuse_list(struct submit *submit, struct image_list *list, const struct error *error)
{
    submit->progress.refused += list->count - 1;
    submit_refuse(submit, list->label ? list->label : "a list", error);
    image_list_free(list);
}

void lists_end_oldest(struct submit *submit)
{
    struct error error = {0};
    struct image_list *list = submit->open[0];
    remove_open(submit, 0);
    if (!image_list_set_label(list)) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "out of memory for a list");
        refuse_list(submit, list, &error);
        return;
    }
    char *job = job_template_fill(&submit->template, &list->image, list->id, &error);
    char *label = strdup(list->label);
    if (!job || !label || (submit->wait && !set_jobs_hold(&submit->sets, list))) {
        free(job);
        free(label);
        if (!error.status)
            error_set(&error, STATUS_OUT_OF_MEMORY, "out of memory for a list");
        refuse_list(submit, list, &error);
        return;
    }
    batch_add(&submit->batch, list->image.shard, job, label, list->id);
    submit->batch.jobs[submit->batch.count - 1].images = list->count;
    image_list_close(list);
    if (!submit->wait)
        image_list_free(list);
}

/* ---- images --------------------------------------------------------------------------------- */

/* Writes the name that %p means. `below`: the path below input_root; NULL: it is uploaded. */
static void write_stem(const struct source_file *file, const char *below, char stem[PATH_MAX])
{
    const char *slash = strrchr(file->name, '/'), *base = slash ? slash + 1 : file->name;
    if (below)
        text_copy(stem, PATH_MAX, below);
    else
        snprintf(stem, PATH_MAX, "%s%s", file->within, base);
    stem[member_stem(stem)] = '\0';
}

/* Checks the names of the outputs of the image that the list gets next, and remembers them. */
static bool check_outputs(struct submit *submit, const struct image_list *list, size_t index,
                          const struct source_file *file, const char *stem, struct error *error)
{
    char place[JOB_OUTPUTS_MAX][PATH_MAX];
    const struct job_template *template = &submit->template;
    size_t count = template->output_count;
    for (size_t i = 0; i < count; i++) {
        const char *pattern = job_image_place(&list->image, i);
        *place[i] = '\0';
        if (!pattern ||
            set_options_is_whole(&template->set, job_template_output(template, i), pattern))
            continue;
        if (!set_pattern_name(pattern, stem, file->is_url, index, place[i], error) ||
            !output_checks_try(&submit->checks, place[i], error))
            return false;
    }
    for (size_t i = 0; i < count; i++)
        if (*place[i])
            output_checks_add(&submit->checks, place[i], file->name);
    return true;
}

static cJSON *make_item(const struct submit *submit, const struct image_list *list,
                        const struct source_file *file, const char *below)
{
    char key[SUBMIT_KEY_BYTES];
    if (below)
        return cJSON_CreateString(below);
    cJSON *item = cJSON_CreateObject();
    set_job_input_key(&submit->template, &list->image, list->count, key);
    if (!cJSON_AddStringToObject(item, file->is_url ? "url" : "key",
                                 file->is_url ? file->path : key)) {
        cJSON_Delete(item); /* uncovered: memory */
        return NULL;
    }
    return item;
}

/* Returns the most bytes of the image's entry in a job: every byte can be escaped. */
static size_t bytes_of(const struct source_file *file, const char *below)
{
    return SUBMIT_KEY_BYTES + 16 +
           (below || file->is_url ? 6 * strlen(below ? below : file->path) : 0);
}

static bool check_item(const struct image_list *list, const cJSON *item, struct error *error)
{
    struct job_rules rules = {list->image.shard->options.namespace, 86400};
    struct job_place place;
    return job_check_place(item, "the image", &rules, &place, error) == STATUS_OK;
}

/* With --keys, uploads the image and the overlays. Fails without an error after an interrupt. */
static bool upload(struct submit *submit, const struct image_list *list,
                   const struct source_file *file, struct error *error)
{
    struct key_transfer *transfer = &submit->transfer;
    const struct ctl_shard *shard = list->image.shard;
    char key[SUBMIT_KEY_BYTES];
    if (!submit->template.keys)
        return true;
    set_job_input_key(&submit->template, &list->image, list->count, key);
    if (overlay_files_upload(&submit->template.overlays, shard, transfer->bytes_max,
                             &transfer->redis_lost, error) &&
        (file->is_url || key_file_put(shard->client, key, file->path, transfer->bytes_max,
                                      &transfer->redis_lost, error)))
        return true;
    if (transfer->redis_lost && !client_interrupted() && !submit_is_late(submit)) {
        ctl_use(submit->ctl, shard->index); /* uncovered: gone */
        ctl_no_answer(submit->ctl);
    }
    return false;
}

/* Checks the job with its first image: errors of the template show at once. */
static bool measure(struct submit *submit, struct image_list *list, struct error *error)
{
    if (!image_list_set_label(list))
        return error_fail(error, STATUS_OUT_OF_MEMORY, "out of memory for a list");
    char *job = job_template_fill(&submit->template, &list->image, list->id, error);
    list->bytes = job ? strlen(job) + LABEL_BYTES_MORE : 0;
    free(job);
    return list->bytes > 0;
}

static bool add(struct submit *submit, struct image_list *list, const struct source_file *file,
                const char *below, struct error *error)
{
    char stem[PATH_MAX];
    cJSON *item = make_item(submit, list, file, below);
    char *text = item ? cJSON_PrintUnformatted(item) : NULL;
    size_t bytes = text ? strlen(text) + 1 : 0;
    bool is_first = list->count == 0;
    write_stem(file, below, stem);
    free(text);
    if (!item || !check_item(list, item, error) ||
        !check_outputs(submit, list, list->count, file, stem, error) ||
        !upload(submit, list, file, error)) {
        cJSON_Delete(item);
        return false;
    }
    if (!image_list_add(list, item, file->name, stem))
        return error_fail(error, STATUS_OUT_OF_MEMORY, "out of memory for an image's name");
    if (is_first && !measure(submit, list, error)) {
        image_list_drop(list);
        return false;
    }
    list->bytes += is_first ? 0 : bytes;
    return true;
}

void lists_add(struct submit *submit, const struct source_file *file)
{
    struct error error = {0};
    struct image_list *list = NULL;
    char path[PATH_MAX];
    const char *below = NULL;
    bool is_path = !submit->template.keys && !file->is_url;
    submit->number++;
    output_file_add_input(&submit->checks.rules, file->path);
    if (!is_path || job_template_find_below(&submit->template, file->path, path, &below, &error))
        list = find_list(submit, source_suffix(file->name), bytes_of(file, below), &error);
    bool added = list && add(submit, list, file, below, &error);
    size_t index = submit->open_count;
    for (size_t i = 0; i < submit->open_count; i++)
        index = submit->open[i] == list ? i : index;
    if (added && list->count == submit->template.set.images_max) {
        memmove(submit->open + 1, submit->open, index * sizeof *submit->open);
        submit->open[0] = list;
        lists_end_oldest(submit);
    } else if (list && list->count == 0) {
        submit->list_number -= list->image.number == submit->list_number;
        remove_open(submit, index);
        image_list_free(list);
    }
    if (error.status)
        submit_refuse(submit, file->name, &error);
}

bool lists_are_held(const struct submit *submit)
{
    size_t most = 2 * submit->template.set.images_max, images = submit->sets.images;
    for (size_t i = 0; i < submit->open_count; i++)
        images += submit->open[i]->count;
    return submit->template.set.kind == SET_LIST && submit->template.keys &&
           images >= (most > KEY_TRANSFER_IMAGES ? most : KEY_TRANSFER_IMAGES);
}

void lists_clear(struct submit *submit)
{
    while (submit->open_count > 0)
        image_list_free(submit->open[--submit->open_count]);
}
