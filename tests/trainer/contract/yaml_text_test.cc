#include "trainer/contract/config/yaml_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainer/contract/config/nearest_key.h"
#include "trainer/contract/config/text.h"

namespace coxswain::contract {

namespace {

using namespace std::string_literals;

std::string error_of_text(std::string_view yaml) {
  try {
    load_yaml(yaml, "job.yaml");
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
}

std::string repeated(std::string_view text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

// Ten anchors, each ten times the one before.
std::string alias_bomb() {
  std::string yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    yaml += fmt::format("a{0}: &a{0} [{1}*a{2}]\n", i, repeated(fmt::format("*a{}, ", i - 1), 9),
                        i - 1);
  }
  return yaml;
}

}  // namespace

TEST(YamlText, refuses_bad_bytes_and_bad_shapes_with_their_place) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"model: x\ndata:\n\tformat: mnist\n",
       "job.yaml:3:1: tab not allowed as indentation; use spaces"},
      {"data:\n \tformat: mnist\n", "job.yaml:2:2: tab not allowed as indentation; use spaces"},
      {"a:\n  b: 1\n\t- c\n", "job.yaml:3:1: tab not allowed as indentation; use spaces"},
      {"workers: 1\nother: 2\nworkers: 3\n", "job.yaml:3:1: duplicate key \"workers\""},
      {"a: {b: 1, b: 2}\n", "job.yaml:1:11: duplicate key \"b\""},
      {repeated("[", 65) + repeated("]", 65), "job.yaml:1:65: nested deeper than 64 levels"},
      {repeated("[", 10000), "job.yaml:1:65: nested deeper than 64 levels"},
      {repeated("[", 64), "job.yaml:1:1: end of sequence flow not found"},
      {"a: " + repeated("[", 63), "job.yaml:1:1: end of sequence flow not found"},
      {"a: " + repeated("[", 64), "job.yaml:1:67: nested deeper than 64 levels"},
      {repeated("{a: ", 10000), "job.yaml:1:257: nested deeper than 64 levels"},
      {repeated("- ", 10000), "job.yaml:1:129: nested deeper than 64 levels"},
      {std::string(10'000'000, ' '), "job.yaml: 10000000 bytes, above the limit of 1 MiB"},
      {"\xFF\xFE"
       "a\0:\0"s,
       "job.yaml:1:1: is UTF-16; save it as UTF-8"},
      {"\xFE\xFF\0a\0:"s, "job.yaml:1:1: is UTF-16; save it as UTF-8"},
      {"\xEF\xBB\xBF"
       "a: 1",
       "job.yaml:1:1: starts with a byte order mark; save it as UTF-8 without one"},
      {"a: 1\nb: \xC3\x28\n", "job.yaml:2:4: byte 0xc3 is not UTF-8"},
      {"a: \xED\xA0\x80", "job.yaml:1:4: byte 0xed is not UTF-8"},
      {"a: \xC0\x80", "job.yaml:1:4: byte 0xc0 is not UTF-8"},
      {"a: b\0c"s, "job.yaml:1:5: control character 0x00"},
      {"a: \x1b[31m", "job.yaml:1:4: control character 0x1b"},
      {"a: &x {b: *x}\n", "job.yaml:1:11: cycle: an alias within its anchor"},
      {"a: &x [1, *x]\n", "job.yaml:1:11: cycle: an alias within its anchor"},
      {alias_bomb(), "job.yaml:5:45: more than 100000 values"},
      {"a: *nothing\n", "job.yaml:1:4: the referenced anchor is not defined"},
      {"? {a: 1}\n: 2\n", "job.yaml:1:3: a key must be text"},
      {"a: [1, 2\n", "job.yaml:2:1: end of sequence flow not found"},
      {",", "job.yaml:1:1: a comma outside of brackets"},
      {"---\n, : [*x", "job.yaml:2:1: a comma outside of brackets"},
      {"a: 1\nb: \"x\n", "job.yaml:2:1: a quote that opens after this is never closed"},
      {"a: 1\nb: \"x", "job.yaml:2:1: a quote that opens after this is never closed"},
      {"a: 1\nb: 'x\n\n", "job.yaml:2:1: a quote that opens after this is never closed"},
      {"a: 1\nb: \"", "job.yaml:2:1: a quote that opens after this is never closed"},
      {"a: [x, 'y\n", "job.yaml:1:5: a quote that opens after this is never closed"},
      {"\"", "job.yaml:2:2: a quote is never closed"},
      {"a: \"x\\0y\"\n", "job.yaml:1:4: \"x\\x00y\" holds a NUL"},
      {"a: &x b\n*x : c\n", "job.yaml:2:1: a key must be text"},
      {"~: a\n~: b\n", "job.yaml:1:1: a key must be text"},
      {"a: b: c\n", "job.yaml:1:5: illegal map value"},
      {"a: {<<: {b: 1}}\n", "job.yaml:1:5: merge keys (<<) are not read: write out what is merged"},
      {"a: !!int \"2\"\n",
       "job.yaml:1:4: the tag \"tag:yaml.org,2002:int\" is not read: write the value without it"},
      {"a: !mine [1]\n", "job.yaml:1:4: the tag \"!mine\" is not read: write the value without it"},
      {"a: !!set {b}\n",
       "job.yaml:1:4: the tag \"tag:yaml.org,2002:set\" is not read: write the value without it"},
      {"a: 1\n---\nb: 2\n", "job.yaml: holds more than one document"},
  };
  for (const auto& [yaml, message] : cases) {
    EXPECT_EQ(error_of_text(yaml), "[config] " + message) << yaml.substr(0, 60);
  }
}

