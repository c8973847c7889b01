// tilewright build: an ahead-of-time library and the C header that goes with it.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/driver/library.h"
#include "tilewright/emit/identifiers.h"
#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/compile.h"

namespace tilewright::cli {

void add_build(CLI::App& app, int& status) {
  auto o = std::make_shared<Options>();
  auto library = std::make_shared<std::string>();
  auto header = std::make_shared<std::string>();
  auto source = std::make_shared<std::string>();
  auto prefix = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "build", "make a library for this CPU, and its C header, that run without Tilewright");
  add_program(*verb, *o);
  add_schedule(*verb, *o);
  verb->add_option("-o,--library", *library, "the shared library")->type_name("FILE")->required();
  verb->add_option("--header", *header, "the C header")->type_name("FILE")->required();
  verb->add_option("--source", *source, "keep the C++ that the library is compiled from")->type_name("FILE");
  verb->add_option("--name", *prefix, "what the exported names begin with (default: the program's name)")
      ->type_name("NAME");
  add_json(*verb, o->json);
  add_examples(*verb, {"tilewright build examples/pf_causal.tw -o libattention.so --header attention.h "
                       "--dtype Q=f32,K=f32,V=f32,O=f32",
                       "cc main.c libattention.so -Wl,-rpath,. -lm"});
  verb->callback([=, &status] {
    std::map<std::string, int64_t> sizes;
    const Program p = load(*o, sizes);
    if (!sizes.empty())
      throw UserError(Span{},
                      fmt::format("--size {}={}: a library takes this length when it runs",
                                  sizes.begin()->first, sizes.begin()->second),
                      fmt::format("declare `axis {0} = {1}` to fix it, or leave --size {0} out",
                                  sizes.begin()->first, sizes.begin()->second));
    OutputFiles files = files_read(*o);
    for (const auto& [option, file] : {std::pair<std::string, std::string>{"-o", *library},
                                       {"--header", *header},
                                       {"--source", *source}}) {
      if (file.empty()) continue;
      check_writable(option + " " + file, file);
      files.writes(option, file);
    }
    const std::string name = prefix->empty() ? c_function(p.name) : *prefix;
    Progress progress("compiling the library");
    const LibrarySource s = library_source(p, compile_options(*o, p), name);
    const std::vector<char> binary = compile_cpu(s.source, s.flags);
    if (!write_file_atomically(*library, binary))
      throw UserError(Span{}, fmt::format("{} cannot be written", *library),
                      "check the folder, its permissions and the free space");
    write_text(*header, s.header);
    if (!source->empty()) write_text(*source, s.source);
    status = 0;
    if (o->json) {
      nlohmann::json j{{"program", p.name},
                       {"name", name},
                       {"library", *library},
                       {"header", *header},
                       {"bytes", binary.size()}};
      if (!source->empty()) j["source"] = *source;
      put_json(j);
      return;
    }
    put(fmt::format("{}  cpu\n  library {}  {} bytes\n  header  {}\n", name, *library, binary.size(),
                    *header));
    if (!source->empty()) put(fmt::format("  source  {}\n", *source));
  });
}

}  // namespace tilewright::cli
