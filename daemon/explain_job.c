/*
 * explain_job.c - gpuimgd --explain: prints how the daemon would run a job, without running it.
 *
 * It parses the job, loads the input, reads its header, and plans the job with the functions that a
 * real job uses. It needs no Redis and no GPU, and writes only to `out` and the log.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/strip.h"
#include "conf/log.h"
#include "conf/text.h"
#include "daemon/explain_memory.h"
#include "daemon/explain_set.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/planning.h"
#include "daemon/sets/frame_source.h"
#include "daemon/sets/set_source.h"
#include "daemon/web/fetcher.h"
#include "gpu/plan/op_list.h"
#include "gpu/plan/plan_print.h"
#include "queue/job/json.h"
#include "queue/redis/shard.h"

/* Reads the job's text, which the caller frees. NULL: error has the reason. */
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

/* ---- the input ------------------------------------------------------------------------------ */

static void read_file(struct job_run *run, const char *input_root)
{
    struct files files;
    const char *path = run->job.input.path;
    struct files_input input = {.fd = -1};
    if (!files_open_inputs(&files, input_root, &run->error))
        return;
    enum status status =
        files_open_input(&files, NULL, path, run->bounds.input_bytes_max, &input, &run->error);
    run->input.bytes = input.size;
    if (status == STATUS_OK && !(run->input.loaded = malloc(run->input.bytes + 1)))
        status = error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for the input");
    if (status == STATUS_OK)
        status = files_read_input(input.fd, path, run->input.loaded, 0, run->input.bytes,
                                  &run->error);
    (void)status; /* run->error has it, too */
    if (input.fd >= 0)
        close(input.fd);
    files_close(&files);
}

struct download {
    struct job_run *run;
    bool ended;
};

static void on_downloaded(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct download *download = context;
    download->ended = true;
    download->run->input.loaded = bytes;
    download->run->input.bytes = length;
    if (error)
        download->run->error = *error;
}

/* Downloads the input as a job does, with the same prefixes, keys and limits, but without a second
 * attempt. */
static void read_url(struct job_run *run, const struct options *options)
{
    uv_loop_t loop;
    struct metrics_urls ignored = {0};
    struct download download = {.run = run};
    struct transfer_request request = {.direction = TRANSFER_DOWNLOAD,
                                       .url = run->job.input.url,
                                       .bytes_max = run->bounds.input_bytes_max,
                                       .done = on_downloaded,
                                       .context = &download};
    if (uv_loop_init(&loop) != 0) {
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for a download");
        return;
    }
    struct fetcher *fetcher = fetcher_create(&loop, options, &ignored, &run->error);
    bool begun = fetcher && fetcher_start(fetcher, &request);
    if (fetcher && !begun)
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for a download");
    while (begun && !download.ended)
        uv_run(&loop, UV_RUN_ONCE);
    if (run->input.loaded)
        fetcher_release(fetcher, run->input.bytes);
    fetcher_stop(fetcher);
    uv_run(&loop, UV_RUN_DEFAULT);
    fetcher_destroy(fetcher);
    uv_loop_close(&loop);
}

