/* Tests of the lists with a priority: the shares of FETCH, and the list of a job that returns. */
#include "tests/fixtures/queue/script_bench.h"

#define LISTS 11
/* The place of t:jobs in arrays. The other lists have the place of their priority. */
#define PLAIN (LISTS - 1)
/* Entries of all lists between two entries of list 0: 1 + 2 + 4 + ... + 512, and 16 of t:jobs. */
#define PERIOD (1023 + 16)

static const char *list_name(size_t list)
{
    return list == PLAIN ? "t:jobs" : text_of("t:jobs:%zu", list);
}

/* Pushes jobs whose text is "P-NUMBER", where P is the priority, or "n" for t:jobs. */
static void push_to(size_t list, int count)
{
    static int pushed;
    const char *name = list == PLAIN ? "n" : text_of("%zu", list);
    for (int i = 0; i < count; i++)
        freeReplyObject(redis_command(redis, "LPUSH %s %s-%d", list_name(list), name, pushed++));
}

/* Fetches and adds the jobs of each list to `taken`. Writes the lists of the jobs to `order`. */
static void take(int places, int taken[LISTS], char *order)
{
    static int counter = 1;
    redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS,
                             text_of("t A %d %d 10000 3 20 1 0 none", counter++, places));
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    for (size_t i = FETCH_HEAD; i < reply->elements; i += 3) {
        char list = *reply->element[i + 2]->str;
        taken[list == 'n' ? PLAIN : list - '0']++;
        if (order)
            *order++ = list;
    }
    if (order)
        *order = '\0';
    freeReplyObject(reply);
}

/* Over a period each list gives exactly its weight, for any size of the calls. */
TEST(test_shares_are_exact)
{
    static const int sizes[] = {1, 3, 16, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int taken[LISTS] = {0}, left = PERIOD;
        freeReplyObject(redis_command(redis, "FLUSHALL"));
        for (size_t list = 0; list < LISTS; list++)
            push_to(list, 1100);
        for (; left > 0; left -= sizes[i])
            take(left < sizes[i] ? left : sizes[i], taken, NULL);
        for (size_t list = 0; list < PLAIN; list++)
            assert_int_equal(taken[list], 1 << list);
        assert_int_equal(taken[PLAIN], 16);
    }
}

/* Each pair of lists shares in the ratio of its weights. */
TEST(test_shares_of_two_lists)
{
    for (size_t high = 1; high < 10; high++) {
        int taken[LISTS] = {0};
        freeReplyObject(redis_command(redis, "FLUSHALL"));
        push_to(0, 8);
        push_to(high, 4 << high);
        for (int i = 0; i < 4 + (4 << high); i += 4)
            take(4, taken, NULL);
        assert_int_equal(taken[0], 4);
        assert_int_equal(taken[high], 4 << high);
    }
}

TEST(test_an_urgent_job_goes_next)
{
    int taken[LISTS] = {0};
    char order[65];
    push_to(0, 600);
    push_to(PLAIN, 600);
    for (int i = 0; i < 100; i++)
        take(3, taken, NULL);
    for (int i = 0; i < 20; i++) {
        push_to(9, 1);
        take(2, taken, order);
        assert_int_equal(order[0], '9');
    }
    assert_true(taken[0] > 15 && taken[PLAIN] > 15 * taken[0]);
}

/* A list that is never empty cannot hold up another one. */
TEST(test_no_list_starves)
{
    int taken[LISTS] = {0};
    push_to(0, 4);
    for (int i = 0; i < 2 * 513; i++) {
        push_to(9, 1); /* there is always one, and always room for one job only */
        push_to(9, i == 0);
        take(1, taken, NULL);
    }
    assert_int_equal(taken[0], 2);
    assert_int_equal(taken[9], 1024);
}

/* A list gains no share in the time in which it has no jobs, and old positions do not last. */
TEST(test_an_empty_list_saves_nothing)
{
    int taken[LISTS] = {0};
    push_to(4, 600);
    push_to(PLAIN, 600);
    for (int i = 0; i < 20; i++)
        take(50, taken, NULL);
    assert_int_equal(taken[4], 500);
    push_to(5, 100); /* two of its jobs for one of each other list */
    memset(taken, 0, sizeof taken);
    take(40, taken, NULL);
    assert_int_equal(taken[5], 20);
    assert_int_equal(taken[4], 10);
    expect("1", "EXISTS t:shares");
    for (int i = 0; i < 10; i++)
        take(50, taken, NULL);
    expect("0", "EXISTS t:shares"); /* fewer than two lists have jobs */
}

