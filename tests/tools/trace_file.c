#include "tests/tools/trace_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/text_file.h"

/* ---- reading -------------------------------------------------------------------------------- */

cJSON *trace_file_read(const char *path, bool *whole)
{
    size_t length;
    char *text = (char *)text_file_bytes(path, &length);
    if (!text)
        return NULL;
    text = realloc(text, length + 2);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    *whole = length > 0 && text[length - 1] == ']';
    if (!*whole) {
        length -= length > 0 && text[length - 1] == ',';
        text[length++] = ']';
    }
    text[length] = '\0';
    cJSON *events = cJSON_ParseWithOpts(text, NULL, true);
    free(text);
    return events;
}

static const char *word(const cJSON *event, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(event, name));
    return text ? text : "";
}

static double number(const cJSON *event, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(event, name);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static double job_of(const cJSON *event)
{
    double job;
    if (*word(event, "id"))
        return sscanf(word(event, "name"), "job %lf", &job) == 1 ? job : -1;
    return number(cJSON_GetObjectItem(event, "args"), "job");
}

/* ---- as a table ----------------------------------------------------------------------------- */

struct entry {
    const char *phase, *name, *id;
    double pid, tid, begin_us, end_us, job;
};

static struct entry *entries_of(const cJSON *events, size_t *count)
{
    const cJSON *event;
    struct entry *entries = calloc((size_t)cJSON_GetArraySize(events) + 1, sizeof *entries);
    *count = 0;
    cJSON_ArrayForEach(event, events)
    {
        struct entry *entry = &entries[(*count)++];
        double us = number(event, "ts"), took_us = number(event, "dur");
        *entry = (struct entry){
            .phase = word(event, "ph"), .name = word(event, "name"), .id = word(event, "id"),
            .pid = number(event, "pid"), .tid = number(event, "tid"), .begin_us = us,
            .end_us = us + (took_us > 0 ? took_us : 0), .job = job_of(event)};
    }
    return entries;
}

static bool is(const struct entry *entry, const char *phase)
{
    return strcmp(entry->phase, phase) == 0;
}

static int by_track(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid)
        return a->tid < b->tid ? -1 : 1;
    return (a->begin_us > b->begin_us) - (a->begin_us < b->begin_us);
}

static int rank(const char *name)
{
    static const char *const order[] = {"read", "decode", "H2D", "kernel", "D2H", "encode"};
    for (int i = 0; i < 6; i++)
        if (strcmp(order[i], name) == 0)
            return i;
    return -1;
}

/* ---- checks --------------------------------------------------------------------------------- */

static bool fault(const char *what, const struct entry *entry)
{
    fprintf(stderr, "trace: %s: \"%s\" of job %.0f, process %.0f, thread %.0f, %.3f to %.3f us\n",
            what, entry->name, entry->job, entry->pid, entry->tid, entry->begin_us,
            entry->end_us);
    return false;
}

/* Sums of three decimals in a double: less than a nanosecond is none. */
#define SLACK_US 0.0005

static bool tracks_good(struct entry *entries, size_t count)
{
    bool named[64][256] = {{false}};
    for (size_t i = 0; i < count; i++)
        if (is(&entries[i], "M") && strcmp(entries[i].name, "thread_name") == 0 &&
            entries[i].pid < 64 && entries[i].tid < 256)
            named[(int)entries[i].pid][(int)entries[i].tid] = true;
    qsort(entries, count, sizeof *entries, by_track);
    const struct entry *before = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        if (!is(entry, "X"))
            continue;
        if (rank(entry->name) < 0 || entry->begin_us < 0 || entry->job < 1)
            return fault("a strange slice", entry);
        if (!named[(int)entry->pid][(int)entry->tid])
            return fault("a slice on a track without a name", entry);
        if (before && before->pid == entry->pid && before->tid == entry->tid &&
            entry->begin_us < before->end_us - SLACK_US)
            return fault("overlaps the slice before it", entry);
        before = entry;
    }
    return true;
}

/* In the file's order a job is "b job N", what is of it, "e job N". */
static bool jobs_good(const struct entry *entries, size_t count)
{
    const struct entry *job = NULL;
    double last_us = 0, wait_us = -1, down_us = -1; /* when D2H began, if it has just ended */
    int last_rank = 0;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        if (is(entry, "b") && entry->job > 0) {
            if (job)
                return fault("begins within another job", entry);
            job = entry;
            last_us = entry->begin_us;
            last_rank = 0;
        } else if (is(entry, "e") && entry->job > 0) {
            if (!job || strcmp(job->id, entry->id) != 0 || job->job != entry->job ||
                entry->begin_us < last_us - SLACK_US)
                return fault("ends wrongly", entry);
            job = NULL;
        } else if (is(entry, "b") || is(entry, "e") || is(entry, "X")) {
            if (job && is(entry, "X") && strcmp(entry->name, "encode") == 0 && down_us >= 0)
                last_us = down_us;
            if (!job || entry->begin_us < last_us - SLACK_US)
                return fault("not in order", entry);
            if (is(entry, "X") && (rank(entry->name) < last_rank || entry->job != job->job))
                return fault("a stage out of order", entry);
            if (!is(entry, "X") && is(entry, "e") != (wait_us >= 0))
                return fault("a wait without its other end", entry);
            wait_us = is(entry, "b") ? entry->begin_us : -1;
            last_rank = is(entry, "X") ? rank(entry->name) : last_rank;
            down_us = strcmp(entry->name, "D2H") == 0 ? entry->begin_us : -1;
            last_us = entry->end_us;
        }
    }
    return !job || fault("does not end", job);
}

