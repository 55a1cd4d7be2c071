/*
 * fault.h - points where a test can kill or stop the daemon.
 *
 * In the installed daemon fault_point is empty. The tests build a daemon with GPUIMGD_FAULT_HOOKS,
 * which executes $GPUIMGD_FAULT (tests/faults/hook.c). fault_point is called on the loop when a job
 * enters a stage, and on the worker when it starts to run the stage.
 */
#ifndef GPUIMGD_DAEMON_PIPELINE_FAULT_H
#define GPUIMGD_DAEMON_PIPELINE_FAULT_H

/* key: "enter" or "run". stage: the name in the stage table. id: the job's, or NULL. */
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
