#include "lockstep/plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/errors.h"

namespace lockstep::plan {
namespace {

using Json = nlohmann::ordered_json;
using lockstep::testing::expect_error;

/// No two fields have the same value, so none can be read into another.
Plan distinct_plan() {
  return {.model = "ResNet-\"50\" \xc3\xa9\n",
          .shape = {.replicas = 101, .instances = 102, .devices_per_replica = 103},
          .threads_per_device = 104,
          .batch_size = 105,
          .micro_batches = std::int64_t{1} << 60,
          .schedule = PipelineSchedule::GPipe,
          .recompute = Recompute::Blocks,
          .profile = {.blocks = {{.name = "stem",
                                  .shares = "none",
                                  .shares_with = 0,
                                  .forward_s = 0.1,
                                  .backward_s = 1.0 / 3,
                                  .parameter_bytes = 201,
                                  .buffer_bytes = 202,
                                  .output_bytes = 203,
                                  .kept_bytes = 204,
                                  .forward_bytes = 205,
                                  .backward_bytes = 206},
                                 {.name = "body", .shares_with = 1, .forward_s = 5e-324},
                                 {.name = "head", .shares = "stem.weight", .shares_with = 1}},
                      .is_timed = true},
          .stages = {{.first_block = 0,
                      .num_blocks = 1,
                      .begins_with = "first",
                      .ends_with = "last",
                      .forward_s = 1.7976931348623157e308,
                      .backward_s = 0.30000000000000004,
                      .parameter_bytes = 301,
                      .output_bytes = 302,
                      .kept_bytes = 303,
                      .most_in_flight = 304},
                     {.first_block = 1, .num_blocks = 2}},
          .idle_share = 3 / 11.0,
          .step_s = 3 / 13.0,
          .sequential_s = 3 / 17.0,
          .buckets = {{.first = 401, .count = 402}, {.first = 403, .count = 404}},
          .instances =
              {{.instance = 501,
                .replicas = {.first = 502, .count = 503},
                .slice = {.first = 504, .count = 505},
                .loader_workers = 506,
                .loader_bytes = 507,
                .devices = {{.device = 508,
                             .cores = {509, 510},
                             .stages = {{.replica = 511, .stage = 1}},
                             .memory = {.activations = 512, .gradients = 513, .buffers = 514}}}}},
          .shared = {.weights = 601, .optimizer = 602, .gradients = 603, .total = 604},
          .available_bytes = std::numeric_limits<std::int64_t>::max()};
}

void expect_data_error(const Json& json, const std::string& text) {
  expect_error([&] { plan_from_json(json.dump()); }, ErrorKind::Data, text);
}

/// Calls `visit` for each value below this one, with its path as messages write it.
void for_each_value(
    const Json& json, const Json::json_pointer& at, const std::string& path,
    const std::function<void(const Json::json_pointer&, const std::string&)>& visit) {
  if (!path.empty()) visit(at, path);
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) {
      for_each_value(value, at / name, path.empty() ? name : path + "." + name, visit);
    }
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) {
      for_each_value(json[i], at / i, path + "[" + std::to_string(i) + "]", visit);
    }
  }
}

TEST(PlanJsonTest, EveryFieldComesBack) {
  const auto plan = distinct_plan();
  EXPECT_EQ(plan_from_json(to_json(plan)), plan);
  EXPECT_EQ(plan_from_json(to_json(Plan{})), Plan{});
}

TEST(PlanJsonTest, EveryScheduleAndWayToRecomputeComesBack) {
  Plan plan;
  for (const auto schedule : {PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe,
                              PipelineSchedule::Sequential}) {
    for (const auto recompute : {Recompute::None, Recompute::Stage, Recompute::Blocks}) {
      plan.schedule = schedule;
      plan.recompute = recompute;
      EXPECT_EQ(plan_from_json(to_json(plan)), plan);
    }
  }
}

TEST(PlanJsonTest, EveryDoubleComesBackToTheBit) {
  std::mt19937_64 random(5);
  Plan plan;
  for (int round = 0; round < 2000; ++round) {
    plan.idle_share =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 1800) - 1100);
    EXPECT_EQ(plan_from_json(to_json(plan)).idle_share, plan.idle_share);
  }
}

TEST(PlanJsonTest, NamesAreThoseOfThePlan) {
  const auto json = Json::parse(to_json(distinct_plan()));
  EXPECT_EQ(json["schedule"], "gpipe");
  EXPECT_EQ(json["recompute"], "blocks");
  EXPECT_EQ(json["stages"][0]["most_in_flight"], 304);
  EXPECT_EQ(json["instances"][0]["devices"][0]["memory"]["gradients"], 513);
  EXPECT_EQ(json["profile"]["blocks"][2]["shares"], "stem.weight");
  EXPECT_EQ(json.begin().key(), "model") << "in the order of the struct";
}

TEST(PlanJsonTest, NamesThatAreNotUtf8AreReplaced) {
  Plan plan;
  plan.model = "a\xff";
  EXPECT_EQ(plan_from_json(to_json(plan)).model, "a\xef\xbf\xbd");
}

TEST(PlanJsonTest, EachMissingFieldIsNamed) {
  const auto whole = Json::parse(to_json(distinct_plan()));
  int removed = 0;
  for_each_value(whole, Json::json_pointer(), "",
                 [&](const Json::json_pointer& at, const std::string& path) {
                   if (path.ends_with("]")) return;
                   auto json = whole;
                   json[at.parent_pointer()].erase(at.back());
                   expect_data_error(json, "plan: expected '" + path + "', found nothing");
                   ++removed;
                 });
  EXPECT_GT(removed, 80);
}

