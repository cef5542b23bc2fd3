#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep::checkpoint {

/// A new folder that nobody looks at yet. What was not published is gone with this object.
///
/// Errors: `Io`, naming the folder.
class PartialFolder {
 public:
  /// Makes it in `parent`, for what will be called `name`.
  PartialFolder(const std::filesystem::path& parent, std::string_view name);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Gives it its name, which must be free.
  void publish(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;  ///< empty once it is published
};

}  // namespace lockstep::checkpoint
