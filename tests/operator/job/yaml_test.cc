#include "operator/job/yaml.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "operator/job/job_reader.h"

namespace coxswain::test {

using job::Json;

TEST(YamlText, is_block_style) {
  const Json value = Json::parse(R"({"kind":"Pod","list":[{"a":1,"b":[true,null]},"x",[],{}],
      "map":{"empty":{},"deep":{"k":"v"}},"lines":"one\ntwo\n","cut":"one\n\ntwo",
      "nested":[[1,2],[3]]})");
  EXPECT_EQ(job::to_yaml(value),
            "cut: |-\n  one\n\n  two\n"
            "kind: Pod\n"
            "lines: |\n  one\n  two\n"
            "list:\n- a: 1\n  b:\n  - true\n  - null\n- x\n- []\n- {}\n"
            "map:\n  deep:\n    k: v\n  empty: {}\n"
            "nested:\n- - 1\n  - 2\n- - 3\n");
  EXPECT_EQ(job::to_yaml(3), "3\n");
  EXPECT_EQ(job::to_yaml("x"), "x\n");
}

// Texts that some reader of YAML takes for something else are quoted; all come back as they were.
TEST(YamlText, keeps_texts_texts) {
  for (const char* text :
       {"",       "1",        "0777", "1e3",   "true",       "True",     "no",   "YES",
        "off",    "y",        "null", "~",     "2026-01-31", "12:30:45", ".inf", "- a",
        "a: b",   "a:",       "a #b", "#",     "&a",         "*a",       "!a",   "%",
        "@",      "`",        "\"",   "'",     "\\n",        "\t",       "a\tb", " lead",
        "trail ", "\n",       "a\n",  "a\n\n", " a\nb",      "a\n b\n",  "\na",  "a\r\nb",
        "\x01",   "\xc3\xa9", "|",    ">",     "{",          "[",        "-",    "--config",
        "?",      "=",        "<<",   "x\ny"}) {
    for (const Json& value : {Json{{"k", text}}, Json{{text, "v"}}, Json::array({text})}) {
      const YAML::Node node = YAML::Load(job::to_yaml(value));
      std::string back;
      if (value.is_array()) back = node[0].as<std::string>();
      if (value.is_object() && value.contains("k"))
        back = node["k"].as<std::string>();
      else if (value.is_object())
        back = node.begin()->first.as<std::string>();
      EXPECT_EQ(back, text) << job::to_yaml(value);
    }
    // As our own reader sees it, with types.
    const Json job = {{"spec", {{"training", {{"k", text}}}}}};
    EXPECT_EQ(*job::read_job(job::to_yaml(job), "x").spec.training, Json({{"k", text}}))
        << job::to_yaml(job);
  }
}

}  // namespace coxswain::test
