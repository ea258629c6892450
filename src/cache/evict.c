/* evict.c - keeps the directory within its size: what was not used for longest goes. Safe among processes: readers hold an
 * open file, writers rename whole ones, and only one process at a time removes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/vec.h"
#include "base/alloc.h"
#include "cache/cache_internal.h"

#define MAX_FILES ((size_t)1 << 24)
#define TEMP_AGE 3600 /* seconds after which a temporary file belongs to a process that died */

typedef struct file {
    int64_t used; /* seconds since 1970 */
    int64_t bytes;
    char name[48]; /* ab/rest.tpe */
} file_t;

typedef struct scan {
    file_t *files;
    size_t count, capacity;
    int64_t bytes, now;
} scan_t;

static void add_file(scan_t *scan, int folder, const char *shard, const char *name) {
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return;
    tpt_status_t *status = tpt_vec_reserve(&scan->files, &scan->capacity, scan->count + 1, sizeof *scan->files, MAX_FILES);
    if (status != NULL) { /* what is not listed stays */
        tpt_status_free(status);
        return;
    }
    file_t *file = &scan->files[scan->count];
    int n = snprintf(file->name, sizeof file->name, "%s/%s", shard, name);
    if (n < 0 || (size_t)n >= sizeof file->name) return;
    file->used = (int64_t)info.st_mtim.tv_sec;
    if (file->used > scan->now + TEMP_AGE) file->used = 0; /* from a clock that ran ahead: unknown, so it goes first */
    file->bytes = (int64_t)info.st_blocks * 512;
    scan->bytes += file->bytes;
    scan->count++;
}

static void drop_stale(int folder, const char *name, int64_t now) {
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return;
    int64_t age = now - (int64_t)info.st_mtim.tv_sec;
    if (age > TEMP_AGE || age < -TEMP_AGE) (void)unlinkat(folder, name, 0);
}

static void scan_folder(scan_t *scan, const char *root, const char *shard) {
    char path[TPT_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", root, shard);
    DIR *dir = n > 0 && n < TPT_PATH_MAX ? opendir(path) : NULL;
    if (dir == NULL) return;
    bool temps = strcmp(shard, "tmp") == 0;
    for (struct dirent *item; (item = readdir(dir)) != NULL;) {
        size_t length = strlen(item->d_name);
        if (temps) drop_stale(dirfd(dir), item->d_name, scan->now);
        else if (length > 4 && strcmp(item->d_name + length - 4, ".tpe") == 0) add_file(scan, dirfd(dir), shard, item->d_name);
    }
    (void)closedir(dir);
}

static void scan_all(scan_t *scan, const char *root) {
    static const char hex[] = "0123456789abcdef";
    *scan = (scan_t){.now = (int64_t)time(NULL)};
    scan_folder(scan, root, "tmp");
    for (int i = 0; i < 256; i++) scan_folder(scan, root, (const char[3]){hex[i >> 4], hex[i & 15], '\0'});
}

static int older_first(const void *a, const void *b) {
    const file_t *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

/* Removes the longest unused until the rest fits. */
static void shrink(scan_t *scan, const char *root, int64_t most, tpt_cache_pruned_t *out) {
    if (scan->count != 0) qsort(scan->files, scan->count, sizeof *scan->files, older_first);
    for (size_t i = 0; i < scan->count && scan->bytes > most; i++) {
        char path[TPT_PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", root, scan->files[i].name);
        if (n < 0 || n >= TPT_PATH_MAX || (unlink(path) != 0 && errno != ENOENT)) continue;
        scan->bytes -= scan->files[i].bytes;
        out->removed++;
        out->removed_bytes += scan->files[i].bytes;
    }
}

static bool prune(const char *root, int64_t most, int64_t wait_ns, tpt_cache_pruned_t *out) {
    scan_t scan;
    bool waited;
    int lock = tpt_lock_take(root, TPT_LOCK_EVICTION, wait_ns, &waited);
    if (lock < 0) return false; /* somebody else is at it, or nothing can be written anyway */
    scan_all(&scan, root);
    if (scan.bytes > most) shrink(&scan, root, most, out);
    out->kept_bytes = scan.bytes;
    out->kept = (int64_t)scan.count - out->removed;
    tpt_free(scan.files);
    tpt_lock_release(lock);
    return true;
}

tpt_status_t *tpt_cache_prune(const char *dir, int64_t most_bytes, tpt_cache_pruned_t *out) {
    char root[TPT_PATH_MAX];
    *out = (tpt_cache_pruned_t){0};
    int n = snprintf(root, sizeof root, "%s/v%d", dir, TPT_CACHE_FORMAT);
    if (n < 0 || n >= TPT_PATH_MAX || access(root, F_OK) != 0) return NULL; /* nothing there */
    if (!prune(root, most_bytes, INT64_C(10000000000), out))
        return tpt_status_make(TPT_UNAVAILABLE, "the compile cache in %s cannot be locked: it is not writable, or another process prunes it", dir);
    return NULL;
}

void tpt_evict_leftovers(void) {
    scan_t scan = {.now = (int64_t)time(NULL)};
    scan_folder(&scan, tpt_disk_root(), "tmp"); /* without the lock: no writer that lives uses a file so old */
}

/* ---- by itself ------------------------------------------------------------------------------------------------------- */

void tpt_evict_after(size_t bytes) {
    /* What may be written before the next look: a fraction of the room, as other processes write too. */
    static atomic_int_fast64_t credit, credit_of = -1;
    int64_t most = tpt_env_int(TPT_ENV_CACHE_BYTES, 0, INT64_MAX), taken = ((int64_t)bytes + 4095) / 4096 * 4096;
    if (atomic_exchange(&credit_of, most) != most) atomic_store(&credit, 0);
    if (atomic_fetch_sub(&credit, taken) > taken) return;
    tpt_cache_pruned_t result = {0};
    char root[TPT_PATH_MAX];
    (void)snprintf(root, sizeof root, "%s", tpt_disk_root());
    if (root[0] == '\0') return;
    if (!prune(root, most, 0, &result)) {
        atomic_store(&credit, most / 64);
        return;
    }
    if (result.removed > 0) { /* some room more, or the next entry would start it again */
        tpt_cache_pruned_t more = {0};
        (void)prune(root, most - most / 8, 0, &more);
        result.removed += more.removed;
        result.kept_bytes = more.kept_bytes;
        tpt_counter_add(TPT_COUNTER_cache_evictions, result.removed);
    }
    int64_t room = most - result.kept_bytes;
    atomic_store(&credit, room > 0 ? room / 16 : 0);
}
