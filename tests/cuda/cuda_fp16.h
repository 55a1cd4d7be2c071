/* cuda_fp16.h - pairs of halves for a host C++ compiler, without infinities and NaNs. */
#pragma once

#include <math.h>
#include <stdint.h>

struct __half2 {
    uint16_t low, high;
};

/* Exact: a half has 11 bits and exponents from -24. */
static inline float host_half(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float size = exponent == 0 ? ldexpf((float)fraction, -24)
                               : ldexpf((float)(fraction + 1024), exponent - 25);
    return half & 0x8000 ? -size : size;
}

/* Rounds to the nearest half, ties to even. */
static inline uint16_t host_half_of(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent = 0;
    float size = fabsf(value);
    (void)frexpf(size, &exponent);
    exponent = exponent < -13 ? -13 : exponent; /* subnormal below 2^-14 */
    int units = (int)nearbyintf(ldexpf(size, 11 - exponent));
    if (units < 1024) /* subnormal */
        return (uint16_t)(sign | units);
    return (uint16_t)(sign | (((exponent + 14) << 10) + (units - 1024))); /* 2048 carries over */
}

#define HOST_HALVES(name, expression)                                                              \
    HOST_CALL __half2 name(__half2 first, __half2 second)                                          \
    {                                                                                              \
        __half2 result;                                                                            \
        float a = host_half(first.low), b = host_half(second.low);                                 \
        result.low = host_half_of(expression);                                                     \
        a = host_half(first.high), b = host_half(second.high);                                     \
        result.high = host_half_of(expression);                                                    \
        return result;                                                                             \
    }
HOST_HALVES(__hadd2, a + b)
HOST_HALVES(__hsub2, a - b)
#undef HOST_HALVES

/* Halves are ordered as their magnitudes, with the sign. */
static inline int host_half_order(uint16_t half)
{
    return half & 0x8000 ? -(half & 0x7FFF) : half;
}
static inline uint16_t host_half_min(uint16_t a, uint16_t b)
{
    return host_half_order(a) < host_half_order(b) ? a : b;
}
HOST_CALL __half2 __hmin2(__half2 a, __half2 b)
{
    return {host_half_min(a.low, b.low), host_half_min(a.high, b.high)};
}
HOST_CALL __half2 __hmax2(__half2 a, __half2 b)
{
    bool low = host_half_min(a.low, b.low) == a.low, high = host_half_min(a.high, b.high) == a.high;
    return {low ? b.low : a.low, high ? b.high : a.high};
}

/* A product of halves is exact in float, and its sum with a half is exact in double. */
static inline uint16_t host_half_fma(uint16_t a, uint16_t b, uint16_t c)
{
    return host_half_of((float)((double)host_half(a) * host_half(b) + host_half(c)));
}
HOST_CALL __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
    __half2 result = {host_half_fma(a.low, b.low, c.low), host_half_fma(a.high, b.high, c.high)};
    return result;
}
HOST_CALL __half2 __habs2(__half2 a)
{
    __half2 result = {(uint16_t)(a.low & 0x7FFF), (uint16_t)(a.high & 0x7FFF)};
    return result;
}
