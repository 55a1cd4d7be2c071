#include "daemon/pipeline/planning.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/mask.h"
#include "conf/text.h"
#include "daemon/device_codecs.h"
#include "daemon/pipeline/job_outputs.h"
#include "daemon/pipeline/job_overlays.h"
#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/route.h"
#include "gpu/plan/op_list.h"
#include "gpu/plan/plan_values.h"
#include "queue/job/member_name.h"

/* ---- before the input is read --------------------------------------------------------------- */

/* "outputs[1].output", or "output" if the job has no list of outputs. */
static const char *output_name(const struct job_run *run, size_t index, char text[40])
{
    if (run->job.listed)
        snprintf(text, 40, "outputs[%zu].output", index);
    else
        strcpy(text, "output");
    return text;
}

/* The text whose suffix can name the format: the path, or that of the URL. NULL: none, also of a
 * tar. */
static const char *name_with_suffix(const struct job_output *output,
                                    char text[JOB_URL_BYTES_MAX + 1])
{
    const struct job_place *place = &output->place;
    if (output->pack == JOB_TAR)
        return NULL;
    if (!place->url)
        return place->path;
    text_copy_url(text, JOB_URL_BYTES_MAX + 1, place->url);
    const char *host = strstr(text, "://");
    return host ? strchr(host + 3, '/') : NULL;
}

/* A search for max_bytes changes the quality, which lossless files do not have. */
static enum status check_max_bytes(const struct job_run *run, size_t index, struct error *error)
{
    const struct encoder_settings *encoder = &run->job.outputs[index].encoder;
    char text[40];
    if (!encoder->lossless || encoder->max_bytes == 0)
        return STATUS_OK;
    return error_set(error, STATUS_BAD_JOB,
                     "%s.lossless is true, but max_bytes is %d, which lowers the quality of a "
                     "lossy file; omit one of the two", output_name(run, index, text),
                     encoder->max_bytes);
}

/* A search for a similarity changes the quality, and reads its files. */
static enum status check_ssim(const struct job_run *run, size_t index, const struct format *format,
                              struct error *error)
{
    const struct encoder_settings *encoder = &run->job.outputs[index].encoder;
    char text[40];
    if (encoder->ssim == 0)
        return STATUS_OK;
    if (encoder->lossless)
        return error_set(
            error, STATUS_BAD_JOB,
            "%s.lossless is true, but quality.ssim is %g, which chooses the quality of "
            "a lossy file; omit one of the two",
            output_name(run, index, text), (double)encoder->ssim / SSIM_ONE);
    const char *refusal = codec_refusal(format, false);
    if (refusal)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "%s.quality.ssim needs to read %s, but %s", output_name(run, index, text),
                         format->noun, refusal);
    return STATUS_OK;
}

/* A recompressed file keeps all of the input. */
static enum status check_recompress(const struct job_run *run, size_t index, struct error *error)
{
    const struct job_output *output = &run->job.outputs[index];
    unsigned useless = output->given & ~(TAKES(recompress) | TAKES(effort));
    char text[40];
    const char *name = output_name(run, index, text);
    if (!output->encoder.recompress)
        return STATUS_OK;
    if (run->job.source == JOB_ANIMATION)
        return error_set(
            error, STATUS_BAD_JOB,
            "%s.recompress is true, but frames is \"all\", and a frame is no file; omit "
            "one of the two",
            name);
    if (useless)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.recompress is true, which changes no pixel; omit %s", name,
                         encoder_parameters[__builtin_ctz(useless)].name);
    if (output->metadata != METADATA_ICC)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.recompress is true, which keeps all metadata; omit metadata", name);
    return STATUS_OK;
}

/* With the input's format. */
static enum status check_pair(const struct job_run *run, size_t index, const struct format *from,
                              const struct format *to, struct error *error)
{
    char text[40];
    if (!run->job.outputs[index].encoder.recompress)
        return STATUS_OK;
    const char *refusal = codec_refusal(&formats[FORMAT_jxl], true); /* may start a process */
    if (format_recompressed(from) != to)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.recompress makes a JPEG XL of a JPEG, or a JPEG of a JPEG XL; the "
                         "input is %s, the output %s",
                         output_name(run, index, text), from->noun, to->noun);
    if (refusal)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT, "%s.recompress needs JPEG XL, but %s",
                         output_name(run, index, text), refusal);
    if (run->info.cmyk)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "%s.recompress is true, but the JPEG is CMYK, which libjxl cannot "
                         "recompress; omit recompress to encode its pixels",
                         output_name(run, index, text));
    return STATUS_OK;
}

