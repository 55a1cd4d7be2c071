/* Tests of leases: fetch, batches of DONE, lost leases, retries, drain. */
#include "queue/lease/lease_impl.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/queue/queue_bench.h"

TEST(test_fetches_and_acks_in_batches)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    push(bench, 1000);
    bench->finish_at_once = true;
    start_queue(bench);
    queue_set_places(bench->queue, 64);
    run_until(bench, bench->settled == 1000);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1000);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 0);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:job:1"), 0);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:result:1000"), 1);
    /* FETCH and DONE of 1000 jobs each, and a few other calls. */
    assert_true(calls(bench, "evalsha") + calls(bench, "eval") <= 2 * 1000 / 8);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

static long long leases_at_first; /* in Redis when the first job starts */

/* The next FETCH has been sent by then, and Redis soon runs it. */
static void look_at_first(void *context, struct lease *lease)
{
    struct bench *bench = context;
    on_leased(bench, lease);
    for (int i = 0; bench->leased == 1 && i < patience(5) * 1e3; i++) {
        leases_at_first = redis_integer(bench->redis, "ZCARD t:lease");
        if (leases_at_first > (long long)bench->config.batch)
            return;
        usleep(1000);
    }
}

/* Redis then runs it while the jobs of the last reply start. No job starts twice, and the places
 * suffice. A call is sent early only for a full batch. */
TEST(test_the_next_fetch_comes_before_the_jobs_of_the_last)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->config.batch = 8;
    push(bench, 40);
    start_queue(bench);
    bench->queue->events.leased = look_at_first;
    queue_set_places(bench->queue, 30);
    run_until(bench, bench->leased == 30);
    assert_int_equal(leases_at_first, 16);
    run_ms(bench, 50);
    assert_int_equal(bench->leased, 30);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 30);
    queue_set_places(bench->queue, 10);
    run_until(bench, bench->leased == 40);
    assert_int_equal(bench->queue->group->places.reserved, 0);
    finish_jobs(bench);
    tear_down(bench);
}

/* The jobs of a reply that is being handled must end before a job runs alone, too. */
TEST(test_arriving_jobs_keep_others_from_running_alone)
{
    struct bench *bench = set_up_with_jobs(2);
    struct queue *queue = bench->queue;
    assert_int_equal(places_blocking_alone(queue), 2);
    queue->fetch.arriving = 3;
    assert_int_equal(places_blocking_alone(queue), 5);
    assert_int_equal(places_held(queue), 5);
    queue->fetch.arriving = 0;
    finish_jobs(bench);
    tear_down(bench);
}

/* A list would cost Redis a fifth of its time. */
TEST(test_many_leases_are_in_a_skip_list)
{
    struct bench *bench = set_up_started();
    push(bench, 8);
    queue_set_places(bench->queue, 8);
    run_until(bench, bench->leased == 8);
    assert_string_equal(redis_text(bench->redis, "OBJECT ENCODING t:lease"), "skiplist");
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 8);
    assert_int_equal(redis_integer(bench->redis, "ZCOUNT t:lease 1 +inf"), 8);
    finish_jobs(bench);
    tear_down(bench);
}

TEST(test_wakes_up_when_idle)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->config.block_s = 60;
    start_queue(bench);
    queue_set_places(bench->queue, 4);
    run_until(bench, calls(bench, "evalsha") + calls(bench, "eval") >= 3);
    run_ms(bench, 100);
    uint64_t before = uv_hrtime();
    push(bench, 1);
    run_until(bench, bench->leased == 1);
    assert_true(uv_hrtime() - before < 20000000000ull); /* less than block_s */
    assert_string_equal(bench->leases[0]->raw, "{\"n\":0}");
    assert_int_equal(bench->leases[0]->raw_bytes, 7);
    assert_int_equal(bench->leases[0]->attempt, 1);
    finish_jobs(bench);
    tear_down(bench);
}

/* Takes so many jobs, and returns the bound of the age of the oldest that is left. */
static double take_and_look(struct bench *bench, uint32_t count)
{
    size_t before = bench->leased;
    queue_set_places(bench->queue, count);
    run_until(bench, bench->leased == before + count);
    return queue_view(bench->queue)->oldest_s;
}

