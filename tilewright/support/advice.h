// How whoever asks gives a size, a param, a dtype or a target, as messages name it: by options of the command, or by arguments in Python.
#pragma once
#include <string>

#include <fmt/format.h>

namespace tilewright::advice {

/// While one lives, messages of this thread name arguments as the Python module does; else options of the command.
class InPython {
 public:
  InPython() : before_(active()) { active() = true; }
  ~InPython() { active() = before_; }
  InPython(const InPython&) = delete;
  InPython& operator=(const InPython&) = delete;
  static bool& active() {
    static thread_local bool in_python = false;
    return in_python;
  }

 private:
  bool before_;
};

/// The length of an axis: `--size j=N`, `sizes={"j": N}`.
inline std::string size(const std::string& axis, const std::string& n) {
  return InPython::active() ? fmt::format("sizes={{\"{}\": {}}}", axis, n)
                            : fmt::format("--size {}={}", axis, n);
}
inline std::string size(const std::string& axis, int64_t n) { return size(axis, std::to_string(n)); }
/// The value of a param: `--param cap=N`, `params={"cap": N}`.
inline std::string param(const std::string& name) {
  return InPython::active() ? fmt::format("params={{\"{}\": N}}", name) : fmt::format("--param {}=N", name);
}
/// A literal size or a dtype in place of that of the text: `--size d=64`, `overrides="d=64"`.
inline std::string literal_size(const std::string& axis, const std::string& n) {
  return InPython::active() ? fmt::format("overrides=\"{}={}\"", axis, n) : size(axis, n);
}
inline std::string dtype(const std::string& name, const std::string& dtype) {
  return InPython::active() ? fmt::format("overrides=\"{}={}\"", name, dtype)
                            : fmt::format("--dtype {}={}", name, dtype);
}
/// What a program is compiled for: `--target cpu`, `target="cpu"`.
inline std::string target(const std::string& name) {
  return InPython::active() ? fmt::format("target=\"{}\"", name) : "--target " + name;
}
/// The GPU that kernels are made for: `--arch sm_80`; in Python the variable of the environment that stands for it.
inline std::string arch(const std::string& name) {
  return (InPython::active() ? "TILEWRIGHT_GPU_ARCH=" : "--arch ") + name;
}

}  // namespace tilewright::advice
