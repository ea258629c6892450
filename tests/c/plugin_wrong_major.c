/* plugin_wrong_major.c - a shared library that looks like a PJRT plugin of another major version. */
#include <pjrt_c_api.h>

const PJRT_Api *GetPjrtApi(void);

const PJRT_Api *GetPjrtApi(void) {
    static const PJRT_Api api = {
        .struct_size = PJRT_Api_STRUCT_SIZE,
        .pjrt_api_version = {.struct_size = PJRT_Api_Version_STRUCT_SIZE,
                             .major_version = PJRT_API_MAJOR + 7,
                             .minor_version = 3},
    };
    return &api;
}
