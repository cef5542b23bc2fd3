#include "lockstep/data/formats/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <vector>

#include "lockstep/data/formats/pixels.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kSignatureBytes = 8;

/// What libpng is given: where it reads, and where its message goes.
struct PngSource {
  Bytes file;
  std::size_t position = 0;
  char message[128] = "";
};

void on_error(png_structp png, png_const_charp message) {
  auto& source = *static_cast<PngSource*>(::png_get_error_ptr(png));
  std::strncpy(source.message, message, sizeof source.message - 1);
  ::png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep target, std::size_t size) {
  auto& source = *static_cast<PngSource*>(::png_get_io_ptr(png));
  if (size > source.file.size() - source.position) {
    source.position = source.file.size();
    ::png_error(png, "the end of the file");
  }
  std::memcpy(target, source.file.data() + source.position, size);
  source.position += size;
}

/// One picture. Each member that calls libpng sets the jump's target anew and has no object with a
/// destructor, so that jumping over it is defined.
class PngDecoder {
 public:
  explicit PngDecoder(Bytes file) : source_{file} {
    png_ = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning);
    info_ = png_ != nullptr ? ::png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) {
      ::png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngDecoder() { ::png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    ::png_set_read_fn(png_, &source_, on_read);
    ::png_read_info(png_, info_);
    ::png_set_expand(png_);    // palettes, and grays of less than 8 bits
    ::png_set_strip_16(png_);  // to the high byte
    ::png_set_gray_to_rgb(png_);
    ::png_set_strip_alpha(png_);
    ::png_set_interlace_handling(png_);
    ::png_read_update_info(png_, info_);
    return true;
  }

  bool read_pixels(png_bytep* rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    ::png_read_image(png_, rows);
    ::png_read_end(png_, nullptr);
    return true;
  }

  ImageSize size() const {
    return {::png_get_image_height(png_, info_), ::png_get_image_width(png_, info_)};
  }
  std::size_t row_bytes() const { return ::png_get_rowbytes(png_, info_); }
  const char* message() const { return source_.message; }
  std::size_t offset() const { return source_.position; }

 private:
  PngSource source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

bool is_png(Bytes file) noexcept {
  constexpr std::uint8_t kSignature[kSignatureBytes] = {0x89, 'P',  'N',  'G',
                                                        '\r', '\n', 0x1a, '\n'};
  return file.size() >= kSignatureBytes &&
         std::equal(std::begin(kSignature), std::end(kSignature), file.begin());
}

ImageSize decode_png(Bytes file, std::string_view where, const PixelMemory& memory) {
  PngDecoder decoder(file);
  if (!decoder.read_header()) {
    throw damaged(where, decoder.offset(), "the header of a PNG picture", decoder.message());
  }
  const auto size = decoder.size();
  const auto row_bytes = static_cast<std::size_t>(size.width) * 3;
  if (decoder.row_bytes() != row_bytes) {
    throw damaged(where, decoder.offset(), fmt::format("rows of {} bytes", row_bytes),
                  fmt::format("{}", decoder.row_bytes()));
  }
  const auto pixels = ask_for_pixels(size, where, decoder.offset(), memory);
  std::vector<png_bytep> rows(static_cast<std::size_t>(size.height));
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = pixels.data() + y * row_bytes;
  if (!decoder.read_pixels(rows.data())) {
    throw damaged(where, decoder.offset(),
                  fmt::format("a PNG picture of {} x {} pixels", size.height, size.width),
                  decoder.message());
  }
  return size;
}

}  // namespace lockstep::data
