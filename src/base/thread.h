/* thread.h - pthread mutexes and once under our names. */
#ifndef TPT_BASE_THREAD_H
#define TPT_BASE_THREAD_H

#include <pthread.h>

typedef pthread_mutex_t tpt_mutex_t;
#define TPT_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
static inline void tpt_mutex_lock(tpt_mutex_t *mutex) { (void)pthread_mutex_lock(mutex); }
static inline int tpt_mutex_try(tpt_mutex_t *mutex) { return pthread_mutex_trylock(mutex) == 0; }
static inline void tpt_mutex_unlock(tpt_mutex_t *mutex) { (void)pthread_mutex_unlock(mutex); }

#endif