TEST(test_positions_of_another_type_or_text)
{
    int taken[LISTS] = {0};
    static const char *const values[] = {"SET t:shares x", "SET t:shares 99999999999999999999",
                                         "LPUSH t:shares a", "SET t:shares 1e300"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        freeReplyObject(redis_command(redis, "FLUSHALL"));
        push_to(9, 600);
        push_to(0, 600);
        freeReplyObject(redis_command(redis, values[i]));
        memset(taken, 0, sizeof taken);
        for (int call = 0; call < 18; call++)
            take(64, taken, NULL);
        assert_int_equal(taken[9], 600);
        assert_int_equal(taken[0], 552);
    }
}

/* The fields of the reply: all jobs left, and those of each list. */
TEST(test_lengths)
{
    push_to(PLAIN, 2);
    push_to(9, 1);
    push_to(3, 4);
    expect("OK", "SET t:jobs:5 text");
    redisReply *reply = eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 1 2 10000 3 20 1 0 none");
    assert_int_equal(reply->element[0]->integer, 5);
    const redisReply *lengths = reply->element[FETCH_LENGTHS];
    assert_int_equal(lengths->elements, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(lengths->element[i]->integer, i == 3 ? 4 : i == 5 ? -1 : 0);
    assert_string_equal(reply->element[FETCH_LISTS]->str, "9-"); /* of the two leases */
    assert_int_equal(reply->element[FETCH_NUMBER]->integer, 2);
    freeReplyObject(reply);
    expect("OK", "SET t:watcher A");
    expect_eval(SCRIPT_ID_LOOK, LOOK_KEYS, "", "1 5 -1 0 0 0 0 4 0 -1 0 0 0 0");
    expect("OK", "SET t:paused 1");
    expect_eval(SCRIPT_ID_LOOK, LOOK_KEYS, "", "0 5 -1 1 0 0 0 4 0 -1 0 0 0 0");
    expect_eval(SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 2 10000 3 20 1 0 none",
                "5 -1 0 0 -1 1 0 0 0 0 4 0 -1 0 0 0 0  -1");
}

static void fetch_one(const char *list, const char *token)
{
    expect("1", "LPUSH %s job", list);
    freeReplyObject(fetch_some(text_of("t %s 1 10000 3 20 1 0 none", token), 1));
    expect("0", "EXISTS %s", list);
}

TEST(test_a_job_returns_to_its_list)
{
    /* Given back by NACK. */
    fetch_one("t:jobs:7", "A 1");
    expect("7", "HGET t:job:1 list");
    nack("1", "A:1", "back", "0 1");
    expect("@1", "LRANGE t:jobs:7 0 -1");
    /* A retry, which is delayed first. */
    freeReplyObject(fetch_some("t A 2 1 10000 3 20 1 0 none", 1));
    nack("1", "A:2", "retry", "0 1");
    expect("0", "ZADD t:delayed 1 1");
    expect("1", "RPUSH t:jobs:7 first");
    freeReplyObject(fetch_some("t A 3 0 10000 3 20 1 0 none", 0));
    expect("first @1", "LRANGE t:jobs:7 0 -1");
    /* RESUME. */
    freeReplyObject(fetch_some("t A 4 1 10000 4 20 1 0 none", 1));
    expect_eval(SCRIPT_ID_RESUME, RESUME_KEYS, "t A 4 9", "1 0");
    expect("first @1", "LRANGE t:jobs:7 0 -1");
}

TEST(test_a_reaped_job_returns_to_its_list)
{
    fetch_one("t:jobs:0", "A 1");
    expire("1");
    reap("B", 1, "", "1 0");
    expect("@1", "LRANGE t:jobs:0 0 -1");
    expect("0", "EXISTS t:jobs");
    /* A list whose key has another type: the job goes to t:jobs. */
    freeReplyObject(fetch_some("t A 2 1 10000 3 20 1 0 none", 1));
    expect("OK", "SET t:jobs:0 text");
    nack("1", "A:2", "back", "0 1");
    expect("@1", "LRANGE t:jobs 0 -1");
}

#define START_KEYS "t:lease t:delayed t:cancel t:job:1 t:waits:x t:unique:x t:result:x"

/* START delays the job. When it is due, or woken, it returns to its list. */
TEST(test_a_delayed_job_returns_to_its_list)
{
    fetch_one("t:jobs:8", "A 1");
    expect_eval(SCRIPT_ID_START, START_KEYS, "t 1000 1 A:1 x 0 99999999999999 -1", "2 ");
    expect_eval(SCRIPT_ID_CANCEL, "t:jobs t:cancel t:woken t:waits:x t:result:x", "x", "nil");
    redisReply *reply = fetch_some("t A 2 1 10000 3 20 1 0 none", 1);
    assert_string_equal(reply->element[FETCH_HEAD]->str, "1");
    freeReplyObject(reply);
    expect("8", "HGET t:job:1 list");
    expect_eval(SCRIPT_ID_START, START_KEYS, "t 1000 1 A:2 x 0 99999999999999 -1", "5 ");
}

TEST(test_a_dead_job_is_retried_in_its_list)
{
    fetch_one("t:jobs:6", "A 1");
    redis_integer(redis, "HSET t:job:1 attempt 3");
    nack("1", "A:1", "retry", "0 2");
    fetch_one("t:jobs", "A 2");
    redis_integer(redis, "HSET t:job:2 attempt 3 raw other");
    nack("2", "A:2", "retry", "0 2");
    expect_eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "'' oldest", "1");
    expect("job", "LRANGE t:jobs:6 0 -1");
    expect_eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "other 1", "1");
    expect("other", "LRANGE t:jobs 0 -1");
    expect("0", "EXISTS t:dead t:dead:errors");
    expect_eval(SCRIPT_ID_REVIVE, "t:dead t:jobs", "'' oldest", "0");
}