/* No job carries a time. The jobs that waited at a mark are gone when as many have been taken. */
TEST(test_bounds_the_age_of_the_oldest)
{
    struct bench *bench = set_up_started();
    push(bench, 4);
    uint64_t began = uv_hrtime();
    take_and_look(bench, 1); /* the mark: 3 wait */
    run_ms(bench, 300);
    assert_true(queue_view(bench->queue)->oldest_s >= 0.25);
    push(bench, 3);
    assert_true(take_and_look(bench, 2) >= 0.25); /* one of the first 4 is left */
    run_ms(bench, 300);
    double bound = take_and_look(bench, 1); /* it is taken: since the first mark; a second one */
    assert_true(bound >= 0.55 && bound <= (double)(uv_hrtime() - began) / 1e9 + 0.1);
    push(bench, 2);
    bound = take_and_look(bench, 3); /* those after the second mark are left */
    assert_true(bound < (double)(uv_hrtime() - began) / 1e9 - 0.4);
    assert_true(take_and_look(bench, 2) == 0);
    finish_jobs(bench);
    tear_down(bench);
}

TEST(test_fetches_no_more_than_places)
{
    struct bench *bench = set_up_started();
    push(bench, 10);
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 3);
    run_ms(bench, 100);
    assert_int_equal(bench->leased, 3);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs"), 7);
    assert_int_equal(queue_view(bench->queue)->length, 7);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 4);
    finish_jobs(bench);
    tear_down(bench);
}

TEST(test_retry_waits_and_ends_dead)
{
    struct bench *bench = set_up_started();
    push(bench, 1);
    queue_set_places(bench->queue, 4);
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        run_until(bench, bench->leased == attempt);
        struct lease *lease = bench->leases[0];
        assert_int_equal(lease->attempt, attempt);
        assert_false(lease->alone); /* it fails without killing its daemon */
        take_off(bench, lease);
        assert_int_equal(queue_last_attempt(lease), attempt == 3);
        struct queue_value value = {.key = "t:img:a", .bytes = 1, .value = calloc(1, 1)};
        struct queue_answer answer = {.result = strdup("{\"status\":\"dead\"}"), .id = "x",
                                      .values = &value, .value_count = 1};
        queue_retry(bench->queue, lease, &answer);
        queue_set_places(bench->queue, 4);
        run_until(bench, bench->settled == attempt);
        assert_int_equal(redis_integer(bench->redis, "EXISTS t:img:a"), attempt == 3);
    }
    assert_int_equal(redis_integer(bench->redis, "STRLEN t:img:a"), 1);
    assert_int_equal(bench->dead, 1);
    assert_int_equal(queue_view(bench->queue)->dead, 1);
    assert_int_equal(queue_view(bench->queue)->redelivered, 2);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:dead"), 1);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1);
    assert_string_equal(redis_text(bench->redis, "GET t:result:x"), "{\"status\":\"dead\"}");
    tear_down(bench);
}

TEST(test_alone_runs_with_nothing_beside)
{
    struct bench *bench = set_up_started();
    /* Another job runs while a job on its last attempt waits. */
    push(bench, 1);
    queue_set_places(bench->queue, 8);
    run_until(bench, bench->leased == 1);
    redis_integer(bench->redis, "HSET t:job:77 raw last state alone attempt 2");
    redis_integer(bench->redis, "LPUSH t:alone 77");
    run_until(bench, redis_integer(bench->redis, "EXISTS t:alone:owner") == 1);
    push(bench, 2);
    run_ms(bench, 400);
    assert_int_equal(bench->leased, 1);
    done(bench, bench->leases[0]);
    run_until(bench, bench->leased == 2);
    run_ms(bench, 300);
    assert_int_equal(bench->leased, 2);
    assert_true(bench->leases[0]->alone);
    assert_string_equal(bench->leases[0]->raw, "last");
    done(bench, bench->leases[0]);
    run_until(bench, bench->leased == 4);
    assert_false(bench->leases[0]->alone);
    run_until(bench, redis_integer(bench->redis, "EXISTS t:alone:owner") == 0);
    tear_down(bench);
}

