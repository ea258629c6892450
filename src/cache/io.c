/* io.c - the few system calls that touch cache files. In test builds the Nth of them fails. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "cache/cache_internal.h"

#ifdef TPT_FAULT_INJECTION
static atomic_size_t seen, fail_at;
static atomic_int fail_with;

size_t tpt_fault_io_arm(size_t nth, int error) {
    atomic_store(&fail_with, error);
    atomic_store(&fail_at, nth);
    return atomic_exchange(&seen, 0);
}

static bool fails(void) {
    size_t now = atomic_fetch_add(&seen, 1) + 1;
    if (now != atomic_load(&fail_at)) return false;
    errno = atomic_load(&fail_with);
    return true;
}
#else
static bool fails(void) { return false; }
#endif

int tpt_io_open(const char *path, int flags, mode_t mode) { return fails() ? -1 : open(path, flags | O_CLOEXEC, mode); }

/* All of it, or what there is. */
ssize_t tpt_io_read(int fd, void *data, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = fails() ? -1 : read(fd, (char *)data + done, bytes - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

ssize_t tpt_io_write(int fd, const void *data, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t put = fails() ? -1 : write(fd, (const char *)data + done, bytes - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return -1;
        done += (size_t)put;
    }
    return (ssize_t)done;
}

int tpt_io_sync(int fd) { return fails() ? -1 : fdatasync(fd); }
int tpt_io_rename(const char *from, const char *to) { return fails() ? -1 : rename(from, to); }
int tpt_io_close(int fd) { return close(fd); }
