/* test_ir_plugin_ops.c - reductions, indexing, linear algebra and control flow: accepted by real plugins, with the right
 * numbers. */
#include "test_ir_run.h"

PLUGIN_TEST(reductions) {
    tpt_ir_t *ir = r->ir;
    const tpt_dtype_t dtypes[] = {TPT_U8,  TPT_I8,  TPT_I16, TPT_I32,  TPT_I64, TPT_U16,
                                  TPT_U32, TPT_U64, TPT_F16, TPT_BF16, TPT_F32, TPT_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        tpt_val_t x = arg(r, shape(dtypes[i], 2, 2, 3), V(1, 2, 3, 4, 5, 6));
        EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_ADD, x, 1, DIMS(1)), 6, 15);
        EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MUL, x, 1, DIMS(0)), 4, 10, 18);
        EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MAX, x, 2, DIMS(0, 1)), 6);
        EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MIN, x, 1, DIMS(1)), 1, 4);
        tpt_val_t empty = tpt_ir_slice_dim(ir, x, 1, 0, 0);
        EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_ADD, empty, 1, DIMS(1)), 0, 0);
        EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MUL, empty, 1, DIMS(1)), 1, 1);
        if (tpt_dtype_is_float(dtypes[i])) {
            EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MAX, empty, 1, DIMS(1)), -INFINITY, -INFINITY);
            tpt_val_t y = tpt_ir_concat(ir, 2, (tpt_val_t[]){x, tpt_ir_full_f(ir, shape(dtypes[i], 2, 2, 1), NAN)}, 1);
            EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MAX, y, 1, DIMS(1)), NAN, NAN);
            EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MIN, y, 1, DIMS(1)), NAN, NAN);
        } else {
            EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_AND, x, 1, DIMS(1)), 0, 4);
            EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_OR, x, 1, DIMS(1)), 3, 7);
            EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_XOR, x, 1, DIMS(1)), 0, 7);
        }
    }
    tpt_val_t p = arg(r, shape(TPT_BOOL, 2, 2, 2), V(0, 1, 1, 1));
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_AND, p, 1, DIMS(1)), 0, 1);
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_OR, p, 2, DIMS(0, 1)), 1);
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_XOR, p, 1, DIMS(0)), 1, 0);
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MAX, p, 1, DIMS(0)), 1, 1);
    tpt_val_t z = arg(r, shape(TPT_C64, 1, 2), V(1, 2, 3, 4));
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_ADD, z, 1, DIMS(0)), 4, 6);
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_MUL, z, 1, DIMS(0)), -5, 10);
}

/* Argmax: two operands of different dtypes in one reduction. */
PLUGIN_TEST(reduce_n) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 2, 3), V(1, 3, 2, 9, 7, 8));
    tpt_val_t xs[2] = {x, tpt_ir_iota(ir, shape(TPT_I64, 2, 2, 3), 1)}, out[2];
    tpt_val_t inits[2] = {tpt_ir_lowest(ir, TPT_F32), tpt_ir_const_i(ir, TPT_I64, 0)};
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, shape(TPT_F32, 0)), i = tpt_ir_region_arg(ir, shape(TPT_I64, 0));
    tpt_val_t b = tpt_ir_region_arg(ir, shape(TPT_F32, 0)), k = tpt_ir_region_arg(ir, shape(TPT_I64, 0));
    tpt_val_t first = tpt_ir_compare(ir, TPT_IR_GE, a, b);
    tpt_region_t body = tpt_ir_region_end(ir, 2, (tpt_val_t[]){tpt_ir_select(ir, first, a, b), tpt_ir_select(ir, first, i, k)});
    tpt_ir_reduce_n(ir, 2, xs, inits, 1, DIMS(1), body, out);
    EXPECT(out[0], 3, 9);
    EXPECT(out[1], 1, 0);
}

