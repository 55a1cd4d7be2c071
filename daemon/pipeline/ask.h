/*
 * ask.h - the stage ASK: asks Redis whether the job may start. lease_events.h gets the answer.
 */
#pragma once

struct job_run;

void ask_enter(struct job_run *run);
