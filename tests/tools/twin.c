/* twin.c - see twin.h. */
#include "tests/tools/twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/check.h"
#include "tests/tools/text_file.h"

void twin_push(struct world *world, const struct twin_job *jobs, size_t index, const char *who)
{
    const struct twin_job *job = &jobs[index];
    int before = (int)(strstr(job->rest, "%s") - job->rest);
    world_push(world, "{'input':'%s',%.*s%s%zu%s}", job->input, before, job->rest, who, index,
               job->rest + before + 2);
}

void twin_draw(struct world *world, const struct twin_job *jobs, size_t count, const char *who)
{
    for (size_t i = 0; i < count; i++) {
        twin_push(world, jobs, i, who);
        check_done(check_next(world));
    }
}

static unsigned char *output_bytes(struct world *world, const struct twin_job *jobs, size_t index,
                                   const char *who, size_t *length)
{
    char name[64];
    const char *suffix = strstr(jobs[index].rest, "%s") + 2;
    snprintf(name, sizeof name, "%s%zu%.4s", who, index, suffix);
    char *path = world_out_path(world, name);
    unsigned char *bytes = text_file_bytes(path, length);
    free(path);
    if (!bytes)
        fail_msg("there is no %s", name);
    return bytes;
}

void twin_check(struct world *world, const struct twin_job *jobs, size_t index, const char *who)
{
    size_t expected_length, length;
    unsigned char *expected = output_bytes(world, jobs, index, "cpu", &expected_length);
    unsigned char *bytes = output_bytes(world, jobs, index, who, &length);
    if (length != expected_length || memcmp(bytes, expected, length) != 0)
        fail_msg("what %s drew for job %zu is not what the CPU engine drew", who, index);
    free(expected);
    free(bytes);
}
