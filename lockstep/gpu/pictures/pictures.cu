#include "lockstep/gpu/check.h"
#include "lockstep/gpu/pictures/picture_math.h"
#include "lockstep/gpu/pictures/picture_variants.h"
#include "lockstep/gpu/pictures/pixels.h"

namespace lockstep::gpu {
namespace {

constexpr int kPassVectors = sizeof(PicturePass) / sizeof(uint4);
static_assert(kPassVectors * sizeof(uint4) == sizeof(PicturePass));

__device__ void copy_vectors(const void* from, void* to, int count) {
  const auto* const in = static_cast<const uint4*>(from);
  auto* const out = static_cast<uint4*>(to);
  for (int i = threadIdx.x; i < count; i += kPassThreads) out[i] = in[i];
}

/// Widens the rows of a band. Called twice, so that the compiler knows which memory it reads.
__device__ __forceinline__ void widen(const PassWork& work) {
  widen_rows(work, static_cast<int>(threadIdx.x), kPassThreads);
}

/// One band of one picture: a block for each.
template <typename T, Resizing resizing, int C, int V>
__global__ void __launch_bounds__(kPassThreads) make_band(const PassCall call) {
  extern __shared__ uint4 memory[];
  __shared__ uint4 pass_memory[kPassVectors];
  const auto& shape = call.shape;
  const auto bands = static_cast<unsigned>(shape.bands());
  const auto picture = static_cast<std::int64_t>(blockIdx.x / bands);
  const auto* const source = call.sources + call.passes[picture].source * shape.source_stride;
  auto* const wide = reinterpret_cast<std::uint8_t*>(memory);
  auto* const staged = wide + shape.wide_rows * shape.wide_stride;
  copy_vectors(call.passes + picture, pass_memory, kPassVectors);
  if constexpr (resizing == Resizing::Wide) copy_vectors(source, staged, shape.staged_bytes / 16);
  __syncthreads();

  const auto& pass = *reinterpret_cast<const PicturePass*>(pass_memory);
  const auto band = band_of(shape, static_cast<std::int32_t>(blockIdx.x % bands));
  RowRange rows;
  if constexpr (resizing == Resizing::Wide) {
    rows = rows_for(pass, call.tables, band);
    if (shape.staged_bytes > 0) {
      widen({shape, pass, call.tables, staged, wide, band, rows});
    } else {
      widen({shape, pass, call.tables, source, wide, band, rows});
    }
    __syncthreads();
  }
  finish_rows<T, resizing, C, V>({shape, pass, call.tables, source, wide, band, rows}, call,
                                 picture, static_cast<int>(threadIdx.x), kPassThreads);
}

struct Launch {
  const PassCall& call;
  std::int64_t samples;
  Stream stream;

  template <typename T, Resizing resizing, int C, int V>
  void with() const {
    const auto grid = static_cast<unsigned>(samples * call.shape.bands());
    const auto shared = static_cast<std::size_t>(call.shape.shared_bytes());
    make_band<T, resizing, C, V><<<grid, kPassThreads, shared, stream>>>(call);
    check_launch("make_pictures");
  }
};

}  // namespace

void make_pictures(const MakePictures& call, Stream stream) {
  if (call.samples == 0) return;
  const PassCall pass{.shape = call.shape,
                      .passes = call.passes,
                      .tables = call.tables,
                      .numbers = call.levels.values,
                      .division = call.levels.division,
                      .sources = call.sources,
                      .out = call.out,
                      .out_stride = call.out_stride};
  const Launch launch{pass, call.samples, stream};
  run_variant(call.shape, call.type, call.out, launch);
}

}  // namespace lockstep::gpu
