#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/pack/pack_layout.h"

namespace lockstep::data {

/// A set in one file, mapped into memory: all processes of a host share its pages, and nothing is
/// copied or decoded before a sample is asked for.
///
/// Errors: `Data`, naming file, offset and expectation, from `open` for a file that is no pack, is
/// truncated or damaged at its ends; from `sample` for damage in what that sample is in.
class PackDataset final : public Dataset {
 public:
  static std::shared_ptr<const PackDataset> open(const std::string& path);
  /// A pack in memory, which `owner` keeps alive; `where` names it.
  static std::shared_ptr<const PackDataset> open(std::string where,
                                                 std::span<const std::byte> bytes,
                                                 std::shared_ptr<const void> owner);

  std::int64_t size() const override { return footer_.samples; }
  void sample(std::int64_t index, Sample& sample) const override;
  std::string source_of(std::int64_t index) const override;

  const PackFooter& footer() const noexcept { return footer_; }
  std::size_t file_bytes() const noexcept { return bytes_.size(); }
  /// Checks every block now. Throws `Data` at the first that is damaged.
  void verify() const;

 private:
  struct Extent {
    std::uint64_t begin = 0;  ///< counted from the first record
    std::uint64_t end = 0;
  };
  class RecordReader;

  PackDataset(std::string where, std::span<const std::byte> bytes,
              std::shared_ptr<const void> owner, PackFooter footer);

  void check_tables() const;
  void check_index() const;
  Extent record(std::int64_t index) const;
  void verify_blocks(Extent extent) const;
  void verify_block(std::uint64_t block) const;

  std::string where_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  PackFooter footer_;
  std::span<const std::byte> records_;
  std::span<const std::uint64_t> checksums_;
  std::span<const std::uint64_t> begins_;
  /// Blocks that were found good. Two threads may check the same one; that does no harm.
  mutable std::vector<std::atomic<bool>> is_good_;
};

}  // namespace lockstep::data
