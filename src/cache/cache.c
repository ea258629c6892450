/* cache.c - the levels in their order: memory, directory, and the lock under which one process compiles. */
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/notice.h"
#include "cache/cache_internal.h"

static tpt_cache_hooks_t the_hooks;
static char *place; /* NULL: closed. Written while the runtime opens and closes only */

void tpt_cache_open(const tpt_cache_place_t *where, const tpt_cache_hooks_t *hooks) {
    tpt_str_t text;
    tpt_cache_close();
    the_hooks = *hooks;
    if (tpt_disk_open()) tpt_evict_leftovers();
    tpt_str_init(&text, 1 << 20);
    tpt_place_text(where, &text);
    place = tpt_str_take(&text);
}

void tpt_cache_close(void) {
    if (place == NULL) return;
    tpt_cache_write_all();
    tpt_memory_clear(&the_hooks);
    tpt_remote_close();
    tpt_facts_close();
    tpt_disk_close();
    tpt_free(place);
    place = NULL;
}

void tpt_cache_forget(void) { tpt_memory_clear(&the_hooks); }

/* ---- keys ----------------------------------------------------------------------------------------------------------- */

void tpt_cache_key_make(const void *options, size_t options_bytes, const char *text, size_t text_bytes, tpt_cache_key_t *out_key) {
    *out_key = (tpt_cache_key_t){.text = text, .text_bytes = text_bytes};
    if (place == NULL) return;
    tpt_str_t context;
    tpt_str_init(&context, 1 << 21);
    tpt_str_add(&context, place);
    tpt_str_add(&context, "options ");
    for (size_t i = 0; i < options_bytes; i++) tpt_str_addf(&context, "%02x", ((const unsigned char *)options)[i]);
    tpt_str_add(&context, "\n");
    size_t bytes = context.size;
    out_key->context = tpt_str_take(&context);
    if (out_key->context == NULL) return;
    out_key->context_bytes = bytes;
    const tpt_hash128_t both[2] = {tpt_hash128(out_key->context, bytes), tpt_hash128(text, text_bytes)};
    out_key->hash = tpt_hash128(both, sizeof both);
}

void tpt_cache_key_free(tpt_cache_key_t *key) {
    tpt_free(key->context);
    key->context = NULL;
}

/* ---- finding -------------------------------------------------------------------------------------------------------- */

static void bad_entry(tpt_hash128_t hash, const char *why) {
    char path[TPT_PATH_MAX] = "";
    (void)tpt_disk_path(hash, path);
    tpt_counter_add(TPT_COUNTER_cache_bad_entries, 1);
    tpt_notice(TPT_NOTICE_CACHE_ENTRY, "an entry of the compile cache is ignored and replaced: %s: %s", path, why);
}

static bool in_memory(const tpt_cache_key_t *key, tpt_cache_find_t *find) {
    find->program = tpt_memory_get(key, &the_hooks);
    if (find->program == NULL) return false;
    find->level = TPT_CACHE_MEMORY;
    tpt_counter_add(TPT_COUNTER_cache_hits_memory, 1);
    return true;
}

static bool on_disk(const tpt_cache_key_t *key, tpt_cache_find_t *find, tpt_cache_level_t level) {
    void *data = NULL;
    size_t bytes = 0;
    tpt_entry_t entry;
    tpt_status_t *status = tpt_disk_read(key->hash, &data, &bytes);
    if (status == NULL && data == NULL) return false;
    if (status == NULL) status = tpt_entry_read(data, bytes, &entry);
    if (status == NULL && !tpt_entry_is(&entry, key)) status = tpt_status_make(TPT_DATA_LOSS, "it belongs to another program");
    if (status != NULL) {
        bad_entry(key->hash, tpt_status_message(status));
        if (tpt_status_code(status) == TPT_DATA_LOSS) tpt_disk_remove(key->hash);
        tpt_status_free(status);
        tpt_free(data);
        return false;
    }
    find->level = level;
    find->file = data;
    find->data = entry.blob;
    find->bytes = entry.blob_bytes;
    return true;
}

