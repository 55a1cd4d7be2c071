/*
 * op.h - an operation as one declaration: name, help, flags, parameters, and its step in a chain.
 *
 * Private to gpu. An operation is a `const struct op op_NAME` in gpu/ops/NAME.c and one row of
 * gpu/ops/table.c. Its parameters are declared once. The parser, its error messages, the random
 * chains of the tests and the texts of `make documents` follow from the declaration. Parsing has
 * no side effects and runs on any thread.
 */
#ifndef GPUIMGD_GPU_PLAN_OP_H
#define GPUIMGD_GPU_PLAN_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "conf/status.h"
#include "gpu/plan/chain.h"

/* ---- parameters ---- */

enum op_kind {
    OP_KIND_INTEGER,
    OP_KIND_ODD,    /* an odd integer */
    OP_KIND_CHOICE, /* one of the integers in `words` */
    OP_KIND_NUMBER,
    OP_KIND_BOOLEAN,
    OP_KIND_WORD, /* one of `words`; its index */
    OP_KIND_INTEGERS,
    OP_KIND_MATRIX,     /* of exactly rows x columns numbers */
    OP_KIND_ODD_MATRIX, /* of an odd number of rows and of columns, at most so many */
};

/* Whether a job must give it: not if it has a default. */
enum op_need { OP_HAS_DEFAULT, OP_OPTIONAL, OP_REQUIRED };

#define OP_MATRIX_SIDE_MAX 15

struct op_matrix {
    int rows, columns;
    double values[OP_MATRIX_SIDE_MAX * OP_MATRIX_SIDE_MAX]; /* row after row */
};

struct op_param {
    const char *name; /* NULL ends a list */
    enum op_kind kind;
    enum op_need need;
    size_t at;                /* its member in the operation's parameters */
    double min, max;          /* of each number */
    double last_max;          /* the last column of OP_KIND_MATRIX has -last_max to last_max */
    double standard;          /* the default; of words the index; 0 for an optional one */
    const int *standards;     /* the default of OP_KIND_INTEGERS */
    const char *const *words; /* NULL-terminated */
    int rows, columns;        /* OP_KIND_INTEGERS has one row */
    const char *help;         /* sentences, without the full stop at the end */
};

/* The first members of a parameter's row. A member of another type than the kind's is an error of
 * the compiler. */
#define OP_AT(type, member, is) _Generic(((type *)0)->member, is: offsetof(type, member))
#define OP_PARAM(named, type, member, is)                                                          \
    .name = #member, .kind = named, .at = OP_AT(type, member, is)
#define OP_INTEGER(type, member) OP_PARAM(OP_KIND_INTEGER, type, member, int)
#define OP_ODD(type, member) OP_PARAM(OP_KIND_ODD, type, member, int)
#define OP_CHOICE(type, member) OP_PARAM(OP_KIND_CHOICE, type, member, int)
#define OP_NUMBER(type, member) OP_PARAM(OP_KIND_NUMBER, type, member, double)
#define OP_BOOLEAN(type, member) OP_PARAM(OP_KIND_BOOLEAN, type, member, bool)
#define OP_WORD(type, member) OP_PARAM(OP_KIND_WORD, type, member, int)
#define OP_INTEGERS(type, member) OP_PARAM(OP_KIND_INTEGERS, type, member, int *)
#define OP_MATRIX(type, member) OP_PARAM(OP_KIND_MATRIX, type, member, struct op_matrix)
#define OP_ODD_MATRIX(type, member) OP_PARAM(OP_KIND_ODD_MATRIX, type, member, struct op_matrix)

/* ---- operations ---- */

enum op_flag {
    OP_VALUES = 1,          /* gives values for the result */
    OP_MOVES = 2,           /* only moves pixels: gray made before it and after it is the same */
    OP_STARTS_GRAY = 4,     /* all it needs of a colour image is its gray with default weights */
    OP_GRAY_BY_DEFAULT = 8, /* the same while all its parameters are at their defaults */
    OP_POINT = 16,          /* works on single pixels: such neighbours are one pass */
    OP_ANY_SCALE = 32,      /* a JPEG may be decoded smaller for an operation after it */
};

/* Room for the parameters of any operation. */
#define OP_PARAMS_BYTES_MAX 2048

/* One item of a job's ops while its parameters are read. */
struct op_item {
    const cJSON *object; /* NULL: given by its name alone, everything is at its default */
    const char *place;   /* "ops[1] sobel", for messages */
    struct error *error;
};

struct op {
    const char *name;
    const char *help;       /* one sentence, without the full stop */
    const char *definition; /* what it computes, to the bit: Markdown for gpu/OPERATIONS.md */
    unsigned flags;
    const struct op_param *params; /* NULL: it has none */
    /* The rules that concern several parameters, once each is read. NULL: there are none. */
    enum status (*check)(const struct op_item *item, void *params);
    /* Adds the operation to the chain; bad_op if it does not fit this image. */
    enum status (*step)(const struct op_item *item, const void *params, struct chain *chain);
    /* At how many eighths of its size (1, 2, 4 or 8) a JPEG of these sides may be decoded for it.
     * NULL: 8. */
    uint32_t (*eighths)(const void *params, uint32_t width, uint32_t height);
};

extern const struct op *const op_table[];
extern const size_t op_count;

#define op_each_param(param, op)                                                                   \
    for (const struct op_param *param = (op)->params; param && param->name; param++)

/* Room for "outputs[15].ops[31] " and a name. */
#define OP_PLACE_BYTES 96

/* One item of ops, checked: its row, its parameters, its place for messages. */
struct op_parsed {
    const struct op *op;
    struct op_item item;
    char place[OP_PLACE_BYTES];
    alignas(8) unsigned char params[OP_PARAMS_BYTES_MAX];
};

/* Reads ops[position]; output < 0 leaves the output's number out of messages. */
enum status op_parse(struct op_parsed *parsed, const cJSON *item, int output, int position,
                     struct error *error) MUST_CHECK;
/* NULL: no operation has this name. */
const struct op *op_find(const char *name);
/* Whether all that it needs of a colour image is its gray with the default weights. */
bool op_starts_gray(const struct op_parsed *parsed);

/* ---- for an operation's check and step ---- */

/* Whether the job gives the parameter. */
bool op_given(const struct op_item *item, const char *name);
/* bad_op, with the item's place before the text: ": low is 5; ..." or " needs width". */
enum status op_refuse(const struct op_item *item, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
