/* place.c - what compiled code depends on besides its program: the plugin's own bytes, versions, devices, the processor. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache_internal.h"

/* Variables that plugins read and that change the code that comes out. */
static const char *const settings[] = {"XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS"};

/* ---- the plugin ------------------------------------------------------------------------------------------------------ */

static bool hash_file(int fd, size_t bytes, tpt_hash128_t *out_hash) {
    void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED) return false;
    *out_hash = tpt_hash128(data, bytes);
    (void)munmap(data, bytes);
    return true;
}

/* The hash of the library's bytes. Reading hundreds of megabytes takes longer than anything else here, so it is remembered
 * under what changes with every write to the file: inode, size, both times. */
static void add_library(const char *path, tpt_str_t *out) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size <= 0) { /* the built-in one, or found on the loader's own path */
        tpt_str_addf(out, "library %s\n", path);
        if (fd >= 0) (void)close(fd);
        return;
    }
    char stamp[256], name[64], memo[384], line[384];
    (void)snprintf(stamp, sizeof stamp, "%llu %llu %lld %lld.%09ld %lld.%09ld", (unsigned long long)info.st_dev, (unsigned long long)info.st_ino,
                   (long long)info.st_size, (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec, (long long)info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
    (void)snprintf(name, sizeof name, "plugins/%016" PRIx64, tpt_hash64(stamp, strlen(stamp)));
    tpt_hash128_t hash = {0, 0};
    int end = 0;
    bool known = tpt_disk_get_small(name, memo, sizeof memo) && sscanf(memo, "%16" SCNx64 "%16" SCNx64 " %n", &hash.hi, &hash.lo, &end) == 2 && end > 0;
    if (known) { /* the line must be exactly what we would write */
        (void)snprintf(line, sizeof line, "%016" PRIx64 "%016" PRIx64 " %s\n", hash.hi, hash.lo, stamp);
        known = strcmp(line, memo) == 0;
    }
    if (!known && hash_file(fd, (size_t)info.st_size, &hash)) {
        (void)snprintf(line, sizeof line, "%016" PRIx64 "%016" PRIx64 " %s\n", hash.hi, hash.lo, stamp);
        known = true;
        (void)tpt_disk_put_small(name, line);
    }
    (void)close(fd);
    if (known) tpt_str_addf(out, "library %016" PRIx64 "%016" PRIx64 "\n", hash.hi, hash.lo);
    else tpt_str_addf(out, "library %s %s\n", path, stamp);
}

/* ---- the processor --------------------------------------------------------------------------------------------------- */

static void add_line(const char *cpu, const char *field, bool hashed, tpt_str_t *out) {
    size_t n = strlen(field);
    for (const char *line = cpu; line != NULL && *line != '\0'; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, field, n) != 0 || (line[n] != '\t' && line[n] != ' ' && line[n] != ':')) continue;
        const char *value = line + n + strspn(line + n, "\t :");
        size_t length = strcspn(value, "\n");
        if (hashed) tpt_str_addf(out, " %s %016" PRIx64, field, tpt_hash64(value, length));
        else {
            tpt_str_add(out, " ");
            tpt_str_addn(out, value, length);
        }
        return;
    }
}

/* The first processor's description: its kind, and the instructions it has. */
static void add_processor(tpt_str_t *out) {
    static char cpu[1 << 14];
    int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, cpu, sizeof cpu - 1); /* once: the kernel writes processor by processor */
    if (fd >= 0) (void)close(fd);
    cpu[got > 0 ? got : 0] = '\0';
#if defined(__x86_64__)
    tpt_str_add(out, "processor x86_64");
#elif defined(__aarch64__)
    tpt_str_add(out, "processor aarch64");
#else
    tpt_str_add(out, "processor other");
#endif
    static const char *const kinds[] = {"vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU architecture", "CPU variant", "CPU part"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) add_line(cpu, kinds[i], false, out);
    add_line(cpu, "flags", true, out);
    add_line(cpu, "Features", true, out);
    tpt_str_add(out, "\n");
}

void tpt_place_text(const tpt_cache_place_t *place, tpt_str_t *out) {
    tpt_str_addf(out, "format %d\n", TPT_CACHE_FORMAT);
    add_library(place->plugin_path, out);
    tpt_str_addf(out, "api %d.%d\nplatform %s\nversion %s\ndevices %s\n", place->api_major, place->api_minor, place->platform, place->version, place->devices);
    if (place->host_code) add_processor(out);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *value = getenv(settings[i]);
        if (value != NULL && *value != '\0') tpt_str_addf(out, "%s %s\n", settings[i], value);
    }
}
