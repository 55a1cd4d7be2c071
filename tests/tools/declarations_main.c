/*
 * declarations - prints what the sources declare about jobs and results, as one JSON object:
 * operations with their parameters, formats, encoder parameters, keys of jobs, error codes, limits,
 * and the script that cancels jobs. queue/clients/generate.py makes the Python package and the
 * JSON Schemas from it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "conf/format.h"
#include "conf/limits.h"
#include "conf/status.h"
#include "gpu/plan/op.h"
#include "queue/job/check.h"
#include "queue/job/json.h"
#include "queue/redis/script.h"

/* ---- operations ---------------------------------------------------------------------------- */

/* The names of enum op_kind and of enum op_need. */
static const char *const kinds[] = {
    [OP_KIND_INTEGER] = "integer", [OP_KIND_ODD] = "odd",       [OP_KIND_NUMBER] = "number",
    [OP_KIND_BOOLEAN] = "boolean", [OP_KIND_WORD] = "word",     [OP_KIND_INTEGERS] = "integers",
    [OP_KIND_NUMBERS] = "numbers", [OP_KIND_MATRIX] = "matrix", [OP_KIND_ODD_MATRIX] = "odd_matrix",
    [OP_KIND_COLOR] = "color",     [OP_KIND_PLACE] = "place",   [OP_KIND_TEXT] = "text",
};

static cJSON *list_of(const char *const *words)
{
    cJSON *list = cJSON_CreateArray();
    for (; words && *words; words++)
        cJSON_AddItemToArray(list, cJSON_CreateString(*words));
    return list;
}

static void add_default(cJSON *object, const struct op_param *param)
{
    if (param->need != OP_HAS_DEFAULT)
        return;
    if (param->kind == OP_KIND_BOOLEAN)
        cJSON_AddBoolToObject(object, "default", param->standard != 0);
    else if (param->kind == OP_KIND_WORD)
        cJSON_AddStringToObject(object, "default", param->words[(int)param->standard]);
    else if (param->kind == OP_KIND_INTEGERS)
        cJSON_AddItemToObject(object, "default",
                              cJSON_CreateIntArray(param->standards, param->columns));
    else
        cJSON_AddNumberToObject(object, "default", param->standard);
}

static cJSON *parameter(const struct op_param *param)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", param->name);
    cJSON_AddStringToObject(object, "kind", kinds[param->kind]);
    cJSON_AddBoolToObject(object, "required", param->need == OP_REQUIRED);
    cJSON_AddNumberToObject(object, "min", param->min);
    cJSON_AddNumberToObject(object, "max", param->max);
    cJSON_AddNumberToObject(object, "last_max", param->last_max);
    cJSON_AddNumberToObject(object, "rows", param->rows);
    cJSON_AddNumberToObject(object, "columns", param->columns);
    if (param->words)
        cJSON_AddItemToObject(object, "words", list_of(param->words));
    add_default(object, param);
    cJSON_AddStringToObject(object, "help", param->help ? param->help : "");
    return object;
}

static cJSON *operations(void)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < op_count; i++) {
        cJSON *object = cJSON_CreateObject(), *parameters = cJSON_CreateArray();
        cJSON_AddItemToArray(list, object);
        cJSON_AddStringToObject(object, "name", op_table[i]->name);
        cJSON_AddStringToObject(object, "help", op_table[i]->help);
        cJSON_AddBoolToObject(object, "values", (op_table[i]->flags & OP_VALUES) != 0);
        cJSON_AddItemToObject(object, "parameters", parameters);
        op_each_param (param, op_table[i])
            cJSON_AddItemToArray(parameters, parameter(param));
    }
    return list;
}

/* ---- formats ------------------------------------------------------------------------------- */

static cJSON *encoder_parameter(unsigned index)
{
    static const char *const names[] = {[PARAMETER_IS_INTEGER] = "integer",
                                        [PARAMETER_IS_EITHER] = "either",
                                        [PARAMETER_IS_QUALITY] = "quality",
                                        [PARAMETER_IS_BOOL] = "boolean",
                                        [PARAMETER_IS_WORD] = "word"};
    const struct parameter_row *row = &encoder_parameters[index];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", row->name);
    cJSON_AddStringToObject(object, "kind", names[row->kind]);
    cJSON_AddNumberToObject(object, "min", row->min);
    cJSON_AddNumberToObject(object, "max", row->max);
    if (row->kind == PARAMETER_IS_WORD)
        cJSON_AddItemToObject(object, "words", list_of(row->words));
    cJSON_AddStringToObject(object, "help", row->help);
    return object;
}

/* The defaults of a format's parameters: a number, a boolean or a word; null if there is none. */
static cJSON *format_parameters(const struct format *format)
{
    cJSON *object = cJSON_CreateObject();
    for (unsigned i = 0; i < PARAMETER_COUNT; i++) {
        const struct parameter_row *row = &encoder_parameters[i];
        int standard = format_default(format, i);
        char text[PARAMETER_TEXT_BYTES];
        if (!(format->parameters & 1u << i))
            continue;
        if (standard < row->min)
            cJSON_AddNullToObject(object, row->name);
        else if (row->kind == PARAMETER_IS_WORD)
            cJSON_AddStringToObject(object, row->name, parameter_text(i, standard, text));
        else
            cJSON_AddRawToObject(object, row->name, parameter_text(i, standard, text));
    }
    return object;
}

