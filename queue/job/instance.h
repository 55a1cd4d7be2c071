/*
 * instance.h - who a daemon is: INST = host:boot-id:pid-namespace:pid:start-time.
 *
 * The name is unique for ever: a pid comes back, a start time in clock ticks since boot with it
 * does not. Only [A-Za-z0-9._:-], so that it may stand in file names, keys and Lua patterns.
 */
#ifndef GPUIMGD_QUEUE_JOB_INSTANCE_H
#define GPUIMGD_QUEUE_JOB_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>

#define INSTANCE_BYTES_MAX 200

/* Writes this process's INST and "host:pid" (for results). false: /proc is not readable. */
bool instance_self(char inst[INSTANCE_BYTES_MAX], char daemon[INSTANCE_BYTES_MAX]);

/* Whether the text has an INST's form. */
bool instance_is_name(const char *text);

/* What is known of another INST from here. */
enum instance_life {
    INSTANCE_ALIVE,
    INSTANCE_DEAD,
    INSTANCE_ELSEWHERE /* another host, boot or pid namespace: cannot tell */
};
enum instance_life instance_life(const char *inst, const char *self);

#endif
