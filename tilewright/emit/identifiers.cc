#include "tilewright/emit/identifiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tilewright {
namespace {

const std::set<std::string>& reserved_words() {
  static const std::set<std::string> words = {
      // C and C++
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
      "catch", "char", "char8_t", "char16_t", "char32_t", "class", "co_await", "co_return", "co_yield",
      "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit", "continue",
      "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export",
      "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
      "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
      "protected", "public", "register", "reinterpret_cast", "requires", "restrict", "return", "short",
      "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
      "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned",
      "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
      // C++ contexts and modules
      "final", "import", "module", "override",
      // types of the standard headers
      "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "intptr_t",
      "uintptr_t", "intmax_t", "uintmax_t", "size_t", "ssize_t", "ptrdiff_t", "max_align_t", "nullptr_t",
      "va_list", "FILE", "fpos_t", "time_t", "clock_t", "off_t", "div_t", "float_t", "double_t", "std",
      // macros of compilers and of the standard headers
      "linux", "unix", "i386", "arm", "mips", "NULL", "EOF", "errno", "stdin", "stdout", "stderr", "assert",
      "offsetof", "setjmp", "va_arg", "va_copy", "va_end", "va_start", "complex", "imaginary", "I",
      "INFINITY", "NAN", "HUGE_VAL", "HUGE_VALF", "HUGE_VALL", "BUFSIZ", "RAND_MAX", "EXIT_SUCCESS",
      "EXIT_FAILURE", "CHAR_BIT", "CHAR_MAX", "CHAR_MIN", "INT_MAX", "INT_MIN", "UINT_MAX", "LONG_MAX",
      "LONG_MIN", "ULONG_MAX", "LLONG_MAX", "LLONG_MIN", "ULLONG_MAX", "SHRT_MAX", "SHRT_MIN", "INT8_MAX",
      "INT16_MAX", "INT32_MAX", "INT64_MAX", "INT8_MIN", "INT16_MIN", "INT32_MIN", "INT64_MIN", "SIZE_MAX",
      "FLT_MAX", "FLT_MIN", "FLT_EPSILON", "DBL_MAX", "DBL_MIN", "DBL_EPSILON", "M_E", "M_PI", "M_LN2",
      "M_LOG2E", "M_SQRT2", "math_errhandling",
      // CUDA
      "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "dim3", "half", "half2", "nv_bfloat16",
      "nv_bfloat162", "cudaError_t", "cudaStream_t"};
  return words;
}

/// char1 … ulonglong4, the vector types of CUDA, and the functions that make them.
bool is_cuda_vector(const std::string& given) {
  const std::string name = given.rfind("make_", 0) == 0 ? given.substr(5) : given;
  static const std::set<std::string> elements = {"char", "uchar", "short",    "ushort",    "int",   "uint",
                                                 "long", "ulong", "longlong", "ulonglong", "float", "double"};
  return name.size() > 1 && name.back() >= '1' && name.back() <= '4' &&
         elements.count(name.substr(0, name.size() - 1));
}

const std::set<std::string>& math_functions() {
  static const std::set<std::string> words = {
      "acos",    "acosh",    "asin",      "asinh",     "atan",       "atan2", "atanh",     "cbrt",
      "ceil",    "copysign", "cos",       "cosh",      "erf",        "erfc",  "exp",       "exp2",
      "exp10",   "expm1",    "fabs",      "fdim",      "floor",      "fma",   "fmax",      "fmin",
      "fmod",    "frexp",    "gamma",     "hypot",     "ilogb",      "ldexp", "lgamma",    "llrint",
      "llround", "log",      "log10",     "log1p",     "log2",       "logb",  "lrint",     "lround",
      "modf",    "nan",      "nearbyint", "nextafter", "nexttoward", "pow",   "remainder", "remquo",
      "rint",    "round",    "rsqrt",     "scalbln",   "scalbn",     "sin",   "sincos",    "sinh",
      "sqrt",    "tan",      "tanh",      "tgamma",    "trunc",      "j0",    "j1",        "jn",
      "y0",      "y1",       "yn",        "sinpi",     "cospi",      "norm",  "rnorm"};
  return words;
}

const std::set<std::string>& other_functions() {
  static const std::set<std::string> words = {
      "main",    "abort",   "abs",      "alloca",  "atexit",  "atof",    "atoi",    "atol",    "bcmp",
      "bcopy",   "bsearch", "bzero",    "calloc",  "clock",   "close",   "clone",   "div",     "dup",
      "exit",    "fclose",  "fflush",   "ffs",     "fgets",   "fopen",   "fork",    "fprintf", "fputc",
      "fputs",   "fread",   "free",     "fscanf",  "fseek",   "ftell",   "fwrite",  "getc",    "getenv",
      "gets",    "imaxabs", "index",    "isalnum", "isalpha", "isdigit", "isinf",   "isnan",   "isspace",
      "kill",    "labs",    "ldiv",     "link",    "llabs",   "lldiv",   "longjmp", "malloc",  "memchr",
      "memcmp",  "memcpy",  "memmove",  "mempcpy", "memset",  "mmap",    "open",    "pause",   "perror",
      "pipe",    "printf",  "putc",     "putchar", "puts",    "qsort",   "raise",   "rand",    "read",
      "realloc", "remove",  "rename",   "rewind",  "rindex",  "scanf",   "select",  "send",    "signal",
      "signbit", "sleep",   "snprintf", "sprintf", "srand",   "sscanf",  "stat",    "strcat",  "strchr",
      "strcmp",  "strcpy",  "strdup",   "strlen",  "strncat", "strncmp", "strncpy", "strrchr", "strstr",
      "strtod",  "strtof",  "strtol",   "system",  "time",    "times",   "tmpfile", "tolower", "toupper",
      "ungetc",  "unlink",  "vfprintf", "vprintf", "wait",    "write",   "yield"};
  return words;
}

}  // namespace

