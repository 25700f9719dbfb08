#include "trainer/checkpoint/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/trainer/checkpoint/sample_checkpoint.h"
#include "trainer/contract/error.h"

namespace coxswain::checkpoint {
namespace {

using ::testing::HasSubstr;

template <typename Action>
std::string refusal_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(CheckpointName, text_and_value_are_one_to_one) {
  const std::vector<std::pair<std::string, CheckpointName>> rows = {
      {"step-00001200.g7", {.generation = 7, .step = 1200}},
      {"step-00000000.g0", {.generation = 0, .step = 0}},
      {"step-1234567890.g12.r2", {.generation = 12, .step = 1234567890, .revision = 2}},
  };
  for (const auto& [text, name] : rows) {
    EXPECT_EQ(to_text(name), text);
    EXPECT_EQ(parse_checkpoint_name(text), name);
  }
}

TEST(CheckpointName, refuses_every_other_text) {
  for (const char* text :
       {"", "step-", "step-1200.g7", "step-00001200", "step-00001200.g", "step-00001200.g7.r1",
        "step-00001200.g07", "step-00001200.g7 ", " step-00001200.g7", "step-00001200.g7.r",
        "step--0001200.g7", "step-00001200.g-7", "step-9999999999999999999.g1",
        "step-00001200.g99999999999999999999", ".tmp-7-step-00001200.g7", "step-00001200.g7/x"}) {
    EXPECT_FALSE(parse_checkpoint_name(text)) << text;
  }
}

TEST(CheckpointName, order_is_generation_then_step_then_revision) {
  const CheckpointName old{.generation = 1, .step = 900};
  const CheckpointName newer{.generation = 2, .step = 10};
  const CheckpointName newest{.generation = 2, .step = 10, .revision = 2};
  EXPECT_LT(old, newer);
  EXPECT_LT(newer, newest);
}

TEST(CheckpointName, numbers_are_read_from_names_of_directories) {
  EXPECT_EQ(parse_numbered(".generation-7", kClaimPrefix), 7);
  for (const char* text : {".generation-", ".generation-7x", ".generation--7", "generation-7",
                           ".generation-9999999999999999999", ""}) {
    EXPECT_FALSE(parse_numbered(text, kClaimPrefix)) << text;
  }
}

TEST(RunMark, is_the_last_one_up_to_a_generation) {
  const std::vector<std::string> names = {".run-2",  ".run-5-4f-0a", ".run-x",
                                          ".run-7x", ".run-",        ".generation-9"};
  EXPECT_EQ(mark_of_run(names, 1), std::nullopt);
  EXPECT_EQ(mark_of_run(names, 4), (RunMark{2, ""}));
  EXPECT_EQ(mark_of_run(names, 9), (RunMark{5, "4f-0a"}));
  EXPECT_EQ(to_text(RunMark{2, ""}), ".run-2");
  EXPECT_EQ(to_text(RunMark{5, "4f-0a"}), ".run-5-4f-0a");
}

TEST(Checksum, is_crc32_and_combines) {
  const std::string text = "123456789";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(checksum(bytes), 0xCBF43926U);  // the check value of CRC-32
  EXPECT_EQ(combine_checksums(checksum(bytes.first(4)), checksum(bytes.subspan(4)), 5),
            0xCBF43926U);
  EXPECT_EQ(checksum({}), 0U);
}

TEST(Safetensors, header_is_the_published_format) {
  const std::vector<NamedTensor> tensors = {
      {.name = "a", .dims = {2, 3}, .values = {1, 2, 3, 4, 5, 6}},
      {.name = "b", .dims = {}, .values = {7}}};
  const std::string header = encode_safetensors_header(tensors);
  const std::string json = R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("b":{"dtype":"F32","shape":[],"data_offsets":[24,28]}})";
  EXPECT_EQ(header.size() % 8, 0U);
  std::uint64_t length = 0;
  std::memcpy(&length, header.data(), 8);
  EXPECT_EQ(length, header.size() - 8);
  EXPECT_EQ(header.substr(8, json.size()), json);
  EXPECT_EQ(header.find_first_not_of(' ', 8 + json.size()), std::string::npos);

