/* Tests of reads and writes that idle workers share. The C library's functions are replaced, to see
 * which thread copies what, and to pretend that a file is on a disk. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "conf/limits.h"
#include "daemon/files/files.h"
#include "daemon/workers/split.h"
#include "daemon/workers/workers.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

#define FILE_BYTES  (20 * MIB + 12345)
#define PROBE_BYTES 4096
#define GUARD       0xA5

/* The state of the running test. */
static struct {
    uv_loop_t loop;
    struct workers *workers;
    pthread_t caller;
    uint32_t threads;
    int file;
    uint8_t *expected, *bytes;
    bool awaits_help;       /* the caller's first piece waits for a helper's */
    struct worker_task *fills; /* starts during the probe, so that no worker is free */
    bool on_disk;           /* the file seems to be on a disk */
    uint64_t cached;        /* of the disk's file: the first bytes are in memory */
    int answer;             /* for others: an errno; 0: the end of the file, or a short copy */
    size_t read_most;       /* bytes per call; 0: any number */
    atomic_uint by_caller, by_helpers; /* calls for pieces */
    atomic_uint may_wait;   /* calls of other threads that may wait for a disk or a server */
    uint64_t read_from;     /* first offset of pread */
    sem_t held, gate;
    uint32_t maps_most;      /* pieces of a map that can be copied; the others get `answer` */
    const char *cuts;        /* a file that another process makes empty before each copy */
    bool refuses_map;
    atomic_size_t removed;   /* bytes of maps that were removed */
    size_t written;          /* bytes of calls of write for outputs */
} bench;

static bool is_caller(void)
{
    return pthread_equal(pthread_self(), bench.caller);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
    bench.may_wait += !is_caller();
    if ((uint64_t)offset < bench.read_from)
        bench.read_from = (uint64_t)offset;
    return syscall(SYS_pread64, fd, bytes, size, offset);
}

static void count_piece(void)
{
    if (!is_caller())
        bench.by_helpers++;
    else if (bench.by_caller++ == 0 && bench.awaits_help)
        assert_true(await(20, bench.by_helpers > 0));
}

ssize_t preadv2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    size_t size = pieces->iov_len;
    assert_int_equal(count, 1);
    bench.may_wait += bench.on_disk && !(flags & RWF_NOWAIT);
    if (size != PROBE_BYTES) {
        count_piece();
    } else if (bench.fills) {
        workers_submit(bench.workers, bench.fills);
        sem_wait(&bench.held);
    }
    if (bench.on_disk && (uint64_t)offset >= bench.cached) {
        errno = bench.answer;
        return bench.answer ? -1 : 0;
    }
    if (bench.on_disk && size > bench.cached - (uint64_t)offset)
        size = bench.cached - (uint64_t)offset;
    if (bench.read_most && size > bench.read_most)
        size = bench.read_most;
    return syscall(SYS_pread64, fd, pieces->iov_base, size, offset);
}

static void cut(void)
{
    int file = open(bench.cuts, O_WRONLY);
    assert_int_equal(ftruncate(file, 0), 0);
    close(file);
}

ssize_t process_vm_writev(pid_t process, const struct iovec *source, unsigned long sources,
                          const struct iovec *target, unsigned long targets, unsigned long flags)
{
    count_piece();
    assert_int_equal(process, getpid());
    if (bench.by_caller + bench.by_helpers > bench.maps_most) {
        errno = bench.answer;
        return bench.answer ? -1 : (ssize_t)source->iov_len / 3;
    }
    if (bench.cuts)
        cut();
    return syscall(SYS_process_vm_writev, process, source, sources, target, targets, flags);
}

int madvise(void *map, size_t size, int advice)
{
    bench.removed += advice == MADV_DONTNEED ? size : 0;
    return (int)syscall(SYS_madvise, map, size, advice);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (bench.refuses_map) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    ssize_t written = syscall(SYS_write, fd, bytes, size);
    if (size > sizeof(uint64_t) && written > 0) /* else a waker's */
        bench.written += (size_t)written;
    return written;
}

int fstatfs(int fd, struct statfs *info)
{
    (void)fd;
    bench.may_wait += !is_caller();
    *info = (struct statfs){.f_type = bench.on_disk ? EXT4_SUPER_MAGIC : TMPFS_MAGIC};
    return 0;
}

