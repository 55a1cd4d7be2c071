#include "queue/job/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "conf/mask.h"
#include "queue/job/check.h"
#include "queue/job/client_labels.h"
#include "queue/job/headers.h"
#include "queue/job/inputs.h"
#include "queue/job/json.h"

/* The years 2001 and 5138. A number below this range was probably meant as seconds from now, a
 * number above it as milliseconds: in milliseconds, any time since 2001 is above it. */
#define UNIX_SECONDS_MIN     978307200.0
#define UNIX_SECONDS_MAX     1e11
#define RELATIVE_SECONDS_MAX 1e9 /* 31 years */
static const char *const normalize_keys[] = {"mean", "std", NULL};
static const char *const trim_keys[] = {"color", "threshold", NULL};
static const char *const quality_keys[] = {"ssim", "min", "max", NULL};

/* Writes and returns a list like "420", "422" or "gray", with the quotes. */
static const char *list_words(const struct parameter_row *row, char text[128])
{
    size_t used = 0;
    for (const char *const *word = row->words; *word; word++)
        used += (size_t)snprintf(text + used, 128 - used, "%s\"%s\"",
                                 word == row->words ? ""
                                 : word[1]          ? ", "
                                                    : " or ",
                                 *word);
    return text;
}

/* Reads one of the words of a parameter. Leaves the default in *index if the key is missing. */
static bool read_word(const struct check *check, const cJSON *object, const char *where,
                      const struct parameter_row *row, int *index)
{
    const cJSON *item = member(object, row->name);
    const char *given = cJSON_GetStringValue(item);
    char known[128];
    if (!item)
        return true;
    for (int i = 0; given && row->words[i]; i++)
        if (strcmp(given, row->words[i]) == 0) {
            *index = i;
            return true;
        }
    return refuse(check, "%s.%s is %s; it must be the string %s", where, row->name, shown(item),
                  list_words(row, known));
}

static bool read_either(const struct check *check, const cJSON *object, const char *where,
                        const struct parameter_row *row, int *setting)
{
    const cJSON *item = member(object, row->name);
    if (!item)
        return true;
    if (!is_integer(item, row->min, row->min) && !is_integer(item, row->max, row->max))
        return refuse(check, "%s.%s is %s; it must be %d or %d", where, row->name, shown(item),
                      row->min, row->max);
    *setting = (int)item->valuedouble;
    return true;
}

static bool read_parameter(const struct check *check, const cJSON *object, const char *where,
                           const struct parameter_row *row, int *setting)
{
    double number = *setting;
    bool flag = *setting != 0;
    switch (row->kind) {
    case PARAMETER_IS_WORD:
        return read_word(check, object, where, row, setting);
    case PARAMETER_IS_EITHER:
        return read_either(check, object, where, row, setting);
    case PARAMETER_IS_BOOL:
        if (!read_bool(check, object, where, row->name, &flag))
            return false;
        *setting = flag;
        return true;
    default:
        if (!read_integer(check, object, where, row->name, row->min, row->max, &number))
            return false;
        *setting = (int)number;
        return true;
    }
}

/* Reads a quality, or an object with the similarity that a file must have and the qualities that it
 * may have. */