TEST(YamlText, refuses_numbers_that_its_readers_read_differently) {
  for (const std::string number : {"012", "-012", "+07", "00", "0b11", "0o17", "0O17", "0X1f",
                                   "-0x1f", "1_000", "0_1", "1_0.5", "0x1_f"}) {
    EXPECT_EQ(error_of_text("a: " + number),
              "[config] job.yaml:1:4: \"" + number +
                  "\" is not the same number to all readers of YAML: write it in decimal, or quote "
                  "it");
    EXPECT_NE(error_of_text("[x, " + number + "]"), "no error");
    EXPECT_NE(error_of_text(number + ": x"), "no error");
    EXPECT_EQ(error_of_text("a: '" + number + "'"), "no error");
  }
  for (const std::string text :
       {"0",    "-0", "10",  "0.5", "00.5",  "0x1f",       "1e3",  "1_000_km", "012a", "0x",
        "0b12", "_1", "a_1", "0o8", "1.2.3", "2024-01-01", "0:30", "0b",       "+",    ""}) {
    EXPECT_EQ(error_of_text("a: " + text), "no error") << text;
  }
}

TEST(YamlText, accepts_what_yaml_allows) {
  EXPECT_EQ(load_yaml("---\na: &x {b: 1}\nc: *x\n", "f")["c"]["b"].as<int>(), 1);
  EXPECT_EQ(load_yaml("script: |\n  if x\n  \tindented\n", "f")["script"].as<std::string>(),
            "if x\n\tindented\n");
  EXPECT_EQ(load_yaml("name: Zürich €😀\r\n", "f")["name"].as<std::string>(), "Zürich €😀");
  EXPECT_EQ(load_yaml("{\"a\": [1, 2]}", "f")["a"].size(), 2U);
  EXPECT_EQ(load_yaml("a: |\n  b", "f")["a"].as<std::string>(), "b");
  EXPECT_EQ(load_yaml("a: |+\n  b\n\n", "f")["a"].as<std::string>(), "b\n\n");
  EXPECT_EQ(load_yaml("a: 'it''s \"' # '\n", "f")["a"].as<std::string>(), "it's \"");
  EXPECT_TRUE(load_yaml("", "f").IsNull());
  EXPECT_TRUE(load_yaml("# a comment\n", "f").IsNull());
}

TEST(Quote, escapes_and_cuts) {
  EXPECT_EQ(quote("a\"b\\c\n\t\x01\xff"), "\"a\\\"b\\\\c\\n\\t\\x01\\xff\"");
  EXPECT_EQ(quote("Zürich"), "\"Zürich\"");
  EXPECT_EQ(quote(std::string(80, 'x')), '"' + std::string(80, 'x') + '"');
  EXPECT_EQ(quote(std::string(81, 'x')), '"' + std::string(80, 'x') + "...\"");
}

TEST(NearestKey, finds_typing_errors_and_other_spellings_alone) {
  constexpr std::string_view kKeys[] = {"model", "batchSize", "optimizer.lr", "optimizer.momentum",
                                        "lrSchedule.minLr"};
  const std::vector<std::pair<std::string, std::string>> cases{
      {"Model", "model"},
      {"modle", "model"},
      {"batch-size", "batchSize"},
      {"batch_sise", "batchSize"},
      {"lr", "optimizer.lr"},
      {"optimiser.lr", "optimizer.lr"},
      {"min-lr", "lrSchedule.minLr"},
      {"optimizer.momnetum", "optimizer.momentum"},
      {"x", ""},
      {"network", ""},
      {"", ""},
      {std::string(100000, 'm'), ""},
  };
  for (const auto& [given, expected] : cases) {
    EXPECT_EQ(nearest_key(given, kKeys).value_or(""), expected) << given.substr(0, 50);
  }
}

}  // namespace coxswain::contract
