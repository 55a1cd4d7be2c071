#include "tests/tools/check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/text_file.h"

#define RESULT_S 20

static void show(const cJSON *result)
{
    char *text = cJSON_Print(result);
    print_error("the result was %s\n", text ? text : "none");
    free(text);
}

static void check_that(bool good, const cJSON *result, const char *what)
{
    if (good)
        return;
    show(result);
    fail_msg("%s", what);
}

static void check_error(const cJSON *result, const cJSON *holder)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(holder, "error");
    bool whole = *json_text(error, "code") && strlen(json_text(error, "message")) >= 10 &&
                 cJSON_IsBool(json_at(error, "retryable")) && cJSON_GetArraySize(error) == 3;
    check_that(whole, result, "an error has code, message and retryable, and nothing else");
}

void check_traceable(const cJSON *result)
{
    const cJSON *output;
    bool done = strcmp(json_text(result, "status"), "done") == 0;
    bool named = *json_text(result, "input.path") || *json_text(result, "input.key");
    check_that(json_number(result, "job") > 0, result, "it has the job's number");
    check_that(named != cJSON_IsString(json_at(result, "text")), result,
               "it has the input's name, or the beginning of the job's text");
    check_that(done != cJSON_HasObjectItem(result, "error"), result, "it has an error, or is done");
    if (!done)
        check_error(result, result);
    cJSON_ArrayForEach(output, json_at(result, "outputs"))
        if (!cJSON_HasObjectItem(output, "bytes") && !cJSON_HasObjectItem(output, "values"))
            check_error(result, output);
        else
            check_that(!cJSON_HasObjectItem(output, "error"), result,
                       "an output is there, or has an error");
}

cJSON *check_next(struct world *world)
{
    cJSON *result = world_result(world, RESULT_S);
    if (!result) {
        char *log = process_log(&world->daemons[0]);
        print_error("no result came; the daemon said:\n%s\n", log);
        free(log);
    }
    assert_non_null(result);
    check_traceable(result);
    return result;
}

cJSON *check_answer(struct world *world, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    assert_true(length >= 0);
    world_push(world, "%s", text);
    free(text);
    return check_next(world);
}

void check_done(cJSON *result)
{
    if (strcmp(json_text(result, "status"), "done") || cJSON_IsObject(json_at(result, "error")))
        show(result);
    assert_string_equal(json_text(result, "status"), "done");
    assert_false(cJSON_IsObject(json_at(result, "error")));
    cJSON_Delete(result);
}

void check_ended(cJSON *result, const char *status, const char *code)
{
    if (strcmp(json_text(result, "status"), status) ||
        strcmp(json_text(result, "error.code"), code) || !json_text(result, "error.message")[0])
        show(result);
    assert_string_equal(json_text(result, "status"), status);
    assert_string_equal(json_text(result, "error.code"), code);
    assert_true(strlen(json_text(result, "error.message")) >= 10);
    assert_true(cJSON_IsBool(json_at(result, "error.retryable")));
    cJSON_Delete(result);
}

void check_failed(cJSON *result, const char *code, ...)
{
    const char *message = json_text(result, "error.message");
    va_list args;
    va_start(args, code);
    for (const char *word; (word = va_arg(args, const char *));) {
        if (!strstr(message, word)) {
            print_error("the message lacks \"%s\"\n", word);
            show(result);
        }
        assert_non_null(strstr(message, word));
    }
    va_end(args);
    check_ended(result, "failed", code);
}

/* ---- the message ----------------------------------------------------------------------------- */

struct shape {
    const char *key;
    int type;      /* cJSON's; several or-ed */
    bool required;
};

static void check_shape(const cJSON *whole, const cJSON *object, const struct shape *shapes)
{
    const cJSON *item;
    assert_true(cJSON_IsObject(object));
    cJSON_ArrayForEach(item, object) {
        const struct shape *shape = shapes;
        while (shape->key && strcmp(shape->key, item->string) != 0)
            shape++;
        if (!shape->key || !((item->type & 0xff) & shape->type)) {
            print_error("key %s is unknown or of a wrong type\n", item->string);
            show(whole);
        }
        assert_non_null(shape->key);
        assert_true((item->type & 0xff) & shape->type);
    }
    for (; shapes->key; shapes++) {
        if (shapes->required && !cJSON_HasObjectItem(object, shapes->key)) {
            print_error("key %s is missing\n", shapes->key);
            show(whole);
        }
        assert_true(!shapes->required || cJSON_HasObjectItem(object, shapes->key));
    }
}