static bool read_quality(const struct check *check, const cJSON *object, const char *where,
                         const struct parameter_row *row, struct encoder_settings *encoder)
{
    const cJSON *item = member(object, row->name), *ssim = member(item, "ssim");
    double least = row->min, most = row->max;
    char name[96];
    if (item && !cJSON_IsObject(item) && !is_integer(item, row->min, row->max))
        return refuse(check,
                      "%s.%s is %s; it must be an integer from %d to %d, or an object with the key "
                      "ssim",
                      where, row->name, shown(item), row->min, row->max);
    if (!cJSON_IsObject(item)) {
        encoder->quality = item ? (int)item->valuedouble : encoder->quality;
        return true;
    }
    snprintf(name, sizeof name, "%s.%s", where, row->name);
    double wanted = cJSON_IsNumber(ssim) ? ssim->valuedouble : 0;
    if (!check_keys(check, item, name, quality_keys) ||
        !read_integer(check, item, name, "min", row->min, row->max, &least) ||
        !read_integer(check, item, name, "max", row->min, row->max, &most))
        return false;
    if (!ssim)
        return refuse(check, "%s has no ssim, the similarity to reach", name);
    if (!(wanted >= 1.0 / SSIM_ONE && wanted <= (SSIM_ONE - 1.0) / SSIM_ONE))
        return refuse(check, "%s.ssim is %s; it must be a number from 0.000001 to 0.999999", name,
                      shown(ssim));
    if (least > most)
        return refuse(check, "%s.min is %g; it must be at most max, which is %g", name, least,
                      most);
    encoder->ssim = (int)lround(wanted * SSIM_ONE);
    encoder->quality_min = (int)least;
    encoder->quality = (int)most;
    return true;
}

static bool read_encoder(const struct check *check, const cJSON *object, const char *where,
                         struct job_output *output)
{
    for (unsigned i = 0; i < PARAMETER_COUNT; i++) {
        const struct parameter_row *row = &encoder_parameters[i];
        if (!(row->kind == PARAMETER_IS_QUALITY
                  ? read_quality(check, object, where, row, &output->encoder)
                  : read_parameter(check, object, where, row,
                                   encoder_setting(&output->encoder, i))))
            return false;
        if (member(object, row->name))
            output->given |= 1u << i;
    }
    if (output->encoder.depth == 16 && output->encoder.colors > 0)
        return refuse(check,
                      "%s.depth is 16, but colors is %d, and a palette has colours of 8 bits; omit "
                      "one of the two",
                      where, output->encoder.colors);
    return true;
}

/* Reads 1 to 4 numbers. Leaves the default if the key is missing. */
static bool read_numbers(const struct check *check, const cJSON *object, const char *where,
                         const char *key, double low, double numbers[4], int *count)
{
    const cJSON *list = member(object, key);
    *count = list ? json_numbers(list, low, NORMALIZE_MAX, numbers, 4) : 1;
    return *count > 0 || refuse(check,
                                "%s.normalize.%s is %s; it must be an array of 1 to 4 "
                                "numbers from %g to %g",
                                where, key, shown(list), low, NORMALIZE_MAX);
}

static bool read_normalize(const struct check *check, const cJSON *object, const char *where,
                           struct normalization *own)
{
    const cJSON *item = member(object, "normalize");
    *own = (struct normalization){.given = item != NULL, .std = {1}};
    if (item && !cJSON_IsObject(item))
        return refuse(check, "%s.normalize is %s; it must be an object", where, shown(item));
    return check_keys(check, item, "normalize", normalize_keys) &&
           read_numbers(check, item, where, "mean", -NORMALIZE_MAX, own->mean, &own->mean_count) &&
           read_numbers(check, item, where, "std", NORMALIZE_STD_MIN, own->std, &own->std_count);
}

/* A list of words, or "none". */
static bool read_metadata(const struct check *check, const cJSON *object, const char *where,
                          struct job_output *output)
{
    const cJSON *list = member(object, "metadata"), *word;
    const char *single = cJSON_GetStringValue(list);
    if (!list)
        return true;
    bool ok = cJSON_IsArray(list) || (single && strcmp(single, "none") == 0);
    output->metadata = 0;
    for (word = cJSON_IsArray(list) ? list->child : NULL; word && ok; word = word->next) {
        const char *given = cJSON_GetStringValue(word);
        unsigned i = 0;
        while (given && metadata_words[i] && strcmp(metadata_words[i], given) != 0)
            i++;
        ok = given && metadata_words[i];
        output->metadata |= ok ? 1u << i : 0;
    }
    return ok || refuse(check,
                        "%s.metadata is %s; it must be \"none\", or a list of \"icc\", "
                        "\"exif\", \"xmp\", \"copyright\" and \"density\"",
                        where, shown(list));
}

