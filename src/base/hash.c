/* hash.c - xxHash3, inlined here only. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash.h"

uint64_t tpt_hash64(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }

tpt_hash128_t tpt_hash128(const void *data, size_t bytes) {
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (tpt_hash128_t){.lo = hash.low64, .hi = hash.high64};
}
