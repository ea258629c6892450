/* hash.h - xxHash3, 64 and 128 bits. */
#ifndef TPT_BASE_HASH_H
#define TPT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct tpt_hash128 {
    uint64_t lo, hi;
} tpt_hash128_t;

uint64_t tpt_hash64(const void *data, size_t bytes);
tpt_hash128_t tpt_hash128(const void *data, size_t bytes);

#endif