  const auto places = decode_safetensors_header(std::string_view(header).substr(8), 28, "f");
  const std::vector<TensorPlace> expected = {{.name = "a", .dims = {2, 3}, .begin = 0, .end = 24},
                                             {.name = "b", .dims = {}, .begin = 24, .end = 28}};
  EXPECT_EQ(places, expected);
}

TEST(Safetensors, accepts_other_writers_metadata_and_order_of_names) {
  const auto places = decode_safetensors_header(
      R"({"__metadata__":{"format":"pt"},"z":{"data_offsets":[0,4],"dtype":"F32","shape":[1]},)"
      R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}})",
      8, "f");
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].name, "z");
  EXPECT_EQ(places[1].name, "a");
}

// Of writing and reading the header of so many tensors.
double cpu_seconds(std::size_t num_tensors) {
  std::vector<NamedTensor> tensors(num_tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = {.name = "t" + std::to_string(i), .dims = {1}, .values = {0}};
  }
  const std::clock_t started = std::clock();
  const std::string header = encode_safetensors_header(tensors).substr(8);
  EXPECT_EQ(decode_safetensors_header(header, 4 * num_tensors, "f").size(), num_tensors);
  return static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC;
}

TEST(Safetensors, a_header_costs_what_it_holds) {
  const double few = cpu_seconds(4'000);
  const double many = cpu_seconds(64'000);
  EXPECT_LT(many, 100 * few) << "16 is in proportion, 256 its square";
}

TEST(Safetensors, what_a_terminal_would_obey_is_shown) {
  const std::string tensor = R"({"dtype":"F64\u009b","shape":[1],"data_offsets":[0,8]}})";
  const std::string message = refusal_of([&] {
    decode_safetensors_header("{\"\\u001b[2J" + std::string(5000, 'x') + "\":" + tensor, 8, "f");
  });
  EXPECT_THAT(message, HasSubstr(R"(tensor "\x1b[2Jxxx)"));
  EXPECT_THAT(message, HasSubstr(R"(dtype "F64\xc2\x9b" is not)"));
  EXPECT_LT(message.size(), 200U);
}

TEST(Safetensors, refuses_headers_that_do_not_describe_the_data_exactly) {
  const auto tensor = [](const std::string& rest) {
    return R"({"x":{"dtype":"F32",)" + rest + "}}";
  };
  struct Row {
    std::string header;
    std::string message;
  };
  const std::vector<Row> rows = {
      {"", "not valid JSON"},
      {"[]", "not a JSON object"},
      {"{\"x\"", "not valid JSON"},
      {"{\"x\":\"\xff\xfe\"}", "not valid JSON"},
      {R"({"x":1})", "tensor \"x\": not an object"},
      {tensor(R"("shape":[2])"), "tensor \"x\": \"data_offsets\" is missing"},
      {tensor(R"("data_offsets":[0,8])"), "tensor \"x\": \"shape\" is missing"},
      {R"({"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})",
       "tensor \"x\": dtype \"F64\" is not F32"},
      {R"({"x":{"dtype":4,"shape":[1],"data_offsets":[0,8]}})", "\"dtype\" is not a string"},
      {tensor(R"("shape":[2],"data_offsets":[0,8],"extra":1)"), "unknown member \"extra\""},
      {tensor(R"("shape":[2],"data_offsets":[0,16])"), "tensor \"x\": range 0 to 16 is outside"},
      {tensor(R"("shape":[2],"data_offsets":[8,0])"), "tensor \"x\": range 8 to 0 is outside"},
      {tensor(R"("shape":[2],"data_offsets":[0,4])"), "range of 4 bytes, but the shape needs 8"},
      {tensor(R"("shape":[2],"data_offsets":[-8,0])"), "data_offsets is not a pair"},
      {tensor(R"("shape":[2],"data_offsets":[0])"), "data_offsets is not a pair"},
      {tensor(R"("shape":[2],"data_offsets":[0,8,8])"), "data_offsets is not a pair"},
      {tensor(R"("shape":[2],"data_offsets":[0.0,8.0])"), "data_offsets is not a pair"},
      {tensor(R"("shape":[-2],"data_offsets":[0,8])"), "dimension -2"},
      {tensor(R"("shape":[0],"data_offsets":[0,0])"), "dimension 0"},
      {tensor(R"("shape":[2.0],"data_offsets":[0,8])"), "dimension 2.0"},
      {tensor(R"("shape":[18446744073709551615],"data_offsets":[0,8])"), "out of range"},
      {tensor(R"("shape":[4294967296,4294967296,2],"data_offsets":[0,8])"), "shape is too large"},
      {tensor(R"("shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"), "9 dimensions"},
      {tensor(R"("shape":[[2]],"data_offsets":[0,8])"), "nested deeper"},
      {tensor(R"("shape":[1],"data_offsets":[0,4])"), "fill 4 bytes, but the file holds 8"},
      {tensor(R"("shape":[1],"data_offsets":[4,8])"),
       "expected 0: tensors overlap or leave a hole"},
      {"{}", "fill 0 bytes, but the file holds 8"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "\"x\" is there twice"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "tensor \"y\": range begins at byte 4, expected 8"},
      {std::string(100000, '['), "nested deeper"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(refusal_of([&] { decode_safetensors_header(row.header, 8, "dir: file"); }),
                HasSubstr(row.message))
        << row.header.substr(0, 100);
    EXPECT_THAT(refusal_of([&] { decode_safetensors_header(row.header, 8, "dir: file"); }),
                HasSubstr("[checkpoint] dir: file: "));
  }
}

TEST(Safetensors, header_length_stays_inside_the_file_and_the_limit) {
  const auto decode = [](std::uint64_t length, std::uint64_t file_bytes) {
    std::array<std::byte, kLengthBytes> bytes{};
    std::memcpy(bytes.data(), &length, sizeof(length));
    return refusal_of([&] { decode_header_length(bytes, file_bytes, "f"); });
  };
  EXPECT_EQ(decode(8, 16), "accepted");
  EXPECT_THAT(decode(9, 16), HasSubstr("header of 9 bytes exceeds the file of 16"));
  EXPECT_THAT(decode(1ULL << 63, 1 << 20), HasSubstr("exceeds the file"));
  EXPECT_THAT(decode(~0ULL, 16), HasSubstr("exceeds the file"));
  EXPECT_THAT(decode(0, 7), HasSubstr("exceeds the file"));
  EXPECT_EQ(decode(100'000'000, 1ULL << 40), "accepted");
  EXPECT_THAT(decode(100'000'001, 1ULL << 40), HasSubstr("above the limit of 100000000"));
}

TEST(Safetensors, finds_values_that_are_not_finite) {
  std::vector<float> values(1001, 3.0e38F);
  EXPECT_TRUE(all_finite(values));
  for (const float bad : {INFINITY, -INFINITY, std::nanf("")}) {
    values[1000] = bad;
    EXPECT_FALSE(all_finite(values));
  }
}

Manifest sample_manifest() {
  return {.name = {.generation = 7, .step = 1200},
          .fingerprint = "avx512 \"quoted\"",
          .files = {{.name = "a", .bytes = 3, .crc32 = 5, .chunks = {5}},
                    {.name = "b", .bytes = 0, .crc32 = 0, .chunks = {}},
                    {.name = "c",
                     .bytes = kChunkBytes + 1,
                     .crc32 = combine_checksums(1, 2, 1),
                     .chunks = {1, 2}}}};
}

TEST(Manifest, decodes_what_it_encodes) {
  EXPECT_EQ(decode_manifest(encode(sample_manifest()), "m"), sample_manifest());
}

TEST(Manifest, every_flipped_bit_is_refused) {
  const std::string text = encode(sample_manifest());
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(refusal_of([&] { decode_manifest(damaged, "m"); }), "accepted") << "bit " << bit;
  }
}

TEST(Manifest, names_what_is_wrong) {
  const std::string good = encode(sample_manifest());
  struct Row {
    std::string text;
    std::string message;
  };
  const std::vector<Row> rows = {
      {"", "not valid JSON"},
      {"{}", "\"version\" is missing"},
      {replaced(good, "\"version\": 1", "\"version\": 99"),
       "format version 99 is newer than this program reads (1)"},
      {replaced(good, "\"version\": 1", "\"version\": 0"), "\"version\" is out of range"},
      {replaced(good, "\"step\": 1200", "\"step\": -1"), "\"step\" is out of range"},
      {replaced(good, "\"step\": 1200", "\"step\": 18446744073709551615"),
       "\"step\" is out of range"},
      {replaced(good, "\"step\": 1200", "\"step\": 1e3"), "\"step\" is out of range"},
      {replaced(good, "\"step\": 1200", "\"step\": 1201"), "checksum of the manifest itself"},
      {replaced(good, "\"step\": 1200", "\"step\":  1200"), "checksum of the manifest itself"},
      {replaced(good, "\"bytes\": 3", "\"bytes\": 3000000"), "\"a\": the checksums of its chunks"},
      {replaced(good, "00000005", "0000000g"), "not a checksum"},
      {replaced(good, "\"step\": 1200", "\"extra\": 1, \"step\": 1200"), "unknown member"},
      {good.substr(0, good.size() - 1), "checksum of the manifest itself"},
      {good + " ", "checksum of the manifest itself"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(refusal_of([&] { decode_manifest(row.text, "m"); }), HasSubstr(row.message));
  }
}

TEST(State, decodes_what_it_encodes) {
  State state = sample_contents(37).state;
  state.epoch_loss_sum = 0.1 + 0.2;
  state.last_loss = std::numeric_limits<double>::denorm_min();
  state.finished = true;
  state.skipped_in_a_row = 2;
  state.rolled_over = 5;
  state.dataset = {{"samples", "60000"}, {"shape", "1x28x28"}};
  EXPECT_EQ(decode_state(encode(state), "s"), state);
  state.pushes_exactly = true;
  EXPECT_EQ(decode_state(encode(state), "s"), state);
  EXPECT_EQ(decode_state(encode(State{}), "s"), State{});
}

TEST(State, what_evaluations_are_compared_with_and_class_names_come_back) {
  State state = sample_contents(37).state;
  EXPECT_THAT(encode(state), HasSubstr("\"version\": 2"));
  state.class_names = {"cat", "a \"dog\""};
  EXPECT_THAT(encode(state), HasSubstr("\"version\": 4"));
  EXPECT_EQ(decode_state(encode(state), "s"), state);
  state.class_names.clear();
  state.best_accuracy = 0;
  EXPECT_EQ(decode_state(encode(state), "s"), state);
  state.watched_best = -3.25;
  state.watched_epoch = 7;
  state.without_better = 2;
  EXPECT_EQ(decode_state(encode(state), "s"), state);
  for (const auto& [key, value, message] :
       {std::tuple("best_accuracy", nlohmann::json(1.01), "is out of range"),
        std::tuple("watched_epoch", nlohmann::json(1LL << 40), "is out of range"),
        std::tuple("without_better", nlohmann::json(-1), "is out of range"),
        std::tuple("class_names", nlohmann::json({"cat", 2}), "what is not a string")}) {
    auto other = nlohmann::json::parse(encode(state));
    other[key] = value;
    EXPECT_THAT(refusal_of([&] { decode_state(other.dump(), "s"); }),
                AllOf(HasSubstr(key), HasSubstr(message)));
  }
}

TEST(State, a_loss_scale_comes_back) {
  State state = sample_contents(37).state;
  state.loss_scale = 0x1p24;
  state.clean_steps = 1999;
  EXPECT_THAT(encode(state), HasSubstr("\"version\": 5"));
  EXPECT_EQ(decode_state(encode(state), "s"), state);
  for (const double scale : {0.5, 0x1p25}) {
    auto other = nlohmann::json::parse(encode(state));
    other["loss_scale"] = scale;
    EXPECT_THAT(refusal_of([&] { decode_state(other.dump(), "s"); }),
                HasSubstr("\"loss_scale\" is out of range"));
  }
}

TEST(State, timed_algorithms_come_back) {
  State state = sample_contents(37).state;
  state.algorithms = {{"conv1", "lanes"}, {"a \"layer\"", "direct"}};
  EXPECT_THAT(encode(state), HasSubstr("\"version\": 6"));
  EXPECT_EQ(decode_state(encode(state), "s"), state);
  auto other = nlohmann::json::parse(encode(state));
  other["algorithms"]["conv1"] = 3;
  EXPECT_THAT(refusal_of([&] { decode_state(other.dump(), "s"); }),
              HasSubstr("\"algorithms.conv1\" is not a string"));
}

TEST(State, a_loss_that_is_not_finite_is_kept_as_none) {
  State state;
  state.last_loss = INFINITY;
  EXPECT_TRUE(std::isnan(decode_state(encode(state), "s").last_loss));
}

TEST(State, a_configuration_value_that_is_not_utf8_does_not_prevent_a_save) {
  State state;
  state.identity["data.path"] = "/data/\xff\xfe";
  EXPECT_THAT(decode_state(encode(state), "s").identity["data.path"], HasSubstr("/data/"));
}

TEST(State, every_number_has_a_range) {
  for (const char* key :
       {"step", "update_count", "epoch", "samples_in_epoch", "total_steps", "skipped_in_a_row",
        "world_size", "global_batch", "attempt", "epoch_correct", "epoch_samples"}) {
    auto state = nlohmann::json::parse(encode(sample_contents(37).state));
    state[key] = std::numeric_limits<std::int64_t>::max();
    EXPECT_THAT(refusal_of([&] { decode_state(state.dump(), "s"); }),
                HasSubstr(std::string("\"") + key + "\" is out of range"));
  }
  auto state = nlohmann::json::parse(encode(sample_contents(37).state));
  state["last_accuracy"] = 1.5;
  EXPECT_THAT(refusal_of([&] { decode_state(state.dump(), "s"); }),
              HasSubstr("\"last_accuracy\" is out of range"));
}

TEST(State, names_what_is_wrong) {
  const std::string good = encode(sample_contents(37).state);
  struct Row {
    std::string text;
    std::string message;
  };
  const std::vector<Row> rows = {
      {replaced(good, "\"version\": 2", "\"version\": 7"), "format version 7 is newer"},
      {replaced(good, "\"version\": 2", "\"version\": 3"), "\"pushes_exactly\""},
      {replaced(good, "\"rolled_over\": 0", "\"rolled_over\": 4294967296"),
       "\"rolled_over\" is out of range"},
      {replaced(good, "\"step\": 37", "\"step\": 18446744073709551615"),
       "\"step\" is out of range"},
      {replaced(good, "\"global_batch\": 128", "\"global_batch\": 0"),
       "\"global_batch\" is out of range"},
      {replaced(good, "\"last_accuracy\": 0.5", "\"last_accuracy\": null"),
       "\"last_accuracy\" is not a number"},
      {replaced(good, "\"step\": 37", "\"step\": -37"), "\"step\" is out of range"},
      {replaced(good, "\"step\": 37", "\"step\": \"37\""), "\"step\" is out of range"},
      {replaced(good, "\"world_size\": 2", "\"world_size\": 0"), "from 1 to 1048576"},
      {replaced(good, "\"world_size\": 2", "\"world_size\": 4294967298"), "from 1 to 1048576"},
      {replaced(good, "\"last_loss\": 1.25", "\"last_loss\": \"\""),
       "\"last_loss\" is not a number"},
      {replaced(good, "\"finished\": false", "\"finished\": 0"),
       "\"finished\" is not true or false"},
      {replaced(good, "\"seed\": \"42\"", "\"seed\": 42"), "\"trajectory.seed\" is not a string"},
      {replaced(good, "\"epoch\"", "\"era\""), "\"epoch\" is missing"},
      {replaced(good, "\"epoch\"", "\"more\": 1, \"epoch\""), "unknown member \"more\""},
      {replaced(good, "\"epoch\"", "\"step\": 1, \"epoch\""), "\"step\" is there twice"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(refusal_of([&] { decode_state(row.text, "s"); }), HasSubstr(row.message));
  }
}

}  // namespace
}  // namespace coxswain::checkpoint
