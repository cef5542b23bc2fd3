#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::testing {

/// Fails unless `action` throws an `Error` of this kind whose message or hint holds this text.
inline void expect_error(const std::function<void()>& action, ErrorKind kind,
                         const std::string& text) {
  try {
    action();
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const Error& error) {
    const auto whole = std::string(error.what()) + "\n" + error.hint();
    EXPECT_EQ(exit_code(error.kind()), exit_code(kind)) << whole;
    EXPECT_NE(whole.find(text), std::string::npos) << "expected: " << text << "\nfound: " << whole;
  }
}

/// Returns the error that `action` throws.
template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("nothing was thrown");
}

}  // namespace lockstep::testing
