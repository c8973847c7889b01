// Reads at indices that may lie outside their tensor, and divisors of integers that may be 0: which of them a kernel tests as it runs, and how it
// reports a failure.
//
// A kernel that has such reads or divisors takes the address of an error word as an argument. Where a test fails nothing is read, and the word receives which test
// failed and the index; whoever launched the kernel looks at it after the kernel has run. The word holds the last failure written, so of several one is named.
#pragma once
#include <optional>

#include "tilewright/map/mapped.h"

namespace tilewright {

/// Numbers the indices of all copies that are not proved to lie inside their tensor (Copy::checks, MappedProgram::checks).
void number_checks(const Program& elaborated, MappedProgram& m);
/// Before each op that divides an integer by what is not proved to differ from 0: a vote that fails the launch where a quotient that is needed
/// has the divisor 0. The quotient itself may then be anything.
void check_divisors(const Program& elaborated, MappedProgram& m);
/// Does the kernel test anything?
bool has_checks(const MappedKernel& k);

/// An error word: 0 for none, else the number of the check + 1 in the low bits and the index, saturated, above them.
constexpr int check_bits = 16;
struct FailedCheck {
  int check = 0;
  int64_t index = 0;
};
std::optional<FailedCheck> failed_check(int64_t error_word);

}  // namespace tilewright
