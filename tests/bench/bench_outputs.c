/*
 * bench_outputs - compares ways to write small files that appear whole.
 *
 *     bench_outputs [--folder /dev/shm] [--threads 16] [--folders 1 --folders 8] [--bytes 4096]
 *                   [--files 20000] [--rounds 3] [--way NAME]
 *
 * Each thread writes `files` files of 256 bytes to `bytes` bytes into the folders in turn: thread t
 * writes into folder t modulo their number. The ways:
 *   renamed       create in one folder of temporary files, write, rename
 *   beside        create in the output's folder, write, rename
 *   linked        O_TMPFILE in one folder of temporary files, write, linkat by the descriptor
 *   linked_here   O_TMPFILE in the output's folder, write, linkat by the descriptor
 *   proc          as linked, but linkat through /proc/self/fd
 *   old           files_output_* of daemon/files, made to rename
 *   new           files_output_* of daemon/files
 *   read          files_open_input and files_read_input of the files that `new` has written
 * Prints the medians over the rounds: files per second, CPU us per file of user and kernel. For the
 * system calls: strace -f -c bench_outputs --way new.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/files/files.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/text_file.h"

#define THREADS_MAX 256
#define FOLDERS_MAX 64
#define BYTES_LEAST 256
#define ROUNDS_MAX  31

enum way { RENAMED, BESIDE, LINKED, LINKED_HERE, PROC, OLD, NEW, READ, WAYS };
static const char *const names[] = {"renamed", "beside", "linked", "linked_here",
                                    "proc",    "old",    "new",    "read"};

static struct {
    struct files files;
    char root[128];
    int folders[FOLDERS_MAX];
    unsigned threads, folder_count, bytes, count;
    enum way way;
    pthread_barrier_t start;
} bench;

static bool by_call(const uint8_t *bytes, size_t length, int folder, const char *name)
{
    char way_in[64];
    int temporary =
        bench.way == BESIDE || bench.way == LINKED_HERE ? folder : bench.files.temporary;
    bool renames = bench.way == RENAMED || bench.way == BESIDE;
    snprintf(way_in, sizeof way_in, "%s.tmp", name);
    int fd = renames ? openat(temporary, way_in, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)
                     : openat(temporary, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write(fd, bytes, length) == (ssize_t)length;
    if (renames)
        good = good && renameat2(temporary, way_in, folder, name, RENAME_NOREPLACE) == 0;
    else if (bench.way != PROC)
        good = good && linkat(fd, "", folder, name, AT_EMPTY_PATH) == 0;
    snprintf(way_in, sizeof way_in, "/proc/self/fd/%d", fd);
    if (bench.way == PROC)
        good = good && linkat(AT_FDCWD, way_in, folder, name, AT_SYMLINK_FOLLOW) == 0;
    close(fd);
    return good;
}

static bool by_daemon(const uint8_t *bytes, size_t length, const char *path, uint64_t job,
                      size_t index)
{
    struct error error = {0};
    struct files_output output;
    bool good =
        files_output_begin(&bench.files, &output, path, job, 1, index, NULL, &error) == STATUS_OK &&
        files_output_write(&output, bytes, length, &error) == STATUS_OK &&
        files_output_finish(&output, false, &error) == STATUS_OK &&
        files_output_place(&output, false, NULL, NULL, &error) == STATUS_OK;
    files_output_end(&output);
    return good;
}

static bool by_reading(uint8_t *bytes, size_t size, const char *path)
{
    struct error error = {0};
    struct files_input input;
    if (files_open_input(&bench.files, NULL, path, size - 1, &input, &error) != STATUS_OK)
        return false;
    bool good = files_read_input(input.fd, path, bytes, 0, input.size, &error) == STATUS_OK;
    close(input.fd);
    return good;
}

static void *work(void *context)
{
    size_t self = (size_t)context, folder = self % bench.folder_count, size = bench.bytes + 1;
    uint8_t *bytes = calloc(size, 1);
    bool good = bytes != NULL;
    pthread_barrier_wait(&bench.start);
    for (unsigned i = 0; good && i < bench.count; i++) {
        char path[64];
        size_t length = BYTES_LEAST + 977u * i % (bench.bytes - BYTES_LEAST + 1);
        snprintf(path, sizeof path, "%zu/%zu.%u", folder, self, i);
        if (bench.way == READ)
            good = by_reading(bytes, size, path);
        else if (bench.way == OLD || bench.way == NEW)
            good = by_daemon(bytes, length, path, self + 1, i);
        else
            good = by_call(bytes, length, bench.folders[folder], strchr(path, '/') + 1);
    }
    free(bytes);
    return good ? context : &bench;
}

static void clear(void)
{
    for (unsigned i = 0; i < bench.folder_count; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%u", bench.root, i);
        if (bench.folders[i] >= 0)
            close(bench.folders[i]);
        text_file_remove_folder(path);
        mkdir(path, 0755);
        bench.folders[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* figures: files per second, user us and kernel us per file. */
