#include "daemon/telemetry/snapshot.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/limits.h"

const char *const snapshot_state_names[SNAPSHOT_STATES] = {
    [SNAPSHOT_STARTING] = "starting", [SNAPSHOT_RUNNING] = "running",
    [SNAPSHOT_PAUSED] = "paused",     [SNAPSHOT_DRAINING] = "draining",
    [SNAPSHOT_FAILED] = "failed",
};

const char *const snapshot_list_names[JOB_PRIORITIES + 1] = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "none"};

const char *const snapshot_pool_names[SNAPSHOT_POOLS] = {
    [SNAPSHOT_PINNED] = "pinned", [SNAPSHOT_FILES] = "files", [SNAPSHOT_CODECS] = "codecs"};

static double resident_bytes(void)
{
    unsigned long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%lu %lu", &size, &resident) != 2)
            /* uncovered: promise (tests/coverage/reasons.txt) */
            resident = 0;
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

void snapshot_read_process(struct snapshot *snapshot)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    snapshot->process_cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                              (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    snapshot->resident_bytes = resident_bytes();
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) /* uncovered: promise */
        return;  /* no descriptor is left; the previous count stays, because 0 would be wrong */
    uint32_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    snapshot->open_files = count - 1; /* without the descriptor of opendir */
}

void snapshot_copy(struct snapshot *to, const struct snapshot *from)
{
    size_t shards = from->shard_count > 1 ? from->shard_count : 0;
    memcpy(to, from, offsetof(struct snapshot, shards) + shards * sizeof from->shards[0]);
}

bool snapshot_alive(const struct snapshot *snapshot, uint64_t now_ns, char *why, size_t size)
{
    double silent_s = clock_ms(snapshot->taken_ns, now_ns) / 1e3;
    double up_s = clock_ms(snapshot->began_ns, now_ns) / 1e3;
    bool starting = snapshot->state == SNAPSHOT_STARTING;
    if (snapshot->state == SNAPSHOT_FAILED) {
        snprintf(why, size, "failed: %s; the daemon must be restarted", snapshot->why);
    } else if (starting && up_s > START_S_MAX) {
        snprintf(why, size, "the self-test has not passed for %.0f s; the limit is %d s", up_s,
                 START_S_MAX);
    } else if (!starting && silent_s > SNAPSHOT_STALL_S) {
        /* While the daemon starts, the loop may be blocked: a driver may need long to open a
         * device. */
        snprintf(why, size, "the event loop has not run for %.0f s; the limit is %d s", silent_s,
                 SNAPSHOT_STALL_S);
    } else if (!snapshot->moving) {
        snprintf(why, size, "jobs make no progress: one is past its deadline, or all of them wait");
    } else {
        snprintf(why, size, "%s", snapshot_state_names[snapshot->state]);
        return true;
    }
    return false;
}

/* For a daemon that is ready: adds to `why` which shards do not answer, if there are any. */
static bool add_missing_shards(const struct snapshot *snapshot, char *why, size_t size)
{
    if (*snapshot->redis_reason)
        snprintf(why, size, "%s; %s", snapshot_state_names[snapshot->state],
                 snapshot->redis_reason);
    return true;
}

bool snapshot_ready(const struct snapshot *snapshot, uint64_t now_ns, char *why, size_t size)
{
    if (!snapshot_alive(snapshot, now_ns, why, size))
        return false;
    if (snapshot->state == SNAPSHOT_STARTING)
        snprintf(why, size, "starting: the self-test has not passed yet");
    else if (snapshot->state == SNAPSHOT_PAUSED)
        snprintf(why, size, "paused, by SIGUSR2 or for all daemons: no jobs are fetched");
    else if (snapshot->state != SNAPSHOT_RUNNING)
        snprintf(why, size, "draining: no jobs are fetched, %u are in flight", snapshot->in_flight);
    else if (!snapshot->redis_ready)
        snprintf(why, size, "Redis: %s", snapshot->redis_reason);
    else if (!snapshot->disk_works)
        snprintf(why, size, "%s", snapshot->disk_reason);
    else
        return add_missing_shards(snapshot, why, size);
    return false;
}
