/*
 * test_ctl_operate.c - gpuimgctl's commands on running daemons: status, top, dead, cancel, pause,
 * drain.
 */
#include <signal.h>
#include <unistd.h>

#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/text_file.h"

#define HEAP 143

/* ---- status -------------------------------------------------------------------------------- */

TEST(test_status)
{
    ctl_expect(w, 0, "ctl submit $at one.png one.png -o x/%i.png && ctl status $at",
               "waiting    2, the next one for ", "dead       0\n", "no gpuimgd is running",
               NULL);
    redis_integer(w->client, "LPUSH %s:dead {}", w->ns);
    redis_integer(w->client, "LPUSH %s:jobs @7", w->ns);
    redis_integer(w->client, "LPUSH %s:results r", w->ns);
    freeReplyObject(redis_command(w->client, "XADD %s:results:stream * job 1 result r", w->ns));
    cJSON *lines = ctl_json(w, 0, "ctl status $at --json");
    assert_int_equal(cJSON_GetArraySize(lines), 1);
    check_has(lines, "{'0.waiting':3,'0.dead':1,'0.results':2}");
    assert_true(json_number(lines, "0.oldest_s") >= 0);
    assert_int_equal(cJSON_GetArraySize(json_at(lines, "0.daemons")), 0);
    /* A daemon on another host has three leases: one is on its second attempt, one has expired. */
    redis_integer(w->client, "ZADD %s:inst 99999999999999 far:boot:ns:12:34", w->ns);
    for (int i = 1; i <= 3; i++) {
        redis_integer(w->client, "HSET %s:job:%d owner far:boot:ns:12:34 attempt %d", w->ns, i,
                      i == 3 ? 2 : 1);
        redis_integer(w->client, "ZADD %s:lease %s %d", w->ns, i == 1 ? "5" : "99999999999999", i);
    }
    ctl_expect(w, 0, "ctl status $at", "running    3, 1 on attempt 2, 1 whose daemon was lost",
               "far:12 ", NULL);
    lines = ctl_json(w, 0, "ctl status $at --json");
    check_has(lines, "{'0.daemons.0.name':'far:12','0.daemons.0.leases':3,'0.attempts.1':1,"
                     "'0.expired':1}");
    /* The manual names every member. */
    const char *page = text_keep(text_file_read("conf/man/gpuimgctl.1"));
    assert_non_null(page);
    const cJSON *holders[] = {json_at(lines, "0"), json_at(lines, "0.daemons.0")}, *member;
    for (size_t i = 0; i < 2; i++)
        cJSON_ArrayForEach(member, holders[i])
            if (!strstr(page, member->string))
                fail_msg("gpuimgctl(1) lacks %s", member->string);
}

TEST(test_lists_with_priorities)
{
    ctl_expect(w, 0, "for p in 9 0 0; do ctl submit $at one.png -o x/%i.png -p $p --id p$p; done; "
                     "ctl submit $at one.png -o x.png && ctl status $at",
               "waiting    4, the next one for ", " s, 1 with priority 9, 2 with priority 0\n",
               NULL);
    cJSON *lines = ctl_json(w, 0, "ctl status $at --json");
    check_has(lines, "{'0.waiting':4,'0.waiting_by_priority.9':1,'0.waiting_by_priority.0':2,"
                     "'0.waiting_by_priority.4':0}");
    ctl_expect(w, 0, "ctl top $at -n 1", "waiting 4 ", "waiting, priority 9: 1   priority 0: 2",
               NULL);
    ctl_expect(w, 0, "ctl cancel $at p0", "p0: all waiting and running jobs", NULL);
    freeReplyObject(redis_command(w->client, "SET %s:jobs:3 text", w->ns));
    lines = ctl_json(w, 0, "ctl status $at --json");
    check_has(lines, "{'0.waiting':7}"); /* with three fences */
    freeReplyObject(redis_command(w->client, "DEL %s:jobs:3", w->ns));
    ctl_start_daemon();
    ctl_expect(w, 1, "ctl result $at -w p9 p0", "done   p9", "cancelled p0", NULL);
    ctl_stop_daemon();
}

