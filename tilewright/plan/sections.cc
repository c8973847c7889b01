#include "tilewright/plan/sections.h"

#include <cctype>

#include <fmt/format.h>

namespace tilewright {

namespace {

class Splitter {
 public:
  Splitter(const std::string& text, const std::string& name)
      : source_(std::make_shared<SourceText>(SourceText{name, text})), text_(source_->text) {}

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

  void skip_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  /// To the first character of a clause; false at the end.
  bool skip_between() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        skip_comment();
      else if (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == ';')
        ++at_;
      else
        return true;
    }
    return false;
  }

  void skip_clause() {
    while (at_ < text_.size() && text_[at_] != ';' && text_[at_] != '\n' && text_[at_] != '#') ++at_;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  std::string word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    if (at_ == begin) skip_clause();
    return text_.substr(begin, at_ - begin);
  }

  void names(std::vector<ScheduleSections::Name>& to, const std::string& head, size_t begin) {
    if (!to.empty())
      throw UserError(Span{source_, begin, at_}, fmt::format("`{}` is given twice", head),
                      fmt::format("name all definitions in one clause: `{} q, hidden`", head));
    while (true) {
      skip_blanks();
      const size_t first = at_;
      const bool letter =
          at_ < text_.size() && (std::isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_');
      if (!letter)
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
    throw UserError(Span{source_, at_, at_ + 1}, fmt::format("expected `;` before `{}`", text_[at_]),
                    "separate clauses with `;`");
  }

  SourceRef source_;
  const std::string& text_;
  ScheduleSections out_;
  size_t at_ = 0;
};

}  // namespace

ScheduleSections split_schedule(const std::string& text, const std::string& name) {
  return Splitter(text, name).run();
}

}  // namespace tilewright
