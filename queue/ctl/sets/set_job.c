#include "queue/ctl/sets/set_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/format.h"
#include "conf/text.h"
#include "queue/ctl/sets/set_pattern.h"
#include "queue/job/member_name.h"

static cJSON *get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* archive: room for the name of the archive. */
static struct set_name name_of(const struct set_options *set, const struct job_image *image,
                               char archive[PATH_MAX])
{
    struct set_name name = {
        .number = image->number, .ending = image->ending, .is_url = image->file.is_url};
    if (set->kind == SET_LIST)
        return name;
    const char *slash = strrchr(image->file.name, '/');
    text_copy(archive, PATH_MAX, slash ? slash + 1 : image->file.name);
    archive[member_stem(archive)] = '\0';
    name.archive = archive;
    return name;
}

bool set_job_name_output(const struct set_options *set, const struct job_image *image,
                         const cJSON *output, const char *place, char to[PATH_MAX],
                         struct error *error)
{
    char archive[PATH_MAX];
    struct set_name name = name_of(set, image, archive);
    const char *text = cJSON_GetStringValue(get(output, "format"));
    const struct format *format = text ? format_by_name(text) : NULL;
    if (format)
        name.ending = format->suffixes[0];
    return set_pattern_expand(place, set_options_is_whole(set, output, place), &name, to, error);
}

bool set_job_name_id(const struct set_options *set, const struct job_image *image,
                     const char *pattern, char id[PATH_MAX], struct error *error)
{
    char archive[PATH_MAX];
    struct set_name name = name_of(set, image, archive);
    name.ending = NULL;
    return set_pattern_expand(pattern, true, &name, id, error);
}

/* ---- inputs --------------------------------------------------------------------------------- */

static bool add_archive(const struct set_options *set, cJSON *inputs, const struct job_image *image,
                        const char *path)
{
    cJSON *url = image->file.is_url ? cJSON_AddObjectToObject(inputs, "archive") : NULL;
    bool ok = url ? cJSON_AddStringToObject(url, "url", image->file.path) != NULL
                  : path && cJSON_AddStringToObject(inputs, "archive", path);
    cJSON *list = ok && set->pattern_count > 0 ? cJSON_AddArrayToObject(inputs, "pattern") : NULL;
    for (size_t i = 0; i < set->pattern_count && ok; i++)
        ok = cJSON_AddItemToArray(list, cJSON_CreateString(set->patterns[i]));
    return ok;
}

bool set_job_add_inputs(const struct set_options *set, cJSON *job, const struct job_image *image,
                        const char *path)
{
    if (set->kind == SET_ARCHIVE) {
        cJSON *inputs = cJSON_AddObjectToObject(job, "inputs");
        return inputs && add_archive(set, inputs, image, path);
    }
    return cJSON_AddItemReferenceToObject(job, "inputs", (cJSON *)image->inputs);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void write_key(const struct job_template *template, const struct job_image *image,
                      size_t output, const char *index, char key[SUBMIT_KEY_BYTES])
{
    snprintf(key, SUBMIT_KEY_BYTES, "%s:img:%s:set%" PRIu64 ":%s:out%zu",
             image->shard->options.namespace, template->run, image->number, index, output + 1);
}

void set_job_input_key(const struct job_template *template, const struct job_image *image,
                       size_t index, char key[SUBMIT_KEY_BYTES])
{
    snprintf(key, SUBMIT_KEY_BYTES, "%s:img:%s:set%" PRIu64 ":%06zu:in",
             image->shard->options.namespace, template->run, image->number, index);
}

void set_job_output_key(const struct job_template *template, const struct job_image *image,
                        size_t output, char key[SUBMIT_KEY_BYTES])
{
    char plain[SUBMIT_KEY_BYTES];
    const char *ns = image->shard->options.namespace;
    size_t to = 0;
    write_key(template, image, output, "%n", plain);
    for (size_t from = 0; plain[from] && to + 2 < SUBMIT_KEY_BYTES; from++) {
        if (plain[from] == '%' && from < strlen(ns))
            key[to++] = '%'; /* the daemon reads %% as one percent sign */
        key[to++] = plain[from];
    }
    key[to] = '\0';
}

void set_job_image_key(const struct job_template *template, const struct job_image *image,
                       size_t output, size_t index, char key[SUBMIT_KEY_BYTES])
{
    char digits[24];
    snprintf(digits, sizeof digits, "%06zu", index);
    write_key(template, image, output, digits, key);
}
