/*
 * plan.h - from a job's operations to passes over buffers, with exact byte counts.
 *
 * A plan is built on a worker once the header of the input is known, and is read-only from then
 * on: both engines carry out the same plan. One source image feeds up to JOB_OUTPUTS_MAX
 * variants; each variant is a chain of passes (one kernel each, neighbours fused where that
 * gives the same bits), and ends in its own place of the output buffer. A chain without passes
 * is the source itself, or a rectangle of it: nothing is computed or copied. Passes that give
 * values leave them in the output buffer too.
 */
#ifndef GPUIMGD_GPU_PLAN_PLAN_H
#define GPUIMGD_GPU_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "codecs/image.h"
#include "conf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pass; /* gpu/plan/pass.h: one kernel with its parameters and geometry */

/* What will be decoded. */
struct plan_source {
    uint32_t width, height, channels; /* in full; channels: 1 of DECODE_LUMA */
    bool ycc;                         /* the 3 channels are Y, Cb and Cr: DECODE_YCC */
    uint32_t eighths;                 /* plan_eighths: it is decoded at M/8; 0: in full */
    int orientation;                  /* EXIF 1..8, applied as the first operation; 1 = none */
    uint8_t background[3];            /* under alpha, RGB */
};

/* What one variant shall become. `ops` is the job's array, borrowed, validated here. */
struct plan_target {
    const cJSON *ops;
    bool opaque;     /* the output format has no alpha: flatten over the background at the end */
    bool no_picture; /* only what plan_values gives is wanted */
    unsigned number; /* in messages: among the job's outputs, from 1 on; 0: it has but one */
    struct error *error; /* takes unknown_op, bad_op, image_too_large, and the others are built
                            without this variant; NULL: the plan fails with it */
};

struct plan_limits {
    uint64_t pixels_max; /* of any output */
    uint32_t side_max;
};

struct plan_variant {
    struct pass *passes;
    uint32_t pass_count;
    uint32_t width, height, channels; /* of the result; rows are image_stride() apart */
    bool is_source;                   /* no pass writes: it is (a part of) the decoded input */
    uint32_t x, y;                    /* where that part begins; else 0 */
    bool no_picture;                  /* its picture, if there is one, stays in the scratch */
    size_t offset;                    /* of the result in the output buffer, BUFFER_ALIGNed */
};

struct plan {
    struct plan_source source;
    struct plan_variant variants[JOB_OUTPUTS_MAX];
    uint32_t variant_count;
    size_t input_bytes;   /* the decoded image and the constants, in pinned memory */
    size_t constants_at;  /* where tables that passes read start in the input buffer */
    size_t constants_bytes;
    size_t output_bytes;  /* all results that are not the source, and values; pinned memory */
    size_t scratch_bytes; /* between passes; host memory for the CPU engine, else on the device */
    size_t device_bytes;  /* on a device: input + outputs + scratch, each BUFFER_ALIGNed */
    bool idle;            /* no variant has a pass: the engine stage can be skipped */
};

/* Checks names and parameters alone, before anything is read: unknown_op, bad_op, with the
 * operation's place and name in the text. `index` < 0 leaves the output's number out. */
enum status plan_check_ops(const cJSON *ops, int index, struct error *error) MUST_CHECK;

/* How a YCbCr source is to be decoded. A variant that begins by making gray of it with the default
 * weights, but for operations that only move pixels, takes its Y channel, any other one its
 * colours: DECODE_YCC serves both kinds. ops must have passed plan_check_ops. */
enum decode_as plan_decode_as(const struct plan_target *targets, size_t count);

/* Whether one of the operations gives values, so that an output without a picture makes sense. */
bool plan_gives_values(const cJSON *ops);

/* At how many eighths of its size the source of a single output is to be decoded by a codec that
 * can: 1, 2 or 4 where the operations begin with a reduction (grayscale before it aside) that
 * permits it, else 8. source: in full, with its orientation; ops must have passed
 * plan_check_ops. */
uint32_t plan_eighths(const struct plan_source *source, const cJSON *ops);

/* Builds the plan; *plan is overwritten, and plan_clear is due in any case. Of one target: bad_op
 * (a parameter that does not fit this image), image_too_large (an output). Of all together:
 * over_budget (tables), out_of_memory. */
enum status plan_build(struct plan *plan, const struct plan_source *source,
                       const struct plan_target *targets, size_t count,
                       const struct plan_limits *limits, struct error *error) MUST_CHECK;
void plan_clear(struct plan *plan); /* idempotent */
/* Heap memory that the passes take. */
size_t plan_bytes(const struct plan *plan);
/* Frees the passes; sizes stay. plan_build with the same source and targets makes them again. */
void plan_drop_passes(struct plan *plan);

/* Computes the constants and writes them to their place in the input buffer. The caller does so
 * once per buffer, on any thread, before the plan is run or submitted: 64 MiB of tables, the most
 * there may be, take about half a second. */
void plan_put_constants(const struct plan *plan, uint8_t *input);

/* The result of a variant with a picture, in buffers that hold input_bytes and output_bytes. */
struct image plan_result(const struct plan *plan, size_t variant, uint8_t *input, uint8_t *output);
/* As decoded, so perhaps smaller than the source in full. */
struct image plan_input(const struct plan *plan, uint8_t *input);

/* Whether any pass of the variant gives values. */
bool plan_has_values(const struct plan *plan, size_t variant);
/* The values of a variant once the engine has run: an object with a member an operation, named
 * as it is ("histogram", the second one "histogram_2"). The caller's; NULL: no memory. Any
 * thread. */
cJSON *plan_values(const struct plan *plan, size_t variant, const uint8_t *output);
/* About how much memory plan_values and its text take at most; 0: there are none. */
size_t plan_values_bytes(const struct plan *plan, size_t variant);
/* For people: a line a pass with sizes and bytes, and the memory that the plan needs. */
void plan_print_passes(const struct plan *plan, size_t variant, FILE *out);
void plan_print_memory(const struct plan *plan, FILE *out);
/* The same for programs: an array, and an object. The caller's; NULL: no memory. */
cJSON *plan_json_passes(const struct plan *plan, size_t variant);
cJSON *plan_json_memory(const struct plan *plan);

#ifdef __cplusplus
}
#endif
#endif