static void read_input(struct job_run *run, const struct options *options)
{
    struct codec_context *context = codec_context_create();
    char url[JOB_URL_BYTES_MAX + 1];
    if (!context)
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for a codec");
    else if (run->input.loaded)
        ; /* a member of an archive */
    else if (run->job.input.path)
        read_file(run, options->input_root);
    else if (run->job.input.url)
        read_url(run, options);
    else
        error_set(&run->error, STATUS_INPUT_MISSING, "the input is the Redis key \"%.100s\"; only "
                  "files below input_root and URLs are explained",
                  job_place_name(&run->job.input, url));
    enum status status = run->error.status;
    bool plays = run->job.source == JOB_ANIMATION;
    run->bounds.codec.page = run->job.page;
    run->bounds.codec.finds_alpha = plays;
    if (status == STATUS_OK)
        status = strip_probe(context, run->input.loaded, run->input.bytes, &run->bounds.codec,
                             run->job.strip, &run->info, &run->error);
    bool keeps_alpha = plays && set_source_keeps_alpha(&run->job);
    if (status == STATUS_OK && plays &&
        frame_source_takes(&run->info, &run->bounds.codec, keeps_alpha, &run->error))
        frame_source_describe(&run->info, keeps_alpha);
    codec_context_destroy(context);
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Builds the plan of a job with overlays: images that are laid over the input. */
static void plan_with_overlays(struct job_run *run, struct overlays *overlays,
                               const struct files *files)
{
    struct overlay_maker maker = {.overlays = overlays, .files = files,
                                  .codec = codec_context_create(), .limits = &run->bounds.codec,
                                  .bytes_max = run->bounds.input_bytes_max};
    if (!overlays || !maker.codec) {
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for overlays");
    } else {
        job_overlays_use(run, &maker);
        planning_build(run, NULL);
        job_overlays_release(run);
    }
    codec_context_destroy(maker.codec);
}

static void build_plan(struct job_run *run, const struct options *options)
{
    struct files files;
    if (run->overlays.count == 0) {
        planning_build(run, NULL);
    } else if (files_open_inputs(&files, options->input_root, &run->error)) {
        /* As large as the daemon's pool for input files, so that the same overlays fit. */
        struct pool *pool =
            pool_create("files", options->host_bytes / HOST_FILES_PART + HOST_FILES_SPARE, MIB,
                        &pool_backend_pages);
        struct overlays *overlays = pool ? overlays_create(pool, 0) : NULL;
        plan_with_overlays(run, overlays, &files);
        overlays_destroy(overlays);
        pool_destroy(pool);
        files_close(&files);
    }
}

/* ---- as text -------------------------------------------------------------------------------- */

/* Prints a path or key of the job without control characters. */
static void print_name(const char *name, FILE *out)
{
    char text[JOB_URL_BYTES_MAX + 1];
    text_copy(text, sizeof text, name);
    text_make_printable(text);
    fputs(text, out);
}

static void print_input(const struct job_run *run, FILE *out)
{
    const struct image_info *info = &run->info;
    char url[JOB_URL_BYTES_MAX + 1];
    fputs("input    ", out);
    print_name(job_place_name(&run->job.input, url), out);
    fprintf(out, ": %s%s, %" PRIu32 " x %" PRIu32 " x %" PRIu32, info->format->name,
            info->progressive ? " (progressive)" : "", info->width, info->height, info->channels);
    if (info->orientation != 1)
        fprintf(out, ", EXIF orientation %d%s", info->orientation,
                run->job.orient ? "" : " (ignored)");
    if (info->strip > 0)
        fprintf(out, ", a strip of %" PRIu32 " of %" PRIu32 " frames", info->strip, info->frames);
    else if (info->frames > 1 && info->format->first_only)
        fprintf(out, ", one of %" PRIu32 " %ss", info->frames, format_part(info->format));
    else if (info->frames > 1)
        fprintf(out, ", page %" PRIu32 " of 0 to %" PRIu32, run->job.page, info->frames - 1);
    if (run->job.trim.wanted)
        fputs(", planned as if it had no borders to trim", out);
    if (info->gain_map)
        fputs(", with a gain map, which is dropped", out);
    fprintf(out, ", %" PRIu64 " bytes\n", run->input.bytes);
}

static void print_decode(const struct job_run *run, FILE *out)
{
    if (!job_outputs_need_pixels(run)) {
        fputs("decode   none: the file is recompressed\n", out);
        return;
    }
    struct image decoded = plan_input(&run->plan, NULL);
    char scale[24] = "";
    if (run->decode.eighths != DECODE_EIGHTHS)
        snprintf(scale, sizeof scale, ", at %" PRIu32 "/%d", run->decode.eighths, DECODE_EIGHTHS);
    fprintf(out, "decode   %s%s: %" PRIu32 " x %" PRIu32 " x %" PRIu32 "%s, %zu bytes\n",
            run->decode.as == DECODE_LUMA   ? "luma, the Y channel alone"
            : run->decode.as == DECODE_YCC  ? "Y, Cb and Cr, for gray and for colours"
            : run->decode.as == DECODE_CMYK ? "CMYK, for its profile"
            : run->info.channels == 1       ? "gray"
                                            : "colour",
            scale, decoded.width, decoded.height, image_samples(decoded.channels),
            image_is_deep(decoded.channels) ? " of 16 bits" : "", decoded.stride * decoded.height);
}

/* Prints the parameters of the encoder that are in the job. */
static void print_parameters(const struct job_output *output, FILE *out)
{
    struct encoder_settings settings = output->encoder;
    char text[PARAMETER_TEXT_BYTES];
    for (unsigned i = 0; i < PARAMETER_COUNT; i++)
        if (i == PARAMETER_quality && settings.ssim > 0)
            fprintf(out, ", quality %d to %d for an SSIM of %g", settings.quality_min,
                    settings.quality, (double)settings.ssim / SSIM_ONE);
        else if (output->given >> i & 1)
            fprintf(out, ", %s %s", encoder_parameters[i].name,
                    parameter_text(i, *encoder_setting(&settings, i), text));
}

/* The format, or those of a list that hold the image. */
static void print_format(const struct job_run *run, size_t index, FILE *out)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct job_output *wanted = &run->job.outputs[index];
    const struct plan_variant *v = &run->plan.variants[output->variant];
    const struct format *format = NULL;
    if (!wanted->formats)
        fputs(output->format ? output->format->name : "no image", out);
    while ((format = job_outputs_next_format(wanted, format, v->width, v->height, v->channels)))
        fprintf(out, "%s ", format->name);
    if (wanted->formats)
        fputs("(the smallest)", out);
}

