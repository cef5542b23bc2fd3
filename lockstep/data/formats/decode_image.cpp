#include "lockstep/data/formats/decode_image.h"

#include "lockstep/data/formats/jpeg.h"
#include "lockstep/data/formats/png.h"

namespace lockstep::data {

ImageSize decode_image(Bytes file, std::string_view where, const PixelMemory& memory) {
  if (is_jpeg(file)) return decode_jpeg(file, where, memory);
  if (is_png(file)) return decode_png(file, where, memory);
  throw damaged(where, 0, "a JPEG (ff d8 ff) or PNG (89 50 4e 47) picture", to_hex(file));
}

}  // namespace lockstep::data
