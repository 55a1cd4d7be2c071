#include "queue/ctl/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"

#define DRAW_EACH_S   0.1
#define SAMPLE_EACH_S 0.5
#define BAR_COLUMNS   24

double progress_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void progress_begin(struct progress *progress, bool json, bool verbose)
{
    memset(progress, 0, sizeof *progress);
    progress->json = json;
    progress->bar = isatty(STDERR_FILENO);
    progress->verbose = verbose || !isatty(STDOUT_FILENO);
    progress->began_s = progress_now_s();
}

uint64_t progress_ended(const struct progress *progress)
{
    return progress->done + progress->failed + progress->dead + progress->cancelled;
}

void progress_hide(struct progress *progress)
{
    if (progress->shown)
        out_status("");
    progress->shown = false;
}

void progress_result(struct progress *progress, const cJSON *result, const char *text,
                     const char *name, const char *file)
{
    const char *status = show_text(result, "status");
    bool done = strcmp(status, "done") == 0;
    progress->done += done;
    if (strcmp(status, "dead") == 0)
        progress->dead++;
    else if (strcmp(status, "cancelled") == 0)
        progress->cancelled++;
    else
        progress->failed += !done;
    if (!progress->json && done && !progress->verbose)
        return;
    progress_hide(progress);
    if (progress->json)
        ctl_print_text(text);
    else
        show_result(result, name, file);
}

/* ---- the bar ------------------------------------------------------------------------------- */

/* Results a second over the last seconds; since the beginning while that is not long ago. */
static double rate(struct progress *progress, double now_s)
{
    uint64_t ended = progress_ended(progress);
    unsigned newest = (progress->sample + PROGRESS_SAMPLES - 1) % PROGRESS_SAMPLES;
    if (now_s - progress->samples[newest].at_s >= SAMPLE_EACH_S) {
        progress->samples[progress->sample].at_s = now_s;
        progress->samples[progress->sample].ended = ended;
        progress->sample = (progress->sample + 1) % PROGRESS_SAMPLES;
    }
    double from_s = progress->samples[progress->sample].at_s;
    uint64_t from = progress->samples[progress->sample].ended;
    if (from_s == 0) /* the ring is not full yet */
        from_s = progress->began_s;
    return now_s > from_s ? (double)(ended - from) / (now_s - from_s) : 0;
}

static unsigned columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static int write_bar(const struct progress *progress, char *text, size_t size)
{
    uint64_t ended = progress_ended(progress), total = progress->total;
    if (total < progress->sent)
        total = progress->sent;
    if (total < ended) /* of jobs whose sending Redis did not acknowledge */
        total = ended;
    int filled = total ? (int)(ended * BAR_COLUMNS / total) : 0;
    char done[SHOW_BYTES], all[SHOW_BYTES], failed[SHOW_BYTES];
    int length = snprintf(text, size, "[%.*s%.*s] %s/%s done", filled,
                          "########################", BAR_COLUMNS - filled,
                          "------------------------", show_count((double)progress->done, done),
                          show_count((double)total, all));
    if (ended - progress->done + progress->refused > 0)
        length += snprintf(text + length, size - (size_t)length, ", %s failed",
                           show_count((double)(ended - progress->done + progress->refused),
                                      failed));
    return length;
}

void progress_draw(struct progress *progress)
{
    char text[400], per_s[SHOW_BYTES], left[SHOW_BYTES];
    double now_s = progress_now_s();
    if (!progress->bar || (progress->shown && now_s - progress->drawn_s < DRAW_EACH_S))
        return;
    double images_s = rate(progress, now_s);
    uint64_t total = progress->total > progress->sent ? progress->total : progress->sent;
    uint64_t ended = progress_ended(progress) + progress->refused;
    int length = write_bar(progress, text, sizeof text);
    if (*progress->note)
        snprintf(text + length, sizeof text - (size_t)length, "  %s", progress->note);
    else if (images_s > 0 && ended < total)
        snprintf(text + length, sizeof text - (size_t)length, "  %s images/s  %s left",
                 show_rate(images_s, per_s), show_time((double)(total - ended) / images_s, left));
    else if (images_s > 0)
        snprintf(text + length, sizeof text - (size_t)length, "  %s images/s",
                 show_rate(images_s, per_s));
    text[columns() - 1 < sizeof text ? columns() - 1 : sizeof text - 1] = '\0';
    out_status(text);
    progress->shown = true;
    progress->drawn_s = now_s;
}

/* ---- the last word ------------------------------------------------------------------------- */

static int print_json(const struct progress *progress, bool waited, double seconds)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "sent", (double)progress->sent);
    cJSON_AddNumberToObject(json, "not_sent", (double)progress->refused);
    if (waited) {
        cJSON_AddNumberToObject(json, "done", (double)progress->done);
        cJSON_AddNumberToObject(json, "failed", (double)progress->failed);
        cJSON_AddNumberToObject(json, "dead", (double)progress->dead);
        cJSON_AddNumberToObject(json, "cancelled", (double)progress->cancelled);
    }
    cJSON_AddNumberToObject(json, "seconds", seconds);
    return ctl_print_json(json);
}

void progress_end(struct progress *progress, bool waited)
{
    double seconds = progress_now_s() - progress->began_s;
    char a[SHOW_BYTES], b[SHOW_BYTES], c[SHOW_BYTES];
    progress_hide(progress);
    if (progress->json) {
        if (print_json(progress, waited, seconds) != CTL_OK)
            return;
    } else if (!waited) {
        out_put("%s sent", show_count((double)progress->sent, a));
    } else {
        out_put("%s done in %s", show_count((double)progress->done, a), show_age(seconds, b));
        if (progress->done > 1 && seconds > 0)
            out_put(" (%s images/s)", show_rate((double)progress->done / seconds, c));
        if (progress->failed > 0)
            out_put(", %s failed", show_count((double)progress->failed, a));
        if (progress->dead > 0)
            out_put(", %s dead", show_count((double)progress->dead, a));
        if (progress->cancelled > 0)
            out_put(", %s cancelled", show_count((double)progress->cancelled, a));
    }
    if (!progress->json && progress->refused > 0)
        out_put(", %s not sent", show_count((double)progress->refused, a));
    if (!progress->json)
        out_end();
}
