#include "daemon/notify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <systemd/sd-daemon.h>

#include "conf/text.h"
#include "daemon/clock.h"

void notify_ready(void)
{
    sd_notify(0, "READY=1");
}

void notify_reloading(void)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
}

void notify_stopping(void)
{
    sd_notify(0, "STOPPING=1");
}

void notify_status(const char *format, ...)
{
    static char last[512];
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_make_printable(text); /* a newline would begin another assignment */
    if (strcmp(text, last) == 0)
        return; /* an idle daemon shall not wake the service manager */
    strcpy(last, text);
    sd_notifyf(0, "STATUS=%s", text);
}

void notify_watchdog(void)
{
    sd_notify(0, "WATCHDOG=1");
}

uint64_t notify_watchdog_interval_ms(void)
{
    uint64_t period_us = 0;
    if (sd_watchdog_enabled(0, &period_us) <= 0)
        return 0;
    uint64_t interval = period_us / 1000 / 3;
    return interval > 0 ? interval : 1;
}
