/* Tests of the sweep: it removes the temporary files of dead daemons, and no others. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixtures/roots.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

#define DAY_S 86400

/* The INST of a process of this host that has exited. */
static void dead_instance(char inst[INSTANCE_BYTES_MAX])
{
    int ends[2];
    char daemon[INSTANCE_BYTES_MAX];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        bool ok = instance_self(inst, daemon);
        ssize_t count = write(ends[1], inst, INSTANCE_BYTES_MAX);
        _exit(ok && count == INSTANCE_BYTES_MAX ? 0 : 1);
    }
    assert_int_equal(read(ends[0], inst, INSTANCE_BYTES_MAX), INSTANCE_BYTES_MAX);
    close(ends[0]);
    close(ends[1]);
    waitpid(child, NULL, 0);
}

#define ELSEWHERE "otherhost:1b2c-3d:4026531836:77:88123"

TEST(leftovers_of_the_dead_are_swept)
{
    char inst[INSTANCE_BYTES_MAX];
    const char *elsewhere = "out/.gpuimgd/" ELSEWHERE ".12.3.0.tmp";
    dead_instance(inst);
    const char *dead = text_of("out/.gpuimgd/%s.12.3.0.tmp", inst);
    const char *own = text_of("out/.gpuimgd/%s.12.3.0.tmp", roots.files.instance);
    roots_put(dead, "x");
    roots_put(own, "x");
    roots_put(elsewhere, "x");
    roots_put("out/.gpuimgd/notes.txt", "x");
    roots_make_older(elsewhere, 3000);
    assert_int_equal(files_sweep(&roots.files, 3600), 1);
    assert_false(roots_exists(dead));
    assert_true(roots_exists(own) && roots_exists(elsewhere));
    assert_int_equal(files_sweep(&roots.files, 2900), 1);
    assert_false(roots_exists(elsewhere));
    assert_true(roots_exists(own) && roots_exists("out/.gpuimgd/notes.txt"));
}

/* Ages are measured with the clock of the file server. */
TEST(leftovers_age_by_the_file_servers_clock)
{
    const char *leftover = "out/.gpuimgd/" ELSEWHERE ".12.3.0.tmp";
    roots_put(leftover, "x");
    file_server.ahead_s = -2 * DAY_S;
    assert_int_equal(files_sweep(&roots.files, 3600), 0);
    assert_true(roots_exists(leftover));
    roots_make_older(leftover, 3 * DAY_S / 2);
    file_server.ahead_s = 2 * DAY_S;
    assert_int_equal(files_sweep(&roots.files, DAY_S), 1);
    assert_false(roots_exists(leftover));
    assert_int_equal(files_sweep(&roots.files, 0), 0);
}

/* From here on the temporary folder seems to be on another filesystem than the outputs. */
static void part_filesystems(void)
{
    roots.files.temporary_device++;
    roots.files.root_is_near = false;
}

/* A user's output folder may have files with similar names. */
TEST(foreign_files_are_not_swept)
{
    static const char *const foreign[] = {
        "report.1.2.3.tmp",
        "2024.10.31.tmp",
        ELSEWHERE ".12.3.0.tmp",
        ".gpuimgd.1.2.3.tmp",
        ".gpuimgd.notes.1.2.3.tmp",
        "x.gpuimgd." ELSEWHERE ".1.2.3.tmp",
        ".gpuimgd.host:boot:3:4.1.2.3.tmp",
        ".gpuimgd.host:boot:3:4:5:6.1.2.3.tmp",
        ".gpuimgd.host::3:4:5.1.2.3.tmp",
        ".gpuimgd.my host:boot:3:4:5.1.2.3.tmp",
        ".gpuimgd.host:boot:3:4:x5.1.2.3.tmp",
        ".gpuimgd.host:boot:3:04:5.1.2.3.tmp",
        ".gpuimgd." ELSEWHERE ".1.2.tmp",
        ".gpuimgd." ELSEWHERE ".01.2.3.tmp",
        ".gpuimgd." ELSEWHERE ".1.2.3.tmp~",
        ".gpuimgd." ELSEWHERE ".1.2.3.TMP",
        ".gpuimgd." ELSEWHERE ".1..3.tmp",
        ".gpuimgd." ELSEWHERE ".1.2.-3.tmp",
        ".gpuimgd." ELSEWHERE ".1.2.123456789012345678901.tmp",
    };
    roots_make_folder("out/sub");
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        roots_put(text_of("out/sub/%s", foreign[i]), "a user's");
        roots_make_older(text_of("out/sub/%s", foreign[i]), 2 * DAY_S);
    }
    part_filesystems();
    roots_write("sub/cat.png");
    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (!roots_exists(text_of("out/sub/%s", foreign[i])))
            fail_msg("%s is gone", foreign[i]);
}

