/* Tests of the roots and the inputs: hostile paths in jobs, and what messages say. */
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixtures/roots.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

static enum status try_input(const char *path, struct error *error)
{
    struct files_input input;
    *error = (struct error){0};
    enum status status = files_open_input(&roots.files, NULL, path, 100, &input, error);
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
    roots_put("in/cat.jpg", "meow");
    roots_put("secret", "key");
    roots_make_folder("in/sub");
    roots_put("in/sub/cat.jpg", "meow");
    roots_make_link("in/link.jpg", "cat.jpg");
    roots_make_link("in/out-of-here", "../secret");
    roots_make_link("in/folder", "sub");
    roots_make_link("in/root", "/");
    assert_int_equal(mkfifo(roots_at("in/fifo"), 0600), 0);
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
    roots_put("in/limit", text);
    text[100] = 'x';
    roots_put("in/over", text);
    assert_int_equal(try_input("over", &error), STATUS_INPUT_TOO_LARGE);
    assert_non_null(strstr(error.text, "101 bytes; at most 100"));
    error = (struct error){0};
    assert_int_equal(files_open_input(&roots.files, NULL, "limit", 100, &input, &error), STATUS_OK);
    assert_int_equal(input.size, 100);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 0, 100, &error), STATUS_OK);
    assert_memory_equal(bytes, text, 100);
    memset(bytes, 'y', 100);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 40, 100, &error), STATUS_OK);
    assert_int_equal(bytes[39], 'y');
    assert_memory_equal(bytes + 40, text + 40, 60);
    roots_put("in/limit", "short");
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 0, 100, &error),
                     STATUS_INPUT_UNREADABLE);
    error = (struct error){0};
    roots_put("in/limit", text);
    assert_int_equal(files_read_input(input.fd, "limit", bytes, 0, 100, &error),
                     STATUS_INPUT_UNREADABLE);
    close(input.fd);
    error = (struct error){0};
    roots_put("in/empty", "");
    assert_int_equal(files_open_input(&roots.files, NULL, "empty", 100, &input, &error), STATUS_OK);
    assert_int_equal(files_read_input(input.fd, "empty", bytes, 0, 0, &error), STATUS_OK);
    roots_put("in/empty", "x");
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
    roots_put("in/secret.jpg", "meow");
    assert_int_equal(chmod(roots_at("in/secret.jpg"), 0), 0);
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

static void open_again(const char *expected)
{
    struct files again;
    struct error error = {0};
    bool open = files_open(&again, roots_at("in"), roots_at("out"), roots.files.instance, &error);
    files_close(&again);
    if (open != !expected || (expected && !strstr(error.text, expected)))
        fail_msg("%s: %s", expected ? expected : "to be opened", error.text);
}

TEST(the_temporary_folder_is_ours_alone)
{
    const char *path = roots_at("out/.gpuimgd");
    open_again(NULL);
    assert_int_equal(chmod(path, 0777), 0);
    open_again("in which other users may write to .gpuimgd (mode 0777): chmod 0700 it");
    assert_int_equal(chmod(path, 0770), 0);
    open_again("(mode 0770)");
    assert_int_equal(chmod(path, 0755), 0);
    open_again(NULL);
    if (geteuid() == 0) {
        roots_make_owner("out/.gpuimgd", 65534);
        open_again("in which .gpuimgd belongs to user nobody; the daemon runs as user root");
        roots_make_owner("out/.gpuimgd", 0);
    }
    assert_int_equal(rmdir(path), 0);
    roots_make_folder("elsewhere");
    roots_make_link("out/.gpuimgd", "../elsewhere");
    open_again("in which .gpuimgd is a symbolic link or a file: remove it");
    assert_int_equal(unlink(path), 0);
    roots_put("out/.gpuimgd", "x");
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

TEST(the_naming_is_what_the_system_allows)
{
    if (roots.naming)
        assert_int_equal(roots.files.naming, *roots.naming);
    assert_int_equal(text_file_count(roots_at("out/.gpuimgd"), ""),
                     0); /* the try has left nothing */
}

int main(void)
{
    return roots_run();
}
