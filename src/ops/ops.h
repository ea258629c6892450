/* ops.h - the door of src/ops: the table of rows, and what a lowering function sees.
 *
 * A row stands for one ATen overload in its functional form ("add.Tensor"); the same lowering serves the in-place and out=
 * forms. Rows are written in *.def files and gathered by rows.c. */
#ifndef TPT_OPS_OPS_H
#define TPT_OPS_OPS_H

#include "ir/ir.h"

/* A row's flag beside those of tpt.h: where all its operands are whole storages, its loops run as fast and to the same bits without
 * XLA's fusion emitters, which are a third to a half of a CPU plugin's compile. To be measured before it is set: NOTES.md. */
enum { TPT_ROW_PLAIN_LOOPS = 1 << 10 };
/* And: it copies its operand, element by element. */
enum { TPT_ROW_COPIES = 1 << 12 };

/* A number's value, of complex ones the real part. */
static inline double tpt_number_value(const tpt_number_t* n) {
  const tpt_dtype_t d = (tpt_dtype_t)n->dtype;
  if (tpt_dtype_is_float(d) || tpt_dtype_is_complex(d)) return n->v.f[0];
  return d == TPT_U64 ? (double)(uint64_t)n->v.i : (double)n->v.i;
}

/* Does it have an imaginary part? Part of a plan's key, for a real tensor takes none. Plans keep no value, but this. */
static inline bool tpt_number_is_twisted(const tpt_number_t* n) {
  return tpt_dtype_is_complex((tpt_dtype_t)n->dtype) && n->v.f[1] != 0;
}

typedef struct tpt_lower tpt_lower_t;
typedef void (*tpt_lower_fn_t)(tpt_lower_t* L);

/* How an elementwise row's operands get their compute dtype. */
typedef enum tpt_promote {
  TPT_PROMOTE_NONE = 0, /* tensors only: numbers are parameters without a say; for functions: the lowering does it */
  TPT_PROMOTE_SAME,     /* PyTorch's result_type of all tensor and number operands */
  TPT_PROMOTE_FLOAT,    /* the same, but integers and bool become the default float dtype of the output */
  TPT_PROMOTE_EXACT     /* as SAME, but halves are not computed in float32: numbers round to them (comparisons) */
} tpt_promote_t;

struct tpt_row {
  const char* name;
  uint32_t flags;        /* tpt_row_flag_t */
  uint8_t promote;       /* tpt_promote_t, for `expr` rows */
  const char* expr;      /* elementwise expression over the schema's argument names (expr.h), or NULL */
  tpt_lower_fn_t lower;  /* used when expr is NULL; NULL too for host routines */
  int64_t data;          /* free for the lowering: lets several rows share a function */
  const char* statics;   /* names of number arguments that are part of the plan's key ("exponent p"), or NULL; "alpha=1": part
                            of it when it is 1, a run-time operand otherwise (nearly every alpha is 1) */
  const char* writes;    /* params mutated although the schema does not say so ("running_mean running_var"), or NULL */
  const char* writes_if; /* name of a bool argument: the writes happen only when it is true; NULL = always */
};

/* Lowering state of one call: made by src/run, borrowed by the lowering function.
 * Arguments are looked up by the schema's name; a name that the schema lacks is like None. A wrong kind is a sticky error. */
struct tpt_lower {
  tpt_ir_t* ir;
  const struct tpt_row* row;
  const char* schema_name;
  int nargs;
  const char* const* names; /* nargs */
  const tpt_arg_t* args;    /* nargs; static parts only: tensors have dtype, rank and sizes, no storage */
  const tpt_val_t* const*
      values;             /* per argument: its decoded tensor values (1 for TENSOR, count for TENSORS, VAL_NONE = None) */
  int nouts;              /* fresh outputs expected (0 when unknown: NOMETA) */
  const tpt_spec_t* outs; /* their dtype and sizes, from meta kernels; NULL when unknown */
  bool written;           /* in-place and out= calls: nouts and outs tell of the written tensors instead */
  /* Filled by the lowering: */
  int nresults, results_capacity;
  tpt_val_t* results; /* [fresh outputs..., then one per written tensor in schema order, `writes` last] */
  tpt_val_t count;    /* DYNAMIC rows: rank-0 i64 number of valid rows of the padded results */
  tpt_val_t bad;      /* rank-0 bool: some user-given index is out of range */
  int64_t bad_size;   /* for the message: the size of the indexed dimension; -1 unknown */
  const char* bad_text; /* a literal: what is wrong when it is no index; NULL */
  void* run;          /* private to src/run */
  tpt_val_t (*number)(tpt_lower_t* L, int arg, int item, int fn, tpt_dtype_t dtype); /* provided by src/run */
  tpt_val_t (*rng)(tpt_lower_t* L, int arg);                                         /* provided by src/run */
};

/* ---- arguments (args.c) ------------------------------------------------------------------------------------------- */
int tpt_lower_find(const tpt_lower_t* L, const char* name);       /* index, or -1 */
bool tpt_lower_has(const tpt_lower_t* L, const char* name);       /* present and not None */
bool tpt_lower_is_tensor(const tpt_lower_t* L, const char* name); /* false for a number (0-d cpu tensor, Scalar) */
tpt_val_t tpt_lower_tensor(tpt_lower_t* L, const char* name);     /* decoded value, logical shape, own dtype; error if None. A
                                                                     number becomes a rank-0 value of its own dtype. */
tpt_val_t tpt_lower_optional(tpt_lower_t* L, const char* name);   /* TPT_VAL_NONE if None */
int tpt_lower_count(const tpt_lower_t* L, const char* name);      /* length of a list; 0 if None */
tpt_val_t tpt_lower_item(tpt_lower_t* L, const char* name,
                         int i); /* i-th of a tensor list; TPT_VAL_NONE if that item is None */
