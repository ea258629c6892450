/* vec.c - growable arrays. */
#include "base/vec.h"

#include <string.h>

#include "base/alloc.h"

tpt_status_t *tpt_vec_reserve(void *items, size_t *capacity, size_t need, size_t size, size_t max) {
    if (need <= *capacity) return NULL;
    if (need > max) {
        return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "array of %zu elements is over its maximum of %zu", need, max);
    }
    size_t grown = *capacity < 8 ? 8 : *capacity * 2;
    if (grown < need) grown = need;
    if (grown > max) grown = max;
    if (size != 0 && grown > SIZE_MAX / size) return tpt_status_oom(SIZE_MAX);
    void *old;
    memcpy(&old, items, sizeof old); /* `items` points to a pointer of any type */
    unsigned char *data = tpt_realloc(old, grown * size);
    if (data == NULL) return tpt_status_oom(grown * size);
    memset(data + *capacity * size, 0, (grown - *capacity) * size);
    memcpy(items, &data, sizeof data);
    *capacity = grown;
    return NULL;
}
