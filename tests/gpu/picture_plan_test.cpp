#include "lockstep/gpu/pictures/picture_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/gpu/pictures/picture_math.h"
#include "lockstep/gpu/pictures/picture_variants.h"
#include "lockstep/gpu/pictures/set_layout.h"
#include "tests/data/transform_support.h"
#include "tests/gpu/picture_cases.h"

namespace {

thread_local int allocations = 0;

}  // namespace

// Not inlined, or GCC sees `new` freed by `free`, and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(std::max<std::size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace lockstep::gpu {
namespace {

using data::plain::GuardedBytes;
using ::testing::HasSubstr;

/// Runs a pass as a GPU does: block by block, in each all threads do the one thing, then all the
/// other. Nothing beyond a block's memory may be touched.
struct HostRun {
  const PassCall& call;
  std::int64_t samples;

  template <typename T, Resizing resizing, int C, int V>
  void with() const {
    for (std::int64_t picture = 0; picture < samples; ++picture) {
      for (std::int32_t band = 0; band < call.shape.bands(); ++band) {
        run_block<T, resizing, C, V>(picture, band);
      }
    }
  }

  template <typename T, Resizing resizing, int C, int V>
  void run_block(std::int64_t picture, std::int32_t number) const {
    const auto& shape = call.shape;
    const auto& pass = call.passes[picture];
    const auto wide_bytes = static_cast<std::size_t>(shape.wide_rows * shape.wide_stride);
    const GuardedBytes wide(wide_bytes, GuardedBytes::Edge::Back);
    std::memset(wide.data(), 0xcd, wide_bytes);
    const auto band = band_of(shape, number);
    RowRange rows;
    if (resizing == Resizing::Wide) rows = rows_for(pass, call.tables, band);
    const PassWork work{shape,
                        pass,
                        call.tables,
                        call.sources + pass.source * shape.source_stride,
                        reinterpret_cast<std::uint8_t*>(wide.data()),
                        band,
                        rows};
    for (std::int32_t thread = 0; resizing == Resizing::Wide && thread < kPassThreads; ++thread) {
      widen_rows(work, thread, kPassThreads);
    }
    for (std::int32_t thread = 0; thread < kPassThreads; ++thread) {
      finish_rows<T, resizing, C, V>(work, call, picture, thread, kPassThreads);
    }
  }
};

/// Pictures as they lie in a GPU's memory.
struct HostPictures {
  HostPictures(std::int64_t count, std::int64_t stride)
      : memory(static_cast<std::size_t>(count * stride), GuardedBytes::Edge::Back) {
    std::memset(memory.data(), 0xee, static_cast<std::size_t>(count * stride));
  }
  std::uint8_t* data() const { return reinterpret_cast<std::uint8_t*>(memory.data()); }
  GuardedBytes memory;
};

std::int64_t numbers_of(const PassShape& shape) {
  return std::int64_t{shape.height} * shape.width * shape.channels;
}

/// What `PictureMaker` does, on the host.
std::vector<std::byte> made_by(const PicturePlanner& planner, const PictureCase& one) {
  const auto samples = static_cast<std::int64_t>(one.samples.size());
  std::vector<PicturePass> passes(planner.plan_size(one.samples.size()));
  planner.plan(one.samples, one.seed, one.epoch, passes);
  const auto& shapes = planner.shapes();
  auto sources = std::make_unique<HostPictures>(one.set_size, shapes[0].source_stride);
  const auto pixels = one.pixels();
  for (std::int64_t i = 0; i < one.set_size; ++i) {
    std::memcpy(sources->data() + i * shapes[0].source_stride,
                pixels.data() + i * one.picture_bytes(),
                static_cast<std::size_t>(one.picture_bytes()));
  }
  const auto bytes = data::bytes_of(planner.output_field()) * one.samples.size();
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool is_last = i + 1 == shapes.size();
    const auto stride = is_last ? numbers_of(shapes[i]) : shapes[i + 1].source_stride;
    auto out = std::make_unique<HostPictures>(is_last ? static_cast<std::int64_t>(bytes) : samples,
                                              is_last ? 1 : stride);
    const PassCall call{.shape = shapes[i],
                        .passes = passes.data() + i * one.samples.size(),
                        .tables = planner.tables().numbers().data(),
                        .numbers = planner.numbers().values.data(),
                        .division = planner.numbers().division,
                        .sources = sources->data(),
                        .out = out->data(),
                        .out_stride = stride};
    const HostRun run{call, samples};
    // Where memory ends with a page it seldom begins with 16 bytes; a GPU's does.
    run_variant(shapes[i], is_last ? one.pipeline.output.type : DataType::U8, nullptr, run);
    sources = std::move(out);
  }
  std::vector<std::byte> result(bytes);
  std::memcpy(result.data(), sources->data(), bytes);
  return result;
}

void expect_bits_of_the_transform(const PictureCase& one) {
  const PicturePlanner planner(one.pipeline, one.field());
  ASSERT_EQ(made_by(planner, one), one.expected()) << one.text();
}

