/*
 * Tests of ACL users with too few permissions: whichever command or key Redis denies to a script,
 * no job is lost and none is answered twice.
 *
 * Each case lays out jobs in all states, denies one command or one family of keys, and calls one
 * script. Then the user gets all permissions, the call is repeated, as a daemon does, and a second
 * daemon works until nothing is left. Each job must have one result, and no key of a job is left.
 */
#include <ctype.h>

#include "tests/fixtures/queue/script_bench.h"

#define USER "ACL SETUSER worker reset on nopass &* "

static redisContext *worker; /* logged in as the user that a case restricts */

/* The text of a job is "j" and its number, or the name of an entry without a number. A and C are
 * daemons; C is gone. */
static const char layout[] =
    "local function job(n, state, attempt, ...) "
    "  redis.call('HSET', 't:job:' .. n, 'raw', 'j' .. n, 'state', state, 'attempt', attempt, ...) "
    "end "
    "local function lease(n, owner, attempt, ends, ...) "
    "  job(n, 'leased', attempt, 'owner', owner, 'token', owner .. ':1', ...) "
    "  redis.call('ZADD', 't:lease', ends, n) redis.call('SADD', 't:leases:' .. owner, n) "
    "end "
    "local function delay(n, due, attempt, ...) "
    "  job(n, 'delayed', attempt, ...) redis.call('ZADD', 't:delayed', due, n) "
    "end "
    "redis.call('SET', 't:seq', 100) "
    "redis.call('ZADD', 't:inst', 1e13, 'A', 1e13, 'B', 1, 'C') "
    "redis.call('RPUSH', 't:jobs', 'f1', 'f2', '@cancel:4000000000000001:z', 'f3', '@1') "
    "redis.call('ZADD', 't:cancel', 4000000000000001, 'z') "
    "redis.call('RPUSH', 't:jobs:9', 'p1', '@2', 'p2') redis.call('RPUSH', 't:jobs:2', 'p3') "
    "job(1, 'ready', 1) job(2, 'ready', 0, 'list', 9) "
    "delay(3, 1, 1) delay(4, 2, 2, 'crashed', 1) delay(5, 3, 0, 'waits', 'u', 'follows', 12) "
    "redis.call('SADD', 't:waits:u', 5) "
    "for n = 6, 7 do "
    "  delay(n, 1e13, 0, 'waits', 'v', 'follows', 99) redis.call('SADD', 't:woken:W', n) "
    "end redis.call('RPUSH', 't:woken', 'W') "
    "job(8, 'alone', 2) redis.call('RPUSH', 't:alone', 8) "
    "for n = 10, 21 do lease(n, 'A', n == 16 and 3 or 1, 1e13) end "
    "redis.call('HSET', 't:job:12', 'id', 'u') redis.call('SET', 't:unique:u', 12) "
    "redis.call('HSET', 't:job:16', 'id', 'w') redis.call('SET', 't:unique:w', 16) "
    "redis.call('HSET', 't:job:13', 'list', 9) redis.call('HSET', 't:job:21', 'state', 'burying') "
    "lease(22, 'C', 1, 1) lease(23, 'C', 3, 1) lease(24, 'C', 1, 1e13) lease(25, 'C', 2, 1e13) "
    "redis.call('RPUSH', 't:dead', 'd1') "
    "return 1";

static const char *const names[] = {
    "f1",  "f2",  "f3",  "p1",  "p2",  "p3",  "d1",  "j1",  "j2",  "j3",  "j4",  "j5",
    "j6",  "j7",  "j8",  "j10", "j11", "j12", "j13", "j14", "j15", "j16", "j17", "j18",
    "j19", "j20", "j21", "j22", "j23", "j24", "j25"};

