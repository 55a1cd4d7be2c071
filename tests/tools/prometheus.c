#include "tests/tools/prometheus.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAMILIES_MAX 256
#define SAMPLES_MAX  8192

/* ---- names and values ------------------------------------------------------------------------ */

/* Copies a name off *at; its first character is no digit. */
static bool take_name(const char **at, char *name, size_t size, bool colon)
{
    size_t length = 0;
    while (isalnum((unsigned char)(*at)[length]) || (*at)[length] == '_' ||
           (colon && (*at)[length] == ':'))
        length++;
    if (length == 0 || length >= size || isdigit((unsigned char)**at))
        return false;
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length;
    return true;
}

/* Behind the opening quote, up to behind the closing one. */
static bool take_quoted(const char **at, char *value, size_t size)
{
    size_t length = 0;
    for (; **at && **at != '"' && **at != '\n'; (*at)++) {
        char c = **at;
        if (c == '\\') {
            (*at)++;
            if (**at != '\\' && **at != '"' && **at != 'n')
                return false;
            c = **at == 'n' ? '\n' : **at;
        }
        if (length + 1 >= size)
            return false;
        value[length++] = c;
    }
    value[length] = '\0';
    return *(*at)++ == '"';
}

static bool take_labels(const char **at, struct prometheus_sample *sample)
{
    if (**at != '{')
        return true;
    do {
        (*at)++;
        if (sample->label_count == PROMETHEUS_LABELS_MAX)
            return false;
        char *name = sample->labels[sample->label_count].name;
        char *value = sample->labels[sample->label_count].value;
        sample->label_count++;
        if (!take_name(at, name, sizeof sample->labels[0].name, false) || *(*at)++ != '=' ||
            *(*at)++ != '"' || !take_quoted(at, value, sizeof sample->labels[0].value))
            return false;
    } while (**at == ',');
    return *(*at)++ == '}';
}

