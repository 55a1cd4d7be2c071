/*
 * Tests of the table of operations: each parameter is read as its row says, and each flag matches
 * the plan that the operation becomes.
 */
#include "tests/fixtures/gpu/gpu_run.h"

#include "conf/op_hints.h"
#include "gpu/plan/op.h"
#include "tests/fixtures/gpu/overlay.h"

/* Valid parameters, after a comma, for operations that require some. */
static const struct {
    const char *op, *params;
} fitting[] = {
    {"gamma", ",'gamma':2"},
    {"color_matrix", ",'matrix':[[1,0,0,1],[0,1,0,1],[0,0,1,1]]"},
    {"convolve", ",'kernel':[[0,1,0],[1,-4,1],[0,1,0]]"},
    {"crop", ",'width':7,'height':5"},
    {"pad", ",'width':99"},
    {"resize", ",'width':9"},
    {"composite", ",'input':'colour-9x9'"},
    {"text", ",'text':'colour-9x9'"},
};

/* A list of one operation, with one more parameter unless `name` is NULL. The caller frees it. */
static cJSON *make_ops(const struct op *op, const char *name, cJSON *value)
{
    const char *params = "";
    for (size_t i = 0; i < sizeof(fitting) / sizeof(fitting[0]); i++)
        if (strcmp(fitting[i].op, op->name) == 0)
            params = fitting[i].params;
    cJSON *ops = test_json(text_of("[{'op':'%s'%s}]", op->name, params));
    if (name) {
        cJSON_DeleteItemFromObject(ops->child, name);
        cJSON_AddItemToObject(ops->child, name, value);
    }
    return ops;
}

/* Frees `ops`, so that the item may not point into it. */
static enum status parse(struct op_item **item, cJSON *ops, struct error *error)
{
    *error = (struct error){0};
    enum status status = op_list_parse(item, ops, -1, error);
    cJSON_Delete(ops);
    return status;
}

/* Expects the value accepted or refused. A complaint about another parameter means accepted. */
static void expect(const struct op *op, const struct op_param *param, cJSON *value, bool good)
{
    struct op_item *item;
    struct error error;
    char *text = cJSON_PrintUnformatted(value);
    enum status status = parse(&item, make_ops(op, param->name, value), &error);
    const char *start = text_of("ops[0] %s: %s", op->name, param->name);
    bool blamed = status == STATUS_BAD_OP && strncmp(error.text, start, strlen(start)) == 0 &&
                  strstr(error.text, " must ") && !strstr(error.text, "must be below") &&
                  !strstr(error.text, "must not be above");
    if (blamed == good)
        fail_msg("%s %s %s: \"%s\"", op->name, param->name, text, error.text);
    op_list_free(item);
    free(text);
}

static void expect_numbers(const struct op *op, const struct op_param *param)
{
    bool steps = param->kind == OP_KIND_INTEGER || param->kind == OP_KIND_ODD;
    double step = param->kind == OP_KIND_ODD ? 2 : param->kind == OP_KIND_INTEGER ? 1 : 0.001;
    expect(op, param, cJSON_CreateNumber(param->min), true);
    expect(op, param, cJSON_CreateNumber(param->max), true);
    expect(op, param, cJSON_CreateNumber(param->min - step), false);
    expect(op, param, cJSON_CreateNumber(param->max + step), false);
    expect(op, param, cJSON_CreateNumber(param->min + 0.5), !steps);
    expect(op, param, cJSON_CreateNumber(param->min + 1),
           param->kind != OP_KIND_ODD && param->min + 1 <= param->max);
    expect(op, param, cJSON_CreateString("1"), false);
}

static void expect_words(const struct op *op, const struct op_param *param)
{
    for (int i = 0; param->words[i]; i++)
        expect(op, param, cJSON_CreateString(param->words[i]), true);
    expect(op, param, cJSON_CreateString("sideways"), false);
    expect(op, param, cJSON_CreateNumber(77), false);
}

static void expect_texts(const struct op *op, const struct op_param *param)
{
    char text[TEXT_BYTES_MAX + 2] = "";
    memset(text, 'a', (size_t)param->max + 1);
    expect(op, param, cJSON_CreateString(text), false);
    expect(op, param, cJSON_CreateString(text + 1), true);
    expect(op, param, cJSON_CreateString("a\n\tb"), true);
    expect(op, param, cJSON_CreateString(""), false);
    expect(op, param, cJSON_CreateString("a\rb"), false);
    expect(op, param, cJSON_CreateString("\x1b"), false);
    expect(op, param, cJSON_CreateNumber(1), false);
}

TEST(test_parameters)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        op_each_param (param, op) {
            expect(op, param, cJSON_CreateNull(), false);
            if (param->words)
                expect_words(op, param);
            else if (param->kind <= OP_KIND_NUMBER)
                expect_numbers(op, param);
            else if (param->kind == OP_KIND_TEXT)
                expect_texts(op, param);
            else
                expect(op, param, cJSON_CreateNumber(1), false);
        }
    }
}

