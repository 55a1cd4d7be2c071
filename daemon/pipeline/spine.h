/*
 * spine.h - chooses the next stage of each job, on the loop, on a worker and after a device.
 */
#pragma once

#include "daemon/pipeline/stage.h"

extern const struct stage_row spine_table[STAGE_COUNT];
/* worker_task.run and worker_task.done of every job. */
void spine_run(struct worker_task *task, struct worker_tools *tools);
void spine_done(struct worker_task *task);
