/*
 * test_command_line.c - the options and the configuration of the daemon, and what -t checks.
 */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/limits.h"
#include "tests/fixtures/ctl.h"
#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

/* Runs the daemon with the folder options and one or two arguments. Returns its exit status and its
 * output. */
static int run_once(const char *first, const char *second, char **out, char **err)
{
    struct process process;
    const char *in = text_of("--input_root=%s", w->in);
    const char *out_root = text_of("--output_root=%s", w->out);
    const char *args[] = {in, out_root, "--engine=cpu", first, second, NULL};
    struct process_options options = {.args = args, .folder = w->folder, .name = "once"};
    assert_true(process_start(&process, &options));
    int status = process_wait(&process, 20);
    *out = process_out(&process);
    *err = process_log(&process);
    unlink(process.log_path);
    process_clear(&process);
    return status;
}

static void check_run(const char *first, const char *second, int status, const char *word,
                      bool on_out)
{
    char *out, *err;
    int got = run_once(first, second, &out, &err);
    const char *said = on_out ? out : err;
    if (got != status || !strstr(said, word))
        print_error("%s %s: exit status %d, output \"%s\", error \"%s\"\n", first,
                    second ? second : "", got, out, err);
    assert_int_equal(got, status);
    assert_non_null(strstr(said, word));
    free(out);
    free(err);
}
TEST(test_command_line)
{
    check_run("-V", NULL, 0, "gpuimgd", true);
    check_run("-h", NULL, 0, "stats_interval_s", true);
    check_run("-h", NULL, 0, "HUP", true);
    check_run("--no_such_option=1", NULL, 64, "no_such_option", false);
    check_run("--wrokers=1", NULL, 64, "no option \"wrokers\"; did you mean workers?", false);
    check_run("--redis", NULL, 64, "the option --redis needs a value", false);
    check_run("-x", NULL, 64, "-x", false);
    check_run("stray", NULL, 64, "stray", false);
    check_run("--workers=many", NULL, 78, "workers", false);
    check_run("--workers=100000", NULL, 78, "1024", false);
    check_run("--engine=quantum", NULL, 78, "engine", false);
    check_run("--redis=http://127.0.0.1:6380", NULL, 78, "rediss://", false);
    check_run("--input_root=/does/not/exist", NULL, 78, "input_root", false);
    check_run("-c", "/does/not/exist.conf", 78, "/does/not/exist.conf", false);
}

TEST(test_command_line_names_all_errors)
{
    static const char *const said[] = {"no option \"wrokers\"; did you mean workers?",
                                       "unknown argument \"stray\"", "option attempts is \"0\"",
                                       "no option \"no_such\"", "the option --redis needs a value"};
    struct process process;
    const char *args[] = {"--wrokers=1", "stray", "--attempts=0", "--no_such", "--redis", NULL};
    struct process_options options = {.args = args, .folder = w->folder, .name = "once"};
    assert_true(process_start(&process, &options));
    assert_int_equal(process_wait(&process, 20), 64);
    char *err = process_log(&process);
    for (size_t i = 0; i < COUNT_OF(said); i++)
        if (!strstr(err, said[i]))
            fail_msg("not \"%s\" in %s", said[i], err);
    free(err);
    unlink(process.log_path);
    process_clear(&process);
}

/* Starts the daemon with these limits of open files. */
static void start_limited(struct process *process, unsigned soft, unsigned hard, unsigned workers)
{
    const char *path = text_of("%s/limited", w->folder);
    const char *shell = text_of("#!/bin/sh\nulimit -Sn %u && ulimit -Hn %u && exec %s \"$@\"\n",
                                soft, hard, getenv("GPUIMGD"));
    assert_true(text_file_write(path, shell, strlen(shell)));
    assert_int_equal(chmod(path, 0700), 0);
    const char *args[] = {text_of("--input_root=%s", w->in),
                          text_of("--output_root=%s", w->out),
                          text_of("--redis=%s", w->redis->address),
                          text_of("--workers=%u", workers),
                          "--inflight=300",
                          "--engine=cpu",
                          NULL};
    struct process_options options = {
        .program = path, .args = args, .folder = w->folder, .name = "limited"};
    assert_true(process_start(process, &options));
}

/* Returns the least limit of open files that the daemon demands when it has this one. */
static unsigned limit_needed(unsigned limit, unsigned workers)
{
    struct process process;
    unsigned needed = 0;
    start_limited(&process, limit, limit, workers);
    assert_int_equal(process_wait(&process, 20), 78);
    char *log = process_log(&process), *text = strstr(log, "must be at least ");
    assert_non_null(strstr(log, text_of("the limit of open files is %u;", limit)));
    assert_true(text && sscanf(text, "must be at least %u: raise", &needed) == 1);
    free(log);
    unlink(process.log_path);
    process_clear(&process);
    return needed;
}

