/* explain_set.c - see explain_set.h. */
#include "daemon/explain_set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/text.h"
#include "daemon/files/files.h"
#include "daemon/sets/set_source.h"
#include "queue/job/member_name.h"

/* ---- the image ------------------------------------------------------------------------------ */

/* Whether the file can be opened as an input. */
static bool exists(const struct files *files, const struct job_run *run, const char *path)
{
    struct files_input input = {.fd = -1};
    struct error ignored = {0};
    bool found = files_open_input(files, NULL, path, run->bounds.input_bytes_max, &input,
                                  &ignored) == STATUS_OK;
    if (input.fd >= 0)
        close(input.fd);
    return found;
}

static void choose_of_list(struct explain_set *set, struct job_run *run, const struct files *files)
{
    const struct job *job = &run->job;
    set->count = job->input_count;
    for (size_t i = 0; i < job->input_count; i++) {
        const struct job_place *place = &job->inputs[i];
        if (place->key || (place->path && !exists(files, run, place->path)))
            continue;
        set->index = i;
        run->job.input = *place;
        return;
    }
    error_set(&run->error, STATUS_INPUT_MISSING,
              "none of the %zu inputs is a URL or a file below input_root; keys of Redis are not "
              "explained",
              job->input_count);
}

static bool is_image(const struct job_run *run, DIR *folder, const char *name)
{
    struct stat stat;
    return set_source_wants(&run->job, name) &&
           fstatat(dirfd(folder), name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(stat.st_mode);
}

/* Counts the images of the folder, and chooses the one with the least name. */
static void read_folder(struct explain_set *set, struct job_run *run, DIR *folder)
{
    char least[NAME_MAX + 1] = "";
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (!is_image(run, folder, entry->d_name))
            continue;
        if (set->count++ == 0 || strcmp(entry->d_name, least) < 0)
            text_copy(least, sizeof least, entry->d_name);
    }
    member_of_folder(set->path, sizeof set->path, set->whole.path, least);
    run->job.input = (struct job_place){.path = set->path};
    if (set->count == 0)
        error_set(&run->error, STATUS_INPUT_MISSING,
                  "the folder \"%.100s\" has no file that matches the pattern", set->whole.path);
}

static void choose_of_folder(struct explain_set *set, struct job_run *run,
                             const struct files *files)
{
    int fd = openat(files->input_root, set->whole.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder)
        read_folder(set, run, folder);
    else
        error_set(&run->error, STATUS_INPUT_MISSING, "the folder \"%.100s\" cannot be read: %s",
                  set->whole.path, strerror(errno));
    if (folder)
        closedir(folder);
    else if (fd >= 0) /* uncovered: memory */
        close(fd);
}

/* Reads the member into run->input.loaded. */
static void load(struct job_run *run, struct archive_reader *reader,
                 const struct archive_member *member)
{
    uint64_t most = run->bounds.input_bytes_max;
    if (member->bytes > most)
        error_set(&run->error, STATUS_INPUT_TOO_LARGE,
                  "the member \"%.100s\" of the archive has %" PRIu64
                  " bytes; the limit is %" PRIu64 " (input_bytes_max)",
                  member->name, member->bytes, most);
    else if (!(run->input.loaded = malloc(member->bytes + 1)))
        error_set(&run->error, STATUS_OUT_OF_MEMORY, "no memory for the input");
    run->input.bytes = member->bytes;
    enum status status = run->error.status;
    if (status == STATUS_OK)
        status = archive_reader_read(reader, run->input.loaded, &run->error);
    (void)status; /* run->error has it, too */
}

static void find_image(struct explain_set *set, struct job_run *run, struct archive_reader *reader)
{
    struct archive_member member;
    enum archive_step step;
    do {
        step = archive_reader_next(reader, &member, &run->error);
    } while (step == ARCHIVE_MEMBER && !set_source_wants(&run->job, member.name));
    text_copy(set->format, sizeof set->format, archive_reader_format(reader));
    if (step == ARCHIVE_END)
        error_set(&run->error, STATUS_INPUT_MISSING,
                  "no member of the archive \"%.100s\" matches the pattern", set->whole.path);
    if (step != ARCHIVE_MEMBER)
        return;
    text_copy(set->path, sizeof set->path, member.name);
    run->job.input = (struct job_place){.path = set->path};
    load(run, reader, &member);
}

