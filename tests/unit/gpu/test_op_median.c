/* Tests of median: both engines against sorting. */
#include "tests/fixtures/gpu/neighbours.h"

static int reference(const struct channel *in, int x, int y, const void *recipe)
{
    int size = *(const int *)recipe, values[25], count = 0;
    for (int j = -(size / 2); j <= size / 2; j++)
        for (int i = -(size / 2); i <= size / 2; i++) {
            int value = CHANNEL_AT(in, x + i, y + j), at = count++;
            for (; at > 0 && values[at - 1] > value; at--)
                values[at] = values[at - 1];
            values[at] = value;
        }
    return values[count / 2];
}

static const int three = 3, five = 5;
static const struct neighbours_op
    median = {"[\"median\"]", reference, &three, "replicate"},
    median_3 = {"[{\"op\":\"median\",\"size\":3}]", reference, &three, "replicate"},
    median_5 = {"[{\"op\":\"median\",\"size\":5}]", reference, &five, "replicate"};

static void all_median(struct engine *engine)
{
    neighbours_sweep(engine, &median, 3, false);
    neighbours_sweep(engine, &median_3, 1, true);
    neighbours_sweep(engine, &median_5, 1, true);
}

static void sweep_behind(struct engine *engine, struct behind behind)
{
    neighbours_sweep_behind(engine, behind, &median, 1, true);
    neighbours_sweep_behind(engine, behind, &median_5, 1, true);
}

ON_BOTH(median)
ON_BOTH_BEHIND(sweep_behind)

TEST(test_refused)
{
    static const struct test_refusal refusals[] = {
        {"[{\"op\":\"median\",\"size\":4}]", "size is 4; it must be 3 or 5"},
        {"[{\"op\":\"median\",\"size\":3.5}]", "size is 3.5; it must be 3 or 5"},
        {"[{\"op\":\"median\",\"size\":7}]", "size is 7; it must be 3 to 5"},
        {"[{\"op\":\"median\",\"size\":\"3\"}]", "size is a string; it must be a number"},
        {"[{\"op\":\"median\",\"ksize\":3}]", "no parameter \"ksize\""},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