/* A result repeats the priority in the job, also if the job was in another list. */
TEST(test_a_result_repeats_the_priority)
{
    ctl_start_daemon();
    redis_integer(w->client, "LPUSH %s:jobs:2 {\"id\":\"d\",\"input\":\"none.png\","
                             "\"output\":\"x.png\",\"priority\":8}", w->ns);
    cJSON *lines = ctl_json(w, 1, "ctl result $at -w d --json");
    check_has(lines, "{'0.priority':8,'0.status':'failed'}");
    ctl_stop_daemon();
}

TEST(test_top_piped)
{
    ctl_start_daemon();
    ctl_expect(w, 0, "ctl top $at -n 2 -i 0.1", "gpuimgctl top: unix:", "waiting 0   running 0",
               "since daemon start: done 0", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl top $at -n 3 -i 0.1 --json");
    assert_int_equal(cJSON_GetArraySize(lines), 3);
    assert_int_equal(json_number(lines, "2.waiting"), 0);
    assert_int_equal(cJSON_GetArraySize(json_at(lines, "2.daemons")), 1);
    ctl_expect(w, 64, "ctl top $at -i 0", "--interval is \"0\"", NULL);
    ctl_stop_daemon();
}

/* What a daemon publishes is shown as text, and only if it lasts. */
TEST(test_blocked_daemons)
{
    static const char *const stats[] = {
        "{\"state\":\"running\",\"queue_oldest_s\":75,\"blocked\":{\"by\":\"pinned\",\"for_s\":61,"
        "\"why\":\"a job waits\",\"advice\":\"Do \\u001b[31mthis.\"}}",
        "{\"state\":\"running\",\"blocked\":{\"by\":\"device\",\"for_s\":4,\"why\":\"short\"}}",
        "{\"state\":\"running\",\"blocked\":{\"by\":\"inflight\",\"for_s\":99,\"why\":\"usual\"}}",
        "{\"state\":\"running\",\"blocked\":[7]}",
        "{\"state\":\"paused\",\"blocked\":{\"by\":7,\"for_s\":\"x\"}}",
    };
    redis_integer(w->client, "LPUSH %s:jobs {}", w->ns);
    for (int i = 0; i < 5; i++) {
        redis_integer(w->client, "ZADD %s:inst 99999999999999 d%d:b:n:1:2", w->ns, i);
        freeReplyObject(
            redis_command(w->client, "SET %s:stats:d%d:b:n:1:2 %s", w->ns, i, stats[i]));
    }
    struct ctl_run run = ctl_run(w, "ctl status $at");
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "waiting    1, the oldest for at most 75 s"));
    assert_non_null(strstr(run.out, "    blocked by pinned for 61 s: a job waits. Do ?[31mthis."));
    assert_null(strstr(strstr(run.out, "blocked by") + 1, "blocked by"));
    run = ctl_run(w, "ctl top $at -n 1");
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "   oldest <= 75 s"));
    assert_non_null(strstr(run.out, " pinned "));
    assert_null(strstr(run.out, " device "));
    cJSON *lines = ctl_json(w, 0, "ctl status $at --json");
    check_has(lines, "{'0.queue_oldest_s':75,'0.daemons.0.stats.blocked.by':'pinned'}");
}