/* ---- cancels -------------------------------------------------------------------------------- */

static void cancel_x(void)
{
    expect_eval(SCRIPT_ID_CANCEL, "t:jobs t:cancel t:woken t:waits:x t:result:x", "x", "nil");
}

/* Asks START about a job with the id x. */
static void start_x(const char *number, const char *token, const char *expected)
{
    expect_eval(SCRIPT_ID_START,
                text_of("t:lease t:delayed t:cancel t:job:%s t:waits:x t:unique:x t:result:x",
                        number), text_of("t 1000 %s %s x 0 -1 -1", number, token), expected);
}

static void fetch_number(const char *number, int counter)
{
    redisReply *reply = fetch_some(text_of("t A %d 1 10000 3 20 1 0 none", counter), 1);
    assert_string_equal(reply->element[FETCH_HEAD]->str, number);
    freeReplyObject(reply);
}

/* A cancel applies to the jobs that were pushed before it, whichever list is taken first. */
TEST(test_a_cancelled_job_may_be_pushed_to_another_list)
{
    expect("1", "LPUSH t:jobs:2 old");
    cancel_x();
    expect("1", "LPUSH t:jobs:9 new");
    fetch_number("1", 1); /* of list 9 */
    start_x("1", "A:1", "1 ");
    fetch_number("2", 2); /* the fence in t:jobs is taken, too */
    start_x("2", "A:2", "5 ");
    expect("2", "LPUSH t:jobs:2 newer"); /* with the fence of that list */
    fetch_number("3", 3);
    start_x("3", "A:3", "1 ");
    start_x("2", "A:2", "5 ");
    expect("0", "EXISTS t:jobs t:jobs:2");
}

TEST(test_a_running_job_with_a_priority_is_cancelled)
{
    fetch_one("t:jobs:9", "A 1");
    cancel_x();
    start_x("1", "A:1", "5 ");
    expect("1", "LPUSH t:jobs:9 again");
    fetch_number("2", 2);
    start_x("2", "A:2", "1 ");
}

TEST(test_a_cancel_by_an_older_client)
{
    fetch_one("t:jobs:9", "A 1");
    expect("1", "ZADD t:cancel 1 x");
    start_x("1", "A:1", "5 ");
}

/* If all lists are empty, no job was before a fence that somebody deleted. */
TEST(test_a_fence_that_is_gone)
{
    expect("1", "LPUSH t:jobs:3 a");
    expect("OK", "SET t:jobs:4 text"); /* gets no fence */
    cancel_x();
    expect("3", "ZCARD t:cancel");
    expect("1", "DEL t:jobs:3");
    freeReplyObject(fetch_some("t A 1 1 10000 3 20 1 0 none", 0));
    expect("0", "ZSCORE t:cancel x\n3");
    expect("1", "LPUSH t:jobs:3 b");
    fetch_number("1", 2);
    start_x("1", "A:2", "1 ");
}

TEST_MAIN(.name = "priority", .setup = start_server, .teardown = stop_server, .each_setup = empty)
