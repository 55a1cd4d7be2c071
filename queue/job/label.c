/* label.c - names of jobs and of their places in messages, results and log lines. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conf/limits.h"
#include "conf/mask.h"
#include "conf/text.h"
#include "queue/job/job.h"

static_assert(JOB_EXCERPT_BYTES_MAX <= LABEL_INPUT_BYTES_MAX, "an excerpt fits a label");

/* A good key begins with a namespace and ":img:". The rest may be made from a URL. */
static bool is_good_key(const char *key)
{
    const char *kind = strstr(key, ":img:"), *slashes = strstr(key, "//");
    return kind && (!slashes || kind < slashes);
}

/* Clients find good paths and keys by their names. No good path has "//". "http:/host" can be a
 * path. */
static bool is_misplaced_url(const struct job_place *place)
{
    return place->key ? !is_good_key(place->key)
                      : strstr(place->path, "//") || strncasecmp(place->path, "http", 4) == 0;
}

const char *job_place_name(const struct job_place *place, char text[JOB_URL_BYTES_MAX + 1])
{
    const char *name = place->path ? place->path : place->key;
    if (place->url) {
        text_copy_url(text, JOB_URL_BYTES_MAX + 1, place->url);
        mask_text(text, MASK_VALUE);
        return text;
    }
    return name && is_misplaced_url(place) ? mask_copy(text, JOB_URL_BYTES_MAX + 1, name) : name;
}

const char *job_excerpt(char excerpt[JOB_EXCERPT_BYTES_MAX + 1], const char *text, size_t length)
{
    char masked[4096]; /* a URL before the last byte of the excerpt ends here */
    size_t bytes = length < sizeof masked ? length : sizeof masked;
    bool cut = bytes == sizeof masked || length == JOB_EXCERPT_BYTES_MAX; /* a lease's head */
    memcpy(masked, text, bytes);
    bytes = mask_bytes(masked, bytes, cut ? MASK_CUT : MASK_VALUE);
    text_escape(excerpt, JOB_EXCERPT_BYTES_MAX + 1, masked, bytes);
    return excerpt;
}

const char *label_input(char name[LABEL_INPUT_BYTES_MAX + 1], const struct job *job,
                        const char *text, size_t length)
{
    char url[JOB_URL_BYTES_MAX + 1];
    const char *given = job ? job_place_name(&job->input, url) : NULL;
    name[0] = '\0';
    if (job && job->input_count > 0)
        snprintf(name, LABEL_INPUT_BYTES_MAX + 1, "list of %zu", job->input_count);
    else if (given)
        text_escape_end(name, LABEL_INPUT_BYTES_MAX + 1, given, strlen(given));
    else if (text)
        job_excerpt(name, text, length);
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
    char id[JOB_ID_BYTES_MAX + 1];
    mask_copy(id, sizeof id, job && job->id ? job->id : "");
    label_input(name, job, text, length);
    snprintf(label, LABEL_BYTES, "%s%s%s%s%s%s", job_name_text(number, which), *id ? " " : "", id,
             *name ? " (" : "", name, *name ? ")" : "");
    return label;
}