static void choose_of_archive(struct explain_set *set, struct job_run *run,
                              const struct files *files)
{
    struct files_input input;
    const struct archive_limits limits = set_source_limits(run->bounds.input_bytes_max);
    if (files_open_input(files, NULL, set->whole.path, UINT64_MAX, &input, &run->error) !=
        STATUS_OK)
        return;
    struct archive_reader *reader = archive_reader_open(input.fd, &limits, &run->error);
    if (reader)
        find_image(set, run, reader);
    archive_reader_close(reader);
    close(input.fd);
}

/* ---- its outputs ---------------------------------------------------------------------------- */

static void check_name(const struct explain_set *set, struct job_run *run, size_t index)
{
    const struct job_output *output = &run->job.outputs[index];
    char text[JOB_URL_BYTES_MAX + 1], own[JOB_URL_BYTES_MAX + 1];
    const char *name = member_of_place(&run->job.input, run->bounds.ns, text);
    struct job_place place;
    if (output->pack != JOB_FILES || !job_place_is_given(&output->place))
        return;
    enum status status = member_output(&output->place, name, run->job.input.url, set->index,
                                       run->bounds.ns, own, &place, &run->outputs[index].error);
    (void)status; /* error has it, too */
}

void explain_set_choose(struct explain_set *set, struct job_run *run, const struct options *options)
{
    struct files files;
    set->whole = run->job.input;
    set->is_closed = run->job.source == JOB_ARCHIVE && !set->whole.path;
    if (set->is_closed || !files_open_inputs(&files, options->input_root, &run->error))
        return;
    if (run->job.source == JOB_LIST)
        choose_of_list(set, run, &files);
    else if (run->job.source == JOB_ANIMATION)
        set->count = 1; /* its first frame */
    else if (run->job.source == JOB_FOLDER)
        choose_of_folder(set, run, &files);
    else
        choose_of_archive(set, run, &files);
    files_close(&files);
    for (size_t i = 0; i < run->job.output_count && run->error.status == STATUS_OK; i++)
        check_name(set, run, i);
}

/* ---- text and JSON -------------------------------------------------------------------------- */

void explain_set_print(const struct explain_set *set, const struct job_run *run, FILE *out)
{
    char url[JOB_URL_BYTES_MAX + 1], name[JOB_URL_BYTES_MAX + 1];
    const char *whole = job_place_name(&set->whole, url);
    text_copy(name, sizeof name, whole ? whole : "");
    text_make_printable(name);
    if (set->is_closed)
        fprintf(out, "inputs   archive %s: not read; the job is valid\n", name);
    else if (run->job.source == JOB_ANIMATION)
        fprintf(out, "inputs   frames of %s: the plan is that of the first\n", name);
    else if (run->job.source == JOB_ARCHIVE)
        fprintf(out, "inputs   archive %s: a %s; the plan is that of its first image\n", name,
                set->format);
    else if (run->job.source == JOB_FOLDER)
        fprintf(out, "inputs   folder %s: %zu images; the plan is that of the first\n", name,
                set->count);
    else
        fprintf(out, "inputs   list of %zu; the plan is that of image %zu, the first that exists\n",
                set->count, set->index);
}

bool explain_set_add(cJSON *json, const struct explain_set *set, const struct job_run *run)
{
    char url[JOB_URL_BYTES_MAX + 1];
    const char *kind = set->whole.path ? "path" : set->whole.key ? "key" : "url";
    cJSON *inputs = cJSON_AddObjectToObject(json, "inputs"), *archive;
    if (!inputs) /* uncovered: memory */
        return false;
    if (run->job.source == JOB_ANIMATION)
        return cJSON_AddStringToObject(inputs, "frames", job_place_name(&set->whole, url)) &&
               cJSON_AddNumberToObject(inputs, "count", run->info.frames);
    if (run->job.source == JOB_ARCHIVE)
        return (archive = cJSON_AddObjectToObject(inputs, "archive")) &&
               cJSON_AddStringToObject(archive, kind, job_place_name(&set->whole, url)) &&
               (set->is_closed || cJSON_AddStringToObject(archive, "format", set->format)) &&
               (set->is_closed || cJSON_AddNumberToObject(inputs, "image", (double)set->index));
    return (run->job.source == JOB_LIST ||
            cJSON_AddStringToObject(inputs, "folder", job_place_name(&set->whole, url))) &&
           cJSON_AddNumberToObject(inputs, "count", (double)set->count) &&
           cJSON_AddNumberToObject(inputs, "image", (double)set->index);
}
