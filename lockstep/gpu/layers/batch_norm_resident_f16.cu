#include "lockstep/gpu/layers/resident_backward.cuh"
#include "lockstep/gpu/layers/resident_forward.cuh"

namespace lockstep::gpu {

template void resident_forward<Float16>(const NormForward&, const NormPath&, float*, Stream);
template void resident_backward<Float16>(const NormBackward&, const NormPath&, float*, float*,
                                         Stream);

}  // namespace lockstep::gpu
