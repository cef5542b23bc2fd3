#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {

using Words = std::vector<std::string>;

Words words(const std::string& text);

bool has_fashion_mnist();

/// The 16 hexadecimal digits of the first "weights: …" that this text follows. Empty if there are
/// none.
std::string digest_in(const std::string& text, const std::string& behind = "");

/// The digest that ends the output of a training.
std::string printed_digest(const Finished& finished);

/// Runs of `lockstep train` that leave a summary and digests after every step in a folder.
class TrainRunsTest : public ::testing::Test {
 protected:
  using Json = nlohmann::json;

  std::string path(const std::string& name) const;

  /// Runs a command that trains, and returns its summary.
  Json record(const std::string& name, Words command) const;
  Json record_train(const std::string& name, const std::string& options) const;

  Json summary_of(const std::string& name) const;

  Finished diff(const std::string& a, const std::string& b) const;

  /// Expects the same bits in every step of two runs, and the same results.
  void expect_same(const std::string& a, const std::string& b) const;

  ScratchFolder folder_;
};

}  // namespace lockstep::testing