PLUGIN_TEST(windows) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 1, 5), V(1, 5, 2, 4, 3));
    tpt_ir_window_t w = tpt_ir_window_ones(2);
    w.size[1] = 3;
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_MAX, x, &w), 5, 5, 4);
    w.pad_low[1] = 2;
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w), 1, 6, 8, 11, 9);
    w.stride[1] = 2;
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w), 1, 8, 9);
    w = tpt_ir_window_ones(2);
    w.size[1] = 2;
    w.window_dilation[1] = 2;
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w), 3, 9, 5);
    w = tpt_ir_window_ones(2);
    w.size[1] = 2;
    w.base_dilation[1] = 2;
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w), 1, 5, 5, 2, 2, 4, 4, 3);
    w = tpt_ir_window_ones(2);
    w.size[1] = 7;
    EXPECT_EMPTY(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w));
    w = tpt_ir_window_ones(2);
    w.size[1] = w.stride[1] = 2;
    tpt_val_t source = arg(r, shape(TPT_F32, 2, 1, 2), V(10, 20));
    EXPECT(tpt_ir_select_and_scatter_add(ir, x, source, TPT_IR_GE, &w), 0, 10, 0, 20, 0);
    w.pad_high[1] = 1;
    EXPECT(tpt_ir_select_and_scatter_add(ir, x, tpt_ir_full_f(ir, shape(TPT_F32, 2, 1, 3), 1), TPT_IR_GE, &w), 0, 1, 0, 1, 1);
    tpt_val_t z = arg(r, shape(TPT_I64, 1, 4), V(1, 2, 3, 4));
    w = tpt_ir_window_ones(1);
    w.size[0] = 4;
    w.pad_low[0] = 3;
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, z, &w), 1, 3, 6, 10);
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_MUL, z, &w), 1, 2, 6, 24);
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_MIN, tpt_ir_neg(ir, z), &w), -1, -2, -3, -4);
}

PLUGIN_TEST(gathers) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 3, 2), V(1, 2, 3, 4, 5, 6));
    tpt_val_t rows = arg(r, shape(TPT_I64, 1, 2), V(2, 0));
    tpt_ir_gather_t g = {
        .n_offset = 1, .n_collapsed = 1, .n_start = 1, .offset_dims = {1}, .index_vector_dim = 1, .slice_sizes = {1, 2}};
    EXPECT(tpt_ir_gather(ir, x, rows, &g), 5, 6, 1, 2);
    tpt_val_t places = arg(r, shape(TPT_I32, 2, 2, 2), V(2, 1, 0, 1));
    g = (tpt_ir_gather_t){.n_collapsed = 2,
                          .n_start = 2,
                          .collapsed_slice_dims = {0, 1},
                          .start_index_map = {0, 1},
                          .index_vector_dim = 1,
                          .slice_sizes = {1, 1},
                          .indices_are_sorted = false};
    EXPECT(tpt_ir_gather(ir, x, places, &g), 6, 2);
    /* take_along_dim: dim 0 is a batching dim. */
    tpt_val_t along = arg(r, shape(TPT_I32, 3, 3, 2, 1), V(1, 0, 0, 0, 1, 1));
    g = (tpt_ir_gather_t){.n_collapsed = 1,
                          .n_batch = 1,
                          .n_start = 1,
                          .collapsed_slice_dims = {1},
                          .operand_batching_dims = {0},
                          .start_indices_batching_dims = {0},
                          .start_index_map = {1},
                          .index_vector_dim = 2,
                          .slice_sizes = {1, 1}};
    EXPECT(tpt_ir_gather(ir, x, along, &g), 2, 1, 3, 3, 6, 6);
}

