/* notice.h - things a user should hear of once although work goes on. They wait here until the glue makes warnings of them;
 * TORCH_TPU_LOG shows them at once. */
#ifndef TPT_BASE_NOTICE_H
#define TPT_BASE_NOTICE_H

#include "tpt/tpt.h"

typedef enum tpt_notice_kind {
    TPT_NOTICE_CACHE_ENTRY = 0, /* an entry of the compile cache was bad */
    TPT_NOTICE_CACHE_WRITE,     /* its directory cannot be written */
    TPT_NOTICE_CACHE_REMOTE,    /* its remote place cannot be reached */
    TPT_NOTICE_CACHE_LOCK,      /* another process holds a key for too long */
    TPT_NOTICE_COUNT
} tpt_notice_kind_t;
/* Only the first of a kind is kept. */
void tpt_notice(tpt_notice_kind_t kind, const char *fmt, ...) TPT_PRINTF(2, 3);
void tpt_notices_reset(void); /* for tests */

#endif
