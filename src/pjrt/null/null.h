/* null.h - a fake PJRT plugin inside the library (path "null"), so that what sits above src/pjrt is tested with no XLA.
 *
 * Its programs take any text with a `@main` function of static tensor types; running one checks the arguments against the
 * parameters and makes zero-filled outputs. Donation follows `tf.aliasing_output`. The setters below serve tests; the
 * environment variable TPT_NULL_FAIL="execute=13" does the same as tpt_null_fail_next(TPT_NULL_EXECUTE, 13). */
#ifndef TPT_PJRT_NULL_H
#define TPT_PJRT_NULL_H

#include <pjrt_c_api.h>
#include <stdbool.h>
#include <stdint.h>

const PJRT_Api *tpt_null_api(void);

typedef enum tpt_null_step {
    TPT_NULL_CREATE = 0, /* making a client: "create" */
    TPT_NULL_COMPILE,    /* "compile" */
    TPT_NULL_EXECUTE,    /* "execute": fails at the call */
    TPT_NULL_RESULT,     /* "result": the call is fine, the outputs' events carry the error, as do values made of them */
    TPT_NULL_FROM_HOST,  /* "from_host" */
    TPT_NULL_TO_HOST,    /* "to_host" */
    TPT_NULL_SERIALIZE,  /* "serialize" */
    TPT_NULL_LOAD,       /* "load" */
    TPT_NULL_STEP_COUNT
} tpt_null_step_t;

/* The next such step fails with `code` (a tpt_code_t or PJRT_Error_Code); 0 calls it off. */
void tpt_null_fail_next(tpt_null_step_t step, int code);
/* Executes that would donate an argument fail. */
void tpt_null_reject_donation(bool on);
/* Outputs become ready this long after the execute. */
void tpt_null_set_delay(int64_t nanoseconds);
/* A compile takes this long, whether it fails or not. */
void tpt_null_set_compile_time(int64_t nanoseconds);
/* false: buffers are said not to be in host memory, so that the slow way of reading is taken. Counts for clients made later. */
void tpt_null_set_host_memory(bool on);

typedef struct tpt_null_counts {
    int64_t compiles, loads, executes, donations, clients, buffers, programs, events; /* the last four: alive now */
} tpt_null_counts_t;
tpt_null_counts_t tpt_null_counts(void);
void tpt_null_reset(void); /* all settings as at the start; the counts of what is alive stay */

#endif
