/* explain.c - notes of what was cut, why and how, kept while somebody asks. */
#include <string.h>

#include "run_internal.h"

static tpt_mutex_t lock = TPT_MUTEX_INIT;
static tpt_cut_note_t *notes; /* ring of TPT_EXPLAIN_NOTES, made at the first start; guarded by lock */
static size_t count;          /* noted since the start */
static atomic_int listeners;

const char *tpt_cut_reason_name(tpt_cut_reason_t why) {
    static const char *const names[TPT_CUT_REASONS] = {"strict",    "composite op", "host read",   "data-dependent size", "synchronize", "stream or event",
                                                       "mode change", "loop body", "overlap", "limit: nodes", "limit: bytes",        "limit: age"};
    return (unsigned)why < TPT_CUT_REASONS ? names[why] : "?";
}

bool tpt_explain_is_on(void) { return atomic_load_explicit(&listeners, memory_order_relaxed) > 0; }

void tpt_explain_start(void) {
    tpt_mutex_lock(&lock);
    if (!notes) notes = tpt_calloc(TPT_EXPLAIN_NOTES, sizeof *notes);
    if (notes && atomic_fetch_add(&listeners, 1) == 0) count = 0;
    tpt_mutex_unlock(&lock);
}

void tpt_explain_stop(void) {
    tpt_mutex_lock(&lock);
    if (atomic_load(&listeners) > 0) atomic_fetch_sub(&listeners, 1);
    tpt_mutex_unlock(&lock);
}

void tpt_explain_note(const tpt_cut_note_t *note) {
    tpt_mutex_lock(&lock);
    if (notes) notes[count++ % TPT_EXPLAIN_NOTES] = *note;
    tpt_mutex_unlock(&lock);
}

size_t tpt_explain_notes(tpt_cut_note_t *out_notes, size_t max) {
    tpt_mutex_lock(&lock);
    size_t kept = count < TPT_EXPLAIN_NOTES ? count : TPT_EXPLAIN_NOTES, n = kept < max ? kept : max;
    for (size_t i = 0; i < n; i++) out_notes[i] = notes[(count - kept + i) % TPT_EXPLAIN_NOTES];
    tpt_mutex_unlock(&lock);
    return kept;
}
