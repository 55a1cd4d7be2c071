/* Tests of files: hostile paths in jobs, atomic outputs, and the sweep of leftovers. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/files/files.h"
#include "tests/fixtures/call_filter.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

#define DAY_S 86400

/* ---- a fake file server ---------------------------------------------------------------------- */

/* Replace the C library's functions. File times come from a server whose clock is ahead by
 * server_ahead_s, and O_EXCL may return a file that has a second name. A rename notes whether the
 * file that it replaces is open. */
static time_t server_ahead_s;
static bool server_breaks_excl;
static long server_type; /* of the filesystem; 0: the real one */
static ino_t watched;    /* inode of the file to be replaced */
static bool was_open;    /* during the last rename */
static bool stayed_open; /* until the end of the last output of write_as */

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

int fstatfs(int fd, struct statfs *info)
{
    static int (*next)(int, struct statfs *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fstatfs");
    int failed = next(fd, info);
    if (server_type)
        info->f_type = server_type;
    return failed;
}

static bool is_open(ino_t inode)
{
    struct stat info;
    bool found = false;
    for (int fd = 0; fd < 256; fd++)
        found |= fstat(fd, &info) == 0 && info.st_ino == inode;
    return found;
}

int renameat(int from_folder, const char *from, int folder, const char *to)
{
    static int (*next)(int, const char *, int, const char *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "renameat");
    was_open = is_open(watched);
    return next(from_folder, from, folder, to);
}

/* What an old kernel, a filesystem or a sandbox refuses. */
static bool refuses_unnamed; /* O_TMPFILE */
static bool refuses_empty;   /* linkat of a descriptor */
static bool refuses_proc;    /* linkat through /proc */
static unsigned links;       /* calls of linkat that succeeded */

int openat(int folder, const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (refuses_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, folder, name, flags, mode);
}

int linkat(int from_folder, const char *from, int folder, const char *to, int flags)
{
    if (flags & AT_EMPTY_PATH ? refuses_empty : refuses_proc) {
        errno = ENOENT; /* as Linux before 6.10, and as in a chroot without /proc */
        return -1;
    }
    int failed = (int)syscall(SYS_linkat, from_folder, from, folder, to, flags);
    links += failed == 0;
    return failed;
}

/* ---- the test's folder ----------------------------------------------------------------------- */

static const char *parent = "/tmp"; /* of the folder */
static char folder[64]; /* has the folders `in` and `out` */
static struct files files;

/* The path of a file in the folder; text_keep owns it. */
static const char *at(const char *name)
{
    return text_of("%s/%s", folder, name);
}

static void put(const char *name, const char *text)
{
    assert_true(text_file_write(at(name), text, strlen(text)));
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(at(name), 0755), 0);
}

static void make_link(const char *name, const char *target)
{
    assert_int_equal(symlink(target, at(name)), 0);
}

/* Moves the time of the last write back. */
static void make_older(const char *name, time_t seconds)
{
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, at(name), times, AT_SYMLINK_NOFOLLOW), 0);
}

static void make_owner(const char *name, uid_t user)
{
    assert_int_equal(lchown(at(name), user, (gid_t)-1), 0);
}