bool is_reserved_identifier(const std::string& name) {
  const bool to_compilers = name.size() > 1 && name[0] == '_' &&
                            (name[1] == '_' || std::isupper(static_cast<unsigned char>(name[1])));
  return to_compilers || reserved_words().count(name) || is_cuda_vector(name);
}

bool is_library_function(const std::string& name) {
  if (math_functions().count(name) || other_functions().count(name)) return true;
  return name.size() > 1 && (name.back() == 'f' || name.back() == 'l') &&
         math_functions().count(name.substr(0, name.size() - 1));
}

std::string c_identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "v" + out;
  if (!is_reserved_identifier(out)) return out;
  return out[0] == '_' ? "v" + out : out + "_";
}

std::string c_function(const std::string& name) {
  const std::string out = c_identifier(name);
  return is_library_function(out) ? out + "_" : out;
}

std::set<std::string> identifiers_in(const std::string& code) {
  std::set<std::string> found;
  std::string word;
  for (char c : code + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
    } else if (!word.empty()) {
      found.insert(word);
      word.clear();
    }
  }
  return found;
}

Identifiers::Identifiers(std::set<std::string> own, std::set<std::string> counted)
    : taken_(std::move(own)), counted_(std::move(counted)) {}

const std::string& Identifiers::of(Sym s, const std::string& preferred) {
  auto it = names_.find(s);
  if (it != names_.end()) return it->second;
  const std::string own = s.kind() == SymbolKind::Size ? "size_" + s.name() : s.name();
  return names_.emplace(s, fresh(preferred.empty() ? own : preferred)).first->second;
}

const std::string& Identifiers::part(Sym s, const std::string& suffix) {
  const auto key = std::make_pair(s, suffix);
  auto it = parts_.find(key);
  if (it == parts_.end()) it = parts_.emplace(key, fresh(of(s) + "_" + suffix)).first;
  return it->second;
}

std::string Identifiers::fresh(const std::string& wish) {
  std::string plain = c_identifier(wish);
  if (plain.rfind("tw_", 0) == 0) plain = "v" + plain;  // so begin the helpers of CUDA
  const size_t letters = plain.find_last_not_of("0123456789") + 1;
  if (letters < plain.size() && counted_.count(plain.substr(0, letters))) plain += "_";
  std::string name = plain;
  for (int k = 2; !taken_.insert(name).second; ++k) name = fmt::format("{}_{}", plain, k);
  return name;
}

}  // namespace tilewright
