#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::comm::tcp {

/// What the processes of one job know and nobody else: whoever connects proves that it knows it.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  static Secret random();
  /// From what `to_text` gave; nothing for any other text.
  static std::optional<Secret> parse(std::string_view text);
  /// From the file `secret` in a job's folder. Errors: `Io`; `Data` where it holds none.
  static Secret read(const std::string& folder);

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  std::string to_text() const;
  /// Writes the file `secret`, which its owner alone can read. Errors: `Io`.
  void write(const std::string& folder) const;

  const unsigned char* data() const noexcept { return bytes_.data(); }

 private:
  Secret() = default;
  std::array<unsigned char, kBytes> bytes_{};
};

}  // namespace lockstep::comm::tcp
