/* disk.c - the directory: <root>/v1/ab/<30 hex digits>.tpe, one file an entry, written beside and renamed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/notice.h"
#include "cache/cache_internal.h"

#define MOST_BYTES ((off_t)1 << 40)
#define TOUCH_AFTER 60 /* seconds: an entry's time of last use need not be finer */

static char root[TPT_PATH_MAX]; /* written while opening only */

/* ---- where ---------------------------------------------------------------------------------------------------------- */

static bool join(char out[TPT_PATH_MAX], const char *a, const char *b) {
    int n = snprintf(out, TPT_PATH_MAX, "%s/%s", a, b);
    return n > 0 && n < TPT_PATH_MAX;
}

/* TORCH_TPU_CACHE_DIR; else the user's cache directory, in which TorchTPU's variable may name a folder (or be a path). */
static bool choose(char out[TPT_PATH_MAX]) {
    const char *own = tpt_env_get(TPT_ENV_CACHE_DIR), *name = tpt_env_get(TPT_ENV_TIER2), *home = getenv("HOME"), *base = getenv("XDG_CACHE_HOME");
    char folder[TPT_PATH_MAX];
    if (*own != '\0') return snprintf(out, TPT_PATH_MAX, "%s", own) < TPT_PATH_MAX;
    if (*name == '/') return snprintf(out, TPT_PATH_MAX, "%s", name) < TPT_PATH_MAX;
    if (base != NULL && *base == '/') {
        if (!join(folder, base, "torch_tpu")) return false;
    } else if (home == NULL || *home != '/' || !join(folder, home, ".cache/torch_tpu")) {
        return false;
    }
    return *name == '\0' || strcmp(name, "1") == 0 || strcmp(name, "0") == 0 || strcasecmp(name, "true") == 0 || strcasecmp(name, "false") == 0
               ? snprintf(out, TPT_PATH_MAX, "%s", folder) < TPT_PATH_MAX
               : join(out, folder, name);
}

static bool make_folders(const char *path) {
    char part[TPT_PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part) return false;
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST && access(part, F_OK) != 0) return false;
    }
    return true;
}

const char *tpt_cache_dir(void) {
    static _Thread_local char where[TPT_PATH_MAX];
    return tpt_env_flag(TPT_ENV_CACHE) && choose(where) ? where : "";
}

bool tpt_disk_open(void) {
    char base[TPT_PATH_MAX], name[16];
    root[0] = '\0';
    if (!tpt_env_flag(TPT_ENV_CACHE) || !choose(base)) return false;
    (void)snprintf(name, sizeof name, "v%d", TPT_CACHE_FORMAT);
    if (!join(root, base, name)) root[0] = '\0';
    if (root[0] != '\0' && !make_folders(root)) { /* a directory that cannot be made may be made later: read and write say so */
        tpt_notice(TPT_NOTICE_CACHE_WRITE, "the compile cache's directory %s cannot be made: %s; programs are compiled anew in each process", root, strerror(errno));
        root[0] = '\0';
    }
    return root[0] != '\0';
}

void tpt_disk_close(void) { root[0] = '\0'; }
const char *tpt_disk_root(void) { return root; }

