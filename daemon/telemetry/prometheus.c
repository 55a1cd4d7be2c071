#include "daemon/telemetry/prometheus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The labels of a sample: names and values alternate, then NULL. */
struct labels {
    const char *pairs[7];
};

/* The metric that is being written, and the labels of its next sample. */
struct sheet {
    FILE *out;
    const char *name, *namespace;
    struct labels labels;
};

static void put_escaped(FILE *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            fprintf(out, "\\%c", *value);
        else if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
    }
}

static void put_label(FILE *out, const char *before, const char *name, const char *value)
{
    fprintf(out, "%s%s=\"", before, name);
    put_escaped(out, value);
    fputc('"', out);
}

/* end: upper bound of a histogram bucket (the label `le`), or NULL. */
static void put_name(const struct sheet *sheet, const char *suffix, const char *end)
{
    fprintf(sheet->out, "%s%s", sheet->name, suffix);
    put_label(sheet->out, "{", "namespace", sheet->namespace);
    for (const char *const *pair = sheet->labels.pairs; *pair; pair += 2)
        put_label(sheet->out, ",", pair[0], pair[1]);
    if (end)
        put_label(sheet->out, ",", "le", end);
    fputc('}', sheet->out);
}

/* 16 digits print all integers up to 2^53 exactly. A 17th digit would print 0.1 as
 * 0.10000000000000001. */
static void put_number(const struct sheet *sheet, const char *suffix, double value)
{
    put_name(sheet, suffix, NULL);
    fprintf(sheet->out, " %.16g\n", value);
}

static void put_histogram(const struct sheet *sheet, const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= METRICS_BUCKETS; i++) {
        char end[32] = "+Inf";
        count += histogram->counts[i];
        if (i < METRICS_BUCKETS)
            snprintf(end, sizeof end, "%g", metrics_bucket_s[i]);
        put_name(sheet, "_bucket", end);
        fprintf(sheet->out, " %" PRIu64 "\n", count);
    }
    put_number(sheet, "_sum", histogram->sum_s);
    put_number(sheet, "_count", (double)count);
}

/* A set of labels in metrics.def. The macros below make a function of each of its expressions. */
struct label_set {
    size_t (*count)(const struct snapshot *s); /* the number of samples of a metric */
    struct labels (*labels)(const struct snapshot *s, size_t i);
    const char *document;
};

#define LABELS(set, samples, document, ...)                                                        \
    static size_t count_##set(const struct snapshot *s)                                            \
    {                                                                                              \
        (void)s;                                                                                   \
        return samples;                                                                            \
    }                                                                                              \
    static struct labels labels_##set(const struct snapshot *s, size_t i)                          \
    {                                                                                              \
        (void)s, (void)i;                                                                          \
        return (struct labels){{__VA_ARGS__}};                                                     \
    }                                                                                              \
    static const struct label_set set_##set = {count_##set, labels_##set, document};
#include "daemon/telemetry/metrics.def"
#undef LABELS

#define PUT_COUNTER(sheet, value)       put_number(sheet, "", value)
#define PUT_GAUGE(sheet, value)         put_number(sheet, "", value)
#define PUT_HISTOGRAM(sheet, histogram) put_histogram(sheet, histogram)
#define METRIC(name, type, labels, source, help)                                                   \
    static void put_##name(const struct sheet *sheet, const struct snapshot *s, uint64_t now_ns,   \
                           size_t i)                                                               \
    {                                                                                              \
        (void)s, (void)now_ns, (void)i;                                                            \
        PUT_##type(sheet, source);                                                                 \
    }
#include "daemon/telemetry/metrics.def"
#undef METRIC

static const struct {
    const char *name;
    enum prometheus_type type;
    const struct label_set *labels;
    const char *source, *help;
    void (*put)(const struct sheet *sheet, const struct snapshot *s, uint64_t now_ns, size_t i);
} rows[] = {
#define METRIC(name, type, labels, source, help)                                                   \
    {#name, PROMETHEUS_##type, &set_##labels, #source, help, put_##name},
#include "daemon/telemetry/metrics.def"
#undef METRIC
};

size_t prometheus_rows(void)
{
    return sizeof rows / sizeof rows[0];
}

struct prometheus_row prometheus_row(size_t index)
{
    return (struct prometheus_row){rows[index].name, rows[index].type, rows[index].labels->document,
                                   rows[index].source, rows[index].help};
}

static void write_row(FILE *out, size_t index, const struct snapshot *snapshot, uint64_t now_ns)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    struct sheet sheet = {.out = out, .name = rows[index].name, .namespace = snapshot->namespace};
    const struct label_set *set = rows[index].labels;
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", sheet.name, rows[index].help, sheet.name,
            types[rows[index].type]);
    for (size_t i = 0; i < set->count(snapshot); i++) {
        sheet.labels = set->labels(snapshot, i);
        rows[index].put(&sheet, snapshot, now_ns, i);
    }
}

char *prometheus_write(const struct snapshot *snapshot, uint64_t now_ns)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out) /* uncovered: service (tests/coverage/reasons.txt) */
        return NULL;
    for (size_t i = 0; i < prometheus_rows(); i++)
        write_row(out, i, snapshot, now_ns);
    bool whole = !ferror(out);
    if (fclose(out) != 0 || !whole) { /* uncovered: service */
        free(text);
        return NULL;
    }
    return text;
}
