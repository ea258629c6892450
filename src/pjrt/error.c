/* error.c - PJRT errors and events as our statuses. */
#include <string.h>

#include "pjrt/pjrt_internal.h"

static bool tells_of_memory(const char *text, size_t size) {
    static const char *const signs[] = {"Out of memory allocating", "out of memory allocating", "RESOURCE_EXHAUSTED"};
    for (size_t i = 0; text != NULL && i < sizeof signs / sizeof *signs; i++)
        if (memmem(text, size, signs[i], strlen(signs[i])) != NULL) return true;
    return false;
}

tpt_status_t *tpt_pjrt_error(const PJRT_Api *api, PJRT_Error *error) {
    if (error == NULL) return NULL;
    tpt_code_t code = TPT_UNKNOWN;
    if (api->PJRT_Error_GetCode != NULL) {
        PJRT_Error_GetCode_Args get = TPT_ARGS(PJRT_Error_GetCode_Args, .error = error);
        PJRT_Error *again = api->PJRT_Error_GetCode(&get);
        if (again == NULL && get.code > PJRT_Error_Code_OK && get.code <= PJRT_Error_Code_UNAUTHENTICATED) {
            code = (tpt_code_t)get.code; /* the same numbers by definition */
        } else if (again != NULL) {
            PJRT_Error_Destroy_Args drop = TPT_ARGS(PJRT_Error_Destroy_Args, .error = again);
            api->PJRT_Error_Destroy(&drop);
        }
    }
    PJRT_Error_Message_Args text = TPT_ARGS(PJRT_Error_Message_Args, .error = error);
    api->PJRT_Error_Message(&text);
    int size = text.message == NULL ? 0 : text.message_size > 65536 ? 65536 : (int)text.message_size;
    /* An allocation that fails inside a running program comes back as an internal error. */
    if (code != TPT_RESOURCE_EXHAUSTED && tells_of_memory(text.message, (size_t)size)) code = TPT_RESOURCE_EXHAUSTED;
    tpt_status_t *status = tpt_status_make(code, "%.*s", size, text.message == NULL ? "" : text.message);
    PJRT_Error_Destroy_Args destroy = TPT_ARGS(PJRT_Error_Destroy_Args, .error = error);
    api->PJRT_Error_Destroy(&destroy);
    return status;
}

void tpt_pjrt_event_drop(const PJRT_Api *api, PJRT_Event *event) {
    if (event == NULL) return;
    PJRT_Event_Destroy_Args args = TPT_ARGS(PJRT_Event_Destroy_Args, .event = event);
    tpt_status_free(tpt_pjrt_error(api, api->PJRT_Event_Destroy(&args)));
}

bool tpt_pjrt_event_is_ready(const PJRT_Api *api, PJRT_Event *event) {
    if (event == NULL) return true;
    if (api->PJRT_Event_IsReady == NULL) return false;
    PJRT_Event_IsReady_Args args = TPT_ARGS(PJRT_Event_IsReady_Args, .event = event);
    tpt_status_t *status = tpt_pjrt_error(api, api->PJRT_Event_IsReady(&args));
    const bool ready = status != NULL || args.is_ready;
    tpt_status_free(status);
    return ready;
}

tpt_status_t *tpt_pjrt_event_finish(const PJRT_Api *api, PJRT_Event *event) {
    if (event == NULL) return NULL;
    PJRT_Event_Await_Args args = TPT_ARGS(PJRT_Event_Await_Args, .event = event);
    tpt_status_t *status = tpt_pjrt_error(api, api->PJRT_Event_Await(&args));
    tpt_pjrt_event_drop(api, event);
    return status;
}