TEST(PicturePlanTest, MakesWhatTheTransformMakesWithAnyPipeline) {
  for (std::uint32_t i = 0; i < 1500; ++i) {
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(expect_bits_of_the_transform(random_picture_case(i)));
  }
}

TEST(PicturePlanTest, MakesWhatTheTransformMakesWithThePresets) {
  for (const auto& one : preset_cases()) {
    ASSERT_NO_FATAL_FAILURE(expect_bits_of_the_transform(one));
  }
}

TEST(PicturePlanTest, MakesWhatTheTransformMakesOfLargePictures) {
  for (const auto& one : large_cases()) {
    ASSERT_NO_FATAL_FAILURE(expect_bits_of_the_transform(one));
  }
}

TEST(PicturePlanTest, LargeCasesReachEveryWayOfResizing) {
  bool is_banded = false;
  bool is_direct = false;
  for (const auto& one : large_cases()) {
    const PicturePlanner planner(one.pipeline, one.field());
    for (const auto& shape : planner.shapes()) {
      is_banded = is_banded || (shape.resizing == Resizing::Wide && shape.bands() > 1);
      is_direct = is_direct || shape.resizing == Resizing::Direct;
      EXPECT_LE(shape.shared_bytes(), 47 << 10);
    }
  }
  EXPECT_TRUE(is_banded);
  EXPECT_TRUE(is_direct);
}

TEST(PicturePlanTest, DrawsAsTheLoaderDoes) {
  PictureCase one{.size = {32, 32}, .seed = 3, .set_size = 20};
  one.pipeline = {{data::RandomCrop{32, 32, 4}, data::RandomHorizontalFlip{}, data::Resize{40, 40},
                   data::cifar10_normalize()},
                  {DataType::BF16, {}}};
  const auto set = std::make_shared<data::ArrayDataset>(std::vector{one.field()},
                                                        std::vector{data::array_of(one.pixels())});
  const data::TrainOrder order(one.set_size, {.batch_size = 5}, {.seed = one.seed});
  data::Loader loader(set, data::micro_batches(order, {0, 1}),
                      {.mode = data::LoaderMode::Sync, .pipeline = one.pipeline});
  const PicturePlanner planner(one.pipeline, one.field());
  for (auto& batch : loader.epoch(2)) {
    one.epoch = batch.place().epoch;
    one.samples.assign(batch.samples().begin(), batch.samples().end());
    const auto values = batch.values<BFloat16>("image");
    const auto bytes = std::as_bytes(values);
    EXPECT_EQ(made_by(planner, one), std::vector(bytes.begin(), bytes.end()));
  }
}

TEST(PicturePlanTest, DividesByWhateverItIsGiven) {
  int divided = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const auto one = extreme_case(i);
    const PicturePlanner planner(one.pipeline, one.field());
    divided += planner.numbers().division == Division::Divide ? 1 : 0;
    ASSERT_EQ(made_by(planner, one), one.expected()) << "case " << i;
  }
  EXPECT_GT(divided, 0);
}

TEST(PicturePlanTest, AllocatesNothingForASample) {
  for (const auto& steps :
       {std::vector<data::Step>{data::RandomHorizontalFlip{}, data::Resize{64, 64}},
        std::vector<data::Step>{data::RandomResizedCrop{.height = 24, .width = 24},
                                data::RandomErasing{}},
        std::vector<data::Step>{data::RandomCrop{32, 32, 4}, data::RandomHorizontalFlip{},
                                data::cifar10_normalize()}}) {
    const PicturePlanner planner({steps, {}}, {"image", DataType::U8, {32, 32, 3}});
    std::vector<std::int64_t> samples(64, 7);
    std::vector<PicturePass> passes(planner.plan_size(64));
    const auto before = allocations;
    planner.plan(samples, 1, 2, passes);
    EXPECT_EQ(allocations, before);
  }
}

TEST(PicturePlanTest, HasOnePassForEachResizeThatChangesASize) {
  const data::Field image{"image", DataType::U8, {32, 32, 3}};
  const auto passes = [&](std::vector<data::Step> steps) {
    return PicturePlanner({std::move(steps), {}}, image).shapes().size();
  };
  EXPECT_EQ(passes({}), 1U);
  EXPECT_EQ(passes({data::Resize{32, 32}}), 1U);
  EXPECT_EQ(passes({data::Resize{64, 64}}), 1U);
  EXPECT_EQ(passes({data::ResizeShorter{40}, data::Resize{64, 64}}), 2U);
  EXPECT_EQ(passes({data::RandomResizedCrop{.height = 32, .width = 32}, data::Resize{8, 8},
                    data::Resize{9, 9}}),
            3U);
}

TEST(PicturePlanTest, SaysWhatItMakesAndThatItIsChannelsLast) {
  const PicturePlanner planner(
      {{data::Resize{24, 40}}, {DataType::F16, data::Layout::ChannelsFirst}},
      {"image", DataType::U8, {32, 32, 3}});
  EXPECT_EQ(planner.output_field(), (data::Field{"image", DataType::F16, {24, 40, 3}}));
}

