#include "daemon/pipeline/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "conf/clock.h"
#include "conf/log.h"
#include "daemon/pipeline/state.h"

/* The test of the disk writes a file of this size: if it succeeds, small outputs fit. */
#define DISK_TRY_BYTES 4096
/* To find out if an output that did not fit would fit now, a worker reserves its size, but at most
 * this much. */
#define DISK_RESERVE_BYTES_MAX (64 * MIB)

/* Delay between tries; doubles after each, as for reconnecting to Redis. */
#define DELAY_FIRST_S 0.1
#define DELAY_LAST_S  5.0
/* If the disk fails again within this time, the delay is not reset. */
#define CALM_S 10
/* A worker tests a full disk again so often, at this interval, before fetching stops. */
#define FULL_TRIES   3
#define FULL_WAIT_MS 10

bool disk_may_be_why(int reason)
{
    static const int reasons[] = {ENOSPC, EDQUOT, EROFS, EIO, /* or a mount is lost: */
                                  ESTALE, ENOTCONN, ENODEV, ENXIO, ENOENT, ETIMEDOUT, EHOSTDOWN};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reason == reasons[i])
            return true;
    return false;
}

bool disk_is_full(int reason)
{
    return reason == ENOSPC || reason == EDQUOT;
}

/* ---- trying, on a worker -------------------------------------------------------------------- */

/* Reserves `bytes`, as far as the filesystem supports that. Asks for the free bytes first, so that
 * other outputs do not fail because this has filled the disk. A quota may be lower. */
static enum status reserve(const struct files_output *output, uint64_t bytes, struct error *error)
{
    uint64_t room;
    uint64_t most = bytes < DISK_RESERVE_BYTES_MAX ? bytes : DISK_RESERVE_BYTES_MAX;
    if (files_output_room(output, &room) && room < bytes)
        return error_set(error, STATUS_WRITE_FAILED, "%s", strerror(ENOSPC));
    if (fallocate(output->fd, 0, 0, (off_t)most) != 0 && disk_may_be_why(errno))
        return error_set(error, STATUS_WRITE_FAILED, "%s", strerror(errno));
    return STATUS_OK;
}

/* bytes: to reserve beside the small file. */
static enum status write_some(struct files_output *output, uint64_t bytes, const uint8_t *buffer,
                              struct error *error)
{
    if ((bytes > 0 && reserve(output, bytes, error) != STATUS_OK) ||
        files_output_write(output, buffer, DISK_TRY_BYTES, error) != STATUS_OK)
        return error->status;
    return files_output_finish(output, true, error);
}

/* false: error->text is the reason without the path. */
static bool write_file(struct disk *disk, uint64_t bytes, const uint8_t *buffer,
                       struct error *error)
{
    struct files_output output;
    uint64_t number = atomic_fetch_add(&disk->tries, 1);
    enum status status =
        files_output_begin(disk->pipeline->parts.files, &output, "try", 0, 0, number, NULL, error);
    if (status == STATUS_OK)
        status = write_some(&output, bytes, buffer, error);
    files_output_end(&output);
    if (output.reason) /* replaces a message that names the internal path */
        snprintf(error->text, sizeof error->text, "%s", strerror(output.reason));
    return status == STATUS_OK;
}

void disk_occupy(struct disk *disk, int64_t bytes)
{
    atomic_fetch_add(&disk->occupied, bytes);
}

void disk_lack_room(struct disk *disk, uint64_t bytes)
{
    uint64_t wanted = atomic_load(&disk->wanted);
    bytes += (uint64_t)atomic_load(&disk->occupied);
    while (bytes > wanted && !atomic_compare_exchange_weak(&disk->wanted, &wanted, bytes))
        continue;
}

/* Writes the small file. */
static bool try_small(struct disk *disk, uint8_t *buffer, struct error *error)
{
    const struct pipeline_parts *parts = &disk->pipeline->parts;
    const char *root = parts->options->output_root;
    struct error why = {0};
    if (!files_follow_root(parts->files, root, error))
        return false;
    memset(buffer, 0, DISK_TRY_BYTES);
    if (write_file(disk, 0, buffer, &why))
        return true;
    error_set(error, STATUS_WRITE_FAILED, "output_root \"%s\" cannot be written: %s", root,
              why.text);
    return false;
}

