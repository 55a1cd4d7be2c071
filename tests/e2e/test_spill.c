/*
 * test_spill.c - a job with many images whose first image is late: the other images are done
 * before it, fill the memory, and move to a file without a name until their turn in the tar comes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/web_server.h"

#define IMAGES 12
/* As raw pixels, each image has 4.2 MB: three have more than three eighths of host_bytes. */
#define WIDTH  1400
#define HEIGHT 1000

#ifdef GPUIMGD_CURL
#define HAS_CURL 1
#else
#define HAS_CURL 0
#endif

static struct web_server *server;
static char silent[96], prefixes[96];

static int open_all(void **state)
{
    open_world(state);
    server = web_server_start();
    snprintf(silent, sizeof silent, "http://127.0.0.1:%u/silent", web_server_port(server));
    snprintf(prefixes, sizeof prefixes, "--url_prefixes=http://127.0.0.1:%u/",
             web_server_port(server));
    for (uint32_t i = 0; i < IMAGES; i++)
        put_jpeg(text_of("%02u.jpg", i), .width = WIDTH, .height = HEIGHT, .seed = i + 1);
    return 0;
}

static int close_all(void **state)
{
    web_server_stop(server);
    return close_world(state);
}

static struct process *start_small(void)
{
    return check_ready(world_start(w, 0, prefixes, "--url_networks=127.0.0.0/8", "--host_bytes=24M",
                                   "--pinned_bytes=32M", "--workers=2", "--inflight=8",
                                   "--input_bytes_max=6M", "--attempts=1", NULL));
}

/* Pushes a job that makes NAME.tar of all images. first: the text of an input before them, or "".
 * The late image ends after timeout_s. */
static void push_tar(const char *name, const char *first, double timeout_s)
{
    char inputs[IMAGES * 12 + 1] = "";
    for (size_t i = 0, end = 0; i < IMAGES; i++)
        end +=
            (size_t)snprintf(inputs + end, sizeof inputs - end, "%s'%02zu.jpg'", i ? "," : "", i);
    world_push(w,
               "{'id':'%s','inputs':[%s%s],'timeout_s':%g,'output':{'path':'%s.tar',"
               "'format':'raw'}}",
               name, first, inputs, timeout_s, name);
}

static void push_late(const char *name, double timeout_s)
{
    push_tar(name, text_of("{'url':'%s'},", silent), timeout_s);
}

/* The path of the daemon's file without a name if it has bytes; NULL: there is none. */
static const char *spill_path(const struct process *daemon)
{
    const char *folder = text_of("/proc/%d/fd", (int)daemon->pid), *found = NULL;
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && !found && (entry = readdir(list));) {
        char target[512];
        struct stat info;
        const char *path = text_of("%s/%s", folder, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr(target, "/.gpuimgd/") && strstr(target, "(deleted)") && stat(path, &info) == 0 &&
            info.st_size > 4 * WIDTH * HEIGHT)
            found = path;
    }
    if (list)
        closedir(list);
    return found;
}

static const char *await_spill(const struct process *daemon)
{
    assert_true(await(20, spill_path(daemon) != NULL));
    return spill_path(daemon);
}

/* The tar has the bytes of one whose images never left the memory. */
TEST(test_images_come_back)
{
    struct process *daemon = start_small();
    push_tar("first", "", 60);
    check_done(check_next(w));
    push_late("second", patience(2));
    await_spill(daemon);
    cJSON *result = check_next(w);
    check_has(result, "{'status':'done','images.done':12,'images.failed':1,"
                      "'images.errors.0.image':0,'images.errors.0.error.code':'timeout'}");
    cJSON_Delete(result);
    size_t expected_bytes, bytes;
    unsigned char *expected = text_file_bytes(out_path("first.tar"), &expected_bytes);
    unsigned char *tar = text_file_bytes(out_path("second.tar"), &bytes);
    assert_int_equal(bytes, expected_bytes);
    assert_true(bytes > IMAGES * WIDTH * HEIGHT);
    assert_memory_equal(tar, expected, bytes);
    free(expected);
    free(tar);
    check_stop(daemon);
}

/* A disk that cannot give the bytes back. A map of them would end the daemon with SIGBUS. */
TEST(test_bytes_are_lost)
{
    struct process *daemon = start_small();
    push_late("lost", patience(2));
    int fd = open(await_spill(daemon), O_RDWR);
    assert_true(fd >= 0 && ftruncate(fd, 0) == 0);
    close(fd);
    cJSON *result = check_next(w);
    check_has(result, "{'status':'dead','error.code':'write_failed','error.message':'a file in "
                      ".gpuimgd for a job with many images cannot be read: Input/output error'}");
    cJSON_Delete(result);
    assert_int_not_equal(access(out_path("lost.tar"), F_OK), 0);
    push_tar("next", "", 60);
    check_done(check_next(w));
    check_stop(daemon);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
}

int main(void)
{
    if (!HAS_CURL) {
        puts("ok - spill # SKIP this build has no libcurl");
        return 77;
    }
    return run_all(.each_setup = open_all, .each_teardown = close_all);
}
