/* The C interface of Tilewright: compile a program once, launch it on arrays.
 *
 * Every function that can fail returns NULL or a non-zero status: 2 the caller's mistake, 3 a fault of Tilewright; tw_last_error() then holds the
 * message (thread local), which names arguments as the Python module does (sizes={"j": N}: a tw_value). Arrays are described as in DLPack: data pointer, dtype name, shape and strides in elements (strides NULL: row-major).
 * On target "cuda" data are device pointers and the launch is asynchronous on `stream` (a CUstream, NULL: the default stream). */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H
#include <stdint.h>

#if defined(__GNUC__)
#define TW_API __attribute__((visibility("default")))
#else
#define TW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_kernel tw_kernel;

typedef struct tw_array {
  const char* name;  /* of an input or output of the program */
  const char* dtype; /* "f32", "f16", "bf16", … */
  void* data;
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* in elements, or NULL */
} tw_array;

typedef struct tw_value {
  const char* name; /* of a param, or of an axis for sizes */
  double value;
} tw_value;

/* `source` is the text of a program; `target` "cpu", "cuda", "interp", "interp-mapped"; `schedule` NULL or "" for the defaults. `overrides` is NULL or
 * text like "d=64,Q=bf16": literal sizes and dtypes replaced before compilation. */
TW_API tw_kernel* tw_compile(const char* source, const char* target, const char* schedule,
                             const char* overrides);
/* Runs; `arrays` holds every input and output. */
TW_API int tw_run(tw_kernel* kernel, const tw_array* arrays, int32_t n_arrays, const tw_value* values,
                  int32_t n_values, void* stream);
/* JSON with inputs, outputs, axes, params and plans, each with the kernel that it belongs to (a program may take several, which run
 * one after another). Valid until the kernel is freed. */
TW_API const char* tw_describe(tw_kernel* kernel);
TW_API void tw_free(tw_kernel* kernel);
TW_API const char* tw_last_error(void);
TW_API const char* tw_version(void);

#ifdef __cplusplus
}
#endif
#endif