void tpt_cache_find(const tpt_cache_key_t *key, tpt_cache_find_t *out_find) {
    *out_find = (tpt_cache_find_t){.lock = -1};
    if (key->context == NULL || in_memory(key, out_find) || tpt_disk_root()[0] == '\0' || on_disk(key, out_find, TPT_CACHE_DISK)) return;
    int64_t limit = tpt_env_int(TPT_ENV_CACHE_WAIT, 0, 86400) * 1000000000;
    bool waited;
    out_find->lock = tpt_lock_take(tpt_disk_root(), key->hash.lo >> 2, limit, &waited);
    if (waited) {
        tpt_counter_add(TPT_COUNTER_cache_waits, 1);
        if (out_find->lock < 0)
            tpt_notice(TPT_NOTICE_CACHE_LOCK, "another process compiles a program for more than %lld s: it is compiled here too", (long long)(limit / 1000000000));
    }
    /* Somebody may have finished between the first look and the lock. */
    if (in_memory(key, out_find) || on_disk(key, out_find, TPT_CACHE_DISK)) {
        tpt_lock_release(out_find->lock);
        out_find->lock = -1;
        return;
    }
    out_find->remote = tpt_remote_ask(key->hash);
    if (out_find->remote != NULL) (void)tpt_cache_remote(key, out_find, tpt_env_int(TPT_ENV_CACHE_REMOTE_WAIT, 0, 3600000) * 1000000);
}

bool tpt_cache_remote(const tpt_cache_key_t *key, tpt_cache_find_t *find, int64_t wait_ns) {
    if (find->remote == NULL) return false;
    tpt_remote_state_t state = tpt_remote_wait(find->remote, wait_ns, 20 * wait_ns);
    if (state == TPT_REMOTE_ASKED || state == TPT_REMOTE_CLAIMED) return false;
    tpt_remote_forget(find->remote);
    find->remote = NULL;
    if (state != TPT_REMOTE_HIT) return false;
    int64_t bad = tpt_counter_get(TPT_COUNTER_cache_bad_entries);
    if (on_disk(key, find, TPT_CACHE_REMOTE)) return true;
    find->replace = tpt_counter_get(TPT_COUNTER_cache_bad_entries) != bad; /* what the remote place has is no good */
    return false;
}

static void drop_file(tpt_cache_find_t *find) {
    tpt_free(find->file);
    find->file = NULL;
    find->data = NULL;
    find->bytes = 0;
}

void tpt_cache_reject(const tpt_cache_key_t *key, tpt_cache_find_t *find, const tpt_status_t *why) {
    bool waited;
    if (find->level == TPT_CACHE_MISS) return;
    bad_entry(key->hash, tpt_status_message(why));
    tpt_disk_remove(key->hash);
    find->replace = find->level == TPT_CACHE_REMOTE;
    drop_file(find);
    find->level = TPT_CACHE_MISS;
    if (find->lock < 0) find->lock = tpt_lock_take(tpt_disk_root(), key->hash.lo >> 2, 0, &waited);
}

void tpt_cache_keep(const tpt_cache_key_t *key, tpt_cache_find_t *find, void *program, int64_t compile_ns) {
    if (key->context == NULL || find->level == TPT_CACHE_MEMORY) return;
    tpt_memory_put(key, program, &the_hooks);
    if (find->level == TPT_CACHE_DISK) tpt_counter_add(TPT_COUNTER_cache_hits_disk, 1);
    if (find->level == TPT_CACHE_REMOTE) tpt_counter_add(TPT_COUNTER_cache_hits_remote, 1);
    if (find->level != TPT_CACHE_MISS || tpt_disk_root()[0] == '\0') return;
    tpt_writer_add(key, program, compile_ns, find, &the_hooks);
    find->lock = -1;
}

void tpt_cache_done(tpt_cache_find_t *find) {
    tpt_remote_forget(find->remote);
    find->remote = NULL;
    drop_file(find);
    tpt_lock_release(find->lock);
    find->lock = -1;
}

/* ---- for tools ------------------------------------------------------------------------------------------------------ */

tpt_status_t *tpt_cache_check(const void *data, size_t bytes) {
    tpt_entry_t entry;
    return tpt_entry_read(data, bytes, &entry);
}