void check_message(const cJSON *result)
{
    static const struct shape top[] = {
        {"id", cJSON_String | cJSON_NULL, false},  {"job", cJSON_Number, true},
        {"status", cJSON_String, true},            {"error", cJSON_Object | cJSON_NULL, false},
        {"same_as", cJSON_Number, false},
        {"meta", 0xff, false},                     {"input", cJSON_Object | cJSON_NULL, false},
        {"outputs", cJSON_Array, false},           {"attempt", cJSON_Number, true},
        {"engine", cJSON_String | cJSON_NULL, false}, {"daemon", cJSON_String, true},
        {"ms", cJSON_Object, true},                {NULL, 0, false}};
    static const struct shape input[] = {{"path", cJSON_String, false},
                                         {"key", cJSON_String, false},
                                         {"format", cJSON_String, true},
                                         {"width", cJSON_Number, true},
                                         {"height", cJSON_Number, true},
                                         {"bytes", cJSON_Number, true},
                                         {NULL, 0, false}};
    static const struct shape output[] = {
        {"path", cJSON_String, false},  {"key", cJSON_String, false},
        {"format", cJSON_String, true}, {"width", cJSON_Number, true},
        {"height", cJSON_Number, true}, {"bytes", cJSON_Number, true},
        {"status", cJSON_String, false}, {"values", cJSON_Object, false}, {NULL, 0, false}};
    static const struct shape ms[] = {
        {"queue", cJSON_Number, false},  {"read", cJSON_Number, true},
        {"admit", cJSON_Number, true},   {"decode", cJSON_Number, true},
        {"h2d", cJSON_Number, false},    {"kernel", cJSON_Number, false},
        {"d2h", cJSON_Number, false},    {"encode", cJSON_Number, true},
        {"total", cJSON_Number, true},   {NULL, 0, false}};
    const cJSON *item;
    check_shape(result, result, top);
    check_shape(result, json_at(result, "input"), input);
    check_shape(result, json_at(result, "ms"), ms);
    cJSON_ArrayForEach(item, json_at(result, "ms"))
        assert_true(item->valuedouble >= 0);
    cJSON_ArrayForEach(item, json_at(result, "outputs")) {
        check_shape(result, item, output);
        assert_true(cJSON_HasObjectItem(item, "path") != cJSON_HasObjectItem(item, "key"));
    }
}

/* ---- pictures -------------------------------------------------------------------------------- */

void check_pixels(const char *what, struct raster got, struct raster expected, int limit)
{
    char where[160];
    size_t differ = raster_differ(&got, &expected, limit, where, sizeof where);
    raster_clear(&got);
    raster_clear(&expected);
    if (differ)
        print_error("%s: %zu bytes are wrong, first %s\n", what, differ, where);
    assert_int_equal(differ, 0);
}

void check_output(struct world *world, const char *name, struct raster expected, int limit)
{
    check_pixels(name, world_load_out(world, name), expected, limit);
}

void check_output_near(struct world *world, const char *name, struct raster expected, double db)
{
    struct raster got = world_load_out(world, name);
    char where[160];
    double sum = 0;
    bool same_shape = raster_differ(&got, &expected, 255, where, sizeof where) == 0;
    size_t count = (size_t)expected.width * expected.height * expected.channels;
    for (size_t i = 0; same_shape && i < count; i++) {
        double d = got.pixels[i] - expected.pixels[i];
        sum += d * d;
    }
    double mean = sum / (double)count;
    double reached = mean > 0 ? 10 * log10(255 * 255 / mean) : 99;
    raster_clear(&got);
    raster_clear(&expected);
    if (!same_shape || reached < db)
        print_error("%s: %.1f dB, %s\n", name, reached, where);
    assert_true(same_shape);
    assert_true(reached >= db);
}

/* ---- daemons --------------------------------------------------------------------------------- */

void check_ready(struct process *daemon)
{
    assert_true(world_ready(daemon));
}

void check_stop(struct process *daemon)
{
    process_signal(daemon, SIGTERM);
    int status = process_wait(daemon, 30);
    if (status != 0) {
        char *log = process_log(daemon);
        print_error("the daemon ended with %d; it said:\n", status);
        fprintf(stderr, "%s\n", log); /* print_error cuts off what is long, and the end counts */
        free(log);
    }
    assert_int_equal(status, 0);
}

void check_clean(struct world *world)
{
    char names[1024];
    size_t left = world_leftovers(world, names, sizeof names);
    if (left)
        print_error("keys that should be gone:%s\n", names);
    assert_int_equal(left, 0);
    assert_int_equal(text_file_count(world->out, ".tmp"), 0);
}