static cJSON *default_of(const struct op_param *param)
{
    if (param->kind == OP_KIND_BOOLEAN)
        return cJSON_CreateBool(param->standard != 0);
    if (param->kind == OP_KIND_WORD)
        return cJSON_CreateString(param->words[(int)param->standard]);
    if (param->kind == OP_KIND_INTEGERS)
        return cJSON_CreateIntArray(param->standards, param->columns);
    return cJSON_CreateNumber(param->standard);
}

/* What the values of both lists point to is at different addresses. */
static void forget_pointers(struct op_item *item)
{
    op_each_param (param, item->op) {
        if (param->kind == OP_KIND_PLACE)
            memset(item->params + param->at, 0, sizeof(struct op_place));
        if (param->kind == OP_KIND_TEXT)
            memset(item->params + param->at, 0, sizeof(const char *));
        if (param->kind == OP_KIND_MATRIX || param->kind == OP_KIND_ODD_MATRIX)
            memset(item->params + param->at, 0, sizeof(struct op_matrix));
    }
}

/* Giving the default explicitly changes nothing. */
TEST(test_defaults)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        op_each_param (param, op) {
            struct op_item *without, *with;
            struct error error;
            if (param->need != OP_HAS_DEFAULT)
                continue;
            assert_int_equal(parse(&without, make_ops(op, NULL, NULL), &error), STATUS_OK);
            if (parse(&with, make_ops(op, param->name, default_of(param)), &error))
                fail_msg("%s: %s", op->name, error.text);
            forget_pointers(with);
            forget_pointers(without);
            if (memcmp(with->params, without->params, op->params_bytes) != 0)
                fail_msg("%s: the table has another default for %s", op->name, param->name);
            op_list_free(with);
            op_list_free(without);
        }
    }
}

TEST(test_required)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        op_each_param (param, op) {
            struct op_item *item;
            struct error error;
            cJSON *ops = make_ops(op, NULL, NULL);
            cJSON_DeleteItemFromObject(ops->child, param->name);
            enum status status = parse(&item, ops, &error);
            if (param->need == OP_REQUIRED &&
                (status != STATUS_BAD_OP || !strstr(error.text, param->name)))
                fail_msg("%s without %s: \"%s\"", op->name, param->name, error.text);
            op_list_free(item);
        }
    }
}

static struct op_item *parse_valid(cJSON *ops)
{
    struct op_item *list;
    struct error error;
    if (parse(&list, ops, &error) != STATUS_OK)
        fail_msg("%s (the table `fitting` has the parameters that operations require)", error.text);
    return list;
}

static void build(struct plan *plan, uint32_t channels, const struct op_item *ops)
{
    struct plan_source source = {.width = 60, .height = 40, .channels = channels, .orientation = 1};
    struct plan_target target = {.ops = ops, .overlays = &test_overlays};
    struct error error = {0};
    if (plan_build(plan, &source, &target, 1, &test_limits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

/* The operation between two point operations is one pass only if it is a point operation too. */
static void check_fused(const struct op *op)
{
    struct plan plan;
    cJSON *json = make_ops(op, NULL, NULL);
    cJSON_InsertItemInArray(json, 0, cJSON_CreateString("invert"));
    cJSON_AddItemToArray(json, cJSON_CreateString("invert"));
    struct op_item *ops = parse_valid(json);
    build(&plan, 3, ops);
    bool one = plan.variants[0].pass_count <= 1;
    if (one != ((op->flags & OP_POINT) != 0))
        fail_msg("invert, %s, invert are %u passes", op->name, plan.variants[0].pass_count);
    plan_clear(&plan);
    op_list_free(ops);
}

TEST(test_flags)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        struct plan plan;
        struct op_item *ops = parse_valid(make_ops(op, NULL, NULL));
        struct plan_target target = {.ops = ops};
        bool gray = (op->flags & (OP_STARTS_GRAY | OP_GRAY_BY_DEFAULT)) != 0;
        build(&plan, 3, ops);
        assert_int_equal(plan_has_values(&plan, 0), (op->flags & OP_VALUES) != 0);
        assert_int_equal(op_list_gives_values(ops), (op->flags & OP_VALUES) != 0);
        if ((plan.variants[0].channels == 1) != gray)
            fail_msg("%s gives %u channels of 3", op->name, plan.variants[0].channels);
        assert_int_equal(plan_decode_as(&target, 1) == DECODE_LUMA, gray);
        plan_clear(&plan);
        ops->next = test_ops("['grayscale']");
        assert_int_equal(plan_decode_as(&target, 1) == DECODE_LUMA,
                         gray || (op->flags & OP_MOVES) != 0);
        op_list_free(ops);
        check_fused(op);
    }
}

/* The image must be what op_list_is_bilevel promises. */
static void check_bilevel(struct engine *engine, const struct op *before, const struct op *after)
{
    struct op_item *ops = parse_valid(make_ops(before, NULL, NULL));
    ops->next = parse_valid(make_ops(after, NULL, NULL));
    bool moves = op_moves(ops->next), promised = op_list_is_bilevel(ops);
    cJSON *json = make_ops(before, NULL, NULL), *last = make_ops(after, NULL, NULL);
    cJSON_AddItemToArray(json, cJSON_DetachItemFromArray(last, 0));
    char *text = cJSON_PrintUnformatted(json);
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(60, 40, 4, .orientation = 6),
                 &(struct plan_target){.overlays = &test_overlays}, text);
    gpu_run_finish(&run);
    struct raster raster = raster_of(run.result);
    bool is_bilevel = raster.channels == 1;
    for (size_t i = 0; i < (size_t)raster.width * raster.height && is_bilevel; i++)
        is_bilevel = raster.pixels[i] == 0 || raster.pixels[i] == 255;
    if (promised != ((after->flags & (OP_BILEVEL | OP_VALUES)) != 0 || moves))
        fail_msg("%s: %d", text, promised);
    if (promised && !is_bilevel)
        fail_msg("%s has other pixels than 0 and 255", text);
    raster_clear(&raster);
    gpu_run_close(&run);
    free(text);
    cJSON_Delete(json);
    cJSON_Delete(last);
    op_list_free(ops);
}

