/* job_pack.c - keeps a job in little memory while it waits.
 *
 * A cJSON tree takes up to 40 times as much memory as its text ("[0,0,0"). job_pack copies the
 * strings of a large job into one block, prints the ops of each output, and frees the tree.
 * Workers parse the ops again when they need them. */
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "queue/job/job.h"

/* The strings that point into the tree: id, reply_to, three of input, and four of each output. */
#define STRINGS_MAX (5 + 4 * JOB_OUTPUTS_MAX)

/* Counts the nodes of the tree; stops once there are more than `most`. */
static size_t count_nodes(const cJSON *node, size_t most)
{
    size_t count = 0;
    for (; node && count <= most; node = node->next)
        count += 1 + count_nodes(node->child, most);
    return count;
}

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

static bool copy_strings(struct job *job)
{
    const char **strings[STRINGS_MAX];
    size_t count = list_strings(job, strings), bytes = 1;
    for (size_t i = 0; i < count; i++)
        bytes += *strings[i] ? strlen(*strings[i]) + 1 : 0;
    char *at = job->texts = malloc(bytes);
    job->bytes += bytes;
    for (size_t i = 0; at && i < count; i++) {
        if (!*strings[i])
            continue;
        size_t length = strlen(*strings[i]) + 1;
        *strings[i] = memcpy(at, *strings[i], length);
        at += length;
    }
    return at != NULL;
}

static bool print_ops(struct job *job)
{
    for (size_t i = 0; i < job->output_count; i++) {
        struct job_output *output = &job->outputs[i];
        output->ops_text = cJSON_PrintUnformatted(output->ops);
        if (!output->ops_text)
            return false;
        job->bytes += strlen(output->ops_text) + 1;
    }
    return true;
}

static void free_texts(struct job *job)
{
    for (size_t i = 0; i < job->output_count; i++) {
        free(job->outputs[i].ops_text);
        job->outputs[i].ops_text = NULL;
    }
    free(job->texts);
    job->texts = NULL;
}

bool job_pack(struct job *job, size_t length)
{
    job->bytes = length;
    if (count_nodes(job->root, JOB_NODES_MAX) <= JOB_NODES_MAX)
        return true;
    job->bytes = job->meta ? strlen(job->meta->valuestring) : 0;
    if (!print_ops(job) || !copy_strings(job)) {
        free_texts(job);
        return false;
    }
    for (size_t i = 0; i < job->output_count; i++)
        job->outputs[i].ops = NULL;
    cJSON_Delete(job->root);
    job->root = NULL;
    return true;
}

enum status job_unpack(struct job *job, struct error *error)
{
    for (size_t i = 0; i < job->output_count; i++) {
        struct job_output *output = &job->outputs[i];
        if (output->ops_text && !output->ops)
            output->ops = cJSON_Parse(output->ops_text);
        if (output->ops)
            continue;
        job_repack(job);
        return error_set(error, STATUS_OUT_OF_MEMORY, "out of memory while reading operations");
    }
    return STATUS_OK;
}

void job_repack(struct job *job)
{
    for (size_t i = 0; i < job->output_count && job->texts; i++) {
        cJSON_Delete((cJSON *)job->outputs[i].ops);
        job->outputs[i].ops = NULL;
    }
}

void job_clear(struct job *job)
{
    job_repack(job);
    free_texts(job);
    cJSON_Delete(job->root);
    cJSON_Delete(job->meta);
    memset(job, 0, offsetof(struct job, outputs));
}