PLUGIN_TEST(scatters) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 3, 2), V(1, 2, 3, 4, 5, 6));
    tpt_val_t rows = arg(r, shape(TPT_I64, 2, 2, 1), V(2, 0)), u = arg(r, shape(TPT_F32, 2, 2, 2), V(10, 20, 30, 40));
    tpt_ir_scatter_t s = {.n_window = 1, .n_inserted = 1, .n_scatter = 1, .update_window_dims = {1}, .index_vector_dim = 1};
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_SET, x, rows, u, &s), 30, 40, 3, 4, 10, 20);
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_ADD, x, rows, u, &s), 31, 42, 3, 4, 15, 26);
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_MUL, x, rows, u, &s), 30, 80, 3, 4, 50, 120);
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_MAX, x, rows, u, &s), 30, 40, 3, 4, 10, 20);
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_MIN, x, rows, u, &s), 1, 2, 3, 4, 5, 6);
    s.unique_indices = true;
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_SET, x, rows, u, &s), 30, 40, 3, 4, 10, 20);
    tpt_val_t along = arg(r, shape(TPT_I32, 3, 3, 1, 1), V(1, 0, 1)), v = arg(r, shape(TPT_F32, 2, 3, 1), V(7, 8, 9));
    s = (tpt_ir_scatter_t){.n_inserted = 1,
                           .n_batch = 1,
                           .n_scatter = 1,
                           .inserted_window_dims = {1},
                           .input_batching_dims = {0},
                           .scatter_indices_batching_dims = {0},
                           .scatter_dims_to_operand_dims = {1},
                           .index_vector_dim = 2};
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_SET, x, along, v, &s), 1, 7, 8, 4, 5, 9);
    tpt_val_t p = arg(r, shape(TPT_BOOL, 2, 3, 1), V(0, 0, 0)), one = tpt_ir_full_i(ir, shape(TPT_BOOL, 2, 1, 1), 1);
    s = (tpt_ir_scatter_t){.n_window = 1, .n_inserted = 1, .n_scatter = 1, .update_window_dims = {1}, .index_vector_dim = 1};
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_MAX, p, tpt_ir_slice_dim(ir, rows, 0, 0, 1), one, &s), 0, 0, 1);
}

PLUGIN_TEST(dots) {
    tpt_ir_t *ir = r->ir;
    const tpt_dtype_t dtypes[] = {TPT_I8,   TPT_U8,  TPT_I16, TPT_I32,      TPT_I64,   TPT_F16,
                                  TPT_BF16, TPT_F32, TPT_F64, TPT_F8E4M3FN, TPT_F8E5M2};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        tpt_val_t x = arg(r, shape(dtypes[i], 2, 2, 2), V(1, 2, 3, 1)), y = arg(r, shape(dtypes[i], 2, 2, 2), V(1, 0, 2, 4));
        EXPECT(tpt_ir_matmul(ir, x, y), 5, 8, 5, 4);
        tpt_dtype_t wide = tpt_dtype_is_int(dtypes[i]) ? TPT_I32 : TPT_F32;
        if (tpt_dtype_size(dtypes[i]) > 4) continue;
        tpt_ir_dot_t d = {.n_contract = 2, .lhs_contract = {0, 1}, .rhs_contract = {0, 1}, .out_dtype = wide};
        EXPECT(tpt_ir_dot(ir, x, y, &d), 11);
    }
    tpt_val_t z = arg(r, shape(TPT_C64, 2, 1, 1), V(1, 2)), c = arg(r, shape(TPT_C128, 2, 1, 1), V(1, 2));
    EXPECT(tpt_ir_matmul(ir, z, z), -3, 4);
    EXPECT(tpt_ir_matmul(ir, c, c), -3, 4);
    tpt_val_t b = arg(r, shape(TPT_F32, 3, 2, 1, 2), V(1, 2, 3, 4)), k = arg(r, shape(TPT_F32, 3, 2, 2, 1), V(1, 1, 2, 2));
    for (int p = TPT_PRECISION_DEFAULT; p <= TPT_PRECISION_HIGHEST; p++) {
        tpt_ir_set_precision(ir, (tpt_precision_t)p);
        EXPECT(tpt_ir_matmul(ir, b, k), 3, 14);
    }
    EXPECT(tpt_ir_matmul(ir, tpt_ir_full_f(ir, shape(TPT_F32, 2, 1, 0), 1), tpt_ir_full_f(ir, shape(TPT_F32, 2, 0, 2), 1)), 0,
           0);
    tpt_ir_dot_t outer = {0};
    EXPECT(tpt_ir_dot(ir, tpt_ir_flatten(ir, b), tpt_ir_const_floats(ir, TPT_F32, 2, V(1, 2)), &outer), 1, 2, 2, 4, 3, 6, 4, 8);
}

