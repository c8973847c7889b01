// Inside of plan/ only: what is stored and what shares a kernel, as a value that can be copied, changed and priced (plan/partition.h).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "tilewright/plan/part.h"

namespace tilewright::parts {

/// Kernels to be: what each computes, and how it was accepted.
struct Group {
  std::vector<Sym> sinks;  ///< outputs and stored definitions, in the order of the program
  Sym stream;
  int passes = 0;
  /// Axes that its plan cuts into blocks; unset before it was accepted, where any may be.
  std::optional<std::vector<Sym>> cut = std::nullopt;
};

/// Factors of a sum, in the value of the definition `home`, that a kernel would make again for each block of an axis, and the type in which they would be stored.
struct Operand {
  Sym home;
  Expr sum;
  std::vector<Expr> rest;  ///< the other factors
  Expr value;              ///< the product of those that are made
  DType type;              ///< f16 or bf16
};

/// What copies of one partition share: answers that do not depend on the copy, symbols that must be the same in all.
struct Shared {
  const Forced& forced;
  const Attempting& attempting;
  bool sixteen_bits;  ///< does the target multiply matrices of 16-bit elements?
  std::map<std::vector<std::pair<Sym, Expr>>, Attempt> attempts;  ///< by what is computed and what is read
  std::map<Sym, StoredArray> arrays;
  JoinedAxes joined;
};

class Partitioner {
 public:
  /// Outputs alone are computed, and what `forced` stores.
  Partitioner(const Program& p, Shared& shared);

  /// Rules 1 and 2: stores definitions until every kernel is accepted. UserError where nothing more can be stored.
  void cut_by_rule();
  /// Rule 3.
  std::vector<Group> grouped();
  /// The kernels in an order in which they can run, with the arrays between them.
  Partition ordered(const std::vector<Group>& groups);

  const Program& program() const { return p_; }
  const std::set<Sym>& stored() const { return stored_; }
  bool is_output(Sym s) const { return outputs_.count(s) > 0; }
  bool is_fused_by_force(Sym s) const;
  bool is_stored_by_force(Sym s) const;
  /// Outputs and stored definitions that outputs need, in the order of the program; others are forgotten.
  std::vector<Sym> sinks();
  /// Definitions that a kernel computes, in the order of the program.
  std::vector<Sym> computed(const std::vector<Sym>& sinks) const;
  /// The groups that `g` reads from, itself or through others.
  std::set<size_t> before(const std::vector<Group>& groups, size_t g) const;
  const Attempt& attempt(const std::vector<Sym>& sinks) { return attempt(stored_, sinks); }
  /// Is the axis held whole by every tile?
  bool whole(Sym axis) const;

  void store(Sym s) { stored_.insert(s); }
  void fuse(Sym s) { stored_.erase(s); }
  /// Gives reductions (or rounded values) inside of a statement names of their own and stores them; false where that cannot be done.
  bool name_apart(Sym home, const std::vector<Expr>& parts);

  /// Operands that a kernel of `sinks` would make again for blocks of an axis other than the streamed one (operands.cc).
  std::vector<Operand> operands(const std::vector<Sym>& sinks, Sym stream) const;
  /// Stores what several sums have as an operand, and the factors of its rows where its range is not known to fit. The new definitions that are stored.
  std::vector<Sym> store_operand(const std::vector<Operand>& readers);

 private:
  Expr inlined(Expr e) const;
  std::optional<DType> array_type(Expr e) const;
  std::optional<DType> operand_type(Expr sum) const;
  std::optional<Operand> operand(Sym home, Expr sum, Sym axis, DType type) const;
  std::vector<Sym> order_of(Expr value) const;
  Sym define_before(Sym home, const std::string& wish, const std::vector<Sym>& axes,
                    std::optional<DType> type, Expr value);
  void apply_rule();
  bool visit(Expr e, Sym home, const std::vector<Sym>& around);
  bool computed_again(Expr e, const std::vector<Sym>& around) const;
  bool name_smaller(Sym home, const std::vector<Sym>& around);
  bool reuse(Sym home, Expr e, const std::vector<Sym>& axes);
  size_t place(Sym axis) const;
  bool cut(Sym sink);
  bool helps(Sym sink, const std::set<Sym>& more, const std::vector<Sym>& holding);
  std::set<Sym> without_needless(Sym sink, std::set<Sym> more, const std::vector<Sym>& holding);
  std::vector<Sym> direct(Sym sink, const std::vector<Sym>& holding) const;
  bool name_terms(Sym sink);
  bool split(Sym sink, Expr e);
  std::set<Sym> rows(Sym sink) const;
  Program part(const std::set<Sym>& stored, const std::vector<Sym>& sinks);
  const Attempt& attempt(const std::set<Sym>& stored, const std::vector<Sym>& sinks);

  Program p_;
  Shared* shared_;
  std::set<Sym> stored_, outputs_;
  std::map<Expr, Sym> named_;  ///< what got names, canonical
  std::set<Sym> changed_;      ///< definitions that it was taken from
  Sym sink_;
  std::set<std::tuple<Expr, Sym, std::vector<Sym>>> visited_;
};

/// Changes what the rules chose where counted bytes and operations say so (choose.cc), and says what was compared.
Partition choose(Partitioner start, std::vector<Group> groups, Shared& shared);

}  // namespace tilewright::parts
