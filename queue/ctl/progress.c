#include "queue/ctl/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "conf/clock.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/show.h"

#define DRAW_EACH_S   0.1
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
    };
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

void progress_result(struct progress *progress, const cJSON *result, const char *text,
                     const char *name, const char *const *files, const cJSON *unwritten)
{
    const char *status = show_text(result, "status");
    bool lost = cJSON_GetArraySize(unwritten) > 0, done = strcmp(status, "done") == 0;
    enum progress_end end = done && lost                       ? PROGRESS_UNWRITTEN
                            : done                             ? PROGRESS_DONE
                            : strcmp(status, "dead") == 0      ? PROGRESS_DEAD
                            : strcmp(status, "cancelled") == 0 ? PROGRESS_CANCELLED
                                                               : PROGRESS_FAILED;
    progress->ended[end]++;
    /* The caller has already reported unwritten results. */
    if (!progress->ctl->json && done && (lost || !progress->verbose))
        return;
    if (progress->ctl->json && lost)
        ctl_print_json(progress->ctl, with_unwritten(result, unwritten));
    else if (progress->ctl->json)
        ctl_print_text(progress->ctl, text);
    else
        show_result(result, name, files);
}

/* ---- the bar ------------------------------------------------------------------------------- */

/* Returns the results per second during the time that the ring of samples covers; until the ring is
 * full, since the beginning. */
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

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int write_bar(const struct progress *progress, char *text, size_t size)
{
    uint64_t ended = progress_ended(progress), done = progress->ended[PROGRESS_DONE];
    /* `sent` lacks jobs whose push had no reply, but their results come. */
    uint64_t total = larger(larger(progress->total, progress->sent), ended);
    uint64_t failed = ended - done + progress->refused;
    int filled = total ? (int)(ended * BAR_COLUMNS / total) : 0;
    char count[SHOW_BYTES], all[SHOW_BYTES];
    int length = snprintf(text, size, "[%.*s%.*s] %s/%s done", filled,
                          "########################", BAR_COLUMNS - filled,
                          "------------------------", show_count((double)done, count),
                          show_count((double)total, all));
    if (failed > 0)
        length += snprintf(text + length, size - (size_t)length, ", %s failed",
                           show_count((double)failed, count));
    return length;
}

void progress_draw(struct progress *progress)
{
    char text[400], per_s[SHOW_BYTES], left[SHOW_BYTES];
    double now_s = clock_now_s();
    if (!progress->bar || (out_has_status() && now_s - progress->drawn_s < DRAW_EACH_S))
        return;
    double images_s = rate(progress, now_s);
    uint64_t total = larger(progress->total, progress->sent);
    uint64_t ended = progress_ended(progress) + progress->refused;
    int length = write_bar(progress, text, sizeof text);
    char *rest = text + length;
    size_t space = sizeof text - (size_t)length;
    if (*progress->note)
        snprintf(rest, space, "  %s", progress->note);
    else if (images_s > 0 && ended < total)
        snprintf(rest, space, "  %s images/s  %s left", show_rate(images_s, per_s),
                 show_time((double)(total - ended) / images_s, left));
    else if (images_s > 0)
        snprintf(rest, space, "  %s images/s", show_rate(images_s, per_s));
    text[columns() - 1 < sizeof text ? columns() - 1 : sizeof text - 1] = '\0';
    out_status(text);
    progress->drawn_s = now_s;
}

/* ---- the summary --------------------------------------------------------------------------- */

static void print_json(const struct progress *progress, bool waited, double seconds)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "sent", (double)progress->sent);
    cJSON_AddNumberToObject(json, "not_sent", (double)progress->refused);
    for (size_t i = 0; i < PROGRESS_ENDS && waited; i++)
        cJSON_AddNumberToObject(json, ends[i], (double)progress->ended[i]);
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
    char sent[SHOW_BYTES], refused[SHOW_BYTES];
    show_count((double)progress->sent, sent);
    if (progress->refused > 0)
        ctl_say("%s sent, %s not sent", sent, show_count((double)progress->refused, refused));
    else
        ctl_say("%s sent", sent);
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
        out_put("%s done in %s", show_count(done, count), show_age(seconds, age));
        if (done > 1 && seconds > 0)
            out_put(" (%s images/s)", show_rate(done / seconds, count));
        for (size_t i = PROGRESS_FAILED; i < PROGRESS_UNWRITTEN; i++)
            put_count(ends[i], progress->ended[i]);
        put_count("not written", progress->ended[PROGRESS_UNWRITTEN]);
        put_count("not sent", progress->refused);
        out_end();
    }
}
