#include "daemon/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/limits.h"
#include "conf/log.h"
#include "conf/text.h"
#include "daemon/files/files.h"
#include "daemon/pipeline/work.h"
#include "queue/job/json.h"

/* The job's text; NULL with an error. */
static char *read_text(const char *file, size_t *length, struct error *error)
{
    bool standard = strcmp(file, "-") == 0;
    FILE *in = standard ? stdin : fopen(file, "re");
    char *text = malloc(JOB_BYTES_MAX + 1);
    *length = in && text ? fread(text, 1, JOB_BYTES_MAX + 1, in) : 0;
    if (!in || ferror(in))
        error_set(error, STATUS_BAD_JOB, "the job cannot be read: %s", strerror(errno));
    else if (!text)
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a job");
    else if (*length > JOB_BYTES_MAX)
        error_set(error, STATUS_BAD_JSON, "the job has more than %llu bytes", JOB_BYTES_MAX);
    if (in && !standard)
        fclose(in);
    if (error->status != STATUS_OK) {
        free(text);
        return NULL;
    }
    return text;
}

/* The input's file and what its header says. */
static void read_input(struct work *work, const char *input_root)
{
    struct files files;
    struct codec_context *context = codec_context_create();
    const char *path = work->job.input.path;
    struct files_input input = {.fd = -1};
    if (!path) {
        error_set(&work->error, STATUS_INPUT_MISSING,
                  "the input is the Redis key \"%s\"; only files below input_root are explained",
                  work->job.input.key);
    } else if (files_open_inputs(&files, input_root, &work->error)) {
        enum status status =
            files_open_input(&files, path, work->input_bytes_max, &input, &work->error);
        work->file_bytes = input.size;
        if (status == STATUS_OK && !(work->loaded = malloc(work->file_bytes + 1)))
            status = error_set(&work->error, STATUS_OUT_OF_MEMORY, "no memory for the input");
        if (status == STATUS_OK)
            status = files_read_input(input.fd, path, work->loaded, work->file_bytes, &work->error);
        if (status == STATUS_OK && !context)
            status = error_set(&work->error, STATUS_OUT_OF_MEMORY, "no memory for a codec");
        if (status == STATUS_OK)
            status = codec_probe(context, work->loaded, work->file_bytes, &work->limits,
                                 &work->info, &work->error);
        (void)status; /* kept in work->error */
        if (input.fd >= 0)
            close(input.fd);
        files_close(&files);
    }
    codec_context_destroy(context);
}

/* ---- as text ------------------------------------------------------------------------------- */

/* A path or key comes from the job's author. */
static void print_name(const char *name, FILE *out)
{
    char text[JOB_PATH_BYTES_MAX + 1];
    text_copy(text, sizeof text, name);
    text_make_printable(text);
    fputs(text, out);
}

static const char *decode_text(const struct work *work)
{
    if (work->decode.as == DECODE_LUMA)
        return "luma, the Y channel alone";
    if (work->decode.as == DECODE_YCC)
        return "Y, Cb and Cr, for gray and for colours";
    return work->info.channels == 1 ? "gray" : "colour";
}

static void print_input(const struct work *work, FILE *out)
{
    const struct image_info *info = &work->info;
    fputs("input    ", out);
    print_name(work->job.input.path, out);
    fprintf(out, ": %s%s, %" PRIu32 " x %" PRIu32 " x %" PRIu32, info->format->name,
            info->progressive ? " (progressive)" : "", info->width, info->height,
            info->channels);
    if (info->orientation != 1)
        fprintf(out, ", EXIF orientation %d%s", info->orientation,
                work->job.orient ? "" : " (ignored)");
    fprintf(out, ", %" PRIu64 " bytes\n", work->file_bytes);
    struct image decoded = plan_input(&work->plan, NULL);
    char scale[24] = "";
    if (work->decode.eighths != DECODE_EIGHTHS)
        snprintf(scale, sizeof scale, ", at %" PRIu32 "/%d", work->decode.eighths, DECODE_EIGHTHS);
    fprintf(out, "decode   %s%s: %" PRIu32 " x %" PRIu32 " x %" PRIu32 ", %zu bytes\n",
            decode_text(work), scale, decoded.width, decoded.height, decoded.channels,
            decoded.stride * decoded.height);
}

