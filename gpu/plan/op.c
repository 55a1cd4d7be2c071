/* op.c - finds operations and reads their parameters. */
#include "gpu/plan/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"

/* Numbers up to here are exact in the double that JSON gives. */
#define INTEGER_MAX 9007199254740992.0

#define OP_PARAMS_MAX 12
#define OPS_MAX 64 /* the fuzzer counts on it, too */

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

/* "a, b or c" of NULL-terminated words. */
static void join_words(char *text, size_t size, const char *const *words, const char *last)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; words[i] && length < size; i++) {
        const char *between = i == 0 ? "" : words[i + 1] ? ", " : last;
        length += (size_t)snprintf(text + length, size - length, "%s%s", between, words[i]);
    }
}

static enum status unknown_name(const char *place, const char *name, struct error *error)
{
    const char *names[OPS_MAX] = {NULL};
    char list[ERROR_TEXT_MAX];
    assert(op_count < OPS_MAX);
    for (size_t i = 0; i < op_count; i++)
        names[i] = op_table[i]->name;
    const char *near = text_nearest(name, names, op_count);
    if (near)
        return error_set(error, STATUS_UNKNOWN_OP,
                         "%s: no operation is named \"%.40s\"; did you mean \"%s\"?", place, name,
                         near);
    join_words(list, sizeof(list), names, " or ");
    return error_set(error, STATUS_UNKNOWN_OP, "%s: no operation is named \"%.40s\"; it may be %s",
                     place, name, list);
}

static enum status unknown_param(const struct op *op, const struct op_item *item, const char *name)
{
    const char *names[OP_PARAMS_MAX + 1] = {NULL};
    size_t count = 0;
    op_each_param (param, op) {
        assert(count < OP_PARAMS_MAX);
        names[count++] = param->name;
    }
    const char *near = text_nearest(name, names, count);
    if (near)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: there is no parameter \"%.40s\"; did you mean \"%s\"?", item->place,
                         name, near);
    char list[120];
    join_words(list, sizeof(list), names, " or ");
    return error_set(item->error, STATUS_BAD_OP, "%s: there is no parameter \"%.40s\"; %s%s",
                     item->place, name, list[0] ? "there is " : "it has none", list);
}

/* What a value of the wrong type must be. */
static void say_type(const struct op_param *param, char *text, size_t size)
{
    switch (param->kind) {
    case OP_KIND_INTEGER: snprintf(text, size, "an integer"); return;
    case OP_KIND_ODD:
    case OP_KIND_CHOICE:
    case OP_KIND_NUMBER: snprintf(text, size, "a number"); return;
    case OP_KIND_BOOLEAN: snprintf(text, size, "true or false"); return;
    case OP_KIND_WORD: join_words(text, size, param->words, " or "); return;
    case OP_KIND_INTEGERS: snprintf(text, size, "an array of %d integers", param->columns); return;
    case OP_KIND_MATRIX:
        snprintf(text, size, "an array of %d rows of %d numbers", param->rows, param->columns);
        return;
    case OP_KIND_ODD_MATRIX: snprintf(text, size, "an array of rows of numbers"); return;
    }
}

static enum status wrong_type(const struct op_item *item, const struct op_param *param,
                              const cJSON *given)
{
    char text[120];
    say_type(param, text, sizeof(text));
    return error_set(item->error, STATUS_BAD_OP, "%s: %s is %s; it must be %s", item->place,
                     param->name, kind_of(given), text);
}

/* ---- one reader per kind ---- */

static bool is_whole(double number)
{
    return number > -INTEGER_MAX && number < INTEGER_MAX && (double)(int64_t)number == number;
}

static enum status read_integer(const struct op_item *item, const struct op_param *param,
                                const cJSON *given, void *value)
{
    double number = given->valuedouble;
    if (!is_whole(number) || number < param->min || number > param->max)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s is %.10g; it must be an integer of %.10g to %.10g", item->place,
                         param->name, number, param->min, param->max);
    *(int *)value = (int)number;
    return STATUS_OK;
}

