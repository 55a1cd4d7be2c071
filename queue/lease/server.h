/* server.h - checks the version and the configuration of Redis after the first connect. */
#pragma once

#include "queue/lease/queue.h"

/* Sends INFO. Logs an error or a warning for each property of the server that does not suit. */
void server_check(struct queue *queue);
