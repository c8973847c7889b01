#include "tilewright/driver/library_text.h"

#include <fmt/format.h>

#include <utility>

namespace tilewright {

const char* c_type(DType t) {
  switch (t) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16:
    case DType::bf16: return "uint16_t";
    case DType::f8e4m3:
    case DType::f8e5m2: return "uint8_t";
    case DType::i64: return "int64_t";
    case DType::i32: return "int32_t";
    case DType::i8: return "int8_t";
    case DType::boolean: return "uint8_t";
  }
  return "void";
}

CDialect host_dialect() {
  CDialect d;
  d.real_bits = 64;
  d.integer64 = "int64_t";
  const std::pair<Op, const char*> functions[] = {
      {Op::Exp, "exp"},   {Op::Exp2, "exp2"}, {Op::Log, "log"},  {Op::Log2, "log2"},   {Op::Sqrt, "sqrt"},
      {Op::Tanh, "tanh"}, {Op::Erf, "erf"},   {Op::Abs, "fabs"}, {Op::Floor, "floor"}, {Op::Round, "rint"}};
  for (const auto& [op, name] : functions)
    d.functions[{op, CKind::Real}] = fmt::format("__builtin_{}({{0}})", name);
  d.functions[{Op::Rsqrt, CKind::Real}] = "(1.0 / __builtin_sqrt({0}))";
  d.functions[{Op::Sigmoid, CKind::Real}] = "(1.0 / (1.0 + __builtin_exp(-({0}))))";
  d.functions[{Op::Pow, CKind::Real}] = "__builtin_pow({0}, {1})";
  for (CKind kind : {CKind::Real, CKind::Integer}) {
    d.functions[{Op::Max, kind}] = "host_max({0}, {1})";
    d.functions[{Op::Min, kind}] = "host_min({0}, {1})";
    d.functions[{Op::Sign, kind}] = "host_sign({0})";
  }
  d.functions[{Op::Abs, CKind::Integer}] = "host_max({0}, -({0}))";
  d.functions[{Op::FloorDiv, CKind::Integer}] = "host_floordiv({0}, {1})";
  d.functions[{Op::Mod, CKind::Integer}] = "host_mod({0}, {1})";
  d.casts[DType::f32] = "(double)(float)({0})";
  d.casts[DType::i64] = "(int64_t)({0})";
  d.casts[DType::i32] = "(int32_t)({0})";
  d.casts[DType::i8] = "(int8_t)({0})";
  return d;
}

extern const char* const library_helpers = R"TEXT(
namespace {

template <class T> T host_max(T a, T b) { return a > b || a != a ? a : b; }
template <class T> T host_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> T host_sign(T a) { return a > 0 ? 1 : a < 0 ? -1 : a; }
int64_t host_mod(int64_t a, int64_t b) { return b == 0 ? 0 : (a % b + b) % b; }
int64_t host_floordiv(int64_t a, int64_t b) { return b == 0 ? 0 : (a - host_mod(a, b)) / b; }

// Strides of an array: those given, or row-major ones. False where its bytes overflow.
bool lay_out(int rank, const int64_t* shape, const int64_t* given, int64_t* strides, int64_t element, int64_t& elements) {
  int64_t stride = 1;
  elements = 1;
  for (int k = rank; k-- > 0;) {
    if (shape[k] < 0) return false;
    strides[k] = given ? given[k] : stride;
    const int64_t n = shape[k] > 1 ? shape[k] : 1;
    if (stride > ((int64_t)1 << 62) / element / n) return false;
    stride *= n;
    elements *= shape[k];
  }
  return true;
}

// Do an array's address and strides allow wide accesses?
bool admits(const void* data, int rank, const int64_t* shape, const int64_t* strides, int64_t elements, int64_t element, int64_t align, bool unit_inner) {
  if (elements == 0) return true;
  if ((int64_t)data % align != 0) return false;
  for (int k = 0; k < rank; ++k) {
    if (k + 1 == rank && unit_inner) {
      if (strides[k] != 1 && shape[k] != 1) return false;
    } else if (shape[k] != 1 && (strides[k] < 0 || strides[k] * element % align != 0)) {
      return false;
    }
  }
  return true;
}

int64_t bits(double x) {
  int64_t word;
  __builtin_memcpy(&word, &x, 8);
  return word;
}

// An array between kernels, at a multiple of 64 bytes, freed when it goes out of scope.
struct Workspace {
  void* memory;
  explicit Workspace(int64_t bytes) : memory(__builtin_malloc((unsigned long)(bytes + 64))) {}
  ~Workspace() { __builtin_free(memory); }
  int64_t address() const { return ((int64_t)memory + 63) / 64 * 64; }
};

typedef void (*Entry)(const long long* words, long long begin, long long end);
struct Task {
  Entry entry;
  const long long* words;
};
void run_range(void* context, int64_t begin, int64_t end) {
  const Task* task = (const Task*)context;
  task->entry(task->words, begin, end);
}

}  // namespace
)TEXT";

}  // namespace tilewright
