/*
 * test_set_results.c - what the result of a job with many images says about images that are denied,
 * links, or not there at all.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define IMAGES 6

static void fill(void)
{
    for (uint32_t i = 0; i < IMAGES; i++) {
        put_jpeg(text_of("a/%u.jpg", i), .width = 40, .height = 30, .seed = i + 1);
        put_jpeg(text_of("top%u.jpg", i), .width = 30, .height = 40, .seed = i + 1);
    }
}

/* ---- permissions ---------------------------------------------------------------------------- */

/* Only the image without permission fails, at the first attempt. */
TEST(test_a_denied_input)
{
    struct process *daemon = start_unprivileged("--attempts=3");
    assert_int_equal(chmod(in_path("a/3.jpg"), 0), 0);
    cJSON *result = check_answer(w, "{'inputs':{'folder':'a'},'output':'d/%%p.png'}");
    check_has(result, "{'status':'done','attempt':1,'images.done':5,'images.failed':1,"
                      "'images.errors.0.image':3,'images.errors.0.error.code':'input_unreadable'}");
    assert_non_null(strstr(json_text(result, "images.errors.0.error.message"),
                           "\"a/3.jpg\" cannot be opened: Permission denied"));
    cJSON_Delete(result);
    assert_int_equal(chmod(in_path("a/3.jpg"), 0644), 0);
    check_stop(daemon);
}

/* The outputs of two images are in a folder without permission. */
TEST(test_a_denied_output)
{
    struct process *daemon = start_unprivileged("--attempts=3");
    assert_int_equal(mkdir(out_path("a"), 0555), 0);
    cJSON *result = check_answer(w, "{'inputs':['a/0.jpg','top0.jpg','a/1.jpg'],"
                                    "'output':'%%p.png','ops':['invert']}");
    check_has(result, "{'status':'done','attempt':1,'images.done':1,'images.failed':2,"
                      "'images.errors.0.error.code':'write_failed'}");
    cJSON_Delete(result);
    assert_int_equal(access(out_path("top0.png"), F_OK), 0);
    check_stop(daemon);
}

WORLD_MAIN(EMPTY_WORLD, .fill = fill)