static void print_output(const struct job_run *run, size_t index, FILE *out)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct job_place *place = &run->job.outputs[index].place;
    char url[JOB_URL_BYTES_MAX + 1];
    fputs("output   ", out);
    print_name(job_place_is_given(place) ? job_place_name(place, url) : "nowhere, values only",
               out);
    fputs(": ", out);
    if (output->error.status != STATUS_OK) {
        fprintf(out, "%s: %s\n", status_name(output->error.status), output->error.text);
        return;
    }
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    print_format(run, index, out);
    fprintf(out, ", %" PRIu32 " x %" PRIu32 " x %" PRIu32, variant->width, variant->height,
            image_samples(variant->channels));
    print_parameters(&run->job.outputs[index], out);
    fputc('\n', out);
    if (run->job.outputs[index].encoder.recompress)
        fputs("  no pass: the file is recompressed, with all of its metadata\n", out);
    else
        plan_print_passes(&run->plan, output->variant, out);
}

static void print_text(const struct job_run *run, const struct explain_set *set, FILE *out)
{
    if (job_is_set(&run->job))
        explain_set_print(set, run, out);
    if (set->is_closed)
        return;
    print_input(run, out);
    print_decode(run, out);
    for (size_t i = 0; i < run->job.output_count; i++)
        print_output(run, i, out);
    plan_print_memory(&run->plan, out);
}

/* ---- as JSON -------------------------------------------------------------------------------- */

static bool add_number(cJSON *object, const char *key, double value)
{
    return cJSON_AddNumberToObject(object, key, value) != NULL;
}

static bool add_size(cJSON *object, uint32_t width, uint32_t height, uint32_t channels)
{
    return add_number(object, "width", width) && add_number(object, "height", height) &&
           add_number(object, "channels", image_samples(channels)) &&
           (!image_is_deep(channels) || add_number(object, "depth", 16));
}

/* Adds the members that the error in a job's result has. */
static bool add_error(cJSON *holder, const struct error *error)
{
    cJSON *item = cJSON_AddObjectToObject(holder, "error");
    return item && cJSON_AddStringToObject(item, "code", status_name(error->status)) &&
           cJSON_AddStringToObject(item, "message", error->text) &&
           cJSON_AddBoolToObject(item, "retryable", status_retryable(error->status));
}

/* Adds the name of an input or output under the key that a job's result has for it. */
static bool add_place(cJSON *object, const struct job_place *place)
{
    char url[JOB_URL_BYTES_MAX + 1];
    const char *kind = place->path ? "path" : place->key ? "key" : "url";
    return !job_place_is_given(place) ||
           cJSON_AddStringToObject(object, kind, job_place_name(place, url));
}

static bool add_input(cJSON *json, const struct job_run *run)
{
    const struct image_info *info = &run->info;
    cJSON *input = cJSON_AddObjectToObject(json, "input");
    return input && add_place(input, &run->job.input) &&
           cJSON_AddStringToObject(input, "format", info->format->name) &&
           cJSON_AddBoolToObject(input, "progressive", info->progressive) &&
           add_size(input, info->width, info->height, info->channels) &&
           add_number(input, "orientation", info->orientation) &&
           cJSON_AddBoolToObject(input, "oriented", run->job.orient && info->orientation != 1) &&
           add_number(input, "bytes", (double)run->input.bytes) &&
           (info->frames == 1 || add_number(input, "frames", info->frames)) &&
           (info->strip == 0 || add_number(input, "strip", info->strip)) &&
           (!run->job.trim.wanted || cJSON_AddTrueToObject(input, "trim"));
}

