/* inputs.c - see inputs.h. */
#include "queue/job/inputs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/format.h"
#include "conf/limits.h"
#include "conf/mask.h"
#include "queue/job/member_name.h"

static_assert(sizeof(struct job_place) <= JOB_PLACE_BYTES, "limits.h counts each place of a list");

/* ---- for the result of a refused job -------------------------------------------------------- */

static const char *name_of(const cJSON *item, size_t most)
{
    const char *name = cJSON_GetStringValue(item);
    return name && *name && strlen(name) <= most ? name : NULL;
}

static void note_place(struct job_place *place, const cJSON *input)
{
    const cJSON *path = cJSON_IsObject(input) ? member(input, "path") : input;
    place->path = name_of(path, JOB_PATH_BYTES_MAX);
    place->key = place->path ? NULL : name_of(member(input, "key"), JOB_PATH_BYTES_MAX);
    place->url =
        job_place_is_given(place) ? NULL : name_of(member(input, "url"), JOB_URL_BYTES_MAX);
}

void note_inputs(struct job *job)
{
    const cJSON *input = member(job->root, "input"), *inputs = member(job->root, "inputs");
    const cJSON *archive = member(inputs, "archive"), *folder = member(inputs, "folder");
    if (input || !inputs) {
        note_place(&job->input, input);
    } else if (cJSON_IsArray(inputs)) {
        job->source = JOB_LIST;
    } else if (archive) {
        job->source = JOB_ARCHIVE;
        note_place(&job->input, archive);
    } else if (folder) {
        job->source = JOB_FOLDER;
        job->input.path = name_of(folder, JOB_PATH_BYTES_MAX);
    }
}

/* ---- inputs --------------------------------------------------------------------------------- */

static bool read_list(const struct check *check, struct job *job, const cJSON *list)
{
    const cJSON *item;
    int count = cJSON_GetArraySize(list);
    if (count < 1 || count > JOB_INPUTS_MAX)
        return refuse(check, "inputs has %d places; it must have 1 to %d", count, JOB_INPUTS_MAX);
    job->inputs = calloc((size_t)count, sizeof *job->inputs);
    if (!job->inputs) /* uncovered: memory */
        return refuse_as(check, STATUS_OUT_OF_MEMORY, "no memory for the inputs of a job");
    job->input_count = (size_t)count;
    struct job_place *place = job->inputs;
    cJSON_ArrayForEach(item, list)
    {
        char where[32];
        snprintf(where, sizeof where, "inputs[%td]", place - job->inputs);
        if (!read_place(check, item, where, input_keys, place++))
            return false;
    }
    return true;
}

static bool read_pattern(const struct check *check, struct job *job, const cJSON *item)
{
    const char *pattern = cJSON_GetStringValue(item);
    size_t length = pattern ? strlen(pattern) : 0;
    if (!pattern)
        return refuse(check,
                      "inputs.pattern is %s; it must be a string, or an array of 1 to %d strings",
                      shown(item), JOB_PATTERNS_MAX);
    if (length < 1 || length > JOB_PATTERN_BYTES_MAX)
        return refuse(check, "a pattern of inputs has %zu bytes; it must have 1 to %d", length,
                      JOB_PATTERN_BYTES_MAX);
    job->patterns[job->pattern_count++] = pattern;
    return true;
}

static bool read_patterns(const struct check *check, struct job *job, const cJSON *inputs)
{
    const cJSON *given = member(inputs, "pattern"), *item;
    if (!given)
        return true;
    if (!cJSON_IsArray(given))
        return read_pattern(check, job, given);
    int count = cJSON_GetArraySize(given);
    if (count < 1 || count > JOB_PATTERNS_MAX)
        return refuse(check, "inputs.pattern has %d patterns; it must have 1 to %d", count,
                      JOB_PATTERNS_MAX);
    cJSON_ArrayForEach(item, given)
    {
        if (!read_pattern(check, job, item))
            return false;
    }
    return true;
}

/* "." is input_root. A slash at the end is left out. */
static bool read_folder(const struct check *check, struct job *job, const cJSON *folder)
{
    char *path = cJSON_GetStringValue(folder);
    size_t length = path ? strlen(path) : 0;
    if (length > 1 && path[length - 1] == '/')
        path[length - 1] = '\0';
    if (!(path && strcmp(path, ".") == 0) && !check_path(check, folder, "inputs.folder"))
        return false;
    job->input = (struct job_place){.path = path};
    return true;
}

/* A folder or an archive. */
static bool read_set(const struct check *check, struct job *job, const cJSON *inputs)
{
    const cJSON *folder = member(inputs, "folder"), *archive = member(inputs, "archive");
    if (!check_keys(check, inputs, "inputs", inputs_keys))
        return false;
    if (!folder == !archive)
        return refuse(check, "inputs must have %s",
                      folder ? "a folder or an archive, not both" : "a folder or an archive");
    if (folder && !read_folder(check, job, folder))
        return false;
    if (archive && !read_place(check, archive, "inputs.archive", input_keys, &job->input))
        return false;
    return read_patterns(check, job, inputs);
}