static cJSON *all_formats(void)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToArray(list, object);
        cJSON_AddStringToObject(object, "name", formats[i].name);
        cJSON_AddStringToObject(object, "noun", formats[i].noun);
        cJSON_AddStringToObject(object, "mime", formats[i].mime);
        cJSON_AddBoolToObject(object, "tensor", formats[i].tensor);
        cJSON_AddBoolToObject(object, "movies", formats[i].movies);
        cJSON_AddBoolToObject(object, "written", !formats[i].becomes);
        cJSON_AddItemToObject(object, "suffixes", list_of(formats[i].suffixes));
        cJSON_AddItemToObject(object, "parameters", format_parameters(&formats[i]));
    }
    return list;
}

static cJSON *all_encoder_parameters(void)
{
    cJSON *list = cJSON_CreateArray();
    for (unsigned i = 0; i < PARAMETER_COUNT; i++)
        cJSON_AddItemToArray(list, encoder_parameter(i));
    return list;
}

/* ---- the rest ------------------------------------------------------------------------------ */

static cJSON *codes(void)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = STATUS_OK + 1; i < STATUS_COUNT; i++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToArray(list, object);
        cJSON_AddStringToObject(object, "name", status_name((enum status)i));
        cJSON_AddBoolToObject(object, "retryable", status_retryable((enum status)i));
        cJSON_AddStringToObject(object, "meaning", status_meaning((enum status)i));
    }
    return list;
}

static cJSON *limits(void)
{
    static const struct {
        const char *name;
        double value;
    } all[] = {
        {"job_bytes", JOB_BYTES_MAX},
        {"depth", JOB_DEPTH_MAX},
        {"number_bytes", JSON_NUMBER_BYTES_MAX},
        {"id_bytes", JOB_ID_BYTES_MAX},
        {"priorities", JOB_PRIORITIES},
        {"ops", JOB_OPS_MAX},
        {"outputs", JOB_OUTPUTS_MAX},
        {"inputs", JOB_INPUTS_MAX},
        {"folder_files", JOB_FOLDER_FILES_MAX},
        {"page", JOB_PAGE_MAX},
        {"strip", JOB_STRIP_MAX},
        {"patterns", JOB_PATTERNS_MAX},
        {"pattern_bytes", JOB_PATTERN_BYTES_MAX},
        {"path_bytes", JOB_PATH_BYTES_MAX},
        {"key_bytes", JOB_KEY_BYTES_MAX},
        {"url_bytes", JOB_URL_BYTES_MAX},
        {"tag_bytes", JOB_TAG_BYTES_MAX},
        {"traceparent_bytes", JOB_TRACEPARENT_BYTES_MAX},
        {"tracestate_bytes", JOB_TRACESTATE_BYTES_MAX},
        {"header_bytes", JOB_HEADER_BYTES_MAX},
        {"header_name_bytes", JOB_HEADER_NAME_BYTES_MAX},
        {"metadata_names", JOB_METADATA_NAMES_MAX},
        {"shards", SHARDS_MAX},
    };
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cJSON_AddNumberToObject(object, all[i].name, all[i].value);
    return object;
}

int main(void)
{
    cJSON *root = cJSON_CreateObject(), *keys;
    cJSON_AddStringToObject(root, "version", GPUIMGD_VERSION);
    cJSON_AddItemToObject(root, "operations", operations());
    cJSON_AddItemToObject(root, "formats", all_formats());
    cJSON_AddItemToObject(root, "encoder_parameters", all_encoder_parameters());
    cJSON_AddItemToObject(root, "codes", codes());
    cJSON_AddItemToObject(root, "limits", limits());
    cJSON *normalize = cJSON_AddObjectToObject(root, "normalize");
    cJSON_AddNumberToObject(normalize, "max", NORMALIZE_MAX);
    cJSON_AddNumberToObject(normalize, "std_min", NORMALIZE_STD_MIN);
    keys = cJSON_AddObjectToObject(root, "keys");
    cJSON_AddItemToObject(keys, "job", list_of(job_keys));
    cJSON_AddItemToObject(keys, "variant", list_of(variant_keys));
    cJSON_AddItemToObject(keys, "inputs", list_of(inputs_keys));
    cJSON_AddItemToObject(keys, "input", list_of(input_keys));
    cJSON_AddItemToObject(keys, "output", list_of(output_keys));
    cJSON_AddItemToObject(root, "metadata", list_of(metadata_words));
    cJSON_AddStringToObject(root, "cancel_script", script_text(SCRIPT_ID_CANCEL));
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text || puts(text) < 0)
        return 1;
    free(text);
    return 0;
}
