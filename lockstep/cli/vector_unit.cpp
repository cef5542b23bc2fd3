#include "lockstep/cli/vector_unit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

/// How each library calls a unit.
struct LibraryNames {
  const char* onednn;
  const char* aten;
  const char* openblas;
  const char* mkl;
};

LibraryNames library_names(VectorUnit unit) {
  switch (unit) {
    case VectorUnit::Avx512:
      return {"AVX512_CORE", "avx512", "SkylakeX", "AVX512"};
    case VectorUnit::Avx2:
      return {"AVX2", "avx2", "Haswell", "AVX2"};
    case VectorUnit::Sse4:
    case VectorUnit::Auto:
      break;
  }
  return {"SSE41", "default", "Nehalem", "SSE4_2"};
}

#ifdef __x86_64__
bool cpu_has(VectorUnit unit) {
  switch (unit) {
    case VectorUnit::Auto:
      return true;
    case VectorUnit::Sse4:
      return __builtin_cpu_supports("sse4.2") != 0;
    case VectorUnit::Avx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case VectorUnit::Avx512:
      return cpu_has(VectorUnit::Avx2) && __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
  return false;
}
#else
bool cpu_has(VectorUnit unit) {
  return unit == VectorUnit::Auto;
}
#endif

}  // namespace

std::string_view name_of(VectorUnit unit) noexcept {
  switch (unit) {
    case VectorUnit::Auto:
      return "auto";
    case VectorUnit::Sse4:
      return "sse4";
    case VectorUnit::Avx2:
      return "avx2";
    case VectorUnit::Avx512:
      return "avx512";
  }
  return "?";
}

std::vector<VectorUnit> vector_units_here() {
  std::vector<VectorUnit> here;
  std::ranges::copy_if(kVectorUnits, std::back_inserter(here), cpu_has);
  return here;
}

void check_vector_unit(const std::string& where, VectorUnit unit,
                       std::span<const VectorUnit> here) {
  if (std::ranges::find(here, unit) != here.end()) return;
  std::vector<std::string_view> names;
  for (const auto each : here) names.push_back(name_of(each));
  throw Error(ErrorKind::Unavailable,
              fmt::format("{}: --cpu-features: expected what this CPU has ({}), found {}", where,
                          fmt::join(names, ", "), name_of(unit)),
              fmt::format("--cpu-features {}", names.back()));
}

std::vector<std::pair<std::string, std::string>> variables_for(VectorUnit unit) {
  if (unit == VectorUnit::Auto) return {};
  const auto names = library_names(unit);
  // oneDNN reads its older name where it is of an older version.
  return {{"ONEDNN_MAX_CPU_ISA", names.onednn},
          {"DNNL_MAX_CPU_ISA", names.onednn},
          {"ATEN_CPU_CAPABILITY", names.aten},
          {"OPENBLAS_CORETYPE", names.openblas},
          {"MKL_ENABLE_INSTRUCTIONS", names.mkl}};
}

}  // namespace lockstep::cli
