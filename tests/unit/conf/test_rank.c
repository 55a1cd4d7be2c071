/* Tests of ranks: the order of a line, and the shares of the priorities. */
#include "conf/ranks.h"
#include "tests/fixtures/test.h"

struct item {
    struct list_node node;
    struct rank rank;
};

#define ITEM_RANK RANK_OFFSET(struct item, node, rank)

static void push(struct list *line, struct item *item)
{
    rank_push(line, &item->node, ITEM_RANK);
}

/* A new item of this priority comes. */
static void add(struct ranks *ranks, struct list *line, struct item *item, uint32_t priority)
{
    item->rank = ranks_next(ranks, priority);
    push(line, item);
}

static struct rank serve(struct ranks *ranks, struct list *line)
{
    struct item *item = container_of(list_pop(line), struct item, node);
    ranks_serve(ranks, &item->rank);
    return item->rank;
}

TEST(one_priority_keeps_its_order)
{
    static struct item items[100];
    struct ranks ranks = {0};
    struct list line;
    list_init(&line);
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        add(&ranks, &line, &items[i], 4);
        if (i % 3 == 0)
            serve(&ranks, &line);
    }
    uint64_t last = 0;
    while (!list_empty(&line)) {
        uint64_t at = serve(&ranks, &line).at;
        assert_true(at > last);
        last = at;
    }
}

/* Of jobs that come all the time, list 9 gets 32 of 33 turns beside NS:jobs, and list 5 two of
 * three. Nobody starves. */
TEST(shares_are_those_of_fetch)
{
    static const struct {
        uint32_t priority;
        size_t served;
    } cases[] = {{9, 320}, {5, 220}, {3, 110}};
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        static struct item items[1000];
        struct ranks ranks = {0};
        struct list line;
        size_t used = 0, of_other = 0;
        list_init(&line);
        for (int i = 0; i < 64; i++) { /* jobs of NS:jobs wait */
            add(&ranks, &line, &items[used++], PRIORITY_DEFAULT);
        }
        for (int turn = 0; turn < 330; turn++) { /* one of each comes, one goes */
            add(&ranks, &line, &items[used++], cases[c].priority);
            add(&ranks, &line, &items[used++], PRIORITY_DEFAULT);
            of_other += serve(&ranks, &line).priority == cases[c].priority;
        }
        assert_in_range(of_other, cases[c].served - 32, cases[c].served + 2);
    }
}

/* The first urgent job goes before all that wait, but not before an earlier urgent one. */
TEST(an_urgent_one_goes_next)
{
    static struct item items[10], urgent[2];
    struct ranks ranks = {0};
    struct list line;
    list_init(&line);
    for (size_t i = 0; i < COUNT_OF(items); i++)
        add(&ranks, &line, &items[i], 4);
    serve(&ranks, &line);
    for (size_t i = 0; i < COUNT_OF(urgent); i++)
        add(&ranks, &line, &urgent[i], 9);
    assert_ptr_equal(list_first(&line), &urgent[0].node);
    assert_ptr_equal(list_first(&line)->next, &urgent[1].node);
    assert_ptr_equal(list_first(&line)->next->next, &items[1].node);
}

/* A job of NS:jobs:0 that waits among those of NS:jobs does not shield them from an urgent one. */
TEST(a_late_one_shields_nobody)
{
    static struct item items[60], late, urgent;
    struct ranks ranks = {0};
    struct list line;
    list_init(&line);
    for (size_t i = 0; i < COUNT_OF(items); i++)
        add(&ranks, &line, &items[i], 4);
    add(&ranks, &line, &late, 0);
    for (int i = 0; i < 17; i++)
        serve(&ranks, &line);
    add(&ranks, &line, &urgent, 9);
    size_t before = 0;
    while (serve(&ranks, &line).priority != 9)
        before++;
    assert_in_range(before, 0, 1); /* the late one may have its turn */
}

/* A job that returns to a line does not go before others of its priority. */
TEST(a_returning_one_goes_to_the_end)
{
    static struct item items[3];
    struct ranks ranks = {0};
    struct list line;
    list_init(&line);
    for (size_t i = 0; i < COUNT_OF(items); i++)
        add(&ranks, &line, &items[i], 4);
    list_pop(&line);
    push(&line, &items[0]);
    assert_ptr_equal(list_first(&line), &items[1].node);
    assert_ptr_equal(line.head.prev, &items[0].node);
}

/* Such a job has a lower rank than those before it, but does not shield them from an urgent one. */
TEST(a_returning_one_shields_nobody)
{
    static struct item items[3], urgent;
    struct ranks ranks = {0};
    struct list line;
    list_init(&line);
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        items[i].rank = ranks_next(&ranks, 4);
        push(&line, &items[i]);
    }
    serve(&ranks, &line);
    push(&line, &items[0]);
    urgent.rank = ranks_next(&ranks, 9);
    push(&line, &urgent);
    assert_ptr_equal(list_first(&line), &urgent.node);
}

TEST_MAIN(.name = "rank")
