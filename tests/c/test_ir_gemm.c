/* Dots as calls of the host's BLAS: the words of the call, what it reads in place, and what stays a dot. */
#include "test_support.h"

#include "base/gemm.h"
#include "ir/ir_internal.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static tpt_ir_t *fresh(void) {
    tpt_ir_t *ir = NULL;
    assert_ok(tpt_ir_new(&ir));
    tpt_ir_set_has_kernels(ir, true);
    tpt_ir_set_has_blas(ir, true);
    return ir;
}

static tpt_val_t arg(tpt_ir_t *ir, tpt_dtype_t dtype, int rank, const int64_t *dims) {
    return tpt_ir_arg(ir, tpt_type_make(dtype, rank, dims));
}

/* The text of the program that gives v. The caller frees it; the program is gone. */
static char *text_of(tpt_ir_t *ir, tpt_val_t v) {
    tpt_str_t text;
    tpt_str_init(&text, 1 << 20);
    tpt_ir_result(ir, v);
    if (tpt_ir_status(ir) != NULL) fail_msg("%s", tpt_status_message(tpt_ir_status(ir)));
    assert_ok(tpt_ir_verify(ir));
    assert_ok(tpt_ir_print(ir, "gemm", &text));
    char *copy = strdup(tpt_str_text(&text));
    assert_non_null(copy);
    tpt_str_free(&text);
    tpt_ir_free(ir);
    return copy;
}

static int lines_of(const char *text) {
    int n = 0;
    for (; *text != '\0'; text++) n += *text == '\n';
    return n;
}

/* It is one call of these operands with these words, after `before` other operations. */
static void assert_call_after(int before, tpt_ir_t *ir, tpt_val_t v, const char *operands, const char *words) {
    char *text = text_of(ir, v), want[1024];
    (void)snprintf(want, sizeof want, "\"stablehlo.custom_call\"(%s) <{call_target_name = \"tpt_gemm\"", operands);
    if (strstr(text, want) == NULL) fail_msg("no %s in\n%s", want, text);
    (void)snprintf(want, sizeof want, "backend_config = {words = array<i64: %s>}", words);
    if (strstr(text, want) == NULL) fail_msg("no %s in\n%s", want, text);
    if (strstr(text, "dot_general") != NULL || lines_of(text) != 6 + before) fail_msg("more than the call:\n%s", text);
    free(text);
}
static void assert_call(tpt_ir_t *ir, tpt_val_t v, const char *operands, const char *words) {
    assert_call_after(0, ir, v, operands, words);
}

/* It stays a dot. */
static void assert_dot(tpt_ir_t *ir, tpt_val_t v) {
    char *text = text_of(ir, v);
    if (strstr(text, "tpt_gemm") != NULL || strstr(text, "dot_general") == NULL) fail_msg("a call:\n%s", text);
    free(text);
}

/* The words: m, n, k; turned a, b; lda, ldb, ldc; at a, b; adds; d's row, column, at; alpha's, beta's; loops, each size, a, b,
 * c. */

