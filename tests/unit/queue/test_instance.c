/* Tests of a daemon's identity and of whether another instance is alive. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue/job/instance.h"
#include "tests/fixtures/test.h"

TEST(test_self)
{
    char inst[INSTANCE_BYTES_MAX], again[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    char pid[32];
    assert_true(instance_self(inst, daemon));
    assert_true(instance_self(again, daemon));
    assert_string_equal(inst, again);
    assert_int_equal(strspn(inst, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "._:-"), strlen(inst));
    int colons = 0;
    for (const char *at = inst; *at; at++)
        colons += *at == ':';
    assert_int_equal(colons, 4);
    snprintf(pid, sizeof pid, ":%ld", (long)getpid());
    assert_string_equal(strrchr(daemon, ':'), pid);
    assert_int_equal(instance_life(inst, inst), INSTANCE_ALIVE);
}

/* A child that has exited, before and after its parent waits for it. */
TEST(test_child)
{
    char self[INSTANCE_BYTES_MAX], child[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    int fds[2];
    assert_true(instance_self(self, daemon));
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (instance_self(child, daemon) && write(fds[1], child, sizeof child) > 0)
            pause();
        _exit(1);
    }
    assert_int_equal(read(fds[0], child, sizeof child), sizeof child);
    assert_int_equal(instance_life(child, self), INSTANCE_ALIVE);
    kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(instance_life(child, self), INSTANCE_DEAD);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(instance_life(child, self), INSTANCE_DEAD);
    close(fds[0]);
    close(fds[1]);
}

TEST(test_others)
{
    static const struct {
        const char *inst;
        enum instance_life life;
    } cases[] = {
        {"h:b:n:1:1", INSTANCE_DEAD}, /* pid 1 started at another time */
        {"h2:b:n:1:1", INSTANCE_ELSEWHERE}, {"h:b2:n:1:1", INSTANCE_ELSEWHERE},
        {"h:b:n2:1:1", INSTANCE_ELSEWHERE}, {"h:b:n:x:1", INSTANCE_ELSEWHERE},
        {"h:b:n:0:1", INSTANCE_ELSEWHERE}, {"h:b:n:-1:1", INSTANCE_ELSEWHERE},
        {"h:b:n:1", INSTANCE_ELSEWHERE}, {"h:b:n:1:1:1", INSTANCE_ELSEWHERE},
        {"", INSTANCE_ELSEWHERE}, {"::::", INSTANCE_ELSEWHERE}, {"garbage", INSTANCE_ELSEWHERE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (instance_life(cases[i].inst, "h:b:n:2:2") != cases[i].life)
            fail_msg("%s", cases[i].inst);
}

TEST(test_names)
{
    static const char *const good[] = {"h:b:1:2:3", "my.host_1-x:0f-1e:4026531836:77:0"};
    static const char *const bad[] = {"", "h", "h:b:1:2", "h:b:1:2:3:4", "h::1:2:3", ":b:1:2:3",
                                      "h:b:1:2:", "h:b:n:2:3", "h:b:1:x:3", "h:b:1:2:-3",
                                      "h:b:1:2:03", "h h:b:1:2:3", "h/h:b:1:2:3"};
    char self[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    assert_true(instance_self(self, daemon));
    assert_true(instance_is_name(self));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!instance_is_name(good[i]))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (instance_is_name(bad[i]))
            fail_msg("%s", bad[i]);
}

TEST_MAIN(.name = "instance")