/* If the disk is full: other outputs may fill it at this moment, which then fail and free it. */
static bool try_small_again(struct disk *disk, bool is_full, uint8_t *buffer, struct error *error)
{
    bool works = try_small(disk, buffer, error);
    for (int i = 0; !works && is_full && i < FULL_TRIES; i++) {
        uv_sleep(FULL_WAIT_MS);
        error_clear(error);
        works = try_small(disk, buffer, error);
    }
    return works;
}

enum disk_verdict disk_try(struct disk *disk, bool is_full, uint8_t *buffer, struct error *error)
{
    struct error why = {0};
    uint64_t wanted = atomic_load(&disk->wanted);
    if (!try_small_again(disk, is_full, buffer, error))
        return DISK_FAILS;
    if (!is_full)
        return DISK_WORKS;
    if (!write_file(disk, wanted, buffer, &why))
        return DISK_LACKS_ROOM;
    atomic_compare_exchange_strong(&disk->wanted, &wanted, 0); /* unless a larger size was set */
    return DISK_WORKS;
}

static void try_run(struct worker_task *task, struct worker_tools *tools)
{
    struct disk *disk = container_of(task, struct disk, task);
    disk->found = (struct error){0};
    bool works = try_small(disk, tools->sink, &disk->found);
    (void)works; /* try_done reads disk->found */
}

/* ---- on the loop ---------------------------------------------------------------------------- */

static void wait_for_next(struct disk *disk);

static void set_failed(struct disk *disk, bool failed)
{
    disk->failed = failed;
    disk->changed = true;
    pipeline_wake(disk->pipeline);
}

bool disk_fail(struct disk *disk, const struct error *error)
{
    uint64_t now_ns = clock_now_ns();
    if (disk->failed)
        return false;
    if (disk->worked_ns == 0 || clock_ms(disk->worked_ns, now_ns) > CALM_S * 1e3)
        disk->delay_s = DELAY_FIRST_S;
    set_failed(disk, true);
    disk->failed_ns = now_ns;
    disk->error = *error;
    log_error("%s: nothing is fetched until outputs can be written; jobs in flight return to the "
              "queue", error->text);
    wait_for_next(disk);
    return true;
}

static void set_working(struct disk *disk)
{
    set_failed(disk, false);
    disk->worked_ns = clock_now_ns();
    log_info("output_root \"%s\" can be written again, after %.1f s: fetching resumes",
             disk->pipeline->parts.options->output_root,
             clock_ms(disk->failed_ns, disk->worked_ns) / 1e3);
}

static void try_done(struct worker_task *task)
{
    struct disk *disk = container_of(task, struct disk, task);
    bool works = disk->found.status == STATUS_OK;
    disk->trying = false;
    if (!disk->failed && !works) {
        disk_fail(disk, &disk->found);
    } else if (disk->failed && works) {
        set_working(disk);
    } else if (disk->failed) {
        disk->error = disk->found;
        wait_for_next(disk);
    }
}

static void start_try(struct disk *disk)
{
    if (disk->trying)
        return;
    disk->trying = true;
    disk->task = (struct worker_task){.priority = 0, .run = try_run, .done = try_done};
    workers_submit(disk->pipeline->parts.workers, &disk->task);
}

static void on_timer(uv_timer_t *timer)
{
    start_try(timer->data);
}

static void wait_for_next(struct disk *disk)
{
    uv_timer_start(&disk->timer, on_timer, (uint64_t)(disk->delay_s * 1e3), 0);
    disk->delay_s = disk->delay_s * 2 < DELAY_LAST_S ? disk->delay_s * 2 : DELAY_LAST_S;
}

void disk_suspect(struct disk *disk)
{
    if (!disk->failed)
        start_try(disk);
}

void disk_open(struct pipeline *pipeline)
{
    struct disk *disk = &pipeline->disk;
    *disk = (struct disk){.pipeline = pipeline, .delay_s = DELAY_FIRST_S};
    uv_timer_init(pipeline->parts.loop, &disk->timer);
    disk->timer.data = disk;
}