static void test_ir_gemm__plain_and_transposed(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(40, 50)), y = arg(ir, TPT_F32, 2, DIMS(50, 60));
    assert_call(ir, tpt_ir_matmul(ir, x, y), "%arg0, %arg1", "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh();
    x = tpt_ir_transpose(ir, arg(ir, TPT_F64, 2, DIMS(50, 40)), DIMS(1, 0));
    y = arg(ir, TPT_F64, 2, DIMS(50, 60));
    assert_call(ir, tpt_ir_matmul(ir, x, y), "%arg0, %arg1", "40, 60, 50, 1, 0, 40, 60, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh();
    x = arg(ir, TPT_F32, 2, DIMS(40, 50));
    y = tpt_ir_turn(ir, arg(ir, TPT_F32, 2, DIMS(60, 50)), DIMS(1, 0));
    assert_call(ir, tpt_ir_matmul(ir, x, y), "%arg0, %arg1", "40, 60, 50, 0, 1, 50, 50, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* no transpose, but a dot that contracts over the first dims */
    x = arg(ir, TPT_F32, 2, DIMS(50, 40));
    y = arg(ir, TPT_F32, 2, DIMS(60, 50));
    const tpt_ir_dot_t d = {.n_contract = 1, .lhs_contract = {0}, .rhs_contract = {1}};
    assert_call(ir, tpt_ir_dot(ir, x, y, &d), "%arg0, %arg1", "40, 60, 50, 1, 1, 40, 50, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* a matrix by itself */
    x = arg(ir, TPT_F32, 2, DIMS(40, 50));
    assert_call(ir, tpt_ir_matmul(ir, x, tpt_ir_transpose(ir, x, DIMS(1, 0))), "%arg0, %arg0",
                "40, 40, 50, 0, 1, 50, 50, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0");
}

/* [8, 64, 192] seen as [8, 6, 64, 32]. */
static tpt_val_t heads(tpt_ir_t *ir, tpt_val_t x) {
    return tpt_ir_transpose(ir, tpt_ir_reshape(ir, x, 4, DIMS(8, 64, 6, 32)), DIMS(0, 2, 1, 3));
}

static void test_ir_gemm__attention_heads(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t q = arg(ir, TPT_F32, 3, DIMS(8, 64, 192)), k = arg(ir, TPT_F32, 3, DIMS(8, 64, 192));
    tpt_val_t turned = tpt_ir_transpose(ir, heads(ir, k), DIMS(0, 1, 3, 2));
    assert_call(ir, tpt_ir_matmul(ir, heads(ir, q), turned), "%arg0, %arg1",
                "64, 64, 32, 0, 1, 192, 192, 64, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 12288, 12288, 24576, 6, 32, 32, 4096");

    ir = fresh(); /* weights by values, with batch and heads as one dim */
    tpt_val_t w = arg(ir, TPT_F32, 3, DIMS(48, 64, 64)), v = heads(ir, arg(ir, TPT_F32, 3, DIMS(8, 64, 192)));
    tpt_val_t w4 = tpt_ir_reshape(ir, w, 4, DIMS(8, 6, 64, 64));
    assert_call(ir, tpt_ir_matmul(ir, w4, v), "%arg0, %arg1",
                "64, 32, 64, 0, 0, 64, 192, 32, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 24576, 12288, 12288, 6, 4096, 32, 2048");

    ir = fresh(); /* q, k and v cut out of one array */
    tpt_val_t all = arg(ir, TPT_F32, 3, DIMS(8, 64, 576));
    q = tpt_ir_slice_dim(ir, all, 2, 0, 192);
    k = tpt_ir_slice_dim(ir, all, 2, 192, 384);
    turned = tpt_ir_transpose(ir, heads(ir, k), DIMS(0, 1, 3, 2));
    assert_call(ir, tpt_ir_matmul(ir, heads(ir, q), turned), "%arg0, %arg0",
                "64, 64, 32, 0, 1, 576, 576, 64, 0, 192, 0, 0, 0, 0, 0, 0, 2, 8, 36864, 36864, 24576, 6, 32, 32, 4096");

    ir = fresh(); /* the same, with batch and heads as one dim: its places are in two runs */
    all = arg(ir, TPT_F32, 3, DIMS(8, 64, 576));
    q = tpt_ir_reshape(ir, heads(ir, tpt_ir_slice_dim(ir, all, 2, 0, 192)), 3, DIMS(48, 64, 32));
    k = tpt_ir_reshape(ir, heads(ir, tpt_ir_slice_dim(ir, all, 2, 192, 384)), 3, DIMS(48, 64, 32));
    assert_call(ir, tpt_ir_matmul(ir, q, tpt_ir_transpose(ir, k, DIMS(0, 2, 1))), "%arg0, %arg0",
                "64, 64, 32, 0, 1, 576, 576, 64, 0, 192, 0, 0, 0, 0, 0, 0, 2, 8, 36864, 36864, 24576, 6, 32, 32, 4096");

    ir = fresh(); /* one operand in two runs, the other in one; split again otherwise than it was merged: still two */
    q = tpt_ir_reshape(ir, heads(ir, arg(ir, TPT_F32, 3, DIMS(8, 64, 192))), 4, DIMS(16, 3, 64, 32));
    k = tpt_ir_reshape(ir, arg(ir, TPT_F32, 3, DIMS(48, 32, 64)), 4, DIMS(16, 3, 32, 64));
    assert_call(ir, tpt_ir_matmul(ir, q, k), "%arg0, %arg1",
                "64, 64, 32, 0, 0, 192, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 12288, 12288, 24576, 6, 32, 2048, 4096");
}

/* Rows in two runs are made by the routine, once for all that read them. */
static void test_ir_gemm__an_operand_that_is_made(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_ir_set_has_kernels(ir, true);
    tpt_val_t merged = tpt_ir_reshape(ir, tpt_ir_transpose(ir, arg(ir, TPT_F32, 4, DIMS(8, 6, 64, 32)), DIMS(0, 2, 1, 3)), 2, DIMS(512, 192));
    tpt_val_t product = tpt_ir_matmul(ir, merged, arg(ir, TPT_F32, 2, DIMS(192, 64)));
    tpt_ir_result(ir, tpt_ir_unary(ir, TPT_IR_EXP, merged));
    char *text = text_of(ir, product);
    if (strstr(text, "stablehlo.transpose") != NULL || strstr(text, "tpt_permute") == NULL) fail_msg("no routine:\n%s", text);
    free(text);
}

/* What reads the weights comes before what their update waits for. */
static void test_ir_gemm__gradients_in_order(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(64, 80)), w = arg(ir, TPT_F32, 2, DIMS(96, 80));
    tpt_val_t grad = tpt_ir_unary(ir, TPT_IR_EXP, arg(ir, TPT_F32, 2, DIMS(64, 96)));
    tpt_val_t of_x = tpt_ir_matmul(ir, tpt_ir_reshape(ir, grad, 2, DIMS(64, 96)), w);
    tpt_val_t of_w = tpt_ir_matmul(ir, tpt_ir_transpose(ir, grad, DIMS(1, 0)), x);
    tpt_ir_result(ir, of_x);
    char *text = text_of(ir, of_w);
    if (strstr(text, "(%0, %arg0, %1)") == NULL) fail_msg("no order:\n%s", text);
    free(text);

    ir = fresh(); /* another product of neither */
    x = arg(ir, TPT_F32, 2, DIMS(64, 80));
    w = arg(ir, TPT_F32, 2, DIMS(80, 96));
    tpt_ir_result(ir, tpt_ir_matmul(ir, x, w));
    x = arg(ir, TPT_F32, 2, DIMS(64, 64));
    text = text_of(ir, tpt_ir_matmul(ir, x, arg(ir, TPT_F32, 2, DIMS(64, 64))));
    if (strstr(text, "(%arg2, %arg3)") == NULL) fail_msg("an order:\n%s", text);
    free(text);
}

static void test_ir_gemm__slices(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(50, 70)), y = arg(ir, TPT_F32, 2, DIMS(90, 100));
    x = tpt_ir_slice(ir, x, DIMS(3, 10), DIMS(43, 60), NULL);
    y = tpt_ir_slice(ir, y, DIMS(8, 20), DIMS(58, 80), NULL);
    assert_call(ir, tpt_ir_matmul(ir, x, y), "%arg0, %arg1", "40, 60, 50, 0, 0, 70, 100, 60, 220, 820, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* every other row is as good; every other column is not, so that slice is made */
    x = tpt_ir_slice(ir, arg(ir, TPT_F32, 2, DIMS(90, 50)), DIMS(1, 0), DIMS(81, 50), DIMS(2, 1));
    y = tpt_ir_slice(ir, arg(ir, TPT_F32, 2, DIMS(50, 120)), DIMS(0, 0), DIMS(50, 120), DIMS(1, 2));
    assert_call_after(1, ir, tpt_ir_matmul(ir, x, y), "%arg0, %0", "40, 60, 50, 0, 0, 100, 60, 60, 50, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* a small part of an argument is seen through, of something made it is not */
    x = tpt_ir_slice_dim(ir, arg(ir, TPT_F32, 2, DIMS(4000, 50)), 0, 200, 240);
    y = tpt_ir_slice_dim(ir, tpt_ir_neg(ir, arg(ir, TPT_F32, 2, DIMS(50, 6000))), 1, 60, 120);
    assert_call_after(2, ir, tpt_ir_matmul(ir, x, y), "%arg0, %1",
                      "40, 60, 50, 0, 0, 50, 60, 60, 10000, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh();
    x = arg(ir, TPT_F32, 2, DIMS(40, 50));
    y = tpt_ir_slice_dim(ir, tpt_ir_neg(ir, arg(ir, TPT_F32, 2, DIMS(50, 200))), 1, 60, 120);
    assert_call_after(1, ir, tpt_ir_matmul(ir, x, y), "%arg0, %0", "40, 60, 50, 0, 0, 50, 200, 60, 0, 60, 0, 0, 0, 0, 0, 0, 0");
}

static void test_ir_gemm__expanded_batch(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = arg(ir, TPT_F32, 3, DIMS(5, 20, 30)), y = arg(ir, TPT_F32, 2, DIMS(30, 40));
    y = tpt_ir_broadcast_to(ir, y, 3, DIMS(5, 30, 40));
    assert_call(ir, tpt_ir_matmul(ir, x, y), "%arg0, %arg1",
                "20, 40, 30, 0, 0, 30, 40, 40, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 600, 0, 800");

    ir = fresh(); /* of size 1, too; on the other side */
    x = tpt_ir_broadcast_in_dim(ir, arg(ir, TPT_F32, 3, DIMS(1, 20, 30)), 3, DIMS(5, 20, 30), DIMS(0, 1, 2));
    y = arg(ir, TPT_F32, 3, DIMS(5, 30, 40));
    assert_call(ir, tpt_ir_matmul(ir, x, y), "%arg0, %arg1",
                "20, 40, 30, 0, 0, 30, 40, 40, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 1200, 800");

    ir = fresh(); /* rows that are all one row are no matrix for BLAS: they are made */
    x = tpt_ir_broadcast_to(ir, arg(ir, TPT_F32, 1, DIMS(50)), 2, DIMS(40, 50));
    y = arg(ir, TPT_F32, 2, DIMS(50, 60));
    assert_call_after(1, ir, tpt_ir_matmul(ir, x, y), "%0, %arg1", "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");
}

static void test_ir_gemm__reshapes(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh(); /* what strides cannot say is made */
    tpt_val_t x = tpt_ir_transpose(ir, arg(ir, TPT_F32, 3, DIMS(4, 50, 10)), DIMS(0, 2, 1));
    x = tpt_ir_reshape(ir, tpt_ir_transpose(ir, x, DIMS(1, 0, 2)), 2, DIMS(40, 50));
    tpt_val_t y = arg(ir, TPT_F32, 2, DIMS(50, 60));
    assert_call_after(2, ir, tpt_ir_matmul(ir, x, y), "%1, %arg1", "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* dims of size 1 come and go */
    x = tpt_ir_reshape(ir, arg(ir, TPT_F32, 4, DIMS(1, 4, 10, 50)), 5, DIMS(2, 2, 1, 10, 50));
    x = tpt_ir_reshape(ir, x, 2, DIMS(40, 50));
    y = tpt_ir_unsqueeze(ir, arg(ir, TPT_F32, 2, DIMS(60, 50)), 1);
    y = tpt_ir_transpose(ir, tpt_ir_squeeze(ir, y, 1), DIMS(1, 0));
    assert_call(ir, tpt_ir_matmul(ir, x, y), "%arg0, %arg1", "40, 60, 50, 0, 1, 50, 50, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* rows of windows: several dims of rows, which are no one run */
    x = tpt_ir_slice_dim(ir, arg(ir, TPT_F32, 3, DIMS(4, 12, 50)), 1, 1, 11);
    y = arg(ir, TPT_F32, 2, DIMS(50, 60));
    const tpt_ir_dot_t d = {.n_contract = 1, .lhs_contract = {2}, .rhs_contract = {0}};
    assert_call(ir, tpt_ir_dot(ir, x, y, &d), "%arg0, %arg1",
                "10, 60, 50, 0, 0, 50, 60, 60, 50, 0, 0, 0, 0, 0, 0, 0, 1, 4, 600, 0, 600");

    ir = fresh(); /* without gaps they are */
    x = arg(ir, TPT_F32, 3, DIMS(4, 10, 50));
    y = arg(ir, TPT_F32, 2, DIMS(50, 60));
    assert_call(ir, tpt_ir_dot(ir, x, y, &d), "%arg0, %arg1", "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* two contracted dims that are one */
    x = arg(ir, TPT_F32, 3, DIMS(40, 5, 10));
    y = arg(ir, TPT_F32, 3, DIMS(5, 10, 60));
    const tpt_ir_dot_t two = {.n_contract = 2, .lhs_contract = {1, 2}, .rhs_contract = {0, 1}};
    assert_call(ir, tpt_ir_dot(ir, x, y, &two), "%arg0, %arg1", "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");

    ir = fresh(); /* and two that are not */
    x = arg(ir, TPT_F32, 3, DIMS(5, 40, 10));
    y = arg(ir, TPT_F32, 3, DIMS(5, 10, 60));
    const tpt_ir_dot_t apart = {.n_contract = 2, .lhs_contract = {0, 2}, .rhs_contract = {0, 1}};
    assert_dot(ir, tpt_ir_dot(ir, x, y, &apart));
}

static tpt_val_t square(tpt_ir_t *ir, tpt_dtype_t dtype, int64_t n) {
    const tpt_val_t x = arg(ir, dtype, 2, DIMS(n, n));
    return tpt_ir_matmul(ir, x, arg(ir, dtype, 2, DIMS(n, n)));
}

static void test_ir_gemm__what_stays_a_dot(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    assert_dot(ir, square(ir, TPT_F32, 31));
    ir = fresh(); /* 32,768 multiplications */
    assert_call(ir, square(ir, TPT_F32, 32), "%arg0, %arg1", "32, 32, 32, 0, 0, 32, 32, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0");
    static const tpt_dtype_t dtypes[] = {TPT_F16, TPT_BF16, TPT_I8, TPT_I32, TPT_I64, TPT_C64, TPT_C128};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        ir = fresh();
        assert_dot(ir, square(ir, dtypes[i], 64));
    }
    for (int i = 0; i < 2; i++) { /* of one row, of one column */
        ir = fresh();
        tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(i == 0 ? 1 : 400, 400)), y = arg(ir, TPT_F32, 2, DIMS(400, i == 0 ? 400 : 1));
        assert_dot(ir, tpt_ir_matmul(ir, x, y));
    }
    ir = fresh();
    tpt_ir_set_has_blas(ir, false);
    assert_dot(ir, square(ir, TPT_F32, 64));
    ir = fresh(); /* the sum in another dtype */
    tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(64, 64));
    const tpt_ir_dot_t wide = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {0}, .out_dtype = TPT_F64};
    assert_dot(ir, tpt_ir_dot(ir, x, x, &wide));
    ir = fresh();
    const tpt_ir_dot_t own = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {0}, .out_dtype = TPT_F32};
    x = arg(ir, TPT_F32, 2, DIMS(64, 64));
    assert_call(ir, tpt_ir_dot(ir, x, x, &own), "%arg0, %arg0", "64, 64, 64, 0, 0, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0");
}

static tpt_val_t product_of(tpt_ir_t *ir, int64_t m, int64_t k, int64_t n) {
    const tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(m, k));
    return tpt_ir_matmul(ir, x, arg(ir, TPT_F32, 2, DIMS(k, n)));
}

/* BLAS counts with 32 bits: sizes or strides beyond that stay XLA's, or are read from a smaller array that is made. */
static void test_ir_gemm__too_large(void **state) {
    (void)state;
    const int64_t large = (int64_t)INT32_MAX + 1;
    tpt_ir_t *ir = fresh();
    assert_dot(ir, product_of(ir, large, 2, 2));
    ir = fresh();
    assert_dot(ir, product_of(ir, 2, 2, large));
    ir = fresh();
    assert_dot(ir, product_of(ir, 2, large, 2));
    ir = fresh(); /* as large as may be */
    assert_call(ir, product_of(ir, 2, large - 1, 2), "%arg0, %arg1",
                "2, 2, 2147483647, 0, 0, 2147483647, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0");
    ir = fresh();
    tpt_val_t x = tpt_ir_slice_dim(ir, arg(ir, TPT_F32, 2, DIMS(40, large)), 1, 7, 57);
    assert_call_after(1, ir, tpt_ir_matmul(ir, x, arg(ir, TPT_F32, 2, DIMS(50, 60))), "%0, %arg1",
                      "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0");
    ir = fresh(); /* no stride: just far away */
    x = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, arg(ir, TPT_F32, 1, DIMS(2 * large)), 0, large, large + 2000), 2, DIMS(40, 50));
    assert_call(ir, tpt_ir_matmul(ir, x, arg(ir, TPT_F32, 2, DIMS(50, 60))), "%arg0, %arg1",
                "40, 60, 50, 0, 0, 50, 60, 60, 2147483648, 0, 0, 0, 0, 0, 0, 0, 0");
}

