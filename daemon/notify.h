/*
 * notify.h - what systemd is told (sd_notify(3)); without NOTIFY_SOCKET nothing happens.
 *
 * Loop thread only, which no message holds up: what cannot be sent at once is dropped, and after a
 * status that was dropped the next one is sent although it be the same. The states (ready,
 * reloading, stopping) wait for room, 0.2 s at most; one that found none even so goes before the
 * next status or watchdog message.
 */
#ifndef GPUIMGD_DAEMON_NOTIFY_H
#define GPUIMGD_DAEMON_NOTIFY_H

#include <stdint.h>

void notify_ready(void);
void notify_reloading(void); /* notify_ready ends it */
void notify_stopping(void);
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_watchdog(void);
/* How often systemd wants to hear from us, in milliseconds: a third of WatchdogSec; 0 = never. */
uint64_t notify_watchdog_interval_ms(void);

#endif
