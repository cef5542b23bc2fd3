#include "lockstep/cli/vector_unit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace lockstep::testing {
namespace {

using cli::VectorUnit;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(VectorUnitTest, LeavesLibrariesToThemselvesByDefault) {
  EXPECT_TRUE(cli::variables_for(VectorUnit::Auto).empty());
}

TEST(VectorUnitTest, SpeaksTheLanguageOfEachLibrary) {
  EXPECT_THAT(
      cli::variables_for(VectorUnit::Sse4),
      ElementsAre(Pair("ONEDNN_MAX_CPU_ISA", "SSE41"), Pair("DNNL_MAX_CPU_ISA", "SSE41"),
                  Pair("ATEN_CPU_CAPABILITY", "default"), Pair("OPENBLAS_CORETYPE", "Nehalem"),
                  Pair("MKL_ENABLE_INSTRUCTIONS", "SSE4_2")));
  EXPECT_THAT(cli::variables_for(VectorUnit::Avx2),
              ElementsAre(Pair("ONEDNN_MAX_CPU_ISA", "AVX2"), Pair("DNNL_MAX_CPU_ISA", "AVX2"),
                          Pair("ATEN_CPU_CAPABILITY", "avx2"), Pair("OPENBLAS_CORETYPE", "Haswell"),
                          Pair("MKL_ENABLE_INSTRUCTIONS", "AVX2")));
  EXPECT_THAT(
      cli::variables_for(VectorUnit::Avx512),
      ElementsAre(Pair("ONEDNN_MAX_CPU_ISA", "AVX512_CORE"),
                  Pair("DNNL_MAX_CPU_ISA", "AVX512_CORE"), Pair("ATEN_CPU_CAPABILITY", "avx512"),
                  Pair("OPENBLAS_CORETYPE", "SkylakeX"),
                  Pair("MKL_ENABLE_INSTRUCTIONS", "AVX512")));
}

TEST(VectorUnitTest, RefusesAUnitThatTheCpuHasNot) {
  const std::vector here{VectorUnit::Auto, VectorUnit::Sse4, VectorUnit::Avx2};
  cli::check_vector_unit("train", VectorUnit::Avx2, here);
  const auto ask = [&] { cli::check_vector_unit("train", VectorUnit::Avx512, here); };
  expect_error(
      ask, ErrorKind::Unavailable,
      "train: --cpu-features: expected what this CPU has (auto, sse4, avx2), found avx512\n"
      "--cpu-features avx2");
}

TEST(VectorUnitTest, EveryCpuMayChooseForItself) {
  EXPECT_EQ(cli::vector_units_here().front(), VectorUnit::Auto);
}

}  // namespace
}  // namespace lockstep::testing