static void bench_open(uint32_t threads)
{
    uint32_t state = 7;
    memset(&bench, 0, sizeof bench);
    assert_int_equal(uv_loop_init(&bench.loop), 0);
    sem_init(&bench.held, 0, 0);
    sem_init(&bench.gate, 0, 0);
    bench.maps_most = UINT32_MAX;
    bench.threads = threads;
    bench.caller = pthread_self();
    bench.file = memfd_create("input", MFD_CLOEXEC);
    bench.expected = malloc(FILE_BYTES);
    bench.bytes = malloc(FILE_BYTES + 2);
    assert_true(bench.file >= 0 && bench.expected && bench.bytes);
    for (size_t i = 0; i < FILE_BYTES; i++) {
        state = state * 1664525 + 1013904223;
        bench.expected[i] = (uint8_t)(state >> 24);
    }
    assert_int_equal(write(bench.file, bench.expected, FILE_BYTES), FILE_BYTES);
    memset(bench.bytes, GUARD, FILE_BYTES + 2);
    bench.workers = workers_create(&bench.loop, threads);
    assert_non_null(bench.workers);
    assert_true(await(20, workers_spare(bench.workers) == threads));
}

static void bench_end(void)
{
    workers_stop(bench.workers);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    workers_destroy(bench.workers);
    assert_int_equal(uv_loop_close(&bench.loop), 0);
    close(bench.file);
    free(bench.expected);
    free(bench.bytes);
}

static enum status read_bytes(uint64_t size, struct error *error)
{
    return split_read(bench.workers, bench.file, "large.jpg", bench.bytes, size, error);
}

static void check_read(uint64_t size)
{
    struct error error = {0};
    bench.read_from = UINT64_MAX;
    assert_int_equal(ftruncate(bench.file, (off_t)size), 0);
    assert_int_equal(read_bytes(size, &error), STATUS_OK);
    assert_memory_equal(bench.bytes, bench.expected, size);
    assert_int_equal(bench.bytes[size + 1], GUARD);
    assert_int_equal(bench.may_wait, 0);
}

static void check_pieces(uint32_t count)
{
    assert_int_equal(bench.by_caller + bench.by_helpers, count);
}

TEST(idle_workers_help_to_read)
{
    bench_open(3);
    bench.awaits_help = true;
    check_read(FILE_BYTES);
    check_pieces(41);
    assert_true(bench.by_helpers > 0);
    assert_int_equal(bench.read_from, FILE_BYTES); /* nothing was read twice */
    bench_end();
}

TEST(small_files_are_read_by_one_thread)
{
    bench_open(3);
    check_read(8 * MIB);
    check_pieces(16);
    check_read(8 * MIB - 1);
    check_pieces(16);
    bench_end();
}

static void hold(struct worker_task *task, struct worker_tools *tools)
{
    (void)task, (void)tools;
    sem_post(&bench.held);
    sem_wait(&bench.gate);
}

static void nothing(struct worker_task *task)
{
    (void)task;
}

TEST(busy_workers_do_not_help)
{
    bench_open(1);
    struct worker_task task = {.run = hold, .done = nothing};
    workers_submit(bench.workers, &task);
    check_read(FILE_BYTES); /* the task waits for the worker, or has it */
    check_pieces(0);
    sem_post(&bench.gate);
    bench_end();
}

/* A helper that no worker has started is withdrawn. */
TEST(the_caller_does_not_wait_for_busy_workers)
{
    bench_open(1);
    struct worker_task task = {.run = hold, .done = nothing};
    bench.fills = &task;
    check_read(FILE_BYTES);
    assert_int_equal(bench.by_caller, 41);
    sem_post(&bench.gate);
    bench_end();
}

/* Only the caller waits for a disk, in files_read_input: the pipeline replaces it if it hangs. It
 * reads from the first piece on that is not all in memory. */
