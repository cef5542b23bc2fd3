#pragma once

#include <span>
#include <string_view>

namespace lockstep::monitor {

/// A file of the page, as it was when lockstep was built.
struct PageFile {
  std::string_view path;  ///< "/dashboard.js"
  std::string_view type;  ///< "text/javascript; charset=utf-8"
  std::string_view content;
};

/// All that the page consists of; the one at "/" is the page itself.
std::span<const PageFile> page_files() noexcept;

}  // namespace lockstep::monitor
