/*
 * trace_file.h - reads a file of Chrome trace events back, and checks what any such file must keep.
 */
#ifndef GPUIMGD_TESTS_TOOLS_TRACE_FILE_H
#define GPUIMGD_TESTS_TOOLS_TRACE_FILE_H

#include <stdbool.h>

#include <cjson/cJSON.h>

/* The array of events; NULL where it cannot be read. *whole: it ends in "]"; where it does not, the
 * viewers' repair (a last comma off, "]" on) must be enough. */
cJSON *trace_file_read(const char *path, bool *whole);

/* Whether slices of one track do not overlap, stages of each job are in order and within the job
 * (an encode may begin within D2H), asynchronous slices are in pairs, and tracks have names. Else
 * the first fault is printed. */
bool trace_file_good(const cJSON *events);

/* Milliseconds of the job's slices of this name (asynchronous ones, too), -1 where it has none. */
double trace_file_ms(const cJSON *events, double job, const char *name);
/* How many jobs, and how many events of this phase and name (NULL: any). */
unsigned trace_file_jobs(const cJSON *events);
unsigned trace_file_count(const cJSON *events, const char *phase, const char *name);
/* How many slices of this name stand, on their track, right behind one of the same name. */
unsigned trace_file_in_a_row(const cJSON *events, const char *name);
/* A number of the event that ends the trace: "jobs", "jobs left out". */
double trace_file_end(const cJSON *events, const char *name);

/* Whether text is well-formed XML as far as elements, attributes and references go. */
bool xml_good(const char *text);

#endif
