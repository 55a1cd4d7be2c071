#include "queue/ctl/submit/ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/op_hints.h"
#include "conf/text.h"
#include "queue/job/json.h"

/* From operations.inc, which is generated from gpu/ops/table.c: this folder includes no headers of
 * gpu. */
const char *const ops_names[] = {
#define X(name, line) #name,
#include "queue/ctl/operations.inc"
#undef X
};
const size_t ops_count = sizeof ops_names / sizeof *ops_names;

static bool check_name(const char *name, struct error *error)
{
    for (size_t i = 0; i < ops_count; i++)
        if (strcmp(ops_names[i], name) == 0)
            return true;
    char hint[OP_HINT_BYTES];
    if (op_hint_find(name, hint))
        return error_fail(error, STATUS_UNKNOWN_OP, "there is no operation \"%s\"; %s", name, hint);
    const char *near = text_nearest(name, ops_names, ops_count);
    return error_fail(error, STATUS_UNKNOWN_OP, "there is no operation \"%s\"%s%s%s", name,
                      near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Returns the length of the item at `text`, up to the next comma outside brackets and quotes. */
static size_t item_length(const char *text)
{
    int depth = 0;
    bool quoted = false;
    size_t i;
    for (i = 0; text[i] && (text[i] != ',' || depth > 0 || quoted); i++) {
        if (quoted && text[i] == '\\' && text[i + 1]) /* uncovered: slip */
            i++;
        else if (text[i] == '"') /* uncovered: slip */
            quoted = !quoted;
        else if (!quoted && strchr("[{", text[i]))
            depth++;
        else if (!quoted && strchr("]}", text[i]) && depth > 0)
            depth--;
    }
    return i;
}

static cJSON *read_value(const char *text)
{
    struct error error = {0};
    cJSON *value = json_parse(text, strlen(text), NULL, &error);
    return error.status == STATUS_BAD_JSON ? cJSON_CreateString(text) : value;
}

/* Adds the parameter "name=value" to an operation. Sets no error if memory is short. */
static bool add_parameter(cJSON *op, char *text, struct error *error)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return error_fail(error, STATUS_BAD_OP, "\"%s\" of %s is not a parameter; write name=value",
                          text, cJSON_GetObjectItem(op, "op")->valuestring);
    *equals = '\0';
    if (cJSON_GetObjectItemCaseSensitive(op, text))
        return error_fail(error, STATUS_BAD_OP, "%s has %s twice",
                          cJSON_GetObjectItem(op, "op")->valuestring, text);
    cJSON *value = read_value(equals + 1);
    if (value && cJSON_AddItemToObject(op, text, value))
        return true;
    cJSON_Delete(value); /* uncovered: slip */
    return false;
}

/* Adds the operation "name" or "name:parameter". Sets no error if memory is short. */
static cJSON *add_op(cJSON *ops, char *text, struct error *error)
{
    char *colon = strchr(text, ':');
    if (colon)
        *colon = '\0';
    if (!check_name(text, error))
        return NULL;
    cJSON *op = cJSON_CreateObject();
    if (!op || !cJSON_AddStringToObject(op, "op", text)) { /* uncovered: slip */
        cJSON_Delete(op);
        return NULL;
    }
    cJSON_AddItemToArray(ops, op);
    return !colon || add_parameter(op, colon + 1, error) ? op : NULL;
}

cJSON *ops_parse(const char *text, struct error *error)
{
    cJSON *ops = cJSON_CreateArray(), *op = NULL;
    bool ok = ops != NULL;
    while (ok && *text) {
        size_t length = item_length(text);
        char *item = strndup(text, length);
        if (!item) { /* uncovered: slip */
            ok = false;
        } else if (item[strcspn(item, ":=")] == '=') { /* a parameter of the last operation */
            ok = op && add_parameter(op, item, error);
            if (!op)
                error_set(error, STATUS_BAD_OP, "\"%s\" has no operation before it", item);
        } else {
            op = add_op(ops, item, error);
            ok = op != NULL;
        }
        free(item);
        text += length + (text[length] == ',');
    }
    if (ok)
        return ops;
    cJSON_Delete(ops);
    error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for the operations");
    return NULL;
}

char *ops_read_file(const char *path, size_t *length, struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *text = file ? malloc(JOB_BYTES_MAX + 1) : NULL;
    *length = text ? fread(text, 1, JOB_BYTES_MAX, file) : 0;
    if (!text || ferror(file)) {
        error_set(error, STATUS_INPUT_UNREADABLE, "cannot read %s: %s",
                  standard ? "standard input" : path, strerror(errno));
        free(text);
        text = NULL;
    } else {
        text[*length] = '\0';
    }
    if (file && !standard)
        fclose(file);
    return text;
}

static bool check_list(const cJSON *ops, const char *path, struct error *error)
{
    const cJSON *op;
    if (!cJSON_IsArray(ops))
        return error_fail(error, STATUS_BAD_OP, "%s must hold an array of operations", path);
    cJSON_ArrayForEach(op, ops)
    {
        const cJSON *name = cJSON_IsString(op) ? op : cJSON_GetObjectItemCaseSensitive(op, "op");
        if (!cJSON_IsString(name)) /* uncovered: slip */
            return error_fail(error, STATUS_BAD_OP,
                              "%s: an operation must be a name, or an object with the key \"op\"",
                              path);
        if (!check_name(name->valuestring, error)) /* uncovered: slip */
            return false;
    }
    return true;
}

cJSON *ops_load(const char *path, struct error *error)
{
    size_t length;
    struct error wrong = {0};
    char *text = ops_read_file(path, &length, error);
    cJSON *ops = text ? json_parse(text, length, NULL, &wrong) : NULL;
    if (wrong.status != STATUS_OK)
        error_set(error, wrong.status, "%s: %s", path, wrong.text);
    free(text);
    if (ops && !check_list(ops, path, error)) {
        cJSON_Delete(ops);
        return NULL;
    }
    return ops;
}
