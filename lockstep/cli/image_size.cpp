#include "lockstep/cli/image_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::cli {

ImageSize parse_image_size(const std::string& where, const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const auto part : split(text, 'x')) numbers.push_back(parse_integer(part).value_or(-1));
  if (numbers.size() == 2) numbers.push_back(3);
  constexpr std::int64_t kMost = 1 << 16;
  const auto is_possible = [](std::int64_t number) { return number > 0 && number <= kMost; };
  const bool is_sound =
      numbers.size() == 3 && std::all_of(numbers.begin(), numbers.end(), is_possible);
  if (!is_sound) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: --image-size: expected HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS, "
                            "each from 1 to {}, found '{}'",
                            where, kMost, text),
                "--image-size 32x32x3");
  }
  return {numbers[0], numbers[1], numbers[2]};
}

}  // namespace lockstep::cli
