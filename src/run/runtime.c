/* runtime.c - the one client of the process, its devices, and settings. */
#include <stdlib.h>
#include <string.h>

#include "base/crew.h"
#include "run_internal.h"

static tpt_mutex_t open_lock = TPT_MUTEX_INIT;
static _Atomic(tpt_client_t *) the_client;
static tpt_dev_t devices[TPT_MAX_DEVICES];
static int device_count;
static char plugin_path[4096];
static int plugin_devices;
static atomic_int chosen_precision = TPT_PRECISION_UNSET, wished_precision = TPT_PRECISION_UNSET;
static atomic_int usual_precision = TPT_PRECISION_HIGHEST; /* the plugin's */
static atomic_bool on_processor;
static atomic_int index_checks = -1, donate = -1; /* -1: not yet read from the environment */

/* ---- opening ------------------------------------------------------------------------------------------------------- */

tpt_status_t *tpt_plugin_select(const char *path, int num_devices) {
    tpt_status_t *status = NULL;
    tpt_mutex_lock(&open_lock);
    if (strlen(path) >= sizeof plugin_path) {
        status = tpt_status_make(TPT_INVALID_ARGUMENT, "the path of the PJRT plugin is too long");
    } else if (atomic_load(&the_client) && strcmp(path, plugin_path) != 0) {
        status = tpt_status_make(TPT_FAILED_PRECONDITION, "device tpu is already open with the plugin %s", plugin_path);
    } else {
        memcpy(plugin_path, path, strlen(path) + 1);
        plugin_devices = num_devices;
    }
    tpt_mutex_unlock(&open_lock);
    return status;
}

static const char *chosen_path(void) {
    if (*plugin_path) return plugin_path;
    if (*tpt_env_get(TPT_ENV_PLUGIN)) return tpt_env_get(TPT_ENV_PLUGIN);
    if (*tpt_env_get(TPT_ENV_TPU_LIBRARY)) return tpt_env_get(TPT_ENV_TPU_LIBRARY);
    return tpt_env_get(TPT_ENV_DEFAULT_PLUGIN);
}

/* The plugin's threads do not survive a fork: a child that used its client would hang. The child forgets it, on purpose
 * without freeing anything, and every later use of the device is refused. */
static atomic_bool forked;
static void after_fork_in_child(void) {
    if (!atomic_load(&the_client)) return;
    atomic_store(&forked, true);
    atomic_store(&the_client, NULL);
}

static void init_device(int i) {
    tpt_dev_t *dev = &devices[i];
    memset(dev, 0, sizeof *dev);
    pthread_mutex_init(&dev->lock, NULL);
    dev->index = i;
    dev->graph.epoch = 1;
    atomic_init(&dev->clock, 1);
    tpt_map_init(&dev->constants, 1 << 16);
}

static tpt_status_t *open_client(void) {
    if (atomic_load(&forked))
        return tpt_status_make(TPT_FAILED_PRECONDITION, "Cannot use device tpu in a forked subprocess: its runtime was opened before the "
                                                        "fork. To use tpu with multiprocessing, use the 'spawn' start method");
    static atomic_flag handled = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&handled)) pthread_atfork(NULL, NULL, after_fork_in_child);
    const char *path = chosen_path();
    if (!*path)
        return tpt_status_make(TPT_NOT_FOUND, "no PJRT plugin for device tpu: pip install xla-cpu-pjrt==0.0.1, or set %s to the path of one",
                               tpt_env_name(TPT_ENV_PLUGIN));
    tpt_client_options_t options = {.show_plugin_log = tpt_env_flag(TPT_ENV_PLUGIN_LOG)};
    int64_t wanted = plugin_devices;
    if (wanted <= 0) TPT_TRY(tpt_env_whole(TPT_ENV_NUM_DEVICES, 1, TPT_MAX_DEVICES, &wanted));
    options.num_devices = (int)wanted;
    tpt_client_t *client;
    TPT_TRY_MSG(tpt_client_open(path, &options, &client), "opening device tpu");
    int count = tpt_client_device_count(client);
    device_count = count < TPT_MAX_DEVICES ? count : TPT_MAX_DEVICES;
    for (int i = 0; i < device_count; i++) init_device(i);
    if (path != plugin_path && strlen(path) < sizeof plugin_path) memcpy(plugin_path, path, strlen(path) + 1);
    tpt_prog_cache_open(client);
    bool tpu = strcmp(tpt_client_platform(client), "tpu") == 0;
    atomic_store(&usual_precision, tpu ? TPT_PRECISION_DEFAULT : TPT_PRECISION_HIGHEST);
    atomic_store(&on_processor, tpt_client_host_code(client));
    const int64_t keep = tpt_client_host_code(client) ? tpt_env_int(TPT_ENV_HEAP_KEEP, 0, INT32_MAX) : 0;
    if (keep > 0) tpt_heap_keep((long)keep);
    atomic_store(&the_client, client);
    return NULL;
}

