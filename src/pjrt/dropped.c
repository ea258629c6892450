/* dropped.c - values that nobody can see any more while they are still being computed. Their buffers are destroyed, so that the plugin
 * has their memory back as soon as they are computed. What is kept is an event of each: those who wait for the device wait for them
 * too, and so does whoever drops more, so that a host that runs ahead does not fill the memory with what nobody wants. */
#include <string.h>

#include "base/thread.h"
#include "pjrt/pjrt_internal.h"

#define LEAST 4096                  /* bytes: smaller ones are soon computed */
#define MOST ((int64_t)256 << 20)   /* bytes that may be on their way */

static tpt_mutex_t lock = TPT_MUTEX_INIT; /* of all devices' lists */

/* Lock held. The eldest's event is the caller's then. */
static PJRT_Event *take_eldest(tpt_pjrt_device_t *d) {
    PJRT_Event *event = d->dropped[0].event;
    d->dropped_bytes -= d->dropped[0].nbytes;
    memmove(d->dropped, d->dropped + 1, (size_t)--d->ndropped * sizeof d->dropped[0]);
    return event;
}

void tpt_pjrt_note_dropped(tpt_buffer_t *buffer) {
    tpt_client_t *client = buffer->client;
    tpt_pjrt_device_t *d = &client->devices[buffer->device];
    PJRT_Event *event = NULL;
    tpt_status_t *status = tpt_pjrt_buffer_event(buffer, &event);
    if (status != NULL || event == NULL) { /* a broken promise: told to those who wanted what hung on it */
        tpt_status_free(status);
        return;
    }
    tpt_mutex_lock(&lock);
    while (d->ndropped > 0 && (d->ndropped == TPT_PJRT_DROPPED || tpt_pjrt_event_is_ready(&client->api, d->dropped[0].event)))
        tpt_pjrt_event_drop(&client->api, take_eldest(d));
    d->dropped[d->ndropped].event = event;
    d->dropped[d->ndropped++].nbytes = buffer->nbytes;
    d->dropped_bytes += buffer->nbytes;
    tpt_mutex_unlock(&lock);
}

/* Takes the eldest while more than `most` bytes are on their way; the errors of all. */
static tpt_status_t *await_down_to(tpt_client_t *client, int device, int64_t most) {
    tpt_pjrt_device_t *d = &client->devices[device];
    tpt_status_t *status = NULL;
    for (;;) {
        tpt_mutex_lock(&lock);
        PJRT_Event *event = d->ndropped > 0 && d->dropped_bytes > most ? take_eldest(d) : NULL;
        tpt_mutex_unlock(&lock);
        if (event == NULL) return status;
        status = tpt_status_join(status, tpt_pjrt_event_finish(&client->api, event));
    }
}

void tpt_pjrt_limit_dropped(tpt_client_t *client, int device) { tpt_status_free(await_down_to(client, device, MOST)); }

tpt_status_t *tpt_client_await_dropped(tpt_client_t *client, int device) { return await_down_to(client, device, 0); }

void tpt_buffer_drop(tpt_buffer_t *buffer) {
    const bool made = buffer != NULL && tpt_buffer_is_made(buffer);
    if (buffer == NULL || buffer->nbytes < LEAST || (made && (tpt_buffer_refs(buffer) > 1 || tpt_buffer_is_ready(buffer)))) {
        tpt_buffer_release(buffer);
        return;
    }
    tpt_client_t *client = buffer->client;
    const int device = buffer->device;
    if (!made) { /* whoever keeps the promise notes it, unless that has just been done */
        tpt_pjrt_buffer_uncount(buffer);
        atomic_store(&buffer->dropped, true);
    }
    if (made || tpt_buffer_is_made(buffer)) tpt_pjrt_note_dropped(buffer);
    tpt_buffer_release(buffer);
    tpt_pjrt_limit_dropped(client, device);
}

void tpt_pjrt_dropped_destroy(tpt_client_t *client) {
    for (int i = 0; i < client->ndevices; i++) tpt_status_free(await_down_to(client, i, -1));
}
