#include "queue/ctl/submit/job_template.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/format.h"
#include "conf/text.h"
#include "queue/ctl/sets/set_job.h"
#include "queue/ctl/sets/set_pattern.h"
#include "queue/ctl/submit/ops.h"
#include "queue/ctl/submit/pattern.h"
#include "queue/job/job.h"
#include "queue/job/json.h"

static cJSON *get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* Returns the object with the output `index`: the job itself, or an element of its `outputs`. */
static cJSON *holder_of(const cJSON *job, size_t index)
{
    const cJSON *list = get(job, "outputs");
    return list ? cJSON_GetArrayItem(list, (int)index) : (cJSON *)job;
}

/* Returns the pattern of an output's path; "": it has none. */
static const char *path_of(const cJSON *output)
{
    const char *text = cJSON_GetStringValue(cJSON_IsString(output) ? output : get(output, "path"));
    return text ? text : "";
}

/* Returns the pattern of an output's URL or path; "": it has neither. */
static const char *destination_of(const cJSON *output)
{
    const char *url = cJSON_GetStringValue(get(output, "url"));
    return url ? url : path_of(output);
}

static const char *format_of(const cJSON *output)
{
    return cJSON_GetStringValue(get(output, "format"));
}

/* ---- the template -------------------------------------------------------------------------- */

static void require_input(struct ctl *ctl, const struct error *error)
{
    if (error->status != STATUS_INPUT_UNREADABLE)
        return;
    ctl_say("%s", error->text);
    ctl_end(ctl, CTL_NO_INPUT);
}

static void read_template(struct job_template *template, struct ctl *ctl)
{
    const char *name = ctl_value(ctl, "job-file");
    struct error error = {0};
    size_t length;
    if (!name) {
        template->job = cJSON_CreateObject();
        return;
    }
    char *text = ops_read_file(name, &length, &error);
    require_input(ctl, &error);
    template->job = json_parse(text, length, "meta", &error);
    free(text);
    if (error.status == STATUS_OUT_OF_MEMORY) /* uncovered: memory */
        ctl_out_of_memory(ctl, "a job");
    if (!template->job)
        ctl_usage(ctl, "%s: %s", name, error.text);
    if (!cJSON_IsObject(template->job))
        ctl_usage(ctl, "%s must hold a job as a JSON object", name);
    cJSON_DeleteItemFromObjectCaseSensitive(template->job, "input"); /* FILE replaces it */
    cJSON_DeleteItemFromObjectCaseSensitive(template->job, "inputs");
}

static void read_ops(struct job_template *template, struct ctl *ctl)
{
    const char *text = ctl_value(ctl, "ops"), *file = ctl_value(ctl, "ops-file");
    struct error error = {0};
    if (text && file)
        ctl_usage(ctl, "--ops and --ops-file both give operations; use one of them");
    if (!text && !file)
        return;
    if (get(template->job, "ops") || get(template->job, "outputs"))
        ctl_usage(ctl, "--ops%s and the job both give operations; use one of them",
                  file ? "-file" : "");
    cJSON *ops = text ? ops_parse(text, &error) : ops_load(file, &error);
    require_input(ctl, &error);
    if (error.status)
        ctl_usage(ctl, "%s", error.text);
    if (!json_set(template->job, "ops", ops))
        ctl_out_of_memory(ctl, "the operations");
}

/* Reads the value of a key of the template. Keeps it as text, so that numbers keep their digits,
 * except for the keys in `trees`, whose values this program reads. */
static cJSON *read_value(const char *key, const char *text)
{
    static const char *const trees[] = {"output", "outputs", "ops", "id", "priority", "frames"};
    struct error ignored = {0};
    if (json_check(text, strlen(text), &ignored) != STATUS_OK)
        return cJSON_CreateString(text);
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        if (strcmp(key, trees[i]) == 0)
            return cJSON_Parse(text);
    return cJSON_CreateRaw(text);
}

/* A key that begins so is one of the output. */
#define OF_OUTPUT "output."

static bool is_of_output(const char *set)
{
    return strncmp(set, OF_OUTPUT, strlen(OF_OUTPUT)) == 0;
}

