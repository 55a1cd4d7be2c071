/* instance.h - the unique name of a daemon process, INST.
 *
 * INST = host:boot-id:pid-namespace:pid:start-time. A pid is reused, but not with the same start
 * time (clock ticks since boot). The characters are [A-Za-z0-9._:-], so that file names, Redis keys
 * and Lua patterns can contain the name. */
#pragma once

#include <stdbool.h>

#define INSTANCE_BYTES_MAX 200

/* Writes this process's INST, and "host:pid" for results. Returns false if /proc is unreadable. */
bool instance_self(char inst[INSTANCE_BYTES_MAX], char daemon[INSTANCE_BYTES_MAX]);

/* Writes "host:pid" of an INST. Text that is not an INST is copied. */
void instance_daemon(const char *inst, char daemon[INSTANCE_BYTES_MAX]);

/* Returns true if the text has the form of an INST. */
bool instance_is_name(const char *text);

/* The state of another daemon as this process can see it. */
enum instance_life {
    INSTANCE_ALIVE,
    INSTANCE_DEAD,
    INSTANCE_ELSEWHERE /* another host, boot or pid namespace: not visible from here */
};
enum instance_life instance_life(const char *inst, const char *self);