/* Reads the formats of a list, which all take a quality. */
static bool read_formats(const struct check *check, const cJSON *list, const char *where,
                         unsigned *formats_of)
{
    const cJSON *one;
    char known[FORMAT_LIST_BYTES];
    cJSON_ArrayForEach(one, list)
    {
        const char *name = cJSON_GetStringValue(one);
        const struct format *format = name ? format_by_name(name) : NULL;
        if (!format || !(format->parameters & TAKES(quality)))
            return refuse(check, "%s.format lists %s; a list may have %s", where, shown(one),
                          format_list(FORMAT_NAMES, TAKES(quality), "\"%s\"", " and ", known));
        *formats_of |= 1u << (format - formats);
    }
    return *formats_of || refuse(check, "%s.format is []; it must have a format", where);
}

/* A name; or several formats, which can only be compared if they have the same similarity. */
static bool read_format(const struct check *check, const struct job *job, const cJSON *object,
                        const char *where, struct job_output *output)
{
    const cJSON *format = member(object, "format");
    const char *name = cJSON_GetStringValue(format);
    bool is_auto = name && strcmp(name, "auto") == 0;
    output->format = is_auto ? NULL : name;
    output->formats = is_auto ? FORMATS_AUTO : 0;
    if (!format || output->format)
        return true;
    if (!name && !cJSON_IsArray(format))
        return refuse(check, "%s.format is %s; it must be a string, or an array of strings", where,
                      shown(format));
    if (!name && !read_formats(check, format, where, &output->formats))
        return false;
    if (job_is_set(job))
        return refuse(check, "%s.format is %s, but the job has many images; name one format", where,
                      shown(format));
    if (output->encoder.ssim == 0)
        return refuse(check,
                      "%s.format is %s, so the smallest file of several is written; set quality to "
                      "an object with ssim, so that they can be compared",
                      where, shown(format));
    if (output->encoder.max_bytes > 0)
        return refuse(check, "%s.format is %s, but max_bytes is %d; omit one of the two", where,
                      shown(format), output->encoder.max_bytes);
    return true;
}

static bool read_headers(const struct check *check, const cJSON *object, const char *where,
                         struct job_output *output)
{
    if (!member(object, "headers"))
        return true;
    if (!output->place.url)
        return refuse(check, "%s.headers is for an output with a url; this output has a %s", where,
                      output->place.key ? "key" : "path");
    output->headers = job_headers_take((cJSON *)object, where, check->error);
    return output->headers != NULL;
}

static bool read_output(const struct check *check, const struct job *job, const cJSON *item,
                        const char *where, struct job_output *output)
{
    double ttl_s = 0;
    if (!read_place(check, item, where, output_keys, &output->place))
        return false;
    const char *path = output->place.path;
    if (path && !check_output_path(check, path, where))
        return false;
    if (!read_encoder(check, item, where, output) ||
        !read_format(check, job, item, where, output) ||
        !read_metadata(check, item, where, output) ||
        !read_normalize(check, item, where, &output->normalize) ||
        !read_headers(check, item, where, output) || !read_pack(check, job, item, where, output) ||
        !read_integer(check, item, where, "ttl_s", 0, UINT32_MAX, &ttl_s))
        return false;
    if (!output->place.key && member(item, "ttl_s"))
        return refuse(check, "%s.ttl_s is for an output with a key; this output has a %s", where,
                      path ? "path" : "url");
    output->ttl_s = (uint32_t)ttl_s;
    return true;
}

