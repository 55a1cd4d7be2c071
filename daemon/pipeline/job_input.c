#include "daemon/pipeline/job_input.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/pipeline/job_run.h"
#include "daemon/pipeline/state.h"
#include "daemon/workers/split.h"

void job_input_end_key(struct job_run *run)
{
    if (run->input.key_counted && run->job.input.url)
        fetcher_release(run->pipeline->parts.fetcher, run->input.bytes);
    else if (run->input.key_counted && run->pipeline->group)
        queue_read_release(run->queue, run->input.bytes);
    run->input.key_counted = false;
}

void job_input_end_overlay(struct job_run *run)
{
    if (run->overlays.counted && run->pipeline->group)
        queue_read_release(run->queue, run->overlays.loaded_bytes);
    run->overlays.counted = false;
}

void job_input_drop_loaded(struct job_run *run)
{
    free(run->overlays.loaded);
    run->overlays.loaded = NULL;
    job_input_end_overlay(run);
    free(run->input.loaded);
    run->input.loaded = NULL;
    job_input_end_key(run);
}

bool job_input_give(struct job_run *run)
{
    bool gives = run->input.file.memory != NULL;
    if (gives)
        pool_give(run->pipeline->file_pool, &run->input.file);
    return gives;
}

void job_input_release(struct job_run *run)
{
    run->pipeline->files_given += job_input_give(run);
    job_input_drop_loaded(run);
}

enum status job_input_read(struct job_run *run, uint8_t *bytes, uint64_t from,
                           struct workers *workers, struct error *error)
{
    const struct job_run_input *input = &run->input;
    const char *path = run->job.input.path;
    if (input->is_lent)
        return files_read_part(input->fd, path, input->offset, bytes, from, input->bytes, error);
    if (workers && from == 0)
        return split_read(workers, input->fd, path, bytes, input->bytes, error);
    return files_read_input(input->fd, path, bytes, from, input->bytes, error);
}

void job_input_close(struct job_run *run)
{
    if (!run->input.is_open)
        return;
    run->input.is_open = false;
    if (run->input.is_lent)
        return;
    close(run->input.fd);
    atomic_fetch_sub(&run->pipeline->inputs_open, 1);
}
