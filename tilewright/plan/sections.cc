#include "tilewright/plan/sections.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

namespace tilewright {

namespace {

/// Steps through a range of a schedule's text.
class Scanner {
 public:
  explicit Scanner(const ScheduleRange& r)
      : source_(r.source), text_(r.source->text), at_(r.begin), end_(r.end) {}

 protected:
  bool ended() const { return at_ >= end_; }
  bool at(char c) const { return !ended() && text_[at_] == c; }
  Span from(size_t begin) const { return Span{source_, begin, std::max(at_, std::min(begin + 1, end_))}; }

  /// To the first character of a clause; false at the end.
  bool skip_between() {
    while (!ended()) {
      if (at('#'))
        while (!ended() && !at('\n')) ++at_;
      else if (std::isspace(static_cast<unsigned char>(text_[at_])) || at(';'))
        ++at_;
      else
        return true;
    }
    return false;
  }

  void skip_clause() {
    while (!ended() && !at(';') && !at('\n') && !at('#')) ++at_;
  }

  void skip_blanks() {
    while (at(' ') || at('\t')) ++at_;
  }

  bool at_letter() const {
    return !ended() && (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_');
  }

  /// Letters, digits and `_`; nothing is read of what is no word.
  std::string letters() {
    const size_t begin = at_;
    while (!ended() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  SourceRef source_;
  const std::string& text_;
  size_t at_, end_;
};

class Splitter : public Scanner {
 public:
  explicit Splitter(const SourceRef& source) : Scanner({source, 0, source->text.size()}) {}

  ScheduleSections run() {
    out_.plain = {source_, 0, text_.size()};
    bool began = false;
    while (skip_between()) {
      const size_t begin = at_;
      const std::string head = word();
      if (head == "store" || head == "fuse") {
        if (!out_.kernels.empty() || out_.has_plain)
          throw UserError(Span{source_, begin, at_},
                          fmt::format("`{}` stands behind clauses of a kernel", head),
                          "`store` and `fuse` come first: they say which kernels there are");
        names(head == "store" ? out_.store : out_.fuse, head, begin);
        out_.plain.begin = at_;
      } else if (head == "kernel") {
        end_section(begin);
        ScheduleSections::Kernel k;
        names(k.names, head, begin);
        if (at_ >= text_.size() || text_[at_] != ':')
          throw UserError(Span{source_, at_, std::min(at_ + 1, text_.size())}, "a heading ends with `:`",
                          "write `kernel NAME: clauses`");
        k.heading = Span{source_, begin, ++at_};
        k.clauses = {source_, at_, text_.size()};
        out_.kernels.push_back(k);
      } else {
        if (out_.kernels.empty()) out_.has_plain = true;
        skip_clause();
      }
      began = true;
    }
    if (began) end_section(text_.size());
    return out_;
  }

 private:
  void end_section(size_t at) { (out_.kernels.empty() ? out_.plain : out_.kernels.back().clauses).end = at; }

  std::string word() {
    std::string found = letters();
    if (found.empty()) skip_clause();
    return found;
  }

  void names(std::vector<ScheduleSections::Name>& to, const std::string& head, size_t begin) {
    if (!to.empty())
      throw UserError(Span{source_, begin, at_}, fmt::format("`{}` is given twice", head),
                      fmt::format("name all definitions in one clause: `{} q, hidden`", head));
    while (true) {
      skip_blanks();
      const size_t first = at_;
      if (!at_letter())
        throw UserError(
            Span{source_, at_, std::min(at_ + 1, text_.size())},
            fmt::format("expected the name of a definition after `{}`", head),
            head == "kernel" ? "write `kernel NAME: clauses`" : fmt::format("write `{} NAME`", head));
      const std::string name = word();
      for (const auto& n : to)
        if (n.text == name)
          throw UserError(Span{source_, first, at_}, fmt::format("`{}` names `{}` twice", head, name),
                          "name each definition once");
      to.push_back({name, Span{source_, first, at_}});
      skip_blanks();
      if (at_ >= text_.size() || text_[at_] != ',') break;
      ++at_;
    }
    if (head == "kernel" || at_ >= text_.size() || text_[at_] == ';' || text_[at_] == '\n' ||
        text_[at_] == '#')
      return;
    const std::string found = character_at(text_, at_);
    throw UserError(Span{source_, at_, at_ + found.size()}, fmt::format("expected `;` before `{}`", found),
                    "separate clauses with `;`");
  }

  ScheduleSections out_;
};

class CaseSplitter : public Scanner {
 public:
  explicit CaseSplitter(const ScheduleRange& r) : Scanner(r), whole_(r) {}

  std::vector<ScheduleCase> run() {
    constexpr size_t most = 8;
    size_t plain = end_;  // the first clause that stands under neither
    bool last = false;
    while (skip_between()) {
      const size_t begin = at_;
      const std::string head = at_letter() ? letters() : "";
      if (head != "when" && head != "otherwise") {
        if (cases_.empty()) plain = std::min(plain, begin);
        skip_clause();
        continue;
      }
      if (plain < begin)
        throw UserError(Span{source_, plain, begin}, fmt::format("these clauses stand before `{}`", head),
                        "write them behind a `when` or behind `otherwise:`");
      if (last)
        throw UserError(from(begin), fmt::format("`{}` stands behind `otherwise`", head),
                        "`otherwise` is the last plan: no sizes are left");
      if (cases_.size() == most)
        throw UserError(from(begin), "a kernel has at most eight plans", "leave some out");
      last = head == "otherwise";
      if (!cases_.empty()) cases_.back().clauses.end = begin;
      ScheduleCase one;
      if (!last) limits(one);
      skip_blanks();
      if (!at(':'))
        throw UserError(from(at_), fmt::format("expected `:` behind `{}`", head),
                        last ? "write `otherwise: clauses`" : "write `when j <= 1024: clauses`");
      one.clauses = {source_, ++at_, end_};
      cases_.push_back(std::move(one));
    }
    if (cases_.empty()) cases_.push_back({{}, whole_});
    return std::move(cases_);
  }

 private:
  void limits(ScheduleCase& one) {
    const auto expected = [&](const char* what) -> UserError {
      return {from(at_), fmt::format("expected {}", what), "write `when j <= 1024: clauses`"};
    };
    do {
      skip_blanks();
      const size_t begin = at_;
      if (!at_letter()) throw expected("the name of an axis");
      ScheduleCase::Limit limit;
      limit.axis.text = letters();
      limit.axis.span = Span{source_, begin, at_};
      skip_blanks();
      if (text_.compare(at_, 2, "<=") != 0) throw expected("`<=`");
      at_ += 2;
      skip_blanks();
      const size_t number = at_;
      const std::string digits = letters();
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), limit.most);
      if (error != std::errc() || end != digits.data() + digits.size()) {
        at_ = number;
        throw expected("a number below 2^63");
      }
      one.limits.push_back(std::move(limit));
      skip_blanks();
    } while (at(',') && ++at_);
  }

  const ScheduleRange whole_;
  std::vector<ScheduleCase> cases_;
};

}  // namespace

ScheduleSections split_schedule(const std::string& text, const std::string& name) {
  return Splitter(std::make_shared<SourceText>(SourceText{name, text})).run();
}

std::vector<ScheduleCase> split_cases(const ScheduleRange& clauses) { return CaseSplitter(clauses).run(); }

}  // namespace tilewright
