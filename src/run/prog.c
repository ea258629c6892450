/* prog.c - compiled programs and their table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "run_internal.h"

#define MAX_PROGS (1 << 18)

static tpt_mutex_t progs_lock = TPT_MUTEX_INIT;
static tpt_map_t progs = {.max = MAX_PROGS};

void tpt_prog_free(tpt_prog_t *prog) {
    if (!prog) return;
    tpt_program_release(prog->program);
    for (int k = 0; k < TPT_PACK_COUNT; k++) tpt_free(prog->packs[k].entries);
    tpt_free(prog->bad_sizes);
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

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

tpt_status_t *tpt_prog_compile(tpt_prog_t *prog, const char *text, int device) {
    size_t bytes = strlen(text);
    dump(text, bytes);
    int64_t before = now_ns();
    tpt_compile_options_t options = {.device = device, .exact_minmax = true, .tiny = prog->tiny};
    TPT_TRY_MSG(tpt_program_compile(tpt_runtime_client(), text, bytes, &options, &prog->program),
                "compiling a program of %d ops", prog->nnodes);
    tpt_counter_add(TPT_COUNTER_compiles, 1);
    tpt_counter_add(TPT_COUNTER_compile_ns, now_ns() - before);
    if (tpt_program_nouts(prog->program) != prog->nresults)
        return tpt_status_make(TPT_INTERNAL, "a program of %d results was compiled to one of %d", prog->nresults,
                               tpt_program_nouts(prog->program));
    return NULL;
}

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
    tpt_mutex_lock(&progs_lock);
    tpt_status_t *status = tpt_map_put(&progs, hash, key, words, prog);
    tpt_mutex_unlock(&progs_lock);
    return status;
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
