/* denial.h - finds the keys of jobs that an ACL of Redis denies, so that only these jobs fail.
 *
 * Redis checks all keys of a script call before it runs the script. If it denies one, it refuses
 * the whole batch and does not name the key. The daemon then sends one probe, a script that does
 * nothing, for each key that a job of the batch named. One more probe, the control, has a key of
 * the queue itself. If Redis denies the control, the daemon's user lacks permissions in general,
 * and the batch waits until an administrator acts. */
#pragma once

#include "queue/lease/outbox.h"

/* Call after Redis refused the call of an outbox with NOPERM. Sends the probes. After the last
 * reply it removes the denied keys from the batch and calls outbox_probed. Returns false if the
 * jobs named no keys, or if no probe could be sent. */
bool denial_probe(struct outbox *outbox, const char *error);
/* Sets lease.denied, with which the daemon learns that the job has failed. Returns false if memory
 * is short. */
bool denial_note(struct entry *entry, const struct error *error);
/* Removes the output values[index] from the end, and writes the error into the result: the output
 * and the job have failed. Returns false if memory is short. */
bool denial_drop_value(struct entry *entry, size_t index, const struct error *error);
/* Sets the error of an output whose key is denied. reason: the error reply. */
void denial_describe(struct error *error, const char *key, const char *reason);