static void read_set(struct job_template *template, struct ctl *ctl, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        ctl_usage(ctl, "--set is \"%s\"; it must be KEY=JSON", text);
    char *key = strndup(text, (size_t)(equals - text));
    if (key && (strcmp(key, "input") == 0 || strcmp(key, "inputs") == 0))
        ctl_usage(ctl, "--set is \"%s\"; give the input as FILE instead", text);
    if (!key || !json_set(template->job, key, read_value(key, equals + 1)))
        ctl_out_of_memory(ctl, "--set"); /* uncovered: memory */
    free(key);
}

static void read_sets(struct job_template *template, struct ctl *ctl)
{
    for (int i = 0; i < ctl->value_count; i++)
        if (strcmp(ctl->values[i].name, "set") == 0 && !is_of_output(ctl->values[i].value))
            read_set(template, ctl, ctl->values[i].value);
    if (template->replies && (get(template->job, "meta") || get(template->job, "reply_to")))
        ctl_usage(ctl, "--wait and --keys set meta and reply_to; remove them from the job");
}

static void read_id(struct job_template *template, struct ctl *ctl)
{
    cJSON *own = cJSON_DetachItemFromObjectCaseSensitive(template->job, "id");
    const char *given = ctl_value(ctl, "id"), *id = given ? given : cJSON_GetStringValue(own);
    char made[sizeof template->run + 8];
    if (own && !cJSON_IsString(own))
        ctl_usage(ctl, "the job's id must be a string");
    snprintf(made, sizeof made, "%s-%%i", template->run);
    /* So that the user can read the result, and so that the progress of a set can be read. */
    if (!id && (!template->replies || template->set.kind) && !get(template->job, "unique"))
        id = made;
    template->made_ids = id == made;
    template->id = id ? strdup(id) : NULL;
    if (id && !template->id)
        ctl_out_of_memory(ctl, "an id");
    cJSON_Delete(own);
}

/* Reads the template's priority. An invalid one is reported when the first job is checked. */
static void read_priority(struct job_template *template, struct ctl *ctl)
{
    long long given = ctl_whole(ctl, "priority", 0, JOB_PRIORITIES - 1, -1);
    if (given >= 0 && !json_set(template->job, "priority", cJSON_CreateNumber((double)given)))
        ctl_out_of_memory(ctl, "--priority"); /* uncovered: memory */
    const cJSON *item = get(template->job, "priority");
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    template->priority = value >= 0 && value < JOB_PRIORITIES ? (int)value : -1;
}

static void read_page(struct job_template *template, struct ctl *ctl)
{
    long long page = ctl_whole(ctl, "page", 0, JOB_PAGE_MAX, -1);
    const char *frames = ctl_value(ctl, "frames");
    if ((page >= 0 && !json_set(template->job, "page", cJSON_CreateNumber((double)page))) ||
        (frames && !json_set(template->job, "frames", set_options_frames(frames))))
        ctl_out_of_memory(ctl, "--page"); /* uncovered: memory */
}

void job_template_list(const struct job_template *template, const struct ctl_shard *shard,
                       char key[SUBMIT_KEY_BYTES])
{
    const char *ns = shard->options.namespace;
    if (template->priority < 0)
        snprintf(key, SUBMIT_KEY_BYTES, "%s:jobs", ns);
    else
        snprintf(key, SUBMIT_KEY_BYTES, "%s:jobs:%d", ns, template->priority);
}

void job_template_reply_to(const struct job_template *template, const struct ctl_shard *shard,
                           char key[SUBMIT_KEY_BYTES])
{
    snprintf(key, SUBMIT_KEY_BYTES, "%s:reply:%s", shard->options.namespace, template->run);
}

/* ---- outputs ------------------------------------------------------------------------------- */

static const char *read_format(struct ctl *ctl)
{
    const char *name = ctl_value(ctl, "format");
    const struct format *found = name ? format_by_name(name) : NULL;
    char known[FORMAT_LIST_BYTES];
    if (name && !found)
        ctl_usage(ctl, "--format is \"%s\"; it must be %s", name,
                  format_list(FORMAT_NAMES, 0, "%s", " or ", known));
    return found ? found->name : NULL;
}