PLUGIN_TEST(convolutions) {
    tpt_ir_t *ir = r->ir;
    const tpt_dtype_t dtypes[] = {TPT_F16, TPT_BF16, TPT_F32, TPT_F64, TPT_I8, TPT_I32, TPT_I64, TPT_C64, TPT_C128};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        tpt_val_t x = tpt_ir_convert(ir, arg(r, shape(TPT_F32, 3, 1, 1, 4), V(1, 2, 3, 4)), dtypes[i]);
        tpt_val_t k =
            tpt_ir_convert(ir, tpt_ir_reshape(ir, tpt_ir_const_floats(ir, TPT_F32, 2, V(1, 2)), 3, DIMS(1, 1, 2)), dtypes[i]);
        tpt_ir_conv_t c = tpt_ir_conv_nchw(1);
        tpt_val_t y = tpt_ir_convolution(ir, x, k, &c);
        EXPECT(tpt_ir_convert(ir, y, TPT_F64), 5, 8, 11);
    }
    tpt_val_t x = arg(r, shape(TPT_F32, 4, 1, 2, 2, 2), V(1, 2, 3, 4, 5, 6, 7, 8)),
              k = arg(r, shape(TPT_F32, 4, 2, 1, 1, 1), V(10, 100));
    tpt_ir_conv_t c = tpt_ir_conv_nchw(2);
    c.feature_groups = 2;
    EXPECT(tpt_ir_convolution(ir, x, k, &c), 10, 20, 30, 40, 500, 600, 700, 800);
    c.pad_low[0] = c.pad_high[1] = 1;
    c.stride[0] = 2;
    EXPECT(tpt_ir_convolution(ir, x, k, &c), 0, 0, 0, 30, 40, 0, 0, 0, 0, 700, 800, 0);
    tpt_ir_conv_t t = tpt_ir_conv_nchw(1); /* a transposed convolution */
    t.lhs_dilation[0] = 2;
    t.pad_low[0] = t.pad_high[0] = 1;
    t.reversal = true;
    tpt_val_t line = arg(r, shape(TPT_F32, 3, 1, 1, 2), V(1, 2)), taps = arg(r, shape(TPT_F32, 3, 1, 1, 2), V(10, 1));
    EXPECT(tpt_ir_convolution(ir, line, taps, &t), 10, 1, 20, 2);
    tpt_ir_conv_t g = tpt_ir_conv_nchw(1); /* the gradient of a grouped kernel */
    g.batch_groups = 2;
    tpt_val_t two = arg(r, shape(TPT_F32, 3, 2, 1, 2), V(1, 2, 3, 4)), ones = tpt_ir_full_f(ir, shape(TPT_F32, 3, 2, 1, 2), 1);
    EXPECT(tpt_ir_convolution(ir, two, ones, &g), 3, 7);
    tpt_ir_conv_t l = tpt_ir_conv_nchw(2); /* channels last, dilated */
    l.in_feature = l.out_feature = 3;
    l.in_spatial[0] = l.out_spatial[0] = 1;
    l.in_spatial[1] = l.out_spatial[1] = 2;
    l.k_spatial[0] = 0, l.k_spatial[1] = 1, l.k_in_feature = 2, l.k_out_feature = 3;
    l.rhs_dilation[1] = 2;
    tpt_val_t image = arg(r, shape(TPT_F32, 4, 1, 1, 3, 1), V(1, 2, 3));
    EXPECT(tpt_ir_convolution(ir, image, tpt_ir_reshape(ir, tpt_ir_const_floats(ir, TPT_F32, 2, V(1, 10)), 4, DIMS(1, 2, 1, 1)),
                              &l),
           31);
    tpt_ir_conv_t v = tpt_ir_conv_nchw(3);
    tpt_val_t cube = tpt_ir_full_f(ir, shape(TPT_F32, 5, 1, 1, 2, 2, 2), 1);
    EXPECT(tpt_ir_convolution(ir, cube, cube, &v), 8);
    tpt_ir_conv_t e = tpt_ir_conv_nchw(1);
    EXPECT_EMPTY(tpt_ir_convolution(ir, tpt_ir_slice_dim(ir, line, 0, 0, 0), taps, &e));
}

