#include "daemon/pipeline/split_read.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "conf/limits.h"
#include "daemon/files/files.h"
#include "daemon/pipeline/workers.h"

/* A helper's start takes some 50 us, in which a thread reads about a quarter of a MiB. */
#define SPLIT_BYTES_LEAST (8 * MIB)
#define PIECE_BYTES       MIB
#define HELPERS_MAX       7

struct split {
    struct workers *workers;
    int fd;
    uint8_t *bytes;
    uint64_t size;
    atomic_ullong next; /* start of the next piece */
    atomic_bool gives_up; /* a piece is not in memory */
    sem_t ended;        /* counts helpers */
};

struct helper {
    struct worker_task task;
    struct split *split;
};

static void read_pieces(struct split *split)
{
    uint64_t at;
    while (!atomic_load(&split->gives_up) &&
           (at = atomic_fetch_add(&split->next, PIECE_BYTES)) < split->size) {
        uint64_t to = split->size - at < PIECE_BYTES ? split->size : at + PIECE_BYTES;
        if (!files_read_cached(split->fd, split->bytes, at, to))
            atomic_store(&split->gives_up, true);
    }
}

static void help(struct worker_task *task, struct worker_tools *tools)
{
    struct split *split = container_of(task, struct helper, task)->split;
    read_pieces(split);
    workers_hand_on(split->workers, tools, task);
    sem_post(&split->ended); /* the task may be gone now */
}

static void wait_for_helper(struct split *split)
{
    while (sem_wait(&split->ended) != 0 && errno == EINTR)
        ;
}

static void read_with_helpers(struct split *split, uint32_t count)
{
    struct helper helpers[HELPERS_MAX];
    sem_init(&split->ended, 0, 0);
    for (uint32_t i = 0; i < count; i++) {
        helpers[i] = (struct helper){.task = {.priority = WORKERS_PRIORITIES - 1, .run = help},
                                     .split = split};
        workers_submit(split->workers, &helpers[i].task);
    }
    read_pieces(split);
    for (uint32_t i = 0; i < count; i++)
        if (!workers_withdraw(split->workers, &helpers[i].task))
            wait_for_helper(split);
    sem_destroy(&split->ended);
}

enum status split_read(struct workers *workers, int fd, const char *path, uint8_t *bytes,
                       uint64_t size, struct error *error)
{
    struct split split = {.workers = workers, .fd = fd, .bytes = bytes, .size = size};
    uint32_t helpers = size >= SPLIT_BYTES_LEAST ? workers_idle(workers) : 0;
    if (helpers > 0)
        read_with_helpers(&split, helpers < HELPERS_MAX ? helpers : HELPERS_MAX);
    bool whole = helpers > 0 && !atomic_load(&split.gives_up);
    /* Even if all bytes are read, this finds a file that has grown. */
    return files_read_input(fd, path, bytes, whole ? size : 0, size, error);
}