/* Returns the part of --out below output_root, if it is a path of the daemon. */
static const char *below_output_root(struct job_template *template, struct ctl *ctl,
                                     const char *out)
{
    const char *root = template->output_root;
    size_t length = strlen(root);
    if (template->keys || *out != '/')
        return out;
    if (strncmp(out, root, length) != 0 || out[length] != '/' || !out[length + 1])
        ctl_usage(ctl,
                  "--out is \"%s\"; it must be below output_root (%s), or use --keys to "
                  "write anywhere",
                  out, root);
    return out + length + 1;
}

/* Ends the program if --out has the suffix of another format, or one that is nearly right. */
static void check_out_suffix(struct ctl *ctl, const char *suffixed, bool is_url)
{
    char known[FORMAT_LIST_BYTES];
    const char *near, *wrong = format_wrong_suffix(suffixed, is_url, &near);
    if (wrong && near)
        ctl_usage(ctl,
                  "--out is \"%s\", which ends in %s; did you mean .%s? A folder's name ends in "
                  "/",
                  suffixed, wrong, near);
    if (wrong)
        ctl_usage(ctl,
                  "--out is \"%s\", which ends in %s; it must end in %s, or in / if it is a "
                  "folder",
                  suffixed, wrong, format_list(FORMAT_SUFFIXES, 0, "%s", " or ", known));
}

static void read_pattern(struct job_template *template, struct ctl *ctl, const char *out,
                         bool formatted, char pattern[PATH_MAX])
{
    char name[PATH_MAX];
    bool is_url = source_is_url(out), is_set = template->set.kind;
    out = below_output_root(template, ctl, out);
    text_copy_url(name, sizeof name, out); /* the suffix is before the query of a URL */
    const char *suffixed = is_url ? name : out;
    bool is_whole = is_set && set_options_is_whole(&template->set, NULL, out);
    if (!formatted && !is_whole)
        check_out_suffix(ctl, suffixed, is_url);
    if (is_set) {
        set_options_read_out(&template->set, ctl, out, template->keys, pattern);
        return;
    }
    bool folder = !pattern_varies(out) && !format_by_suffix(source_suffix(suffixed)) &&
                  !(is_url && strchr(out, '?'));
    const char *slash = folder && out[strlen(out) - 1] != '/' ? "/" : "";
    if (strlen(out) + 20 > PATH_MAX) /* uncovered: slip */
        ctl_usage(ctl, "--out is too long");
    if (strcmp(out, ".") == 0 && !template->keys) /* uncovered: slip */
        strcpy(pattern, "%p%n.%e");
    else
        snprintf(pattern, PATH_MAX, "%s%s%s", out, slash, folder ? "%p%n.%e" : "");
}

static bool add_output(const struct set_options *set, cJSON *job, const char *pattern,
                       const char *format, double quality)
{
    const char *kind = source_is_url(pattern) ? "url" : "path";
    if (!format && quality == 0 && *kind == 'p' && !set->pack)
        return cJSON_AddStringToObject(job, "output", pattern) != NULL;
    cJSON *output = cJSON_AddObjectToObject(job, "output");
    return output && cJSON_AddStringToObject(output, kind, pattern) &&
           (!format || cJSON_AddStringToObject(output, "format", format)) &&
           (quality == 0 || cJSON_AddNumberToObject(output, "quality", quality)) &&
           set_options_add_output(set, output);
}

