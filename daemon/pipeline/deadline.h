/*
 * deadline.h - ends jobs early, and detects that no job makes progress.
 */
#pragma once

#include <uv.h>

void pipeline_on_tick(uv_timer_t *timer);
