/* plugin.c - finds and loads a plugin's shared library, with one clear sentence for each way this can fail. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "pjrt/null/null.h"
#include "pjrt/pjrt_internal.h"

typedef const PJRT_Api *(*get_api_fn)(void);

/* Plugins whose one-time initialization was done. Libraries are never unloaded: their threads outlive clients. */
#define MAX_PLUGINS 16
static tpt_mutex_t plugin_lock = TPT_MUTEX_INIT;
static const PJRT_Api *plugin_ready[MAX_PLUGINS];
static int plugin_count;

/* The entries that nothing works without. */
/* clang-format off */
#define NEEDED(X)                              \
    X(PJRT_Error_Destroy)                      \
    X(PJRT_Error_Message)                      \
    X(PJRT_Event_Destroy)                      \
    X(PJRT_Event_Await)                        \
    X(PJRT_Client_Create)                      \
    X(PJRT_Client_Destroy)                     \
    X(PJRT_Client_AddressableDevices)          \
    X(PJRT_Client_Compile)                     \
    X(PJRT_Client_BufferFromHostBuffer)        \
    X(PJRT_Buffer_Destroy)                     \
    X(PJRT_Buffer_ReadyEvent)                  \
    X(PJRT_Buffer_ToHostBuffer)                \
    X(PJRT_LoadedExecutable_Destroy)           \
    X(PJRT_LoadedExecutable_GetExecutable)     \
    X(PJRT_LoadedExecutable_Execute)           \
    X(PJRT_Executable_Destroy)                 \
    X(PJRT_Executable_NumOutputs)
/* clang-format on */

static tpt_status_t *plugin_check_file(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        tpt_code_t code = errno == EACCES ? TPT_PERMISSION_DENIED : TPT_NOT_FOUND;
        return tpt_status_make(code, "PJRT plugin '%s' cannot be opened: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) return tpt_status_make(TPT_INVALID_ARGUMENT, "PJRT plugin '%s' is not a file", path);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return tpt_status_make(TPT_PERMISSION_DENIED, "PJRT plugin '%s' cannot be read: %s", path, strerror(errno));
    }
    unsigned char magic[4] = {0};
    size_t got = fread(magic, 1, sizeof magic, file);
    (void)fclose(file);
    if (got != sizeof magic || memcmp(magic, "\177ELF", sizeof magic) != 0) {
        return tpt_status_make(TPT_INVALID_ARGUMENT, "PJRT plugin '%s' is not a shared library", path);
    }
    return NULL;
}

/* A bare name that is no file here is left to the loader's search path; all else becomes an absolute path. */
static tpt_status_t *plugin_resolve(const char *path, char **out_path) {
    char *real = NULL;
    if (strchr(path, '/') != NULL || access(path, F_OK) == 0) {
        TPT_TRY(plugin_check_file(path));
        real = realpath(path, NULL);
    }
    const char *chosen = real != NULL ? real : path;
    char *copy = tpt_malloc(strlen(chosen) + 1);
    if (copy != NULL) strcpy(copy, chosen);
    free(real);
    if (copy == NULL) return tpt_status_oom(strlen(path) + 1);
    *out_path = copy;
    return NULL;
}

/* The plugins' own chatter goes to stderr; their errors come back as statuses all the same. */
static void plugin_prepare_environment(const char *path, bool show_log) {
    if (!show_log) (void)setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
    if (strstr(path, "libtpu") != NULL)
        (void)setenv("TPU_SKIP_MDS_QUERY", "1", 0); /* else it asks a metadata server for minutes */
}