static void read_out(struct job_template *template, struct ctl *ctl)
{
    const char *out = ctl_value(ctl, "out"), *format = read_format(ctl);
    bool none = ctl_value(ctl, "no-output") != NULL;
    const struct parameter_row *row = &encoder_parameters[PARAMETER_quality];
    double quality = ctl_number(ctl, "quality", row->min, row->max, 0);
    char pattern[PATH_MAX];
    if (get(template->job, "output") || get(template->job, "outputs")) {
        none = none && ctl_value(ctl, "job-file");
        const char *pack = template->set.pack;
        if (out || none || format || quality > 0 || pack)
            ctl_usage(ctl, "the job already has outputs; remove --%s",
                      out      ? "out"
                      : none   ? "no-output"
                      : format ? "format"
                      : pack   ? "pack"
                               : "quality");
        return;
    }
    if (none && out)
        ctl_usage(ctl, "--out and --no-output exclude each other");
    if (none)
        return;
    if (!out || !*out)
        ctl_usage(ctl, "--out is missing: give a folder, or a pattern such as edges/%%n.png; use "
                  "--no-output if you only want values");
    read_pattern(template, ctl, out, format != NULL, pattern);
    if (!add_output(&template->set, template->job, pattern, format,
                    quality)) /* uncovered: memory */
        ctl_out_of_memory(ctl, "--out");
}

/* Sets a key of the only output of the job. */
static void set_in_output(struct job_template *template, struct ctl *ctl, const char *option,
                          const char *key, cJSON *value)
{
    cJSON *output = get(template->job, "output");
    if (!output)
        ctl_usage(ctl, "%s sets a key of the output, but the job has %s", option,
                  get(template->job, "outputs") ? "a list of outputs" : "none");
    if (cJSON_IsString(output)) {
        cJSON *object = cJSON_CreateObject();
        bool ok = object && cJSON_AddStringToObject(object, "path", output->valuestring);
        if (!ok || !json_set(template->job, "output", object))
            ctl_out_of_memory(ctl, "an output"); /* uncovered: memory */
        output = object;
    }
    if (!json_set(output, key, value))
        ctl_out_of_memory(ctl, "an output"); /* uncovered: memory */
}

static void read_output_sets(struct job_template *template, struct ctl *ctl)
{
    if (ctl_value(ctl, "recompress"))
        set_in_output(template, ctl, "--recompress", "recompress", cJSON_CreateTrue());
    for (int i = 0; i < ctl->value_count; i++) {
        const char *text = ctl->values[i].value, *equals = text ? strchr(text, '=') : NULL;
        if (strcmp(ctl->values[i].name, "set") != 0 || !is_of_output(text))
            continue;
        const char *name = text + strlen(OF_OUTPUT);
        if (!equals || equals <= name)
            ctl_usage(ctl, "--set is \"%s\"; it must be " OF_OUTPUT "KEY=JSON", text);
        char *key = strndup(name, (size_t)(equals - name));
        if (!key)
            ctl_out_of_memory(ctl, "--set"); /* uncovered: memory */
        cJSON *value = cJSON_Parse(equals + 1);
        set_in_output(template, ctl, "--set " OF_OUTPUT "KEY", key,
                      value ? value : cJSON_CreateString(equals + 1));
        free(key);
    }
}

static bool is_recompressed(const cJSON *output)
{
    return cJSON_IsTrue(get(output, "recompress"));
}

const char *job_template_ending(const struct job_template *template, const char *suffix)
{
    const struct format *from = template->recompresses ? format_by_suffix(suffix) : NULL;
    const struct format *to = from ? format_recompressed(from) : NULL;
    return to ? to->suffixes[0] : format_output_suffix(suffix);
}

static void count_outputs(struct job_template *template)
{
    const cJSON *list = get(template->job, "outputs");
    int count = list ? cJSON_GetArraySize(list) : 1;
    template->output_count = count < JOB_OUTPUTS_MAX ? (size_t)count : JOB_OUTPUTS_MAX;
    for (size_t i = 0; i < template->output_count; i++) {
        const cJSON *output = get(holder_of(template->job, i), "output");
        const char *place = destination_of(output);
        template->recompresses |= is_recompressed(output);
        if (*place && !(template->set.kind ? set_pattern_names_jobs : pattern_varies)(place))
            template->single = place;
    }
}

static void read_roots(struct job_template *template, struct ctl *ctl)
{
    if (template->keys)
        return;
    if (!realpath(ctl->options.input_root, template->input_root)) {
        ctl_say("input_root is %s: %s; use --keys to send images through Redis",
                ctl->options.input_root, strerror(errno));
        ctl_end(ctl, CTL_NO_INPUT);
    }
    /* The folder may exist only on the hosts of the daemons. */
    if (!realpath(ctl->options.output_root, template->output_root))
        text_copy(template->output_root, sizeof template->output_root, ctl->options.output_root);
}