/* A single op's program gives the call something to wait for, which is no other word. */
static void test_ir_gemm__alone(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_ir_set_alone(ir, true);
    assert_call(ir, square(ir, TPT_F32, 64), "%arg0, %arg1", "64, 64, 64, 0, 0, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0");
    ir = fresh();
    tpt_ir_set_alone(ir, true);
    assert_call_after(3, ir, square(ir, TPT_F32, 128), "%arg0, %arg1, %2",
                      "128, 128, 128, 0, 0, 128, 128, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0");
}

/* ---- alpha x y + beta self ------------------------------------------------------------------------------------------------
 */

static void test_ir_gemm__added(void **state) {
    (void)state;
    static const struct {
        int rank;
        int64_t dims[2];
        const char *d; /* its row, column, at */
    } selfs[] = {{2, {40, 60}, "60, 1"}, {1, {60}, "0, 1"},   {2, {1, 60}, "0, 1"},
                 {2, {40, 1}, "1, 0"},   {2, {1, 1}, "0, 0"}, {0, {0}, "0, 0"}};
    for (size_t i = 0; i < sizeof selfs / sizeof *selfs; i++) {
        tpt_ir_t *ir = fresh();
        tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(40, 50)), y = arg(ir, TPT_F32, 2, DIMS(50, 60));
        tpt_val_t self = arg(ir, TPT_F32, selfs[i].rank, selfs[i].dims), numbers = arg(ir, TPT_F32, 1, DIMS(8));
        tpt_val_t alpha = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, numbers, 0, 5, 6), 0, NULL);
        tpt_val_t beta = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, numbers, 0, 2, 3), 0, NULL);
        char words[256];
        (void)snprintf(words, sizeof words, "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 1, %s, 0, 5, 2, 0", selfs[i].d);
        assert_call(ir, tpt_ir_gemm_add(ir, x, y, self, alpha, beta), "%arg0, %arg1, %arg2, %arg3, %arg3", words);
    }
}

