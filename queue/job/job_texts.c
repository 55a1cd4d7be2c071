/* job_texts.c - keeps the strings of a job without its JSON.
 *
 * A cJSON tree takes up to 40 times as much memory as its text ("[0,0,0"). */
#include <stdlib.h>
#include <string.h>

#include "queue/job/job.h"

/* Moves a string of the tree to `texts`, after `bytes` bytes; NULL: only counts. Returns the sum.
 */
static size_t move(const char **string, char *texts, size_t bytes)
{
    size_t length = *string ? strlen(*string) + 1 : 0;
    if (texts && *string)
        *string = memcpy(texts + bytes, *string, length);
    return bytes + length;
}

static size_t move_place(struct job_place *place, char *texts, size_t bytes)
{
    bytes = move(&place->path, texts, bytes);
    bytes = move(&place->key, texts, bytes);
    return move(&place->url, texts, bytes);
}

static size_t move_all(struct job *job, char *texts)
{
    size_t bytes = move(&job->id, texts, 0);
    bytes = move(&job->reply_to, texts, bytes);
    bytes = move(&job->tag, texts, bytes);
    bytes = move(&job->traceparent, texts, bytes);
    bytes = move(&job->tracestate, texts, bytes);
    bytes = move_place(&job->input, texts, bytes);
    for (size_t i = 0; i < job->input_count; i++)
        bytes = move_place(&job->inputs[i], texts, bytes);
    for (size_t i = 0; i < job->pattern_count; i++)
        bytes = move(&job->patterns[i], texts, bytes);
    for (size_t i = 0; i < job->output_count; i++) {
        bytes = move_place(&job->outputs[i].place, texts, bytes);
        bytes = move(&job->outputs[i].format, texts, bytes);
        bytes = move(&job->outputs[i].headers, texts, bytes);
    }
    return bytes;
}

bool job_drop_tree(struct job *job)
{
    job->texts = malloc(move_all(job, NULL) + 1);
    if (!job->texts) /* uncovered: memory */
        return false;
    job->bytes = move_all(job, job->texts) + job->input_count * sizeof *job->inputs +
                 (job->meta ? strlen(job->meta->valuestring) : 0);
    for (size_t i = 0; i < job->output_count; i++)
        job->outputs[i].ops = NULL;
    cJSON_Delete(job->root);
    job->root = NULL;
    return true;
}

void job_clear(struct job *job)
{
    free(job->texts);
    free(job->inputs);
    cJSON_Delete(job->root);
    cJSON_Delete(job->meta);
    memset(job, 0, offsetof(struct job, outputs));
}
