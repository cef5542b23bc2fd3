#include "lockstep/ui/train_display.h"

#include <gtest/gtest.h>

#include "lockstep/ui/text_width.h"
#include "tests/ui/screen.h"

namespace lockstep::ui {
namespace {

using namespace std::chrono_literals;
using testing::Screen;

std::string erase(const std::string& frame) {
  return "\r" + std::string(width_of(frame), ' ') + "\r";
}

/// A display whose two streams lead to one screen, as on a terminal.
class TrainDisplayTest : public ::testing::Test {
 protected:
  TrainDisplay make(BarStyle style) {
    return {screen_.output(style), [this](std::string_view text) {
              screen_.written += "<" + std::string(text.substr(0, text.size() - 1)) + ">\n";
            }};
  }

  /// Two epochs of two iterations, with what comes before and after them.
  void train(TrainDisplay& display) {
    display.on_preparing({"reading the dataset", 0, 2});
    screen_.pass(1s);
    display.on_preparing({"building the model", 1, 2});
    screen_.pass(1s);
    display.on_epoch_begin(1, 2);
    screen_.pass(2s);
    display.on_iteration(
        1, 1, IterationResult{StepResult{.loss = 2.34567, .metrics = {{"acc", 12.345}}}, {}});
    display.on_notice("the last 3 samples are left out");
    screen_.pass(2s);
    display.on_iteration(
        1, 2, IterationResult{StepResult{.loss = 1.4512, .metrics = {{"acc", 48.44}}}, {}});
    display.on_epoch_trained(1, {.loss = 1.8351, .metrics = {{"acc", 32.34}}});
    display.on_validation_begin(1, 10);
    screen_.pass(500ms);
    display.on_validation_batch(5);
    display.on_validated(1, {.loss = 0.4119, .metrics = {{"acc", 85.71}}});
  }