int64_t tpt_lower_int(tpt_lower_t* L, const char* name, int64_t if_none);
bool tpt_lower_bool(tpt_lower_t* L, const char* name, bool if_none);
/* Copies at most `max` ints; returns the count (0 if None). */
int tpt_lower_ints(tpt_lower_t* L, const char* name, int64_t* out, int max);
bool tpt_lower_text_is(const tpt_lower_t* L, const char* name, const char* text); /* string argument equal to text */
tpt_dtype_t tpt_lower_dtype(tpt_lower_t* L, const char* name, tpt_dtype_t if_none);
/* A dim argument wrapped into [0, rank); sticky IndexError when out of range. */
int tpt_lower_dim(tpt_lower_t* L, const char* name, int rank, int64_t if_none);
/* A dim list as a sorted unique list of wrapped dims; empty or None = all dims. Returns the count. */
int tpt_lower_dims(tpt_lower_t* L, const char* name, int rank, int64_t* out);
/* A run-time number as a rank-0 value of `dtype`. `fn` is applied on the host in double (or int64) before conversion. */
typedef enum tpt_number_fn {
  TPT_NUM_ID = 0,
  TPT_NUM_NEG,
  TPT_NUM_ONE_MINUS,
  TPT_NUM_RECIP,
  TPT_NUM_RECIP_ONE_MINUS /* 1/(1-x), 0 if x == 1 */,
  TPT_NUM_SQRT
} tpt_number_fn_t;
tpt_val_t tpt_lower_number(tpt_lower_t* L, const char* name, tpt_dtype_t dtype);
tpt_val_t tpt_lower_number_fn(tpt_lower_t* L, const char* name, tpt_number_fn_t fn, tpt_dtype_t dtype);
tpt_val_t tpt_lower_number_item(tpt_lower_t* L, const char* name, int i, tpt_number_fn_t fn, tpt_dtype_t dtype); /* Scalar[] */
/* A number named in the row's `statics`: its value. */
double tpt_lower_static(tpt_lower_t* L, const char* name, double if_none);
bool tpt_lower_is_static(const tpt_lower_t* L, const char* name); /* is it named there? */
bool tpt_lower_is_one(const tpt_lower_t* L, const char* name);    /* is it named there with "=1", and 1? */
/* Dtype of a number argument (I64, F64, BOOL, C128 for Python's), or TPT_DTYPE_NONE. */
tpt_dtype_t tpt_lower_number_dtype(const tpt_lower_t* L, const char* name);
/* Random state u64[2] for tpt_ir_rng_bits; each call of it in one lowering gives a distinct stream. */
tpt_val_t tpt_lower_rng(tpt_lower_t* L);
/* Uniform [0, 1) of shape, float dtype: 24 (float32 and halves) or 53 bits. Normal by Box-Muller or inverse error function. */
tpt_val_t tpt_lower_uniform(tpt_lower_t* L, tpt_type_t type);
tpt_val_t tpt_lower_normal(tpt_lower_t* L, tpt_type_t type);

/* ---- results ------------------------------------------------------------------------------------------------------- */
/* Appends the next result. src/run converts it to the expected dtype; its shape must be the expected one. */
void tpt_lower_result(tpt_lower_t* L, tpt_val_t v);
/* Does it broadcast to the shape of result k (L->outs)? */
bool tpt_lower_fits(const tpt_lower_t* L, int k, tpt_val_t v);
/* Ors `bad` (any shape, bool) into the out-of-range flag; no-op when index checks are off. */
void tpt_lower_flag(tpt_lower_t* L, tpt_val_t bad, int64_t size);
/* The same for values that PyTorch refuses in `text` (a literal): a RuntimeError. One text a lowering. */
void tpt_lower_refuse(tpt_lower_t *L, tpt_val_t bad, const char *text);
/* Wraps negative indices of a dim of `size`, flags those outside [-size, size), keeps their dtype. */
tpt_val_t tpt_lower_index(tpt_lower_t* L, tpt_val_t index, int64_t size);
/* Sticky error, returns TPT_VAL_NONE. */
tpt_val_t tpt_lower_fail(tpt_lower_t* L, tpt_code_t code, const char* fmt, ...) TPT_PRINTF(3, 4);

/* ---- promotion (promote.c): c10::promoteTypes and the result_type rules --------------------------------------------- */
tpt_dtype_t tpt_promote_types(tpt_dtype_t a, tpt_dtype_t b);
/* result_type over all TENSOR (dims / 0-dim) and NUMBER arguments of the call, by PyTorch's three categories. */
tpt_dtype_t tpt_promote_args(const tpt_lower_t* L);
tpt_dtype_t tpt_promote_tensors(const tpt_lower_t* L); /* the same without the numbers */

/* ---- expressions (expr.c) ------------------------------------------------------------------------------------------ */
/* Lowers row->expr; docs in expr.h. */
void tpt_expr_lower(tpt_lower_t* L);

/* ---- plain calls (plain.c) ----------------------------------------------------------------------------------------- */
/* Is the call surely valid, and typed in full by its lowering, so that PyTorch's meta kernel need not be asked? `fresh`: the
 * form returns new tensors. The last argument is the unusual default dtype, or None. */
bool tpt_row_is_plain(const tpt_row_t *row, int nargs, const tpt_arg_t *args, const char *const *names, bool fresh);

/* Runs the row's lowering (expression or function). */
void tpt_row_lower(tpt_lower_t* L);

#endif
