/*
 * world.h - all that one end-to-end test needs: a folder, a private Redis, daemons, and jobs.
 *
 * The daemons run with timings shortened (patience() stretches them on slow builds), on the CPU
 * engine unless another --engine= is among the extra options, which win over the common ones.
 */
#ifndef GPUIMGD_TESTS_TOOLS_WORLD_H
#define GPUIMGD_TESTS_TOOLS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
#include <hiredis/hiredis.h>

#include "conf/status.h"
#include "tests/tools/picture.h"
#include "tests/tools/process.h"
#include "tests/tools/raster.h"
#include "tests/tools/redis_server.h"

#define WORLD_DAEMONS_MAX 100

struct world {
    char folder[64];
    char in[96], out[96];        /* input_root and output_root */
    char ns[32];
    struct redis_server *redis;
    redisContext *client;
    pid_t janitor;               /* removes the folders when we die before world_close */
    int janitor_fd;
    struct process daemons[WORLD_DAEMONS_MAX];
};

/* Takes the server over; NULL leaves Redis out. Ends the program when there is no temporary
 * folder to be had, under $TMPDIR or /tmp. */
void world_open(struct world *world, struct redis_server *redis);
/* Kills what runs and removes what was made. Idempotent. With GPUIMGD_TEST_KEEP set the folder
 * stays. */
void world_close(struct world *world);
/* A new client connection, after Redis was restarted. */
void world_reconnect(struct world *world);

/* Starts daemon `index` with the common options and the extra ones, ended by NULL. */
struct process *world_start(struct world *world, size_t index, ...) __attribute__((sentinel));
/* The same, given `how` for all else than the arguments; the rest of the options as an array. */
struct process *world_start_with(struct world *world, size_t index,
                                 const struct process_options *how, const char *const *extra);
/* Waits for READY=1. false: its log goes to standard error. */
bool world_ready(struct process *daemon);

/* Puts a file under input_root; parents are made. */
void world_put(struct world *world, const char *name, const void *bytes, size_t length);
/* The same for a picture, which is freed. */
void world_put_picture(struct world *world, const char *name, struct picture_file file);
/* An ordinary colour JPEG. */
void world_put_photo(struct world *world, const char *name, uint32_t width, uint32_t height);
/* "slow.png": written again with compression 9, it keeps a worker busy for some half a second. */
void world_put_slow(struct world *world);
/* The path of a file under input_root or output_root, malloc'd. */
char *world_in_path(const struct world *world, const char *name);
char *world_out_path(const struct world *world, const char *name);
struct raster world_load_in(const struct world *world, const char *name, enum raster_as as);
struct raster world_load_out(const struct world *world, const char *name);

/* LPUSHes a job; `format` is a printf format. Single quotes become double quotes, so that JSON
 * can be read in C. world_push_bytes pushes bytes as they are. */
void world_push(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_push_bytes(struct world *world, const void *bytes, size_t length);

/* The next result, or NULL when none came in time. Free it with cJSON_Delete. */
cJSON *world_result(struct world *world, double seconds);
cJSON *world_result_from(struct world *world, const char *list, double seconds);
/* Waits until `command` (a printf format, a Redis command) answers `wanted`. */
bool world_until(struct world *world, double seconds, long long wanted, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Waits until no job is left and forgets all results: what a failed test left cannot fail the
 * next. false: there still are jobs, and their results would be taken for others'. */
bool world_settle(struct world *world) MUST_CHECK;

/* Keys of the namespace that should not be there once all jobs have ended and the daemons have
 * gone; their names are written into `names`. Results, images and counters may stay. */
size_t world_leftovers(struct world *world, char *names, size_t size);

/* A value inside JSON by its place, "outputs.0.width"; NULL, "" or NAN where there is none. */
const cJSON *json_at(const cJSON *json, const char *place);
const char *json_text(const cJSON *json, const char *place);
double json_number(const cJSON *json, const char *place);

/* Whether `engine` ("cpu", "cuda") can be used here: the daemon is asked once. */
bool world_has_cuda(void);

#endif
