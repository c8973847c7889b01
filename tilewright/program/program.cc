#include "tilewright/program/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "tilewright/program/syntax.h"
#include "tilewright/program/verify.h"
#include "tilewright/support/input_file.h"

namespace tilewright {

namespace {

std::vector<Sym> flat(const std::vector<Dim>& dims) {
  std::vector<Sym> all;
  for (const Dim& d : dims) all.insert(all.end(), d.pieces.begin(), d.pieces.end());
  return all;
}

}  // namespace

std::vector<Sym> Input::axes() const { return flat(dims); }
std::vector<Sym> Output::axes() const { return flat(dims); }

const Axis* Program::axis(const std::string& wanted) const {
  for (const Axis& a : axes)
    if (a.name() == wanted) return &a;
  return nullptr;
}

const Axis& Program::axis(Sym index) const {
  for (const Axis& a : axes)
    if (a.index == index) return a;
  for (const Axis& a : axes)
    if (index.kind() == SymbolKind::Index && a.index.size() == index.size()) return a;
  TW_CHECK(false, "no axis has the index symbol " + index.name());
}

const Input* Program::input(Sym tensor) const {
  for (const Input& in : inputs)
    if (in.sym == tensor) return &in;
  return nullptr;
}

const Definition* Program::definition(Sym tensor) const {
  for (const Definition& d : definitions)
    if (d.sym == tensor) return &d;
  return nullptr;
}

std::vector<Sym> Program::tensor_axes(Sym tensor) const {
  if (const Input* in = input(tensor)) return in->axes();
  if (const Definition* d = definition(tensor)) return d->axes;
  TW_CHECK(false, "no tensor of the program is " + tensor.name());
}

Span Program::span_of(Expr e) const {
  if (!e) return {};
  std::vector<Expr> queue = {e};  // breadth first: the nearest child, each node once
  std::set<Expr> seen = {e};
  for (size_t k = 0; k < queue.size(); ++k) {
    if (const auto found = spans.find(queue[k]); found != spans.end()) return found->second;
    for (Expr a : queue[k].args())
      if (seen.insert(a).second) queue.push_back(a);
  }
  return {};
}

std::string described(const Axis& a) {
  if (a.joined.empty()) return fmt::format("axis `{}`", a.name());
  return fmt::format("the product `{}` of axes `{}`", a.name(), fmt::join(a.joined, "`, `"));
}

std::string written(Expr e) {
  Substitution s;
  for (Sym x : free_symbols(e))
    if (x.written() != x.name())
      s.emplace_back(x, Expr(Sym::fresh({.name = x.written(), .kind = SymbolKind::Variable})));
  return to_string(substitute(e, s));
}

std::string hint_of_literal(const Axis& a) {
  if (a.joined.empty()) return fmt::format("declare `axis {} = 128` (any literal)", a.name());
  return fmt::format("declare `axis {} = 128` (any literals)", fmt::join(a.joined, " = 128, "));
}

Program parse_program(const SourceRef& source, const Overrides& overrides) {
  Diagnostics diagnostics;
  const SyntaxTree tree = parse_syntax(source, diagnostics);
  Program p = Verifier(source, overrides, diagnostics).run(tree);
  diagnostics.throw_if_any();
  return p;
}

Program load_program(const std::string& path, const Overrides& overrides) {
  InputFile file(path);
  std::string text = file.text();
  if (!file.problem().empty())
    throw UserError({}, fmt::format("cannot read {}: {}", path, file.problem()),
                    file.remedy().empty() ? "give the path of a .tw file" : file.remedy());
  auto source = std::make_shared<SourceText>(SourceText{path, std::move(text)});
  if (const std::string why = why_no_text(source->text); !why.empty())
    throw UserError({}, fmt::format("{} is not a text: {}", path, why), "give the path of a .tw file");
  return parse_program(source, overrides);
}

}  // namespace tilewright
