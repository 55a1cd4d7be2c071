#include "daemon/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/log.h"
#include "daemon/files.h"
#include "daemon/work.h"

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
    int fd = -1;
    if (!path) {
        error_set(&work->error, STATUS_INPUT_MISSING,
                  "the input is the Redis key \"%s\"; only files below input_root are explained",
                  work->job.input.key);
    } else if (files_open_inputs(&files, input_root, &work->error)) {
        enum status status = files_open_input(&files, path, work->input_bytes_max, &fd,
                                              &work->file_bytes, &work->error);
        if (status == STATUS_OK && !(work->loaded = malloc(work->file_bytes + 1)))
            status = error_set(&work->error, STATUS_OUT_OF_MEMORY, "no memory for the input");
        if (status == STATUS_OK)
            status = files_read_input(fd, path, work->loaded, work->file_bytes, &work->error);
        if (status == STATUS_OK && !context)
            status = error_set(&work->error, STATUS_OUT_OF_MEMORY, "no memory for a codec");
        if (status == STATUS_OK)
            status = codec_probe(context, work->loaded, work->file_bytes, &work->limits,
                                 &work->info, &work->error);
        (void)status; /* kept in work->error */
        if (fd >= 0)
            close(fd);
        files_close(&files);
    }
    codec_context_destroy(context);
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
    fprintf(out, "input    %s: %s%s, %" PRIu32 " x %" PRIu32 " x %" PRIu32, work->job.input.path,
            codec_name(info->codec), info->progressive ? " (progressive)" : "", info->width,
            info->height, info->channels);
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
    fprintf(out, "output   %s: ",
            place->path ? place->path : place->key ? place->key : "nowhere, values only");
    if (output->error.status != STATUS_OK) {
        fprintf(out, "%s: %s\n", status_name(output->error.status), output->error.text);
        return;
    }
    const struct plan_variant *variant = &work->plan.variants[output->variant];
    fprintf(out, "%s, %" PRIu32 " x %" PRIu32 " x %" PRIu32 "\n",
            output->codec ? codec_name(output->codec) : "no picture", variant->width,
            variant->height, variant->channels);
    plan_print_passes(&work->plan, output->variant, out);
}

static void explain(struct work *work, const struct options *options, const char *text,
                    size_t length, FILE *out)
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
    if (work->error.status != STATUS_OK)
        return;
    print_input(work, out);
    for (size_t i = 0; i < work->job.output_count; i++)
        print_output(work, i, out);
    plan_print_memory(&work->plan, out);
    for (size_t i = 0; i < work->job.output_count; i++)
        if (work->outputs[i].error.status != STATUS_OK)
            error_set(&work->error, work->outputs[i].error.status, "%s",
                      work->outputs[i].error.text);
}

bool explain_job(const struct options *options, const char *file, FILE *out)
{
    struct error error = {0};
    struct work *work = calloc(1, sizeof *work);
    size_t length = 0;
    char *text = read_text(file, &length, &error);
    if (work && text) {
        explain(work, options, text, length, out);
        error = work->error;
        plan_clear(&work->plan);
        image_info_clear(&work->info);
        job_clear(&work->job);
        free(work->loaded);
    } else if (!work) {
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a job");
    }
    free(text);
    free(work);
    if (fflush(out) != 0 || ferror(out))
        error_set(&error, STATUS_WRITE_FAILED, "the plan cannot be printed: %s", strerror(errno));
    if (error.status != STATUS_OK)
        log_error("%s: %s: %s", file, status_name(error.status), error.text);
    return error.status == STATUS_OK;
}