TEST(test_lost_lease)
{
    struct bench *bench = set_up_with_jobs(2);
    redis_integer(bench->redis, "HSET t:job:1 token other:1 owner other");
    run_until(bench, bench->lost == 1);
    finish_jobs(bench);
    assert_int_equal(bench->stale, 1);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 1);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:job:1"), 1);
    tear_down(bench);
}

TEST(test_key_outputs_and_reply)
{
    struct bench *bench = set_up_started();
    struct queue_value values[2] = {{.key = "t:img:a", .bytes = 3, .ttl_s = 100},
                                    {.key = "t:img:b", .bytes = 0}};
    lease_jobs(bench, 1);
    values[0].value = malloc(3);
    memcpy(values[0].value, "a\0b", 3);
    queue_done(bench->queue, bench->leases[0],
               &(struct queue_answer){.result = strdup("{}"), .reply_to = "t:reply:me",
                                      .values = values, .value_count = 2});
    run_until(bench, bench->settled == 1);
    assert_int_equal(redis_integer(bench->redis, "STRLEN t:img:a"), 3);
    assert_true(redis_integer(bench->redis, "TTL t:img:a") > 90);
    assert_int_equal(redis_integer(bench->redis, "TTL t:img:b"), -1);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:reply:me"), 1);
    assert_true(redis_integer(bench->redis, "TTL t:reply:me") > 50);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), 0);
    tear_down(bench);
}

TEST(test_drain)
{
    struct bench *bench = set_up_started();
    push(bench, 5);
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 3);
    bench->closed = false;
    queue_close(bench->queue, 5, on_closed, bench);
    queue_set_places(bench->queue, 10);
    run_ms(bench, 100);
    assert_false(bench->closed); /* three jobs still run */
    assert_int_equal(bench->leased, 3);
    done(bench, bench->leases[0]);
    struct lease *lease = bench->leases[0];
    take_off(bench, lease);
    queue_give_back(bench->queue, lease);
    done(bench, bench->leases[0]);
    run_until(bench, bench->closed);
    assert_int_equal(bench->settled, 3);
    queue_destroy(bench->queue);
    bench->queue = NULL;
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:inst"), 0);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs"), 3);
    tear_down(bench);
}

/* A daemon that exits on an error does not close the queue first. */
TEST(test_destroy_without_close)
{
    struct bench *bench = set_up_started();
    push(bench, 1);
    queue_set_places(bench->queue, 2);
    run_until(bench, bench->leased == 1);
    queue_read(bench->queue, "t:img:a", 4, NULL, on_read, bench);
    queue_destroy(bench->queue);
    bench->queue = NULL;
    tear_down(bench);
}

/* Places offered from inside `leased` include those of leases that are yet to be delivered. */
static void on_leased_and_offer(void *context, struct lease *lease)
{
    struct bench *bench = context;
    on_leased(context, lease);
    queue_set_places(bench->queue, 5 - (uint32_t)bench->lease_count);
}

TEST(test_offers_from_inside_leased)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct queue_events events = {bench, on_leased_and_offer, on_lost, on_settled,
                                  on_start_decided, NULL};
    struct error error = {0};
    push(bench, 20);
    bench->queue = queue_create(&bench->loop, &bench->config, bench->inst, &events, &error);
    queue_start(bench->queue);
    queue_set_places(bench->queue, 5);
    run_until(bench, bench->leased == 5);
    run_ms(bench, 100);
    assert_int_equal(bench->leased, 5);
    const char *seq = redis_text(bench->redis, "GET t:seq");
    assert_string_equal(seq, "5"); /* no further job was fetched and given back */
    tear_down(bench);
}

/* The numbers of leased and settled jobs at the end of each batch. */
static size_t batch_ends[8][2], batch_count;

static void on_batch_ended(void *context)
{
    const struct bench *bench = context;
    size_t *at = batch_ends[batch_count++ % COUNT_OF(batch_ends)];
    at[0] = bench->leased;
    at[1] = bench->settled;
}

