#include "daemon/telemetry/tags.h"

#include <string.h>

#include "conf/text.h"

static struct tag *find(struct tags *tags, const char *name)
{
    for (uint32_t i = 0; i < tags->count; i++)
        if (strcmp(tags->list[i].name, name) == 0)
            return &tags->list[i];
    return NULL;
}

static struct tag *add(struct tags *tags, const char *name)
{
    struct tag *tag = &tags->list[tags->count++];
    text_copy(tag->name, sizeof tag->name, name);
    return tag;
}

static struct tag *tag_of(struct tags *tags, const char *name)
{
    struct tag *tag = find(tags, name);
    if (!tag && tags->count < TAGS_MAX)
        return add(tags, name);
    if (!tag)
        tag = find(tags, TAGS_OTHER);
    return tag ? tag : add(tags, TAGS_OTHER);
}

void tags_count(struct tags *tags, const struct metrics_job *job)
{
    if (!job->tag)
        return;
    struct tag *tag = tag_of(tags, job->tag);
    for (size_t i = 0; i < METRICS_TIMES; i++)
        if (i != METRICS_ADMIT && job->ms[i] > 0)
            tag->work_s += job->ms[i] / 1e3;
    tag->job_s += job->total_ms / 1e3;
    if (job->outcome == METRICS_RETRIED)
        return;
    tag->jobs[job->outcome]++;
    tag->pixels += job->pixels;
}