static enum status check_range(const struct op_item *item, const struct op_param *param,
                               double number)
{
    if (number >= param->min && number <= param->max)
        return STATUS_OK;
    return error_set(item->error, STATUS_BAD_OP, "%s: %s is %.10g; it must be %.10g to %.10g",
                     item->place, param->name, number, param->min, param->max);
}

static enum status read_number(const struct op_item *item, const struct op_param *param,
                               const cJSON *given, void *value)
{
    *(double *)value = given->valuedouble;
    return check_range(item, param, given->valuedouble);
}

static enum status read_odd(const struct op_item *item, const struct op_param *param,
                            const cJSON *given, void *value)
{
    double number = given->valuedouble;
    enum status status = check_range(item, param, number);
    if (status)
        return status;
    if (number != (double)((int)number | 1))
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s is %.10g; it must be %s%.10g %s %.10g", item->place, param->name,
                         number, param->max == param->min + 2 ? "" : "an odd integer of ",
                         param->min, param->max == param->min + 2 ? "or" : "to", param->max);
    *(int *)value = (int)number;
    return STATUS_OK;
}

static enum status read_choice(const struct op_item *item, const struct op_param *param,
                               const cJSON *given, void *value)
{
    char list[120];
    for (size_t i = 0; param->words[i]; i++) {
        *(int *)value = atoi(param->words[i]);
        if (given->valuedouble == *(int *)value)
            return STATUS_OK;
    }
    join_words(list, sizeof(list), param->words, " or ");
    return error_set(item->error, STATUS_BAD_OP, "%s: %s is %.10g; it must be %s", item->place,
                     param->name, given->valuedouble, list);
}

static enum status read_boolean(const struct op_item *item, const struct op_param *param,
                                const cJSON *given, void *value)
{
    (void)item, (void)param;
    *(bool *)value = cJSON_IsTrue(given);
    return STATUS_OK;
}

static enum status read_word(const struct op_item *item, const struct op_param *param,
                             const cJSON *given, void *value)
{
    char list[120];
    for (int i = 0; param->words[i]; i++) {
        *(int *)value = i;
        if (strcmp(param->words[i], given->valuestring) == 0)
            return STATUS_OK;
    }
    join_words(list, sizeof(list), param->words, " or ");
    return error_set(item->error, STATUS_BAD_OP, "%s: %s is \"%.40s\"; it must be %s",
                     item->place, param->name, given->valuestring, list);
}

static enum status read_integers(const struct op_item *item, const struct op_param *param,
                                 const cJSON *given, void *value)
{
    int *values = value, i = 0;
    const cJSON *each;
    if (cJSON_GetArraySize(given) != param->columns)
        return error_set(item->error, STATUS_BAD_OP, "%s: %s has %d items; it must have %d",
                         item->place, param->name, cJSON_GetArraySize(given), param->columns);
    cJSON_ArrayForEach(each, given)
    {
        if (!cJSON_IsNumber(each))
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: %s[%d] is %s; it must be an integer", item->place, param->name,
                             i, kind_of(each));
        double number = each->valuedouble;
        if (!is_whole(number) || number < param->min || number > param->max)
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: %s[%d] is %.10g; it must be an integer of %.10g to %.10g",
                             item->place, param->name, i, number, param->min, param->max);
        values[i++] = (int)number;
    }
    return STATUS_OK;
}

static enum status read_cell(const struct op_item *item, const struct op_param *param,
                             const cJSON *cell, int y, int x, double *value)
{
    if (!cJSON_IsNumber(cell))
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s[%d][%d] is %s; it must be a number", item->place, param->name, y,
                         x, kind_of(cell));
    bool last = param->kind == OP_KIND_MATRIX && x == param->columns - 1;
    double min = last ? -param->last_max : param->min, max = last ? param->last_max : param->max;
    *value = cell->valuedouble;
    if (*value >= min && *value <= max)
        return STATUS_OK;
    return error_set(item->error, STATUS_BAD_OP,
                     "%s: %s[%d][%d] is %.10g; it must be %.10g to %.10g", item->place,
                     param->name, y, x, *value, min, max);
}