/* A daemon publishes correct totals, and removes them when it exits. */
TEST(test_published)
{
    put_small_pngs("heap", HEAP);
    ctl_start_daemon();
    ctl_expect(w, 1, "ctl submit $at -r in/heap in/broken.jpg -o p --ops invert --wait", NULL);
    struct ctl_run run = ctl_run(w, "until ctl status $at | grep -q ' cpu .* 143 .* 1 '; do "
                                    "sleep 0.1; done");
    assert_int_equal(run.status, 0);
    cJSON *lines = ctl_json(w, 0, "ctl status $at --json");
    const cJSON *stats = json_at(lines, "0.daemons.0.stats");
    /* The CPU engine has no streams. */
    check_has(stats, "{'state':'running','engine':'cpu','jobs':%d,'images':%d,'pixels':%d,"
                     "'in_flight':0,'workers':2,'streams':0,'stages.encode.jobs':%d,"
                     "'stages.admit.now':0}", HEAP + 1, HEAP, HEAP * 64, HEAP);
    assert_true(json_number(stats, "up_s") > 0 && json_number(stats, "stages.encode.ms") > 0);
    /* The rates are computed from two samples. */
    run = ctl_run(w, "ctl submit $at -r in/heap -o p --ops invert; "
                     "ctl top $at -i 0.1 --json | grep -m 1 '\"images_s\":'");
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.out, "\"images_s\":"));
    assert_true(world_until(w, patience(60), 0, "ZCARD %s:lease", w->ns));
    process_signal(ctl_daemon, SIGUSR2);
    run = ctl_run(w, "until ctl status $at | grep -q paused; do sleep 0.1; done");
    assert_int_equal(run.status, 0);
    redisReply *keys = redis_command(w->client, "KEYS %s:stats:*", w->ns);
    assert_int_equal(keys->elements, 1);
    assert_true(redis_integer(w->client, "PTTL %s", keys->element[0]->str) > 0);
    ctl_stop_daemon();
    assert_int_equal(redis_integer(w->client, "EXISTS %s", keys->element[0]->str), 0);
    freeReplyObject(keys);
}

/* The status of the devices of a daemon with the tests' own CUDA runtime. */
TEST(test_devices)
{
    const char *program = getenv("GPUIMGD_STANDIN");
    const char *const options[] = {"--engine=cuda", "--jpeg=cpu",         "--png=cpu", "--webp=cpu",
                                   "--avif=cpu",    "--pinned_bytes=64M", NULL};
    if (!program || access(program, X_OK) != 0)
        skip();
    check_ready(world_start_with(w, 0, &(struct process_options){.program = program}, options));
    world_put_photo(w, "wide.jpg", 1600, 1200);
    struct process process = ctl_begin(w, "ctl top $at -i 0.2 --json | grep -m 1 '\"overlap\":'");
    /* Some seconds of work, under a sanitizer, too. */
    const char *jobs = test_quick() ? "50" : "100";
    ctl_expect(w, 0,
               text_of("seq 1 %s | sed s,.*,wide.jpg, | "
                       "ctl submit $at - -o made/%%i.jpg --ops gaussian --wait",
                       jobs),
               text_of("%s done", jobs), NULL);
    struct ctl_run run = ctl_end(&process);
    cJSON *seen = cJSON_Parse(run.out);
    assert_true(json_number(seen, "gpu_busy") > 0 && json_number(seen, "gpu_busy") <= 1);
    assert_true(json_number(seen, "overlap") >= 1 && json_number(seen, "overlap") <= 3);
    cJSON_Delete(seen);
    cJSON *lines = ctl_json(w, 0, "ctl status $at --json");
    const cJSON *device = json_at(lines, "0.daemons.0.stats.devices.0");
    assert_string_equal(json_text(device, "name"), "cuda:0");
    double busy_s = json_number(device, "busy_s");
    assert_true(busy_s > 0 && busy_s < json_number(lines, "0.daemons.0.stats.up_s"));
    assert_true(json_number(device, "up_s") + json_number(device, "kernel_s") +
                    json_number(device, "down_s") >= busy_s);
    process_clear(&w->daemons[0]);
}

/* Two devices share a line; their shares are computed from two samples. */
TEST(test_devices_of_one_daemon)
{
#define DEVICE(name, busy, part, seconds)                                                         \
    "{\"name\":\"" name "\",\"busy_s\":" busy ",\"" part "\":" seconds "}"
#define SAY(up, busy, parts)                                                                       \
    freeReplyObject(redis_command(w->client, "SET %s:stats:far:boot:ns:12:34 %s", w->ns,           \
                                  "{\"up_s\":" up ",\"state\":\"draining\",\"devices\":["          \
                                  DEVICE("cuda:0", busy, "up_s", parts) ","                        \
                                  DEVICE("cuda:1", busy, "kernel_s", busy) "]}"))
    redis_integer(w->client, "ZADD %s:inst 99999999999999 far:boot:ns:12:34", w->ns);
    SAY("10", "1", "1");
    struct process process = ctl_begin(w, "ctl top $at -i 0.1 | grep -m 1 '^  cuda:0  '");
    process_sleep(patience(2)); /* until it has read the first values */
    SAY("12", "2", "3");
    struct ctl_run run = ctl_end(&process);
    assert_string_equal(run.out, "  cuda:0  50%    2.00 cuda:1  50%    1.00\n");
    ctl_expect(w, 0, "ctl top $at -n 1", " draining ", NULL);
#undef SAY
#undef DEVICE
}