PLUGIN_TEST(factorisations) {
    tpt_ir_t *ir = r->ir;
    for (int wide = 0; wide < 2; wide++) {
        tpt_dtype_t d = wide ? TPT_F64 : TPT_F32;
        double tol = wide ? 1e-12 : 1e-5;
        tpt_val_t a = arg(r, shape(d, 2, 2, 2), V(4, 2, 2, 5)), b = arg(r, shape(d, 2, 2, 1), V(2, 5));
        tpt_val_t l = tpt_ir_cholesky(ir, a, true);
        /* What is above the diagonal is not specified. */
        EXPECT_NEAR(tpt_ir_slice_dim(ir, l, 1, 0, 1), tol, 2, 1);
        EXPECT_NEAR(tpt_ir_slice(ir, l, DIMS(1, 1), DIMS(2, 2), NULL), tol, 2);
        EXPECT_NEAR(tpt_ir_slice_dim(ir, tpt_ir_cholesky(ir, a, false), 0, 0, 1), tol, 2, 1);
        EXPECT_NEAR(tpt_ir_triangular_solve(ir, l, b, true, true, false, 0), tol, 1, 2);
        EXPECT_NEAR(tpt_ir_triangular_solve(ir, l, b, true, true, false, 1), tol, -0.25, 2.5);
        EXPECT_NEAR(tpt_ir_triangular_solve(ir, l, b, true, true, false, 2), tol, -0.25, 2.5);
        EXPECT_NEAR(tpt_ir_triangular_solve(ir, l, b, true, true, true, 0), tol, 2, 3);
        EXPECT_NEAR(tpt_ir_triangular_solve(ir, a, b, true, false, false, 0), tol, 0, 1);
        EXPECT_NEAR(tpt_ir_triangular_solve(ir, l, tpt_ir_transpose(ir, b, DIMS(1, 0)), false, true, false, 0), tol, -0.25,
                    2.5);
    }
    for (int wide = 0; wide < 2; wide++) {
        tpt_val_t a = arg(r, shape(wide ? TPT_C128 : TPT_C64, 3, 1, 2, 2), V(4, 0, 0, -2, 0, 2, 5, 0));
        EXPECT_NEAR(tpt_ir_slice_dim(ir, tpt_ir_cholesky(ir, a, true), 2, 0, 1), 1e-5, 2, 0, 0, 1);
    }
}

PLUGIN_TEST(fourier) {
    tpt_ir_t *ir = r->ir;
    for (int wide = 0; wide < 2; wide++) {
        double tol = wide ? 1e-12 : 1e-5;
        tpt_val_t x = arg(r, shape(wide ? TPT_F64 : TPT_F32, 1, 4), V(1, 2, 3, 4));
        tpt_val_t z = tpt_ir_convert(ir, x, wide ? TPT_C128 : TPT_C64), half = tpt_ir_fft(ir, x, TPT_IR_RFFT, 1, DIMS(4));
        EXPECT_NEAR(half, tol, 10, 0, -2, 2, -2, 0);
        EXPECT_NEAR(tpt_ir_fft(ir, half, TPT_IR_IRFFT, 1, DIMS(4)), tol, 1, 2, 3, 4);
        EXPECT_NEAR(tpt_ir_fft(ir, z, TPT_IR_FFT, 1, DIMS(4)), tol, 10, 0, -2, 2, -2, 0, -2, -2);
        EXPECT_NEAR(tpt_ir_fft(ir, tpt_ir_fft(ir, z, TPT_IR_FFT, 1, DIMS(4)), TPT_IR_IFFT, 1, DIMS(4)), tol, 1, 0, 2, 0, 3, 0,
                    4, 0);
        tpt_val_t square = tpt_ir_reshape(ir, z, 2, DIMS(2, 2));
        EXPECT_NEAR(tpt_ir_fft(ir, square, TPT_IR_FFT, 2, DIMS(2, 2)), tol, 10, 0, -2, 0, -4, 0, 0, 0);
    }
}

