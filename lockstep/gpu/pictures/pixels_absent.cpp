#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/pictures/pixels.h"

namespace lockstep::gpu {

void convert_pixels(const ConvertPixels&, Stream) {
  refuse_without_cuda("pictures on a GPU");
}

void gather_field(const GatherField&, Stream) {
  refuse_without_cuda("samples on a GPU");
}

void make_pictures(const MakePictures&, Stream) {
  refuse_without_cuda("pictures on a GPU");
}

}  // namespace lockstep::gpu