bool trace_file_good(const cJSON *events)
{
    size_t count;
    struct entry *entries = entries_of(events, &count);
    bool good = jobs_good(entries, count) && tracks_good(entries, count);
    free(entries);
    return good;
}

/* ---- figures -------------------------------------------------------------------------------- */

double trace_file_ms(const cJSON *events, double job, const char *name)
{
    size_t count;
    struct entry *entries = entries_of(events, &count);
    double sum_us = -1, current = -1, began_us = 0;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        if (is(entry, "b") && entry->job > 0)
            current = entry->job;
        if (current != job || strcmp(entry->name, name) != 0)
            continue;
        if (sum_us < 0)
            sum_us = 0;
        if (is(entry, "X"))
            sum_us += entry->end_us - entry->begin_us;
        else if (is(entry, "b"))
            began_us = entry->begin_us;
        else if (is(entry, "e"))
            sum_us += entry->begin_us - began_us;
    }
    free(entries);
    return sum_us < 0 ? -1 : sum_us / 1e3;
}

unsigned trace_file_jobs(const cJSON *events)
{
    const cJSON *event;
    unsigned count = 0;
    cJSON_ArrayForEach(event, events)
        count += strcmp(word(event, "ph"), "b") == 0 && job_of(event) > 0;
    return count;
}

unsigned trace_file_count(const cJSON *events, const char *phase, const char *name)
{
    const cJSON *event;
    unsigned count = 0;
    cJSON_ArrayForEach(event, events)
        count += strcmp(word(event, "ph"), phase) == 0 &&
                 (!name || strcmp(word(event, "name"), name) == 0);
    return count;
}

unsigned trace_file_in_a_row(const cJSON *events, const char *name)
{
    size_t count;
    struct entry *entries = entries_of(events, &count);
    const struct entry *before = NULL;
    unsigned in_a_row = 0;
    qsort(entries, count, sizeof *entries, by_track);
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        if (!is(entry, "X"))
            continue;
        in_a_row += before && before->pid == entry->pid && before->tid == entry->tid &&
                    strcmp(before->name, name) == 0 && strcmp(entry->name, name) == 0;
        before = entry;
    }
    free(entries);
    return in_a_row;
}

double trace_file_end(const cJSON *events, const char *name)
{
    const cJSON *event;
    cJSON_ArrayForEach(event, events)
        if (strcmp(word(event, "name"), "end of the trace") == 0)
            return number(cJSON_GetObjectItem(event, "args"), name);
    return -1;
}

/* ---- XML ------------------------------------------------------------------------------------ */

/* Behind a reference such as &#183; or &lt;, or NULL. */
static const char *skip_reference(const char *at)
{
    const char *end = at + 1 + strspn(at + 1, "#abcdefghijklmnopqrstuvwxyz0123456789");
    return end > at + 1 && *end == ';' ? end + 1 : NULL;
}

/* Behind the attributes, at > or />; NULL where one is wrong. */
static const char *skip_attributes(const char *at)
{
    for (;;) {
        at += strspn(at, " \n");
        if (*at == '>' || (at[0] == '/' && at[1] == '>'))
            return at;
        size_t name = strcspn(at, "= \n<>\"");
        if (name == 0 || at[name] != '=' || at[name + 1] != '"')
            return NULL;
        for (at += name + 2; *at != '"';) {
            if (*at == '\0' || *at == '<')
                return NULL;
            at = *at == '&' ? skip_reference(at) : at + 1;
            if (!at)
                return NULL;
        }
        at++;
    }
}

bool xml_good(const char *text)
{
    struct {
        const char *name;
        size_t length;
    } open[64];
    size_t depth = 0, roots = 0;
    for (const char *at = text; *at;) {
        if (*at == '&') {
            if (!(at = skip_reference(at)))
                return false;
        } else if (*at != '<') {
            if (depth == 0 && !isspace((unsigned char)*at))
                return false;
            at++;
        } else if (at[1] == '/') {
            size_t length = strcspn(at + 2, ">");
            if (depth == 0 || open[depth - 1].length != length ||
                strncmp(open[depth - 1].name, at + 2, length) != 0)
                return false;
            depth--;
            at += length + 3;
        } else {
            size_t length = strcspn(at + 1, " \n/>");
            const char *end = skip_attributes(at + 1 + length);
            if (!end || length == 0 || depth == 64)
                return false;
            roots += depth == 0;
            open[depth].name = at + 1;
            open[depth].length = length;
            depth += *end == '>';
            at = end + (*end == '>' ? 1 : 2);
        }
    }
    return depth == 0 && roots == 1;
}