PLUGIN_TEST(sorting) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 2, 3), V(2, 1, 2, 5, 9, 7));
    tpt_val_t xs[2] = {x, tpt_ir_iota(ir, shape(TPT_I32, 2, 2, 3), 1)}, out[2];
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, shape(TPT_F32, 0)), b = tpt_ir_region_arg(ir, shape(TPT_F32, 0));
    tpt_ir_region_arg(ir, shape(TPT_I32, 0));
    tpt_ir_region_arg(ir, shape(TPT_I32, 0));
    tpt_val_t less = tpt_ir_compare(ir, TPT_IR_LT, a, b);
    tpt_ir_sort(ir, 2, xs, -1, true, tpt_ir_region_end(ir, 1, &less), out);
    EXPECT(out[0], 1, 2, 2, 5, 7, 9);
    EXPECT(out[1], 1, 0, 2, 0, 2, 1);
}

/* Both regions use values from outside: an argument and a constant. */
PLUGIN_TEST(loops_and_conditions) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t n = arg(r, shape(TPT_I32, 0), V(5)), step = arg(r, shape(TPT_F32, 1, 2), V(1, 2)),
              two = tpt_ir_const_i(ir, TPT_I32, 2);
    tpt_val_t inits[2] = {tpt_ir_const_i(ir, TPT_I32, 0), tpt_ir_full_f(ir, shape(TPT_F32, 1, 2), 0)}, out[2];
    tpt_ir_region_begin(ir);
    tpt_val_t i = tpt_ir_region_arg(ir, shape(TPT_I32, 0));
    tpt_ir_region_arg(ir, shape(TPT_F32, 1, 2));
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_LT, i, n);
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    i = tpt_ir_region_arg(ir, shape(TPT_I32, 0));
    tpt_val_t sum = tpt_ir_region_arg(ir, shape(TPT_F32, 1, 2));
    tpt_val_t next[2] = {tpt_ir_add(ir, i, two), tpt_ir_add(ir, sum, step)};
    tpt_region_t body = tpt_ir_region_end(ir, 2, next);
    tpt_ir_while(ir, 2, inits, cond, body, out);
    EXPECT(out[0], 6);
    EXPECT(out[1], 3, 6);
    for (int k = 0; k < 2; k++) {
        tpt_ir_region_begin(ir);
        tpt_val_t yes = tpt_ir_mul(ir, step, tpt_ir_const_f(ir, TPT_F32, 10));
        tpt_region_t then = tpt_ir_region_end(ir, 1, &yes);
        tpt_ir_region_begin(ir);
        tpt_region_t otherwise = tpt_ir_region_end(ir, 1, &step);
        tpt_val_t chosen;
        tpt_ir_if(ir, tpt_ir_compare(ir, TPT_IR_EQ, n, tpt_ir_const_i(ir, TPT_I32, 5 + k)), then, otherwise, 1, &chosen);
        if (k == 0)
            EXPECT(chosen, 10, 20);
        else
            EXPECT(chosen, 1, 2);
    }
}

PLUGIN_TEST(random_bits) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t state = arg(r, shape(TPT_U64, 1, 2), V(0, 0)), next, bits, again, same, later, other, wide;
    tpt_ir_rng_bits(ir, state, shape(TPT_U32, 1, 4), &next, &bits);
    tpt_ir_rng_bits(ir, state, shape(TPT_U32, 2, 2, 2), &again, &same);
    tpt_ir_rng_bits(ir, next, shape(TPT_U32, 1, 4), &later, &other);
    tpt_ir_rng_bits(ir, state, shape(TPT_U64, 1, 2), &again, &wide);
    /* Philox 4x32-10 of key 0, counter 0: the known answer of its authors. */
    EXPECT(bits, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    EXPECT(tpt_ir_compare(ir, TPT_IR_EQ, bits, tpt_ir_flatten(ir, same)), 1, 1, 1, 1);
    EXPECT(tpt_ir_compare(ir, TPT_IR_EQ, bits, other), 0, 0, 0, 0);
    EXPECT(tpt_ir_convert(ir, tpt_ir_slice_dim(ir, wide, 0, 0, 1), TPT_U32), 0x6627e8d5);
}

