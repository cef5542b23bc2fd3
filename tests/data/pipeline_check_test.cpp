#include "lockstep/data/transform/pipeline_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep::data {
namespace {

const Field kImage{"image", DataType::U8, {32, 30, 3}};
const Field kPhotos{"image", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage};

/// What the error says, without its beginning.
std::string refusal(const Pipeline& pipeline, const Field& field = kImage) {
  try {
    check_pipeline(pipeline, field);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("transform: ", 0), 0U) << text;
    return text.substr(11);
  }
  return "nothing was wrong";
}

std::string refusal(const Step& step, const Field& field = kImage) {
  return refusal(Pipeline{{step}, {}}, field);
}

TEST(PipelineCheckTest, TellsTheSizeOfTheResult) {
  EXPECT_EQ(check_pipeline({}, kImage), (ImageSize{32, 30}));
  EXPECT_EQ(check_pipeline({{RandomCrop{40, 38, 4}}, {}}, kImage), (ImageSize{40, 38}));
  EXPECT_EQ(check_pipeline({{ResizeShorter{60}}, {}}, kImage), (ImageSize{64, 60}));
  EXPECT_EQ(check_pipeline({{ResizeShorter{60}, RandomCrop{60, 50, 0}}, {}}, kPhotos),
            (ImageSize{60, 50}));
}

TEST(PipelineCheckTest, RefusesCropsLargerThanThePicture) {
  EXPECT_EQ(refusal(RandomCrop{41, 32, 4}),
            "step 0 (random-crop): expected a crop within pictures of 32x30 with padding 4, found "
            "41x32");
  EXPECT_EQ(refusal(CenterCrop{32, 31}),
            "step 0 (center-crop): expected a crop within pictures of 32x30, found 32x31");
  EXPECT_EQ(refusal(Pipeline{{ResizeShorter{60}, CenterCrop{61, 60}}, {}}, kPhotos),
            "step 1 (center-crop): expected a crop within pictures of at least 60x60, found 61x60");
  EXPECT_EQ(refusal(RandomCrop{8, 8, 1}, kPhotos),
            "step 0 (random-crop): expected a crop within pictures of at least 1x1 with padding 1, "
            "found 8x8");
}

TEST(PipelineCheckTest, RefusesSizesThatCannotBeMeant) {
  EXPECT_EQ(refusal(Resize{0, 64}),
            "step 0 (resize): expected a height and width of 1 to 32768, found 0x64");
  EXPECT_EQ(refusal(RandomResizedCrop{.height = 64, .width = 40000}),
            "step 0 (random-resized-crop): expected a height and width of 1 to 32768, found "
            "64x40000");
  EXPECT_EQ(refusal(ResizeShorter{-1}),
            "step 0 (resize-shorter): expected a height and width of 1 to 32768, found -1x-1");
  EXPECT_EQ(refusal(RandomCrop{32, 30, -1}),
            "step 0 (random-crop): expected padding of 0 to 32768, found -1");
}

TEST(PipelineCheckTest, RefusesProbabilitiesOutsideOfZeroToOne) {
  EXPECT_EQ(refusal(RandomHorizontalFlip{1.5}),
            "step 0 (random-horizontal-flip): expected a probability of 0 to 1, found 1.5");
  EXPECT_EQ(refusal(RandomErasing{.probability = -0.1}),
            "step 0 (random-erasing): expected a probability of 0 to 1, found -0.1");
  EXPECT_EQ(refusal(RandomHorizontalFlip{std::numeric_limits<double>::quiet_NaN()}),
            "step 0 (random-horizontal-flip): expected a probability of 0 to 1, found nan");
}

TEST(PipelineCheckTest, RefusesRangesThatAreNone) {
  EXPECT_EQ(refusal(RandomResizedCrop{8, 8, 0.5, 0.4}),
            "step 0 (random-resized-crop): expected a range of shares of the area within 0 to 1, "
            "found 0.5 to 0.4");
  EXPECT_EQ(refusal(RandomErasing{.max_scale = 1.5}),
            "step 0 (random-erasing): expected a range of shares of the area within 0 to 1, found "
            "0.02 to 1.5");
  EXPECT_EQ(refusal(RandomErasing{.min_ratio = 0}),
            "step 0 (random-erasing): expected a range of ratios above 0, found 0 to 3.3");
}

