#include "daemon/telemetry/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conf/log.h"
#include "conf/replace.h"

struct timeline {
    const struct trace_config *config;
    uint64_t added;
    struct trace_job jobs[TIMELINE_JOBS_MAX]; /* ring: the next goes to [added % the size] */
    /* Working memory of fill_scene, allocated together with the ring. */
    const struct trace_job *drawn[TIMELINE_JOBS_MAX];
    uint64_t ends[TIMELINE_JOBS_MAX], takes[TIMELINE_JOBS_MAX];
};

static int by_begin(const void *left, const void *right)
{
    return timeline_by_time(&(*(const struct trace_job *const *)left)->begin_ns,
                            &(*(const struct trace_job *const *)right)->begin_ns);
}

/* The busy time of all workers and streams together within a window. */
static uint64_t work_within(const struct timeline *timeline, size_t jobs, uint64_t begin_ns,
                            uint64_t end_ns)
{
    uint64_t work = 0;
    for (size_t i = 0; i < jobs && timeline->drawn[i]->begin_ns < end_ns; i++) {
        const struct trace_job *job = timeline->drawn[i];
        for (uint32_t s = 0; s < job->count && job->end_ns > begin_ns; s++) {
            const struct trace_slice *slice = &job->slices[s];
            uint64_t from = slice->begin_ns > begin_ns ? slice->begin_ns : begin_ns;
            uint64_t to = slice->end_ns < end_ns ? slice->end_ns : end_ns;
            if (slice->track != TRACE_OF_JOB && to > from)
                work += to - from;
        }
    }
    return work;
}

/* The median time in which TIMELINE_WINDOW_JOBS jobs end. There must be more jobs than that. */
static uint64_t window_length(struct timeline *timeline, size_t count)
{
    const uint64_t *ends = timeline->ends;
    uint64_t *takes = timeline->takes;
    size_t windows = count - TIMELINE_WINDOW_JOBS;
    for (size_t i = 0; i < windows; i++)
        takes[i] = ends[i + TIMELINE_WINDOW_JOBS] - ends[i];
    qsort(takes, windows, sizeof *takes, timeline_by_time);
    return takes[windows / 2];
}

/* Tries a window before the end of each job, and chooses the one in which workers and streams were
 * busy for the longest time. */
static void choose_window(struct timeline *timeline, size_t count, uint64_t *begin_ns,
                          uint64_t *end_ns)
{
    uint64_t *ends = timeline->ends;
    for (size_t i = 0; i < count; i++)
        ends[i] = timeline->drawn[i]->end_ns;
    qsort(ends, count, sizeof *ends, timeline_by_time);
    *begin_ns = timeline->drawn[0]->begin_ns;
    *end_ns = ends[count - 1];
    if (count <= TIMELINE_WINDOW_JOBS)
        return;
    uint64_t length = window_length(timeline, count), first = *begin_ns, most = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t from = ends[i] > first + length ? ends[i] - length : first;
        uint64_t work = work_within(timeline, count, from, from + length);
        if (i == 0 || work > most) {
            most = work;
            *begin_ns = from;
            *end_ns = from + length;
        }
    }
}

static void fill_scene(struct timeline *timeline, struct timeline_scene *scene)
{
    size_t kept = timeline->added < TIMELINE_JOBS_MAX ? (size_t)timeline->added : TIMELINE_JOBS_MAX;
    *scene = (struct timeline_scene){.config = timeline->config, .jobs = timeline->drawn,
                                     .jobs_kept = kept, .jobs_ended = timeline->added};
    for (size_t i = 0; i < kept; i++)
        timeline->drawn[i] = &timeline->jobs[i];
    qsort(timeline->drawn, kept, sizeof *timeline->drawn, by_begin);
    if (kept > 0)
        choose_window(timeline, kept, &scene->begin_ns, &scene->end_ns);
    if (scene->end_ns < scene->begin_ns + 1000)
        scene->end_ns = scene->begin_ns + 1000; /* the axis needs a length */
    for (size_t i = 0; i < kept; i++) {
        const struct trace_job *job = timeline->drawn[i];
        if (job->end_ns > scene->begin_ns && job->begin_ns < scene->end_ns)
            timeline->drawn[scene->job_count++] = job;
    }
}

/* Returns 0 or an errno. */
static int draw_to(struct timeline *timeline, const char *path)
{
    struct timeline_scene scene;
    fill_scene(timeline, &scene);
    char *text = timeline_svg_write(&scene);
    int reason = text ? replace_file(path, text, strlen(text), 0644, true) : ENOMEM;
    free(text);
    return reason;
}

void timeline_draw(struct timeline *timeline)
{
    const char *path = timeline->config->timeline;
    int reason = draw_to(timeline, path);
    if (reason)
        log_error("timeline: %s cannot be written: %s", path, strerror(reason));
    else
        log_info("timeline: %s shows the busiest moment of %" PRIu64 " jobs (at most the last %d)",
                 path, timeline->added, TIMELINE_JOBS_MAX);
}

void timeline_add(struct timeline *timeline, const struct trace_job *job)
{
    timeline->jobs[timeline->added++ % TIMELINE_JOBS_MAX] = *job;
}

enum status timeline_open(const struct trace_config *config, struct timeline **result,
                          struct error *error)
{
    struct timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the timeline");
    timeline->config = config;
    int reason = draw_to(timeline, config->timeline);
    if (reason) {
        error_set(error, STATUS_WRITE_FAILED,
                  "option timeline is \"%s\", which cannot be written: %s", config->timeline,
                  strerror(reason));
        free(timeline);
        return error->status;
    }
    *result = timeline;
    return STATUS_OK;
}
