/* null_internal.h - objects of the fake plugin. */
#ifndef TPT_PJRT_NULL_INTERNAL_H
#define TPT_PJRT_NULL_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "pjrt/null/null.h"

#define NULL_MAX_RANK 16
#define NULL_MAX_DEVICES 64

typedef struct null_type {
    PJRT_Buffer_Type type;
    size_t rank;
    int64_t dims[NULL_MAX_RANK];
    int alias; /* of a parameter: the output that may reuse it, or -1 */
} null_type_t;

/* What the text of a program declares. */
typedef struct null_signature {
    null_type_t *params, *outs;
    size_t nparams, nouts;
} null_signature_t;

/* ---- null_signature.c: reads `@main(...) -> ...`. On failure gives a reason and holds nothing. */
extern const char null_why_memory[]; /* the reason that is not the text's fault */
const char *null_signature_parse(const char *text, size_t bytes, null_signature_t *out_signature);
void null_signature_free(null_signature_t *signature);
int64_t null_type_bytes(const null_type_t *type);

/* ---- null.c */
PJRT_Error *null_error(PJRT_Error_Code code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
PJRT_Error *null_injected(tpt_null_step_t step); /* the failure asked for, or NULL */
int64_t null_now(void);                          /* nanoseconds */

struct PJRT_Error {
    PJRT_Error_Code code;
    char message[256];
};
struct PJRT_Event {
    int64_t ready_at;
    PJRT_Error_Code code; /* of the value it stands for */
};
struct PJRT_DeviceDescription {
    int id;
};
struct PJRT_Device {
    PJRT_DeviceDescription description;
    PJRT_Client *client;
};
struct PJRT_Client {
    size_t ndevices;
    bool host_memory;
    PJRT_Device devices[NULL_MAX_DEVICES], *list[NULL_MAX_DEVICES];
};
struct PJRT_Buffer {
    PJRT_Device *device;
    null_type_t type;
    int64_t nbytes, ready_at;
    PJRT_Error_Code code; /* of the program that should have made it */
    unsigned char *bytes; /* NULL: deleted or donated */
};
struct PJRT_Executable {
    null_signature_t signature;
    char *text;
    size_t text_bytes;
    atomic_int refs;
    /* concatenated for the queries */
    PJRT_Buffer_Type *out_types;
    int64_t *out_dims;
    size_t *out_ranks;
};
struct PJRT_LoadedExecutable {
    PJRT_Executable *executable;
    PJRT_Client *client;
};
struct PJRT_SerializedExecutable {
    char *bytes;
};

/* Settings and counts, shared by the files of the plugin. */
typedef struct null_state {
    atomic_int fail[TPT_NULL_STEP_COUNT];
    atomic_bool reject_donation, device_memory;
    _Atomic int64_t delay, compile_time;
    _Atomic int64_t compiles, loads, executes, donations, clients, buffers, programs, events;
} null_state_t;
extern null_state_t null_state;

/* ---- null_buffer.c and null_program.c: their entries of the table. */
PJRT_Error *null_buffer_make(PJRT_Device *device, const null_type_t *type, PJRT_Buffer **out_buffer); /* zero-filled */
PJRT_Error *null_buffer_alive(const PJRT_Buffer *buffer);
void null_buffer_table(PJRT_Api *api);
void null_program_table(PJRT_Api *api);

#endif
