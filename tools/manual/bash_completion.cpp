#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/manual/completion.h"

namespace lockstep::manual {
namespace {

/// The fixed part of the script. `_lockstep_words` and `_lockstep_value` are tables.
constexpr const char* kFunction = R"(
# Completes the value of the option in $pending, with $1 before each result.
_lockstep_complete_value() {
  local before=$1
  _lockstep_value "$path $pending" || return
  if [[ $list == yes && $cur == *,* ]]; then
    before+=${cur%,*},
    cur=${cur##*,}
  fi
  [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$cur")
  case $files in
    '') ;;
    '*') mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -P "$before" -f -- "$cur") ;;
    *)
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -P "$before" -d -- "$cur")
      [[ $files == '*/' ]] ||
        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -P "$before" -f -X "!$files" -- "$cur")
      ;;
  esac
  [[ -z $files ]] || compopt -o filenames 2>/dev/null
}

# Completes the command line of another program, which begins at word $1.
_lockstep_complete_program() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif (($1 == COMP_CWORD)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}

_lockstep() {
  local cur=${COMP_WORDS[COMP_CWORD]} path='' pending='' optional=''
  local commands options arguments program takes words files list word i
  COMPREPLY=()
  _lockstep_words ''
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then  # Bash splits --option=value at the sign.
      pending=${pending:-$optional}
    elif [[ -n $pending ]]; then
      pending=''
    elif [[ $word == -- && $program == yes ]]; then
      _lockstep_complete_program $((i + 1))
      return
    elif [[ $word == -* ]]; then
      optional=''
      _lockstep_value "$path $word" || continue
      if [[ $takes == yes ]]; then pending=$word; else optional=$word; fi
      continue
    elif [[ -n $optional && $word == +([0-9]) ]]; then
      :
    elif [[ " $commands " == *" $word "* ]]; then
      path=${path:+$path }$word
      _lockstep_words "$path"
    elif [[ $program == yes ]]; then
      _lockstep_complete_program "$i"
      return
    fi
    optional=''
  done
  if [[ $cur == = ]]; then
    pending=${pending:-$optional}
    cur=''
  fi
  if [[ -n $pending ]]; then
    _lockstep_complete_value ''
  elif [[ $cur == --*=* ]]; then
    pending=${cur%%=*}
    cur=${cur#*=}
    _lockstep_complete_value "$pending="
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
  elif [[ $program == yes ]]; then
    _lockstep_complete_program "$COMP_CWORD"
  elif [[ -n $optional ]]; then
    pending=$optional
    _lockstep_complete_value ''
  elif [[ $arguments == files ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    compopt -o filenames 2>/dev/null
  else
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
  fi
}

complete -F _lockstep lockstep
)";

std::string words_line(const Command& command) {
  std::vector<std::string> commands;
  std::vector<std::string> options;
  bool takes_files = false;
  for (const auto& each : command.commands)
    commands.push_back(each.path.substr(each.path.rfind(' ') + 1));
  for (const auto& option : command.options) {
    if (option.is_positional) {
      takes_files |= !file_pattern(option).empty();
    } else {
      options.insert(options.end(), option.names.begin(), option.names.end());
    }
  }
  return fmt::format("    '{}') commands='{}' options='{}' arguments={} program={} ;;\n",
                     command.path, fmt::join(commands, " "), fmt::join(options, " "),
                     takes_files ? "files" : "none", command.starts_program ? "yes" : "no");
}

std::string value_lines(const Command& command) {
  std::string text;
  for (const auto& option : command.options) {
    if (option.is_positional || !option.takes_value) continue;
    std::vector<std::string> patterns;
    for (const auto& name : option.names)
      patterns.push_back(fmt::format("'{} {}'", command.path, name));
    text += fmt::format("    {}) takes={} list={} words='{}' files='{}' ;;\n",
                        fmt::join(patterns, " | "), option.value_is_optional ? "optional" : "yes",
                        option.is_list ? "yes" : "no", fmt::join(plain_words(option), " "),
                        file_pattern(option));
  }
  return text;
}

}  // namespace

std::string bash_completion(const Command& top) {
  std::string words;
  std::string values;
  for_each_command(top, [&](const Command& command) {
    words += words_line(command);
    values += value_lines(command);
  });
  return "# Completion of lockstep for bash. Generated from the options of lockstep: do not "
         "edit.\n\n"
         "# The words that can follow command $1.\n_lockstep_words() {\n  case $1 in\n" +
         words +
         "  esac\n}\n\n"
         "# The values of an option, as \"COMMAND OPTION\". Fails if the option has none.\n"
         "_lockstep_value() {\n  case $1 in\n" +
         values + "    *) return 1 ;;\n  esac\n}\n" + kFunction;
}

}  // namespace lockstep::manual