PLUGIN_TEST(odd_ones) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 2, 4), V(1, 2, NAN, NAN, 3, 4, NAN, NAN)), n = arg(r, shape(TPT_I32, 0), V(2)),
              out[2];
    tpt_val_t part = tpt_ir_set_dimension_size(ir, x, n, -1);
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_ADD, part, 1, DIMS(1)), 3, 7);
    tpt_val_t column = arg(r, shape(TPT_F32, 2, 4, 1), V(1, 10, NAN, NAN));
    EXPECT(tpt_ir_matmul(ir, part, tpt_ir_set_dimension_size(ir, column, n, 0)), 21, 43);
    tpt_val_t twice = tpt_ir_set_dimension_size(ir, tpt_ir_add(ir, part, part), tpt_ir_const_i(ir, TPT_I32, 4), 1);
    EXPECT(tpt_ir_slice_dim(ir, twice, 1, 0, 2), 2, 4, 6, 8);
    tpt_ir_barrier(ir, 2, (tpt_val_t[]){n, column}, out);
    EXPECT(out[0], 2);
}

/* Tensors without elements are where compilers crash. */
PLUGIN_TEST(empties) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 0, 3), NULL), zero = tpt_ir_const_i(ir, TPT_I32, 0), out[2];
    tpt_val_t square = arg(r, shape(TPT_F32, 3, 0, 2, 2), NULL), nothing = arg(r, shape(TPT_F32, 2, 0, 0), NULL);
    EXPECT_EMPTY(tpt_ir_iota(ir, shape(TPT_I32, 2, 0, 3), 0));
    EXPECT_EMPTY(tpt_ir_dynamic_slice(ir, x, (tpt_val_t[]){zero, zero}, DIMS(0, 2)));
    EXPECT_EMPTY(tpt_ir_dynamic_update_slice(ir, x, x, (tpt_val_t[]){zero, zero}));
    EXPECT(tpt_ir_pad(ir, x, tpt_ir_const_i(ir, TPT_F32, 1), DIMS(1, 0), DIMS(0, -1), DIMS(2, 0)), 1, 1);
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_ADD, x, 1, DIMS(0)), 0, 0, 0);
    EXPECT_EMPTY(tpt_ir_reduce(ir, TPT_IR_RED_ADD, x, 1, DIMS(1)));
    EXPECT_EMPTY(tpt_ir_cholesky(ir, square, true));
    EXPECT_EMPTY(tpt_ir_cholesky(ir, nothing, true));
    EXPECT_EMPTY(tpt_ir_triangular_solve(ir, square, square, true, true, false, 0));
    EXPECT_EMPTY(tpt_ir_triangular_solve(ir, nothing, x, true, true, false, 0));
    EXPECT_EMPTY(tpt_ir_fft(ir, x, TPT_IR_RFFT, 1, DIMS(3)));
    EXPECT_EMPTY(tpt_ir_bitcast(ir, x, TPT_U8));
    EXPECT_EMPTY(tpt_ir_transpose(ir, x, DIMS(1, 0)));
    EXPECT_EMPTY(tpt_ir_reverse(ir, x, 1, DIMS(0)));
    tpt_ir_rng_bits(ir, arg(r, shape(TPT_U64, 1, 2), V(0, 0)), shape(TPT_U32, 1, 0), &out[0], &out[1]);
    EXPECT_EMPTY(out[1]);
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, shape(TPT_F32, 0)), b = tpt_ir_region_arg(ir, shape(TPT_F32, 0));
    tpt_val_t less = tpt_ir_compare(ir, TPT_IR_LT, a, b);
    tpt_ir_sort(ir, 1, &x, 0, true, tpt_ir_region_end(ir, 1, &less), out);
    EXPECT_EMPTY(out[0]);
    tpt_ir_gather_t g = {
        .n_offset = 1, .n_collapsed = 1, .n_start = 1, .offset_dims = {1}, .index_vector_dim = 1, .slice_sizes = {1, 3}};
    tpt_val_t full = tpt_ir_full_f(ir, shape(TPT_F32, 2, 2, 3), 1), no_rows = arg(r, shape(TPT_I32, 1, 0), NULL);
    EXPECT_EMPTY(tpt_ir_gather(ir, full, no_rows, &g));
    tpt_ir_scatter_t s = {.n_window = 1, .n_inserted = 1, .n_scatter = 1, .update_window_dims = {1}, .index_vector_dim = 1};
    EXPECT(tpt_ir_scatter(ir, TPT_IR_SCATTER_ADD, full, no_rows, x, &s), 1, 1, 1, 1, 1, 1);
    tpt_ir_conv_t c = tpt_ir_conv_nchw(1);
    tpt_val_t no_features = arg(r, shape(TPT_F32, 3, 1, 0, 2), NULL);
    EXPECT(tpt_ir_convolution(ir, no_features, no_features, &c), 0);
    tpt_ir_window_t w = tpt_ir_window_ones(2);
    EXPECT_EMPTY(tpt_ir_reduce_window(ir, TPT_IR_RED_MAX, x, &w));
    EXPECT_EMPTY(tpt_ir_select_and_scatter_add(ir, x, x, TPT_IR_GE, &w));
    w.size[0] = 2;
    w.pad_low[0] = 1;
    EXPECT_EMPTY(tpt_ir_reduce_window(ir, TPT_IR_RED_MAX, x, &w));
    w.pad_high[0] = 1;
    EXPECT(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w), 0, 0, 0);
    EXPECT(tpt_ir_concat(ir, 2, (tpt_val_t[]){x, full}, 0), 1, 1, 1, 1, 1, 1);
}

