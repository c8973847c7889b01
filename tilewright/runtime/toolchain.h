// What programs are known by without starting them: compilers, and this one.
#pragma once
#include <optional>
#include <string>

namespace tilewright {

/// Changes whenever the compiler that `command` names is replaced, or the processor is another: the resolved path, size, time and inode of the
/// program, and what the system says of the processor. Nothing where another program may decide what compiles: a command of
/// several words, a script, a program that is not named as a compiler is (ccache, distcc), or a processor that is not described.
std::optional<std::string> toolchain_fingerprint(const std::string& command);

/// Changes whenever the file that holds Tilewright's code, a program or a shared library, is replaced, or the processor is another. Nothing
/// where either cannot be told.
std::optional<std::string> own_fingerprint();

}  // namespace tilewright
