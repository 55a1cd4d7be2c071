/*
 * call_filter.h - system calls that this process, and what it starts, shall not make (seccomp).
 *
 * Each function adds a filter for good: calls that it speaks of fail with the errno `number`, all
 * others are as before. Needs root or PR_SET_NO_NEW_PRIVS. false: errno says why not. One thread
 * only.
 */
#ifndef GPUIMGD_TESTS_TOOLS_CALL_FILTER_H
#define GPUIMGD_TESTS_TOOLS_CALL_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool call_refuse(long call, int number);
/* Where argument `argument` (from 0) has all of these bits, any of them, or is none of these
 * values; its low half is looked at: flags and modes have no more. */
bool call_refuse_all_bits(long call, int argument, uint32_t bits, int number);
bool call_refuse_any_bit(long call, int argument, uint32_t bits, int number);
bool call_refuse_others(long call, int argument, const uint32_t *values, size_t count, int number);
/* Every call but these. */
bool call_allow(const unsigned *calls, size_t count, int number);

#endif