void job_template_read(struct job_template *template, struct ctl *ctl)
{
    uint64_t dice = 0; /* random, so that the name is unique on all hosts */
    if (getrandom(&dice, sizeof dice, 0) != (ssize_t)sizeof dice) /* uncovered: screen */
        dice = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    *template = (struct job_template){.keys = ctl_value(ctl, "keys") != NULL};
    template->replies = template->keys || ctl_value(ctl, "wait");
    snprintf(template->run, sizeof template->run, "ctl-%016" PRIx64, dice);
    read_template(template, ctl);
    read_sets(template, ctl);
    read_page(template, ctl);
    set_options_read(&template->set, ctl, cJSON_GetStringValue(get(template->job, "frames")));
    read_id(template, ctl);
    read_priority(template, ctl);
    read_roots(template, ctl);
    read_out(template, ctl);
    read_output_sets(template, ctl);
    read_ops(template, ctl);
    count_outputs(template);
    template->overlays.run = template->run;
    overlay_files_find(&template->overlays, ctl, template->job,
                       template->keys ? NULL : template->input_root);
}

void job_template_clear(struct job_template *template)
{
    cJSON_Delete(template->job);
    free(template->id);
}

const cJSON *job_template_output(const struct job_template *template, size_t index)
{
    return get(holder_of(template->job, index), "output");
}

/* ---- the job of an image ------------------------------------------------------------------- */

/* The format of an output, for the suffix of its name; NULL: that of the image. */
static const char *named_format(const struct job_template *template, const struct job_image *image,
                                const cJSON *output)
{
    const char *given = format_of(output);
    if (given || !is_recompressed(output))
        return given;
    return job_template_ending(template, source_suffix(image->file.name));
}

bool job_template_name_outputs(const struct job_template *template, struct job_image *image,
                               struct error *error)
{
    char out[PATH_MAX];
    for (size_t i = 0; i < template->output_count; i++) {
        const cJSON *output = get(holder_of(template->job, i), "output");
        const char *place = destination_of(output);
        bool is_path = *path_of(output);
        if (template->set.kind
                ? !set_job_name_output(&template->set, image, output, place, out, error)
                : !pattern_expand(place, image, named_format(template, image, output), out, error))
            return false;
        char **name = is_path ? &image->outs[i] : &image->urls[i];
        if (*out && !(*name = strdup(out)))
            return error_fail(error, STATUS_OUT_OF_MEMORY, "out of memory for a result's name");
    }
    return true;
}

void job_image_clear(struct job_image *image)
{
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++) {
        free(image->outs[i]);
        free(image->urls[i]);
        image->outs[i] = image->urls[i] = NULL;
    }
    image->number = 0;
}

void job_template_input_key(const struct job_template *template, const struct job_image *image,
                            char key[SUBMIT_KEY_BYTES])
{
    snprintf(key, SUBMIT_KEY_BYTES, "%s:img:%s:%" PRIu64, image->shard->options.namespace,
             template->run, image->number);
}

void job_template_output_key(const struct job_template *template, const struct job_image *image,
                             size_t index, char key[SUBMIT_KEY_BYTES])
{
    snprintf(key, SUBMIT_KEY_BYTES, "%s:img:%s:%" PRIu64 ":out%zu",
             image->shard->options.namespace, template->run, image->number, index + 1);
}

bool job_template_find_below(const struct job_template *template, const char *file,
                             char path[PATH_MAX], const char **below, struct error *error)
{
    const char *root = template->input_root;
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (!realpath(file, path)) /* uncovered: slip */
        return error_fail(error, STATUS_INPUT_MISSING, "%s", strerror(errno));
    if (strncmp(path, root, length) != 0 || path[length] != '/')
        return error_fail(error, STATUS_PATH_REFUSED,
                          "the file is not below input_root (%.120s); copy it there, or send it "
                          "through Redis with --keys", root);
    *below = path + length + 1;
    return true;
}

