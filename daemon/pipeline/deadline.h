/*
 * deadline.h - ends jobs early, and detects that no job makes progress.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct pipeline;

void deadline_on_tick(uv_timer_t *timer);
/* See pipeline_healthy. */
bool deadline_healthy(const struct pipeline *pipeline);
