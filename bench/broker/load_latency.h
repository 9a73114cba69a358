/* Latencies, in buckets of 1/64 of a power of two. */
#ifndef LOAD_LATENCY_H
#define LOAD_LATENCY_H

#include <stdint.h>

static uint64_t histogram[64 * 64], latencies, latency_max;

static void note_latency(uint64_t ns) {
    int power = ns < 64 ? 5 : 63 - __builtin_clzll(ns);
    histogram[(power - 5) * 64 + (ns < 64 ? ns : (ns >> (power - 6)) & 63)]++;
    latencies++;
    if (ns > latency_max) latency_max = ns;
}

static double percentile_us(double share) {
    uint64_t rank = (uint64_t)(share * (double)latencies), seen = 0;
    for (int i = 0; i < 64 * 64; i++) {
        seen += histogram[i];
        if (seen > rank) {
            int power = i / 64 + 5, step = i % 64;
            return power == 5 ? step / 1e3 : (double)((64ull + (unsigned)step) << (power - 6)) / 1e3;
        }
    }
    return (double)latency_max / 1e3;
}

#endif
