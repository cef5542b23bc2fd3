#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::nn {

/// What libtorch says, as an error of ours: without the page of addresses behind it.
inline Error torch_error(const std::string& where, const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  const auto line = text.substr(0, text.find('\n'));
  if (line.find("allocate memory") != std::string::npos) {
    return {ErrorKind::Unavailable, where + ": there is not enough memory: " + line,
            "a smaller image, batch or model"};
  }
  return {ErrorKind::Options, where + ": libtorch refuses: " + line};
}

/// Runs `action`, and turns what libtorch throws into an `Error` that `where` begins.
template <typename Action>
auto with_torch_errors(const std::string& where, const Action& action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    throw torch_error(where, error);
  } catch (const std::bad_alloc&) {  // of our own pool
    throw Error(ErrorKind::Unavailable, where + ": there is not enough memory",
                "a smaller image, batch or model");
  }
}

/// Also calls `report` with the error, before it throws the error.
template <typename Action, typename Report>
void with_torch_errors(const std::string& where, const Action& action, const Report& report) {
  try {
    with_torch_errors(where, action);
  } catch (const Error& error) {
    report(error);
    throw;
  } catch (const std::exception& error) {
    report(Error(ErrorKind::PeerLost, where + ": " + error.what()));
    throw;
  }
}

}  // namespace lockstep::nn