TEST(test_events_of_a_reply_end_together)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    struct queue_events events = {bench, on_leased, on_lost, on_settled, on_start_decided,
                                  on_batch_ended};
    struct error error = {0};
    push(bench, 3);
    bench->finish_at_once = true;
    bench->queue = queue_create(&bench->loop, &bench->config, bench->inst, &events, &error);
    queue_start(bench->queue);
    queue_set_places(bench->queue, 3);
    run_until(bench, batch_count >= 2);
    assert_int_equal(batch_ends[0][0], 3);
    assert_int_equal(batch_ends[0][1], 0);
    assert_int_equal(batch_ends[1][1], 3);
    tear_down(bench);
}

/* An earlier process of this host held leases, and is dead. */
TEST(test_dead_neighbour_is_taken_over_at_once)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    char gone[INSTANCE_BYTES_MAX], *last;
    strcpy(gone, bench->inst);
    last = strrchr(gone, ':');
    strcpy(last, ":1"); /* our pid with another start time: not this process */
    redis_integer(bench->redis, "ZADD t:inst 99999999999999 %s", gone);
    redis_integer(bench->redis, "ZADD t:lease 99999999999999 7 99999999999999 8");
    redis_integer(bench->redis, "SADD t:leases:%s 7 8", gone);
    redis_integer(bench->redis, "HSET t:job:7 raw seven state leased attempt 1 owner %s token x",
                  gone);
    redis_integer(bench->redis,
                  "HSET t:job:8 raw %s state leased attempt 3 owner %s token x",
                  "{\"id\":\"eight\",\"meta\":1.50,\"input\":\"eight.jpg\"}", gone);
    bench->config.reap_s = 60;
    start_queue(bench);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 1);
    assert_string_equal(bench->leases[0]->raw, "seven");
    assert_int_equal(bench->leases[0]->attempt, 2); /* the first attempt still counts */
    run_until(bench, redis_integer(bench->redis, "LLEN t:dead") == 1);
    const char *result = redis_text(bench->redis, "GET t:result:eight");
    assert_non_null(strstr(result, "\"id\":\"eight\",\"job\":8,\"status\":\"dead\""));
    assert_non_null(strstr(result, "\"code\":\"attempts_exhausted\""));
    assert_non_null(strstr(result, "\"meta\":1.50,"));
    assert_non_null(strstr(result, "\"input\":{\"path\":\"eight.jpg\"}"));
    assert_non_null(strstr(result, bench->daemon));
    assert_int_equal(redis_integer(bench->redis, "ZSCORE t:inst %s", gone), 0);
    tear_down(bench);
}

/* A dead daemon of this host: our process id with another start time. */
static void add_gone(struct bench *bench, char gone[INSTANCE_BYTES_MAX])
{
    strcpy(gone, bench->inst);
    strcpy(strrchr(gone, ':'), ":1");
    redis_integer(bench->redis, "ZADD t:inst 99999999999999 %s", gone);
}

static void add_leases(struct bench *bench, const char *inst, int from, int to, const char *end)
{
    for (int i = from; i <= to; i++) {
        redis_integer(bench->redis,
                      "HSET t:job:%d raw x state leased attempt 1 owner %s token %s:1", i, inst,
                      inst);
        redis_integer(bench->redis, "ZADD t:lease %s %d", end, i);
        redis_integer(bench->redis, "SADD t:leases:%s %d", inst, i);
    }
}

/* At its start the daemon takes the leases of dead daemons of its host, in several batches. It
 * leaves those of other hosts: after an outage they look expired, but will be renewed. */
TEST(test_start_leaves_expired_leases_alone)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    char gone[INSTANCE_BYTES_MAX];
    add_gone(bench, gone);
    add_leases(bench, gone, 1, 70, "99999999999999");
    add_leases(bench, "elsewhere:b:n:1:1", 71, 80, "1");
    bench->config.reap_s = 60;
    start_queue(bench);
    run_until(bench, redis_integer(bench->redis, "ZCOUNT t:inst 99999999999999 +inf") == 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs"), 70);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 10);
    tear_down(bench);
}

/* Commands of clients, not those in scripts. SLOWLOG must log all. */
static size_t client_calls(struct bench *bench, const char *command)
{
    size_t count = 0;
    redisReply *log = redis_command(bench->redis, "SLOWLOG GET 100000");
    for (size_t i = 0; i < log->elements; i++)
        count += strcmp(log->element[i]->element[3]->element[0]->str, command) == 0;
    freeReplyObject(log);
    return count;
}