static bool add_decode(cJSON *json, const struct job_run *run)
{
    struct image image = plan_input(&run->plan, NULL);
    const char *as = run->decode.as == DECODE_LUMA      ? "luma"
                     : run->decode.as == DECODE_YCC     ? "ycc"
                     : run->decode.as == DECODE_CMYK    ? "cmyk"
                     : run->info.channels == 1          ? "gray"
                                                         : "colour";
    cJSON *decode = cJSON_AddObjectToObject(json, "decode");
    if (!job_outputs_need_pixels(run))
        return decode && cJSON_AddStringToObject(decode, "as", "none");
    return decode && cJSON_AddStringToObject(decode, "as", as) &&
           add_number(decode, "eighths", run->decode.eighths) &&
           add_size(decode, image.width, image.height, image.channels) &&
           add_number(decode, "bytes", (double)(image.stride * image.height));
}

static bool add_parameter(cJSON *object, enum encoder_parameter parameter, int value)
{
    const struct parameter_row *row = &encoder_parameters[parameter];
    if (row->kind == PARAMETER_IS_BOOL)
        return cJSON_AddBoolToObject(object, row->name, value);
    if (row->kind == PARAMETER_IS_WORD)
        return cJSON_AddStringToObject(object, row->name, row->words[value]);
    return add_number(object, row->name, value);
}

/* As the job gives it, with the defaults of its keys. */
static bool add_quality(cJSON *object, const struct encoder_settings *settings)
{
    const char *name = encoder_parameters[PARAMETER_quality].name;
    if (settings->ssim == 0)
        return add_number(object, name, settings->quality);
    cJSON *quality = cJSON_AddObjectToObject(object, name);
    return quality && add_number(quality, "ssim", (double)settings->ssim / SSIM_ONE) &&
           add_number(quality, "min", settings->quality_min) &&
           add_number(quality, "max", settings->quality);
}

/* Adds all parameters that the format's encoder takes, with their defaults. Some have none. */
static bool add_parameters(cJSON *item, const struct format *format,
                           struct encoder_settings settings)
{
    cJSON *object = cJSON_AddObjectToObject(item, "parameters");
    bool ok = object != NULL;
    for (unsigned i = 0; i < PARAMETER_COUNT && ok; i++)
        if (format->parameters >> i & 1 &&
            *encoder_setting(&settings, i) >= encoder_parameters[i].min)
            ok = i == PARAMETER_quality ? add_quality(object, &settings)
                                        : add_parameter(object, i, *encoder_setting(&settings, i));
    return ok;
}

/* The formats of a list that hold the image, and the quality. */
static bool add_formats(cJSON *item, const struct job_run *run, size_t index)
{
    const struct job_output *wanted = &run->job.outputs[index];
    const struct plan_variant *v = &run->plan.variants[run->outputs[index].variant];
    const struct format *format = NULL;
    cJSON *list = cJSON_AddArrayToObject(item, "format");
    cJSON *parameters = cJSON_AddObjectToObject(item, "parameters");
    while (list &&
           (format = job_outputs_next_format(wanted, format, v->width, v->height, v->channels)))
        cJSON_AddItemToArray(list, cJSON_CreateString(format->name));
    return list && parameters && add_quality(parameters, &wanted->encoder);
}

static bool add_output(cJSON *list, const struct job_run *run, size_t index)
{
    const struct job_run_output *output = &run->outputs[index];
    const struct job_place *place = &run->job.outputs[index].place;
    cJSON *item = cJSON_CreateObject();
    if (!item || !cJSON_AddItemToArray(list, item) || !add_place(item, place))
        return false;
    if (output->error.status != STATUS_OK)
        return add_error(item, &output->error);
    const struct plan_variant *variant = &run->plan.variants[output->variant];
    return (run->job.outputs[index].formats
                ? add_formats(item, run, index)
                : !output->format ||
                      (cJSON_AddStringToObject(item, "format", output->format->name) &&
                       add_parameters(item, output->format, run->job.outputs[index].encoder))) &&
           add_size(item, variant->width, variant->height, variant->channels) &&
           json_set(item, "passes", plan_json_passes(&run->plan, output->variant));
}

static bool add_plan(cJSON *json, const struct job_run *run, const struct explain_set *set)
{
    cJSON *outputs = NULL;
    if (job_is_set(&run->job) && !explain_set_add(json, set, run))
        return false;
    if (set->is_closed)
        return true;
    bool ok = add_input(json, run) && add_decode(json, run) &&
              (outputs = cJSON_AddArrayToObject(json, "outputs"));
    for (size_t i = 0; i < run->job.output_count && ok; i++)
        ok = add_output(outputs, run, i);
    return ok && json_set(json, "memory", plan_json_memory(&run->plan));
}