/* Files with the exact name form, but of another type or owner. */
TEST(only_own_files_are_swept)
{
    const char *link = "out/sub/.gpuimgd." ELSEWHERE ".1.2.3.tmp";
    const char *other = "out/sub/.gpuimgd." ELSEWHERE ".1.2.4.tmp";
    const char *theirs = "out/sub/.gpuimgd." ELSEWHERE ".1.2.5.tmp";
    bool can_give = geteuid() == 0;
    roots_make_folder("out/sub");
    roots_make_link(link, "nowhere");
    roots_make_folder(other);
    roots_put(theirs, "x");
    roots_make_older(link, 2 * DAY_S);
    roots_make_older(other, 2 * DAY_S);
    roots_make_older(theirs, can_give ? 2 * DAY_S : 0);
    if (can_give)
        roots_make_owner(theirs, 65534);
    part_filesystems();
    roots_write("sub/cat.png");
    assert_true(roots_exists(link) && roots_exists(other) && roots_exists(theirs));
}

TEST(leftovers_beside_targets_are_swept)
{
    char inst[INSTANCE_BYTES_MAX];
    const char *old = "out/sub/.gpuimgd." ELSEWHERE ".12.3.0.tmp";
    const char *young = "out/sub/.gpuimgd." ELSEWHERE ".12.3.1.tmp";
    dead_instance(inst);
    const char *dead = text_of("out/sub/.gpuimgd.%s.12.3.0.tmp", inst);
    roots_make_folder("out/sub");
    roots_put(dead, "x");
    roots_put(old, "x");
    roots_put(young, "x");
    roots_make_older(old, DAY_S + 60);
    roots_make_older(young, DAY_S - 600);
    part_filesystems();
    roots_write("sub/cat.png");
    assert_false(roots_exists(dead) || roots_exists(old));
    assert_true(roots_exists(young));
    assert_int_equal(text_file_count(roots_at("out/sub"), ""), 2); /* `young` and the output */
}

/* A writer that is killed leaves no file if it had no name. */
TEST(killed_writers_leave_what_can_be_swept)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct files_output output;
        struct error error = {0};
        char daemon[INSTANCE_BYTES_MAX];
        bool good = instance_self(roots.files.instance, daemon) &&
                    files_output_begin(&roots.files, &output, "x.png", 7, 1, 0, NULL, &error) ==
                        STATUS_OK &&
                    files_output_write(&output, (const uint8_t *)"part", 4, &error) == STATUS_OK;
        raise(good ? SIGKILL : SIGTERM);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_false(roots_exists("out/x.png"));
    bool unnamed = roots.files.naming != FILES_RENAMED;
    assert_int_equal(text_file_count(roots_at("out/.gpuimgd"), ""), unnamed ? 0 : 1);
    assert_int_equal(files_sweep(&roots.files, DAY_S), unnamed ? 0 : 1);
    assert_int_equal(text_file_count(roots_at("out/.gpuimgd"), ""), 0);
}

int main(void)
{
    return roots_run();
}