static void stop_limited(struct process *process)
{
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:dead"), 0);
    process_signal(process, SIGTERM);
    assert_int_equal(process_wait(process, 20), 0);
    char *log = process_log(process);
    if (strstr(log, "Too many open files"))
        fail_msg("descriptors were short: %s", log);
    free(log);
    process_clear(process);
}

/* A shortage of descriptors costs no job an attempt: the daemon raises a low soft limit, and with a
 * hard limit that is too low it ends, and names the one that suffices. */
TEST(test_few_descriptors)
{
    enum { jobs = 20 };
    struct process process;
#ifdef GPUIMGD_AVIF
    const char *format = "avif";
#else
    const char *format = "png";
#endif
    unsigned needed = limit_needed(20, 2);
    assert_int_equal(limit_needed(needed - 1, 2), needed);
    start_limited(&process, 20, needed, 2);
    for (int i = 0; i < jobs; i++)
        world_push(w, "{'input':'p.jpg','output':'a/b/%d.%s','id':'%d'}", i, format, i);
    take_jobs(jobs);
    stop_limited(&process);
}

#ifdef GPUIMGD_ARCHIVE
/* More jobs than run at once have an archive from Redis, which is in a file while they wait, and
 * each writes as many tars as a job can, to folders of their own. */
TEST(test_few_descriptors_for_tars)
{
    enum { jobs = 60, workers = 12, images = 20 };
    struct process process;
    struct shard_member members[images];
    struct picture_file png = picture_png(&(struct picture_png){.width = 9, .height = 7});
    for (unsigned i = 0; i < images; i++)
        members[i] = (struct shard_member){text_of("%u.png", i), png.bytes, png.length};
    struct picture_file tar = shard_make(members, images);
    freeReplyObject(redis_command(w->client, "SET gpuimgd:img:tar %b", tar.bytes, tar.length));
    picture_free(&tar);
    picture_free(&png);
    start_limited(&process, 20, limit_needed(20, workers), workers);
    for (int i = 0; i < jobs; i++) {
        char outputs[JOB_OUTPUTS_MAX * 80], *at = outputs;
        for (int k = 0; k < JOB_OUTPUTS_MAX; k++)
            at += sprintf(at, "%s{'output':{'path':'%d/%d/o.tar','format':'png'}}", k ? "," : "", i,
                          k);
        world_push(w, "{'inputs':{'archive':{'key':'gpuimgd:img:tar'}},'outputs':[%s],'id':'%d'}",
                   outputs, i);
    }
    take_jobs(jobs);
    stop_limited(&process);
}
#endif

TEST(test_check_of_configuration)
{
    const char *option = text_of("-c%s/gpuimgd.conf", w->folder);
    put_config("stats_interval_s = 5\n");
    check_run("-t", option, 0, option + 2, true); /* the file that was read */
    check_run("-t", "--output_root=/does/not/exist", 78,
              "option output_root is \"/does/not/exist\", which cannot be opened: No such", false);
    put_config("stats_interval_s = -5\n");
    check_run("-t", option, 78, "stats_interval_s", false);
    put_config("no_such_key = 1\n");
    check_run("-t", option, 78, "no_such_key", false);
    put_config("this is no line of such a file\n");
    check_run("-t", option, 78, "line", false);
    assert_int_equal(redis_integer(w->client, "DBSIZE"), 0);
}

/* All errors of all sources in one run. */
TEST(test_check_names_all_errors)
{
    static const char *const said[] = {
        "gpuimgd.conf line 8: there is no option \"no_such_key\"",
        "gpuimgd.conf line 9: option streams is \"x\"",
        "option log_level is \"loud\"",
        "option renew_s is 20; it must be at most a third of lease_s",
        "option redis has 2 addresses, but option shards is 1",
        "option url_networks has \"nowhere\"",
        "option attempts is \"0\"",
    };
    char *out, *err;
    put_config("no_such_key = 1\nstreams = x\nlog_level = loud\nrenew_s = 20\n"
               "redis = a:1 b:1\nurl_networks = nowhere\n");
    for (int program = 0; program < 2; program++) {
        if (program == 0) {
            assert_int_equal(run_once(text_of("-c%s", config_path()), "--attempts=0", &out, &err),
                             78);
        } else {
            struct ctl_run run = ctl_run(w, "ctl status -c %s --attempts=0", config_path());
            assert_int_equal(run.status, 78);
            err = strdup(run.err);
            out = NULL;
        }
        /* gpuimgctl has no URLs, and looks at the servers later. */
        for (size_t i = 0; i < COUNT_OF(said); i++)
            if ((program == 0 || (i != 4 && i != 5)) && !strstr(err, said[i]))
                fail_msg("not \"%s\" in %s", said[i], err);
        free(out);
        free(err);
    }
}

/* Starts the daemon with the configuration, or checks it. Fails unless it ends with 78 and names
 * each text. */
