/*
 * op.h - how an operation of jobs (resize, sobel) is declared: name, help, parameters, and the
 * function that appends its passes to a chain.
 *
 * Private to gpu. An operation is a `const struct op op_NAME` in gpu/ops and one row of
 * gpu/ops/table.c. Its parameters are declared once. The parser, its error messages, the random
 * chains of the tests and the texts of `make documents` follow from the declaration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "conf/status.h"
#include "gpu/plan/chain.h"

/* ---- parameters ---- */

enum op_kind {
    OP_KIND_INTEGER,
    OP_KIND_ODD, /* an odd integer */
    OP_KIND_NUMBER,
    OP_KIND_BOOLEAN,
    OP_KIND_WORD, /* one of `words`; the value is its index */
    OP_KIND_INTEGERS,
    OP_KIND_NUMBERS,
    OP_KIND_MATRIX,     /* exactly rows x columns numbers */
    OP_KIND_ODD_MATRIX, /* odd numbers of rows and columns, at most `rows` and `columns` */
    OP_KIND_COLOR,      /* [r,g,b], [r,g,b,a] or "transparent" */
    OP_KIND_PLACE,      /* an image: a path, or an object with path or key */
    OP_KIND_TEXT,       /* a string of `min` to `max` bytes of UTF-8 */
};

/* Whether a job must give the parameter. OP_HAS_DEFAULT: `standard` is used if it is missing.
 * OP_OPTIONAL: there is no fixed default. It is 0 if missing, and the operation decides
 * (op_given). */
enum op_need { OP_HAS_DEFAULT, OP_OPTIONAL, OP_REQUIRED };

struct op_matrix {
    int rows, columns;
    const double *values; /* row by row; the item owns them */
};

/* A colour. Such a parameter is always OP_OPTIONAL, because its default depends on the job. */
struct op_color {
    bool given;
    uint8_t rgba[4];
};

struct op_param {
    const char *name;
    enum op_kind kind;
    enum op_need need;
    size_t at;                /* offset in the struct of the operation's parameters */
    double min, max;          /* bounds of each number, or of the bytes of a text */
    double last_max;          /* bounds of the last column of OP_KIND_MATRIX: -last_max to
                                 last_max */
    double standard;          /* the default; for words its index, for OP_OPTIONAL 0 */
    const int *standards;     /* default of OP_KIND_INTEGERS */
    const char *const *words; /* NULL-terminated */
    int rows, columns;        /* OP_KIND_INTEGERS and OP_KIND_NUMBERS have one row */
    const char *help;         /* sentences, without the last full stop */
};

/* The first members of a parameter's row: kind, name and offset. `member` is that of the struct of
 * the operation's parameters. If its type does not match the kind, compilation fails. */
#define OP_AT(type, member, is) _Generic(((type *)0)->member, is: offsetof(type, member))
#define OP_PARAM(named, type, member, is)                                                          \
    .name = #member, .kind = named, .at = OP_AT(type, member, is)
#define OP_INTEGER(type, member) OP_PARAM(OP_KIND_INTEGER, type, member, int)
#define OP_ODD(type, member) OP_PARAM(OP_KIND_ODD, type, member, int)
#define OP_NUMBER(type, member) OP_PARAM(OP_KIND_NUMBER, type, member, double)
#define OP_BOOLEAN(type, member) OP_PARAM(OP_KIND_BOOLEAN, type, member, bool)
#define OP_WORD(type, member) OP_PARAM(OP_KIND_WORD, type, member, int)
#define OP_INTEGERS(type, member) OP_PARAM(OP_KIND_INTEGERS, type, member, int *)
#define OP_NUMBERS(type, member) OP_PARAM(OP_KIND_NUMBERS, type, member, double *)
#define OP_MATRIX(type, member) OP_PARAM(OP_KIND_MATRIX, type, member, struct op_matrix)
#define OP_PLACE(type, member) OP_PARAM(OP_KIND_PLACE, type, member, struct op_place)
#define OP_TEXT(type, member)       OP_PARAM(OP_KIND_TEXT, type, member, const char *)
#define OP_ODD_MATRIX(type, member) OP_PARAM(OP_KIND_ODD_MATRIX, type, member, struct op_matrix)
#define OP_COLOR(type, member) OP_PARAM(OP_KIND_COLOR, type, member, struct op_color)

/* ---- operations ---- */

