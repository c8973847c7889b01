// tilewright draw: a program as a Neural Circuit Diagram.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "tilewright/diagram/svg.h"
#include "tilewright/driver/compiled.h"

namespace tilewright::cli {

namespace {

Theme theme_of(const std::string& name) {
  expect_one_of(name, {"auto", "light", "dark"}, "theme");
  return name == "light" ? Theme::Light : name == "dark" ? Theme::Dark : Theme::Auto;
}

}  // namespace

void add_draw(CLI::App& app, int& status) {
  struct Drawing {
    std::string output, theme = "auto", kernel;
    double width = 700;
  };
  auto o = std::make_shared<Options>();
  auto drawing = std::make_shared<Drawing>();
  CLI::App* verb = app.add_subcommand("draw", "draw the program as an SVG picture (docs/diagrams.md)");
  add_program(*verb, *o);
  verb->add_option("--output", drawing->output, "write the picture here (default: standard output)")
      ->type_name("FILE");
  verb->add_option("--theme", drawing->theme, "colours; auto follows whoever looks at it")
      ->type_name("auto|light|dark")
      ->capture_default_str();
  add_integer(
      *verb, "--width", [drawing](int64_t n) { drawing->width = static_cast<double>(n); }, 300, 10000, 700,
      "pixels; what is wider continues in a further row");
  add_json(*verb, o->json);
  add_examples(*verb, {"tilewright draw examples/pf_causal.tw --output causal.svg"});
  verb->callback([=, &status] {
    status = [&] {
      const Theme theme = theme_of(drawing->theme);
      if (!drawing->output.empty()) check_writable("--output", drawing->output);
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      LayoutOptions layout;
      layout.width = drawing->width;
      const Diagram diagram = diagram_of(p);
      const Picture picture = lay_out(diagram, layout);
      const std::string svg = to_svg({picture}, theme, p.name);
      nlohmann::json j{{"program", p.name}, {"pictures", nlohmann::json::array()}};
      j["pictures"].push_back(
          {{"width", picture.width}, {"height", picture.height}, {"boxes", diagram.boxes.size()}});
      if (!drawing->output.empty()) {
        write_text(drawing->output, svg);
        j["file"] = drawing->output;
      } else if (o->json) {
        j["svg"] = svg;
      } else {
        put(svg);
      }
      if (o->json) put_json(j);
      return 0;
    }();
  });
}

}  // namespace tilewright::cli