static tpt_status_t *plugin_open(const char *path, bool show_log, const PJRT_Api **out_table) {
    plugin_prepare_environment(path, show_log);
    void *library = dlopen(path, RTLD_LOCAL | RTLD_NOW);
    if (library == NULL) {
        const char *why = dlerror();
        tpt_code_t code = strchr(path, '/') == NULL ? TPT_NOT_FOUND : TPT_INVALID_ARGUMENT;
        return tpt_status_make(code, "PJRT plugin '%s' cannot be loaded: %s", path, why == NULL ? "unknown reason" : why);
    }
    get_api_fn get_api = NULL;
    void *symbol = dlsym(library, "GetPjrtApi");
    memcpy(&get_api, &symbol, sizeof get_api); /* ISO C has no cast from object to function pointer */
    if (get_api == NULL) {
        (void)dlclose(library);
        return tpt_status_make(TPT_INVALID_ARGUMENT, "'%s' is not a PJRT plugin: it has no function GetPjrtApi", path);
    }
    *out_table = get_api();
    if (*out_table == NULL) return tpt_status_make(TPT_INTERNAL, "PJRT plugin '%s': GetPjrtApi returned nothing", path);
    return NULL;
}

/* Copies what both sides know of the table; the rest stays NULL and so counts as missing. */
static tpt_status_t *plugin_copy_table(const char *path, const PJRT_Api *table, PJRT_Api *out_api) {
    size_t least = offsetof(PJRT_Api, pjrt_api_version) + sizeof(PJRT_Api_Version);
    if (table->struct_size < least) {
        return tpt_status_make(TPT_INVALID_ARGUMENT, "PJRT plugin '%s': its table of %zu bytes is too short", path,
                               table->struct_size);
    }
    size_t size = table->struct_size < sizeof *out_api ? table->struct_size : sizeof *out_api;
    memset(out_api, 0, sizeof *out_api);
    memcpy(out_api, table, size - size % sizeof(void *)); /* no half pointers */
    int major = out_api->pjrt_api_version.major_version;
    if (major != PJRT_API_MAJOR) {
        return tpt_status_make(TPT_FAILED_PRECONDITION,
                               "PJRT plugin '%s' has API version %d.%d; this build needs major version %d", path, major,
                               out_api->pjrt_api_version.minor_version, PJRT_API_MAJOR);
    }
#define CHECK_NEEDED(name)     \
    if (out_api->name == NULL) \
        return tpt_status_make(TPT_UNIMPLEMENTED, "PJRT plugin '%s' lacks " #name ", which is needed", path);
    NEEDED(CHECK_NEEDED)
#undef CHECK_NEEDED
    return NULL;
}

static tpt_status_t *plugin_initialize(const char *path, const PJRT_Api *table, const PJRT_Api *api) {
    for (int i = 0; i < plugin_count; i++) {
        if (plugin_ready[i] == table) return NULL;
    }
    if (plugin_count == MAX_PLUGINS) {
        return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "more than %d PJRT plugins in one process", MAX_PLUGINS);
    }
    if (api->PJRT_Plugin_Initialize != NULL) {
        PJRT_Plugin_Initialize_Args args = TPT_ARGS(PJRT_Plugin_Initialize_Args, .extension_start = NULL);
        TPT_TRY_MSG(tpt_pjrt_error(api, api->PJRT_Plugin_Initialize(&args)), "initializing PJRT plugin '%s'", path);
    }
    plugin_ready[plugin_count++] = table;
    return NULL;
}

tpt_status_t *tpt_pjrt_plugin_load(const char *path, bool show_log, PJRT_Api *out_api, char **out_path) {
    if (path == NULL || *path == '\0') return tpt_status_make(TPT_INVALID_ARGUMENT, "no PJRT plugin is given");
    bool is_null = strcmp(path, "null") == 0;
    char *real = NULL;
    if (is_null) {
        real = tpt_malloc(sizeof "null");
        if (real == NULL) return tpt_status_oom(sizeof "null");
        strcpy(real, "null");
    } else {
        TPT_TRY(plugin_resolve(path, &real));
    }
    tpt_mutex_lock(&plugin_lock);
    const PJRT_Api *table = tpt_null_api();
    tpt_status_t *status = is_null ? NULL : plugin_open(real, show_log, &table);
    if (status == NULL) status = plugin_copy_table(real, table, out_api);
    if (status == NULL) status = plugin_initialize(real, table, out_api);
    tpt_mutex_unlock(&plugin_lock);
    if (status != NULL) {
        tpt_free(real);
        return status;
    }
    *out_path = real;
    return NULL;
}
