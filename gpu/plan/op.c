/* op.c - finds operations and reads their parameters. */
#include "gpu/plan/op.h"

#include <stdio.h>
#include <string.h>

#include "conf/text.h"

/* Numbers up to here are exact in the double that JSON gives. */
#define INTEGER_MAX 9007199254740992.0

static const struct op *const ops[] = {
#define X(name) &op_##name,
    OP_TABLE(X)
#undef X
};

const struct op *op_find(const char *name)
{
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(ops[i]->name, name) == 0)
            return ops[i];
    return NULL;
}

bool op_gives_values(const struct op *op)
{
#define X(name)                                                                                    \
    if (op == &op_##name)                                                                          \
        return true;
    OP_VALUES_TABLE(X)
#undef X
    return false;
}

bool op_moves(const struct op *op)
{
#define X(name)                                                                                    \
    if (op == &op_##name)                                                                          \
        return true;
    OP_MOVES_TABLE(X)
#undef X
    return false;
}

const char *const op_no_parameters[] = {NULL};

enum status op_parse_nothing(const struct op_item *item, void *params)
{
    (void)item, (void)params;
    return STATUS_OK;
}

bool op_always_gray(const void *params)
{
    (void)params;
    return true;
}

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
static void join_words(char *text, size_t size, const char *const *words)
{
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; words[i] && length < size; i++) {
        const char *between = i == 0 ? "" : words[i + 1] ? ", " : " or ";
        length += (size_t)snprintf(text + length, size - length, "%s%s", between, words[i]);
    }
}

static enum status unknown_name(const char *place, const char *name, struct error *error)
{
    const char *names[sizeof(ops) / sizeof(ops[0]) + 1] = {NULL};
    char list[ERROR_TEXT_MAX];
    const size_t count = sizeof(ops) / sizeof(ops[0]);
    for (size_t i = 0; i < count; i++)
        names[i] = ops[i]->name;
    const char *near = text_nearest(name, names, count);
    if (near)
        return error_set(error, STATUS_UNKNOWN_OP,
                         "%s: no operation is named \"%.40s\"; did you mean \"%s\"?", place, name,
                         near);
    join_words(list, sizeof(list), names);
    return error_set(error, STATUS_UNKNOWN_OP, "%s: no operation is named \"%.40s\"; it may be %s",
                     place, name, list);
}

static enum status check_names(const struct op *op, const struct op_item *item)
{
    const cJSON *each;
    cJSON_ArrayForEach(each, item->object)
    {
        bool known = strcmp(each->string, "op") == 0;
        size_t count = 0;
        for (; op->parameters[count]; count++)
            known |= strcmp(each->string, op->parameters[count]) == 0;
        if (known)
            continue;
        const char *near = text_nearest(each->string, op->parameters, count);
        if (near)
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: there is no parameter \"%.40s\"; did you mean \"%s\"?",
                             item->place, each->string, near);
        char list[120];
        join_words(list, sizeof(list), op->parameters);
        return error_set(item->error, STATUS_BAD_OP, "%s: there is no parameter \"%.40s\"; %s%s",
                         item->place, each->string, list[0] ? "there is " : "it has none", list);
    }
    return STATUS_OK;
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

    enum status status = check_names(parsed->op, &parsed->item);
    return status ? status : parsed->op->parse(&parsed->item, parsed->params);
}

static const cJSON *parameter(const struct op_item *item, const char *name)
{
    return item->object ? cJSON_GetObjectItemCaseSensitive(item->object, name) : NULL;
}

bool op_given(const struct op_item *item, const char *name)
{
    return parameter(item, name) != NULL;
}

enum status op_word(const struct op_item *item, const char *name, const char *const *words,
                    int *value)
{
    const cJSON *given = parameter(item, name);
    if (!given)
        return STATUS_OK;
    char list[120];
    join_words(list, sizeof(list), words);
    if (!cJSON_IsString(given))
        return error_set(item->error, STATUS_BAD_OP, "%s: %s is %s; it must be %s", item->place,
                         name, kind_of(given), list);
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], given->valuestring) == 0) {
            *value = i;
            return STATUS_OK;
        }
    }
    return error_set(item->error, STATUS_BAD_OP, "%s: %s is \"%.40s\"; it must be %s",
                     item->place, name, given->valuestring, list);
}

enum status op_integers(const struct op_item *item, const char *name, size_t count, int64_t low,
                        int64_t high, int64_t *values)
{
    const cJSON *given = parameter(item, name);
    if (!given)
        return STATUS_OK;
    if (!cJSON_IsArray(given))
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s is %s; it must be an array of %zu integers", item->place, name,
                         kind_of(given), count);
    if ((size_t)cJSON_GetArraySize(given) != count)
        return error_set(item->error, STATUS_BAD_OP, "%s: %s has %d items; it must have %zu",
                         item->place, name, cJSON_GetArraySize(given), count);
    size_t i = 0;
    const cJSON *each;
    cJSON_ArrayForEach(each, given)
    {
        if (!cJSON_IsNumber(each))
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: %s[%zu] is %s; it must be an integer", item->place, name, i,
                             kind_of(each));
        double number = each->valuedouble;
        bool whole = number > -INTEGER_MAX && number < INTEGER_MAX &&
                     (double)(int64_t)number == number;
        if (!whole || (int64_t)number < low || (int64_t)number > high)
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: %s[%zu] is %.10g; it must be an integer of %lld to %lld",
                             item->place, name, i, number, (long long)low, (long long)high);
        values[i++] = (int64_t)number;
    }
    return STATUS_OK;
}

