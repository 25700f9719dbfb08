#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "trainer/data/dataset.h"
#include "trainer/data/preprocessor.h"

namespace coxswain {

// Pictures by their paths, read when they are asked for; their classes are not known, and said to
// be 0. `shape`: of those that the model was trained on, which `evaluation` prepares for it; one
// that it would leave of another size is refused when it is read.
std::unique_ptr<data::Dataset> open_picture_files(std::vector<std::filesystem::path> paths,
                                                  const data::PictureOptions& options,
                                                  const tensor::Shape& shape, std::int64_t classes,
                                                  data::Preprocessing evaluation);

}  // namespace coxswain
