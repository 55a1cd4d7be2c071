/*
 * test_ctl_screen.c - gpuimgctl on a terminal: the progress bar, Ctrl-C, top.
 */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixtures/ctl.h"
#include "tests/fixtures/fake_daemon.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define PICTURES 300

static void put_album(void)
{
    put_small_pngs("album", PICTURES);
    world_put(w, "album/0.png", "no picture", 10);
    world_put(w, "1.tar", "no archive", 10);
    world_put(w, "2.tar", "no archive", 10);
}

/* ---- a terminal ------------------------------------------------------------------------------ */

static struct {
    pid_t pid;
    int fd;
    char text[1 << 17]; /* the end of the output */
    size_t length;
} terminal;

/* Starts a command line on a pseudo-terminal of `columns` columns. */
static void open_terminal(int columns, const char *line)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    const char *full = ctl_line(w, line);
    memset(&terminal, 0, sizeof terminal);
    terminal.pid = forkpty(&terminal.fd, NULL, NULL, &size);
    assert_true(terminal.pid >= 0);
    if (terminal.pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/bin/sh", "sh", "-c", full, (char *)NULL);
    _exit(127);
}

/* Returns false if the program has ended, or if nothing came for `seconds`. */
static bool read_more(double seconds)
{
    struct pollfd input = {.fd = terminal.fd, .events = POLLIN};
    size_t part = sizeof terminal.text / 4;
    if (poll(&input, 1, seconds > 0 ? (int)(seconds * 1000) : 0) <= 0)
        return false;
    if (terminal.length > 2 * part) { /* keeps only the end */
        terminal.length -= part;
        memmove(terminal.text, terminal.text + part, terminal.length);
    }
    ssize_t got = read(terminal.fd, terminal.text + terminal.length, part);
    if (got <= 0)
        return false;
    terminal.length += (size_t)got;
    terminal.text[terminal.length] = '\0';
    return true;
}

static void shows(const char *text)
{
    double end = process_now() + patience(60);
    while (!strstr(terminal.text, text))
        if (!read_more(end - process_now()))
            fail_msg("no \"%s\" in\n%s", text, terminal.text);
}

static void type_keys(const char *keys)
{
    assert_int_equal(write(terminal.fd, keys, strlen(keys)), strlen(keys));
}

