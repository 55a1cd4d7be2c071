/*
 * ask.h - the stage ASK: asks Redis whether the job may start. lease_events.h gets the answer.
 */
#pragma once

struct job_run;

void job_run_enter_ask(struct job_run *run);
