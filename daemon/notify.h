/*
 * notify.h - tells systemd the state of the daemon (sd_notify(3)).
 *
 * Without the environment variable NOTIFY_SOCKET, the functions send nothing. Call them only on the
 * loop thread.
 *
 * A status or watchdog message never blocks: if the socket has no room, the message is dropped. A
 * ready, reloading or stopping message must not be lost: it waits up to 0.2 s for room. If there is
 * none by then, the next status or watchdog call sends that message first.
 */
#pragma once

#include <stdint.h>

/* Sends "READY=1", after the start and after each reload, or "STOPPING=1". */
void notify_state(const char *text);
/* A reload begins. notify_state("READY=1") ends it. */
void notify_reloading(void);
/* Sets the line that `systemctl status` shows. Does not send the same text twice in a row. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Tells systemd's watchdog that the daemon works; without it, systemd would restart the daemon. */
void notify_watchdog(void);
/* The time between two calls of notify_watchdog, in milliseconds: a third of the unit's
 * WatchdogSec=. 0: the unit has no watchdog. */
uint64_t notify_watchdog_interval_ms(void);
