#include "daemon/workers/split.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "conf/limits.h"
#include "daemon/files/files.h"
#include "daemon/workers/workers.h"

/* Smaller files are not split: one thread reads or writes them in at most 4 ms, and it takes some
 * 0.2 ms until all helpers (other worker threads) have begun. */
#define SPLIT_BYTES_LEAST (8 * MIB)
/* Each thread copies one piece after the other. A piece is a multiple of the page size and takes
 * some 0.2 ms. With shorter pieces the kernel would interrupt the processors of the other threads
 * too often: it does so after each piece of a mapped file (files_map_write). With longer ones the
 * threads would not end at about the same time. */
#define PIECE_BYTES (MIB / 2)
/* Eight threads read 4 to 5 times as fast as one. To write with several threads, the file is
 * mapped: eight threads are then up to twice as fast as one with write(2), four are about as fast
 * as that one, and two are slower. So a file is written with all helpers or with none. */
#define HELPERS_MAX         7
#define HELPERS_WRITE_LEAST HELPERS_MAX

/* ---- sharing -------------------------------------------------------------------------------- */

struct split {
    struct workers *workers;
    uint64_t size;
    /* Copies a piece. false: a part of it could not be copied. */
    bool (*copy)(const struct split *split, uint64_t from, uint64_t to);
    uint8_t *target;
    const uint8_t *source;   /* for a write */
    int fd, flags;           /* for a read; flags: of files_read_cached */
    _Atomic uint64_t next;   /* start of the next piece */
    _Atomic uint64_t missed; /* start of the first piece that could not be copied; else `size` */
    sem_t ended;             /* counts the helpers that have ended */
};

struct helper {
    struct worker_task task;
    struct split *split;
};

static void set_missed(struct split *split, uint64_t at)
{
    uint64_t missed = atomic_load(&split->missed);
    while (at < missed && !atomic_compare_exchange_weak(&split->missed, &missed, at))
        ;
}

/* Each piece is taken once, in order, so that all pieces before `missed` are copied. */
static void copy_pieces(struct split *split)
{
    for (;;) {
        uint64_t at = atomic_fetch_add(&split->next, PIECE_BYTES);
        if (at >= atomic_load(&split->missed))
            return;
        uint64_t to = split->size - at < PIECE_BYTES ? split->size : at + PIECE_BYTES;
        if (!split->copy(split, at, to))
            set_missed(split, at);
    }
}

static void help(struct worker_task *task, struct worker_tools *tools)
{
    struct split *split = container_of(task, struct helper, task)->split;
    copy_pieces(split);
    workers_hand_on(tools, task);
    /* After this, split_read or split_write may return, and `task` and `split` are on its stack. */
    sem_post(&split->ended);
}

static void wait_for_one(struct split *split)
{
    while (sem_wait(&split->ended) != 0 && errno == EINTR)
        ;
}

/* Copies together with `count` helpers. Helpers that no idle worker has begun when this thread is
 * done are withdrawn. Returns the start of the first piece that could not be copied; else the
 * size. */
static uint64_t copy_with_helpers(struct split *split, uint32_t count)
{
    struct helper helpers[HELPERS_MAX];
    uint32_t begun = 0;
    split->missed = split->size;
    sem_init(&split->ended, 0, 0);
    for (uint32_t i = 0; i < count; i++) {
        helpers[i] = (struct helper){.task = {.priority = WORKERS_PRIORITIES - 1, .run = help},
                                     .split = split};
        workers_submit(split->workers, &helpers[i].task);
    }
    copy_pieces(split);
    for (uint32_t i = 0; i < count; i++)
        begun += !workers_withdraw(split->workers, &helpers[i].task);
    while (begun-- > 0)
        wait_for_one(split);
    sem_destroy(&split->ended);
    return split->missed;
}

/* The number of helpers for a file of this size; 0: the file is not split. */
static uint32_t count_helpers(struct workers *workers, uint64_t bytes)
{
    uint32_t spare = bytes >= SPLIT_BYTES_LEAST ? workers_spare(workers) : 0;
    return spare < HELPERS_MAX ? spare : HELPERS_MAX;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The first bytes of a file, which are read to find out if the file is in the page cache. */
#define PROBE_BYTES 4096

static bool read_piece(const struct split *split, uint64_t from, uint64_t to)
{
    return files_read_cached(split->fd, split->flags, split->target, from, to);
}

/* Reads the first bytes. false: they are not in the page cache, so the file is not split. */
static bool probe_cache(struct split *split)
{
    split->flags = files_cache_flags(split->fd);
    return files_read_cached(split->fd, split->flags, split->target, 0, PROBE_BYTES);
}

enum status split_read(struct workers *workers, int fd, const char *path, uint8_t *bytes,
                       uint64_t size, struct error *error)
{
    struct split split = {.workers = workers, .size = size, .copy = read_piece, .target = bytes,
                          .fd = fd};
    uint32_t helpers = count_helpers(workers, size);
    uint64_t from = helpers > 0 && probe_cache(&split) ? copy_with_helpers(&split, helpers) : 0;
    /* Reads the bytes from `from` on, and one byte more, to find out if the file has grown. */
    return files_read_input(fd, path, bytes, from, size, error);
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool write_piece(const struct split *split, uint64_t from, uint64_t to)
{
    return files_map_write(split->target, split->source, from, to);
}

enum status split_write(struct workers *workers, struct files_output *output, const uint8_t *bytes,
                        size_t length, struct error *error)
{
    struct split split = {.workers = workers, .size = length, .copy = write_piece, .source = bytes};
    uint32_t helpers = count_helpers(workers, length);
    split.target = helpers >= HELPERS_WRITE_LEAST ? files_output_map(output, length) : NULL;
    if (split.target) {
        bool written = copy_with_helpers(&split, helpers) == length;
        if (files_output_unmap(output, split.target, length, written, error) != STATUS_OK)
            return error->status;
        if (written)
            return STATUS_OK;
    }
    /* If the map failed because the disk is full, this fails as well, and sets the error. */
    return files_output_write(output, bytes, length, error);
}
