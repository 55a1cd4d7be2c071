/*
 * ready.h - ready tokens: symbols with their probabilities, as encode_adapt.cu passes them to
 * encode_code.cu. They replace the tokens in memory.
 */
#pragma once

#include "gpu/avif/device/device.h"

/* Bits 0 to 9 and 10 to 19: the probabilities that the symbol is higher than the one before it, and
 * than itself, times 512; 20 to 24: how many symbols are left, with this one; 25: it is the first
 * one. Literal bits: 0 to 15 the bits, 16 to 20 their number; and bit 31. */
#define READY_LEFT    20
#define READY_FIRST   (1u << 25)
#define READY_LITERAL (1u << 31)

SIMT uint32_t make_ready(uint32_t above, uint32_t below, int left, bool is_first)
{
    return above | below << 10 | (uint32_t)left << READY_LEFT | (is_first ? READY_FIRST : 0);
}
