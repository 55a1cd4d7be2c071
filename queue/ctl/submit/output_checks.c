#include "queue/ctl/submit/output_checks.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/text.h"

/* Whether another image has an output with the same name, for example cat.jpg and cat.png, or
 * a/1.png and b/1.png: one of the two outputs would be lost. */
static bool is_taken(const struct output_checks *checks, const char *place, struct error *error)
{
    const char *holder = output_names_find(&checks->names, place);
    const char *letters = checks->template->set.kind ? "%i, %a or %p" : "%i or %p";
    char shown[PATH_MAX];
    text_copy(shown, sizeof shown, place);
    if (source_is_url(place))
        text_copy_url(shown, sizeof shown, place);
    if (holder)
        error_set(error, STATUS_PATH_REFUSED,
                  "not sent: %.120s already has the output %.120s; use "
                  "%s in --out to distinguish them",
                  holder, shown, letters);
    return holder;
}

/* Adds all images on the command line to `rules`, so that no output replaces an image that is sent
 * later. */
static void add_operands(struct output_checks *checks)
{
    struct source_file file;
    enum source_result found;
    checks->scanned = true;
    for (int i = 0; i < checks->options->count; i++) {
        struct source source = {.options = *checks->options};
        source.options.names += i;
        source.options.count = strcmp(*source.options.names, "-") != 0;
        while ((found = source_next(&source, &file)) != SOURCE_END)
            if (found == SOURCE_FILE)
                output_file_add_input(&checks->rules, file.path);
    }
}

static bool would_overwrite(struct output_checks *checks, const char *out, struct error *error)
{
    char path[2 * PATH_MAX];
    struct stat about;
    bool keys = checks->template->keys;
    snprintf(path, sizeof path, "%s%s%s", keys ? "" : checks->template->output_root,
             keys ? "" : "/", out);
    if (lstat(path, &about) != 0)
        return false;
    if (!checks->scanned)
        add_operands(checks);
    /* Without --keys the daemon writes the file, and may replace older results. */
    if (keys || output_file_input(&checks->rules, path))
        output_file_check(&checks->rules, path, error);
    return error->status != STATUS_OK;
}

bool output_checks_try(struct output_checks *checks, const char *place, struct error *error)
{
    checks->refused |= is_taken(checks, place, error) ||
                       (!source_is_url(place) && would_overwrite(checks, place, error));
    return error->status == STATUS_OK;
}

/* Whether an output before `index` of the same job has the same name. */
static bool is_twice(const struct job_image *image, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (job_image_place(image, i) &&
            strcmp(job_image_place(image, i), job_image_place(image, index)) == 0)
            return true;
    return false;
}

bool output_checks_try_all(struct output_checks *checks, const struct job_image *image,
                           struct error *error)
{
    char shown[PATH_MAX];
    for (size_t i = 0; i < JOB_OUTPUTS_MAX && !error->status; i++) {
        const char *place = job_image_place(image, i);
        if (!place)
            continue;
        text_copy(shown, sizeof shown, place);
        if (image->urls[i])
            text_copy_url(shown, sizeof shown, place);
        if (is_twice(image, i)) {
            checks->refused = true;
            error_set(error, STATUS_PATH_REFUSED, "not sent: two of its outputs are %.200s", shown);
        } else {
            output_checks_try(checks, place, error);
        }
    }
    return error->status == STATUS_OK;
}

void output_checks_add(struct output_checks *checks, const char *place, const char *image)
{
    if (checks->full)
        return; /* uncovered: gone */
    checks->full = !output_names_add(&checks->names, place, image);
    if (checks->full)
        ctl_say("after %zu outputs the table of output names is full: further outputs with the "
                "same name are not detected",
                checks->names.count);
}

void output_checks_add_all(struct output_checks *checks, const struct job_image *image)
{
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++)
        if (job_image_place(image, i))
            output_checks_add(checks, job_image_place(image, i), image->file.name);
}

void output_checks_clear(struct output_checks *checks)
{
    output_names_clear(&checks->names);
    output_names_clear(&checks->rules.inputs);
}
