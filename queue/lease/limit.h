/* limit.h - reduces the number of jobs per call of a script while Redis cannot send the replies.
 *
 * Redis closes a connection whose replies exceed client-output-buffer-limit. Proxies have similar
 * limits. If connections break in a row while the reply to a call is awaited, the next call names
 * half as many jobs. If even a reply with one job breaks the connection, the next call asks for
 * texts of half the size: a longer text of a job is replaced by its beginning. KEPT_MS after the
 * last change a larger call is tried. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero at the start. */
struct limit {
    uint32_t most;       /* jobs per call; 0: no limit */
    unsigned losses;     /* connections that broke in a row while a reply was awaited */
    uint64_t changed_ms; /* time of the last change of `most`, or of a loss; uv_now */
};

/* Returns the number of jobs that the next call may name: `most`, or less. */
uint32_t limit_count(const struct limit *limit, uint32_t most);
/* Call if a call for `count` jobs had no reply, although Redis had answered others on the same
 * connection. Returns true if the next call will be smaller. */
bool limit_lost(struct limit *limit, uint32_t count, uint64_t now_ms);
/* Call if Redis accepted a call. */
void limit_accepted(struct limit *limit, uint64_t now_ms);
/* The longest text of a job that the next call may ask for, bytes. */
size_t limit_text_bytes(const struct limit *limit);
