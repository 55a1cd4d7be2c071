/*
 * environment.c - removes the variables of a service manager before main() of every test program.
 *
 * A container or a CI runner may itself be a service. Its NOTIFY_SOCKET, watchdog and journal
 * belong to that service: the code under test must not find them. process.h gives each daemon
 * that a test starts its own.
 */
#include <stdlib.h>

__attribute__((constructor)) static void remove_service_variables(void)
{
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                        "JOURNAL_STREAM"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}
