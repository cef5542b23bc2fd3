#pragma once

#include <array>
#include <string>
#include <vector>

#include "lockstep/train/jobs/train_request.h"

/// The values of the options of `lockstep train` that accept one of a few words. The parser and the
/// completion of shells both read them.
namespace lockstep::cli {

inline constexpr std::array kAugments{data::Augment::None, data::Augment::Flip,
                                      data::Augment::Standard};
inline constexpr std::array kCheckpointWeights{train::CheckpointWeights::Auto,
                                               train::CheckpointWeights::Trained,
                                               train::CheckpointWeights::Average};
inline constexpr std::array kFuses{Fuse::Auto, Fuse::Off};
inline constexpr std::array kGpuTransports{GpuTransport::Auto, GpuTransport::Host,
                                           GpuTransport::Nccl};
inline constexpr std::array kHalves{Half::BF16, Half::F16};
inline constexpr std::array kOverlaps{Overlap::On, Overlap::Off};
inline constexpr std::array kPipelineSchedules{
    PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe, PipelineSchedule::Sequential};
inline constexpr std::array kPrecisions{Precision::P32_32, Precision::P16_32, Precision::P16_16};
inline constexpr std::array kRecomputes{Recompute::Stage, Recompute::Blocks};
inline constexpr std::array kReductionOrders{ReductionOrder::Ordered, ReductionOrder::Fast};
inline constexpr std::array kReductions{Reduction::Mean, Reduction::Sum};

inline std::vector<std::string> decay_names() {
  return {"all", "matrices"};
}

inline std::vector<std::string> device_names() {
  return {"auto", "cpu", "cuda"};
}

inline std::vector<std::string> split_names() {
  return {"test", "train"};
}

inline std::vector<std::string> optimizer_names() {
  return {"sgd", "adam", "adamw", "lamb"};
}

}  // namespace lockstep::cli