/* The name of an output in an error. Images that are packed into an archive have none. */
static const char *written_name(const struct job_place *place, char url[JOB_URL_BYTES_MAX + 1])
{
    const char *name = job_place_name(place, url);
    return name ? name : "each image";
}

/* Fails if the numbers of a tensor cannot be normalized, or the input's metadata cannot be kept. */
static enum status check_tensor(const struct job_run *run, size_t index,
                                const struct format *format, struct error *error)
{
    const struct job_output *output = &run->job.outputs[index];
    char text[40], tensors[FORMAT_LIST_BYTES], url[JOB_URL_BYTES_MAX + 1];
    const char *name = output_name(run, index, text);
    if (output->normalize.given && !format->tensor)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.normalize is a key of %s, but \"%.100s\" is written as %s; omit it",
                         name, format_list(FORMAT_NAMES, TAKES(type), "%s", " and ", tensors),
                         written_name(&output->place, url), format->name);
    if (output->normalize.given && output->encoder.type == TENSOR_U8)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.normalize makes fractions, but the type is u8; set type to f16 or f32",
                         name);
    if (format->tensor && output->metadata & ~(unsigned)METADATA_ICC)
        return error_set(error, STATUS_BAD_JOB, "%s.metadata: %s keeps no metadata; omit the key",
                         name, format->noun);
    return STATUS_OK;
}

/* Fails if this program cannot write the format, or the output has encoder parameters that the
 * format does not have or that contradict each other. */
static enum status check_encoder(const struct job_run *run, size_t index,
                                 const struct format *format, struct error *error)
{
    const struct job_output *output = &run->job.outputs[index];
    const struct job_place *place = &output->place;
    unsigned wrong = output->given & ~format->parameters;
    char text[40], takers[FORMAT_LIST_BYTES], url[JOB_URL_BYTES_MAX + 1];
    const char *refusal = codec_refusal(format, true);
    if (refusal)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT, "%s is to be %s, but %s",
                         output_name(run, index, text), format->noun, refusal);
    if (wrong == 0)
        return check_max_bytes(run, index, error) != STATUS_OK ||
                       check_ssim(run, index, format, error) != STATUS_OK ||
                       check_recompress(run, index, error) != STATUS_OK
                   ? error->status
                   : check_tensor(run, index, format, error);
    int first = __builtin_ctz(wrong);
    return error_set(error, STATUS_BAD_JOB,
                     "%s.%s is a key of %s, but \"%.100s\" is written as %s; omit it",
                     output_name(run, index, text), encoder_parameters[first].name,
                     format_list(FORMAT_NAMES, 1u << first, "%s", " and ", takers),
                     written_name(place, url), format->name);
}

/* The smallest file of several formats is written. Each key must be one of a format of the list. */
static enum status check_list(const struct job_run *run, size_t index, struct error *error)
{
    const struct job_output *output = &run->job.outputs[index];
    char url[JOB_URL_BYTES_MAX + 1], text[40];
    const char *path = name_with_suffix(output, url), *name = output_name(run, index, text);
    const struct format *meant = path ? format_of_path(path) : NULL;
    const struct format *first = job_outputs_next_format(output, NULL, 1, 1, 1);
    unsigned wrong = output->given;
    for (int i = 0; i < FORMAT_COUNT; i++)
        wrong &= output->formats >> i & 1 ? ~formats[i].parameters : ~0u;
    if (meant)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.format has several formats, but the suffix of \"%.100s\" means %s; "
                         "omit the suffix",
                         name, path, meant->name);
    if (!first)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "this gpuimgd cannot write and read any format of %s.format", name);
    if (wrong)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.%s is no key of the formats of %s.format; omit it", name,
                         encoder_parameters[__builtin_ctz(wrong)].name, name);
    return check_ssim(run, index, first, error) != STATUS_OK ? error->status
                                                             : check_recompress(run, index, error);
}

