/* limit.h - makes the calls of a script smaller while Redis cannot send their replies.
 *
 * Redis closes a connection whose replies exceed client-output-buffer-limit, and proxies have such
 * limits, too. If connections break while the reply to a call is awaited, the next call names half
 * as many jobs. If even a reply with one job breaks it, the next one has half of the longest text.
 * A larger call is tried KEPT_MS after the last change. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many jobs the calls of a script may name. */
struct limit {
    uint32_t most;       /* 0: as many as usual */
    unsigned losses;     /* connections that broke in a row while a reply was awaited */
    uint64_t changed_ms; /* uv_now */
};

/* How many jobs the next call may name: at most `most`. */
uint32_t limit_count(const struct limit *limit, uint32_t most);
/* A call for so many jobs had no reply, on a connection that worked before. Returns true if the
 * next call will be smaller. */
bool limit_lost(struct limit *limit, uint32_t count, uint64_t now_ms);
void limit_accepted(struct limit *limit, uint64_t now_ms);
/* The largest text of a job that the next reply may contain, bytes. */
size_t limit_text_bytes(const struct limit *limit);
