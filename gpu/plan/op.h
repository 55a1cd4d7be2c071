/*
 * op.h - the operation table: names, parameter checks, and how an operation joins a chain.
 *
 * Private to gpu. An operation is a `const struct op op_NAME` in gpu/ops/NAME.c and one row of
 * OP_TABLE. Parsing has no side effects and runs on any thread.
 */
#ifndef GPUIMGD_GPU_PLAN_OP_H
#define GPUIMGD_GPU_PLAN_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "conf/status.h"
#include "gpu/plan/pass.h"

#define OP_TABLE(X)                                                                                \
    X(grayscale)                                                                                   \
    X(sobel)                                                                                       \
    X(resize)                                                                                      \
    X(invert)                                                                                      \
    X(gamma)                                                                                       \
    X(levels)                                                                                      \
    X(threshold)                                                                                   \
    X(color_matrix)                                                                                \
    X(transpose)                                                                                   \
    X(rotate)                                                                                      \
    X(flip)                                                                                        \
    X(crop)                                                                                        \
    X(gaussian)                                                                                    \
    X(unsharp)                                                                                     \
    X(convolve)                                                                                    \
    X(median)                                                                                      \
    X(canny)                                                                                       \
    X(histogram)                                                                                   \
    X(stats)                                                                                       \
    X(otsu)                                                                                        \
    X(equalize)                                                                                    \
    X(phash)

/* Those of them that give values. */
#define OP_VALUES_TABLE(X)                                                                         \
    X(histogram)                                                                                   \
    X(stats)                                                                                       \
    X(otsu)                                                                                        \
    X(phash)

/* Those of them that only move pixels: gray made before one and after it is the same. */
#define OP_MOVES_TABLE(X)                                                                          \
    X(transpose)                                                                                   \
    X(rotate)                                                                                      \
    X(flip)                                                                                        \
    X(crop)

/* One item of a job's ops while its parameters are read. */
struct op_item {
    const cJSON *object; /* NULL: given by its name alone, everything is at its default */
    const char *place;   /* "ops[1] sobel", for messages */
    struct error *error;
};

struct op {
    const char *name;
    const char *const *parameters; /* names, NULL-terminated; others are refused by the table */
    /* Fills params (PASS_PARAMS_BYTES_MAX, zeroed) with defaults and what the item says. */
    enum status (*parse)(const struct op_item *item, void *params);
    /* Adds the operation to the chain; bad_op where it does not fit this image. */
    enum status (*step)(const struct op_item *item, const void *params, struct chain *chain);
    /* Whether all it needs of a colour image is its gray with the default weights. */
    bool (*starts_gray)(const void *params);
};

#define X(name) extern const struct op op_##name;
OP_TABLE(X)
#undef X

/* Room for "outputs[15].ops[31] " and a name. */
#define OP_PLACE_BYTES 96

/* One item of ops, checked: its row, its parameters, its place for messages. */
struct op_parsed {
    const struct op *op;
    struct op_item item;
    char place[OP_PLACE_BYTES];
    alignas(8) unsigned char params[PASS_PARAMS_BYTES_MAX];
};

/* Reads ops[position]; output < 0 leaves the output's number out of messages. */
enum status op_parse(struct op_parsed *parsed, const cJSON *item, int output, int position,
                     struct error *error) MUST_CHECK;
/* NULL: no operation has this name. */
const struct op *op_find(const char *name);
bool op_gives_values(const struct op *op);
bool op_moves(const struct op *op);

/* ---- for the row of an operation ---- */

/* parameters and parse of one that has none. */
extern const char *const op_no_parameters[];
enum status op_parse_nothing(const struct op_item *item, void *params) MUST_CHECK;
/* starts_gray of one that works on gray, whatever its parameters are. */
bool op_always_gray(const void *params);

/* ---- for an operation's parse; each leaves *value alone where the parameter is absent ---- */

/* One of the words (NULL-terminated): *value is its index. */
enum status op_word(const struct op_item *item, const char *name, const char *const *words,
                    int *value) MUST_CHECK;
/* Whether the job gives the parameter at all. */
bool op_given(const struct op_item *item, const char *name);
/* An array of exactly `count` integers, each of low..high. */
enum status op_integers(const struct op_item *item, const char *name, size_t count, int64_t low,
                        int64_t high, int64_t *values) MUST_CHECK;
/* One integer of low..high. */
enum status op_integer(const struct op_item *item, const char *name, int64_t low, int64_t high,
                       int64_t *value) MUST_CHECK;
/* One number of low..high. */
enum status op_number(const struct op_item *item, const char *name, double low, double high,
                      double *value) MUST_CHECK;
enum status op_boolean(const struct op_item *item, const char *name, bool *value) MUST_CHECK;
/* An array of `rows` arrays of `columns` numbers, row after row; *given: whether it is there. */
enum status op_matrix(const struct op_item *item, const char *name, size_t rows, size_t columns,
                      double *values, bool *given) MUST_CHECK;
/* A matrix of numbers whose sides are odd and at most side_max, row after row; it must be there. */
enum status op_odd_matrix(const struct op_item *item, const char *name, size_t side_max,
                          double *values, size_t *rows, size_t *columns) MUST_CHECK;

#endif