/* The requested format and the path's suffix must agree. Both are optional. */
static enum status check_format(const struct job_run *run, size_t index, struct error *error)
{
    const struct job_output *output = &run->job.outputs[index];
    char url[JOB_URL_BYTES_MAX + 1];
    const char *path = name_with_suffix(output, url);
    const char *near = NULL,
               *other = path ? format_wrong_suffix(path, output->place.url, &near) : NULL;
    const struct format *meant = path ? format_of_path(path) : NULL;
    const struct format *asked = output->format ? format_by_name(output->format) : NULL;
    char text[40], known[FORMAT_LIST_BYTES], shown[64];
    const char *name = output_name(run, index, text);
    if (output->formats)
        return check_list(run, index, error);
    if (!output->format && other && near)
        return error_set(error, STATUS_BAD_JOB,
                         "%s \"%.100s\" ends in %s, which is not an output format; did you mean "
                         ".%s? Otherwise set a format",
                         name, path, other, near);
    if (!output->format && other)
        return error_set(error, STATUS_BAD_JOB,
                         "%s \"%.100s\" ends in %s, which is not an output format; use the suffix "
                         "%s, or set a format", name, path, other,
                         format_list(FORMAT_SUFFIXES, 0, ".%s", " or ", known));
    if (output->format && !asked)
        return error_set(error, STATUS_BAD_JOB, "%s.format is \"%s\"; it must be %s", name,
                         mask_copy(shown, sizeof shown, output->format),
                         format_list(FORMAT_NAMES, 0, "\"%s\"", " or ", known));
    if (asked && meant && asked != meant)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.format is \"%s\", but the suffix of \"%.100s\" means %s; omit the "
                         "format, or change the suffix", name, output->format, path,
                         meant->name);
    if (!asked && !meant)
        return STATUS_OK; /* the input's format, which is not known yet */
    return check_encoder(run, index, asked ? asked : meant, error);
}

/* Compares only the texts of the paths. encoding.c finds other names of the input's file before it
 * replaces a file. */
static enum status check_is_not_input(const struct job_run *run, size_t index, struct error *error)
{
    const char *from = run->job.input.path, *to = run->job.outputs[index].place.path;
    char text[40];
    if (!run->bounds.same_root || !from || !to || strcmp(from, to) != 0)
        return STATUS_OK;
    return error_set(error, STATUS_BAD_JOB, "input and %s are both \"%.100s\", and input_root is "
                     "output_root; give the output another name", output_name(run, index, text),
                     from);
}

/* false: the URL is wrong, or no prefix allows it; the error says why. */
static bool parse_allowed(const struct job_run *run, const char *text, struct url *url,
                          struct error *error)
{
    return url_parse(url, text, error) == STATUS_OK &&
           prefixes_match(run->bounds.prefixes, url, error);
}

/* Whether `text` is a URL that names the resource of `url`. */
static bool names_same(const struct url *url, const char *text)
{
    struct url other;
    struct error ignored = {0};
    bool same = text && url_parse(&other, text, &ignored) == STATUS_OK && url_same(url, &other);
    if (text)
        url_clear(&other);
    return same;
}

/* The URL of an output, or NULL. If it is a template, then that of an image with the name "0". */
static const char *output_url(const struct job *job, size_t index, char text[JOB_URL_BYTES_MAX + 1])
{
    const char *url = job->outputs[index].place.url;
    bool expands =
        url && job_is_set(job) && member_expand(text, JOB_URL_BYTES_MAX + 1, url, "0", 0) >= 0;
    return expands ? text : url;
}