TEST(helpers_do_not_wait_for_a_disk)
{
    static const struct {
        uint64_t cached;
        int answer;
        uint64_t read_from;
    } cases[] = {
        {FILE_BYTES, EAGAIN, FILE_BYTES},
        {0, EAGAIN, 0},
        {0, EOPNOTSUPP, 0},
        {PROBE_BYTES, EAGAIN, 0},
        {5 * MIB, EAGAIN, 5 * MIB},
        {5 * MIB + 7, EAGAIN, 5 * MIB},
        {12 * MIB - 1, 0, 12 * MIB - MIB / 2}, /* kernels 5.9 and 5.10 return 0 */
        {FILE_BYTES - 1, EAGAIN, 20 * MIB},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bench_open(3);
        bench.on_disk = true;
        bench.cached = cases[i].cached;
        bench.answer = cases[i].answer;
        check_read(FILE_BYTES);
        assert_int_equal(bench.read_from, cases[i].read_from);
        assert_true(bench.cached > 0 || bench.by_helpers == 0);
        bench_end();
    }
}

TEST(reads_may_be_short)
{
    bench_open(3);
    bench.read_most = MIB / 4 + 1;
    check_read(FILE_BYTES);
    check_pieces(2 * 40 + 1);
    assert_int_equal(bench.read_from, FILE_BYTES);
    bench_end();
}

TEST(files_must_stand_still)
{
    struct error error = {0};
    bench_open(3);
    assert_int_equal(read_bytes(FILE_BYTES - 1, &error), STATUS_INPUT_UNREADABLE);
    assert_non_null(strstr(error.text, "\"large.jpg\" grew beyond 20983864 bytes"));
    error = (struct error){0};
    assert_int_equal(ftruncate(bench.file, 9 * MIB), 0);
    assert_int_equal(read_bytes(FILE_BYTES, &error), STATUS_INPUT_UNREADABLE);
    assert_non_null(strstr(error.text, "shrank from 20983865 to 9437184 bytes"));
    bench_end();
}

/* Helpers that start late find no piece, or are withdrawn. */
TEST(many_reads_in_turn)
{
    bench_open(9);
    for (int i = 0; i < 40; i++) {
        memset(bench.bytes, 0, FILE_BYTES);
        check_read(FILE_BYTES);
    }
    bench_end();
}

/* ---- writing -------------------------------------------------------------------------------- */

static char folder[64];
static struct files files;

