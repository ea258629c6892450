/* env.h - the one table of environment variables. docs/environment.md is generated from it. */
#ifndef TPT_BASE_ENV_H
#define TPT_BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* X(id, name, default, help) */
#define TPT_ENV_TABLE(X)                                                                                                   \
    X(PLUGIN, "TORCH_TPU_PJRT_PLUGIN", "", "PJRT plugin: a path, or cpu, tpu, cuda")                                       \
    X(TPU_LIBRARY, "TPU_LIBRARY_PATH", "", "path of a PJRT plugin, used when TORCH_TPU_PJRT_PLUGIN is not set")            \
    X(DEFAULT_PLUGIN, "TORCH_TPU_DEFAULT_PLUGIN", "", "set by the Python package: path of the embedded CPU plugin")        \
    X(NUM_DEVICES, "TORCH_TPU_NUM_DEVICES", "1", "devices to ask a CPU plugin for")                                        \
    X(NPROC, "NPROC", "", "threads that a CPU plugin computes with, a name of XLA's; default: one a core")                  \
    X(CPU_FALLBACK, "TORCH_TPU_CPU_FALLBACK", "0", "1: ops that the device lacks run on the host, warned once an op")      \
    X(HOST_ROUTINES, "TORCH_TPU_HOST_ROUTINES", "1", "0: ops that have a device program run it on CPU plugins too")        \
    X(INDEX_CHECKS, "TORCH_TPU_INDEX_CHECKS", "1", "0: no out-of-range check of user-given indices")                       \
    X(LOG, "TORCH_TPU_LOG", "off", "off, error, warn, info or debug, to stderr")                                           \
    X(PLUGIN_LOG, "TORCH_TPU_PLUGIN_LOG", "0", "1: show the plugin's own log lines")                                       \
    X(DUMP, "TORCH_TPU_DUMP", "", "folder that gets the StableHLO text of every compiled program")                         \
    X(DONATE, "TORCH_TPU_DONATE", "1", "0: never donate buffers to in-place updates")                                      \
    X(HEAP_KEEP, "TORCH_TPU_HEAP_KEEP", "134217728", "bytes of freed memory that the C heap keeps beyond what was in use within the last second or so, while a CPU plugin's buffers come from it; 0: the C library's own choice") \
    X(CACHE, "TORCH_TPU_CACHE", "1", "0: compiled programs are kept in memory only")                                         \
    X(CACHE_DIR, "TORCH_TPU_CACHE_DIR", "", "directory of the compile cache; default: torch_tpu in the user's cache directory") \
    X(CACHE_BYTES, "TORCH_TPU_CACHE_MAX_BYTES", "8589934592", "size of that directory; what was not used for longest goes")  \
    X(CACHE_WAIT, "TORCH_TPU_CACHE_WAIT", "120", "seconds to wait for a program that another process compiles")              \
    X(CACHE_REMOTE_WAIT, "TORCH_TPU_CACHE_REMOTE_WAIT", "100", "head start in ms of a remote read over a local compile; twenty times that while another host compiles") \
    X(CACHE_TRANSPORT, "TORCH_TPU_CACHE_TRANSPORT", "", "set by the Python package: the program that speaks with the remote cache") \
    X(COMPILE_THREADS, "TORCH_TPU_COMPILE_THREADS", "-1", "programs compiled at once while the caller goes on; 0: it waits for each; -1: one a core, none on one core") \
    X(COMPILE_ONLY, "TORCH_TPU_COMPILE_ONLY", "0", "1: programs are compiled but not run; their results are zeros")         \
    X(MAX_PROGRAMS, "TORCH_TPU_MAX_PROGRAMS", "0", "loaded programs that a process keeps; what was not used for longest goes. 0: what the device and the process' limit of mappings allow") \
    X(TIER2, "TORCH_TPU_TIER2_COMPILATION_CACHE", "", "TorchTPU's name for the directory: a path, or a folder in the user's cache") \
    X(TIER3, "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT", "", "URL of a remote compile cache, of any kind that fsspec knows")   \
    X(DEFER_AND_FUSE, "TORCH_TPU_DEFER_AND_FUSE", "0", "1: fused eager mode")                                              \
    X(FUSE_LAZY, "TORCH_TPU_FUSE_LAZY", "1", "0: fused mode compiles a graph the first time it is met, not the second")        \
    X(FUSE_BYTES, "TORCH_TPU_FUSE_MAX_BYTES", "0", "bytes of results that fused mode holds back at most; 0: half of the device's memory, 2 GB if that is not known") \
    X(BLOCKING, "TORCH_TPU_LAUNCH_BLOCKING", "0", "1: wait after every op (debug mode)")

typedef enum tpt_env {
#define TPT_ENV_ENUM(id, name, def, help) TPT_ENV_##id,
    TPT_ENV_TABLE(TPT_ENV_ENUM)
#undef TPT_ENV_ENUM
        TPT_ENV_COUNT
} tpt_env_t;

const char *tpt_env_name(tpt_env_t var);
const char *tpt_env_get(tpt_env_t var); /* never NULL; the default when unset */
bool tpt_env_flag(tpt_env_t var);       /* "", "0", "false", "off", "no" are false */
/* A value that is none or out of range is warned of and replaced. */
int64_t tpt_env_int(tpt_env_t var, int64_t lowest, int64_t highest);
/* The same, for what must not be guessed. */
TPT_MUST_USE tpt_status_t *tpt_env_whole(tpt_env_t var, int64_t lowest, int64_t highest, int64_t *out_value);

#endif
