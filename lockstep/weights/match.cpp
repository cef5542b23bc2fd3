#include "lockstep/weights/match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <unordered_map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/bytes.h"

namespace lockstep::weights {
namespace {

using data::printable;

constexpr std::size_t kMostListed = 10;
/// What DataParallel and DistributedDataParallel put before every name, and torch.compile; each may
/// wrap the other.
constexpr std::array<std::string_view, 2> kWrapperPrefixes{"module.", "_orig_mod."};
constexpr int kMostWrappers = 3;

/// Differences of one kind.
struct Differences {
  std::string_view title;
  std::vector<std::string> found;
};

/// "missing: a, b, c and 12 more"
std::string to_line(const Differences& differences) {
  const auto shown = std::min(differences.found.size(), kMostListed);
  auto line =
      fmt::format("\n  {}: {}", differences.title,
                  fmt::join(differences.found.begin(),
                            differences.found.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < differences.found.size()) {
    line += fmt::format(" and {} more", differences.found.size() - shown);
  }
  return line;
}

/// The file's tensors by all of their names.
class NamedTensors {
 public:
  using ByName = std::map<std::string_view, const TensorView*>;

  NamedTensors(const TensorSet& file, const std::set<std::string_view>& model_names) {
    const auto prefix = wrapper_prefix(file, model_names);
    const auto cut = prefix.size();
    for (const auto& tensor : file.tensors) {
      by_name_[std::string_view(tensor.name).substr(cut)] = &tensor;
    }
    for (const auto& tie : file.ties) {
      by_name_[std::string_view(tie.name).substr(cut)] = file.find(tie.kept);
    }
    for (const auto& tie : file.possible_ties) {
      if (!tie.name.starts_with(prefix)) continue;
      possible_[std::string_view(tie.name).substr(cut)] = file.find(tie.kept);
    }
  }

  const TensorView* find(std::string_view name) const { return find_in(by_name_, name); }
  /// By a name that only the metadata may mean.
  const TensorView* find_possible(std::string_view name) const { return find_in(possible_, name); }

  const ByName& all() const { return by_name_; }

 private:
  static const TensorView* find_in(const ByName& tensors, std::string_view name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : found->second;
  }

  /// What stands before every name of the file and is of none of the model's.
  static std::string_view wrapper_prefix(const TensorSet& file,
                                         const std::set<std::string_view>& model_names) {
    if (file.tensors.empty()) return {};
    std::size_t cut = 0;
    const auto is_before_all = [&](std::string_view prefix) {
      const auto has_prefix = [&](const auto& named) {
        const auto name = std::string_view(named.name).substr(cut);
        return name.starts_with(prefix) && !model_names.contains(name);
      };
      return std::all_of(file.tensors.begin(), file.tensors.end(), has_prefix) &&
             std::all_of(file.ties.begin(), file.ties.end(), has_prefix);
    };
    for (int i = 0; i < kMostWrappers; ++i) {
      const auto* const found =
          std::find_if(kWrapperPrefixes.begin(), kWrapperPrefixes.end(), is_before_all);
      if (found == kWrapperPrefixes.end()) break;
      cut += found->size();
    }
    return std::string_view(file.tensors[0].name).substr(0, cut);
  }

  ByName by_name_;
  ByName possible_;
};

bool may_be_missing(const WantedTensor& wanted) {
  return wanted.type == ElementType::I64 && wanted.shape.empty() &&
         wanted.name.ends_with("num_batches_tracked");
}

bool is_equal(const TensorView& a, const TensorView& b) {
  return a.type == b.type && a.shape == b.shape &&
         (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

class Matcher {
 public:
  Matcher(const WantedTensors& model, const TensorSet& file, std::string_view where)
      : model_(model), where_(where), names_(names_of(model)), file_(file, names_) {
    for (const auto& tie : model.ties) siblings_[tie.kept].push_back(tie.name);
  }

  std::vector<const TensorView*> match() {
    std::vector<const TensorView*> matched;
    for (const auto& wanted : model_.tensors) matched.push_back(find(wanted));
    for (const auto& [name, tensor] : file_.all()) {
      if (names_.contains(name)) continue;
      unexpected_.found.push_back(
          fmt::format("{} ({})", printable(name), describe(tensor->type, tensor->shape)));
    }
    throw_if_any();
    return matched;
  }

 private:
  static std::set<std::string_view> names_of(const WantedTensors& model) {
    std::set<std::string_view> names;
    for (const auto& tensor : model.tensors) names.insert(tensor.name);
    for (const auto& tie : model.ties) names.insert(tie.name);
    return names;
  }

  /// By any of its names.
  const TensorView* find(const WantedTensor& wanted) {
    std::vector<std::string_view> names{wanted.name};
    if (const auto found = siblings_.find(wanted.name); found != siblings_.end()) {
      names.insert(names.end(), found->second.begin(), found->second.end());
    }
    const TensorView* first = nullptr;
    std::string_view first_name;
    for (const auto name : names) {
      const auto* const tensor = file_.find(name);
      if (tensor == nullptr) continue;
      if (first != nullptr && tensor != first && !is_equal(*first, *tensor)) {
        untied_.found.push_back(fmt::format("{} and {}", printable(first_name), printable(name)));
      }
      if (first == nullptr) {
        first = tensor;
        first_name = name;
      }
    }
    for (auto name = names.begin(); first == nullptr && name != names.end(); ++name) {
      first = file_.find_possible(*name);
      first_name = *name;
    }
    if (first != nullptr) {
      compare(wanted, first_name, *first);
    } else if (!may_be_missing(wanted)) {
      missing_.found.push_back(
          fmt::format("{} ({})", wanted.name, describe(wanted.type, wanted.shape)));
    }
    return first;
  }

  void compare(const WantedTensor& wanted, std::string_view name, const TensorView& found) {
    if (wanted.shape != found.shape) {
      shape_.found.push_back(fmt::format("{} (model [{}], file [{}])", name,
                                         fmt::join(wanted.shape, ", "),
                                         fmt::join(found.shape, ", ")));
    }
    if (wanted.type != found.type) {
      type_.found.push_back(
          fmt::format("{} (model {}, file {})", name, name_of(wanted.type), name_of(found.type)));
    }
  }

  void throw_if_any() const {
    std::string counts;
    std::string lines;
    for (const auto* const one : {&missing_, &unexpected_, &shape_, &type_, &untied_}) {
      if (one->found.empty()) continue;
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", one->found.size(), one->title);
      lines += to_line(*one);
    }
    if (counts.empty()) return;
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected the {} tensors of the model, found {}{}", where_,
                            model_.tensors.size(), counts, lines),
                hint());
  }

  std::string hint() const {
    if (missing_.found.size() == model_.tensors.size()) {
      return "this may be a file of another model: no name is the same";
    }
    const bool only_types = missing_.found.empty() && unexpected_.found.empty() &&
                            shape_.found.empty() && untied_.found.empty();
    if (only_types) return "convert the file: types are not changed on the way";
    return {};
  }

  const WantedTensors& model_;
  std::string where_;
  std::set<std::string_view> names_;
  NamedTensors file_;
  std::unordered_map<std::string_view, std::vector<std::string_view>> siblings_;
  Differences missing_{"missing", {}};
  Differences unexpected_{"unexpected", {}};
  Differences shape_{"of another shape", {}};
  Differences type_{"of another type", {}};
  Differences untied_{"tied in the model but different in the file", {}};
};

}  // namespace

std::vector<const TensorView*> match(const WantedTensors& model, const TensorSet& file,
                                     std::string_view where) {
  return Matcher(model, file, where).match();
}

}  // namespace lockstep::weights
