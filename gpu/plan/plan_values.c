#include "gpu/plan/plan_values.h"

#include <stdio.h>
#include <string.h>

#include "gpu/plan/pass.h"

bool plan_has_values(const struct plan *plan, size_t variant)
{
    return plan_values_bytes(plan, variant) > 0;
}

size_t plan_values_bytes(const struct plan *plan, size_t variant)
{
    /* A count of four bytes becomes at most eleven characters. Each pass has few nodes, names and
     * other numbers. */
    enum { text_per_byte = 3, pass_bytes = 2048 };
    assert(variant < plan->variant_count);
    const struct plan_variant *result = &plan->variants[variant];
    size_t bytes = 0;
    for (uint32_t p = 0; p < result->pass_count; p++)
        if (result->passes[p].values)
            bytes += pass_bytes + text_per_byte * result->passes[p].work_bytes;
    return bytes;
}

/* The pass's name, with a number if an earlier pass has the same name. */
static void values_name(const struct plan_variant *variant, uint32_t index, char *name, size_t size)
{
    const char *plain = variant->passes[index].type->name;
    unsigned number = 1;
    for (uint32_t p = 0; p < index; p++)
        number += variant->passes[p].values && strcmp(variant->passes[p].type->name, plain) == 0;
    snprintf(name, size, number > 1 ? "%s_%u" : "%s", plain, number);
}

cJSON *plan_values(const struct plan *plan, size_t variant, const uint8_t *output)
{
    assert(variant < plan->variant_count);
    const struct plan_variant *result = &plan->variants[variant];
    cJSON *values = cJSON_CreateObject();
    for (uint32_t p = 0; values && p < result->pass_count; p++) {
        const struct pass *pass = &result->passes[p];
        char name[40];
        if (!pass->values)
            continue;
        values_name(result, p, name, sizeof(name));
        cJSON *value = pass->values(pass, output + pass->work_place.offset);
        if (value && cJSON_AddItemToObject(values, name, value))
            continue;
        cJSON_Delete(value); /* uncovered: memory */
        cJSON_Delete(values);
        values = NULL;
    }
    return values;
}

static bool same_json(const struct pass *pass, const uint8_t *a, const uint8_t *b)
{
    cJSON *one = pass->values(pass, a), *other = pass->values(pass, b);
    bool same = cJSON_Compare(one, other, true);
    cJSON_Delete(one);
    cJSON_Delete(other);
    return same;
}

/* The work space of a pass that writes an image also has numbers that the engines may leave
 * different. */
bool plan_same_values(const struct plan *plan, size_t variant, const uint8_t *a, const uint8_t *b)
{
    assert(variant < plan->variant_count);
    bool same = true;
    for (uint32_t p = 0; same && p < plan->variants[variant].pass_count; p++) {
        const struct pass *pass = &plan->variants[variant].passes[p];
        size_t at = pass->work_place.offset;
        if (pass->values)
            same = pass->looks ? memcmp(a + at, b + at, pass->work_bytes) == 0
                               : same_json(pass, a + at, b + at);
    }
    return same;
}