static void check_all_said(const char *check, const char *const *said, size_t count)
{
    char *out, *err;
    const char *option = text_of("-c%s", config_path());
    assert_int_equal(run_once(option, check, &out, &err), 78);
    assert_null(strstr(out, "is good"));
    for (size_t i = 0; i < count; i++)
        if (!strstr(err, said[i]))
            fail_msg("not \"%s\" in %s", said[i], err);
    free(out);
    free(err);
}

/* What the daemon refuses at start, and the files without which it cannot connect. */
TEST(test_check_opens_what_is_named)
{
    static const char *const said[] = {
        "option trace is \"/nowhere/a\", whose folder cannot be written: No such file",
        "option timeline is \"/tmp\", which is a folder",
        "option metrics_listen is \"192.0.2.1:80\"; cannot listen on it",
        "option redis_password_file: cannot read the password file /nowhere/b: No such file",
        "option sentinel_password_file: cannot read the password file /nowhere/c: No such file",
        "option url_ca_file: cannot open /nowhere/d: No such file",
#ifdef GPUIMGD_TLS
        "option redis_tls_ca_file: cannot open /nowhere/e: No such file",
        "option redis_tls_cert_file: /etc/passwd has no certificate in PEM format",
        "option redis_tls_key_file: cannot open /nowhere/g: No such file",
#endif
    };
    put_config("trace = /nowhere/a\ntimeline = /tmp\nmetrics_listen = 192.0.2.1:80\n"
               "redis_password_file = /nowhere/b\nsentinel_password_file = /nowhere/c\n"
               "url_ca_file = /nowhere/d\nredis_tls_ca_file = /nowhere/e\n"
               "redis_tls_cert_file = /etc/passwd\nredis_tls_key_file = /nowhere/g\n");
    check_all_said("-t", said, COUNT_OF(said));
    check_all_said(NULL, said, 3); /* it starts without the others, and goes on trying */
    /* An error in an option hides none of them. */
    put_config("workers = none\nredis_password_file = /nowhere/b\n");
    check_all_said("-t", (const char *const[]){"option workers", said[3]}, 2);
}

/* It needs no folder that the daemon makes, and makes none. */
TEST(test_check_of_the_roots)
{
    const char *temporary = text_of("%s/.gpuimgd", w->out);
    check_run("-t", NULL, 0, "the configuration is good", true);
    assert_int_not_equal(access(temporary, F_OK), 0);
    assert_true(text_file_write(temporary, "", 0));
    check_run("-t", NULL, 78, "is a symbolic link or a file: remove it", false);
    assert_int_equal(unlink(temporary), 0);
    assert_int_equal(mkdir(temporary, 0700), 0);
    assert_int_equal(chmod(temporary, 0777), 0);
    check_run("-t", NULL, 78, "chmod 0700 it", false);
    assert_int_equal(chmod(temporary, 0700), 0);
    check_run("-t", NULL, 0, "the configuration is good", true);
}

#ifdef GPUIMGD_CURL
/* Only warnings: the service may have an environment and credentials that this user has not. */
TEST(test_check_looks_for_keys)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"};
    put_config("url_prefixes = https://h/ aws:eu\n");
    const char *option = text_of("-c%s", config_path());
    for (size_t i = 0; i < 2; i++)
        unsetenv(names[i]);
    check_run(
        "-t", option, 0,
        "option url_prefixes: aws:eu of https://h/ needs AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, which are not set in the environment; without this the daemon "
        "does not start",
        false);
    check_run(option, NULL, 78, "AWS_ACCESS_KEY_ID", false);
    for (size_t i = 0; i < 2; i++)
        setenv(names[i], "key", 1);
    char *out, *err;
    assert_int_equal(run_once("-t", option, &out, &err), 0);
    assert_null(strstr(err, "keys"));
    free(out);
    free(err);
    for (size_t i = 0; i < 2; i++)
        unsetenv(names[i]);
    put_config("url_prefixes = https://h/ aws:eu:photos\n");
    check_run("-t", option, 0, "aws:eu:photos of https://h/ needs CREDENTIALS_DIRECTORY", false);
}

/* The first prefix counts, and its signing. */
TEST(test_check_of_prefixes)
{
    char *out, *err;
    const char *option = text_of("-c%s", config_path());
    put_config("url_prefixes = https://h/a https://h/ab https://h/a/b/ aws:eu\n");
    check_run("-t", option, 0,
              "\"https://h/a/b/\" never matches, because \"https://h/a\" before it does", false);
    put_config("url_prefixes = https://h/a/b https://h/a https://h:8443/a/b http://h/a/b\n");
    assert_int_equal(run_once("-t", option, &out, &err), 0);
    assert_null(strstr(err, "never matches"));
    free(out);
    free(err);
}
#endif

WORLD_MAIN(OWN_WORLDS, .photo = {"p.jpg", 100, 80})
