/* pjrt.h - the door of src/pjrt: a plugin's client, buffers and programs, without pjrt_c_api.h.
 *
 * One client a process. All functions are thread-safe. Optional entries of the plugin's table are optional here: what is
 * missing degrades or gives TPT_UNIMPLEMENTED, never a crash. */
#ifndef TPT_PJRT_PJRT_H
#define TPT_PJRT_PJRT_H

#include "base/status.h"

typedef struct tpt_client tpt_client_t;
typedef struct tpt_buffer tpt_buffer_t;   /* reference counted */
typedef struct tpt_program tpt_program_t; /* a loaded executable; reference counted */

/* ---- client -------------------------------------------------------------------------------------------------------- */
typedef struct tpt_client_options {
    int num_devices; /* asked of a CPU plugin; <= 0: the plugin's own default */
    bool show_plugin_log;
} tpt_client_options_t;
/* Opens the shared library `path` ("null" = the built-in fake plugin of tests) and makes a client. One clear sentence for: no
 * such file, not readable, not a shared library, no GetPjrtApi, another major API version, device held by another process. */
TPT_MUST_USE tpt_status_t *tpt_client_open(const char *path, const tpt_client_options_t *options, tpt_client_t **out_client);
/* NULL is fine. Live buffers and programs keep the client until they are released. */
void tpt_client_close(tpt_client_t *client);
int tpt_client_device_count(const tpt_client_t *client); /* addressable ones */
const char *tpt_client_device_kind(const tpt_client_t *client, int device);
const char *tpt_client_platform(const tpt_client_t *client);
const char *tpt_client_platform_version(const tpt_client_t *client);
void tpt_client_api_version(const tpt_client_t *client, int *out_major, int *out_minor);
const char *tpt_client_path(const tpt_client_t *client);
/* Every device of the client's machine in the plugin's words (kind, place in the topology); the caller's to free with tpt_free. */
TPT_MUST_USE tpt_status_t *tpt_client_topology(const tpt_client_t *client, char **out_text);
bool tpt_client_host_code(const tpt_client_t *client); /* programs run on this machine's own processor */
bool tpt_client_has_kernels(const tpt_client_t *client); /* programs may call our C routines (kernels.c) */
bool tpt_client_host_memory(const tpt_client_t *client); /* buffers are plain host memory (CPU plugins): pointers can be read */
/* One program runs on every device (tried once, at the first compile); else programs are compiled for one device. Single-device
 * clients always say false. */
bool tpt_client_portable(tpt_client_t *client);
/* false: max and min reductions of this plugin lose NaN whatever the compile options say, so programs must test for it. */
bool tpt_client_reduce_keeps_nan(const tpt_client_t *client);
bool tpt_client_donation_waits(const tpt_client_t *client); /* does taking over a buffer wait for what still reads it? */
/* TPT_UNIMPLEMENTED when the plugin keeps no statistics (then the caller counts by itself). */
TPT_MUST_USE tpt_status_t *tpt_client_memory(tpt_client_t *client, int device, tpt_memory_stats_t *out_stats);

/* ---- buffers ------------------------------------------------------------------------------------------------------- */
/* Dense row-major host data; it has been read when the call returns. */
TPT_MUST_USE tpt_status_t *tpt_buffer_from_host(tpt_client_t *client, int device, tpt_dtype_t dtype, int rank,
                                                const int64_t *dims, const void *data, tpt_buffer_t **out_buffer);
void tpt_buffer_retain(tpt_buffer_t *buffer);
void tpt_buffer_release(tpt_buffer_t *buffer); /* the last one destroys the PJRT buffer; NULL is fine */
int tpt_buffer_refs(const tpt_buffer_t *buffer);
/* A program took its memory over, and destroying the handle would wait for it (tpt_client_donation_waits): it is put away. */
void tpt_buffer_note_given(tpt_buffer_t *buffer);
/* When a program that may run for a while read it last, by the caller's clock; 0: never. */
void tpt_buffer_note_use(tpt_buffer_t *buffer, uint64_t time);
uint64_t tpt_buffer_last_use(const tpt_buffer_t *buffer);
int64_t tpt_buffer_nbytes(const tpt_buffer_t *buffer); /* of the dense host form */
int tpt_buffer_device(const tpt_buffer_t *buffer);
/* `buffer` is an update of `before`, which storages get back when the update's program cannot be compiled. NULL forgets that; a
 * value that is there already needs none. */
void tpt_buffer_set_before(tpt_buffer_t *buffer, tpt_buffer_t *before);
/* Of a value that could not be made so: the last one before it that could, the caller's to release; else NULL. */
tpt_buffer_t *tpt_buffer_get_before(const tpt_buffer_t *buffer);
/* Releases a value that nobody can see any more. If it is still being computed, tpt_client_await_dropped waits for it; where much is,
 * so does the caller, for the eldest. A promise's bytes are none of tpt_buffer_live_bytes from then on. NULL is fine. */