bool tpt_disk_path(tpt_hash128_t hash, char out[TPT_PATH_MAX]) {
    int n = snprintf(out, TPT_PATH_MAX, "%s/%02x/%014" PRIx64 "%016" PRIx64 ".tpe", root, (unsigned)(hash.hi >> 56),
                     hash.hi & (UINT64_MAX >> 8), hash.lo);
    return root[0] != '\0' && n > 0 && n < TPT_PATH_MAX;
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static tpt_status_t *read_open(int fd, void **out_data, size_t *out_bytes) {
    struct stat info;
    if (fstat(fd, &info) != 0) return tpt_status_make(TPT_UNAVAILABLE, "%s", strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size <= 0 || info.st_size > MOST_BYTES) return tpt_status_make(TPT_DATA_LOSS, "no file of a fitting size");
    size_t bytes = (size_t)info.st_size;
    char *data = tpt_malloc(bytes);
    if (data == NULL) return tpt_status_oom(bytes);
    ssize_t got = tpt_io_read(fd, data, bytes);
    if (got != (ssize_t)bytes) {
        tpt_status_t *status = got < 0 ? tpt_status_make(TPT_UNAVAILABLE, "%s", strerror(errno)) : tpt_status_make(TPT_DATA_LOSS, "it ends early");
        tpt_free(data);
        return status;
    }
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = (int64_t)now.tv_sec - (int64_t)info.st_mtim.tv_sec;
    if (age > TOUCH_AFTER || age < -TOUCH_AFTER) (void)futimens(fd, NULL); /* its time is that of its last use; a wrong clock is mended */
    *out_data = data;
    *out_bytes = bytes;
    return NULL;
}

tpt_status_t *tpt_disk_read(tpt_hash128_t hash, void **out_data, size_t *out_bytes) {
    char path[TPT_PATH_MAX];
    *out_data = NULL;
    if (!tpt_disk_path(hash, path)) return NULL;
    int fd = tpt_io_open(path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR ? NULL : tpt_status_make(TPT_UNAVAILABLE, "%s", strerror(errno));
    tpt_status_t *status = read_open(fd, out_data, out_bytes);
    (void)tpt_io_close(fd);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

/* 0, or the error's number; `what` then says what went wrong. */
static int write_file(const char *temp, const char *path, const void *data, size_t bytes, const char **what) {
    int error = 0;
    int fd = tpt_io_open(temp, O_WRONLY | O_CREAT | O_EXCL, 0644);
    *what = "it cannot be made";
    if (fd < 0) return errno;
    if (tpt_io_write(fd, data, bytes) != (ssize_t)bytes) {
        error = errno;
        *what = "it cannot be written";
    }
    if (error == 0 && tpt_io_sync(fd) != 0) {
        error = errno;
        *what = "it cannot be synced";
    }
    (void)tpt_io_close(fd);
    if (error == 0 && tpt_io_rename(temp, path) != 0) {
        error = errno;
        *what = "it cannot be renamed";
    }
    if (error != 0) (void)unlink(temp);
    return error;
}

static tpt_status_t *write_path(const char *path, const void *data, size_t bytes) {
    static atomic_uint number;
    char temp[TPT_PATH_MAX], folder[TPT_PATH_MAX];
    const char *what = "its path is too long";
    if (!join(folder, root, "tmp")) return tpt_status_make(TPT_UNAVAILABLE, "%s", what);
    int n = snprintf(temp, sizeof temp, "%s/%ld-%u-%llx", folder, (long)getpid(), atomic_fetch_add(&number, 1), (unsigned long long)tpt_now_ns());
    if (n < 0 || n >= TPT_PATH_MAX) return tpt_status_make(TPT_UNAVAILABLE, "%s", what);
    int error = write_file(temp, path, data, bytes, &what);
    if (error == ENOENT) { /* the first entry of its folder */
        (void)make_folders(folder);
        const char *slash = strrchr(path, '/');
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = '\0';
        (void)make_folders(folder);
        error = write_file(temp, path, data, bytes, &what);
    }
    return error == 0 ? NULL : tpt_status_make(error == ENOSPC || error == EDQUOT ? TPT_RESOURCE_EXHAUSTED : TPT_UNAVAILABLE, "%s: %s", what, strerror(error));
}

tpt_status_t *tpt_disk_write(tpt_hash128_t hash, const void *data, size_t bytes) {
    char path[TPT_PATH_MAX];
    if (!tpt_disk_path(hash, path)) return tpt_status_make(TPT_UNAVAILABLE, "there is no directory for it");
    return write_path(path, data, bytes);
}

void tpt_disk_remove(tpt_hash128_t hash) {
    char path[TPT_PATH_MAX];
    if (tpt_disk_path(hash, path)) (void)unlink(path);
}

bool tpt_disk_put_small(const char *name, const char *text) {
    char path[TPT_PATH_MAX];
    if (root[0] == '\0' || !join(path, root, name)) return false;
    tpt_status_t *status = write_path(path, text, strlen(text));
    tpt_status_free(status);
    return status == NULL;
}

bool tpt_disk_get_small(const char *name, char *out, size_t room) {
    char path[TPT_PATH_MAX];
    if (root[0] == '\0' || !join(path, root, name)) return false;
    int fd = tpt_io_open(path, O_RDONLY, 0);
    if (fd < 0) return false;
    ssize_t got = tpt_io_read(fd, out, room - 1);
    (void)tpt_io_close(fd);
    if (got < 0) return false;
    out[got] = '\0';
    return true;
}
