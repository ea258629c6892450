/* pjrt_internal.h - what the files of src/pjrt share. The only place, with null/, that includes pjrt_c_api.h. */
#ifndef TPT_PJRT_INTERNAL_H
#define TPT_PJRT_INTERNAL_H

#include <pjrt_c_api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/thread.h"
#include "pjrt/pjrt.h"

/* Most devices of one client. */
#define TPT_PJRT_MAX_DEVICES 1024
/* Arguments and outputs of one execute (twice this together) that need no heap. */
#define TPT_PJRT_INLINE 64
/* Handles of given buffers that a device keeps: an optimizer's step has some hundreds. */
#define TPT_PJRT_SHELLS 1024
#define TPT_PJRT_DROPPED 64 /* values on their way that are known, each device */

/* Starts a PJRT argument struct: `PJRT_X_Args args = TPT_ARGS(PJRT_X_Args, .buffer = b);` */
#define TPT_ARGS(type, ...) {.struct_size = type##_STRUCT_SIZE, __VA_ARGS__}

typedef struct tpt_pjrt_device {
    PJRT_Device *handle;
    int id; /* global id, as device assignments want it */
    char *kind;
    atomic_uint nshells;                      /* so many were put away */
    _Atomic(PJRT_Buffer *) shells[TPT_PJRT_SHELLS]; /* of buffers given away, destroyed when others take their place */
    struct {
        PJRT_Event *event;
        int64_t nbytes;
    } dropped[TPT_PJRT_DROPPED]; /* being computed, eldest first; dropped.c's lock guards them */
    int ndropped;
    int64_t dropped_bytes;
} tpt_pjrt_device_t;

struct tpt_client {
    PJRT_Api api; /* our copy: entries that the plugin lacks are NULL */
    PJRT_Client *handle;
    tpt_pjrt_device_t *devices;
    int ndevices;
    bool is_cpu, host_memory, has_kernels;
    char *platform, *version, *path;
    atomic_int refs;          /* the opener, and every live buffer and program */
    atomic_int portable;      /* -1: not tried yet */
    atomic_uint refused; /* bit i: the plugin does not know our compiler flag i */
    atomic_bool has_compiled;
    tpt_mutex_t probe_lock;
};

struct tpt_buffer {
    atomic_int refs;
    int device;
    int64_t nbytes;
    atomic_bool given; /* a program took its memory over */
    atomic_bool uncounted; /* its bytes are not among the live ones */
    atomic_bool dropped;   /* a promise that nobody wants any more */
    atomic_uint_fast64_t last_use;
    _Atomic(PJRT_Buffer *) handle; /* NULL: promised, or broken */
    _Atomic(tpt_status_t *) broken; /* why the promise was not kept */
    tpt_client_t *client;
    tpt_buffer_t *before; /* of a promise: what it updates; guarded by promise.c's lock */
};

struct tpt_program {
    atomic_int refs;
    int device; /* the one it was compiled for; any if portable */
    bool portable;
    int nouts;
    int64_t *out_nbytes; /* NULL: asked of each output buffer */
    tpt_client_t *client;
    _Atomic(tpt_program_t *) real;  /* itself; of a promise the program that keeps it, NULL until then */
    _Atomic(tpt_status_t *) broken; /* why the promise was not kept */
    PJRT_LoadedExecutable *loaded;
    PJRT_Executable *executable;
};

/* ---- plugin.c */
/* Loads and initializes a plugin; its table stays valid for the life of the process. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_plugin_load(const char *path, bool show_log, PJRT_Api *out_api, char **out_path);

/* ---- client.c */
void tpt_pjrt_client_retain(tpt_client_t *client);
void tpt_pjrt_client_release(tpt_client_t *client);
TPT_MUST_USE tpt_status_t *tpt_pjrt_check_device(const tpt_client_t *client, int device);

/* ---- error.c */
/* Takes the error over; NULL gives NULL. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_error(const PJRT_Api *api, PJRT_Error *error);
/* Waits for an event, destroys it and gives its error; a NULL event is fine. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_event_finish(const PJRT_Api *api, PJRT_Event *event);
/* An error is an answer too: the next wait tells it. False where the plugin cannot be asked without waiting. */
bool tpt_pjrt_event_is_ready(const PJRT_Api *api, PJRT_Event *event);
void tpt_pjrt_event_drop(const PJRT_Api *api, PJRT_Event *event);

/* ---- buffer.c */
TPT_MUST_USE tpt_status_t *tpt_pjrt_buffer_event(tpt_buffer_t *buffer, PJRT_Event **out_event); /* of its being ready; may be NULL */
void tpt_pjrt_buffer_uncount(tpt_buffer_t *buffer);
void tpt_pjrt_shells_destroy(tpt_client_t *client); /* those put away */
/* Wraps a PJRT buffer, which is destroyed on failure too. nbytes < 0: asks the buffer. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_buffer_wrap(tpt_client_t *client, PJRT_Buffer *handle, int device, int64_t nbytes,
                                                tpt_buffer_t **out_buffer);
/* ---- dropped.c */
void tpt_pjrt_note_dropped(tpt_buffer_t *buffer);
void tpt_pjrt_limit_dropped(tpt_client_t *client, int device);
void tpt_pjrt_dropped_destroy(tpt_client_t *client);

/* ---- types */
PJRT_Buffer_Type tpt_pjrt_type(tpt_dtype_t dtype); /* PJRT_Buffer_Type_INVALID when there is none */
size_t tpt_pjrt_type_size(PJRT_Buffer_Type type);  /* bytes of the host form; 0 for tokens and packed types */

/* A buffer whose value is promised. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_buffer_promise(tpt_client_t *client, int device, int64_t nbytes, tpt_buffer_t **out_buffer);

/* ---- promise.c */
/* Waits until a promise is kept; the error that broke it. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_buffer_settle(tpt_buffer_t *buffer);
TPT_MUST_USE tpt_status_t *tpt_pjrt_program_settle(tpt_program_t *program, tpt_program_t **out_real);
/* For runs whose program or arguments are not there yet. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_execute_late(tpt_program_t *program, int device, int nargs, tpt_buffer_t *const *args, int nkeep,
                                                 const int64_t *keep, tpt_buffer_t **out_buffers);

/* ---- execute.c */
/* On handles, with no wrapping. */
TPT_MUST_USE tpt_status_t *tpt_pjrt_execute(tpt_program_t *program, int device, int nargs, PJRT_Buffer **args, int nkeep,
                                            const int64_t *keep, int nouts, PJRT_Buffer **made);

/* ---- kernels.c */
/* Makes our C routines known to a CPU plugin. False: it takes none. */
bool tpt_pjrt_kernels_register(const PJRT_Api *api);

/* ---- options.c */
#define TPT_PJRT_OPTIONS_MAX TPT_OPTIONS_MAX
#define TPT_PJRT_FLAG_COUNT 7
typedef struct tpt_pjrt_options {
    bool portable, fast_minmax_off, excess_precision, is_cpu;
    tpt_loops_t loops;
    unsigned refused; /* flags to leave out, by number */
    int device_id;
} tpt_pjrt_options_t;
/* Bits of our compiler flags that an error message names. */
unsigned tpt_pjrt_flags_named(const char *message);
/* A serialized CompileOptionsProto for one replica and one partition; returns its size. */
size_t tpt_pjrt_options_write(const tpt_pjrt_options_t *options, unsigned char out[TPT_PJRT_OPTIONS_MAX]);

#endif