void tpt_buffer_drop(tpt_buffer_t *buffer);
/* Waits for what was dropped on a device; the errors of all. Promises first have to be kept: tpt_programs_drain. */
TPT_MUST_USE tpt_status_t *tpt_client_await_dropped(tpt_client_t *client, int device);
/* Waits until the value is there; the error of the program that should have made it. */
TPT_MUST_USE tpt_status_t *tpt_buffer_await(tpt_buffer_t *buffer);
bool tpt_buffer_is_ready(tpt_buffer_t *buffer);
bool tpt_buffer_is_made(const tpt_buffer_t *buffer);   /* no promise any more: its program was started, or failed */
bool tpt_buffer_is_broken(const tpt_buffer_t *buffer); /* a promise that its program could not keep */
/* Waits, then copies bytes [offset, offset + nbytes) of the dense row-major form. Fast (memcpy) on host-memory plugins. */
TPT_MUST_USE tpt_status_t *tpt_buffer_to_host(tpt_buffer_t *buffer, int64_t offset, int64_t nbytes, void *dst);
/* To the buffer's own device: another reference to the same buffer. */
TPT_MUST_USE tpt_status_t *tpt_buffer_copy_to_device(tpt_buffer_t *buffer, int device, tpt_buffer_t **out_buffer);
/* Bytes of all live buffers of a device as we count them, and their peak. */
int64_t tpt_buffer_live_bytes(int device, int64_t *out_peak);
void tpt_buffer_reset_peak(int device);
int64_t tpt_buffer_high_bytes(int device); /* the most since the last call, for one caller */

/* ---- programs ------------------------------------------------------------------------------------------------------ */
/* How the loops of a program are best compiled on CPU plugins; elsewhere it means nothing. */
typedef struct tpt_loops {
    bool tiny;     /* over a few elements: compile cheaply, however slow they are */
    bool plain;    /* XLA's fusion emitters gain nothing here: do without them */
    bool one_core; /* too short to be split among cores: waking another one takes longer */
} tpt_loops_t;
typedef struct tpt_compile_options {
    int device;          /* compiled portable where the plugin can run it on any device, else for this one */
    bool exact_minmax;   /* NaN-propagating min/max on CPU plugins */
    bool excess_precision; /* let XLA keep halves in float32 inside a program */
    tpt_loops_t loops;
} tpt_compile_options_t;
/* `text`: StableHLO (MLIR text). */
TPT_MUST_USE tpt_status_t *tpt_program_compile(tpt_client_t *client, const char *text, size_t bytes,
                                               const tpt_compile_options_t *options, tpt_program_t **out_program);
/* The compiler's options as bytes, for keys of caches: what we ask for, whatever of it the plugin turns out not to know. */
#define TPT_OPTIONS_MAX 1024
size_t tpt_program_options(tpt_client_t *client, const tpt_compile_options_t *options, unsigned char out[TPT_OPTIONS_MAX]);
/* Serialized form for caches; `out_data` is freed with tpt_free (base/alloc.h). */
TPT_MUST_USE tpt_status_t *tpt_program_serialize(tpt_program_t *program, void **out_data, size_t *out_bytes);
TPT_MUST_USE tpt_status_t *tpt_program_load(tpt_client_t *client, const void *data, size_t bytes,
                                            const tpt_compile_options_t *options, tpt_program_t **out_program);
/* A program that is still being compiled: it can be run at once, its results are promises. A failed compile becomes the error of
 * everything that hangs on it. tpt_program_keep_promise takes the program or the error over. */
TPT_MUST_USE tpt_status_t *tpt_program_promise(tpt_client_t *client, int device, int nouts, const int64_t *out_nbytes,
                                               tpt_program_t **out_program);
void tpt_program_keep_promise(tpt_program_t *promise, tpt_program_t *real, tpt_status_t *status);
void tpt_programs_end(void);   /* the process ends: what waits never begins */
void tpt_programs_drain(void); /* waits until all runs have begun */
/* False while it is being compiled, and for ever if that has failed. */
bool tpt_program_is_ready(const tpt_program_t *program);
void tpt_program_retain(tpt_program_t *program);
void tpt_program_release(tpt_program_t *program);
int tpt_program_nouts(const tpt_program_t *program);
/* Runs asynchronously on `device`. `keep` lists the arguments that must not be donated (sorted). Arguments that were donated are
 * dead afterwards: the caller drops them. out_buffers: tpt_program_nouts, each the caller's to release. */
TPT_MUST_USE tpt_status_t *tpt_program_execute(tpt_program_t *program, int device, int nargs, tpt_buffer_t *const *args,
                                               int nkeep, const int64_t *keep, int nouts, tpt_buffer_t **out_buffers);
/* Bytes of arguments, outputs, aliased and temporary memory; TPT_UNIMPLEMENTED where the plugin does not say. */
typedef struct tpt_program_memory {
    int64_t arguments, outputs, aliased, temporary, code;
} tpt_program_memory_t;
TPT_MUST_USE tpt_status_t *tpt_program_memory(tpt_program_t *program, tpt_program_memory_t *out_memory);

#endif
