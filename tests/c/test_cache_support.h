/* test_cache_support.h - a cache in a directory of its own; its programs are texts that count their references. */
#ifndef TPT_TEST_CACHE_SUPPORT_H
#define TPT_TEST_CACHE_SUPPORT_H

#include "test_support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/notice.h"
#include "cache/cache_internal.h"

typedef struct fake {
    atomic_int refs;
    char text[256];
} fake_t;

static atomic_int fakes;
static bool cannot_serialize;

static inline fake_t *fake_new(const char *text) {
    fake_t *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    atomic_init(&fake->refs, 1);
    (void)snprintf(fake->text, sizeof fake->text, "%s", text);
    atomic_fetch_add(&fakes, 1);
    return fake;
}
static void fake_retain(void *program) { atomic_fetch_add(&((fake_t *)program)->refs, 1); }
static void fake_release(void *program) {
    fake_t *fake = program;
    if (fake == NULL || atomic_fetch_sub(&fake->refs, 1) != 1) return;
    free(fake);
    atomic_fetch_sub(&fakes, 1);
}
static tpt_status_t *fake_serialize(void *program, void **out_data, size_t *out_bytes) {
    fake_t *fake = program;
    if (cannot_serialize) return tpt_status_make(TPT_UNIMPLEMENTED, "not this one");
    *out_bytes = strlen(fake->text);
    *out_data = tpt_malloc(*out_bytes);
    if (*out_data == NULL) return tpt_status_oom(*out_bytes);
    memcpy(*out_data, fake->text, *out_bytes);
    return NULL;
}

static const tpt_cache_hooks_t fake_hooks = {fake_retain, fake_release, fake_serialize};
static char the_dir[256];

static inline tpt_cache_place_t place_of(const char *version) {
    return (tpt_cache_place_t){.plugin_path = "null", .platform = "null", .version = version, .devices = "one", .host_code = true};
}

static inline void cache_open(void) {
    tpt_cache_place_t place = place_of("1");
    tpt_cache_open(&place, &fake_hooks);
}

static inline int cache_start(void **state) {
    (void)state;
    (void)snprintf(the_dir, sizeof the_dir, "%s/tpt_cache_XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(the_dir) == NULL) return 1;
    (void)setenv("TORCH_TPU_CACHE", "1", 1);
    (void)setenv("TORCH_TPU_CACHE_DIR", the_dir, 1);
    (void)setenv("TORCH_TPU_CACHE_WAIT", "20", 1);
    (void)unsetenv("TORCH_TPU_CACHE_MAX_BYTES");
    tpt_counters_reset();
    tpt_notices_reset();
    tpt_writer_forgive();
    cannot_serialize = false;
    cache_open();
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    (void)chmod(path, 0700);
    return remove(path);
}

static inline int cache_end(void **state) {
    (void)state;
    tpt_cache_close();
    (void)nftw(the_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (atomic_load(&fakes) == 0) return 0;
    print_error("%d programs are alive\n", atomic_load(&fakes));
    return 1;
}

static inline tpt_cache_key_t key_of(const char *text) {
    tpt_cache_key_t key;
    tpt_cache_key_make("options", 7, text, strlen(text), &key);
    return key;
}

/* What a caller does: finds, or makes and keeps. Returns the level; the program's text must be the key's own. */
static inline tpt_cache_level_t use(const char *text) {
    tpt_cache_key_t key = key_of(text);
    tpt_cache_find_t find;
    tpt_cache_find(&key, &find);
    tpt_cache_level_t level = find.level;
    fake_t *program = find.program;
    char loaded[256] = "";
    if (find.data != NULL) {
        assert_true(find.bytes < sizeof loaded);
        memcpy(loaded, find.data, find.bytes);
    }
    if (program == NULL) program = fake_new(level == TPT_CACHE_MISS ? text : loaded);
    assert_string_equal(program->text, text);
    tpt_cache_keep(&key, &find, program, 1000);
    fake_release(program);
    tpt_cache_done(&find);
    tpt_cache_key_free(&key);
    return level;
}

/* The cache of another process of the host: the memory level is gone. */
static inline void cache_again(void) {
    tpt_cache_close();
    cache_open();
}

static inline void path_of(const char *text, char out[TPT_PATH_MAX]) {
    tpt_cache_key_t key = key_of(text);
    assert_true(tpt_disk_path(key.hash, out));
    tpt_cache_key_free(&key);
}

static inline int64_t count(tpt_counter_t counter) { return tpt_counter_get(counter); }

#endif