static void print_output(const struct work *work, size_t index, FILE *out)
{
    const struct work_output *output = &work->outputs[index];
    const struct job_place *place = &work->job.outputs[index].place;
    fputs("output   ", out);
    print_name(place->path  ? place->path
               : place->key ? place->key
                            : "nowhere, values only", out);
    fputs(": ", out);
    if (output->error.status != STATUS_OK) {
        fprintf(out, "%s: %s\n", status_name(output->error.status), output->error.text);
        return;
    }
    const struct plan_variant *variant = &work->plan.variants[output->variant];
    fprintf(out, "%s, %" PRIu32 " x %" PRIu32 " x %" PRIu32 "\n",
            output->format ? output->format->name : "no picture", variant->width,
            variant->height, variant->channels);
    plan_print_passes(&work->plan, output->variant, out);
}

static void print_text(const struct work *work, FILE *out)
{
    if (work->error.status != STATUS_OK)
        return; /* the log has it */
    print_input(work, out);
    for (size_t i = 0; i < work->job.output_count; i++)
        print_output(work, i, out);
    plan_print_memory(&work->plan, out);
}

/* ---- as JSON ------------------------------------------------------------------------------- */

static bool add_number(cJSON *object, const char *key, double value)
{
    return cJSON_AddNumberToObject(object, key, value) != NULL;
}

static bool add_size(cJSON *object, uint32_t width, uint32_t height, uint32_t channels)
{
    return add_number(object, "width", width) && add_number(object, "height", height) &&
           add_number(object, "channels", channels);
}

/* As in a result. */
static bool add_error(cJSON *holder, const struct error *error)
{
    cJSON *item = cJSON_AddObjectToObject(holder, "error");
    return item && cJSON_AddStringToObject(item, "code", status_name(error->status)) &&
           cJSON_AddStringToObject(item, "message", error->text) &&
           cJSON_AddBoolToObject(item, "retryable", status_retryable(error->status));
}

static bool add_input(cJSON *json, const struct work *work)
{
    const struct image_info *info = &work->info;
    cJSON *input = cJSON_AddObjectToObject(json, "input");
    return input && cJSON_AddStringToObject(input, "path", work->job.input.path) &&
           cJSON_AddStringToObject(input, "format", info->format->name) &&
           cJSON_AddBoolToObject(input, "progressive", info->progressive) &&
           add_size(input, info->width, info->height, info->channels) &&
           add_number(input, "orientation", info->orientation) &&
           cJSON_AddBoolToObject(input, "oriented", work->job.orient && info->orientation != 1) &&
           add_number(input, "bytes", (double)work->file_bytes);
}

static bool add_decode(cJSON *json, const struct work *work)
{
    struct image image = plan_input(&work->plan, NULL);
    const char *as = work->decode.as == DECODE_LUMA      ? "luma"
                     : work->decode.as == DECODE_YCC     ? "ycc"
                     : work->info.channels == 1          ? "gray"
                                                         : "colour";
    cJSON *decode = cJSON_AddObjectToObject(json, "decode");
    return decode && cJSON_AddStringToObject(decode, "as", as) &&
           add_number(decode, "eighths", work->decode.eighths) &&
           add_size(decode, image.width, image.height, image.channels) &&
           add_number(decode, "bytes", (double)(image.stride * image.height));
}