static bool read_ops(const struct check *check, const cJSON *parent, const char *where,
                     const cJSON **ops)
{
    const cJSON *list = member(parent, "ops"), *op;
    int index = 0;
    if (list && !cJSON_IsArray(list))
        return refuse(check, "%s is %s; it must be an array", where, shown(list));
    if (cJSON_GetArraySize(list) > JOB_OPS_MAX)
        return refuse(check, "%s has %d operations; at most %d are allowed", where,
                      cJSON_GetArraySize(list), JOB_OPS_MAX);
    cJSON_ArrayForEach(op, list)
    {
        if (!cJSON_IsString(op) && !(cJSON_IsObject(op) && cJSON_IsString(member(op, "op"))))
            return refuse(check,
                          "%s[%d] is %s; it must be a name or an object with \"op\": a "
                          "name",
                          where, index, shown(op));
        index++;
    }
    *ops = list;
    return true;
}

/* Compares the output with the names before it. An input path may have the same text, because it
 * is below another root; the daemon compares the files themselves. */
static bool check_places_differ(const struct check *check, const struct job *job, size_t index)
{
    const struct job_place *place = &job->outputs[index].place;
    char name[SHOWN_MAX + 1];
    if (!place->path && !place->key)
        return true;
    mask_copy(name, sizeof name, place->path ? place->path : place->key);
    if (place->key && job_places_are_same(place, &job->input))
        return refuse(check,
                      "both keys are \"%s\"; the output must have another name than the "
                      "input",
                      name);
    for (size_t i = 0; i < index; i++)
        if (job_places_are_same(place, &job->outputs[i].place))
            return refuse(check, "two outputs are \"%s\"", name);
    return true;
}

/* Reads an output and its ops, from the job itself or from an element of `outputs`. An output
 * without a place only gives the values of its operations, so it must have some. */
static bool read_variant(const struct check *check, struct job *job, const cJSON *parent,
                         const char *where, const char *output_name, const char *ops_name)
{
    struct job_output *output = &job->outputs[job->output_count];
    const cJSON *place = member(parent, "output");
    *output = (struct job_output){.encoder = encoder_defaults, .metadata = METADATA_ICC};
    if ((place && !read_output(check, job, place, output_name, output)) ||
        !read_ops(check, parent, ops_name, &output->ops))
        return false;
    if (!place && cJSON_GetArraySize(output->ops) == 0)
        return refuse(check, "%s has no output", where);
    if (!check_places_differ(check, job, job->output_count))
        return false;
    job->output_count++;
    return true;
}

static bool read_variants(const struct check *check, struct job *job, const cJSON *list)
{
    const cJSON *item;
    if (member(job->root, "output") || member(job->root, "ops"))
        return refuse(check, "the job has outputs and %s; it must have one or the other",
                      member(job->root, "output") ? "output" : "ops");
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count < 1 || count > JOB_OUTPUTS_MAX)
        return refuse(check, "outputs is %s; it must be an array of 1 to %d objects", shown(list),
                      JOB_OUTPUTS_MAX);
    job->listed = true;
    cJSON_ArrayForEach(item, list)
    {
        char where[64], output[80], ops[80];
        snprintf(where, sizeof where, "outputs[%zu]", job->output_count);
        if (!cJSON_IsObject(item))
            return refuse(check, "%s is %s; it must be an object", where, shown(item));
        if (!check_keys(check, item, where, variant_keys))
            return false;
        snprintf(output, sizeof output, "%s.output", where);
        snprintf(ops, sizeof ops, "%s.ops", where);
        if (!read_variant(check, job, item, where, output, ops))
            return false;
    }
    return true;
}

static bool read_id(const struct check *check, struct job *job)
{
    const cJSON *item = member(job->root, "id");
    if (!item)
        return true;
    if (!cJSON_IsString(item))
        return refuse(check, "id is %s; it must be a string", shown(item));
    size_t length = strlen(item->valuestring);
    if (length < 1 || length > JOB_ID_BYTES_MAX)
        return refuse(check, "id has %zu bytes; it must have 1 to %d", length, JOB_ID_BYTES_MAX);
    if (has_control(item->valuestring))
        return refuse(check, "id has a control character");
    job->id = item->valuestring;
    return true;
}