/* With 1,000 names, a daemon reads them once in 10 reap_s. It still takes expired leases, and finds
 * a daemon of its host that has died, only later. */
TEST(test_many_names_are_read_seldom)
{
    struct bench *bench = set_up(redis_server_start("--slowlog-log-slower-than", "0",
                                                    "--slowlog-max-len", "100000", NULL));
    char gone[INSTANCE_BYTES_MAX];
    for (int i = 0; i < 1000; i++)
        redis_integer(bench->redis, "ZADD t:inst 99999999999999 elsewhere:b:n:%d:1", i);
    bench->config.reap_s = 0.2;
    uint64_t start = uv_hrtime();
    start_queue(bench);
    run_until(bench, client_calls(bench, "ZRANGE") == 1); /* at the start */
    add_gone(bench, gone);
    add_leases(bench, gone, 1, 3, "99999999999999");
    add_leases(bench, "elsewhere:b:n:1:1", 4, 6, "1");
    run_until(bench, redis_integer(bench->redis, "ZCOUNT t:lease 1 1") == 0);
    run_ms(bench, 1200);
    double seconds = (double)(uv_hrtime() - start) / 1e9;
    assert_true((double)client_calls(bench, "ZRANGE") <= 1 + seconds / (0.2 * 1000 / 100));
    run_until(bench, redis_integer(bench->redis, "ZCARD t:lease") == 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs"), 6);
    tear_down(bench);
}

/* ---- start decisions ---------------------------------------------------------------------- */

static void ask(struct bench *bench, struct lease *lease, struct queue_conditions conditions)
{
    assert_true(queue_ask(bench->queue, lease, &conditions));
}

TEST(test_start_is_asked_in_batches)
{
    struct bench *bench = set_up_with_jobs(20);
    for (size_t i = 0; i < 20; i++)
        ask(bench, bench->leases[i], (struct queue_conditions){.expires = {i < 5 ? 1e9 : 9e10}});
    run_until(bench,
              bench->start_decisions[START_GO] == 15 && bench->start_decisions[START_EXPIRED] == 5);
    assert_int_equal(calls(bench, "hmget"), 20); /* START's calls: no job was asked about twice */
    finish_jobs(bench);
    assert_int_equal(bench->stale, 0);
    tear_down(bench);
}

/* START has ended the lease: giving it back calls no script and is not counted as stale. */
TEST(test_a_job_that_waits_comes_back)
{
    struct bench *bench = set_up_with_jobs(1);
    redisReply *time = redis_command(bench->redis, "TIME");
    double due = atof(time->element[0]->str) + atof(time->element[1]->str) / 1e6 + 0.4;
    freeReplyObject(time);
    ask(bench, bench->leases[0], (struct queue_conditions){.not_before = {due}});
    run_until(bench, bench->settled == 1);
    assert_int_equal(bench->start_decisions[START_WAITS], 1);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:delayed"), 1);
    queue_set_places(bench->queue, 1);
    run_until(bench, bench->leased == 2);
    assert_int_equal(bench->leases[0]->attempt, 1);
    ask(bench, bench->leases[0], (struct queue_conditions){.not_before = {due}});
    run_until(bench, bench->start_decisions[START_GO] == 1);
    done(bench, bench->leases[0]);
    run_until(bench, bench->settled == 2);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(queue_view(bench->queue)->stale, 0);
    tear_down(bench);
}

TEST(test_an_ended_lease_gets_no_start_decision)
{
    struct bench *bench = set_up_with_jobs(3);
    ask(bench, bench->leases[0], (struct queue_conditions){.expires = {9e10}});
    done(bench, bench->leases[0]); /* before START was called */
    struct lease *lease = bench->leases[0];
    ask(bench, lease, (struct queue_conditions){.expires = {9e10}});
    redis_server_freeze(bench->server, true);
    run_ms(bench, 20); /* while START is under way */
    done(bench, lease);
    redis_server_freeze(bench->server, false);
    /* And a lease that another daemon has taken. */
    lease = bench->leases[0];
    redis_integer(bench->redis, "HSET t:job:%llu token other:1", (unsigned long long)lease->number);
    ask(bench, lease, (struct queue_conditions){.expires = {9e10}});
    run_until(bench, bench->lost == 1);
    done(bench, lease);
    run_until(bench, bench->settled == 3);
    for (int i = 0; i <= START_CANCELLED; i++)
        assert_int_equal(bench->start_decisions[i], 0);
    tear_down(bench);
}

static void end_dead(struct bench *bench, struct lease *lease)
{
    take_off(bench, lease);
    queue_retry(bench->queue, lease,
                &(struct queue_answer){.result = strdup("{\"status\":\"dead\"}"),
                                       .id = "a", .unique = true});
}

/* The second of two unique jobs waits for the first one only if it is asked about before the first
 * one ends, although both calls are sent in the same turn of the loop. */
TEST(test_calls_go_out_in_the_order_of_their_causes)
{
    const struct queue_conditions unique = {.id = "a", .unique = true};
    for (int asks_first = 0; asks_first < 2; asks_first++) {
        struct bench *bench = set_up_with_jobs(3);
        struct lease *first = bench->leases[0], *second = bench->leases[1];
        bench->config.attempts = 1;
        end_dead(bench, bench->leases[2]); /* the server knows both scripts after this */
        ask(bench, first, unique);
        run_until(bench, bench->dead == 1 && bench->start_decisions[START_GO] == 1);
        run_ms(bench, 20); /* longer than the queue gathers the ends of leases */
        if (asks_first)
            ask(bench, second, unique);
        end_dead(bench, first);
        if (!asks_first)
            ask(bench, second, unique);
        run_until(bench, bench->dead == 2 && bench->start_decisions[START_GO] +
                                                 bench->start_decisions[START_WAITS] == 2);
        assert_int_equal(bench->start_decisions[START_WAITS], asks_first);
        tear_down(bench);
    }
}

/* Whoever has an id hears of its cancel unasked, and only they. */
TEST(test_a_cancel_while_they_run)
{
    struct bench *bench = set_up_with_jobs(3);
    bench->leases[0]->id = "a";
    bench->leases[1]->id = "b";
    redis_integer(bench->redis, "ZADD t:cancel 9 a 2 other");
    run_until(bench, bench->start_decisions[START_CANCELLED] >= 1 &&
                         bench->start_decisions[START_GO] >= 1);
    assert_false(bench->leases[0]->may_be_cancelled);
    /* The cancel applies to the next job that is fetched, and not to higher numbers. */
    redis_integer(bench->redis, "ZADD t:cancel 4 a");
    lease_jobs(bench, 2);
    assert_true(bench->leases[3]->may_be_cancelled);
    assert_false(bench->leases[4]->may_be_cancelled);
    finish_jobs(bench);
    tear_down(bench);
}

/* ---- where results go --------------------------------------------------------------------- */

static void answer(struct bench *bench, size_t index, bool fails, struct queue_answer answer)
{
    struct lease *lease = bench->leases[index];
    answer.result = strdup("{\"status\":\"any\"}");
    take_off(bench, lease);
    if (fails)
        queue_retry(bench->queue, lease, &answer);
    else
        queue_done(bench->queue, lease, &answer);
}

/* Jobs without id, with id, unique id, reply list and bad reply key. `fails`: all attempts fail. */
static void check_results(char *results, bool fails, int listed, int kept)
{
    bool streamed = strcmp(results, "stream") == 0;
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->config.results = results;
    bench->config.attempts = 1;
    start_queue(bench);
    lease_jobs(bench, 5);
    redis_integer(bench->redis, "HSET t:reply:wrong a b");
    answer(bench, 4, fails, (struct queue_answer){.reply_to = "t:reply:wrong"});
    answer(bench, 3, fails, (struct queue_answer){.id = "r", .reply_to = "t:reply:r"});
    answer(bench, 2, fails, (struct queue_answer){.id = "u", .unique = true});
    answer(bench, 1, fails, (struct queue_answer){.id = "i"});
    answer(bench, 0, fails, (struct queue_answer){0});
    run_until(bench, bench->settled == 5);
    assert_int_equal(bench->dead, fails ? 5 : 0);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:results"), streamed ? 0 : listed);
    assert_int_equal(redis_integer(bench->redis, "XLEN t:results:stream"), streamed ? listed : 0);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:result:u"), 1);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:result:i t:result:r"), kept);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:reply:r"), 1);
    assert_int_equal(redis_integer(bench->redis, "LLEN t:dead:errors"), fails ? 5 : 0);
    assert_string_equal(redis_text(bench->redis, "LINDEX t:reply:r 0"), "{\"status\":\"any\"}");
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 0);
    tear_down(bench);
}

