/* cache.h - the door of src/cache: compiled programs are kept in this process, in a directory that all processes of the host
 * share, and at a remote place. What a program is, the caller knows: here it is a pointer and its serialized bytes.
 *
 * Nothing here fails: whatever goes wrong with a file or a network is a miss, and is told once (base/notice.h). All functions
 * are thread-safe. */
#ifndef TPT_CACHE_CACHE_H
#define TPT_CACHE_CACHE_H

#include "base/hash.h"
#include "base/status.h"

/* What compiled code depends on besides its program and the compiler's options. */
typedef struct tpt_cache_place {
    const char *plugin_path, *platform, *version, *devices;
    int api_major, api_minor;
    bool host_code; /* runs on this machine's own processor, so that its features count */
} tpt_cache_place_t;

/* How programs are handled; `serialize`'s data is freed with tpt_free. */
typedef struct tpt_cache_hooks {
    void (*retain)(void *program);
    void (*release)(void *program);
    tpt_status_t *(*serialize)(void *program, void **out_data, size_t *out_bytes);
} tpt_cache_hooks_t;

void tpt_cache_open(const tpt_cache_place_t *place, const tpt_cache_hooks_t *hooks);
/* Waits until all that was kept is written. */
void tpt_cache_write_all(void);
/* Finishes what is being written, forgets the memory level. */
void tpt_cache_close(void);
/* Lets go of the programs that level 1 keeps; the other levels stay. */
void tpt_cache_forget(void);

/* The full key: an entry is used only if all of it is equal. `text` is borrowed. */
typedef struct tpt_cache_key {
    tpt_hash128_t hash;
    char *context; /* place and options, in words; NULL: no memory, or the cache is closed; nothing is found then */
    size_t context_bytes;
    const char *text;
    size_t text_bytes;
} tpt_cache_key_t;
void tpt_cache_key_make(const void *options, size_t options_bytes, const char *text, size_t text_bytes, tpt_cache_key_t *out_key);
void tpt_cache_key_free(tpt_cache_key_t *key);

typedef enum tpt_cache_level { TPT_CACHE_MISS = 0, TPT_CACHE_MEMORY, TPT_CACHE_DISK, TPT_CACHE_REMOTE } tpt_cache_level_t;
typedef struct tpt_cache_find {
    tpt_cache_level_t level;
    void *program;    /* MEMORY: the caller's to release */
    const void *data; /* DISK, REMOTE: the serialized program, valid until tpt_cache_done */
    size_t bytes;
    void *file; /* internal: what `data` lies in */
    void *remote; /* internal: a question to the remote place that is still open; NULL: none */
    bool replace; /* internal: the remote place's entry is bad */
    int lock;   /* internal: this process compiles the key; -1: no lock is held */
} tpt_cache_find_t;
/* Looks through the levels. A miss holds the key's lock, so that other processes wait for what this one compiles. */
void tpt_cache_find(const tpt_cache_key_t *key, tpt_cache_find_t *out_find);
/* Has the remote place answered since? Waits at most so long. True: `find` holds an entry now. While `find->remote` is not
 * NULL, an answer may still come: compile meanwhile. */
bool tpt_cache_remote(const tpt_cache_key_t *key, tpt_cache_find_t *find, int64_t wait_ns);
/* The entry that was found cannot be used: it is reported and removed; `find` becomes a miss. */
void tpt_cache_reject(const tpt_cache_key_t *key, tpt_cache_find_t *find, const tpt_status_t *why);
/* A program for the key: kept in memory and, if it was compiled, written in the background, which ends the lock. */
void tpt_cache_keep(const tpt_cache_key_t *key, tpt_cache_find_t *find, void *program, int64_t compile_ns);
/* Ends a search in any state. */
void tpt_cache_done(tpt_cache_find_t *find);

/* ---- small facts, kept across processes beside the programs ------------------------------------------------------------- */
/* `name`: whose facts they are (versions of all that they depend on); one name a process. */
bool tpt_cache_fact_get(const char *name, const uint64_t *key, uint32_t key_words, void *out, size_t room, size_t *out_bytes);
void tpt_cache_fact_put(const char *name, const uint64_t *key, uint32_t key_words, const void *data, size_t bytes);

#endif