TEST(test_bilevel)
{
    struct engine *engine = test_engine_open("cpu", 1, 64 * MIB, 0);
    for (size_t i = 0; i < op_count; i++)
        for (size_t j = 0; j < op_count && op_table[i]->flags & OP_BILEVEL; j++)
            check_bilevel(engine, op_table[i], op_table[j]);
    engine_close(engine);
    static const struct {
        const char *ops;
        bool is_bilevel;
    } lists[] = {
        {"[]", false},
        {"['grayscale']", false},
        {"['otsu']", true},
        {"['threshold']", true},
        {"[{'op':'threshold','value':9,'invert':true},'stats','phash']", true},
        {"['threshold',{'op':'rotate','angle':90},{'op':'crop','width':9,'height':9},'flip']",
         true},
        {"['threshold',{'op':'rotate','angle':45}]", false},
        {"['otsu',{'op':'resize','width':9}]", false},
        {"[{'op':'resize','width':9},'otsu']", true},
        {"['otsu','invert']", false},
        {"['canny']", false},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct op_item *ops = test_ops(lists[i].ops);
        if (op_list_is_bilevel(ops) != lists[i].is_bilevel)
            fail_msg("%s", lists[i].ops);
        op_list_free(ops);
    }
}

/* The memory of the shortest text of an operation is at most what JOB_TEXT_BYTES_MAX counts. Longer
 * texts have 2 bytes or more per number of a matrix, and a byte per byte of a place. */
TEST(test_bytes)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        cJSON *json = make_ops(op, NULL, NULL);
        if (json->child->child->next == NULL)
            cJSON_ReplaceItemInArray(json, 0, cJSON_CreateString(op->name));
        char *text = cJSON_PrintUnformatted(json);
        struct op_item *ops = parse_valid(json);
        unsigned pointers = 0;
        op_each_param (param, op)
            pointers += param->kind == OP_KIND_PLACE || param->kind == OP_KIND_MATRIX ||
                        param->kind == OP_KIND_ODD_MATRIX;
        assert_true(pointers <= 1 && op->params_bytes <= OP_PARAMS_BYTES_MAX);
        if (op_list_bytes(ops) > 4 * (strlen(text) - 1) + OP_BYTES_MORE)
            fail_msg("%s takes %zu bytes", text, op_list_bytes(ops));
        op_list_free(ops);
        free(text);
    }
}

/* Each hint leads to an operation, from a name that is none and is in one row only. */
TEST(hints_lead_to_operations)
{
    char hint[OP_HINT_BYTES];
    for (size_t i = 0; i < op_hint_count; i++) {
        const char *operation = op_hints[i].operation;
        if (operation)
            assert_non_null(op_find(operation));
        for (const char *at = op_hints[i].names; *at;) {
            size_t length = strcspn(at, " ");
            char *name = strndup(at, length);
            assert_non_null(name);
            assert_null(op_find(name));
            assert_true(op_hint_find(name, hint));
            if (!strstr(hint, operation ? operation : op_hints[i].text))
                fail_msg("%s: %s", name, hint);
            free(name);
            at += length + strspn(at + length, " ");
        }
    }
    assert_true(op_hint_find("Gaussian_Blur", hint));
    assert_string_equal(hint, "did you mean \"gaussian\"?");
    static const char *const unknown[] = {"",      " ",
                                          "_",     "blu",
                                          "blurs", "blur gaussblur",
                                          "xyz",   "sharpen sharpen sharpen sharpen sharpen"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_false(op_hint_find(unknown[i], hint));
}

TEST(test_texts)
{
    assert_true(op_count >= 22);
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        size_t length = strlen(op->help);
        assert_ptr_equal(op_find(op->name), op);
        assert_true(length > 0 && length <= 90 && op->help[length - 1] != '.');
        assert_true(strlen(op->definition) > 0);
    }
    assert_null(op_find("sobell"));
}

TEST_MAIN()
