/* ffi.h - what we use of XLA's typed foreign function interface (xla/ffi/api/c_api.h, version 0) and of PJRT's extension that
 * registers handlers. No wheel of a plugin brings these headers; the layouts are facts of that interface. */
#ifndef TPT_PJRT_FFI_H
#define TPT_PJRT_FFI_H

#include <pjrt_c_api.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ffi_extension {
    size_t struct_size;
    int type; /* FFI_METADATA */
    struct ffi_extension *next;
} ffi_extension_t;

enum { FFI_METADATA = 1, FFI_STAGE_EXECUTE = 3, FFI_ATTR_ARRAY = 1, FFI_S64 = 5, FFI_F32 = 11, FFI_F64 = 12, FFI_INVALID_ARGUMENT = 3 };

typedef struct ffi_version {
    size_t struct_size;
    ffi_extension_t *extensions;
    int major, minor;
} ffi_version_t;

/* A handler is called with this extension when it is registered, and says what it was written for. */
typedef struct ffi_metadata {
    size_t struct_size;
    ffi_version_t version;
    uint32_t traits;
} ffi_metadata_t;
typedef struct ffi_metadata_extension {
    ffi_extension_t base;
    ffi_metadata_t *metadata;
} ffi_metadata_extension_t;

typedef struct ffi_error ffi_error_t;
typedef struct ffi_error_create_args {
    size_t struct_size;
    ffi_extension_t *extensions;
    const char *message;
    int code;
} ffi_error_create_args_t;

/* The interface's own table, up to what is used here; `struct_size` says how much of it is there. */
typedef struct ffi_api {
    size_t struct_size;
    ffi_extension_t *extensions;
    ffi_version_t version;
    void *internal;
    ffi_error_t *(*error_create)(ffi_error_create_args_t *args);
} ffi_api_t;

typedef struct ffi_buffer {
    size_t struct_size;
    ffi_extension_t *extensions;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} ffi_buffer_t;
typedef struct ffi_array {
    int dtype;
    size_t size;
    void *data;
} ffi_array_t;
typedef struct ffi_list { /* of arguments or results */
    size_t struct_size;
    ffi_extension_t *extensions;
    int64_t size;
    int *types;
    void **items;
} ffi_list_t;
typedef struct ffi_attrs {
    size_t struct_size;
    ffi_extension_t *extensions;
    int64_t size;
    int *types;
    void **names;
    void **items;
} ffi_attrs_t;
typedef struct ffi_call {
    size_t struct_size;
    ffi_extension_t *extensions;
    const ffi_api_t *api;
    void *context;
    int stage;
    ffi_list_t args, results;
    ffi_attrs_t attrs;
} ffi_call_t;
typedef ffi_error_t *ffi_handler_t(ffi_call_t *call);

typedef struct ffi_register_args {
    size_t struct_size;
    const char *name;
    size_t name_size;
    ffi_handler_t *handler;
    const char *platform;
    size_t platform_size;
    int traits;
} ffi_register_args_t;
typedef struct ffi_register_extension {
    PJRT_Extension_Base base;
    void *type_register, *user_data_add;
    PJRT_Error *(*register_handler)(ffi_register_args_t *args);
} ffi_register_extension_t;

#endif