/* The rows of a matrix whose sides are set. */
static enum status read_rows(const struct op_item *item, const struct op_param *param,
                             const cJSON *given, struct op_matrix *matrix)
{
    enum status status = STATUS_OK;
    const cJSON *row, *cell;
    int y = 0;
    cJSON_ArrayForEach(row, given)
    {
        int x = 0;
        if (!cJSON_IsArray(row) || cJSON_GetArraySize(row) != matrix->columns)
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: %s[%d] must be an array of %d numbers", item->place,
                             param->name, y, matrix->columns);
        cJSON_ArrayForEach(cell, row)
        {
            status = read_cell(item, param, cell, y, x, &matrix->values[y * matrix->columns + x]);
            if (status)
                return status;
            x++;
        }
        y++;
    }
    return STATUS_OK;
}

static enum status read_matrix(const struct op_item *item, const struct op_param *param,
                               const cJSON *given, void *value)
{
    struct op_matrix *matrix = value;
    matrix->rows = param->rows;
    matrix->columns = param->columns;
    if (!cJSON_IsArray(given) || cJSON_GetArraySize(given) != param->rows)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s must be an array of %d rows of %d numbers", item->place,
                         param->name, param->rows, param->columns);
    return read_rows(item, param, given, matrix);
}

static enum status check_odd(const struct op_item *item, const struct op_param *param,
                             const char *what, int side, int side_max)
{
    if (side % 2 == 1 && side <= side_max)
        return STATUS_OK;
    return error_set(item->error, STATUS_BAD_OP,
                     "%s: %s has %d %s; it must have an odd number of them, at most %d",
                     item->place, param->name, side, what, side_max);
}

static enum status read_odd_matrix(const struct op_item *item, const struct op_param *param,
                                   const cJSON *given, void *value)
{
    struct op_matrix *matrix = value;
    matrix->rows = cJSON_GetArraySize(given);
    enum status status = check_odd(item, param, "rows", matrix->rows, param->rows);
    if (status)
        return status;
    if (!cJSON_IsArray(given->child))
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s[0] is %s; it must be an array of numbers", item->place,
                         param->name, kind_of(given->child));
    matrix->columns = cJSON_GetArraySize(given->child);
    status = check_odd(item, param, "columns", matrix->columns, param->columns);
    return status ? status : read_rows(item, param, given, matrix);
}

/* By kind: the type that JSON must have, and the reader. */
static const struct {
    int type;
    enum status (*read)(const struct op_item *item, const struct op_param *param,
                        const cJSON *given, void *value);
} readers[] = {
    [OP_KIND_INTEGER] = {cJSON_Number, read_integer},
    [OP_KIND_ODD] = {cJSON_Number, read_odd},
    [OP_KIND_CHOICE] = {cJSON_Number, read_choice},
    [OP_KIND_NUMBER] = {cJSON_Number, read_number},
    [OP_KIND_BOOLEAN] = {cJSON_True | cJSON_False, read_boolean},
    [OP_KIND_WORD] = {cJSON_String, read_word},
    [OP_KIND_INTEGERS] = {cJSON_Array, read_integers},
    [OP_KIND_MATRIX] = {0xFF, read_matrix}, /* checks its type itself */
    [OP_KIND_ODD_MATRIX] = {cJSON_Array, read_odd_matrix},
};

/* ---- an item ---- */

static const cJSON *parameter(const struct op_item *item, const char *name)
{
    return item->object ? cJSON_GetObjectItemCaseSensitive(item->object, name) : NULL;
}

