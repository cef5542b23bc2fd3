#include "lockstep/data/transform/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep::data {
namespace {

const Field kCifar{"image", DataType::U8, {32, 32, 3}};
const Field kMnist{"image", DataType::U8, {28, 28, 1}};
const Field kPhotoField{"image", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage};

std::vector<Step> steps_of(Augment augment, const Field& image, ImageSize size = {}) {
  return training_pipeline(augment, image, {.size = size, .normalize = {}, .output = {}}).steps;
}

TEST(PresetsTest, NamesAreReadAsTheyAreWritten) {
  for (const auto augment : {Augment::None, Augment::Flip, Augment::Standard}) {
    EXPECT_EQ(parse_augment(name_of(augment)), augment);
  }
}

TEST(PresetsTest, AnUnknownNameIsAnsweredWithTheChoices) {
  try {
    parse_augment("strong");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_STREQ(error.what(), "augment: expected none, flip or standard, found 'strong'");
  }
}

TEST(PresetsTest, PicturesOfOneSizeKeepIt) {
  EXPECT_EQ(steps_of(Augment::None, kCifar), (std::vector<Step>{}));
  EXPECT_EQ(steps_of(Augment::Flip, kCifar), (std::vector<Step>{RandomHorizontalFlip{}}));
  EXPECT_EQ(steps_of(Augment::Standard, kCifar),
            (std::vector<Step>{RandomCrop{32, 32, 4}, RandomHorizontalFlip{}}));
  EXPECT_EQ(steps_of(Augment::Standard, kMnist),
            (std::vector<Step>{RandomCrop{28, 28, 3}, RandomHorizontalFlip{}}));
}

TEST(PresetsTest, PicturesOfOneSizeAreResizedWhereASizeIsGiven) {
  EXPECT_EQ(steps_of(Augment::Flip, kCifar, {64, 64}),
            (std::vector<Step>{RandomHorizontalFlip{}, Resize{64, 64}}));
  EXPECT_EQ(steps_of(Augment::None, kCifar, {32, 32}), (std::vector<Step>{}));
}

TEST(PresetsTest, PicturesOfAnySizeAreBroughtToOne) {
  const std::vector<Step> center{ResizeShorter{256}, CenterCrop{224, 224}};
  EXPECT_EQ(steps_of(Augment::None, kPhotoField, {224, 224}), center);
  EXPECT_EQ(
      evaluation_pipeline(kPhotoField, {.size = {224, 224}, .normalize = {}, .output = {}}).steps,
      center);
  EXPECT_EQ(steps_of(Augment::Flip, kPhotoField, {224, 224}),
            (std::vector<Step>{ResizeShorter{256}, CenterCrop{224, 224}, RandomHorizontalFlip{}}));
  EXPECT_EQ(steps_of(Augment::Standard, kPhotoField, {224, 160}),
            (std::vector<Step>{RandomResizedCrop{224, 160}, RandomHorizontalFlip{}}));
}

TEST(PresetsTest, PicturesOfAnySizeNeedOne) {
  try {
    steps_of(Augment::Standard, kPhotoField);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_STREQ(error.what(), "transform: expected a size for image u8 [any, any, 3], found none");
    EXPECT_EQ(error.hint(), "pass --image-size 224x224");
  }
}

TEST(PresetsTest, TheTutorialFlipsAndResizes) {
  EXPECT_EQ(tutorial_pipeline(), (Pipeline{{RandomHorizontalFlip{}, Resize{64, 64}},
                                           {DataType::U8, Layout::ChannelsLast}}));
}

TEST(PresetsTest, NormalizeEndsThePipeline) {
  const auto pipeline = training_pipeline(Augment::Flip, kCifar,
                                          {.size = {},
                                           .normalize = cifar10_normalize(),
                                           .output = {DataType::F16, Layout::ChannelsFirst}});
  EXPECT_EQ(pipeline, (Pipeline{{RandomHorizontalFlip{}, cifar10_normalize()},
                                {DataType::F16, Layout::ChannelsFirst}}));
  EXPECT_EQ(Transform(pipeline, kCifar).output_field(),
            (Field{"image", DataType::F16, {3, 32, 32}}));
}

TEST(PresetsTest, StatisticsHaveTheChannelsOfTheirSets) {
  EXPECT_NO_THROW(Transform({{imagenet_normalize()}, {}}, kCifar));
  EXPECT_NO_THROW(Transform({{cifar100_normalize()}, {}}, kCifar));
  EXPECT_NO_THROW(Transform({{mnist_normalize()}, {}}, kMnist));
  EXPECT_NO_THROW(Transform({{fashion_mnist_normalize()}, {}}, kMnist));
}

}  // namespace
}  // namespace lockstep::data
