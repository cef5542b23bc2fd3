#include "lockstep/cli/evaluation_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

train::EvaluationSummary summary_of(ConfusionMatrix confusion,
                                    std::vector<std::string> names = {}) {
  train::EvaluationSummary summary{.model = "mlp",
                                   .dataset = "cifar10",
                                   .split = "test",
                                   .init_from = "w.safetensors",
                                   .weights = "0123456789abcdef",
                                   .batch_size = 64,
                                   .precision = "32.32",
                                   .class_names = std::move(names),
                                   .instances = 3,
                                   .replicas = 4,
                                   .seconds = 0.5};
  const auto samples = confusion.samples();
  summary.result = {
      .samples = samples,
      .loss = 0.25,
      .accuracy = 100 * static_cast<double>(confusion.correct()) / static_cast<double>(samples),
      .metrics = {},
      .confusion = std::move(confusion)};
  return summary;
}

/// Three classes: zero, one and two.
ConfusionMatrix three_classes() {
  ConfusionMatrix matrix(3);
  matrix.add(0, 0, 3);
  matrix.add(0, 1, 1);
  matrix.add(1, 1, 2);
  matrix.add(1, 2, 2);
  matrix.add(2, 2, 2);
  matrix.add(2, 0, 1);
  return matrix;
}

/// `classes` classes of ten samples. Class i > 0 has i samples, at most 9, that are taken for the
/// class before it.
ConfusionMatrix many_classes(std::int64_t classes) {
  ConfusionMatrix matrix(classes);
  for (std::int64_t i = 0; i < classes; ++i) {
    const auto wrong = std::min<std::int64_t>(i, 9);
    matrix.add(i, i, 10 - wrong);
    if (wrong > 0) matrix.add(i, i - 1, wrong);
  }
  return matrix;
}

TEST(EvaluationTextTest, ShowsTheResultTheClassesAndTheMatrix) {
  EXPECT_EQ(cli::to_text(summary_of(three_classes(), {"zero", "one", "two"})),
            "model          mlp\n"
            "weights        w.safetensors, digest 0123456789abcdef\n"
            "data           cifar10, test split\n"
            "samples        11\n"
            "accuracy       63.64 % (7 correct)\n"
            "loss           0.250000\n"
            "\n"
            "class  name  samples  correct  precision  recall      F1\n"
            "    0  zero        4        3     0.7500  0.7500  0.7500\n"
            "    1  one         4        2     0.6667  0.5000  0.5714\n"
            "    2  two         3        2     0.5000  0.6667  0.5714\n"
            "\n"
            "confusion matrix: a row for each class, a column for each predicted class\n"
            "class  name  0  1  2\n"
            "    0  zero  3  1  0\n"
            "    1  one   0  2  2\n"
            "    2  two   1  0  2\n");
}

TEST(EvaluationTextTest, NumbersClassesWithoutNames) {
  EXPECT_THAT(cli::to_text(summary_of(three_classes())),
              AllOf(HasSubstr("class  samples  correct  precision  recall      F1\n"),
                    HasSubstr("class  0  1  2\n    0  3  1  0\n")));
}

TEST(EvaluationTextTest, SaysWhichCheckpointWasEvaluated) {
  auto summary = summary_of(three_classes());
  summary.init_from.clear();
  summary.split.clear();
  summary.checkpoint = {.path = "c/step-000000000040", .step = 40};
  EXPECT_THAT(cli::to_text(summary),
              HasSubstr("weights        c/step-000000000040, after step 40, digest 0123"));
  summary.checkpoint->is_average = true;
  EXPECT_THAT(cli::to_text(summary),
              AllOf(HasSubstr("average of the weights after step 40, digest"),
                    HasSubstr("data           cifar10\n")));
}

TEST(EvaluationTextTest, MarksSharesThatAreNotDefined) {
  ConfusionMatrix matrix(2);
  matrix.add(0, 0, 4);
  const auto summary = summary_of(matrix);
  EXPECT_THAT(cli::to_text(summary),
              HasSubstr("    1        0        0          -       -       -\n"));
  EXPECT_THAT(cli::to_json(summary),
              HasSubstr("\"precision\": null,\n      \"recall\": null,\n      \"f1\": null\n"));
}

TEST(EvaluationTextTest, ShowsTheMostFrequentConfusionsOfMoreThanTwentyClasses) {
  EXPECT_THAT(cli::to_text(summary_of(many_classes(20))), HasSubstr("confusion matrix: "));
  const auto text = cli::to_text(summary_of(many_classes(22)));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("confusion matrix: ")),
                          HasSubstr("the 20 most frequent of 21 confusions (153 wrong "
                                    "predictions); --json FILE writes all confusions\n"
                                    "samples  class  predicted\n"
                                    "      9      9          8\n"
                                    "      9     10          9\n")));
  ConfusionMatrix right(21);
  right.add(20, 20);
  EXPECT_THAT(cli::to_text(summary_of(right)), HasSubstr("\nno prediction is wrong\n"));
}

TEST(EvaluationTextTest, ShowsTheWorstOfMoreThanAHundredClasses) {
  EXPECT_THAT(cli::to_text(summary_of(many_classes(100))), HasSubstr("\n   99 "));
  const auto text = cli::to_text(summary_of(many_classes(101)));
  EXPECT_THAT(text, AllOf(HasSubstr("the 20 of 101 classes with the lowest F1; --json FILE writes "
                                    "all\nclass  samples"),
                          Not(HasSubstr("\n    0 "))));
}

TEST(EvaluationTextTest, WritesEverythingAsJson) {
  const auto json =
      nlohmann::json::parse(cli::to_json(summary_of(three_classes(), {"zero", "one", "two"})));
  EXPECT_EQ(json.at("weights"),
            nlohmann::json::parse(R"({"digest": "0123456789abcdef", "init_from": "w.safetensors",
                                      "checkpoint": null})"));
  EXPECT_EQ(json.at("samples"), 11);
  EXPECT_EQ(json.at("correct"), 7);
  EXPECT_EQ(json.at("accuracy"), 700.0 / 11);
  EXPECT_EQ(json.at("loss"), 0.25);
  EXPECT_EQ(json.at("split"), "test");
  EXPECT_EQ(json.at("confusion_matrix"),
            nlohmann::json::parse("[[3, 1, 0], [0, 2, 2], [1, 0, 2]]"));
  EXPECT_EQ(json.at("confusions"),
            nlohmann::json::parse(R"([{"class": 1, "predicted": 2, "samples": 2},
                                      {"class": 0, "predicted": 1, "samples": 1},
                                      {"class": 2, "predicted": 0, "samples": 1}])"));
  EXPECT_EQ(json.at("classes").at(1), (nlohmann::json{{"class", 1},
                                                      {"name", "one"},
                                                      {"samples", 4},
                                                      {"correct", 2},
                                                      {"predictions", 3},
                                                      {"precision", 2.0 / 3},
                                                      {"recall", 0.5},
                                                      {"f1", 4.0 / 7}}));
  EXPECT_EQ(json.at("run"), nlohmann::json::parse(R"({"instances": 3, "replicas": 4,
                                                      "seconds": 0.5, "samples_per_second": 22.0})"));
}

TEST(EvaluationTextTest, LeavesAMatrixOfVeryManyClassesToItsList) {
  const auto json = nlohmann::json::parse(cli::to_json(summary_of(many_classes(2001))));
  EXPECT_TRUE(json.at("confusion_matrix").is_null());
  EXPECT_EQ(json.at("confusions").size(), 2000U);
  EXPECT_EQ(json.at("classes").size(), 2001U);
}

}  // namespace
}  // namespace lockstep::testing
