/* alloc.h - malloc with fault injection: in test builds the Nth allocation can be made to fail. All of src/ uses these. */
#ifndef TPT_BASE_ALLOC_H
#define TPT_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *tpt_malloc(size_t bytes);
void *tpt_calloc(size_t count, size_t size);
void *tpt_realloc(void *ptr, size_t bytes);
void tpt_free(void *ptr);
/* The C heap keeps what is freed, and takes blocks up to 32 MB from there. Without that each buffer of a few hundred kilobytes
 * that a processor's plugin takes from malloc is new pages from the system, which costs as much as filling it twice. More than
 * `bytes` beyond what was in use lately are given back by tpt_heap_used. What the user has set by the C library's own variables
 * stays. No effect elsewhere than with glibc. */
void tpt_heap_keep(long bytes);
/* From time to time: `high` bytes were in use at once since the last call. What a second thread says meanwhile is lost. */
void tpt_heap_used(int64_t high);
void tpt_heap_trim(void); /* gives back what is kept */
/* Fails the `nth` allocation from now (1 = the next); 0 turns it off. Returns the number of allocations since the last call. */
size_t tpt_fault_alloc_arm(size_t nth);

#endif
