// The entry point that libFuzzer and corpus_runner.cc share: any bytes as a program's text.
//
// A text is accepted or refused with messages that lie inside it; what is accepted prints canonically and parses
// back to what it prints, and elaborates. Everything else ends the process.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tilewright/program/elaborate.h"

namespace tilewright {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& text) {
  std::fprintf(stderr, "%s\n---- the text:\n%s\n", what.c_str(), text.c_str());
  std::abort();
}

Program parse(const std::string& text) {
  return parse_program(std::make_shared<SourceText>(SourceText{"fuzz.tw", text}));
}

void check(const std::string& text) {
  Program p;
  try {
    p = parse(text);
  } catch (const UserError& e) {
    if (e.diagnostics().empty() || e.diagnostics().size() > 20) fail("not 1 to 20 messages", text);
    for (const Diagnostic& d : e.diagnostics()) {
      if (!d.span || d.span.begin > d.span.end || d.span.end > text.size())
        fail("a message outside the text: " + d.what, text);
      if (d.render().find(d.what) == std::string::npos) fail("a message is not shown: " + d.what, text);
    }
    return;
  }
  const std::string once = print(p);
  std::string twice;
  try {
    twice = print(parse(once));
  } catch (const UserError& e) {
    fail("what is printed is refused: " + e.diagnostics()[0].render() + "\n" + once, text);
  }
  if (twice != once) fail("printing is not canonical:\n" + once + "\nthen\n" + twice, text);
  try {
    elaborate(p);
  } catch (const UserError&) {
    // A size that overflows, for instance.
  }
}

}  // namespace
}  // namespace tilewright

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    tilewright::check(text);
  } catch (const std::exception& e) {
    tilewright::fail(std::string("an exception left the parser: ") + e.what(), text);
  }
  return 0;
}