/* ---- dead jobs ----------------------------------------------------------------------------- */

TEST(test_dead)
{
    ctl_expect(w, 0, "ctl dead $at", "there are no dead jobs", NULL);
    /* write_failed is retryable: the job runs until its last attempt. */
    ctl_start_daemon();
    ctl_expect(w, 1, "mkdir out/wall; chmod 555 out/wall; "
                     "ctl submit $at one.png -o wall/x.png --id walled --wait",
               "dead   ", "(write_failed)", ", 1 dead", NULL);
    /* The list keeps its error, even if its result is deleted. */
    freeReplyObject(redis_command(w->client, "DEL %s:result:walled", w->ns));
    ctl_expect(w, 0, "ctl dead list $at", "  #1  walled           one.png: ", "wall/x.png",
               " (write_failed)\n", NULL);
    ctl_expect(w, 0, "ctl dead show $at walled", "#1 walled\ninput    one.png\nerror    ",
               " (write_failed)\ndied     20", " UTC\nattempt  3, by ", ", as job ",
               "\njob      {", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl dead show $at '#1' --json");
    check_has(lines, "{'0.job.id':'walled','0.input.path':'one.png',"
                     "'0.error.code':'write_failed'}");
    assert_true(json_number(lines, "0.attempt") == 3 && json_number(lines, "0.time") > 1e9);
    assert_true(*json_text(lines, "0.daemon"));
    ctl_expect(w, 1, "ctl dead show $at nosuch", "no dead job has the id nosuch", NULL);
    ctl_expect(w, 64, "ctl dead show $at", "dead show needs ids", NULL);
    lines = ctl_json(w, 0, "ctl dead list $at --json");
    check_has(lines, "{'0.number':1,'0.job.id':'walled','0.error.code':'write_failed'}");
    ctl_expect(w, 0, "chmod 755 out/wall; ctl dead retry $at walled && ctl result $at -w walled",
               "1 dead job retried", "done   walled -> wall/x.png", NULL);
    assert_int_equal(redis_integer(w->client, "EXISTS %s:dead %s:dead:errors", w->ns, w->ns), 0);
    /* The error of an older daemon's dead job comes from its result while that exists. */
    redis_integer(w->client, "LPUSH %s:dead {\"input\":\"a.png\",\"id\":\"old\"}", w->ns);
    ctl_expect(w, 0, "ctl dead list $at", "a.png: see the daemon's log", NULL);
    freeReplyObject(redis_command(w->client, "SET %s:result:old {\"error\":{\"code\":\"c\","
                                  "\"message\":\"m\"}}", w->ns));
    ctl_expect(w, 0, "ctl dead show $at old", "#1 old\ninput    a.png\nerror    m (c)\n", NULL);
    redis_integer(w->client, "DEL %s:dead", w->ns);
    ctl_stop_daemon();
}

TEST(test_dead_many)
{
    for (int i = 1; i <= 250; i++) /* number 1 is the last */
        redis_integer(w->client, "LPUSH %s:dead {\"input\":\"%d.png\",\"id\":\"j%d\"}", w->ns,
                      251 - i, 251 - i);
    redis_integer(w->client, "RPUSH %s:dead nonsense", w->ns);
    ctl_expect(w, 0, "ctl dead $at", "  #50  j50 ", "and 201 more", NULL);
    ctl_expect(w, 0, "ctl dead list -n 300 $at", " #250  j250 ", " #251 ", "nonsense", NULL);
    ctl_expect(w, 0, "ctl dead $at retry '#2' j250 '#3'", "retried #2 j2: 2.png\n",
               "retried #250 j250: 250.png\n", "retried #3 j3: 3.png\n",
               "3 dead jobs retried", NULL);
    char *jobs = ctl_queued();
    assert_string_equal(jobs, "{\"input\":\"2.png\",\"id\":\"j2\"}\n"
                              "{\"input\":\"250.png\",\"id\":\"j250\"}\n"
                              "{\"input\":\"3.png\",\"id\":\"j3\"}\n");
    ctl_expect(w, 1, "ctl dead $at drop '#1' j2", "no dead job has the id j2",
               "1 dead job dropped", NULL);
    ctl_expect(w, 1, "ctl dead $at drop '#900'", "no dead job has the number #900", NULL);
    ctl_expect(w, 1, "ctl dead $at drop '#0'", "no dead job has the id #0", NULL);
    assert_int_equal(redis_integer(w->client, "LLEN %s:dead", w->ns), 247);
    cJSON *lines = ctl_json(w, 0, "ctl dead $at retry --all --json");
    assert_int_equal(json_number(lines, "0.retried"), 247);
    assert_int_equal(redis_integer(w->client, "LLEN %s:jobs", w->ns), 247);
    redis_integer(w->client, "LPUSH %s:dead {}", w->ns);
    ctl_expect(w, 0, "ctl dead $at drop --all", "1 dead job dropped", NULL);
    ctl_expect(w, 0, "ctl dead $at drop --all", "0 dead jobs dropped", NULL);
}

/* An id may consist of digits; numbers in the list start with #; missing jobs are named. */
TEST(test_dead_ids_of_digits)
{
    redis_integer(w->client, "LPUSH %s:dead {\"input\":\"a.png\",\"id\":\"1\"}", w->ns);
    redis_integer(w->client, "LPUSH %s:dead {\"input\":\"b.png\",\"id\":\"2\"}", w->ns);
    redis_integer(w->client, "LPUSH %s:dead {\"input\":\"c.png\"}", w->ns);
    ctl_expect(w, 0, "ctl dead $at drop 1", "dropped #3 1: a.png\n1 dead job dropped\n", NULL);
    const char *left = redis_text(w->client, "LINDEX %s:dead -1", w->ns);
    assert_string_equal(left, "{\"input\":\"b.png\",\"id\":\"2\"}");
    ctl_expect(w, 1, "ctl dead $at drop 1", "no dead job has the id 1; for number 1 of the list "
               "write '#1', in quotes", NULL);
    assert_int_equal(redis_integer(w->client, "LLEN %s:dead", w->ns), 2);
    cJSON *lines = ctl_json(w, 0, "ctl dead $at drop '#1' --json");
    check_has(lines, "{'0.dropped':1,'0.jobs.0.number':1,'0.jobs.0.job.input':'c.png'}");
    ctl_expect(w, 1, "ctl dead $at retry 2 2", "retried #1 2: b.png\n", "job #1 is no longer "
               "in the list", "1 dead job retried", NULL);
}

/* Text from Redis cannot send control characters to the operator's terminal. */
TEST(test_hostile_texts)
{
    static const char *const lines[] = {
        "ctl result $at torn", "ctl result $at wild", "ctl cancel $at wild", "ctl dead list $at",
        "ctl dead show $at '#1'", "ctl status $at", "ctl top -n 1 $at"};
    static const char stats[] = "{\"engine\":\"\\u001b[31m\",\"state\":\"\\u009b2J\"}";
    static const char wild[] = "{\"status\":\"\\u001b[5m\",\"error\":{\"code\":\"\\u001b[7m\","
                               "\"message\":\"\\u009b2J\"},\"outputs\":[{\"error\":{},"
                               "\"values\":{\"\\u007f\\u009b\":1}}]}";
    freeReplyObject(redis_command(w->client, "SET %s:result:torn \033[2J{", w->ns));
    freeReplyObject(redis_command(w->client, "SET %s:result:list []", w->ns));
    freeReplyObject(redis_command(w->client, "SET %s:result:wild %s", w->ns, wild));
    redis_integer(w->client, "LPUSH %s:dead {\"id\":\"\\u001b]0;x\\u0007\"} \033[1m", w->ns);
    redis_integer(w->client, "ZADD %s:inst 99999999999999 \033h:b:n:\0331:2", w->ns);
    freeReplyObject(redis_command(w->client, "SET %s:stats:?h:b:n:?1:2 %s", w->ns, stats));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct ctl_run run = ctl_run(w, "%s", lines[i]);
        for (const unsigned char *at = (unsigned char *)run.out; *at; at++)
            if ((*at < 0x20 && *at != '\n') || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
                fail_msg("%s shows the byte %02x: %s", lines[i], *at, run.out);
        assert_int_equal(run.status, i == 0 ? 70 : i == 1);
    }
    ctl_expect(w, 70, "ctl result $at torn --json", "the stored result of torn is not a JSON",
               NULL);
    ctl_expect(w, 70, "ctl result $at list", "the stored result of list is not a JSON",
               NULL);
    ctl_expect(w, 0, "ctl top -n 1 $at", "?[31m", "??2J", NULL);
    freeReplyObject(redis_command(w->client, "DEL %s:stats:?h:b:n:?1:2", w->ns));
    redis_integer(w->client, "LPUSH %s:stats:?h:b:n:?1:2 x", w->ns);
    ctl_expect(w, 0, "ctl status $at", "?h:?1", NULL);
}

/* ---- cancel, pause, drain ------------------------------------------------------------------ */

TEST(test_cancel)
{
    ctl_expect(w, 0, "ctl submit $at one.png cat.jpg -o x --id job-%i", "2 sent", NULL);
    ctl_expect(w, 0, "ctl cancel $at job-1", "job-1: all waiting and running jobs", NULL);
    ctl_start_daemon();
    ctl_expect(w, 1, "ctl result $at -w job-1 job-2", "cancelled job-1: ", "done   job-2", NULL);
    cJSON *lines = ctl_json(w, 1, "ctl cancel $at --json job-2 none");
    check_has(lines, "{'0.cancelled':'job-2','0.found':false,'1.found':false,"
                     "'0.result.status':'done'}");
    assert_true(cJSON_IsNull(json_at(lines, "1.result")));
    ctl_expect(w, 0, "ctl cancel $at job-2", "; an earlier one has ended (done)", NULL);
    ctl_stop_daemon();
    struct process process = ctl_begin(w, "ctl submit $at one.png -o x --id late --wait");
    assert_true(world_until(w, patience(20), 1, "LLEN %s:jobs", w->ns));
    ctl_expect(w, 0, "ctl cancel $at late", "late: all waiting", NULL);
    ctl_start_daemon();
    struct ctl_run run = ctl_end(&process);
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.out, ", 1 cancelled\n"));
    ctl_stop_daemon();
}

