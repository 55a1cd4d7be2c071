/* client_labels.h - checks the keys of a job by which its client finds it in metrics (tag) and in
 * traces (traceparent and tracestate: W3C Trace Context, levels 1 and 2). Any thread. */
#pragma once

#include <stdbool.h>

/* Lengths with the NUL. */
#define TRACE_ID_BYTES  33
#define PARENT_ID_BYTES 17

struct trace_context {
    char trace_id[TRACE_ID_BYTES], parent_id[PARENT_ID_BYTES]; /* "": none */
};

/* What is wrong with the text, or NULL if it has 1 to 64 letters, digits and "._:/@-": tags are
 * labels of metrics, so they are short, and need no quotes. */
const char *tag_fault(const char *text);
/* What is wrong with the text, or NULL if it is version-traceid-parentid-flags in lower-case
 * hexadecimal digits. Versions above 00 may have more after another "-". */
const char *traceparent_fault(const char *text);
/* What is wrong with the text, or NULL if it is a list of up to 32 key=value. */
const char *tracestate_fault(const char *text);
/* Reads the two ids of a valid traceparent; NULL: both are "". */
void trace_context_read(struct trace_context *context, const char *traceparent);
