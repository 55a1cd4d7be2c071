/* Tests of reads that idle workers share. The C library's functions are replaced, to count the
 * pieces that each thread reads, and to pretend that a file is on a disk. */
#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "conf/limits.h"
#include "daemon/pipeline/split_read.h"
#include "daemon/pipeline/workers.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"

#define FILE_BYTES (20 * MIB + 12345)
#define GUARD      0xA5

/* The state of the running test. */
static struct {
    uv_loop_t loop;
    struct workers *workers;
    pthread_t caller;
    int file;
    uint8_t *expected, *bytes;
    bool helped;          /* the caller's first piece waits for a helper's */
    bool on_disk;         /* the file seems to be on a disk */
    int error;            /* of reads of a disk's memory; 0: none */
    atomic_uint by_caller, by_helpers, waiting; /* pieces; reads of a disk that may wait */
    sem_t helper_read, held, gate;
} bench;

ssize_t preadv2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    bool calls = pthread_equal(pthread_self(), bench.caller);
    bench.waiting += bench.on_disk && !(flags & RWF_NOWAIT);
    if (bench.on_disk && bench.error) {
        errno = bench.error;
        return -1;
    }
    ssize_t got = pread(fd, pieces->iov_base, pieces->iov_len, offset);
    assert_int_equal(count, 1);
    if (calls && bench.by_caller++ == 0 && bench.helped)
        sem_wait(&bench.helper_read);
    if (!calls && bench.by_helpers++ == 0)
        sem_post(&bench.helper_read);
    return got;
}

int fstatfs(int fd, struct statfs *info)
{
    (void)fd;
    *info = (struct statfs){.f_type = bench.on_disk ? EXT4_SUPER_MAGIC : TMPFS_MAGIC};
    return 0;
}

static void wait_until_idle(uint32_t threads)
{
    while (workers_idle(bench.workers) < threads)
        usleep(100);
}

static void bench_open(uint32_t threads)
{
    uint32_t state = 7;
    memset(&bench, 0, sizeof bench);
    assert_int_equal(uv_loop_init(&bench.loop), 0);
    sem_init(&bench.helper_read, 0, 0);
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
    wait_until_idle(threads);
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
    assert_int_equal(ftruncate(bench.file, (off_t)size), 0);
    assert_int_equal(read_bytes(size, &error), STATUS_OK);
    assert_memory_equal(bench.bytes, bench.expected, size);
    assert_int_equal(bench.bytes[size + 1], GUARD);
}

TEST(idle_workers_help)
{
    bench_open(3);
    bench.helped = true;
    check_read(FILE_BYTES);
    assert_int_equal(bench.by_caller + bench.by_helpers, 21);
    assert_true(bench.by_helpers > 0);
    bench_end();
}

TEST(small_files_are_read_by_one_thread)
{
    bench_open(3);
    check_read(8 * MIB - 1);
    assert_int_equal(bench.by_caller + bench.by_helpers, 0);
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

/* Busy workers do not help, and the caller does not wait for them. */
TEST(busy_workers_do_not_help)
{
    bench_open(1);
    struct worker_task task = {.run = hold, .done = nothing};
    workers_submit(bench.workers, &task);
    sem_wait(&bench.held);
    check_read(FILE_BYTES);
    assert_int_equal(bench.by_caller + bench.by_helpers, 0);
    sem_post(&bench.gate);
    bench_end();
}

/* Only the caller waits for a disk, in files_read_input: its worker is replaced if it hangs. */
TEST(helpers_do_not_wait_for_a_disk)
{
    static const int errors[] = {0, EAGAIN, EOPNOTSUPP};
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        bench_open(3);
        bench.on_disk = true;
        bench.error = errors[i];
        check_read(FILE_BYTES);
        assert_int_equal(bench.waiting, 0);
        assert_int_equal(bench.by_caller + bench.by_helpers, errors[i] ? 0 : 21);
        bench_end();
    }
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
