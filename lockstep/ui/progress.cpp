#include "lockstep/ui/progress.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ui/bar_text.h"
#include "lockstep/ui/standard_output.h"

namespace lockstep::ui {

std::string format_label(std::string_view pattern, std::span<const Shown> values) {
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  for (const auto& value : values) {
    std::visit([&](const auto& held) { arguments.push_back(held); }, value);
  }
  try {
    return fmt::vformat(pattern, arguments);
  } catch (const fmt::format_error& error) {
    throw Error(ErrorKind::Options,
                fmt::format("progress: the label '{}' does not fit its {} values: {}", pattern,
                            values.size(), error.what()),
                "progress(loader, \"[Epoch {:02}]\", epoch)");
  }
}

void append_postfix(std::string& postfix, std::string_view name, const Shown& value) {
  if (!postfix.empty()) postfix += ", ";
  postfix += name;
  postfix += '=';
  if (const auto* const text = std::get_if<std::string>(&value)) {
    postfix += *text;
  } else if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
    postfix += short_number(static_cast<double>(*whole));
  } else {
    postfix += short_number(std::get<double>(value));
  }
}

BarOutput output_of_this_process() {
  return standard_output(World::init());
}

}  // namespace lockstep::ui
