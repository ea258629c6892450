/* log.h - messages to stderr, off unless TORCH_TPU_LOG asks (error, warn, info, debug). */
#ifndef TPT_BASE_LOG_H
#define TPT_BASE_LOG_H

#include <stdbool.h>

#include "tpt/tpt.h"

typedef enum tpt_log_level { TPT_LOG_OFF = 0, TPT_LOG_ERROR, TPT_LOG_WARN, TPT_LOG_INFO, TPT_LOG_DEBUG } tpt_log_level_t;
bool tpt_log_on(tpt_log_level_t level);
void tpt_log(tpt_log_level_t level, const char *fmt, ...) TPT_PRINTF(2, 3);

#endif