static enum status check_url(const struct job_run *run, size_t index, struct error *error)
{
    const struct job *job = &run->job;
    struct url url;
    char text[40], own[JOB_URL_BYTES_MAX + 1], other[JOB_URL_BYTES_MAX + 1];
    if (!job->outputs[index].place.url)
        return STATUS_OK;
    const char *name = output_name(run, index, text);
    if (parse_allowed(run, output_url(job, index, own), &url, error)) {
        if (names_same(&url, job->input.url))
            error_set(error, STATUS_BAD_JOB, "input and %s are both \"%.*s\"; give the output "
                      "another name", name, URL_SHOWN(&url));
        for (size_t i = 0; i < index; i++)
            if (names_same(&url, output_url(job, i, other)))
                error_set(error, STATUS_BAD_JOB, "two outputs are \"%.*s\"", URL_SHOWN(&url));
    }
    url_clear(&url);
    return error->status;
}

static void check_input(struct job_run *run)
{
    struct url url;
    if (!run->job.input.url)
        return;
    bool allowed = parse_allowed(run, run->job.input.url, &url, &run->error);
    (void)allowed; /* else run->error is set */
    url_clear(&url);
}

static enum status check_no_ops(const struct job_run *run, size_t index, struct error *error)
{
    char text[40];
    bool trims = run->job.trim.wanted;
    if (!run->job.outputs[index].encoder.recompress || !(run->outputs[index].ops || trims))
        return STATUS_OK;
    return error_set(error, STATUS_BAD_JOB,
                     "%s.recompress is true, which changes no pixel; omit %s",
                     output_name(run, index, text), trims ? "trim" : "its operations");
}

static void check_output(struct job_run *run, size_t index)
{
    const struct job_output *output = &run->job.outputs[index];
    struct error *error = &run->outputs[index].error;
    struct op_item **ops = &run->outputs[index].ops;
    bool listed = run->job.listed;
    if (check_format(run, index, error) != STATUS_OK ||
        check_is_not_input(run, index, error) != STATUS_OK ||
        check_url(run, index, error) != STATUS_OK ||
        op_list_parse(ops, output->ops, listed ? (int)index : -1, error) != STATUS_OK ||
        check_no_ops(run, index, error) != STATUS_OK ||
        (output->encoder.depth == 16 && op_list_check_deep(*ops, error) != STATUS_OK) ||
        job_overlays_check(run, index, run->bounds.ns, error) != STATUS_OK ||
        job_place_is_given(&output->place) || op_list_gives_values(*ops))
        return;
    if (listed)
        error_set(error, STATUS_BAD_JOB,
                  "outputs[%zu] has no output, and no operation that gives values", index);
    else
        error_set(error, STATUS_BAD_JOB,
                  "the job has no output, and no operation that gives values");
}

void planning_check(struct job_run *run)
{
    check_input(run);
    job_overlays_begin(run);
    for (size_t i = 0; i < run->job.output_count; i++)
        check_output(run, i);
    if (job_is_set(&run->job)) /* no image could be whole */
        job_outputs_judge(run);
    job_outputs_fail_if_all_failed(run);
}

void planning_check_image(struct job_run *run)
{
    check_input(run);
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct error *error = &run->outputs[i].error;
        if (error->status == STATUS_OK && check_is_not_input(run, i, error) == STATUS_OK)
            check_url(run, i, error);
    }
    job_outputs_judge(run);
}

/* ---- with the input's header ---------------------------------------------------------------- */

/* Of a list, the format for which the image is computed: one with alpha, if there is one, so that
 * the image keeps it. The encoder chooses one that holds the image. */
static const struct format *list_format(const struct job_output *output)
{
    const struct format *format = job_outputs_next_format(output, NULL, 1, 1, 4);
    return format ? format : job_outputs_next_format(output, NULL, 1, 1, 1);
}

/* The largest side of the image; 0: any. Of a list, that of all its formats: the encoder leaves out
 * those that do not hold the image. */
static uint32_t most_side(const struct job_output *output, const struct format *format)
{
    uint32_t most = format ? format->side_max : 0;
    if (output->formats)
        for (format = NULL;
             most > 0 && (format = job_outputs_next_format(output, format, 1, 1, 1));)
            most = format->side_max == 0 || format->side_max > most ? format->side_max : most;
    return most;
}

/* The requested format, or else the format of the path's suffix, or else what the input's format
 * gives. NULL if the output has only values, or an unknown format. */
