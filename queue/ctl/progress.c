#include "queue/ctl/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "conf/clock.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/sets/set_jobs.h"
#include "queue/ctl/show.h"

#define DRAW_EACH_S   0.25
#define PRINT_EACH_S  5
#define SAMPLE_EACH_S 0.5
#define BAR_COLUMNS   24

static const char *const ends[PROGRESS_ENDS] = {"done", "failed", "dead", "cancelled", "unwritten"};

void progress_begin(struct progress *progress, struct ctl *ctl, bool verbose)
{
    *progress = (struct progress){
        .ctl = ctl,
        .bar = isatty(STDERR_FILENO),
        .verbose = verbose || !isatty(STDOUT_FILENO),
        .began_s = clock_now_s(),
        .printed = -1,
    };
}

void progress_use_sets(struct progress *progress, const struct set_jobs *sets, bool archives)
{
    progress->sets = sets;
    progress->archives = archives;
    progress->plain = !progress->bar && ctl_value(progress->ctl, "verbose");
}

bool progress_is_shown(const struct progress *progress)
{
    return progress->bar || progress->plain;
}

bool progress_is_good(const struct progress *progress)
{
    return progress->ended[PROGRESS_DONE] == progress_ended(progress) && !progress->jobs_failed &&
           !progress->jobs_empty;
}

uint64_t progress_ended(const struct progress *progress)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < PROGRESS_ENDS; i++)
        sum += progress->ended[i];
    return sum;
}

static cJSON *with_unwritten(const cJSON *result, const cJSON *unwritten)
{
    cJSON *line = cJSON_Duplicate(result, true);
    if (line && cJSON_AddItemToObject(line, "unwritten", cJSON_Duplicate(unwritten, true)))
        return line;
    cJSON_Delete(line);
    return NULL;
}

/* ---- results ------------------------------------------------------------------------------- */

static enum progress_end end_of(const char *status)
{
    return strcmp(status, "done") == 0        ? PROGRESS_DONE
           : strcmp(status, "dead") == 0      ? PROGRESS_DEAD
           : strcmp(status, "cancelled") == 0 ? PROGRESS_CANCELLED
                                              : PROGRESS_FAILED;
}

static uint64_t count_of(const cJSON *images, const char *name)
{
    double count = show_number(images, name);
    return count > 0 && count < 1e15 ? (uint64_t)count : 0;
}

/* Counts the images of a job. Those of a list that is not done have ended as the job did; an
 * archive that could not be read has none. */
static void count_set(struct progress *progress, const cJSON *result, enum progress_end end,
                      const struct progress_job *job)
{
    const cJSON *images = cJSON_GetObjectItemCaseSensitive(result, "images");
    uint64_t done = count_of(images, "done"), count = count_of(images, "count");
    uint64_t lost = (uint64_t)cJSON_GetArraySize(job->unwritten);
    lost = lost < done ? lost : done;
    if (end != PROGRESS_DONE) {
        progress->ended[end] += job->images > count ? job->images : count;
        return;
    }
    progress->ended[PROGRESS_DONE] += done - lost;
    progress->ended[PROGRESS_UNWRITTEN] += lost;
    progress->ended[PROGRESS_FAILED] += count_of(images, "failed");
}

void progress_result(struct progress *progress, const cJSON *result, const char *text,
                     const struct progress_job *job)
{
    enum progress_end end = end_of(show_text(result, "status"));
    const cJSON *images = cJSON_GetObjectItemCaseSensitive(result, "images");
    bool done = end == PROGRESS_DONE, lost = cJSON_GetArraySize(job->unwritten) > 0;
    bool empty = done && *show_text(images, "warning");
    bool whole = !job->is_set ||
                 (count_of(images, "failed") == 0 && count_of(images, "skipped") == 0 && !empty);
    progress->jobs_ended++;
    progress->jobs_failed += !done;
    progress->jobs_empty += empty;
    if (job->is_set)
        count_set(progress, result, end, job);
    else
        progress->ended[done && lost ? PROGRESS_UNWRITTEN : end]++;
    /* The caller has already reported unwritten results. */
    if (!progress->ctl->json && done && whole && (lost || !progress->verbose))
        return;
    if (progress->ctl->json && lost)
        ctl_print_json(progress->ctl, with_unwritten(result, job->unwritten));
    else if (progress->ctl->json)
        ctl_print_text(progress->ctl, text);
    else
        show_result(result, job->name, job->files, job->names, job->images);
}