static bool read_on_error(const struct check *check, struct job *job)
{
    const cJSON *item = member(job->root, "on_error");
    const char *given = cJSON_GetStringValue(item);
    if (!item)
        return true;
    if (!job_is_set(job))
        return refuse(check, "on_error is for a job with inputs; this job has one input");
    job->fails_on_error = given && strcmp(given, "fail") == 0;
    return job->fails_on_error || (given && strcmp(given, "skip") == 0) ||
           refuse(check, "on_error is %s; it must be \"skip\" or \"fail\"", shown(item));
}

bool read_inputs(const struct check *check, struct job *job)
{
    const cJSON *input = member(job->root, "input"), *inputs = member(job->root, "inputs");
    if (input && inputs)
        return refuse(check, "the job has input and inputs; it must have one or the other");
    if (!input && !inputs)
        return refuse(check, "the job has no input");
    if (inputs && !cJSON_IsArray(inputs) && !cJSON_IsObject(inputs))
        return refuse(check,
                      "inputs is %s; it must be an array of places, or an object with a folder "
                      "or an archive",
                      shown(inputs));
    return (input                   ? read_place(check, input, "input", input_keys, &job->input)
            : cJSON_IsArray(inputs) ? read_list(check, job, inputs)
                                    : read_set(check, job, inputs)) &&
           read_on_error(check, job);
}

/* ---- outputs of many images ----------------------------------------------------------------- */

static bool check_template(const struct check *check, const struct job *job, const char *where,
                           const struct job_place *place)
{
    const char *text = place->path ? place->path : place->key ? place->key : place->url;
    bool names = false;
    const char *fault = text ? member_template_fault(text, &names) : NULL;
    if (fault)
        return refuse(check,
                      "%s has \"%%%.*s\"; in the output of a job with inputs, a %% must begin %%p "
                      "(name), %%n (index) or %%%% (a percent sign)",
                      where, fault[1] > ' ' && fault[1] < 0x7F, fault + 1);
    if (!text || names)
        return true;
    char many[32] = "many";
    if (job->source == JOB_LIST)
        snprintf(many, sizeof many, "%zu", job->input_count);
    return refuse(check, "%s names one file for %s images; put %%p or %%n into it%s", where, many,
                  job->source == JOB_ANIMATION
                      ? place->path ? ", end it in .webp, .avif or .tar, or set pack to \"array\""
                                    : "; an animation, a tar or an array needs a path"
                  : place->path ? ", end it in .tar, or set pack to \"array\""
                                : "");
}

/* The daemon checks a format that does not exist. */
static bool check_array(const struct check *check, const char *where,
                        const struct job_output *output)
{
    const struct format *format =
        output->format ? format_by_name(output->format) : format_of_path(output->place.path);
    if (format ? format->tensor : output->format != NULL)
        return true;
    return refuse(check,
                  "%s.pack is \"array\", but the format is %s; an array must be \"npy\" or \"raw\"",
                  where, format ? format->name : "not given");
}

static bool ends_in_tar(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    return length >= 4 && strcasecmp(path + length - 4, ".tar") == 0;
}

/* A path without a template, for an animation of all frames. */
static bool is_movie(const struct job *job, const struct job_output *output)
{
    const char *path = output->place.path;
    bool names = false;
    if (job->source != JOB_ANIMATION || !path || (member_template_fault(path, &names), names))
        return false;
    const struct format *format =
        output->format ? format_by_name(output->format) : format_of_path(path);
    return format && format->movies;
}

bool read_pack(const struct check *check, const struct job *job, const cJSON *object,
               const char *where, struct job_output *output)
{
    const cJSON *item = member(object, "pack");
    const char *given = cJSON_GetStringValue(item);
    bool is_tar = given && strcmp(given, "tar") == 0;
    bool is_array = given && strcmp(given, "array") == 0;
    if (item && !job_is_set(job))
        return refuse(check, "%s.pack is for a job with inputs; this job has one input", where);
    if (item && !is_tar && !is_array)
        return refuse(check, "%s.pack is %s; it must be \"tar\" or \"array\"", where, shown(item));
    if (item && !output->place.path)
        return refuse(check, "%s.pack is \"%s\", but %s is written to a path; this output has a %s",
                      where, given, is_tar ? "a tar" : "an array",
                      output->place.key ? "key" : "url");
    if (!job_is_set(job))
        return true;
    if (!item && is_movie(job, output)) {
        output->pack = JOB_MOVIE;
        return true;
    }
    output->pack = is_array                                               ? JOB_ARRAY
                   : is_tar || (!item && ends_in_tar(output->place.path)) ? JOB_TAR
                                                                          : JOB_FILES;
    return output->pack == JOB_FILES   ? check_template(check, job, where, &output->place)
           : output->pack == JOB_ARRAY ? check_array(check, where, output)
                                       : true;
}
