#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cli {

/// The vector units that libraries compute with, as `--cpu-features` fixes them. Which of them a
/// library takes changes its results; lockstep's own kernels give the same on all.
enum class VectorUnit : std::uint8_t {
  Auto,  ///< each library chooses for itself
  Sse4,
  Avx2,
  Avx512,
};

inline constexpr std::array kVectorUnits{VectorUnit::Auto, VectorUnit::Sse4, VectorUnit::Avx2,
                                         VectorUnit::Avx512};

/// "auto", "sse4", "avx2", "avx512".
std::string_view name_of(VectorUnit unit) noexcept;

/// Those that this CPU has; `Auto` always is.
std::vector<VectorUnit> vector_units_here();

/// Throws `Unavailable` for one that is not among `here`, with the best that is; `where` begins the
/// message.
void check_vector_unit(const std::string& where, VectorUnit unit, std::span<const VectorUnit> here);

/// The variables that hold oneDNN, ATen, OpenBLAS and MKL to a unit: libraries read them when they
/// are loaded, so they are for a process that is yet to start. None for `Auto`.
std::vector<std::pair<std::string, std::string>> variables_for(VectorUnit unit);

}  // namespace lockstep::cli
