// The schedule language: clauses separated by `;` or newlines (docs/schedule.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "tilewright/plan/axes.h"
#include "tilewright/plan/plan.h"

namespace tilewright {

namespace {

struct Token {
  enum class Kind { Word, Number, Mark, End } kind = Kind::End;
  std::string text;
  int64_t value = 0;
  Span span;
};

constexpr int64_t largest_number = int64_t{1} << 40, largest_tile = int64_t{1} << 24;

const std::vector<std::string> kClauses = {"group",  "stream", "resident", "split",  "keep",
                                           "stages", "roles",  "guard",    "bounds", "grid"};

class ScheduleParser {
 public:
  ScheduleParser(const Program& p, const Derivation& d, const ScheduleRange& clauses, const Plan& defaults)
      : p_(p), d_(d), plan_(defaults), source_(clauses.source), begin_(clauses.begin), end_(clauses.end) {
    tokenize();
  }

  Plan parse(const std::function<void(const Plan&, const ClauseSpans&)>& check) {
    while (peek().kind != Token::Kind::End) {
      if (mark(";")) continue;
      const Token head = peek();
      clause();
      clauses_.at(kind_of(head)).span = Span::join(head.span, tokens_[at_ - 1].span);
      if (peek().kind != Token::Kind::End && !mark(";"))
        fail(peek().span, fmt::format("expected `;` before `{}`", peek().text), "separate clauses with `;`");
    }
    if (clauses_.empty())
      fail(Span{source_, begin_, begin_}, "the schedule holds no clause",
           "write one, such as `stream j=128`, or give no schedule for the default plans");
    // What a default says of a stream does not hold for a resident axis.
    if (plan_.resident && !clauses_.count("bounds")) plan_.bounds = BoundsBy::None;
    if (plan_.resident) plan_.by_warps = false;
    // Nor does what it says of a grid without a loading group.
    if (plan_.grid == GridBy::Persistent && plan_.loaders == 0 && !clauses_.count("grid"))
      plan_.grid = GridBy::Blocks;
    // How the stream is cut is said as a whole.
    if ((plan_.resident || clauses_.count("stream")) && !clauses_.count("split")) plan_.split = 0;
    const ClauseSpans where = [&](const std::string& clause) {
      const auto it = clauses_.find(clause);
      return it == clauses_.end() ? Span{source_, begin_, end_} : it->second.span;
    };
    check_plan(p_, d_, plan_, where);
    if (check) check(plan_, where);
    return plan_;
  }

 private:
  [[noreturn]] void fail(Span span, const std::string& what, const std::string& hint) const {
    throw UserError(span, what, hint);
  }

  void tokenize() {
    const std::string s = source_->text.substr(0, end_);
    size_t i = begin_;
    while (i < s.size()) {
      const auto c = static_cast<unsigned char>(s[i]);
      if (c == '\n') {
        tokens_.push_back({Token::Kind::Mark, ";", 0, Span{source_, i, i + 1}});
        ++i;
      } else if (std::isspace(c)) {
        ++i;
      } else if (c == '#') {
        while (i < s.size() && s[i] != '\n') ++i;
      } else if (std::isdigit(c)) {
        const size_t begin = i;
        int64_t value = 0;
        while (i < s.size() && std::isdigit(static_cast<unsigned char>(s[i]))) {
          if (value <= largest_number) value = value * 10 + (s[i] - '0');
          ++i;
        }
        if (value > largest_number)
          fail(Span{source_, begin, i}, "a number of a schedule is at most 2^40",
               fmt::format("write a smaller one; blocks and chunks hold at most {} elements", largest_tile));
        tokens_.push_back({Token::Kind::Number, s.substr(begin, i - begin), value, Span{source_, begin, i}});
      } else if (std::isalpha(c) || c == '_') {
        const size_t begin = i;
        while (i < s.size() && (std::isalnum(static_cast<unsigned char>(s[i])) || s[i] == '_')) ++i;
        tokens_.push_back({Token::Kind::Word, s.substr(begin, i - begin), 0, Span{source_, begin, i}});
      } else if (std::string(";=,/+").find(s[i]) != std::string::npos) {
        tokens_.push_back({Token::Kind::Mark, std::string(1, s[i]), 0, Span{source_, i, i + 1}});
        ++i;
      } else {
        const std::string found = character_at(s, i);
        fail(Span{source_, i, i + found.size()},
             fmt::format("unexpected character `{}` in a schedule", found),
             found == ":"
                 ? "`:` stands behind `kernel NAME`, `when j <= 1024` and `otherwise`; a size is given by `=`"
             : found == "<" || found == ">" ? "a plan for some sizes begins with `when j <= 1024:`"
                                            : "a schedule holds words, numbers and `; = , / + : <=`");
      }
    }
    tokens_.push_back({Token::Kind::End, "end of the schedule", 0, Span{source_, s.size(), s.size()}});
  }

