/*
 * admit.h - the stage ADMIT on the loop: admits the jobs of the line in its order.
 */
#pragma once

struct pipeline;

/* Admits jobs while there is memory. */
void admit_pump(struct pipeline *pipeline);