TEST(PlanJsonTest, EachValueOfAWrongTypeIsNamed) {
  const auto whole = Json::parse(to_json(distinct_plan()));
  for_each_value(
      whole, Json::json_pointer(), "", [&](const Json::json_pointer& at, const std::string& path) {
        for (const Json& wrong : {Json(nullptr), Json("what?"), Json(-1), Json(true), Json(1.5),
                                  Json::array({Json::array()}), Json::object()}) {
          auto json = whole;
          const bool is_right = (json[at].is_string() && wrong == "what?" && path != "schedule" &&
                                 path != "recompute") ||
                                (json[at].is_boolean() && wrong.is_boolean()) ||
                                (json[at].is_number_float() && wrong.is_number() && wrong > 0);
          if (is_right) continue;
          json[at] = wrong;
          // An object that lacks everything is missing something instead.
          const bool is_empty_object = whole[at].is_object() && wrong.is_object();
          expect_data_error(json, is_empty_object || (whole[at].is_array() && wrong.is_array())
                                      ? "'" + path
                                      : "as '" + path + "', found ");
        }
      });
}

TEST(PlanJsonTest, MessagesSayWhatWasExpectedAndFound) {
  const auto whole = Json::parse(to_json(distinct_plan()));
  const auto expect_wrong = [&](const char* at, const Json& value, const std::string& message) {
    auto json = whole;
    json[Json::json_pointer(at)] = value;
    expect_data_error(json, message);
  };
  expect_wrong("/model", 3, "plan: expected a text as 'model', found 3");
  expect_wrong("/profile/is_timed", 0,
               "plan: expected true or false as 'profile.is_timed', found 0");
  expect_wrong("/idle_share", "1", "plan: expected a number as 'idle_share', found \"1\"");
  expect_wrong("/idle_share", -0.5,
               "plan: expected a number from 0 on as 'idle_share', found -0.5");
  expect_wrong("/threads_per_device", std::int64_t{1} << 31,
               "plan: expected a whole number from 0 to 2147483647 as 'threads_per_device', found "
               "2147483648");
  expect_wrong("/batch_size", -1,
               "plan: expected a whole number from 0 to 9223372036854775807 as 'batch_size', found "
               "-1");
  expect_wrong("/batch_size", std::uint64_t{1} << 63, "as 'batch_size', found 9223372036854775808");
  expect_wrong("/batch_size", 8.0, "as 'batch_size', found 8.0");
  expect_wrong("/schedule", "2f2b",
               "plan: expected one of 1f1b, gpipe, sequential as 'schedule', found \"2f2b\"");
  expect_wrong("/recompute", "all",
               "plan: expected one of none, stage, blocks as 'recompute', found \"all\"");
  expect_wrong("/shape", Json::array(), "plan: expected an object as 'shape', found an array");
  expect_wrong("/buckets", Json::object(), "plan: expected an array as 'buckets', found an object");
  expect_wrong("/buckets", std::string(1000, 'x'),
               "plan: expected an array as 'buckets', found a long string");
  expect_data_error(Json::array(), "plan: expected an object, found an array");
}

TEST(PlanJsonTest, StagesThatAreNotWithinTheBlocksAreRefused) {
  const auto expect_wrong = [](const std::function<void(Plan&)>& spoil, const std::string& text) {
    auto plan = distinct_plan();
    spoil(plan);
    expect_error([&] { plan_from_json(to_json(plan)); }, ErrorKind::Data, text);
  };
  expect_wrong([](Plan& plan) { plan.stages[1].num_blocks = 3; },
               "plan: expected stages of 3 blocks in all, found 4");
  expect_wrong([](Plan& plan) { plan.stages[1].num_blocks = std::numeric_limits<int>::max(); },
               "found 2147483648");
  expect_wrong([](Plan& plan) { plan.stages[1].first_block = 2; },
               "plan: expected a stage to begin with block 1, found 2");
  expect_wrong([](Plan& plan) { plan.stages[0].first_block = 1; },
               "plan: expected a stage to begin with block 0, found 1");
  expect_wrong([](Plan& plan) { plan.profile.blocks[1].shares_with = 2; },
               "plan: expected block 1 to share with one before it, found 2");
  expect_wrong([](Plan& plan) { plan.instances[0].devices[0].stages[0].stage = 2; },
               "plan: expected stages below 2 on a device, found 2");
}

TEST(PlanJsonTest, WhatIsNoJsonIsRefused) {
  expect_error([] { plan_from_json(""); }, ErrorKind::Data,
               "plan: expected JSON, found something else at byte 1 of 0");
  expect_error([] { plan_from_json("{\"model\": \x01\xff}"); }, ErrorKind::Data,
               "plan: expected JSON, found something else at byte 11 of 13");
  expect_error([] { plan_from_json("{\"idle_share\": 1e999}"); }, ErrorKind::Data,
               "plan: expected numbers, found one that is too large");
  expect_error([] { plan_from_json("{}"); }, ErrorKind::Data,
               "plan: expected 'model', found nothing");
}

TEST(PlanJsonTest, DeepNestingIsRefusedBeforeItTakesMemory) {
  expect_error([] { plan_from_json(std::string(10'000'000, '[')); }, ErrorKind::Data,
               "plan: expected JSON of at most 16 levels, found more");
}

TEST(PlanJsonTest, NothingButADataErrorComesOutOfADamagedText) {
  const auto whole = to_json(distinct_plan());
  std::mt19937 random(9);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto text = whole;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      text[random() % text.size()] ^= static_cast<char>(1U << random() % 8);
    }
    if (round % 3 == 0) text.resize(random() % text.size());
    try {
      warnings_of(plan_from_json(text));
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.kind()), exit_code(ErrorKind::Data));
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lockstep::plan
