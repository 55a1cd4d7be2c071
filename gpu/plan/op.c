/* op.c - finds operations by name, and parses their parameters. */
#include "gpu/plan/op.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/mask.h"
#include "conf/op_hints.h"
#include "conf/text.h"

#define OP_PARAMS_MAX 12
#define OPS_MAX 64 /* the fuzzer relies on this limit */
#define SHOWN_BYTES   41 /* messages show at most 40 bytes of a name or a value of a job */
#define PLACE_BYTES 96 /* enough for "outputs[15].ops[31] " and a name */

const struct op *op_find(const char *name)
{
    for (size_t i = 0; i < op_count; i++)
        if (strcmp(op_table[i]->name, name) == 0)
            return op_table[i];
    return NULL;
}

/* ---- messages ---- */

static const char *kind_of(const cJSON *value)
{
    return cJSON_IsNumber(value)   ? "a number"
           : cJSON_IsString(value) ? "a string"
           : cJSON_IsBool(value)   ? "a boolean"
           : cJSON_IsArray(value)  ? "an array"
           : cJSON_IsObject(value) ? "an object"
                                   : "null";
}

/* Joins NULL-terminated words: "a, b or c". */
static void join_words(char *text, size_t size, const char *const *words, const char *last)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; words[i] && length < size; i++) {
        const char *between = i == 0 ? "" : words[i + 1] ? ", " : last;
        length += (size_t)snprintf(text + length, size - length, "%s%s", between, words[i]);
    }
}

/* Writes `did you mean "NAME"?`, or else the intro and all names. */
static void suggest(char *text, size_t size, const char *name, const char *const *names,
                    size_t count, const char *intro)
{
    const char *near = text_nearest(name, names, count);
    if (near) {
        snprintf(text, size, "did you mean \"%s\"?", near);
    } else {
        size_t length = (size_t)snprintf(text, size, "%s", intro);
        join_words(text + length, size - length, names, " or ");
    }
}

/* Writes "ops[1] sobel". */
static const char *say_place(const struct op_item *item, char text[PLACE_BYTES])
{
    int length = item->output < 0 ? 0 : snprintf(text, PLACE_BYTES, "outputs[%d].", item->output);
    snprintf(text + length, PLACE_BYTES - (size_t)length, "ops[%d]%s%s", item->position,
             item->op ? " " : "", item->op ? item->op->name : "");
    return text;
}

static enum status unknown_name(const struct op_item *item, const char *name, struct error *error)
{
    const char *names[OPS_MAX] = {NULL};
    char text[ERROR_TEXT_MAX], place[PLACE_BYTES], shown[SHOWN_BYTES];
    assert(op_count < OPS_MAX);
    for (size_t i = 0; i < op_count; i++)
        names[i] = op_table[i]->name;
    if (!op_hint_find(name, text))
        suggest(text, sizeof(text), name, names, op_count, "it must be ");
    return error_set(error, STATUS_UNKNOWN_OP, "%s: no operation is named \"%s\"; %s",
                     say_place(item, place), mask_copy(shown, sizeof shown, name), text);
}

