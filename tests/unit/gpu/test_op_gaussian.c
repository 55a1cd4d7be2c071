/* Tests of gaussian and unsharp: both engines against two sums per pixel, with weights computed
 * here in long double. */
#include "tests/fixtures/gpu/neighbours.h"

#include <math.h>

struct recipe {
    int ksize;
    double sigma;
    double amount; /* < 0: no unsharp mask */
    int weights[31];
};

/* The weights, rounded from the ends inwards; each rounding error goes to the next weight. */
static void make_weights(struct recipe *recipe)
{
    static const int fixed[4][9] = {{64, 128, 64},
                                    {16, 64, 96, 64, 16},
                                    {8, 28, 56, 72, 56, 28, 8},
                                    {4, 13, 30, 51, 60, 51, 30, 13, 4}};
    int n = recipe->ksize, left = 256;
    if (recipe->sigma == 0 && n <= 9) {
        for (int i = 0; i < n; i++)
            recipe->weights[i] = fixed[n / 2 - 1][i];
        return;
    }
    long double exact[31], sum = 0, carried = 0;
    long double sigma = recipe->sigma > 0 ? recipe->sigma : 0.3L * ((n - 1) * 0.5L - 1) + 0.8L;
    for (int i = 0; i < n; i++)
        sum += exact[i] = expl(-(i - n / 2) * (i - n / 2) / (2 * sigma * sigma));
    for (int i = 0; i < n / 2; i++) {
        long double wanted = exact[i] / sum * 256 + carried;
        recipe->weights[i] = recipe->weights[n - 1 - i] = (int)lrintl(wanted);
        carried = wanted - recipe->weights[i];
        left -= 2 * recipe->weights[i];
    }
    recipe->weights[n / 2] = left;
}

static int reference(const struct channel *in, int x, int y, const void *context)
{
    const struct recipe *recipe = context;
    int radius = recipe->ksize / 2;
    int64_t sum = 32768;
    for (int j = -radius; j <= radius; j++)
        for (int i = -radius; i <= radius; i++)
            sum += (int64_t)recipe->weights[j + radius] * recipe->weights[i + radius] *
                   CHANNEL_AT(in, x + i, y + j);
    int blurred = (int)(sum / 65536);
    if (recipe->amount < 0)
        return blurred;
    int s = CHANNEL_AT(in, x, y);
    int value = s + (int)floor((floor(recipe->amount * 256 + 0.5) * (s - blurred) + 128) / 256);
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static void sweep_behind(struct engine *engine, struct behind behind, struct recipe recipe,
                         size_t step, bool with_large)
{
    make_weights(&recipe);
    const char *amount = recipe.amount < 0 ? "" : text_of(",'amount':%.17g", recipe.amount);
    const char *ops = text_of("[{'op':'%s','ksize':%d,'sigma':%.17g%s}]",
                              *amount ? "unsharp" : "gaussian", recipe.ksize, recipe.sigma, amount);
    struct neighbours_op op = {ops, reference, &recipe, "reflect101"};
    neighbours_sweep_behind(engine, behind, &op, step, with_large);
}

static void sweep(struct engine *engine, struct recipe recipe, size_t step, bool with_large)
{
    sweep_behind(engine, behind_nothing, recipe, step, with_large);
}

static void all_gaussian(struct engine *engine)
{
    static const double sigmas[] = {0, 0.4, 1, 2.3, 1000};
    struct recipe five = {.ksize = 5, .amount = -1};
    make_weights(&five);
    neighbours_sweep(engine, &(struct neighbours_op){"[\"gaussian\"]", reference, &five,
                                                     "reflect101"}, 1, true);
    for (int ksize = 3; ksize <= 31; ksize += 2)
        for (int s = 0; s < 5; s++)
            sweep(engine, (struct recipe){.ksize = ksize, .sigma = sigmas[s], .amount = -1},
                  ksize > 9 ? 9 : 5, ksize == 7 && s == 2);
    sweep(engine, (struct recipe){.ksize = 31, .sigma = 5, .amount = -1}, 2, false);
    sweep(engine, (struct recipe){.ksize = 17, .sigma = 5, .amount = -1}, 2, false);
}

static void all_unsharp(struct engine *engine)
{
    static const double amounts[] = {0, 0.5, 1, 2.3, 16};
    for (int a = 0; a < 5; a++) {
        sweep(engine, (struct recipe){.ksize = 5, .amount = amounts[a]}, 2, a == 2);
        sweep(engine, (struct recipe){.ksize = 9, .sigma = 3, .amount = amounts[a]}, 5, false);
        sweep(engine, (struct recipe){.ksize = 21, .sigma = 4, .amount = amounts[a]}, 9, false);
    }
}

/* Every one of the four kernel widths. */
static void sweep_widths(struct engine *engine, struct behind behind)
{
    static const int sizes[] = {3, 5, 9, 13, 31};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        sweep_behind(engine, behind, (struct recipe){.ksize = sizes[i], .amount = -1},
                     sizes[i] > 9 ? 5 : 1, sizes[i] == 5);
    sweep_behind(engine, behind, (struct recipe){.ksize = 31, .sigma = 9, .amount = -1}, 3, false);
    sweep_behind(engine, behind, (struct recipe){.ksize = 5, .amount = 1.5}, 1, false);
    sweep_behind(engine, behind, (struct recipe){.ksize = 15, .sigma = 3, .amount = 4}, 5, false);
}

ON_BOTH(gaussian)
ON_BOTH(unsharp)
ON_BOTH_BEHIND(sweep_widths)

/* A sigma so small that the kernel is one pixel adds no pass; a larger one adds a pass. */
TEST(test_narrow_ones_are_nothing)
{
    static const char *const names[] = {"gaussian", "unsharp"};
    for (int i = 0; i < 4; i++) {
        struct plan plan;
        test_plan(&plan, SOURCE(9, 9, 3), NULL,
                  text_of("[{'op':'%s','sigma':%s}]", names[i / 2], i % 2 ? "0.1" : "0.5"));
        assert_int_equal(plan.variants[0].pass_count, i % 2 ? 0 : 1);
        plan_clear(&plan);
    }
}

TEST(test_refused)
{
    static const struct test_refusal refusals[] = {
        {"[{\"op\":\"gaussian\",\"ksize\":4}]", "ksize is 4; it must be an odd integer of 3 to 31"},
        {"[{\"op\":\"gaussian\",\"ksize\":5.5}]", "ksize is 5.5; it must be an odd integer"},
        {"[{\"op\":\"gaussian\",\"ksize\":1}]", "ksize is 1; it must be 3 to 31"},
        {"[{\"op\":\"gaussian\",\"ksize\":33}]", "ksize is 33; it must be 3 to 31"},
        {"[{\"op\":\"gaussian\",\"ksize\":\"5\"}]", "ksize is a string"},
        {"[{\"op\":\"gaussian\",\"sigma\":-1}]", "sigma is -1; it must be 0 to 1000"},
        {"[{\"op\":\"gaussian\",\"sigma\":[1]}]", "sigma is an array"},
        {"[{\"op\":\"gaussian\",\"amount\":1}]", "there is ksize or sigma"},
        {"[{\"op\":\"unsharp\",\"amount\":17}]", "amount is 17; it must be 0 to 16"},
        {"[{\"op\":\"unsharp\",\"amount\":-0.1}]", "amount is -0.1"},
        {"[{\"op\":\"unsharp\",\"ksize\":6}]", "unsharp: ksize is 6"},
    };
    check_refused(refusals, COUNT_OF(refusals));
}

TEST_MAIN(.setup = engines_open, .teardown = engines_close)
