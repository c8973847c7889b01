// What was compared between ways to make the kernels of a program, and what the names of stored arrays stand for.
#pragma once
#include <nlohmann/json.hpp>

#include "tilewright/driver/compiled.h"

namespace tilewright {

/// What was compared, for people: lines that begin with `#`, with the definition of every name in them, and for both ways bytes, operations, kernels
/// and the total that decided. Empty where nothing was. `plans`: the machine whose plans the kernels have.
std::string choices_text(const CompiledProgram& c, Target plans);
/// The same as [{"kind", "what", "with", "taken", "otherwise", "refused"}]; prices are {"bytes", "products", "operations", "kernels", "total"}.
nlohmann::ordered_json choices_json(const CompiledProgram& c);

/// The arrays of other kernels that a kernel reads, one a line that begins with `mark`: what each holds, and which kernel stores it.
std::string read_text(const CompiledProgram& c, size_t kernel, const char* mark);

}  // namespace tilewright
