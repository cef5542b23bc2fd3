#include "lockstep/ui/progress_bar.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "lockstep/ui/text_width.h"
#include "tests/ui/screen.h"

namespace lockstep::ui {
namespace {

using namespace std::chrono_literals;
using testing::Screen;

const std::string kBegin = "\r[E]:   0%|          | 0/4 [00:00<?, ?it/s]";

std::string blank(const std::string& frame) {
  return "\r" + std::string(width_of(frame) - 1, ' ') + "\r";
}

TEST(LiveBarTest, DrawsAtMostTenTimesASecondAndTheLastAlways) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Live), "[E]", {.total = 4});
  EXPECT_EQ(screen.take(), kBegin);
  bar.update(1);
  screen.pass(99ms);
  bar.update(1);
  EXPECT_EQ(screen.take(), "");
  screen.pass(1ms);
  bar.update(1);
  EXPECT_EQ(screen.take(), "\r[E]:  25%|██▌       | 1/4 [00:00<00:00, 10.00it/s]");
  bar.set_postfix("loss=1.45");
  bar.update(4);
  bar.finish();
  EXPECT_EQ(screen.take(), "\r[E]: 100%|██████████| 4/4 [00:00<00:00, 40.00it/s, loss=1.45]\n");
  screen.pass(10s);
  bar.update(4);
  bar.finish();
  EXPECT_EQ(screen.take(), "");
}

TEST(LiveBarTest, DrawsTheFullBarOnceHoweverLateItIs) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Live), "[E]", {.total = 4});
  screen.pass(8s);
  bar.update(4);
  EXPECT_EQ(screen.take(), kBegin);
  bar.finish();
  EXPECT_EQ(screen.take(), "\r[E]: 100%|██████████| 4/4 [00:08<00:00,  2.00s/it]\n");
}

TEST(LiveBarTest, ErasesWhatALongerFrameLeft) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Live), "[E]",
                  {.total = 2, .times = BarTimes::Elapsed, .postfix = "something long"});
  const std::string first = "\r[E]:   0%|          | 0/2 [00:00, something long]";
  const std::string second = "\r[E]:  50%|█████     | 1/2 [00:00, short]";
  EXPECT_EQ(screen.take(), first);
  bar.set_postfix("short");
  bar.update_now(1);
  EXPECT_EQ(screen.take(), blank(first) + second.substr(1));
  bar.set_postfix("");
  bar.update(2);
  bar.finish();
  EXPECT_EQ(screen.take(), blank(second) + "[E]: 100%|██████████| 2/2 [00:00]\n");
}

TEST(LiveBarTest, IsCutToTheTerminalButForTheLast) {
  Screen screen;
  screen.columns = 16;
  ProgressBar bar(screen.output(BarStyle::Live), "[E]", {.total = 4});
  EXPECT_EQ(screen.take(), "\r[E]:   0%|     ");
  bar.update_now(4);
  EXPECT_EQ(screen.take(), "\r[E]: 100%|█████");
  bar.finish();
  EXPECT_EQ(screen.take(), "\r[E]: 100%|██████████| 4/4 [00:00<?, ?it/s]\n");
}

TEST(LiveBarTest, LinesBetweenFramesComeOutClean) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Live), "[E]", {.total = 4});
  bar.write_line("hello");
  EXPECT_EQ(screen.take(), kBegin + blank(kBegin) + "hello\n" + kBegin);
  bar.hide();
  bar.hide();
  EXPECT_EQ(screen.take(), blank(kBegin));
  bar.show();
  EXPECT_EQ(screen.take(), kBegin);
  bar.finish();
  screen.take();
  bar.write_line("after");
  bar.hide();
  bar.show();
  EXPECT_EQ(screen.take(), "after\n");
}

TEST(LiveBarTest, VanishesWithoutATrace) {
  Screen screen;
  {
    ProgressBar bar(screen.output(BarStyle::Live), "[E]", {.total = 4});
    bar.vanish();
    bar.vanish();
  }
  EXPECT_EQ(screen.take(), kBegin + blank(kBegin));
}