TEST(test_where_results_go)
{
    for (int fails = 0; fails < 2; fails++) {
        check_results("list", fails, 4, 2);
        check_results("stream", fails, 4, 2);
        /* A result whose reply key is not a list goes to the result list, with every option. */
        check_results("id", fails, 1, 2);
        check_results("none", fails, 1, 0);
    }
}

TEST(test_lengths_are_counted)
{
    struct bench *bench = set_up_started();
    redis_integer(bench->redis, "RPUSH t:results a b c");
    redis_integer(bench->redis, "RPUSH t:dead a b");
    redis_integer(bench->redis, "ZADD t:delayed 99999999999999 7");
    const struct queue_view *view = queue_view(bench->queue);
    run_until(bench, view->results == 3 && view->dead_listed == 2 && view->delayed == 1);
    /* A key of another type is not counted and causes no error. */
    redis_integer(bench->redis, "DEL t:dead");
    redis_integer(bench->redis, "SADD t:dead x");
    redis_integer(bench->redis, "DEL t:results");
    run_until(bench, view->results == 0);
    assert_int_equal(view->dead_listed, 2);
    assert_int_equal(queue_view(bench->queue)->state, QUEUE_READY);
    tear_down(bench);
}

/* The daemon deletes what all consumer groups have acknowledged, and counts the rest. The option
 * may change while the daemon runs. */