/* Waits for the end of the program, which must have this exit status. */
static void close_terminal(int expected)
{
    int status;
    double end = process_now() + patience(60);
    while (read_more(end - process_now()))
        continue;
    waitpid(terminal.pid, &status, 0);
    close(terminal.fd);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* No line of the bar, between the carriage returns, is longer than the terminal. */
static void check_width(size_t columns)
{
    for (const char *at = terminal.text; at; at = strchr(at, '\r') ? strchr(at, '\r') + 1 : NULL)
        if (*at == '[')
            assert_true(strcspn(at, "\033\r\n") < columns);
}

/* Plays a daemon that has done the newest jobs. */
static void answer_newest(int count)
{
    double end = process_now() + patience(30);
    while (redis_integer(w->client, "LLEN %s:jobs", w->ns) < PICTURES) {
        assert_true(process_now() < end);
        process_sleep(0.005);
    }
    for (int i = 0; i < count; i++) {
        cJSON *job = cJSON_Parse(redis_text(w->client, "LPOP %s:jobs", w->ns));
        assert_non_null(job);
        fake_answer(job, "done", "'outputs':[{'path':'x/%d.png','bytes':9}]", i);
        cJSON_Delete(job);
    }
}

TEST(test_bar)
{
    open_terminal(80, "ctl submit $at -r in/album -o x --wait");
    shows("[------------------------] 0/300 done"); /* no daemon runs yet */
    answer_newest(50);
    shows("[####--------------------] 50/300 done");
    start_ready(0);
    shows(" images/s");
    shows("failed ");                                /* the only line about a single job */
    shows("0.png: the input's 10 bytes are neither a JPEG, a PNG, a WebP");
    shows(" (unsupported_format)\r\n");
    shows("299 done in ");
    close_terminal(1);
    assert_null(strstr(terminal.text, "done   "));
    assert_non_null(strstr(terminal.text, ", 1 failed"));
    check_width(80);
}

static size_t count_of(const char *text)
{
    size_t count = 0;
    for (const char *at = terminal.text; (at = strstr(at, text)); at++)
        count++;
    return count;
}

static long long calls_of(const char *command)
{
    const char *stats = redis_text(w->client, "INFO commandstats");
    const char *at = strstr(stats, text_of("cmdstat_%s:calls=", command));
    return at ? strtoll(strchr(at, '=') + 1, NULL, 10) : 0;
}

/* Draws what the daemons publish about the jobs in flight, but seldom, and asks Redis seldom. */
TEST(test_bar_of_lists)
{
    open_terminal(80, "ctl submit $at -r in/album --list 200 -o x --wait");
    shows("[------------------------] 0/300 done");
    cJSON *first = fake_take(200), *second = fake_take(100);
    long long reads = calls_of("mget");
    double began = process_now();
    terminal.length = 0;
    fake_heartbeat("{'job':1,'id':'%s','images':150,'failed':2,'fraction':0.75},"
                   "{'job':9,'id':'of another submit','images':77,'failed':7,'fraction':0.5}",
                   json_text(first, "id"));
    shows("[############------------] 150/300 done, 2 failed");
    shows(" images/s");
    shows(" left");
    while (process_now() < began + 3)
        read_more(0.1);
    double seconds = process_now() - began;
    assert_true((double)count_of("] 150/300 done") <= 4 * seconds + 1);
    assert_true((double)(calls_of("mget") - reads) <= seconds + 2);
    fake_answer(first, "done",
                "'images':{'count':200,'done':198,'failed':2,'errors':[{'image':3,"
                "'name':'album/3.png','error':{'code':'truncated','message':'it ends early'}}]},"
                "'outputs':[{'path':'x/%%p.png','images':198,'bytes':9}]");
    shows("failed 1 more image of this job\r\n"); /* after the line of the job */
    shows("[################--------] 200/300 done, 2 failed");
    fake_answer(second, "done",
                "'images':{'count':100,'done':100,'failed':0},"
                "'outputs':[{'path':'x/%%p.png','images':100,'bytes':9}]");
    shows("298 images done in ");
    close_terminal(1);
    assert_int_equal(count_of("done   in/album"), 1); /* of the job with failures */
    check_width(80);
    cJSON_Delete(first);
    cJSON_Delete(second);
}

/* The number of images in an archive is not known, but the share that is done. */
TEST(test_bar_of_archives)
{
    open_terminal(100, "ctl submit $at --shards '?.tar' -o x --wait");
    shows("[------------------------] 0/2 archives, 0 images done");
    cJSON *first = fake_take(0), *second = fake_take(0);
    fake_heartbeat("{'job':1,'id':'%s','images':4210,'failed':10,'fraction':0.5},"
                   "{'job':2,'id':'%s','images':90,'failed':0,'fraction':0.25}",
                   json_text(first, "id"), json_text(second, "id"));
    shows("[#########---------------] 0/2 archives, 4,300 images done, 10 failed  ");
    shows(" left");
    fake_answer(first, "done",
                "'images':{'count':8000,'done':8000,'failed':0},"
                "'outputs':[{'path':'x/1.tar','images':8000,'bytes':9}]");
    shows("[###############---------] 1/2 archives, 8,090 images done");
    fake_answer(second, "done",
                "'images':{'count':100,'done':100,'failed':0},"
                "'outputs':[{'path':'x/2.tar','images':100,'bytes':9}]");
    shows("8,100 images done in ");
    close_terminal(0);
    cJSON_Delete(first);
    cJSON_Delete(second);
}

/* Without a terminal there are plain lines, if --verbose is given, and none otherwise. */
TEST(test_plain_progress)
{
    struct process process = ctl_begin(w, "ctl submit $at 1.tar --shards 2.tar -o x --wait -v");
    struct process quiet = ctl_begin(w, "ctl submit $at 1.tar --shards 2.tar -o y --wait");
    fake_heartbeat("{'job':1,'id':'nobody','images':1,'failed':0,'fraction':0}");
    assert_true(process_logged(&process, 0, "0/2 archives, 0 images done", patience(30)));
    process_sleep(0.3); /* the other one would print now */
    for (int i = 0; i < 4; i++) {
        cJSON *job = fake_take(0);
        fake_answer(job, "done",
                    "'images':{'count':1,'done':1,'failed':0},"
                    "'outputs':[{'path':'x/1.tar','images':1,'bytes':9}]");
        cJSON_Delete(job);
    }
    struct ctl_run run = ctl_end(&quiet);
    assert_string_equal(run.err, "");
    assert_int_equal(run.status, 0);
    run = ctl_end(&process);
    assert_int_equal(run.status, 0);
    assert_null(strstr(run.err, "["));
}

TEST(test_narrow)
{
    start_ready(0);
    open_terminal(30, "ctl submit $at in/album/1.png -o x -w -v");
    shows("done   in/album/1.png -> x/1.png 8x8");
    shows("1 done in ");
    close_terminal(0);
    check_width(30);
    open_terminal(80, "ctl submit $at in/album/1.png --no-output --ops phash -w");
    shows("{\"phash\":\"");
    close_terminal(0);
}

TEST(test_interrupt)
{
    open_terminal(80, "exec \"$GPUIMGCTL\" submit $at -r in/album -o x --wait");
    shows("] 0/300 done");
    shows("no gpuimgd is running");
    type_keys("\003");
    shows("interrupted: 0 of 300 jobs have ended");
    shows("300 go on in the background; their results go to the list gpuimgd:reply:ctl-");
    close_terminal(130);
    assert_int_equal(redis_integer(w->client, "LLEN %s:jobs", w->ns), 300);
}

TEST(test_top)
{
    start_ready(0);
    open_terminal(160, "exec \"$GPUIMGCTL\" top $at -i 0.2");
    shows("(q ends)");
    shows("waiting 0   running 0");
    shows("daemon ");
    ctl_expect(w, 1, "ctl submit $at -r in/album -o x --wait", "299 done", NULL);
    shows("since daemon start: done 299   failed 1   retried 0");
    shows("0.0 images/s   0.0 MP/s"); /* idle again */
    shows("decode: host 0.0 MP/s, device 0.0   encode: host 0.0, device 0.0");
    redis_server_kill9(w->redis);
    shows("cannot reach Redis at ");
    redis_server_restart(w->redis);
    world_reconnect(w);
    terminal.length = 0;
    shows("waiting 0   running 0");
    type_keys("q");
    close_terminal(0);
    assert_non_null(strstr(terminal.text, "\033[?1049l")); /* leaves the alternate screen */
}

/* Ctrl-S holds the terminal in the middle of a drawing; Ctrl-C interrupts the write. */
TEST(test_interrupt_of_a_drawing)
{
    open_terminal(160, "exec \"$GPUIMGCTL\" top $at -i 0.05");
    shows("waiting 0");
    type_keys("\023");
    process_sleep(patience(0.3));
    type_keys("\003");
    close_terminal(0);
    assert_null(strstr(terminal.text, "cannot be written"));
    assert_non_null(strstr(terminal.text, "\033[?1049l"));
}

/* gpuimgctl waits for a slow or held terminal, and leaves it in blocking mode. */
TEST(test_slow_terminal)
{
    open_terminal(160, "ctl top $at -n 20 -i 0.05; echo \"exit $?\"; "
                       "grep flags: /proc/self/fdinfo/0");
    shows("waiting 0");
    type_keys("\023");
    process_sleep(patience(0.3));
    type_keys("\021");
    shows("exit 0");
    close_terminal(0);
    const char *flags = strstr(terminal.text, "flags:");
    assert_non_null(flags);
    assert_int_equal(strtol(flags + strlen("flags:"), NULL, 8) & O_NONBLOCK, 0);
}

/* No line of top is longer than the screen, and a dead daemon disappears from it. */
TEST(test_top_of_a_daemon_that_dies)
{
    struct process *daemon = start_ready(0);
    open_terminal(80, "exec \"$GPUIMGCTL\" top $at -i 0.2");
    shows(" running ");
    process_signal(daemon, SIGKILL);
    shows("no gpuimgd is running in this namespace");
    type_keys("q");
    close_terminal(0);
    for (const char *at = terminal.text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, "daemon ", 7) == 0 || strstr(at, " running ") == at + 27)
            assert_in_range(strcspn(at, "\033\r\n"), 60, 80);
}

WORLD_MAIN(EMPTY_WORLD, .fill = put_album)
