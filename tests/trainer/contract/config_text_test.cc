#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "tests/support/test_flags.h"
#include "trainer/contract/config/config_fields.h"
#include "trainer/contract/config/config_reader.h"
#include "trainer/contract/config/config_value.h"

namespace coxswain::contract {

namespace {

constexpr std::string_view kReferencePage = "docs/training-configuration.md";

// Flags for a random choice of keys, few or many: the more, the likelier they break a rule.
std::vector<ConfigFlag> random_flags(std::mt19937_64& random) {
  std::vector<ConfigFlag> flags{{"model", "mlp"}, {"data.format", "synthetic"}};
  const std::uint64_t rarity = 4 + random() % 28;
  for (const Field& field : kFields) {
    if (random() % rarity != 0 || field.required) continue;
    TrainerConfig config;
    std::string value;
    const auto choices = choices_of(field);
    if (!choices.empty()) {
      value = choices[random() % choices.size()];
    } else if (std::holds_alternative<double*>(field.member(config))) {
      value = fmt::format("{}", std::generate_canonical<double, 53>(random));
    } else if (std::holds_alternative<bool*>(field.member(config))) {
      value = random() % 2 == 0 ? "true" : "false";
    } else {
      value = std::to_string(1 + random() % 64);
    }
    flags.push_back({std::string(field.key), value});
  }
  return flags;
}

}  // namespace

TEST(ConfigTable, has_each_key_once_and_sections_together) {
  std::set<std::string_view> keys;
  std::set<std::string_view> sections;
  std::string_view section;
  for (const Field& field : kFields) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    const std::size_t dot = field.key.find('.');
    const std::string_view now = dot == std::string_view::npos ? "" : field.key.substr(0, dot);
    if (now != section && !now.empty()) {
      EXPECT_TRUE(sections.insert(now).second) << field.key << " stands apart from its section";
    }
    section = now;
  }
}

TEST(ConfigTable, reads_every_word_of_its_enums) {
  for (const Field& field : kFields) {
    TrainerConfig config;
    const MemberRef member = field.member(config);
    if (!std::holds_alternative<ChoiceRef>(member)) continue;
    for (const std::string_view word : choices_of(field)) {
      read_value(field, YAML::Node(std::string(word)), config,
                 [](const YAML::Node&, const std::string& key, const std::string& what) {
                   ADD_FAILURE() << key << ": " << what;
                 });
      EXPECT_EQ(value_text(field, config), word) << field.key;
    }
  }
}

TEST(ConfigTable, accepts_its_own_defaults) {
  const TrainerConfig defaults;
  for (const Field& field : kFields) {
    const std::string text = value_text(field, defaults);
    if (text.empty() || field.required) continue;
    TrainerConfig config;
    read_value(field, YAML::Load(text), config,
               [](const YAML::Node&, const std::string& key, const std::string& what) {
                 ADD_FAILURE() << key << ": " << what;
               });
    EXPECT_EQ(config, defaults) << field.key;
  }
}

TEST(ConfigText, yaml_reads_back_as_the_same_configuration) {
  const std::uint64_t seed = test::flags().seed_given ? test::flags().seed : 7;
  std::mt19937_64 random(seed);
  int num_valid = 0;
  for (int i = 0; i < 10000; ++i) {
    try {
      const TrainerConfig config = read_config("", "", random_flags(random)).config;
      const std::string yaml = to_yaml(config);
      EXPECT_EQ(read_config(yaml, "again.yaml", {}).config, config) << "--seed " << seed << "\n"
                                                                    << yaml;
      ++num_valid;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    }
  }
  EXPECT_GE(num_valid, 100) << "--seed " << seed;
}

TEST(ConfigText, yaml_holds_what_differs_from_the_defaults) {
  const std::string yaml =
      "model: singa-cnn\n"
      "data:\n"
      "  format: mnist\n"
      "  path: \"/data/\\\"odd\\\\ name\"\n"
      "  augment: [{pad-crop: {pad: 4, mode: zero, offsets: singa, size: 0, fill: 127}}, flip, "
      "{normalise: {mean: [0.1307], std: [0.3081]}}]\n"
      "steps: 7\n"
      "optimizer:\n"
      "  name: adam\n"
      "  lr: 0.01\n";
  EXPECT_EQ(to_yaml(read_config(yaml, "", {}).config), yaml);
}

TEST(ConfigText, print_config_says_where_each_value_comes_from) {
  const std::string text =
      print_config(read_config("model: mlp\ndata: {format: mnist}\noptimizer:\n  momentum: 0.9\n",
                               "job.yaml", parse_config_flags({"--batchSize=16"})));
  for (const std::string line :
       {"model: mlp                                      # job.yaml:1\n",
        "batchSize: 16                                   # flag\n",
        "optimizer.momentum: 0.9                         # job.yaml:4\n",
        "optimizer.lr: 0.01                              # default\n",
        "data.evalPath:                                  # default: data.path\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
  EXPECT_EQ(text.find("optimizer.beta1"), std::string::npos) << "means nothing for sgd";
}

TEST(ConfigText, identity_and_trajectory_are_disjoint_and_leave_free_keys_out) {
  const TrainerConfig config = read_config("model: mlp\ndata: {format: mnist}", "", {}).config;
  EXPECT_EQ(identity(config), (std::map<std::string, std::string>{{"model", "mlp"},
                                                                  {"data.format", "mnist"},
                                                                  {"data.channels", "auto"},
                                                                  {"data.shape", "[]"},
                                                                  {"data.classes", "auto"},
                                                                  {"freeze", "[]"},
                                                                  {"optimizer.name", "sgd"}}));
  const auto path = trajectory(config);
  for (const char* key : {"optimizer.lr", "batchSize", "data.augment", "seed", "precision",
                          "reproducible", "lrSchedule.name", "optimizer.momentum"}) {
    EXPECT_TRUE(path.contains(key)) << key;
  }
  for (const char* key : {"epochs", "threads", "report.logEverySteps", "checkpoint.keep", "model",
                          "communication.bucketBytes", "data.path"}) {
    EXPECT_FALSE(path.contains(key)) << key;
  }
}

TEST(ConfigReference, is_the_page_in_docs) {
  if (test::flags().rewrite)
    std::ofstream(std::string(kReferencePage)) << configuration_reference();
  std::ifstream in{std::string(kReferencePage)};
  std::stringstream page;
  page << in.rdbuf();
  EXPECT_EQ(page.str(), configuration_reference()) << "run with --rewrite";
}

}  // namespace coxswain::contract