/* The result's suffix must match its format, or other programs would misread the file. */
static bool check_suffix(const cJSON *output, const char *name, struct error *error)
{
    const char *format = format_of(output), *suffix = source_suffix(name);
    const struct format *meant = format_by_suffix(suffix);
    if (!format || !meant || meant == format_by_name(format))
        return true;
    return error_fail(error, STATUS_BAD_JOB, "the format is %.20s, but the output %.200s ends in "
                      ".%s; remove the format, or change the suffix", format, name, suffix);
}

/* If results have the format of their image (%e), quality is dropped for formats that do not take
 * it. If the user chose the format by suffix or by name, quality is an error. */
static bool check_quality(cJSON *output, const char *pattern, const char *name,
                          struct error *error)
{
    const char *name_given = format_of(output);
    const struct format *format =
        name_given ? format_by_name(name_given) : format_by_suffix(source_suffix(name));
    char takers[FORMAT_LIST_BYTES];
    size_t length = strlen(pattern);
    if (!get(output, "quality") || !format || (format->parameters & TAKES(quality)))
        return true;
    if (!name_given && length > 2 && strcmp(pattern + length - 2, "%e") == 0) {
        cJSON_DeleteItemFromObjectCaseSensitive(output, "quality");
        return true;
    }
    return error_fail(error, STATUS_BAD_JOB,
                      "quality applies to %s, but the output %.200s is %s; remove the quality",
                      format_list(FORMAT_TITLES, TAKES(quality), "%s", " and ", takers), name,
                      format->noun);
}

/* Replaces the path of an output on this machine by a key. A key has no suffix, so this also sets
 * the format. */
static bool use_key(const struct job_template *template, cJSON *holder, cJSON *output,
                    const char *out, const struct job_image *image, size_t index)
{
    const struct format *format = format_by_suffix(source_suffix(out));
    char key[SUBMIT_KEY_BYTES];
    cJSON *keyed = cJSON_IsObject(output) ? cJSON_Duplicate(output, true) : cJSON_CreateObject();
    if (template->set.kind)
        set_job_output_key(template, image, index, key);
    else
        job_template_output_key(template, image, index, key);
    cJSON_DeleteItemFromObjectCaseSensitive(keyed, "path");
    if (keyed && cJSON_AddStringToObject(keyed, "key", key) &&
        (get(keyed, "format") || !format ||
         cJSON_AddStringToObject(keyed, "format", format->name)) &&
        (get(keyed, "ttl_s") || cJSON_AddNumberToObject(keyed, "ttl_s", OUTPUT_KEY_TTL_S)))
        return json_set(holder, "output", keyed);
    cJSON_Delete(keyed); /* uncovered: slip */
    return false;
}

static bool fill_output(const struct job_template *template, cJSON *job,
                        const struct job_image *image, size_t index, struct error *error)
{
    cJSON *holder = holder_of(job, index), *output = get(holder, "output");
    const char *key = cJSON_GetStringValue(get(output, "key")), *url = image->urls[index];
    const char *pattern = key ? key : destination_of(output);
    char name[PATH_MAX];
    if (!*pattern)
        return true; /* values only, or an error that job_parse reports */
    bool is_set = template->set.kind;
    if (key && !(is_set ? set_job_name_output(&template->set, image, output, key, name, error)
                        : pattern_expand(key, image, format_of(output), name, error)))
        return false;
    if (url)
        text_copy_url(name, sizeof name, url);
    else if (!key)
        text_copy(name, sizeof name, image->outs[index] ? image->outs[index] : "");
    if (!set_options_is_whole(&template->set, output, name) &&
        (!check_suffix(output, name, error) || !check_quality(output, pattern, name, error)))
        return false;
    return key                      ? json_set(output, "key", cJSON_CreateString(name))
           : url                    ? json_set(output, "url", cJSON_CreateString(url))
           : template->keys         ? use_key(template, holder, output, name, image, index)
           : cJSON_IsString(output) ? json_set(holder, "output", cJSON_CreateString(name))
                                    : json_set(output, "path", cJSON_CreateString(name));
}