  const Token& peek() const { return tokens_[at_]; }
  Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool mark(const char* m) {
    if (peek().kind != Token::Kind::Mark || peek().text != m) return false;
    next();
    return true;
  }
  void expect(const char* m, const char* form) {
    if (!mark(m))
      fail(peek().span, fmt::format("expected `{}`, found `{}`", m, peek().text),
           fmt::format("write {}", form));
  }
  Token word(const char* what, const char* form) {
    if (peek().kind != Token::Kind::Word)
      fail(peek().span, fmt::format("expected {}, found `{}`", what, peek().text),
           fmt::format("write {}", form));
    return next();
  }
  int64_t number(const char* form, bool zero = false) {
    if (peek().kind != Token::Kind::Number)
      fail(peek().span, fmt::format("expected a number, found `{}`", peek().text),
           fmt::format("write {}", form));
    const Token t = next();
    if (t.value == 0 && !zero) fail(t.span, "the size 0 is not allowed here", fmt::format("write {}", form));
    return t.value;
  }
  /// Elements of a block, a piece or a chunk.
  int64_t elements(const char* form) {
    const Span span = peek().span;
    const int64_t value = number(form);
    if (value > largest_tile)
      fail(span, fmt::format("{} elements are more than any memory on a chip holds", value),
           fmt::format("write {}; the number is at most {}", form, largest_tile));
    return value;
  }
  /// A count of slots or groups.
  int count(const char* form, bool zero = false) {
    const Span span = peek().span;
    const int64_t value = number(form, zero);
    if (value > 1024)
      fail(span, fmt::format("{} is too many", value),
           fmt::format("write {}; the number is at most 1024", form));
    return static_cast<int>(value);
  }

  static std::string kind_of(const Token& head) { return head.text == "resident" ? "stream" : head.text; }

  /// Each clause is given at most once; `stream` and `resident` say the same thing in two ways.
  void once(const Token& head) {
    const auto [first, fresh] = clauses_.emplace(kind_of(head), head);
    if (fresh) return;
    const Token& before = first->second;
    const std::string place = fmt::format("line {}, column {}", before.span.line(), before.span.column());
    if (before.text != head.text)
      fail(head.span, fmt::format("`{}` contradicts `{}` at {}", head.text, before.text, place),
           "an axis is either streamed or held whole: give one of them");
    fail(head.span, fmt::format("`{}` is given twice; the first stands at {}", head.text, place),
         head.text == "group"  ? "give all cuts in one clause: `group i=128/64, h=1`"
         : head.text == "keep" ? "name all inputs in one clause: `keep Q, R`"
                               : "give it once");
  }

  Sym axis(const char* form) {
    const Token t = word("the name of an axis", form);
    if (const Axis* a = p_.axis(t.text)) return a->index;
    std::vector<std::string> known;
    for (const Axis& a : p_.axes) known.push_back(a.name());
    const std::string near = nearest_name(t.text, known);
    fail(t.span, fmt::format("no axis is called `{}`", t.text),
         near.empty() ? "use an axis of the program" : fmt::format("did you mean `{}`?", near));
  }

  void set_stream(Span span, Sym a) {
    if (a != d_.cascade.axis) {
      fail(span,
           fmt::format("the program's state runs over `{}`, not over `{}`", d_.cascade.axis.name(), a.name()),
           fmt::format("stream `{}`", d_.cascade.axis.name()));
    }
    plan_.stream = a;
  }