enum status op_refuse(const struct op_item *item, struct error *error, const char *format, ...)
{
    char text[ERROR_TEXT_MAX], place[PLACE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(error, STATUS_BAD_OP, "%s%s", say_place(item, place), text);
}

static enum status unknown_param(const struct op_item *item, const char *name, struct error *error)
{
    const char *names[OP_PARAMS_MAX + 1] = {NULL};
    char text[120], shown[SHOWN_BYTES];
    size_t count = 0;
    op_each_param (param, item->op) {
        assert(count < OP_PARAMS_MAX);
        names[count++] = param->name;
    }
    suggest(text, sizeof(text), name, names, count, count ? "there is " : "it has none");
    return op_refuse(item, error, ": there is no parameter \"%s\"; %s",
                     mask_copy(shown, sizeof shown, name), text);
}

/* ---- one reader per kind ---- */

/* A JSON value that is read for a parameter. */
struct reading {
    const struct op_item *item;
    struct error *error;
    const struct op_param *param;
    const char *name; /* for messages: the parameter's, or of an element of its array: "color[2]" */
    const cJSON *given;
    void *more; /* more_bytes of memory for what the value points to */
};

#define refuse(r, ...) op_refuse((r)->item, (r)->error, __VA_ARGS__)

static enum status check_range(const struct reading *r, double number, double min, double max)
{
    if (number >= min && number <= max)
        return STATUS_OK;
    return refuse(r, ": %s is %.10g; it must be %.10g to %.10g", r->name, number, min, max);
}

static enum status read_integer(const struct reading *r, void *value)
{
    double number = r->given->valuedouble, min = r->param->min, max = r->param->max;
    if (!cJSON_IsNumber(r->given))
        return refuse(r, ": %s is %s; it must be an integer", r->name, kind_of(r->given));
    if (!(number >= min && number <= max) || number != floor(number))
        return refuse(r, ": %s is %.10g; it must be an integer of %.10g to %.10g", r->name, number,
                      min, max);
    *(int *)value = (int)number;
    return STATUS_OK;
}

static enum status read_number(const struct reading *r, void *value)
{
    if (!cJSON_IsNumber(r->given))
        return refuse(r, ": %s is %s; it must be a number", r->name, kind_of(r->given));
    *(double *)value = r->given->valuedouble;
    return check_range(r, r->given->valuedouble, r->param->min, r->param->max);
}

static enum status read_odd(const struct reading *r, void *value)
{
    double number = r->given->valuedouble, min = r->param->min, max = r->param->max;
    bool two = max == min + 2;
    enum status status = check_range(r, number, min, max);
    if (status)
        return status;
    *(int *)value = (int)number;
    if (number == (double)((int)number | 1))
        return STATUS_OK;
    return refuse(r, ": %s is %.10g; it must be %s%.10g %s %.10g", r->name, number,
                  two ? "" : "an odd integer of ", min, two ? "or" : "to", max);
}

static enum status read_boolean(const struct reading *r, void *value)
{
    *(bool *)value = cJSON_IsTrue(r->given);
    return STATUS_OK;
}

static enum status read_word(const struct reading *r, void *value)
{
    const char *word = r->given->valuestring;
    char list[120], shown[SHOWN_BYTES];
    for (int i = 0; r->param->words[i]; i++) {
        *(int *)value = i;
        if (strcmp(r->param->words[i], word) == 0)
            return STATUS_OK;
    }
    join_words(list, sizeof(list), r->param->words, " or ");
    return refuse(r, ": %s is \"%s\"; it must be %s", r->name, mask_copy(shown, sizeof shown, word),
                  list);
}

/* Reads each item of an array with the reader of one, as NAME[INDEX]. `bytes`: of one value. */
static enum status read_items(const struct reading *r, const struct op_param *param,
                              enum status (*read)(const struct reading *r, void *value),
                              void *values, size_t bytes)
{
    enum status status = STATUS_OK;
    unsigned char *value = values;
    int i = 0;
    for (const cJSON *each = r->given->child; each && !status; each = each->next, value += bytes) {
        char name[80];
        struct reading one = {r->item, r->error, param, name, each, r->more};
        snprintf(name, sizeof(name), "%.60s[%d]", r->name, i++);
        status = read(&one, value);
    }
    return status;
}

static enum status read_array(const struct reading *r, void *value)
{
    int count = cJSON_GetArraySize(r->given);
    if (count != r->param->columns)
        return refuse(r, ": %s has %d items; it must have %d", r->name, count, r->param->columns);
    return r->param->kind == OP_KIND_INTEGERS
               ? read_items(r, r->param, read_integer, value, sizeof(int))
               : read_items(r, r->param, read_number, value, sizeof(double));
}

static enum status read_cell(const struct reading *r, void *value)
{
    struct op_param last = {.min = -r->param->last_max, .max = r->param->last_max};
    struct reading cell = *r;
    if (r->param->kind == OP_KIND_MATRIX && !r->given->next)
        cell.param = &last;
    return read_number(&cell, value);
}

static enum status read_row(const struct reading *r, void *value)
{
    int columns = r->param->columns;
    if (!cJSON_IsArray(r->given) || cJSON_GetArraySize(r->given) != columns)
        return refuse(r, ": %s must be an array of %d numbers", r->name, columns);
    return read_items(r, r->param, read_cell, value, sizeof(double));
}

/* Reads the rows of a matrix whose rows and columns are set. */
static enum status read_rows(const struct reading *r, struct op_matrix *matrix)
{
    struct op_param sized = *r->param;
    sized.columns = matrix->columns;
    matrix->values = r->more;
    return read_items(r, &sized, read_row, r->more, (size_t)matrix->columns * sizeof(double));
}

static enum status read_matrix(const struct reading *r, void *value)
{
    struct op_matrix *matrix = value;
    matrix->rows = r->param->rows;
    matrix->columns = r->param->columns;
    if (!cJSON_IsArray(r->given) || cJSON_GetArraySize(r->given) != matrix->rows)
        return refuse(r, ": %s must be an array of %d rows of %d numbers", r->name, matrix->rows,
                      matrix->columns);
    return read_rows(r, matrix);
}

static enum status check_odd(const struct reading *r, const char *what, int side, int side_max)
{
    if (side % 2 == 1 && side <= side_max)
        return STATUS_OK;
    return refuse(r, ": %s has %d %s; it must have an odd number of them, at most %d", r->name,
                  side, what, side_max);
}

static enum status read_odd_matrix(const struct reading *r, void *value)
{
    struct op_matrix *matrix = value;
    const cJSON *row = r->given->child;
    matrix->rows = cJSON_GetArraySize(r->given);
    enum status status = check_odd(r, "rows", matrix->rows, r->param->rows);
    if (status)
        return status;
    if (!cJSON_IsArray(row))
        return refuse(r, ": %s[0] is %s; it must be an array of numbers", r->name, kind_of(row));
    matrix->columns = cJSON_GetArraySize(row);
    status = check_odd(r, "columns", matrix->columns, r->param->columns);
    return status ? status : read_rows(r, matrix);
}

static enum status read_color(const struct reading *r, void *value)
{
    static const struct op_param byte = {.max = 255};
    struct op_color *color = value;
    int count = cJSON_GetArraySize(r->given), values[4] = {0, 0, 0, 255};
    *color = (struct op_color){.given = true};
    if (cJSON_IsString(r->given) && strcmp(r->given->valuestring, "transparent") == 0)
        return STATUS_OK;
    if (!cJSON_IsArray(r->given) || count < 3 || count > 4)
        return refuse(r, ": %s must be [r,g,b], [r,g,b,a] or \"transparent\"", r->name);
    enum status status = read_items(r, &byte, read_integer, values, sizeof(int));
    for (int i = 0; i < 4; i++)
        color->rgba[i] = (uint8_t)values[i];
    return status;
}

static enum status read_place(const struct reading *r, void *value)
{
    struct op_place *place = value;
    const cJSON *path = r->given, *key = NULL;
    if (cJSON_IsObject(r->given)) {
        path = cJSON_GetObjectItemCaseSensitive(r->given, "path");
        key = cJSON_GetObjectItemCaseSensitive(r->given, "key");
        if (!path == !key || r->given->child->next)
            return refuse(r, ": %s must have path or key, and nothing else", r->name);
    }
    const char *text = cJSON_GetStringValue(path ? path : key);
    if (!text)
        return refuse(r, ": %s is %s; it must be a path or an object with path or key", r->name,
                      path == r->given ? kind_of(path) : "without a string");
    *(path ? &place->path : &place->key) = strcpy(r->more, text);
    return STATUS_OK;
}

/* The control character at the place of some UTF-8, besides line feeds and tabs; 0: none. */
static unsigned control_at(const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    if (bytes[0] == 0xC2 && bytes[1] < 0xA0)
        return bytes[1];
    bool is_control = bytes[0] < ' ' || bytes[0] == 0x7F;
    return is_control && *at != '\n' && *at != '\t' ? bytes[0] : 0;
}

static enum status read_text(const struct reading *r, void *value)
{
    const char *text = r->given->valuestring;
    size_t bytes = strlen(text);
    enum status status = STATUS_OK;
    if (bytes < r->param->min || bytes > r->param->max)
        status = refuse(r, ": %s has %zu bytes; it must have %.10g to %.10g", r->name, bytes,
                        r->param->min, r->param->max);
    for (const char *at = text; *at && !status; at++)
        if (control_at(at))
            status = refuse(r,
                            ": %s has the control character U+%04X; it must have no others "
                            "than line feeds and tabs",
                            r->name, control_at(at));
    *(const char **)value = status ? NULL : strcpy(r->more, text);
    return status;
}

/* For each kind of parameter: the JSON type (0xFF: the reader checks it), the reader, and how
 * messages call the type. */
static const struct {
    int type;
    enum status (*read)(const struct reading *r, void *value);
    const char *says;
} kinds[] = {
    [OP_KIND_INTEGER] = {0xFF, read_integer, "an integer"},
    [OP_KIND_ODD] = {cJSON_Number, read_odd, "a number"},
    [OP_KIND_NUMBER] = {0xFF, read_number, "a number"},
    [OP_KIND_BOOLEAN] = {cJSON_True | cJSON_False, read_boolean, "true or false"},
    [OP_KIND_WORD] = {cJSON_String, read_word, NULL},
    [OP_KIND_INTEGERS] = {cJSON_Array, read_array, NULL},
    [OP_KIND_NUMBERS] = {cJSON_Array, read_array, NULL},
    [OP_KIND_MATRIX] = {0xFF, read_matrix, NULL},
    [OP_KIND_ODD_MATRIX] = {cJSON_Array, read_odd_matrix, "an array of rows of numbers"},
    [OP_KIND_COLOR] = {0xFF, read_color, NULL},
    [OP_KIND_PLACE] = {0xFF, read_place, "a path or an object with path or key"},
    [OP_KIND_TEXT] = {cJSON_String, read_text, "a string"},
};

/* Writes the type that the parameter must have, for messages. */
static void say_type(const struct op_param *param, char *text, size_t size)
{
    if (param->kind == OP_KIND_WORD)
        join_words(text, size, param->words, " or ");
    else if (param->kind == OP_KIND_INTEGERS)
        snprintf(text, size, "an array of %d integers", param->columns);
    else if (param->kind == OP_KIND_NUMBERS)
        snprintf(text, size, "an array of %d numbers", param->columns);
    else if (param->kind == OP_KIND_MATRIX)
        snprintf(text, size, "an array of %d rows of %d numbers", param->rows, param->columns);
    else
        snprintf(text, size, "%s", kinds[param->kind].says);
}

/* ---- an item ---- */

static size_t round_up(size_t bytes)
{
    return (bytes + alignof(double) - 1) / alignof(double) * alignof(double);
}

/* The memory for what a parameter's value points to: the numbers of a matrix, the text of a
 * place, a text. */
static size_t more_bytes(const struct op_param *param, const cJSON *given)
{
    const cJSON *first = given && given->child ? given->child : given;
    if ((param->kind == OP_KIND_PLACE || param->kind == OP_KIND_TEXT) && cJSON_IsString(first))
        return round_up(strlen(first->valuestring) + 1);
    if (param->kind != OP_KIND_MATRIX && param->kind != OP_KIND_ODD_MATRIX)
        return 0;
    int rows = cJSON_GetArraySize(given), columns = cJSON_GetArraySize(first);
    rows = rows < param->rows ? rows : param->rows;
    columns = columns < param->columns ? columns : param->columns;
    return (size_t)(rows * columns) * sizeof(double);
}

bool op_given(const struct op_item *item, const char *name)
{
    op_each_param (param, item->op)
        if (strcmp(param->name, name) == 0)
            return item->given >> (param - item->op->params) & 1;
    return false;
}

/* Parameters are followed by what they point to. */
static size_t params_room(const struct op *op)
{
    return round_up(op->params_bytes);
}

/* params must be zeroed. */
static void set_defaults(const struct op *op, unsigned char *params)
{
    op_each_param (param, op) {
        unsigned char *value = params + param->at;
        if (param->kind == OP_KIND_NUMBER)
            *(double *)(void *)value = param->standard;
        else if (param->kind == OP_KIND_BOOLEAN)
            *(bool *)value = param->standard != 0;
        else if (param->kind == OP_KIND_INTEGERS)
            memcpy(value, param->standards, (size_t)param->columns * sizeof(int));
        else if (param->kind < OP_KIND_INTEGERS)
            *(int *)(void *)value = (int)param->standard;
    }
}

/* Notes which parameters are given. */
static enum status check_names(struct op_item *item, const cJSON *object, struct error *error)
{
    const cJSON *each;
    cJSON_ArrayForEach(each, object)
    {
        bool known = strcmp(each->string, "op") == 0;
        op_each_param (param, item->op) {
            if (strcmp(each->string, param->name) != 0)
                continue;
            known = true;
            item->given |= (uint16_t)(1u << (param - item->op->params));
        }
        if (!known)
            return unknown_param(item, each->string, error);
    }
    return STATUS_OK;
}

/* If several parameters are required, the message names all of them: "ops[1] crop needs width and
 * height". */
static enum status check_required(const struct op_item *item, struct error *error)
{
    const char *names[OP_PARAMS_MAX + 1] = {NULL};
    const struct op_param *first = NULL;
    size_t count = 0;
    bool complete = true;
    char text[120];
    op_each_param (param, item->op) {
        if (param->need != OP_REQUIRED)
            continue;
        first = first ? first : param;
        names[count++] = param->name;
        complete = complete && op_given(item, param->name);
    }
    if (complete)
        return STATUS_OK;
    if (count == 1) {
        say_type(first, text, sizeof(text));
        return op_refuse(item, error, ": %s is missing; it must be %s", first->name, text);
    }
    join_words(text, sizeof(text), names, " and ");
    return op_refuse(item, error, " needs %s", text);
}

static enum status read_params(struct op_item *item, const cJSON *object, struct error *error)
{
    unsigned char *more = item->params + params_room(item->op);
    set_defaults(item->op, item->params);
    op_each_param (param, item->op) {
        const cJSON *given = cJSON_GetObjectItemCaseSensitive(object, param->name);
        struct reading reading = {item, error, param, param->name, given, more};
        char text[120];
        if (!given)
            continue;
        more += more_bytes(param, given);
        if (!(given->type & 0xFF & kinds[param->kind].type)) {
            say_type(param, text, sizeof(text));
            return refuse(&reading, ": %s is %s; it must be %s", param->name, kind_of(given), text);
        }
        enum status status = kinds[param->kind].read(&reading, item->params + param->at);
        if (status)
            return status;
    }
    return item->op->check ? item->op->check(item, item->params, error) : STATUS_OK;
}

enum status op_parse(struct op_item **item, const cJSON *json, int output, int position,
                     struct error *error)
{
    const cJSON *object = cJSON_IsObject(json) ? json : NULL;
    const char *name =
        cJSON_GetStringValue(object ? cJSON_GetObjectItemCaseSensitive(object, "op") : json);
    assert(name);
    struct op_item head = {
        .op = op_find(name), .output = (int8_t)output, .position = (int8_t)position};
    *item = NULL;
    if (!head.op)
        return unknown_name(&head, name, error);
    enum status status = check_names(&head, object, error);
    if (!status)
        status = check_required(&head, error);
    if (status)
        return status;
    size_t bytes = sizeof head + params_room(head.op);
    op_each_param (param, head.op)
        bytes += more_bytes(param, cJSON_GetObjectItemCaseSensitive(object, param->name));
    *item = calloc(1, bytes);
    if (!*item) /* uncovered: memory */
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an operation");
    head.bytes = (uint32_t)bytes;
    memcpy(*item, &head, sizeof head);
    status = read_params(*item, object, error);
    if (status) {
        free(*item);
        *item = NULL;
    }
    return status;
}

const struct op_item *op_find_flag(const struct op_item *list, enum op_flag flag)
{
    while (list && !(list->op->flags & flag))
        list = list->next;
    return list;
}

bool op_moves(const struct op_item *item)
{
    const struct op *op = item->op;
    return op->flags & OP_MOVES && (!op->moves || op->moves(item->params));
}

bool op_starts_gray(const struct op_item *item)
{
    unsigned char standard[OP_PARAMS_BYTES_MAX] = {0};
    if (item->op->flags & OP_STARTS_GRAY)
        return true;
    assert(item->op->params_bytes <= sizeof standard);
    set_defaults(item->op, standard);
    return item->op->flags & OP_GRAY_BY_DEFAULT &&
           memcmp(standard, item->params, item->op->params_bytes) == 0;
}
