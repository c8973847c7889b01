// The verbs. Each adds its options to the application and sets its callback; the exit status goes to `status`.
#pragma once
#include "cli/options.h"

namespace tilewright::cli {

void add_run(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_derive(CLI::App& app, int& status);
void add_draw(CLI::App& app, int& status);
void add_emit(CLI::App& app, int& status);
void add_build(CLI::App& app, int& status);
void add_model(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_tune(CLI::App& app, int& status);
void add_search(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_hardware(CLI::App& app, int& status);
void add_cache(CLI::App& app, int& status);
void add_completion(CLI::App& app, int& status);

}  // namespace tilewright::cli