/* self is a window, too; alpha and beta may be anything of the dtype. */
static void test_ir_gemm__added_views(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = arg(ir, TPT_F64, 2, DIMS(40, 50)), y = tpt_ir_transpose(ir, arg(ir, TPT_F64, 2, DIMS(60, 50)), DIMS(1, 0));
    tpt_val_t self = tpt_ir_transpose(ir, tpt_ir_slice_dim(ir, arg(ir, TPT_F64, 2, DIMS(70, 40)), 0, 3, 63), DIMS(1, 0));
    tpt_val_t alpha = arg(ir, TPT_F64, 0, NULL), beta = tpt_ir_neg(ir, alpha);
    assert_call_after(1, ir, tpt_ir_gemm_add(ir, x, y, self, alpha, beta), "%arg0, %arg1, %arg2, %arg3, %0",
                      "40, 60, 50, 0, 1, 50, 50, 60, 0, 0, 1, 1, 40, 120, 0, 0, 0");

    ir = fresh(); /* every other element of a row */
    x = arg(ir, TPT_F32, 2, DIMS(40, 50));
    y = arg(ir, TPT_F32, 2, DIMS(50, 60));
    self = tpt_ir_slice(ir, arg(ir, TPT_F32, 1, DIMS(200)), DIMS(5), DIMS(125), DIMS(2));
    alpha = arg(ir, TPT_F32, 0, NULL);
    assert_call(ir, tpt_ir_gemm_add(ir, x, y, self, alpha, alpha), "%arg0, %arg1, %arg2, %arg3, %arg3",
                "40, 60, 50, 0, 0, 50, 60, 60, 0, 0, 1, 0, 2, 5, 0, 0, 0");
}

