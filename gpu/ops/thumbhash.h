/*
 * thumbhash.h - the pass of a ThumbHash: copies a small image, which the host hashes.
 *
 * The work space holds the image without padding. The hash is computed in double when the result
 * is written, from at most 100 x 100 pixels, so both engines give the same hash.
 */
#pragma once

#include "gpu/plan/pass.h"

/* The longest side of the image that is hashed. */
#define THUMBHASH_SIDE 100
