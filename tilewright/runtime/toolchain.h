// What a compiler is known by without starting it.
#pragma once
#include <optional>
#include <string>

namespace tilewright {

/// Changes whenever the compiler that `command` names is replaced, or the processor is another: the resolved path, size, time and inode of the
/// program, and what the system says of the processor. Nothing where another program may decide what compiles: a command of
/// several words, a script, a program that is not named as a compiler is (ccache, distcc), or a processor that is not described.
std::optional<std::string> toolchain_fingerprint(const std::string& command);

}  // namespace tilewright
