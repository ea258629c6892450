/* alloc.c - libc's allocator; test builds (TPT_FAULT_INJECTION) can make the Nth allocation fail. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/clock.h"

#ifdef TPT_FAULT_INJECTION
#include <stdbool.h>

static atomic_size_t fault_count; /* allocations since the last arm */
static atomic_size_t fault_nth;   /* the one that fails; 0: none */

static bool fault_hit(void) {
    size_t n = atomic_fetch_add(&fault_count, 1) + 1;
    return n == atomic_load(&fault_nth);
}

size_t tpt_fault_alloc_arm(size_t nth) {
    atomic_store(&fault_nth, 0);
    size_t seen = atomic_exchange(&fault_count, 0);
    atomic_store(&fault_nth, nth);
    return seen;
}
#else
#define fault_hit() 0

size_t tpt_fault_alloc_arm(size_t nth) {
    (void)nth;
    return 0;
}
#endif

void *tpt_malloc(size_t bytes) { return fault_hit() ? NULL : malloc(bytes != 0 ? bytes : 1); }

void *tpt_calloc(size_t count, size_t size) {
    return fault_hit() ? NULL : calloc(count != 0 ? count : 1, size != 0 ? size : 1);
}

void *tpt_realloc(void *ptr, size_t bytes) { return fault_hit() ? NULL : realloc(ptr, bytes != 0 ? bytes : 1); }

void tpt_free(void *ptr) { free(ptr); }

#ifdef __GLIBC__
#define HEAP_LARGEST (32 << 20) /* glibc takes no higher threshold */
#define HEAP_SIZE (64 << 20)    /* of the pieces that all threads' heaps but the first consist of */
#define LATELY 1000000000       /* ns */

static long kept_most; /* 0: the heap is the user's */
static atomic_flag busy = ATOMIC_FLAG_INIT; /* guards the following */
static int64_t kept, lately, since; /* bytes in use at most since the last trim, and since a while ago */

void tpt_heap_keep(long bytes) {
    static const char *const own[] = {"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (getenv(own[i])) return;
    (void)mallopt(M_MMAP_THRESHOLD, HEAP_LARGEST);
    (void)mallopt(M_TRIM_THRESHOLD, (int)bytes);
    (void)mallopt(M_TOP_PAD, HEAP_SIZE); /* a piece that has become free goes back to the system if more than that were left */
    kept_most = bytes;
}

void tpt_heap_used(int64_t high) {
    if (kept_most == 0 || atomic_flag_test_and_set(&busy)) return;
    if (high > lately) lately = high;
    const int64_t now = tpt_now_ns();
    if (now - since >= LATELY) {
        if (lately > kept) kept = lately;
        if (kept - lately > kept_most) {
            tpt_heap_trim();
            kept = lately;
        }
        lately = 0;
        since = now;
    }
    atomic_flag_clear(&busy);
}

void tpt_heap_trim(void) { (void)malloc_trim(0); }
#else
void tpt_heap_keep(long bytes) { (void)bytes; }

void tpt_heap_used(int64_t high) { (void)high; }

void tpt_heap_trim(void) {}
#endif