static bool take_value(const char **at, double *value)
{
    char *end;
    if (*(*at)++ != ' ' || isspace((unsigned char)**at))
        return false;
    *value = strtod(*at, &end);
    bool whole = end != *at && *end == '\n';
    *at = end;
    return whole && !isnan(*value);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool refuse(struct prometheus *read, const char *why, const char *line)
{
    snprintf(read->error, sizeof read->error, "%s: %.*s", why, (int)strcspn(line, "\n"), line);
    return false;
}

static struct prometheus_family *last_family(struct prometheus *read)
{
    return read->family_count ? &read->families[read->family_count - 1] : NULL;
}

static bool read_help(struct prometheus *read, const char *line)
{
    struct prometheus_family *family = &read->families[read->family_count];
    const char *at = line + strlen("# HELP ");
    if (read->family_count == FAMILIES_MAX)
        return refuse(read, "too many metrics", line);
    if (!take_name(&at, family->name, sizeof family->name, true) || *at++ != ' ')
        return refuse(read, "HELP without a name", line);
    for (size_t i = 0; i < read->family_count; i++)
        if (strcmp(read->families[i].name, family->name) == 0)
            return refuse(read, "the metric comes twice", line);
    size_t length = strcspn(at, "\n");
    if (length == 0 || length >= sizeof family->help || memchr(at, '\\', length))
        return refuse(read, "HELP is empty, long or escaped", line);
    memcpy(family->help, at, length);
    read->family_count++;
    return true;
}

static bool read_type(struct prometheus *read, const char *line)
{
    struct prometheus_family *family = last_family(read);
    const char *at = line + strlen("# TYPE ");
    char name[96], type[16];
    if (!take_name(&at, name, sizeof name, true) || *at++ != ' ' ||
        !take_name(&at, type, sizeof type, false) || *at != '\n')
        return refuse(read, "TYPE is not name and type", line);
    if (!family || strcmp(name, family->name) != 0 || *family->type)
        return refuse(read, "TYPE does not follow its HELP", line);
    if (strcmp(type, "counter") != 0 && strcmp(type, "gauge") != 0 &&
        strcmp(type, "histogram") != 0)
        return refuse(read, "unknown type", line);
    const char *total = strlen(name) > 6 ? name + strlen(name) - 6 : "";
    if ((strcmp(type, "counter") == 0) != (strcmp(total, "_total") == 0))
        return refuse(read, "counters, and only they, end in _total", line);
    strcpy(family->type, type);
    return true;
}

/* "_bucket", "_sum" and "_count" behind the name of a histogram, "" behind that of another. */
static bool belongs(const struct prometheus_family *family, const char *name)
{
    size_t length = strlen(family->name);
    if (strncmp(name, family->name, length) != 0)
        return false;
    const char *rest = name + length;
    if (strcmp(family->type, "histogram") != 0)
        return !*rest;
    return strcmp(rest, "_bucket") == 0 || strcmp(rest, "_sum") == 0 || strcmp(rest, "_count") == 0;
}

static bool same_labels(const struct prometheus_sample *a, const struct prometheus_sample *b)
{
    if (a->label_count != b->label_count)
        return false;
    for (size_t i = 0; i < a->label_count; i++)
        if (strcmp(a->labels[i].name, b->labels[i].name) != 0 ||
            strcmp(a->labels[i].value, b->labels[i].value) != 0)
            return false;
    return true;
}

static bool read_sample(struct prometheus *read, const char *line)
{
    struct prometheus_family *family = last_family(read);
    struct prometheus_sample *sample = &read->samples[read->sample_count];
    const char *at = line;
    if (read->sample_count == SAMPLES_MAX)
        return refuse(read, "too many samples", line);
    memset(sample, 0, sizeof *sample);
    if (!take_name(&at, sample->name, sizeof sample->name, true) || !take_labels(&at, sample) ||
        !take_value(&at, &sample->value))
        return refuse(read, "the sample is not name{label=\"value\"} value", line);
    if (!family || !*family->type || !belongs(family, sample->name))
        return refuse(read, "the sample does not follow its TYPE", line);
    if (strcmp(family->type, "gauge") != 0 && !(sample->value >= 0))
        return refuse(read, "a counter is negative", line);
    for (size_t i = 0; i < read->sample_count; i++)
        if (strcmp(read->samples[i].name, sample->name) == 0 &&
            same_labels(&read->samples[i], sample))
            return refuse(read, "the sample comes twice", line);
    sample->family = read->family_count - 1;
    read->sample_count++;
    return true;
}

/* ---- histograms ------------------------------------------------------------------------------ */

static const char *le_of(const struct prometheus_sample *sample)
{
    if (sample->label_count == 0)
        return NULL;
    size_t last = sample->label_count - 1;
    return strcmp(sample->labels[last].name, "le") == 0 ? sample->labels[last].value : NULL;
}

static bool ends_in(const char *name, const char *end)
{
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* Buckets rise in end and count up to +Inf; _sum follows, and _count says what +Inf says. */
static bool check_histogram(struct prometheus *read, size_t *index)
{
    double end = -INFINITY, count = 0;
    size_t i = *index, first = i;
    for (; i < read->sample_count && ends_in(read->samples[i].name, "_bucket"); i++) {
        const char *le = le_of(&read->samples[i]);
        if (!le)
            return refuse(read, "a bucket has no le at its end", read->samples[i].name);
        if (!(strtod(le, NULL) > end) || read->samples[i].value < count)
            return refuse(read, "buckets do not rise", read->samples[i].name);
        end = strtod(le, NULL);
        count = read->samples[i].value;
        if (isinf(end)) {
            i++;
            break;
        }
    }
    if (i == first || !isinf(end) || i + 1 >= read->sample_count)
        return refuse(read, "no bucket +Inf", read->samples[first].name);
    if (!ends_in(read->samples[i].name, "_sum") || !ends_in(read->samples[i + 1].name, "_count") ||
        read->samples[i + 1].value != count)
        return refuse(read, "_sum and _count do not follow +Inf", read->samples[i].name);
    *index = i + 2;
    return true;
}

static bool check_histograms(struct prometheus *read)
{
    for (size_t i = 0; i < read->sample_count;) {
        if (strcmp(read->families[read->samples[i].family].type, "histogram") != 0)
            i++;
        else if (!check_histogram(read, &i))
            return false;
    }
    return true;
}

bool prometheus_read(struct prometheus *read, const char *text)
{
    *read = (struct prometheus){.families = calloc(FAMILIES_MAX, sizeof *read->families),
                                .samples = calloc(SAMPLES_MAX, sizeof *read->samples)};
    if (!read->families || !read->samples)
        abort();
    size_t length = strlen(text);
    if (length == 0 || text[length - 1] != '\n')
        return refuse(read, "the last line has no end", "");
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        bool good = strncmp(line, "# HELP ", 7) == 0   ? read_help(read, line)
                    : strncmp(line, "# TYPE ", 7) == 0 ? read_type(read, line)
                                                       : read_sample(read, line);
        if (!good)
            return false;
    }
    return check_histograms(read);
}

void prometheus_free(struct prometheus *read)
{
    free(read->families);
    free(read->samples);
    *read = (struct prometheus){0};
}

/* ---- questions ------------------------------------------------------------------------------- */

static const struct prometheus_sample *find(const struct prometheus *read,
                                            const struct prometheus_sample *wanted)
{
    for (size_t i = 0; i < read->sample_count; i++)
        if (strcmp(read->samples[i].name, wanted->name) == 0 &&
            same_labels(&read->samples[i], wanted))
            return &read->samples[i];
    return NULL;
}

static bool same_beside_namespace(const struct prometheus_sample *sample,
                                  const struct prometheus_sample *wanted)
{
    struct prometheus_sample rest = *sample;
    rest.label_count = 0;
    for (size_t i = 0; i < sample->label_count; i++)
        if (strcmp(sample->labels[i].name, "namespace") != 0)
            rest.labels[rest.label_count++] = sample->labels[i];
    return same_labels(&rest, wanted);
}

double prometheus_value(const struct prometheus *read, const char *name, ...)
{
    struct prometheus_sample wanted = {0};
    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    va_list args;
    va_start(args, name);
    for (const char *label; (label = va_arg(args, const char *));) {
        size_t i = wanted.label_count++;
        snprintf(wanted.labels[i].name, sizeof wanted.labels[i].name, "%s", label);
        snprintf(wanted.labels[i].value, sizeof wanted.labels[i].value, "%s",
                 va_arg(args, const char *));
    }
    va_end(args);
    for (size_t i = 0; i < read->sample_count; i++)
        if (strcmp(read->samples[i].name, wanted.name) == 0 &&
            same_beside_namespace(&read->samples[i], &wanted))
            return read->samples[i].value;
    return NAN;
}

bool prometheus_all_have(const struct prometheus *read, const char *label, const char *value)
{
    for (size_t i = 0; i < read->sample_count; i++) {
        const struct prometheus_sample *sample = &read->samples[i];
        bool has = false;
        for (size_t j = 0; j < sample->label_count; j++)
            has = has || (strcmp(sample->labels[j].name, label) == 0 &&
                          strcmp(sample->labels[j].value, value) == 0);
        if (!has)
            return false;
    }
    return read->sample_count > 0;
}

const char *prometheus_fallen(const struct prometheus *before, const struct prometheus *after)
{
    for (size_t i = 0; i < before->sample_count; i++) {
        const struct prometheus_sample *sample = &before->samples[i];
        if (strcmp(before->families[sample->family].type, "gauge") == 0)
            continue;
        const struct prometheus_sample *now = find(after, sample);
        if (!now || now->value < sample->value)
            return sample->name;
    }
    return NULL;
}