static void files_begin(uint32_t threads)
{
    struct error error = {0};
    bench_open(threads);
    strcpy(folder, "/tmp/gpuimgd-split-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_true(files_open(&files, folder, folder, "host:1:1", &error));
    bench.written = 0;
}

static void files_end(void)
{
    files_close(&files);
    text_file_remove_folder(folder);
    bench_end();
}

/* Writes the first `head` bytes, then the others up to `end` in a single call, and then a tail of
 * `tail` bytes. */
static enum status write_parts(size_t head, size_t end, size_t tail, struct error *error)
{
    struct files_output output;
    enum status status = files_output_begin(&files, &output, "out.jpg", 1, 1, 0, NULL, error);
    if (status == STATUS_OK && head > 0)
        status = files_output_write(&output, bench.expected, head, error);
    if (status == STATUS_OK)
        status = split_write(bench.workers, &output, bench.expected + head, end - head, error);
    if (status == STATUS_OK && tail > 0)
        status = files_output_write(&output, bench.expected + end, tail, error);
    if (status == STATUS_OK)
        status = files_output_finish(&output, false, error);
    if (status == STATUS_OK)
        status = files_output_place(&output, false, NULL, NULL, error);
    files_output_end(&output);
    return status;
}

/* by_write: bytes that files_output_write wrote. */
static void check_write(size_t head, size_t end, size_t tail, size_t by_write)
{
    struct error error = {0};
    size_t length;
    char path[128];
    assert_int_equal(write_parts(head, end, tail, &error), STATUS_OK);
    assert_int_equal(bench.written, by_write);
    snprintf(path, sizeof path, "%s/out.jpg", folder);
    uint8_t *bytes = text_file_bytes(path, &length);
    assert_non_null(bytes);
    assert_int_equal(length, end + tail);
    assert_memory_equal(bytes, bench.expected, length);
    free(bytes);
    assert_int_equal(unlink(path), 0);
}

/* Helpers of an earlier write may not be idle yet. */
static void check_split_write(size_t length, size_t tail)
{
    assert_true(await(20, workers_spare(bench.workers) == bench.threads));
    bench.written = 0;
    check_write(0, length, tail, tail);
}

TEST(idle_workers_help_to_write)
{
    files_begin(7);
    bench.awaits_help = true;
    check_split_write(FILE_BYTES, 0);
    check_pieces(41);
    assert_true(bench.by_helpers > 0);
    assert_int_equal(bench.removed, FILE_BYTES);
    check_split_write(8 * MIB, 0);
    check_pieces(41 + 16);
    check_split_write(8 * MIB + 1, 1000);
    files_end();
}

static void check_single_write(size_t head, size_t end)
{
    bench.written = 0;
    check_write(head, end, 0, end);
    check_pieces(0);
}

TEST(other_outputs_are_written_by_one_thread)
{
    files_begin(7);
    check_single_write(0, 8 * MIB - 1);
    check_single_write(10, FILE_BYTES); /* not all of the file */
    bench.refuses_map = true;
    check_single_write(0, FILE_BYTES);
    bench.refuses_map = false;
    bench.on_disk = true;
    check_single_write(0, FILE_BYTES);
    files_end();
    files_begin(6); /* too few */
    check_single_write(0, FILE_BYTES);
    files_end();
    files_begin(7);
    struct worker_task task = {.run = hold, .done = nothing};
    workers_submit(bench.workers, &task);
    check_single_write(0, FILE_BYTES);
    sem_post(&bench.gate);
    files_end();
}

/* Then write(2) tries it again, from the start. */
TEST(pieces_that_cannot_be_copied)
{
    static const struct {
        uint32_t maps_most;
        int answer;
    } cases[] = {{0, EPERM}, {1, EFAULT}, {20, EFAULT}, {40, EFAULT}, {0, 0}, {40, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        files_begin(7);
        bench.awaits_help = true;
        bench.maps_most = cases[i].maps_most;
        bench.answer = cases[i].answer;
        check_write(0, FILE_BYTES, 100, FILE_BYTES + 100);
        files_end();
    }
}

/* A store to the map would end the process. Only a file with a name can be cut off by others. */
TEST(a_file_that_another_process_cuts_off)
{
    files_begin(7);
    files.naming = FILES_RENAMED;
    char path[128];
    snprintf(path, sizeof path, "%s/.gpuimgd/host:1:1.1.1.0.tmp", folder);
    bench.cuts = path;
    check_write(0, FILE_BYTES, 0, FILE_BYTES);
    files_end();
}

TEST(many_writes_in_turn)
{
    files_begin(9);
    for (int i = 0; i < 20; i++)
        check_split_write(FILE_BYTES, 0);
    files_end();
}

static void check_failure(const char *text)
{
    struct error error = {0};
    char path[128];
    assert_int_equal(write_parts(0, FILE_BYTES, 0, &error), STATUS_WRITE_FAILED);
    assert_non_null(strstr(error.text, text));
    snprintf(path, sizeof path, "%s/.gpuimgd", folder);
    assert_int_equal(text_file_count(path, ".tmp"), 0);
    assert_int_equal(text_file_count(folder, "out"), 0);
}

TEST(a_limit_of_the_file_size)
{
    const struct rlimit limit = {10 * MIB, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    files_begin(7);
    signal(SIGXFSZ, SIG_IGN); /* as the daemon */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    check_failure("cannot be written: File too large");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    files_end();
}

static void mount_or_skip(const char *options)
{
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount("tmpfs", "/tmp", "tmpfs", 0, options) == 0)
        return;
    fprintf(stderr, "cannot mount a tmpfs with %s: %s\n", options, strerror(errno));
    skip();
}

/* The last tests, because they mount. */
TEST(a_tmpfs_of_huge_pages)
{
    mount_or_skip("size=32m,huge=always");
    files_begin(7);
    check_single_write(0, FILE_BYTES);
    files_end();
    assert_int_equal(umount2("/tmp", MNT_DETACH), 0);
}

TEST(a_full_tmpfs)
{
    mount_or_skip("size=12m");
    files_begin(7);
    check_failure("cannot be written: No space left on device");
    assert_true(bench.by_caller + bench.by_helpers > 0);
    check_split_write(11 * MIB, 0); /* the failed output occupies nothing */
    files_end();
    assert_int_equal(umount2("/tmp", MNT_DETACH), 0);
}

TEST_MAIN(.name = "split")
