/* window.h - modes of the resampling rows: the `data` of their table lines. */
#ifndef TPT_OPS_WINDOW_H
#define TPT_OPS_WINDOW_H

typedef enum tpt_window_mode {
    TPT_WINDOW_NEAREST,
    TPT_WINDOW_NEAREST_EXACT,
    TPT_WINDOW_LINEAR,
    TPT_WINDOW_CUBIC,
    TPT_WINDOW_LINEAR_AA,
    TPT_WINDOW_CUBIC_AA
} tpt_window_mode_t;
#define TPT_WINDOW_BACKWARD 256

#endif
