/*
 * notify.h - sends the daemon's state to systemd (sd_notify(3)).
 *
 * Call the functions only on the loop thread. If the environment has no NOTIFY_SOCKET, they send
 * nothing.
 *
 * A status or watchdog message never blocks; if the socket has no room, the message is dropped.
 * A ready, reloading or stopping message waits up to 0.2 s for room. If that time is too short, the
 * next status or watchdog call sends the message first.
 */
#pragma once

#include <stdint.h>

/* "READY=1" after the start and after each reload, or "STOPPING=1". */
void notify_state(const char *text);
void notify_reloading(void);
/* Sets the line that `systemctl status` shows. Does not send the same text twice in a row. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_watchdog(void);
/* Returns the time between calls of notify_watchdog in milliseconds: a third of WatchdogSec.
 * Returns 0 if the unit has no watchdog. */
uint64_t notify_watchdog_interval_ms(void);