static tpt_val_t added(tpt_ir_t *ir, tpt_dtype_t dtype, tpt_dtype_t other, int64_t n, int rank) {
    tpt_val_t x = arg(ir, dtype, rank, DIMS(n, n, n)), number = arg(ir, dtype, 0, NULL);
    return tpt_ir_gemm_add(ir, x, x, arg(ir, other, 1, DIMS(n)), number, number);
}

static void test_ir_gemm__nothing_added(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    assert_int_not_equal(added(ir, TPT_F32, TPT_F32, 64, 2), TPT_VAL_NONE);
    assert_int_equal(added(ir, TPT_F32, TPT_F32, 31, 2), TPT_VAL_NONE);
    assert_int_equal(added(ir, TPT_F32, TPT_F64, 64, 2), TPT_VAL_NONE);
    assert_int_equal(added(ir, TPT_F32, TPT_F32, 64, 3), TPT_VAL_NONE);
    assert_int_equal(added(ir, TPT_F16, TPT_F16, 64, 2), TPT_VAL_NONE);
    assert_int_equal(added(ir, TPT_I32, TPT_I32, 64, 2), TPT_VAL_NONE);
    tpt_val_t x = arg(ir, TPT_F32, 2, DIMS(64, 65)), number = arg(ir, TPT_F32, 0, NULL);
    assert_int_equal(tpt_ir_gemm_add(ir, x, x, number, number, number), TPT_VAL_NONE);
    tpt_ir_set_has_blas(ir, false);
    assert_int_equal(added(ir, TPT_F32, TPT_F32, 64, 2), TPT_VAL_NONE);
    assert_null(tpt_ir_status(ir)); /* that is no error */
    tpt_ir_free(ir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ir_gemm__plain_and_transposed),
        cmocka_unit_test(test_ir_gemm__attention_heads),
        cmocka_unit_test(test_ir_gemm__an_operand_that_is_made),
        cmocka_unit_test(test_ir_gemm__gradients_in_order),
        cmocka_unit_test(test_ir_gemm__slices),
        cmocka_unit_test(test_ir_gemm__expanded_batch),
        cmocka_unit_test(test_ir_gemm__reshapes),
        cmocka_unit_test(test_ir_gemm__what_stays_a_dot),
        cmocka_unit_test(test_ir_gemm__too_large),
        cmocka_unit_test(test_ir_gemm__alone),
        cmocka_unit_test(test_ir_gemm__added),
        cmocka_unit_test(test_ir_gemm__added_views),
        cmocka_unit_test(test_ir_gemm__nothing_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