static bool read_unique(const struct check *check, struct job *job)
{
    if (!read_bool(check, job->root, "the job", "unique", &job->unique))
        return false;
    if (!job->unique || job->id)
        return true;
    job->unique = false;
    return member(job->root, "id") || refuse(check, "unique is true, but the job has no id");
}

static bool read_priority(const struct check *check, struct job *job)
{
    double priority = 0;
    if (!read_integer(check, job->root, "the job", "priority", 0, JOB_PRIORITIES - 1, &priority))
        return false;
    job->prioritized = member(job->root, "priority") != NULL;
    job->priority = (uint8_t)priority;
    return true;
}

/* Reads a string in which fault_of finds no fault. */
static const char *read_label(const struct check *check, const struct job *job, const char *key,
                              const char *(*fault_of)(const char *text))
{
    const cJSON *item = member(job->root, key);
    const char *text = cJSON_GetStringValue(item);
    const char *fault = text ? fault_of(text) : item ? "must be a string" : NULL;
    if (fault)
        (void)refuse(check, "%s is %s; it %s", key, shown(item), fault);
    return fault ? NULL : text;
}

static void read_labels(const struct check *check, struct job *job)
{
    job->tag = read_label(check, job, "tag", tag_fault);
    job->traceparent = read_label(check, job, "traceparent", traceparent_fault);
    job->tracestate = read_label(check, job, "tracestate", tracestate_fault);
    if (job->tracestate && !job->traceparent && !member(job->root, "traceparent"))
        (void)refuse(check, "the job has a tracestate, but no traceparent");
}

/* The result repeats meta as it was written, but a result is one line. A line break or tab in meta
 * can only be between tokens, so a space replaces it. */
static void read_meta(struct job *job)
{
    job->meta = cJSON_DetachItemFromObjectCaseSensitive(job->root, "meta");
    for (char *at = job->meta ? job->meta->valuestring : ""; *at; at++)
        if (*at == '\n' || *at == '\r' || *at == '\t')
            *at = ' ';
}

/* Reads [red, green, blue]. Leaves the default if the key is missing. */
static bool read_colour(const struct check *check, const cJSON *object, const char *key,
                        const char *where, uint8_t rgb[3])
{
    const cJSON *list = member(object, key);
    if (!list)
        return true;
    bool ok = cJSON_IsArray(list) && cJSON_GetArraySize(list) == 3;
    for (int i = 0; i < 3 && ok; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        ok = is_integer(item, 0, 255);
        rgb[i] = ok ? (uint8_t)item->valuedouble : 255;
    }
    return ok ||
           refuse(check, "%s is %s; it must be three integers from 0 to 255", where, shown(list));
}

static bool read_trim(const struct check *check, struct job *job)
{
    const cJSON *item = member(job->root, "trim");
    double threshold = TRIM_THRESHOLD_DEFAULT;
    if (item && !cJSON_IsObject(item))
        return refuse(check, "trim is %s; it must be an object", shown(item));
    if (item && job->frames == JOB_FRAMES_ALL)
        return refuse(check, "the job has trim, but frames is \"all\", whose images must keep one "
                             "size; leave one of the two out");
    job->trim.wanted = item != NULL;
    job->trim.has_color = member(item, "color") != NULL;
    if (!check_keys(check, item, "trim", trim_keys) ||
        !read_colour(check, item, "color", "trim.color", job->trim.color) ||
        !read_integer(check, item, "trim", "threshold", 0, 255, &threshold))
        return false;
    job->trim.threshold = (uint8_t)threshold;
    return true;
}

