/* queue_costs.h - measures the CPU time of Redis for each call of the protocol. */
#pragma once

#include <stdbool.h>

#include "tests/fixtures/queue/fleet_sim.h"

/* Takes half a minute. The server has no persistence; connections are TCP. */
void queue_costs_measure(struct fleet_costs *costs);
