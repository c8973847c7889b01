// Proof of a derivation's identities by z3, a second engine beside our own (derive/check.h).
#pragma once
#include "tilewright/derive/smt.h"

namespace tilewright {

/// The answers of z3 ($TILEWRIGHT_Z3, else `z3`) to the checks of a file, in their order: passed where it says `unsat`, else with what it says in
/// `detail` ("sat": real values break the identity; "unknown": not decided within ten seconds). UserError where z3 cannot be started.
std::vector<Check> ask_z3(const SmtFile& file);

/// Adds the answers for every pass to the checks of its state. True when all are proved.
bool prove_by_z3(const Program& p, Derivation& d);

/// Writes the files of a derivation into a folder, which is made where it is missing: NAME.smt2, or NAME-1.smt2 … for several passes. Returns their
/// paths. UserError where they cannot be written.
std::vector<std::string> write_smt(const Program& p, const Derivation& d, const std::string& folder,
                                   const std::string& name);

}  // namespace tilewright