  void clause() {
    const Token head = word(
        "a clause",
        "`group`, `stream`, `resident`, `split`, `keep`, `stages`, `roles`, `guard`, `bounds` or `grid`");
    if (std::find(kClauses.begin(), kClauses.end(), head.text) == kClauses.end()) {
      const std::string near = nearest_name(head.text, kClauses);
      fail(head.span, fmt::format("no clause begins with `{}`", head.text),
           near.empty() ? fmt::format("clauses are {}", fmt::join(kClauses, ", "))
                        : fmt::format("did you mean `{}`?", near));
    }
    once(head);
    if (head.text == "group") {
      group();
    } else if (head.text == "stream" || head.text == "resident") {
      const Span span = peek().span;
      const Sym a = axis("`stream j=128`");
      set_stream(span, a);
      expect("=", "`stream j=128`");
      plan_.chunk = elements("`stream j=128`");
      plan_.resident = head.text == "resident";
    } else if (head.text == "split") {
      const Span span = peek().span;
      set_stream(span, axis("`split j=4096`"));
      expect("=", "`split j=4096`");
      plan_.split = number("`split j=4096`, or 0 for none", true);
    } else if (head.text == "keep") {
      keep();
    } else if (head.text == "stages") {
      plan_.stages = count("`stages 2`");
    } else if (head.text == "roles") {
      plan_.loaders = count("`roles 1+2`", true);
      expect("+", "`roles 1+2`");
      plan_.computers = count("`roles 1+2`");
    } else if (head.text == "bounds") {
      const Token t = word("where", "`bounds host`, `device` or `tested`");
      for (BoundsBy b : {BoundsBy::Host, BoundsBy::Device, BoundsBy::Tested})
        if (t.text == name(b)) {
          plan_.bounds = b;
          return;
        }
      fail(t.span, fmt::format("no way to bound masks is called `{}`", t.text),
           "choose host, device or tested");
    } else if (head.text == "grid") {
      grid();
    } else {
      const Token t = word("a policy", "`guard always`, `moved`, `threshold` or `speculative`");
      for (Guard g : {Guard::Always, Guard::Moved, Guard::Threshold, Guard::Speculative})
        if (t.text == name(g)) {
          plan_.guard = g;
          return;
        }
      fail(t.span, fmt::format("no guard policy is called `{}`", t.text),
           "choose always, moved, threshold or speculative");
    }
  }

  void grid() {
    const char* form = "`grid persistent`, `grid blocks, i/8` or `grid blocks, i/32 MB`";
    const Token t = word("how the grid is run", form);
    const GridBy kinds[] = {GridBy::Blocks, GridBy::Persistent};
    const auto kind =
        std::find_if(std::begin(kinds), std::end(kinds), [&](GridBy g) { return t.text == name(g); });
    if (kind == std::end(kinds))
      fail(t.span, fmt::format("no way to run a grid is called `{}`", t.text), "choose blocks or persistent");
    plan_.grid = *kind;
    plan_.section_axis = Sym();
    plan_.section = 0;
    plan_.section_megabytes = false;
    if (!mark(",")) return;
    plan_.section_axis = axis(form);
    expect("/", form);
    constexpr int64_t most = 1 << 20;
    const Span span = peek().span;
    plan_.section = number(form);
    if (plan_.section > most)
      fail(span, fmt::format("a section of {} blocks is larger than any that shares a cache", plan_.section),
           fmt::format("write at most {}, or leave the section out", most));
    if (peek().kind != Token::Kind::Word) return;
    const Token unit = next();
    if (unit.text != "MB")
      fail(unit.span, fmt::format("no unit of a section is called `{}`", unit.text),
           "write MB, or a number of blocks alone");
    plan_.section_megabytes = true;
  }

  void group() {
    const char* form = "`group i=128/64, h=1`";
    std::vector<Cut> cuts;
    do {
      const Span span = peek().span;
      Cut cut;
      cut.axis = axis(form);
      if (cut.axis == d_.cascade.axis)
        fail(span, fmt::format("axis `{}` is streamed, so it cannot be grouped", cut.axis.name()),
             "cut it with `stream` or `split`");
      expect("=", form);
      cut.block = elements(form);
      cut.piece = mark("/") ? elements(form) : cut.block;
      if (cut.block % cut.piece != 0)
        fail(span, fmt::format("pieces of {} do not divide blocks of {}", cut.piece, cut.block),
             "choose a divisor");
      for (const Cut& c : cuts)
        if (c.axis == cut.axis)
          fail(span, fmt::format("axis `{}` is grouped twice", cut.axis.name()), "name each axis once");
      cuts.push_back(cut);
    } while (mark(","));
    // Axes that the clause does not name keep their default cut; named ones come in the order of the defaults.
    for (const Cut& c : cuts) {
      bool found = false;
      for (Cut& mine : plan_.group)
        if (mine.axis == c.axis) {
          mine = c;
          found = true;
        }
      if (!found) {
        plan_.group.push_back(c);
        std::erase(plan_.whole, c.axis);
      }
    }
  }