/* Cancel finds jobs wherever they wait or run, and reports what it found. */
TEST(test_cancel_says_what_it_found)
{
    static const char *const jobs[] = {"ready", "delayed", "alone", "leased"};
    ctl_expect(w, 1, "ctl cancel $at nosuch", "nosuch: no job with this id waits or runs, and no "
               "result is stored", NULL);
    freeReplyObject(redis_command(w->client, "DEL %s:jobs %s:cancel", w->ns, w->ns));
    for (int i = 1; i <= 4; i++)
        redis_integer(w->client, "HSET %s:job:%d raw {\"input\":\"a\",\"id\":\"%s\"}", w->ns, i,
                      jobs[i - 1]);
    redis_integer(w->client, "LPUSH %s:jobs @1", w->ns);
    redis_integer(w->client, "ZADD %s:delayed 99999999999999 2", w->ns);
    redis_integer(w->client, "LPUSH %s:alone 3", w->ns);
    redis_integer(w->client, "ZADD %s:lease 99999999999999 4", w->ns);
    for (int i = 0; i < 250; i++)
        redis_integer(w->client, "LPUSH %s:jobs {\"input\":\"a.png\",\"id\":\"j%d\"}", w->ns, i);
    redis_integer(w->client, "LPUSH %s:jobs {\"id\":\"\\u0078\",\"meta\":\"nosuch\"}", w->ns);
    for (size_t i = 0; i < 6; i++) {
        const char *id = i < 4 ? jobs[i] : i == 4 ? "j249" : "x";
        const char *line = text_of("ctl cancel $at %s", id);
        const char *said =
            text_of("%s: all waiting and running jobs with this id are cancelled\n", id);
        ctl_expect(w, 0, line, said, NULL);
    }
    ctl_expect(w, 1, "ctl cancel $at nosuch j1", "nosuch: no job with this id", "j1: all waiting",
               NULL);
    freeReplyObject(redis_command(w->client, "SET %s:result:old {\"status\":\"done\"}", w->ns));
    ctl_expect(w, 0, "ctl cancel $at old", "old: no job with this id waits or runs, so none is "
               "cancelled; an earlier one has ended (done)\n", NULL);
    /* More jobs than cancel searches. */
    freeReplyObject(redis_command(w->client, "EVAL %s 1 %s:jobs",
                                  "for i = 1, 10000 do redis.call('LPUSH', KEYS[1], '{}') end",
                                  w->ns));
    ctl_expect(w, 0, "ctl cancel $at nosuch", "is cancelled, if there is one: not all", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl cancel $at nosuch --json");
    assert_true(cJSON_IsNull(json_at(lines, "0.found")));
}

TEST(test_pause)
{
    ctl_start_daemon();
    ctl_expect(w, 0, "ctl pause $at", "paused until gpuimgctl resume", NULL);
    ctl_expect(w, 0, "ctl status $at", "paused     daemons fetch no jobs until ", NULL);
    struct ctl_run run = ctl_run(w, "until ctl status $at | grep 'blocked by pause for .*: the key "
                                    ".*:paused pauses all daemons. Run gpuimgctl resume.'; do "
                                    "sleep 0.5; done");
    assert_int_equal(run.status, 0);
    ctl_expect(w, 75, "ctl submit $at one.png -o x --wait --timeout 4",
               "fetching jobs is paused (gpuimgctl resume)", NULL);
    cJSON *lines = ctl_json(w, 0, "ctl resume $at --json");
    assert_true(cJSON_IsFalse(json_at(lines, "0.paused")));
    assert_true(world_until(w, patience(20), 0, "LLEN %s:jobs", w->ns));
    ctl_expect(w, 0, "ctl resume $at", "nothing was paused", NULL);
    ctl_expect(w, 0, "ctl pause $at --for 600", "paused for 10 min", NULL);
    ctl_expect(w, 0, "ctl status $at", "for another 10 min", NULL);
    lines = ctl_json(w, 0, "ctl status $at --json");
    assert_true(cJSON_IsTrue(json_at(lines, "0.paused")));
    assert_true(json_number(lines, "0.paused_s") <= 600);
    ctl_expect(w, 0, "ctl top $at -n 1; ctl resume $at", "PAUSED", "fetch jobs again", NULL);
    ctl_stop_daemon();
}

TEST(test_drain)
{
    world_put_slow(w);
    ctl_start_daemon();
    ctl_expect(w, 0, "ctl submit $at slow.png --no-output "
                     "--set 'output={\"path\":\"s.png\",\"compression\":9}'", "1 sent", NULL);
    assert_true(world_until(w, patience(20), 0, "LLEN %s:jobs", w->ns));
    ctl_expect(w, 0, "ctl drain $at", "drained: no job runs", NULL);
    assert_int_equal(redis_integer(w->client, "ZCARD %s:lease", w->ns), 0);
    redis_integer(w->client, "ZADD %s:lease 99999999999999 77", w->ns);
    ctl_expect(w, 75, "ctl drain $at --timeout 0.1", "1 jobs still run", NULL);
    redis_integer(w->client, "ZREM %s:lease 77", w->ns);
    ctl_expect(w, 0, "ctl drain $at --json", "{\"paused\":true,\"running\":0}", NULL);
    ctl_stop_daemon();
}

WORLD_MAIN(EMPTY_WORLD, .fill = ctl_put_files)
