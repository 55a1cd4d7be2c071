/*
 * Tests of the table of operations: each parameter is read as its row says, and each flag matches
 * the plan that the operation becomes.
 */
#include "tests/fixtures/gpu/gpu_run.h"

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
};

/* A list of one operation, with one more parameter unless `name` is NULL. The caller frees it. */
static cJSON *make_ops(const struct op *op, const char *name, cJSON *value)
{
    const char *params = "";
    for (size_t i = 0; i < sizeof(fitting) / sizeof(fitting[0]); i++)
        if (strcmp(fitting[i].op, op->name) == 0)
            params = fitting[i].params;
    cJSON *ops = test_ops(text_of("[{'op':'%s'%s}]", op->name, params));
    if (name) {
        cJSON_DeleteItemFromObject(ops->child, name);
        cJSON_AddItemToObject(ops->child, name, value);
    }
    return ops;
}

static enum status parse(struct op_parsed *parsed, cJSON *ops, struct error *error)
{
    *error = (struct error){0};
    enum status status = op_parse(parsed, ops->child, -1, 0, error);
    cJSON_Delete(ops);
    return status;
}

/* Expects the value accepted or refused. A complaint about another parameter means accepted. */
static void expect(const struct op *op, const struct op_param *param, cJSON *value, bool good)
{
    struct op_parsed parsed;
    struct error error;
    char *text = cJSON_PrintUnformatted(value);
    enum status status = parse(&parsed, make_ops(op, param->name, value), &error);
    const char *start = text_of("ops[0] %s: %s", op->name, param->name);
    bool blamed = status == STATUS_BAD_OP && strncmp(error.text, start, strlen(start)) == 0 &&
                  strstr(error.text, " must ") && !strstr(error.text, "must be below") &&
                  !strstr(error.text, "must not be above");
    if (blamed == good)
        fail_msg("%s %s %s: \"%s\"", op->name, param->name, text, error.text);
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

/* The texts of both lists are at different addresses. */
static void forget_places(struct op_parsed *parsed)
{
    op_each_param (param, parsed->op)
        if (param->kind == OP_KIND_PLACE)
            memset(parsed->params + param->at, 0, sizeof(struct op_place));
}

/* Giving the default explicitly changes nothing. */
TEST(test_defaults)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        op_each_param (param, op) {
            struct op_parsed without, with;
            struct error error;
            if (param->need != OP_HAS_DEFAULT)
                continue;
            assert_int_equal(parse(&without, make_ops(op, NULL, NULL), &error), STATUS_OK);
            if (parse(&with, make_ops(op, param->name, default_of(param)), &error))
                fail_msg("%s: %s", op->name, error.text);
            forget_places(&with);
            forget_places(&without);
            if (memcmp(with.params, without.params, sizeof(with.params)) != 0)
                fail_msg("%s: the table has another default for %s", op->name, param->name);
        }
    }
}

TEST(test_required)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        op_each_param (param, op) {
            struct op_parsed parsed;
            struct error error;
            cJSON *ops = make_ops(op, NULL, NULL);
            cJSON_DeleteItemFromObject(ops->child, param->name);
            enum status status = parse(&parsed, ops, &error);
            if (param->need == OP_REQUIRED &&
                (status != STATUS_BAD_OP || !strstr(error.text, param->name)))
                fail_msg("%s without %s: \"%s\"", op->name, param->name, error.text);
        }
    }
}

static void build(struct plan *plan, uint32_t channels, const cJSON *ops)
{
    struct plan_source source = {.width = 60, .height = 40, .channels = channels, .orientation = 1};
    struct plan_target target = {.ops = ops, .overlays = &test_overlays};
    struct error error = {0};
    if (plan_build(plan, &source, &target, 1, &test_limits, &error) != STATUS_OK)
        fail_msg("%s (the table `fitting` has the parameters that operations require)", error.text);
}

/* The operation between two point operations is one pass only if it is a point operation too. */
static void check_fused(const struct op *op)
{
    struct plan plan;
    cJSON *ops = make_ops(op, NULL, NULL);
    cJSON_InsertItemInArray(ops, 0, cJSON_CreateString("invert"));
    cJSON_AddItemToArray(ops, cJSON_CreateString("invert"));
    build(&plan, 3, ops);
    bool one = plan.variants[0].pass_count <= 1;
    if (one != ((op->flags & OP_POINT) != 0))
        fail_msg("invert, %s, invert are %u passes", op->name, plan.variants[0].pass_count);
    plan_clear(&plan);
    cJSON_Delete(ops);
}

TEST(test_flags)
{
    for (size_t i = 0; i < op_count; i++) {
        const struct op *op = op_table[i];
        struct plan plan;
        cJSON *ops = make_ops(op, NULL, NULL);
        struct plan_target target = {.ops = ops};
        bool gray = (op->flags & (OP_STARTS_GRAY | OP_GRAY_BY_DEFAULT)) != 0;
        build(&plan, 3, ops);
        assert_int_equal(plan_has_values(&plan, 0), (op->flags & OP_VALUES) != 0);
        assert_int_equal(plan_gives_values(ops), (op->flags & OP_VALUES) != 0);
        if ((plan.variants[0].channels == 1) != gray)
            fail_msg("%s gives %u channels of 3", op->name, plan.variants[0].channels);
        assert_int_equal(plan_decode_as(&target, 1) == DECODE_LUMA, gray);
        plan_clear(&plan);
        cJSON_AddItemToArray(ops, cJSON_CreateString("grayscale"));
        assert_int_equal(plan_decode_as(&target, 1) == DECODE_LUMA,
                         gray || (op->flags & OP_MOVES) != 0);
        cJSON_Delete(ops);
        check_fused(op);
    }
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