enum op_flag {
    OP_VALUES = 1,          /* returns values in the result */
    OP_MOVES = 2,           /* only moves pixels, so it may run before or after a grayscale */
    OP_STARTS_GRAY = 4,     /* its result for a colour image is that for the image after
                               `grayscale` with default weights */
    OP_GRAY_BY_DEFAULT = 8, /* as OP_STARTS_GRAY, but only with default parameters */
    OP_POINT = 16,          /* computes each pixel from itself only. Adjacent operations of this
                               kind become one pass if at most one of them mixes channels
                               (point.h); to_srgb with a profile stays a pass of its own */
    OP_ANY_SCALE = 32,      /* allows that a JPEG is decoded at a smaller size for a later
                               operation */
    OP_LAYS = 64,           /* lays an overlay over the image: its first parameter, a place or
                               a text */
    OP_TO_SRGB = 128,       /* converts from the source's profile: the result has none */
    OP_BILEVEL = 256,       /* its result is gray, and each pixel is 0 or 255 */
    OP_DEEP = 512,          /* takes deep images, too (codecs/image.h), at least with some
                               parameters; step refuses the others */
};

/* Size limit of any operation's parameter struct, without what it points to. */
#define OP_PARAMS_BYTES_MAX 128

/* An item of a job's ops, parsed, in one block with all that it points to. */
struct op_item {
    const struct op *op;     /* NULL only for the message that no operation has the name */
    struct op_item *next;    /* of the list */
    uint32_t bytes;          /* of the block */
    uint16_t given;          /* a bit per parameter, in the order of their table */
    int8_t output, position; /* indices in `outputs` and in ops, for messages and to find
                                overlays; output < 0: messages omit it */
    alignas(8) unsigned char params[];
};

/* An operation. In the comments of its functions, params is the struct of its parameters. */
struct op {
    const char *name;
    const char *help;       /* one sentence, without the full stop */
    const char *definition; /* the exact computation: Markdown for gpu/OPERATIONS.md */
    unsigned flags;
    const struct op_param *params;
    unsigned params_count;
    size_t params_bytes;
    /* Called once when all parameters are parsed: checks rules between them, and sets those whose
     * default depends on others. NULL: none. */
    enum status (*check)(const struct op_item *item, void *params, struct error *error);
    /* With OP_MOVES: whether it only moves pixels with these parameters. NULL: always. */
    bool (*moves)(const void *params);
    /* Whether the operation returns values with these parameters. NULL: always with OP_VALUES. */
    bool (*gives)(const void *params);
    /* Appends the operation's passes to the chain. bad_op: a parameter does not fit the image. */
    enum status (*step)(const void *params, struct chain *chain);
    /* The scale in eighths (1, 2, 4 or 8) at which a JPEG of this size may be decoded for this
     * operation. NULL: 8, or with OP_ANY_SCALE what the next operation allows. */
    uint32_t (*eighths)(const void *params, uint32_t width, uint32_t height);
};

/* The parameters of an operation: its struct and their table. */
#define OP_PARAMS(type, table)                                                                     \
    .params = table, .params_count = sizeof(table) / sizeof(*(table)), .params_bytes = sizeof(type)

extern const struct op *const op_table[];
extern const size_t op_count;

#define op_each_param(param, op)                                                                   \
    for (const struct op_param *param = (op)->params; param - (op)->params < (op)->params_count;   \
         param++)

/* Parses ops[position]: a name, or an object with "op": a name. If output < 0, messages omit the
 * output's number. *item: malloc'd, or NULL after an error. */
enum status op_parse(struct op_item **item, const cJSON *json, int output, int position,
                     struct error *error) MUST_CHECK;
/* Finds an operation. NULL: there is none with this name. */
const struct op *op_find(const char *name);
/* The first item of a list with the flag, or NULL. */
const struct op_item *op_find_flag(const struct op_item *list, enum op_flag flag);
/* Whether it only moves pixels. */
bool op_moves(const struct op_item *item);
/* Whether its result for a colour image is that for the image after `grayscale` with default
 * weights. */
bool op_starts_gray(const struct op_item *item);

/* ---- for an operation's check and step ---- */

/* Whether the job gives the parameter. */
bool op_given(const struct op_item *item, const char *name);
/* Returns bad_op. The message begins with the item's position and name ("ops[1] resize"); the text
 * continues it: ": low is 5; ..." or " needs width". */
enum status op_refuse(const struct op_item *item, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
