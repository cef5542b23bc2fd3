#include "lockstep/optimizer/parameter_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace lockstep::optimizer {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

const std::vector<ParameterFacts> kParameters{
    {.names = {"conv1.weight"}, .dimensions = 4},
    {.names = {"layer1.0.bn1.bias"}, .dimensions = 1},
    {.names = {"embedding.weight", "head.weight"}, .dimensions = 2},
    {.names = {"head.bias"}, .dimensions = 1},
};

/// Which parameters a pattern fits, as a digit each.
std::string fitting(const std::string& pattern) {
  const auto settings =
      settings_of(SGD().group({.names = {pattern, "head.bias"}, .frozen = true}), kParameters);
  std::string text;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (settings[i].frozen) text += std::to_string(i);
  }
  return text;
}

TEST(SettingsTest, AreTheOptimizersWithoutGroups) {
  const ParameterSettings same{.lr = 0.1, .weight_decay = 0.01};
  EXPECT_THAT(settings_of(SGD({.lr = 0.1, .weight_decay = 0.01}), kParameters),
              ElementsAre(same, same, same, same));
  EXPECT_TRUE(settings_of(SGD(), {}).empty());
}

TEST(SettingsTest, PatternsStandForNames) {
  // "head.bias" is always asked for too.
  EXPECT_EQ(fitting("conv1.weight"), "03");
  EXPECT_EQ(fitting("*"), "0123");
  EXPECT_EQ(fitting("layer1.*"), "13");
  EXPECT_EQ(fitting("*.bias"), "13");
  EXPECT_EQ(fitting("*.weight"), "023");
  EXPECT_EQ(fitting("layer1.*.bias"), "13");
  EXPECT_EQ(fitting("l*1*b*1*s"), "13");
  EXPECT_EQ(fitting("**bn**"), "13");
  EXPECT_EQ(fitting("conv1.weight*"), "03");
  EXPECT_EQ(fitting("conv1"), "3") << "a whole name, not its beginning";
  EXPECT_EQ(fitting("*conv"), "3");
  EXPECT_EQ(fitting("onv1.weight"), "3");
}

TEST(SettingsTest, EveryNameOfATiedParameterCounts) {
  EXPECT_EQ(fitting("head.*"), "23");
  EXPECT_EQ(fitting("embedding.*"), "23");
}

TEST(SettingsTest, TheFirstGroupThatFitsCounts) {
  const auto optimizer = AdamW({.lr = 1, .weight_decay = 2})
                             .group({.names = {"head.bias", "conv1.*"}, .lr = 3})
                             .group({.names = {"head.*"}, .weight_decay = 4})
                             .group({.names = {"*.bias"}, .lr = 5, .frozen = true});
  EXPECT_THAT(settings_of(optimizer, kParameters),
              ElementsAre(ParameterSettings{.lr = 3, .weight_decay = 2},
                          ParameterSettings{.lr = 5, .weight_decay = 2, .frozen = true},
                          ParameterSettings{.lr = 1, .weight_decay = 4},
                          ParameterSettings{.lr = 3, .weight_decay = 2}));
}

TEST(SettingsTest, VectorsHaveNoDecayWhereOnlyMatricesDoUnlessTheirGroupSaysSo) {
  const auto optimizer = AdamW({.lr = 1, .weight_decay = 2})
                             .decay(DecayOf::Matrices)
                             .group({.names = {"head.bias"}, .weight_decay = 4})
                             .group({.names = {"*.bias"}, .lr = 3});
  EXPECT_THAT(settings_of(optimizer, kParameters),
              ElementsAre(ParameterSettings{.lr = 1, .weight_decay = 2},
                          ParameterSettings{.lr = 3, .weight_decay = 0},
                          ParameterSettings{.lr = 1, .weight_decay = 2},
                          ParameterSettings{.lr = 1, .weight_decay = 4}));
}

void expect_refused(std::vector<std::string> names, const std::string& text) {
  const auto optimizer = AdamW().group({.names = {"head.*"}}).group({.names = std::move(names)});
  expect_error([&] { settings_of(optimizer, kParameters); }, ErrorKind::Options, text);
}

TEST(SettingsTest, AGroupThatFitsNothingIsRefusedWithTheClosestName) {
  expect_refused({"haed.bias"},
                 "AdamW: expected a group of parameters, found none that fits 'haed.bias'\n"
                 "did you mean 'head.bias'?");
  expect_refused({"laier1.*"}, "fits 'laier1.*'\ndid you mean 'layer1.0.bn1.bias'?");
  expect_refused({"*.bn1.bais"}, "fits '*.bn1.bais'\ndid you mean 'layer1.0.bn1.bias'?");
  expect_refused({"nothing.like.it", "conv1.wieght"},
                 "fits 'nothing.like.it' or 'conv1.wieght'\ndid you mean 'conv1.weight'?");
  expect_refused({"transformer.blocks.*"},
                 "fits 'transformer.blocks.*'\nnames look like 'conv1.weight'");
  expect_error([] { settings_of(SGD().group({.names = {"*"}}), {}); }, ErrorKind::Options,
               "SGD: expected a group of parameters, found none that fits '*'\n"
               "there are no parameters");
}

}  // namespace
}  // namespace lockstep::optimizer
