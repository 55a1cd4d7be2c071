/*
 * fault.h - where a test may let the daemon die or stand still.
 *
 * The daemon that users get has none of it: fault_point is empty there. The tests' own daemon is
 * built with GPUIMGD_FAULT_HOOKS and does at a stage what $GPUIMGD_FAULT says
 * (tests/faults/hook.c). Called on the loop when a job enters a stage, and on the worker that
 * begins to carry the stage out.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_FAULT_H
#define GPUIMGD_DAEMON_PIPELINE_FAULT_H

/* key: "enter" or "run"; stage: its name in the stage table; id: of the job, or NULL. */
#ifdef GPUIMGD_FAULT_HOOKS
void fault_point(const char *key, const char *stage, const char *id);
#else
static inline void fault_point(const char *key, const char *stage, const char *id)
{
    (void)key;
    (void)stage;
    (void)id;
}
#endif

#endif