static bool exists(const char *name)
{
    return faccessat(AT_FDCWD, at(name), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct stat stat_of(const char *name)
{
    struct stat info;
    assert_int_equal(stat(at(name), &info), 0);
    return info;
}

static int setup(void **state)
{
    struct error error = {0};
    char self[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    snprintf(folder, sizeof folder, "%s/gpuimgd-files-XXXXXX", parent);
    assert_non_null(mkdtemp(folder));
    make_folder("in");
    make_folder("out");
    assert_true(instance_self(self, daemon));
    assert_true(files_open(&files, at("in"), at("out"), self, &error));
    return 0;
}

static int teardown(void **state)
{
    server_ahead_s = 0;
    server_breaks_excl = false;
    files_close(&files);
    text_file_remove_folder(folder);
    return 0;
}

static enum status try_input(const char *path, struct error *error)
{
    struct files_input input;
    *error = (struct error){0};
    enum status status = files_open_input(&files, NULL, path, 100, &input, error);
    if (status == STATUS_OK)
        close(input.fd);
    else
        assert_true(strlen(error->text) > 10);
    return status;
}

TEST(inputs_are_opened_beneath_the_root_only)
{
    struct error error;
    char deep[700];
    put("in/cat.jpg", "meow");
    put("secret", "key");
    make_folder("in/sub");
    put("in/sub/cat.jpg", "meow");
    make_link("in/link.jpg", "cat.jpg");
    make_link("in/out-of-here", "../secret");
    make_link("in/folder", "sub");
    make_link("in/root", "/");
    assert_int_equal(mkfifo(at("in/fifo"), 0600), 0);
    memset(deep, 'a', 699);
    deep[699] = '\0';

    assert_int_equal(try_input("cat.jpg", &error), STATUS_OK);
    assert_int_equal(try_input("sub/cat.jpg", &error), STATUS_OK);
    assert_int_equal(try_input("dog.jpg", &error), STATUS_INPUT_MISSING);
    assert_int_equal(try_input("nosuch/dog.jpg", &error), STATUS_INPUT_MISSING);
    const char *refused[] = {"link.jpg", "out-of-here",       "folder/cat.jpg", "root/etc/passwd",
                             "sub",      "fifo",              "../secret",      "sub/../../secret",
                             deep,       "cat.jpg/something", "/etc/passwd"};
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (try_input(refused[i], &error) != STATUS_PATH_REFUSED)
            fail_msg("%s: %s %s", refused[i], status_name(error.status), error.text);
}

TEST(inputs_have_a_size_limit_and_must_stand_still)
{
    struct error error = {0};
    uint8_t bytes[101];
    struct files_input input;
    char text[102] = {0};
    memset(text, 'x', 100);
    put("in/limit", text);
    text[100] = 'x';
    put("in/over", text);
    assert_int_equal(try_input("over", &error), STATUS_INPUT_TOO_LARGE);
    assert_non_null(strstr(error.text, "101 bytes; at most 100"));
    error = (struct error){0};
    assert_int_equal(files_open_input(&files, NULL, "limit", 100, &input, &error), STATUS_OK);
    assert_int_equal(input.size, 100);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 0, 100, &error), STATUS_OK);
    assert_memory_equal(bytes, text, 100);
    memset(bytes, 'y', 100);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 40, 100, &error), STATUS_OK);
    assert_int_equal(bytes[39], 'y');
    assert_memory_equal(bytes + 40, text + 40, 60);
    put("in/limit", "short");
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 0, 100, &error),
                     STATUS_INPUT_UNREADABLE);
    error = (struct error){0};
    put("in/limit", text);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 0, 100, &error),
                     STATUS_INPUT_UNREADABLE);
    close(input.fd);
    error = (struct error){0};
    put("in/empty", "");
    assert_int_equal(files_open_input(&files, NULL, "empty", 100, &input, &error), STATUS_OK);
    assert_int_equal(files_read_input(input.fd, "empty", bytes, 0, 0, &error), STATUS_OK);
    put("in/empty", "x");
    assert_int_equal(files_read_input(input.fd, "empty", bytes, 0, 0, &error),
                     STATUS_INPUT_UNREADABLE);
    assert_non_null(strstr(error.text, "grew beyond 0 bytes"));
    close(input.fd);
}

