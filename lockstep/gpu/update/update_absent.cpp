#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/update/leaf.h"
#include "lockstep/gpu/update/update.h"

namespace lockstep::gpu {

void gather(const GatherCall&, Stream) {
  refuse_without_cuda("gather");
}

void add_rows(float*, const float*, std::int64_t, Stream) {
  refuse_without_cuda("add_rows");
}

void begin_launch(StepControl*, Stream) {
  refuse_without_cuda("begin_launch");
}

void decide(const DecideCall&, StepControl*, Stream) {
  refuse_without_cuda("decide");
}

void end_step(const EndStepCall&, StepControl*, Stream) {
  refuse_without_cuda("end_step");
}

void measure(const float*, float, Chunks, ChunkMeasure*, Stream) {
  refuse_without_cuda("measure");
}

void measure_trust(const UpdateCall&, optimizer::TrustSums*, Stream) {
  refuse_without_cuda("measure_trust");
}

void find_trust(const optimizer::TrustSums*, const ChunkRange*, std::int32_t, double*, Stream) {
  refuse_without_cuda("find_trust");
}

void update(const UpdateCall&, Stream) {
  refuse_without_cuda("update");
}

}  // namespace lockstep::gpu
