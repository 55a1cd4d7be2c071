/*
 * notify.h - sends the daemon's state to systemd (sd_notify(3)).
 *
 * Without NOTIFY_SOCKET in the environment the functions do nothing. Loop thread only.
 *
 * A status or watchdog message never blocks: it is dropped if the socket has no room. ready,
 * reloading and stopping wait up to 0.2 s for room. If there is still none, the message is sent
 * before the next status or watchdog message.
 */
#ifndef GPUIMGD_DAEMON_NOTIFY_H
#define GPUIMGD_DAEMON_NOTIFY_H

#include <stdint.h>

void notify_ready(void); /* after the start, and after a reload */
void notify_reloading(void);
void notify_stopping(void);
/* Sets the status line of `systemctl status`. Sends nothing if the text is the last one sent. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_watchdog(void);
/* The interval for notify_watchdog in milliseconds: a third of WatchdogSec; 0: no watchdog. */
uint64_t notify_watchdog_interval_ms(void);

#endif
