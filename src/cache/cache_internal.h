/* cache_internal.h - what the files of src/cache share. */
#ifndef TPT_CACHE_INTERNAL_H
#define TPT_CACHE_INTERNAL_H

#include <sys/types.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/thread.h"
#include "cache/cache.h"

/* Raised when the layout of entries or of keys changes: the directory's name has it, old entries are not read. */
#define TPT_CACHE_FORMAT 1

/* ---- io.c: system calls that test builds can make fail ------------------------------------------------------------------ */
int tpt_io_open(const char *path, int flags, mode_t mode);
ssize_t tpt_io_read(int fd, void *data, size_t bytes);
ssize_t tpt_io_write(int fd, const void *data, size_t bytes);
int tpt_io_sync(int fd);
int tpt_io_rename(const char *from, const char *to);
int tpt_io_close(int fd);
/* Fails the `nth` call from now with `error` (1 = the next); 0 turns it off. Returns the calls since the last arming. */
size_t tpt_fault_io_arm(size_t nth, int error);

/* ---- entry.c: the bytes of one entry -------------------------------------------------------------------------------------- */
typedef struct tpt_entry {
    tpt_hash128_t hash;
    uint64_t created, compile_ns; /* seconds since 1970; how long the compiler took */
    const char *context, *text;
    size_t context_bytes, text_bytes;
    const void *blob;
    size_t blob_bytes;
    char build[17]; /* which lowering code wrote it: for people, not part of the key */
} tpt_entry_t;
/* One malloc'ed block. */
TPT_MUST_USE tpt_status_t *tpt_entry_write(const tpt_entry_t *entry, void **out_data, size_t *out_bytes);
/* Checks everything that can be checked; the entry points into `data`. TPT_DATA_LOSS says what is wrong. */
TPT_MUST_USE tpt_status_t *tpt_entry_read(const void *data, size_t bytes, tpt_entry_t *out_entry);
bool tpt_entry_is(const tpt_entry_t *entry, const tpt_cache_key_t *key);

/* ---- disk.c: a directory of entries --------------------------------------------------------------------------------------- */
#define TPT_PATH_MAX 4096
/* Settles the directory from the environment; false: there is none. */
bool tpt_disk_open(void);
void tpt_disk_close(void);
const char *tpt_disk_root(void); /* with the format's own folder; "" when closed */
bool tpt_disk_path(tpt_hash128_t hash, char out[TPT_PATH_MAX]);
/* The whole file of a key; NULL status and NULL data: there is none. */
TPT_MUST_USE tpt_status_t *tpt_disk_read(tpt_hash128_t hash, void **out_data, size_t *out_bytes);
TPT_MUST_USE tpt_status_t *tpt_disk_write(tpt_hash128_t hash, const void *data, size_t bytes);
void tpt_disk_remove(tpt_hash128_t hash);
/* Any small file, whole or not at all; false on failure. `name` is relative to the root. */
bool tpt_disk_put_small(const char *name, const char *text);
bool tpt_disk_get_small(const char *name, char *out, size_t room);

/* ---- lock.c: one compiler a key ------------------------------------------------------------------------------------------- */
/* A descriptor that holds the key's lock; -1 when there is none to be had within the time limit (0: at once). */
int tpt_lock_take(const char *root, uint64_t place, int64_t limit_ns, bool *out_waited);
void tpt_lock_release(int fd);
#define TPT_LOCK_EVICTION ((uint64_t)1 << 62)

/* ---- evict.c -------------------------------------------------------------------------------------------------------------- */
/* Something was written: now and then looks whether the directory has become too large. */
void tpt_evict_after(size_t bytes);
/* Removes what writers that were killed have left behind. */
void tpt_evict_leftovers(void);

/* ---- writer.c ------------------------------------------------------------------------------------------------------------- */
/* Takes over the lock; retains the program. */
void tpt_writer_add(const tpt_cache_key_t *key, void *program, int64_t compile_ns, const tpt_cache_find_t *find, const tpt_cache_hooks_t *hooks);
void tpt_writer_drain(int64_t limit_ns);
void tpt_writer_forgive(void); /* after a failed write: tries again at once */

/* ---- memory.c ------------------------------------------------------------------------------------------------------------- */
void *tpt_memory_get(const tpt_cache_key_t *key, const tpt_cache_hooks_t *hooks); /* retained */
void tpt_memory_put(const tpt_cache_key_t *key, void *program, const tpt_cache_hooks_t *hooks);
void tpt_memory_clear(const tpt_cache_hooks_t *hooks);

/* ---- place.c -------------------------------------------------------------------------------------------------------------- */
/* The words of a place; the same on every machine where the same code would come out. */
void tpt_place_text(const tpt_cache_place_t *place, tpt_str_t *out);

/* ---- remote.c ------------------------------------------------------------------------------------------------------------- */
typedef struct tpt_remote tpt_remote_t; /* one question */
typedef enum tpt_remote_state { TPT_REMOTE_ASKED = 0, TPT_REMOTE_CLAIMED, TPT_REMOTE_HIT, TPT_REMOTE_MISS } tpt_remote_state_t;
bool tpt_remote_on(void);
tpt_remote_t *tpt_remote_ask(tpt_hash128_t hash); /* NULL: nobody to ask */
/* Waits for an answer; longer when another host is at work on the key. */
tpt_remote_state_t tpt_remote_wait(tpt_remote_t *r, int64_t limit_ns, int64_t claimed_ns);
void tpt_remote_forget(tpt_remote_t *r);
void tpt_remote_put(tpt_hash128_t hash, bool replace);
void tpt_remote_close(void);

/* ---- facts.c */
void tpt_facts_close(void);


#endif
