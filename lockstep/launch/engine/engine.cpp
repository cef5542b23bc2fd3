#include "lockstep/launch/engine/engine.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/engine/mpirun_engine.h"
#include "lockstep/launch/engine/srun_engine.h"
#include "lockstep/launch/engine/ssh_engine.h"
#include "lockstep/launch/start/find_program.h"

namespace lockstep::launch {

std::string_view name_of(EngineKind kind) noexcept {
  switch (kind) {
    case EngineKind::Auto:
      return "auto";
    case EngineKind::Local:
      return "local";
    case EngineKind::Mpirun:
      return "mpirun";
    case EngineKind::Srun:
      return "srun";
    case EngineKind::Ssh:
      return "ssh";
  }
  return "?";
}

std::unique_ptr<Engine> make_engine(EngineKind kind, EngineOptions options) {
  if (kind == EngineKind::Mpirun) return std::make_unique<MpirunEngine>(std::move(options));
  if (kind == EngineKind::Srun) return std::make_unique<SrunEngine>(std::move(options));
  return std::make_unique<SshEngine>(kind, std::move(options));
}

EngineKind choose_engine(EngineKind wanted, bool all_are_this_host,
                         const topology::Environment& environment) {
  if (wanted != EngineKind::Auto) return wanted;
  if (all_are_this_host) return EngineKind::Local;
  if (is_in_allocation(environment)) return EngineKind::Srun;
  return has_program("mpirun", environment) ? EngineKind::Mpirun : EngineKind::Ssh;
}

std::vector<std::string> split_words(std::string_view text, const std::string& option) {
  std::vector<std::string> words;
  bool is_in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    const bool is_space = quote == 0 && (letter == ' ' || letter == '\t' || letter == '\n');
    if (!is_space && !is_in_word) words.emplace_back();
    is_in_word = !is_space;
    if (is_space) continue;
    if (letter == quote) {
      quote = 0;
    } else if (quote == 0 && (letter == '"' || letter == '\'')) {
      quote = letter;
    } else if (letter == '\\' && quote != '\'' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += letter;
    }
  }
  if (quote == 0) return words;
  throw Error(ErrorKind::Options,
              fmt::format("{} is '{}': expected a closing {}, found none", option, text, quote),
              "close the quote, or put a backslash before it");
}

std::string quote_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

}  // namespace lockstep::launch
