/* results.c - gives the metadata that a probe found to the daemon (confined.h). */
#include <string.h>

#include "codecs/confined/confined.h"

struct confined_results confined_results_of(const struct codec_call *call, uint8_t *region)
{
    return (struct confined_results){region + call->results_at, CODEC_METADATA_BYTES_MAX};
}

bool confined_give(struct confined_results *results, const void *bytes, size_t count,
                   uint64_t *to_bytes)
{
    if (count == 0 || count > results->left)
        return count == 0;
    *to_bytes = count;
    results->to = mempcpy(results->to, bytes, count);
    results->left -= count;
    return true;
}
