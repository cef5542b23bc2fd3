#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {

using Words = std::vector<std::string>;

inline Words words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

inline bool has_fashion_mnist() {
  return std::filesystem::exists("/usr/share/datasets/fashion-mnist");
}

/// The digest that ends the output of a training.
inline std::string printed_digest(const Finished& finished) {
  const std::regex line("weights: ([0-9a-f]{16})  \\(R=");
  std::smatch found;
  const bool is_there = std::regex_search(finished.out, found, line);
  EXPECT_TRUE(is_there) << finished.out << finished.err;
  return is_there ? found[1].str() : "";
}

/// Runs of `lockstep train` that leave a summary and digests after every step in a folder.
class TrainRunsTest : public ::testing::Test {
 protected:
  using Json = nlohmann::json;

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  /// Runs a command that trains, and returns its summary.
  Json record(const std::string& name, Words command) const {
    for (auto& word :
         words("--digest-every 1 --log-dir " + path(name) + " --summary " + path(name + ".json"))) {
      command.push_back(std::move(word));
    }
    const auto finished = run(std::move(command));
    if (finished.exit_code != 0) {
      ADD_FAILURE() << name << " ended with " << finished.exit_code << ":\n"
                    << finished.out << finished.err;
      return Json::object();
    }
    auto summary = summary_of(name);
    EXPECT_EQ(summary.at("weights"), printed_digest(finished)) << name;
    return summary;
  }

  Json record_train(const std::string& name, const std::string& options) const {
    return record(name, lockstep_command(words("train " + options)));
  }

  Json summary_of(const std::string& name) const {
    return Json::parse(read_file(path(name + ".json")));
  }

  Finished diff(const std::string& a, const std::string& b) const {
    return lockstep({"diff", path(a), path(b)});
  }

  /// Every step of two runs, bit for bit, and what they came to.
  void expect_same(const std::string& a, const std::string& b) const {
    if (HasFailure()) return;  // one of them may have left nothing
    const auto compared = diff(a, b);
    EXPECT_EQ(compared.exit_code, 0) << a << " and " << b << ":\n" << compared.out << compared.err;
    EXPECT_THAT(compared.out,
                ::testing::MatchesRegex("the runs agree in all [0-9]+ recorded steps\n"));
    const auto summary_a = summary_of(a);
    const auto summary_b = summary_of(b);
    for (const auto* key : {"weights", "train_loss", "train_metrics", "test_loss", "test_metrics",
                            "samples", "optimizer_steps", "replicas", "threads_per_device"}) {
      EXPECT_EQ(summary_a.at(key), summary_b.at(key)) << key << " of " << a << " and " << b;
    }
  }

  ScratchFolder folder_;
};

}  // namespace lockstep::testing
