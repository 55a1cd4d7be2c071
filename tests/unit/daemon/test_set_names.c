/* Tests of the names of a job with many images, up to their bound. */
#include "daemon/sets/set_names.h"

#include "tests/fixtures/test.h"

static enum set_names_result add(struct set_names *names, const char *format, uint32_t index,
                                 bool is_distinct)
{
    char name[32];
    snprintf(name, sizeof name, format, index);
    return set_names_add(names, 'p', name, is_distinct);
}

TEST(test_kinds)
{
    struct set_names names = {0};
    assert_int_equal(set_names_add(&names, 'p', "a", false), NAME_IS_NEW);
    assert_int_equal(set_names_add(&names, 'k', "a", true), NAME_IS_NEW);
    assert_int_equal(set_names_add(&names, 'p', "a", false), NAME_IS_KNOWN);
    assert_int_equal(set_names_add(&names, 'k', "a", true), NAME_IS_KNOWN);
    assert_int_equal(set_names_add(&names, 'u', "a", false), NAME_IS_NEW);
    set_names_clear(&names);
    assert_int_equal(set_names_add(&names, 'p', "a", false), NAME_IS_NEW);
    set_names_clear(&names);
}

/* At the bound, an equal name is still found, and no other is taken for a new one. */
TEST(test_the_bound)
{
    struct set_names names = {0};
    for (uint32_t i = 0; i < SET_NAMES_MAX; i++)
        assert_int_equal(add(&names, "a/%u.png", i, false), NAME_IS_NEW);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(add(&names, "a/%u.png", i * 262, false), NAME_IS_KNOWN);
        assert_int_equal(add(&names, "b/%u.png", i, false), NAME_LACKS_PLACE);
    }
    assert_int_equal(names.count, SET_NAMES_MAX);
    assert_int_equal(names.places, 2 * SET_NAMES_MAX);
    set_names_clear(&names);
}

/* Names with an index leave all places to the others, with which the first are still compared. */
TEST(test_distinct_names)
{
    struct set_names names = {0};
    for (uint32_t i = 0; i < 2 * SET_NAMES_MAX; i++)
        assert_int_equal(add(&names, "n/%06u.png", i, true), NAME_IS_NEW);
    for (uint32_t i = 0; i < SET_NAMES_MAX; i++)
        assert_int_equal(add(&names, "p/%u.png", i, false), NAME_IS_NEW);
    assert_int_equal(names.places, 2 * SET_NAMES_MAX);
    assert_int_equal(add(&names, "p/%u.png", 5, true), NAME_IS_KNOWN);
    assert_int_equal(add(&names, "n/%06u.png", 17, false), NAME_IS_KNOWN);
    assert_int_equal(add(&names, "p/x%u.png", 5, false), NAME_LACKS_PLACE);
    set_names_clear(&names);
}

TEST_MAIN(.name = "set_names")
