/* server.h - checks the version and the configuration of Redis after the first connect. */
#pragma once

#include "queue/lease/queue.h"

void server_check(struct queue *queue); /* asks INFO; logs what does not suit */
