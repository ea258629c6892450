/* bound.c - how many loaded programs are too many, and letting go of the eldest.
 *
 * XLA's CPU programs live in three mappings of the process each, of which Linux allows 65,530 by default: a process that
 * reaches the limit does not get an error, it crashes inside the plugin. So the mappings are counted now and then. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "run_internal.h"

#define MOST_ANYWHERE ((size_t)1 << 17)
#define COUNT_FROM 2048 /* programs: fewer never come near the limit */
#define COUNT_EVERY 256 /* programs: counting reads some megabytes */

static int64_t mappings_allowed(void) {
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    char line[32];
    int64_t allowed = file && fgets(line, sizeof line, file) ? strtoll(line, NULL, 10) : 0;
    if (file) (void)fclose(file);
    return allowed > 0 ? allowed : 65530;
}

static int64_t mappings_used(void) {
    static char block[1 << 16]; /* under bound_lock */
    int64_t lines = 0;
    ssize_t got;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    while ((got = read(file, block, sizeof block)) > 0)
        for (ssize_t i = 0; i < got; i++) lines += block[i] == '\n';
    (void)close(file);
    return lines;
}

static bool is_full(size_t count) {
    static size_t next_count = COUNT_FROM;
    int64_t most = tpt_env_int(TPT_ENV_MAX_PROGRAMS, 0, INT64_MAX);
    if (most > 0) return count >= (size_t)most;
    if (count >= MOST_ANYWHERE) return true;
    if (count < COUNT_FROM) next_count = COUNT_FROM;
    if (count < next_count || !tpt_client_host_code(tpt_runtime_client())) return false;
    next_count = count + COUNT_EVERY;
    return mappings_used() > mappings_allowed() / 10 * 7;
}

void tpt_progs_bound(tpt_dev_t *dev) {
    static tpt_mutex_t bound_lock = TPT_MUTEX_INIT;
    size_t count = tpt_progs_count();
    if (!tpt_mutex_try(&bound_lock)) return; /* another device is at it */
    /* No other device may be between finding a program and running it; one that is busy is waited for at the next miss. */
    if (is_full(count) && tpt_devs_stop(dev)) {
        tpt_plans_forget_progs();
        int64_t dropped = tpt_progs_drop_old();
        tpt_cache_forget();
        tpt_devs_go(dev);
        tpt_counter_add(TPT_COUNTER_program_drops, dropped);
        tpt_log(TPT_LOG_INFO, "%zu programs were loaded: let go of %lld not used for longest", count, (long long)dropped);
    }
    tpt_mutex_unlock(&bound_lock);
}
