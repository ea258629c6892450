/* remote.c - the remote place, seen through a process of its own that speaks with it (torch_tpu/cache/transport.py). Entries go
 * by way of the directory, so that only their keys pass between the two:
 *
 *     we say                      it says
 *     get <32 hex digits>         hit <key> (the entry is in the directory now), miss <key>, claimed <key>
 *     put <key>, replace <key>    put <key>
 *                                 error <text> (the place cannot be reached)
 *
 * A process, because transports are Python and the thread that waits may hold the GIL. It outlives us until its uploads are
 * done. Whatever happens to it, the worst is a miss. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/notice.h"
#include "cache/cache_internal.h"

#define MOST_ERRORS 3 /* then the place is left alone */

struct tpt_remote {
    tpt_hash128_t hash;
    tpt_remote_state_t state;
    tpt_remote_t *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static tpt_remote_t *asked;
static int line_fd = -1;
static bool started, dead;
static int errors;
static unsigned generation; /* a reader of an earlier process changes nothing any more */

bool tpt_remote_on(void) { return *tpt_env_get(TPT_ENV_TIER3) != '\0' && *tpt_env_get(TPT_ENV_CACHE_TRANSPORT) != '\0'; }

/* ---- what it says ---------------------------------------------------------------------------------------------------- */

/* Lock held. Nothing more is expected: all who wait go on. */
static void give_up(void) {
    dead = true;
    for (tpt_remote_t *r = asked; r != NULL; r = r->next)
        if (r->state == TPT_REMOTE_ASKED || r->state == TPT_REMOTE_CLAIMED) r->state = TPT_REMOTE_MISS;
    pthread_cond_broadcast(&news);
}

static void on_error(const char *text) {
    tpt_notice(TPT_NOTICE_CACHE_REMOTE, "the remote compile cache %s cannot be used: %s; work goes on without", tpt_env_get(TPT_ENV_TIER3), text);
    if (++errors >= MOST_ERRORS) give_up();
}

static void on_line(const char *line) {
    char word[16], hex[40];
    tpt_hash128_t hash = {0, 0};
    if (strncmp(line, "error ", 6) == 0) {
        on_error(line + 6);
        return;
    }
    if (sscanf(line, "%15s %39s", word, hex) != 2 || sscanf(hex, "%16" SCNx64 "%16" SCNx64, &hash.hi, &hash.lo) != 2) return;
    tpt_remote_state_t state = strcmp(word, "hit") == 0       ? TPT_REMOTE_HIT
                               : strcmp(word, "claimed") == 0 ? TPT_REMOTE_CLAIMED
                               : strcmp(word, "miss") == 0    ? TPT_REMOTE_MISS
                                                              : TPT_REMOTE_ASKED;
    if (state != TPT_REMOTE_ASKED) errors = 0;
    for (tpt_remote_t *r = asked; r != NULL; r = r->next)
        if (r->hash.lo == hash.lo && r->hash.hi == hash.hi && state != TPT_REMOTE_ASKED) r->state = state;
    pthread_cond_broadcast(&news);
}

typedef struct reader {
    int fd;
    unsigned generation;
} reader_t;

static void *read_lines(void *user) {
    reader_t mine = *(reader_t *)user;
    char text[4096];
    size_t have = 0;
    tpt_free(user);
    for (;;) {
        ssize_t got = recv(mine.fd, text + have, sizeof text - 1 - have, 0);
        if (got < 0 && errno == EINTR) continue;
        pthread_mutex_lock(&lock);
        bool current = mine.generation == generation;
        if (current && got <= 0) give_up();
        if (got > 0) have += (size_t)got;
        text[have] = '\0';
        char *line = text, *end;
        for (; current && got > 0 && (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            on_line(line);
        }
        pthread_mutex_unlock(&lock);
        if (got <= 0 || !current) break;
        have -= (size_t)(line - text);
        memmove(text, line, have);
        if (have == sizeof text - 1) have = 0; /* no line of ours is so long */
    }
    (void)close(mine.fd);
    return NULL;
}

/* ---- starting it ------------------------------------------------------------------------------------------------------ */

static bool spawn(int child_end) {
    char command[TPT_PATH_MAX], url[TPT_PATH_MAX], root[TPT_PATH_MAX];
    int n = snprintf(command, sizeof command, "%s", tpt_env_get(TPT_ENV_CACHE_TRANSPORT));
    char *script = strchr(command, ':'); /* python:script */
    if (n < 0 || n >= TPT_PATH_MAX || script == NULL) return false;
    *script++ = '\0';
    (void)snprintf(url, sizeof url, "%s", tpt_env_get(TPT_ENV_TIER3));
    (void)snprintf(root, sizeof root, "%s", tpt_disk_root());
    char *arguments[] = {command, script, url, root, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    if (posix_spawn_file_actions_init(&files) != 0) return false;
    if (posix_spawnattr_init(&how) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return false;
    }
    sigset_t none;
    (void)sigemptyset(&none);
    pid_t pid;
    bool ok = posix_spawn_file_actions_adddup2(&files, child_end, 0) == 0 && posix_spawn_file_actions_adddup2(&files, child_end, 1) == 0 &&
              posix_spawn_file_actions_addopen(&files, 2, "/dev/null", 1 /* O_WRONLY */, 0) == 0 &&
              posix_spawnattr_setsigmask(&how, &none) == 0 &&
              posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK) == 0 && /* a Ctrl-C is not meant for it */
              posix_spawn(&pid, command, &files, &how, arguments, environ) == 0;
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&how);
    return ok;
}

/* Lock held. */
static bool start(void) {
    if (started) return !dead;
    started = true;
    dead = true;
    int ends[2];
    if (!tpt_remote_on() || tpt_disk_root()[0] == '\0' || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    reader_t *reader = tpt_malloc(sizeof *reader);
    pthread_t thread;
    bool ok = reader != NULL && spawn(ends[1]);
    (void)close(ends[1]);
    if (ok) {
        sigset_t all, before;
        *reader = (reader_t){.fd = ends[0], .generation = generation};
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &before);
        ok = pthread_create(&thread, NULL, read_lines, reader) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!ok) {
        tpt_free(reader);
        (void)close(ends[0]);
        tpt_notice(TPT_NOTICE_CACHE_REMOTE, "the remote compile cache %s cannot be used: its transport cannot be started", tpt_env_get(TPT_ENV_TIER3));
        return false;
    }
    (void)pthread_detach(thread);
    line_fd = ends[0];
    errors = 0;
    dead = false;
    return true;
}

/* Lock held. Never waits: a transport that does not read its orders is given up. */
static bool say(const char *word, tpt_hash128_t hash) {
    char line[64];
    int n = snprintf(line, sizeof line, "%s %016" PRIx64 "%016" PRIx64 "\n", word, hash.hi, hash.lo);
    if (!start()) return false;
    if (send(line_fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n) return true;
    on_error("its transport has ended or hangs");
    give_up();
    return false;
}

/* ---- the inner door --------------------------------------------------------------------------------------------------- */

tpt_remote_t *tpt_remote_ask(tpt_hash128_t hash) {
    if (!tpt_remote_on()) return NULL;
    tpt_remote_t *r = tpt_malloc(sizeof *r);
    if (r == NULL) return NULL;
    pthread_mutex_lock(&lock);
    bool said = say("get", hash);
    if (said) {
        *r = (tpt_remote_t){.hash = hash, .state = TPT_REMOTE_ASKED, .next = asked};
        asked = r;
    }
    pthread_mutex_unlock(&lock);
    if (said) return r;
    tpt_free(r);
    return NULL;
}

static struct timespec after(int64_t ns) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)(ns / 1000000000);
    t.tv_nsec += (long)(ns % 1000000000);
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

tpt_remote_state_t tpt_remote_wait(tpt_remote_t *r, int64_t limit_ns, int64_t claimed_ns) {
    int64_t begun = tpt_now_ns();
    pthread_mutex_lock(&lock);
    for (;;) {
        bool open = r->state == TPT_REMOTE_ASKED || r->state == TPT_REMOTE_CLAIMED;
        int64_t left = (r->state == TPT_REMOTE_CLAIMED ? claimed_ns : limit_ns) - (tpt_now_ns() - begun);
        if (!open || left <= 0) break;
        struct timespec until = after(left < 50000000 ? left : 50000000); /* in slices: the clock of the condition may jump */
        (void)pthread_cond_timedwait(&news, &lock, &until);
    }
    tpt_remote_state_t state = r->state;
    pthread_mutex_unlock(&lock);
    return state;
}

void tpt_remote_forget(tpt_remote_t *r) {
    if (r == NULL) return;
    pthread_mutex_lock(&lock);
    for (tpt_remote_t **at = &asked; *at != NULL; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    tpt_free(r);
}

void tpt_remote_put(tpt_hash128_t hash, bool replace) {
    if (!tpt_remote_on()) return;
    pthread_mutex_lock(&lock);
    (void)say(replace ? "replace" : "put", hash);
    pthread_mutex_unlock(&lock);
}

void tpt_remote_close(void) {
    pthread_mutex_lock(&lock);
    if (line_fd >= 0) (void)shutdown(line_fd, SHUT_WR); /* the reader closes it; the transport ends when its work is done */
    line_fd = -1;
    generation++;
    give_up();
    started = dead = false;
    pthread_mutex_unlock(&lock);
}