static const struct format *output_format(const struct job_output *output,
                                          const struct image_info *info)
{
    char url[JOB_URL_BYTES_MAX + 1];
    if (!job_place_is_given(&output->place) && output->pack == JOB_FILES)
        return NULL;
    if (output->format)
        return format_by_name(output->format);
    if (output->formats)
        return list_format(output);
    const char *name = name_with_suffix(output, url);
    const struct format *format = name ? format_of_path(name) : NULL;
    if (!format && output->encoder.recompress)
        format = format_recompressed(info->format);
    return format ? format : format_of_output(info->format, info->channels == 4);
}

unsigned planning_metadata(const struct job_run *run)
{
    unsigned wanted = 0;
    for (size_t i = 0; i < run->job.output_count; i++)
        wanted |= run->job.outputs[i].metadata;
    return wanted & ~(unsigned)METADATA_ICC;
}

/* Chooses the metadata of each output, and frees the profile if none uses it. Only RGB profiles are
 * written; pixels in sRGB need none. */
static void choose_metadata(struct job_run *run)
{
    bool is_rgb = image_info_icc_is_rgb(&run->info), is_used = false;
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct job_run_output *output = &run->outputs[i];
        output->in_srgb = op_list_converts_to_srgb(output->ops);
        output->metadata = run->job.outputs[i].metadata;
        const struct format *format = output_format(&run->job.outputs[i], &run->info);
        if (output->in_srgb || !is_rgb || (format && format->tensor))
            output->metadata &= ~(unsigned)METADATA_ICC;
        is_used |= output->in_srgb || output->metadata & METADATA_ICC;
    }
    if (!is_used)
        image_info_clear_icc(&run->info);
}

/* The parameters that the job omits get the defaults of the format. */
static void set_defaults(struct job_output *output, const struct format *format)
{
    output->encoder = job_outputs_settings(output, format);
}

void planning_set_defaults(struct job_output *output)
{
    set_defaults(output, output_format(output, NULL));
}

/* Fills a target for each output without an error; returns their number. */
static size_t take_targets(struct job_run *run, struct plan_target *targets)
{
    size_t count = 0;
    for (size_t i = 0; i < run->job.output_count; i++) {
        struct job_run_output *output = &run->outputs[i];
        output->format = output_format(&run->job.outputs[i], &run->info);
        if (output->error.status != STATUS_OK ||
            (output->format && !run->job.outputs[i].formats &&
             (check_encoder(run, i, output->format, &output->error) != STATUS_OK ||
              check_pair(run, i, run->info.format, output->format, &output->error) != STATUS_OK)))
            continue;
        if (output->format)
            set_defaults(&run->job.outputs[i], output->format);
        const struct encoder_settings *encoder = &run->job.outputs[i].encoder;
        bool rgb = output->format && encoder->channels == TENSOR_RGB;
        bool pixels = output->format && !encoder->recompress;
        output->variant = count;
        output->was_planned = true;
        output->is_gray = pixels && (encoder->subsampling == SUBSAMPLING_GRAY ||
                                     encoder->channels == TENSOR_GRAY);
        output->is_deep = pixels && encoder->depth == 16;
        targets[count++] = (struct plan_target){
            .ops = output->ops,
            .opaque = pixels && (!output->format->alpha || rgb),
            .gray = output->is_gray,
            .deep = output->is_deep,
            .no_picture = !pixels,
            .tensor = {.wanted = output->format && output->format->tensor,
                       .type = (enum tensor_type)encoder->type,
                       .layout = (enum tensor_layout)encoder->layout,
                       .rgb = rgb,
                       .normalize = &run->job.outputs[i].normalize},
            .side_max = most_side(&run->job.outputs[i], output->format),
            .overlays = &run->overlays.finder,
            .number = run->job.listed ? (unsigned)i + 1 : 0,
            .error = &output->error,
        };
    }
    return count;
}

/* A deep image is decoded as it is for a deep output, and CMYK if its profile will be used. Outputs
 * that failed since the first plan count: a device that declines the file must change no result. */