static bool read_times(const struct check *check, struct job *job)
{
    const cJSON *timeout = member(job->root, "timeout_s"), *pushed = member(job->root, "pushed");
    if (timeout && (!cJSON_IsNumber(timeout) || !(timeout->valuedouble > 0) ||
                    timeout->valuedouble > check->rules->timeout_s))
        return refuse(check, "timeout_s is %s; it must be a number above 0, at most %g",
                      shown(timeout), check->rules->timeout_s);
    if (pushed && (!cJSON_IsNumber(pushed) || pushed->valuedouble < 0))
        return refuse(check, "pushed is %s; it must be Unix seconds, 0 or more", shown(pushed));
    if (timeout)
        job->timeout_s = timeout->valuedouble;
    if (pushed)
        job->pushed = pushed->valuedouble;
    return true;
}

/* Returns the seconds of "+60" or "+0.5"; 0 if the text has another form. */
static double relative_seconds(const char *text)
{
    static const char digits[] = "0123456789";
    const char *end = text + 1 + strspn(text + (*text != '\0'), digits);
    if (*text != '+' || end == text + 1)
        return 0;
    if (*end == '.')
        end += 1 + strspn(end + 1, digits);
    return *end || end[-1] == '.' ? 0 : strtod(text, NULL);
}

static bool refuse_start_time(const struct check *check, const cJSON *item)
{
    double value = cJSON_GetNumberValue(item); /* NaN: not a number */
    if (value > UNIX_SECONDS_MAX && value / 1000 <= UNIX_SECONDS_MAX)
        return refuse(check,
                      "%s is %s, which looks like milliseconds; it must be Unix seconds: "
                      "%.3f",
                      item->string, shown(item), value / 1000);
    if (value > 0 && value < UNIX_SECONDS_MIN)
        return refuse(check,
                      "%s is %s, before 2001; it must be Unix seconds, or \"+%g\" to count "
                      "from the job's first fetch",
                      item->string, shown(item), value);
    return refuse(check,
                  "%s is %s; it must be Unix seconds from %.0f to %.0f, or a relative time "
                  "like \"+60\", at most \"+%.0f\"",
                  item->string, shown(item), UNIX_SECONDS_MIN, UNIX_SECONDS_MAX,
                  RELATIVE_SECONDS_MAX);
}

static bool read_start_time(const struct check *check, const cJSON *root, const char *key,
                            struct job_time *time)
{
    const cJSON *item = member(root, key);
    if (!item)
        return true;
    bool relative = cJSON_IsString(item);
    double low = relative ? 0.001 : UNIX_SECONDS_MIN;
    double high = relative ? RELATIVE_SECONDS_MAX : UNIX_SECONDS_MAX;
    double seconds = relative ? relative_seconds(item->valuestring) : cJSON_GetNumberValue(item);
    if (!(seconds >= low && seconds <= high)) /* or NaN: neither a string nor a number */
        return refuse_start_time(check, item);
    *time = (struct job_time){seconds, relative};
    return true;
}

/* If one time is absolute and the other relative, START compares them. */
static bool read_start(const struct check *check, struct job *job)
{
    const struct job_time *begin = &job->not_before, *end = &job->expires;
    if (!read_start_time(check, job->root, "not_before", &job->not_before) ||
        !read_start_time(check, job->root, "expires", &job->expires))
        return false;
    if (begin->seconds == 0 || end->seconds == 0 || begin->relative != end->relative ||
        end->seconds > begin->seconds)
        return true;
    const char *sign = begin->relative ? "+" : "";
    return refuse(check, "expires is %s%.3f; it must be later than not_before, which is %s%.3f",
                  sign, end->seconds, sign, begin->seconds);
}

/* The frames of one input are many images. A frame that fails would be missing, so it fails all. */
static bool read_all_frames(const struct check *check, struct job *job)
{
    if (job_is_set(job) || member(job->root, "page"))
        return refuse(check, "frames is \"all\", but the job has %s; leave one of the two out",
                      job_is_set(job) ? "inputs" : "a page");
    job->source = JOB_ANIMATION;
    job->fails_on_error = true;
    return true;
}