  void keep() {
    plan_.keep.clear();
    const AxisRoles roles = axis_roles(p_, d_);
    do {
      const Token t = word("an input", "`keep Q`");
      Sym found;
      std::vector<std::string> known;
      for (const Input& in : p_.inputs) {
        known.push_back(in.sym.name());
        if (in.sym.name() == t.text) found = in.sym;
      }
      if (!found) {
        const std::string near = nearest_name(t.text, known);
        fail(t.span, fmt::format("no input is called `{}`", t.text),
             near.empty() ? "name inputs of the program" : fmt::format("did you mean `{}`?", near));
      }
      if (!contains(roles.kept_inputs, found))
        fail(t.span,
             fmt::format("`{}` changes along `{}`, so it cannot be kept", t.text, d_.cascade.axis.name()),
             "keep inputs that do not have the streamed axis");
      if (contains(plan_.keep, found))
        fail(t.span, fmt::format("`keep` names `{}` twice", t.text), "name each input once");
      plan_.keep.push_back(found);
    } while (mark(","));
  }

  const Program& p_;
  const Derivation& d_;
  Plan plan_;
  SourceRef source_;
  size_t begin_, end_;  ///< of the clauses in the text
  std::vector<Token> tokens_;
  std::map<std::string, Token> clauses_;  ///< each kind that was given, with the whole clause's place
  size_t at_ = 0;
};

}  // namespace

Plan parse_schedule(const Program& p, const Derivation& d, const ScheduleRange& clauses,
                    const Plan& defaults) {
  return ScheduleParser(p, d, clauses, defaults).parse({});
}

std::vector<GuardedPlan> parse_plans(const Program& p, const Derivation& d, const ScheduleRange& clauses,
                                     const Plan& defaults,
                                     const std::function<void(const Plan&, const ClauseSpans&)>& check) {
  std::vector<GuardedPlan> plans;
  for (const ScheduleCase& one : split_cases(clauses)) {
    GuardedPlan g;
    for (const ScheduleCase::Limit& limit : one.limits) {
      const Axis* axis = p.axis(limit.axis.text);
      if (axis == nullptr) {
        std::vector<std::string> known;
        for (const Axis& a : p.axes) known.push_back(a.name());
        const std::string near = nearest_name(limit.axis.text, known);
        throw UserError(
            limit.axis.span, fmt::format("no axis is called `{}`", limit.axis.text),
            near.empty() ? "use an axis of the program" : fmt::format("did you mean `{}`?", near));
      }
      g.when.at_most.emplace_back(axis->index, limit.most);
    }
    for (const GuardedPlan& before : plans) {
      const auto covers = [&](const auto& limit) {
        return std::any_of(g.when.at_most.begin(), g.when.at_most.end(), [&](const auto& own) {
          return own.first == limit.first && own.second <= limit.second;
        });
      };
      if (before.when.at_most.empty() ||
          !std::all_of(before.when.at_most.begin(), before.when.at_most.end(), covers))
        continue;
      throw UserError(
          one.limits.empty() ? Span{clauses.source, clauses.begin, clauses.end} : one.limits[0].axis.span,
          "this plan is never chosen: a plan before it takes all of its sizes",
          "plans are tried in the order in which they are written: put the one for fewer sizes first");
    }
    g.plan = ScheduleParser(p, d, one.clauses, defaults).parse(check);
    if (g.plan.resident) {
      auto& limits = g.when.at_most;
      const auto own = std::find_if(limits.begin(), limits.end(),
                                    [&](const auto& limit) { return limit.first == g.plan.stream; });
      if (own == limits.end())
        limits.emplace_back(g.plan.stream, g.plan.chunk);
      else
        own->second = std::min(own->second, g.plan.chunk);
    }
    plans.push_back(std::move(g));
  }
  return plans;
}

Plan parse_schedule(const Program& p, const Derivation& d, const std::string& text, const Plan& defaults,
                    const std::string& name) {
  const auto source = std::make_shared<SourceText>(SourceText{name, text});
  return parse_schedule(p, d, ScheduleRange{source, 0, text.size()}, defaults);
}

}  // namespace tilewright
