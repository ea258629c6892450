/* vec.h - growable arrays: `tpt_vec_reserve(&items, &capacity, need, sizeof *items, max)`. */
#ifndef TPT_BASE_VEC_H
#define TPT_BASE_VEC_H

#include "status.h"

/* Makes room for `need` elements of `size` bytes in *items (a pointer to a malloc'ed array or NULL), doubling; the new part
 * is zeroed. TPT_RESOURCE_EXHAUSTED above `max` elements or without memory; nothing changes then. */
TPT_MUST_USE tpt_status_t *tpt_vec_reserve(void *items, size_t *capacity, size_t need, size_t size, size_t max);

#endif