static bool add_input(const struct job_template *template, cJSON *job, const char *path,
                      const struct job_image *image)
{
    char key[SUBMIT_KEY_BYTES];
    if (template->set.kind && template->set.kind != SET_FRAMES)
        return set_job_add_inputs(&template->set, job, image, path) &&
               set_options_add_job(&template->set, job);
    if (!template->keys && !image->file.is_url)
        return cJSON_AddStringToObject(job, "input", path) != NULL;
    cJSON *input = cJSON_AddObjectToObject(job, "input");
    if (image->file.is_url)
        return input && cJSON_AddStringToObject(input, "url", image->file.path);
    job_template_input_key(template, image, key);
    return input && cJSON_AddStringToObject(input, "key", key);
}

static bool add_reply(const struct job_template *template, cJSON *job,
                      const struct job_image *image)
{
    char shown[PATH_MAX], reply_to[SUBMIT_KEY_BYTES];
    cJSON *meta = cJSON_AddObjectToObject(job, "meta");
    text_copy(shown, sizeof shown, image->file.name);
    text_make_printable(shown);
    job_template_reply_to(template, image->shard, reply_to);
    return meta && cJSON_AddNumberToObject(meta, "n", (double)image->number) &&
           cJSON_AddStringToObject(meta, "file", shown) &&
           cJSON_AddStringToObject(job, "reply_to", reply_to);
}

/* Copies members of the template to a job: those about results, or all others. */
static bool add_template(const struct job_template *template, cJSON *job, bool about_results)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, template->job) {
        const char *key = item->string;
        bool is = strcmp(key, "output") == 0 || strcmp(key, "outputs") == 0 ||
                  strcmp(key, "ops") == 0;
        if (is == about_results && !json_set(job, key, cJSON_Duplicate(item, true)))
            return false; /* uncovered: slip */
    }
    return true;
}

/* Returns the job of an image as JSON, or NULL; then `error` is not set if memory is short. */
static cJSON *make_job(const struct job_template *template, const struct job_image *image,
                       const char *input, const char *id, struct error *error)
{
    cJSON *job = cJSON_CreateObject();
    char pushed[32];
    snprintf(pushed, sizeof pushed, "%.3f", clock_unix_s());
    bool ok = job && add_input(template, job, input, image) &&
              add_template(template, job, true) &&
              overlay_files_fill(&template->overlays, job, image->shard);
    for (size_t i = 0; i < template->output_count && ok; i++)
        ok = fill_output(template, job, image, i, error);
    ok = ok && (!template->id || cJSON_AddStringToObject(job, "id", id)) &&
         (!template->replies || add_reply(template, job, image)) &&
         (get(template->job, "pushed") || cJSON_AddRawToObject(job, "pushed", pushed)) &&
         add_template(template, job, false);
    if (ok)
        return job;
    cJSON_Delete(job);
    return NULL;
}

bool job_template_name_id(const struct job_template *template, const struct job_image *image,
                          char id[PATH_MAX], struct error *error)
{
    *id = '\0';
    if (template->set.kind && template->id)
        return set_job_name_id(&template->set, image, template->id, id, error);
    return !template->id || pattern_expand(template->id, image, NULL, id, error);
}

char *job_template_fill(const struct job_template *template, const struct job_image *image,
                        const char *id, struct error *error)
{
    char path[PATH_MAX];
    const char *input = NULL;
    if (!template->keys && !image->file.is_url && !image->inputs &&
        !job_template_find_below(template, image->file.path, path, &input, error))
        return NULL;
    cJSON *job = make_job(template, image, input, id, error);
    char *text = job ? cJSON_PrintUnformatted(job) : NULL;
    cJSON_Delete(job);
    if (!text) {
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for a job");
        return NULL;
    }
    /* Parse the job like the daemon will. The daemon's job_timeout_s bounds the job's timeout; it
     * is not known here, so allow any timeout. */
    struct job parsed;
    struct job_rules rules = {image->shard->options.namespace, 86400};
    enum status status = job_parse(&parsed, text, strlen(text), &rules, error);
    job_clear(&parsed);
    if (status == STATUS_OK)
        return text;
    free(text);
    return NULL;
}