/* The calls of daemon A, or of a client. The result of a job is its text. */
static const struct script_case {
    enum script script;
    const char *keys, *args;
} cases[] = {
    {SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 9 10000 3 20 0 0 watch"},
    {SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 3 10000 3 20 0 0 wait"},
    {SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 99 10000 3 20 0 0 none"},
    {SCRIPT_ID_FETCH, FETCH_KEYS, "t A 2 9 10000 3 20 1 0 none"},
    {SCRIPT_ID_DONE,
     "t:lease t:results t:job:10 t:job:11 t:result:x t:reply:r t:img:o t:job:12 t:result:u "
     "t:unique:u t:waits:u t:woken",
     "2 60000 10 A:1 j10 0 0 0 11 A:1 j11 1 1 1 bytes 9 12 A:1 j12 2 0 0"},
    {SCRIPT_ID_DONE, "t:lease t:results:stream t:job:10 t:job:11 t:reply:r t:job:14",
     "50 60000 10 A:1 j10 0 0 0 11 A:1 j11 0 1 0 14 A:1 j14 0 0 0"},
    {SCRIPT_ID_NACK,
     NACK_KEYS "t:job:16 t:result:w t:unique:w t:waits:w t:reply:r t:img:o t:job:13 t:job:14 "
               "t:job:15",
     "50 60000 9 3 100 16 A:1 retry j16 2 1 1 bytes 9 13 A:1 back '' 0 0 0 14 A:1 back '' 0 0 0 "
     "15 A:1 retry '' 0 0 0"},
    {SCRIPT_ID_NACK,
     "t:lease t:results:stream t:jobs t:delayed t:alone t:dead t:woken t:job:13 t:job:16",
     "50 60000 9 3 100 13 A:1 back '' 0 0 0 16 A:1 retry j16 0 0 0"},
    {SCRIPT_ID_START,
     "t:lease t:delayed t:cancel t:job:17 t:job:18 t:waits:u t:unique:u t:result:u t:job:19 "
     "t:waits:y t:unique:y t:result:y",
     "t 1000 17 A:1 '' 0 99999999999999 -1 18 A:1 u 1 -1 -1 19 A:1 y 1 -1 +5000"},
    {SCRIPT_ID_RENEW, RENEW_KEYS " t:job:10 t:job:11", "A 10000 keep pass 10 1 11 1"},
    {SCRIPT_ID_RESUME, RESUME_KEYS, "t A 3 9 10:1 11:1 12:1 13:1"},
    {SCRIPT_ID_REAP, REAP_KEYS, "t A 3 10000 3 20 64 1 C"},
    {SCRIPT_ID_LOOK, LOOK_KEYS, ""},
    {SCRIPT_ID_CANCEL, "t:jobs t:cancel t:woken t:waits:u t:result:u", "u"},
    {SCRIPT_ID_REVIVE, "t:dead t:jobs", "d1 1"},
    {SCRIPT_ID_FORGET, "t:results:stream", ""},
    {SCRIPT_ID_FLEET, "t:inst", "0 100 2048 9000"},
};

/* Patterns that together permit every key; one of them is left out. */
static const char *const families[] = {
    "t:alone", "t:alone:owner", "t:alone:owner:fetch", "t:cancel", "t:dead", "t:dead:errors",
    "t:delayed", "t:img:*",
    "t:inst", "t:job:*[02468]", "t:job:*[13579]", "t:jobs", "t:jobs:2", "t:jobs:9",
    "t:jobs:[0-13-8]", "t:lease", "t:leases:*", "t:never", "t:paused", "t:protocol", "t:reply:*",
    "t:result:*", "t:results", "t:results:stream", "t:seq", "t:shares", "t:unique:*", "t:waits:*",
    "t:wake", "t:watcher", "t:woken", "t:woken:*"};

/* ---- a daemon with all permissions ---------------------------------------------------------- */

static unsigned counter;

/* Posts the result of each job in a reply of FETCH or REAP. Returns their number. */
static size_t answer_all(redisReply *reply, size_t at, bool is_reap)
{
    size_t count = 0;
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    for (; at + 2 < reply->elements; at += 3, count++) {
        const char *number = reply->element[at]->str, *text = reply->element[at + 2]->str;
        if (is_reap)
            expect_eval(SCRIPT_ID_NACK, text_of(NACK_KEYS "t:job:%s", number),
                        text_of("50 60000 9 3 100 %s Z:%u retry %s 0 0 0", number, counter, text),
                        "0 2");
        else
            expect_eval(SCRIPT_ID_DONE, text_of("t:lease t:results t:job:%s", number),
                        text_of("0 60000 %s Z:%u %s 0 0 0", number, counter, text), "0 1");
    }
    freeReplyObject(reply);
    return count;
}

/* Takes all leases and the right to run alone, makes all delayed jobs due, and answers all jobs. */
static void work_until_idle(void)
{
    static const char over[] =
        "for _, key in ipairs({'t:lease', 't:delayed'}) do "
        "  for _, n in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZADD', key, 1, n) "
        "end end redis.call('DEL', 't:alone:owner') return 1";
    for (int idle = 0; idle < 2;) {
        expect_reply(redis_command(redis, "EVAL %s 0", over), "over", "1");
        size_t count = answer_all(
            eval(SCRIPT_ID_REAP, REAP_KEYS, text_of("t Z %u 10000 3 20 64 2", ++counter)), 4, true);
        count += answer_all(
            eval(SCRIPT_ID_FETCH, FETCH_KEYS, text_of("t Z %u 64 10000 3 20 1 0 none", ++counter)),
            FETCH_HEAD, false);
        idle = count > 0 ? 0 : idle + 1;
    }
}

/* ---- the check ------------------------------------------------------------------------------ */

static const char *results_text(void)
{
    static const char all[] =
        "local found = {} "
        "for _, key in ipairs({'t:results', 't:reply:r'}) do "
        "  for _, r in ipairs(redis.call('LRANGE', key, 0, -1)) do found[#found + 1] = r end end "
        "for _, entry in ipairs(redis.call('XRANGE', 't:results:stream', '-', '+')) do "
        "  found[#found + 1] = entry[2][4] end "
        "for _, text in ipairs(redis.call('LRANGE', 't:dead', 0, -1)) do "
        "  if text == 'd1' then found[#found + 1] = text end end "
        "return ' ' .. table.concat(found, ' ') .. ' '";
    return redis_text(redis, "EVAL %s 0", all);
}

static void check_answered_once(const char *what)
{
    const char *results = results_text();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *word = text_of(" %s ", names[i]), *at = strstr(results, word);
        if (!at)
            fail_msg("%s: %s is lost; results:%s", what, names[i], results);
        if (strstr(at + 1, word))
            fail_msg("%s: %s has two results:%s", what, names[i], results);
    }
    const char *left = redis_text(redis, "EVAL %s 0",
                                  "return table.concat(redis.call('KEYS', 't:job:*'), ' ')");
    if (*left)
        fail_msg("%s: %s left", what, left);
}

static redisReply *eval_as_worker(const struct script_case *one)
{
    redisContext *admin = redis;
    redis = worker;
    redisReply *reply = eval(one->script, one->keys, one->args);
    redis = admin;
    return reply;
}

/* Returns true if Redis refused the call. */
static bool run_case(const struct script_case *one, const char *permissions, const char *what)
{
    freeReplyObject(redis_command(redis, "FLUSHALL"));
    expect_reply(redis_command(redis, "EVAL %s 0", layout), "layout", "1");
    expect("OK", USER "%s", permissions);
    redisReply *reply = eval_as_worker(one);
    bool refused = reply->type == REDIS_REPLY_ERROR;
    if (refused && redis_refusal(reply->str) != REDIS_REFUSAL_AUTH)
        fail_msg("%s: not known as a refusal: %s", what, reply->str);
    freeReplyObject(reply);
    expect("OK", USER "~* +@all");
    if (refused)
        reply = eval_as_worker(one);
    if (refused && reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", what, reply->str);
    if (refused)
        freeReplyObject(reply);
    work_until_idle();
    check_answered_once(what);
    return refused;
}

/* ---- the denied commands and keys ----------------------------------------------------------- */

/* The next word in single quotes that may be a command; NULL: none is left. */
static const char *next_word(const char **rest)
{
    for (const char *at = *rest; (at = strchr(at, '\'')); at++) {
        size_t bytes = strspn(at + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (bytes < 3 || at[1 + bytes] != '\'')
            continue;
        *rest = at + 1 + bytes;
        return text_of("%.*s", (int)bytes, at + 1);
    }
    return NULL;
}

static bool is_command(const char *word)
{
    redisReply *reply = redis_command(redis, "COMMAND INFO %s", word);
    bool known = reply->elements == 1 && reply->element[0]->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return known;
}

TEST(test_a_denied_command_loses_no_job)
{
    size_t refused = 0, tried = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *rest = script_text(cases[i].script), *word, *seen = " ";
        while ((word = next_word(&rest))) {
            if (strstr(seen, text_of(" %s ", word)) || !is_command(word))
                continue;
            seen = text_of("%s%s ", seen, word);
            const char *what = text_of("%s %zu without %s", script_name(cases[i].script), i, word);
            refused += run_case(&cases[i], text_of("~* +@all -%s", word), what);
            tried++;
        }
    }
    assert_in_range(tried, 150, 1000);
    assert_in_range(refused, tried / 3, tried);
}

TEST(test_a_denied_key_loses_no_job)
{
    size_t refused = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (size_t left_out = 0; left_out < COUNT_OF(families); left_out++) {
            const char *keys = "", *name = script_name(cases[i].script);
            for (size_t k = 0; k < COUNT_OF(families); k++)
                if (k != left_out)
                    keys = text_of("%s ~%s", keys, families[k]);
            refused += run_case(&cases[i], text_of("+@all%s", keys),
                                text_of("%s %zu without %s", name, i, families[left_out]));
        }
    assert_in_range(refused, 50, COUNT_OF(cases) * COUNT_OF(families));
}

/* What Redis 6.2, 7.0 and 7.2 say. */
TEST(test_refusals_are_known)
{
    static const char *const texts[] = {
        "NOPERM this user has no permissions to run the 'hset' command or its subcommand",
        "ERR Error running script (call to f_12ab): @user_script:1: @user_script: 1: NOPERM The "
        "user executing the script can't run this command or subcommand",
        "ERR The user executing the script can't access at least one of the keys mentioned in the "
        "command arguments script: 12ab, on @user_script:1.",
        "NOPERM ACL failure in script: User worker has no permissions to run the 'hset' command "
        "script: 12ab, on @user_script:1.",
        "ERR ACL failure in script: User worker has no permissions to run the 'hset' command"};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        assert_int_equal(redis_refusal(texts[i]), REDIS_REFUSAL_AUTH);
}

static int connect_both(void **state)
{
    start_server(state);
    worker = redis_server_connect(server);
    freeReplyObject(redis_command(redis, USER "~* +@all"));
    freeReplyObject(redis_command(worker, "AUTH worker any"));
    return 0;
}

static int disconnect_both(void **state)
{
    redisFree(worker);
    return stop_server(state);
}

TEST_MAIN(.name = "acl", .setup = connect_both, .teardown = disconnect_both)
