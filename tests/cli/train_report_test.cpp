#include "tests/cli/train_runs.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Two epochs of a few steps.
constexpr const char* kSmall =
    "train --model convnet --dataset synthetic --size 300 --image-size 16x16x3 --limit-test 50 "
    "--batch-size 4 --epochs 2 --replicas 3";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// The row of a table.
std::string row(const std::string& name, const std::string& value) {
  return "<tr><th scope=\"row\">" + name + "</th><td>" + value;
}

class TrainReportTest : public TrainRunsTest {
 protected:
  /// Runs `lockstep`, and returns the page that it wrote.
  std::string report_of(const std::string& options) {
    finished_ = lockstep(words(options + " --report " + file_));
    EXPECT_EQ(finished_.exit_code, 0) << finished_.out << finished_.err;
    return finished_.exit_code == 0 ? read_file(file_) : "";
  }

  const std::string file_ = path("report.html");
  Finished finished_;
};

TEST_F(TrainReportTest, ShowsARunOfSeveralInstances) {
  const auto options = std::string(kSmall) + " --num-instances 2 --threads-per-device 1";
  const auto page = report_of(options);
  ASSERT_FALSE(HasFailure());
  const auto digest = printed_digest(finished_);
  EXPECT_THAT(
      page, AllOf(HasSubstr("<title>convnet on synthetic</title>"), HasSubstr("The run finished."),
                  HasSubstr(row("digest of the weights", digest + " (R=3 T=1)")),
                  HasSubstr(row("test accuracy", "")), HasSubstr(row("samples/s", "")),
                  HasSubstr("<pre>lockstep " + options + " --report " + file_ + "</pre>")));
  // Loss and accuracy of training and test, throughput and learning rate.
  EXPECT_EQ(count(page, "<svg "), 4U);
  EXPECT_EQ(count(page, "<g class=\"curve "), 6U);
  EXPECT_THAT(page, AllOf(HasSubstr("<b>Loss</b>"), HasSubstr("<b>Accuracy (%)</b>"),
                          HasSubstr("<b>Throughput (samples/s)</b>"),
                          HasSubstr("<b>Learning rate</b>"), HasSubstr("learning rate: 0.1<")));
  EXPECT_THAT(page, AllOf(HasSubstr("<th scope=\"row\">all instances</th>"),
                          HasSubstr("<th scope=\"row\">instance 1</th>"), HasSubstr("Bottleneck: "),
                          HasSubstr("<td>start</td>")));
  EXPECT_THAT(page, AllOf(HasSubstr(row("host", "")), HasSubstr(row("processor", "")),
                          HasSubstr(row("libtorch", "")), HasSubstr(row("version", "")),
                          HasSubstr(row("instances", "2<")), HasSubstr(row("restarts", "0<")),
                          HasSubstr(row("--batch-size", "4<")),
                          HasSubstr(row("--momentum", "0.9 (default)<"))));
  EXPECT_THAT(page, Not(HasSubstr(row("--bind", "")))) << "the launcher has decided it";
  EXPECT_THAT(page, AllOf(Not(HasSubstr("http")), Not(HasSubstr("<script"))));
}

TEST_F(TrainReportTest, ReplacesTheReportOfARunInOneProcess) {
  folder_.write("report.html", "old");
  const auto page = report_of(kSmall);
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_THAT(page, AllOf(HasSubstr(printed_digest(finished_)), HasSubstr(row("instances", "1<")),
                          HasSubstr("<pre>lockstep train --model convnet ")));
  EXPECT_EQ(count(page, "<g class=\"curve "), 6U);
  // Nothing is left beside the file.
  const std::filesystem::directory_iterator files(folder_.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(TrainReportTest, ShowsARunUnderTheLauncher) {
  auto options = std::string(kSmall);
  options.resize(options.find(" --replicas"));
  const auto command = "run --num-replicas 3 --num-instances 2 --env TOKEN=of-a-user " +
                       std::string(LOCKSTEP_BINARY) + " " + options;
  const auto page = report_of(command);
  ASSERT_FALSE(HasFailure());
  auto shown = command;
  shown.replace(shown.find("of-a-user"), 9, "...");
  EXPECT_THAT(page, AllOf(HasSubstr(printed_digest(finished_)), HasSubstr(row("replicas", "3<")),
                          HasSubstr("<pre>lockstep " + shown + " --report " + file_ + "</pre>"),
                          Not(HasSubstr("of-a-user"))));
}

TEST_F(TrainReportTest, ShowsTheVariablesOfLibraries) {
  const auto finished = lockstep(words(std::string(kSmall) + " --report " + file_),
                                 {.environment = {{"ATEN_CPU_CAPABILITY", "default"}}});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(read_file(file_), HasSubstr(row("ATEN_CPU_CAPABILITY", "default<")));
}

TEST_F(TrainReportTest, SaysThatARunDiverged) {
  const auto finished = lockstep(words(std::string(kSmall) + " --lr 1e30 --report " + file_));
  EXPECT_EQ(finished.exit_code, 8);
  EXPECT_THAT(read_file(file_),
              AllOf(HasSubstr("The run failed."), HasSubstr("(exit code 8)"),
                    HasSubstr("a lower learning rate"), Not(HasSubstr("digest of the weights"))));
}

TEST_F(TrainReportTest, IsRefusedBeforeAnythingStartsIfItCannotBeWritten) {
  const auto finished = lockstep(words(std::string(kSmall) + " --report " + path("none/r.html")));
  EXPECT_EQ(finished.exit_code, 5);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(finished.err, "lockstep: train: --report " + path("none/r.html") + ": expected '" +
                              path("none") + "' to be a folder, found none\n  try: mkdir -p " +
                              path("none") + "\n");
}

}  // namespace
}  // namespace lockstep::testing