TEST(PipelineCheckTest, RefusesStatisticsOfOtherPictures) {
  EXPECT_EQ(refusal(Normalize{{0.5F}, {0.5F, 0.5F, 0.5F}}),
            "step 0 (normalize): expected a mean and a deviation for each of 3 channels, found 1 "
            "and 3");
  EXPECT_EQ(refusal(Normalize{{0.5F, 0.5F, 0.5F}, {0.5F, 0.0F, 0.5F}}),
            "step 0 (normalize): expected finite means and deviations above 0, found 0.5 and 0 for "
            "channel 1");
}

TEST(PipelineCheckTest, RefusesStepsInAnOrderThatCannotBe) {
  const Normalize normalize{{0.5F, 0.5F, 0.5F}, {0.5F, 0.5F, 0.5F}};
  const std::string expected =
      "expected steps that move pixels, then at most one normalize, then at most one "
      "random-erasing, found it after ";
  EXPECT_EQ(refusal(Pipeline{{normalize, Resize{8, 8}}, {}}),
            "step 1 (resize): " + expected + "normalize");
  EXPECT_EQ(refusal(Pipeline{{normalize, normalize}, {}}),
            "step 1 (normalize): " + expected + "normalize");
  EXPECT_EQ(refusal(Pipeline{{RandomErasing{}, normalize}, {}}),
            "step 1 (normalize): " + expected + "random-erasing");
  EXPECT_EQ(refusal(Pipeline{{RandomErasing{}, RandomErasing{}}, {}}),
            "step 1 (random-erasing): " + expected + "random-erasing");
}

TEST(PipelineCheckTest, RefusesToLeavePicturesOfAnySizeAsTheyAre) {
  EXPECT_EQ(refusal(RandomHorizontalFlip{}, kPhotos),
            "expected a step that brings pictures of any size to one size, found none");
  EXPECT_EQ(refusal(ResizeShorter{64}, kPhotos),
            "expected a step that brings pictures of any size to one size, found none");
}

TEST(PipelineCheckTest, RefusesFieldsThatAreNoPictures) {
  const std::string expected = "expected a field of pictures, u8 [height, width, channels], found ";
  EXPECT_EQ(refusal(Pipeline{}, {"tokens", DataType::I32, {8, 8, 3}}),
            expected + "tokens i32 [8, 8, 3]");
  EXPECT_EQ(refusal(Pipeline{}, {"image", DataType::U8, {28, 28}}), expected + "image u8 [28, 28]");
  EXPECT_EQ(refusal(Pipeline{}, {"text", DataType::U8, {8, 8, 3}, FieldKind::Varying}),
            expected + "text u8 [up to 8, 8, 3]");
}

TEST(PipelineCheckTest, RefusesOutputsThatAreNoneOfThePixels) {
  EXPECT_EQ(refusal(Pipeline{{}, {DataType::I32, Layout::ChannelsLast}}),
            "expected an output of u8, f16, bf16 or f32, found i32");
}

TEST(PipelineCheckTest, RefusesPipelinesOfTooManySteps) {
  EXPECT_EQ(refusal(Pipeline{std::vector<Step>(17, RandomHorizontalFlip{}), {}}),
            "expected at most 16 steps, found 17");
}

TEST(PipelineCheckTest, APictureThatIsNotOfTheFieldIsRefused) {
  const Transform transform({}, kImage);
  const std::vector<std::uint8_t> pixels(32 * 32 * 3);
  std::vector<std::byte> out(32 * 32 * 3);
  Scratch scratch;
  const auto message = [&](ImageSize size, std::int64_t channels) -> std::string {
    try {
      transform.apply(dense_view(pixels.data(), size, channels), {}, scratch, out.data());
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was wrong";
  };
  EXPECT_EQ(message({32, 32}, 3),
            "transform: expected a picture of image u8 [32, 30, 3], found 32x32 with 3 channels");
  EXPECT_EQ(message({32, 30}, 1),
            "transform: expected a picture of image u8 [32, 30, 3], found 32x30 with 1 channels");
}

TEST(PipelineCheckTest, NamesLayouts) {
  EXPECT_EQ(name_of(Layout::ChannelsLast), "channels-last");
  EXPECT_EQ(name_of(Layout::ChannelsFirst), "channels-first");
}

}  // namespace
}  // namespace lockstep::data
