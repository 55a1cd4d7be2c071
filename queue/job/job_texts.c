/* job_texts.c - keeps the strings of a job without its JSON.
 *
 * A cJSON tree takes up to 40 times as much memory as its text ("[0,0,0"). */
#include <stdlib.h>
#include <string.h>

#include "queue/job/job.h"

/* The strings that point into the tree: id, reply_to, three of input, and four of each output. */
#define STRINGS_MAX (5 + 4 * JOB_OUTPUTS_MAX)

static size_t list_strings(struct job *job, const char ***strings)
{
    const char **all[] = {&job->id, &job->reply_to, &job->input.path, &job->input.key,
                          &job->input.url};
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        strings[count++] = all[i];
    for (size_t i = 0; i < job->output_count; i++) {
        struct job_output *output = &job->outputs[i];
        strings[count++] = &output->place.path;
        strings[count++] = &output->place.key;
        strings[count++] = &output->place.url;
        strings[count++] = &output->format;
    }
    return count;
}

bool job_drop_tree(struct job *job)
{
    const char **strings[STRINGS_MAX];
    size_t count = list_strings(job, strings), bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += *strings[i] ? strlen(*strings[i]) + 1 : 0;
    char *at = job->texts = malloc(bytes + 1);
    if (!at) /* uncovered: memory */
        return false;
    for (size_t i = 0; i < count; i++)
        if (*strings[i]) {
            size_t length = strlen(*strings[i]) + 1;
            *strings[i] = memcpy(at, *strings[i], length);
            at += length;
        }
    for (size_t i = 0; i < job->output_count; i++)
        job->outputs[i].ops = NULL;
    job->bytes = bytes + (job->meta ? strlen(job->meta->valuestring) : 0);
    cJSON_Delete(job->root);
    job->root = NULL;
    return true;
}

void job_clear(struct job *job)
{
    free(job->texts);
    cJSON_Delete(job->root);
    cJSON_Delete(job->meta);
    memset(job, 0, offsetof(struct job, outputs));
}