/* tpt_ir_turn, where it becomes a call of our C routine: large enough for helpers, too. */
static void turned(run_t *r, tpt_dtype_t dtype, int rank, const int64_t *dims, const int64_t *perm) {
    tpt_ir_t *ir = r->ir;
    tpt_ir_set_has_kernels(ir, tpt_client_has_kernels(r->client));
    tpt_type_t type = tpt_type_make(dtype, rank, dims);
    tpt_val_t at = tpt_ir_iota(ir, tpt_type_make(TPT_I32, 1, DIMS(tpt_type_numel(&type))), 0);
    tpt_val_t x = tpt_ir_convert(ir, tpt_ir_reshape(ir, at, rank, dims), dtype);
    tpt_val_t got = tpt_ir_turn(ir, x, perm), want = tpt_ir_transpose(ir, x, perm);
    tpt_val_t same = tpt_ir_compare(ir, TPT_IR_EQ, got, want);
    int64_t all[TPT_MAX_RANK];
    for (int i = 0; i < rank; i++) all[i] = i;
    EXPECT(tpt_ir_reduce(ir, TPT_IR_RED_ADD, tpt_ir_convert(ir, same, TPT_I32), rank, all), (double)tpt_type_numel(&type));
}

PLUGIN_TEST(turns) {
    turned(r, TPT_F32, 2, DIMS(64, 48), DIMS(1, 0));
    turned(r, TPT_F32, 2, DIMS(700, 900), DIMS(1, 0));
    turned(r, TPT_F32, 4, DIMS(5, 30, 7, 9), DIMS(0, 2, 3, 1));
    turned(r, TPT_F64, 3, DIMS(50, 6, 70), DIMS(2, 1, 0));
    turned(r, TPT_I64, 3, DIMS(3, 41, 37), DIMS(0, 2, 1));
    turned(r, TPT_C64, 2, DIMS(61, 53), DIMS(1, 0));
    turned(r, TPT_C128, 2, DIMS(61, 53), DIMS(1, 0));
    turned(r, TPT_BF16, 2, DIMS(61, 53), DIMS(1, 0));
    turned(r, TPT_I8, 2, DIMS(61, 53), DIMS(1, 0));
    turned(r, TPT_BOOL, 2, DIMS(61, 53), DIMS(1, 0));
    turned(r, TPT_F32, 2, DIMS(3, 5), DIMS(1, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_reduce_n),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_scatters),
        cmocka_unit_test(test_dots),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_factorisations),
        cmocka_unit_test(test_fourier),
        cmocka_unit_test(test_sorting),
        cmocka_unit_test(test_random_bits),
        cmocka_unit_test(test_odd_ones),
        cmocka_unit_test(test_loops_and_conditions),
        cmocka_unit_test(test_empties),
        cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
