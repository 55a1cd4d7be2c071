/*
 * names - prints the names that results may have, to compare them with the manual pages:
 *
 *     code NAME [retried]
 */
#include <stdio.h>

#include "conf/status.h"

int main(void)
{
    for (int status = STATUS_OK + 1; status < STATUS_COUNT; status++)
        printf("code %s%s\n", status_name((enum status)status),
               status_retryable((enum status)status) ? " retried" : "");
    return 0;
}