TEST(test_the_stream_is_counted)
{
    struct bench *bench = set_up(redis_server_start(NULL));
    bench->config.results = "stream";
    bench->config.results_max = 4;
    start_queue(bench);
    const struct queue_view *view = queue_view(bench->queue);
    redis_integer(bench->redis, "RPUSH t:results old");
    lease_jobs(bench, 4);
    finish_jobs(bench);
    run_until(bench, view->results == 4);
    expect_text(bench, "OK", "XGROUP CREATE t:results:stream g 0");
    freeReplyObject(redis_command(bench->redis, "XREADGROUP GROUP g c COUNT 3 NOACK "
                                                "STREAMS t:results:stream >"));
    run_until(bench, view->results == 1);
    assert_int_equal(redis_integer(bench->redis, "XLEN t:results:stream"), 1);
    assert_int_equal(view->trimmed, 0);
    redis_integer(bench->redis, "DEL t:results:stream");
    run_until(bench, view->results == 0);
    bench->config.results = "list"; /* as a reload does */
    run_until(bench, view->results == 1);
    lease_jobs(bench, 1);
    finish_jobs(bench);
    run_until(bench, view->results == 2);
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:results:stream"), 0);
    tear_down(bench);
}

TEST(test_paused_it_looks_seldom)
{
    struct bench *bench = set_up_started();
    freeReplyObject(redis_command(bench->redis, "SET t:paused 1"));
    push(bench, 1);
    queue_set_places(bench->queue, 4);
    run_until(bench, queue_view(bench->queue)->paused);
    freeReplyObject(redis_command(bench->redis, "CONFIG RESETSTAT"));
    uint64_t before = uv_hrtime();
    run_ms(bench, 1000);
    /* FETCH calls it twice every block_s, 0.2 s, less at most a quarter. */
    long long looks = calls(bench, "exists");
    assert_in_range(looks, 2, 4 + 2 * (uv_hrtime() - before) / 150000000);
    assert_int_equal(calls(bench, "blmove"), 0);
    assert_int_equal(bench->leased, 0);
    redis_integer(bench->redis, "DEL t:paused");
    run_until(bench, bench->leased == 1);
    assert_false(queue_view(bench->queue)->paused);
    finish_jobs(bench);
    tear_down(bench);
}

TEST_MAIN(.name = "queue")
