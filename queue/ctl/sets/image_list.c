#include "queue/ctl/sets/image_list.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct image_list *image_list_new(size_t images)
{
    struct image_list *list = calloc(1, sizeof *list);
    if (!list) /* uncovered: memory */
        return NULL;
    list->names = calloc(images + 1, sizeof *list->names);
    list->stems = calloc(images + 1, sizeof *list->stems);
    list->inputs = cJSON_CreateArray();
    list->image.inputs = list->inputs;
    list->image.ending = list->ending;
    if (list->names && list->stems && list->inputs)
        return list;
    image_list_free(list); /* uncovered: memory */
    return NULL;
}

bool image_list_add(struct image_list *list, cJSON *item, const char *name, const char *stem)
{
    char *own_name = strdup(name), *own_stem = strdup(stem);
    if (!own_name || !own_stem || !cJSON_AddItemToArray(list->inputs, item)) {
        cJSON_Delete(item); /* uncovered: memory */
        free(own_name);
        free(own_stem);
        return false;
    }
    list->names[list->count] = own_name;
    list->stems[list->count++] = own_stem;
    return true;
}

void image_list_drop(struct image_list *list)
{
    assert(list->count > 0);
    list->count--;
    cJSON_DeleteItemFromArray(list->inputs, (int)list->count);
    free(list->names[list->count]);
    free(list->stems[list->count]);
    list->names[list->count] = list->stems[list->count] = NULL;
}

bool image_list_set_label(struct image_list *list)
{
    const char *first = list->names[0];
    size_t bytes = strlen(first) + 40;
    free(list->label);
    list->label = malloc(bytes);
    if (!list->label) /* uncovered: memory */
        return false;
    if (list->count > 1)
        snprintf(list->label, bytes, "%s and %zu more", first, list->count - 1);
    else
        strcpy(list->label, first);
    list->image.file.name = list->label;
    return true;
}

void image_list_close(struct image_list *list)
{
    cJSON_Delete(list->inputs);
    list->inputs = NULL;
    list->image.inputs = NULL;
}

void image_list_free(struct image_list *list)
{
    if (!list)
        return;
    image_list_close(list);
    for (size_t i = 0; i < list->count; i++) {
        free(list->names[i]);
        free(list->stems[i]);
    }
    free(list->names);
    free(list->stems);
    free(list->label);
    job_image_clear(&list->image);
    free(list);
}