static enum decode_as choose_colours(const struct job_run *run)
{
    struct plan_target targets[JOB_OUTPUTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < run->job.output_count; i++) {
        const struct job_run_output *from = &run->outputs[i];
        if (from->was_planned)
            targets[count++] = (struct plan_target){
                .ops = from->ops, .gray = from->is_gray, .deep = from->is_deep};
    }
    bool has_profile = image_info_icc_is_cmyk(&run->info);
    for (size_t i = 0; i < count && run->info.deep; i++)
        if (targets[i].deep)
            return DECODE_DEEP;
    if (run->info.ycc)
        return plan_decode_as(targets, count);
    for (size_t i = 0; i < run->job.output_count && run->info.cmyk && has_profile; i++)
        if (run->outputs[i].in_srgb)
            return DECODE_CMYK;
    return DECODE_COLOUR;
}

static void set_profile(const struct job_run *run, struct plan_source *source)
{
    source->icc = run->info.icc;
    source->icc_bytes = run->info.icc_bytes;
}

/* Chooses how the input is decoded, and returns the resulting source image. A scaled decode is used
 * only for a job without a list: an output's pixels must not depend on the job's other outputs. */
static struct plan_source choose_decode(struct job_run *run, const struct plan_target *targets)
{
    const struct image_info *info = &run->info;
    struct decode_request *decode = &run->decode;
    struct plan_source source = {
        .width = info->width,
        .height = info->height,
        .orientation = run->job.orient ? info->orientation : 1,
        .unread = !job_outputs_need_pixels(run),
    };
    memcpy(source.background, run->job.background, sizeof source.background);
    decode->as = choose_colours(run);
    source.part = run->trimmed;
    decode->eighths = info->scales && !run->job.listed && !run->job.trim.wanted
                          ? plan_eighths(&source, targets[0].ops)
                          : DECODE_EIGHTHS;
    source.channels = codec_channels(info, decode->as);
    source.ycc = decode->as == DECODE_YCC;
    source.cmyk = decode->as == DECODE_CMYK;
    set_profile(run, &source);
    source.eighths = decode->eighths;
    return source;
}

/* Heap of the plan and of its values, in bytes. */
static void measure_plan(struct job_run *run)
{
    run->plan_bytes = plan_bytes(&run->plan);
    run->values_bytes = 0;
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK)
            run->values_bytes += plan_values_bytes(&run->plan, run->outputs[i].variant);
}

/* Sets how a device encodes the output, if one does. */
static void set_encoder(const struct job_run *run, size_t index, struct plan_target *target)
{
    const struct job_run_output *output = &run->outputs[index];
    enum device_codec codec = device_codec_of(output->format);
    target->encoder = (struct plan_encoder){.codec = DEVICE_CODEC_NONE};
    target->measure_encoder = NULL;
    if (output->encoder == CODEC_ON_HOST)
        return;
    target->encoder = device_codec_encoder(codec, &run->job.outputs[index].encoder,
                                           image_info_metadata_bytes(&run->info, output->metadata));
    target->measure_encoder = device_codecs[codec].measure;
}

/* Only now route.c has chosen the encoders. */
static bool plan_targets(struct job_run *run, const struct plan_source *source,
                         struct plan_target *targets, size_t count)
{
    for (size_t i = 0; i < run->job.output_count; i++)
        if (run->outputs[i].error.status == STATUS_OK)
            set_encoder(run, i, &targets[run->outputs[i].variant]);
    if (plan_build(&run->plan, source, targets, count, &run->bounds.plan, &run->error) != STATUS_OK)
        return false;
    route_plan(run);
    return true;
}

/* Chooses how the input is decoded and where the codecs run, and builds the plan. */
static bool choose_and_plan(struct job_run *run, struct worker_tools *tools,
                            struct plan_target *targets, size_t count)
{
    struct plan_source source = choose_decode(run, targets);
    source.file = route_choose(run, tools);
    if (!plan_targets(run, &source, targets, count))
        return false;
    if (route_fits(run))
        return true;
    plan_clear(&run->plan);
    source.file = route_to_host(run);
    return plan_targets(run, &source, targets, count);
}

/* Builds the plan for all outputs without an error. source: NULL: chooses it. */
static bool build(struct job_run *run, const struct plan_source *source,
                  struct worker_tools *tools)
{
    struct plan_target targets[JOB_OUTPUTS_MAX];
    if (!source)
        choose_metadata(run);
    size_t count = take_targets(run, targets);
    return count > 0 && (source ? plan_targets(run, source, targets, count)
                                : choose_and_plan(run, tools, targets, count));
}