/* The messages name the missing permission, or the setting of the unit that is in the way. */
TEST(refusals_say_what_to_do)
{
    struct error error = {0};
    struct files other;
    put("in/secret.jpg", "meow");
    assert_int_equal(chmod(at("in/secret.jpg"), 0), 0);
    int status;
    pid_t child = fork(); /* root could read it, so a child becomes another user */
    if (child == 0) {
        bool is_other = geteuid() != 0 || seteuid(65534) == 0;
        _exit(is_other && try_input("secret.jpg", &error) == STATUS_INPUT_UNREADABLE &&
                      strstr(error.text, "opened: Permission denied; the daemon runs as user ")
                  ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    error = (struct error){0};
    assert_false(files_open_inputs(&other, "/home/does/not/exist", &error));
    files_close(&other);
    assert_non_null(strstr(error.text, "No such file or directory (the daemon runs as user "));
    error = (struct error){0};
    setenv("NOTIFY_SOCKET", "/nowhere", 1);
    assert_false(files_open_inputs(&other, "/home/does/not/exist", &error));
    unsetenv("NOTIFY_SOCKET");
    files_close(&other);
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
    struct error error = {0};
    struct files_output output;
    struct files_making making = {.sync = true};
    enum status status =
        files_output_begin(&files, &output, "a/b/cat.png", 7, 1, 0, &making, &error);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(files_output_write(&output, (const uint8_t *)"meow", 4, &error), STATUS_OK);
    assert_false(exists("out/a/b/cat.png"));
    assert_int_equal(files_output_finish(&output, true, &error), STATUS_OK);
    assert_false(exists("out/a/b/cat.png"));
    assert_int_equal(files_output_place(&output, true, any_file, NULL, &error), STATUS_OK);
    files_output_end(&output);
    struct stat info = stat_of("out/a/b/cat.png");
    assert_int_equal(info.st_size, 4);
    assert_int_equal(info.st_mode & 0777, 0644);

    assert_int_equal(files_output_begin(&files, &output, "dog.png", 8, 1, 0, NULL, &error),
                     STATUS_OK);
    files_output_end(&output);
    files_output_end(&output);
    assert_int_equal(files_output_begin(&files, &output, "dog.png", 9, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    files_output_end(&output);
    assert_false(exists("out/dog.png"));
    assert_int_equal(rmdir(at("out/.gpuimgd")), 0); /* nothing was left in it */
}

static unsigned syncs; /* calls of fsync */

/* Replaces the C library's function. */
int fsync(int descriptor)
{
    syncs++;
    return (int)syscall(SYS_fsync, descriptor);
}

static enum status stop_after(void *context, struct error *error)
{
    unsigned *left = context;
    return (*left)-- > 0 ? STATUS_OK : error_set(error, STATUS_TIMEOUT, "too late");
}

static enum status begin_and_end(const char *path, const struct files_making *making)
{
    struct error error = {0};
    struct files_output output;
    enum status status = files_output_begin(&files, &output, path, 7, 1, 0, making, &error);
    files_output_end(&output);
    return status;
}

/* Only new folders are synced, and only if outputs are. */
TEST(folders_are_synced_with_outputs)
{
    enum { depth = 300 };
    char path[2 * depth + 8] = "";
    for (size_t i = 0; i < depth; i++)
        memcpy(path + 2 * i, "d/", 3);
    memcpy(path + 2 * depth, "x", 2);
    syncs = 0;
    assert_int_equal(begin_and_end(path, NULL), STATUS_OK);
    assert_int_equal(syncs, 0);
    path[0] = 'e';
    assert_int_equal(begin_and_end(path, &(struct files_making){.sync = true}), STATUS_OK);
    assert_int_equal(syncs, depth);
    assert_int_equal(begin_and_end(path, &(struct files_making){.sync = true}), STATUS_OK);
    assert_int_equal(syncs, depth);
}

/* The deadline and a cancel end the output before the next folder is made. */
TEST(many_folders_can_be_interrupted)
{
    unsigned left = 2;
    struct files_making making = {.may_go_on = stop_after, .context = &left};
    assert_int_equal(begin_and_end("f/g/h/i/x", &making), STATUS_TIMEOUT);
    assert_true(exists("out/f/g"));
    assert_false(exists("out/f/g/h"));
    left = 2;
    assert_int_equal(begin_and_end("f/g/h/i/x", &making), STATUS_OK);
    left = 0;
    assert_int_equal(begin_and_end("f/g/h/i/x", &making), STATUS_OK); /* nothing is missing */
}

/* Begins, finishes and places an output; stops at the first error. */
static enum status write_as(const char *path, struct error *error)
{
    struct files_output output;
    enum status status = files_output_begin(&files, &output, path, 7, 1, 0, NULL, error);
    if (status == STATUS_OK)
        status = files_output_finish(&output, false, error);
    if (status == STATUS_OK)
        status = files_output_place(&output, false, any_file, NULL, error);
    stayed_open = output.replaced >= 0 && is_open(watched);
    files_output_end(&output);
    return status;
}

static void write_output(const char *path)
{
    struct error error = {0};
    assert_int_equal(write_as(path, &error), STATUS_OK);
}

TEST(outputs_stay_beneath_the_root)
{
    make_folder("elsewhere");
    make_folder("out/folder.png");
    make_link("out/way-out", "../elsewhere");
    put("out/file", "x");
    const char *refused[] = {"way-out/cat.png", "file/cat.png",        "folder.png", "../cat.png",
                             "/cat.png",        "sub/../../cat.png",   "..",         "sub/",
                             "sub/.",           "new/../../../cat.png"};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct error error = {0};
        if (write_as(refused[i], &error) != STATUS_PATH_REFUSED)
            fail_msg("%s: %s %s", refused[i], status_name(error.status), error.text);
    }
    assert_false(exists("cat.png"));
    /* A link as the target itself is replaced, not followed. */
    put("elsewhere/kept", "kept");
    make_link("out/link.png", "../elsewhere/kept");
    write_output("link.png");
    assert_int_equal(stat_of("elsewhere/kept").st_size, 4);
}

static enum status refuse_file(void *context, const struct files_identity *target,
                               struct error *error)
{
    *(struct files_identity *)context = *target;
    return error_set(error, STATUS_BAD_JOB, "not this one");
}

/* The callback is asked only if the file exists, and a file that it refuses stays. */
TEST(files_that_are_refused_stay)
{
    struct files_output output;
    struct files_identity asked;
    put("out/old.png", "kept");
    ino_t inode = stat_of("out/old.png").st_ino;
    for (int old = 0; old < 2; old++) {
        struct error error = {0};
        asked = (struct files_identity){0};
        assert_int_equal(
            files_output_begin(&files, &output, old ? "old.png" : "new.png", 1, 1, 0, NULL, &error),
            STATUS_OK);
        assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
        assert_int_equal(files_output_place(&output, false, refuse_file, &asked, &error),
                         old ? STATUS_BAD_JOB : STATUS_OK);
        assert_int_equal(asked.inode, old ? inode : 0);
        files_output_end(&output);
    }
    assert_true(exists("out/new.png"));
    assert_int_equal(stat_of("out/old.png").st_size, 4);
}

/* NFS would move an open file aside first. On a disk, close() may take long. */
TEST(replaced_files_are_open_during_the_rename)
{
    static const struct {
        long type;
        bool open, stays;
    } cases[] = {{TMPFS_MAGIC, true, true}, {EXT4_SUPER_MAGIC, true, false},
                 {NFS_SUPER_MAGIC, false, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        put("out/old.png", "old");
        watched = stat_of("out/old.png").st_ino;
        server_type = cases[i].type;
        write_output("old.png");
        server_type = 0;
        assert_int_equal(was_open, cases[i].open);
        assert_int_equal(stayed_open, cases[i].stays);
        assert_false(is_open(watched));
        assert_int_equal(stat_of("out/old.png").st_size, 0);
    }
}

/* Without a descriptor, the daemon cannot know which file it would replace. */
TEST(files_that_cannot_be_opened_stay)
{
    struct files_output output;
    struct error error = {0};
    struct rlimit limit, none;
    put("out/old.png", "kept");
    assert_int_equal(files_output_begin(&files, &output, "old.png", 1, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){.rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    enum status status = files_output_place(&output, false, any_file, NULL, &error);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(status, STATUS_WRITE_FAILED);
    assert_string_equal(error.text, "the output \"old.png\" cannot be compared with the file that "
                                    "it replaces: Too many open files");
    files_output_end(&output);
    assert_int_equal(stat_of("out/old.png").st_size, 4);
}

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
    const char *own = text_of("out/.gpuimgd/%s.12.3.0.tmp", files.instance);
    put(dead, "x");
    put(own, "x");
    put(elsewhere, "x");
    put("out/.gpuimgd/notes.txt", "x");
    make_older(elsewhere, 3000);
    assert_int_equal(files_sweep(&files, 3600), 1);
    assert_false(exists(dead));
    assert_true(exists(own) && exists(elsewhere));
    assert_int_equal(files_sweep(&files, 2900), 1);
    assert_false(exists(elsewhere));
    assert_true(exists(own) && exists("out/.gpuimgd/notes.txt"));
}

/* Ages are measured with the clock of the file server. */
TEST(leftovers_age_by_the_file_servers_clock)
{
    const char *leftover = "out/.gpuimgd/" ELSEWHERE ".12.3.0.tmp";
    put(leftover, "x");
    server_ahead_s = -2 * DAY_S;
    assert_int_equal(files_sweep(&files, 3600), 0);
    assert_true(exists(leftover));
    make_older(leftover, 3 * DAY_S / 2);
    server_ahead_s = 2 * DAY_S;
    assert_int_equal(files_sweep(&files, DAY_S), 1);
    assert_false(exists(leftover));
    assert_int_equal(files_sweep(&files, 0), 0);
}

/* From here on the temporary folder seems to be on another filesystem than the outputs. */
static void part_filesystems(void)
{
    files.temporary_device++;
    files.root_is_near = false;
}

/* A user's output folder may have files with similar names. */
TEST(foreign_files_are_not_swept)
{
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
    make_folder("out/sub");
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        put(text_of("out/sub/%s", foreign[i]), "a user's");
        make_older(text_of("out/sub/%s", foreign[i]), 2 * DAY_S);
    }
    part_filesystems();
    write_output("sub/cat.png");
    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (!exists(text_of("out/sub/%s", foreign[i])))
            fail_msg("%s is gone", foreign[i]);
}

/* Files with the exact name form, but of another type or owner. */
TEST(only_own_files_are_swept)
{
    const char *link = "out/sub/.gpuimgd." ELSEWHERE ".1.2.3.tmp";
    const char *other = "out/sub/.gpuimgd." ELSEWHERE ".1.2.4.tmp";
    const char *theirs = "out/sub/.gpuimgd." ELSEWHERE ".1.2.5.tmp";
    bool can_give = geteuid() == 0;
    make_folder("out/sub");
    make_link(link, "nowhere");
    make_folder(other);
    put(theirs, "x");
    make_older(link, 2 * DAY_S);
    make_older(other, 2 * DAY_S);
    make_older(theirs, can_give ? 2 * DAY_S : 0);
    if (can_give)
        make_owner(theirs, 65534);
    part_filesystems();
    write_output("sub/cat.png");
    assert_true(exists(link) && exists(other) && exists(theirs));
}

TEST(leftovers_beside_targets_are_swept)
{
    char inst[INSTANCE_BYTES_MAX];
    const char *old = "out/sub/.gpuimgd." ELSEWHERE ".12.3.0.tmp";
    const char *young = "out/sub/.gpuimgd." ELSEWHERE ".12.3.1.tmp";
    dead_instance(inst);
    const char *dead = text_of("out/sub/.gpuimgd.%s.12.3.0.tmp", inst);
    make_folder("out/sub");
    put(dead, "x");
    put(old, "x");
    put(young, "x");
    make_older(old, DAY_S + 60);
    make_older(young, DAY_S - 600);
    part_filesystems();
    write_output("sub/cat.png");
    assert_false(exists(dead) || exists(old));
    assert_true(exists(young));
    assert_int_equal(text_file_count(at("out/sub"), ""), 2); /* `young` and the output */
}

static enum status refuse_file(void *context, const struct files_identity *target,
                               struct error *error);

/* A file without a name gets its temporary name only to replace another file. */
TEST(only_files_that_replace_others_get_temporary_names)
{
    struct files_output output;
    struct error error = {0};
    struct files_identity asked;
    bool unnamed = files.naming != FILES_RENAMED;
    const uint8_t text[] = {'n', 'e', 'w'};
    put("out/old.png", "kept");
    assert_int_equal(files_output_begin(&files, &output, "old.png", 1, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_int_equal(text_file_count(at("out/.gpuimgd"), ""), unnamed ? 0 : 1);
    assert_int_equal(files_output_write(&output, text, sizeof text, &error), STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(files_output_place(&output, false, refuse_file, &asked, &error),
                     STATUS_BAD_JOB);
    assert_int_equal(text_file_count(at("out/.gpuimgd"), ""), unnamed ? 0 : 1);
    error = (struct error){0};
    links = 0;
    assert_int_equal(files_output_place(&output, false, any_file, NULL, &error), STATUS_OK);
    assert_int_equal(links, unnamed ? 1 : 0);
    files_output_end(&output);
    struct stat info = stat_of("out/old.png");
    assert_int_equal(info.st_size, sizeof text);
    assert_int_equal(info.st_nlink, 1);
    assert_int_equal(info.st_ino, output.identity.inode);
    assert_int_equal(info.st_mode & 0777, 0644);
    assert_int_equal(rmdir(at("out/.gpuimgd")), 0); /* nothing was left in it */
}

TEST(outputs_without_a_folder_fail)
{
    struct files_output output;
    struct error error = {0};
    make_folder("out/sub");
    assert_int_equal(files_output_begin(&files, &output, "sub/cat.png", 1, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(rmdir(at("out/sub")), 0);
    assert_int_equal(files_output_place(&output, false, any_file, NULL, &error),
                     STATUS_WRITE_FAILED);
    assert_string_equal(error.text, "the output \"sub/cat.png\" cannot be renamed into place: No "
                                    "such file or directory");
    files_output_end(&output);
    assert_int_equal(rmdir(at("out/.gpuimgd")), 0);
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
        bool good =
            instance_self(files.instance, daemon) &&
            files_output_begin(&files, &output, "x.png", 7, 1, 0, NULL, &error) == STATUS_OK &&
            files_output_write(&output, (const uint8_t *)"part", 4, &error) == STATUS_OK;
        raise(good ? SIGKILL : SIGTERM);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_false(exists("out/x.png"));
    bool unnamed = files.naming != FILES_RENAMED;
    assert_int_equal(text_file_count(at("out/.gpuimgd"), ""), unnamed ? 0 : 1);
    assert_int_equal(files_sweep(&files, DAY_S), unnamed ? 0 : 1);
    assert_int_equal(text_file_count(at("out/.gpuimgd"), ""), 0);
}

static const char *write_map(struct files_output *output, size_t length)
{
    uint8_t *map = files_output_map(output, length);
    struct error error = {0};
    if (!map)
        return "no map";
    bool written = files_map_write(map, (const uint8_t *)"mapped", 0, length);
    return written && files_output_unmap(output, map, length, true, &error) == STATUS_OK
               ? "mapped"
               : "not written";
}

/* A map needs a descriptor that can read. */
TEST(outputs_in_a_tmpfs_can_be_mapped)
{
    struct files_output output;
    struct error error = {0};
    struct statfs info;
    assert_int_equal(statfs(folder, &info), 0);
    assert_int_equal(files_output_begin(&files, &output, "m.png", 1, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_string_equal(write_map(&output, 6), info.f_type == TMPFS_MAGIC ? "mapped" : "no map");
    if (info.f_type == TMPFS_MAGIC)
        assert_int_equal(files_output_write(&output, (const uint8_t *)", too", 5, &error),
                         STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(files_output_place(&output, false, any_file, NULL, &error), STATUS_OK);
    files_output_end(&output);
    assert_int_equal(stat_of("out/m.png").st_size, info.f_type == TMPFS_MAGIC ? 11 : 0);
}

/* A link with the name of a temporary file must not be written through. */
TEST(temporary_files_are_new_files)
{
    struct error error = {0};
    const char *name = at(text_of("out/.gpuimgd/%s.7.1.0.tmp", files.instance));
    put("victim", "kept");
    put("out/hard.png", "replaced");
    put("out/soft.png", "replaced");
    assert_int_equal(link(at("victim"), name), 0);
    write_output("hard.png");
    assert_int_equal(symlink(at("victim"), name), 0);
    write_output("soft.png");
    assert_int_equal(stat_of("victim").st_size, 4);
    assert_int_equal(stat_of("victim").st_nlink, 1);

    server_breaks_excl = true;
    assert_int_equal(write_as("cat.png", &error), STATUS_WRITE_FAILED);
    assert_non_null(strstr(error.text, "\"cat.png\" cannot be created: its temporary file is not a "
                                       "new, empty file"));
}

static void open_again(const char *expected)
{
    struct files again;
    struct error error = {0};
    bool open = files_open(&again, at("in"), at("out"), files.instance, &error);
    files_close(&again);
    if (open != !expected || (expected && !strstr(error.text, expected)))
        fail_msg("%s: %s", expected ? expected : "to be opened", error.text);
}

TEST(the_temporary_folder_is_ours_alone)
{
    const char *path = at("out/.gpuimgd");
    open_again(NULL);
    assert_int_equal(chmod(path, 0777), 0);
    open_again("in which other users may write to .gpuimgd (mode 0777): chmod 0700 it");
    assert_int_equal(chmod(path, 0770), 0);
    open_again("(mode 0770)");
    assert_int_equal(chmod(path, 0755), 0);
    open_again(NULL);
    if (geteuid() == 0) {
        make_owner("out/.gpuimgd", 65534);
        open_again("in which .gpuimgd belongs to user nobody; the daemon runs as user root");
        make_owner("out/.gpuimgd", 0);
    }
    assert_int_equal(rmdir(path), 0);
    make_folder("elsewhere");
    make_link("out/.gpuimgd", "../elsewhere");
    open_again("in which .gpuimgd is a symbolic link or a file: remove it");
    assert_int_equal(unlink(path), 0);
    put("out/.gpuimgd", "x");
    open_again("in which .gpuimgd is a symbolic link or a file: remove it");
}

TEST(roots_must_be_there)
{
    struct files none;
    struct error error = {0};
    assert_false(files_open(&none, "/nonexistent/in", "/tmp", "x", &error));
    assert_non_null(strstr(error.text, "option input_root is \"/nonexistent/in\""));
    files_close(&none);
    files_close(&none);
}

static int lose_openat2(void **state)
{
    bool lost = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && call_refuse(SYS_openat2, ENOSYS);
    return lost && syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) == -1 && errno == ENOSYS ? 0 : -1;
}

/* Outputs in a tmpfs, as far as the system has one and allows the calls. */
static const struct variant {
    const char *name;
    bool refuses_unnamed, refuses_empty, refuses_proc;
    enum files_naming naming;
} variants[] =
    {
        {"files in a tmpfs, linked", .refuses_proc = true, .naming = FILES_LINKED},
        {"files in a tmpfs, linked through /proc", .refuses_empty = true,
         .naming = FILES_LINKED_BY_PROC},
        {"files in a tmpfs without links", .refuses_empty = true, .refuses_proc = true,
         .naming = FILES_RENAMED},
        {"files in a tmpfs without O_TMPFILE", .refuses_unnamed = true, .naming = FILES_RENAMED},
},
  *variant;

/* false: this system has no tmpfs, or no such link. */
static bool begin_variant(void)
{
    parent = "/dev/shm";
    refuses_unnamed = variant->refuses_unnamed;
    refuses_empty = variant->refuses_empty;
    refuses_proc = variant->refuses_proc;
    setup(NULL);
    enum files_naming naming = files.naming;
    teardown(NULL);
    if (naming == FILES_RENAMED && variant->naming != FILES_RENAMED)
        print_message("skipped: %s: the system refuses this\n", variant->name);
    return naming != FILES_RENAMED || variant->naming == FILES_RENAMED;
}

TEST(the_naming_is_what_the_system_allows)
{
    if (variant)
        assert_int_equal(files.naming, variant->naming);
    assert_int_equal(text_file_count(at("out/.gpuimgd"), ""), 0); /* the try has left nothing */
}

int main(void)
{
    int failed = run_all(.name = "files", .each_setup = setup, .each_teardown = teardown);
    /* Without openat2, as under the unit, paths are walked. */
    failed += run_all(.name = "files without openat2", .setup = lose_openat2, .each_setup = setup,
                      .each_teardown = teardown);
    for (size_t i = 0; i < COUNT_OF(variants); i++) {
        variant = &variants[i];
        if (begin_variant())
            failed +=
                run_all(.name = variant->name, .each_setup = setup, .each_teardown = teardown);
    }
    return failed;
}
