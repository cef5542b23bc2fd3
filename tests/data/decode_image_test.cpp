#include "lockstep/data/formats/decode_image.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/data/made_files.h"

namespace lockstep::data {
namespace {

using lockstep::testing::expect_data_error;
using lockstep::testing::fixture;

constexpr ImageSize kSize{19, 27};

struct Decoded {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
};

Decoded decode(const std::string& file, const std::string& where = "some/picture") {
  Decoded decoded;
  decoded.size = decode_image(as_bytes(file), where, [&](ImageSize size) {
    decoded.pixels.resize(static_cast<std::size_t>(size.height * size.width * 3));
    return std::span(decoded.pixels);
  });
  return decoded;
}

void expect_refused_image(const std::string& file, const std::vector<std::string>& parts) {
  expect_data_error([&] { decode(file); }, parts);
}

class PillowPixelsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PillowPixelsTest, AreTheSame) {
  const auto name = std::string("images/") + GetParam();
  const auto decoded = decode(fixture(name));
  const auto expected = fixture(name + ".rgb");
  EXPECT_EQ(decoded.size, kSize);
  ASSERT_EQ(decoded.pixels.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(decoded.pixels[i], static_cast<std::uint8_t>(expected[i]))
        << "row " << i / 81 << ", column " << i % 81 / 3 << ", channel " << i % 3;
  }
}

TEST_P(PillowPixelsTest, AreRefusedWhereTheFileIsCutAnywhere) {
  const auto file = fixture(std::string("images/") + GetParam());
  for (std::size_t size = 0; size < file.size(); ++size) {
    SCOPED_TRACE(size);
    expect_refused_image(file.substr(0, size), {"some/picture: at byte ", "expected ", "found "});
    if (HasFailure()) return;
  }
}

TEST_P(PillowPixelsTest, StandDamageInEveryByte) {
  const auto file = fixture(std::string("images/") + GetParam());
  for (std::size_t at = 0; at < file.size(); ++at) {
    auto damaged_file = file;
    damaged_file[at] = static_cast<char>(damaged_file[at] ^ 0x5a);
    try {
      decode(damaged_file);  // other pixels where nothing tells that they are wrong
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Data) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryKind, PillowPixelsTest,
                         ::testing::Values("420.jpg", "422.jpg", "444.jpg", "gray.jpg",
                                           "progressive.jpg", "cmyk.jpg", "rgb.png", "rgba.png",
                                           "palette.png", "palette_transparent.png", "gray.png",
                                           "gray_alpha.png", "one_bit.png", "gray16.png",
                                           "rgb16.png", "interlaced.png"),
                         [](const auto& test) {
                           std::string name = test.param;
                           name[name.find('.')] = '_';
                           return name;
                         });

TEST(DecodeImageTest, RefusesOtherFilesAndShowsTheirFirstBytes) {
  expect_refused_image("GIF89a", {"some/picture: at byte 0: expected a JPEG (ff d8 ff) or PNG",
                                  "found 47 49 46 38 39 61"});
  expect_refused_image("", {"found nothing"});
}

TEST(DecodeImageTest, SaysThatAJpegEndsTooSoon) {
  const auto file = fixture("images/420.jpg");
  expect_refused_image(
      file.substr(0, file.size() - 40),
      {"expected a JPEG picture of 19 x 27 pixels, found Premature end of JPEG file"});
}

TEST(DecodeImageTest, RefusesAJpegWhoseDataEndsBeforeItsLastRow) {
  const auto file = fixture("images/420.jpg");
  expect_refused_image(file.substr(0, file.size() - 60) + "\xff\xd9",
                       {"premature end of data segment"});
}

TEST(DecodeImageTest, RefusesAPngWithAnotherChecksum) {
  auto file = fixture("images/rgb.png");
  file[file.find("IDAT") + 10] ^= 1;
  expect_refused_image(file,
                       {"some/picture: at byte ", "expected a PNG picture of 19 x 27 pixels"});
}

TEST(DecodeImageTest, RefusesPicturesTooLargeToBeMeant) {
  auto file = fixture("images/420.jpg");
  const auto frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (const auto at : {5, 6, 7, 8}) file[frame + static_cast<std::size_t>(at)] = '\xfd';
  expect_refused_image(file, {"expected a picture of 1 to 178956970 pixels, found 65021 x 65021"});
}

TEST(DecodeImageTest, RefusesOnePixelRowMoreThanPillow) {
  auto file = fixture("images/420.jpg");
  const auto frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  const auto set_height = [&](char high, char low) {
    file[frame + 5] = high;
    file[frame + 6] = low;
  };
  file[frame + 7] = '\x40';
  file[frame + 8] = '\0';
  std::vector<ImageSize> asked;
  const auto decode_header = [&] {
    decode_image(as_bytes(file), "f", [&](ImageSize size) -> std::span<std::uint8_t> {
      asked.push_back(size);
      throw Error(ErrorKind::Data, "asked");
    });
  };
  set_height('\x2a', '\xaa');  // 10922 x 16384 = 178,946,048
  expect_data_error(decode_header, {"asked"});
  EXPECT_EQ(asked, std::vector<ImageSize>{(ImageSize{10922, 16384})});
  set_height('\x2a', '\xab');
  expect_data_error(decode_header, {"found 10923 x 16384"});
}

/// A progressive JPEG whose first scan, the coarse values, is there `count` times more.
std::string with_more_scans(std::string file, int count) {
  const auto begin = file.find("\xff\xda");
  auto end = begin + 2;
  while (file[end] != '\xff' || file[end + 1] == '\0') ++end;
  const auto scan = file.substr(begin, end - begin);
  for (; count > 0; --count) file.insert(begin, scan);
  return file;
}

TEST(DecodeImageTest, RefusesAJpegOfManyScans) {
  const auto file = fixture("images/progressive.jpg");
  EXPECT_TRUE(decode(with_more_scans(file, 400)).pixels == decode(file).pixels);
  expect_refused_image(with_more_scans(file, 500),
                       {"some/picture: at byte ", "found more than 500 scans"});
}

}  // namespace
}  // namespace lockstep::data
