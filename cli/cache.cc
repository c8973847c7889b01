// tilewright cache: where compiled kernels are kept, how many there are, and their removal (docs/cache.md).
#include "tilewright/runtime/cache.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"

namespace tilewright::cli {

namespace {

int show_cache(bool clear, bool json) {
  const CacheContents c = clear ? cache_clear() : cache_contents();
  if (json) {
    put_json({{"folder", c.folder},
              {"off", c.off},
              {"kernels", c.kernels},
              {"bytes", c.bytes},
              {"cleared", clear}});
    return 0;
  }
  if (c.folder.empty()) {
    put("no cache folder: neither TILEWRIGHT_CACHE_DIR nor HOME is set\n");
    return 0;
  }
  put(fmt::format("folder   {}{}\nkernels  {}{}\nbytes    {}\n", c.folder,
                  c.off ? "  (off: TILEWRIGHT_DISABLE_CACHE=1)" : "", c.kernels, clear ? " removed" : "",
                  c.bytes));
  return 0;
}

}  // namespace

void add_cache(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("cache", "show the cache of compiled kernels, or clear it");
  auto json = std::make_shared<bool>(false);
  auto clear = std::make_shared<std::string>("show");
  verb->add_option("ACTION", *clear, "what to do")->type_name("show|clear")->capture_default_str();
  add_json(*verb, *json);
  add_examples(*verb, {"tilewright cache", "tilewright cache clear",
                       "TILEWRIGHT_CACHE_DIR=/tmp/kernels tilewright cache --json"});
  verb->callback([=, &status] {
    expect_one_of(*clear, {"show", "clear"}, "action");
    status = show_cache(*clear == "clear", *json);
  });
}

}  // namespace tilewright::cli