TEST(PicturePlanTest, FewBytesTravelWithEachSample) {
  EXPECT_LE(sizeof(PicturePass), 112U);
}

template <typename Function>
void expect_refusal(const std::string& message, const Function& function) {
  try {
    function();
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_THAT(error.what(), HasSubstr(message));
    EXPECT_EQ(error.hint(), "leave --data-on-device out");
  }
}

TEST(PicturePlanTest, RefusesPicturesOfAnySize) {
  expect_refusal("data on the device: expected pictures of one size, found image u8 [any, any, 3]",
                 [] {
                   const PicturePlanner planner(
                       {{data::Resize{8, 8}}, {}},
                       {"image", DataType::U8, {0, 0, 3}, data::FieldKind::AnySizeImage});
                 });
}

TEST(PicturePlanTest, RefusesPicturesThatKernelsCannotCount) {
  expect_refusal("expected pictures of at most 1073741823 bytes, found 32768x32768 with 3 channels",
                 [] {
                   const PicturePlanner planner({{data::Resize{32768, 32768}}, {}},
                                                {"image", DataType::U8, {8, 8, 3}});
                 });
}

TEST(PicturePlanTest, RefusesResizesThatNoMemoryHoldsTheWeightsOf) {
  expect_refusal(
      "expected resizes with at most 268435456 weights in all, found more, of 30000 pixels to "
      "30000",
      [] {
        const PicturePlanner planner({{data::RandomResizedCrop{.height = 1, .width = 30000}}, {}},
                                     {"image", DataType::U8, {1, 30000, 1}});
      });
}

TEST(PicturePlanTest, RefusesTooLittleRoom) {
  const PicturePlanner planner({{data::Resize{8, 8}}, {}}, {"image", DataType::U8, {4, 4, 1}});
  const std::vector<std::int64_t> samples{0, 1, 2};
  std::vector<PicturePass> passes(2);
  EXPECT_THROW(planner.plan(samples, 0, 0, passes), Error);
}

TEST(ResizeTablesTest, SumUpWithinTheSource) {
  ResizeTables tables;
  for (std::int64_t in = 1; in <= 40; ++in) {
    for (std::int64_t out = 1; out <= 40; ++out) {
      const auto table = tables.add(in, out);
      for (std::int64_t i = 0; i < out; ++i) {
        const auto* entry = tables.numbers().data() + table.at + i * (table.taps + 1);
        ASSERT_GE(entry[0], 0);
        ASSERT_LE(entry[0] + table.taps, in);
        std::int64_t sum = 0;
        for (std::int32_t k = 1; k <= table.taps; ++k) sum += entry[k];
        ASSERT_NEAR(static_cast<double>(sum), 0x1p22, table.taps);
      }
      ASSERT_EQ(tables.add(in, out).at, table.at) << "it was made again";
      ASSERT_EQ(tables.reach(table, out, 1), table.taps);
      ASSERT_LE(tables.reach(table, out, out), in);
    }
  }
}

TEST(SetLayoutTest, LaysFieldsOneAfterAnother) {
  const auto layout = lay_out_set(
      {{"image", DataType::U8, {5, 5, 3}}, {"label", DataType::I64}, {"box", DataType::F32, {3}}},
      10, 1 << 20);
  ASSERT_EQ(layout.fields.size(), 3U);
  EXPECT_EQ(layout.fields[0].stride, 80) << "pictures begin at multiples of 16";
  EXPECT_EQ(layout.fields[0].bytes, 75);
  EXPECT_EQ(layout.fields[1].offset, 800);
  EXPECT_EQ(layout.fields[1].stride, 8);
  EXPECT_EQ(layout.fields[2].offset, 880);
  EXPECT_EQ(layout.fields[2].stride, 12);
  EXPECT_EQ(layout.bytes, 1008);
}

TEST(SetLayoutTest, RefusesFieldsOfVaryingSize) {
  expect_refusal(
      "data on the device: field 'tokens': expected values of one size, found tokens i32 [up to "
      "128]",
      [] {
        lay_out_set({{"tokens", DataType::I32, {128}, data::FieldKind::Varying}}, 10, 1 << 20);
      });
  expect_refusal("field 'image': expected values of one size, found image u8 [any, any, 3]", [] {
    lay_out_set({{"image", DataType::U8, {0, 0, 3}, data::FieldKind::AnySizeImage}}, 10, 1 << 20);
  });
}

TEST(SetLayoutTest, RefusesASetThatIsLargerThanWhatIsFree) {
  expect_refusal(
      "expected a set of at most 100.0 MiB, which is what the GPU has free, found 50000 samples "
      "that "
      "take 146.5 MiB",
      [] {
        lay_out_set({{"image", DataType::U8, {32, 32, 3}}}, 50000, 100 << 20);
      });
}

}  // namespace
}  // namespace lockstep::gpu