/* Whether the input has the frame that the job wants. */
static bool check_frames(struct job_run *run)
{
    const struct image_info *info = &run->info;
    const char *noun = info->format->noun, *part = format_part(info->format);
    if (run->job.frames == JOB_FRAMES_REFUSE && info->frames > 1)
        error_set(&run->error, STATUS_BAD_JOB,
                  "the input is %s with %" PRIu32 " %ss, and the job's frames is \"refuse\"", noun,
                  info->frames, part);
    else if (run->job.strip > 0 && info->frames > 1 && info->strip == 0)
        error_set(&run->error, STATUS_BAD_JOB,
                  "frames is {\"strip\":%" PRIu32 "}, but of %s with %" PRIu32 " %ss only one can "
                  "be read",
                  run->job.strip, noun, info->frames, part);
    else if (run->job.page > 0 && info->format->first_only && info->frames > 1)
        error_set(&run->error, STATUS_BAD_JOB,
                  "page is %" PRIu32 ", but of %s with %" PRIu32 " %ss only one is read; page must "
                  "be 0",
                  run->job.page, noun, info->frames, part);
    else if (run->job.page >= info->frames)
        error_set(&run->error, STATUS_BAD_JOB,
                  "page is %" PRIu32 ", but the input is %s with %" PRIu32 " %s%s; page must be "
                  "%s%" PRIu32,
                  run->job.page, noun, info->frames, part, info->frames == 1 ? "" : "s",
                  info->frames == 1 ? "" : "0 to ", info->frames - 1);
    return run->error.status == STATUS_OK;
}

/* Builds a plan with which the input is only decoded, so that its borders can be measured. */
static bool build_to_measure(struct job_run *run)
{
    const struct plan_target target = {.ops = NULL}; /* the source as it is */
    run->decode = (struct decode_request){.as = DECODE_COLOUR, .eighths = DECODE_EIGHTHS};
    const struct plan_source source = {.width = run->info.width,
                                       .height = run->info.height,
                                       .channels = codec_channels(&run->info, DECODE_COLOUR),
                                       .file = route_to_host(run)};
    return plan_build(&run->plan, &source, &target, 1, &run->bounds.plan, &run->error) == STATUS_OK;
}

/* Whether the borders, if they were measured, are those of an image of this size. The codec process
 * may have been taken over by the file since. */
static bool check_measured(struct job_run *run)
{
    const struct image_info *info = &run->info;
    if (run->trimmed.width == 0 ||
        (info->width == run->measured_width && info->height == run->measured_height))
        return true;
    error_set(&run->error, STATUS_INPUT_UNREADABLE,
              "the input is %u x %u pixels, but was %u x %u when its borders were measured; it "
              "changed while it was read",
              info->width, info->height, run->measured_width, run->measured_height);
    run->trimmed = (struct trim_part){0};
    return false;
}

static bool build_first(struct job_run *run, struct worker_tools *tools)
{
    run->measures = tools && run->job.trim.wanted && run->trimmed.width == 0;
    if (run->measures)
        return build_to_measure(run);
    return check_measured(run) && build(run, NULL, tools);
}

void planning_build(struct job_run *run, struct worker_tools *tools)
{
    if (check_frames(run) && build_first(run, tools))
        measure_plan(run);
    if (run->error.status == STATUS_OK)
        job_outputs_fail_if_all_failed(run);
}

/* Skips outputs that failed the first time. The memory of the plan must not differ from the memory
 * that was admitted. */
void planning_restore(struct job_run *run)
{
    struct plan measured = run->plan;
    set_profile(run, &measured.source);
    if (build(run, &measured.source, NULL) && (run->plan.input_bytes != measured.input_bytes ||
                                         run->plan.output_bytes != measured.output_bytes ||
                                         run->plan.scratch_bytes != measured.scratch_bytes ||
                                         plan_bytes(&run->plan) > run->plan_bytes))
        error_set(&run->error, STATUS_INTERNAL, "the plan is not the one that was admitted");
}
