/* Tests of known.c: folders to which images of a job do not walk again. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/files/files.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

static struct files files;
static struct files_known known;
static char root[64];
static unsigned number; /* of outputs */

static const char *path_of(const char *name)
{
    return text_of("%s/%s", root, name);
}

static int setup(void **state)
{
    struct error error = {0};
    char self[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    strcpy(root, "/tmp/gpuimgd-known-XXXXXX");
    assert_non_null(mkdtemp(root));
    assert_true(instance_self(self, daemon));
    assert_true(files_open(&files, root, root, self, &error));
    files_known_open(&known);
    return 0;
}

static int teardown(void **state)
{
    files_known_close(&known);
    files_close(&files);
    text_file_remove_folder(root);
    return 0;
}

static enum status write_output(const char *path, struct error *error)
{
    struct files_making making = {.sync = true, .known = &known};
    struct files_output output;
    bool placed = false;
    *error = (struct error){0};
    if (files_output_begin(&files, &output, path, 1, 1, number++, &making, error) == STATUS_OK &&
        files_output_write(&output, (const uint8_t *)"abc", 3, error) == STATUS_OK &&
        files_output_finish(&output, true, error) == STATUS_OK)
        placed = files_output_place(&output, true, NULL, NULL, error) == STATUS_OK;
    assert_int_equal(placed, error->status == STATUS_OK);
    files_output_end(&output);
    return error->status;
}

static enum status read_input(const char *path, struct error *error)
{
    struct files_input input;
    *error = (struct error){0};
    enum status status = files_open_input(&files, &known, path, 100, &input, error);
    if (status == STATUS_OK)
        close(input.fd);
    return status;
}

static void expect_output(const char *path)
{
    struct error error;
    if (write_output(path, &error) != STATUS_OK)
        fail_msg("%s: %s", path, error.text);
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

TEST(a_folder_is_found_again)
{
    expect_output("a/b/1");
    struct files_folder *first = files_known_find(&known, "a/b/2");
    assert_non_null(first);
    assert_null(files_known_find(&known, "a/2"));
    assert_null(files_known_find(&known, "a/b"));
    assert_null(files_known_find(&known, "a/bb/2"));
    assert_null(files_known_find(&known, "a/b/c/2"));
    assert_null(files_known_find(&known, "2"));
    expect_output("a/b/2");
    expect_output("a/c/3"); /* is known now, instead of the first */
    assert_null(files_known_find(&known, "a/b/4"));
    struct stat info;
    assert_int_equal(fstat(files_folder_fd(first), &info), 0); /* still open */
    files_folder_end(first);
    assert_true(exists("a/b/1") && exists("a/b/2") && exists("a/c/3"));
}

/* In the folder itself, and for an input. */
TEST(a_known_folder_leads_no_further)
{
    static const char *const refused[] = {"a/..", "a/.", "a/"};
    struct error error;
    expect_output("a/1");
    assert_int_equal(read_input("a/1", &error), STATUS_OK);
    assert_int_equal(symlink("1", path_of("a/link")), 0);
    assert_int_equal(read_input("a/1", &error), STATUS_OK);
    assert_int_equal(read_input("a/link", &error), STATUS_PATH_REFUSED);
    assert_int_equal(read_input("a/missing", &error), STATUS_INPUT_MISSING);
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(read_input(refused[i], &error), STATUS_PATH_REFUSED);
        assert_int_equal(write_output(refused[i], &error), STATUS_PATH_REFUSED);
    }
}

/* Until a tenth of a second has passed, the images that follow go to the folder of the first. */
TEST(a_folder_that_moves_is_forgotten_soon)
{
    struct error error;
    expect_output("a/1");
    assert_int_equal(rename(path_of("a"), path_of("moved")), 0);
    usleep(2 * FILES_KNOWN_NS / 1000);
    expect_output("a/2"); /* a new folder */
    assert_true(exists("a/2"));
    assert_false(exists("moved/2"));
    assert_int_equal(rename(path_of("a"), path_of("away")), 0);
    assert_int_equal(symlink("away", path_of("a")), 0);
    usleep(2 * FILES_KNOWN_NS / 1000);
    assert_int_equal(write_output("a/3", &error), STATUS_PATH_REFUSED);
    assert_false(exists("away/3"));
}

TEST(a_folder_that_is_gone_is_looked_for)
{
    struct error error;
    expect_output("a/1");
    assert_int_equal(read_input("a/1", &error), STATUS_OK);
    assert_int_equal(rename(path_of("a"), path_of("b")), 0);
    assert_int_equal(mkdir(path_of("a"), 0755), 0);
    assert_true(text_file_write(path_of("a/2"), "x", 1));
    assert_int_equal(read_input("a/2", &error), STATUS_OK); /* it is not in the known folder */
    expect_output("c/1");
    assert_int_equal(unlink(path_of("c/1")), 0);
    assert_int_equal(rmdir(path_of("c")), 0);
    assert_int_equal(write_output("c/2", &error), STATUS_WRITE_FAILED);
    expect_output("c/3");
    assert_true(exists("c/3"));
}

#define THREADS 4
#define ROUNDS  300

static void *write_many(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        char path[] = "t/0/f";
        struct error error;
        path[2] = (char)('0' + (i / 4 + (int)(intptr_t)argument) % 3);
        if (read_input(path, &error) != STATUS_OK)
            return "an input was not found";
    }
    return NULL;
}

TEST(threads_share_what_is_known)
{
    pthread_t threads[THREADS];
    expect_output("t/0/f");
    expect_output("t/1/f");
    expect_output("t/2/f");
    int before = open("/dev/null", O_RDONLY);
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    close(before);
    files_known_close(&known);
    files_known_open(&known);
    int after = open("/dev/null", O_RDONLY); /* no descriptor is left open but the roots */
    assert_true(after <= before);
    close(after);
}

TEST_MAIN(.each_setup = setup, .each_teardown = teardown)
