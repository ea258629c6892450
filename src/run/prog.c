/* prog.c - compiled programs and their table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "run_internal.h"

#define MAX_PROGS (1 << 18)

static tpt_mutex_t progs_lock = TPT_MUTEX_INIT;
static tpt_map_t progs = {.max = MAX_PROGS};
static atomic_uint_fast64_t made; /* programs ever added */

void tpt_prog_free(tpt_prog_t *prog) {
    if (!prog) return;
    tpt_program_release(prog->program);
    for (int k = 0; k < TPT_PACK_COUNT; k++) tpt_free(prog->packs[k].entries);
    tpt_free(prog->bad_sizes);
    tpt_free(prog->result_bytes);
    tpt_free(prog->key);
    tpt_free(prog);
}

/* TORCH_TPU_DUMP: one file a program, named by the hash of its text. */
static void dump(const char *text, size_t bytes) {
    const char *folder = tpt_env_get(TPT_ENV_DUMP);
    if (!*folder) return;
    tpt_str_t path;
    tpt_str_init(&path, 4096);
    tpt_str_addf(&path, "%s/%016llx.mlir", folder, (unsigned long long)tpt_hash64(text, bytes));
    FILE *file = tpt_str_ok(&path) ? fopen(tpt_str_text(&path), "w") : NULL;
    if (!file || fwrite(text, 1, bytes, file) != bytes) tpt_log(TPT_LOG_WARN, "cannot write %s: %s", tpt_str_text(&path), strerror(errno));
    if (file) fclose(file);
    tpt_str_free(&path);
}

/* ---- compiling, with the cache's levels before it -------------------------------------------------------------------- */

static void retain_program(void *program) { tpt_program_retain(program); }
static void release_program(void *program) { tpt_program_release(program); }
static tpt_status_t *serialize_program(void *program, void **out_data, size_t *out_bytes) {
    return tpt_program_serialize(program, out_data, out_bytes);
}

/* Called when the runtime opens. */
void tpt_prog_cache_open(tpt_client_t *client) {
    static const tpt_cache_hooks_t hooks = {retain_program, release_program, serialize_program};
    char *devices = NULL;
    tpt_cache_place_t place = {.plugin_path = tpt_client_path(client), .platform = tpt_client_platform(client),
                               .version = tpt_client_platform_version(client), .host_code = tpt_client_host_code(client)};
    tpt_client_api_version(client, &place.api_major, &place.api_minor);
    tpt_status_t *status = tpt_client_topology(client, &devices);
    if (status) tpt_log(TPT_LOG_WARN, "no compile cache: %s", tpt_status_message(status));
    place.devices = devices;
    if (!status) tpt_cache_open(&place, &hooks);
    tpt_status_free(status);
    tpt_free(devices);
}

static tpt_status_t *check_results(const tpt_prog_t *prog, const tpt_program_t *program) {
    if (tpt_program_nouts(program) == prog->nresults) return NULL;
    return tpt_status_make(TPT_INTERNAL, "a program of %d results was compiled to one of %d", prog->nresults, tpt_program_nouts(program));
}

/* A program from memory, or from a serialized one; false: there is none that can be used. */
bool tpt_prog_load(tpt_prog_t *prog, const tpt_cache_key_t *key, const tpt_compile_options_t *options, tpt_cache_find_t *find) {
    tpt_program_t *program = find->program;
    if (find->level == TPT_CACHE_MISS) return false;
    int64_t before = tpt_now_ns();
    tpt_status_t *status = program ? NULL : tpt_program_load(tpt_runtime_client(), find->data, find->bytes, options, &program);
    if (!status) status = check_results(prog, program);
    if (status) {
        tpt_program_release(program);
        tpt_cache_reject(key, find, status);
        tpt_status_free(status);
        return false;
    }
    tpt_counter_add(TPT_COUNTER_cache_load_ns, tpt_now_ns() - before);
    tpt_cache_keep(key, find, program, 0);
    prog->program = program;
    return true;
}

static tpt_status_t *compile(tpt_prog_t *prog, const tpt_cache_key_t *key, const tpt_compile_options_t *options, tpt_cache_find_t *find) {
    int64_t before = tpt_now_ns();
    TPT_TRY_MSG(tpt_program_compile(tpt_runtime_client(), key->text, key->text_bytes, options, &prog->program), "compiling a program of %d ops",
                prog->nnodes);
    return tpt_prog_compiled(prog, key, find, tpt_now_ns() - before);
}

tpt_status_t *tpt_prog_compiled(tpt_prog_t *prog, const tpt_cache_key_t *key, tpt_cache_find_t *find, int64_t taken) {
    tpt_counter_add(TPT_COUNTER_compiles, 1);
    tpt_counter_add(TPT_COUNTER_compile_ns, taken);
    TPT_TRY(check_results(prog, prog->program));
    tpt_cache_keep(key, find, prog->program, taken);
    return NULL;
}