/* For a job that would fail as a whole: adds the error, and the name of the input if it was parsed
 * and is the only one. */
static bool add_failure(cJSON *json, const struct job_run *run, const struct error *error)
{
    const struct job_place *place = &run->job.input;
    bool is_known = job_place_is_given(place) && !job_is_set(&run->job);
    cJSON *input = is_known ? cJSON_AddObjectToObject(json, "input") : NULL;
    if (is_known && !(input && add_place(input, place)))
        return false;
    return add_error(json, error);
}

static void print_json(const struct job_run *run, const struct explain_set *set,
                       struct error *error, FILE *out)
{
    cJSON *json = cJSON_CreateObject();
    bool ok = json && (error->status == STATUS_OK ? add_plan(json, run, set)
                                                  : add_failure(json, run, error));
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

/* ---- the job -------------------------------------------------------------------------------- */

/* The shard to which a client pushes the job. It follows from the id of the job. For a job
 * without an id: each shard has a namespace of its own, {NS:i}, with which its Redis keys begin.
 * The first shard whose namespace is in the text of the job is taken, else shard 0. */
static uint32_t shard_of(const struct options *options, const char *text, size_t length)
{
    cJSON *job = cJSON_ParseWithLength(text, length);
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(job, "id"));
    uint32_t shard = id ? shard_of_id(id, strlen(id), (uint32_t)options->shards) : 0;
    for (uint32_t i = 0; !id && i < options->shards; i++) {
        struct options one;
        struct error error = {0};
        bool named = shard_options(&one, options, i, &error) &&
                     memmem(text, length, one.namespace, strlen(one.namespace));
        options_clear(&one);
        if (named) {
            shard = i;
            break;
        }
    }
    cJSON_Delete(job);
    return shard;
}

/* Parses the job, reads its input and builds the plan. run->error is set if the job would fail. */
static void explain(struct job_run *run, struct explain_set *set, const struct options *options,
                    const struct prefixes *prefixes, const char *text, size_t length)
{
    struct job_rules rules = {options->namespace, options->job_timeout_s};
    run->bounds.same_root = files_same_folder(options->input_root, options->output_root);
    run->bounds.prefixes = prefixes;
    job_run_take_bounds(run, options);
    if (job_parse(&run->job, text, length, &rules, &run->error) == STATUS_OK)
        planning_check(run);
    if (run->error.status == STATUS_OK && job_is_set(&run->job))
        explain_set_choose(set, run, options);
    if (set->is_closed)
        return;
    if (run->error.status == STATUS_OK)
        read_input(run, options);
    if (run->error.status == STATUS_OK)
        build_plan(run, options);
    if (run->error.status == STATUS_OK)
        explain_memory_check(run, options);
}

bool explain_job(const struct options *options, const char *file, bool json, FILE *out)
{
    static struct job_run run; /* too large for a stack */
    struct explain_set set = {0};
    struct error error = {0};
    struct prefixes prefixes;
    size_t length = 0;
    char *text = read_text(file, &length, &error);
    struct options shard = {0};
    memset(&run, 0, sizeof run);
    if (prefixes_parse(&prefixes, options->url_prefixes, &error) && text &&
        shard_options(&shard, options, shard_of(options, text, length), &error)) {
        explain_memory_resolve(&shard);
        explain(&run, &set, &shard, &prefixes, text, length);
    }
    prefixes_clear(&prefixes);
    if (error.status == STATUS_OK)
        error = run.error;
    if (json)
        print_json(&run, &set, &error, out);
    else if (error.status == STATUS_OK) /* an error is only logged */
        print_text(&run, &set, out);
    for (size_t i = 0; i < run.job.output_count; i++)
        if (run.outputs[i].error.status != STATUS_OK)
            error_set(&error, run.outputs[i].error.status, "%s", run.outputs[i].error.text);
    plan_clear(&run.plan);
    image_info_clear(&run.info);
    for (size_t i = 0; i < run.job.output_count; i++)
        op_list_free(run.outputs[i].ops);
    job_clear(&run.job);
    free(run.input.loaded);
    free(text);
    options_clear(&shard);
    if (fflush(out) != 0 || ferror(out))
        error_set(&error, STATUS_WRITE_FAILED, "the plan cannot be printed: %s", strerror(errno));
    if (error.status != STATUS_OK)
        log_error("%s: %s: %s", file, status_name(error.status), error.text);
    return error.status == STATUS_OK;
}