TEST(LiveBarTest, EndsItsLineWhereItStandsWhenDestroyed) {
  Screen screen;
  {
    ProgressBar bar(screen.output(BarStyle::Live), "[E]", {.total = 4});
    bar.update(2);
  }
  EXPECT_EQ(screen.take(), kBegin + "\r[E]:  50%|█████     | 2/4 [00:00<?, ?it/s]\n");
}

TEST(LiveBarTest, OutlivesAScreenThatIsGone) {
  auto output = Screen().output(BarStyle::Live);
  output.now = std::chrono::steady_clock::now;
  output.columns = [] { return std::nullopt; };
  bool is_gone = false;
  output.write = [&](std::string_view) {
    if (is_gone) throw std::runtime_error("gone");
  };
  const ProgressBar bar(output, "[E]", {.total = 4});
  is_gone = true;
}

TEST(LiveBarTest, LeavesWhatWasDoneBeforeOutOfTheRate) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Live), "[E]", {.total = 24});
  bar.begin_at(16);
  screen.pass(4s);
  bar.update(20);
  EXPECT_EQ(screen.take().substr(width_of("\r[E]:   0%|          | 0/24 [00:00<?, ?it/s]")),
            "\r[E]:  83%|████████▎ | 20/24 [00:04<00:04,  1.00it/s]");
  bar.complete();
  EXPECT_EQ(screen.take(), "\r[E]: 100%|██████████| 24/24 [00:04<00:00,  2.00it/s]\n");
}

TEST(LinesBarTest, WritesALineEveryFiveSecondsAndTheLast) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Lines), "[E]", {.total = 4});
  bar.update_now(1);
  screen.pass(4999ms);
  bar.update(1);
  EXPECT_EQ(screen.take(), "");
  screen.pass(1ms);
  bar.update(1);
  EXPECT_EQ(screen.take(), "[E]:  25%|██▌       | 1/4 [00:05<00:15,  5.00s/it]\n");
  bar.write_line("hello");
  bar.hide();
  bar.show();
  EXPECT_EQ(screen.take(), "hello\n");
  bar.update(4);
  bar.finish();
  EXPECT_EQ(screen.take(), "[E]: 100%|██████████| 4/4 [00:05<00:00,  1.25s/it]\n");
}

TEST(LinesBarTest, WritesTheFullBarOnceHoweverLateItIs) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Lines), "[E]", {.total = 4});
  screen.pass(8s);
  bar.update(4);
  bar.finish();
  EXPECT_EQ(screen.take(), "[E]: 100%|██████████| 4/4 [00:08<00:00,  2.00s/it]\n");
}

TEST(LinesBarTest, VanishesByNotWritingTheLast) {
  Screen screen;
  ProgressBar bar(screen.output(BarStyle::Lines), "[E]", {.total = 4});
  bar.vanish();
  EXPECT_EQ(screen.take(), "");
}

TEST(SilentBarTest, WritesLinesOnly) {
  Screen screen;
  {
    ProgressBar bar(screen.output(BarStyle::Silent), "[E]", {.total = 4});
    EXPECT_TRUE(bar.is_silent());
    screen.pass(10s);
    bar.update(1);
    bar.update_now(2);
    bar.write_line("hello");
    bar.hide();
    bar.show();
  }
  EXPECT_EQ(screen.take(), "hello\n");
}

TEST(TextWidthTest, CountsCharactersAndCutsBetweenThem) {
  EXPECT_EQ(width_of("50%|█▌|"), 7u);
  EXPECT_EQ(clip("50%|█▌|", 5), "50%|█");
  EXPECT_EQ(clip("50%", 5), "50%");
  EXPECT_EQ(clip("█", 0), "");
}

}  // namespace
}  // namespace lockstep::ui
