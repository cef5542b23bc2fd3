#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/partial_file.h"
#include "lockstep/weights/state_dict.h"
#include "lockstep/weights/torch_objects.h"
#include "lockstep/weights/zip_writer.h"

namespace lockstep::weights {
namespace {

static_assert(std::endian::native == std::endian::little);

/// The opcodes of protocol 2 that a state dict takes. No memo: what occurs again is written again.
class PickleWriter {
 public:
  void global(std::string_view module, std::string_view name) {
    bytes_ += fmt::format("c{}\n{}\n", module, name);
  }

  void text(std::string_view text) {
    bytes_ += 'X';
    number(text.size(), 4);
    bytes_ += text;
  }

  void integer(std::int64_t value) {
    bytes_ += "\x8a\x08";  // LONG1 of 8 bytes
    number(static_cast<std::uint64_t>(value), 8);
  }

  void integers(const std::vector<std::int64_t>& values) {
    mark();
    for (const auto value : values) integer(value);
    tuple();
  }

  void empty_ordered_dict() {
    global("collections", "OrderedDict");
    bytes_ += ')';
    call();
  }

  void mark() { bytes_ += '('; }
  void tuple() { bytes_ += 't'; }
  void call() { bytes_ += 'R'; }
  void persistent_id() { bytes_ += 'Q'; }
  void no() { bytes_ += '\x89'; }
  void set_items() { bytes_ += 'u'; }
  std::string finish() { return std::move(bytes_) + '.'; }

 private:
  void number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_ = "\x80\x02";
};

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (auto axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(1, shape[axis]);
  }
  return strides;
}

/// ("storage", torch.FloatStorage, "0", "cpu", 40), which torch.load finds as data/0.
void add_storage(PickleWriter& pickle, const TensorView& tensor, std::size_t key,
                 std::string_view where) {
  const auto class_name = storage_class_of(tensor.type);
  if (!class_name) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected '{}' to be of a type that PyTorch's files have, found {}",
                            where, tensor.name, name_of(tensor.type)),
                "write a .safetensors file instead");
  }
  pickle.mark();
  pickle.text("storage");
  pickle.global("torch", class_name->substr(class_name->find('.') + 1));
  pickle.text(fmt::format("{}", key));
  pickle.text("cpu");
  pickle.integer(static_cast<std::int64_t>(tensor.bytes.size() / size_of(tensor.type)));
  pickle.tuple();
  pickle.persistent_id();
}

void add_tensor(PickleWriter& pickle, std::string_view name, const TensorView& tensor,
                std::size_t key, std::string_view where) {
  pickle.text(name);
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  add_storage(pickle, tensor, key, where);
  pickle.integer(0);  // the offset in the storage
  pickle.integers(tensor.shape);
  pickle.integers(row_major_strides(tensor.shape));
  pickle.no();                  // requires_grad
  pickle.empty_ordered_dict();  // backward hooks
  pickle.tuple();
  pickle.call();
}

std::string pickle_of(const TensorSet& set, std::string_view where) {
  PickleWriter pickle;
  pickle.empty_ordered_dict();
  pickle.mark();
  for (std::size_t i = 0; i < set.tensors.size(); ++i) {
    add_tensor(pickle, set.tensors[i].name, set.tensors[i], i, where);
  }
  for (const auto& tie : set.ties) {
    const auto* const kept = set.find(tie.kept);
    const auto key = static_cast<std::size_t>(kept - set.tensors.data());
    add_tensor(pickle, tie.name, *kept, key, where);
  }
  pickle.set_items();
  return pickle.finish();
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void write_state_dict(const std::filesystem::path& path, const TensorSet& set) {
  const auto where = path.string();
  const auto sorted = in_order(set, where);
  const auto pickle = pickle_of(sorted, where);
  PartialFile file(path);
  ZipWriter zip(file);
  zip.add("archive/data.pkl", as_bytes(pickle));
  zip.add("archive/byteorder", as_bytes("little"));
  for (std::size_t i = 0; i < sorted.tensors.size(); ++i) {
    zip.add(fmt::format("archive/data/{}", i), sorted.tensors[i].bytes);
  }
  zip.add("archive/version", as_bytes("3\n"));
  zip.finish();
  file.publish();
}

}  // namespace lockstep::weights
