/* Tests of reads that idle workers share. The C library's functions are replaced, to see which
 * thread reads what, and to pretend that a file is on a disk. */
#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "conf/limits.h"
#include "daemon/workers/split_read.h"
#include "daemon/workers/workers.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"

#define FILE_BYTES  (20 * MIB + 12345)
#define PROBE_BYTES 4096
#define GUARD       0xA5

/* The state of the running test. */
static struct {
    uv_loop_t loop;
    struct workers *workers;
    pthread_t caller;
    int file;
    uint8_t *expected, *bytes;
    bool awaits_help;       /* the caller's first piece waits for a helper's */
    struct worker_task *fills; /* starts during the probe, so that no worker is free */
    bool on_disk;           /* the file seems to be on a disk */
    uint64_t cached;        /* of the disk's file: the first bytes are in memory */
    int answer;             /* for others: an errno; 0: the end of the file */
    size_t read_most;       /* bytes per call; 0: any number */
    atomic_uint by_caller, by_helpers; /* calls for pieces */
    atomic_uint may_wait;   /* calls of other threads that may wait for a disk or a server */
    uint64_t read_from;     /* first offset of pread */
    sem_t held, gate;
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

TEST(idle_workers_help)
{
    bench_open(3);
    bench.awaits_help = true;
    check_read(FILE_BYTES);
    check_pieces(21);
    assert_true(bench.by_helpers > 0);
    assert_int_equal(bench.read_from, FILE_BYTES); /* nothing was read twice */
    bench_end();
}

TEST(small_files_are_read_by_one_thread)
{
    bench_open(3);
    check_read(8 * MIB);
    check_pieces(8);
    check_read(8 * MIB - 1);
    check_pieces(8);
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
    assert_int_equal(bench.by_caller, 21);
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
        {12 * MIB - 1, 0, 11 * MIB}, /* kernels 5.9 and 5.10 return 0 */
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
    bench.read_most = MIB / 2 + 1;
    check_read(FILE_BYTES);
    check_pieces(2 * 20 + 1);
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

TEST_MAIN(.name = "split_read")
