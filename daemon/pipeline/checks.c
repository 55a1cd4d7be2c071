/* checks.c - checks the outputs of a job before its input is read. */
#include <stdio.h>
#include <string.h>

#include "daemon/pipeline/job_run.h"

/* "outputs[1].output", or "output" if the job has no list of outputs. */
static const char *output_name(const struct job_run *run, size_t index, char text[40])
{
    if (run->job.listed)
        snprintf(text, 40, "outputs[%zu].output", index);
    else
        strcpy(text, "output");
    return text;
}

static enum status refuse_format(const struct job_output *output, const char *name,
                                 struct error *error)
{
    char known[FORMAT_LIST_BYTES];
    return error_set(error, STATUS_BAD_JOB, "%s.format is \"%.60s\"; it must be %s", name,
                     output->format, format_list(FORMAT_NAMES, 0, "\"%s\"", " or ", known));
}

/* The requested format and the path's suffix must agree. Both are optional. */
static enum status check_format(const struct job_run *run, size_t index, struct error *error)
{
    const struct job_output *output = &run->job.outputs[index];
    const char *path = output->place.path, *other = path ? format_foreign_suffix(path) : NULL;
    const struct format *meant = path ? format_of_path(path) : NULL;
    const struct format *asked = output->format ? format_by_name(output->format) : NULL;
    char text[40], known[FORMAT_LIST_BYTES];
    const char *name = output_name(run, index, text);
    if (!output->format && other)
        return error_set(error, STATUS_BAD_JOB,
                         "%s \"%.100s\" ends in %s, which is not an output format; use the suffix "
                         "%s, or set a format", name, path, other,
                         format_list(FORMAT_SUFFIXES, 0, ".%s", " or ", known));
    if (output->format && !asked)
        return refuse_format(output, name, error);
    if (asked && meant && asked != meant)
        return error_set(error, STATUS_BAD_JOB,
                         "%s.format is \"%s\", but the suffix of \"%.100s\" means %s; omit the "
                         "format, or change the suffix", name, output->format, path,
                         meant->name);
    if (!asked && !meant)
        return STATUS_OK; /* the input's format, which is not known yet */
    return job_run_check_keys(run, index, asked ? asked : meant, error);
}

enum status job_run_check_keys(const struct job_run *run, size_t index, const struct format *format,
                               struct error *error)
{
    const struct job_output *output = &run->job.outputs[index];
    const struct job_place *place = &output->place;
    unsigned wrong = output->given & ~format->parameters;
    char text[40], takers[FORMAT_LIST_BYTES];
    if (wrong == 0)
        return STATUS_OK;
    int first = __builtin_ctz(wrong);
    return error_set(error, STATUS_BAD_JOB,
                     "%s.%s is a key of %s, but \"%.100s\" is written as %s; omit it",
                     output_name(run, index, text), encoder_parameters[first].name,
                     format_list(FORMAT_NAMES, 1u << first, "%s", " and ", takers),
                     place->path ? place->path : place->key, format->name);
}

/* Compares only the texts of the paths. outputs.c finds other names of the input's file before it
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

static bool check_output(struct job_run *run, size_t index)
{
    const struct job_output *output = &run->job.outputs[index];
    struct error *error = &run->outputs[index].error;
    bool listed = run->job.listed;
    if (check_format(run, index, error) != STATUS_OK ||
        check_is_not_input(run, index, error) != STATUS_OK ||
        plan_check_ops(output->ops, listed ? (int)index : -1, error) != STATUS_OK)
        return false;
    if (output->place.path || output->place.key || plan_gives_values(output->ops))
        return true;
    if (listed)
        error_set(error, STATUS_BAD_JOB,
                  "outputs[%zu] has no output, and no operation that gives values", index);
    else
        error_set(error, STATUS_BAD_JOB,
                  "the job has no output, and no operation that gives values");
    return false;
}

void job_run_check_operations(struct job_run *run)
{
    size_t good = 0;
    for (size_t i = 0; i < run->job.output_count; i++)
        good += check_output(run, i);
    if (good == 0)
        run->error = run->outputs[0].error;
}
