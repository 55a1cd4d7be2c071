#include "queue/job/label.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conf/limits.h"
#include "conf/text.h"

static_assert(JOB_EXCERPT_BYTES_MAX <= LABEL_INPUT_BYTES_MAX, "an excerpt fits a label");

const char *label_input(char name[LABEL_INPUT_BYTES_MAX + 1], const struct job *job,
                        const char *text, size_t length)
{
    const char *given = !job ? NULL : job->named.path ? job->named.path : job->named.key;
    name[0] = '\0';
    if (given)
        text_escape_end(name, LABEL_INPUT_BYTES_MAX + 1, given, strlen(given));
    else if (text)
        text_escape(name, JOB_EXCERPT_BYTES_MAX + 1, text, length);
    return name;
}

const char *label_job(char label[LABEL_BYTES], uint64_t number, const struct job *job,
                      const char *text, size_t length)
{
    char name[LABEL_INPUT_BYTES_MAX + 1];
    const char *id = job && job->id ? job->id : "";
    label_input(name, job, text, length);
    snprintf(label, LABEL_BYTES, "%" PRIu64 "%s%s%s%s%s", number, *id ? " " : "", id,
             *name ? " (" : "", name, *name ? ")" : "");
    return label;
}
