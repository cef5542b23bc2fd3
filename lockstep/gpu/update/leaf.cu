#include "lockstep/gpu/check.h"
#include "lockstep/gpu/update/leaf.h"
#include "lockstep/gpu/update/rows.cuh"

namespace lockstep::gpu {
namespace {

/// Vectors that a thread has under way: those of 16-bit numbers alone are too few bytes to keep
/// the memory busy.
constexpr int kBatch = 4;

/// A tensor's numbers, by their place in the flat row, and what they are worth.
class FloatReader {
 public:
  using Number = float;

  explicit __device__ FloatReader(const LeafTensor& tensor)
      : data_(static_cast<const float*>(tensor.data)), first_(tensor.first) {}

  __device__ bool has_vectors() const { return is_aligned(data_ - first_); }
  template <int width>
  __device__ void read(std::int64_t i, float (&to)[width]) const {
    load(data_ + (i - first_), to);
  }
  __device__ float value_of(float number) const { return number; }

 private:
  const float* data_;
  std::int64_t first_;
};

template <DataType type>
class HalfReader {
 public:
  using Number = std::uint16_t;

  explicit __device__ HalfReader(const LeafTensor& tensor)
      : data_(static_cast<const std::uint16_t*>(tensor.data)), first_(tensor.first) {}

  __device__ bool has_vectors() const { return is_aligned(data_ - first_, sizeof(*data_)); }
  template <int width>
  __device__ void read(std::int64_t i, std::uint16_t (&to)[width]) const {
    load(data_ + (i - first_), to);
  }
  __device__ float value_of(std::uint16_t number) const { return from_half<type>(number); }

 private:
  const std::uint16_t* data_;
  std::int64_t first_;
};

struct ZeroReader {
  using Number = float;

  __device__ bool has_vectors() const { return true; }
  template <int width>
  __device__ void read(std::int64_t, float (&to)[width]) const {
    for (auto& value : to) value = 0;
  }
  __device__ float value_of(float number) const { return number; }
};

struct AsItIs {
  __device__ float operator()(float value) const { return value; }
};

/// Rounded, then divided by the loss scale: by a power of two, so that a multiplication gives the
/// same bits.
template <DataType leaf>
class Rounded {
 public:
  explicit __device__ Rounded(float loss_scale) : inverse_(1 / loss_scale) {}

  __device__ float operator()(float value) const {
    if constexpr (leaf != DataType::F32) value = from_half<leaf>(to_half<leaf>(value));
    return value * inverse_;
  }

 private:
  float inverse_;
};

/// So many vectors, or single numbers, `stride` elements apart: all are under way before the first
/// is needed.
template <Combine combine, int width, int batch, typename Reader, typename Finish>
__device__ void write_batch(float* node, const Reader& reader, const Finish& finish,
                            std::int64_t first, int stride) {
  typename Reader::Number numbers[batch][width];
  float nodes[batch][width];
#pragma unroll
  for (int k = 0; k < batch; ++k) {
    reader.read(first + k * stride, numbers[k]);
    if constexpr (combine == Combine::Add) load(node + first + k * stride, nodes[k]);
  }
#pragma unroll
  for (int k = 0; k < batch; ++k) {
    float sums[width];
    for (int j = 0; j < width; ++j) {
      const float value = finish(reader.value_of(numbers[k][j]));
      sums[j] = combine == Combine::Add ? nodes[k][j] + value : value;
    }
    store(sums, node + first + k * stride);
  }
}

template <Combine combine, typename Reader, typename Finish>
__device__ void write_chunk(const Chunk& chunk, float* node, const Reader& reader,
                            const Finish& finish) {
  constexpr int kStride = kVector * kThreads;
  const Runs runs(chunk.first, chunk.count, is_aligned(node) && reader.has_vectors());
  auto i = runs.vectors_begin + kVector * threadIdx.x;
  for (; i + (kBatch - 1) * kStride < runs.vectors_end; i += kBatch * kStride) {
    write_batch<combine, kVector, kBatch>(node, reader, finish, i, kStride);
  }
#pragma unroll 1
  for (; i < runs.vectors_end; i += kStride) {
    write_batch<combine, kVector, 1>(node, reader, finish, i, kStride);
  }
#pragma unroll 1
  for (int k = threadIdx.x; k < runs.num_single; k += kThreads) {
    write_batch<combine, 1, 1>(node, reader, finish, runs.single(k), 1);
  }
}

template <Combine combine, typename Finish>
__device__ void write_tensor(const Chunk& chunk, float* node, const LeafTensor& tensor,
                             const Finish& finish) {
  if (tensor.type == DataType::F32) {
    write_chunk<combine>(chunk, node, FloatReader(tensor), finish);
  } else if (tensor.type == DataType::BF16) {
    write_chunk<combine>(chunk, node, HalfReader<DataType::BF16>(tensor), finish);
  } else {
    write_chunk<combine>(chunk, node, HalfReader<DataType::F16>(tensor), finish);
  }
}

template <DataType leaf, Combine combine>
__global__ void __launch_bounds__(kThreads) gather_chunk(const __grid_constant__ GatherCall call) {
  const auto chunk = call.chunks.data[blockIdx.x];
  const Rounded<leaf> rounded(call.control->loss_scale);
  const auto tensor = call.tensors[chunk.tensor];
  if (tensor.data == nullptr) {
    write_chunk<combine>(chunk, call.node, ZeroReader(), AsItIs());
  } else if (tensor.is_buffer) {
    write_tensor<combine>(chunk, call.node, tensor, AsItIs());
  } else {
    write_tensor<combine>(chunk, call.node, tensor, rounded);
  }
}

template <DataType leaf>
void launch(const GatherCall& call, Stream stream) {
  const auto blocks = static_cast<unsigned>(call.chunks.count);
  if (call.combine == Combine::Write) {
    gather_chunk<leaf, Combine::Write><<<blocks, kThreads, 0, stream>>>(call);
  } else {
    gather_chunk<leaf, Combine::Add><<<blocks, kThreads, 0, stream>>>(call);
  }
  check_launch("gather");
}

__global__ void __launch_bounds__(kThreads)
    add_chunk(float* left, const float* right, std::int64_t count) {
  const auto first = std::int64_t{blockIdx.x} * kChunk;
  const auto rest = count - first;
  const Runs runs(first, rest < kChunk ? rest : kChunk, is_aligned(left) && is_aligned(right));
  for_elements(runs, [&](std::int64_t i, auto width) {
    float sums[width.value];
    float rights[width.value];
    load(left + i, sums);
    load(right + i, rights);
    for (int k = 0; k < width.value; ++k) sums[k] = sums[k] + rights[k];
    store(sums, left + i);
  });
}

}  // namespace

void gather(const GatherCall& call, Stream stream) {
  if (call.chunks.count == 0) return;
  if (call.leaf_type == DataType::F16) return launch<DataType::F16>(call, stream);
  if (call.leaf_type == DataType::BF16) return launch<DataType::BF16>(call, stream);
  launch<DataType::F32>(call, stream);
}

void add_rows(float* left, const float* right, std::int64_t count, Stream stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kChunk - 1) / kChunk);
  add_chunk<<<blocks, kThreads, 0, stream>>>(left, right, count);
  check_launch("add_rows");
}

}  // namespace lockstep::gpu
