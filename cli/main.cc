// The tilewright command (docs/cli.md).
#include <fmt/format.h>

#include <csignal>

#include "cli/commands.h"

namespace {

/// Ctrl-C: files are written to temporary names and renamed, so stopping at once leaves no partial file.
void interrupted(int) { std::_Exit(130); }

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, interrupted);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app{"Tilewright derives, checks and emits fused kernels from the plain definition of a tensor program."};
  app.set_version_flag("--version", TILEWRIGHT_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  int status = 0;
  tilewright::cli::add_run(app, status);
  tilewright::cli::add_check(app, status);
  tilewright::cli::add_derive(app, status);
  tilewright::cli::add_emit(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  return status;
}