static bool add_output(cJSON *list, const struct work *work, size_t index)
{
    const struct work_output *output = &work->outputs[index];
    const struct job_place *place = &work->job.outputs[index].place;
    cJSON *item = cJSON_CreateObject();
    if (!item || !cJSON_AddItemToArray(list, item) ||
        (place->path && !cJSON_AddStringToObject(item, "path", place->path)) ||
        (place->key && !cJSON_AddStringToObject(item, "key", place->key)))
        return false;
    if (output->error.status != STATUS_OK)
        return add_error(item, &output->error);
    const struct plan_variant *variant = &work->plan.variants[output->variant];
    return (!output->format || cJSON_AddStringToObject(item, "format", output->format->name)) &&
           add_size(item, variant->width, variant->height, variant->channels) &&
           json_set(item, "passes", plan_json_passes(&work->plan, output->variant));
}

static bool add_plan(cJSON *json, const struct work *work)
{
    cJSON *outputs = NULL;
    bool ok = add_input(json, work) && add_decode(json, work) &&
              (outputs = cJSON_AddArrayToObject(json, "outputs"));
    for (size_t i = 0; i < work->job.output_count && ok; i++)
        ok = add_output(outputs, work, i);
    return ok && json_set(json, "memory", plan_json_memory(&work->plan));
}

/* A job that would fail as a whole has its error, and its input as far as that could be read. */
static bool add_failure(cJSON *json, const struct work *work, const struct error *error)
{
    const struct job_place *named = work ? &work->job.named : NULL;
    const char *name = !named ? NULL : named->path ? named->path : named->key;
    cJSON *input = name ? cJSON_AddObjectToObject(json, "input") : NULL;
    if (name && !(input && cJSON_AddStringToObject(input, named->path ? "path" : "key", name)))
        return false;
    return add_error(json, error);
}

static void print_json(const struct work *work, struct error *error, FILE *out)
{
    cJSON *json = cJSON_CreateObject();
    bool ok = json && (error->status == STATUS_OK ? add_plan(json, work)
                                                  : add_failure(json, work, error));
    char *text = ok ? cJSON_PrintUnformatted(json) : NULL;
    char *line = text ? text_printable_json(text) : NULL;
    cJSON_Delete(json);
    if (line)
        fprintf(out, "%s\n", line);
    else
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the plan as JSON");
    free(line);
    free(text);
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Fills in work; its error is that of the job as a whole. */
static void explain(struct work *work, const struct options *options, const char *text,
                    size_t length)
{
    struct job_rules rules = {options->namespace, options->job_timeout_s};
    work->same_root = files_same_folder(options->input_root, options->output_root);
    work_take_bounds(work, options);
    if (job_parse(&work->job, text, length, &rules, &work->error) == STATUS_OK)
        work_check_operations(work);
    if (work->error.status == STATUS_OK)
        read_input(work, options->input_root);
    if (work->error.status == STATUS_OK)
        work_build_plan(work);
}

static void clear(struct work *work)
{
    plan_clear(&work->plan);
    image_info_clear(&work->info);
    job_clear(&work->job);
    free(work->loaded);
}

bool explain_job(const struct options *options, const char *file, bool json, FILE *out)
{
    struct error error = {0};
    struct work *work = calloc(1, sizeof *work);
    size_t length = 0;
    char *text = read_text(file, &length, &error);
    if (!work)
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a job");
    if (work && text) {
        explain(work, options, text, length);
        error = work->error;
    }
    if (json)
        print_json(work, &error, out);
    else if (work && text)
        print_text(work, out);
    for (size_t i = 0; work && text && i < work->job.output_count; i++)
        if (work->outputs[i].error.status != STATUS_OK)
            error_set(&error, work->outputs[i].error.status, "%s", work->outputs[i].error.text);
    if (work)
        clear(work);
    free(text);
    free(work);
    if (fflush(out) != 0 || ferror(out))
        error_set(&error, STATUS_WRITE_FAILED, "the plan cannot be printed: %s", strerror(errno));
    if (error.status != STATUS_OK)
        log_error("%s: %s: %s", file, status_name(error.status), error.text);
    return error.status == STATUS_OK;
}
