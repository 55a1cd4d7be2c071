/* denial.h - finds the job that named a key which an ACL denies, so that its batch can go on.
 *
 * Redis checks all keys of a script call before it runs the script, and does not say which key it
 * denies. Each key that a job of the refused batch named is therefore probed by a script that does
 * nothing. One more probe, the control, is for a key of the queue itself. If Redis denies that too,
 * the user lacks permissions in general, and the batch waits until an administrator acts. */
#pragma once

#include "queue/lease/outbox.h"

/* Called after Redis refused the outbox's call with NOPERM. Probes each key that a job of the batch
 * named. outbox_probed is called once, after denied keys have been removed from the batch; `some`
 * is true if there were any. Returns false if there is no such key or no probe could be sent. */
bool denial_probe(struct outbox *outbox, const char *error);
/* The job has failed with this error: notes it for the daemon. false: memory is short. */
bool denial_note(struct entry *entry, const struct error *error);
/* Leaves out a value: its output and the job have failed. false: memory is short. */
bool denial_drop_value(struct entry *entry, size_t index, const struct error *error);
