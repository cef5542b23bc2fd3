#include "lockstep/optimizer/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/errors.h"

namespace lockstep {
namespace {

using testing::expect_error;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void do_nothing(const Slice&, const UpdateFacts&) {}

void expect_refused(const std::function<void()>& action, const std::string& text) {
  expect_error(action, ErrorKind::Options, text);
}

TEST(OptimizerTest, HasANameAndStatesByKind) {
  EXPECT_EQ(SGD().name(), "SGD");
  EXPECT_EQ(SGD().num_states(), 0);
  EXPECT_EQ(SGD({.momentum = 0.9}).num_states(), 1);
  EXPECT_EQ(Adam().name(), "Adam");
  EXPECT_EQ(Adam().num_states(), 2);
  EXPECT_EQ(AdamW().name(), "AdamW");
  EXPECT_EQ(AdamW().num_states(), 2);
  EXPECT_EQ(LAMB().name(), "LAMB");
  EXPECT_EQ(LAMB().num_states(), 2);
  const auto custom = custom_optimizer({.num_states = 1, .update = do_nothing});
  EXPECT_EQ(custom.name(), "custom");
  EXPECT_EQ(custom.num_states(), 1);
}

TEST(OptimizerTest, KeepsWhatItWasMadeOf) {
  const auto sgd = SGD({.lr = 0.5, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true});
  EXPECT_EQ(sgd.kind(), OptimizerKind::Sgd);
  EXPECT_EQ(sgd.lr(), 0.5);
  EXPECT_EQ(sgd.weight_decay(), 0.1);
  EXPECT_EQ(sgd.sgd().momentum, 0.8);
  EXPECT_TRUE(sgd.sgd().nesterov);
  for (const auto& [optimizer, kind] :
       {std::pair(Adam({.lr = 2, .beta1 = 0.5, .weight_decay = 3}), OptimizerKind::Adam),
        std::pair(AdamW({.lr = 2, .beta1 = 0.5, .weight_decay = 3}), OptimizerKind::AdamW),
        std::pair(LAMB({.lr = 2, .beta1 = 0.5, .weight_decay = 3}), OptimizerKind::Lamb)}) {
    EXPECT_EQ(optimizer.kind(), kind);
    EXPECT_EQ(optimizer.lr(), 2);
    EXPECT_EQ(optimizer.weight_decay(), 3);
    EXPECT_EQ(optimizer.adam().beta1, 0.5);
  }
  const auto custom = custom_optimizer({.lr = 7, .weight_decay = 8, .update = do_nothing});
  EXPECT_EQ(custom.kind(), OptimizerKind::Custom);
  EXPECT_EQ(custom.lr(), 7);
  EXPECT_EQ(custom.weight_decay(), 8);
}

TEST(OptimizerTest, SettersAreChained) {
  const auto optimizer = AdamW()
                             .decay(DecayOf::Matrices)
                             .group({.names = {"head.*"}, .lr = 1e-2})
                             .group({.names = {"stem.*"}, .frozen = true})
                             .clip_norm(2.0)
                             .average_weights(0.99);
  EXPECT_EQ(optimizer.decay(), DecayOf::Matrices);
  ASSERT_EQ(optimizer.groups().size(), 2U);
  EXPECT_EQ(optimizer.groups()[0].lr, 1e-2);
  EXPECT_TRUE(optimizer.groups()[1].frozen);
  EXPECT_EQ(optimizer.clip_norm(), 2.0);
  EXPECT_EQ(optimizer.average_decay(), 0.99);
  EXPECT_EQ(AdamW().decay(), DecayOf::All);
  EXPECT_EQ(AdamW().clip_norm(), std::nullopt);
  EXPECT_EQ(AdamW().average_decay(), std::nullopt);
}

TEST(OptimizerTest, RefusesLearningRatesThatCannotBeMeant) {
  EXPECT_EQ(SGD({.lr = 0}).lr(), 0);
  expect_refused([] { SGD({.lr = -1}); }, "SGD: expected a learning rate of 0 or more, found -1");
  expect_refused([] { SGD({.lr = kNan}); },
                 "SGD: expected a learning rate of 0 or more, found nan");
  expect_refused([] { Adam({.lr = -1}); }, "Adam: expected a learning rate of 0 or more, found -1");
  expect_refused([] { AdamW({.lr = kInfinity}); },
                 "AdamW: expected a learning rate of 0 or more, found inf");
  expect_refused([] { LAMB({.lr = -1}); }, "LAMB: expected a learning rate of 0 or more, found -1");
  expect_refused([] { custom_optimizer({.lr = -1, .update = do_nothing}); },
                 "custom: expected a learning rate of 0 or more, found -1");
}

TEST(OptimizerTest, RefusesSharesThatCannotBeMeant) {
  expect_refused([] { SGD({.momentum = 1}); },
                 "SGD: expected a momentum from 0 to below 1, found 1");
  expect_refused([] { SGD({.momentum = -0.5}); },
                 "SGD: expected a momentum from 0 to below 1, found -0.5");
  expect_refused([] { SGD({.momentum = kNan}); }, "a momentum from 0 to below 1, found nan");
  expect_refused([] { SGD({.nesterov = true}); },
                 "SGD: expected a momentum above 0 with nesterov, found 0\n.momentum = 0.9");
  expect_refused([] { Adam({.beta1 = 1}); }, "Adam: expected a beta1 from 0 to below 1, found 1");
  expect_refused([] { LAMB({.beta2 = -0.1}); },
                 "LAMB: expected a beta2 from 0 to below 1, found -0.1");
}

TEST(OptimizerTest, RefusesEpsilonsAndWeightDecaysThatCannotBeMeant) {
  expect_refused([] { AdamW({.epsilon = 0}); },
                 "AdamW: expected an epsilon above 0, found 0\n1e-8 is usual");
  expect_refused([] { AdamW({.epsilon = kInfinity}); }, "an epsilon above 0, found inf");
  expect_refused([] { SGD({.weight_decay = -0.1}); },
                 "SGD: expected a weight decay of 0 or more, found -0.1\n"
                 "it is subtracted as it is: leave out the sign");
  expect_refused([] { AdamW({.weight_decay = kNan}); },
                 "AdamW: expected a weight decay of 0 or more, found nan\n");
  expect_refused([] { custom_optimizer({.weight_decay = -1, .update = do_nothing}); },
                 "custom: expected a weight decay of 0 or more, found -1");
}

TEST(OptimizerTest, RefusesGroupsThatCannotBeMeant) {
  expect_refused([] { SGD().group({.lr = 1}); },
                 "SGD: expected a group with names of parameters, found none\n"
                 ".names = {\"head.*\"}");
  expect_refused(
      [] {
        SGD().group({.names = {"a", "b.*"}, .lr = -1});
      },
      "SGD: group 'a, b.*': expected a learning rate of 0 or more, found -1");
  expect_refused([] { AdamW().group({.names = {"a"}, .weight_decay = -1}); },
                 "AdamW: group 'a': expected a weight decay of 0 or more, found -1");
}

TEST(OptimizerTest, RefusesNormsAndAveragesThatCannotBeMeant) {
  expect_refused([] { SGD().clip_norm(0); },
                 "SGD: expected a norm above 0 to clip to, found 0\n"
                 "leave clip_norm out where nothing is clipped");
  expect_refused([] { SGD().clip_norm(kNan); }, "a norm above 0 to clip to, found nan");
  expect_refused([] { SGD().average_weights(1); },
                 "SGD: expected a decay of averaged weights between 0 and 1, found 1\n"
                 "0.999 averages over about a thousand steps");
  expect_refused([] { SGD().average_weights(0); }, "between 0 and 1, found 0");
}

TEST(OptimizerTest, RefusesACustomOneThatCannotWork) {
  expect_refused([] { custom_optimizer({.num_states = 3, .update = do_nothing}); },
                 "custom: expected 0, 1 or 2 states, found 3");
  expect_refused([] { custom_optimizer({.num_states = -1, .update = do_nothing}); },
                 "custom: expected 0, 1 or 2 states, found -1");
  expect_refused([] { custom_optimizer({}); },
                 "custom: expected an update function, found none\n"
                 ".update = [](const Slice& slice, const UpdateFacts& facts) { ... }");
}

}  // namespace
}  // namespace lockstep
