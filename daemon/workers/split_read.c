#include "daemon/workers/split_read.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "conf/limits.h"
#include "daemon/files/files.h"
#include "daemon/workers/workers.h"

/* A smaller file takes a thread at most 4 ms, and helpers need some 0.2 ms until all have begun. */
#define SPLIT_BYTES_LEAST (8 * MIB)
/* Some 0.3 ms, so that all threads end at about the same time. */
#define PIECE_BYTES MIB
/* Eight threads are 4 to 5 times as fast as one. */
#define HELPERS_MAX 7
/* The caller reads this much before it asks for help. */
#define PROBE_BYTES 4096

struct split {
    struct workers *workers;
    int fd, flags; /* flags: for files_read_cached */
    uint8_t *bytes;
    uint64_t size;
    _Atomic uint64_t next;   /* start of the next piece */
    _Atomic uint64_t missed; /* start of the first piece that is not in memory; else size */
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

/* Each piece is taken once, in order, so that all pieces before `missed` are read. */
static void read_pieces(struct split *split)
{
    for (;;) {
        uint64_t at = atomic_fetch_add(&split->next, PIECE_BYTES);
        if (at >= atomic_load(&split->missed))
            return;
        uint64_t to = split->size - at < PIECE_BYTES ? split->size : at + PIECE_BYTES;
        if (!files_read_cached(split->fd, split->flags, split->bytes, at, to))
            set_missed(split, at);
    }
}

static void help(struct worker_task *task, struct worker_tools *tools)
{
    struct split *split = container_of(task, struct helper, task)->split;
    read_pieces(split);
    workers_hand_on(split->workers, tools, task);
    sem_post(&split->ended); /* then the caller may return, and task and split are gone */
}

static void wait_for_one(struct split *split)
{
    while (sem_wait(&split->ended) != 0 && errno == EINTR)
        ;
}

static void read_with_helpers(struct split *split, uint32_t count)
{
    struct helper helpers[HELPERS_MAX];
    uint32_t begun = 0;
    sem_init(&split->ended, 0, 0);
    for (uint32_t i = 0; i < count; i++) {
        helpers[i] = (struct helper){.task = {.priority = WORKERS_PRIORITIES - 1, .run = help},
                                     .split = split};
        workers_submit(split->workers, &helpers[i].task);
    }
    read_pieces(split);
    for (uint32_t i = 0; i < count; i++)
        begun += !workers_withdraw(split->workers, &helpers[i].task);
    while (begun-- > 0)
        wait_for_one(split);
    sem_destroy(&split->ended);
}

/* Returns the number of helpers for the file. */
static uint32_t choose_helpers(struct split *split)
{
    uint32_t spare = split->size >= SPLIT_BYTES_LEAST ? workers_spare(split->workers) : 0;
    if (spare == 0)
        return 0;
    split->flags = files_cache_flags(split->fd);
    if (!files_read_cached(split->fd, split->flags, split->bytes, 0, PROBE_BYTES))
        return 0;
    return spare < HELPERS_MAX ? spare : HELPERS_MAX;
}

enum status split_read(struct workers *workers, int fd, const char *path, uint8_t *bytes,
                       uint64_t size, struct error *error)
{
    struct split split = {.workers = workers, .fd = fd, .bytes = bytes, .size = size,
                          .missed = size};
    uint32_t helpers = choose_helpers(&split);
    if (helpers > 0)
        read_with_helpers(&split, helpers);
    /* Reads the rest. If all is read, it reads one byte at `size`, to find a file that has
     * grown. */
    uint64_t from = helpers > 0 ? atomic_load(&split.missed) : 0;
    return files_read_input(fd, path, bytes, from, size, error);
}
