#include "tests/cli/train_runs.h"

#include <filesystem>
#include <iterator>
#include <sstream>

#include "lockstep/base/file.h"

namespace lockstep::testing {

Words words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool has_fashion_mnist() {
  return std::filesystem::exists("/usr/share/datasets/fashion-mnist");
}

std::string digest_in(const std::string& text, const std::string& behind) {
  const std::string word = "weights: ";
  constexpr std::size_t kLength = 16;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const auto digest = text.substr(at + word.size(), kLength);
    if (digest.size() == kLength && digest.find_first_not_of("0123456789abcdef") == digest.npos &&
        text.compare(at + word.size() + kLength, behind.size(), behind) == 0) {
      return digest;
    }
  }
  return "";
}

std::string printed_digest(const Finished& finished) {
  auto digest = digest_in(finished.out, "  (R=");
  EXPECT_NE(digest, "") << finished.out << finished.err;
  return digest;
}

std::string TrainRunsTest::path(const std::string& name) const {
  return folder_.path() + "/" + name;
}

TrainRunsTest::Json TrainRunsTest::record(const std::string& name, Words command) const {
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

TrainRunsTest::Json TrainRunsTest::record_train(const std::string& name,
                                                const std::string& options) const {
  return record(name, lockstep_command(words("train " + options)));
}

TrainRunsTest::Json TrainRunsTest::summary_of(const std::string& name) const {
  return Json::parse(read_file(path(name + ".json")));
}

Finished TrainRunsTest::diff(const std::string& a, const std::string& b) const {
  return lockstep({"diff", path(a), path(b)});
}

void TrainRunsTest::expect_same(const std::string& a, const std::string& b) const {
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

}  // namespace lockstep::testing
