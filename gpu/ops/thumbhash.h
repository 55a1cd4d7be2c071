/*
 * thumbhash.h - the pass of the operation thumbhash: copies a small image, from which the host
 * makes the hash.
 *
 * The copy is in the work space, without padding of rows. The host computes the hash in double when
 * the values of the result are made, so that it is the same with both engines.
 */
#pragma once

#include "gpu/plan/pass.h"

/* The longest side of the image that is hashed. */
#define THUMBHASH_SIDE 100