enum status op_integer(const struct op_item *item, const char *name, int64_t low, int64_t high,
                       int64_t *value)
{
    const cJSON *given = parameter(item, name);
    if (!given)
        return STATUS_OK;
    if (!cJSON_IsNumber(given))
        return error_set(item->error, STATUS_BAD_OP, "%s: %s is %s; it must be an integer",
                         item->place, name, kind_of(given));
    double number = given->valuedouble;
    bool inside = number >= (double)low && number <= (double)high;
    if (!inside || (double)(int64_t)number != number)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s is %.10g; it must be an integer of %lld to %lld", item->place,
                         name, number, (long long)low, (long long)high);
    *value = (int64_t)number;
    return STATUS_OK;
}

enum status op_number(const struct op_item *item, const char *name, double low, double high,
                      double *value)
{
    const cJSON *given = parameter(item, name);
    if (!given)
        return STATUS_OK;
    if (!cJSON_IsNumber(given))
        return error_set(item->error, STATUS_BAD_OP, "%s: %s is %s; it must be a number",
                         item->place, name, kind_of(given));
    double number = given->valuedouble;
    if (!(number >= low && number <= high))
        return error_set(item->error, STATUS_BAD_OP, "%s: %s is %.10g; it must be %.10g to %.10g",
                         item->place, name, number, low, high);
    *value = number;
    return STATUS_OK;
}

enum status op_boolean(const struct op_item *item, const char *name, bool *value)
{
    const cJSON *given = parameter(item, name);
    if (!given)
        return STATUS_OK;
    if (!cJSON_IsBool(given))
        return error_set(item->error, STATUS_BAD_OP, "%s: %s is %s; it must be true or false",
                         item->place, name, kind_of(given));
    *value = cJSON_IsTrue(given);
    return STATUS_OK;
}

/* Rows of `columns` numbers each, row after row. */
static enum status read_rows(const struct op_item *item, const char *name, const cJSON *matrix,
                             size_t columns, double *values)
{
    const cJSON *row, *each;
    size_t y = 0;
    cJSON_ArrayForEach(row, matrix)
    {
        size_t x = 0;
        if (!cJSON_IsArray(row) || (size_t)cJSON_GetArraySize(row) != columns)
            return error_set(item->error, STATUS_BAD_OP,
                             "%s: %s[%zu] must be an array of %zu numbers", item->place, name, y,
                             columns);
        cJSON_ArrayForEach(each, row)
        {
            if (!cJSON_IsNumber(each))
                return error_set(item->error, STATUS_BAD_OP,
                                 "%s: %s[%zu][%zu] is %s; it must be a number", item->place, name,
                                 y, x, kind_of(each));
            values[y * columns + x++] = each->valuedouble;
        }
        y++;
    }
    return STATUS_OK;
}

enum status op_matrix(const struct op_item *item, const char *name, size_t rows, size_t columns,
                      double *values, bool *given)
{
    const cJSON *matrix = parameter(item, name);
    *given = matrix != NULL;
    if (!matrix)
        return STATUS_OK;
    if (!cJSON_IsArray(matrix) || (size_t)cJSON_GetArraySize(matrix) != rows)
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s must be an array of %zu rows of %zu numbers", item->place, name,
                         rows, columns);
    return read_rows(item, name, matrix, columns, values);
}

static enum status odd_side(const struct op_item *item, const char *name, const char *what,
                            size_t side, size_t side_max)
{
    if (side % 2 == 1 && side <= side_max)
        return STATUS_OK;
    return error_set(item->error, STATUS_BAD_OP,
                     "%s: %s has %zu %s; it must have an odd number of them, at most %zu",
                     item->place, name, side, what, side_max);
}

enum status op_odd_matrix(const struct op_item *item, const char *name, size_t side_max,
                          double *values, size_t *rows, size_t *columns)
{
    const cJSON *matrix = parameter(item, name);
    if (!cJSON_IsArray(matrix))
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s is %s; it must be an array of rows of numbers", item->place, name,
                         matrix ? kind_of(matrix) : "missing");
    *rows = (size_t)cJSON_GetArraySize(matrix);
    enum status status = odd_side(item, name, "rows", *rows, side_max);
    if (status)
        return status;
    if (!cJSON_IsArray(matrix->child))
        return error_set(item->error, STATUS_BAD_OP,
                         "%s: %s[0] is %s; it must be an array of numbers", item->place, name,
                         kind_of(matrix->child));
    *columns = (size_t)cJSON_GetArraySize(matrix->child);
    status = odd_side(item, name, "columns", *columns, side_max);
    return status ? status : read_rows(item, name, matrix, *columns, values);
}