/* ---- the bar ------------------------------------------------------------------------------- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The images or archives that there will be. `sent` lacks jobs whose push had no reply, but their
 * results come. */
static uint64_t total_of(const struct progress *progress)
{
    uint64_t ended = progress->archives ? progress->jobs_ended : progress_ended(progress);
    return larger(larger(progress->total, progress->sent + progress->refused), ended);
}

/* The images that have ended, also those of jobs that run. */
static double ended_now(const struct progress *progress)
{
    const struct set_jobs *sets = progress->sets;
    return (double)progress_ended(progress) +
           (sets ? (double)(sets->live_done + sets->live_failed) : 0);
}

static double failed_now(const struct progress *progress)
{
    uint64_t failed = progress_ended(progress) - progress->ended[PROGRESS_DONE];
    return (double)(failed + progress->refused) +
           (progress->sets ? (double)progress->sets->live_failed : 0);
}

/* How much of all the work is done, from 0 to 1. */
static double share_now(const struct progress *progress)
{
    double total = (double)total_of(progress), refused = (double)progress->refused;
    double done = progress->archives ? (double)progress->jobs_ended + progress->sets->fraction
                                     : ended_now(progress);
    return total > 0 ? fmin((done + refused) / total, 1) : 0;
}

/* Computes the rates during the time that the ring of samples covers; until the ring is full, since
 * the beginning. */
static void compute_rates(struct progress *progress, double now_s, double *images_s,
                          double *share_s)
{
    double ended = ended_now(progress), share = share_now(progress);
    unsigned newest = (progress->sample + PROGRESS_SAMPLES - 1) % PROGRESS_SAMPLES;
    if (now_s - progress->samples[newest].at_s >= SAMPLE_EACH_S) {
        progress->samples[progress->sample].at_s = now_s;
        progress->samples[progress->sample].ended = ended;
        progress->samples[progress->sample].share = share;
        progress->sample = (progress->sample + 1) % PROGRESS_SAMPLES;
    }
    double from_s = progress->samples[progress->sample].at_s;
    double from = progress->samples[progress->sample].ended;
    double from_share = progress->samples[progress->sample].share;
    if (from_s == 0) /* the ring is not full yet */
        from_s = progress->began_s;
    *images_s = now_s > from_s ? (ended - from) / (now_s - from_s) : 0;
    *share_s = now_s > from_s ? (share - from_share) / (now_s - from_s) : 0;
}

static unsigned columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static int write_counts(const struct progress *progress, char *text, size_t size)
{
    double failed = failed_now(progress), ended = ended_now(progress);
    char count[SHOW_BYTES], all[SHOW_BYTES], images[SHOW_BYTES];
    int length;
    show_count((double)total_of(progress), all);
    if (progress->archives)
        length = snprintf(text, size, "%s/%s archives, %s images done",
                          show_count((double)progress->jobs_ended, count), all,
                          show_count(ended, images));
    else
        length = snprintf(text, size, "%s/%s done", show_count(ended, count), all);
    if (failed > 0)
        length += snprintf(text + length, size - (size_t)length, ", %s failed",
                           show_count(failed, count));
    return length;
}

static int write_bar(const struct progress *progress, char *text, size_t size)
{
    int filled = (int)(share_now(progress) * BAR_COLUMNS);
    return snprintf(text, size, "[%.*s%.*s] ", filled, "########################",
                    BAR_COLUMNS - filled, "------------------------");
}

/* Writes the rate and the time that is left, or the note. */
static void write_rest(struct progress *progress, double now_s, char *text, size_t size)
{
    char per_s[SHOW_BYTES], left[SHOW_BYTES];
    double images_s, share_s, share = share_now(progress);
    compute_rates(progress, now_s, &images_s, &share_s);
    *text = '\0';
    if (*progress->note)
        snprintf(text, size, "  %s", progress->note);
    else if (images_s > 0 && share_s > 0 && share < 1)
        snprintf(text, size, "  %s images/s  %s left", show_rate(images_s, per_s),
                 show_time((1 - share) / share_s, left));
    else if (images_s > 0)
        snprintf(text, size, "  %s images/s", show_rate(images_s, per_s));
}

