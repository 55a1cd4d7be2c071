#include "gpu/plan/op_list.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu/plan/op.h"
#include "gpu/plan/plan.h"

enum status op_list_parse(struct op_item **list, const cJSON *array, int output,
                          struct error *error)
{
    const cJSON *json;
    int position = 0;
    *list = NULL;
    assert(!array || (cJSON_IsArray(array) && cJSON_GetArraySize(array) <= JOB_OPS_MAX));
    cJSON_ArrayForEach(json, array)
    {
        enum status status = op_parse(list, json, output, position++, error);
        if (status)
            return status;
        list = &(*list)->next;
    }
    return STATUS_OK;
}

void op_list_free(const struct op_item *list)
{
    while (list) {
        const struct op_item *next = list->next;
        free((void *)list);
        list = next;
    }
}

size_t op_list_bytes(const struct op_item *list)
{
    enum { overhead = 16 }; /* of malloc, at most */
    size_t bytes = 0;
    for (; list; list = list->next)
        bytes += list->bytes + overhead;
    return bytes;
}

bool op_list_converts_to_srgb(const struct op_item *list)
{
    return op_find_flag(list, OP_TO_SRGB) != NULL;
}

bool op_list_gives_values(const struct op_item *list)
{
    for (; list; list = list->next)
        if (list->op->gives ? list->op->gives(list->params) : list->op->flags & OP_VALUES)
            return true;
    return false;
}

bool op_list_is_bilevel(const struct op_item *list)
{
    bool is_bilevel = false;
    for (; list; list = list->next)
        if (list->op->flags & OP_BILEVEL)
            is_bilevel = true;
        else if (!op_moves(list) && !(list->op->flags & OP_VALUES))
            is_bilevel = false;
    return is_bilevel;
}

enum status op_list_check_deep(const struct op_item *list, struct error *error)
{
    char known[ERROR_TEXT_MAX];
    size_t used = 0;
    while (list && list->op->flags & OP_DEEP)
        list = list->next;
    if (!list)
        return STATUS_OK;
    for (size_t i = 0; i < op_count && used < sizeof known; i++)
        if (op_table[i]->flags & OP_DEEP)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                     used > 0 ? ", " : "", op_table[i]->name);
    return op_refuse(list, error,
                     " works with 8 bits, but the output's depth is 16, which only these "
                     "operations keep: %s; omit one of the two",
                     known);
}

const struct op_place *op_list_next_overlay(const struct op_item *list, int *position)
{
    while (list && list->position <= *position)
        list = list->next;
    static const struct op_place none;
    list = op_find_flag(list, OP_LAYS);
    if (!list)
        return NULL;
    *position = list->position;
    if (list->op->params->kind == OP_KIND_TEXT)
        return &none;
    return (const void *)(list->params + list->op->params->at);
}