/* Some frames of each input become one image. */
static bool read_strip(const struct check *check, struct job *job, const cJSON *item)
{
    static const char *const keys[] = {"strip", NULL};
    double count = 0;
    job->frames = JOB_FRAMES_STRIP;
    if (!check_keys(check, item, "frames", keys) ||
        !read_integer(check, item, "frames", "strip", 2, JOB_STRIP_MAX, &count))
        return false;
    if (count == 0)
        return refuse(check, "frames is {}; it must be {\"strip\":N}");
    if (member(job->root, "page"))
        return refuse(check, "frames is a strip, but the job has a page; leave one of the two out");
    job->strip = (uint32_t)count;
    return true;
}

/* Which frames of an input are read. */
static bool read_frames(const struct check *check, struct job *job)
{
    static const char *const words[] = {
        [JOB_FRAMES_FIRST] = "first", [JOB_FRAMES_REFUSE] = "refuse", [JOB_FRAMES_ALL] = "all"};
    const cJSON *item = member(job->root, "frames");
    const char *given = item ? cJSON_GetStringValue(item) : words[JOB_FRAMES_FIRST];
    double page = 0;
    if (!read_integer(check, job->root, "the job", "page", 0, JOB_PAGE_MAX, &page))
        return false;
    job->page = (uint32_t)page;
    if (cJSON_IsObject(item))
        return read_strip(check, job, item);
    for (job->frames = 0; job->frames <= JOB_FRAMES_ALL; job->frames++)
        if (given && strcmp(given, words[job->frames]) == 0)
            return job->frames != JOB_FRAMES_ALL || read_all_frames(check, job);
    job->frames = JOB_FRAMES_FIRST;
    return refuse(check, "frames is %s; it must be \"first\", \"refuse\", \"all\" or {\"strip\":N}",
                  shown(item));
}

static bool read_job(const struct check *check, struct job *job)
{
    if (!check_keys(check, job->root, "the job", job_keys))
        return false;
    const cJSON *list = member(job->root, "outputs");
    return read_inputs(check, job) && read_frames(check, job) && read_trim(check, job) &&
           (list ? read_variants(check, job, list)
                 : read_variant(check, job, job->root, "the job", "output", "ops")) &&
           read_colour(check, job->root, "background", "background", job->background) &&
           read_times(check, job) && read_start(check, job) &&
           read_bool(check, job->root, "the job", "orient", &job->orient);
}

enum status job_parse(struct job *job, const char *text, size_t length,
                      const struct job_rules *rules, struct error *error)
{
    struct check check = {rules, error, .no_urls = false};
    memset(job, 0, offsetof(struct job, outputs));
    memset(job->background, 255, sizeof job->background);
    job->timeout_s = rules->timeout_s;
    job->orient = true;
    error_clear(error);
    if (length > JOB_BYTES_MAX)
        return error_set(error, STATUS_BAD_JSON, "the job has %zu bytes; at most %llu are allowed",
                         length, JOB_BYTES_MAX);
    job->root = json_parse(text, length, "meta", error);
    if (!job->root)
        return error->status;
    if (!cJSON_IsObject(job->root))
        return error_set(error, STATUS_BAD_JOB, "the job is %s; it must be an object",
                         shown(job->root));
    /* Read first the members that the result of a refused job needs. error_set keeps the first
     * error. */
    note_inputs(job);
    read_meta(job);
    read_id(&check, job);
    read_unique(&check, job);
    read_priority(&check, job);
    read_labels(&check, job);
    const cJSON *reply_to = member(job->root, "reply_to");
    if (reply_to && check_key(&check, reply_to, "reply_to", ":reply:"))
        job->reply_to = reply_to->valuestring;
    if (error->status == STATUS_OK)
        read_job(&check, job);
    return error->status;
}