tpt_status_t *tpt_runtime_open(void) {
    if (atomic_load_explicit(&the_client, memory_order_acquire)) return NULL;
    tpt_mutex_lock(&open_lock);
    tpt_status_t *status = atomic_load(&the_client) ? NULL : open_client();
    tpt_mutex_unlock(&open_lock);
    return status;
}

bool tpt_devs_stop(tpt_dev_t *dev) {
    for (int i = 0; i < device_count; i++) {
        if (&devices[i] == dev || tpt_mutex_try(&devices[i].lock)) continue;
        while (--i >= 0)
            if (&devices[i] != dev) tpt_mutex_unlock(&devices[i].lock);
        return false;
    }
    return true;
}

void tpt_devs_go(tpt_dev_t *dev) {
    for (int i = 0; i < device_count; i++)
        if (&devices[i] != dev) tpt_mutex_unlock(&devices[i].lock);
}

int tpt_runtime_devices(void) { return tpt_runtime_is_open() ? device_count : 0; }
bool tpt_runtime_is_open(void) { return atomic_load_explicit(&the_client, memory_order_acquire) != NULL; }
tpt_client_t *tpt_runtime_client(void) { return atomic_load_explicit(&the_client, memory_order_acquire); }

/* Waits for what is being computed, whoever may want it: plugins don't when the process ends, but take themselves apart. What
 * hangs on a program that never came will not be computed. */
static void finish(tpt_dev_t *dev) {
    tpt_mutex_lock(&dev->lock);
    for (tpt_storage_t *s = dev->storages; s; s = s->next)
        if (s->buffer && tpt_buffer_is_made(s->buffer)) tpt_status_free(tpt_buffer_await(s->buffer));
    tpt_status_free(tpt_client_await_dropped(tpt_runtime_client(), dev->index));
    tpt_mutex_unlock(&dev->lock);
}

void tpt_runtime_end(void) {
    tpt_programs_end();
    tpt_ahead_end();
    tpt_race_drain();
    for (int i = 0; tpt_runtime_is_open() && i < device_count; i++) finish(&devices[i]);
    if (!atomic_load(&forked)) tpt_crew_end(); /* a child has no members */
}

void tpt_runtime_empty_cache(void) {
    if (atomic_load(&on_processor)) tpt_heap_trim();
}

void tpt_runtime_close(void) {
    tpt_mutex_lock(&open_lock);
    tpt_client_t *client = atomic_exchange(&the_client, NULL);
    if (client) {
        for (int i = 0; i < device_count; i++) {
            tpt_dev_t *dev = &devices[i];
            tpt_graph_reset(&dev->graph);
            tpt_status_free(tpt_client_await_dropped(client, i));
            tpt_graph_free(&dev->graph);
            tpt_graph_free(&dev->single);
            tpt_fuse_clear(dev);
            tpt_flags_clear(dev);
            tpt_constants_clear(dev);
            tpt_map_free(&dev->constants);
            pthread_mutex_destroy(&dev->lock);
        }
        tpt_ahead_drain();
        tpt_programs_drain();
        tpt_race_drain();
        tpt_progs_clear();
        tpt_dry_clear();
        tpt_cache_close();
        tpt_plans_clear();
        tpt_client_close(client);
        tpt_crew_end();
        device_count = 0;
        *plugin_path = '\0';
    }
    tpt_mutex_unlock(&open_lock);
}

/* ---- devices ------------------------------------------------------------------------------------------------------- */

tpt_dev_t *tpt_dev(int device) { return &devices[device]; }

tpt_status_t *tpt_dev_get(int device, tpt_dev_t **out_dev) {
    TPT_TRY(tpt_runtime_open());
    if (device < 0 || device >= device_count)
        return tpt_status_make(TPT_INVALID_ARGUMENT, "there is no device tpu:%d: the plugin has %d (TORCH_TPU_NUM_DEVICES asks a CPU plugin for more)",
                               device, device_count);
    *out_dev = &devices[device];
    return NULL;
}

tpt_status_t *tpt_device_count(int *out_count) {
    TPT_TRY(tpt_runtime_open());
    *out_count = device_count;
    return NULL;
}

const char *tpt_device_kind(int device) {
    tpt_client_t *client = tpt_runtime_client();
    return client && device >= 0 && device < device_count ? tpt_client_device_kind(client, device) : "";
}
const char *tpt_platform_name(void) { return tpt_runtime_is_open() ? tpt_client_platform(tpt_runtime_client()) : ""; }
const char *tpt_platform_version(void) { return tpt_runtime_is_open() ? tpt_client_platform_version(tpt_runtime_client()) : ""; }

