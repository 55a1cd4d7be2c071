/*
 * ask.h - the stage ASK: asks Redis whether the job may start. lease_events.h gets the answer.
 */
#pragma once

#include "daemon/pipeline/job_run.h"

enum stage_result ask_enter(struct job_run *run);