  Screen screen_;
};

TEST_F(TrainDisplayTest, KeepsWhatCameOfPreparing) {
  auto display = make(BarStyle::Lines);
  display.on_preparing({"deciding the plan", 1, 2});
  screen_.pass(1s);
  display.on_preparing({"plan cached", 2, 2});
  display.on_epoch_begin(1, 2);
  EXPECT_NE(screen_.take().find("[Prepare]: 100%|██████████| 2/2 [00:01, plan cached]\n"),
            std::string::npos);
}

TEST_F(TrainDisplayTest, ShowsATrainingOnATerminal) {
  const std::string reading = "[Prepare]:   0%|          | 0/2 [00:00, reading the dataset]";
  const std::string building = "[Prepare]:  50%|█████     | 1/2 [00:01, building the model]";
  const std::string half =
      "[Epoch 01]:  50%|█████     | 1/2 [00:02<00:02,  2.00s/it, loss=2.35, acc=12.3]";
  const std::string whole =
      "[Epoch 01]: 100%|██████████| 2/2 [00:04<00:00,  2.00s/it, loss=1.45, acc=48.4]";
  const std::string test = "[Test  01]:  50%|█████     | 5/10 [00:00<00:00, 10.00it/s]";
  auto display = make(BarStyle::Live);
  train(display);
  EXPECT_EQ(screen_.take(), "\r" + reading + erase(reading) + building + erase(building) +
                                "[Prepare]: 100%|██████████| 2/2 [00:02]\n"
                                "\r[Epoch 01]:   0%|          | 0/2 [00:00<?, ?it/s]\r" +
                                half + erase(half) +
                                "<lockstep: note: the last 3 samples are left out>\n\r" + half +
                                "\r" + whole +
                                "\n"
                                "[Epoch 01] loss: 1.835, acc: 32.3\n"
                                "\r[Test  01]:   0%|          | 0/10 [00:00<?, ?it/s]\r" +
                                test + erase(test) + "[Test  01] loss: 0.412, acc: 85.7\n");
}

TEST_F(TrainDisplayTest, ShowsATrainingInALog) {
  auto display = make(BarStyle::Lines);
  train(display);
  EXPECT_EQ(screen_.take(),
            "[Prepare]: 100%|██████████| 2/2 [00:02]\n"
            "<lockstep: note: the last 3 samples are left out>\n"
            "[Epoch 01]: 100%|██████████| 2/2 [00:04<00:00,  2.00s/it, loss=1.45, acc=48.4]\n"
            "[Epoch 01] loss: 1.835, acc: 32.3\n"
            "[Test  01] loss: 0.412, acc: 85.7\n");
}

TEST_F(TrainDisplayTest, WritesResultsWhereBarsAreSilent) {
  auto display = make(BarStyle::Silent);
  train(display);
  EXPECT_EQ(screen_.take(),
            "<lockstep: note: the last 3 samples are left out>\n"
            "[Epoch 01] loss: 1.835, acc: 32.3\n"
            "[Test  01] loss: 0.412, acc: 85.7\n");
}

/// Three epochs of 100 iterations of 2 s each, with a test of 20 s after each.
void train_for_ten_minutes(TrainDisplay& display, Screen& screen) {
  display.on_fit_begin({.epochs = 3, .validations = 3, .iterations = 100});
  for (int epoch = 1; epoch <= 3; ++epoch) {
    display.on_epoch_begin(epoch, 100);
    for (std::int64_t i = 1; i <= 100; ++i) {
      screen.pass(2s);
      display.on_iteration(epoch, i, IterationResult{StepResult{.loss = 0.5}, {}});
    }
    display.on_epoch_trained(epoch, {.loss = 0.75});
    display.on_validation_begin(epoch, 10);
    screen.pass(20s);
    display.on_validated(epoch, {.loss = 0.25});
  }
}

TEST_F(TrainDisplayTest, NamesTheExpectedEndOfALongRunInTheLineOfEachEpoch) {
  auto display = make(BarStyle::Silent);
  train_for_ten_minutes(display, screen_);
  // After the first epoch, 400 s of iterations are left, and no test was measured yet. After the
  // second one, 200 s and two tests are left.
  EXPECT_EQ(screen_.take(),
            "[Epoch 01] loss: 0.750 (the run ends at about 14:10, in 7 min)\n"
            "[Test  01] loss: 0.250\n"
            "[Epoch 02] loss: 0.750 (the run ends at about 14:11, in 4 min)\n"
            "[Test  02] loss: 0.250\n"
            "[Epoch 03] loss: 0.750\n"
            "[Test  03] loss: 0.250\n");
}

TEST_F(TrainDisplayTest, NamesTheExpectedEndInBarsThatAreNotFull) {
  auto display = make(BarStyle::Lines);
  train_for_ten_minutes(display, screen_);
  const auto written = screen_.take();
  // After 54 iterations of the second epoch, 46 + 100 iterations and two tests are left.
  EXPECT_NE(written.find("\n[Epoch 02]:  54%|█████▍    | 54/100 [01:48<01:32,  2.00s/it, loss=0.5, "
                         "run ends 14:11]\n"),
            std::string::npos)
      << written;
  EXPECT_NE(written.find("\n[Epoch 02]: 100%|██████████| 100/100 [03:20<00:00,  2.00s/it, "
                         "loss=0.5]\n"),
            std::string::npos)
      << written;
}

TEST_F(TrainDisplayTest, GoesOnInTheMiddleOfAnEpoch) {
  auto display = make(BarStyle::Lines);
  display.on_epoch_begin(12, 24);
  screen_.pass(2s);
  display.on_iteration(12, 23, IterationResult{StepResult{.loss = 0.5}, {}});
  screen_.pass(2s);
  display.on_iteration(12, 24, IterationResult{StepResult{.loss = 0.25}, {}});
  display.on_epoch_trained(12, {.loss = 0.375});
  EXPECT_EQ(screen_.take(),
            "[Epoch 12]: 100%|██████████| 24/24 [00:04<00:00,  2.00s/it, loss=0.25]\n"
            "[Epoch 12] loss: 0.375\n");
}

TEST_F(TrainDisplayTest, LeavesTheResultOfAnEvaluationAloneToTheCaller) {
  auto display = make(BarStyle::Lines);
  display.on_validation_begin(0, 2);
  screen_.pass(6s);
  display.on_validation_batch(1);
  display.on_validated(0, {.loss = 0.5, .metrics = {{"acc", 85.71}}});
  const auto written = screen_.take();
  EXPECT_NE(written.find("[Evaluate]: "), std::string::npos) << written;
  EXPECT_EQ(written.find("loss"), std::string::npos) << written;
}

TEST_F(TrainDisplayTest, EndsTheLineOfWhatFailed) {
  {
    auto display = make(BarStyle::Lines);
    display.on_preparing({"reading the dataset", 1, 6});
  }
  EXPECT_EQ(screen_.take(), "[Prepare]:  17%|█▋        | 1/6 [00:00, reading the dataset]\n");
}

TEST_F(TrainDisplayTest, WantsNoParticularOrder) {
  auto display = make(BarStyle::Lines);
  display.on_iteration(1, 1, IterationResult{StepResult{.loss = 0.5}, {}});
  display.on_validation_batch(1);
  display.on_notice("hello");
  display.on_validated(2, {.loss = 0.5});
  EXPECT_EQ(screen_.take(), "<lockstep: note: hello>\n[Test  02] loss: 0.500\n");
}

}  // namespace
}  // namespace lockstep::ui