bool tpt_row_on_host(const tpt_row_t *row) {
    if ((row->flags & TPT_ROW_HOST_CPU) == 0) return (row->flags & TPT_ROW_HOST) != 0;
    return strcmp(tpt_platform_name(), "cpu") == 0 && tpt_env_flag(TPT_ENV_HOST_ROUTINES);
}

const char *tpt_plugin_path(void) { return plugin_path; }

void tpt_plugin_api_version(int *out_major, int *out_minor) {
    *out_major = *out_minor = 0;
    if (tpt_runtime_is_open()) tpt_client_api_version(tpt_runtime_client(), out_major, out_minor);
}

tpt_status_t *tpt_device_memory(int device, tpt_memory_stats_t *out_stats) {
    tpt_dev_t *dev;
    TPT_TRY(tpt_dev_get(device, &dev));
    tpt_status_t *status = tpt_client_memory(tpt_runtime_client(), device, out_stats);
    if (!status) return NULL;
    if (tpt_status_code(status) != TPT_UNIMPLEMENTED) return status;
    tpt_status_free(status); /* the plugin keeps no statistics: our own live buffers */
    memset(out_stats, 0, sizeof *out_stats);
    out_stats->in_use = tpt_buffer_live_bytes(device, &out_stats->peak);
    return NULL;
}

void tpt_device_memory_reset_peak(int device) {
    if (tpt_runtime_is_open()) tpt_buffer_reset_peak(device);
}

void tpt_dev_idle(tpt_dev_t *dev) {
    atomic_fetch_add_explicit(&dev->clock, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&on_processor, memory_order_relaxed)) return;
    int64_t high = 0;
    for (int i = 0; i < device_count; i++) high += tpt_buffer_high_bytes(i);
    tpt_heap_used(high);
}

/* Waits for each living value, and for those that were dropped before they were ready. */
static tpt_status_t *synchronize(tpt_dev_t *dev) {
    tpt_mutex_lock(&dev->lock);
    tpt_status_t *status = tpt_graph_run(dev, TPT_CUT_SYNCHRONIZE);
    for (tpt_storage_t *s = dev->storages; s; s = s->next) {
        if (s->error || !s->buffer) continue;
        tpt_status_t *failed = tpt_buffer_await(s->buffer);
        if (failed) {
            if (!tpt_storage_give_back(dev, s)) s->error = tpt_status_copy(failed);
            status = tpt_status_join(status, failed);
        }
    }
    tpt_programs_drain(); /* runs that waited for their program hold their arguments until they are over */
    status = tpt_status_join(status, tpt_client_await_dropped(tpt_runtime_client(), dev->index));
    status = tpt_status_join(status, tpt_flags_check(dev, true));
    tpt_dev_idle(dev);
    tpt_mutex_unlock(&dev->lock);
    return status;
}

tpt_status_t *tpt_device_synchronize(int device) {
    if (!tpt_runtime_is_open() && device <= 0) return NULL; /* nothing was ever given to it */
    tpt_dev_t *dev = NULL;
    if (device >= 0) {
        TPT_TRY(tpt_dev_get(device, &dev));
        return synchronize(dev);
    }
    tpt_status_t *status = NULL;
    for (int i = 0; i < device_count; i++) status = tpt_status_join(status, synchronize(&devices[i]));
    return status;
}

/* ---- settings ------------------------------------------------------------------------------------------------------ */

void tpt_precision_set(tpt_precision_t precision) { atomic_store(&chosen_precision, precision); }
void tpt_precision_wish(tpt_precision_t precision) { atomic_store_explicit(&wished_precision, precision, memory_order_relaxed); }
tpt_precision_t tpt_precision_chosen(void) { return (tpt_precision_t)atomic_load(&chosen_precision); }

tpt_precision_t tpt_precision_get(void) {
    int found = atomic_load_explicit(&chosen_precision, memory_order_relaxed);
    if (found < 0) found = atomic_load_explicit(&wished_precision, memory_order_relaxed);
    if (found < 0) found = atomic_load_explicit(&usual_precision, memory_order_relaxed);
    return (tpt_precision_t)found;
}

bool tpt_precision_matters(void) { return !atomic_load_explicit(&on_processor, memory_order_relaxed); }

static bool setting(atomic_int *value, tpt_env_t var) {
    int now = atomic_load_explicit(value, memory_order_relaxed);
    if (now < 0) atomic_store(value, now = tpt_env_flag(var));
    return now != 0;
}
void tpt_index_checks_set(bool on) { atomic_store(&index_checks, on); }
bool tpt_index_checks_on(void) { return setting(&index_checks, TPT_ENV_INDEX_CHECKS); }
bool tpt_env_donate(void) { return setting(&donate, TPT_ENV_DONATE); }