tpt_status_t *tpt_prog_compile_now(tpt_prog_t *prog, const char *text, int device) {
    size_t bytes = strlen(text);
    unsigned char packed[TPT_OPTIONS_MAX];
    tpt_cache_key_t key;
    tpt_cache_find_t find;
    tpt_compile_options_t options = {.device = device, .exact_minmax = true, .loops = prog->loops};
    dump(text, bytes);
    int64_t before = tpt_now_ns();
    tpt_cache_key_make(packed, tpt_program_options(tpt_runtime_client(), &options, packed), text, bytes, &key);
    tpt_cache_find(&key, &find);
    tpt_status_t *status = NULL;
    if (!tpt_prog_load(prog, &key, &options, &find)) status = find.remote ? tpt_prog_race(prog, &key, &options, &find) : compile(prog, &key, &options, &find);
    if (find.level == TPT_CACHE_DISK) tpt_counter_add(TPT_COUNTER_cache_hit_ns, tpt_now_ns() - before);
    tpt_cache_done(&find);
    tpt_cache_key_free(&key);
    return status;
}

tpt_status_t *tpt_prog_compile(tpt_prog_t *prog, const char *text, int device, bool later) {
    if (later && tpt_ahead_on()) return tpt_ahead_compile(prog, text, device);
    return tpt_prog_compile_now(prog, text, device);
}

/* ---- the table ------------------------------------------------------------------------------------------------------- */

tpt_prog_t *tpt_prog_find(uint64_t hash, const uint64_t *key, uint32_t words) {
    tpt_mutex_lock(&progs_lock);
    tpt_prog_t *prog = tpt_map_get(&progs, hash, key, words);
    tpt_mutex_unlock(&progs_lock);
    return prog;
}

tpt_status_t *tpt_prog_add(uint64_t hash, const uint64_t *key, uint32_t words, tpt_prog_t *prog) {
    prog->key = tpt_malloc((words + 1) * sizeof *key);
    if (!prog->key) return tpt_status_oom(words * sizeof *key);
    memcpy(prog->key, key, words * sizeof *key);
    prog->key_words = words;
    atomic_store(&prog->used, atomic_fetch_add(&made, 1) + 1);
    tpt_mutex_lock(&progs_lock);
    tpt_status_t *status = tpt_map_put(&progs, hash, key, words, prog);
    tpt_mutex_unlock(&progs_lock);
    return status;
}

/* What tells programs in use from old ones: each remembers how many there had been when it last ran. */
void tpt_prog_note_use(tpt_prog_t *prog) {
    atomic_store_explicit(&prog->used, atomic_load_explicit(&made, memory_order_relaxed), memory_order_relaxed);
}

size_t tpt_progs_count(void) {
    tpt_mutex_lock(&progs_lock);
    size_t count = progs.count;
    tpt_mutex_unlock(&progs_lock);
    return count;
}

typedef struct sweep {
    tpt_map_t kept;
    uint64_t since; /* programs that ran since then stay */
    int64_t dropped;
} sweep_t;

static void sweep_prog(void *user, const tpt_map_entry_t *entry) {
    sweep_t *s = user;
    tpt_prog_t *prog = entry->value;
    bool keep = atomic_load_explicit(&prog->used, memory_order_relaxed) >= s->since;
    tpt_status_t *status = keep ? tpt_map_put(&s->kept, entry->hash, entry->key, entry->key_words, prog) : NULL;
    if (keep && !status) return;
    tpt_status_free(status);
    tpt_prog_free(prog);
    s->dropped++;
}

int64_t tpt_progs_drop_old(void) {
    sweep_t s;
    tpt_map_init(&s.kept, MAX_PROGS);
    tpt_mutex_lock(&progs_lock);
    size_t before = progs.count;
    s.since = atomic_load(&made) - before / 2;
    s.dropped = 0;
    tpt_map_each(&progs, sweep_prog, &s);
    tpt_map_free(&progs);
    progs = s.kept;
    tpt_mutex_unlock(&progs_lock);
    return s.dropped;
}

static void drop_prog(void *user, const tpt_map_entry_t *entry) {
    (void)user;
    tpt_prog_free(entry->value);
}

void tpt_progs_clear(void) {
    tpt_mutex_lock(&progs_lock);
    tpt_map_each(&progs, drop_prog, NULL);
    tpt_map_free(&progs);
    tpt_map_init(&progs, MAX_PROGS);
    tpt_mutex_unlock(&progs_lock);
}
