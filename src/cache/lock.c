/* lock.c - one compiler a key, among processes and threads: a byte of one file is locked. The kernel drops the lock when its
 * holder dies in whatever way, and there is no lock file to clean up. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache_internal.h"

/* Descriptors that hold locks. A forked child shares them and would keep a dead parent's locks alive: it closes its copies. */
#define MAX_HELD 256
static tpt_mutex_t held_lock = TPT_MUTEX_INIT;
static int held[MAX_HELD];
static int nheld;

static void fork_begins(void) { tpt_mutex_lock(&held_lock); }
static void fork_ends(void) { tpt_mutex_unlock(&held_lock); }
static void in_child(void) {
    for (int i = 0; i < nheld; i++) (void)close(held[i]);
    nheld = 0;
    tpt_mutex_unlock(&held_lock);
}

static bool remember(int fd) {
    static bool handled; /* guarded by held_lock */
    tpt_mutex_lock(&held_lock);
    bool first = !handled, room = nheld < MAX_HELD;
    handled = true;
    if (room) held[nheld++] = fd;
    tpt_mutex_unlock(&held_lock);
    if (first) (void)pthread_atfork(fork_begins, fork_ends, in_child);
    return room;
}

static void forget(int fd) {
    tpt_mutex_lock(&held_lock);
    for (int i = 0; i < nheld; i++)
        if (held[i] == fd) held[i] = held[--nheld];
    tpt_mutex_unlock(&held_lock);
}

static struct flock byte_of(uint64_t place, short type) {
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)place, .l_len = 1};
}

/* 1: ours, 0: somebody else's, -1: this file system has no locks. */
static int try_lock(int fd, uint64_t place) {
    struct flock byte = byte_of(place, F_WRLCK);
    if (fcntl(fd, F_OFD_SETLK, &byte) == 0) return 1;
    return errno == EAGAIN || errno == EACCES || errno == EINTR ? 0 : -1;
}

int tpt_lock_take(const char *root, uint64_t place, int64_t limit_ns, bool *out_waited) {
    char path[TPT_PATH_MAX];
    *out_waited = false;
    int n = snprintf(path, sizeof path, "%s/locks", root);
    if (n < 0 || (size_t)n >= sizeof path) return -1;
    int fd = tpt_io_open(path, O_RDWR | O_CREAT, 0666);
    if (fd < 0) return -1;
    int64_t until = tpt_now_ns() + limit_ns, pause = 500000;
    int got;
    while ((got = try_lock(fd, place)) == 0 && limit_ns > 0) {
        *out_waited = true;
        if (tpt_now_ns() >= until) break;
        (void)nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        if (pause < 16000000) pause *= 2;
    }
    if (got == 1 && remember(fd)) return fd;
    (void)tpt_io_close(fd);
    return -1;
}

void tpt_lock_release(int fd) {
    if (fd < 0) return;
    forget(fd);
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    (void)fcntl(fd, F_OFD_SETLK, &all); /* for all that share the descriptor; closing alone would not be enough */
    (void)tpt_io_close(fd);
}
