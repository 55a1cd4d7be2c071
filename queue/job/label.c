/* label.c - names of jobs and of their places in messages, results and log lines. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/limits.h"
#include "conf/text.h"
#include "queue/job/job.h"

static_assert(JOB_EXCERPT_BYTES_MAX <= LABEL_INPUT_BYTES_MAX, "an excerpt fits a label");

const char *job_place_name(const struct job_place *place, char text[JOB_URL_BYTES_MAX + 1])
{
    if (place->url)
        text_copy_url(text, JOB_URL_BYTES_MAX + 1, place->url);
    return place->url ? text : place->path ? place->path : place->key;
}

size_t job_excerpt_bytes(const char *text, size_t length)
{
    const char *scheme = memmem(text, length, "://", 3);
    const char *query = scheme ? memchr(scheme, '?', length - (size_t)(scheme - text)) : NULL;
    return query ? (size_t)(query - text) : length;
}

const char *label_input(char name[LABEL_INPUT_BYTES_MAX + 1], const struct job *job,
                        const char *text, size_t length)
{
    char url[JOB_URL_BYTES_MAX + 1];
    const char *given = job ? job_place_name(&job->named, url) : NULL;
    name[0] = '\0';
    if (given)
        text_escape_end(name, LABEL_INPUT_BYTES_MAX + 1, given, strlen(given));
    else if (text)
        text_escape(name, JOB_EXCERPT_BYTES_MAX + 1, text, job_excerpt_bytes(text, length));
    return name;
}

const char *job_name_text(char text[JOB_NAME_BYTES], struct job_name name)
{
    if (name.shards > 1)
        snprintf(text, JOB_NAME_BYTES, "%" PRIu32 ":%" PRIu64, name.shard, name.number);
    else
        snprintf(text, JOB_NAME_BYTES, "%" PRIu64, name.number);
    return text;
}

const char *label_job(char label[LABEL_BYTES], struct job_name which, const struct job *job,
                      const char *text, size_t length)
{
    char number[JOB_NAME_BYTES], name[LABEL_INPUT_BYTES_MAX + 1];
    const char *id = job && job->id ? job->id : "";
    label_input(name, job, text, length);
    snprintf(label, LABEL_BYTES, "%s%s%s%s%s%s", job_name_text(number, which), *id ? " " : "", id,
             *name ? " (" : "", name, *name ? ")" : "");
    return label;
}