void progress_draw(struct progress *progress)
{
    char text[400];
    double now_s = clock_now_s();
    bool is_due = progress->bar
                      ? !out_has_status() || now_s - progress->drawn_s >= DRAW_EACH_S
                      : now_s - fmax(progress->drawn_s, progress->began_s) >= PRINT_EACH_S;
    if (!progress_is_shown(progress) || !is_due ||
        (progress->plain && ended_now(progress) == progress->printed))
        return;
    progress->printed = ended_now(progress);
    int length = progress->bar ? write_bar(progress, text, sizeof text) : 0;
    length += write_counts(progress, text + length, sizeof text - (size_t)length);
    write_rest(progress, now_s, text + length, sizeof text - (size_t)length);
    progress->drawn_s = now_s;
    if (progress->plain) {
        ctl_say("%s", text);
        return;
    }
    text[columns() - 1 < sizeof text ? columns() - 1 : sizeof text - 1] = '\0';
    out_status(text);
}

/* ---- the summary --------------------------------------------------------------------------- */

/* Adds the counts of jobs, if jobs have many images. */
static void add_jobs(const struct progress *progress, cJSON *json, bool waited)
{
    cJSON *jobs = progress->sets ? cJSON_AddObjectToObject(json, "jobs") : NULL;
    if (!jobs)
        return;
    cJSON_AddNumberToObject(jobs, "sent", (double)progress->jobs_sent);
    if (waited)
        cJSON_AddNumberToObject(jobs, "done",
                                (double)(progress->jobs_ended - progress->jobs_failed));
    if (waited)
        cJSON_AddNumberToObject(jobs, "failed", (double)progress->jobs_failed);
}

static void print_json(const struct progress *progress, bool waited, double seconds)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "sent", (double)progress->sent);
    cJSON_AddNumberToObject(json, "not_sent", (double)progress->refused);
    for (size_t i = 0; i < PROGRESS_ENDS && waited; i++)
        cJSON_AddNumberToObject(json, ends[i], (double)progress->ended[i]);
    add_jobs(progress, json, waited);
    cJSON_AddNumberToObject(json, "seconds", seconds);
    ctl_print_json(progress->ctl, json);
}

static void put_count(const char *what, uint64_t count)
{
    char text[SHOW_BYTES];
    if (count > 0)
        out_put(", %s %s", show_count((double)count, text), what);
}

/* On standard error, because standard output has the jobs' ids. */
static void say_sent(const struct progress *progress)
{
    char sent[SHOW_BYTES], refused[SHOW_BYTES], jobs[SHOW_BYTES];
    const char *several = progress->jobs_sent == 1 ? "" : "s";
    show_count((double)progress->sent, sent);
    show_count((double)progress->jobs_sent, jobs);
    show_count((double)progress->refused, refused);
    bool in_jobs = progress->sets && !progress->archives;
    if (in_jobs && progress->refused > 0)
        ctl_say("%s sent in %s job%s, %s not sent", sent, jobs, several, refused);
    else if (in_jobs)
        ctl_say("%s sent in %s job%s", sent, jobs, several);
    else if (progress->refused > 0)
        ctl_say("%s%s sent, %s not sent", sent, progress->archives ? " archives" : "", refused);
    else
        ctl_say("%s%s sent", sent, progress->archives ? " archives" : "");
}

/* "2 jobs done, 1 job failed" */
static void put_jobs(const struct progress *progress)
{
    char count[SHOW_BYTES];
    uint64_t done = progress->jobs_ended - progress->jobs_failed, failed = progress->jobs_failed;
    out_put("; %s job%s done", show_count((double)done, count), done == 1 ? "" : "s");
    if (failed > 0)
        out_put(", %s job%s failed", show_count((double)failed, count), failed == 1 ? "" : "s");
    put_count("without images", progress->jobs_empty);
}

void progress_end(struct progress *progress, bool waited)
{
    double seconds = clock_now_s() - progress->began_s;
    double done = (double)progress->ended[PROGRESS_DONE];
    char count[SHOW_BYTES], age[SHOW_BYTES];
    if (progress->ctl->json) {
        print_json(progress, waited, seconds);
    } else if (!waited) {
        say_sent(progress);
    } else {
        out_put("%s%s done in %s", show_count(done, count), progress->sets ? " images" : "",
                show_age(seconds, age));
        if (done > 1 && seconds > 0)
            out_put(" (%s images/s)", show_rate(done / seconds, count));
        for (size_t i = PROGRESS_FAILED; i < PROGRESS_UNWRITTEN; i++)
            put_count(ends[i], progress->ended[i]);
        put_count("not written", progress->ended[PROGRESS_UNWRITTEN]);
        put_count(progress->archives ? "archives not sent" : "not sent", progress->refused);
        if (progress->sets)
            put_jobs(progress);
        out_end();
    }
}
