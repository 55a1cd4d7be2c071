/* Paths from jobs are hostile; outputs are whole or absent; leftovers of the dead are swept. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/files/files.h"
#include "tests/fixtures/call_filter.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

/* Room for any path that these tests make. */
#define PATH_BYTES 1024
#define DAY_S 86400

/* ---- a file server -------------------------------------------------------------------------- */

/* These stand before the C library's: the files' times are by the clock of a server, which is
 * ahead of ours by so many seconds, and O_EXCL may give a file that has another name, too. */
static time_t server_ahead_s;
static bool server_breaks_excl;

static void as_served(struct stat *info)
{
    info->st_mtim.tv_sec += server_ahead_s;
    if (server_breaks_excl && S_ISREG(info->st_mode))
        info->st_nlink = 2;
}

int fstat(int fd, struct stat *info)
{
    static int (*next)(int, struct stat *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fstat");
    int failed = next(fd, info);
    as_served(info);
    return failed;
}

int fstatat(int folder, const char *restrict name, struct stat *restrict info, int flags)
{
    static int (*next)(int, const char *, struct stat *, int);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fstatat");
    int failed = next(folder, name, info, flags);
    as_served(info);
    return failed;
}

/* ---- a place -------------------------------------------------------------------------------- */

struct place {
    char folder[64];
    struct files files;
};

static void path_in(const struct place *place, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", place->folder, name);
}

static void put(const struct place *place, const char *name, const char *text)
{
    char path[PATH_BYTES];
    path_in(place, name, path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const struct place *place, const char *name)
{
    char path[PATH_BYTES];
    path_in(place, name, path);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void make_link(const struct place *place, const char *name, const char *target)
{
    char path[PATH_BYTES];
    path_in(place, name, path);
    assert_int_equal(symlink(target, path), 0);
}

/* Last written to so long ago. */
static void make_older(const struct place *place, const char *name, time_t seconds)
{
    char path[PATH_BYTES];
    struct timespec times[2];
    path_in(place, name, path);
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void make_owner(const struct place *place, const char *name, uid_t user)
{
    char path[PATH_BYTES];
    path_in(place, name, path);
    assert_int_equal(lchown(path, user, (gid_t)-1), 0);
}

static bool exists(const struct place *place, const char *name)
{
    char path[PATH_BYTES];
    path_in(place, name, path);
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    struct error error = {0};
    char in[PATH_BYTES], out[PATH_BYTES], self[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    strcpy(place->folder, "/tmp/gpuimgd-files-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    make_folder(place, "in");
    make_folder(place, "out");
    path_in(place, "in", in);
    path_in(place, "out", out);
    assert_true(instance_self(self, daemon));
    assert_true(files_open(&place->files, in, out, self, &error));
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    char command[128];
    server_ahead_s = 0;
    server_breaks_excl = false;
    files_close(&place->files);
    snprintf(command, sizeof command, "rm -r %s", place->folder);
    int failed = system(command);
    free(place);
    return failed;
}

static enum status try_input(struct place *place, const char *path, struct error *error)
{
    struct files_input input;
    *error = (struct error){0};
    enum status status = files_open_input(&place->files, path, 100, &input, error);
    if (status == STATUS_OK)
        close(input.fd);
    else
        assert_true(strlen(error->text) > 10);
    return status;
}

TEST(inputs_are_opened_beneath_the_root_only)
{
    struct place *place = *state;
    struct error error;
    char fifo[PATH_BYTES], deep[700];
    put(place, "in/cat.jpg", "meow");
    put(place, "secret", "key");
    make_folder(place, "in/sub");
    put(place, "in/sub/cat.jpg", "meow");
    make_link(place, "in/link.jpg", "cat.jpg");
    make_link(place, "in/out-of-here", "../secret");
    make_link(place, "in/folder", "sub");
    make_link(place, "in/root", "/");
    path_in(place, "in/fifo", fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    memset(deep, 'a', 699);
    deep[699] = '\0';

    assert_int_equal(try_input(place, "cat.jpg", &error), STATUS_OK);
    assert_int_equal(try_input(place, "sub/cat.jpg", &error), STATUS_OK);
    assert_int_equal(try_input(place, "dog.jpg", &error), STATUS_INPUT_MISSING);
    assert_int_equal(try_input(place, "nosuch/dog.jpg", &error), STATUS_INPUT_MISSING);
    const char *refused[] = {"link.jpg", "out-of-here",       "folder/cat.jpg", "root/etc/passwd",
                             "sub",      "fifo",              "../secret",      "sub/../../secret",
                             deep,       "cat.jpg/something", "/etc/passwd"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (try_input(place, refused[i], &error) != STATUS_PATH_REFUSED)
            fail_msg("%s: %s %s", refused[i], status_name(error.status), error.text);
}

TEST(inputs_have_a_size_limit_and_must_stand_still)
{
    struct place *place = *state;
    struct error error = {0};
    uint8_t bytes[101];
    struct files_input input;
    char text[102] = {0};
    memset(text, 'x', 100);
    put(place, "in/limit", text);
    text[100] = 'x';
    put(place, "in/over", text);
    assert_int_equal(try_input(place, "over", &error), STATUS_INPUT_TOO_LARGE);
    assert_non_null(strstr(error.text, "101 bytes; at most 100"));
    error = (struct error){0};
    assert_int_equal(files_open_input(&place->files, "limit", 100, &input, &error), STATUS_OK);
    assert_int_equal(input.size, 100);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 100, &error), STATUS_OK);
    assert_memory_equal(bytes, text, 100);
    lseek(input.fd, 0, SEEK_SET);
    put(place, "in/limit", "short");
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 100, &error),
                     STATUS_INPUT_UNREADABLE);
    error = (struct error){0};
    lseek(input.fd, 0, SEEK_SET);
    put(place, "in/limit", text);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 100, &error),
                     STATUS_INPUT_UNREADABLE);
    close(input.fd);
    error = (struct error){0};
    put(place, "in/empty", "");
    assert_int_equal(files_open_input(&place->files, "empty", 100, &input, &error), STATUS_OK);
    assert_int_equal(files_read_input(input.fd, "empty", bytes, 0, &error), STATUS_OK);
    put(place, "in/empty", "x");
    assert_int_equal(files_read_input(input.fd, "empty", bytes, 0, &error),
                     STATUS_INPUT_UNREADABLE);
    assert_non_null(strstr(error.text, "grew beyond 0 bytes"));
    close(input.fd);
}

/* What a user without rights is told: whose rights are missing, or which setting of the unit. */
TEST(refusals_say_what_to_do)
{
    struct place *place = *state;
    struct error error = {0};
    struct files files;
    char path[PATH_BYTES];
    put(place, "in/secret.jpg", "meow");
    path_in(place, "in/secret.jpg", path);
    assert_int_equal(chmod(path, 0), 0);
    int status;
    pid_t child = fork(); /* root may read it: the child is somebody else, and stays so */
    if (child == 0) {
        bool is_other = geteuid() != 0 || seteuid(65534) == 0;
        _exit(is_other && try_input(place, "secret.jpg", &error) == STATUS_INPUT_UNREADABLE &&
                      strstr(error.text, "opened: Permission denied; the daemon runs as user ")
                  ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    error = (struct error){0};
    assert_false(files_open_inputs(&files, "/home/does/not/exist", &error));
    files_close(&files);
    assert_non_null(strstr(error.text, "No such file or directory (the daemon runs as user "));
    error = (struct error){0};
    setenv("NOTIFY_SOCKET", "/nowhere", 1);
    assert_false(files_open_inputs(&files, "/home/does/not/exist", &error));
    unsetenv("NOTIFY_SOCKET");
    files_close(&files);
    assert_non_null(strstr(error.text, "the service needs ProtectHome=no (systemctl edit"));
}

static enum status any_file(void *context, const struct files_identity *target,
                            struct error *error)
{
    (void)context, (void)target, (void)error;
    return STATUS_OK;
}

TEST(outputs_appear_whole)
{
    struct place *place = *state;
    struct error error = {0};
    struct files_output output;
    struct stat info;
    char path[PATH_BYTES];
    enum status status =
        files_output_begin(&place->files, &output, "a/b/cat.png", 7, 1, 0, &error);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(files_output_write(&output, (const uint8_t *)"meow", 4, &error), STATUS_OK);
    assert_false(exists(place, "out/a/b/cat.png"));
    assert_int_equal(files_output_finish(&output, true, &error), STATUS_OK);
    assert_false(exists(place, "out/a/b/cat.png"));
    assert_int_equal(files_output_place(&output, true, any_file, NULL, &error), STATUS_OK);
    files_output_end(&output);
    path_in(place, "out/a/b/cat.png", path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 4);
    assert_int_equal(info.st_mode & 0777, 0644);

    assert_int_equal(files_output_begin(&place->files, &output, "dog.png", 8, 1, 0, &error),
                     STATUS_OK);
    files_output_end(&output);
    files_output_end(&output);
    assert_int_equal(files_output_begin(&place->files, &output, "dog.png", 9, 1, 0, &error),
                     STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    files_output_end(&output);
    assert_false(exists(place, "out/dog.png"));
    snprintf(path, sizeof path, "rmdir %s/out/.gpuimgd", place->folder);
    assert_int_equal(system(path), 0); /* nothing was left in it */
}

TEST(outputs_stay_beneath_the_root)
{
    struct place *place = *state;
    struct files_output output;
    make_folder(place, "elsewhere");
    make_folder(place, "out/folder.png");
    make_link(place, "out/way-out", "../elsewhere");
    put(place, "out/file", "x");
    const char *refused[] = {"way-out/cat.png", "file/cat.png",        "folder.png", "../cat.png",
                             "/cat.png",        "sub/../../cat.png",   "..",         "sub/",
                             "sub/.",           "new/../../../cat.png"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct error error = {0};
        enum status status =
            files_output_begin(&place->files, &output, refused[i], 1, 1, 0, &error);
        if (status == STATUS_OK)
            status = files_output_finish(&output, false, &error);
        if (status == STATUS_OK)
            status = files_output_place(&output, false, any_file, NULL, &error);
        files_output_end(&output);
        if (status != STATUS_PATH_REFUSED)
            fail_msg("%s: %s %s", refused[i], status_name(status), error.text);
    }
    assert_false(exists(place, "cat.png"));
    /* A link as the target itself is replaced, not followed. */
    struct error error = {0};
    put(place, "elsewhere/kept", "kept");
    make_link(place, "out/link.png", "../elsewhere/kept");
    assert_int_equal(files_output_begin(&place->files, &output, "link.png", 1, 1, 0, &error),
                     STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(files_output_place(&output, false, any_file, NULL, &error), STATUS_OK);
    files_output_end(&output);
    struct stat info;
    char path[PATH_BYTES];
    path_in(place, "elsewhere/kept", path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 4);
}

static enum status refuse_file(void *context, const struct files_identity *target,
                               struct error *error)
{
    *(struct files_identity *)context = *target;
    return error_set(error, STATUS_BAD_JOB, "not this one");
}

/* Only if there is a file of that name is it asked about, and a refused one stays. */
TEST(files_that_are_refused_stay)
{
    struct place *place = *state;
    struct files_output output;
    struct files_identity asked;
    char path[PATH_BYTES];
    struct stat info;
    put(place, "out/old.png", "kept");
    path_in(place, "out/old.png", path);
    assert_int_equal(stat(path, &info), 0);
    for (int old = 0; old < 2; old++) {
        struct error error = {0};
        asked = (struct files_identity){0};
        assert_int_equal(files_output_begin(&place->files, &output, old ? "old.png" : "new.png", 1,
                                            1, 0, &error), STATUS_OK);
        assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
        assert_int_equal(files_output_place(&output, false, refuse_file, &asked, &error),
                         old ? STATUS_BAD_JOB : STATUS_OK);
        assert_int_equal(asked.inode, old ? info.st_ino : 0);
        files_output_end(&output);
    }
    assert_true(exists(place, "out/new.png"));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 4);
}

/* The INST of a process of this host that has ended. */
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
    struct place *place = *state;
    char inst[INSTANCE_BYTES_MAX], dead[300], own[300];
    const char *elsewhere = "out/.gpuimgd/" ELSEWHERE ".12.3.0.tmp";
    dead_instance(inst);
    snprintf(dead, sizeof dead, "out/.gpuimgd/%s.12.3.0.tmp", inst);
    snprintf(own, sizeof own, "out/.gpuimgd/%s.12.3.0.tmp", place->files.instance);
    put(place, dead, "x");
    put(place, own, "x");
    put(place, elsewhere, "x");
    put(place, "out/.gpuimgd/notes.txt", "x");
    make_older(place, elsewhere, 3000);
    assert_int_equal(files_sweep(&place->files, 3600), 1);
    assert_false(exists(place, dead));
    assert_true(exists(place, own) && exists(place, elsewhere));
    assert_int_equal(files_sweep(&place->files, 2900), 1);
    assert_false(exists(place, elsewhere));
    assert_true(exists(place, own) && exists(place, "out/.gpuimgd/notes.txt"));
}

/* The clock that counts is the one that the files' times are from. */
TEST(leftovers_age_by_the_file_servers_clock)
{
    struct place *place = *state;
    const char *leftover = "out/.gpuimgd/" ELSEWHERE ".12.3.0.tmp";
    put(place, leftover, "x");
    server_ahead_s = -2 * DAY_S;
    assert_int_equal(files_sweep(&place->files, 3600), 0);
    assert_true(exists(place, leftover));
    make_older(place, leftover, 3 * DAY_S / 2);
    server_ahead_s = 2 * DAY_S;
    assert_int_equal(files_sweep(&place->files, DAY_S), 1);
    assert_false(exists(place, leftover));
    assert_int_equal(files_sweep(&place->files, 0), 0);
}

/* From here on all outputs lie on another filesystem than their temporary folder does. */
static void part_filesystems(struct place *place)
{
    place->files.temporary_device++;
    place->files.root_is_near = false;
}

static void write_output(struct place *place, const char *path)
{
    struct error error = {0};
    struct files_output output;
    assert_int_equal(files_output_begin(&place->files, &output, path, 7, 1, 0, &error), STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(files_output_place(&output, false, any_file, NULL, &error), STATUS_OK);
    files_output_end(&output);
}

/* A user's output folder, in which files may look like ours. */
TEST(foreign_files_are_not_swept)
{
    struct place *place = *state;
    static const char *const foreign[] = {
        "report.1.2.3.tmp", "2024.10.31.tmp", ELSEWHERE ".12.3.0.tmp",
        ".gpuimgd.1.2.3.tmp", ".gpuimgd.notes.1.2.3.tmp", "x.gpuimgd." ELSEWHERE ".1.2.3.tmp",
        ".gpuimgd.host:boot:3:4.1.2.3.tmp", ".gpuimgd.host:boot:3:4:5:6.1.2.3.tmp",
        ".gpuimgd.host::3:4:5.1.2.3.tmp", ".gpuimgd.my host:boot:3:4:5.1.2.3.tmp",
        ".gpuimgd.host:boot:3:4:x5.1.2.3.tmp", ".gpuimgd.host:boot:3:04:5.1.2.3.tmp",
        ".gpuimgd." ELSEWHERE ".1.2.tmp", ".gpuimgd." ELSEWHERE ".01.2.3.tmp",
        ".gpuimgd." ELSEWHERE ".1.2.3.tmp~", ".gpuimgd." ELSEWHERE ".1.2.3.TMP",
        ".gpuimgd." ELSEWHERE ".1..3.tmp", ".gpuimgd." ELSEWHERE ".1.2.-3.tmp",
        ".gpuimgd." ELSEWHERE ".1.2.123456789012345678901.tmp",
    };
    enum { foreign_count = sizeof foreign / sizeof foreign[0] };
    char name[300];
    make_folder(place, "out/sub");
    for (size_t i = 0; i < foreign_count; i++) {
        snprintf(name, sizeof name, "out/sub/%s", foreign[i]);
        put(place, name, "a user's");
        make_older(place, name, 2 * DAY_S);
    }
    part_filesystems(place);
    write_output(place, "sub/cat.png");
    for (size_t i = 0; i < foreign_count; i++) {
        snprintf(name, sizeof name, "out/sub/%s", foreign[i]);
        if (!exists(place, name))
            fail_msg("%s is gone", name);
    }
}

/* Of the exact form, but made by somebody else. */
TEST(only_own_files_are_swept)
{
    struct place *place = *state;
    const char *link = "out/sub/.gpuimgd." ELSEWHERE ".1.2.3.tmp";
    const char *folder = "out/sub/.gpuimgd." ELSEWHERE ".1.2.4.tmp";
    const char *theirs = "out/sub/.gpuimgd." ELSEWHERE ".1.2.5.tmp";
    bool can_give = geteuid() == 0;
    make_folder(place, "out/sub");
    make_link(place, link, "nowhere");
    make_folder(place, folder);
    put(place, theirs, "x");
    make_older(place, link, 2 * DAY_S);
    make_older(place, folder, 2 * DAY_S);
    make_older(place, theirs, can_give ? 2 * DAY_S : 0);
    if (can_give)
        make_owner(place, theirs, 65534);
    part_filesystems(place);
    write_output(place, "sub/cat.png");
    assert_true(exists(place, link) && exists(place, folder) && exists(place, theirs));
}

TEST(leftovers_beside_targets_are_swept)
{
    struct place *place = *state;
    char inst[INSTANCE_BYTES_MAX], dead[300];
    const char *old = "out/sub/.gpuimgd." ELSEWHERE ".12.3.0.tmp";
    const char *young = "out/sub/.gpuimgd." ELSEWHERE ".12.3.1.tmp";
    dead_instance(inst);
    snprintf(dead, sizeof dead, "out/sub/.gpuimgd.%s.12.3.0.tmp", inst);
    make_folder(place, "out/sub");
    put(place, dead, "x");
    put(place, old, "x");
    put(place, young, "x");
    make_older(place, old, DAY_S + 60);
    make_older(place, young, DAY_S - 600);
    part_filesystems(place);
    write_output(place, "sub/cat.png");
    assert_false(exists(place, dead) || exists(place, old));
    assert_true(exists(place, young));
    snprintf(dead, sizeof dead, "%s/out/sub", place->folder);
    assert_int_equal(text_file_count(dead, ""), 2); /* that one and the output */
}

/* Links under the name of a temporary file must not be written through. */
TEST(temporary_files_are_new_files)
{
    struct place *place = *state;
    struct error error = {0};
    struct files_output output;
    struct stat info;
    char name[300], victim[PATH_BYTES], path[PATH_BYTES];
    put(place, "victim", "kept");
    path_in(place, "victim", victim);
    snprintf(name, sizeof name, "out/.gpuimgd/%s.7.1.0.tmp", place->files.instance);
    path_in(place, name, path);
    assert_int_equal(link(victim, path), 0);
    write_output(place, "hard.png");
    assert_int_equal(symlink(victim, path), 0);
    write_output(place, "soft.png");
    assert_int_equal(stat(victim, &info), 0);
    assert_int_equal(info.st_size, 4);
    assert_int_equal(info.st_nlink, 1);

    server_breaks_excl = true;
    assert_int_equal(files_output_begin(&place->files, &output, "cat.png", 7, 1, 0, &error),
                     STATUS_WRITE_FAILED);
    files_output_end(&output);
    assert_non_null(strstr(error.text, "\"cat.png\" cannot be created: its temporary file is not a "
                                       "new, empty file"));
}

static void open_again(struct place *place, const char *expected)
{
    struct files files;
    struct error error = {0};
    char in[PATH_BYTES], out[PATH_BYTES];
    path_in(place, "in", in);
    path_in(place, "out", out);
    bool open = files_open(&files, in, out, place->files.instance, &error);
    files_close(&files);
    if (open != !expected || (expected && !strstr(error.text, expected)))
        fail_msg("%s: %s", expected ? expected : "to be opened", error.text);
}

TEST(the_temporary_folder_is_ours_alone)
{
    struct place *place = *state;
    char path[PATH_BYTES];
    path_in(place, "out/.gpuimgd", path);
    open_again(place, NULL);
    assert_int_equal(chmod(path, 0777), 0);
    open_again(place, "in which other users may write to .gpuimgd (mode 0777): chmod 0700 it");
    assert_int_equal(chmod(path, 0770), 0);
    open_again(place, "(mode 0770)");
    assert_int_equal(chmod(path, 0755), 0);
    open_again(place, NULL);
    if (geteuid() == 0) {
        make_owner(place, "out/.gpuimgd", 65534);
        open_again(place, "in which .gpuimgd belongs to user nobody; the daemon runs as user root");
        make_owner(place, "out/.gpuimgd", 0);
    }
    assert_int_equal(rmdir(path), 0);
    make_folder(place, "elsewhere");
    make_link(place, "out/.gpuimgd", "../elsewhere");
    open_again(place, "in which .gpuimgd is a symbolic link or a file: remove it");
    assert_int_equal(unlink(path), 0);
    put(place, "out/.gpuimgd", "x");
    open_again(place, "in which .gpuimgd is a symbolic link or a file: remove it");
}

TEST(roots_must_be_there)
{
    struct files files;
    struct error error = {0};
    assert_false(files_open(&files, "/nonexistent/in", "/tmp", "x", &error));
    assert_non_null(strstr(error.text, "option input_root is \"/nonexistent/in\""));
    files_close(&files);
    files_close(&files);
}

static int lose_openat2(void **state)
{
    bool lost = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && call_refuse(SYS_openat2, ENOSYS);
    return lost && syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) == -1 && errno == ENOSYS ? 0 : -1;
}

int main(void)
{
    int failed = run_all(.name = "files", .each_setup = setup, .each_teardown = teardown);
    /* Once more as under the unit, where paths are walked. */
    return failed + run_all(.name = "files without openat2", .setup = lose_openat2,
                            .each_setup = setup, .each_teardown = teardown);
}
