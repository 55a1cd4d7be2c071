/* Tests of text: what is asked to be drawn, and that it is laid over the image as by composite. */
#include "tests/fixtures/gpu/both_engines.h"

#include "gpu/plan/op.h"
#include "tests/fixtures/gpu/overlay.h"

/* ---- what is drawn ---- */

static struct plan_text asked;
static char asked_text[TEXT_BYTES_MAX + 1];

static enum status note(void *context, const struct plan_overlay_request *request,
                        struct plan_overlay *overlay, struct error *error)
{
    (void)context, (void)error;
    assert_non_null(request->text);
    assert_null(request->place.path);
    assert_null(request->place.key);
    assert_int_equal(request->width, 0);
    asked = *request->text;
    strcpy(asked_text, asked.text);
    *overlay = test_overlay("colour-9x9", 0);
    return STATUS_OK;
}

static void ask(const char *text)
{
    static const struct plan_overlays overlays = {.find = note};
    struct plan plan;
    struct error error = {0};
    struct op_item *ops = test_ops(text);
    struct plan_target target = {.ops = ops, .overlays = &overlays};
    if (plan_build(&plan, SOURCE(40, 30, 3), &target, 1, &test_limits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_int_equal(plan.variants[0].pass_count, 1);
    plan_clear(&plan);
    op_list_free(ops);
}

TEST(test_asked)
{
    ask("[{'op':'text','text':'a\\nb \xe4\xbd\xa0'}]");
    struct plan_text wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.style = (struct text_style){.font = "Sans", .rgba = {0, 0, 0, 255}, .size = 32};
    assert_string_equal(asked_text, "a\nb \xe4\xbd\xa0");
    assert_memory_equal(&asked.style, &wanted.style, sizeof wanted.style); /* padding, too */
    ask("[{'op':'text','font':'Noto Serif, DejaVu Serif "
        "Bold','size':7,'color':[1,2,3,4],'width':99,"
        "'text':'x','align':'right','spacing':5}]");
    assert_string_equal(asked_text, "x");
    assert_string_equal(asked.style.font, "Noto Serif, DejaVu Serif Bold");
    assert_memory_equal(asked.style.rgba, ((uint8_t[]){1, 2, 3, 4}), 4);
    assert_int_equal(asked.style.size, 7);
    assert_int_equal(asked.style.width, 99);
    assert_int_equal(asked.style.align, TEXT_RIGHT);
    assert_int_equal(asked.style.spacing, 5);
    ask("[{'op':'text','text':'x','color':[1,2,3],'align':'center','font':'Source Sans 3,'}]");
    assert_memory_equal(asked.style.rgba, ((uint8_t[]){1, 2, 3, 255}), 4);
    assert_int_equal(asked.style.align, TEXT_CENTER);
}

/* ---- how it is laid ---- */

static struct raster run(struct engine *engine, const uint32_t sides[2], uint32_t channels,
                         const char *ops)
{
    struct gpu_run run;
    gpu_run_open(&run, engine, SOURCE(sides[0], sides[1], channels),
                 &(struct plan_target){.overlays = &test_overlays}, ops);
    gpu_run_finish(&run);
    struct raster raster = raster_of(run.result);
    gpu_run_close(&run);
    return raster;
}

static void all_like_composite(struct engine *engine)
{
    static const uint32_t sides[][2] = {{100, 60}, {12, 7}, {641, 3}};
    static const char *const params[] = {
        "",
        ",'x':3,'y':-2",
        ",'gravity':'southeast','x':3,'y':2",
        ",'gravity':'north'",
        ",'opacity':0.4",
        ",'tile':true,'x':1",
    };
    char where[100];
    for (size_t i = 0; i < COUNT_OF(sides); i++)
        for (size_t p = 0; p < COUNT_OF(params); p++)
            each_channels (channels) {
                struct raster text =
                    run(engine, sides[i], channels,
                        text_of("[{'op':'text','text':'colour-40x20'%s}]", params[p]));
                struct raster wanted =
                    run(engine, sides[i], channels,
                        text_of("[{'op':'composite','input':'colour-40x20'%s}]", params[p]));
                if (raster_differ(&text, &wanted, 0, where, sizeof where) != 0)
                    fail_msg("%s: %s", params[p], where);
                raster_clear(&text);
                raster_clear(&wanted);
            }
}
ON_BOTH(like_composite)

/* ---- errors ---- */

TEST(test_refused)
{
    static const struct test_refusal refusals[] = {
        {"['text']", "text is missing; it must be a string"},
        {"[{'op':'text','text':7}]", "text is a number; it must be a string"},
        {"[{'op':'text','text':''}]", "text has 0 bytes; it must have 1 to 4096"},
        {"[{'op':'text','text':'a\\r'}]", "text has the control character U+000D; it must have no"},
        {"[{'op':'text','text':'a\x7f'}]", "text has the control character U+007F"},
        {"[{'op':'text','text':'a\\u0085'}]", "text has the control character U+0085"},
        {"[{'op':'text','text':'a','font':''}]", "font has 0 bytes; it must have 1 to 128"},
        {"[{'op':'text','text':'a','font':'Sans 12'}]",
         "font ends with the size \"12\"; it must be"},
        {"[{'op':'text','text':'a','font':'Sans Bold 9.5px'}]",
         "font ends with the size \"9.5px\""},
        {"[{'op':'text','text':'a','font':'7'}]", "font ends with the size \"7\""},
        {"[{'op':'text','text':'a','size':0}]", "size is 0; it must be an integer of 1 to 2000"},
        {"[{'op':'text','text':'a','align':'justify'}]", "align is \"justify\"; it must be left, "},
        {"[{'op':'text','text':'a','width':65501}]", "width is 65501; it must be an integer of 1 "},
        {"[{'op':'text','text':'a','scale':1}]", "there is no parameter \"scale\""},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