bool op_given(const struct op_item *item, const char *name)
{
    return parameter(item, name) != NULL;
}

/* params is zero before. */
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
        else if (param->kind != OP_KIND_MATRIX && param->kind != OP_KIND_ODD_MATRIX)
            *(int *)(void *)value = (int)param->standard;
    }
}

static enum status check_names(const struct op *op, const struct op_item *item)
{
    const cJSON *each;
    cJSON_ArrayForEach(each, item->object)
    {
        bool known = strcmp(each->string, "op") == 0;
        op_each_param (param, op)
            known |= strcmp(each->string, param->name) == 0;
        if (!known)
            return unknown_param(op, item, each->string);
    }
    return STATUS_OK;
}

/* "ops[1] crop needs width and height" if several are required. */
static enum status check_required(const struct op *op, const struct op_item *item)
{
    const char *names[OP_PARAMS_MAX + 1] = {NULL};
    const struct op_param *first = NULL;
    size_t count = 0;
    bool complete = true;
    char text[120];
    op_each_param (param, op) {
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
        return error_set(item->error, STATUS_BAD_OP, "%s: %s is missing; it must be %s",
                         item->place, first->name, text);
    }
    join_words(text, sizeof(text), names, " and ");
    return error_set(item->error, STATUS_BAD_OP, "%s needs %s", item->place, text);
}

static enum status read_params(const struct op *op, const struct op_item *item,
                               unsigned char *params)
{
    enum status status = check_names(op, item);
    if (!status)
        status = check_required(op, item);
    set_defaults(op, params);
    op_each_param (param, op) {
        const cJSON *given = parameter(item, param->name);
        if (status)
            return status;
        if (!given)
            continue;
        if ((given->type & 0xFF & readers[param->kind].type) == 0)
            status = wrong_type(item, param, given);
        else
            status = readers[param->kind].read(item, param, given, params + param->at);
    }
    return status || !op->check ? status : op->check(item, params);
}

enum status op_parse(struct op_parsed *parsed, const cJSON *item, int output, int position,
                     struct error *error)
{
    memset(parsed, 0, sizeof(*parsed));
    int length = output < 0 ? snprintf(parsed->place, OP_PLACE_BYTES, "ops[%d]", position)
                            : snprintf(parsed->place, OP_PLACE_BYTES, "outputs[%d].ops[%d]",
                                       output, position);
    parsed->item = (struct op_item){.place = parsed->place, .error = error};

    const cJSON *name = item;
    if (cJSON_IsObject(item)) {
        parsed->item.object = item;
        name = cJSON_GetObjectItemCaseSensitive(item, "op");
        if (!name)
            return error_set(error, STATUS_BAD_OP, "%s has no \"op\" that names it",
                             parsed->place);
        if (!cJSON_IsString(name))
            return error_set(error, STATUS_BAD_OP, "%s: \"op\" is %s; it must be a string",
                             parsed->place, kind_of(name));
    } else if (!cJSON_IsString(item)) {
        return error_set(error, STATUS_BAD_OP,
                         "%s is %s; it must be a name or an object with \"op\"", parsed->place,
                         kind_of(item));
    }
    parsed->op = op_find(name->valuestring);
    if (!parsed->op)
        return unknown_name(parsed->place, name->valuestring, error);
    snprintf(parsed->place + length, OP_PLACE_BYTES - (size_t)length, " %s", parsed->op->name);
    return read_params(parsed->op, &parsed->item, parsed->params);
}

bool op_starts_gray(const struct op_parsed *parsed)
{
    unsigned char standard[OP_PARAMS_BYTES_MAX] = {0};
    if (parsed->op->flags & OP_STARTS_GRAY)
        return true;
    set_defaults(parsed->op, standard);
    return parsed->op->flags & OP_GRAY_BY_DEFAULT &&
           memcmp(standard, parsed->params, sizeof(standard)) == 0;
}
