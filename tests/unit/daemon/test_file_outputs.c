/* Tests of outputs: they appear whole, beneath their root, and replace only what they may. */
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/fixtures/roots.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

TEST(outputs_appear_whole)
{
    struct error error = {0};
    struct files_output output;
    struct files_making making = {.sync = true};
    enum status status =
        files_output_begin(&roots.files, &output, "a/b/cat.png", 7, 1, 0, &making, &error);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(files_output_write(&output, (const uint8_t *)"meow", 4, &error), STATUS_OK);
    assert_false(roots_exists("out/a/b/cat.png"));
    assert_int_equal(files_output_finish(&output, true, &error), STATUS_OK);
    assert_false(roots_exists("out/a/b/cat.png"));
    assert_int_equal(files_output_place(&output, true, roots_any_file, NULL, &error), STATUS_OK);
    files_output_end(&output);
    struct stat info = roots_stat("out/a/b/cat.png");
    assert_int_equal(info.st_size, 4);
    assert_int_equal(info.st_mode & 0777, 0644);

    assert_int_equal(files_output_begin(&roots.files, &output, "dog.png", 8, 1, 0, NULL, &error),
                     STATUS_OK);
    files_output_end(&output);
    files_output_end(&output);
    assert_int_equal(files_output_begin(&roots.files, &output, "dog.png", 9, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    files_output_end(&output);
    assert_false(roots_exists("out/dog.png"));
    assert_int_equal(rmdir(roots_at("out/.gpuimgd")), 0); /* nothing was left in it */
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
    enum status status = files_output_begin(&roots.files, &output, path, 7, 1, 0, making, &error);
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
    assert_true(roots_exists("out/f/g"));
    assert_false(roots_exists("out/f/g/h"));
    left = 2;
    assert_int_equal(begin_and_end("f/g/h/i/x", &making), STATUS_OK);
    left = 0;
    assert_int_equal(begin_and_end("f/g/h/i/x", &making), STATUS_OK); /* nothing is missing */
}

TEST(outputs_stay_beneath_the_root)
{
    roots_make_folder("elsewhere");
    roots_make_folder("out/folder.png");
    roots_make_link("out/way-out", "../elsewhere");
    roots_put("out/file", "x");
    const char *refused[] = {"way-out/cat.png", "file/cat.png",        "folder.png", "../cat.png",
                             "/cat.png",        "sub/../../cat.png",   "..",         "sub/",
                             "sub/.",           "new/../../../cat.png"};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct error error = {0};
        if (roots_write_as(refused[i], &error) != STATUS_PATH_REFUSED)
            fail_msg("%s: %s %s", refused[i], status_name(error.status), error.text);
    }
    assert_false(roots_exists("cat.png"));
    /* A link as the target itself is replaced, not followed. */
    roots_put("elsewhere/kept", "kept");
    roots_make_link("out/link.png", "../elsewhere/kept");
    roots_write("link.png");
    assert_int_equal(roots_stat("elsewhere/kept").st_size, 4);
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
    roots_put("out/old.png", "kept");
    ino_t inode = roots_stat("out/old.png").st_ino;
    for (int old = 0; old < 2; old++) {
        struct error error = {0};
        asked = (struct files_identity){0};
        assert_int_equal(files_output_begin(&roots.files, &output, old ? "old.png" : "new.png", 1,
                                            1, 0, NULL, &error),
                         STATUS_OK);
        assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
        assert_int_equal(files_output_place(&output, false, refuse_file, &asked, &error),
                         old ? STATUS_BAD_JOB : STATUS_OK);
        assert_int_equal(asked.inode, old ? inode : 0);
        files_output_end(&output);
    }
    assert_true(roots_exists("out/new.png"));
    assert_int_equal(roots_stat("out/old.png").st_size, 4);
}

/* NFS would move an open file aside first. On a disk, close() may take long. */
TEST(replaced_files_are_open_during_the_rename)
{
    static const struct {
        long type;
        bool open, stays;
    } cases[] = {{TMPFS_MAGIC, true, true},
                 {EXT4_SUPER_MAGIC, true, false},
                 {NFS_SUPER_MAGIC, false, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        roots_put("out/old.png", "old");
        file_server.watched = roots_stat("out/old.png").st_ino;
        file_server.type = cases[i].type;
        roots_write("old.png");
        file_server.type = 0;
        assert_int_equal(file_server.was_open, cases[i].open);
        assert_int_equal(roots.stayed_open, cases[i].stays);
        assert_false(file_server_is_open(file_server.watched));
        assert_int_equal(roots_stat("out/old.png").st_size, 0);
    }
}

/* Without a descriptor, the daemon cannot know which file it would replace. */
TEST(files_that_cannot_be_opened_stay)
{
    struct files_output output;
    struct error error = {0};
    struct rlimit limit, none;
    roots_put("out/old.png", "kept");
    assert_int_equal(files_output_begin(&roots.files, &output, "old.png", 1, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){.rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    enum status status = files_output_place(&output, false, roots_any_file, NULL, &error);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(status, STATUS_WRITE_FAILED);
    assert_string_equal(error.text, "the output \"old.png\" cannot be compared with the file that "
                                    "it replaces: Too many open files");
    files_output_end(&output);
    assert_int_equal(roots_stat("out/old.png").st_size, 4);
}

/* A file without a name gets its temporary name only to replace another file. */
TEST(only_files_that_replace_others_get_temporary_names)
{
    struct files_output output;
    struct error error = {0};
    struct files_identity asked;
    bool unnamed = roots.files.naming != FILES_RENAMED;
    const uint8_t text[] = {'n', 'e', 'w'};
    roots_put("out/old.png", "kept");
    assert_int_equal(files_output_begin(&roots.files, &output, "old.png", 1, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_int_equal(text_file_count(roots_at("out/.gpuimgd"), ""), unnamed ? 0 : 1);
    assert_int_equal(files_output_write(&output, text, sizeof text, &error), STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(files_output_place(&output, false, refuse_file, &asked, &error),
                     STATUS_BAD_JOB);
    assert_int_equal(text_file_count(roots_at("out/.gpuimgd"), ""), unnamed ? 0 : 1);
    error = (struct error){0};
    file_server.links = 0;
    assert_int_equal(files_output_place(&output, false, roots_any_file, NULL, &error), STATUS_OK);
    assert_int_equal(file_server.links, unnamed ? 1 : 0);
    files_output_end(&output);
    struct stat info = roots_stat("out/old.png");
    assert_int_equal(info.st_size, sizeof text);
    assert_int_equal(info.st_nlink, 1);
    assert_int_equal(info.st_ino, output.identity.inode);
    assert_int_equal(info.st_mode & 0777, 0644);
    assert_int_equal(rmdir(roots_at("out/.gpuimgd")), 0); /* nothing was left in it */
}

TEST(outputs_without_a_folder_fail)
{
    struct files_output output;
    struct error error = {0};
    roots_make_folder("out/sub");
    assert_int_equal(
        files_output_begin(&roots.files, &output, "sub/cat.png", 1, 1, 0, NULL, &error), STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(rmdir(roots_at("out/sub")), 0);
    assert_int_equal(files_output_place(&output, false, roots_any_file, NULL, &error),
                     STATUS_WRITE_FAILED);
    assert_string_equal(error.text, "the output \"sub/cat.png\" cannot be renamed into place: No "
                                    "such file or directory");
    files_output_end(&output);
    assert_int_equal(rmdir(roots_at("out/.gpuimgd")), 0);
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
    assert_int_equal(statfs(roots.folder, &info), 0);
    assert_int_equal(files_output_begin(&roots.files, &output, "m.png", 1, 1, 0, NULL, &error),
                     STATUS_OK);
    assert_string_equal(write_map(&output, 6), info.f_type == TMPFS_MAGIC ? "mapped" : "no map");
    if (info.f_type == TMPFS_MAGIC)
        assert_int_equal(files_output_write(&output, (const uint8_t *)", too", 5, &error),
                         STATUS_OK);
    assert_int_equal(files_output_finish(&output, false, &error), STATUS_OK);
    assert_int_equal(files_output_place(&output, false, roots_any_file, NULL, &error), STATUS_OK);
    files_output_end(&output);
    assert_int_equal(roots_stat("out/m.png").st_size, info.f_type == TMPFS_MAGIC ? 11 : 0);
}

/* A link with the name of a temporary file must not be written through. */
TEST(temporary_files_are_new_files)
{
    struct error error = {0};
    const char *name = roots_at(text_of("out/.gpuimgd/%s.7.1.0.tmp", roots.files.instance));
    roots_put("victim", "kept");
    roots_put("out/hard.png", "replaced");
    roots_put("out/soft.png", "replaced");
    assert_int_equal(link(roots_at("victim"), name), 0);
    roots_write("hard.png");
    assert_int_equal(symlink(roots_at("victim"), name), 0);
    roots_write("soft.png");
    assert_int_equal(roots_stat("victim").st_size, 4);
    assert_int_equal(roots_stat("victim").st_nlink, 1);

    file_server.breaks_excl = true;
    assert_int_equal(roots_write_as("cat.png", &error), STATUS_WRITE_FAILED);
    assert_non_null(strstr(error.text, "\"cat.png\" cannot be created: its temporary file is not a "
                                       "new, empty file"));
}

int main(void)
{
    return roots_run();
}
