/*
 * test_ctl.c - gpuimgctl's command line, its configuration, and a Redis that is down or refuses.
 */
#include "tests/fixtures/ctl_world.h"
#include "tests/fixtures/text_file.h"

/* ---- the command line ---------------------------------------------------------------------- */

TEST(test_help)
{
    static const char *const commands[] = {"submit", "result", "status", "top",   "dead",
                                           "cancel", "pause",  "resume", "drain", "explain"};
    ctl_expect(w, 0, "ctl -h", "usage: gpuimgctl COMMAND", "Commands:", "--json", NULL);
    ctl_expect(w, 64, "ctl", "usage: gpuimgctl COMMAND", NULL);
    ctl_expect(w, 0, "ctl --version", "gpuimgctl " GPUIMGD_VERSION "\n", NULL);
    ctl_expect(w, 0, "ctl top -V", "gpuimgctl " GPUIMGD_VERSION "\n", NULL);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *line = text_of("ctl %s --help", commands[i]);
        const char *usage = text_of("usage: gpuimgctl %s", commands[i]);
        ctl_expect(w, 0, line, usage, "xit status", "--namespace=NS", NULL);
    }
}

TEST(test_wrong_arguments)
{
    ctl_expect(w, 64, "ctl sumbit", "there is no command \"sumbit\"; did you mean submit?", NULL);
    ctl_expect(w, 64, "ctl xyzzy", "there is no command \"xyzzy\"\n", NULL);
    ctl_expect(w, 64, "ctl --json status", "put the command before \"--json\"", NULL);
    ctl_expect(w, 64, "ctl status --jsno", "\"--jsno\"; did you mean --json?", NULL);
    ctl_expect(w, 64, "ctl status --json=1", "--json takes no value", NULL);
    ctl_expect(w, 64, "ctl submit --out", "--out needs a value", NULL);
    ctl_expect(w, 64, "ctl submit -q", "there is no option \"-q\"", NULL);
    ctl_expect(w, 64, "ctl status here $at", "takes no operand, but got \"here\"", NULL);
    ctl_expect(w, 64, "ctl submit $at -o x", "FILE is missing", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png", "--out is missing", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o o.x.pgn",
               "which ends in .pgn; did you mean .png? "
               "A folder's name ends in /",
               NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o cl.xyz",
               "which ends in .xyz; it must end in jpg,", "or in / if it is a folder", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x.gif", "ends in .gif; it must end in jpg",
               NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --format gif",
               "--format is \"gif\"; it must be jpeg, png, webp, avif, jxl, npy or raw", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --no-output", "--out and --no-output", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o /etc/x", "it must be below output_root", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --quality 101",
               "--quality is \"101\"; it must be a number from 1 to 100", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --set 5", "--set is \"5\"", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --set nonsense=1",
               "one.png: ", "nonsense", "nothing was sent", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --wait --set meta=1", "meta", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png in/cat.jpg -o x.png", "a pattern such as", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png in/cat.jpg -o x --id y", "such as y-%i", NULL);
    ctl_expect(w, 64, "ctl submit $at in/one.png -o x --timeout 5", "without --wait or --keys",
               NULL);
    ctl_expect(w, 64, "ctl result $at", "ID is missing", NULL);
    ctl_expect(w, 64, "ctl dead drop $at 1 ''", "a number or id is empty", NULL);
    ctl_expect(w, 64, "ctl result $at x --timeout 5", "has no effect without --wait", NULL);
    ctl_expect(w, 64, "ctl cancel $at", "ID is missing", NULL);
    ctl_expect(w, 64, "ctl cancel $at ''", "an id has 0 bytes; it must have 1 to 128", NULL);
    ctl_expect(w, 64, "ctl pause $at now", "pause takes no operand", NULL);
    ctl_expect(w, 64, "ctl resume $at now", "resume takes no operand", NULL);
    ctl_expect(w, 64, "ctl drain $at now", "drain takes no operand", NULL);
    ctl_expect(w, 64, "ctl pause $at --for never", "--for is \"never\"", NULL);
    ctl_expect(w, 64, "ctl dead $at lsit", "did you mean list?", NULL);
    ctl_expect(w, 64, "ctl dead $at retry", "needs ids, numbers of the list such as "
               "'#1' (in quotes", NULL);
    ctl_expect(w, 64, "ctl dead $at drop #1", "a bare # begins a comment in a shell", NULL);
    ctl_expect(w, 64, "ctl dead $at drop 1 --all", "drop the operand \"1\"", NULL);
    ctl_expect(w, 78, "ctl status --namespace=''", "option namespace is \"\"", NULL);
    ctl_expect(w, 78, "ctl status --redis=http://x", "http", NULL);
    ctl_expect(w, 78, "ctl status -c missing.conf", "missing.conf", NULL);
    assert_int_equal(redis_integer(w->client, "DBSIZE"), 0);
}

TEST(test_ops)
{
#define OPS "ctl submit $at in/one.png -o x --ops "
    ctl_expect(w, 64, OPS "gryscale", "no operation \"gryscale\"; did you mean grayscale?", NULL);
    ctl_expect(w, 64, OPS "blur", "operation \"blur\"; did you mean \"gaussian\"?", NULL);
    ctl_expect(w, 64, OPS "autoorient", "unless the job has \"orient\": false", NULL);
    ctl_expect(w, 64, OPS "width=5", "\"width=5\" has no operation before it", NULL);
    ctl_expect(w, 64, OPS "resize:5", "\"5\" of resize is not a parameter", NULL);
    ctl_expect(w, 64, OPS "resize:width=5,width=6", "resize has width twice", NULL);
    ctl_expect(w, 64, OPS "sobel --ops-file x", "--ops and --ops-file", NULL);
    ctl_expect(w, 66, "ctl submit $at in/one.png -o x --ops-file x", "cannot read x", NULL);
    ctl_expect(w, 64, "echo '[1' > x; ctl submit $at in/one.png -o x --ops-file x", "x: ", NULL);
    ctl_expect(w, 64, "echo '{}' > x; ctl submit $at in/one.png -o x --ops-file x",
               "x must hold an array", NULL);
    ctl_expect(w, 0, OPS "'grayscale:weights=[65536,0,0],resize:width=5,height=4,fit=exact,sobel'",
               "1 sent", NULL);
    ctl_expect(w, 0, "echo '[\"invert\",{\"op\":\"gamma\",\"gamma\":2}]' > x; "
                     "ctl submit $at in/one.png -o x --ops-file x", "1 sent", NULL);
#undef OPS
    const char *newest = redis_text(w->client, "LINDEX %s:jobs 0", w->ns);
    const char *oldest = redis_text(w->client, "LINDEX %s:jobs -1", w->ns);
    assert_non_null(strstr(newest, "\"ops\":[\"invert\",{\"op\":\"gamma\",\"gamma\":2}]"));
    assert_non_null(strstr(oldest, "\"ops\":[{\"op\":\"grayscale\",\"weights\":[65536,0,0]},"
                                   "{\"op\":\"resize\",\"width\":5,\"height\":4,\"fit\":\"exact\"},"
                                   "{\"op\":\"sobel\"}]"));
}

TEST(test_configuration_file)
{
    const char *text = text_of("redis = %s\nnamespace = elsewhere\ninput_root = %s\n",
                               w->redis->tcp, w->in);
    assert_true(text_file_write(text_of("%s/ctl.conf", w->folder), text, strlen(text)));
    ctl_expect(w, 0, "ctl submit -c ctl.conf one.png -o x.png", "1 sent", NULL);
    assert_int_equal(redis_integer(w->client, "LLEN elsewhere:jobs"), 1);
    ctl_expect(w, 0, "ctl status -c ctl.conf", "namespace elsewhere", "waiting    1", NULL);
    ctl_expect(w, 0, "ctl status -c ctl.conf --namespace=other", "waiting    0", NULL);
}

TEST(test_explain)
{
#define JOB "echo '{\"input\":\"one.png\",\"output\":\"o.png\",\"ops\":[\"sobel\"]}' > job.json; " \
            "roots=\"--input_root=$PWD/in --output_root=$PWD/out\"; "
    struct ctl_run ours = ctl_run(w, JOB "ctl explain $roots job.json");
    struct ctl_run theirs = ctl_run(w, JOB "\"$GPUIMGD\" $roots --explain job.json");
    assert_int_equal(ours.status, 0);
    assert_non_null(strstr(ours.out, "output   o.png: png, 8 x 8 x 1"));
    assert_string_equal(ours.out, theirs.out);
    ctl_expect(w, 0, JOB "ctl explain $roots - < job.json", "8 x 8 x 1", NULL);
    cJSON *lines = ctl_json(w, 0, JOB "ctl explain --json $roots job.json");
    assert_string_equal(json_text(lines, "0.outputs.0.passes.0.name"), "sobel");
    lines = ctl_json(w, 1, "echo '{}' | ctl explain --json -");
    assert_string_equal(json_text(lines, "0.error.code"), "bad_job");
    ctl_expect(w, 1, JOB "ctl explain --input_root=$PWD/out --output_root=$PWD/out job.json",
               "one.png", NULL);
#undef JOB
    ctl_expect(w, 64, "ctl explain", "JOBFILE is missing", NULL);
}

/* ---- Redis --------------------------------------------------------------------------------- */

TEST(test_redis_away)
{
    ctl_expect(w, 69, "ctl status --redis=127.0.0.1:1",
               "cannot reach Redis at 127.0.0.1:1: connection refused; is redis-server running?",
               NULL);
    ctl_expect(w, 69, "ctl submit $at one.png -o x --redis=unix:/nowhere/r.sock",
               "unix:/nowhere/r.sock: no such file or directory; is redis-server running?", NULL);
    ctl_expect(w, 69, "ctl top --redis=127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1,127.0.0.1:2", NULL);
    ctl_expect(w, 69, "ctl dead --redis=sentinel://pictures@127.0.0.1:1", "cannot reach", NULL);
    redis_server_freeze(w->redis, true);
    ctl_expect(w, 69, "ctl status $at --connect_timeout_s=0.3", "cannot reach", "within 0.3 s",
               NULL);
    redis_server_freeze(w->redis, false);
    /* gpuimgctl skips the first, unreachable server of the list. */
    ctl_expect(w, 0, text_of("ctl status --redis=127.0.0.1:1,%s", w->redis->tcp), "waiting ", NULL);
    freeReplyObject(redis_command(w->client, "SET %s:jobs text", w->ns));
    ctl_expect(w, 69, "ctl submit $at one.png -o x", "refuses LPUSH: WRONGTYPE", "no more are",
               NULL);
    ctl_expect(w, 69, "ctl status $at", "refuses LLEN: WRONGTYPE", NULL);
}

TEST(test_password)
{
    freeReplyObject(redis_command(w->client, "CONFIG SET requirepass secret"));
    ctl_expect(w, 69, "ctl status $at --redis_password_file=/nowhere",
               "cannot read the password file /nowhere: No such file or directory; "
               "redis_password_file names it", NULL);
    ctl_expect(w, 69, "ctl status $at", "NOAUTH", "see redis_username and redis_password_file",
               NULL);
    ctl_expect(w, 0, "echo secret > word; ctl status $at --redis_password_file=word", "waiting ",
               NULL);
    ctl_expect(w, 69, "echo wrong > word; ctl status $at --redis_password_file=word", "WRONGPASS",
               NULL);
    freeReplyObject(redis_command(w->client, "CONFIG SET requirepass %s", ""));
}

/* Data in Redis is untrusted: it is escaped on a terminal, and cannot break --json. */
TEST(test_anything_in_redis)
{
#define ESC EVIL_BYTES
    static const char *const values[] = {
        ESC, "", "5", "[1,2", "\"text\"", "null", "{\"status\":\"" ESC "\"}", "{\"id\":1}trailing",
        "{\n\"status\":\"done\"}", "{\"status\":5,\"outputs\":7,\"error\":[],\"ms\":\"x\"}",
        "{\"status\":\"failed\","
        "\"error\":{\"code\":\"" ESC "\",\"message\":\"\\u001b]0;\\u009b\"}}",
        "{\"status\":\"done\",\"outputs\":[{\"path\":\"" ESC "\",\"width\":1e300,\"bytes\":9,"
        "\"values\":{\"" ESC "\":\"" ESC "\"}}],\"ms\":{\"total\":-1e999}}",
    };
    redis_integer(w->client, "ZADD %s:inst inf far:boot:ns:12:34", w->ns);
    redis_integer(w->client, "ZADD %s:inst 99999999999999 %s", w->ns, ESC);
    redis_integer(w->client, "ZADD %s:delayed inf " ESC, w->ns);
    freeReplyObject(redis_command(w->client, "SET %s:alone:owner %s", w->ns, ESC));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const char *value = values[i];
        freeReplyObject(redis_command(w->client, "SET %s:result:x %s", w->ns, value));
        freeReplyObject(
            redis_command(w->client, "SET %s:stats:far:boot:ns:12:34 %s", w->ns, value));
        redis_integer(w->client, "LPUSH %s:dead %s", w->ns, value);
        redis_integer(w->client, "LPUSH %s:jobs %s", w->ns, value);
        ctl_check_plain(-1, "ctl result $at x; ctl result $at x --json");
        ctl_check_plain(0, "ctl status $at; ctl top $at -n 2 -i 0.05");
        ctl_check_plain(0, "ctl status $at --json; ctl top $at -n 2 -i 0.05 --json");
        ctl_check_plain(0, "ctl dead $at; ctl dead $at --json; ctl cancel $at x");
        ctl_json(w, 0, "ctl dead $at --json; ctl status $at --json; "
                       "ctl top $at -n 2 -i 0.05 --json; ctl cancel $at x --json");
        struct ctl_run run = ctl_run(w, "ctl result $at x --json");
        cJSON *result = cJSON_ParseWithOpts(run.out, NULL, true);
        if (run.status == 70 ? *run.out != '\0' : !cJSON_IsObject(result))
            fail_msg("exit status %d; %s gives %s", run.status, value, run.out);
        cJSON_Delete(result);
    }
    /* Numbers that a double cannot represent are not changed. */
    freeReplyObject(redis_command(w->client, "SET %s:result:x %s", w->ns,
                                  "{\"status\":\"done\",\"meta\":12345678901234567890}"));
    ctl_expect(w, 0, "ctl result $at x --json", "\"meta\":12345678901234567890}\n", NULL);
#undef ESC
}

WORLD_MAIN(EMPTY_WORLD, .fill = ctl_put_files)