static bool turn(double figures[3])
{
    pthread_t threads[THREADS_MAX];
    struct rusage before, after;
    bool good = true;
    void *result;
    enum files_naming naming = bench.files.naming;
    if (bench.way == OLD)
        bench.files.naming = FILES_RENAMED;
    if (bench.way != READ)
        clear();
    pthread_barrier_init(&bench.start, NULL, bench.threads + 1);
    for (size_t i = 0; i < bench.threads; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
            exit(1);
    getrusage(RUSAGE_SELF, &before);
    double start_s = clock_s(CLOCK_MONOTONIC), files = (double)bench.threads * bench.count;
    pthread_barrier_wait(&bench.start);
    for (size_t i = 0; i < bench.threads; i++) {
        pthread_join(threads[i], &result);
        good &= result != &bench;
    }
    figures[0] = files / (clock_s(CLOCK_MONOTONIC) - start_s);
    getrusage(RUSAGE_SELF, &after);
    figures[1] = (seconds(after.ru_utime) - seconds(before.ru_utime)) * 1e6 / files;
    figures[2] = (seconds(after.ru_stime) - seconds(before.ru_stime)) * 1e6 / files;
    pthread_barrier_destroy(&bench.start);
    bench.files.naming = naming;
    return good;
}

/* The rounds alternate between the ways, so that a change of the machine meets all of them. */
static void compare(unsigned rounds, const char *only)
{
    static double figures[WAYS][3][ROUNDS_MAX];
    bool good[WAYS];
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < WAYS; i++) {
            double now[3] = {0};
            bench.way = i;
            good[i] = (*only && strcmp(only, names[i]) != 0) || turn(now);
            for (size_t j = 0; j < 3; j++)
                figures[i][j][round] = now[j];
        }
    for (size_t i = 0; i < WAYS; i++)
        if (!*only || strcmp(only, names[i]) == 0)
            printf("%-12s %7u %7u %10.0f %8.1f %8.1f%s\n", names[i], bench.threads,
                   bench.folder_count, median(figures[i][0], rounds), median(figures[i][1], rounds),
                   median(figures[i][2], rounds), good[i] ? "" : "   failed");
}

int main(int argc, char **argv)
{
    const char *folder = "/dev/shm", *only = "";
    unsigned rounds = 3;
    struct argument_numbers folders = {0};
    struct error error = {0};
    bench.threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN), bench.bytes = 4096;
    bench.count = 20000;
    const struct argument options[] = {
        {"folder", .text = &folder},           {"way", .text = &only},
        {"threads", .number = &bench.threads}, {"folders", .numbers = &folders},
        {"bytes", .number = &bench.bytes},     {"files", .number = &bench.count},
        {"rounds", .number = &rounds},         {.name = NULL}};
    if (arguments_read(argc, argv, options) != argc || bench.threads < 1 ||
        bench.threads > THREADS_MAX || bench.bytes < BYTES_LEAST || rounds < 1 ||
        rounds > ROUNDS_MAX)
        return 64;
    if (folders.count == 0)
        folders = (struct argument_numbers){2, {1, 8}};
    snprintf(bench.root, sizeof bench.root, "%.100s/gpuimgd-outputs-XXXXXX", folder);
    if (!mkdtemp(bench.root) ||
        !files_open(&bench.files, bench.root, bench.root, "bench:1:1", &error)) {
        fprintf(stderr, "bench_outputs: %s\n", error.text);
        return 1;
    }
    printf("%-12s %7s %7s %10s %8s %8s\n", "way", "threads", "folders", "files/s", "user us",
           "kernel us");
    memset(bench.folders, -1, sizeof bench.folders);
    for (unsigned i = 0; i < folders.count; i++) {
        bench.folder_count = folders.at[i] >= 1 && folders.at[i] <= FOLDERS_MAX ? folders.at[i] : 1;
        compare(rounds, only);
    }
    files_close(&bench.files);
    text_file_remove_folder(bench.root);
    return 0;
}
