/*
 * prometheus.h - a strict reader of Prometheus's text format 0.0.4, for tests.
 *
 * It takes nothing that the format's description does not show, and less than Prometheus does: HELP
 * and TYPE once each before a metric's samples, which stand together; no sample twice; counters end
 * in _total and are not negative; histograms are cumulative and end in +Inf, which is the count.
 */
#ifndef GPUIMGD_TESTS_TOOLS_PROMETHEUS_H
#define GPUIMGD_TESTS_TOOLS_PROMETHEUS_H

#include <stdbool.h>
#include <stddef.h>

#define PROMETHEUS_LABELS_MAX 4

struct prometheus_family {
    char name[96], type[16], help[256];
};

struct prometheus_sample {
    char name[96];
    size_t family, label_count;
    struct {
        char name[32], value[128];
    } labels[PROMETHEUS_LABELS_MAX];
    double value;
};

struct prometheus {
    struct prometheus_family *families;
    struct prometheus_sample *samples;
    size_t family_count, sample_count;
    char error[256]; /* of a text that is refused */
};

/* false, with error set: it is not in the format. prometheus_free is due in any case. */
bool prometheus_read(struct prometheus *read, const char *text);
void prometheus_free(struct prometheus *read);

/* The sample with this name and exactly these labels beside `namespace`, pairs of name and value
 * ended by NULL; NAN if there is none. */
double prometheus_value(const struct prometheus *read, const char *name, ...)
    __attribute__((sentinel));
/* Whether every sample has this label. */
bool prometheus_all_have(const struct prometheus *read, const char *label, const char *value);
/* The first counter (or _count, _sum, _bucket) that is lower in `after` or missing there; NULL:
 * none. */
const char *prometheus_fallen(const struct prometheus *before, const struct prometheus *after);

#endif
